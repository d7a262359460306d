//! The calls of a ledger, summed up by the version of the policy that they were judged under.

use super::spread::Spread;
use crate::cli::ledger::call_filter::CallFilter;
use crate::cli::ledger::calls::LedgerCalls;
use crate::cli::ledger::reading;
use crate::cli::ledger::text::plain;
use crate::guards::kind_of;
use crate::model::entry::Entry;
use crate::model::refusal::RefusalKind;
use crate::store::journal::JournalError;
use anyhow::{Context as _, bail};
use std::collections::BTreeSet;
use std::path::Path;

/// Versions that are told apart; of more, those whose last call is the oldest are left out.
const MAX_VERSIONS: usize = 256;
/// Tools of one version whose names are kept; agents can name any number.
const MAX_TOOLS_PER_VERSION: usize = 1024;

/// What the ledger says, in the order in which versions first appear.
#[derive(Debug, Default)]
pub(super) struct Versions {
    pub(super) all: Vec<Version>,
    /// Versions that there was no room for.
    pub(super) left_out: u64,
    /// Records that cannot be read.
    pub(super) unreadable: u64,
    /// The number of the last call that was counted.
    calls: u64,
}

/// What became of the calls that were judged under one version.
#[derive(Debug, Default)]
pub(super) struct Version {
    pub(super) name: String,
    /// When its first and its last call were judged, as they say.
    pub(super) first: String,
    pub(super) last: String,
    /// Calls that have ended.
    pub(super) calls: u64,
    /// Those of them that were refused, or in observe mode would have been, because of what the
    /// policy says of the call.
    pub(super) violations: u64,
    /// Those because a budget or a rate was used up.
    pub(super) overruns: u64,
    /// Those that were sent, or may have been.
    pub(super) sent: u64,
    /// Those of them that the tool answered, and not with an error.
    pub(super) successes: u64,
    /// What all of them have cost, in units, and the sum of the squares.
    pub(super) cost: (f64, f64),
    /// Milliseconds spent judging, of all calls.
    pub(super) gate: Spread,
    /// Milliseconds spent upstream, of those that were sent.
    pub(super) upstream: Spread,
    pub(super) tools: BTreeSet<String>,
    /// The number of its last call among all.
    latest: u64,
}

impl Versions {
    /// Reads the ledger in `data` once, from its beginning to its end, and keeps no call.
    pub(super) fn read(data: &Path, wanted: &CallFilter) -> anyhow::Result<Self> {
        let mut versions = Self::default();
        let progress = reading();
        for call in LedgerCalls::open(data)? {
            progress.step();
            match call {
                // What is on its way has no end to compare.
                Ok(call) if call.entry.outcome == "dispatching" || !wanted.fits(&call.entry) => {}
                Ok(call) => versions.add(&call.entry),
                Err(JournalError::Unreadable { .. }) => versions.unreadable += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(versions)
    }

    fn add(&mut self, entry: &Entry) {
        self.calls += 1;
        let place = self
            .all
            .iter()
            .rposition(|version| version.name == entry.policy);
        let place = place.unwrap_or_else(|| self.begin(entry));
        if let Some(version) = self.all.get_mut(place) {
            version.latest = self.calls;
            version.add(entry);
        }
    }

    /// Makes room for the version of `entry`; its place.
    fn begin(&mut self, entry: &Entry) -> usize {
        if self.all.len() == MAX_VERSIONS
            && let Some((oldest, _)) = self
                .all
                .iter()
                .enumerate()
                .min_by_key(|(_, version)| version.latest)
        {
            self.all.remove(oldest);
            self.left_out += 1;
        }
        self.all.push(Version {
            name: entry.policy.clone(),
            first: entry.time.clone(),
            ..Version::default()
        });
        self.all.len() - 1
    }

    /// The versions to compare, the older first: as named by their beginnings, or the last two.
    pub(super) fn pair(&self, named: &[String]) -> anyhow::Result<(&Version, &Version)> {
        let last = || self.all.last().context("the ledger has no such calls");
        match named {
            [] => {
                let new = last()?;
                let old = self.all.iter().rev().nth(1);
                let words = || {
                    format!(
                        "all such calls were judged under one policy, {}",
                        plain(&new.name)
                    )
                };
                Ok((old.with_context(words)?, new))
            }
            [old] => Ok((self.named(old)?, last()?)),
            [old, new, ..] => Ok((self.named(old)?, self.named(new)?)),
        }
    }

    fn named(&self, beginning: &str) -> anyhow::Result<&Version> {
        let mut fitting = self
            .all
            .iter()
            .filter(|version| version.name.starts_with(beginning));
        let wanted = plain(beginning);
        let words = || {
            format!(
                "no such call was judged under a policy that begins with {wanted}; see `toolgate report`"
            )
        };
        let found = fitting.next().with_context(words)?;
        match fitting.next() {
            Some(_) if found.name != beginning => {
                bail!("several policies begin with {wanted}, give more of the one")
            }
            _ => Ok(found),
        }
    }
}

impl Version {
    fn add(&mut self, entry: &Entry) {
        self.last.clone_from(&entry.time);
        let count = entry.count.unwrap_or(1);
        self.calls += count;
        // As `toolgate_calls_total` has it: what passes only because nothing is enforced has the
        // code, too.
        let code = entry
            .aborted_reason
            .as_ref()
            .or(entry.would_refuse.as_ref());
        match code.map(|code| kind_of(code)) {
            Some(RefusalKind::Violation) => self.violations += count,
            Some(RefusalKind::Overrun) => self.overruns += count,
            Some(RefusalKind::Other) | None => {}
        }
        self.gate.add(entry.gate_ms);
        if entry.attempts > 0 {
            self.upstream.add(entry.upstream_ms);
        }
        // A call whose toolgate died has its intent only, which was written before anything was
        // sent.
        let may_have_left =
            entry.event == "enter" && matches!(&*entry.outcome, "answered" | "unknown");
        if entry.attempts > 0 || may_have_left {
            self.sent += count;
            self.successes += if entry.outcome == "answered" && entry.is_error != Some(true) {
                count
            } else {
                0
            };
            let cost = entry.cost.unwrap_or_default();
            self.cost = (self.cost.0 + cost, cost.mul_add(cost, self.cost.1));
        }
        if self.tools.len() < MAX_TOOLS_PER_VERSION && !self.tools.contains(&entry.tool) {
            self.tools.insert(entry.tool.clone());
        }
    }
}
