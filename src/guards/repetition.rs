//! Refuses a call with which the task would go on in a circle.
//!
//! After rules, so that only calls that could be sent count as the task's; before idempotency,
//! because a task that is fed the same replay for ever is one in a circle, too. What the guard
//! itself has refused is not in the history, so that the circle stays closed until something else
//! is tried.

use super::evidence::{Final, NotRepeated};
use super::{Mode, Section};
use crate::model::diagnostic::Problems;
use crate::model::ids::ToolName;
use crate::model::refusal::Refusal;
use crate::store::state::budget::{MAX_SEEN_CALLS, SeenCall};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// When a task counts as going in circles. Where no file has the section, 100 equal calls
/// in a row with equal answers are all.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Repetition")]
pub(crate) struct Settings {
    /// The same call with the same outcome: the agent is warned when it happened so often
    /// [default: 5].
    pub warn: Option<usize>,
    /// The same call with the same outcome: the next is refused when it happened so often
    /// [default: 10, at most 32].
    pub stop: Option<usize>,
    /// The same for tools that change nothing, such as those that are polled; two of them may then
    /// be called in turn [default: as `stop`, at most 1000].
    pub stop_reads: Option<usize>,
    /// Two calls in turn, each with the same outcome every time: refused when so many stand in a
    /// row [default: 12].
    pub ping_pong: Option<usize>,
    /// Refusals in a row, of whatever calls, since the start: the agent is warned beside the next
    /// ones, until a call passes [default: 16].
    pub refusals: Option<usize>,
    /// Tools that may be called again and again, such as those that wait for something:
    /// `server__tool`.
    pub except: Vec<String>,
    /// Is nothing watched?
    pub unwatched: bool,
}

/// As run. The default watches nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Rule {
    watched: Option<Thresholds>,
    /// For tools that change nothing.
    reads: Option<ReadThresholds>,
    /// Do equal calls count in a row only, if they were answered, and whatever the answers were at
    /// [`USUAL_ROW`]?
    in_a_row: bool,
    except: Vec<ToolName>,
}

/// All at most [`MAX_SEEN_CALLS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thresholds {
    warn: usize,
    stop: usize,
    ping_pong: usize,
    refusals: usize,
}

/// Where equal calls change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReadThresholds {
    warn: usize,
    stop: usize,
}

/// A call, as it is watched.
#[derive(Debug, Clone, Copy)]
pub struct WatchedAttempt<'a> {
    /// `server__tool`.
    pub tool: &'a ToolName,
    /// Does the tool change something?
    pub changes: bool,
    /// The digest of tool and arguments, made as for `SeenCall::call`.
    pub call: u64,
    /// How often the task's last call came in a row, whatever came of it.
    pub row: u64,
    /// How often this call was its caller's last one within [`CALLER_ROW_PERIOD`], one after the
    /// other, whatever tasks it named.
    pub caller_row: u64,
}

/// Equal calls that change nothing, at most; as many stand in a task's history.
const MAX_EQUAL_READS: usize = 1000;

/// Where nothing is written: far from what an agent presses again and again, or polls.
const USUAL_READ_THRESHOLDS: ReadThresholds = ReadThresholds {
    warn: 50,
    stop: 100,
};

const USUAL_THRESHOLDS: Thresholds = Thresholds {
    warn: 50,
    stop: 100,
    ping_pong: MAX_SEEN_CALLS,
    refusals: 16,
};

/// Equal calls in a row at which a task is stopped where nothing is written, whatever came of them.
const USUAL_ROW: u64 = 250;

/// In which time equal calls of one caller are counted that name a new task each: what is asked once a
/// minute, for ever, is no loop.
pub(crate) const CALLER_ROW_PERIOD: Duration = Duration::from_hours(1);

const DEFAULT_THRESHOLDS: Thresholds = Thresholds {
    warn: 5,
    stop: 10,
    ping_pong: 12,
    refusals: 16,
};

const SAME_CALL_MESSAGE: &str = "the same call has had the same outcome again and again";
const SAME_CALL_EVERYWHERE_MESSAGE: &str =
    "the same call has come again and again, in whatever task or session";
const PING_PONG_MESSAGE: &str = "two calls have had the same outcomes in turn, again and again";
const REFUSALS_MESSAGE: &str = "one call after the other was refused";

/// The call may go on.
#[must_use]
#[derive(Debug)]
pub struct Allowed {
    /// The proof.
    pub watched: NotRepeated,
    /// What the agent should be told beside the answer: how the task begins to repeat itself.
    pub warning: Option<&'static str>,
}

// === impl Settings ===

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "repetition";

    fn compile(self, problems: &mut Problems) -> Rule {
        let Self {
            warn,
            stop,
            stop_reads,
            ping_pong,
            refusals,
            except,
            unwatched,
        } = self;
        if stop_reads.is_some_and(|number| !(2..=MAX_EQUAL_READS).contains(&number)) {
            let hint = format!("between 2 and {MAX_EQUAL_READS}");
            problems.under("stop_reads", |problems| {
                problems.error("is out of bounds", hint);
            });
        }
        let mut read = |key: &str, written: Option<usize>, usual: usize, least: usize| {
            let number = written.unwrap_or(usual);
            if !(least..=MAX_SEEN_CALLS).contains(&number) {
                let hint = format!(
                    "between {least} and {MAX_SEEN_CALLS}: so many calls of a task are remembered"
                );
                problems.under(key, |problems| problems.error("is out of bounds", hint));
            }
            number
        };
        let stop = read("stop", stop, DEFAULT_THRESHOLDS.stop, 2);
        let warn = read(
            "warn",
            warn,
            DEFAULT_THRESHOLDS.warn.min(stop.saturating_sub(1)).max(1),
            1,
        );
        let ping_pong = read("ping_pong", ping_pong, DEFAULT_THRESHOLDS.ping_pong, 4);
        let refusals = read("refusals", refusals, DEFAULT_THRESHOLDS.refusals, 2);
        if warn >= stop {
            let hint = "lower `warn`, or raise `stop`";
            problems.under("warn", |problems| {
                problems.error("would never warn before the stop", hint);
            });
        }
        let except = except.iter().map(|tool| ToolName::new(tool)).collect();
        if unwatched {
            return Rule::default();
        }
        Rule {
            watched: Some(Thresholds {
                warn,
                stop,
                ping_pong,
                refusals,
            }),
            reads: stop_reads.map(|stop| ReadThresholds {
                warn: (stop / 2).max(1),
                stop,
            }),
            in_a_row: false,
            except,
        }
    }
}

// === impl Rule ===

impl Rule {
    /// What is watched where nothing is written and calls are refused (003-115, 003-119).
    pub fn usual() -> Self {
        Self {
            watched: Some(USUAL_THRESHOLDS),
            reads: Some(USUAL_READ_THRESHOLDS),
            in_a_row: true,
            except: Vec::new(),
        }
    }

    /// What is watched in `mode`: what is `written`, else the usual; in observe mode nothing then.
    pub(crate) fn in_mode(written: Option<Self>, mode: Mode) -> Self {
        written.unwrap_or_else(|| match mode {
            Mode::Enforce => Self::usual(),
            Mode::Observe => Self::default(),
        })
    }

    /// Judges the next call of a task by its last ones, oldest first.
    pub fn watch(
        &self,
        history: &[SeenCall],
        attempt: WatchedAttempt<'_>,
        last: &Final,
    ) -> Result<Allowed, Refusal> {
        let WatchedAttempt {
            tool,
            changes,
            call,
            row,
            caller_row,
        } = attempt;
        let watched = NotRepeated::mint(last);
        let Some(thresholds) = self
            .watched
            .as_ref()
            .filter(|_| !self.except.contains(tool))
        else {
            return Ok(Allowed {
                watched,
                warning: None,
            });
        };
        let same = if self.in_a_row {
            let last = history.last().filter(|last| !last.refused);
            last.map_or(0, |last| repeated(std::slice::from_ref(last), call))
        } else {
            repeated(history, call)
        };
        let is_last = history.last().is_some_and(|last| last.call == call);
        let is_endless = self.in_a_row && is_last && row >= USUAL_ROW;
        let reads = self.reads.filter(|_| !changes);
        let (warn, stop) = reads.map_or((thresholds.warn, thresholds.stop), |reads| {
            (reads.warn, reads.stop)
        });
        // No lower than what one task may do by itself.
        let most_everywhere = USUAL_ROW.max(u64::try_from(stop).unwrap_or(u64::MAX));
        let pattern = if same >= stop || is_endless {
            Some(SAME_CALL_MESSAGE)
        } else if caller_row >= most_everywhere {
            Some(SAME_CALL_EVERYWHERE_MESSAGE)
        } else if reads.is_none() && in_turn(history, call) >= thresholds.ping_pong {
            Some(PING_PONG_MESSAGE)
        } else {
            None
        };
        match pattern {
            Some(pattern) => Err(Refusal::LoopDetected {
                pattern,
                has_run: has_run(history, call) || caller_row > 0,
            }),
            None if same >= warn => Ok(Allowed {
                watched,
                warning: Some(SAME_CALL_MESSAGE),
            }),
            None => Ok(Allowed {
                watched,
                warning: (caller_row >= most_everywhere / 2)
                    .then_some(SAME_CALL_EVERYWHERE_MESSAGE),
            }),
        }
    }

    /// What the agent should be told beside one more refusal, of `tool`, in a task whose last
    /// `refused` calls were refused. The refusal stays what it is (guarantees §2).
    pub fn after(&self, refused: usize, tool: &ToolName) -> Option<&'static str> {
        let watched = self.watched.filter(|_| !self.except.contains(tool))?;
        (refused >= watched.refusals).then_some(REFUSALS_MESSAGE)
    }

    /// Whether answers that are given again count in the history of their task: not where a file says
    /// how few equal calls are a circle, because an agent whose answers are lost asks for the stored
    /// one as often as it needs.
    pub fn counts_replays(&self) -> bool {
        self.is_watching() && self.in_a_row
    }

    /// Whether a file says when.
    pub fn is_written(&self) -> bool {
        self.is_watching() && !self.in_a_row
    }

    /// Whether anything is watched at all.
    pub fn is_watching(&self) -> bool {
        self.watched.is_some()
    }

    /// The thresholds in words, for `explain`; none when nothing is watched.
    pub fn describe(&self) -> Option<String> {
        self.watched.map(|Thresholds { warn, stop, ping_pong, refusals }| {
            let reads = self.reads.map_or_else(String::new, |reads| {
                format!(" ({} that change nothing)", reads.stop)
            });
            format!("warns after {warn} equal calls, stops after {stop}{reads} or {ping_pong} in turn; warns after {refusals} refusals")
        })
    }
}

/// Whether `call` was carried out, as far back as is known.
fn has_run(history: &[SeenCall], call: u64) -> bool {
    let mut seen = history.iter();
    seen.any(|seen| seen.call == call && !seen.refused)
}

/// How often `call` has last had one and the same outcome, whatever else was called between.
fn repeated(history: &[SeenCall], call: u64) -> usize {
    let mut outcomes = history
        .iter()
        .rev()
        .filter(|seen| seen.call == call)
        .peekable();
    let Some(last) = outcomes.peek().map(|seen| seen.outcome) else {
        return 0;
    };
    let same = outcomes.take_while(|seen| seen.outcome == last);
    same.fold(0, |same, seen| {
        same.saturating_add(usize::try_from(seen.times).unwrap_or(usize::MAX))
    })
}

/// How many calls at the end are two in turn of which `call` is one, each always with one outcome. Once
/// there are too many, none of the two goes on: else the one that was not refused would begin anew.
fn in_turn(history: &[SeenCall], call: u64) -> usize {
    let [.., before, last] = history else {
        return 0;
    };
    if before.call == last.call || (call != before.call && call != last.call) {
        return 0;
    }
    let same = |one: &SeenCall, other: &SeenCall| {
        (one.call, one.outcome, one.refused) == (other.call, other.outcome, other.refused)
    };
    let expected = [last, before].into_iter().cycle();
    let pairs = history.iter().rev().zip(expected);
    pairs
        .take_while(|(seen, expected)| same(seen, expected))
        .count()
}

#[cfg(test)]
mod tests;
