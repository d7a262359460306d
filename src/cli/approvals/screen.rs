//! What `approvals watch` draws: the calls that wait, and below them all of the one that is looked at,
//! so that a narrow window hides nothing of what would run.

use super::{listed_rows, whole};
use crate::cli::terminal::Terminal;
use crate::mcp::pretty::plain;
use crate::store::approvals::OpenHold;
use std::fmt::Write as _;
use std::time::Duration;

/// What stands at the end of the screen where keys are read.
const KEY_LINE: &str =
    "a allow once · d deny · e more time · s next · q leave (leaving decides nothing)";

/// What is asked at the end of the screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum ScreenPrompt {
    /// Nothing: keys are read.
    #[default]
    Keys,
    /// A second `a` allows the call that it names.
    Sure(SureQuestion),
    /// Nobody types here: nothing is decided on this screen.
    Unattended,
}

/// How soon a second `a` has to come.
pub(super) const SURE_TIMEOUT: Duration = Duration::from_secs(5);
/// And how long no `a` may come before it: longer than a key is held down before it repeats, so that one that
/// is held, or was typed ahead, allows nothing.
const SURE_PAUSE: Duration = Duration::from_secs(1);

/// Whether a call is to run, as it stood on the screen when that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SureQuestion {
    /// The call.
    pub id: String,
    /// Names what was shown of it.
    pub shown: String,
    /// Since when the question stands on the screen, on the steady clock.
    drawn: Option<Duration>,
}

impl SureQuestion {
    /// Whether `hold` is to run.
    pub(super) fn of(hold: &OpenHold) -> Self {
        Self {
            id: hold.id.clone(),
            shown: hold.shown.clone(),
            drawn: None,
        }
    }

    /// It stands on the screen since `now`, if it did not before.
    pub(super) fn stands(&mut self, now: Duration) {
        self.drawn.get_or_insert(now);
    }

    /// Whether it is still about the call that is looked at, as that is now.
    pub(super) fn is_about(&self, hold: Option<&OpenHold>) -> bool {
        hold.is_some_and(|hold| hold.id == self.id && hold.shown == self.shown)
    }

    /// Whether an `a` at `now` answers it.
    pub(super) fn is_answered(&self, now: Duration) -> bool {
        let stood = self.drawn.map(|drawn| now.saturating_sub(drawn));
        stood.is_some_and(|stood| SURE_PAUSE <= stood && stood < SURE_TIMEOUT)
    }
}

/// All of the screen. `chosen` is the id of the call that is looked at, `said` what came of the last
/// word.
pub(super) fn screen(
    holds: &[OpenHold],
    chosen: Option<&str>,
    said: &str,
    prompt: &ScreenPrompt,
) -> String {
    let mut out = listed_rows(Terminal::stdout(), holds);
    if let Some(hold) = holds.iter().find(|hold| Some(hold.id.as_str()) == chosen) {
        let _ = write!(out, "\n{}", whole(hold));
    }
    if !said.is_empty() {
        let _ = write!(out, "\n{}\n", plain(said));
    }
    match prompt {
        ScreenPrompt::Keys if !holds.is_empty() => {
            let _ = write!(out, "\n{KEY_LINE}\n");
        }
        ScreenPrompt::Keys => out.push_str("\nq leave\n"),
        ScreenPrompt::Sure(question) => {
            let _ = write!(
                out,
                "\nwait a second, then press a once more within 5 s to let {} run once\n",
                plain(&question.id)
            );
        }
        ScreenPrompt::Unattended => {}
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECOND: Duration = Duration::from_secs(1);

    fn hold(id: &str, shown: &str) -> OpenHold {
        let hold = json!({
            "id": id, "shown": shown, "state": "pending", "asked": "", "approve_by": "", "agent": "bot",
            "caller_roles": [], "tool": "bank__pay", "actions": [], "irreversible": false, "purpose": "", "policy": "",
            "schema_hash": "", "needed": 1, "allowed_by": [], "roles": [], "self_approval": false, "decisions": [],
        });
        serde_json::from_value(hold).unwrap()
    }

    /// It is about one call as it was shown, whatever is looked at later.
    #[test]
    fn a_question_is_about_what_was_shown() {
        let asked = SureQuestion::of(&hold("0198", "sha256:1"));
        for (looked_at, is_same) in [
            (Some(hold("0198", "sha256:1")), true),
            (Some(hold("0198", "sha256:2")), false),
            (Some(hold("0199", "sha256:1")), false),
            (None, false),
        ] {
            assert_eq!(asked.is_about(looked_at.as_ref()), is_same, "{looked_at:?}");
        }
    }

    /// What was typed before the question could be read, or at once, or late, is no answer to it.
    #[test]
    fn a_second_key_counts_after_a_pause_only() {
        let mut asked = SureQuestion::of(&hold("0198", "sha256:1"));
        assert!(!asked.is_answered(9 * SECOND), "it was never drawn");
        asked.stands(10 * SECOND);
        asked.stands(12 * SECOND);
        let millis = |after: u64| 10 * SECOND + Duration::from_millis(after);
        for (after, counts) in [
            (0, false),
            (33, false),
            (660, false),
            (999, false),
            (1_000, true),
            (4_999, true),
            (5_000, false),
        ] {
            assert_eq!(asked.is_answered(millis(after)), counts, "{after}");
        }
    }
}
