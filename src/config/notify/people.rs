//! The operators and their roles that receivers name: one that nobody has would be told of nothing.

use super::super::Admin;
use super::super::written_notify::NotifySettings;
use crate::model::diagnostic::Problems;
use crate::policy::shape::suggest;

/// Whom a receiver names.
pub(in crate::config) struct NamedPeople {
    operator: Option<String>,
    roles: Vec<String>,
}

/// Those of each receiver, in their order, also of one that is wrong otherwise.
pub(in crate::config) fn named(written: &NotifySettings) -> Vec<NamedPeople> {
    let receivers = written.receivers.iter();
    receivers
        .map(|one| NamedPeople {
            operator: one.operator.clone(),
            roles: one.roles.clone(),
        })
        .collect()
}

/// Notes operators that are none, and roles that no operator has.
pub(in crate::config) fn judge(all: &[NamedPeople], admin: &Admin, problems: &mut Problems) {
    let names: Vec<String> = admin.tokens.iter().map(|one| one.name.clone()).collect();
    let roles = admin.tokens.iter().flat_map(|one| one.roles.clone());
    let mut roles: Vec<String> = roles.collect();
    roles.sort();
    roles.dedup();
    for (index, people) in all.iter().enumerate() {
        let NamedPeople {
            operator,
            roles: heard,
        } = people;
        problems.under(index.to_string(), |problems| {
            if let Some(operator) = operator.as_ref().filter(|one| !names.contains(one)) {
                problems.under("operator", |problems| {
                    let hint = suggest(operator, &names);
                    problems.error("is no operator of `admin.tokens`", hint);
                });
            }
            problems.under("roles", |problems| judge_roles(heard, &roles, problems));
        });
    }
}

/// Where no operator has a token, nobody has a role, and nobody decides.
fn judge_roles(heard: &[String], known: &[String], problems: &mut Problems) {
    for (index, role) in heard.iter().enumerate() {
        if known.contains(role) || known.is_empty() {
            continue;
        }
        problems.under(index.to_string(), |problems| {
            let message = format!(
                "no operator of `admin.tokens` has the role `{}`, so that nothing is told",
                role.escape_debug()
            );
            problems.error(message, suggest(role, known));
        });
    }
}
