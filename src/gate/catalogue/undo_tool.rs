//! A tool of toolgate's own, with which an agent asks for the undo of a call that it has made: for those
//! who may use at least one tool whose contract lets its agent do that (`rollback.agent`).

use crate::gate::catalogue::tool::{Tool, Tools};
use crate::gate::catalogue::view::{ListAsked, variant_of};
use crate::guards::{Mode, ToolRules};
use crate::mcp::json::Text;
use crate::model::caller::Caller;
use crate::model::scope::Scope;
use crate::policy::Policy;
use crate::schema::limits;
use serde_json::json;
use std::sync::Arc;

/// Its name, which no server's tool has that is listed.
pub(crate) const UNDO_TOOL: &str = "toolgate__undo";
/// Its arguments.
pub(in crate::gate) const ACTION_ARGUMENT: &str = "action_id";
pub(in crate::gate) const WHY_ARGUMENT: &str = "why";
/// What a model reads of it.
const WORDS: &str = "Takes back a call that you have made with a tool here, by the call that its contract names for that. Give the \
                     `action_id` from `_meta` of the answer to that call. It is a second effect, and may need a person's approval first.";

/// Whether this caller is offered it, of the tools that `is_visible` says it may see.
pub(in crate::gate) fn is_offered(
    policy: &Policy,
    caller: &Caller,
    tools: &Tools,
    is_visible: impl Fn(&Tool) -> bool,
) -> bool {
    let is_free = tools.find(UNDO_TOOL).is_none();
    let may_use = |tool: &Arc<Tool>| {
        let admitted = policy.allowlist.admit(caller, &tool.name);
        admitted.is_ok_and(|admitted| may_be_asked(admitted.rules())) && is_visible(tool)
    };
    policy.mode == Mode::Enforce && is_free && tools.all.iter().any(may_use)
}

/// Whether a contract, or one of its variants, lets the agent ask.
pub(in crate::gate) fn may_be_asked(rules: &ToolRules) -> bool {
    let says = |rules: &ToolRules| rules.undo.call().is_some_and(|call| call.by_agent);
    let Some(variants) = &rules.variants else {
        return says(rules);
    };
    says(rules) || variants.cases().any(|(_, rules)| says(rules))
}

/// As a listing has it: for those who ask for all servers' tools; none for those who are not offered it,
/// and for a model that takes no more tools than the `listed` ones.
pub(in crate::gate) fn listed(
    asked: ListAsked<'_>,
    listed: usize,
    is_offered: impl FnOnce() -> bool,
) -> Option<Text> {
    let ListAsked { caller, scope, .. } = asked;
    let reads = caller.reads;
    let most = limits::of(reads.profile).tools.unwrap_or(usize::MAX);
    let is_room = listed < most.min(reads.caps.tools);
    if *scope != Scope::All || !is_room || !is_offered() {
        return None;
    }
    let variant = variant_of(&definition(), None, reads.profile).ok()?;
    Some(variant.definition)
}

fn definition() -> Text {
    Text::of(&json!({
        "name": UNDO_TOOL,
        "description": WORDS,
        "inputSchema": {
            "type": "object",
            "properties": {
                ACTION_ARGUMENT: { "type": "string", "description": "The action id of the call to take back", "maxLength": 36 },
                WHY_ARGUMENT: { "type": "string", "description": "Why, on one line; it stands in the ledger", "maxLength": 500 },
            },
            "required": [ACTION_ARGUMENT],
            "additionalProperties": false,
        },
        "annotations": { "title": "Take a call back", "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true },
    }))
}
