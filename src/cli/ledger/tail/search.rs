//! The last lines of a ledger, read from its end: as many segments as they take, and all only where fewer
//! lines fit than are asked for.

use crate::cli::ledger::calls::LedgerCalls;
use crate::cli::ledger::output::{LedgerOutput, Newest};
use crate::cli::ledger::{LedgerLocation, reading};
use crate::store::journal::segment_starts;
use std::collections::VecDeque;
use std::io;

/// What stands at the end of a ledger.
pub(super) struct LedgerEnd {
    /// At the end, to go on with what is written from now on.
    pub(super) calls: LedgerCalls,
    /// From the oldest to the newest.
    pub(super) lines: VecDeque<String>,
}

/// The newest `most` of the lines that `next` gives of the ledger at `place`; twice as many segments are
/// read where that was not enough, so that each is read twice on average.
pub(super) fn read(
    place: &LedgerLocation<'_>,
    most: u32,
    output: &mut LedgerOutput<'_>,
    mut next: impl FnMut(&mut LedgerCalls, &mut LedgerOutput<'_>) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<LedgerEnd> {
    let starts = segment_starts(place.data, place.archive)?;
    let (mut from, mut back) = (starts.len(), 1);
    loop {
        from = from.saturating_sub(back);
        back *= 2;
        let after = match starts.get(from) {
            Some(first) if from > 0 => first.saturating_sub(1),
            // From the beginning, whatever that is.
            Some(_) | None => 0,
        };
        let mut calls = LedgerCalls::after_in(place.data, place.archive, after)?.and_messages();
        let mut gathered = GatheredLines::at_most(most);
        let (mut sink, mut said) = (io::sink(), Vec::new());
        let mut unheard = LedgerOutput::new(&mut sink, &mut said);
        let done = gathered.fill(|| next(&mut calls, &mut unheard));
        let code = unheard.code;
        // One line at least: that a name was never met can be said of a whole ledger only.
        let is_enough = gathered.fitting >= most.max(1) && !calls.lacks_begin();
        if is_enough || from == 0 || done.is_err() {
            // What cannot be read is said once.
            output.err.write_all(&said)?;
            output.code = output.code.max(code);
            done?;
            let lines = gathered.newest.into_all();
            return Ok(LedgerEnd { calls, lines });
        }
    }
}

/// The newest lines, and how many there were.
struct GatheredLines {
    newest: Newest<String>,
    fitting: u32,
}

impl GatheredLines {
    fn at_most(most: u32) -> Self {
        let newest = Newest::at_most(most);
        Self { newest, fitting: 0 }
    }

    /// Takes all that `next` gives.
    fn fill(
        &mut self,
        mut next: impl FnMut() -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<()> {
        let progress = reading();
        while let Some(line) = next()? {
            progress.step();
            self.fitting = self.fitting.saturating_add(1);
            self.newest.push(line);
        }
        Ok(())
    }
}
