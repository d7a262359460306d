//! The tools of one agent: those of all servers, but where a server shows it others in a session of
//! its own, those.

use crate::gate::Gate;
use crate::gate::catalogue::collisions;
use crate::gate::catalogue::tool::{Tool, Tools};
use crate::gate::catalogue::toolbox::compile;
use crate::model::ids::ToolName;
use crate::upstream::links::Links;
use crate::upstream::own_catalogs::{OwnCatalog, OwnCatalogs};
use crate::upstream::servers::Servers;
use parking_lot::Mutex;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Sets of tools that are kept, each of one agent.
const MAX_SETS_KEPT: usize = 64;
/// Marks the version of an agent's own set; what is below says of which state of all tools it is.
const OWN_VERSION_BIT: u64 = 1 << 63;
const GENERATION_MASK: u64 = 0xffff_ffff;

/// Sets already made, by the agents' stamp and the version of all tools.
#[derive(Default)]
pub(in crate::gate) struct OwnTools(Mutex<HashMap<(u64, u64), Arc<Tools>>>);

/// Of which state of all tools a version is.
pub(in crate::gate) fn generation(version: u64) -> u64 {
    version & GENERATION_MASK
}

impl Gate {
    /// The tools as the agent with these links reads them; without any, as all do.
    pub(crate) fn tools_of(&self, links: Option<&Links>) -> Arc<Tools> {
        let all = self.tools.current();
        let own = links.and_then(|links| Some((links, links.own_catalogs()?)));
        let Some((links, own)) = own else {
            return all.clone();
        };
        let key = (own.stamp, all.version);
        if let Some(made) = self.listings.own.0.lock().get(&key) {
            return made.clone();
        }
        let made = Arc::new(merged(&all, &own, links.servers()));
        let mut sets = self.listings.own.0.lock();
        sets.retain(|(_, version), _| *version == all.version);
        if sets.len() < MAX_SETS_KEPT {
            sets.insert(key, made.clone());
        }
        made
    }

    /// The tool of that name as this agent reads it.
    pub(crate) fn tool_of<N: Hash + Eq + ?Sized>(
        &self,
        links: Option<&Links>,
        name: &N,
    ) -> Option<Arc<Tool>>
    where
        ToolName: Borrow<N>,
    {
        if links.is_none_or(|links| links.own_catalogs().is_none()) {
            return self.tools.current().find(name).cloned();
        }
        self.tools_of(links).find(name).cloned()
    }
}

/// Whether the agent with these links reads the tool as its own sessions list it.
pub(in crate::gate) fn is_own(links: &Links, tool: &Tool) -> bool {
    let name = &tool.server.settings.name;
    let lists = |own: &OwnCatalog| {
        let mut listed = own.catalog.tools.iter();
        own.server == *name && listed.any(|one| one.name == tool.definition.name)
    };
    let own = links.own_catalogs();
    own.is_some_and(|own| own.servers.iter().any(lists))
}

/// All tools, with those of these servers as one agent's sessions list them. What its sessions do
/// not list can be called still: its server says whether there is such a tool.
fn merged(all: &Tools, own: &OwnCatalogs, servers: &Servers) -> Tools {
    let mut tools = Tools {
        version: OWN_VERSION_BIT
            | own.stamp.wrapping_shl(32) & !OWN_VERSION_BIT
            | generation(all.version),
        all: all.all.clone(),
        quarantined: Vec::new(),
        by_name: all.by_name.clone(),
        parted: all.parted.clone(),
        tried: all.tried.clone(),
        answered: all.answered.clone(),
    };
    for OwnCatalog {
        server: name,
        catalog,
        ..
    } in &own.servers
    {
        let Some(server) = servers.get(name.as_str()) else {
            continue;
        };
        tools.all.retain(|tool| tool.server.settings.name != *name);
        for definition in &catalog.tools {
            let tool = ToolName::of(name, &definition.name);
            if let Ok(tool) = compile(&tool, definition, server, all) {
                tools.by_name.insert(tool.name.clone(), tool.clone());
                tools.all.push(tool);
            }
        }
    }
    // A session that lists one of two twins anew does not bring it back.
    tools.without(&all.parted);
    collisions::part(&mut tools);
    tools
}
