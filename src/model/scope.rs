//! Which tool servers an agent reaches at the address it was given.

use super::ids::{self, NAME_SEPARATOR, ServerName, ToolName};

/// Bytes of a server's name, of what stands behind it, and of a tool's name there.
const FULL_NAME_BYTES_MAX: usize = 32 + NAME_SEPARATOR.len() + 128;

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

    /// What `look` finds under the name that policies have for the tool which `name` means here. Nothing is
    /// kept of it, so that it needs no memory; none where no tool's name can be as long.
    pub(crate) fn look_up<T>(&self, name: &str, look: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let Self::One(server) = self else {
            return look(name);
        };
        let (mut room, mut length) = ([0; FULL_NAME_BYTES_MAX], 0);
        for part in [server.as_str(), NAME_SEPARATOR, name] {
            let place = room.get_mut(length..length + part.len())?;
            place.copy_from_slice(part.as_bytes());
            length += part.len();
        }
        look(std::str::from_utf8(&room[..length]).ok()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool is looked up under the name that is told of it, and nothing else is longer than a name.
    #[test]
    fn a_tool_is_looked_up_by_its_full_name() {
        let longest = "s".repeat(32);
        for server in ["files", &longest] {
            for name in ["read", "a__b", "", &"t".repeat(128)] {
                for scope in [Scope::All, Scope::One(ServerName::new(server))] {
                    let (full, ..) = scope.tool(name);
                    let found = scope.look_up(name, |name| Some(name.to_owned()));
                    assert_eq!(found.as_deref(), Some(full.as_str()));
                }
            }
        }
        let one = Scope::One(ServerName::new(&longest));
        assert_eq!(one.look_up(&"t".repeat(129), |_| Some(())), None);
        assert_eq!(Scope::All.look_up("x", |_| None::<()>), None);
    }
}
