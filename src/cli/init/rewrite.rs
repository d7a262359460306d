//! An agent's own configuration, pointed at toolgate. Only the entries of the servers that toolgate
//! takes over change; every other byte stays, comments too.

use super::jsonc::{JsoncDocument, JsoncMember, indentation, pretty_in};
use super::source::{AgentConfig, FoundServer};
use crate::config::Loaded;
use serde_json::{Value, json};
use std::path::Path;

/// The entry, where one stands for all servers.
const ENTRY_NAME: &str = "toolgate";
/// Why an agent is not pointed at a socket.
const NO_URL: &str = "`listen` of toolgate.yaml is a Unix socket, which this agent cannot be led to; listen on an IP address, or write --via stdio";

/// How the agent reaches toolgate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum AgentRoute {
    /// A toolgate that runs: `toolgate serve`
    Http,
    /// One toolgate per server, which the agent starts instead of it
    Stdio,
}

/// Where toolgate and its files are.
pub(super) struct ToolgateLocation<'a> {
    pub(super) program: &'a Path,
    /// The directory of `toolgate.yaml`, absolute.
    pub(super) directory: &'a Path,
    /// How the data directory of each toolgate that an agent starts begins, absolute.
    pub(super) data: &'a Path,
    /// The agents' address, as `http://…/mcp`; none where it is a socket, which no agent's configuration can name.
    pub(super) address: Option<&'a str>,
}

impl AgentRoute {
    /// What the agent of this file can do: Claude Desktop starts its servers itself.
    pub(super) fn of(agents: &AgentConfig) -> Self {
        let desktop = agents
            .path
            .file_name()
            .is_some_and(|name| name == "claude_desktop_config.json");
        if desktop { Self::Stdio } else { Self::Http }
    }
}

/// The agents' address of a configuration; none where it is a socket.
pub(super) fn address(loaded: &Loaded) -> Option<String> {
    let Some(config) = &loaded.config else {
        return Some(String::new());
    };
    let is_tls = config.entrance.tls.is_some();
    config.listen.tcp()?;
    Some(config.listen.url(is_tls, "/mcp"))
}

/// The file's new text; an error where it could not be changed without changing more.
pub(super) fn rewritten(
    agents: &AgentConfig,
    servers: &[FoundServer],
    via: AgentRoute,
    place: &ToolgateLocation<'_>,
) -> Result<String, String> {
    let members = agents.document.members(agents.place).unwrap_or_default();
    let taken = |member: &JsoncMember| {
        servers
            .iter()
            .find(|server| server.written_as == member.name)
    };
    let text = agents.document.written();
    let changed = match via {
        AgentRoute::Stdio => {
            let parts = members.iter().filter_map(|member| {
                let value = pretty_in(
                    text,
                    &wrapped(taken(member)?, place),
                    indentation(text, member.whole.start),
                );
                Some((member.value.clone(), value))
            });
            replaced(text, parts.collect())
        }
        AgentRoute::Http => {
            if members
                .iter()
                .any(|member| member.name == ENTRY_NAME && taken(member).is_none())
            {
                return Err(format!(
                    "`{ENTRY_NAME}` is there already, and is another server"
                ));
            }
            let address = place.address.ok_or(NO_URL)?;
            replaced(text, pointed(agents, &members, &taken, address))
        }
    };
    judge(agents, &changed, servers, via)?;
    Ok(changed)
}

/// One entry in place of the first, and the others taken away, each with the comma before it.
fn pointed<'s>(
    agents: &AgentConfig,
    members: &[JsoncMember],
    taken: &dyn Fn(&JsoncMember) -> Option<&'s FoundServer>,
    address: &str,
) -> Vec<(std::ops::Range<usize>, String)> {
    let (text, mut parts, mut kept_until) = (agents.document.written(), Vec::new(), None);
    for member in members {
        match (taken(member), parts.is_empty()) {
            (Some(_), true) => {
                let bare = agents
                    .path
                    .parent()
                    .is_some_and(|parent| parent.ends_with(".cursor"));
                let entry = if bare {
                    json!({ "url": address })
                } else {
                    json!({ "type": "http", "url": address })
                };
                let entry = format!(
                    "\"{ENTRY_NAME}\": {}",
                    pretty_in(text, &entry, indentation(text, member.whole.start))
                );
                parts.push((member.whole.clone(), entry));
                kept_until = Some(member.whole.end);
            }
            (Some(_), false) => parts.push((
                kept_until.unwrap_or(member.whole.start)..member.whole.end,
                String::new(),
            )),
            (None, _) => {}
        }
        kept_until = kept_until.map(|_| member.whole.end);
    }
    parts
}

/// What the agent starts instead of a server: a toolgate with a ledger of its own, since no two
/// share one.
fn wrapped(server: &FoundServer, place: &ToolgateLocation<'_>) -> Value {
    let configuration = place.directory.join(crate::config::FILE_NAME);
    let mut data = place.data.as_os_str().to_owned();
    data.push(format!("-{}", server.name));
    let args = [
        "stdio",
        "--config",
        &configuration.to_string_lossy(),
        "--server",
        &server.name,
        "--data",
        &data.to_string_lossy(),
    ]
    .map(ToOwned::to_owned);
    let mut entry = json!({ "command": place.program.to_string_lossy(), "args": args });
    if !server.lent.is_empty() {
        entry["env"] = json!(server.lent);
    }
    entry
}

fn replaced(text: &str, parts: Vec<(std::ops::Range<usize>, String)>) -> String {
    let (mut done, mut at) = (String::with_capacity(text.len()), 0);
    for (range, new) in parts {
        done.push_str(&text[at..range.start]);
        done.push_str(&new);
        at = range.end;
    }
    done + &text[at..]
}

/// Reads the new text again: the entries that were to change have, and nothing else.
fn judge(
    agents: &AgentConfig,
    changed: &str,
    servers: &[FoundServer],
    via: AgentRoute,
) -> Result<(), String> {
    let read = JsoncDocument::read(changed.to_owned()).ok();
    let (mut before, Some(mut after)) = (
        agents.document.text().value(),
        read.map(|read| read.text().value()),
    ) else {
        return Err("it could not be changed in place".to_owned());
    };
    for tree in [&mut before, &mut after] {
        let at = agents
            .place
            .iter()
            .try_fold(tree, |at, step| at.get_mut(*step))
            .and_then(Value::as_object_mut);
        let Some(entries) = at else {
            return Err("it could not be changed in place".to_owned());
        };
        for server in servers {
            entries.remove(&server.written_as);
        }
        if via == AgentRoute::Http {
            entries.remove(ENTRY_NAME);
        }
    }
    if before == after {
        Ok(())
    } else {
        Err("it could not be changed without changing more".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::FoundTransport;
    use super::*;
    use std::collections::BTreeMap;

    /// No agent takes a socket for a URL; it can still start toolgate itself.
    #[test]
    fn no_agent_is_led_to_a_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcp.json");
        std::fs::write(
            &path,
            r#"{ "mcpServers": { "shop": { "command": "shop" } } }"#,
        )
        .unwrap();
        let agents = AgentConfig::read(&path).unwrap();
        let shop = FoundServer {
            name: "shop".to_owned(),
            written_as: "shop".to_owned(),
            reached: FoundTransport::Child {
                command: "shop".to_owned(),
                args: Vec::new(),
                env: BTreeMap::new(),
                cwd: None,
            },
            lent: BTreeMap::new(),
        };
        let text = |address, via| {
            let place = ToolgateLocation {
                program: Path::new("/usr/bin/toolgate"),
                directory: directory.path(),
                data: directory.path(),
                address,
            };
            rewritten(&agents, std::slice::from_ref(&shop), via, &place)
        };
        let url = "http://127.0.0.1:7777/mcp";
        assert!(text(Some(url), AgentRoute::Http).unwrap().contains(url));
        assert_eq!(text(None, AgentRoute::Http), Err(NO_URL.to_owned()));
        assert!(text(None, AgentRoute::Stdio).unwrap().contains("stdio"));
    }
}
