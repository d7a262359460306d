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
    /// The same two of each tool that was sent a read; none in records from before they were kept.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rows: Vec<FailureRow>,
    /// For the loop detector, oldest first; [`MAX_SEEN_CALLS`] at most.
    pub seen: Vec<SeenCall>,
}

/// What reads make of the failures of their tool in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRow {
    /// What they count as.
    pub tool: ToolName,
    /// Reads that failed since the last that did not.
    pub failures: u64,
    /// Did one not fail?
    pub has_succeeded: bool,
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
        let (failures, has_succeeded) = (u64::from(failed), !failed && !seen.refused);
        let row = sent.as_ref().map(|(tool, _)| FailureRow {
            tool: tool.clone(),
            failures,
            has_succeeded,
        });
        let (tools, cost) =
            sent.map_or_else(Default::default, |(tool, cost)| (vec![(tool, 1)], cost));
        Self {
            tools,
            cost,
            failures,
            failures_in_a_row: failures,
            has_succeeded,
            rows: row.into_iter().collect(),
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
        for next in later.rows {
            match self.rows.iter_mut().find(|row| row.tool == next.tool) {
                Some(row) => {
                    row.failures = next.after(row.failures);
                    row.has_succeeded |= next.has_succeeded;
                }
                None => self.rows.push(next),
            }
        }
        for seen in later.seen {
            see(&mut self.seen, seen);
        }
    }
}

impl FailureRow {
    /// The failures in a row that these reads make of as many `before` them.
    fn after(&self, before: u64) -> u64 {
        let before = if self.has_succeeded { 0 } else { before };
        before.saturating_add(self.failures)
    }
}

impl TaskUsage {
    /// Takes in reads that ended by `now`.
    pub(super) fn tally(&mut self, reads: &ReadTally, now: Millis) {
        for (tool, calls) in &reads.tools {
            self.steps += calls;
            self.calls += calls;
            self.tool(tool).calls += calls;
        }
        self.cost = self.cost.saturating_add(reads.cost);
        self.last = self.last.max(now);
        if reads.has_succeeded {
            self.succeed();
        }
        self.failures += reads.failures;
        self.failures_in_a_row += reads.failures_in_a_row;
        for row in &reads.rows {
            let used = self.tool(&row.tool);
            used.failures_in_a_row = row.after(used.failures_in_a_row);
        }
        for seen in &reads.seen {
            self.see(*seen);
        }
    }
}
