//! Which tool servers an agent reaches at the address it was given.

use super::ids::{self, NAME_SEPARATOR, ServerName, ToolName};

/// `/mcp` or `/mcp/{server}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All servers; names are `server__name`.
    All,
    /// One server under its own names.
    One(ServerName),
}

impl Scope {
    /// The tool that `name` means here: as policies name it, where it would live, and its name
    /// there.
    pub fn tool(&self, name: &str) -> (ToolName, Option<ServerName>, String) {
        match self {
            Self::One(server) => (
                ToolName::of(server, name),
                Some(server.clone()),
                name.to_owned(),
            ),
            Self::All => match ids::parts(name) {
                Some((server, own)) => (
                    ToolName::new(name),
                    Some(ServerName::new(server)),
                    own.to_owned(),
                ),
                None => (ToolName::new(name), None, name.to_owned()),
            },
        }
    }

    /// Where the tool that `name` means here would live.
    pub fn server_of(&self, name: &str) -> Option<ServerName> {
        match self {
            Self::One(server) => Some(server.clone()),
            Self::All => ids::parts(name).map(|(server, _)| ServerName::new(server)),
        }
    }

    /// Whether a server is reached here.
    pub fn holds(&self, server: &ServerName) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == server,
        }
    }

    /// Whether a tool is reached here.
    pub fn holds_tool(&self, tool: &ToolName) -> bool {
        ids::parts(tool.as_str()).is_some_and(|(server, _)| self.holds(&ServerName::new(server)))
    }

    /// The name of a tool here.
    pub fn name_of<'a>(&self, tool: &'a ToolName) -> &'a str {
        match (self, ids::parts(tool.as_str())) {
            (Self::One(_), Some((_, own))) => own,
            (Self::All | Self::One(_), _) => tool.as_str(),
        }
    }

    /// The name here of something that `server` calls `name`.
    pub fn name(&self, server: &ServerName, name: &str) -> String {
        match self {
            Self::All => format!("{server}{NAME_SEPARATOR}{name}"),
            Self::One(_) => name.to_owned(),
        }
    }
}
