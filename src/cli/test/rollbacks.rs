//! Which of the contracts that change something have a way back that a sample has tried (003-106).
//!
//! Tried is what can be known where nothing is executed: a sample that passes is the very call that
//! the contract names to take back what another sample, which passes too, has done. Whether the
//! tool server then does so, no sample says.

use super::suite::{PackRun, SampleVerdict, Suite};
use crate::guards::ToolRules;
use crate::guards::rollback::Undo;
use crate::model::ids::ToolName;
use crate::policy::Policy;
use crate::policy::pack::PosedCall;
use std::sync::Arc;

/// A contract that changes something, or one of its variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RollbackCoverage {
    /// The contract's name; with `#` and its own, a variant's.
    pub(super) contract: String,
    /// What takes a call back; none: no call does.
    pub(super) tool: Option<ToolName>,
    /// Why no call takes it back, in a word or two.
    pub(super) why: Option<&'static str>,
    /// Whether a sample has tried it.
    pub(super) is_tested: bool,
}

/// All of the policy that `suite` tests, by name.
pub(super) fn of(suite: &Suite) -> Vec<RollbackCoverage> {
    let Some(PackRun { policy, .. }) = suite.runs.first() else {
        return Vec::new();
    };
    let passing: Vec<&PosedCall> = suite.runs.iter().flat_map(passing).collect();
    let mut all: Vec<RollbackCoverage> = policy
        .allowlist
        .changing()
        .map(|(name, rules)| judge(policy, name, rules, &passing))
        .collect();
    all.sort_by(|one, other| one.contract.cmp(&other.contract));
    all
}

/// The samples that are expected to pass, and do.
fn passing(run: &PackRun) -> impl Iterator<Item = &PosedCall> {
    let passes =
        |posed: &PosedCall, verdict| verdict == SampleVerdict::Expected && posed.expect.is_none();
    run.judged()
        .filter(move |(posed, judged)| passes(posed, judged.verdict))
        .map(|(posed, _)| posed)
}

fn judge(
    policy: &Policy,
    name: &ToolName,
    rules: &Arc<ToolRules>,
    passing: &[&PosedCall],
) -> RollbackCoverage {
    let is_of = |posed: &&PosedCall| {
        rules_of(policy, posed).is_some_and(|chosen| Arc::ptr_eq(chosen, rules))
    };
    let is_tested = rules.undo.call().is_some_and(|rollback| {
        let tries = passing.iter().filter(|posed| posed.tool == rollback.tool);
        let done: Vec<&&PosedCall> = passing.iter().filter(|posed| is_of(posed)).collect();
        let mut pairs = tries.flat_map(|tried| done.iter().map(move |done| (tried, done)));
        pairs.any(|(tried, done)| rollback.fits(&tried.arguments, &done.arguments))
    });
    let (tool, why) = match &rules.undo {
        Undo::Call(rollback) => (Some(rollback.tool.clone()), None),
        Undo::Manual(_) => (None, Some("by hand")),
        Undo::Additive => (None, Some("nothing is lost")),
        Undo::Irreversible | Undo::Unsaid => (None, Some("irreversible")),
    };
    RollbackCoverage {
        contract: contract_name(name, rules),
        tool,
        why,
        is_tested,
    }
}

/// The contract that judges a call, or the one of its variants that the arguments choose.
pub(super) fn rules_of<'p>(policy: &'p Policy, posed: &PosedCall) -> Option<&'p Arc<ToolRules>> {
    let whole = policy.allowlist.contract_of(&posed.tool)?;
    let variants = whole.variants.as_ref();
    let chosen = variants.and_then(|variants| variants.choose(&posed.arguments));
    Some(chosen.unwrap_or(whole))
}

/// What a contract is called in reports; with `#` and its own name, a variant.
pub(super) fn contract_name(name: &ToolName, rules: &ToolRules) -> String {
    let variant = rules.variant.as_ref();
    let variant = variant.map(|variant| format!("#{variant}"));
    format!("{name}{}", variant.unwrap_or_default())
}
