//! The call that is tried of one tool under one caller: with arguments of a test pack, or with some that are made up, that
//! the policy lets through as it is; and others beside them. The gate's own steps say which do.

use super::made::{MadeMembers, made, others, put, wrong};
use crate::gate::supposing::{Question, Silent, judge};
use crate::guards::ToolRules;
use crate::model::caller::Caller;
use crate::model::ids::{ServerName, ToolName};
use crate::model::pointer;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::policy::pack::{Pack, TaskBefore};
use crate::schema::Schema;
use serde_json::{Value, json};
use std::sync::Arc;

/// Arguments of test packs that are looked at for one tool, at most.
const MAX_SAMPLES: usize = 64;
/// The key by which it is judged whether a call passes with one.
const SUPPOSED_KEY: &str = "verify";

/// A tool as it stands in the pins, or in its contract's words.
#[derive(Debug)]
pub(super) struct TrialTool {
    pub(super) name: ToolName,
    pub(super) server: ServerName,
    pub(super) own_name: String,
    pub(super) definition: Value,
    pub(super) schema: Schema,
    pub(super) is_pinned: bool,
}

/// Who asks for calls of what.
pub(super) struct AskingCaller<'a> {
    pub(super) policy: &'a Policy,
    pub(super) tool: &'a TrialTool,
    pub(super) caller: Arc<Caller>,
    pub(super) packs: &'a [Pack],
}

/// How the policy takes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallStand {
    /// Whether it is refused without a key.
    pub(super) needs_key: bool,
    /// Whether a person has to allow it.
    pub(super) is_held: bool,
}

/// A call that passes, or waits for a person alone.
pub(super) struct PassingCall {
    pub(super) arguments: Value,
    /// The contract that counts for it.
    pub(super) rules: Arc<ToolRules>,
    pub(super) stand: CallStand,
}

impl AskingCaller<'_> {
    /// One that changes something, by its contract; else how the last one is refused, if any could be made.
    pub(super) fn passing(&self) -> Result<PassingCall, Option<Refusal>> {
        let mut last = None;
        for arguments in self.candidates() {
            let Some(rules) = self.rules(&arguments) else {
                continue;
            };
            match self.stands(&arguments) {
                Ok(stand) if rules.side_effect => {
                    return Ok(PassingCall {
                        arguments,
                        rules,
                        stand,
                    });
                }
                Ok(_) => {}
                Err(refusal) => last = Some(refusal),
            }
        }
        Err(last)
    }

    /// Other arguments than these with which it waits for a person, too.
    pub(super) fn second(&self, arguments: &Value) -> Option<Value> {
        let is_held = |other: &Value| self.stands(other).is_ok_and(|stand| stand.is_held);
        others(arguments, &self.schemas()).into_iter().find(is_held)
    }

    /// Arguments that the schemas do not take.
    pub(super) fn invalid(&self, arguments: &Value) -> Option<Value> {
        let is_invalid = |wrong: &Value| {
            let refused = self.stands(wrong).err();
            refused.is_some_and(|refusal| refusal.code() == "schema_invalid")
        };
        wrong(arguments).into_iter().find(is_invalid)
    }

    /// The schemas that its arguments have to fit, the server's first.
    fn schemas(&self) -> Vec<Value> {
        let rules = self.policy.allowlist.contract_of(&self.tool.name);
        let laid_over = rules.and_then(|rules| rules.arguments.laid_over());
        let own = self.tool.definition["inputSchema"].clone();
        std::iter::once(own).chain(laid_over).collect()
    }

    /// Arguments that may pass: those of test packs, then what is made up.
    fn candidates(&self) -> Vec<Value> {
        let samples = self.packs.iter().flat_map(|pack| &pack.samples);
        let samples = samples.filter(|sample| sample.tool == self.tool.name);
        let mut samples: Vec<_> = samples.take(MAX_SAMPLES).collect();
        samples.sort_by_key(|sample| sample.expect.is_some());
        let samples = samples.into_iter();
        let mut found: Vec<Value> = samples.map(|sample| sample.arguments.clone()).collect();
        let all = [MadeMembers::Required, MadeMembers::Declared];
        // Where only its contract speaks of it, nothing is known to be left out.
        let schemas = self.schemas();
        for members in all.into_iter().skip(usize::from(!self.tool.is_pinned)) {
            if let Some(mut arguments) = made(&schemas, members) {
                self.put_tenant(&mut arguments);
                found.push(arguments);
            }
        }
        found
    }

    /// Puts the caller's tenant where the contract asks for it.
    fn put_tenant(&self, arguments: &mut Value) {
        let rules = self.policy.allowlist.contract_of(&self.tool.name);
        let (Some(rules), Some(tenant)) = (rules, &self.caller.tenant) else {
            return;
        };
        let asked = rules.permission.pointers();
        for (_, pointer) in asked.filter(|(key, _)| *key == ["tenant"]) {
            put(arguments, &pointer::steps(pointer), json!(tenant.as_str()));
        }
    }

    /// The contract that counts for these arguments.
    fn rules(&self, arguments: &Value) -> Option<Arc<ToolRules>> {
        let admitted = self.policy.allowlist.admit(&self.caller, &self.tool.name);
        Some(admitted.ok()?.on(arguments).rules().clone())
    }

    /// How the policy takes a call with these arguments, with a key where it needs one.
    fn stands(&self, arguments: &Value) -> Result<CallStand, Refusal> {
        let key = json!(SUPPOSED_KEY);
        let before = TaskBefore::default();
        let is_held = |key| {
            let question = Question {
                caller: &self.caller,
                tool: &self.tool.name,
                schema: &self.tool.schema,
                arguments,
                key,
                before: &before,
            };
            match judge(self.policy, &question, &mut Silent) {
                Ok(_) => Ok(false),
                Err(Refusal::ApprovalPending { .. }) => Ok(true),
                Err(refusal) => Err(refusal),
            }
        };
        match is_held(None) {
            Err(refusal) if refusal.code() == "idempotency_key_required" => Ok(CallStand {
                needs_key: true,
                is_held: is_held(Some(&key))?,
            }),
            stand => Ok(CallStand {
                needs_key: false,
                is_held: stand?,
            }),
        }
    }
}
