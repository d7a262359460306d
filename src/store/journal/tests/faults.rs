//! threat-model §3G, G4: a disk that is full, fails or is slow. What cannot be recorded is said, at
//! once and ever after. A process that is killed is tested in `killed`.

use super::*;
use crate::store::journal::medium::Medium;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod killed;

/// A medium with room for so many bytes in each file; a write that goes beyond is done as far as
/// there is room.
struct Small(File, Arc<AtomicU64>);

impl Small {
    fn room(&self) -> u64 {
        self.1.load(Ordering::SeqCst)
    }
}

impl Medium for Small {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let room = usize::try_from(self.room().saturating_sub(at))
            .unwrap()
            .min(bytes.len());
        self.0.write_all_at(&bytes[..room], at)?;
        if room < bytes.len() {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        if length > self.room() {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            self.0.set_len(length)
        }
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// A journal on files of at most `room` bytes.
pub(in crate::store) fn on_small(
    data: &Path,
    options: JournalOptions,
    room: u64,
) -> (Journal, Arc<AtomicU64>) {
    let room = Arc::new(AtomicU64::new(room));
    let of = Arc::clone(&room);
    let wrap = Box::new(move |file| -> Box<dyn Medium> { Box::new(Small(file, Arc::clone(&of))) });
    let options = JournalOptions {
        look_every: Duration::from_millis(1),
        ..options
    };
    (
        Journal::open_on(data, options, SealingKeys::default(), wrap).unwrap(),
        room,
    )
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

/// The event that names its number.
fn event(n: u64) -> Item {
    Item::Event(format!("event {n}").into_bytes())
}

/// Appends one item after the other, by their numbers, as long as there is room; gives the last
/// that was synced, and why the next one was not.
async fn until_full(journal: &Journal, item: impl Fn(u64) -> Item) -> (u64, JournalError) {
    let mut synced = 0;
    loop {
        match journal
            .append(vec![item(synced + 1)])
            .unwrap()
            .durable()
            .await
        {
            Ok(head) => {
                assert_eq!(head.seq, synced + 1);
                synced = head.seq;
            }
            Err(error) => return (synced, error),
        }
    }
}

// The disk fills: what was acknowledged is there, what was queued waits in order, nothing more may
// run, who waits is told; and when there is space, everything goes on without a restart
// (threat-model §9).
#[tokio::test]
async fn a_full_disk_recovers_by_itself() {
    let temp = tempfile::tempdir().unwrap();
    let (journal, room) = on_small(
        temp.path(),
        JournalOptions {
            segment_bytes: 1 << 20,
            ..small()
        },
        4000,
    );
    let (synced, error) = until_full(&journal, event).await;
    let mut queued = synced + 1;
    assert!(!journal.is_writing());
    assert!(matches!(error, JournalError::NoSpace(_)), "{error}");
    assert!(matches!(journal.health().state, JournalState::Full(_)));
    assert_eq!(
        verify(temp.path(), None).unwrap().problem,
        None,
        "no half batch is left"
    );
    let report = verify(temp.path(), None).unwrap();
    assert_eq!((report.records, report.unfinished), (synced, None));
    for _ in 0..5 {
        queued += 1;
        let ticket = journal.append(vec![event(queued)]).unwrap();
        assert_eq!(ticket.seq(), queued);
        assert!(matches!(
            ticket.durable().await,
            Err(JournalError::NoSpace(_))
        ));
    }
    journal.record(entry(1)).unwrap();
    assert!(matches!(
        journal.flush().await,
        Err(JournalError::NoSpace(_))
    ));
    room.store(1 << 20, Ordering::SeqCst);
    journal.writable().await.unwrap();
    assert!(journal.is_writing());
    assert_eq!(journal.wait_durable(queued).await.unwrap().seq, queued);
    let head = journal.flush().await.unwrap();
    assert_eq!(
        (head.seq, journal.health().lost),
        (queued + 1, 0),
        "the entry came last"
    );
    journal.close().await.unwrap();
    let records = read(temp.path()).unwrap();
    assert!(
        records
            .iter()
            .take_while(|record| record.seq <= queued)
            .all(|record| {
                record.event().unwrap() == format!("event {}", record.seq).as_bytes()
            })
    );
    assert_eq!(records.last().unwrap().entry().unwrap().unwrap(), entry(1));
    assert_eq!(verify(temp.path(), Some(head)).unwrap().problem, None);
}

// When no more can be reserved, nothing new may run, but what runs is still recorded in what is
// reserved already; what nobody waits for leaves that to the others.
#[tokio::test]
async fn outcomes_fit_into_what_is_reserved() {
    let temp = tempfile::tempdir().unwrap();
    let options = JournalOptions {
        segment_bytes: 20_000,
        reserve_bytes: 16_000,
        ..small()
    };
    let (journal, room) = on_small(temp.path(), options, 17_000);
    let mut seq = 0;
    while journal.is_writing() {
        seq = journal
            .append(vec![event(1)])
            .unwrap()
            .durable()
            .await
            .unwrap()
            .seq;
    }
    for n in 1..=40 {
        journal.record(entry(n)).unwrap();
        let head = journal
            .append(vec![event(2)])
            .unwrap()
            .durable()
            .await
            .unwrap();
        assert_eq!(head.seq, seq + n, "the entries are held back");
    }
    room.store(1 << 20, Ordering::SeqCst);
    journal.writable().await.unwrap();
    journal.flush().await.unwrap();
    let head = journal.close().await.unwrap();
    assert_eq!(
        (head.seq, verify(temp.path(), Some(head)).unwrap().problem),
        (seq + 80, None)
    );
}

// Closed on a full disk, it says so, and the next start goes on after what was acknowledged.
#[tokio::test]
async fn closing_on_a_full_disk_says_what_is_lost() {
    let temp = tempfile::tempdir().unwrap();
    let (journal, _) = on_small(temp.path(), small(), 1000);
    let ticket = journal.append(vec![event(1)]).unwrap();
    assert_eq!(ticket.durable().await.unwrap().seq, 1);
    let ticket = journal.append(vec![Item::Event(vec![1; 2000])]).unwrap();
    assert!(matches!(
        ticket.durable().await,
        Err(JournalError::NoSpace(_))
    ));
    assert!(matches!(
        journal.close().await,
        Err(JournalError::Poisoned(_))
    ));
    assert!(matches!(
        journal.append(vec![event(3)]),
        Err(JournalError::Poisoned(_))
    ));
    assert_eq!((journal.health().head.seq, journal.health().lost), (1, 1));
    let head = written(temp.path(), small(), 1, 1).await;
    assert_eq!(
        (head.seq, verify(temp.path(), Some(head)).unwrap().problem),
        (2, None)
    );
}

// What waits in memory is bounded.
#[tokio::test]
async fn a_full_disk_does_not_fill_the_memory() {
    let temp = tempfile::tempdir().unwrap();
    let (journal, _) = on_small(
        temp.path(),
        JournalOptions {
            queue_bytes: 1 << 20,
            ..small()
        },
        200,
    );
    let taken = (0..100)
        .take_while(|_| {
            journal
                .append(vec![Item::Event(vec![1; MAX_EVENT_BYTES])])
                .is_ok()
        })
        .count();
    assert_eq!(taken, 15);
    drop(journal);
}

#[tokio::test]
async fn a_failed_sync_is_never_tried_again() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open_on(
        temp.path(),
        small(),
        SealingKeys::default(),
        Box::new(|file| Box::new(Unsyncable(file))),
    )
    .unwrap();
    journal.record(entry(1)).unwrap();
    for _ in 0..2 {
        let error = journal.flush().await.unwrap_err();
        assert!(
            error.to_string().contains("the disk is gone") && error.to_string().contains("restart"),
            "{error}"
        );
    }
    assert_eq!((journal.health().syncs, journal.health().head.seq), (0, 0));
    // Who waited is told, who comes now is refused, and the process has what it needs to end.
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open_on(
        temp.path(),
        small(),
        SealingKeys::default(),
        Box::new(|file| Box::new(Unsyncable(file))),
    )
    .unwrap();
    let tickets: Vec<_> = (0..3)
        .map(|_| journal.append(vec![Item::Event(vec![1])]).unwrap())
        .collect();
    for ticket in tickets {
        assert!(matches!(
            ticket.durable().await,
            Err(JournalError::Poisoned(_))
        ));
    }
    assert!(matches!(journal.failed().await, JournalError::Poisoned(_)));
    assert!(matches!(
        journal.append(vec![Item::Event(vec![1])]),
        Err(JournalError::Poisoned(_))
    ));
    assert!(!journal.is_writing());
}

// A full queue is refused at once, callers that wait are not held up, and what was taken is
// written.
#[tokio::test]
async fn a_full_queue_is_refused_not_waited_for() {
    let queue = WriteQueue::new(
        &JournalOptions {
            queue: 4,
            ..small()
        },
        Head {
            seq: 0,
            hash: [0; 32],
        },
    );
    for n in 1..=3 {
        queue.push_behind(&RecordGroup::entry(entry(n))).unwrap();
    }
    assert!(
        matches!(
            queue.push_behind(&RecordGroup::entry(entry(4))),
            Err(JournalError::Full)
        ),
        "the rest is for what is waited for"
    );
    assert_eq!(
        queue.push(&RecordGroup::entry(entry(4)), true).unwrap(),
        4,
        "what was refused has no number"
    );
    assert!(matches!(
        queue.push(&RecordGroup::entry(entry(5)), true),
        Err(JournalError::Full)
    ));
    assert_eq!((queue.health().queued, queue.health().refused), (4, 2));
    assert_eq!(
        queue
            .take(None, None)
            .frames
            .iter()
            .map(frame::Frame::count)
            .collect::<Vec<_>>(),
        [4]
    );
    let more = queue.push(&RecordGroup::entry(entry(5)), true);
    assert!(
        matches!(more, Err(JournalError::Full)),
        "what the writer is at comes back when it does not fit"
    );
    // It was written: the writer asks for more.
    queue.take(Some(Duration::ZERO), None);
    queue.push(&RecordGroup::entry(entry(5)), true).unwrap();
}

// A real full file system, where one can be mounted.
#[tokio::test]
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
async fn a_full_file_system_is_said_and_survived() {
    let temp = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
        .arg(temp.path())
        .output()
        .is_ok_and(|done| done.status.success());
    if !mounted {
        eprintln!("SKIPPED: no such file system can be mounted here; run as root to try it");
        return;
    }
    let (data, ballast) = (temp.path().join("data"), temp.path().join("ballast"));
    fs::write(&ballast, vec![1; 64 << 10]).unwrap();
    let options = JournalOptions {
        reserve_bytes: 64 << 10,
        look_every: Duration::from_millis(1),
        ..JournalOptions::default()
    };
    let journal = Journal::open(&data, options).unwrap();
    let (synced, error) = until_full(&journal, |n| entry(n).into()).await;
    assert!(error.to_string().contains("No space left"), "{error}");
    assert_eq!(read(&data).unwrap().len() as u64, synced);
    assert_eq!(verify(&data, None).unwrap().problem, None);
    fs::remove_file(&ballast).unwrap();
    journal.writable().await.unwrap();
    assert_eq!(
        journal.wait_durable(synced + 1).await.unwrap().seq,
        synced + 1
    );
    drop(journal);
    let report = verify(&data, None).unwrap();
    assert_eq!((report.problem, report.records), (None, synced + 1));
    assert!(
        std::process::Command::new("umount")
            .arg(temp.path())
            .status()
            .unwrap()
            .success()
    );
}
