//! The read that shows whether a call was taken back, as a contract names it.

use super::undo_arguments::judge_arguments;
use crate::guards::rollback::UndoCheck;
use crate::model::diagnostic::Problems;
use crate::model::ids::{self, ServerName, ToolName};
use crate::model::pointer::is_pointer;
use crate::policy::file::UndoCheckSettings;

/// Values that are expected at most.
const MAX_EXPECTED_VALUES: usize = 32;

/// As it is run.
pub(super) fn compiled(check: &UndoCheckSettings) -> UndoCheck {
    UndoCheck {
        tool: ToolName::new(&check.tool),
        arguments: check.arguments.clone(),
        expect: check.expect.clone(),
    }
}

/// What is wrong with it.
pub(super) fn judge(check: &UndoCheckSettings, servers: &[ServerName], problems: &mut Problems) {
    let UndoCheckSettings {
        tool,
        arguments,
        expect,
    } = check;
    if tool.contains('*') || ids::server_of(tool, servers).is_none() {
        problems.under("tool", |problems| {
            problems.error(
                format!("`{tool}` is no tool of a declared server"),
                "name the one read, `server__tool`, that shows whether the effect is gone",
            );
        });
    }
    problems.under("arguments", |problems| {
        judge_arguments(arguments, problems);
    });
    problems.under("expect", |problems| {
        if expect.is_empty() || expect.len() > MAX_EXPECTED_VALUES {
            problems.error(
                format!("has {} values", expect.len()),
                format!(
                    "name 1 to {MAX_EXPECTED_VALUES} by JSON pointer, such as `/status: deleted`"
                ),
            );
        }
        for pointer in expect.keys().filter(|pointer| !is_pointer(pointer)) {
            problems.under(pointer.clone(), |problems| {
                problems.error("is no JSON pointer", "write it like `/status`");
            });
        }
    });
}
