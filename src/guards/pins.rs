//! Refuses a tool whose definition no operator has approved: one that is new, or has changed since
//! (threat-model §3D D4).
//!
//! It stands with visibility: what a server says of a tool decides what an agent does with it, so a
//! changed definition is another tool. Only the pin file says what is approved; nothing that is
//! seen becomes a pin by being seen.

use crate::mcp::json::Text;
use crate::mcp::tools::MAX_DEFINITION_BYTES;
use crate::model::ids::ServerName;
use crate::schema::schema_hash;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

/// The pin file's name, if nothing is said.
pub(crate) const PIN_FILE_NAME: &str = "toolgate.pins.yaml";

/// What stands for a tool's name where a server's `instructions` are pinned (threat-model §3C C9);
/// no tool can have it.
pub(crate) const INSTRUCTIONS_PIN_NAME: &str = ":instructions";

/// Which definitions of tools are approved, as written: the pin file's name, or more.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Settings {
    /// The file.
    File(String),
    /// The file, and what of tools that are not in it.
    Whole(PinFileSettings),
}

/// As [`Settings::Whole`].
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PinFileSettings {
    /// The pin file.
    pub file: String,
    /// Whether a tool that is not in it is withheld.
    pub require: bool,
}

/// As run: what is approved. The default asks for nothing.
#[derive(Debug, Default, Clone)]
pub struct Rule {
    wanted: PinRequirement,
    pinned: HashMap<ServerName, HashMap<String, Pin>>,
    complete: BTreeSet<ServerName>,
}

/// Which tools need a pin.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum PinRequirement {
    /// None: no pin file is configured.
    #[default]
    Nothing,
    /// Those that have one must be as it says.
    Known,
    /// All.
    All,
}

/// One approved definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// SHA-256 over its RFC 8785 form, in lower-case hex.
    pub digest: String,
    /// The whole definition.
    pub definition: Text,
}

/// The `instructions` in what a server said of itself, as they are pinned: line by line, so that a
/// change can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// SHA-256 as of a pin.
    pub digest: String,
    /// What the pin holds; none if it is longer than a definition may be: then nobody can approve
    /// it.
    pub definition: Option<Text>,
}

impl Instructions {
    /// Those in the answer to `initialize` or `server/discover`, if there are any.
    pub(crate) fn of(said: &Text) -> Option<Self> {
        let text = said.get("instructions")?;
        let lines = text.as_str().unwrap_or_default();
        let lines: Vec<&str> = lines.split('\n').collect();
        let value = serde_json::json!({ "name": INSTRUCTIONS_PIN_NAME, "lines": lines });
        let definition = (text.as_bytes().len() <= MAX_DEFINITION_BYTES).then(|| Text::of(&value));
        Some(Self {
            digest: schema_hash(&value),
            definition,
        })
    }
}

/// Why a tool is withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unapproved<'a> {
    /// It is not as it was when an operator approved it.
    Drifted(&'a Pin),
    /// No operator has approved it.
    Unpinned,
}

// === impl Settings ===

impl Settings {
    /// The file, and whether a tool that is not in it is withheld.
    pub(crate) fn into_parts(self) -> (String, bool) {
        match self {
            Self::File(file) => (file, true),
            Self::Whole(PinFileSettings { file, require }) => (file, require),
        }
    }
}

impl Default for PinFileSettings {
    fn default() -> Self {
        Self {
            file: PIN_FILE_NAME.to_owned(),
            require: true,
        }
    }
}

impl JsonSchema for Settings {
    fn schema_name() -> Cow<'static, str> {
        "Pins".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Which definitions of tools are approved: the pin file, or more. `toolgate pins` writes it.",
            "type": ["string", "object"],
            "additionalProperties": false,
            "properties": {
                "file": { "description": "The pin file, beside the configuration.", "type": "string", "default": PIN_FILE_NAME },
                "require": { "description": "Whether a tool that is not in it is withheld.", "type": "boolean", "default": true }
            }
        })
    }
}

// === impl Rule ===

impl Rule {
    /// `require`: every tool needs a pin; else only what has one must be as it says.
    pub fn new(require: bool, pinned: HashMap<ServerName, HashMap<String, Pin>>) -> Self {
        Self {
            wanted: if require {
                PinRequirement::All
            } else {
                PinRequirement::Known
            },
            pinned,
            complete: BTreeSet::new(),
        }
    }

    /// The same, where these servers' tools were all approved when their pins were written.
    #[must_use]
    pub(crate) fn knowing_all_of(self, complete: BTreeSet<ServerName>) -> Self {
        Self { complete, ..self }
    }

    /// Whether a tool of this server without a pin is none that is called: all were approved, and one
    /// that came since is withheld.
    pub(crate) fn is_all_of(&self, server: &ServerName) -> bool {
        self.wanted == PinRequirement::All && self.complete.contains(server)
    }

    /// Is the `tool` of `server`, whose definition has this digest, one that was approved?
    pub fn judge(
        &self,
        server: &ServerName,
        tool: &str,
        digest: &str,
    ) -> Result<(), Unapproved<'_>> {
        match (self.wanted, self.pin(server, tool)) {
            (PinRequirement::Nothing, _) | (PinRequirement::Known, None) => Ok(()),
            (PinRequirement::All, None) => Err(Unapproved::Unpinned),
            (PinRequirement::Known | PinRequirement::All, Some(pin)) if pin.digest == digest => {
                Ok(())
            }
            (PinRequirement::Known | PinRequirement::All, Some(pin)) => {
                Err(Unapproved::Drifted(pin))
            }
        }
    }

    /// Is the `tool` of `server` withheld whatever its definition is, because none was approved?
    pub fn lacks(&self, server: &ServerName, tool: &str) -> bool {
        self.wanted == PinRequirement::All && self.pin(server, tool).is_none()
    }

    /// The approved definition of a tool, whether its server is up or not.
    pub fn pin(&self, server: &ServerName, tool: &str) -> Option<&Pin> {
        self.pinned.get(server)?.get(tool)
    }

    /// All of them, in no order.
    pub fn pins(&self) -> impl Iterator<Item = (&ServerName, &str, &Pin)> {
        self.pinned.iter().flat_map(|(server, tools)| {
            tools
                .iter()
                .map(move |(tool, pin)| (server, tool.as_str(), pin))
        })
    }
}

impl Unapproved<'_> {
    /// The word in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Drifted(_) => "drifted",
            Self::Unpinned => "unpinned",
        }
    }

    /// For the ledger: why the tool is withheld.
    pub fn words(self) -> &'static str {
        match self {
            Self::Drifted(_) => "pins: the definition has changed since it was approved",
            Self::Unpinned => "pins: no operator has approved the definition",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(digest: &str) -> Pin {
        Pin {
            digest: digest.to_owned(),
            definition: Text::string(""),
        }
    }

    /// threat-model §3D D4, 002-16: what was approved passes, what changed does not; what is new
    /// only where no pin is asked for.
    #[test]
    fn d4_only_what_was_approved_passes() {
        let server = ServerName::new("a");
        let pinned = || {
            HashMap::from([(
                server.clone(),
                HashMap::from([("known".to_owned(), pin("1"))]),
            )])
        };
        for (rule, known, drifted, new) in [
            (Rule::default(), "ok", "ok", "ok"),
            (Rule::new(false, pinned()), "ok", "drifted", "ok"),
            (Rule::new(true, pinned()), "ok", "drifted", "unpinned"),
        ] {
            let said = |tool, digest| {
                rule.judge(&server, tool, digest)
                    .map_or_else(Unapproved::label, |()| "ok")
            };
            assert_eq!(
                [said("known", "1"), said("known", "2"), said("new", "1")],
                [known, drifted, new]
            );
            assert_eq!(
                [rule.lacks(&server, "known"), rule.lacks(&server, "new")],
                [false, new == "unpinned"]
            );
            let other = rule
                .judge(&ServerName::new("b"), "known", "1")
                .map_or_else(Unapproved::label, |()| "ok");
            assert_eq!(
                other, new,
                "a pin holds for the tool of its server, not for the name"
            );
        }
    }
}
