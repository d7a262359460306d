//! The names that expressions may use, and which of them may have been meant by another.

use super::reads::RE_FUNCTION;
use crate::model::spelling::nearest;

/// What rules know of the caller.
pub(super) const CALLER_FIELDS: &[&str] = &[
    "agent", "tenant", "user", "roles", "group", "model", "owner",
];
/// Names of types, as in `type(arguments.id) == string`.
pub(super) const TYPE_NAMES: &[&str] = &[
    "int",
    "uint",
    "double",
    "string",
    "bool",
    "list",
    "map",
    "bytes",
    "null_type",
    "type",
];
/// Functions that a rule may call.
pub(super) const FUNCTIONS: &[&str] = &[
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    RE_FUNCTION,
    "int",
    "uint",
    "double",
    "string",
    "bool",
    "type",
    "dyn",
];
/// What reads like a function and the language expands.
const MACROS: &[&str] = &["has", "all", "exists", "exists_one", "map", "filter"];
/// What other languages call what this one has, in lower case.
const FUNCTIONS_ELSEWHERE: [(&str, &str); 14] = [
    ("len", "`size(arguments.list)`"),
    ("length", "`size(arguments.list)`"),
    ("count", "`size(arguments.list)`"),
    (
        "includes",
        "`'x' in arguments.list`, or `arguments.text.contains('x')`",
    ),
    ("any", "`arguments.list.exists(one, one == 'x')`"),
    ("some", "`arguments.list.exists(one, one == 'x')`"),
    ("every", "`arguments.list.all(one, one == 'x')`"),
    ("match", "`arguments.text.matches('^x')`"),
    ("regex", "`arguments.text.matches('^x')`"),
    ("not", "`!(…)`"),
    ("float", "`double(…)`"),
    ("number", "`double(…)`"),
    ("str", "`string(…)`"),
    ("parseint", "`int(…)`"),
];
/// What may have been meant by a function that there is not.
pub(super) fn function_meant(name: &str) -> String {
    let known: Vec<String> = owned(FUNCTIONS).into_iter().chain(owned(MACROS)).collect();
    let elsewhere = FUNCTIONS_ELSEWHERE
        .iter()
        .find(|(other, _)| *other == name.to_lowercase());
    let near = nearest(name, &known);
    let misspelt = || {
        let others = FUNCTIONS_ELSEWHERE.map(|(other, _)| other.to_owned());
        let near = nearest(&name.to_lowercase(), &others)?.to_owned();
        FUNCTIONS_ELSEWHERE.iter().find(|(other, _)| *other == near)
    };
    match (elsewhere, near) {
        (Some((_, ours)), _) => format!("write {ours}"),
        (None, Some(near)) => format!("did you mean `{near}`?"),
        (None, None) => misspelt().map_or_else(
            || format!("functions: {}", known.join(", ")),
            |(_, ours)| format!("write {ours}"),
        ),
    }
}

/// As `spelling` takes them.
pub(super) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
