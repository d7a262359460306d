//! Several ledgers of `toolgate stdio` read by one command, and lines on a terminal.

use super::*;
use crate::cli::ledger::several::{StdioLedger, about_one, run_on_all};
use crate::model::ids::ToolName;
use crate::store::disabling::note;
use crate::store::state::event::{Note, Noted};
use unicode_width::UnicodeWidthStr;

/// What the command does on these ledgers, as [`ledger`] does on one.
fn on_all(kept: &[(&str, &Path)], words: &[&str]) -> (u8, String, String) {
    let line = LedgerCli::try_parse_from([&["ledger", "--stdio"], words].concat()).unwrap();
    let kept = kept.iter();
    let kept: Vec<_> = kept
        .map(|(server, data)| StdioLedger::of((*server).to_owned(), data.to_path_buf()))
        .collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run_on_all(&line.args, &kept, &mut out, &mut err).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (code, text(out), text(err))
}

/// A ledger of one call.
async fn of_call(number: u64) -> tempfile::TempDir {
    journal(vec![entry(number, &json!({}))]).await.0
}

/// 017: an id that fits calls of two servers is nobody's, and one that cannot be read hides no other.
#[tokio::test]
async fn a_call_is_shown_from_whichever_ledger_has_it() {
    let (one, other) = (of_call(1).await, of_call(2).await);
    let broken = tempfile::tempdir().unwrap();
    let both = [("bank", one.path()), ("shop", other.path())];
    let (code, out, err) = on_all(&both, &["show", "0198f1a2-0002"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.contains("0198f1a2-0002-7000-8000-00000000000a"),
        "{out}"
    );
    let (code, out, err) = on_all(&both, &["show", "0198f1a2"]);
    assert_eq!((code, out.as_str()), (1, ""));
    for id in ["0198f1a2-0001-", "0198f1a2-0002-"] {
        assert!(
            err.starts_with("several calls fit") && err.contains(id),
            "{err}"
        );
    }
    let (code, out, err) = on_all(&both, &["show", "ffff"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.starts_with("no call's action id"), "{err}");
    let all = [("a", broken.path()), both[0], both[1]];
    for (id, is_known) in [("0198f1a2-0002", true), ("ffff", false)] {
        let (code, out, err) = on_all(&all, &["show", id]);
        assert_eq!((code, !out.is_empty()), (1, is_known), "{out}{err}");
        assert!(err.starts_with("toolgate: a: "), "{err}");
    }
}

/// 017: what cannot be read is said, with the exit code, and others are read.
#[tokio::test]
async fn a_ledger_that_cannot_be_read_hides_no_other() {
    let (one, broken) = (of_call(1).await, tempfile::tempdir().unwrap());
    let all = [("a", broken.path()), ("bank", one.path())];
    for words in [&["verify"][..], &["export"], &["tail"], &["events"]] {
        let (code, out, err) = on_all(&all, words);
        assert_eq!(code, 1, "{words:?}: {out}{err}");
        assert!(
            err.contains("\ntoolgate: ") && err.contains("\nbank: "),
            "{words:?}: {err}"
        );
        assert_eq!(words == ["events"], out.is_empty(), "{words:?}: {out}");
    }
}

/// Issue 17: one table of all ledgers that can be read; the others are named, with the exit code.
#[tokio::test]
async fn a_table_of_several_ledgers_is_of_those_that_can_be_read() {
    let (one, other) = (of_call(1).await, of_call(2).await);
    let (broken, damaged) = (tempfile::tempdir().unwrap(), of_call(3).await);
    let segments = std::fs::read_dir(damaged.path().join("journal")).unwrap();
    let segment = segments.map(|file| file.unwrap().path()).max().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let call = bytes.windows(10).position(|found| found == b"mail__send");
    bytes[call.unwrap()] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let all = [
        ("a", broken.path()),
        ("bank", one.path()),
        ("post", damaged.path()),
        ("shop", other.path()),
    ];
    for words in [&["list"][..], &["list", "--json"]] {
        let (code, out, err) = on_all(&all, words);
        assert_eq!(code, 1, "{out}{err}");
        for server in ["bank", "shop"] {
            assert!(out.contains(server), "{server}: {out}");
        }
        assert!(!out.contains("post"), "{out}");
        for why in ["toolgate: a: there is no journal in ", "toolgate: post: "] {
            assert!(err.contains(why), "{why}: {err}");
        }
    }
    let (code, out, err) = on_all(&all[..1], &["list", "--json"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
}

/// What goes on without end, or asks a server, is of one ledger.
#[test]
fn some_verbs_are_about_one_ledger() {
    for (words, is_refused) in [
        (&["tail", "-f"][..], true),
        (&["replay", "0198f1a2"], true),
        (&["tail"], false),
        (&["show", "0198f1a2"], false),
        (&["list"], false),
        (&["verify"], false),
    ] {
        let line = LedgerCli::try_parse_from([&["ledger", "--stdio"], words].concat()).unwrap();
        assert_eq!(
            about_one(&line.args.verb).is_some(),
            is_refused,
            "{words:?}"
        );
    }
}

/// A ledger of calls and an event whose lines are long, and how the event's ends.
async fn long_lines() -> (tempfile::TempDir, String) {
    let long = "a reason that goes on for longer than a line of any terminal has room for it, however wide ".repeat(3);
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), JournalOptions::default()).unwrap();
    for (number, change) in (1..).zip([
        json!({}),
        json!({"user_id": "warehouse-agent", "tool": "warehouse__reserve_items_for_shipment", "would_refuse": "budget_exceeded", "count": 12}),
        json!({"outcome": "refused", "aborted_reason": "idempotency_key_required", "latency_ms": 20_000.4}),
        json!({"outcome": "refused", "aborted_reason": "x".repeat(200), "tool": "\u{6f22}".repeat(50)}),
    ]) {
        journal.record(entry(number, &change)).unwrap();
    }
    let (tool, who) = (ToolName::new("bank__pay"), "ann".to_owned());
    let disabled = Note::Disabled {
        tool,
        who,
        why: long.clone(),
    };
    drop(
        note(
            &journal,
            Noted {
                at: 1_795_860_000_000,
                note: disabled,
            },
        )
        .unwrap(),
    );
    journal.close().await.unwrap();
    (temp, long)
}

/// Lines of `tail` and `events` fit the terminal; a pipe gets them whole.
#[tokio::test]
async fn lines_of_tail_and_events_fit_a_terminal() {
    let (temp, long) = long_lines().await;
    for columns in [80, 160] {
        let screen = Terminal::of(Some(columns), "2026-07-28T09:10:00Z");
        for verb in ["tail", "events"] {
            let (_, out, _) = ledger_on(screen, temp.path(), &[verb]);
            let widest = out.lines().map(UnicodeWidthStr::width).max();
            assert!(
                widest.is_some_and(|widest| widest <= columns),
                "{widest:?}: {out}"
            );
            let (_, colored, _) = ledger_on(screen.colored(), temp.path(), &[verb]);
            assert_eq!(anstream::adapter::strip_str(&colored).to_string(), out);
        }
    }
    let narrow = ledger_on(
        Terminal::of(Some(80), "2026-07-28T09:10:00Z"),
        temp.path(),
        &["tail"],
    )
    .1;
    for told in [
        "mail__send by billing  12.5 ms",
        " idempotency_ke…",
        "ware",
        "\u{6f22}",
        "…",
    ] {
        assert!(narrow.contains(told), "{told}: {narrow}");
    }
    let pipe = ledger(temp.path(), &["tail"]).1;
    for told in [
        long.as_str(),
        "(would refuse: budget_exceeded) ×12",
        &"x".repeat(200),
    ] {
        assert!(pipe.contains(told), "{told}: {pipe}");
    }
}
