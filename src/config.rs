//! Process settings: `toolgate.yaml` (DESIGN §2) → what the process runs on, and what the policy
//! stands on.
//!
//! Relative paths in the file (`data`, `policies`, `cwd`) start at the file's own directory.

use crate::guards::allowlist::written::LayerKind;
use crate::guards::secrets::Bindings;
use crate::guards::{Mode, Section, hooks, identity};
use crate::model::approvers::{Approver, Approvers};
use crate::model::diagnostic::{Diagnostic, Problem, Problems, Severity};
use crate::model::ids::{AgentId, ServerName};
use crate::model::secret::Secret;
use crate::model::verbs::OperatorVerbs;
use crate::policy::compile::secret_bindings::BoundArgument;
use crate::policy::compile::{self, CompileInput, CompileResult};
use crate::policy::layers::Assigned;
use crate::policy::live::LoadResult;
use crate::policy::locate::{self, YamlDocument};
use crate::policy::pins::PinSource;
use crate::policy::{Methods, shape};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

mod doors;
mod exposed;
mod ledger;
mod secrets;
mod servers;
mod settings;
mod variables;

pub use ledger::{HeadsConfig, Ledger, SealConfig};
pub use servers::{ServerConfig, TransportConfig};
pub use settings::ConfigSettings;

/// The file's name in every place where it is looked for.
pub const FILE_NAME: &str = "toolgate.yaml";

/// What the process runs on. Fixed from start to end; what can change while it runs is the policy.
#[derive(Debug)]
pub struct Config {
    /// Where agents are served.
    pub listen: SocketAddr,
    /// Where operators are served.
    pub admin: Admin,
    /// The directory of the embedded store.
    pub data: PathBuf,
    /// The tool servers.
    pub servers: BTreeMap<ServerName, ServerConfig>,
    /// Values of `Host` that are taken besides those of `listen`.
    pub allowed_hosts: Vec<String>,
    /// Values of `Origin` that are taken besides those of `listen`.
    pub allowed_origins: Vec<String>,
    /// Where the approved definitions of tools are.
    pub pins: Option<PinSource>,
    /// How the record of calls is kept.
    pub ledger: Ledger,
    startup: BTreeMap<&'static str, [u8; 32]>,
}

/// The operators' door.
#[derive(Debug)]
pub struct Admin {
    /// Its address.
    pub listen: SocketAddr,
    /// Who may use it.
    pub tokens: Vec<Operator>,
    /// For what.
    pub verbs: OperatorVerbs,
}

impl Admin {
    /// Who may decide about calls that are held: every operator with a token.
    pub fn approvers(&self) -> Approvers {
        let one = |known: &Operator| Approver {
            name: known.name.clone(),
            roles: known.roles.clone(),
        };
        Approvers(self.tokens.iter().map(one).collect())
    }
}

/// One operator.
#[derive(Debug)]
pub struct Operator {
    /// The name, for the ledger.
    pub name: String,
    /// The bearer token that proves it.
    pub token: Secret,
    /// The operator's roles.
    pub roles: Vec<String>,
}

/// Everything the files say.
#[derive(Debug)]
pub struct Loaded {
    /// The process settings; none if there is an error.
    pub config: Option<Config>,
    /// The policy, with all diagnostics of configuration and policies.
    pub reading: LoadResult,
}

/// The keys that only a restart applies.
const RESTART_KEYS: &[&str] = &[
    "listen",
    "unencrypted",
    "admin",
    "data",
    "servers",
    "allowed_hosts",
    "allowed_origins",
    "ledger",
];

/// The configuration to use when none is named: `./toolgate.yaml`, then
/// `~/.config/toolgate/toolgate.yaml`, then `/etc/toolgate/toolgate.yaml`.
pub fn find() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".config/toolgate"));
    let places = [
        Some(PathBuf::new()),
        home,
        Some(PathBuf::from("/etc/toolgate")),
    ];
    places
        .into_iter()
        .flatten()
        .map(|place| place.join(FILE_NAME))
        .find(|path| path.is_file())
}

/// Reads the configuration at `path` and the policies it names; variables come from the
/// environment.
pub fn load(path: &Path) -> Loaded {
    load_with(path, &|name| std::env::var(name).ok())
}

/// As [`load`], with the variables that `variable` gives.
pub fn load_with(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Loaded {
    read(path, variable, true)
}

/// As [`load_with`], without the pin file: for the command that is about to write it.
pub fn load_unpinned(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Loaded {
    read(path, variable, false)
}

fn read(path: &Path, variable: &dyn Fn(&str) -> Option<String>, pinned: bool) -> Loaded {
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut watched = BTreeSet::from([(watchable(directory), false)]);
    let mut files = BTreeSet::from([path.to_path_buf()]);
    let document = match YamlDocument::read(path) {
        Ok(document) => document,
        Err(unreadable) => {
            let reading = LoadResult {
                policy: None,
                diagnostics: vec![unreadable],
                fingerprint: [0; 32],
                watched,
                files,
            };
            return Loaded {
                config: None,
                reading,
            };
        }
    };
    let (judged, mut diagnostics) = judge(&document, directory, variable);
    diagnostics.extend(exposed::tokens(path, &document));
    if let Some(config) = judged.as_ref().and_then(|judged| judged.config.as_ref()) {
        diagnostics.extend(exposed::kept(&config.ledger, &document));
    }
    let open = locate::too_open(path);
    let opened = [u8::from(!open.is_empty())];
    diagnostics.extend(open);
    let Some(CheckedConfig { config, mut basis }) = judged else {
        compile::sort(&mut diagnostics);
        let fingerprint = Sha256::new_with_prefix(opened)
            .chain_update(document.text())
            .finalize()
            .into();
        return Loaded {
            config: None,
            reading: LoadResult {
                policy: None,
                diagnostics,
                fingerprint,
                watched,
                files,
            },
        };
    };
    if !pinned {
        basis.pins = None;
    }
    let named = basis
        .policies
        .iter()
        .chain(basis.pins.as_ref().map(|pins| &pins.file));
    watched.extend(named.clone().flat_map(|path| places(path)));
    files.extend(named.cloned());
    let deep: Vec<PathBuf> = watched
        .iter()
        .filter(|(_, deep)| *deep)
        .map(|(path, _)| path.clone())
        .collect();
    watched.retain(|(path, is_deep)| *is_deep || !deep.contains(path));
    let CompileResult {
        policy,
        diagnostics,
        fingerprint,
    } = compile::compile(basis, diagnostics);
    let bytes = Sha256::new_with_prefix(fingerprint)
        .chain_update(opened)
        .chain_update(document.text());
    let fingerprint = bytes.finalize().into();
    let config = config.filter(|_| policy.is_some());
    Loaded {
        config,
        reading: LoadResult {
            policy,
            diagnostics,
            fingerprint,
            watched,
            files,
        },
    }
}

/// The process settings at `path`, whatever the policies say; none if the file itself cannot be
/// used, or others could have written it: it says what programs run, and where secrets go.
pub fn process(path: &Path) -> Option<Config> {
    if !locate::too_open(path).is_empty() {
        return None;
    }
    let document = YamlDocument::read(path).ok()?;
    let directory = path.parent().unwrap_or(Path::new(""));
    judge(&document, directory, &|name| std::env::var(name).ok())
        .0?
        .config
}

/// Reads the files again and again for [`Live`](crate::policy::live::Live): what only a restart
/// applies is a warning.
pub fn reader(path: PathBuf, running: &Config) -> impl Fn() -> LoadResult + Send + Sync + 'static {
    let startup = running.startup.clone();
    move || {
        let Loaded {
            config,
            mut reading,
        } = load(&path);
        let now = config.map(|config| config.startup).unwrap_or_default();
        let changed = RESTART_KEYS
            .iter()
            .filter(|key| !now.is_empty() && now.get(*key) != startup.get(*key));
        reading.diagnostics.extend(changed.map(|key| Diagnostic {
            severity: Severity::Warning,
            file: path.display().to_string(),
            line: 0,
            column: 0,
            message: format!("`{key}` has changed"),
            hint: Some("restart to apply it".to_owned()),
        }));
        reading
    }
}

/// Without a file: one server, observed, for everybody on this machine.
pub fn without_file(server: ServerConfig, mode: Mode) -> (Config, LoadResult) {
    let servers = BTreeMap::from([(server.name.clone(), server)]);
    let basis = CompileInput {
        mode,
        servers: servers.keys().cloned().collect(),
        disabled: Vec::new(),
        timeouts: servers
            .iter()
            .map(|(name, server)| (name.clone(), server.timeout))
            .collect(),
        agents: vec![AgentId::new(identity::ANONYMOUS_AGENT)],
        identity: identity::Rule::anonymous(),
        assigned: Vec::new(),
        bound: Vec::new(),
        approvers: None,
        methods: Methods::default(),
        hooks: hooks::Rule::default(),
        session_header: None,
        meta_max_bytes: crate::policy::META_MAX_BYTES,
        pins: None,
        secrets: Bindings::default(),
        policies: Vec::new(),
        written: Value::Null,
    };
    let config = Config {
        listen: doors::DEFAULT_LISTEN,
        admin: Admin {
            listen: doors::DEFAULT_ADMIN_LISTEN,
            tokens: Vec::new(),
            verbs: OperatorVerbs::default(),
        },
        data: PathBuf::from(settings::DEFAULT_DATA_DIRECTORY),
        servers,
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        pins: None,
        ledger: Ledger::default(),
        startup: BTreeMap::new(),
    };
    let CompileResult {
        policy,
        diagnostics,
        fingerprint,
    } = compile::compile(basis, Vec::new());
    (
        config,
        LoadResult {
            policy,
            diagnostics,
            fingerprint,
            watched: BTreeSet::new(),
            files: BTreeSet::new(),
        },
    )
}

/// The names that policies may use: also those of entries that are wrong otherwise, so that one
/// flaw is one problem.
struct DeclaredNames {
    servers: Vec<ServerName>,
    agents: Vec<AgentId>,
    open: bool,
}

impl DeclaredNames {
    fn in_tree(tree: &Value) -> Self {
        let servers = tree["servers"]
            .as_object()
            .into_iter()
            .flat_map(|servers| servers.keys());
        let callers = tree["callers"].as_array().into_iter().flatten();
        let agents = callers
            .filter_map(|caller| caller["agent"].as_str())
            .map(AgentId::new);
        let wanted = |key: &str| {
            tree.get(key)
                .is_some_and(|list| list.as_array().is_none_or(|list| !list.is_empty()))
        };
        let open = !wanted("callers") && !wanted("front_ends");
        let anonymous = open.then(|| AgentId::new(identity::ANONYMOUS_AGENT));
        Self {
            servers: servers.map(|name| ServerName::new(name)).collect(),
            agents: agents.chain(anonymous).collect(),
            open,
        }
    }
}

struct CheckedConfig {
    config: Option<Config>,
    basis: CompileInput,
}

fn judge(
    document: &YamlDocument,
    directory: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> (Option<CheckedConfig>, Vec<Diagnostic>) {
    let mut missing = Problems::default();
    let mut tree = document.tree().clone();
    variables::replace(&mut tree, variable, &mut missing);
    let missing: Vec<Problem> = missing.into_found();
    let startup = RESTART_KEYS
        .iter()
        .map(|key| (*key, Sha256::digest(tree[*key].to_string()).into()))
        .collect();
    let mut problems = Problems::default();
    let named = DeclaredNames::in_tree(&tree);
    let settings = shape::read::<ConfigSettings>(tree, &mut problems);
    let judged = settings.map(|mut settings| {
        let ledger = std::mem::take(&mut settings.ledger);
        let data = directory.join(&settings.data);
        let ledger = problems.under("ledger", |problems| {
            ledger::compile(ledger, &data, directory, problems)
        });
        let mut judged = build(settings, named, directory, &mut problems);
        judged.config = judged.config.map(|config| Config {
            ledger,
            startup,
            ..config
        });
        judged.basis.written = document.tree().clone();
        judged.basis.assigned = assigned(&judged.basis.identity, document);
        judged.basis.bound = bound(&judged.basis.secrets, document);
        judged
    });
    // What a missing variable leaves behind is no second problem.
    let rest = problems
        .into_found()
        .into_iter()
        .filter(|found| missing.iter().all(|missing| missing.path != found.path));
    let found: Vec<Problem> = rest.collect();
    let diagnostics = missing
        .into_iter()
        .chain(found)
        .map(|problem| document.locate(problem))
        .collect();
    (judged, diagnostics)
}

fn build(
    settings: ConfigSettings,
    named: DeclaredNames,
    directory: &Path,
    problems: &mut Problems,
) -> CheckedConfig {
    let ConfigSettings {
        listen,
        unencrypted,
        admin,
        data,
        mode,
        servers,
        callers,
        front_ends,
        secrets,
        hooks,
        policies,
        allowed_hosts,
        allowed_origins,
        methods,
        session_header,
        meta_max_bytes,
        pins,
        ledger: _,
    } = settings;
    let listen = problems.under("listen", |problems| {
        doors::agents((&listen, unencrypted), named.open, mode, problems)
    });
    let callers = identity::Settings {
        callers,
        front_ends,
    };
    let admin = doors::admin(admin, (&callers.tokens(), &named.agents), problems);
    let identity = callers.compile(problems);
    let servers = problems.under("servers", |problems| {
        servers::compile(servers, directory, problems)
    });
    let secrets = problems.under("secrets", |problems| {
        secrets::compile(secrets, &named.servers, directory, problems)
    });
    let data = problems.under("data", |problems| {
        doors::data_dir(&data, directory, problems)
    });
    doors::judge_allowed(&allowed_hosts, &allowed_origins, problems);
    let policies = problems.under("policies", |problems| {
        doors::policies(&policies, mode, directory, problems)
    });
    let hooks = problems.under("hooks", |problems| {
        hooks::Settings(hooks).compile_for(&named.servers, problems)
    });
    let pins = pins
        .and_then(|pins| problems.under("pins", |problems| doors::pins(pins, directory, problems)));
    let basis = CompileInput {
        mode,
        servers: named.servers,
        disabled: servers
            .values()
            .filter(|server| server.disabled)
            .map(|server| server.name.clone())
            .collect(),
        timeouts: servers
            .iter()
            .map(|(name, server)| (name.clone(), server.timeout))
            .collect(),
        agents: named.agents,
        identity,
        assigned: Vec::new(),
        bound: Vec::new(),
        approvers: admin.as_ref().map(Admin::approvers),
        hooks,
        methods: problems.under("methods", |problems| doors::methods(methods, problems)),
        session_header: session_header.map(|name| doors::session_header(&name, problems)),
        meta_max_bytes: doors::meta_max_bytes(meta_max_bytes, problems),
        pins,
        secrets,
        policies,
        written: Value::Null,
    };
    let (allowed, pins) = ((allowed_hosts, allowed_origins), basis.pins.clone());
    let config = listen
        .zip(admin)
        .map(|doors| of_process(doors, data, servers, allowed, pins));
    CheckedConfig { config, basis }
}

/// The process settings, but for the ledger and what a restart is needed for.
fn of_process(
    (listen, admin): (SocketAddr, Admin),
    data: PathBuf,
    servers: BTreeMap<ServerName, ServerConfig>,
    (allowed_hosts, allowed_origins): (Vec<String>, Vec<String>),
    pins: Option<PinSource>,
) -> Config {
    let (ledger, startup) = (Ledger::default(), BTreeMap::new());
    Config {
        listen,
        admin,
        data,
        servers,
        allowed_hosts,
        allowed_origins,
        pins,
        ledger,
        startup,
    }
}

/// The layers that callers are given by name, and where.
fn assigned(identity: &identity::Rule, document: &YamlDocument) -> Vec<Assigned> {
    let mut assigned = Vec::new();
    for (index, caller) in identity.callers().iter().enumerate() {
        for (kind, name) in [
            (LayerKind::Profile, &caller.profile),
            (LayerKind::Environment, &caller.environment),
        ] {
            let Some(name) = name.clone() else { continue };
            let path = vec![
                "callers".to_owned(),
                index.to_string(),
                kind.word().to_owned(),
            ];
            let problem = Problem {
                severity: Severity::Error,
                path,
                message: String::new(),
                hint: None,
            };
            assigned.push(Assigned {
                kind,
                name,
                place: document.locate(problem),
            });
        }
    }
    assigned
}

/// The arguments that secrets may go to, and where that is written.
fn bound(secrets: &Bindings, document: &YamlDocument) -> Vec<BoundArgument> {
    let places = secrets.0.values().flat_map(|binding| {
        binding.places.iter().enumerate().map(|(index, place)| {
            let path = ["secrets", &binding.name, "for"]
                .map(str::to_owned)
                .into_iter()
                .chain([index.to_string()]);
            let (path, message) = (path.collect(), String::new());
            let at = document.locate(Problem {
                severity: Severity::Warning,
                path,
                message,
                hint: None,
            });
            BoundArgument {
                place: place.clone(),
                at,
            }
        })
    });
    places.collect()
}

/// Where a change of `policies` can be seen: beside it, and if it is a directory, in and below it.
fn places(policies: &Path) -> Vec<(PathBuf, bool)> {
    let beside = (watchable(policies.parent().unwrap_or(Path::new(""))), false);
    let within = policies.is_dir().then(|| (policies.to_path_buf(), true));
    std::iter::once(beside).chain(within).collect()
}

fn watchable(directory: &Path) -> PathBuf {
    if directory.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        directory.to_path_buf()
    }
}

#[cfg(test)]
mod tests;
