//! Which tool servers to take over: those of an agent's own configuration, or those named on the
//! command line.

use super::conceal::{self, ConfigLocation, LOGIN_REFUSED, Variables, has_login};
use super::jsonc::JsoncDocument;
use crate::cli::files;
use crate::model::ids::NAME_SEPARATOR;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Bytes of an agent's configuration.
const AGENT_CONFIG_BYTES_MAX: u64 = 4 << 20;
/// Where the servers stand in it: most agents, VS Code's own file, VS Code's settings.
const SERVER_SECTIONS: &[&[&str]] = &[&["mcpServers"], &["servers"], &["mcp", "servers"]];
/// What agents give a server of their own environment, unasked: the same list as in the SDKs of
/// MCP.
const INHERITED_VARIABLES: &[&str] = &["HOME", "LOGNAME", "SHELL", "TERM", "USER"];

/// A tool server, as toolgate's configuration will name it; texts hold references in place of what
/// could be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundServer {
    pub(super) name: String,
    /// Its name in the agent's configuration.
    pub(super) written_as: String,
    pub(super) reached: FoundTransport,
    /// What the agent's own entry gives the process, under the names that toolgate asks for.
    pub(super) lent: BTreeMap<String, String>,
}

/// How it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FoundTransport {
    Child {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: Option<String>,
    },
    Http {
        url: String,
        headers: BTreeMap<String, String>,
    },
}

impl FoundTransport {
    /// The texts in which variables may stand.
    fn texts(&self) -> Vec<&String> {
        let (one, several, map) = match self {
            Self::Child {
                command,
                args,
                env,
                cwd: _,
            } => (command, args.as_slice(), env),
            Self::Http { url, headers } => (url, &[][..], headers),
        };
        std::iter::once(one)
            .chain(several)
            .chain(map.values())
            .collect()
    }
}

/// What was found, and everything that is wrong with it.
#[derive(Debug, Default)]
pub(super) struct FoundServers {
    pub(super) servers: Vec<FoundServer>,
    pub(super) variables: Variables,
    pub(super) notes: Vec<String>,
    pub(super) problems: Vec<String>,
}

impl FoundServers {
    /// Without the servers that `is_kept` says nothing good of, and the variables that they alone
    /// need; their names.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&str) -> bool) -> Vec<String> {
        let all = std::mem::take(&mut self.servers);
        let (kept, gone): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| is_kept(&one.name));
        let texts: Vec<&String> = kept.iter().flat_map(|one| one.reached.texts()).collect();
        self.variables.keep(&texts);
        self.servers = kept;
        gone.into_iter().map(|server| server.name).collect()
    }
}

/// An agent's configuration.
pub(super) struct AgentConfig {
    pub(super) path: PathBuf,
    pub(super) document: JsoncDocument,
    /// Where its servers stand.
    pub(super) place: &'static [&'static str],
}

impl AgentConfig {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let bytes = files::read(path, AGENT_CONFIG_BYTES_MAX)
            .map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let text = String::from_utf8(bytes)
            .map_err(|error| format!("{shown} cannot be read: {}", error.utf8_error()))?;
        let document = JsoncDocument::read(text)
            .map_err(|error| format!("{shown} is no JSON that can be read: {error}"))?;
        let place = section(&document)
            .ok_or_else(|| format!("{shown} has neither `mcpServers` nor `servers`"))?;
        Ok(Self {
            path: path.to_path_buf(),
            document,
            place,
        })
    }

    /// Its servers, but those in `skip`.
    pub(super) fn servers(&self, skip: &[String]) -> FoundServers {
        let mut found = FoundServers::default();
        let entries = self
            .document
            .text()
            .at(self.place)
            .map(|servers| servers.value());
        for (written_as, entry) in entries
            .as_ref()
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let off = entry["disabled"] == true || entry["enabled"] == false;
            if skip.contains(written_as) || off {
                found
                    .notes
                    .push(format!("`{}` stays as it is", written_as.escape_debug()));
                continue;
            }
            let name = fitting(written_as);
            if found.servers.iter().any(|other| other.name == name) {
                found.problems.push(format!(
                    "two servers would be called `{name}`; leave one out with --skip"
                ));
            }
            if name == "toolgate" {
                found.problems.push(
                    "`toolgate` is there: was this file rewritten already? `init --undo` takes it back".to_owned(),
                );
                continue;
            }
            match self.server(&name, entry, &mut found) {
                Ok((reached, mut lent)) => {
                    lent.extend(found.variables.in_texts(&reached.texts()));
                    let written_as = written_as.clone();
                    found.servers.push(FoundServer {
                        name,
                        written_as,
                        reached,
                        lent,
                    });
                }
                Err(why) => found
                    .problems
                    .push(format!("`{}`: {why}", written_as.escape_debug())),
            }
        }
        for unknown in skip.iter().filter(|name| {
            entries
                .as_ref()
                .is_none_or(|entries| entries.get(name).is_none())
        }) {
            found.problems.push(format!(
                "--skip {}: there is no such server",
                unknown.escape_debug()
            ));
        }
        found
    }

    fn server(
        &self,
        name: &str,
        entry: &Value,
        found: &mut FoundServers,
    ) -> Result<(FoundTransport, BTreeMap<String, String>), String> {
        if entry["envFile"].is_string() {
            found.notes.push(format!(
                "`{name}`: `envFile` is not read; name its variables under `env`"
            ));
        }
        let address = ["url", "serverUrl", "httpUrl"]
            .iter()
            .find_map(|key| entry[*key].as_str());
        match address {
            Some(address) => {
                let reached = self.at_address(name, address, entry, found)?;
                Ok((reached, BTreeMap::new()))
            }
            None => self.started(name, entry, found),
        }
    }

    fn at_address(
        &self,
        name: &str,
        address: &str,
        entry: &Value,
        found: &mut FoundServers,
    ) -> Result<FoundTransport, String> {
        if entry["type"] == "sse" {
            found.notes.push(format!(
                "`{name}` is named `sse`; toolgate asks its address for Streamable HTTP instead"
            ));
        }
        if has_login(address) {
            return Err(LOGIN_REFUSED.to_owned());
        }
        let headers = texts(&entry["headers"]).ok_or("`headers` are not texts")?;
        let place = ConfigLocation {
            server: name,
            section: "url",
            key: "",
        };
        let url = conceal::url(&self.settled(address), &place, &mut found.variables);
        let one = |(key, value): (String, String)| {
            let place = ConfigLocation {
                server: name,
                section: "headers",
                key: &key,
            };
            let value = conceal::header(&self.settled(&value), &place, &mut found.variables);
            (key, value)
        };
        let headers = headers.into_iter().map(one).collect();
        Ok(FoundTransport::Http { url, headers })
    }

    /// A server that the agent starts, and the variables that its configuration has values of.
    fn started(
        &self,
        name: &str,
        entry: &Value,
        found: &mut FoundServers,
    ) -> Result<(FoundTransport, BTreeMap<String, String>), String> {
        let command = entry["command"]
            .as_str()
            .ok_or("it has neither `command` nor `url`")?;
        if command.trim().is_empty() {
            return Err("its `command` is empty".to_owned());
        }
        if is_toolgate(command) {
            return Err(
                "it starts toolgate already; `toolgate init --undo` takes an earlier init back"
                    .to_owned(),
            );
        }
        let args = entry
            .get("args")
            .map_or(Some(Vec::new()), strings)
            .ok_or("`args` are not texts")?;
        let written = texts(&entry["env"]).ok_or("`env` holds something else than texts")?;
        let args: Vec<String> = args.iter().map(|arg| self.settled(arg)).collect();
        let args = conceal::args(&args, name, &mut found.variables);
        let mut lent = BTreeMap::new();
        let mut env = inherited();
        for (key, value) in written {
            let place = ConfigLocation {
                server: name,
                section: "env",
                key: &key,
            };
            let shown = conceal::env(&self.settled(&value), &place, &mut found.variables);
            if let Some(variable) = shown
                .strip_prefix("${")
                .and_then(|rest| rest.strip_suffix('}'))
            {
                lent.insert(variable.to_owned(), value);
            }
            env.insert(key, shown);
        }
        let cwd = entry["cwd"]
            .as_str()
            .map(|cwd| conceal::literal(&self.settled(cwd)));
        Ok((
            FoundTransport::Child {
                command: conceal::literal(&self.settled(command)),
                args,
                env,
                cwd,
            },
            lent,
        ))
    }

    /// The workspace, which only the agent knows by a variable.
    fn settled(&self, text: &str) -> String {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let beside = path.parent().unwrap_or(Path::new("/"));
        let hidden = [".vscode", ".cursor"]
            .iter()
            .any(|name| beside.ends_with(name));
        let workspace = if hidden {
            beside.parent().unwrap_or(beside)
        } else {
            beside
        };
        text.replace("${workspaceFolder}", &workspace.display().to_string())
    }
}

/// Where an agent's configuration has its servers.
pub(super) fn section(document: &JsoncDocument) -> Option<&'static [&'static str]> {
    let mut places = SERVER_SECTIONS.iter().copied();
    places.find(|place| document.members(place).is_some())
}

/// One server at an address: `URL` or `NAME=URL`.
pub(super) fn upstream(written: &str, found: &mut FoundServers) {
    let (name, address) = match written.split_once('=') {
        Some((name, address)) if !name.contains(':') => (name.to_owned(), address),
        _ => (called(written), written),
    };
    if fitting(&name) != name || found.servers.iter().any(|other| other.name == name) {
        found.problems.push(format!(
            "--upstream {}: name it NAME=URL, each with a name of its own",
            written.escape_debug()
        ));
        return;
    }
    if has_login(address) {
        let problem = format!("--upstream {name}: {LOGIN_REFUSED}");
        found.problems.push(problem);
        return;
    }
    let url = conceal::url(
        address,
        &ConfigLocation {
            server: &name,
            section: "url",
            key: "",
        },
        &mut found.variables,
    );
    let reached = FoundTransport::Http {
        url,
        headers: BTreeMap::new(),
    };
    found.servers.push(FoundServer {
        written_as: name.clone(),
        name,
        reached,
        lent: BTreeMap::new(),
    });
}

/// One server that is started.
pub(super) fn command(name: &str, words: &[String], found: &mut FoundServers) {
    let Some((program, args)) = words.split_first() else {
        return;
    };
    if fitting(name) != name {
        found.problems.push(format!(
            "--name {}: use up to 32 letters, digits, `-` and `_`",
            name.escape_debug()
        ));
    }
    let args = conceal::args(args, name, &mut found.variables);
    let reached = FoundTransport::Child {
        command: conceal::literal(program),
        args,
        env: inherited(),
        cwd: None,
    };
    let (name, lent) = (name.to_owned(), BTreeMap::new());
    found.servers.push(FoundServer {
        written_as: name.clone(),
        name,
        reached,
        lent,
    });
}

fn inherited() -> BTreeMap<String, String> {
    let some = INHERITED_VARIABLES
        .iter()
        .map(|name| ((*name).to_owned(), format!("${{{name}:-}}")));
    std::iter::once(("PATH".to_owned(), "${PATH}".to_owned()))
        .chain(some)
        .collect()
}

/// A name as servers may have it: `[A-Za-z0-9_-]{1,32}`, without `__` and without `_` at its end.
fn fitting(name: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            letter
        } else {
            '-'
        }
    };
    let mut fitting: String = name.trim().chars().map(letter).take(32).collect();
    while fitting.contains(NAME_SEPARATOR) {
        fitting = fitting.replace(NAME_SEPARATOR, "_");
    }
    let fitting = fitting.trim_matches(['_', '-']).to_owned();
    if fitting.is_empty() {
        "server".to_owned()
    } else {
        fitting
    }
}

/// `https://mcp.example.com/…` → `example`.
fn called(address: &str) -> String {
    let host = url::Url::parse(address)
        .ok()
        .and_then(|url| url.domain().map(ToOwned::to_owned))
        .unwrap_or_default();
    let mut labels: Vec<&str> = host.split('.').collect();
    labels.pop();
    labels
        .last()
        .map_or_else(|| "upstream".to_owned(), |label| fitting(label))
}

/// Whether a command starts toolgate.
pub(super) fn is_toolgate(command: &str) -> bool {
    Path::new(command)
        .file_stem()
        .is_some_and(|name| name == "toolgate")
}

fn strings(list: &Value) -> Option<Vec<String>> {
    list.as_array()?.iter().map(text).collect()
}

fn texts(map: &Value) -> Option<BTreeMap<String, String>> {
    match map {
        Value::Null => Some(BTreeMap::new()),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| Some((key.clone(), text(value)?)))
            .collect(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
