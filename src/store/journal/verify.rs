//! Whether the journal is as it was written: every flipped byte, lost or exchanged batch and missing segment shows; a
//! removed tail shows against a head that was kept elsewhere (SECURITY §3G, G2 and G3).

use super::chain::Head;
use super::error::{Error, Problem};
use super::walk::{Step, Walk};
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
    let mut walk = Walk::begin(data)?;
    let (head, unfinished, problem) = (walk.head, None, None);
    let mut report = Report { records: 0, batches: 0, segments: 0, bytes: 0, head, unfinished, problem };
    let mut met = expected.is_none();
    loop {
        match walk.step() {
            Ok(Step::Segment(header)) => {
                report.segments += 1;
                report.bytes += super::segment::HEADER;
                if report.segments == 1 && (header.number != 1 || header.first != 1) {
                    report.problem = Some(before(&walk, header.first));
                    break;
                }
            }
            Ok(Step::Batch(batch)) => {
                report.batches += 1;
                report.records += u64::from(batch.header.count);
                report.bytes += batch.size;
            }
            Ok(Step::End { unfinished }) => {
                let (segment, offset) = walk.position();
                report.unfinished = unfinished.then_some(Unfinished { segment, offset });
                break;
            }
            Err(Error::Damaged(problem)) => {
                report.problem = Some(problem);
                break;
            }
            Err(error) => return Err(error),
        }
        met |= expected == Some(walk.head);
    }
    report.head = walk.head;
    if let (Some(expected), None, false) = (expected, &report.problem, met) {
        report.problem = Some(unmet(&walk, expected));
    }
    Ok(report)
}

fn before(walk: &Walk, first: u64) -> Problem {
    let what = "the segments before this one are missing".to_owned();
    Problem { segment: walk.position().0, offset: 0, seq: first, what }
}

fn unmet(walk: &Walk, expected: Head) -> Problem {
    let (segment, offset) = walk.position();
    if walk.head.seq < expected.seq {
        let seq = walk.head.seq + 1;
        let what = format!("the journal ends here; records {seq} to {} were removed", expected.seq);
        return Problem { segment, offset, seq, what };
    }
    let what = "the expected head is not in this journal: it was rewritten up to this record, or is another journal's";
    Problem { segment, offset, seq: expected.seq, what: what.to_owned() }
}
