//! What the samples of some policies reach of them, and what they have to.

use super::suite::{PackRun, SampleVerdict, Suite};
use crate::model::ids::ToolName;
use crate::policy::Policy;
use crate::policy::pack::EXPECT_ALLOW;
use std::collections::{BTreeMap, BTreeSet};

/// What every set of packs has to expect at least, where the policies can refuse so; one of the
/// codes is enough (003-38, 003-40).
const REQUIRED_REFUSALS: &[&[&str]] = &[
    &["tenant_mismatch"],
    &["schema_invalid"],
    &["budget_exceeded", "budget_calls_exceeded"],
];

/// What the samples reach.
pub(super) struct Coverage {
    /// By tool, in the order of the gate; then what is of no contract.
    pub(super) rows: Vec<CoverageRow>,
}

/// One answer that the policies can give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CoverageRow {
    /// None: of the policy, whatever the tool.
    pub(super) tool: Option<ToolName>,
    /// `allow`, a code, or `rules[n] code`.
    pub(super) answer: String,
    /// How many samples get it.
    pub(super) samples: usize,
}

impl Coverage {
    /// What the samples of `suite` reach of the policy that all of them test.
    pub(super) fn of(suite: &Suite) -> Self {
        let Some(PackRun { policy, .. }) = suite.runs.first() else {
            return Self { rows: Vec::new() };
        };
        let got = got(suite);
        let row = |tool: Option<&ToolName>, answer: String| {
            let samples = got
                .get(&(tool.cloned(), answer.clone()))
                .copied()
                .unwrap_or_default();
            CoverageRow {
                tool: tool.cloned(),
                answer,
                samples,
            }
        };
        let mut rows = Vec::new();
        let contracts: BTreeMap<_, _> = policy.allowlist.codes().collect();
        for (tool, codes) in contracts {
            rows.push(row(Some(tool), EXPECT_ALLOW.to_owned()));
            rows.extend(
                codes
                    .into_iter()
                    .map(|(rule, code)| row(Some(tool), answer(rule, &code))),
            );
        }
        rows.extend(of_tasks(policy).map(|code| row(None, code.to_owned())));
        Self { rows }
    }

    /// What no sample reaches.
    pub(super) fn missing(&self) -> impl Iterator<Item = &CoverageRow> {
        self.rows.iter().filter(|row| row.samples == 0)
    }
}

/// How an answer is named: a rule by its place, since several may have one code.
fn answer(rule: Option<usize>, code: &str) -> String {
    rule.map_or_else(|| code.to_owned(), |index| format!("rules[{index}] {code}"))
}

/// What can be refused of any tool.
fn of_tasks(policy: &Policy) -> impl Iterator<Item = &'static str> {
    let limited = policy.tasks.is_limited().then_some("budget_exceeded");
    let watched = policy.repetition.is_written().then_some("loop_detected");
    [Some("tool_not_allowlisted"), watched, limited]
        .into_iter()
        .flatten()
}

/// How many samples get which answer, of a tool and of any.
fn got(suite: &Suite) -> BTreeMap<(Option<ToolName>, String), usize> {
    let mut got: BTreeMap<_, usize> = BTreeMap::new();
    for run in &suite.runs {
        for (posed, judged) in run.judged() {
            let answer = judged.got.as_ref().map_or_else(
                || EXPECT_ALLOW.to_owned(),
                |got| answer(got.rule, &got.code),
            );
            // Several tools may share one contract.
            let contract = run
                .policy
                .allowlist
                .contract_name_of(&posed.tool)
                .unwrap_or(&posed.tool);
            for tool in [Some(contract.clone()), None] {
                *got.entry((tool, answer.clone())).or_default() += 1;
            }
        }
    }
    got
}

/// What the samples of `suite` have to expect at least, and none does (003-38). What its policies
/// cannot refuse with is not asked for.
pub(super) fn missing(suite: &Suite) -> Vec<String> {
    let Some(PackRun { policy, .. }) = suite.runs.first() else {
        return Vec::new();
    };
    let contracts = policy
        .allowlist
        .codes()
        .flat_map(|(_, codes)| codes)
        .map(|(_, code)| code);
    let possible: BTreeSet<String> = contracts
        .chain(of_tasks(policy).map(str::to_owned))
        .collect();
    let samples = suite
        .runs
        .iter()
        .flat_map(PackRun::judged)
        .filter(|(_, judged)| judged.verdict == SampleVerdict::Expected);
    let expected: BTreeSet<&str> = samples
        .filter_map(|(posed, _)| posed.expect.as_deref())
        .collect();
    let asked = REQUIRED_REFUSALS.iter().map(|codes| {
        codes
            .iter()
            .filter(|code| possible.contains(**code))
            .collect::<Vec<_>>()
    });
    let missing = asked
        .filter(|codes| !codes.is_empty() && !codes.iter().any(|code| expected.contains(**code)));
    missing
        .map(|codes| {
            codes
                .into_iter()
                .map(|code| format!("`{code}`"))
                .collect::<Vec<_>>()
                .join(" or ")
        })
        .collect()
}
