//! One contract as written → as run.

use super::server_of;
use crate::guards::{Section, ToolRules, arguments, budget, idempotency, permission, rules};
use crate::model::diagnostic::Problems;
use crate::model::ids::{SEPARATOR, ServerName};
use crate::policy::file::{Contract, Rollback, SideEffect};
use crate::policy::shape::suggest;
use serde_json::Value;
use std::time::Duration;

/// What a call can do; anything else is taken for a side effect.
const ACTIONS: &[&str] = &["read", "write", "delete", "pay", "grant", "notify"];

/// Is `name` the name of one tool of a declared server?
pub(super) fn judge_name(name: &str, servers: &[ServerName], problems: &mut Problems) -> bool {
    if name.contains('*') {
        let hint = "write one contract a tool, or use a later version";
        problems.error("a contract for several tools is not enforced by this version", hint);
        return false;
    }
    if server_of(name, servers).is_some() {
        return true;
    }
    match name.split_once(SEPARATOR) {
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => {
            let known: Vec<String> = servers.iter().map(ToString::to_string).collect();
            problems.error(format!("the server `{server}` is not declared"), suggest(server, &known));
        }
        _ => problems.error(format!("`{name}` is no name of a tool"), "name it `server__tool`"),
    }
    false
}

/// Compiles every section. A section that is added to the format and not here does not build.
pub(super) fn compile(
    contract: Contract,
    servers: &[ServerName],
    timeout: Duration,
    problems: &mut Problems,
) -> ToolRules {
    let Contract {
        purpose,
        not_for: _, // for readers
        actions,
        permission,
        arguments,
        rules,
        idempotency,
        budget,
        side_effect,
        irreversible,
        secrets,
        audit,
        owner_only,
    } = contract;
    if purpose.trim().is_empty() {
        problems.under("purpose", |problems| problems.error("is blank", "say what the tool is for"));
    }
    problems.under("actions", |problems| judge_actions(&actions, problems));
    let changes = actions.iter().any(|action| action != "read");
    let contradicted = side_effect.is_some() || irreversible;
    if contradicted && !changes {
        let hint = "name the action that changes something, or take `side_effect` and `irreversible` away";
        problems.under("actions", |problems| problems.error("only `read`, yet the contract tells of an effect", hint));
    }
    if let Some(side_effect) = &side_effect {
        problems.under("side_effect", |problems| judge_rollback(side_effect, servers, problems));
    }
    judge_secrets(&secrets, problems);
    problems.under("audit", |problems| judge_audit(&audit, problems));
    if let Some(idempotency) = &idempotency {
        problems.under(idempotency::Settings::NAME, |problems| judge_pointers(idempotency, &arguments, problems));
    }
    let budget = problems.under(budget::Settings::NAME, |problems| compile_budget(budget, timeout, problems));
    let timeout = budget.timeout().unwrap_or(timeout).min(timeout);
    let idempotency = idempotency.map(|written| {
        problems.under(idempotency::Settings::NAME, |problems| {
            let rule = written.compile(problems);
            judge_times(&rule, timeout, problems);
            rule
        })
    });
    let arguments = problems.under(arguments::Settings::NAME, |problems| arguments.compile(problems));
    let permission = problems.under(permission::Settings::NAME, |problems| permission.compile(problems));
    let rules = problems.under(rules::Settings::NAME, |problems| rules.compile(problems));
    let keys = idempotency.as_ref().map(idempotency::Rule::reads).unwrap_or_default();
    let judged = [permission.reads(), rules.reads().to_vec(), keys].concat();
    ToolRules {
        purpose,
        actions,
        side_effect: changes,
        owner_only,
        arguments: arguments.beside(&judged, &audit),
        permission,
        rules,
        // What changes something is told apart whether its contract says how or not (004-53).
        idempotency: idempotency.or_else(|| changes.then(idempotency::Rule::default)),
        budget,
        audit,
    }
}

fn judge_secrets(secrets: &[String], problems: &mut Problems) {
    if !secrets.is_empty() {
        let hint = "write `secrets: []`, or use a later version";
        problems.under("secrets", |problems| problems.error("secrets are not enforced by this version", hint));
    }
}

fn compile_budget(written: budget::Settings, timeout: Duration, problems: &mut Problems) -> budget::Rule {
    let rule = written.compile(problems);
    if rule.timeout().is_some_and(|own| own > timeout) {
        let message =
            format!("is longer than the server's `timeout` ({} ms), which ends the call", timeout.as_millis());
        problems.under("timeout_ms", |problems| problems.warning(message, "raise the server's `timeout`"));
    }
    rule
}

/// A key that is forgotten while its call is still tried protects nothing (004-55).
fn judge_times(rule: &idempotency::Rule, timeout: Duration, problems: &mut Problems) {
    let tried = timeout.saturating_mul(rule.attempts());
    if tried > rule.ttl() {
        let message =
            format!("is shorter than what a call can take: {} times {} s", rule.attempts(), timeout.as_secs());
        problems.under("ttl", |problems| problems.error(message, "raise `ttl`, or lower `attempts` or the time-out"));
    }
}

/// Where the contract's own schema is closed, it says which arguments there are.
fn judge_pointers(written: &idempotency::Settings, arguments: &arguments::Settings, problems: &mut Problems) {
    let Some(idempotency::Derive::Pointers(pointers)) = &written.derive else { return };
    let declared = arguments.0.get("properties").and_then(Value::as_object);
    if arguments.0.get("additionalProperties") != Some(&Value::Bool(false)) {
        return;
    }
    let known: Vec<String> = declared.into_iter().flat_map(|names| names.keys().cloned()).collect();
    for (index, pointer) in pointers.iter().enumerate() {
        let first = pointer.split('/').nth(1).unwrap_or_default().replace("~1", "/").replace("~0", "~");
        if !first.is_empty() && !known.contains(&first) {
            problems.under("derive", |problems| {
                let message = format!("the contract allows no argument `{first}`");
                problems.under(index.to_string(), |problems| problems.error(message, suggest(&first, &known)));
            });
        }
    }
}

fn judge_actions(actions: &[String], problems: &mut Problems) {
    let known: Vec<String> = ACTIONS.iter().map(|action| (*action).to_owned()).collect();
    for (index, action) in actions.iter().enumerate().filter(|(_, action)| !known.contains(action)) {
        problems.under(index.to_string(), |problems| {
            if action.trim().is_empty() {
                problems.error("is blank", "name an action");
            } else {
                let message = format!("`{action}` is no known action and counts as a side effect");
                problems.warning(message, suggest(action, &known));
            }
        });
    }
}

fn judge_rollback(side_effect: &SideEffect, servers: &[ServerName], problems: &mut Problems) {
    let SideEffect { writes: _, rollback } = side_effect;
    let Some(Rollback { tool, arguments: _ }) = rollback else { return };
    if server_of(tool, servers).is_none() {
        problems.under("rollback", |problems| {
            problems.under("tool", |problems| {
                problems.error(format!("`{tool}` is no tool of a declared server"), "name it `server__tool`");
            });
        });
    }
}

fn judge_audit(audit: &[String], problems: &mut Problems) {
    for (index, name) in audit.iter().enumerate() {
        problems.under(index.to_string(), |problems| {
            if name.trim().is_empty() {
                problems.error("is blank", "name an argument");
            } else if name.contains('/') {
                problems.error("is no name of an argument", "name a top-level argument, without `/`");
            } else if audit[..index].contains(name) {
                problems.warning("is named twice", "take one away");
            }
        });
    }
}
