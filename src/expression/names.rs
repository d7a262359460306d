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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::CEL_LANGUAGE;
    use cel::Context;
    use std::collections::BTreeSet;

    /// What the language's definition and its usual libraries have, as the names of functions.
    const KNOWN_ELSEWHERE: &str = "size contains startsWith endsWith matches int uint double string bool \
        bytes type dyn duration timestamp getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear \
        getHours getMilliseconds getMinutes getMonth getSeconds optional.of optional.none \
        optional.ofNonZeroValue hasValue value or orValue optMap optFlatMap max min math.greatest \
        math.least math.abs math.ceil math.floor math.round math.sign charAt indexOf lastIndexOf join \
        lowerAscii upperAscii replace reverse split substring trim format quote sets.contains \
        sets.equivalent sets.intersects lists.range distinct flatten slice sort sortBy base64.encode \
        base64.decode regex.extract regex.replace find findAll url isURL ip isIP cidr isCIDR quantity \
        isQuantity semver transformList transformMap";
    /// What the language has and rules do without: bytes, which no argument is, and optional values.
    const LEFT_OUT: [&str; 8] = [
        "bytes",
        "optional.of",
        "optional.none",
        "optional.ofNonZeroValue",
        "hasValue",
        "value",
        "or",
        "orValue",
    ];

    /// The language takes no function under a name that it has itself.
    fn has(name: &str) -> bool {
        let mut context = Context::with_env(CEL_LANGUAGE.clone());
        context.add_function(name, |any: i64| any).is_err()
    }

    /// D13: who writes a function that there is not reads all that there are.
    #[test]
    fn all_functions_of_the_language_are_listed() {
        let known: BTreeSet<&str> = KNOWN_ELSEWHERE.split_whitespace().chain(LEFT_OUT).collect();
        let ours: BTreeSet<&str> = known.into_iter().filter(|name| has(name)).collect();
        let told: BTreeSet<&str> = FUNCTIONS
            .iter()
            .copied()
            .filter(|name| *name != RE_FUNCTION)
            .chain(LEFT_OUT)
            .collect();
        assert_eq!(ours, told);
        assert!(!has(RE_FUNCTION));
        let said = function_meant("zzzzqqqq");
        let listed: Vec<&str> = said.trim_start_matches("functions: ").split(", ").collect();
        let all: Vec<&str> = FUNCTIONS.iter().chain(MACROS).copied().collect();
        assert_eq!(listed, all, "{said}");
    }
}
