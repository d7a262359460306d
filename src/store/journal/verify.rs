//! Whether the journal is as it was written: every flipped byte, lost or exchanged batch and
//! missing segment shows; a removed tail shows against a head that was kept elsewhere
//! (threat-model §3G, G2 and G3).

use super::chain::{Hash, Head};
use super::error::{JournalDamage, JournalError};
use super::frame::Batch;
use super::seal::{SealWatch, SealedStretch, SealingKeys};
use super::summary::{self, Summary};
use super::walk::{JournalWalk, WalkStep};
use super::{data_dir, frame};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a journal is checked against, besides itself. The default is nothing.
#[derive(Debug, Clone, Default)]
pub struct VerifyOptions {
    /// The keys that sealed it.
    pub keys: SealingKeys,
    /// A head this journal once had, which it has to have still.
    pub expected: Option<Head>,
    /// Heads this journal once had; those of records that were dropped are passed over.
    pub heads: Vec<Head>,
    /// Where dropped segments are.
    pub archive: Option<PathBuf>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// Records that are as they were written.
    pub records: u64,
    /// The batches they stand in.
    pub batches: u64,
    /// The segments these stand in.
    pub segments: u64,
    /// Bytes read, as they were written: compressed segments are shorter on the disk.
    pub bytes: u64,
    /// The last record that was dropped, with all before it, and that a sealed summary stands for;
    /// 0 when none was.
    pub dropped: u64,
    /// Where the journal stands: to be kept elsewhere.
    pub head: Head,
    /// Which records which key sealed, in order.
    pub stretches: Vec<SealedStretch>,
    /// How many of the heads it was checked against it has; and how many are of records that were
    /// dropped.
    pub met: u64,
    /// How many of them are of records that were dropped.
    pub passed_over: u64,
    /// A last batch that was only begun: a writer is at it, or was killed at it. No harm: nobody
    /// was told it was written, and the next start cuts it off.
    pub unfinished: Option<UnfinishedBatch>,
    /// The first thing that is wrong.
    pub problem: Option<JournalDamage>,
}

/// A batch that was only begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedBatch {
    /// The segment's file name.
    pub segment: String,
    /// Where in it, in bytes.
    pub offset: u64,
}

/// As [`check`], against a head this journal once had.
pub fn verify(data: &Path, expected: Option<Head>) -> Result<VerifyReport, JournalError> {
    check(
        data,
        &VerifyOptions {
            expected,
            ..VerifyOptions::default()
        },
    )
}

/// Reads all of the journal of the data directory `data`, and what was archived of it. An error
/// means that it could not be read, not that something is wrong with what was read.
pub fn check(data: &Path, against: &VerifyOptions) -> Result<VerifyReport, JournalError> {
    check_telling(data, against, &|_| ())
}

/// As [`check`]; `told` is told again and again how many bytes have been read.
pub fn check_telling(
    data: &Path,
    against: &VerifyOptions,
    told: &dyn Fn(u64),
) -> Result<VerifyReport, JournalError> {
    let mut report = VerifyReport {
        records: 0,
        batches: 0,
        segments: 0,
        bytes: 0,
        dropped: 0,
        head: Head {
            seq: 0,
            hash: [0; 32],
        },
        stretches: Vec::new(),
        met: 0,
        passed_over: 0,
        unfinished: None,
        problem: None,
    };
    let mut watch = SealWatch::new(&against.keys);
    let looked = verify_records(data, against, &mut watch, &mut report, told);
    report.stretches = watch.stretches;
    match looked {
        Err(JournalError::Damaged(problem)) => report.problem = Some(problem),
        done => done?,
    }
    Ok(report)
}

/// Fills `report`; what is wrong is an error.
fn verify_records(
    data: &Path,
    against: &VerifyOptions,
    watch: &mut SealWatch<'_>,
    report: &mut VerifyReport,
    told: &dyn Fn(u64),
) -> Result<(), JournalError> {
    let mut walk = JournalWalk::begin_before(data, against.archive.as_deref(), 0)?;
    let mut seal = match Summary::open(&data_dir::journal_dir(data))? {
        Some(mut summary) => Some(summary.check(&against.keys)?),
        None => None,
    };
    report.dropped = walk.base.map_or(0, |base| base.last);
    let mut wanted = ExpectedHeads::new(against);
    if walk.base.is_some_and(|base| base.after == walk.head.hash) {
        wanted.pass(walk.head);
    }
    loop {
        let step = walk.step();
        report.head = walk.head;
        match step? {
            WalkStep::Segment(header) => {
                report.segments += 1;
                report.bytes += super::segment::SEGMENT_HEADER_BYTES;
                if report.segments == 1 && begins_late(&walk, against.archive.is_some(), &header) {
                    return Err(JournalError::Damaged(before(&walk, header.first)));
                }
                watch.segment(&header);
            }
            WalkStep::Batch(batch) => {
                let sealed = watch.batch(&batch).map_err(|wrong| wrong.to_string());
                sealed
                    .and_then(|()| follows(&walk))
                    .map_err(|what| JournalError::Damaged(at(&walk, &batch, what)))?;
                report.batches += 1;
                report.records += u64::from(batch.header.count);
                report.bytes += batch.size;
                let mut records = frame::each(batch.payload);
                seal.take_if(|seal| {
                    records.any(|(kind, bytes)| {
                        kind == frame::SUMMARY_SEAL_RECORD && bytes == seal.as_slice()
                    })
                });
            }
            WalkStep::End { unfinished } => {
                let (segment, offset) = walk.position();
                report.unfinished = unfinished.then_some(UnfinishedBatch { segment, offset });
                break;
            }
        }
        wanted.pass(walk.head);
        told(report.bytes);
    }
    watch
        .end()
        .map_err(|wrong| JournalError::Damaged(walk.wrong(wrong.to_string())))?;
    if seal.is_some() {
        return Err(JournalError::Damaged(unvouched(report.dropped)));
    }
    wanted.settle(&walk, report)
}

/// Heads that have not been met yet.
struct ExpectedHeads {
    expected: Option<Head>,
    left: BTreeMap<u64, Vec<Hash>>,
    met: u64,
}

impl ExpectedHeads {
    fn new(against: &VerifyOptions) -> Self {
        let mut left: BTreeMap<u64, Vec<Hash>> = BTreeMap::new();
        for head in against.expected.iter().chain(&against.heads) {
            left.entry(head.seq).or_default().push(head.hash);
        }
        Self {
            expected: against.expected,
            left,
            met: 0,
        }
    }

    /// The journal stood at `head`.
    fn pass(&mut self, head: Head) {
        let Some(hashes) = self.left.get_mut(&head.seq) else {
            return;
        };
        let before = hashes.len();
        hashes.retain(|hash| *hash != head.hash);
        self.met += (before - hashes.len()) as u64;
        if hashes.is_empty() {
            self.left.remove(&head.seq);
        }
    }

    /// What is left is of what was dropped, or of what another process took away.
    fn settle(mut self, walk: &JournalWalk, report: &mut VerifyReport) -> Result<(), JournalError> {
        report.met = self.met;
        let oldest = report.head.seq - report.records;
        let unmet_expected = |expected: &Head| {
            self.left
                .get(&expected.seq)
                .is_some_and(|left| left.contains(&expected.hash))
        };
        if let Some(expected) = self.expected.filter(unmet_expected) {
            return Err(JournalError::Damaged(unmet(walk, expected)));
        }
        let later = self.left.split_off(&oldest);
        report.passed_over = self.left.values().map(|hashes| hashes.len() as u64).sum();
        match later.into_iter().next() {
            Some((seq, hashes)) => Err(JournalError::Damaged(unmet(
                walk,
                Head {
                    seq,
                    hash: hashes[0],
                },
            ))),
            None => Ok(()),
        }
    }
}

/// Whether segments before the first one that is there are missing.
fn begins_late(walk: &JournalWalk, archived: bool, header: &super::segment::SegmentHeader) -> bool {
    match walk.base {
        None => header.number != 1 || header.first != 1,
        Some(base) if archived && base.archived > 0 => header.first > base.archived,
        Some(_) => false,
    }
}

/// Whether what is archived is what the summary stands for.
fn follows(walk: &JournalWalk) -> Result<(), String> {
    match walk.base {
        Some(base) if base.last == walk.head.seq && base.after != walk.head.hash => {
            Err("the archive ends with something else than what was dropped".to_owned())
        }
        _ => Ok(()),
    }
}

/// What is wrong with the batch that the way has just passed.
fn at(walk: &JournalWalk, batch: &Batch, what: String) -> JournalDamage {
    let (segment, offset) = walk.position();
    JournalDamage {
        segment,
        offset: offset - batch.size,
        seq: batch.header.first,
        what,
    }
}

fn unvouched(last: u64) -> JournalDamage {
    let what = "no record of the journal vouches for this summary: it was changed or exchanged, or the journal's end was removed";
    JournalDamage {
        segment: summary::name(last),
        offset: 0,
        seq: last,
        what: what.to_owned(),
    }
}

fn before(walk: &JournalWalk, first: u64) -> JournalDamage {
    let what = "the segments before this one are missing".to_owned();
    JournalDamage {
        segment: walk.position().0,
        offset: 0,
        seq: first,
        what,
    }
}

fn unmet(walk: &JournalWalk, expected: Head) -> JournalDamage {
    let (segment, offset) = walk.position();
    if let Some(base) = walk.base.filter(|base| expected.seq < base.last) {
        let what = format!(
            "the records up to {} were dropped, and the expected head with them; keep a newer one",
            base.last
        );
        return JournalDamage {
            segment: summary::name(base.last),
            offset: 0,
            seq: expected.seq,
            what,
        };
    }
    if walk.head.seq < expected.seq {
        let seq = walk.head.seq + 1;
        let what = format!(
            "the journal ends here; records {seq} to {} were removed",
            expected.seq
        );
        return JournalDamage {
            segment,
            offset,
            seq,
            what,
        };
    }
    let what = "the expected head is not in this journal: it was rewritten up to this record, or is another journal's";
    JournalDamage {
        segment,
        offset,
        seq: expected.seq,
        what: what.to_owned(),
    }
}
