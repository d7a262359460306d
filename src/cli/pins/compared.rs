//! Pins against what the servers list, tool by tool.

use crate::cli::listed_tools::ListedTools;
use crate::gate::catalogue::pinned::changed;
use crate::guards::pins::Pin;
use crate::model::ids::{ServerName, ToolName};
use crate::policy::pins::Pins;
use crate::policy::shape::suggest;
use anyhow::bail;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// One tool.
pub(super) struct ComparedTool<'a> {
    /// As policies name it.
    pub(super) name: ToolName,
    /// Its place among the pins.
    pub(super) key: (ServerName, String),
    pub(super) stands: PinStatus<'a>,
}

/// How a tool stands to its pin.
pub(super) enum PinStatus<'a> {
    AsPinned,
    /// What was approved, and what is listed.
    Drifted(&'a Pin, Pin),
    New(Pin),
    /// It is listed, and cannot be offered whatever is approved.
    Quarantined,
    /// Its server answers and does not list it.
    Absent,
}

/// All of them by name, but the pins of servers that do not answer: of those nothing can be said.
pub(super) fn compare<'a>(pins: &'a Pins, listed: &'a ListedTools) -> Vec<ComparedTool<'a>> {
    let mut found = BTreeMap::new();
    let mut add = |key: (ServerName, String), stands| {
        let name = ToolName::of(&key.0, &key.1);
        found.insert(name.clone(), ComparedTool { name, key, stands });
    };
    for key in pins
        .keys()
        .filter(|(server, _)| listed.down.iter().all(|(down, _)| down != server))
    {
        let is_named = listed.named.contains(&ToolName::of(&key.0, &key.1));
        add(
            key.clone(),
            if is_named {
                PinStatus::Quarantined
            } else {
                PinStatus::Absent
            },
        );
    }
    for (key, now) in listed.pins() {
        let stands = match pins.get(&key) {
            None => PinStatus::New(now),
            Some(pin) if pin.digest == now.digest => PinStatus::AsPinned,
            Some(pin) => PinStatus::Drifted(pin, now),
        };
        add(key, stands);
    }
    found.into_values().collect()
}

/// Those that `wanted` names, or all if it names none.
pub(super) fn choose<'f, 'a>(
    found: &'f [ComparedTool<'a>],
    wanted: &[String],
) -> anyhow::Result<Vec<&'f ComparedTool<'a>>> {
    if let Some(unknown) = wanted
        .iter()
        .find(|wanted| !found.iter().any(|one| fits(wanted, &one.name)))
    {
        let known: Vec<String> = found.iter().map(|one| one.name.to_string()).collect();
        let hint = suggest(unknown, &known);
        bail!(
            "no server that answers lists `{}`, and no pin is of that name; {hint}",
            unknown.escape_debug()
        );
    }
    let chosen = |one: &&ComparedTool<'a>| {
        wanted.is_empty() || wanted.iter().any(|wanted| fits(wanted, &one.name))
    };
    Ok(found.iter().filter(chosen).collect())
}

/// Whether `wanted`, which may end in `*`, names the tool.
pub(super) fn fits(wanted: &str, name: &ToolName) -> bool {
    match wanted.strip_suffix('*') {
        Some(begin) => name.as_str().starts_with(begin),
        None => name.as_str() == wanted,
    }
}

impl ComparedTool<'_> {
    /// For programs: the tool, how it stands, and the members of its definition that changed.
    pub(super) fn json(&self) -> Value {
        let changes = match &self.stands {
            PinStatus::Drifted(pin, now) => changed(pin, &now.definition),
            PinStatus::AsPinned
            | PinStatus::New(_)
            | PinStatus::Quarantined
            | PinStatus::Absent => Vec::new(),
        };
        let stands = match &self.stands {
            PinStatus::AsPinned => "approved",
            PinStatus::Drifted(..) => "drifted",
            PinStatus::New(_) => "new",
            PinStatus::Quarantined => "quarantined",
            PinStatus::Absent => "absent",
        };
        json!({ "tool": self.name.as_str(), "state": stands, "changed": changes })
    }
}

impl fmt::Display for ComparedTool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.stands {
            PinStatus::AsPinned => write!(f, "ok       {name}"),
            PinStatus::Drifted(pin, now) => {
                write!(
                    f,
                    "drifted  {name}: {}",
                    changed(pin, &now.definition).join(", ")
                )
            }
            PinStatus::New(_) => write!(f, "new      {name}: nobody has approved it"),
            PinStatus::Quarantined => {
                write!(f, "withheld {name}: approved, and now it is quarantined")
            }
            PinStatus::Absent => write!(
                f,
                "absent   {name}: approved, and its server does not list it"
            ),
        }
    }
}
