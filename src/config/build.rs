//! From the settings as they are written to what the process runs on, and what the policy stands
//! on.

use super::declared::DeclaredNames;
use super::ledger::LedgerRoots;
use super::settings::{self, AdminSettings, ConfigSettings, ToolServerSettings};
use super::supposed;
use super::{
    Admin, Config, Entrance, Ledger, RESTART_KEYS, ReadTerms, ServerConfig, auth, caller_classes,
    doors, entrance, fixed, ledger, notify, operators, reconcile, secrets, servers,
};
use crate::admin::operators::in_force::OperatorsInForce;
use crate::guards::Section;
use crate::guards::allowlist::written::LayerKind;
use crate::guards::secrets::Bindings;
use crate::guards::{Mode, hooks, identity};
use crate::model::diagnostic::{Diagnostic, Problem, Problems, Severity};
use crate::model::ids::{AgentId, ServerName};
use crate::model::verbs::OperatorVerbs;
use crate::policy::compile::secret_bindings::BoundArgument;
use crate::policy::compile::{self, CompileInput, CompileResult};
use crate::policy::known_tools::hooked;
use crate::policy::layers::Assigned;
use crate::policy::live::{AlongWithPolicy, LoadResult};
use crate::policy::locate::YamlDocument;
use crate::policy::sources::{PackTerms, PolicySources};
use crate::policy::{META_MAX_BYTES, Methods, shape};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Without a file: one server, observed, for everybody on this machine.
pub(crate) fn without_file(server: ServerConfig, mode: Mode) -> (Config, LoadResult) {
    let servers = BTreeMap::from([(server.name.clone(), server)]);
    let agents = vec![AgentId::new(identity::ANONYMOUS_AGENT)];
    let basis = basis(mode, &servers, agents, identity::Rule::anonymous());
    let config = Config {
        listen: settings::DEFAULT_LISTEN.into(),
        entrance: Entrance::default(),
        admin: Admin {
            listen: settings::DEFAULT_ADMIN_LISTEN.into(),
            entrance: Entrance::default(),
            in_force: OperatorsInForce::default(),
            public_url: None,
            allowed_hosts: Vec::new(),
            tokens: Vec::new(),
            verbs: OperatorVerbs::default(),
            absences: Vec::new(),
            issued: Arc::default(),
        },
        data: PathBuf::from(settings::DEFAULT_DATA_DIRECTORY),
        servers,
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        pins: None,
        packs: PackTerms::OnDemand,
        ledger: Ledger::default(),
        notify: Vec::new(),
        reconcile: None,
        startup: BTreeMap::new(),
    };
    let CompileResult {
        policy,
        draft: _,
        diagnostics,
        fingerprint,
        files: _,
    } = compile::compile(basis, Vec::new());
    (
        config,
        LoadResult {
            along: AlongWithPolicy::default(),
            policy,
            diagnostics,
            fingerprint,
            watched: BTreeSet::new(),
            files: BTreeSet::new(),
            packs: PackTerms::OnDemand,
            sources: PolicySources::default(),
        },
    )
}

/// What a policy stands on where the configuration says nothing else.
fn basis(
    mode: Mode,
    servers: &BTreeMap<ServerName, ServerConfig>,
    agents: Vec<AgentId>,
    identity: identity::Rule,
) -> CompileInput {
    let disabled = servers.values().filter(|server| server.disabled);
    let timeouts = servers
        .iter()
        .map(|(name, server)| (name.clone(), server.timeout));
    let fences = servers
        .iter()
        .filter_map(|(name, server)| Some((name.clone(), server.fence_header.clone()?)));
    CompileInput {
        mode,
        servers: servers.keys().cloned().collect(),
        disabled: disabled.map(|server| server.name.clone()).collect(),
        timeouts: timeouts.collect(),
        agents,
        roles: identity.roles(),
        identity,
        assigned: Vec::new(),
        bound: Vec::new(),
        hooked: Vec::new(),
        fences: fences.collect(),
        approvers: None,
        methods: Methods::default(),
        hooks: hooks::Rule::default(),
        session_header: None,
        meta_max_bytes: META_MAX_BYTES,
        pins: None,
        secrets: Bindings::default(),
        policies: Vec::new(),
        is_whole: true,
        written: Value::Null,
    }
}

/// The settings, judged.
pub(super) struct CheckedConfig {
    pub(super) config: Option<Config>,
    pub(super) basis: CompileInput,
    /// Servers that miss a variable, and what is to be said of it.
    pub(super) unset: BTreeMap<ServerName, String>,
}

pub(super) fn judge(
    document: &YamlDocument,
    directory: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
    terms: ReadTerms,
) -> (Option<CheckedConfig>, Vec<Diagnostic>) {
    let (tree, missing) = supposed::replace(document.tree(), variable, terms.unset);
    let startup = RESTART_KEYS
        .iter()
        .map(|key| (*key, Sha256::digest(fixed::fixed(&tree, key)).into()))
        .collect();
    let mut problems = Problems::default();
    let mended = shape::mend::<ConfigSettings>(tree.clone(), document.tree(), &mut problems);
    let named = DeclaredNames::in_trees(&tree, mended.as_ref().map(|mended| &mended.tree));
    let settings = mended.and_then(|mended| shape::read_mended(mended, &mut problems));
    let judged = settings.map(|mut settings: ConfigSettings| {
        let ledger = std::mem::take(&mut settings.ledger);
        let data = directory.join(&settings.data);
        let ledger = problems.under("ledger", |problems| {
            let data = &data;
            ledger::compile(ledger, LedgerRoots { data, directory }, problems)
        });
        let notify = std::mem::take(&mut settings.notify);
        let named_people = notify::people::named(&notify);
        let mut notify = problems.under("notify", |problems| notify::compile(notify, problems));
        let reconcile = reconcile::compile(settings.reconcile.take(), &mut problems);
        let mut judged = build(settings, named, directory, &mut problems);
        if let Some(config) = &judged.config {
            notify::place(&mut notify, &config.admin);
            problems.under("notify", |problems| {
                problems.under("receivers", |problems| {
                    notify::people::judge(&named_people, &config.admin, problems);
                });
            });
        }
        judged.config = judged.config.map(|config| Config {
            ledger,
            notify,
            reconcile,
            startup,
            ..config
        });
        judged.basis.written = document.tree().clone();
        judged.basis.assigned = assigned(&judged.basis.identity, document);
        judged.basis.hooked = hooked::hooked(document);
        judged.basis.bound = bound(&judged.basis.secrets, document);
        judged.unset = supposed::servers(&missing);
        if !terms.governed {
            ungoverned(&mut judged.basis);
        }
        judged
    });
    let is_asked =
        |found: &Problem| terms.governed || found.path.first().is_none_or(|key| key != "policies");
    let mut found = problems.into_found();
    found.retain(is_asked);
    (judged, told(document, missing, found))
}

/// What is said of the variables that are `missing`, and of what else was `found`.
fn told(
    document: &YamlDocument,
    missing: Vec<Problem>,
    mut found: Vec<Problem>,
) -> Vec<Diagnostic> {
    // What a missing variable leaves behind is no second problem.
    found.retain(|found| missing.iter().all(|missing| missing.path != found.path));
    // It may be written where the file could not be read.
    let may_be_there = |found: &Problem| {
        let key = found.path.first();
        !document.is_complete() && key.is_some_and(|key| document.tree().get(key).is_none())
    };
    found.retain(|found| !may_be_there(found));
    let all = missing.into_iter().chain(found);
    let placed = all.map(|problem| document.locate(problem));
    placed
        .filter(|found| !document.is_left_empty(found))
        .collect()
}

/// Who calls, as it is written.
fn callers(
    settings: &mut ConfigSettings,
    directory: &Path,
    problems: &mut Problems,
) -> identity::Settings {
    let written = std::mem::take(&mut settings.auth);
    identity::Settings {
        auth: problems.under("auth", |problems| {
            auth::settled(written, directory, problems)
        }),
        callers: std::mem::take(&mut settings.callers),
        front_ends: std::mem::take(&mut settings.front_ends),
        groups: std::mem::take(&mut settings.groups),
        keeps_tokens: settings.servers.values().any(exchanges),
    }
}

/// Whether the server is shown tokens that are made of its callers'.
fn exchanges(server: &ToolServerSettings) -> bool {
    let oauth = server.oauth.as_ref();
    oauth.is_some_and(|oauth| oauth.exchange.is_some())
}

fn session_header(name: Option<String>, problems: &mut Problems) -> Option<String> {
    name.map(|name| doors::named_header("session_header", &name, "x-session-id", problems))
}

fn build(
    mut settings: ConfigSettings,
    named: DeclaredNames,
    directory: &Path,
    problems: &mut Problems,
) -> CheckedConfig {
    let mode = settings.mode;
    let (listen, entrance) = entrance::of_agents(&mut settings, named.is_open, directory, problems);
    let callers = callers(&mut settings, directory, problems);
    let admin = operators(settings.admin, &callers, &named, directory, problems);
    let identity = callers.compile(problems);
    let servers = problems.under("servers", |problems| {
        let servers = servers::compile(settings.servers, directory, problems);
        caller_classes::judge(&servers, &identity, &named, problems);
        servers
    });
    let secrets = problems.under("secrets", |problems| {
        secrets::compile(settings.secrets, &named.servers, directory, problems)
    });
    let data = problems.under("data", |problems| {
        doors::data_dir(&settings.data, directory, problems)
    });
    doors::judge_allowed(&settings.allowed_hosts, &settings.allowed_origins, problems);
    let policies = problems.under("policies", |problems| {
        doors::policies(&settings.policies, mode, directory, problems)
    });
    let hooks = problems.under("hooks", |problems| {
        hooks::Settings(settings.hooks).compile_for(&named.servers, problems)
    });
    let pins = problems.under("pins", |problems| {
        doors::pins(settings.pins?, directory, problems)
    });
    let methods = settings.methods;
    let methods = problems.under("methods", |problems| doors::methods(methods, problems));
    let basis = CompileInput {
        servers: named.servers,
        approvers: admin.as_ref().map(Admin::approvers),
        hooks,
        methods,
        session_header: session_header(settings.session_header, problems),
        meta_max_bytes: doors::meta_max_bytes(settings.meta_max_bytes, problems),
        pins: pins.clone(),
        secrets,
        policies,
        ..basis(mode, &servers, named.agents, identity)
    };
    let config = listen.zip(admin).map(|(listen, admin)| Config {
        listen,
        entrance,
        admin,
        data,
        servers,
        allowed_hosts: settings.allowed_hosts,
        allowed_origins: settings.allowed_origins,
        pins,
        packs: settings.packs,
        ledger: Ledger::default(),
        notify: Vec::new(),
        reconcile: None,
        startup: BTreeMap::new(),
    });
    CheckedConfig {
        config,
        basis,
        unset: BTreeMap::new(),
    }
}

/// Takes away what only policies could make right.
fn ungoverned(basis: &mut CompileInput) {
    basis.policies.clear();
    basis.assigned.clear();
    basis.bound.clear();
    basis.hooked.clear();
    basis.is_whole = false;
}

/// The operators' door, which no agent's token opens.
fn operators(
    admin: AdminSettings,
    callers: &identity::Settings,
    named: &DeclaredNames,
    directory: &Path,
    problems: &mut Problems,
) -> Option<Admin> {
    let issuers = callers.auth.jwt.iter();
    let issued: Vec<_> = issuers
        .map(|issuer| (&*issuer.issuer, &*issuer.audience))
        .collect();
    let agents = operators::ConfiguredAgents {
        tokens: &callers.tokens(),
        names: &named.agents,
        issued: &issued,
    };
    problems.under("admin", |problems| {
        operators::admin(admin, agents, directory, problems)
    })
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
                part: None,
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
                part: None,
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
