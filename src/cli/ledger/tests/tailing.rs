//! The last lines of a ledger of several segments.

use super::stories::{intended, settled};
use super::*;
use std::path::PathBuf;

/// A journal whose segments hold a few calls.
fn segmented(data: &Path) -> Journal {
    let options = JournalOptions {
        segment_bytes: 2048,
        ..JournalOptions::default()
    };
    Journal::open(data, options).unwrap()
}

async fn record(journal: &Journal, entries: impl Iterator<Item = Entry>) {
    for entry in entries {
        journal.record(entry).unwrap();
        journal.flush().await.unwrap();
    }
}

fn segments(data: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(data.join("journal")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "journal"));
    files.sort();
    files
}

/// The numbers of the calls that `tail` with `words` gives.
fn tailed(data: &Path, words: &[&str]) -> Vec<u64> {
    let (code, out, err) = ledger(data, &[&["tail", "--json"], words].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    out.lines()
        .map(|line| line.parse::<Value>().unwrap()["seq"].as_u64().unwrap())
        .collect()
}

/// Issue 17: what is not asked for is not read, however long the ledger is; and what is asked for is found
/// wherever it stands.
#[tokio::test]
async fn the_last_lines_are_read_from_the_end() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path();
    let journal = segmented(data);
    let support = json!({ "user_id": "support" });
    let entries = (1..=40).map(|n| match n {
        1 => entry(n, &support),
        n => entry(n, &json!({})),
    });
    record(&journal, entries).await;
    journal.close().await.unwrap();
    let segments = segments(data);
    assert!(segments.len() > 4, "{segments:?}");
    assert_eq!(tailed(data, &[]), (31..=40).collect::<Vec<u64>>());
    assert_eq!(tailed(data, &["-n", "100"]).len(), 40);
    assert_eq!(tailed(data, &["-n", "2", "--agent", "support"]), [1]);
    assert_eq!(tailed(data, &["-n", "0"]), Vec::<u64>::new());
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    let call = bytes.windows(10).position(|found| found == b"mail__send");
    bytes[call.unwrap()] ^= 1;
    std::fs::write(&segments[0], bytes).unwrap();
    assert_eq!(tailed(data, &["-n", "3"]), [38, 39, 40]);
    let (code, _, err) = ledger(data, &["tail", "-n", "100"]);
    assert!(code == 1 && !err.is_empty(), "{err}");
}

/// A call whose toolgate was killed has no entry: its intent is looked for, and tells of it.
#[tokio::test]
async fn a_call_that_began_long_before_is_among_the_last_lines() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path();
    let journal = segmented(data);
    let append = async |item| {
        let ticket = journal.append(vec![item]).unwrap();
        ticket.durable().await.unwrap();
    };
    append(intended(50, "bb")).await;
    record(&journal, (1..=35).map(|n| entry(n, &json!({})))).await;
    let unknown = json!({ "unknown": { "why": "toolgate ended" } });
    let (restart, hold) = (json!("restart"), json!("hold"));
    append(settled(50, "bb", &unknown, &restart, &hold)).await;
    journal.close().await.unwrap();
    assert!(segments(data).len() > 4);
    assert_eq!(tailed(data, &["-n", "2"]), [36, 1]);
}
