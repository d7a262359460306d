//! Whatever changes something says how it is taken back, or that it cannot be (003-19, 003-52,
//! 003-64).

use crate::guards::rollback::{self, ACTION_PLACEHOLDER, ARGUMENTS_PREFIX, RESULT_PREFIX};
use crate::model::diagnostic::Problems;
use crate::model::ids::{self, ServerName, ToolName};
use crate::model::pointer::is_pointer;
use crate::policy::file::{Contract, RollbackSettings, SideEffect};
use serde_json::Value;

/// What stands for a part of the call that is taken back, in front of a pointer.
const PLACEHOLDER_PREFIXES: [&str; 2] = [RESULT_PREFIX, ARGUMENTS_PREFIX];
/// Values in the arguments of a rollback.
const MAX_ROLLBACK_VALUES: usize = 256;

/// Is there an action besides reading?
pub(super) fn changes(actions: &[String]) -> bool {
    actions.iter().any(|action| action != "read")
}

/// The call that takes the effect back.
pub(super) fn rollback(side_effect: Option<&SideEffect>) -> Option<rollback::Rollback> {
    let RollbackSettings { tool, arguments } = side_effect?.rollback.as_ref()?;
    Some(rollback::Rollback {
        tool: ToolName::new(tool),
        arguments: arguments.clone(),
    })
}

/// What a contract says of its effect agrees with itself.
pub(super) fn judge(contract: &Contract, servers: &[ServerName], problems: &mut Problems) {
    let Contract {
        actions,
        side_effect,
        irreversible,
        ..
    } = contract;
    if (side_effect.is_some() || *irreversible) && !changes(actions) {
        let hint =
            "name the action that changes something, or take `side_effect` and `irreversible` away";
        problems.under("actions", |problems| {
            problems.error("only `read`, yet the contract tells of an effect", hint);
        });
    }
    let Some(SideEffect { writes, rollback }) = side_effect else {
        return;
    };
    problems.under("side_effect", |problems| {
        if writes.trim().is_empty() {
            problems.under("writes", |problems| {
                problems.error("is blank", "say what a call changes");
            });
        }
        let Some(rollback) = rollback else { return };
        problems.under("rollback", |problems| {
            judge_rollback(rollback, servers, problems);
        });
    });
    if *irreversible && rollback.is_some() {
        let hint = "take `irreversible` away, or `rollback`";
        problems.under("irreversible", |problems| {
            problems.error("yet there is a call that takes it back", hint);
        });
    }
}

/// What changes something says how it is taken back.
pub(super) fn judge_told(contract: &Contract, problems: &mut Problems) {
    let is_told = contract.irreversible
        || contract
            .side_effect
            .as_ref()
            .is_some_and(|effect| effect.rollback.is_some());
    if changes(&contract.actions) && !is_told {
        let hint =
            "add `side_effect` with the `rollback` that takes it back, or `irreversible: true`";
        problems.error("missing `side_effect.rollback` or `irreversible`", hint);
    }
}

fn judge_rollback(rollback: &RollbackSettings, servers: &[ServerName], problems: &mut Problems) {
    let RollbackSettings { tool, arguments } = rollback;
    if ids::server_of(tool, servers).is_none() {
        problems.under("tool", |problems| {
            problems.error(
                format!("`{tool}` is no tool of a declared server"),
                "name it `server__tool`",
            );
        });
    }
    problems.under("arguments", |problems| {
        let mut left = MAX_ROLLBACK_VALUES;
        for (name, value) in arguments {
            problems.under(name.clone(), |problems| {
                judge_value(value, &mut left, problems);
            });
        }
        if left == 0 {
            problems.error(
                format!("more than {MAX_ROLLBACK_VALUES} values"),
                "take some away",
            );
        }
    });
}

fn judge_value(value: &Value, left: &mut usize, problems: &mut Problems) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    match value {
        Value::String(text) => judge_text(text, problems),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                problems.under(index.to_string(), |problems| {
                    judge_value(item, left, problems);
                });
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                problems.under(name.clone(), |problems| judge_value(member, left, problems));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn judge_text(text: &str, problems: &mut Problems) {
    let Some((word, pointer)) = text.split_once('#') else {
        return;
    };
    let (stand, is_bare) = (format!("{word}#"), pointer.is_empty());
    let is_part = PLACEHOLDER_PREFIXES.contains(&stand.as_str());
    if (is_part && !is_bare && !is_pointer(pointer)) || (stand == ACTION_PLACEHOLDER && !is_bare) {
        let hint = "write `result#/id`, `arguments#/id` or `action#`";
        problems.error(format!("`{stand}` is followed by no JSON pointer"), hint);
    } else if !is_part && stand != ACTION_PLACEHOLDER && pointer.starts_with('/') {
        problems.warning(
            format!("`{stand}` stands for nothing, so the text is sent as it is"),
            "known here: `result#`, `arguments#`, `action#`",
        );
    }
}
