//! `tools/list`: what this caller may call, judged by the same guard as the call itself. A hint;
//! the call is judged again.

use crate::gate::Gate;
use crate::gate::catalogue::contract_mismatch as fit;
use crate::gate::catalogue::own_tools::{OwnTools, generation};
use crate::gate::catalogue::pinned;
use crate::gate::catalogue::tool::Tool;
use crate::gate::catalogue::tool::Tools;
use crate::gate::catalogue::undo_tool;
use crate::gate::catalogue::view::Names;
use crate::gate::catalogue::view::{ListAsked, Listed};
use crate::guards::allowlist::CallerClass;
use crate::mcp::bridge::definition_for;
use crate::mcp::json::{Object, Text, push_string};
use crate::mcp::revision::{Era, Revision};
use crate::model::caller::Caller;
use crate::model::reads::{Profile, SchemaReader};
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
/// Listings that are kept, for different classes of callers and scopes.
const KEPT: usize = 256;
/// What they may take together in bytes.
const KEPT_BYTES: usize = 64 << 20;

/// Why there is no such page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`cursor` is not of this listing; list again without a cursor")]
pub struct NoSuchPage;

/// Listings already made. They depend on the class of the caller, the scope, the policy and the
/// tools, and on nothing else.
#[derive(Default)]
pub struct Listings {
    made: Mutex<HashMap<Key, Text>>,
    pub(in crate::gate) names: Names,
    pub(in crate::gate) own: OwnTools,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    class: CallerClass,
    reads: SchemaReader,
    scope: Scope,
    revision: Revision,
    policy: String,
    tools: u64,
    offset: usize,
}

/// Which page, for agents of which revision.
#[derive(Clone, Copy)]
struct PageAt {
    revision: Revision,
    offset: usize,
}

impl Listings {
    /// Forgets all of them; they are made again when they are asked for.
    pub fn forget(&self) {
        self.made.lock().clear();
    }
}

impl Gate {
    /// The result of `tools/list` for this caller, as `policy` knows it.
    pub fn list_tools(
        &self,
        policy: &Policy,
        asked: ListAsked<'_>,
        revision: Revision,
        cursor: Option<&Text>,
    ) -> Result<Text, NoSuchPage> {
        let ListAsked {
            caller,
            scope,
            links,
        } = asked;
        let tools = self.tools_of(links);
        let offset = match cursor {
            None => 0,
            Some(cursor) => offset_of(cursor, policy, &tools).ok_or(NoSuchPage)?,
        };
        let key = Key {
            class: policy.allowlist.class(caller),
            reads: caller.reads,
            scope: scope.clone(),
            revision,
            policy: policy.version.clone(),
            tools: tools.version,
            offset,
        };
        if let Some(made) = self.listings.made.lock().get(&key) {
            return Ok(made.clone());
        }
        let mut result = self
            .page(policy, &tools, asked, PageAt { revision, offset })
            .ok_or(NoSuchPage)?;
        if revision.era() == Era::Modern {
            result.set("resultType", Text::string("complete"));
            // The policy may be reloaded at any moment, and the list depends on who asks
            // (protocol §1.9).
            result.set("ttlMs", Text::of(&0.into()));
            result.set("cacheScope", Text::string("private"));
        }
        let page = result.text();
        let mut made = self.listings.made.lock();
        let is_now =
            |old: &Key| old.policy == key.policy && generation(old.tools) == generation(key.tools);
        made.retain(|old, _| is_now(old));
        let bytes: usize = made.values().map(|page| page.as_bytes().len()).sum();
        if made.len() < KEPT && bytes + page.as_bytes().len() <= KEPT_BYTES {
            made.insert(key, page.clone());
        }
        Ok(page)
    }

    /// The tool, if this caller may see it.
    pub fn visible(
        &self,
        asked: ListAsked<'_>,
        name: &crate::model::ids::ToolName,
    ) -> Option<Arc<Tool>> {
        let (policy, caller) = (self.policy.current(), asked.caller);
        let tool = self.tool_of(asked.links, name)?;
        let is_shown = || {
            caller.reads.profile == Profile::None || self.variant(&policy, caller, &tool).is_ok()
        };
        (is_visible(&policy, caller, &tool) && is_shown()).then_some(tool)
    }
}

/// What step 2 asks of a tool; the hops, which it asks of a call, have no part in a listing. A
/// listing hides more: `Gate::fitting` leaves out what the caller's model or program does not take.
pub(in crate::gate) fn is_visible(policy: &Policy, caller: &Caller, tool: &Tool) -> bool {
    let is_offered = fit::is_offered(policy, tool) && pinned::is_offered(policy, tool);
    is_offered && policy.allowlist.admit(caller, &tool.name).is_ok()
}

impl Gate {
    fn page(
        &self,
        policy: &Policy,
        tools: &Tools,
        asked: ListAsked<'_>,
        PageAt { revision, offset }: PageAt,
    ) -> Option<Object> {
        let ListAsked { caller, scope, .. } = asked;
        let holds = |tool: &&Arc<Tool>| {
            scope.holds(&tool.server.settings.name) && is_visible(policy, caller, tool)
        };
        let visible = tools.all.iter().filter(holds).collect();
        let (visible, _) = self.fitting(policy, tools, asked, visible);
        if offset > 0 && offset >= visible.len() {
            return None;
        }
        let shown = &visible[offset..visible.len().min(offset + PAGE)];
        let mut result = rest(scope, shown);
        let mut array = vec![b'['];
        for (index, listed) in shown.iter().enumerate() {
            if index > 0 {
                array.push(b',');
            }
            push_tool(&mut array, listed, revision);
        }
        if offset + PAGE >= visible.len() {
            let is_offered = || {
                let is_visible = |tool: &Tool| is_visible(policy, caller, tool);
                undo_tool::is_offered(policy, caller, tools, is_visible)
            };
            if let Some(own) = undo_tool::listed(asked, visible.len(), is_offered) {
                array.extend((array.len() > 1).then_some(b','));
                array.extend_from_slice(own.as_bytes());
            }
        }
        array.push(b']');
        // Made of texts that were read strictly, so reading it again cannot fail.
        let limits = crate::mcp::json::JsonLimits {
            bytes: usize::MAX,
            nodes: usize::MAX,
            ..crate::mcp::json::SERVER_JSON_LIMITS
        };
        result.set("tools", Text::read(Bytes::from(array), &limits).ok()?);
        if offset + PAGE < visible.len() {
            result.set(
                "nextCursor",
                Text::string(&cursor(policy, tools, offset + PAGE)),
            );
        }
        Some(result)
    }
}

fn rest(scope: &Scope, shown: &[Listed]) -> Object {
    match (
        scope,
        shown.first().and_then(|listed| listed.tool.server.up()),
    ) {
        (Scope::One(_), Some(up)) => up.catalog.rest.clone(),
        (Scope::One(_), None) | (Scope::All, _) => Object::new(),
    }
}

fn push_tool(
    out: &mut Vec<u8>,
    Listed {
        tool,
        name,
        definition,
    }: &Listed,
    revision: Revision,
) {
    let up = tool.server.up();
    let is_bridged = up.is_some_and(|up| !up.verdict.speaks_era(revision.era()));
    let bridged = is_bridged.then(|| definition_for(definition, revision));
    let definition = bridged.as_ref().unwrap_or(definition);
    if *name == tool.definition.name {
        out.extend_from_slice(definition.as_bytes());
        return;
    }
    out.extend_from_slice(b"{\"name\":");
    push_string(out, name);
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
