//! The tool servers of the configuration.

use super::credentials::{self, ServerCredentials};
use super::server_times::ServerTimes;
use super::settings::{SandboxSettings, ToolServerSettings};
use super::{doors, exposed, processes};
use crate::mcp::json::AGENT_JSON_LIMITS;
use crate::mcp::skeleton;
use crate::model::address::Address;
use crate::model::diagnostic::Problems;
use crate::model::ids::{NAME_SEPARATOR, ServerName};
use crate::model::secret::Secret;
use crate::upstream::child::sandbox::{FileAccess, ProcessLimits, Sandbox};
use crate::upstream::server_settings::{ChildSharing, EraChoice};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

/// What a message may be long at most, wherever it goes: a caller's share of the room for messages
/// under way (threat-model §13 F11). Short ones always pass.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
const MIN_MESSAGE_BYTES: usize = 64 << 10;
const MIN_STRING_BYTES: usize = 1 << 10;
/// Servers at most.
const MAX_SERVERS: usize = 64;
/// Characters of a server's name at most.
pub(crate) const SERVER_NAME_CHARS_MAX: usize = 32;
/// The request took too long, for the server or a proxy that says so: the server may be at it.
const TIMED_OUT_STATUS: u16 = 408;

/// One tool server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Its name.
    pub name: ServerName,
    /// How it is reached.
    pub transport: TransportConfig,
    /// How long one call may take, at most 600 s.
    pub timeout: Duration,
    /// How long a call takes that becomes a task, 1 ms to 600 s; from `timeout` on none does.
    pub task_after: Duration,
    /// How long it may take to answer for the first time, at most 3600 s.
    pub start_timeout: Duration,
    /// How old what is known of its tools may get, 1 to 600 s.
    pub refresh: Duration,
    /// How long a legacy session over HTTP is silent before it is pinged ahead of what changes
    /// something, 1 ms to 3600 s.
    pub ping_after: Duration,
    /// Which eras it is taken to speak.
    pub era: EraChoice,
    /// Which sessions share its process, where it is one and legacy.
    pub sharing: ChildSharing,
    /// Processes of it that agents use at once, 1 to 256.
    pub max_children: usize,
    /// How long nobody uses such a process before it ends, 1 ms to 3600 s.
    pub idle_timeout: Duration,
    /// HTTP statuses, 400 to 599, by which it refuses a call before it does anything.
    pub not_executed: Vec<u16>,
    /// The header that carries a call's fencing token.
    pub fence_header: Option<String>,
    /// Bytes of a message to it at most, 64 KiB to 16 MiB.
    pub message_max_bytes: usize,
    /// Bytes of one string in such a message at most, 1 KiB to 16 MiB.
    pub string_max_bytes: usize,
    /// It is declared, and not used.
    pub disabled: bool,
}

/// How a tool server is reached.
#[derive(Debug, Clone)]
pub enum TransportConfig {
    /// A program that toolgate starts.
    Child {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// The whole of its environment.
        env: BTreeMap<String, Secret>,
        /// Where it runs; toolgate's own directory if none.
        cwd: Option<PathBuf>,
        /// What it may do to the machine.
        sandbox: Sandbox,
    },
    /// An address.
    Http {
        /// The MCP endpoint.
        url: Url,
        /// Sent with every request.
        headers: BTreeMap<String, Secret>,
        /// What is sent besides, by who asks.
        credentials: ServerCredentials,
    },
}

impl ServerConfig {
    /// A server with the default times.
    pub fn new(name: ServerName, transport: TransportConfig) -> Self {
        let ServerTimes {
            timeout,
            task_after,
            start_timeout,
            refresh,
            ping_after,
            idle_timeout,
        } = ServerTimes::default();
        Self {
            name,
            transport,
            timeout,
            task_after,
            start_timeout,
            refresh,
            ping_after,
            era: EraChoice::Auto,
            sharing: ChildSharing::default(),
            max_children: processes::CHILDREN,
            idle_timeout,
            not_executed: Vec::new(),
            fence_header: None,
            message_max_bytes: AGENT_JSON_LIMITS.bytes,
            string_max_bytes: AGENT_JSON_LIMITS.string,
            disabled: false,
        }
    }
}

pub(super) fn compile(
    written: BTreeMap<String, ToolServerSettings>,
    directory: &Path,
    problems: &mut Problems,
) -> BTreeMap<ServerName, ServerConfig> {
    if written.len() > MAX_SERVERS {
        problems.error(
            format!("more than {MAX_SERVERS} servers"),
            "run a second toolgate for some of them",
        );
    }
    let mut servers = BTreeMap::new();
    let twins = twins(&written);
    for ((name, settings), twin) in written.into_iter().zip(twins) {
        problems.under(name.clone(), |problems| {
            judge_name(&name, problems);
            if let Some(twin) = twin {
                problems.error(
                    format!("can be taken for the server `{twin}`"),
                    "give one of them another name",
                );
            }
            let name = ServerName::new(&name);
            servers.insert(name.clone(), one(name, settings, directory, problems));
        });
    }
    servers
}

fn one(
    name: ServerName,
    settings: ToolServerSettings,
    directory: &Path,
    problems: &mut Problems,
) -> ServerConfig {
    // A server that cannot be used is still declared: its contracts are judged all the same.
    let nowhere = || TransportConfig::Child {
        command: String::new(),
        args: vec![],
        env: BTreeMap::new(),
        cwd: None,
        sandbox: Sandbox::default(),
    };
    let times = ServerTimes::of(&settings, problems);
    let (message_max_bytes, string_max_bytes) = sizes(&settings, problems);
    let (disabled, era, sharing) = (settings.disabled, settings.era, settings.share);
    let max_children = processes::most(&settings, problems);
    let not_executed = statuses(&settings, problems);
    let fence_header = settings.fence_header.as_ref();
    let fence_header =
        fence_header.map(|name| doors::named_header("fence_header", name, "x-fence", problems));
    let transport = transport(settings, directory, problems).unwrap_or_else(nowhere);
    ServerConfig {
        name,
        transport,
        timeout: times.timeout,
        task_after: times.task_after,
        start_timeout: times.start_timeout,
        refresh: times.refresh,
        ping_after: times.ping_after,
        era,
        sharing,
        max_children,
        idle_timeout: times.idle_timeout,
        not_executed,
        fence_header,
        message_max_bytes,
        string_max_bytes,
        disabled,
    }
}

/// Bytes of a message, and of a string in it.
fn sizes(settings: &ToolServerSettings, problems: &mut Problems) -> (usize, usize) {
    let mut size = |key: &str, written: Option<usize>, least: usize| {
        if written.is_some_and(|bytes| !(least..=MAX_MESSAGE_BYTES).contains(&bytes)) {
            problems.under(key, |problems| {
                let hint = format!("between {least} and {MAX_MESSAGE_BYTES}");
                problems.error("is out of bounds", hint);
            });
        }
        written
    };
    let message = settings.message_max_bytes;
    let message = size("message_max_bytes", message, MIN_MESSAGE_BYTES);
    let string = size(
        "string_max_bytes",
        settings.string_max_bytes,
        MIN_STRING_BYTES,
    );
    (
        message.unwrap_or(AGENT_JSON_LIMITS.bytes),
        string.unwrap_or(AGENT_JSON_LIMITS.string),
    )
}

/// For each server, another whose name looks the same: so would the names of their tools
/// (threat-model §3D D2).
fn twins(written: &BTreeMap<String, ToolServerSettings>) -> Vec<Option<String>> {
    let names: Vec<&str> = written.keys().map(String::as_str).collect();
    skeleton::twins(&names)
        .into_iter()
        .map(|other| other.map(|other| names[other].to_owned()))
        .collect()
}

fn judge_name(name: &str, problems: &mut Problems) {
    if let Some(hint) = why_no_server_name(name) {
        problems.error("is no name for a server", hint);
    }
}

/// What a server's name has to be, where this is none.
pub(crate) fn why_no_server_name(name: &str) -> Option<String> {
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    // A name that ends in `_` would move the `__` of `server__tool`.
    let clear = !name.contains(NAME_SEPARATOR) && !name.ends_with('_');
    let is_good = !name.is_empty() && name.len() <= SERVER_NAME_CHARS_MAX && plain && clear;
    (!is_good).then(|| {
        format!(
            "use 1 to {SERVER_NAME_CHARS_MAX} letters, digits, `_` and `-`, without `__` and without `_` at the end"
        )
    })
}

/// The statuses that the operator vouches for.
fn statuses(settings: &ToolServerSettings, problems: &mut Problems) -> Vec<u16> {
    let of_http = settings.ping_after.is_some() || settings.fence_header.is_some();
    if settings.url.is_none() && (of_http || !settings.not_executed.is_empty()) {
        let hint = "take them away; a contract's `not_executed` names JSON-RPC codes";
        let words = "`ping_after`, `fence_header` and `not_executed` go with `url`";
        problems.error(words, hint);
    }
    problems.under("not_executed", |problems| {
        let mut good = Vec::new();
        for (index, status) in settings.not_executed.iter().enumerate() {
            problems.under(index.to_string(), |problems| match u16::try_from(*status) {
                Ok(status @ 400..=599) => {
                    if status >= 500 || status == TIMED_OUT_STATUS {
                        let hint = "proxies say so also of a call that the server has taken; it could run twice";
                        problems.warning(format!("HTTP {status} is seldom proof that nothing was done"), hint);
                    }
                    good.push(status);
                }
                _ => problems.error("is no HTTP status of an error", "write statuses from 400 to 599, as 401 and 429"),
            });
        }
        good
    })
}

fn transport(
    settings: ToolServerSettings,
    directory: &Path,
    problems: &mut Problems,
) -> Option<TransportConfig> {
    match (&settings.command, &settings.url) {
        (Some(_), None) => child(settings, directory, problems),
        (None, Some(url)) => {
            let of_child = !settings.args.is_empty() || !settings.env.is_empty();
            if of_child || settings.cwd.is_some() || settings.sandbox.is_some() {
                problems.error(
                    "`args`, `env`, `cwd` and `sandbox` go with `command`",
                    "take them away",
                );
            }
            credentials::judge_headers(&settings, problems);
            let url = problems.under("url", |problems| address(url, problems));
            let credentials = credentials::compile(&settings, url.as_ref(), problems);
            Some(TransportConfig::Http {
                url: url?,
                headers: settings.headers,
                credentials,
            })
        }
        (Some(_), Some(_)) => {
            problems.error(
                "both `command` and `url`",
                "a server is started or reached, not both",
            );
            None
        }
        (None, None) => {
            problems.error(
                "neither `command` nor `url`",
                "say which program to start, or which address to reach",
            );
            None
        }
    }
}

fn child(
    settings: ToolServerSettings,
    directory: &Path,
    problems: &mut Problems,
) -> Option<TransportConfig> {
    credentials::judge_none(&settings, problems);
    let command = settings.command?;
    if !settings.headers.is_empty() {
        problems.under("headers", |problems| {
            problems.error("headers go with `url`", "use `env`");
        });
    }
    if command.trim().is_empty() {
        problems.under("command", |problems| {
            problems.error("is blank", "name a program");
        });
    }
    problems.under("env", |problems| judge_variables(&settings.env, problems));
    let env: BTreeMap<String, Secret> = settings
        .env
        .into_iter()
        .filter(|(_, value)| !value.expose().is_empty())
        .collect();
    let cwd = settings.cwd.map(|cwd| directory.join(cwd));
    let path = env.get("PATH").map(|value| OsStr::new(value.expose()));
    if !settings.disabled {
        problems.under("command", |problems| {
            exposed::programs(&command, path, cwd.as_deref(), problems);
        });
    }
    let sandbox = problems.under("sandbox", |problems| {
        confined(settings.sandbox, directory, problems)
    });
    Some(TransportConfig::Child {
        command,
        args: settings.args,
        env,
        cwd,
        sandbox,
    })
}

fn judge_variables(env: &BTreeMap<String, Secret>, problems: &mut Problems) {
    for name in env
        .keys()
        .filter(|name| name.is_empty() || name.contains(['=', '\0']))
    {
        problems.under(name.clone(), |problems| {
            problems.error("is no name of a variable", "rename it");
        });
    }
}

/// None is what a program is given that nobody confines: core dumps are off, and nothing else.
fn confined(
    written: Option<SandboxSettings>,
    directory: &Path,
    problems: &mut Problems,
) -> Sandbox {
    let Some(SandboxSettings {
        landlock,
        no_new_privs,
        rlimits,
    }) = written
    else {
        return Sandbox::default();
    };
    let paths = |paths: Vec<String>| paths.into_iter().map(|path| directory.join(path)).collect();
    let files = landlock.map(|files| FileAccess {
        read: files.read.map(paths),
        write: paths(files.write),
        required: files.required,
    });
    problems.under("rlimits", |problems| {
        for (name, _) in rlimits
            .named()
            .into_iter()
            .filter(|(_, limit)| *limit == Some(0))
        {
            problems.under(name, |problems| {
                problems.error("is 0, so nothing could run", "write a number above 0");
            });
        }
    });
    let [
        (_, nofile),
        (_, address_space),
        (_, nproc),
        (_, cpu),
        (_, fsize),
    ] = rlimits.named();
    Sandbox {
        files,
        no_new_privs,
        limits: ProcessLimits {
            nofile,
            address_space,
            nproc,
            cpu,
            fsize,
        },
    }
}

fn address(text: &str, problems: &mut Problems) -> Option<Url> {
    let Address { url, is_exposed } =
        Address::read(text, "put it into `headers`, as Authorization", problems)?;
    if is_exposed {
        problems.warning("calls leave this machine unencrypted", "use https");
    }
    Some(url)
}
