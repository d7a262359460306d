//! The last warnings and errors of the log, kept in memory for operators who ask how toolgate does.

use crate::model::clock::Clock;
use crate::model::scrub::KNOWN_SECRETS;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// How many are kept.
const MAX_PROBLEMS_KEPT: usize = 32;
/// Bytes of one that are looked at.
const MAX_READ_BYTES: usize = 8 << 10;
/// Letters of one that are kept.
const MAX_KEPT_CHARS: usize = 500;

/// Those of this process.
pub(crate) static RECENT_PROBLEMS: RecentProblems = RecentProblems(Mutex::new(VecDeque::new()));

/// A line of the log that warns, or tells of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RecentProblem {
    /// When it was written last, RFC 3339 in UTC.
    pub time: String,
    /// `WARN` or `ERROR`.
    pub level: String,
    /// The part of toolgate that wrote it.
    pub target: String,
    /// What it says, and its fields. Secrets are taken out, as in the log; of a long one, the beginning.
    pub message: String,
    /// How often it came without another between.
    pub times: u64,
}

/// The last ones, the oldest first.
#[derive(Debug)]
pub(crate) struct RecentProblems(Mutex<VecDeque<RecentProblem>>);

impl RecentProblems {
    /// All that are kept, the oldest first.
    pub(crate) fn all(&self) -> Vec<RecentProblem> {
        self.0.lock().iter().cloned().collect()
    }

    fn add(&self, problem: RecentProblem) {
        let mut kept = self.0.lock();
        if let Some(last) = kept.back_mut()
            && (&last.level, &last.target, &last.message)
                == (&problem.level, &problem.target, &problem.message)
        {
            last.times += 1;
            last.time = problem.time;
            return;
        }
        if kept.len() == MAX_PROBLEMS_KEPT {
            kept.pop_front();
        }
        kept.push_back(problem);
    }
}

/// Keeps what comes by.
pub(super) struct ProblemKeeper(pub(super) &'static RecentProblems);

impl<S: Subscriber> Layer<S> for ProblemKeeper {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let about = event.metadata();
        if *about.level() > Level::WARN {
            return;
        }
        let mut words = ProblemWords::default();
        event.record(&mut words);
        self.0.add(RecentProblem {
            time: format!("{:.3}", Clock.wall()),
            level: about.level().to_string(),
            target: about.target().to_owned(),
            message: words.whole(),
            times: 1,
        });
    }
}

/// What an event says.
#[derive(Default)]
struct ProblemWords {
    message: String,
    fields: String,
}

impl ProblemWords {
    fn whole(self) -> String {
        let whole = format!("{}{}", self.message, self.fields);
        let clean = match KNOWN_SECRETS.scrubber() {
            Some(scrubber) => scrubber.scrub_text(&whole).unwrap_or(whole),
            None => whole,
        };
        match clean.char_indices().nth(MAX_KEPT_CHARS) {
            None => clean,
            Some((at, _)) => format!("{}…", &clean[..at]),
        }
    }

    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let is_message = field.name() == "message";
        let words = if is_message {
            &mut self.message
        } else {
            &mut self.fields
        };
        if words.len() > MAX_READ_BYTES {
            return;
        }
        // Writing to a string cannot fail.
        let _ = if is_message {
            words.write_fmt(value)
        } else {
            write!(words, " {}={value}", field.name())
        };
        let cut = words.floor_char_boundary(MAX_READ_BYTES);
        words.truncate(cut);
    }
}

impl Visit for ProblemWords {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::secret::Secret;
    use std::sync::Arc;
    use tracing_subscriber::layer::SubscriberExt as _;

    static OWN: RecentProblems = RecentProblems(Mutex::new(VecDeque::new()));

    /// Bounded in number and length, without secrets, and one line for the same again.
    #[test]
    fn the_last_problems_are_kept() {
        let secret = Arc::new(Secret::new("sk-of-recent-problems".to_owned()));
        KNOWN_SECRETS.add("recent", &secret).unwrap();
        let logs = tracing_subscriber::registry().with(ProblemKeeper(&OWN));
        tracing::subscriber::with_default(logs, || {
            tracing::info!("all is well");
            for number in 0..40 {
                tracing::warn!(number, "a problem");
            }
            for _ in 0..3 {
                tracing::error!(why = "sk-of-recent-problems", "refused");
            }
            tracing::warn!("{}", "ü".repeat(9_000));
        });
        let kept = OWN.all();
        assert_eq!(kept.len(), MAX_PROBLEMS_KEPT);
        assert_eq!(kept[0].message, "a problem number=10");
        let refused = &kept[30];
        assert_eq!((refused.level.as_str(), refused.times), ("ERROR", 3));
        assert!(
            refused.message.starts_with("refused why=") && !refused.message.contains("sk-of"),
            "{refused:?}"
        );
        assert_eq!(kept[31].message.chars().count(), MAX_KEPT_CHARS + 1);
    }
}
