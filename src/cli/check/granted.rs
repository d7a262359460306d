//! Standing grants that can cover no call by the files as they are: each with why, and how it is taken back.
//! They are read from the ledger, without its lock, also beside a toolgate that runs.

use crate::config::Config;
use crate::gate::grant_rules::{GrantRulebook, pinned};
use crate::guards::approval::GrantJudge as _;
use crate::mcp::pretty::plain;
use crate::model::approvers::Approvers;
use crate::model::clock::Clock;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::policy::Policy;
use crate::store::grants::at_rest::{self, GrantsAtRest};
use crate::store::state::grant::Grant;
use std::path::Path;

/// Grants that are named; of more it is said how many there are.
const MAX_GRANTS_NAMED: usize = 20;

/// What there is to say of the grants of a configuration.
#[derive(Debug, Default)]
pub(super) struct JudgedGrants {
    /// A warning for each that can cover no call.
    pub(super) found: Vec<Diagnostic>,
    /// Why they were not looked at, where that is so.
    pub(super) note: Option<String>,
}

/// Judges those in the data directory of `config`; where no toolgate has written yet, there are none.
pub(super) fn judge(configuration: &Path, config: &Config, policy: &Policy) -> JudgedGrants {
    let now = u64::try_from(Clock.wall().as_millisecond()).unwrap_or_default();
    match at_rest::read(&config.data, now) {
        Ok(known) => JudgedGrants {
            found: flawed(configuration, policy, &config.admin.approvers(), &known),
            note: None,
        },
        Err(error) => JudgedGrants {
            found: Vec::new(),
            note: Some(format!(
                "note: standing grants were not looked at: {}",
                plain(&error.to_string())
            )),
        },
    }
}

/// A warning for each of the grants that could cover a call by what is left of it, and can by nothing else.
fn flawed(
    configuration: &Path,
    policy: &Policy,
    approvers: &Approvers,
    known: &GrantsAtRest,
) -> Vec<Diagnostic> {
    let judge = GrantRulebook {
        policy,
        approvers,
        tools: &|tool| pinned(policy, tool),
    };
    let live = known.grants.iter();
    let live = live.filter(|grant| grant.ended(known.now).is_none());
    let why = |grant: &Grant| {
        let flaws = judge.flaws(grant);
        let words: Vec<String> = flaws.iter().map(ToString::to_string).collect();
        (!words.is_empty()).then(|| words.join("; "))
    };
    let flawed: Vec<(&Grant, String)> = live
        .filter_map(|grant| Some((grant, why(grant)?)))
        .collect();
    let named = flawed.iter().take(MAX_GRANTS_NAMED);
    let mut found: Vec<Diagnostic> = named
        .map(|(grant, why)| {
            let message = format!(
                "no call can be covered by the standing grant `{}` of {} for {}, calls of {}: {}",
                grant.id,
                plain(&grant.who),
                plain(&grant.scope.agent),
                plain(grant.scope.tool.as_str()),
                plain(why)
            );
            let hint = format!(
                "take it back: `toolgate approvals grants revoke {} --why …`",
                grant.id
            );
            warning(configuration, message, hint)
        })
        .collect();
    let more = flawed.len().saturating_sub(MAX_GRANTS_NAMED);
    if more > 0 {
        let message = format!("no call can be covered by {more} more standing grants");
        let hint = "`toolgate approvals grants` lists them".to_owned();
        found.push(warning(configuration, message, hint));
    }
    found
}

fn warning(configuration: &Path, message: String, hint: String) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        file: configuration.display().to_string(),
        line: 0,
        column: 0,
        length: 0,
        message,
        hint: Some(hint),
    }
}

#[cfg(test)]
mod tests;
