//! `server/discover`, and the answer to `initialize` where several servers share one address: what
//! the servers said of themselves, with the revisions that toolgate serves here.

use super::{Relay, RelayFailure};
use crate::guards::Mode;
use crate::mcp::bridge::{SERVER_META_KEY, TASKS_EXTENSION_KEY, unknown_server};
use crate::mcp::error_codes::INTERNAL_ERROR;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::introduction;
use crate::mcp::revision::Revision;
use crate::model::caller::Caller;
use crate::model::ids::ToolName;
use crate::model::scope::Scope;
use crate::policy::Policy;
use crate::side::capabilities::introduced;
use serde_json::{Map, Value, json};

impl Relay {
    /// The result of `server/discover`.
    pub(super) fn discover(&self, caller: &Caller, scope: &Scope) -> Result<Text, RelayFailure> {
        let policy = self.policy.current();
        let held = self.servers.all().iter();
        let held = held.filter(|server| scope.holds(&server.settings.name));
        // Also of one that is down: an agent asks once, and the server may come back.
        let said = held.filter_map(|server| {
            let known = server.known().and_then(|known| known.as_modern());
            let said = match (known, scope) {
                (Some(said), _) => said,
                (None, Scope::One(_)) => unknown_server(),
                (None, Scope::All) => return None,
            };
            let name = &server.settings.name;
            let said = policy.introduced(name, &said);
            Some((name.to_string(), introduced(&policy, caller, name, &said)))
        });
        let said: Vec<(String, Text)> = said.collect();
        let mut result = match (scope, said.as_slice()) {
            (Scope::One(_), [(_, said)]) => said.object().unwrap_or_default(),
            (Scope::One(_), _) => {
                return Err(RelayFailure::Answer(
                    INTERNAL_ERROR,
                    "the tool server is down".to_owned(),
                ));
            }
            (Scope::All, said) => together(said),
        };
        if holds_calls(&policy, caller, scope) || self.takes_long(&policy, scope) {
            offer_tasks(&mut result);
        }
        let versions = Revision::ALL.map(Revision::as_str);
        result.set("supportedVersions", Text::of(&json!(versions)));
        result.set("resultType", Text::string("complete"));
        result.set("ttlMs", Text::of(&0.into()));
        result.set("cacheScope", Text::string("private"));
        Ok(result.text())
    }

    /// Whether a call that takes long can become a task of toolgate's own.
    fn takes_long(&self, policy: &Policy, scope: &Scope) -> bool {
        let mut servers = self.servers.all().iter();
        policy.mode == Mode::Enforce
            && servers.any(|server| scope.holds(&server.settings.name) && server.takes_long())
    }
}

/// Whether a person has to allow calls of a tool that the caller may call here: to an agent that
/// knows tasks such a call is one of toolgate's own.
fn holds_calls(policy: &Policy, caller: &Caller, scope: &Scope) -> bool {
    let is_held = |tool: &&ToolName| {
        let admitted = policy.allowlist.admit(caller, tool);
        admitted.is_ok_and(|admitted| admitted.rules().approval.is_some())
    };
    let mut tools = policy.allowlist.contracts();
    policy.mode == Mode::Enforce && tools.any(|tool| scope.holds_tool(tool) && is_held(&tool))
}

fn offer_tasks(result: &mut Object) {
    let part = |of: Option<&Text>| of.and_then(Text::object).unwrap_or_default();
    let mut capabilities = part(result.get("capabilities"));
    let mut extensions = part(capabilities.get("extensions"));
    if extensions.get(TASKS_EXTENSION_KEY).is_none() {
        extensions.set(TASKS_EXTENSION_KEY, Object::new().text());
        capabilities.set("extensions", extensions.text());
        result.set("capabilities", capabilities.text());
    }
}

fn together(said: &[(String, Text)]) -> Object {
    let mut result = Object::new();
    result.set("capabilities", Text::of(&capabilities(said)));
    if let Some(instructions) = instructions(said) {
        result.set("instructions", Text::string(&instructions));
    }
    result.set(
        "_meta",
        Text::of(&json!({ SERVER_META_KEY: introduction() })),
    );
    result
}

/// The result of `initialize` for several servers: the oldest revision any of them chose, and all
/// they can do.
pub(crate) fn initialized_together(said: &[(String, Text)], asked: &str) -> Text {
    let chosen = said
        .iter()
        .filter_map(|(_, said)| Revision::parse(&said.get("protocolVersion")?.as_str()?))
        .min();
    let asked = Revision::parse(asked).filter(|asked| *asked <= Revision::NEWEST_LEGACY);
    let version = chosen.or(asked).unwrap_or(Revision::NEWEST_LEGACY);
    let mut result = Object::new();
    result.set("protocolVersion", Text::string(version.as_str()));
    result.set("capabilities", Text::of(&capabilities(said)));
    result.set("serverInfo", Text::of(&introduction()));
    if let Some(instructions) = instructions(said) {
        result.set("instructions", Text::string(&instructions));
    }
    result.text()
}

fn capabilities(said: &[(String, Text)]) -> Value {
    let mut all = Map::new();
    for (_, said) in said {
        if let Some(Value::Object(capabilities)) = said
            .get("capabilities")
            .map(|capabilities| capabilities.value())
        {
            join(&mut all, capabilities);
        }
    }
    all.insert("tools".to_owned(), json!({ "listChanged": true }));
    Value::Object(all)
}

fn join(all: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        match (all.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => join(old, new),
            (Some(Value::Bool(old)), Value::Bool(new)) => *old |= new,
            (Some(_), _) => {}
            (None, value) => {
                all.insert(key, value);
            }
        }
    }
}

fn instructions(said: &[(String, Text)]) -> Option<String> {
    let parts: Vec<String> = said
        .iter()
        .filter_map(|(name, said)| Some(format!("{name}: {}", said.get("instructions")?.as_str()?)))
        .collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}
