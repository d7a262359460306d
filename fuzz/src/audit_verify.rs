//! Whatever is done to the bytes of a journal, verifying finds it, or nothing of what was recorded
//! is changed (threat-model §3G G2, G3). One journal has a known head, the other seals of two keys
//! and a summary of what was dropped.

use bytes::Bytes;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;
use toolgate::model::entry::Entry;
use toolgate::model::secret::Secret;
use toolgate::store::journal::{
    Head, Journal, JournalOptions, JournalReader, Retention, SealingKey, SealingKeys,
    VerifyOptions, check,
};

/// Calls in the journal.
const CALLS: u32 = 16;
/// Segments are closed early, so that there are several.
const SEGMENT: u64 = 3 << 10;

struct Written {
    data: TempDir,
    /// The files of the journal as they were written.
    files: Vec<(PathBuf, Vec<u8>)>,
    records: Vec<Bytes>,
    against: VerifyOptions,
}

/// Not sealed; its head is known.
static PLAIN: LazyLock<Written> = LazyLock::new(|| {
    let (data, runtime) = (directory(), runtime());
    let head = runtime.block_on(half(data.path(), SealingKeys::default(), (0..CALLS, false)));
    Written::of(
        data,
        VerifyOptions {
            expected: Some(head),
            ..VerifyOptions::default()
        },
    )
});

/// Sealed by a key and, after a part of it was dropped, by the next one; no head is known.
static SEALED: LazyLock<Written> = LazyLock::new(|| {
    let (data, runtime) = (directory(), runtime());
    let key = |letter: &str| SealingKey::new(&Secret::new(letter.repeat(32))).expect("long enough");
    let before = SealingKeys {
        current: Some(key("a")),
        ..SealingKeys::default()
    };
    let keys = SealingKeys {
        current: Some(key("b")),
        previous: vec![key("a")],
        ..SealingKeys::default()
    };
    runtime.block_on(async {
        half(data.path(), before, (0..CALLS / 2, true)).await;
        half(data.path(), keys.clone(), (CALLS / 2..CALLS, false)).await;
    });
    Written::of(
        data,
        VerifyOptions {
            keys,
            ..VerifyOptions::default()
        },
    )
});

impl Written {
    fn of(data: TempDir, against: VerifyOptions) -> Self {
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
        let report = check(data.path(), &against).expect("it can be checked");
        assert_eq!(report.problem, None, "{report:?}");
        assert!(records.len() >= CALLS as usize / 2);
        Self {
            data,
            files,
            records,
            against,
        }
    }
}

/// In memory, where there is such a place: each case writes the files anew.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a directory")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Records `calls`, and `drops` the closed segments.
async fn half(
    data: &Path,
    keys: SealingKeys,
    (calls, drops): (std::ops::Range<u32>, bool),
) -> Head {
    let options = JournalOptions {
        segment_bytes: SEGMENT,
        reserve_bytes: 0,
        ..JournalOptions::default()
    };
    let journal = Journal::open_sealed(data, options, keys).expect("a journal");
    for call in calls {
        journal.record(entry(call)).expect("recorded");
        journal.flush().await.expect("written");
    }
    if drops {
        let retention = Retention {
            upto: journal.durable_seq(),
            age: Duration::ZERO,
            archive: None,
        };
        let dropped = journal
            .compact(retention, std::iter::empty())
            .await
            .expect("compacted");
        assert!(dropped.is_some(), "nothing was dropped");
    }
    journal.close().await.expect("closed")
}

/// The first byte chooses the journal, too. Each four bytes are something that is done: what, and
/// where.
pub fn run(data: &[u8]) {
    let is_sealed = data.first().is_some_and(|byte| byte >> 7 == 1);
    let written = if is_sealed { &*SEALED } else { &*PLAIN };
    let mut files: Vec<Option<Vec<u8>>> = written
        .files
        .iter()
        .map(|(_, bytes)| Some(bytes.clone()))
        .collect();
    for step in data.chunks_exact(4).take(16) {
        tamper(&mut files, step);
    }
    for ((path, _), bytes) in written.files.iter().zip(&files) {
        match bytes {
            Some(bytes) => std::fs::write(path, bytes).expect("written"),
            None => drop(std::fs::remove_file(path)),
        }
    }
    let is_changed = written
        .files
        .iter()
        .zip(&files)
        .any(|((_, before), now)| now.as_ref() != Some(before));
    let known = check(written.data.path(), &written.against).ok();
    let is_found = known.as_ref().is_none_or(|report| report.problem.is_some());
    assert!(is_changed || !is_found, "nothing was done: {known:?}");
    if is_found {
        return;
    }
    let read = records(written.data.path()).expect("what verifies can be read");
    // Without a head, a cut-off end is not found.
    let is_as_written = if is_sealed {
        written.records.starts_with(&read)
    } else {
        read == written.records
    };
    assert!(
        is_as_written,
        "something was changed, and it verifies: {known:?}"
    );
}

fn tamper(files: &mut [Option<Vec<u8>>], step: &[u8]) {
    let [what, file, high, low] = step else {
        return;
    };
    let (count, place) = (files.len(), usize::from(*high) << 8 | usize::from(*low));
    let file = usize::from(*file) % count;
    if what % 8 == 7 {
        files.swap(file, place % count);
        return;
    }
    let Some(bytes) = &mut files[file] else {
        return;
    };
    let at = place % bytes.len().max(1);
    match what % 8 {
        0..=3 => bytes
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|byte| *byte ^= 1 << (what >> 3 & 7)),
        4 => bytes.truncate(at),
        5 => bytes.insert(at, *what),
        _ if at == 0 => files[file] = None,
        _ => bytes.extend_from_slice(&step.repeat(at % 8 + 1)),
    }
}

fn records(data: &Path) -> Option<Vec<Bytes>> {
    let text = |record: toolgate::store::journal::JournalRecord| {
        record.text().ok().map(|text| text.map(|text| text.bytes()))
    };
    let read: Option<Vec<_>> = JournalReader::open(data)
        .ok()?
        .map(|record| record.ok().and_then(text))
        .collect();
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
