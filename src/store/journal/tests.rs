//! The journal as those who record, read and check it see it.

use super::*;
use crate::mcp::json::Text;
use bytes::Bytes;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

mod ahead;
mod archived;
mod commits;
mod compaction;
mod compressing;
mod damage;
pub(in crate::store) mod faults;
mod forger;
mod forgeries;
mod power;
mod sealing;
mod speed;
mod waiters;

/// Issue 17: a data directory in a repository holds keys and what agents sent, and none of it is
/// committed by accident. One that was there before is its owner's to ignore.
#[tokio::test]
async fn a_new_data_directory_is_nothing_to_commit() {
    let temp = tempfile::tempdir().unwrap();
    let new = temp.path().join("toolgate-data");
    written(&new, small(), 1, 1).await;
    let ignored = fs::read_to_string(new.join(".gitignore")).unwrap();
    assert_eq!(ignored.lines().last(), Some("*"));
    fs::remove_file(new.join(".gitignore")).unwrap();
    written(&new, small(), 1, 1).await;
    assert!(!new.join(".gitignore").exists());
}

/// Entry number `n`, about as large as real ones are.
pub(super) fn entry(n: u64) -> Entry {
    let value = json!({
        "time": "2026-07-28T09:00:00.123456Z", "action_id": format!("0198f1a2-0000-7000-8000-{n:012x}"),
        "request_id": n.to_string(), "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "user_id": "billing-agent",
        "tenant_id": "acme", "roles": ["billing", "reader"], "session": "5f1d7c3b9a2e4d6f8091a2b3c4d5e6f7",
        "revision": "2026-07-28", "tool": "billing__send_invoice", "schema_hash": "c".repeat(64),
        "params_hash": "a".repeat(64), "actions": ["financial_write"], "audit": {"invoice": n}, "state": "execute",
        "event": "exit", "outcome": "answered", "stage": "dispatch", "is_error": false, "result_bytes": 812,
        "result_hash": "b".repeat(64), "latency_ms": 12.5, "gate_ms": 0.4, "upstream_ms": 12.1, "policy": "3f9a1c",
    });
    Text::read(
        Bytes::from(value.to_string()),
        &crate::mcp::json::AGENT_JSON_LIMITS,
    )
    .unwrap()
    .parse()
    .unwrap()
}

/// Options under which a small journal has several batches and segments.
pub(super) fn small() -> JournalOptions {
    JournalOptions {
        segment_bytes: 4096,
        reserve_bytes: 0,
        ..JournalOptions::default()
    }
}

/// A journal of `batches` batches with `each` records, closed.
pub(super) async fn written(data: &Path, options: JournalOptions, batches: u64, each: u64) -> Head {
    let journal = Journal::open(data, options).unwrap();
    let start = journal.health().head.seq;
    for batch in 0..batches {
        for n in 0..each {
            journal.record(entry(start + batch * each + n + 1)).unwrap();
        }
        journal.flush().await.unwrap();
    }
    journal.close().await.unwrap()
}

pub(super) fn segments(data: &Path) -> Vec<PathBuf> {
    let dir = data_dir::journal_dir(data);
    segment::list(&dir)
        .unwrap()
        .into_iter()
        .map(|first| dir.join(segment::name(first)))
        .collect()
}

/// All records of the journal; stops at an error.
pub(super) fn read(data: &Path) -> Result<Vec<JournalRecord>, JournalError> {
    JournalReader::open(data)?.collect()
}

pub(super) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// 003-65 … 003-72, 003-80 … 003-85: what was recorded is what is read, in order, across batches,
/// segments and restarts.
#[tokio::test]
async fn records_come_back_as_they_were_recorded() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("deep/data");
    written(&data, small(), 4, 3).await;
    let head = written(&data, small(), 4, 3).await;
    let records = read(&data).unwrap();
    assert_eq!(records.len(), 24);
    for (record, n) in records.iter().zip(1..) {
        assert_eq!(record.seq, n);
        assert_eq!(record.entry().unwrap().unwrap(), entry(n));
    }
    assert!(
        segments(&data).len() > 2,
        "the journal went over several segments"
    );
    let report = verify(&data, Some(head)).unwrap();
    assert_eq!(
        (report.problem, report.records, report.head),
        (None, 24, head)
    );
}

#[tokio::test]
async fn only_the_owner_has_access() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("data");
    written(&data, small(), 1, 1).await;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("journal")), 0o700);
    for file in [
        data.join("lock"),
        data.join("epoch"),
        segments(&data).remove(0),
    ] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    fs::set_permissions(data.join("journal"), fs::Permissions::from_mode(0o755)).unwrap();
    written(&data, small(), 1, 1).await;
    assert_eq!(
        mode(&data.join("journal")),
        0o700,
        "access given since is taken away"
    );
}

#[tokio::test]
async fn a_second_writer_is_refused_and_told_who_writes() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), small()).unwrap();
    let refusal = Journal::open(temp.path(), small())
        .err()
        .unwrap()
        .to_string();
    assert!(
        refusal.contains(&format!("in use by process {}", std::process::id())),
        "{refusal}"
    );
    journal.record(entry(1)).unwrap();
    journal.close().await.unwrap();
    // The lock is given up when `close` returns, though the handle is still there.
    Journal::open(temp.path(), small())
        .unwrap()
        .close()
        .await
        .unwrap();
    assert_eq!(read(temp.path()).unwrap().len(), 1);
}

#[tokio::test]
async fn every_opening_has_an_epoch_of_its_own() {
    let temp = tempfile::tempdir().unwrap();
    for epoch in 1..=3 {
        let journal = Journal::open(temp.path(), small()).unwrap();
        assert_eq!(journal.epoch(), epoch);
        journal.record(entry(1)).unwrap();
    }
    fs::remove_file(temp.path().join("epoch")).unwrap();
    assert_eq!(
        Journal::open(temp.path(), small()).unwrap().epoch(),
        4,
        "the journal knows it too"
    );
    fs::write(temp.path().join("epoch"), "what?").unwrap();
    assert!(Journal::open(temp.path(), small()).unwrap().epoch() >= 4);
}

#[tokio::test]
async fn a_dropped_journal_loses_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(
        temp.path(),
        JournalOptions {
            gather: Duration::from_mins(1),
            ..small()
        },
    )
    .unwrap();
    for n in 1..=100 {
        journal.record(entry(n)).unwrap();
    }
    drop(journal);
    assert_eq!(read(temp.path()).unwrap().len(), 100);
}

#[tokio::test]
async fn nothing_is_recorded_after_closing() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), small()).unwrap();
    let head = journal.close().await.unwrap();
    assert_eq!(
        journal.close().await.unwrap(),
        head,
        "closing twice is fine"
    );
    assert!(matches!(
        journal.record(entry(1)),
        Err(JournalError::Closed)
    ));
    assert!(matches!(journal.flush().await, Err(JournalError::Closed)));
    assert_eq!(journal.health().state, JournalState::Closed);
    assert_eq!(
        verify(temp.path(), Some(head)).unwrap().problem,
        None,
        "an empty journal has a head as well"
    );
}

#[tokio::test]
async fn written_entries_are_synced_without_being_asked() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(
        temp.path(),
        JournalOptions {
            sync_every: Duration::from_millis(10),
            ..small()
        },
    )
    .unwrap();
    journal.record(entry(1)).unwrap();
    let deadline = crate::model::clock::Clock.steady() + Duration::from_secs(10);
    while journal.health().head.seq < 1 {
        assert!(
            crate::model::clock::Clock.steady() < deadline,
            "never synced"
        );
        tokio::task::yield_now().await;
    }
    assert_eq!(journal.health().syncs, 1);
}

// A reader takes no lock and follows a running writer, over segments, and never sees half a batch.
#[tokio::test]
async fn a_reader_follows_a_running_writer() {
    const RECORD_COUNT: u64 = 5000;
    let temp = tempfile::tempdir().unwrap();
    let options = JournalOptions {
        segment_bytes: 64 << 10,
        reserve_bytes: 8192,
        gather: Duration::ZERO,
        ..small()
    };
    let journal = Journal::open(temp.path(), options).unwrap();
    let data = temp.path().to_owned();
    let reading = std::thread::spawn(move || {
        let mut reader = JournalReader::open(&data).unwrap();
        let deadline = crate::model::clock::Clock.steady() + Duration::from_mins(1);
        let mut next = 1;
        while next <= RECORD_COUNT {
            assert!(
                crate::model::clock::Clock.steady() < deadline,
                "stuck at record {next}"
            );
            for record in reader.by_ref() {
                let record = record.unwrap();
                assert_eq!(
                    (record.seq, record.entry().unwrap().unwrap()),
                    (next, entry(next))
                );
                next += 1;
            }
            let report = verify(&data, None).unwrap();
            assert_eq!(report.problem, None);
        }
    });
    for n in 1..=RECORD_COUNT {
        while matches!(journal.record(entry(n)), Err(JournalError::Full)) {
            tokio::task::yield_now().await;
        }
        if n % 50 == 0 {
            journal.flush().await.unwrap();
        }
    }
    journal.flush().await.unwrap();
    reading.join().unwrap();
}

// An index that knows the journal up to some record reads on from there, without what is before its
// segment.
#[tokio::test]
async fn a_reader_begins_where_it_is_told() {
    let temp = tempfile::tempdir().unwrap();
    written(temp.path(), small(), 8, 3).await;
    let segments = segments(temp.path());
    assert!(segments.len() > 2);
    for after in [0, 1, 7, 23, 24, 99] {
        let numbers: Vec<_> = JournalReader::after(temp.path(), after)
            .unwrap()
            .map(|record| record.unwrap().seq)
            .collect();
        assert_eq!(numbers, (after + 1..=24).collect::<Vec<_>>());
    }
    fs::write(&segments[0], b"not looked at").unwrap();
    let last: u64 = segments
        .last()
        .unwrap()
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    let mut reader = JournalReader::after(temp.path(), last - 1).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().seq, last);
    assert!(read(temp.path()).is_err());
}

#[test]
fn without_a_journal_the_reader_says_so() {
    let temp = tempfile::tempdir().unwrap();
    for data in [temp.path().to_owned(), temp.path().join("nowhere")] {
        assert!(matches!(
            JournalReader::open(&data).err(),
            Some(JournalError::NoJournal(_))
        ));
        assert!(
            verify(&data, None)
                .err()
                .unwrap()
                .to_string()
                .contains("there is no journal in")
        );
    }
}

// threat-model §8: an entry has at most 32 KiB, whatever an agent sends; and it is recorded all the
// same.
#[tokio::test]
async fn an_entry_that_is_too_large_is_shortened() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), small()).unwrap();
    let huge = Entry {
        request_id: "\u{1}\"é".repeat(100_000),
        fault: Some("\u{7f}x".repeat(100_000)),
        issuer: Some(format!("https://login.example/{}", "x".repeat(100_000))),
        subject: Some("\u{1}\"é".repeat(100_000)),
        roles: vec!["role".repeat(1000); 1000],
        audit: [("note".to_owned(), "x".repeat(100_000).into())]
            .into_iter()
            .collect(),
        latency_ms: f64::NAN,
        ..entry(1)
    };
    journal.record(huge).unwrap();
    journal.close().await.unwrap();
    let record = read(temp.path()).unwrap().remove(0);
    assert!(
        record.bytes.len() <= 32 << 10,
        "{} bytes",
        record.bytes.len()
    );
    let kept = record.entry().unwrap().unwrap();
    assert_eq!(
        (kept.action_id, kept.tool),
        (entry(1).action_id, entry(1).tool)
    );
    assert!(kept.request_id.starts_with("\u{1}\"é") && kept.request_id.ends_with('…'));
    let (issuer, subject) = (kept.issuer.unwrap(), kept.subject.unwrap());
    assert!(issuer.starts_with("https://login.example/x") && issuer.ends_with('…'));
    assert!(subject.starts_with("\u{1}\"é") && subject.ends_with('…'));
    assert!(
        kept.audit["toolgate"]
            .as_str()
            .unwrap()
            .starts_with("left out: the entry had")
    );
}

// A record of a kind this toolgate does not know is no entry, and no error.
#[test]
fn other_kinds_of_records_are_let_be() {
    let record = JournalRecord {
        seq: 7,
        kind: 2,
        bytes: Bytes::from_static(b"\0\xff"),
    };
    assert_eq!(record.entry().unwrap(), None);
    let record = JournalRecord {
        seq: 7,
        kind: 1,
        bytes: Bytes::from_static(b"{\"new\":1}"),
    };
    assert!(
        record
            .entry()
            .err()
            .unwrap()
            .to_string()
            .starts_with("record 7 can't be read")
    );
}

#[test]
fn a_head_reads_as_it_is_written() {
    let head = Head {
        seq: 42,
        hash: std::array::from_fn(|at| u8::try_from(at * 8).unwrap()),
    };
    assert_eq!(head.to_string().parse(), Ok(head));
    for wrong in [
        "",
        "42",
        "42:",
        "x:00",
        &format!("42:{}", "g".repeat(64)),
        &format!("42:{}", "0".repeat(63)),
    ] {
        assert!(wrong.parse::<Head>().is_err(), "{wrong}");
    }
}
