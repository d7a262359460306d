//! SECURITY §3G, G4: a disk that is full, fails or is slow. What cannot be recorded is said, at once and ever after.

use super::*;
use crate::store::journal::writer::Medium;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A medium with room for 4000 bytes; a write that goes beyond is done as far as there is room.
struct Full(File);

impl Medium for Full {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let room = usize::try_from(4000_u64.saturating_sub(at)).unwrap().min(bytes.len());
        self.0.write_all_at(&bytes[..room], at)?;
        if room < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// A medium that takes everything and never syncs.
struct Unsyncable(File);

impl Medium for Unsyncable {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn cut(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::Error::other("the disk is gone"))
    }
}

#[tokio::test]
async fn after_a_failed_write_nothing_is_taken_any_more() {
    let temp = tempfile::tempdir().unwrap();
    let journal =
        Journal::open_on(temp.path(), Options { segment_bytes: 1 << 20, ..small() }, |file| Box::new(Full(file)))
            .unwrap();
    let mut synced = 0;
    let error = loop {
        journal.record(entry(synced + 1)).unwrap();
        match journal.flush().await {
            Ok(head) => synced = head.seq,
            Err(error) => break error,
        }
    };
    assert!(synced >= 1);
    assert!(matches!(&error, Error::Poisoned(why) if why.contains("full") || why.contains("space")), "{error}");
    assert!(matches!(journal.record(entry(99)), Err(Error::Poisoned(_))));
    assert!(matches!(journal.close().await, Err(Error::Poisoned(_))));
    let health = journal.health();
    assert!(matches!(health.state, State::Poisoned(_)));
    assert_eq!((health.head.seq, health.lost), (synced, 1));
    // What was acknowledged is there, the half batch is cut, and a restart goes on.
    let head = written(temp.path(), small(), 1, 1).await;
    assert_eq!((head.seq, verify(temp.path(), Some(head)).unwrap().problem), (synced + 1, None));
}

#[tokio::test]
async fn a_failed_sync_is_never_tried_again() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open_on(temp.path(), small(), |file| Box::new(Unsyncable(file))).unwrap();
    journal.record(entry(1)).unwrap();
    for _ in 0..2 {
        let error = journal.flush().await.unwrap_err();
        assert!(error.to_string().contains("the disk is gone") && error.to_string().contains("restart"), "{error}");
    }
    assert_eq!((journal.health().syncs, journal.health().head.seq), (0, 0));
    // Who waited is told, who comes now is refused, and the process has what it needs to end.
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open_on(temp.path(), small(), |file| Box::new(Unsyncable(file))).unwrap();
    let tickets: Vec<_> = (0..3).map(|_| journal.append(vec![Item::Event(vec![1])]).unwrap()).collect();
    for ticket in tickets {
        assert!(matches!(ticket.durable().await, Err(Error::Poisoned(_))));
    }
    assert!(matches!(journal.failed().await, Error::Poisoned(_)));
    assert!(matches!(journal.append(vec![Item::Event(vec![1])]), Err(Error::Poisoned(_))));
    assert!(!journal.is_writing());
}

// A full queue is refused at once, whoever waits is not held up, and what was taken is written.
#[tokio::test]
async fn a_full_queue_is_refused_not_waited_for() {
    let queue = Queue::new(&Options { queue: 3, ..small() }, Head { seq: 0, hash: [0; 32] });
    for n in 1..=3 {
        assert_eq!(queue.push(&Group::entry(entry(n)), true).unwrap(), n);
    }
    assert!(matches!(queue.push(&Group::entry(entry(4)), true), Err(Error::Full)));
    assert_eq!((queue.health().queued, queue.health().refused), (3, 1));
    assert_eq!(queue.take(None, None).frames.iter().map(frame::Frame::count).collect::<Vec<_>>(), [3]);
    assert_eq!(queue.push(&Group::entry(entry(5)), true).unwrap(), 4, "what was refused has no number");
}

// A real full file system, where one can be mounted.
#[tokio::test]
async fn a_full_file_system_is_said_and_survived() {
    let temp = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
        .arg(temp.path())
        .output()
        .is_ok_and(|done| done.status.success());
    if !mounted {
        return;
    }
    let data = temp.path().join("data");
    let journal = Journal::open(&data, Options { reserve_bytes: 64 << 10, ..Options::default() }).unwrap();
    let mut synced = 0;
    let error = loop {
        journal.record(entry(synced + 1)).unwrap();
        match journal.flush().await {
            Ok(head) => synced = head.seq,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("No space left"), "{error}");
    drop(journal);
    assert_eq!(read(&data).unwrap().len() as u64, synced);
    let report = verify(&data, None).unwrap();
    assert_eq!((report.problem, report.records), (None, synced));
    assert!(std::process::Command::new("umount").arg(temp.path()).status().unwrap().success());
}

const CHILD: &str = "TOOLGATE_TEST_JOURNAL";

/// What the process that is killed does: records and says what is synced. Does nothing unless it is that process.
#[tokio::test]
async fn child_that_is_killed() {
    use std::io::Write;
    let Some(data) = std::env::var_os(CHILD) else { return };
    let options = Options { segment_bytes: 64 << 10, reserve_bytes: 16 << 10, ..small() };
    let journal = Journal::open(Path::new(&data), options).unwrap();
    for n in journal.health().head.seq + 1.. {
        journal.record(entry(n)).unwrap();
        if n % 3 == 0 {
            let head = journal.flush().await.unwrap();
            // Not through the test's captured output.
            writeln!(io::stdout().lock(), "synced {}", head.seq).unwrap();
        }
    }
}

// A killed process loses nothing that was synced, another process is refused while it lives, and the next goes on.
#[test]
fn a_killed_process_loses_nothing_that_was_synced() {
    use std::io::BufRead;
    let temp = tempfile::tempdir().unwrap();
    let mut before = 0;
    for round in 0..5 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "store::journal::tests::faults::child_that_is_killed"])
            .env(CHILD, temp.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = io::BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heads = lines.filter_map(|line| line.unwrap().rsplit_once("synced ")?.1.parse::<u64>().ok());
        let synced = heads.by_ref().nth(20 + round * 7).unwrap();
        let refusal = Journal::open(temp.path(), small()).err().unwrap().to_string();
        assert!(refusal.contains(&format!("in use by process {};", child.id())), "{refusal}");
        child.kill().unwrap();
        child.wait().unwrap();
        let synced = heads.last().unwrap_or(synced);
        let report = verify(temp.path(), None).unwrap();
        assert_eq!(report.problem, None);
        assert!(synced > before && report.records >= synced, "{synced} synced, {} there", report.records);
        for record in read(temp.path()).unwrap() {
            assert_eq!(record.entry().unwrap().unwrap(), entry(record.seq));
        }
        before = synced;
    }
}
