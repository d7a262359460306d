//! Floor 2: the guards, by name; guarantees §2 has the order in which the gate asks them. One
//! guard, one file, one shape: header, `Settings` as written, `Rule` as run, evidence,
//! `impl Section`, `impl Rule` with one verb.

pub(crate) mod allowlist;
pub(crate) mod approval;
pub(crate) mod arguments;
pub(crate) mod audit;
pub(crate) mod budget;
pub(crate) mod confirms;
pub(crate) mod evidence;
pub(crate) mod hooks;
pub(crate) mod idempotency;
pub(crate) mod identity;
pub(crate) mod output;
pub(crate) mod permission;
pub(crate) mod pins;
pub(crate) mod rate;
pub(crate) mod repetition;
pub(crate) mod results;
pub(crate) mod rewrite;
pub(crate) mod rollback;
pub(crate) mod rules;
pub(crate) mod secrets;
pub(crate) mod task;
pub(crate) mod variants;

use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::digest::Digest;
use crate::model::refusal::{self, Refusal, RefusalCode, RefusalKind};
use crate::schema::{NamePattern, Schema};
use std::time::Duration;

/// The codes that are not a contract's own, in the order in which `docs/refusals.md` lists them.
pub const REFUSAL_CODES: &[&RefusalCode] = &[
    &refusal::contract::TOOL_NOT_ALLOWLISTED,
    &refusal::contract::SCHEMA_INVALID,
    &permission::RBAC_DENIED,
    &permission::TENANT_MISMATCH,
    &permission::RESOURCE_DENIED,
    &refusal::contract::RULE_FAILED,
    &refusal::contract::HOOK_BLOCKED,
    &refusal::task::STATE_OUT_OF_ORDER,
    &task::TASK_STOPPED,
    &task::NOT_PLANNED,
    &refusal::task::LOOP_DETECTED,
    &idempotency::given::IDEMPOTENCY_KEY_REQUIRED,
    &refusal::task::IDEMPOTENCY_CONFLICT,
    &refusal::task::DUPLICATE_IN_FLIGHT,
    &refusal::task::OUTCOME_PENDING,
    &refusal::task::IDEMPOTENCY_KEY_EXPIRED,
    &confirms::DRAFT_REQUIRED,
    &budget::shortage::BUDGET_CALLS_EXCEEDED,
    &budget::shortage::BUDGET_EXCEEDED,
    &rate::RATE_EXCEEDED,
    &refusal::people::APPROVAL_PENDING,
    &refusal::people::APPROVAL_DENIED,
    &refusal::people::APPROVAL_TIMEOUT,
    &refusal::people::APPROVER_UNREACHABLE,
    &refusal::people::APPROVAL_LAPSED,
    &refusal::people::APPROVAL_QUEUE_FULL,
    &refusal::task::PLANNED,
    &refusal::task::FENCED,
    &refusal::task::SESSION_BUSY,
    &refusal::contract::SECRET_DENIED,
    &refusal::sending::EXECUTED_BUT_NOT_RECORDED,
    &refusal::sending::UPSTREAM_UNAVAILABLE,
    &refusal::sending::OUTCOME_UNKNOWN,
    &refusal::sending::UPSTREAM_FAILED,
    &refusal::sending::CANCELLED,
    &refusal::sending::OVERLOADED,
    &refusal::sending::INTERNAL_ERROR,
    &refusal::sending::STORE_UNAVAILABLE,
];

/// Is it a code of toolgate's own, which no contract may use?
pub fn is_own_code(code: &str) -> bool {
    REFUSAL_CODES.iter().any(|own| own.code == code)
}

/// What `code` is about; one that is not toolgate's own is that of a contract's rule (003-117).
pub(crate) fn kind_of(code: &str) -> RefusalKind {
    let own = REFUSAL_CODES.iter().find(|own| own.code == code);
    own.map_or(RefusalKind::Violation, |own| own.kind)
}

/// A guard's part of a contract: how what the author wrote becomes what runs.
pub trait Section: Sized {
    /// What runs.
    type Rule;
    /// The key in the file.
    const NAME: &'static str;
    /// Judges the settings; notes every problem and goes on.
    fn compile(self, problems: &mut Problems) -> Self::Rule;
}

/// Whether what breaks a policy is refused.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Mode {
    /// It is refused.
    #[default]
    Enforce,
    /// It is recorded that it would be refused, and passes.
    Observe,
}

/// What guards read of `callers` and `groups`, as run: all of them look at nothing but the caller.
#[derive(Debug, Default, Clone)]
pub(crate) struct CallerRules {
    rate: rate::Rule,
}

/// What the guards of callers leave, or what observe mode has in its place.
#[must_use]
#[derive(Debug)]
pub(crate) struct Welcome {
    _proof: Option<rate::Paced>,
}

impl CallerRules {
    fn compile(written: &identity::Settings, problems: &mut Problems) -> Self {
        let (callers, groups) = (written.callers.iter(), written.groups.iter());
        let limits = rate::Settings {
            users: callers
                .clone()
                .map(|caller| (caller.agent.as_str(), caller.user_limits.as_ref()))
                .collect(),
            agents: callers
                .map(|caller| (caller.agent.as_str(), caller.limits.as_ref()))
                .collect(),
            groups: groups
                .map(|(name, group)| (name.as_str(), group.limits.as_ref()))
                .collect(),
        };
        Self {
            rate: limits.compile(problems),
        }
    }

    /// Asks the guards of callers, in their order, at `now` on the steady clock.
    pub(crate) fn judge(&self, caller: &Caller, now: Duration) -> Result<Welcome, Refusal> {
        let paced = self.rate.take(caller, now)?;
        Ok(Welcome {
            _proof: Some(paced),
        })
    }

    /// What they hold against `caller`, each with the guard's name, for `explain`.
    pub(crate) fn explain(&self, caller: &Caller) -> impl Iterator<Item = (&'static str, String)> {
        self.rate.explain(caller).map(|line| ("rate", line))
    }

    /// Takes the place of `before`, whose callers are known by name.
    fn succeed(&self, before: &Self) {
        self.rate.succeed(&before.rate);
    }
}

impl Welcome {
    /// Observe mode goes on without proof, and only observe mode can.
    pub(crate) fn observed(mode: Mode) -> Option<Self> {
        (mode == Mode::Observe).then_some(Self { _proof: None })
    }
}

/// One contract as run. Only [`allowlist::Admitted`] shows it.
#[derive(Debug, Default)]
pub struct ToolRules {
    /// SHA-256 over the contract as it is written, in canonical JSON; none without one.
    pub written: Option<Digest>,
    /// The file and line on which it begins; blank without one.
    pub place: Box<str>,
    /// What the tool is for, in its contract's words.
    pub purpose: String,
    /// What it is not for, in its contract's words.
    pub not_for: Option<String>,
    /// The actions the contract declares; empty without a contract.
    pub actions: Vec<String>,
    /// Does a call change anything? Whatever is not only `read`.
    pub side_effect: bool,
    /// What it changes, in its contract's words (003-63).
    pub writes: Option<String>,
    /// How it is undone.
    pub undo: rollback::Undo,
    /// Which part of the contract this is, where an argument chooses between several (002-32).
    pub variant: Option<String>,
    /// The arguments that decide what a call may do, that are bounded or changed, those of all
    /// variants.
    pub needs: Vec<RequiredArgument>,
    /// The parts of the contract between which an argument chooses.
    pub variants: Option<variants::Rule>,
    /// Only owners see the tool (001-04).
    pub owner_only: bool,
    /// The providers, or `provider/model`s, whose models may see it; all if empty (001-A9).
    pub providers_allowed: Vec<String>,
    /// Its part of the gate's step 3.
    pub arguments: arguments::Rule,
    /// Step 4.
    pub permission: permission::Rule,
    /// Step 5.
    pub rules: rules::Rule,
    /// Step 6, before any hook.
    pub rewrite: rewrite::Rule,
    /// Step 8; none for a tool that changes nothing, unless its contract asks for it.
    pub idempotency: Option<idempotency::Rule>,
    /// Which draft must be there before the call, for a first arrival in step 8.
    pub confirms: Option<confirms::Rule>,
    /// What errors of the tool server mean, in step 15.
    pub output: output::Rule,
    /// Step 9.
    pub budget: budget::Rule,
    /// Step 10; none: nobody is asked.
    pub approval: Option<approval::Rule>,
    /// Step 13.
    pub secrets: secrets::Rule,
    /// Step 16.
    pub results: results::Rule,
    /// What the ledger keeps of calls.
    pub audit: audit::Rule,
}

/// An argument that decides what a call may do, that is bounded, or that is changed: a tool without
/// it cannot be held to its contract (002-05, 002-11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredArgument {
    /// Where the contract names it, such as `["permission", "tenant"]`.
    pub key: Vec<String>,
    /// The argument, as a path from the root.
    pub path: Vec<String>,
    /// Is it only bounded? Then a tool that takes names which it does not declare may have it.
    pub is_bound: bool,
    /// The steps of the path, by index, that stand for every name that matches.
    pub patterns: Vec<(usize, NamePattern)>,
}

impl RequiredArgument {
    /// What is missing in a tool that lacks it.
    pub fn words(&self) -> String {
        let path = self.path.join(".");
        if self.patterns.is_empty() {
            format!("no `{path}`")
        } else {
            format!("nothing that `{path}` matches")
        }
    }

    /// Whether a tool with this schema cannot have it: it names others in that place.
    pub fn is_lacking(&self, schema: &Schema) -> bool {
        if self.is_bound {
            schema.names().exclude_matching(&self.path, &self.patterns)
        } else {
            schema.names().lack(&self.path)
        }
    }
}

impl ToolRules {
    /// The first of the needed arguments that `schema` cannot have: it names others in that place.
    pub fn lacks(&self, schema: &Schema) -> Option<&RequiredArgument> {
        self.needs.get(self.lacking(schema)?)
    }

    /// Its place among the needed ones.
    pub fn lacking(&self, schema: &Schema) -> Option<usize> {
        let mut needs = self.needs.iter();
        needs.position(|needed| needed.is_lacking(schema))
    }

    /// What the contract can refuse with, in the order of the gate, all variants together; a rule
    /// with its place among the rules, from 0.
    pub fn codes(&self) -> Vec<(Option<usize>, String)> {
        if let Some(variants) = &self.variants {
            let mut codes = vec![(None, "schema_invalid".to_owned())];
            for code in variants.cases().flat_map(|(_, rules)| rules.codes()) {
                if !codes.contains(&code) {
                    codes.push(code);
                }
            }
            return codes;
        }
        let fixed = |code: &str| (None, code.to_owned());
        let arguments = ["schema_invalid"]
            .into_iter()
            .chain(self.permission.codes())
            .map(fixed);
        let rules = self
            .rules
            .codes()
            .enumerate()
            .map(|(index, code)| (Some(index), code.to_owned()));
        let key = self
            .idempotency
            .as_ref()
            .is_some_and(idempotency::Rule::is_required);
        let key = key.then_some("idempotency_key_required");
        let draft = self.confirms.is_some().then_some("draft_required");
        let held = self.approval.is_some().then_some("approval_pending");
        let rest = key
            .into_iter()
            .chain(draft)
            .chain(self.budget.codes())
            .chain(held)
            .chain(self.secrets.codes());
        let rest = rest.map(fixed);
        arguments.chain(rules).chain(rest).collect()
    }

    /// What observe mode uses for a tool without a contract: asks for nothing, and counts as a side
    /// effect.
    pub fn observed() -> Self {
        Self {
            side_effect: true,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
