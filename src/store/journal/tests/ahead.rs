//! guarantees §8: what comes next is filled with zeros, behind the answers: never over a record,
//! never between a record and its sync, and a crash in between leaves a journal that opens.

use super::*;
use crate::store::journal::ahead::SpaceAhead;
use crate::store::journal::medium::Medium;
use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes reserved ahead in these scenarios; an eighth of them is the slack.
const KEPT_BYTES: u64 = 16_000;
const SLACK_BYTES: u64 = KEPT_BYTES / 8;

/// What was done to a segment, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Record { at: u64, end: u64 },
    Zeros { at: u64, end: u64 },
    Reserve(u64),
    Sync,
}

/// A medium that notes what is done to it, and fails at some of it.
struct Noting {
    file: Option<File>,
    deeds: Arc<Mutex<Vec<Deed>>>,
    /// What the write of zeros with this number, from 1, says.
    failing: Option<(usize, io::ErrorKind)>,
    /// Reserving beyond this says that there is no room.
    room: u64,
}

impl Noting {
    fn is_zeros(deed: Deed) -> bool {
        matches!(deed, Deed::Zeros { .. })
    }
}

impl Medium for Noting {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let end = at + bytes.len() as u64;
        let mut deeds = self.deeds.lock();
        if bytes.iter().any(|byte| *byte != 0) {
            deeds.push(Deed::Record { at, end });
        } else {
            deeds.push(Deed::Zeros { at, end });
            let nth = deeds.iter().filter(|deed| Self::is_zeros(**deed)).count();
            if let Some((_, kind)) = self.failing.filter(|(failing, _)| *failing == nth) {
                return Err(kind.into());
            }
        }
        let file = self.file.as_ref();
        file.map_or(Ok(()), |file| file.write_all_at(bytes, at))
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        if length > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.deeds.lock().push(Deed::Reserve(length));
        self.file.as_ref().map_or(Ok(()), |file| {
            file.set_len(length.max(file.metadata()?.len()))
        })
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.file
            .as_ref()
            .map_or(Ok(()), |file| file.set_len(length))
    }

    fn sync(&self) -> io::Result<()> {
        self.deeds.lock().push(Deed::Sync);
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }
}

/// A journal in one segment whose medium notes everything, and what it has noted.
fn noting(
    data: &Path,
    failing: Option<(usize, io::ErrorKind)>,
) -> (Journal, Arc<Mutex<Vec<Deed>>>) {
    let deeds = Arc::new(Mutex::new(Vec::new()));
    let of = Arc::clone(&deeds);
    let wrap = Box::new(move |file| -> Box<dyn Medium> {
        Box::new(Noting {
            file: Some(file),
            deeds: Arc::clone(&of),
            failing,
            room: u64::MAX,
        })
    });
    let options = JournalOptions {
        segment_bytes: 1 << 20,
        reserve_bytes: KEPT_BYTES,
        ..small()
    };
    let journal = Journal::open_on(data, options, SealingKeys::default(), wrap).unwrap();
    (journal, deeds)
}

/// Event number `n`, of which a few use up a stride.
fn event(n: u64) -> Item {
    Item::Event(format!("event {n} {}", "-".repeat(500)).into_bytes())
}

#[tokio::test]
async fn zeros_come_behind_the_answers_and_never_over_a_record() {
    let temp = tempfile::tempdir().unwrap();
    let (journal, deeds) = noting(temp.path(), None);
    for n in 1..=100 {
        journal
            .append(vec![event(n)])
            .unwrap()
            .durable()
            .await
            .unwrap();
    }
    journal.close().await.unwrap();
    let (mut written, mut filled, mut unsynced) = (0, 0, false);
    for deed in deeds.lock().iter() {
        match *deed {
            Deed::Record { at, end } => {
                assert!(at >= written, "{deed:?}");
                assert!(end <= filled, "into zeros: {deed:?}");
                (written, unsynced) = (end, true);
            }
            Deed::Zeros { at, end } => {
                assert!(at >= written.max(filled), "{deed:?}");
                assert!(!unsynced, "a caller waits: {deed:?}");
                filled = end;
            }
            Deed::Reserve(_) => {}
            Deed::Sync => unsynced = false,
        }
    }
    let zeros = deeds
        .lock()
        .iter()
        .filter(|deed| Noting::is_zeros(**deed))
        .count();
    assert!((6..40).contains(&zeros), "in strides: {zeros}");
    let report = verify(temp.path(), None).unwrap();
    assert_eq!((report.problem, report.records), (None, 100));
    let length = fs::metadata(&segments(temp.path())[0]).unwrap().len();
    assert_eq!(length, report.bytes, "what is left of the zeros is cut");
}

// The process ends while zeros are written: what was acknowledged is there, and what follows reads
// as the end.
#[tokio::test]
async fn a_crash_among_zeros_leaves_a_journal_that_opens() {
    for nth in [1, 2, 3, 4, 6] {
        let temp = tempfile::tempdir().unwrap();
        let (journal, _) = noting(temp.path(), Some((nth, io::ErrorKind::BrokenPipe)));
        let mut synced = 0;
        while let Ok(ticket) = journal.append(vec![event(synced + 1)]) {
            match ticket.durable().await {
                Ok(head) => synced = head.seq,
                Err(error) => {
                    assert!(matches!(error, JournalError::Poisoned(_)), "{error}");
                    break;
                }
            }
        }
        drop(journal);
        let report = verify(temp.path(), None).unwrap();
        assert_eq!((report.problem, report.unfinished), (None, None), "{nth}");
        assert_eq!(report.records, synced, "{nth}");
        let head = written(temp.path(), small(), 1, 1).await;
        assert_eq!(head.seq, synced + 1, "{nth}");
        assert_eq!(verify(temp.path(), Some(head)).unwrap().problem, None);
    }
}

// A file system that reserves nothing may have no room for zeros: that costs only speed.
#[tokio::test]
async fn without_room_for_zeros_records_are_written_all_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let (journal, _) = noting(temp.path(), Some((2, io::ErrorKind::StorageFull)));
    for n in 1..=60 {
        let head = journal.append(vec![event(n)]).unwrap().durable().await;
        assert_eq!(head.unwrap().seq, n);
    }
    assert!(journal.is_writing());
    let head = journal.close().await.unwrap();
    assert_eq!(verify(temp.path(), Some(head)).unwrap().problem, None);
}

/// A medium without a file, with `room` for so many bytes.
fn bare(room: u64) -> (Noting, Arc<Mutex<Vec<Deed>>>) {
    let deeds = Arc::new(Mutex::new(Vec::new()));
    let medium = Noting {
        file: None,
        deeds: Arc::clone(&deeds),
        failing: None,
        room,
    };
    (medium, deeds)
}

// What is used fast is reserved and filled in larger strides, up to half of what is kept; never
// beyond the segment's end, and never beyond what is reserved.
#[test]
fn strides_grow_and_end_with_the_segment() {
    let (medium, deeds) = bare(u64::MAX);
    let (mut ahead, mut written) = (SpaceAhead::new(KEPT_BYTES, 96), 96);
    let limit = 60_000;
    let (mut reserved, mut filled) = (0, 0);
    while written < limit {
        ahead.keep(&medium, written).unwrap();
        ahead.fill(&medium, written, limit).unwrap();
        for deed in deeds.lock().drain(..) {
            match deed {
                Deed::Reserve(upto) => reserved = upto,
                Deed::Zeros { end, .. } => filled = end,
                Deed::Record { .. } | Deed::Sync => panic!("{deed:?}"),
            }
        }
        assert!(reserved >= written + KEPT_BYTES - SLACK_BYTES);
        assert!(reserved <= written + KEPT_BYTES + KEPT_BYTES / 2);
        assert!(filled >= (written + SLACK_BYTES).min(limit) && filled <= limit);
        assert!(ahead.covers(reserved) && !ahead.covers(reserved + 1));
        written += 700;
    }
    assert_eq!(filled, limit);
}

// Where a large stride has no room, a small one may have; what is left when none has is as much as
// ever was.
#[test]
fn without_room_for_a_stride_as_much_as_ever_is_reserved() {
    let room = 96 + 3 * KEPT_BYTES;
    let (medium, deeds) = bare(room);
    let (mut ahead, mut written) = (SpaceAhead::new(KEPT_BYTES, 96), 96);
    let full = loop {
        match ahead.keep(&medium, written) {
            Ok(()) => ahead.fill(&medium, written, u64::MAX).unwrap(),
            Err(full) => break full,
        }
        written += 500;
    };
    assert!(matches!(full, error::WriteFailure::Full(_)), "{full:?}");
    let done = deeds.lock().clone();
    let reserved = done.iter().rev().find_map(|deed| match deed {
        Deed::Reserve(upto) => Some(*upto),
        Deed::Record { .. } | Deed::Zeros { .. } | Deed::Sync => None,
    });
    let reserved = reserved.unwrap();
    assert!(reserved > room - SLACK_BYTES - 500, "{reserved} of {room}");
    assert!(ahead.covers(reserved));
}

#[test]
fn nothing_is_filled_where_nothing_is_reserved() {
    let (medium, deeds) = bare(u64::MAX);
    let mut ahead = SpaceAhead::new(0, 96);
    ahead.keep(&medium, 5_000).unwrap();
    ahead.fill(&medium, 5_000, 1 << 20).unwrap();
    assert!(ahead.covers(u64::MAX) && deeds.lock().is_empty());
}
