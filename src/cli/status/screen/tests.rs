//! The screen as a terminal of 80 and of 160 columns shows it.

use super::*;
use crate::admin::status::WorkStatus;
use crate::cli::running::UnseenDoor;
use crate::model::disabled::{Disabled, FrozenScope};
use crate::model::long_work::WorkUnit;
use crate::store::journal::{DataHolder, LockNote};
use serde_json::json;

fn page(columns: usize) -> Page {
    let now = "2026-11-28T10:00:00Z";
    Page::on(Terminal::of(Some(columns), now), now.parse().unwrap())
}

/// A toolgate that needs its operators, with everything there can be to see.
fn troubled() -> StatusReport {
    let problem = |number: u64| {
        json!({
            "time": format!("2026-11-28T09:{number:02}:00.000Z"), "level": "WARN", "target": "toolgate::upstream",
            "message": format!("tool server is lost server=fs why=the conversation ended number={number}"), "times": number,
        })
    };
    let report = json!({
        "ready": true,
        "reasons": ["the policy files have errors: an older policy than theirs is in force", "the disk of the data directory is nearly full"],
        "policy": { "version": "3f9a1c0b77aa55ee", "stale": true, "problems": ["policy.yaml:3:5: …"] },
        "servers": [
            { "name": "bank", "state": "up", "era": "modern", "tools": 12, "withheld": ["`bank__x`: …"], "last_fault": null },
            { "name": "fs", "state": "down", "era": null, "tools": 0, "withheld": [],
                "last_fault": "the conversation ended: npx: could not determine executable to run\u{1b}[31m, see the log of the tool server" },
            { "name": "git", "state": "up", "era": "legacy", "tools": 1, "withheld": [], "last_fault": null },
        ],
        "ledger": { "writable": true, "entries": 12345, "dropped": 1, "last_fault": null },
        "version": "0.9.0", "pid": 4711, "started": "2026-11-26T08:58:30Z", "listen": "127.0.0.1:7777", "mode": "enforce",
        "policy_since": "2026-11-28T09:12:00Z", "children": { "git": 2 }, "sessions": 4, "ledger_bytes": 125_829_120,
        "ledger_max_bytes": 1_073_741_824, "disk": { "free_bytes": 912_680_550, "total_bytes": 53_687_091_200_u64, "low": true },
        "problems": (1..=10).map(problem).collect::<Vec<_>>(),
        "held": 2, "unknown": 1,
        "disabled": { "bank__pay": { "who": "ann", "why": "it pays too much, and nobody knows why it does so on Sundays", "since": "2026-11-28T08:00:00Z" } },
        "withheld": [
            { "server": "bank", "reason": "unpinned", "why": "`bank__x`: nobody has approved its definition" },
            { "server": "bank", "profile": "openai", "reason": "profile_root", "why": "`bank__list`: its schema has no object at its root" },
        ],
    });
    serde_json::from_value(report).unwrap()
}

fn calm() -> StatusReport {
    let mut report = troubled();
    report.readiness.reasons.clear();
    report.readiness.policy.stale = false;
    report
        .readiness
        .servers
        .retain(|server| server.state == "up");
    report.readiness.ledger.dropped = 0;
    report.process.problems.clear();
    report.process.disk = None;
    (report.held, report.unknown) = (Some(0), Some(0));
    (report.disabled, report.withheld) = (Disabled::new(), Vec::new());
    report
}

/// 80 columns hold everything; at 160 there is more on a line.
#[test]
fn status_screen() {
    for columns in [80, 160] {
        let screen = whole(&troubled(), page(columns));
        assert!(
            screen.lines().all(|line| line.chars().count() <= columns),
            "{screen}"
        );
        insta::assert_snapshot!(format!("status_screen_{columns}"), screen);
    }
    insta::assert_snapshot!("status_screen_calm", whole(&calm(), page(80)));
}

/// Issue 17: an operator sees what takes long, and how far it is.
#[test]
fn work_that_takes_long_is_shown() {
    let mut report = calm();
    assert!(!whole(&report, page(80)).contains("working"));
    let work = |what: &str, unit: WorkUnit| WorkStatus {
        what: what.to_owned(),
        unit: unit.word().to_owned(),
        done: 3 << 20,
        all: 12 << 20,
        seconds: 75,
    };
    report.process.work = vec![
        work("dropping old segments of the ledger", WorkUnit::Bytes),
        work("making the index anew", WorkUnit::Records),
    ];
    let screen = whole(&report, page(160));
    let told = "working   dropping old segments of the ledger: 3.0 MiB of 12.0 MiB, for 1 min\n          \
                making the index anew: 3145728 of 12582912 records, for 1 min\n";
    assert!(screen.contains(told), "{screen}");
}

#[test]
fn screens_of_those_that_tell_less() {
    let address = "127.0.0.1:7778".parse().unwrap();
    let seen = AtRest {
        data: "toolgate-data".into(),
        ledger_bytes: Some(4096),
        unread: None,
        disabled: troubled().disabled,
        frozen: Vec::new(),
        disk: Some(DiskStatus {
            free_bytes: 10 << 30,
            total_bytes: 20 << 30,
            low: false,
        }),
    };
    let held = || {
        DataHolder::Process(LockNote {
            pid: Some(4711),
            instance: None,
        })
    };
    let shown = |holder, door| unseen(&UnseenView { holder, door }, &seen, page(80));
    let why = "this needs an operator's token; send one of `admin.tokens`".to_owned();
    let dim = |readiness| DimView {
        address,
        ready: true,
        readiness,
        is_stale: true,
        why: why.clone(),
    };
    let screens = [
        less(&dim(None), page(80)),
        less(&dim(Some(troubled().readiness)), page(80)),
        shown(held(), UnseenDoor::Closed(address)),
        shown(DataHolder::Free, UnseenDoor::Closed(address)),
        shown(held(), UnseenDoor::Another(address)),
        shown(DataHolder::Free, UnseenDoor::Another(address)),
        shown(held(), UnseenDoor::Nowhere),
        shown(DataHolder::Free, UnseenDoor::Nowhere),
        shown(DataHolder::Hidden, UnseenDoor::Nowhere),
        shown(DataHolder::Hidden, UnseenDoor::Closed(address)),
    ];
    insta::assert_snapshot!(screens.join("\n"));
}

/// An open incident needs its operators, and is to be seen whether toolgate runs or not.
#[test]
fn an_open_incident_is_shown() {
    let frozen: Vec<FrozenScope> = serde_json::from_value(json!([
        { "incident": 7, "pattern": "bank__*", "reason":
          { "who": "ann", "why": "incident 7: it pays\u{1b}[31m twice", "since": "2026-11-28T08:00:00Z" } },
    ]))
    .unwrap();
    let mut report = calm();
    assert!(attention(&report).is_empty());
    report.frozen.clone_from(&frozen);
    assert_eq!(
        attention(&report),
        ["1 incident open: `toolgate incident list`"]
    );
    let seen = AtRest {
        data: "toolgate-data".into(),
        ledger_bytes: None,
        unread: Some("it is no directory".to_owned()),
        disabled: Disabled::new(),
        frozen,
        disk: None,
    };
    let rest = UnseenView {
        holder: DataHolder::Free,
        door: UnseenDoor::Nowhere,
    };
    let rested = unseen(&rest, &seen, page(160));
    let unread = "ledger    not seen: it is no directory";
    assert!(rested.contains(unread), "{rested}");
    for screen in [whole(&report, page(160)), rested] {
        let line = "frozen    bank__* by ann, 2 h 0 min ago: incident 7: it pays";
        assert!(screen.contains(line), "{screen}");
        assert!(!screen.contains('\u{1b}'), "{screen}");
    }
}

/// A pipe gets each thing on one line.
#[test]
fn a_pipe_gets_whole_lines() {
    let now = "2026-11-28T10:00:00Z";
    let pipe = Page::on(Terminal::of(None, now), now.parse().unwrap());
    let screen = whole(&troubled(), pipe);
    let heads = screen.lines().filter(|line| line.starts_with("disabled"));
    let ends = |line: &str| line.ends_with("nobody knows why it does so on Sundays");
    assert_eq!(heads.filter(|line| ends(line)).count(), 1, "{screen}");
}

/// What needs nobody is no reason for another exit code.
#[test]
fn what_needs_operators() {
    assert_eq!(attention(&calm()), Vec::<String>::new());
    assert_eq!(attention(&troubled()).len(), 5);
    let mut held = calm();
    (held.held, held.disabled) = (Some(3), troubled().disabled);
    assert_eq!(attention(&held), Vec::<String>::new());
}
