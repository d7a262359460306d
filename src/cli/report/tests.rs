//! Scenarios of `toolgate report`: ledgers in which one thing is worse, or nothing is, and what the
//! screens say.

use super::{Args, run_into};
use crate::cli::terminal::Terminal;
use crate::model::entry::Entry;
use crate::store::journal::{Journal, JournalOptions};
use clap::Parser as _;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

#[derive(Debug, clap::Parser)]
struct ReportCli {
    #[command(flatten)]
    args: Args,
}

/// What is printed, and the exit code; an error is printed, too.
fn report(data: &Path, words: &[&str]) -> (String, u8) {
    let words = [&["report", "--data", data.to_str().unwrap()], words].concat();
    let mut out = String::new();
    match run_into(&ReportCli::try_parse_from(words).unwrap().args, &mut out) {
        Ok(code) => (out, code),
        Err(error) => (format!("{out}{error}\n"), 1),
    }
}

/// So many calls under one version of the policy, each with these changes.
type FixtureCalls = (u64, &'static str, Value);

/// The versions of the fixtures; the first two begin alike.
const OLD_VERSION: &str = "3f9a1c000000";
const NEW_VERSION: &str = "3f9b00000000";
const THIRD_VERSION: &str = "77aa00000000";

fn entry(n: u64, version: &str, change: &Value) -> Entry {
    let mut value = json!({
        "time": format!("2026-07-28T{:02}:{:02}:{:02}.5Z", n / 3600, n / 60 % 60, n % 60),
        "action_id": format!("0198f1a2-{n:04x}-7000-8000-00000000000a"), "request_id": n.to_string(),
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "user_id": "billing", "roles": [], "revision": "2026-07-28",
        "tool": "mail__send", "params_hash": "a".repeat(64), "actions": ["write"], "state": "execute", "event": "exit",
        "outcome": "answered", "stage": "dispatch", "latency_ms": 24.0, "gate_ms": 4.0, "upstream_ms": 20.0,
        "attempts": 1, "cost": 2.0, "policy": version,
    });
    for (name, changed) in change.as_object().into_iter().flatten() {
        value[name] = changed.clone();
    }
    serde_json::from_value(value).unwrap()
}

async fn ledger(calls: &[FixtureCalls]) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), JournalOptions::default()).unwrap();
    let all = calls
        .iter()
        .flat_map(|(count, version, change)| (0..*count).map(move |_| (version, change)));
    for (n, (version, change)) in (0..).zip(all) {
        journal.record(entry(n, version, change)).unwrap();
    }
    journal.close().await.unwrap();
    temp
}

fn refused(code: &str) -> Value {
    json!({ "outcome": "refused", "event": "fail", "aborted_reason": code, "stage": "rules", "attempts": 0, "upstream_ms": 0.0, "cost": null })
}

fn unknown() -> Value {
    json!({ "outcome": "unknown", "event": "fail", "aborted_reason": "outcome_unknown" })
}

/// What is done to how many of a hundred calls, and the rows that are worse for it.
type ChangedShare = (&'static str, u64, Value, &'static [&'static str]);

/// Calls that are refused, or would be.
fn refusals() -> [ChangedShare; 7] {
    let observed = json!({ "would_refuse": "rbac_denied" });
    [
        ("a rule's code", 10, refused("too_much"), &["violations"]),
        ("a role", 10, refused("rbac_denied"), &["violations"]),
        ("only observed", 10, observed, &["violations"]),
        ("budgets", 10, refused("budget_exceeded"), &["overruns"]),
        ("calls", 10, refused("budget_calls_exceeded"), &["overruns"]),
        ("keys", 10, refused("idempotency_conflict"), &[]),
        ("perhaps by chance", 2, refused("too_much"), &[]),
    ]
}

/// Calls that go otherwise, cost otherwise or take longer.
fn others() -> [ChangedShare; 10] {
    let slow = json!({ "upstream_ms": 40.0 });
    let late = json!({ "gate_ms": 9.0 });
    let quick = json!({ "cost": 1.0, "gate_ms": 1.0, "upstream_ms": 5.0 });
    let upstream = &["upstream p50 ms", "upstream p95 ms"];
    [
        ("the same", 100, json!({}), &[]),
        ("no answer", 10, unknown(), &["success"]),
        ("errors", 10, json!({ "is_error": true }), &["success"]),
        ("dearer", 100, json!({ "cost": 2.2 }), &["cost per call"]),
        ("within the threshold", 100, json!({ "cost": 2.08 }), &[]),
        ("cheaper and quicker", 100, quick, &[]),
        ("slower", 100, slow.clone(), upstream),
        ("often slower", 20, slow, &["upstream p95 ms"]),
        ("judged slower", 100, late, &["gate p50 ms", "gate p95 ms"]),
        (
            "by less than a millisecond",
            100,
            json!({ "gate_ms": 4.9 }),
            &[],
        ),
    ]
}

/// 003-117: for each thing that is worse, the row says so, the exit code is 1, and it is said to
/// roll back; what is better, the same, within the threshold or perhaps chance is not worse.
#[tokio::test]
async fn what_is_worse_is_rolled_back() {
    for (what, share, change, expected) in refusals().into_iter().chain(others()) {
        let rest = (100 - share, NEW_VERSION, json!({}));
        compares(what, &[rest, (share, NEW_VERSION, change)], expected).await;
    }
    let new = [
        (60, NEW_VERSION, json!({ "upstream_ms": 40.0 })),
        (40, NEW_VERSION, refused("too_much")),
    ];
    let expected = ["violations", "upstream p50 ms", "upstream p95 ms"];
    compares("in many ways", &new, &expected).await;
}

/// Compares `new` calls with a hundred under the old version.
async fn compares(what: &str, new: &[FixtureCalls], expected: &[&str]) {
    let data = ledger(&[&[(100, OLD_VERSION, json!({}))], new].concat()).await;
    let (said, code) = report(data.path(), &["--compare"]);
    assert_eq!(code, u8::from(!expected.is_empty()), "{what}: {said}");
    let lines = said.lines().filter(|line| line.ends_with("WORSE"));
    let worse: Vec<&str> = lines.map(|line| line.split_once("  ").unwrap().0).collect();
    assert_eq!(worse, expected, "{what}: {said}");
    let roll_back = format!("{}. Roll back to {OLD_VERSION}\n", expected.join(", "));
    assert_eq!(said.contains(&roll_back), code == 1, "{what}: {said}");
    assert_eq!(
        said.contains("\nok: nothing is worse"),
        code == 0,
        "{what}: {said}"
    );
    let (json, same) = report(data.path(), &["--compare", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["roll_back"], same),
        (&json!(code == 1), code),
        "{what}: {json}"
    );
    assert_eq!(
        json["worse"].as_array().unwrap().len(),
        expected.len(),
        "{what}: {json}"
    );
    let (said, _) = report(data.path(), &["--compare", NEW_VERSION, OLD_VERSION]);
    let is_worse = |row: &&str| {
        said.lines()
            .any(|line| line.starts_with(*row) && line.ends_with("WORSE"))
    };
    assert!(
        !expected.iter().any(is_worse),
        "{what}, the other way round: {said}"
    );
}

/// 003-117: the threshold is the operator's, and which versions are compared, too.
#[tokio::test]
async fn versions_and_the_threshold_are_chosen() {
    let dear = |cost: f64| json!({ "cost": cost });
    let data = ledger(&[
        (40, OLD_VERSION, dear(2.0)),
        (40, NEW_VERSION, dear(2.5)),
        (40, THIRD_VERSION, dear(2.5)),
        (3, OLD_VERSION, dear(2.0)),
    ])
    .await;
    for (words, expected) in [
        (&["--compare"][..], 0),
        (&["--compare", "3f9a"], 1),
        (&["--compare", "3f9a", "3f9b"], 1),
        (&["--compare", OLD_VERSION, "77", "--threshold", "30"], 0),
        (&["--compare", OLD_VERSION, "77", "--threshold", "20"], 1),
        (&["--compare", "77", OLD_VERSION, "--threshold", "0"], 0),
    ] {
        let (said, code) = report(data.path(), words);
        assert_eq!(code, expected, "{words:?}: {said}");
    }
    let json: Value = serde_json::from_str(
        &report(
            data.path(),
            &["--compare", OLD_VERSION, NEW_VERSION, "--json"],
        )
        .0,
    )
    .unwrap();
    assert_eq!(
        (&json["old"]["calls"], &json["new"]["calls"]),
        (&json!(43), &json!(40)),
        "a version may come again: {json}"
    );
    for (words, expected) in [
        (
            &["--compare", "3f9", "77"][..],
            "several policies begin with 3f9, give more of the one\n",
        ),
        (
            &["--compare", "0"],
            "no such call was judged under a policy that begins with 0; see `toolgate report`\n",
        ),
        (
            &["--compare", "--until", "2020-01-01T00:00:00Z"],
            "the ledger has no such calls\n",
        ),
        (
            &["--compare", "--until", "2026-07-28T00:00:40Z"],
            "all such calls were judged under one policy, 3f9a1c000000\n",
        ),
    ] {
        assert_eq!(
            report(data.path(), words),
            (expected.to_owned(), 1),
            "{words:?}"
        );
    }
}

/// D24: both screens at 80 columns and at 160.
#[tokio::test]
async fn reports_have_room_on_a_terminal() {
    let data = ledger(&[
        (40, OLD_VERSION, json!({})),
        (20, NEW_VERSION, refused("too_much")),
        (20, NEW_VERSION, json!({})),
    ])
    .await;
    let shown = Terminal::at_widths("2026-07-28T01:00:00Z", || {
        report(data.path(), &[]).0 + "\n" + &report(data.path(), &["--compare"]).0
    });
    insta::assert_snapshot!("widths", shown);
}

/// 003-117: what compares nothing is a mistake of the command line.
#[test]
fn comparisons_need_their_words() {
    for words in [
        &["--threshold", "5"][..],
        &["--compare", "a", "b", "c"],
        &["--compare", "--threshold", "-1"],
    ] {
        let error = ReportCli::try_parse_from([&["report"], words].concat()).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{words:?}");
    }
}

/// 003-117: of too few calls nothing is said, and that is said.
#[tokio::test]
async fn few_calls_say_nothing() {
    for (old, new) in [(19, 500), (500, 19)] {
        let data = ledger(&[
            (old, OLD_VERSION, json!({})),
            (new, NEW_VERSION, refused("too_much")),
        ])
        .await;
        let (said, code) = report(data.path(), &["--compare"]);
        let words = format!(
            "too few calls to say: {old} calls under {OLD_VERSION}, {new} calls under {NEW_VERSION}; each needs 20\n"
        );
        assert!(
            code == 0 && said.ends_with(&words) && !said.contains("WORSE"),
            "{said}"
        );
        let json: Value =
            serde_json::from_str(&report(data.path(), &["--compare", "--json"]).0).unwrap();
        assert_eq!(
            (&json["too_few_calls"], &json["roll_back"]),
            (&json!(true), &json!(false)),
            "{json}"
        );
    }
    // Enough calls, and too few of them were sent to say how they went.
    let data = ledger(&[
        (50, OLD_VERSION, json!({})),
        (50, OLD_VERSION, refused("too_much")),
        (5, NEW_VERSION, unknown()),
        (95, NEW_VERSION, refused("too_much")),
    ])
    .await;
    let (said, code) = report(data.path(), &["--compare"]);
    assert!(
        code == 1 && said.contains("5 %: violations. Roll back"),
        "{said}"
    );
}

/// 003-117, threat-model §3G G1: the screens, whole; names of versions and tools do nothing to a
/// terminal.
#[tokio::test]
async fn the_screens_of_reports() {
    let other = json!({ "tool": "mail__dr\u{1b}\u{202e}aft", "upstream_ms": 31.25, "gate_ms": 0.31, "cost": null, "user_id": "support" });
    let data = ledger(&[
        (90, OLD_VERSION, json!({})),
        (10, OLD_VERSION, refused("budget_exceeded")),
        (60, NEW_VERSION, json!({ "cost": 1.75 })),
        (20, NEW_VERSION, other),
        (15, NEW_VERSION, refused("too_much")),
        (5, NEW_VERSION, unknown()),
        (
            3,
            "\u{1b}[2J",
            json!({ "outcome": "dispatching", "attempts": 0 }),
        ),
        (1, THIRD_VERSION, refused("tool_not_allowlisted")),
    ])
    .await;
    let mut screens = String::new();
    for words in [
        &[][..],
        &["--tool", "mail__send", "--json"],
        &["--compare", OLD_VERSION, NEW_VERSION],
        &["--compare", OLD_VERSION, NEW_VERSION, "--agent", "billing"],
        &["--compare", OLD_VERSION, NEW_VERSION, "--json"],
        &["--compare"],
    ] {
        let (said, code) = report(data.path(), words);
        writeln!(
            screens,
            "$ toolgate report {}  → {code}\n{said}",
            words.join(" ")
        )
        .unwrap();
    }
    insta::assert_snapshot!(screens);
}

/// 003-117: a ledger in which versions change without end needs no more memory for that: the latest
/// are told apart.
#[tokio::test]
async fn versions_are_bounded() {
    let data = tempfile::tempdir().unwrap();
    let journal = Journal::open(data.path(), JournalOptions::default()).unwrap();
    for n in 0..300 {
        // The first is in force time and again.
        journal
            .record(entry(n, &format!("{n:012x}"), &json!({})))
            .unwrap();
        journal
            .record(entry(n, "ffffffffffff", &json!({})))
            .unwrap();
    }
    journal.close().await.unwrap();
    let json: Value = serde_json::from_str(&report(data.path(), &["--json"]).0).unwrap();
    let versions = json["versions"].as_array().unwrap();
    assert_eq!((versions.len(), &json["left_out"]), (256, &json!(45)));
    assert_eq!(
        (&versions[0]["policy"], &versions[0]["calls"]),
        (&json!("ffffffffffff"), &json!(300))
    );
    let (said, _) = report(data.path(), &[]);
    assert!(
        said.ends_with("45 older versions left out: only the latest are told apart\n"),
        "{said}"
    );
}
