//! Where the verbs of `toolgate ledger` write what they read: lines to standard output, what cannot be
//! read to standard error.

use super::text::plain;
use crate::cli::printed::is_closed_pipe;
use crate::store::journal::JournalError;
use std::collections::VecDeque;
use std::io::Write;

/// Where a verb writes, and how it has gone so far.
pub(super) struct LedgerOutput<'o> {
    pub(super) out: &'o mut dyn Write,
    pub(super) err: &'o mut dyn Write,
    /// The exit code: 0, or 1 once something could not be read.
    pub(super) code: u8,
}

impl<'o> LedgerOutput<'o> {
    pub(super) fn new(out: &'o mut dyn Write, err: &'o mut dyn Write) -> Self {
        Self { out, err, code: 0 }
    }

    /// What was read; none where one record cannot be, which is said, and the others are gone on with.
    ///
    /// # Errors
    /// No further record can be read, or nothing can be written.
    pub(super) fn readable<T>(
        &mut self,
        read: Result<T, JournalError>,
    ) -> anyhow::Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error @ JournalError::Unreadable { .. }) => {
                writeln!(self.err, "{error}")?;
                self.code = 1;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Says why the ledger of `server` cannot be read, so that those beside it can be gone on with.
    ///
    /// # Errors
    /// That of a ledger that stands alone, or nobody reads any more.
    pub(super) fn unread(
        &mut self,
        server: Option<&str>,
        error: anyhow::Error,
    ) -> anyhow::Result<()> {
        let Some(server) = server.filter(|_| !is_closed_pipe(&error)) else {
            return Err(error);
        };
        let why = plain(&format!("{server}: {error:#}"));
        writeln!(self.err, "toolgate: {why}")?;
        self.code = 1;
        Ok(())
    }

    /// The exit code of what was `done`: where nobody reads any more, what could not be read until then
    /// still counts.
    ///
    /// # Errors
    /// As `done`, if there is none yet.
    pub(super) fn code_of(&self, done: anyhow::Result<u8>) -> anyhow::Result<u8> {
        match done {
            Err(error) if self.code > 0 && is_closed_pipe(&error) => Ok(self.code),
            done => done,
        }
    }

    /// Writes a line.
    pub(super) fn line(&mut self, line: &str) -> std::io::Result<()> {
        writeln!(self.out, "{line}")
    }
}

/// The newest of what fits, as many as are asked for.
pub(super) struct Newest<T> {
    limit: usize,
    kept: VecDeque<T>,
}

impl<T> Newest<T> {
    /// At most `limit` of them.
    pub(super) fn at_most(limit: u32) -> Self {
        Self {
            limit: limit as usize,
            kept: VecDeque::new(),
        }
    }

    /// At most `limit` of them, or all where that is 0.
    pub(super) fn limited(limit: u32) -> Self {
        match limit {
            0 => Self {
                limit: usize::MAX,
                kept: VecDeque::new(),
            },
            limit => Self::at_most(limit),
        }
    }

    pub(super) fn push(&mut self, newest: T) {
        self.kept.push_back(newest);
        if self.kept.len() > self.limit {
            self.kept.pop_front();
        }
    }

    /// From the oldest to the newest.
    pub(super) fn into_all(self) -> VecDeque<T> {
        self.kept
    }
}
