//! Breakers: calls of a tool that pass a bound within a window open an incident by themselves. What is counted
//! has bounds: tools, and times of each.

use crate::gate::record::{Ending, is_tool_error};
use crate::model::counted::counted;
use crate::model::ids::ToolName;
use crate::model::refusal::Refusal;
use crate::policy::breakers::{Breaker, BreakerKind};
use crate::telemetry::metrics::CallOutcome;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::sync::mpsc;

/// Tools and kinds that are counted at once; beyond, those forgotten first that were met least lately.
const MAX_COUNTED: usize = 1_024;
/// Trips that wait to be seen to.
const MAX_TRIPS: usize = 64;

/// A bound that was passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BreakerTrip {
    /// Whose calls passed it.
    pub tool: ToolName,
    /// Which bound, in words.
    pub why: String,
}

/// Counts for all breakers.
pub(crate) struct BreakerWatch {
    times: Mutex<HashMap<(ToolName, BreakerKind), VecDeque<Duration>>>,
    trips: mpsc::Sender<BreakerTrip>,
    told: Mutex<Option<mpsc::Receiver<BreakerTrip>>>,
}

/// How a call ended, as breakers see it.
pub(in crate::gate) struct WatchedEnd<'a> {
    pub(in crate::gate) tool: &'a ToolName,
    pub(in crate::gate) outcome: CallOutcome,
    pub(in crate::gate) ending: &'a Ending,
    /// Was anything of it sent? One that was not only hears what became of another.
    pub(in crate::gate) is_sent: bool,
    /// Had it run before, in the same trace with the same arguments?
    pub(in crate::gate) is_again: bool,
}

/// One more of a kind.
struct CountedEnd<'a> {
    tool: &'a ToolName,
    kind: BreakerKind,
    now: Duration,
    /// Times that are kept.
    most: usize,
}

impl Default for BreakerWatch {
    fn default() -> Self {
        let (trips, told) = mpsc::channel(MAX_TRIPS);
        Self {
            times: Mutex::default(),
            trips,
            told: Mutex::new(Some(told)),
        }
    }
}

impl WatchedEnd<'_> {
    fn kinds(&self) -> impl Iterator<Item = BreakerKind> {
        let is_error = || match self.ending {
            Ok(reply) => reply.is_error || reply.body.as_ref().is_some_and(is_tool_error),
            Err(_) => false,
        };
        let of_outcome = match self.outcome {
            // Its agent may ask as often as it likes: nothing becomes unknown, and nothing breaks, by that.
            CallOutcome::Unknown => self.is_sent.then_some(BreakerKind::Unknown),
            CallOutcome::Answered => (self.is_sent && is_error()).then_some(BreakerKind::Failure),
            // What its agent gave up has not broken: its agent did not wait for what the tool server would have said.
            CallOutcome::Failed => (!self.is_given_up()).then_some(BreakerKind::Failure),
            CallOutcome::Refused => self.is_refusal().then_some(BreakerKind::Refused),
            CallOutcome::Planned => None,
        };
        let again = self.is_again.then_some(BreakerKind::Duplicate);
        of_outcome.into_iter().chain(again)
    }

    fn is_given_up(&self) -> bool {
        matches!(self.ending, Err(Refusal::Cancelled))
    }

    /// Is it a no to the call? Not where its agent may not see the tool, and so takes it from nobody; nor where all
    /// that is said is "not yet", as of a call that a person is asked about, or its agent went away.
    fn is_refusal(&self) -> bool {
        let is_unseen = matches!(self.ending, Err(Refusal::ToolNotAllowlisted));
        let waits = matches!(
            self.ending,
            Err(Refusal::ApprovalPending { .. }
                | Refusal::DuplicateInFlight { .. }
                | Refusal::OutcomePending { .. }
                | Refusal::SessionBusy
                | Refusal::Overloaded
                | Refusal::StoreUnavailable
                | Refusal::StoreOpening { .. }
                | Refusal::CancelledUnsent { .. })
        );
        !is_unseen && !waits
    }
}

impl BreakerWatch {
    /// Where trips are told of; once.
    pub(crate) fn trips(&self) -> Option<mpsc::Receiver<BreakerTrip>> {
        self.told.lock().take()
    }

    /// Counts an end at the steady time `now` for each of `breakers`.
    pub(in crate::gate) fn watch(&self, breakers: &[Breaker], end: &WatchedEnd<'_>, now: Duration) {
        if breakers.is_empty() {
            return;
        }
        for kind in end.kinds() {
            let bounds = breakers.iter().filter_map(|breaker| {
                let bound = breaker.bound(end.tool.as_str(), kind)?;
                Some((bound as usize, breaker.window))
            });
            let bounds: Vec<(usize, Duration)> = bounds.collect();
            let Some(most) = bounds.iter().map(|(bound, _)| bound + 1).max() else {
                continue;
            };
            let counted = CountedEnd {
                tool: end.tool,
                kind,
                now,
                most,
            };
            let passed = self.count(&counted, &bounds);
            if let Some(why) = passed {
                let tool = end.tool.clone();
                tracing::warn!(%tool, why, "a breaker has tripped");
                if self.trips.try_send(BreakerTrip { tool, why }).is_err() {
                    tracing::error!("too many breakers trip at once; this one opens no incident");
                }
            }
        }
    }

    /// The bound that is passed now, in words; counting begins anew then.
    fn count(&self, end: &CountedEnd<'_>, bounds: &[(usize, Duration)]) -> Option<String> {
        let CountedEnd {
            tool,
            kind,
            now,
            most,
        } = *end;
        let mut times = self.times.lock();
        let key = (tool.clone(), kind);
        if times.len() >= MAX_COUNTED && !times.contains_key(&key) {
            let oldest = times.iter().min_by_key(|(_, met)| met.back().copied());
            let oldest = oldest.map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                times.remove(&oldest);
            }
        }
        let met = times.entry(key).or_default();
        met.push_back(now);
        while met.len() > most {
            met.pop_front();
        }
        let within = |window: Duration| {
            let since = now.saturating_sub(window);
            met.iter().filter(|time| **time >= since).count()
        };
        let passed = bounds
            .iter()
            .find(|(bound, window)| within(*window) > *bound);
        let (bound, window) = passed?;
        let why = format!(
            "more than {} in {}: {}",
            counted(*bound, "call"),
            counted(window.as_secs(), "second"),
            kind.words()
        );
        met.clear();
        Some(why)
    }
}

#[cfg(test)]
mod tests;
