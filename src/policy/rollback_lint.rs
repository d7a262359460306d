//! Can the call be made that a contract names to take another one back? Judged by what is known of
//! both tools: contracts and pins when a policy is read, listings for `check --connect`. A way back
//! that fails when it is needed is none (003-19, 003-64, 003-P4a).

use super::named_call::{NamedCall, declared_names};
use super::rollback_values::judge_case;
use crate::guards::rollback::{ARGUMENTS_PREFIX, RESULT_PREFIX, Rollback, Undo, stands_for_a_part};
use crate::guards::{ToolRules, idempotency, variants};
use crate::model::diagnostic::{Problem, Problems};
use crate::model::ids::ToolName;
use crate::model::pointer::steps;
use crate::schema::Schema;
use serde_json::Value;
use std::sync::Arc;

/// What begins every message.
const UNCALLABLE: &str = "the rollback can't be called";

/// What is known of a tool.
pub(crate) enum RollbackTool {
    /// Nothing but its contract.
    Unknown,
    /// It is not there, for this reason; and what to do.
    Missing(String, &'static str),
    /// It may be there, and waits for its approval; what to do. Taking a pin away must stop no reload,
    /// or the tool would go on under the policy of before.
    Unapproved(String, &'static str),
    /// Its schemas.
    Listed(Box<KnownSchemas>),
}

/// What a tool's definition says of its calls.
pub(crate) struct KnownSchemas {
    arguments: Schema,
    /// Of its structured results, where it says that.
    result: Option<Schema>,
}

impl RollbackTool {
    /// A tool with these schemas, as they came. What cannot be judged is as if it were not known.
    pub(crate) fn of(arguments: &Value, result: Option<&Value>) -> Self {
        let result = result.and_then(|result| Schema::compile(result).ok());
        Schema::compile(arguments).map_or(Self::Unknown, |arguments| {
            Self::Listed(Box::new(KnownSchemas { arguments, result }))
        })
    }
}

/// What a rollback is judged by.
pub(crate) struct RollbackContext<'a> {
    /// What is known of a tool.
    pub(crate) known: &'a dyn Fn(&ToolName) -> RollbackTool,
    /// Its contract.
    pub(crate) contract: &'a dyn Fn(&ToolName) -> Option<Arc<ToolRules>>,
}

/// What is wrong with the rollbacks of the contract `name`, with each path beginning at the root of
/// a policy file. `tool`: the tool whose effect is taken back.
pub(crate) fn problems(
    name: &str,
    tool: &ToolName,
    rules: &ToolRules,
    context: &RollbackContext<'_>,
) -> Vec<Problem> {
    let mut problems = Problems::default();
    problems.under("contracts", |problems| {
        problems.under(name, |problems| {
            judge_all(tool, rules, context, problems);
        });
    });
    problems.into_found()
}

/// The contract's own rollback, and those of its cases that say another one.
fn judge_all(
    tool: &ToolName,
    rules: &ToolRules,
    context: &RollbackContext<'_>,
    problems: &mut Problems,
) {
    judge_undo(tool, &rules.undo, context, problems);
    let cases = rules.variants.iter().flat_map(variants::Rule::cases);
    for (case, own) in cases.filter(|(_, own)| own.undo != rules.undo) {
        problems.under("variants", |problems| {
            problems.under("cases", |problems| {
                problems.under(case, |problems| {
                    judge_undo(tool, &own.undo, context, problems);
                });
            });
        });
    }
}

fn judge_undo(
    tool: &ToolName,
    undo: &Undo,
    context: &RollbackContext<'_>,
    problems: &mut Problems,
) {
    let Some(rollback) = undo.call() else { return };
    let contract = (context.contract)(&rollback.tool);
    let call = as_named(rollback, contract.as_deref());
    problems.under("side_effect", |problems| {
        problems.under("rollback", |problems| {
            match (context.known)(&rollback.tool) {
                RollbackTool::Missing(why, hint) => problems.under("tool", |problems| {
                    problems.error(format!("{UNCALLABLE}: {why}"), hint);
                }),
                RollbackTool::Unapproved(why, hint) => problems.under("tool", |problems| {
                    problems.warning(format!("{UNCALLABLE}: {why}"), hint);
                }),
                RollbackTool::Listed(schemas) => {
                    let schema = schemas.arguments.source();
                    let known = declared_names(&schema);
                    call.judge(&schema, known.as_deref(), problems);
                }
                RollbackTool::Unknown => {}
            }
            if let Some(contract) = &contract {
                judge_case(rollback, contract, UNCALLABLE, problems);
            }
            if let Some(schema) = contract.and_then(|rules| rules.arguments.laid_over()) {
                // It only adds to the server's, unless it says that it names all of them.
                let is_whole = schema["additionalProperties"] == false;
                let known = declared_names(&schema).filter(|_| is_whole);
                call.judge(&schema, known.as_deref(), problems);
            }
            if let RollbackTool::Listed(schemas) = (context.known)(tool) {
                judge_sources(rollback, &schemas, problems);
            }
        });
    });
}

fn as_named<'a>(rollback: &'a Rollback, contract: Option<&ToolRules>) -> NamedCall<'a> {
    let keys = contract.and_then(|rules| rules.idempotency.as_ref());
    NamedCall {
        tool: &rollback.tool,
        arguments: &rollback.arguments,
        unfit: UNCALLABLE,
        parts: &["result#/", "arguments#/"],
        // toolgate itself fills in what holds a call's key.
        filled: keys
            .into_iter()
            .flat_map(idempotency::Rule::holders)
            .map(str::to_owned)
            .collect(),
        stands_for_a_part,
    }
}

/// Are the parts there that are taken over from the call that is taken back?
fn judge_sources(rollback: &Rollback, taken_back: &KnownSchemas, problems: &mut Problems) {
    problems.under("arguments", |problems| {
        for (name, value) in &rollback.arguments {
            problems.under(name.clone(), |problems| {
                judge_source(value, taken_back, problems);
            });
        }
    });
}

/// The levels of `value` are those of a policy file, which are bounded where it is read.
fn judge_source(value: &Value, taken_back: &KnownSchemas, problems: &mut Problems) {
    match value {
        Value::String(text) => judge_part(text, taken_back, problems),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                problems.under(index.to_string(), |problems| {
                    judge_source(item, taken_back, problems);
                });
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                problems.under(name.clone(), |problems| {
                    judge_source(member, taken_back, problems);
                });
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn judge_part(text: &str, taken_back: &KnownSchemas, problems: &mut Problems) {
    let KnownSchemas { arguments, result } = taken_back;
    let lacks = |prefix: &str, schema: &Schema| {
        let path = text.strip_prefix(prefix).map(steps);
        path.filter(|path| schema.names().exclude(path))
    };
    if let Some(path) = lacks(ARGUMENTS_PREFIX, arguments) {
        problems.error(
            format!(
                "{UNCALLABLE}: the tool whose call is taken back has no argument `{}`",
                path.join(".")
            ),
            "compare the spelling with the tool's listing",
        );
    }
    let result = result.as_ref();
    if let Some(path) = result.and_then(|result| lacks(RESULT_PREFIX, result)) {
        problems.error(
            format!(
                "{UNCALLABLE}: the result of the call that is taken back has no `{}`",
                path.join(".")
            ),
            "compare the spelling with the `outputSchema` in the tool's listing",
        );
    }
}
