//! What people and scripts read of drills.

use super::*;
use crate::model::ids::ActionId;

fn row(contract: &str, state: RowState) -> DrilledRow {
    DrilledRow {
        contract: contract.to_owned(),
        sample: Some("a sample".to_owned()),
        state,
        took: Duration::from_millis(12),
    }
}

fn end(verdict: DrillVerdict, why: Option<&str>) -> DrillEnd {
    let is_proven = verdict == DrillVerdict::Proven;
    DrillEnd {
        verdict,
        action: (verdict != DrillVerdict::NotDrilled).then(ActionId::generate),
        undone: (verdict != DrillVerdict::NotDrilled).then(|| {
            let state = if verdict == DrillVerdict::Unknown {
                "unknown"
            } else {
                "done"
            };
            state.to_owned()
        }),
        undone_by: None,
        before: Some("aa".to_owned()),
        after: Some(if is_proven { "aa" } else { "bb" }.to_owned()),
        is_left: matches!(verdict, DrillVerdict::Failed | DrillVerdict::Unknown),
        is_interrupted: false,
        why: why.map(str::to_owned),
    }
}

fn report(rows: Vec<DrilledRow>, requires_all: bool) -> DrillReport {
    let contracts = rows.len();
    DrillReport {
        rows,
        requires_all,
        contracts,
    }
}

/// 003-106: the share counts what was proven against everything that changes something, and a contract with
/// one drill that failed is not proven.
#[test]
fn the_share_is_of_all_that_write() {
    let of = |verdict| RowState::Drilled(end(verdict, None));
    let rows = vec![
        row("bank__draft", of(DrillVerdict::Proven)),
        row("bank__pay", of(DrillVerdict::Proven)),
        row("bank__pay", of(DrillVerdict::Failed)),
        row("bank__post", RowState::NoWayBack("by hand")),
    ];
    let report = DrillReport {
        contracts: 3,
        ..report(rows, false)
    };
    let words = report.words(Terminal::stdout(), None);
    assert!(
        words.contains(
            "can be undone, as a drill shows: 1 of 3 contracts that write (33 %), 1 failed\n"
        ),
        "{words}"
    );
    let told = report.json(None);
    assert_eq!(
        (&told["proven"], &told["contracts"]),
        (&json!(1), &json!(3))
    );
    let states: Vec<&Value> = told["drills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["state"])
        .collect();
    assert_eq!(states, ["proven", "proven", "failed", "no_rollback"]);
    let none = DrillReport {
        contracts: 0,
        ..self::report(Vec::new(), true)
    };
    assert_eq!(none.exit_code(), 0);
    assert!(
        none.words(Terminal::stdout(), None)
            .contains("0 of 0 contracts that write\n")
    );
}

/// What is not known is another thing than what failed, and only `--require-all` asks for the rest.
#[test]
fn the_exit_code_says_what_is_wrong() {
    use DrillVerdict::{Failed, NotDrilled, Proven, Unknown};
    let code = |states: Vec<RowState>, requires_all: bool| {
        let rows = states.into_iter().map(|state| row("bank__pay", state));
        report(rows.collect(), requires_all).exit_code()
    };
    let of = |verdict| RowState::Drilled(end(verdict, None));
    assert_eq!(code(vec![of(Proven)], true), 0);
    assert_eq!(code(vec![of(Failed)], false), 1);
    assert_eq!(code(vec![of(Failed), of(Unknown)], false), 3);
    let interrupted = RowState::Drilled(DrillEnd::interrupted());
    assert_eq!(code(vec![of(Proven), interrupted], false), 1);
    assert_eq!(code(vec![of(Proven), of(NotDrilled)], false), 0);
    for (lacking, when_required) in [
        (of(NotDrilled), 1),
        (RowState::NoWayBack("by hand"), 1),
        (RowState::NeedsNone("irreversible"), 0),
    ] {
        let states = || vec![of(Proven)];
        assert_eq!(code(states(), false), 0);
        let mut all = states();
        all.push(lacking);
        assert_eq!(code(all, true), when_required);
    }
    assert_eq!(code(vec![RowState::NoWayBack("by hand")], false), 0);
}

/// Each row fits the terminal, says why it is not proven, and where to look.
#[test]
fn a_table_fits_and_says_what_is_next() {
    let long = format!("billing__{}", "a_tool_with_a_long_name_".repeat(4));
    let shown = Terminal::at_widths("2026-11-28T12:00:00Z", || {
        let rows = vec![
            row(&long, RowState::Drilled(end(DrillVerdict::Proven, None))),
            row(
                "bank__pay",
                RowState::Drilled(end(DrillVerdict::Unknown, Some("it broke off"))),
            ),
            row(
                "bank__draft",
                RowState::Drilled(end(DrillVerdict::Failed, Some("and yet differs: /balance"))),
            ),
            row(
                "bank__bin",
                RowState::Drilled(end(DrillVerdict::NotDrilled, Some("no sample"))),
            ),
            row("bank__post", RowState::NoWayBack("by hand")),
            row("bank__mail", RowState::NeedsNone("irreversible")),
        ];
        report(rows, false).words(Terminal::stdout(), Some(Path::new("/x/drill")))
    });
    for said in [
        "TOOL",
        "BASELINE",
        "bank__pay: it broke off",
        "bank__draft: and yet differs: /balance",
        "bank__bin: no sample",
        "bank__post: it cannot be undone by a call (by hand)",
        "1 failed, 1 unknown, 1 not drilled",
        "`toolgate ledger list --data /x/drill/data`",
        "then remove /x/drill",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    assert!(!shown.contains("bank__mail:"), "{shown}");
}
