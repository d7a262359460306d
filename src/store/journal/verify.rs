//! Whether the journal is as it was written: every flipped byte, lost or exchanged batch and missing segment shows; a
//! removed tail shows against a head that was kept elsewhere (SECURITY §3G, G2 and G3).

use super::chain::Head;
use super::error::{Error, Problem};
use super::summary::{self, Summary};
use super::walk::{Step, Walk};
use super::{frame, place};
use std::path::Path;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Records that are as they were written.
    pub records: u64,
    /// The batches they stand in.
    pub batches: u64,
    /// The segments these stand in.
    pub segments: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The last record that was dropped, with all before it, and that a sealed summary stands for; 0 when none was.
    pub dropped: u64,
    /// Where the journal stands: to be kept elsewhere.
    pub head: Head,
    /// A last batch that was only begun: a writer is at it, or was killed at it. No harm: nobody was told it was
    /// written, and the next start cuts it off.
    pub unfinished: Option<Unfinished>,
    /// The first thing that is wrong.
    pub problem: Option<Problem>,
}

/// A batch that was only begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The segment's file name.
    pub segment: String,
    /// Where in it, in bytes.
    pub offset: u64,
}

/// Reads all of the journal of the data directory `data`. `expected` is a head this journal once had. An error means
/// that it could not be read, not that something is wrong with what was read.
pub fn verify(data: &Path, expected: Option<Head>) -> Result<Report, Error> {
    let head = Head { seq: 0, hash: [0; 32] };
    let mut report =
        Report { records: 0, batches: 0, segments: 0, bytes: 0, dropped: 0, head, unfinished: None, problem: None };
    match look(data, expected, &mut report) {
        Err(Error::Damaged(problem)) => report.problem = Some(problem),
        done => done?,
    }
    Ok(report)
}

/// Fills `report`; what is wrong is an error.
fn look(data: &Path, expected: Option<Head>, report: &mut Report) -> Result<(), Error> {
    let mut walk = Walk::begin(data)?;
    let mut seal = match Summary::open(&place::journal_dir(data))? {
        Some(mut summary) => Some(summary.check()?),
        None => None,
    };
    report.dropped = walk.base.map_or(0, |base| base.last);
    let mut met = expected.is_none_or(|expected| walk.base.is_some() && expected == walk.head);
    loop {
        let step = walk.step();
        report.head = walk.head;
        match step? {
            Step::Segment(header) => {
                report.segments += 1;
                report.bytes += super::segment::HEADER;
                if walk.base.is_none() && report.segments == 1 && (header.number != 1 || header.first != 1) {
                    return Err(Error::Damaged(before(&walk, header.first)));
                }
            }
            Step::Batch(batch) => {
                report.batches += 1;
                report.records += u64::from(batch.header.count);
                report.bytes += batch.size;
                let mut records = frame::each(batch.payload);
                seal.take_if(|seal| records.any(|(kind, bytes)| kind == frame::SEAL && bytes == seal.as_slice()));
            }
            Step::End { unfinished } => {
                let (segment, offset) = walk.position();
                report.unfinished = unfinished.then_some(Unfinished { segment, offset });
                break;
            }
        }
        met |= expected == Some(walk.head);
    }
    match (expected, seal) {
        (_, Some(_)) => Err(Error::Damaged(unvouched(report.dropped))),
        (Some(expected), None) if !met => Err(Error::Damaged(unmet(&walk, expected))),
        _ => Ok(()),
    }
}

fn unvouched(last: u64) -> Problem {
    let what = "no record of the journal vouches for this summary: it was changed or exchanged, or the journal's end was removed";
    Problem { segment: summary::name(last), offset: 0, seq: last, what: what.to_owned() }
}

fn before(walk: &Walk, first: u64) -> Problem {
    let what = "the segments before this one are missing".to_owned();
    Problem { segment: walk.position().0, offset: 0, seq: first, what }
}

fn unmet(walk: &Walk, expected: Head) -> Problem {
    let (segment, offset) = walk.position();
    if let Some(base) = walk.base.filter(|base| expected.seq < base.last) {
        let what =
            format!("the records up to {} were dropped, and the expected head with them; keep a newer one", base.last);
        return Problem { segment: summary::name(base.last), offset: 0, seq: expected.seq, what };
    }
    if walk.head.seq < expected.seq {
        let seq = walk.head.seq + 1;
        let what = format!("the journal ends here; records {seq} to {} were removed", expected.seq);
        return Problem { segment, offset, seq, what };
    }
    let what = "the expected head is not in this journal: it was rewritten up to this record, or is another journal's";
    Problem { segment, offset, seq: expected.seq, what: what.to_owned() }
}
