//! What `approvals watch` draws: the calls that wait, and below them all of the one that is looked at,
//! so that a narrow window hides nothing of what would run.

use super::{listed_rows, whole};
use crate::mcp::pretty::plain;
use crate::store::approvals::OpenHold;
use std::fmt::Write as _;

/// What stands at the end of the screen where keys are read.
const KEY_LINE: &str = "a allow once · d deny · s next · q leave (nothing is decided by leaving)";

/// What is asked at the end of the screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum ScreenPrompt {
    /// Nothing: keys are read.
    #[default]
    Keys,
    /// A second `a` allows the call.
    Sure,
    /// Nobody types here: nothing is decided on this screen.
    Unattended,
}

/// All of the screen. `chosen` is the id of the call that is looked at, `said` what came of the last
/// word.
pub(super) fn screen(
    holds: &[OpenHold],
    chosen: Option<&str>,
    said: &str,
    prompt: &ScreenPrompt,
) -> String {
    let mut out = listed_rows(holds);
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
        ScreenPrompt::Sure => out.push_str("\npress a once more within 5 s to let it run once\n"),
        ScreenPrompt::Unattended => {}
    }
    out
}
