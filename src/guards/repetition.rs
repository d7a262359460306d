//! Refuses a call with which the task would go on in a circle.
//!
//! After rules, so that only calls that could be sent count as the task's; before idempotency,
//! because a task that is fed the same replay for ever is one in a circle, too. What the guard
//! itself has refused is not in the history, so that the circle stays closed until something else
//! is tried.

use super::Section;
use super::evidence::{Final, NotRepeated};
use crate::model::diagnostic::Problems;
use crate::model::ids::ToolName;
use crate::model::refusal::Refusal;
use crate::store::state::budget::{MAX_SEEN_CALLS, SeenCall};
use schemars::JsonSchema;
use serde::Deserialize;

/// When a task counts as going in circles. Where no file has the section, nothing is watched.
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
    /// Two calls in turn, each with the same outcome every time: refused when so many stand in a
    /// row [default: 12].
    pub ping_pong: Option<usize>,
    /// Refusals in a row, of whatever calls, since the start: the next refusal is `loop_detected`,
    /// until a call passes [default: 16].
    pub refusals: Option<usize>,
    /// Tools that may be called again and again, such as those that wait for something:
    /// `server__tool`.
    pub except: Vec<String>,
}

/// As run. The default watches nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Rule {
    watched: Option<Thresholds>,
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

const DEFAULT_THRESHOLDS: Thresholds = Thresholds {
    warn: 5,
    stop: 10,
    ping_pong: 12,
    refusals: 16,
};

const SAME_CALL_MESSAGE: &str = "the same call has had the same outcome again and again";
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
            ping_pong,
            refusals,
            except,
        } = self;
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
        Rule {
            watched: Some(Thresholds {
                warn,
                stop,
                ping_pong,
                refusals,
            }),
            except,
        }
    }
}

// === impl Rule ===

impl Rule {
    /// Judges the next call of a task by its last ones, oldest first. `call` is the digest of that
    /// call's tool and arguments, made as for `SeenCall::call`.
    pub fn watch(
        &self,
        history: &[SeenCall],
        tool: &ToolName,
        call: u64,
        last: &Final,
    ) -> Result<Allowed, Refusal> {
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
        let same = repeated(history, call);
        let pattern = if same >= thresholds.stop {
            Some(SAME_CALL_MESSAGE)
        } else if in_turn(history, call) >= thresholds.ping_pong {
            Some(PING_PONG_MESSAGE)
        } else {
            None
        };
        match pattern {
            Some(pattern) => Err(Refusal::LoopDetected { pattern }),
            None => Ok(Allowed {
                watched,
                warning: (same >= thresholds.warn).then_some(SAME_CALL_MESSAGE),
            }),
        }
    }

    /// Judges one more refusal, of `tool`, in a task whose last `refused` calls were refused. What
    /// passes is not asked of: it is the way out.
    pub fn after(&self, refused: usize, tool: &ToolName) -> Result<(), Refusal> {
        let watched = self.watched.filter(|_| !self.except.contains(tool));
        match watched {
            Some(thresholds) if refused >= thresholds.refusals => Err(Refusal::LoopDetected {
                pattern: REFUSALS_MESSAGE,
            }),
            _ => Ok(()),
        }
    }

    /// Whether anything is watched at all.
    pub fn is_watching(&self) -> bool {
        self.watched.is_some()
    }

    /// The thresholds in words, for `explain`; none when nothing is watched.
    pub fn describe(&self) -> Option<String> {
        self.watched.map(|Thresholds { warn, stop, ping_pong, refusals }| {
            format!("warns after {warn} equal calls, stops after {stop}, {ping_pong} in turn or {refusals} refusals")
        })
    }
}

/// How often `call` has last had one and the same outcome, whatever else was called between.
fn repeated(history: &[SeenCall], call: u64) -> usize {
    let mut outcomes = history
        .iter()
        .rev()
        .filter(|seen| seen.call == call)
        .map(|seen| seen.outcome);
    let Some(last) = outcomes.next() else {
        return 0;
    };
    1 + outcomes.take_while(|outcome| *outcome == last).count()
}

/// How many calls at the end are `call` and one other in turn, each always with one outcome.
fn in_turn(history: &[SeenCall], call: u64) -> usize {
    let [.., before, last] = history else {
        return 0;
    };
    if before.call != call || last.call == call {
        return 0;
    }
    let pair = [last, before];
    let expected = pair.into_iter().cycle();
    history
        .iter()
        .rev()
        .zip(expected)
        .take_while(|(seen, expected)| seen == expected)
        .count()
}

#[cfg(test)]
mod tests;
