//! Refuses a call with a secret reference where none may stand, and says which secrets the others
//! need.
//!
//! The last step before sending: every guard, the intent and the operators who approve have seen
//! the reference, never the value (002-27). A reference is a whole string, `<secret_ref:NAME>`, at
//! a place that both the contract and the configuration name: a secret goes to one server, one
//! tool, one argument (threat-model §3F F1).

use super::{Mode, Section};
use crate::mcp::headers::HeaderParam;
use crate::mcp::json::Text;
use crate::mcp::json::path_edit::PathStep;
use crate::model::diagnostic::Problems;
use crate::model::ids::ServerName;
use crate::model::pointer::{self, is_pointer, steps};
use crate::model::refusal::Refusal;
use crate::model::secret::Secret;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

mod reference;

pub(crate) use reference::{SECRET_NAME_CHARS_MAX, is_name};

/// References in one call at most.
const MAX_REFERENCES_PER_CALL: usize = 16;

/// Which arguments may hold secret references, by JSON pointer; `[]` for none.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "Secrets")]
pub(crate) struct Settings(pub Vec<String>);

/// As run. The default lets no argument hold a reference.
#[derive(Debug, Default)]
pub struct Rule {
    pointers: Vec<String>,
}

/// The secrets of the configuration: where each comes from, and where it may go.
#[derive(Debug, Clone, Default)]
pub struct Bindings(pub BTreeMap<String, Arc<Binding>>);

/// One secret of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Its name: `[a-z][a-z0-9_]*`.
    pub name: String,
    /// Where it comes from.
    pub source: SecretSource,
    /// Where it may go.
    pub places: Vec<SecretTarget>,
}

/// Where a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable of toolgate's.
    Variable(String),
    /// The contents of a file, read for every call.
    File(PathBuf),
    /// What a program prints.
    Command {
        /// The program and its arguments; there is no shell.
        run: Vec<String>,
        /// Where it runs.
        cwd: PathBuf,
        /// For how long its answer is good.
        ttl: Duration,
        /// How long it may take.
        timeout: Duration,
    },
}

/// An argument of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretTarget {
    /// The tool server.
    pub server: ServerName,
    /// The server's own name for the tool.
    pub tool: String,
    /// JSON pointer to the argument.
    pub pointer: String,
}

/// What a call goes to, as far as that decides where references may stand.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The tool server.
    pub server: &'a ServerName,
    /// The server's own name for the tool.
    pub tool: &'a str,
    /// The arguments that are repeated in headers.
    pub mirrored: &'a [HeaderParam],
}

/// The secrets that a call needs; its references stand where they may.
#[derive(Debug)]
pub struct NeededSecrets {
    references: Vec<(Vec<String>, Arc<Binding>)>,
}

/// The values of a call's references, for the copy that leaves. Made by `seal` only;
/// without `Debug` and never written anywhere.
#[must_use]
pub struct Sealed {
    values: Vec<(Vec<PathStep>, Arc<Secret>)>,
}

// === impl Settings ===

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "secrets";

    fn compile(self, problems: &mut Problems) -> Rule {
        for (index, written) in self.0.iter().enumerate() {
            problems.under(index.to_string(), |problems| {
                if !is_pointer(written) {
                    problems.error(
                        "not a JSON pointer to an argument",
                        "write `/` and the argument's name, such as `/token`",
                    );
                }
                if self.0[..index].contains(written) {
                    problems.error("is named twice", "take one away");
                }
            });
        }
        Rule { pointers: self.0 }
    }
}

// === impl Rule ===

impl Rule {
    /// Whether a reference may stand at this JSON pointer.
    pub fn takes(&self, pointer: &str) -> bool {
        self.pointers.iter().any(|known| known == pointer)
    }

    /// The arguments, by name, that hold a reference somewhere.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.pointers
            .iter()
            .filter_map(|pointer| steps(pointer).into_iter().next())
    }

    /// Whether an argument of these holds a reference, or what was meant to be one.
    pub fn is_in(arguments: &Value) -> bool {
        reference::find(arguments).map_or(true, |found| !found.is_empty())
    }

    /// Whether both hold the same references at the same places.
    pub fn is_same(one: &Value, other: &Value) -> bool {
        let found = (reference::find(one), reference::find(other));
        matches!(found, (Ok(one), Ok(other)) if one == other)
    }

    /// The arguments that may hold a reference, as JSON pointers.
    pub fn pointers(&self) -> &[String] {
        &self.pointers
    }

    /// What it can refuse with, where the contract takes references at all; elsewhere it refuses
    /// every one.
    pub fn codes(&self) -> Option<&'static str> {
        (!self.pointers.is_empty()).then_some("secret_denied")
    }

    /// Notes which pointers of the contract of `tool` no secret of the configuration may go to.
    pub fn judge(
        &self,
        server: &ServerName,
        tool: &str,
        bindings: &Bindings,
        problems: &mut Problems,
    ) {
        for (index, pointer) in self.pointers.iter().enumerate() {
            let bound = bindings
                .0
                .values()
                .any(|binding| binding.goes_to(server, tool, pointer));
            if !bound {
                let hint = format!(
                    "add {{ server: {server}, tool: {tool}, pointer: {pointer} }} to `for` of a secret in toolgate.yaml"
                );
                problems.under(index.to_string(), |problems| {
                    problems.warning("no secret may go there", hint);
                });
            }
        }
    }

    /// The secrets that a call with these arguments needs. What it sends beside its arguments is in
    /// `rest`; no reference may stand there, nor where an argument is repeated in a header
    /// (threat-model §3B B3).
    pub fn references<'t>(
        &self,
        bindings: &Bindings,
        target: Target<'_>,
        arguments: &Value,
        rest: impl IntoIterator<Item = &'t Text>,
    ) -> Result<NeededSecrets, Refusal> {
        if rest.into_iter().any(reference::stands_in) {
            return Err(Refusal::SecretDenied);
        }
        let mut references = Vec::new();
        for (path, name) in reference::find(arguments)? {
            let pointer = pointer::of(&path);
            let binding = bindings
                .0
                .get(name)
                .filter(|_| self.pointers.contains(&pointer));
            let binding =
                binding.filter(|binding| binding.goes_to(target.server, target.tool, &pointer));
            let mirrored = target.mirrored.iter().any(|param| param.path == path);
            match binding {
                Some(binding) if !mirrored && references.len() < MAX_REFERENCES_PER_CALL => {
                    references.push((path, binding.clone()));
                }
                _ => return Err(Refusal::SecretDenied),
            }
        }
        Ok(NeededSecrets { references })
    }
}

impl Binding {
    fn goes_to(&self, server: &ServerName, tool: &str, pointer: &str) -> bool {
        self.places
            .iter()
            .any(|place| place.server == *server && place.tool == tool && place.pointer == pointer)
    }
}

// === impl NeededSecrets ===

impl NeededSecrets {
    /// The secrets to fetch.
    pub fn bindings(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.references.iter().map(|(_, binding)| binding)
    }

    /// Gives every reference its value; `values` in the order of `bindings`.
    pub fn seal(self, values: Vec<Arc<Secret>>) -> Result<Sealed, Refusal> {
        if values.len() != self.references.len() {
            return Err(Refusal::SecretDenied);
        }
        let paths = self
            .references
            .into_iter()
            .map(|(path, _)| path.into_iter().map(PathStep::To).collect());
        Ok(Sealed {
            values: paths.zip(values).collect(),
        })
    }
}

// === impl Sealed ===

impl Sealed {
    /// Observe mode sends references that stand wrong as they are, and only observe mode does.
    pub fn observed(mode: Mode) -> Option<Self> {
        (mode == Mode::Observe).then(|| Self { values: Vec::new() })
    }

    /// The arguments with the values in the references' places; everything else as it was written.
    pub fn fill(&self, arguments: &Text) -> Text {
        self.values
            .iter()
            .fold(arguments.clone(), |text, (path, value)| {
                text.with_at(path, &mut |_| Text::string(value.expose()))
                    .unwrap_or(text)
            })
    }
}

#[cfg(test)]
mod tests;
