//! Is there an operator to ask where a contract asks a person? Known once all files are read.

use super::compiler::Compiler;
use crate::guards::ToolRules;
use crate::guards::{approval, variants};
use crate::model::approvers::Approvers;
use crate::model::counted::counted;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::ToolName;
use std::collections::BTreeMap;

/// The tools whose calls ask so many people of these roles, with the places of their contracts.
type ApproversNeeded<'a> = BTreeMap<(&'a [String], u32), Vec<(&'a ToolName, &'a Diagnostic)>>;

/// Warns of calls that nobody could allow, once for all contracts that ask the same people.
pub(super) fn judge(stock: &mut Compiler, approvers: &Approvers) {
    let mut lacking = ApproversNeeded::new();
    for (tool, held) in &stock.contracts {
        let mut asked: Vec<_> = rules_of(&held.rules).collect();
        asked.sort_unstable_by_key(|rule| (&rule.roles, rule.needed));
        asked.dedup_by_key(|rule| (&rule.roles, rule.needed));
        for rule in asked
            .into_iter()
            .filter(|rule| is_out_of_reach(rule, approvers))
        {
            lacking
                .entry((&rule.roles, rule.needed))
                .or_default()
                .push((tool, &held.place));
        }
    }
    let found = lacking.into_iter().filter_map(|((roles, needed), tools)| {
        let (tool, place) = tools.first()?;
        let others = match tools.len() - 1 {
            0 => String::new(),
            more => format!(" and {}", counted(more as u64, "other tool")),
        };
        let (people, roles) = (counted(u64::from(needed), "operator"), roles.join(" or "));
        let message =
            format!("a call of `{tool}`{others} asks {people} with the role {roles}, and not so many are configured");
        let hint =
            "add them to `admin.tokens` with that role; until then such calls are refused (approver_unreachable)";
        Some(Diagnostic { severity: Severity::Warning, message, hint: Some(hint.to_owned()), ..(*place).clone() })
    });
    let found: Vec<Diagnostic> = found.collect();
    stock.diagnostics.extend(found);
}

/// Those of the contract, or of its variants.
fn rules_of(rules: &ToolRules) -> impl Iterator<Item = &approval::Rule> {
    let cases = rules.variants.iter().flat_map(variants::Rule::cases);
    let own = rules.approval.iter().filter(|_| rules.variants.is_none());
    own.chain(cases.filter_map(|(_, rules)| rules.approval.as_ref()))
}

/// An agent may have an operator's name: then one more is needed, which is found at the call.
fn is_out_of_reach(rule: &approval::Rule, approvers: &Approvers) -> bool {
    approvers.reach(&rule.roles, |_| true) < usize::try_from(rule.needed).unwrap_or(usize::MAX)
}
