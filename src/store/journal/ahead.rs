//! The space ahead of what is written: reserved, so that calls in flight are still recorded when the
//! disk is full; and the next part of it filled with zeros, so that a sync writes records and changes
//! nothing of what the file system knows of the file, which costs more than the records.
//!
//! Zeros are written behind the answers, by the thread that writes: the sync of a file waits for all
//! that is written to it, so that a thread of its own would hold up the same calls. They lie within
//! what is reserved, and a reader takes them for the end: a crash at any moment leaves what it would
//! have left without them.

use super::error::WriteFailure;
use super::medium::Medium;
use crate::failpoint;

/// When this part of what is reserved ahead is used, more is reserved, at least as much.
const SLACK_DIVISOR: u64 = 8;
/// And this part of it at most: what is used fast is reserved and filled in larger strides.
const STRIDE_DIVISOR: u64 = 2;
/// Zeros are written by so many bytes at a time.
const ZEROS_BYTES: usize = 128 << 10;

/// The space ahead in a segment; offsets from its start, in bytes.
#[derive(Debug)]
pub(super) struct SpaceAhead {
    /// Bytes that stay reserved beyond what is written, but for the slack; 0: nothing is reserved.
    kept: u64,
    /// Up to here it is reserved.
    reserved: u64,
    /// Up to here there are records or zeros.
    filled: u64,
    /// Bytes that are reserved, or filled, the next time.
    stride: u64,
}

impl SpaceAhead {
    /// None yet beyond `offset`; `kept` bytes are to stay reserved.
    pub(super) fn new(kept: u64, offset: u64) -> Self {
        Self {
            kept,
            reserved: offset,
            filled: offset,
            stride: kept / SLACK_DIVISOR,
        }
    }

    /// A segment is written up to `offset`, and reserved up to `reserved`.
    pub(super) fn begin(&mut self, offset: u64, reserved: u64) {
        (self.filled, self.reserved) = (offset, reserved);
    }

    /// Whether the segment may be written up to `end` when no more can be reserved.
    pub(super) fn covers(&self, end: u64) -> bool {
        self.kept == 0 || end <= self.reserved
    }

    /// Keeps space reserved beyond `end`. [`WriteFailure::Full`] when no more can be had: what is
    /// reserved stays so.
    pub(super) fn keep(&mut self, medium: &dyn Medium, end: u64) -> Result<(), WriteFailure> {
        let slack = self.slack();
        if self.kept == 0 || end + self.kept - slack <= self.reserved {
            return Ok(());
        }
        let least = end + self.kept;
        let upto = least + self.stride.saturating_sub(slack);
        match medium.reserve(upto).map_err(WriteFailure::from) {
            Err(WriteFailure::Full(_)) if upto > least => {
                self.stride = slack;
                medium.reserve(least)?;
                self.reserved = least;
            }
            done => {
                done?;
                self.reserved = upto;
            }
        }
        Ok(())
    }

    /// Fills what comes next with zeros, where little of that is left beyond `written`; not beyond
    /// `limit`, where the segment ends. Without room nothing is missing: it costs only speed.
    pub(super) fn fill(
        &mut self,
        medium: &dyn Medium,
        written: u64,
        limit: u64,
    ) -> Result<(), WriteFailure> {
        let slack = self.slack();
        let from = self.filled.max(written);
        let upto = (written + slack + self.stride)
            .min(self.reserved)
            .min(limit);
        if self.kept == 0 || self.filled >= written + slack || from >= upto {
            return Ok(());
        }
        let middle = from + (upto - from) / 2;
        let filled = zeros(medium, from, middle).and_then(|()| {
            // The first zeros of a process belong to no call.
            if self.stride > slack {
                failpoint::reached("fill");
            }
            zeros(medium, middle, upto)
        });
        if let Err(stop @ WriteFailure::Failed(_)) = filled {
            return Err(stop);
        }
        self.filled = upto;
        self.stride = (self.stride * 2).min(self.kept / STRIDE_DIVISOR);
        Ok(())
    }

    fn slack(&self) -> u64 {
        self.kept / SLACK_DIVISOR
    }
}

/// Writes zeros from `from` to `upto`.
fn zeros(medium: &dyn Medium, mut from: u64, upto: u64) -> Result<(), WriteFailure> {
    let zeros = vec![0; ZEROS_BYTES];
    while from < upto {
        let left = usize::try_from(upto - from).unwrap_or(ZEROS_BYTES);
        let some = &zeros[..left.min(ZEROS_BYTES)];
        medium.write(some, from)?;
        from += some.len() as u64;
    }
    Ok(())
}
