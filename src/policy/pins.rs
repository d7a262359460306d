//! The pin file: which definitions of tools an operator has approved, each whole, so that a change
//! can be shown. Written by `toolgate pins approve`, kept under version control, read again
//! whenever it changes.

use super::locate::{self, YamlDocument};
use super::shape;
use crate::guards::pins::{Pin, Rule};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::pretty::pretty;
use crate::mcp::tools::MAX_DEFINITION_BYTES;
use crate::model::diagnostic::{Diagnostic, Problems, Severity};
use crate::model::ids::ServerName;
use crate::schema::schema_hash;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Bytes of a pin file: some thousand definitions.
pub(crate) const PIN_FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of one definition, written with an indentation of its own.
const DEFINITION_BYTES_MAX: usize = 8 * MAX_DEFINITION_BYTES;
/// What a pin file begins with.
const PIN_FILE_HEADER: &str = "\
# Which definitions of tools are approved: a tool that is not here, or is another by now, is not offered to agents.
# Written by `toolgate pins approve`, after `toolgate pins diff`. Keep it under version control.
";
/// What stands before a digest.
pub(crate) const SHA256_PREFIX: &str = "sha256:";

/// Where the pins are, and what of tools without one.
#[derive(Debug, Clone)]
pub struct PinSource {
    /// The pin file.
    pub file: PathBuf,
    /// Whether a tool that is not in it is withheld.
    pub require: bool,
}

/// The file as written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
#[schemars(title = "toolgate pins", rename = "PinFile")]
struct PinFile {
    /// Servers all of whose tools were approved when the file was written.
    complete: Vec<String>,
    /// The approved definitions, by server and by the server's own name of the tool.
    pins: BTreeMap<String, BTreeMap<String, WrittenPin>>,
}

/// One pin as written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Pin")]
struct WrittenPin {
    /// `sha256:` and the digest of the definition
    digest: String,
    /// the definition, as JSON
    definition: String,
}

/// What a pin file says, in order.
pub(crate) type Pins = BTreeMap<(ServerName, String), Pin>;

/// What became of a pin file.
#[derive(Debug, Default)]
pub(crate) struct PinFileResult {
    /// The pins that can be used; a command that writes the file again asks first whether there is
    /// an error.
    pub pins: Pins,
    /// Servers all of whose tools were approved when the file was written.
    pub complete: BTreeSet<ServerName>,
    /// Everything there is to say.
    pub diagnostics: Vec<Diagnostic>,
    /// The file's text; empty if it cannot be read.
    pub text: String,
}

impl PinFileResult {
    /// Whether a pin may be missing.
    pub(crate) fn is_broken(&self) -> bool {
        self.diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// As the gate asks it.
    pub(crate) fn into_rule(self, require: bool) -> Rule {
        let mut pinned: HashMap<ServerName, HashMap<String, Pin>> = HashMap::new();
        for ((server, tool), pin) in self.pins {
            pinned.entry(server).or_default().insert(tool, pin);
        }
        Rule::new(require, pinned).knowing_all_of(self.complete)
    }
}

/// Reads the pin file at `path`; a pin of a server that is not among `servers` is a warning. A flaw
/// anywhere is an error: what cannot be read must not count as "nothing is pinned".
pub(crate) fn read(path: &Path, servers: &[ServerName]) -> PinFileResult {
    let document = match YamlDocument::read_within(path, PIN_FILE_BYTES_MAX) {
        Ok(document) => document,
        Err(mut unreadable) => {
            if !path.exists() {
                unreadable.hint = Some(
                    "write it with `toolgate pins approve --all`, after reading what it pins"
                        .to_owned(),
                );
            }
            return PinFileResult {
                diagnostics: vec![unreadable],
                ..PinFileResult::default()
            };
        }
    };
    let mut problems = Problems::default();
    let mut pins = BTreeMap::new();
    let read = shape::read::<PinFile>(document.tree().clone(), &mut problems).unwrap_or_default();
    let complete = read.complete.iter().map(|server| ServerName::new(server));
    let complete = complete.collect();
    problems.under("pins", |problems| {
        for (server, tools) in read.pins {
            problems.under(server.clone(), |problems| {
                let server = ServerName::new(&server);
                if !servers.contains(&server) {
                    problems.warning(
                        format!("no server `{server}` is declared"),
                        "take its pins away",
                    );
                }
                for (tool, written) in tools {
                    let pin =
                        problems.under(tool.clone(), |problems| judge(&tool, &written, problems));
                    pins.extend(pin.map(|pin| ((server.clone(), tool), pin)));
                }
            });
        }
    });
    let mut diagnostics: Vec<_> = problems
        .into_found()
        .into_iter()
        .map(|problem| document.locate(problem))
        .collect();
    diagnostics.extend(locate::too_open(path));
    PinFileResult {
        pins,
        complete,
        diagnostics,
        text: document.text().to_owned(),
    }
}

fn judge(tool: &str, written: &WrittenPin, problems: &mut Problems) -> Option<Pin> {
    let WrittenPin { digest, definition } = written;
    let definition = problems.under("definition", |problems| {
        let limits = crate::mcp::json::JsonLimits {
            bytes: DEFINITION_BYTES_MAX,
            ..SERVER_JSON_LIMITS
        };
        match Text::read(Bytes::copy_from_slice(definition.as_bytes()), &limits) {
            Ok(read)
                if read
                    .get("name")
                    .is_some_and(|name| name.as_str().as_deref() == Some(tool)) =>
            {
                Some(read)
            }
            Ok(_) => {
                problems.error(
                    "is not the definition of this tool",
                    "approve the tool again",
                );
                None
            }
            Err(malformed) => {
                problems.error(
                    format!("is no JSON that can be read: {malformed}"),
                    "approve the tool again",
                );
                None
            }
        }
    })?;
    let found = schema_hash(&definition.value());
    if digest.strip_prefix(SHA256_PREFIX) != Some(&*found) {
        let hint = "a pin is not written by hand: look at the change, and approve the tool again";
        problems.under("digest", |problems| {
            problems.error("is not that of the definition below", hint);
        });
        return None;
    }
    Some(Pin {
        digest: found,
        definition,
    })
}

/// The text of a pin file that says this: the same pins, the same text. `complete`: servers all of
/// whose tools are among them.
pub(crate) fn written(pins: &Pins, complete: &BTreeSet<ServerName>) -> String {
    let mut text = PIN_FILE_HEADER.to_owned();
    if !complete.is_empty() {
        let names: Vec<String> = complete
            .iter()
            .map(|server| format!("\"{server}\""))
            .collect();
        text = text
            + "complete: ["
            + &names.join(", ")
            + "]   # all of their tools, as they listed them then\n";
    }
    text.push_str(if pins.is_empty() {
        "pins: {}\n"
    } else {
        "pins:\n"
    });
    let mut last = None;
    for ((server, tool), Pin { digest, definition }) in pins {
        if last != Some(server) {
            text = text + "  \"" + server.as_str() + "\":\n";
            last = Some(server);
        }
        text = text
            + "    \""
            + tool
            + "\":\n      digest: "
            + SHA256_PREFIX
            + digest
            + "\n      definition: |\n";
        for line in pretty(&definition.value()).lines() {
            text = text + "        " + line + "\n";
        }
    }
    text
}

#[cfg(test)]
mod tests;
