//! Which calls are the same, as the contracts say it: how many say what, and which of those say nothing
//! where a second execution costs most.

use crate::guards::ToolRules;
use crate::guards::idempotency::{Regime, Rule};
use crate::model::counted::counted;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::ToolName;
use crate::policy::Policy;
use std::collections::BTreeSet;
use std::path::Path;

/// What is hard to take back.
const COSTLY_ACTIONS: [&str; 3] = ["pay", "delete", "grant"];
/// Names in a warning at most.
const MAX_TOOLS_NAMED: usize = 8;

/// Warns of contracts whose calls pay, delete or grant and that say nothing of which of them are the
/// same.
pub(super) fn judge(configuration: &Path, policy: &Policy) -> Option<Diagnostic> {
    let is_costly = |rules: &ToolRules| {
        let mut actions = rules.actions.iter();
        actions.any(|action| COSTLY_ACTIONS.contains(&action.as_str()))
    };
    let changing = policy.allowlist.changing();
    let unsaid = changing.filter(|(_, rules)| {
        is_costly(rules) && !rules.idempotency.as_ref().is_some_and(Rule::is_said)
    });
    let tools: BTreeSet<&ToolName> = unsaid.map(|(name, _)| name).collect();
    if tools.is_empty() {
        return None;
    }
    let shown = tools.iter().take(MAX_TOOLS_NAMED);
    let names: Vec<&str> = shown.map(|tool| tool.as_str()).collect();
    let more = match tools.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(Diagnostic {
        severity: Severity::Warning,
        file: configuration.display().to_string(),
        line: 0,
        column: 0,
        length: 0,
        message: format!(
            "calls of {}{more} pay, delete or grant, and nothing says which of them are the same",
            names.join(", ")
        ),
        hint: Some(
            "write `idempotency: { require: true }`, so that agents give a key, or `derive`: the arguments that make two calls one"
                .to_owned(),
        ),
    })
}

/// How many contracts with side effects say what of equal calls.
pub(super) fn regimes(policy: &Policy) -> Option<String> {
    let mut counts = [0; 3];
    for (_, rules) in policy.allowlist.changing() {
        let Some(rule) = &rules.idempotency else {
            continue;
        };
        let at = match rule.regime(false) {
            None | Some(Regime::Keyed) => 0,
            Some(Regime::Declared) => 1,
            Some(Regime::Reissue { .. }) => 2,
        };
        counts[at] += 1;
    }
    let words = [
        "only with one key (`require`)",
        "by what `derive` names",
        "only when sent again (`retry`, the default)",
    ];
    let said = counts.iter().zip(words).filter(|(count, _)| **count > 0);
    let said: Vec<String> = said
        .map(|(count, words)| format!("in {} {words}", counted(*count, "contract")))
        .collect();
    (!said.is_empty()).then(|| format!("note: equal calls are one: {}", said.join(", ")))
}
