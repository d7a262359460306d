//! When an incident opens by itself: calls of one tool pass a bound within a window. Opt-in, in policy files.

use crate::guards::allowlist::ToolPattern;
use crate::model::diagnostic::Problems;
use crate::model::ids::ServerName;
use crate::model::times::between;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Breakers of all files.
pub(crate) const MAX_BREAKERS: usize = 64;
/// The largest bound: as many times are kept of each.
pub(crate) const MAX_BREAKER_BOUND: u32 = 1_000;
/// The window where none is said, and between which one may be.
const USUAL_WINDOW: Duration = Duration::from_mins(5);
const SHORTEST_WINDOW: Duration = Duration::from_secs(10);
const LONGEST_WINDOW: Duration = Duration::from_hours(1);

/// An incident opens for a tool once more of its calls within the window are of one of these kinds than the
/// bound says. At least one bound is there; each is at most 1000.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Breaker")]
pub(crate) struct BreakerSettings {
    /// the tools, each counted by itself: `server__tool`, `server__*`
    #[schemars(length(min = 1, max = 64))]
    pub tools: Vec<String>,
    /// Over how long calls are counted, 10s to 1h [default: 5m].
    pub window: Option<String>,
    /// Side effects that ran again with the same trace, tool and arguments.
    pub duplicates: Option<u32>,
    /// Calls of which nobody knows whether they ran, each once.
    pub unknown: Option<u32>,
    /// Calls that broke, or that their server answered with an error.
    pub failures: Option<u32>,
    /// Calls that were refused; being told to wait is no refusal.
    pub refused: Option<u32>,
}

/// What a breaker counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerKind {
    /// It ran again.
    Duplicate,
    /// Nobody knows whether it ran.
    Unknown,
    /// It broke.
    Failure,
    /// It was refused.
    Refused,
}

/// As run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    tools: Vec<ToolPattern>,
    /// How long it counts back.
    pub window: Duration,
    bounds: Vec<(BreakerKind, u32)>,
}

impl BreakerKind {
    /// What so many of them are called.
    pub fn words(self) -> &'static str {
        match self {
            Self::Duplicate => "side effects that ran again",
            Self::Unknown => "unknown outcomes",
            Self::Failure => "failures",
            Self::Refused => "refusals",
        }
    }
}

impl BreakerSettings {
    /// Judges what is written; notes every problem and goes on. `servers`: those that are declared.
    pub(crate) fn compile(&self, servers: &[ServerName], problems: &mut Problems) -> Breaker {
        let mut tools = Vec::new();
        problems.under("tools", |problems| {
            for (index, text) in self.tools.iter().enumerate() {
                problems.under(index.to_string(), |problems| {
                    let pattern = ToolPattern::compile(text, problems);
                    let is_reached = |pattern: &ToolPattern| {
                        servers.iter().any(|server| pattern.reaches(server))
                    };
                    if pattern.as_ref().is_some_and(|pattern| !is_reached(pattern)) {
                        problems.error(
                            "names tools of no declared server",
                            "write `server__tool` or `server__*`",
                        );
                    }
                    tools.extend(pattern);
                });
            }
        });
        let allowed = SHORTEST_WINDOW..=LONGEST_WINDOW;
        let window = between("window", self.window.as_deref(), allowed, problems);
        let said = [
            ("duplicates", BreakerKind::Duplicate, self.duplicates),
            ("unknown", BreakerKind::Unknown, self.unknown),
            ("failures", BreakerKind::Failure, self.failures),
            ("refused", BreakerKind::Refused, self.refused),
        ];
        let mut bounds = Vec::new();
        for (key, kind, bound) in said {
            let Some(bound) = bound else { continue };
            if bound > MAX_BREAKER_BOUND {
                problems.under(key, |problems| {
                    problems.error(
                        "is out of bounds",
                        format!("between 0 and {MAX_BREAKER_BOUND}"),
                    );
                });
            }
            bounds.push((kind, bound.min(MAX_BREAKER_BOUND)));
        }
        if bounds.is_empty() {
            problems.error(
                "has no bound, so that it never opens anything",
                "add `duplicates`, `unknown`, `failures` or `refused`",
            );
        }
        Breaker {
            tools,
            window: window.unwrap_or(USUAL_WINDOW),
            bounds,
        }
    }
}

impl Breaker {
    /// How many calls of that kind may be, of `tool`; none: they are not counted.
    pub fn bound(&self, tool: &str, kind: BreakerKind) -> Option<u32> {
        if !self.tools.iter().any(|pattern| pattern.matches(tool)) {
            return None;
        }
        let mut bounds = self.bounds.iter();
        bounds
            .find(|(counted, _)| *counted == kind)
            .map(|(_, bound)| *bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(text: &str) -> Result<Breaker, Vec<String>> {
        let written: BreakerSettings = serde_json::from_str(text).unwrap();
        let mut problems = Problems::default();
        let breaker = written.compile(&[ServerName::new("bank")], &mut problems);
        let found = problems.into_found();
        if found.is_empty() {
            return Ok(breaker);
        }
        Err(found.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn a_breaker_counts_what_its_bounds_name() {
        let breaker = compiled(r#"{"tools":["bank__*"],"window":"1m","duplicates":0}"#).unwrap();
        assert_eq!(breaker.window, Duration::from_mins(1));
        assert_eq!(breaker.bound("bank__pay", BreakerKind::Duplicate), Some(0));
        assert_eq!(breaker.bound("bank__pay", BreakerKind::Failure), None);
        assert_eq!(breaker.bound("fs__read", BreakerKind::Duplicate), None);
    }

    #[test]
    fn a_breaker_that_could_never_open_is_a_problem() {
        for (text, words) in [
            (r#"{"tools":["bank__*"]}"#, "has no bound"),
            (r#"{"tools":["fs__*"],"refused":1}"#, "no declared server"),
            (
                r#"{"tools":["bank__*"],"refused":1,"window":"1s"}"#,
                "out of bounds",
            ),
            (r#"{"tools":["bank__*"],"refused":1001}"#, "out of bounds"),
        ] {
            let found = compiled(text).unwrap_err();
            assert!(
                found.iter().any(|found| found.contains(words)),
                "{text}: {found:?}"
            );
        }
    }
}
