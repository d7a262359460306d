//! Reads of a task that nothing written limits, summed up: one record for many of them. What the sum
//! makes of a task is what its reads would have made of it one after the other.

use super::Millis;
use super::budget::{MAX_SEEN_CALLS, SeenCall, TaskUsage, see};
use crate::model::ids::ToolName;
use serde::{Deserialize, Serialize};

/// One or more reads of a task, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadTally {
    /// Reads sent, by tool; a list, because not every tool's name can be a member's.
    pub tools: Vec<(ToolName, u64)>,
    /// What they cost, in millionths.
    pub cost: u64,
    /// Reads that failed.
    pub failures: u64,
    /// Those of them since the last that did not.
    pub failures_in_a_row: u64,
    /// Did one not fail?
    pub has_succeeded: bool,
    /// For the loop detector, oldest first; [`MAX_SEEN_CALLS`] at most.
    pub seen: Vec<SeenCall>,
}

/// One read that came to its end.
#[derive(Debug, Clone)]
pub struct EndedRead {
    /// What it counts as, `server__tool`, and what it cost, in millionths; none if it was not sent.
    pub sent: Option<(ToolName, u64)>,
    /// Does it count as a failure?
    pub failed: bool,
    /// For the loop detector.
    pub seen: SeenCall,
}

impl ReadTally {
    /// One read.
    pub fn of(read: EndedRead) -> Self {
        let EndedRead { sent, failed, seen } = read;
        let (tools, cost) =
            sent.map_or_else(Default::default, |(tool, cost)| (vec![(tool, 1)], cost));
        Self {
            tools,
            cost,
            failures: u64::from(failed),
            failures_in_a_row: u64::from(failed),
            has_succeeded: !failed && !seen.refused,
            seen: vec![seen],
        }
    }

    /// Whether it has no read.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Whether one more might drop what the loop detector has to see.
    pub fn is_full(&self) -> bool {
        self.seen.len() >= MAX_SEEN_CALLS
    }

    /// Takes in the reads after these.
    pub fn extend(&mut self, later: Self) {
        let before = if later.has_succeeded {
            0
        } else {
            self.failures_in_a_row
        };
        for (tool, calls) in later.tools {
            match self.tools.iter_mut().find(|(known, _)| *known == tool) {
                Some((_, sum)) => *sum += calls,
                None => self.tools.push((tool, calls)),
            }
        }
        self.cost = self.cost.saturating_add(later.cost);
        self.failures += later.failures;
        self.failures_in_a_row = before + later.failures_in_a_row;
        self.has_succeeded |= later.has_succeeded;
        for seen in later.seen {
            see(&mut self.seen, seen);
        }
    }
}

impl TaskUsage {
    /// Takes in reads that ended by `now`.
    pub(super) fn tally(&mut self, reads: &ReadTally, now: Millis) {
        for (tool, calls) in &reads.tools {
            self.steps += calls;
            self.calls += calls;
            self.tool(tool.as_str()).calls += calls;
        }
        self.cost = self.cost.saturating_add(reads.cost);
        self.last = self.last.max(now);
        if reads.has_succeeded {
            self.succeed();
        }
        self.failures += reads.failures;
        self.failures_in_a_row += reads.failures_in_a_row;
        for seen in &reads.seen {
            self.see(*seen);
        }
    }
}
