//! Names and ids: newtypes, never bare strings.

use super::clock::Clock;
use super::hex::hex;
use super::random;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the name as it stands.
            pub fn new(name: &str) -> Self {
                Self(Arc::from(name))
            }

            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// A tool server, as the configuration names it: `[A-Za-z0-9_-]{1,32}` without `__`.
    ServerName
);
name!(
    /// A tool as policies name it: `server__tool`.
    ToolName
);
name!(
    /// An agent, as the configuration names it.
    AgentId
);
name!(
    /// A tenant, as the configuration names it.
    TenantId
);
name!(
    /// A person behind an agent, as that agent or its front end names the person: byte for byte,
    /// nothing is folded.
    UserId
);

/// What stands between a server's name and a tool's name.
pub const NAME_SEPARATOR: &str = "__";

impl ToolName {
    /// The name policies use for `tool` of `server`.
    pub fn of(server: &ServerName, tool: &str) -> Self {
        Self([server.as_str(), NAME_SEPARATOR, tool].concat().into())
    }
}

/// The server's name in the name of a tool, and its own name there; none if the name has no
/// [`NAME_SEPARATOR`].
///
/// Which tool is called is looked up, never read out of its name. This is for what is said of tools
/// that nobody has listed yet. It finds what [`ToolName::of`] was given, and nothing else: no
/// server's name holds the separator or ends in `_` (threat-model §3D D2).
pub fn parts(name: &str) -> Option<(&str, &str)> {
    name.split_once(NAME_SEPARATOR)
}

/// One judged call: a UUID of version 7, so ids sort by time (003-65).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct ActionId(uuid::Uuid);

impl ActionId {
    /// A new id. Ids of one process rise strictly: the bits below the milliseconds begin as parts
    /// of a millisecond (RFC 9562 §6.2, method 3).
    pub fn generate() -> Self {
        static LAST_TIMESTAMP: AtomicU64 = AtomicU64::new(0);
        let Some(random) = random::bytes::<8>() else {
            return Self(uuid::Uuid::now_v7());
        };
        let nanoseconds = u64::try_from(Clock.wall().as_nanosecond()).unwrap_or(0);
        let (millis, rest) = (nanoseconds / 1_000_000, nanoseconds % 1_000_000);
        let now = (millis << 12) | (rest * 4096 / 1_000_000);
        let after = |last: u64| Some(now.max(last + 1));
        let last = LAST_TIMESTAMP
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, after)
            .unwrap_or(0);
        let at = now.max(last + 1);
        let mut bytes = [0; 10];
        bytes[..2].copy_from_slice(&u16::try_from(at & 0xfff).unwrap_or(0).to_be_bytes());
        bytes[2..].copy_from_slice(&random);
        Self(uuid::Builder::from_unix_timestamp_millis(at >> 12, &bytes).into_uuid())
    }

    /// Its 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl std::str::FromStr for ActionId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        uuid::Uuid::try_parse(text).map(Self)
    }
}

impl TryFrom<String> for ActionId {
    type Error = uuid::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ActionId> for String {
    fn from(action: ActionId) -> Self {
        action.to_string()
    }
}

impl fmt::Display for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// 128 random bits in hex: session ids and other ids that must not be guessed.
pub fn unguessable() -> String {
    hex(&unguessable_bytes())
}

/// The same bits, not written out.
pub(crate) fn unguessable_bytes() -> [u8; 16] {
    random::bytes::<16>().unwrap_or_else(|| uuid::Uuid::now_v7().into_bytes())
}

/// The server that a tool's full name begins with, if it is declared.
pub(crate) fn server_of<'s>(name: &str, servers: &'s [ServerName]) -> Option<&'s ServerName> {
    let (server, tool) = parts(name)?;
    servers
        .iter()
        .find(|known| known.as_str() == server && !tool.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// threat-model §3D D2: a public name has one server and one tool, so that `a` with `b__c`
        /// is never `a__b` with `c`.
        #[test]
        fn d2_a_public_name_has_one_server_and_one_tool(
            server in "-{0,2}([A-Za-z0-9-]|_[A-Za-z0-9-]){1,12}", tool in "[A-Za-z0-9_.-]{1,12}"
        ) {
            let name = ToolName::of(&ServerName::new(&server), &tool);
            prop_assert_eq!(parts(name.as_str()), Some((server.as_str(), tool.as_str())));
        }
    }
}
