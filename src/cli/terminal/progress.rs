//! How far something is that takes more than a second: a line on standard error, while a person looks
//! at it there, that is gone when it is done.

use crate::model::clock::Clock;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What takes less is not worth a line.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// How far something is.
pub(in crate::cli) struct WorkProgress {
    bar: ProgressBar,
    began: Duration,
    is_shown: AtomicBool,
    /// Whether a person looks.
    is_watched: bool,
}

/// How the steps are counted.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum ProgressUnit {
    /// Each for itself.
    Steps,
    /// As bytes of a file.
    Bytes,
}

impl WorkProgress {
    /// Of `what`, such as `reading the ledger`: of `total` steps, if it is known how many there are.
    pub(in crate::cli) fn of(what: &'static str, total: Option<u64>, unit: ProgressUnit) -> Self {
        let bar = match total {
            Some(total) => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()),
            None => ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
        };
        let count = match (total.is_some(), unit) {
            (true, ProgressUnit::Steps) => "[{bar:30}] {pos}/{len}, {eta} left",
            (true, ProgressUnit::Bytes) => "[{bar:30}] {bytes}/{total_bytes}, {eta} left",
            (false, ProgressUnit::Steps) => "{pos} {elapsed}",
            (false, ProgressUnit::Bytes) => "{bytes} {elapsed}",
        };
        let style = ProgressStyle::with_template(&format!("{{msg}} {count}"));
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what);
        Self {
            bar,
            began: Clock.steady(),
            is_shown: AtomicBool::new(false),
            is_watched: std::io::stderr().is_terminal(),
        }
    }

    /// The same, shown to nobody where its line would stand among others.
    pub(in crate::cli) fn unless(mut self, is_among_others: bool) -> Self {
        self.is_watched &= !is_among_others;
        self
    }

    /// Whether a person looks, so that nothing else need say how far it is.
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// How far it has come.
    #[cfg(test)]
    pub(super) fn position(&self) -> u64 {
        self.bar.position()
    }

    /// It has come so far in all.
    pub(in crate::cli) fn reach(&self, position: u64) {
        self.bar.set_position(position);
        self.show();
    }

    /// One more step is done.
    pub(in crate::cli) fn step(&self) {
        self.bar.inc(1);
        self.show();
    }

    fn show(&self) {
        if self.is_watched
            && Clock.steady().saturating_sub(self.began) >= SHOWN_AFTER
            && !self.is_shown.swap(true, Ordering::Relaxed)
        {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for WorkProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that is never drawn must not be made ready, either: scripts read standard error.
    #[test]
    fn a_line_is_shown_after_a_second_and_only_to_a_person() {
        for (is_watched, waited, expected) in [(true, 2, true), (true, 0, false), (false, 2, false)]
        {
            let mut progress = WorkProgress::of("counting", Some(3), ProgressUnit::Steps);
            progress.is_watched = is_watched;
            progress.began = Clock.steady().saturating_sub(Duration::from_secs(waited));
            progress.step();
            progress.reach(2);
            assert_eq!(progress.is_shown.load(Ordering::Relaxed), expected);
            assert_eq!(progress.bar.position(), 2);
        }
    }
}
