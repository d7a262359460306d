//! What servers and agents are told that the other can do: only what they may use, and only what
//! toolgate understands (threat-model §3C C6, C9, C12). In observe mode they are told what the
//! other says.

use super::opens;
use crate::guards::Mode;
use crate::mcp::bridge::{CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY};
use crate::mcp::json::{Object, Text};
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::side::SideDoor;
use crate::policy::Policy;

/// The one extension that toolgate judges.
const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Members of `initialize` that a server needs.
const INITIALIZE_MEMBERS: [&str; 2] = ["protocolVersion", "clientInfo"];

/// What an agent says it can do, by the door that lets a server use it.
const AGENT_CAPABILITY_DOORS: [(&str, SideDoor); 3] = [
    ("sampling", SideDoor::Sampling),
    ("elicitation", SideDoor::Elicitation),
    ("roots", SideDoor::Roots),
];
/// What a server says it can do, by the door that lets an agent use it.
const SERVER_CAPABILITY_DOORS: [(&str, SideDoor); 4] = [
    ("resources", SideDoor::Resources),
    ("prompts", SideDoor::Prompts),
    ("completions", SideDoor::Completions),
    ("logging", SideDoor::Logging),
];

/// The parameters of an agent's `initialize` as the server reads them.
pub(crate) fn initialize(
    policy: &Policy,
    caller: &Caller,
    server: &ServerName,
    params: &Text,
) -> Text {
    if policy.mode == Mode::Observe {
        return params.clone();
    }
    let mut told = Object::new();
    for name in INITIALIZE_MEMBERS {
        if let Some(value) = params.get(name) {
            told.set(name, value);
        }
    }
    let declared = params
        .get("capabilities")
        .unwrap_or_else(|| Object::new().text());
    told.set("capabilities", of_agent(policy, caller, server, &declared));
    told.text()
}

/// `_meta` of an agent's request as the server reads it; none if it is as the agent wrote it.
pub(crate) fn meta(
    policy: &Policy,
    caller: &Caller,
    server: &ServerName,
    meta: &Text,
) -> Option<Text> {
    if policy.mode == Mode::Observe {
        return None;
    }
    let declared = meta
        .get(CAPABILITIES_META_KEY)
        .filter(|declared| declared.as_bytes() != b"{}");
    let logs =
        meta.get(LOG_LEVEL_META_KEY).is_some() && !opens(policy, caller, SideDoor::Logging, server);
    if declared.is_none() && !logs {
        return None;
    }
    let mut members = meta.object()?;
    if let Some(declared) = declared {
        members.set(
            CAPABILITIES_META_KEY,
            of_agent(policy, caller, server, &declared),
        );
    }
    if logs {
        members.remove(LOG_LEVEL_META_KEY);
    }
    Some(members.text())
}

/// What a server says of itself as an agent reads it.
pub(crate) fn introduced(
    policy: &Policy,
    caller: &Caller,
    server: &ServerName,
    said: &Text,
) -> Text {
    if policy.mode == Mode::Observe {
        return said.clone();
    }
    let (Some(mut members), Some(capabilities)) = (
        said.object(),
        said.get("capabilities").and_then(|all| all.object()),
    ) else {
        return said.clone();
    };
    let mut told = Object::new();
    for (name, value) in capabilities.iter() {
        let door = SERVER_CAPABILITY_DOORS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, door)| *door);
        let passes = match door {
            Some(door) => opens(policy, caller, door, server),
            None => matches!(name, "tools" | "tasks" | "extensions"),
        };
        if passes {
            told.set(name, value.clone());
        }
    }
    members.set("capabilities", told.text());
    members.text()
}

fn of_agent(policy: &Policy, caller: &Caller, server: &ServerName, declared: &Text) -> Text {
    let mut told = Object::new();
    for (name, value) in declared.object().unwrap_or_default().iter() {
        let door = AGENT_CAPABILITY_DOORS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, door)| *door);
        match (door, name) {
            (Some(door), _) if opens(policy, caller, door, server) => told.set(name, value.clone()),
            (None, "tasks") => told.set(name, of_tasks(policy, caller, server, value)),
            (None, "extensions") => {
                let mut kept = Object::new();
                if let Some(tasks) = value.get(TASKS_EXTENSION) {
                    kept.set(TASKS_EXTENSION, tasks);
                }
                told.set(name, kept.text());
            }
            _ => {}
        }
    }
    told.text()
}

/// Which requests of a server may become tasks of the agent: those that it may send.
fn of_tasks(policy: &Policy, caller: &Caller, server: &ServerName, declared: &Text) -> Text {
    let mut tasks = declared.object().unwrap_or_default();
    let Some(requests) = tasks.get("requests").and_then(Text::object) else {
        return tasks.text();
    };
    let mut kept = Object::new();
    for (name, value) in requests.iter() {
        let door = AGENT_CAPABILITY_DOORS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, door)| *door);
        if door.is_some_and(|door| opens(policy, caller, door, server)) {
            kept.set(name, value.clone());
        }
    }
    tasks.set("requests", kept.text());
    tasks.text()
}
