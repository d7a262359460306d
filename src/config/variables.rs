//! Environment variables in texts: after the YAML is read, so that no value can break out of its
//! quotes.

use crate::model::diagnostic::Problems;
use serde_json::Value;

/// Replaces `${NAME}` and `${NAME:-default}` in every text of `tree`, and `$${` by `${`. Keys stay
/// as they are.
pub(super) fn replace(
    tree: &mut Value,
    variable: &dyn Fn(&str) -> Option<String>,
    problems: &mut Problems,
) {
    match tree {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => *text = expand(text, variable, problems),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                problems.under(index.to_string(), |problems| {
                    replace(item, variable, problems);
                });
            }
        }
        Value::Object(map) => {
            for (key, item) in map.iter_mut() {
                problems.under(key.clone(), |problems| replace(item, variable, problems));
            }
        }
    }
}

fn expand(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    problems: &mut Problems,
) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(kept) = before.strip_suffix('$') {
            done.push_str(kept);
            done.push_str("${");
            rest = &from[2..];
            continue;
        }
        done.push_str(before);
        let Some((inner, after)) = from[2..].split_once('}') else {
            problems.error(
                "`${` without `}`",
                "close it, or write `$${` for the two characters",
            );
            return done;
        };
        rest = after;
        done.push_str(&value(inner, variable, problems));
    }
    done.push_str(rest);
    done
}

fn value(
    inner: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    problems: &mut Problems,
) -> String {
    let (name, default) = inner
        .split_once(":-")
        .map_or((inner, None), |(name, default)| (name, Some(default)));
    let first = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if !first
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        problems.error(
            "`${…}` holds no name of a variable",
            "write ${NAME} or ${NAME:-default}",
        );
        return String::new();
    }
    match (variable(name), default) {
        (Some(value), None) => value,
        (Some(value), Some(_)) if !value.is_empty() => value,
        (_, Some(default)) => default.to_owned(),
        (None, None) => {
            let hint = format!("set `{name}` before the start, or give a default: ${{{name}:-…}}");
            problems.error(format!("the variable `{name}` is not set"), hint);
            String::new()
        }
    }
}
