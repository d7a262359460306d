//! One contract as written → as run.

use super::server_of;
use crate::guards::{Section, ToolRules, arguments, permission, rules};
use crate::model::diagnostic::Problems;
use crate::model::ids::{SEPARATOR, ServerName};
use crate::policy::file::{Contract, Rollback, SideEffect};
use crate::policy::shape::suggest;

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
pub(super) fn compile(contract: Contract, servers: &[ServerName], problems: &mut Problems) -> ToolRules {
    let Contract {
        purpose,
        not_for: _, // for readers
        actions,
        permission,
        arguments,
        rules,
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
    if !secrets.is_empty() {
        let hint = "write `secrets: []`, or use a later version";
        problems.under("secrets", |problems| problems.error("secrets are not enforced by this version", hint));
    }
    problems.under("audit", |problems| judge_audit(&audit, problems));
    let arguments = problems.under(arguments::Settings::NAME, |problems| arguments.compile(problems));
    let permission = problems.under(permission::Settings::NAME, |problems| permission.compile(problems));
    let rules = problems.under(rules::Settings::NAME, |problems| rules.compile(problems));
    let judged = [permission.reads(), rules.reads().to_vec()].concat();
    ToolRules {
        purpose,
        actions,
        side_effect: changes,
        owner_only,
        arguments: arguments.beside(&judged, &audit),
        permission,
        rules,
        audit,
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
