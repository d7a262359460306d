//! Lists of resources, templates and prompts, of which an agent reads what it may use.

use super::Sides;
use crate::guards::Mode;
use crate::guards::allowlist::side::SideTarget;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::side::SideDoor;

/// Entries that are judged before others get their turn.
const ENTRIES_PER_TURN: usize = 128;
/// Entries of one page; more are left out.
const MAX_PAGE_ENTRIES: usize = 10_000;

/// The member of the result that holds the entries, and of an entry what names it; none for other
/// methods.
pub(crate) fn members(method: &str) -> Option<(&'static str, &'static str)> {
    Some(match method {
        "resources/list" => ("resources", "uri"),
        "resources/templates/list" => ("resourceTemplates", "uriTemplate"),
        "prompts/list" => ("prompts", "name"),
        _ => return None,
    })
}

impl Sides {
    /// The answer to a list with the entries alone that `caller` may use. In observe mode it is as
    /// it came.
    pub async fn listed(
        &self,
        caller: &Caller,
        server: &ServerName,
        method: &str,
        answer: Message,
    ) -> Message {
        let policy = self.policy.current();
        let (Some((key, name)), Mode::Enforce, false) =
            (members(method), policy.mode, answer.is_error)
        else {
            return answer;
        };
        let Some(mut result) = answer.body.as_ref().and_then(Text::object) else {
            return answer;
        };
        let Some(entries) = result.get(key).and_then(Text::elements) else {
            return answer;
        };
        let mut kept = Vec::new();
        for (index, entry) in entries.into_iter().enumerate().take(MAX_PAGE_ENTRIES) {
            if index % ENTRIES_PER_TURN == ENTRIES_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            let named = entry.get(name);
            let Some(named) = named.as_ref().and_then(Text::as_str) else {
                continue;
            };
            let wanted = match key {
                "resources" => SideTarget::resource(SideDoor::Resources, server, &named),
                "prompts" => SideTarget::prompt(SideDoor::Prompts, server, &named),
                _ => SideTarget::listed(server, &named),
            };
            if !policy.allowlist.side(caller, &wanted).refuses() {
                kept.push(entry);
            }
        }
        result.set(key, Text::array(kept));
        if result.get("cacheScope").is_some() {
            // It is this agent's list and no other's (threat-model §3C C11).
            result.set("cacheScope", Text::string("private"));
        }
        Message {
            body: Some(result.text()),
            ..answer
        }
    }
}
