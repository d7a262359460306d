//! Whatever is done to the bytes of a journal, verifying finds it, or nothing of what was recorded is changed
//! (SECURITY §3G G2, G3).

use bytes::Bytes;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tempfile::TempDir;
use toolgate::model::entry::Entry;
use toolgate::store::journal::{Head, Journal, Options, Reader, verify};

/// Calls in the journal.
const CALLS: u32 = 16;
/// Segments are closed early, so that there are several.
const SEGMENT: u64 = 3 << 10;

struct Written {
    data: TempDir,
    /// The files of the journal as they were written.
    files: Vec<(PathBuf, Vec<u8>)>,
    records: Vec<Bytes>,
    head: Head,
}

static WRITTEN: LazyLock<Written> = LazyLock::new(|| {
    // In memory, where there is such a place: each case writes the files anew.
    let data = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = Options { segment_bytes: SEGMENT, reserve_bytes: 0, ..Options::default() };
    let journal = Journal::open(data.path(), options).expect("a journal");
    let head = runtime.block_on(async {
        for call in 0..CALLS {
            journal.record(entry(call)).expect("recorded");
            journal.flush().await.expect("written");
        }
        journal.close().await.expect("closed")
    });
    let mut files: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(data.path().join("journal"))
        .expect("a directory")
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension().is_none_or(|ending| ending != "lock"))
        .filter_map(|path| std::fs::read(&path).ok().map(|bytes| (path, bytes)))
        .filter(|(_, bytes)| !bytes.is_empty())
        .collect();
    files.sort();
    assert!(files.len() > 2, "one segment is too few: {files:?}");
    let records = records(data.path()).expect("it can be read");
    assert!(records.len() >= CALLS as usize);
    Written { data, files, records, head }
});

/// Each four bytes are something that is done: what, and where.
pub fn run(data: &[u8]) {
    let written = &*WRITTEN;
    let mut files: Vec<Option<Vec<u8>>> = written.files.iter().map(|(_, bytes)| Some(bytes.clone())).collect();
    for step in data.chunks_exact(4).take(16) {
        tamper(&mut files, step);
    }
    for ((path, _), bytes) in written.files.iter().zip(&files) {
        match bytes {
            Some(bytes) => std::fs::write(path, bytes).expect("written"),
            None => drop(std::fs::remove_file(path)),
        }
    }
    let is_changed = written.files.iter().zip(&files).any(|((_, before), now)| now.as_ref() != Some(before));
    let known = verify(written.data.path(), Some(written.head)).ok();
    let is_found = known.as_ref().is_none_or(|report| report.problem.is_some());
    assert!(is_changed || !is_found, "nothing was done: {known:?}");
    if is_found {
        return;
    }
    let read = records(written.data.path()).expect("what verifies can be read");
    assert!(read == written.records, "something was changed, and it verifies: {known:?}");
}

fn tamper(files: &mut [Option<Vec<u8>>], step: &[u8]) {
    let [what, file, high, low] = step else { return };
    let (count, place) = (files.len(), usize::from(*high) << 8 | usize::from(*low));
    let file = usize::from(*file) % count;
    if what % 8 == 7 {
        files.swap(file, place % count);
        return;
    }
    let Some(bytes) = &mut files[file] else { return };
    let at = place % bytes.len().max(1);
    match what % 8 {
        0..=3 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (what >> 3 & 7)),
        4 => bytes.truncate(at),
        5 => bytes.insert(at, *what),
        _ if at == 0 => files[file] = None,
        _ => bytes.extend_from_slice(&step.repeat(at % 8 + 1)),
    }
}

fn records(data: &Path) -> Option<Vec<Bytes>> {
    let text = |record: toolgate::store::journal::Record| record.text().ok().map(|text| text.map(|text| text.bytes()));
    let read: Option<Vec<_>> = Reader::open(data).ok()?.map(|record| record.ok().and_then(text)).collect();
    Some(read?.into_iter().flatten().collect())
}

fn entry(call: u32) -> Entry {
    let entry = json!({
        "time": "2026-11-20T10:00:00Z", "action_id": format!("00000000-0000-7000-8000-{call:012}"),
        "request_id": call.to_string(), "trace_id": "0".repeat(32), "user_id": "alice", "roles": ["clerk"],
        "revision": "2026-07-28", "tool": "bank__pay", "params_hash": "1".repeat(64), "actions": ["pay"],
        "state": "execute", "event": "exit", "outcome": "answered", "stage": "send", "latency_ms": 1.5, "gate_ms": 0.5,
        "upstream_ms": 1.0, "policy": "2".repeat(64),
    });
    serde_json::from_value(entry).expect("an entry")
}
