//! `tools/list`: what this caller may call, judged by the same guard as the call itself. A hint; the call is judged again.

use super::placing::with_key;
use super::toolbox::{Tool, Tools};
use super::{Gate, fit, pinned};
use crate::mcp::json::{Object, Text, push_string};
use crate::mcp::revision::Era;
use crate::model::caller::Caller;
use crate::model::scope::Scope;
use crate::policy::Policy;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Tools on one page at most.
const PAGE: usize = 1_000;
/// Listings that are kept, for different callers and scopes.
const KEPT: usize = 256;

/// Why there is no such page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`cursor` is not of this listing; list again without a cursor")]
pub struct NoSuchPage;

/// Listings already made. They depend on the caller, the scope, the policy and the tools, and on nothing else.
#[derive(Default)]
pub struct Listings {
    made: Mutex<HashMap<Key, Text>>,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    agent: String,
    scope: Scope,
    modern: bool,
    policy: String,
    tools: u64,
    offset: usize,
}

impl Gate {
    /// The result of `tools/list` for this caller.
    pub fn list_tools(
        &self,
        caller: &Caller,
        scope: &Scope,
        era: Era,
        cursor: Option<&Text>,
    ) -> Result<Text, NoSuchPage> {
        let (policy, tools) = (self.policy.current(), self.tools.current().clone());
        let offset = match cursor {
            None => 0,
            Some(cursor) => offset_of(cursor, &policy, &tools).ok_or(NoSuchPage)?,
        };
        let key = Key {
            agent: caller.agent.to_string(),
            scope: scope.clone(),
            modern: era == Era::Modern,
            policy: policy.version.clone(),
            tools: tools.version,
            offset,
        };
        if let Some(made) = self.listings.made.lock().get(&key) {
            return Ok(made.clone());
        }
        let page = page(&policy, &tools, caller, (scope, era, offset)).ok_or(NoSuchPage)?;
        let mut made = self.listings.made.lock();
        made.retain(|old, _| old.policy == key.policy && old.tools == key.tools);
        if made.len() < KEPT {
            made.insert(key, page.clone());
        }
        Ok(page)
    }

    /// The tool, if this caller may see it.
    pub fn visible(&self, caller: &Caller, name: &crate::model::ids::ToolName) -> Option<Arc<Tool>> {
        let policy = self.policy.current();
        let tool = self.tools.current().find(name)?.clone();
        is_visible(&policy, caller, &tool).then_some(tool)
    }
}

/// Steps 1 and 2, and nothing else, decide what is listed.
fn is_visible(policy: &Policy, caller: &Caller, tool: &Tool) -> bool {
    let is_offered = fit::is_offered(policy, tool) && pinned::is_offered(policy, tool);
    is_offered && policy.allowlist.admit(caller, &tool.name).is_ok()
}

/// The definition as its server wrote it, as far as it can be read, with the argument for the key where the contract shows
/// one, and without an output schema that the contract's rules for results may break (PROTOCOL §5.1).
fn definition(policy: &Policy, caller: &Caller, tool: &Tool) -> Text {
    let admitted = policy.allowlist.admit(caller, &tool.name).ok();
    let key = admitted.as_ref().and_then(|admitted| admitted.rules().idempotency.as_ref()?.shown(&tool.schema));
    let reshaped = admitted.is_some_and(|admitted| admitted.rules().results.may_reshape());
    let mut shown = tool.definition.shown.clone();
    if let Some(mut members) = shown.object().filter(|members| reshaped && members.get("outputSchema").is_some()) {
        members.remove("outputSchema");
        shown = members.text();
    }
    key.map_or_else(|| shown.clone(), |key| with_key(&shown, key))
}

fn page(policy: &Policy, tools: &Tools, caller: &Caller, (scope, era, offset): (&Scope, Era, usize)) -> Option<Text> {
    let visible =
        tools.all.iter().filter(|tool| scope.holds(&tool.server.settings.name) && is_visible(policy, caller, tool));
    let visible: Vec<_> = visible.collect();
    if offset > 0 && offset >= visible.len() {
        return None;
    }
    let shown = &visible[offset..visible.len().min(offset + PAGE)];
    let mut result = rest(scope, shown);
    let mut array = vec![b'['];
    for (index, tool) in shown.iter().enumerate() {
        if index > 0 {
            array.push(b',');
        }
        push_tool(&mut array, scope, tool, &definition(policy, caller, tool));
    }
    array.push(b']');
    // Made of texts that were read strictly, so reading it again cannot fail.
    let limits = crate::mcp::json::Limits { bytes: usize::MAX, nodes: usize::MAX, ..crate::mcp::json::FROM_SERVER };
    result.set("tools", Text::read(Bytes::from(array), &limits).ok()?);
    if offset + PAGE < visible.len() {
        result.set("nextCursor", Text::string(&cursor(policy, tools, offset + PAGE)));
    }
    if era == Era::Modern {
        result.set("resultType", Text::string("complete"));
        // The policy may be reloaded at any moment, and the list depends on who asks (PROTOCOL §1.9).
        result.set("ttlMs", Text::of(&0.into()));
        result.set("cacheScope", Text::string("private"));
    }
    Some(result.text())
}

fn rest(scope: &Scope, shown: &[&Arc<Tool>]) -> Object {
    match (scope, shown.first().and_then(|tool| tool.server.up())) {
        (Scope::One(_), Some(up)) => up.catalog.rest.clone(),
        (Scope::One(_), None) | (Scope::All, _) => Object::new(),
    }
}

fn push_tool(out: &mut Vec<u8>, scope: &Scope, tool: &Tool, definition: &Text) {
    let Scope::All = scope else {
        out.extend_from_slice(definition.as_bytes());
        return;
    };
    out.extend_from_slice(b"{\"name\":");
    push_string(out, tool.name.as_str());
    for (key, value) in definition.members().into_iter().flatten() {
        if key != "name" {
            out.push(b',');
            push_string(out, &key);
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
    }
    out.push(b'}');
}

fn cursor(policy: &Policy, tools: &Tools, offset: usize) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}.{}.{offset}", policy.version, tools.version))
}

fn offset_of(given: &Text, policy: &Policy, tools: &Tools) -> Option<usize> {
    let given = given.as_str()?;
    let plain = String::from_utf8(URL_SAFE_NO_PAD.decode(given.as_bytes()).ok()?).ok()?;
    let offset = plain.rsplit('.').next()?.parse().ok()?;
    (cursor(policy, tools, offset) == given && offset > 0).then_some(offset)
}
