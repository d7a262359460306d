//! A policy file as written (design §2). Unknown keys are refused; known ones that nothing enforces
//! yet are, too.

use crate::guards::{
    allowlist, approval, arguments, audit, budget, confirms, idempotency, output, permission,
};
use crate::guards::{repetition, results, rewrite, rules, secrets};
use crate::model::diagnostic::Problems;
use crate::policy::breakers::BreakerSettings;
use crate::policy::shape::{self, UNREAD_TEXT};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One policy file: contracts and layers. Several files are read as one; their order says nothing.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "toolgate policy", rename = "PolicyFile")]
pub(crate) struct PolicyFile {
    /// One contract a tool, by the tool's name: `server__tool`, or one for several of a server's
    /// tools, by a pattern: `server__get_*`. The most specific counts. A tool without a
    /// contract is not available.
    pub contracts: BTreeMap<String, Contract>,
    /// Who may see which tools.
    pub layers: allowlist::Settings,
    /// Patterns of tools that layers name together, as `group:NAME`.
    pub groups: BTreeMap<String, Vec<String>>,
    /// What tasks may use.
    pub budgets: budget::TaskSettings,
    /// When a task counts as going in circles; without it, nothing is watched.
    pub repetition: Option<repetition::Settings>,
    /// When an incident opens by itself, and freezes a tool; without any, only operators open one.
    #[schemars(length(max = 64))]
    pub breakers: Vec<BreakerSettings>,
}

/// What calls of one tool must keep to.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key that authors write, and most are left out"
)]
pub(crate) struct Contract {
    /// what the tool is for, in one sentence
    #[schemars(length(min = 1, max = 200))]
    pub purpose: String,
    /// What it must not be used for; for readers.
    #[schemars(length(max = 200))]
    pub not_for: Option<String>,
    /// what a call does: `read`, `write`, `delete`, `pay`, `grant`, `notify`; all but `read` are
    /// side effects
    #[schemars(length(min = 1))]
    pub actions: Vec<String>,
    /// Who may call, and on what: needed where a call changes something, unless the tool is
    /// `owner_only`. `anyone` says that every caller may who sees the tool.
    #[serde(default)]
    pub permission: permission::Settings,
    /// JSON Schema, laid over the tool server's own.
    #[serde(default)]
    pub arguments: arguments::Settings,
    /// Conditions under which a call is refused.
    #[serde(default)]
    pub rules: rules::Settings,
    /// An optional argument that is `""` counts as absent, and is not sent.
    #[serde(default)]
    pub strip_empty_optionals: bool,
    /// What becomes of the arguments before the call is sent, step by step; the result is judged
    /// again.
    #[serde(default)]
    pub rewrite: rewrite::Settings,
    /// Which calls are one and the same. Calls with side effects are told apart without it, too:
    /// by all their arguments.
    pub idempotency: Option<idempotency::Settings>,
    /// Which draft must be there before a call: one that its task has made.
    pub confirms: Option<confirms::Settings>,
    /// What calls may use and what they cost.
    #[serde(default)]
    pub budget: budget::Settings,
    /// When a person has to allow a call. Without it: always for what is `irreversible`, deletes,
    /// pays or grants.
    pub approval: Option<approval::Settings>,
    /// What errors of the tool server mean.
    #[serde(default)]
    pub output: output::Settings,
    /// What a call changes and how to take it back. What changes something says exactly one of
    /// `rollback` here, `additive` and `irreversible`.
    pub side_effect: Option<SideEffect>,
    /// Nothing is lost by a call, so there is nothing to take back.
    #[serde(default)]
    pub additive: bool,
    /// The effect cannot be taken back, so a person has to allow each call.
    #[serde(default)]
    pub irreversible: bool,
    /// Several parts of the contract, of which an argument chooses one. The rest of the contract
    /// holds for all of them.
    pub variants: Option<ContractVariants>,
    /// which arguments may hold secret references, by JSON pointer; `[]` for none
    pub secrets: secrets::Settings,
    /// What becomes of results; without it they arrive as they were sent.
    pub results: Option<results::Settings>,
    /// What the ledger keeps of calls besides hashes.
    #[serde(default)]
    pub audit: audit::Settings,
    /// What an entry of the ledger must have, by the documents' names; a list has all that every
    /// entry has.
    pub audit_fields: Option<Vec<String>>,
    /// Only callers with `owner: true` see the tool.
    #[serde(default)]
    pub owner_only: bool,
    /// Only callers whose model is of one of these providers see the tool: `provider`, or
    /// `provider/model`. A caller without a model is of none.
    #[schemars(length(min = 1))]
    pub providers_allowed: Option<Vec<String>>,
}

/// Parts of a contract for a tool that does several things, by what an argument asks it to do.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContractVariants {
    /// JSON pointer to the argument that chooses: text, or `true` and `false`
    pub by: String,
    /// The case of calls without that argument; none: they are refused.
    pub absent: Option<String>,
    /// the parts, by the argument's value; any other value is refused
    pub cases: BTreeMap<String, VariantCase>,
}

/// One part. `permission`, `arguments` and `rules` hold besides the contract's, `budget` key by key
/// before it, the rest instead of it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VariantCase {
    /// what such a call does, out of the contract's `actions`
    #[schemars(length(min = 1))]
    pub actions: Vec<String>,
    /// Who may make such a call, and on what.
    #[serde(default)]
    pub permission: permission::Settings,
    /// JSON Schema for such a call.
    #[serde(default)]
    pub arguments: arguments::Settings,
    /// Conditions under which such a call is refused.
    #[serde(default)]
    pub rules: rules::Settings,
    /// Which of such calls are one and the same.
    pub idempotency: Option<idempotency::Settings>,
    /// Which draft must be there before such a call.
    pub confirms: Option<confirms::Settings>,
    /// What such calls may use and what they cost; with `max_calls_per_task` or `rate` they are
    /// counted by themselves.
    pub budget: Option<budget::Settings>,
    /// When a person has to allow such a call.
    pub approval: Option<approval::Settings>,
    /// What errors of the tool server mean; looked at before the contract's.
    #[serde(default)]
    pub output: output::Settings,
    /// What such a call changes and how to take it back.
    pub side_effect: Option<SideEffect>,
    /// Nothing is lost by such a call.
    #[serde(default)]
    pub additive: bool,
    /// The effect of such a call cannot be taken back.
    #[serde(default)]
    pub irreversible: bool,
}

/// What a call changes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SideEffect {
    /// what is written, in words; the ledger has it in every entry
    #[schemars(length(min = 1, max = 200))]
    pub writes: String,
    /// What takes it back: a call, or a person.
    pub rollback: Option<RollbackSettings>,
}

/// What takes a call back: another call, by `tool`, or a person, by `manual`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RollbackSettings {
    /// The tool to call, which may be the contract's own: `server__tool`.
    pub tool: Option<String>,
    /// Its arguments; `result#/pointer` stands for a part of the result, `arguments#/pointer` for
    /// one of the arguments of the call that is taken back, `action#` for its action id.
    #[serde(default)]
    pub arguments: serde_json::Map<String, Value>,
    /// For how long after the call's end `toolgate undo` makes it [default: 24h, 1m to 30d].
    pub within: Option<String>,
    /// What shows that the effect is gone: looked at before and after `toolgate undo`.
    pub verify: Option<UndoCheckSettings>,
    /// the agent may ask for it itself, of its own calls, with the tool `toolgate__undo` [default: false]
    pub agent: Option<bool>,
    /// How a person takes it back, in words, such as `restore it from version control`; nobody is
    /// asked before the call for that.
    #[schemars(length(min = 1, max = 200))]
    pub manual: Option<String>,
}

/// A read, and what stands in its structured result once the effect is gone.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "UndoCheck")]
pub(crate) struct UndoCheckSettings {
    /// the read: `server__tool`
    pub tool: String,
    /// Its arguments, with the same places as the rollback's.
    #[serde(default)]
    pub arguments: serde_json::Map<String, Value>,
    /// the values that stand there once the effect is gone, by JSON pointer; before, one of them is another
    pub expect: serde_json::Map<String, Value>,
}

/// The keys of a policy file.
pub(crate) const POLICY_FILE_KEYS: &[&str] = &[
    "contracts",
    "layers",
    "groups",
    "budgets",
    "repetition",
    "breakers",
];

/// What the format has and this version does not enforce: a `*` is any key.
const UNENFORCED_KEYS: &[&[&str]] = &[&["contracts", "*", "repetition"]];

/// Reads a policy file, as far as it can be read.
pub(crate) fn read(tree: &Value, problems: &mut Problems) -> Option<PolicyFile> {
    let mut mended = shape::mend::<PolicyFile>(tree.clone(), tree, problems)?;
    let contracts = mended
        .tree
        .get_mut("contracts")
        .and_then(Value::as_object_mut);
    for contract in contracts.into_iter().flat_map(|all| all.values_mut()) {
        guess_actions(contract);
        let cases = contract
            .pointer_mut("/variants/cases")
            .and_then(Value::as_object_mut);
        let cases = cases.into_iter().flat_map(|all| all.values_mut());
        cases.for_each(guess_actions);
    }
    shape::read_mended(mended, problems)
}

/// Where nothing says what a call does, the rest is judged as its author seems to take it.
fn guess_actions(contract: &mut Value) {
    let changes = ["side_effect", "irreversible", "additive"];
    let is_changing = changes.iter().any(|key| contract.get(key).is_some());
    let guessed = json!([if is_changing { "write" } else { "read" }]);
    if let Some(actions) = contract
        .get_mut("actions")
        .filter(|said| **said == json!([UNREAD_TEXT]))
    {
        *actions = guessed;
    }
}

/// Takes out of `tree` what is not enforced yet, each with an error.
pub(crate) fn take_later(tree: &mut Value, problems: &mut Problems) {
    for path in UNENFORCED_KEYS {
        take(tree, path, problems);
    }
}

fn take(at: &mut Value, path: &[&str], problems: &mut Problems) {
    let (Value::Object(map), Some((step, rest))) = (at, path.split_first()) else {
        return;
    };
    if rest.is_empty() {
        if map.remove(*step).is_some() {
            problems.under(*step, |problems| {
                problems.error(
                    format!("`{step}` is not enforced by this version"),
                    "take it away, or use a later version",
                );
            });
        }
        return;
    }
    for (key, below) in map
        .iter_mut()
        .filter(|(key, _)| *step == "*" || *step == key.as_str())
    {
        problems.under(key.clone(), |problems| take(below, rest, problems));
    }
}
