//! `toolgate ledger` as an operator sees it.

use super::call_filter::since;
use super::*;
use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
use crate::model::clock::Clock;
use crate::model::entry::Entry;
use crate::store::journal::{Journal, JournalOptions};
use clap::Parser;
use serde_json::{Value, json};
use std::fmt::Write as _;

mod several;
mod stories;
mod tailing;

#[derive(Debug, Parser)]
struct LedgerCli {
    #[command(flatten)]
    args: Args,
}

/// What `toolgate ledger` with `words` does: exit code, standard output, standard error.
fn ledger(data: &Path, words: &[&str]) -> (u8, String, String) {
    ledger_on(Terminal::of(None, "2026-07-28T09:10:00Z"), data, words)
}

/// The same, read on `terminal`.
fn ledger_on(terminal: Terminal, data: &Path, words: &[&str]) -> (u8, String, String) {
    let line = LedgerCli::try_parse_from([&["ledger"], words].concat()).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let found = DataPlace::default();
    let place = LedgerLocation {
        data,
        archive: line.args.archive.as_deref(),
        named: &line.args.place,
        place: &found,
        terminal,
    };
    let code = match run_on(&line.args, &place, &mut out, &mut err) {
        Ok(code) => code,
        Err(error) => {
            err.extend_from_slice(format!("{error}\n").as_bytes());
            1
        }
    };
    (
        code,
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
    )
}

pub(super) fn entry(n: u64, change: &Value) -> Entry {
    let mut value = json!({
        "time": format!("2026-07-28T09:{n:02}:00Z"), "action_id": format!("0198f1a2-{n:04x}-7000-8000-00000000000a"),
        "request_id": n.to_string(), "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "user_id": "billing", "roles": [],
        "revision": "2026-07-28", "tool": "mail__send", "params_hash": "a".repeat(64), "actions": [], "state": "execute",
        "event": "exit", "outcome": "answered", "stage": "dispatch", "latency_ms": 12.5, "gate_ms": 0.4,
        "upstream_ms": 12.1, "policy": "3f9a1c",
    });
    for (name, changed) in change.as_object().into_iter().flatten() {
        value[name] = changed.clone();
    }
    Text::read(bytes::Bytes::from(value.to_string()), &AGENT_JSON_LIMITS)
        .unwrap()
        .parse()
        .unwrap()
}

async fn journal(entries: Vec<Entry>) -> (tempfile::TempDir, Head) {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), JournalOptions::default()).unwrap();
    for entry in entries {
        journal.record(entry).unwrap();
    }
    let head = journal.close().await.unwrap();
    (temp, head)
}

async fn three() -> tempfile::TempDir {
    let refused =
        json!({"user_id": "support", "outcome": "refused", "aborted_reason": "forbidden_by_rule"});
    let observed = json!({"tool": "crm__read", "would_refuse": "budget_exceeded", "task": "refund 7",
        "user_id": "ada", "agent_id": "billing", "resources": ["t_1/7"], "session": "s-1", "trace_id": "00f067aa0ba902b74bf92f3577b34da6"});
    journal(vec![
        entry(1, &json!({})),
        entry(2, &refused),
        entry(3, &observed),
    ])
    .await
    .0
}

/// The numbers of the records that `list` with `words` gives.
fn listed(data: &Path, words: &[&str]) -> Vec<u64> {
    let (code, out, err) = ledger(data, &[&["list", "--json"], words].concat());
    let is_unmet = out.is_empty() && err.starts_with("toolgate: no recorded call is ");
    assert!(code == 0 && (err.is_empty() || is_unmet), "{err}");
    out.lines()
        .map(|line| line.parse::<Value>().unwrap()["seq"].as_u64().unwrap())
        .collect()
}

/// 003-P1d, 003-65 … 003-72, 003-83: found by agent, tool, code, outcome, time,
/// task, session and trace.
#[tokio::test]
async fn list_gives_the_calls_that_fit() {
    let data = three().await;
    let data = data.path();
    assert_eq!(listed(data, &[]), [1, 2, 3]);
    assert_eq!(listed(data, &["--agent", "support"]), [2]);
    assert_eq!(listed(data, &["--tool", "mail__send"]), [1, 2]);
    assert_eq!(listed(data, &["--code", "forbidden_by_rule"]), [2]);
    assert_eq!(listed(data, &["--code", "budget_exceeded"]), [3]);
    assert_eq!(listed(data, &["--outcome", "answered"]), [1, 3]);
    assert_eq!(listed(data, &["--since", "2026-07-28T09:02:00Z"]), [2, 3]);
    assert_eq!(listed(data, &["--task", "refund 7"]), [3]);
    assert_eq!(listed(data, &["--session", "s-1"]), [3]);
    assert_eq!(listed(data, &["--trace", "4BF92F"]), [1, 2]);
    assert_eq!(
        listed(data, &["--trace", "00f067aa0ba902b74bf92f3577b34da6"]),
        [3]
    );
    assert_eq!(listed(data, &["--task", "refund"]), [] as [u64; 0]);
    assert_eq!(listed(data, &["--session", "S-1"]), [] as [u64; 0]);
    assert_eq!(listed(data, &["--limit", "1"]), [3]);
    assert_eq!(listed(data, &["--agent", "nobody"]), [] as [u64; 0]);
    let (_, out, err) = ledger(data, &["list", "--limit", "2"]);
    assert_eq!(out.lines().count(), 3, "{out}");
    assert!(
        out.contains("forbidden_by_rule") && out.contains("(budget_exceeded)"),
        "{out}"
    );
    let note = "a code in brackets is what enforce mode would have refused the call with\n";
    assert_eq!(err, format!("{note}2 of 3 calls; --limit 0 lists all\n"));
}

/// D23: a code that cannot be is no empty table, and a name that no call has is said.
#[tokio::test]
async fn a_name_that_no_call_has_is_said() {
    let data = three().await;
    let near = "no recorded call was refused with the code `budget_exceded`; did you mean `budget_exceeded`?\n";
    for verb in ["list", "export"] {
        let (code, _, err) = ledger(data.path(), &[verb, "--code", "budget_exceded"]);
        assert_eq!((code, err), (2, format!("toolgate: {near}")), "{verb}");
    }
    // One that can be, and was not yet.
    let (code, _, err) = ledger(data.path(), &["list", "--code", "rate_exceeded"]);
    assert!(code == 0 && err.contains("`rate_exceeded`"), "{code} {err}");
    let (code, _, err) = ledger(data.path(), &["list", "--tool", "mail__sned"]);
    assert!(
        code == 0 && err.contains("did you mean `mail__send`?"),
        "{code} {err}"
    );
}

/// D24: at 80 columns and at 160, with colours, and whole for what reads a pipe.
#[tokio::test]
async fn a_table_has_room_on_a_terminal() {
    let id = |n: u64| format!("0198f1a2-{n:04x}-7000-8000-00{n:02x}c0ffee{n:02x}");
    let late = json!({"action_id": id(77), "tool": "warehouse__reserve_items_for_shipment", "outcome": "unknown", "user_id": "billing-agent", "latency_ms": 20_000.4});
    let refused = json!({"action_id": id(5), "user_id": "ada", "agent_id": "support", "outcome": "refused", "aborted_reason": "idempotency_key_required"});
    let (temp, _) = journal(vec![
        entry(
            1,
            &json!({"action_id": id(161), "time": "2026-07-28T09:01:00.1846972Z"}),
        ),
        entry(2, &late),
        entry(3, &refused),
        entry(
            4,
            &json!({"action_id": id(9), "would_refuse": "budget_exceeded", "count": 12}),
        ),
    ])
    .await;
    let mut text = String::new();
    for columns in [Some(80), Some(160), None] {
        let terminal = Terminal::of(columns, "2026-07-28T09:10:00Z");
        let name = columns.map_or("a pipe".to_owned(), |columns| columns.to_string());
        let (_, out, _) = ledger_on(terminal, temp.path(), &["list"]);
        writeln!(text, "{name}:\n{out}").unwrap();
    }
    let colored = Terminal::of(Some(80), "2026-07-28T09:10:00Z").colored();
    let listed = ledger_on(colored, temp.path(), &["list"]).1;
    write!(text, "colours:\n{listed}").unwrap();
    insta::assert_snapshot!("widths", text);
    // The short id is taken by every verb that takes one.
    let (code, out, _) = ledger(temp.path(), &["show", "C0FFEE05"]);
    assert!(
        code == 0 && out.contains("idempotency_key_required"),
        "{out}"
    );
    let listed = ledger(temp.path(), &["list", "--json", "--action", "c0ffee4d"]).1;
    assert_eq!(listed.lines().count(), 1, "{listed}");
}

// Agents choose names of tools; a line has others beside them, `show` and programs have all of it.
// One call is no sum.
#[tokio::test]
async fn a_line_is_as_long_as_a_line() {
    let long = "x".repeat(5_000);
    let entries = [(&*long, 1), ("short", 3)]
        .map(|(tool, count)| entry(count, &json!({"tool": tool, "count": count})));
    let (temp, _) = journal(entries.into()).await;
    let data = temp.path();
    let (_, out, _) = ledger(data, &["list"]);
    assert!(out.lines().all(|line| line.chars().count() < 300), "{out}");
    assert!(
        out.contains(&format!("{}…  answered  ", "x".repeat(79))) && !out.contains("×1"),
        "{out}"
    );
    assert!(out.contains("answered ×3"), "{out}");
    for words in [&["list", "--json"][..], &["show", "0198f1a2-0001"]] {
        assert!(ledger(data, words).1.contains(&long), "{words:?}");
    }
}

#[test]
fn wrong_usage_is_refused_by_the_command_line() {
    for words in [
        vec!["list", "--outcome", "maybe"],
        vec!["list", "--since", "yesterday"],
        vec!["list", "--limit", "100001"],
        vec!["verify", "--expect-head", "12"],
        vec!["show"],
        vec![],
    ] {
        let error =
            LedgerCli::try_parse_from([vec!["ledger"], words.clone()].concat()).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{words:?}");
    }
    for ago in ["90s", "15m", "2h", "7d", "2026-07-28T09:00:00+02:00"] {
        assert!(since(ago).is_ok(), "{ago}");
    }
    assert!(since("15m").unwrap() < Clock.wall());
    for wrong in ["", "m", "-5m", "5 m", "5é", "999999999999d"] {
        assert!(since(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn show_takes_the_beginning_of_an_id() {
    let data = three().await;
    let (code, out, err) = ledger(data.path(), &["show", "0198F1A2-0002"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.contains("\naborted_reason  forbidden_by_rule\n"),
        "{out}"
    );
    let (code, out, _) = ledger(
        data.path(),
        &["show", "0198f1a2-0002-7000-8000-00000000000a", "--json"],
    );
    assert_eq!(
        (code, &out.parse::<Value>().unwrap()["user_id"]),
        (0, &json!("support"))
    );
    let (code, out, err) = ledger(data.path(), &["show", "0198f1a2"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        err.starts_with("several calls fit, give more of the id: 0198f1a2-0001-"),
        "{err}"
    );
    let (code, _, err) = ledger(data.path(), &["show", "ffff\u{1b}"]);
    assert_eq!(
        (code, err.as_str()),
        (
            1,
            "no call's action id begins or ends with ffff\\u{1b}; see `toolgate ledger list`\n"
        )
    );
}

// threat-model §3G G2, G3.
#[tokio::test]
async fn verify_says_what_is_wrong() {
    let (data, head) = journal((1..=5).map(|n| entry(n, &json!({}))).collect()).await;
    let data = data.path();
    let (code, out, _) = ledger(data, &["verify"]);
    assert_eq!(code, 0);
    assert!(
        out.starts_with("ok: 5 records") && out.contains(&format!("\nhead {head}\n")),
        "{out}"
    );
    assert_eq!(
        ledger(data, &["verify", "--expect-head", &head.to_string()]).0,
        0
    );
    let (code, out, _) = ledger(data, &["verify", "--json"]);
    let said: Value = out.parse().unwrap();
    assert_eq!(
        (code, &said["state"], &said["records"]),
        (0, &json!("ok"), &json!(5))
    );
    assert_eq!(said["head"], head.to_string());
    let later = Head { seq: 7, ..head };
    let (code, out, _) = ledger(data, &["verify", "--expect-head", &later.to_string()]);
    assert!(
        code == 1 && out.contains("records 6 to 7 were removed"),
        "{out}"
    );
    let segment = data.join("journal/00000000000000000001.journal");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[300] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let (code, out, _) = ledger(data, &["verify", "--json"]);
    let said: Value = out.parse().unwrap();
    assert_eq!((code, &said["state"]), (1, &json!("damaged")));
    let (code, out, _) = ledger(data, &["verify"]);
    assert_eq!(code, 1);
    assert!(
        out.starts_with("DAMAGED: 00000000000000000001.journal at byte 96, record 1: "),
        "{out}"
    );
    let (code, _, err) = ledger(data, &["list"]);
    assert!(
        code == 1 && err.contains("does not match its checksum"),
        "{err}"
    );
}

#[test]
fn without_a_journal_one_line_says_so() {
    let temp = tempfile::tempdir().unwrap();
    for words in [["list"].as_slice(), &["show", "1"], &["verify"]] {
        let (code, out, err) = ledger(temp.path(), words);
        assert_eq!(
            (code, out.as_str(), err.lines().count()),
            (1, "", 1),
            "{err}"
        );
        assert!(err.contains("there is no journal in"), "{err}");
    }
}

/// The fields of an entry that are texts.
const TEXT_FIELDS: [&str; 22] = [
    "time",
    "action_id",
    "request_id",
    "trace_id",
    "user_id",
    "tenant_id",
    "session",
    "revision",
    "tool",
    "schema_hash",
    "params_hash",
    "original_params_hash",
    "state",
    "event",
    "outcome",
    "aborted_reason",
    "stage",
    "decided_by",
    "would_refuse",
    "fault",
    "result_hash",
    "policy",
];

// threat-model §3G G1: what an agent writes into any field is shown as text; it neither moves the
// cursor nor begins a line.
#[tokio::test]
async fn a_terminal_is_safe_from_every_field() {
    let naughty = "a\n\r\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m\u{7f}\u{202e}\u{2066}\u{2028}\u{200b}\u{feff}|\"\\b";
    let mut change = json!({"roles": [naughty], "actions": [naughty], "rewritten_by": [naughty], "unasked": [naughty], "audit": {"a\u{202e}\u{200b}": naughty}});
    for text in TEXT_FIELDS {
        change[text] = json!(naughty);
    }
    // Not through the strict reader: this is what the journal would hold if that had failed.
    let (data, _) = journal(vec![Entry {
        ..serde_json::from_value(change_of(&change)).unwrap()
    }])
    .await;
    for words in [
        ["list"].as_slice(),
        &["list", "--json"],
        &["show", "a"],
        &["show", "a", "--json"],
    ] {
        let (code, out, err) = ledger(data.path(), words);
        assert_eq!(code, 0, "{words:?}: {err}");
        let acts = |c: char| {
            c != '\n' && (c.is_control() || "\u{202e}\u{2066}\u{2028}\u{200b}\u{feff}".contains(c))
        };
        assert!(!out.contains(acts), "{words:?}: {}", out.escape_debug());
        let lines = if words == ["list"] {
            2
        } else if words == ["show", "a"] {
            32
        } else {
            1
        };
        assert!(out.lines().count() <= lines, "{words:?}: {out}");
        if words.contains(&"--json") {
            assert_eq!(
                out.parse::<Value>().unwrap()["tool"],
                naughty,
                "the same text for programs"
            );
        }
    }
}

fn change_of(change: &Value) -> Value {
    let mut value = serde_json::to_value(entry(1, &json!({}))).unwrap();
    for (name, changed) in change.as_object().into_iter().flatten() {
        value[name] = changed.clone();
    }
    value
}

/// A pipe gets the id that no other call has, a terminal a short one; what to look at has a colour.
#[tokio::test]
async fn a_line_of_tail_is_as_its_reader_needs_it() {
    let data = three().await;
    let pipe = ledger(data.path(), &["tail"]).1;
    let screen = Terminal::of(Some(80), "2026-07-28T09:10:00Z");
    let short = ledger_on(screen, data.path(), &["tail"]).1;
    let colored = ledger_on(screen.colored(), data.path(), &["tail"]).1;
    let ids = |text: &str| -> Vec<String> {
        let last = |line: &str| line.rsplit(' ').next().map(ToOwned::to_owned);
        text.lines().filter_map(last).collect()
    };
    let whole = (1..=3).map(|n| format!("0198f1a2-{n:04x}-7000-8000-00000000000a"));
    assert_eq!(ids(&pipe), whole.collect::<Vec<_>>(), "{pipe}");
    assert_eq!(ids(&short), ["0000000a"; 3], "{short}");
    assert!(!pipe.contains('\u{1b}') && !short.contains('\u{1b}'));
    let painted = "\u{1b}[33mrefused       \u{1b}[0m";
    assert!(colored.contains(painted), "{colored}");
}
