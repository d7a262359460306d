//! What a configuration says where its secrets are not: for verbs that judge and compare, and connect
//! to nothing that a missing secret is of. Secrets and addresses may be missing then, of which no
//! verdict about a call depends; what decides about calls may not.

use super::variables;
use crate::model::diagnostic::{Problem, Problems, Severity};
use crate::model::ids::ServerName;
use serde_json::Value;
use std::collections::BTreeMap;

/// What becomes of variables that are not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnsetVariables {
    /// They are errors.
    Refused,
    /// Those of secrets and addresses are warnings, and some text stands for them.
    Supposed,
}

/// Top-level keys of which no verdict about a call depends.
const UNJUDGED_KEYS: [&str; 9] = [
    "servers",
    "listen",
    "data",
    "ledger",
    "notify",
    "secrets",
    "allowed_hosts",
    "allowed_origins",
    "admin",
];
/// Keys below others of which none depends either.
const UNJUDGED_MEMBERS: [&str; 3] = ["token", "secret", "url"];
/// Keys that say who may do what below `admin`.
const JUDGED_MEMBERS: [&str; 3] = ["name", "roles", "verbs"];

/// The tree, with its variables replaced, and those that are not set.
pub(super) fn replace(
    written: &Value,
    variable: &dyn Fn(&str) -> Option<String>,
    unset: UnsetVariables,
) -> (Value, Vec<Problem>) {
    let (tree, mut missing) = replaced(written, variable);
    if missing.is_empty() || unset == UnsetVariables::Refused {
        return (tree, missing);
    }
    let some = |name: &str| variable(name).or_else(|| Some(format!("{name} is not set here")));
    let (mut tree, malformed) = replaced(written, &some);
    for problem in &mut missing {
        if !malformed.contains(problem) && !is_judged(&problem.path) {
            problem.severity = Severity::Warning;
        }
        // Some text is no address, and what is not there has one.
        match &*problem.path.iter().map(String::as_str).collect::<Vec<_>>() {
            [key @ ("listen" | "data")] | [key @ ("allowed_hosts" | "allowed_origins"), _] => {
                remove(&mut tree, key);
            }
            ["admin", key @ ("listen" | "public_url")] | ["admin", key @ "allowed_hosts", _] => {
                remove(&mut tree["admin"], key);
            }
            _ => {}
        }
    }
    (tree, missing)
}

fn replaced(written: &Value, variable: &dyn Fn(&str) -> Option<String>) -> (Value, Vec<Problem>) {
    let (mut tree, mut missing) = (written.clone(), Problems::default());
    variables::replace(&mut tree, variable, &mut missing);
    (tree, missing.into_found())
}

fn remove(tree: &mut Value, key: &str) {
    if let Some(keys) = tree.as_object_mut() {
        keys.shift_remove(key);
    }
}

/// Whether a verdict about a call can depend on what stands there.
fn is_judged(path: &[String]) -> bool {
    let (first, last) = (path.first(), path.last());
    let is_one_of =
        |key: Option<&String>, known: &[&str]| key.is_some_and(|key| known.contains(&key.as_str()));
    let names_rights = path
        .iter()
        .any(|key| JUDGED_MEMBERS.contains(&key.as_str()));
    let is_of_admin = first.is_some_and(|key| key == "admin");
    !is_one_of(last, &UNJUDGED_MEMBERS)
        && (!is_one_of(first, &UNJUDGED_KEYS) || (is_of_admin && names_rights))
}

/// The servers that miss something, and what.
pub(super) fn servers(missing: &[Problem]) -> BTreeMap<ServerName, String> {
    let of_server = |problem: &Problem| match problem.path.as_slice() {
        [first, name, ..] if first == "servers" => {
            Some((ServerName::new(name), problem.message.clone()))
        }
        _ => None,
    };
    missing.iter().filter_map(of_server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Issue 17 "never the wrong data": who judges needs no secret, and no verdict rests on some text
    /// that stands for a right.
    #[test]
    fn secrets_and_addresses_may_be_missing_and_rights_may_not() {
        let unset = |written: Value| replace(&written, &|_| None, UnsetVariables::Supposed);
        for written in [
            json!({ "callers": [{ "agent": "a", "token": "${X}" }] }),
            json!({ "admin": { "tokens": [{ "name": "a", "token": "${X}" }], "listen": "${Y}" } }),
            json!({ "servers": { "s": { "env": { "KEY": "${X}" } } }, "listen": "${Y}" }),
            json!({ "hooks": [{ "secret": "${X}", "url": "${Y}" }], "data": "${Z}" }),
        ] {
            let (_, missing) = unset(written.clone());
            let is_warning = |problem: &Problem| problem.severity == Severity::Warning;
            assert!(
                !missing.is_empty() && missing.iter().all(is_warning),
                "{written}"
            );
        }
        for written in [
            json!({ "mode": "${X}" }),
            json!({ "policies": ["${X}"] }),
            json!({ "callers": [{ "agent": "${X}" }] }),
            json!({ "callers": [{ "agent": "a", "roles": ["${X}"] }] }),
            json!({ "admin": { "tokens": [{ "name": "a", "roles": ["${X}"] }] } }),
            json!({ "admin": { "verbs": { "switch": ["${X}"] } } }),
            json!({ "pins": "${X}" }),
            json!({ "listen": "${X" }),
        ] {
            let (_, missing) = unset(written.clone());
            let errors: Vec<Severity> = missing.iter().map(|problem| problem.severity).collect();
            assert_eq!(errors, [Severity::Error], "{written}");
        }
        let (tree, missing) =
            unset(json!({ "listen": "${X}", "servers": { "s": { "url": "${U}" } } }));
        assert!(tree.get("listen").is_none(), "{tree}");
        let (tree, _) = unset(json!({
            "allowed_hosts": ["${X}"], "allowed_origins": ["${X}"], "admin": { "allowed_hosts": ["a", "${X}:7778"] }
        }));
        assert_eq!(tree, json!({ "admin": {} }), "some text is no host either");
        let servers = servers(&missing);
        assert_eq!(
            servers[&ServerName::new("s")],
            "the variable `U` is not set"
        );
    }
}
