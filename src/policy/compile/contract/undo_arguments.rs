//! What a contract gives the call that takes back, or the read that checks it: values, and stands for parts of
//! the call that is taken back.

use crate::guards::rollback::{ACTION_PLACEHOLDER, ARGUMENTS_PREFIX, RESULT_PREFIX};
use crate::model::diagnostic::Problems;
use crate::model::pointer::is_pointer;
use serde_json::{Map, Value};

/// What stands for a part of the call that is taken back, in front of a pointer.
const PLACEHOLDER_PREFIXES: [&str; 2] = [RESULT_PREFIX, ARGUMENTS_PREFIX];
/// Values in the arguments of a rollback.
const MAX_ROLLBACK_VALUES: usize = 256;

/// What is wrong with them.
pub(super) fn judge_arguments(arguments: &Map<String, Value>, problems: &mut Problems) {
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
