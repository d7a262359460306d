//! Following a journal that rolls over while it is read, and whose old segments go to an archive.

use super::{CallFilter, LedgerCalls, LedgerStep};
use crate::cli::ledger::noted::LedgerNote;
use crate::cli::ledger::tests::entry;
use crate::cli::terminal::Terminal;
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::store::disabling::note;
use crate::store::journal::{Journal, JournalOptions, JournalReader, Retention};
use crate::store::state::event::{Note, Noted, PolicyRolledBack};
use serde_json::json;
use std::time::Duration;

/// The numbers of the calls that are new.
fn more(calls: &mut LedgerCalls) -> Vec<u64> {
    std::iter::from_fn(|| calls.step())
        .filter_map(|step| match step.unwrap() {
            LedgerStep::Call(call) => Some(call.seq),
            LedgerStep::Note(_) | LedgerStep::Other => None,
        })
        .collect()
}

#[tokio::test]
async fn what_is_written_is_told_once_across_segments_and_an_archive() {
    let (data, archive) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = JournalOptions {
        segment_bytes: 2048,
        ..JournalOptions::default()
    };
    let journal = Journal::open(data.path(), options).unwrap();
    journal.record(entry(1, &json!({}))).unwrap();
    journal.flush().await.unwrap();
    let mut calls = LedgerCalls::open_in(data.path(), Some(archive.path())).unwrap();
    assert_eq!(more(&mut calls), [1]);
    assert_eq!(more(&mut calls), Vec::<u64>::new());
    for number in 2..=40 {
        journal.record(entry(number, &json!({}))).unwrap();
        journal.flush().await.unwrap();
    }
    let segments = || {
        std::fs::read_dir(data.path().join("journal"))
            .unwrap()
            .count()
    };
    let before = segments();
    assert!(before > 4, "{before} segments");
    let retention = Retention {
        upto: 40,
        age: Duration::ZERO,
        archive: Some(archive.path()),
    };
    journal
        .compact(retention, std::iter::empty())
        .await
        .unwrap()
        .unwrap();
    assert!(segments() < before, "old segments are gone");
    journal.record(entry(41, &json!({}))).unwrap();
    journal.close().await.unwrap();
    let told = more(&mut calls);
    // The summary's seal is a record, too.
    assert_eq!(told.len(), 40, "{told:?}");
    assert!(told.windows(2).all(|two| two[0] < two[1]), "{told:?}");
}

/// One note of every kind.
fn notes() -> [Note; 11] {
    let (policy, before) = ("3f9a1c0b77aa55ee".to_owned(), "00aa11bb22cc33dd".to_owned());
    let (tool, who, why) = (
        ToolName::new("bank__pay"),
        "ann".to_owned(),
        "a\nreason".to_owned(),
    );
    [
        Note::Started {
            version: "0.9.0".to_owned(),
            pid: 4711,
            policy: before.clone(),
        },
        Note::Reloaded {
            before: before.clone(),
            policy: policy.clone(),
            operators: false,
        },
        Note::ReloadRefused {
            policy: policy.clone(),
            errors: 1,
        },
        Note::Reloaded {
            before: policy.clone(),
            policy: policy.clone(),
            operators: false,
        },
        Note::Reloaded {
            before: policy.clone(),
            policy: policy.clone(),
            operators: true,
        },
        Note::Disabled {
            tool: tool.clone(),
            who: who.clone(),
            why: why.clone(),
        },
        Note::Enabled {
            tool: tool.clone(),
            who,
            why: why.clone(),
        },
        Note::Stripped {
            layer: "profile coding".to_owned(),
            policy: policy.clone(),
        },
        Note::Drifted {
            tool,
            digest: "ab".repeat(32),
            why: why.clone(),
        },
        Note::RolledBack(PolicyRolledBack {
            from: Digest::from_hex(&"cd".repeat(32)).unwrap(),
            to: Digest::from_hex(&"ef".repeat(32)).unwrap(),
            who: "ann (uid 1000)".to_owned(),
            why: Some(why),
            forced: true,
            began: 1_795_860_000_000,
        }),
        Note::Stopped { pid: 4711, policy },
    ]
}

/// Every kind of note has words, and fields for programs.
#[tokio::test]
async fn each_event_is_told() {
    let data = tempfile::tempdir().unwrap();
    let journal = Journal::open(data.path(), JournalOptions::default()).unwrap();
    for (number, what) in (0_u64..).zip(notes()) {
        let at = 1_795_860_000_000 + 1000 * number;
        drop(note(&journal, Noted { at, note: what }).unwrap());
    }
    journal.close().await.unwrap();
    let told = JournalReader::open(data.path()).unwrap();
    let told = told.filter_map(|record| LedgerNote::of(&record.unwrap()).unwrap());
    let all = CallFilter::default();
    let pipe = Terminal::of(None, "2026-11-28T10:00:00Z");
    let told: Vec<String> = told
        .filter(|note| note.fits(&all))
        .map(|note| format!("{}\n{}\n", note.line(&pipe), note.json()))
        .collect();
    insta::assert_snapshot!(told.concat());
    let late = CallFilter::of_time("2026-11-28T10:00:05Z".parse().ok(), None);
    let some = JournalReader::open(data.path()).unwrap();
    let some = some.filter_map(|record| LedgerNote::of(&record.unwrap()).unwrap());
    assert_eq!(some.filter(|note| note.fits(&late)).count(), 6);
}
