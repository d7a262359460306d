//! Pins against what the servers list, tool by tool.

use crate::cli::listed::Listed;
use crate::gate::pinned::changed;
use crate::gate::toolbox::Tool;
use crate::guards::pins::Pin;
use crate::model::ids::ToolName;
use crate::policy::pins::Pins;
use anyhow::bail;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// One tool.
pub(super) struct Compared<'a> {
    /// As policies name it.
    pub(super) name: ToolName,
    pub(super) stands: Stands<'a>,
}

/// How a tool stands to its pin.
pub(super) enum Stands<'a> {
    AsPinned,
    Drifted(&'a Pin, &'a Arc<Tool>),
    New(&'a Arc<Tool>),
    /// It is listed, and cannot be offered whatever is approved.
    Quarantined,
    /// Its server answers and does not list it.
    Absent,
}

/// All of them by name, but the pins of servers that do not answer: of those nothing can be said.
pub(super) fn compare<'a>(pins: &'a Pins, listed: &'a Listed) -> Vec<Compared<'a>> {
    let mut found: BTreeMap<ToolName, Stands<'a>> = BTreeMap::new();
    for (server, own) in pins.keys().filter(|(server, _)| listed.down.iter().all(|(down, _)| down != server)) {
        let name = ToolName::of(server, own);
        let stands = if listed.named.contains(&name) { Stands::Quarantined } else { Stands::Absent };
        found.insert(name, stands);
    }
    for tool in &listed.tools {
        let key = (tool.server.settings.name.clone(), tool.definition.name.clone());
        let stands = match pins.get(&key) {
            None => Stands::New(tool),
            Some(pin) if pin.digest == tool.hash => Stands::AsPinned,
            Some(pin) => Stands::Drifted(pin, tool),
        };
        found.insert(tool.name.clone(), stands);
    }
    found.into_iter().map(|(name, stands)| Compared { name, stands }).collect()
}

/// Those that `wanted` names, or all if it names none.
pub(super) fn choose<'f, 'a>(found: &'f [Compared<'a>], wanted: &[String]) -> anyhow::Result<Vec<&'f Compared<'a>>> {
    if let Some(unknown) = wanted.iter().find(|wanted| !found.iter().any(|one| fits(wanted, &one.name))) {
        bail!("no server that answers lists `{}`, and no pin is of that name", unknown.escape_debug());
    }
    let chosen = |one: &&Compared<'a>| wanted.is_empty() || wanted.iter().any(|wanted| fits(wanted, &one.name));
    Ok(found.iter().filter(chosen).collect())
}

/// Whether `wanted`, which may end in `*`, names the tool.
pub(super) fn fits(wanted: &str, name: &ToolName) -> bool {
    match wanted.strip_suffix('*') {
        Some(begin) => name.as_str().starts_with(begin),
        None => name.as_str() == wanted,
    }
}

impl fmt::Display for Compared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.stands {
            Stands::AsPinned => write!(f, "ok       {name}"),
            Stands::Drifted(pin, tool) => {
                write!(f, "drifted  {name}: {}", changed(pin, &tool.definition.text).join(", "))
            }
            Stands::New(_) => write!(f, "new      {name}: nobody has approved it"),
            Stands::Quarantined => write!(f, "withheld {name}: approved, and now it is quarantined"),
            Stands::Absent => write!(f, "absent   {name}: approved, and its server does not list it"),
        }
    }
}
