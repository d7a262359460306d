//! Process settings: `toolgate.yaml` (design §2) → what the process runs on, and what the policy
//! stands on.
//!
//! Relative paths in the file (`data`, `policies`, `cwd`) start at the file's own directory.

use crate::downstream::listening::SocketAccess;
use crate::downstream::tls::files::TlsFiles;
use crate::gate::reconciling::schedule::ReconcileTerms;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::ServerName;
use crate::model::listen::ListenAddress;
use crate::notify::NoticeReceiver;
use crate::policy::Policy;
use crate::policy::compile::{self, CompileInput, CompileResult};
use crate::policy::live::{AlongWithPolicy, LoadResult};
use crate::policy::locate::{self, YamlDocument};
use crate::policy::pins::PinSource;
use crate::policy::sources::{PackTerms, PolicySources};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

mod admin;
mod auth;
mod build;
mod caller_classes;
mod credentials;
mod declared;
mod doors;
mod entrance;
mod exposed;
mod fixed;
mod ledger;
mod notify;
mod operators;
mod place;
pub(crate) mod policy_parts;
mod processes;
mod reader;
mod reconcile;
mod secrets;
mod server_times;
mod servers;
mod settings;
mod supposed;
mod variables;
mod written_credentials;
mod written_entrance;
mod written_notify;
pub(crate) mod written_operators;

pub use admin::{Admin, EndingToken, Operator};
use build::CheckedConfig;
pub(crate) use build::without_file;
pub use credentials::{ClassHeaders, ServerCredentials};
pub use ledger::{ContentConfig, HeadsConfig, Ledger, SealConfig};
pub use place::DoorAddress;
pub(crate) use reader::reader;
pub(crate) use servers::{SERVER_NAME_CHARS_MAX, why_no_server_name};
pub use servers::{ServerConfig, TransportConfig};
pub(crate) use settings::ConfigSettings;
use supposed::UnsetVariables;

/// The file's name in every place where it is looked for.
pub(crate) const FILE_NAME: &str = "toolgate.yaml";

/// What the process runs on. Fixed from start to end; what can change while it runs is the policy, and who operators are.
#[derive(Debug)]
pub struct Config {
    /// Where agents are served.
    pub listen: ListenAddress,
    /// How that door is entered.
    pub(crate) entrance: Entrance,
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
    /// Whether the test packs beside the policies have to pass.
    pub(crate) packs: PackTerms,
    /// How the record of calls is kept.
    pub ledger: Ledger,
    /// Who is told elsewhere that calls wait.
    pub(crate) notify: Vec<NoticeReceiver>,
    /// How calls with an unknown outcome are looked at; none: only when their agents come again.
    pub(crate) reconcile: Option<ReconcileTerms>,
    startup: BTreeMap<&'static str, [u8; 32]>,
}

/// How a door is entered.
#[derive(Debug, Clone)]
pub(crate) struct Entrance {
    /// Who may use it, where it is a socket.
    pub(crate) socket: SocketAccess,
    /// TLS, where it speaks it.
    pub(crate) tls: Option<TlsFiles>,
}

impl Config {
    /// The files of `tls` of both doors.
    fn tls_files(&self) -> impl Iterator<Item = &PathBuf> {
        let doors = [&self.entrance, &self.admin.entrance];
        let tls = doors.into_iter().filter_map(|door| door.tls.as_ref());
        tls.flat_map(TlsFiles::all)
    }
}

/// What verbs need to know that work on the record, or ask the toolgate that holds it.
#[derive(Debug)]
pub struct DataPlace {
    /// The data directory.
    pub data: PathBuf,
    /// How the record is kept, as far as it matters to who reads it; or why that is not known.
    pub ledger: Result<Ledger, Vec<Diagnostic>>,
    /// Where the operators' door is; or why that is not known.
    pub door: Result<DoorAddress, Vec<Diagnostic>>,
    /// The names of the tool servers.
    pub servers: Vec<ServerName>,
}

/// Everything the files say.
#[derive(Debug)]
pub struct Loaded {
    /// The process settings; none if there is an error.
    pub config: Option<Config>,
    /// The policy, with all diagnostics of configuration and policies.
    pub reading: LoadResult,
    /// Tool servers that miss a variable, and what is to be said of it; there are some only where
    /// secrets may be missing.
    pub unset: BTreeMap<ServerName, String>,
}

/// How the files are read.
#[derive(Clone, Copy)]
struct ReadTerms {
    /// With the pin file.
    pinned: bool,
    /// With the policies; without them nothing is judged that only they could make right.
    governed: bool,
    /// With the files of `tls`. A toolgate that runs looks at them by itself: while they are wrong, the
    /// certificate before stays in force, and changed policies come in force all the same.
    with_tls_files: bool,
    unset: UnsetVariables,
}

impl ReadTerms {
    /// As for the process.
    const WHOLE: Self = Self {
        pinned: true,
        governed: true,
        with_tls_files: true,
        unset: UnsetVariables::Refused,
    };
}

/// What a configuration and policies with errors say, as far as they can be read: to be judged, and
/// never to be run.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// The process settings, if no error is among those.
    pub(crate) config: Option<Config>,
    /// What the policies say.
    pub(crate) policy: Option<Policy>,
}

/// The keys that only a restart applies.
const RESTART_KEYS: &[&str] = &[
    "listen",
    "tls",
    "unix",
    "unencrypted",
    "admin",
    "data",
    "servers",
    "allowed_hosts",
    "allowed_origins",
    "ledger",
    "notify",
    "reconcile",
];

/// The keys under which stands what policies name, or which they are.
const NAMED_BY_POLICIES: [&str; 8] = [
    "servers",
    "auth",
    "callers",
    "front_ends",
    "groups",
    "admin",
    "secrets",
    "policies",
];

/// The configuration to use when none is named: `./toolgate.yaml`, then
/// `~/.config/toolgate/toolgate.yaml`, then `/etc/toolgate/toolgate.yaml`. One that cannot be read, or
/// leads nowhere, is not passed over.
pub(crate) fn find() -> Option<PathBuf> {
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
        .find(|path| path.symlink_metadata().is_ok())
}

/// Reads the configuration at `path` and the policies it names; variables come from the
/// environment.
pub fn load(path: &Path) -> Loaded {
    load_with(path, &environment)
}

/// As [`load`], with the variables that `variable` gives.
pub fn load_with(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Loaded {
    read(path, variable, ReadTerms::WHOLE).0
}

/// As [`load_with`], without the pin file: for the command that is about to write it.
pub(crate) fn load_unpinned(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Loaded {
    let terms = ReadTerms {
        pinned: false,
        ..ReadTerms::WHOLE
    };
    read(path, variable, terms).0
}

/// As [`load`], for who judges: secrets and addresses that no variable gives are warnings, and some
/// text stands for them.
pub(crate) fn load_supposing(path: &Path) -> Loaded {
    load_draft(path).0
}

/// As [`load_supposing`], and what can be judged where there are errors.
pub(crate) fn load_draft(path: &Path) -> (Loaded, Draft) {
    let terms = ReadTerms {
        unset: UnsetVariables::Supposed,
        ..ReadTerms::WHOLE
    };
    read(path, &environment, terms)
}

/// As [`load_supposing`], without policies and the pin file: for who asks the tool servers alone.
pub(crate) fn load_ungoverned(path: &Path) -> Loaded {
    let terms = ReadTerms {
        pinned: false,
        governed: false,
        with_tls_files: false,
        unset: UnsetVariables::Supposed,
    };
    read(path, &environment, terms).0
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn read(
    path: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
    terms: ReadTerms,
) -> (Loaded, Draft) {
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut inputs = InputPaths::of(path, directory);
    let (document, unreadable) = YamlDocument::read_through(path);
    let Some(document) = document else {
        return (inputs.unusable(unreadable, [0; 32]), Draft::default());
    };
    let (judged, mut diagnostics) = judge_document(path, &document, variable, terms);
    diagnostics.extend(unreadable);
    let open = locate::too_open(path);
    let opened = [u8::from(!open.is_empty())];
    diagnostics.extend(open);
    let Some(CheckedConfig {
        config,
        mut basis,
        unset,
    }) = judged
    else {
        compile::sort(&mut diagnostics);
        let bytes = Sha256::new_with_prefix(opened).chain_update(document.text());
        let loaded = inputs.unusable(diagnostics, bytes.finalize().into());
        return (loaded, Draft::default());
    };
    if !terms.pinned {
        basis.pins = None;
    }
    inputs.add(&basis);
    if let Some(config) = &config {
        inputs.add_tls(config);
    }
    let is_sound = diagnostics
        .iter()
        .all(|found| found.severity != Severity::Error);
    let CompileResult {
        policy,
        draft,
        diagnostics,
        fingerprint,
        files: read,
    } = compile::compile(basis, diagnostics);
    let packs = config.as_ref().map(|config| config.packs);
    let bytes = Sha256::new_with_prefix(fingerprint)
        .chain_update(opened)
        .chain_update(document.text());
    let InputPaths { watched, files } = inputs;
    let (config, draft) = divided(config, draft, policy.is_some(), is_sound);
    let loaded = Loaded {
        config,
        reading: LoadResult {
            policy,
            diagnostics,
            fingerprint: bytes.finalize().into(),
            watched,
            files,
            packs: packs.unwrap_or_default(),
            sources: policy_parts::sources(directory, document.tree(), read),
            along: AlongWithPolicy::default(),
        },
        unset,
    };
    (loaded, draft)
}

/// The settings to be run, if the policy `is_usable`; else what can be judged of them and of the policy.
fn divided(
    config: Option<Config>,
    policy: Option<Policy>,
    is_usable: bool,
    is_sound: bool,
) -> (Option<Config>, Draft) {
    if is_usable {
        return (config, Draft::default());
    }
    // With a stand-in among its settings, a server would not be run as its operator wants it.
    let config = config.filter(|_| is_sound);
    (None, Draft { config, policy })
}

/// What the document of the file at `path` says, and what is wrong with it.
fn judge_document(
    path: &Path,
    document: &YamlDocument,
    variable: &dyn Fn(&str) -> Option<String>,
    terms: ReadTerms,
) -> (Option<CheckedConfig>, Vec<Diagnostic>) {
    let directory = path.parent().unwrap_or(Path::new(""));
    let (judged, mut diagnostics) = build::judge(document, directory, variable, terms);
    // What policies name may stand where nothing could be read.
    let judged = judged.filter(|_| !NAMED_BY_POLICIES.iter().any(|key| document.has_lost(key)));
    diagnostics.extend(exposed::tokens(path, document));
    if let Some(config) = judged.as_ref().and_then(|judged| judged.config.as_ref()) {
        diagnostics.extend(exposed::kept(&config.ledger, document));
        if terms.with_tls_files {
            diagnostics.extend(entrance::files(config, document));
        }
    }
    (judged, diagnostics)
}

/// What was read, and where a change of it can be seen: in a directory, or also below it.
struct InputPaths {
    watched: BTreeSet<(PathBuf, bool)>,
    files: BTreeSet<PathBuf>,
}

impl InputPaths {
    /// The configuration at `path`, in `directory`.
    fn of(path: &Path, directory: &Path) -> Self {
        Self {
            watched: BTreeSet::from([(watchable(directory), false)]),
            files: BTreeSet::from([path.to_path_buf()]),
        }
    }

    /// The files that the configuration names.
    fn add(&mut self, basis: &CompileInput) {
        let pins = basis.pins.as_ref().map(|pins| &pins.file);
        for path in basis.policies.iter().chain(pins) {
            self.watched.extend(places(path));
            self.files.insert(path.clone());
        }
        self.watch_once();
    }

    /// The files of `tls`.
    fn add_tls(&mut self, config: &Config) {
        for path in config.tls_files() {
            let directory = path.parent().unwrap_or(Path::new(""));
            self.watched.insert((watchable(directory), false));
            self.files.insert(path.clone());
        }
        self.watch_once();
    }

    /// What is watched with all below it is not watched alone as well.
    fn watch_once(&mut self) {
        let below = |(path, below): &(PathBuf, bool)| below.then(|| path.clone());
        let deep: Vec<PathBuf> = self.watched.iter().filter_map(below).collect();
        self.watched
            .retain(|(path, is_deep)| *is_deep || !deep.contains(path));
    }

    /// They say nothing that could be used.
    fn unusable(self, diagnostics: Vec<Diagnostic>, fingerprint: [u8; 32]) -> Loaded {
        let Self { watched, files } = self;
        Loaded {
            config: None,
            reading: LoadResult {
                policy: None,
                diagnostics,
                fingerprint,
                watched,
                files,
                packs: PackTerms::OnDemand,
                sources: PolicySources::default(),
                along: AlongWithPolicy::default(),
            },
            unset: BTreeMap::new(),
        }
    }
}

/// The process settings at `path`, whatever the policies say; none if the file itself cannot be
/// used, or others could have written it: it says what programs run, and where secrets go.
pub(crate) fn process(path: &Path) -> Option<Config> {
    if !locate::too_open(path).is_empty() {
        return None;
    }
    let document = YamlDocument::read(path).ok()?;
    let directory = path.parent().unwrap_or(Path::new(""));
    build::judge(&document, directory, &environment, ReadTerms::WHOLE)
        .0?
        .config
}

/// Where the configuration at `path` keeps its record, whatever else is wrong with it; or why that is
/// not known. One that others could have written says nothing: it names a directory, and programs
/// that print keys.
pub fn place(path: &Path) -> Result<DataPlace, Vec<Diagnostic>> {
    let open = locate::too_open(path);
    if !open.is_empty() {
        return Err(open);
    }
    let document = YamlDocument::read(path).map_err(|unreadable| vec![unreadable])?;
    let directory = path.parent().unwrap_or(Path::new(""));
    place::of(&document, directory, &environment)
}

/// Where a change of `policies` can be seen: beside it, and if it is a directory, in and below it,
/// unless that is far too much.
fn places(policies: &Path) -> Vec<(PathBuf, bool)> {
    let beside = (watchable(policies.parent().unwrap_or(Path::new(""))), false);
    let is_deep = || !compile::is_too_large(policies);
    let within = policies
        .is_dir()
        .then(|| (policies.to_path_buf(), is_deep()));
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
