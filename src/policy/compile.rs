//! Files → policy, all problems at once.

use super::file::{self, Contract, PolicyFile};
use super::locate::{self, YamlDocument};
use super::{Methods, Policy, layers, pins, shape};
use crate::guards::allowlist::layers::Layers;
use crate::guards::allowlist::written::LayerEnvironment;
use crate::guards::allowlist::{self, Contracts};
use crate::guards::budget::{self, TaskLimits};
use crate::guards::secrets::{self, Bindings};
use crate::guards::{self, Mode, Section, ToolRules, hooks, identity, repetition};
use crate::model::approvers::Approvers;
use crate::model::diagnostic::{Diagnostic, Problems, Severity};
use crate::model::ids::{self, AgentId, ServerName, ToolName};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

mod approvers;
mod confusables;
mod contract;
mod names;
mod references;
pub mod secret_bindings;

/// Policy files at most, and how deep their directories may go.
const MAX_POLICY_FILES: usize = 256;
const MAX_DIRECTORY_DEPTH: usize = 8;

/// What the configuration says that a policy stands on.
#[derive(Debug)]
pub struct CompileInput {
    /// Whether calls are refused.
    pub mode: Mode,
    /// The servers that contracts may name.
    pub servers: Vec<ServerName>,
    /// Those of them that the configuration disables: none of their tools is seen.
    pub disabled: Vec<ServerName>,
    /// How long one call of each server may take; of those whose settings can be used.
    pub timeouts: BTreeMap<ServerName, Duration>,
    /// The agents that layers may name.
    pub agents: Vec<AgentId>,
    /// Who calls.
    pub identity: identity::Rule,
    /// The layers that callers are given by name, and where.
    pub assigned: Vec<layers::Assigned>,
    /// The arguments that secrets may go to, and where that is written.
    pub bound: Vec<secret_bindings::BoundArgument>,
    /// Who may decide about calls that are held; none: that is not known.
    pub approvers: Option<Approvers>,
    /// Who hears of calls.
    pub hooks: hooks::Rule,
    /// Which methods pass.
    pub methods: Methods,
    /// The header in which agents name their session.
    pub session_header: Option<String>,
    /// Bytes of `_meta` that one message of an agent may have.
    pub meta_max_bytes: usize,
    /// Where the approved definitions of tools are; none: all pass.
    pub pins: Option<pins::PinSource>,
    /// Where secrets come from and where they may go.
    pub secrets: Bindings,
    /// Policy files, and directories of them.
    pub policies: Vec<PathBuf>,
    /// What the configuration says, before variables are replaced: it counts for the version.
    pub written: Value,
}

/// What became of the files.
#[derive(Debug)]
pub struct CompileResult {
    /// The policy; none if there is an error.
    pub policy: Option<Policy>,
    /// Everything there is to say, sorted by place.
    pub diagnostics: Vec<Diagnostic>,
    /// SHA-256 over the bytes of all files that could be read, and over whether others may write
    /// them.
    pub fingerprint: [u8; 32],
}

/// Compiles `basis` and the policy files it names. `diagnostics` were found before.
pub fn compile(basis: CompileInput, mut diagnostics: Vec<Diagnostic>) -> CompileResult {
    let CompileInput {
        mode,
        servers,
        disabled,
        timeouts,
        agents,
        identity,
        assigned,
        bound,
        hooks,
        ..
    } = basis;
    let CompileInput {
        approvers,
        methods,
        session_header,
        meta_max_bytes,
        pins,
        secrets,
        policies,
        written,
        ..
    } = basis;
    let groups = identity.groups().map(ToOwned::to_owned).collect();
    let mut stock = Compiler {
        servers,
        timeouts,
        agents,
        groups,
        secrets,
        ..Compiler::default()
    };
    let mut bytes = Sha256::new();
    let mut said = vec![canonical(&written)];
    let pins = pins
        .map(|source| stock.pins(&source, &mut bytes, &mut said))
        .unwrap_or_default();
    for path in files(&policies, &mut stock.diagnostics) {
        let open = locate::too_open(&path);
        // A right that is taken away or given changes what the file is worth, though not a byte of
        // it.
        bytes.update([u8::from(!open.is_empty())]);
        stock.diagnostics.extend(open);
        match YamlDocument::read(&path) {
            Ok(document) => {
                bytes.update(Sha256::digest(document.text()));
                said.push(canonical(document.tree()));
                stock.add(document);
            }
            Err(unreadable) => stock.diagnostics.push(unreadable),
        }
    }
    let contracts = stock.contracts();
    names::judge(&mut stock);
    references::judge(&mut stock, &contracts);
    confusables::judge(&mut stock);
    secret_bindings::judge(&mut stock, bound);
    if let Some(approvers) = &approvers {
        approvers::judge(&mut stock, approvers);
    }
    let layers = stock.layers((mode, &identity), &disabled, assigned);
    diagnostics.append(&mut stock.diagnostics);
    sort(&mut diagnostics);
    let usable = diagnostics
        .iter()
        .all(|diagnostic| diagnostic.severity != Severity::Error);
    let policy = usable.then(|| {
        let allowlist = allowlist::Rule::new(mode, layers, contracts).without_servers(disabled);
        let (tasks, repetition, secrets) = (
            stock.tasks,
            stock.repetition.unwrap_or_default(),
            stock.secrets,
        );
        let version = version(mode, &said);
        let written = version.clone();
        Policy {
            version,
            written,
            mode,
            identity,
            allowlist,
            pins,
            repetition,
            tasks,
            hooks,
            methods,
            session_header,
            meta_max_bytes,
            secrets,
        }
    });
    CompileResult {
        policy,
        diagnostics,
        fingerprint: bytes.finalize().into(),
    }
}

/// The policy files under `paths` that can be read, to give what is found about contracts later its
/// place.
pub fn documents(paths: &[PathBuf]) -> Vec<YamlDocument> {
    files(paths, &mut Vec::new())
        .iter()
        .filter_map(|path| YamlDocument::read(path).ok())
        .collect()
}

/// Sorts by place and says nothing twice.
pub fn sort(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by(|one, other| {
        (&one.file, one.line, one.column, one.severity, &one.message).cmp(&(
            &other.file,
            other.line,
            other.column,
            other.severity,
            &other.message,
        ))
    });
    diagnostics.dedup();
}

struct CompiledContract {
    rules: Arc<ToolRules>,
    place: Diagnostic,
}

/// What was found so far.
#[derive(Default)]
struct Compiler {
    servers: Vec<ServerName>,
    timeouts: BTreeMap<ServerName, Duration>,
    agents: Vec<AgentId>,
    groups: Vec<String>,
    secrets: Bindings,
    tasks: TaskLimits,
    repetition: Option<repetition::Rule>,
    contracts: BTreeMap<ToolName, CompiledContract>,
    /// The layers and groups of each file; compiled when all files are read.
    written: Vec<(YamlDocument, layers::WrittenLayers)>,
    /// The tools that contracts name to go with them, and where.
    pairs: Vec<references::ToolReference>,
    diagnostics: Vec<Diagnostic>,
}

impl Compiler {
    /// The contracts so far.
    fn contracts(&self) -> Contracts {
        let contracts = self
            .contracts
            .iter()
            .map(|(name, held)| (name.clone(), held.rules.clone()));
        contracts.collect::<HashMap<_, _>>().into()
    }

    /// Reads the pin file. Its digests are part of what the policy says.
    fn pins(
        &mut self,
        source: &pins::PinSource,
        bytes: &mut Sha256,
        said: &mut Vec<Vec<u8>>,
    ) -> guards::pins::Rule {
        let mut found = pins::read(&source.file, &self.servers);
        bytes.update([1, u8::from(found.is_broken())]);
        bytes.update(Sha256::digest(&found.text));
        self.diagnostics.append(&mut found.diagnostics);
        let digests = found
            .pins
            .iter()
            .map(|((server, tool), pin)| json!([server, tool, pin.digest]));
        said.push(canonical(&json!([
            source.require,
            digests.collect::<Vec<_>>()
        ])));
        found.into_rule(source.require)
    }

    fn add(&mut self, document: YamlDocument) {
        let mut problems = Problems::default();
        let mut tree = document.tree().clone();
        file::take_later(&mut tree, &mut problems);
        let mut written = None;
        if let Some(PolicyFile {
            contracts,
            layers,
            groups,
            budgets,
            repetition,
        }) = shape::read::<PolicyFile>(tree, &mut problems)
        {
            problems.under("contracts", |problems| {
                for (name, contract) in contracts {
                    problems.under(name.clone(), |problems| {
                        self.add_contract(&document, &name, &contract, problems);
                    });
                }
            });
            problems.under(budget::TaskSettings::NAME, |problems| {
                layers::judge_budgets(&budgets, &self.agents, &self.groups, problems);
                self.tasks.extend(budgets.compile(problems));
            });
            if let Some(written) = repetition {
                problems.under(repetition::Settings::NAME, |problems| {
                    self.add_repetition(written, problems);
                });
            }
            written = Some(layers::WrittenLayers { layers, groups });
        }
        let found = problems
            .into_found()
            .into_iter()
            .map(|problem| document.locate(names::tell(problem)));
        self.diagnostics.extend(found);
        self.written
            .extend(written.map(|written| (document, written)));
    }

    /// The layers of all files, once they are read: a group may stand in another file than the
    /// layer that names it.
    fn layers(
        &mut self,
        (mode, identity): (Mode, &identity::Rule),
        disabled: &[ServerName],
        assigned: Vec<layers::Assigned>,
    ) -> Layers {
        let written = std::mem::take(&mut self.written);
        let servers = self
            .servers
            .iter()
            .map(|server| (server.clone(), disabled.contains(server)))
            .collect();
        let groups = written
            .iter()
            .flat_map(|(_, written)| written.groups.clone())
            .collect();
        let around = LayerEnvironment {
            groups,
            servers,
            tools: self.contracts.keys().cloned().collect(),
        };
        let mut judge = layers::LayerChecker::new(&around, mode, identity, &self.agents);
        let mut all = Layers::default();
        for (document, written) in &written {
            let mut problems = Problems::default();
            judge.judge(written, &mut problems);
            all.extend(problems.under(allowlist::Settings::NAME, |problems| {
                written.layers.compile(&around, problems)
            }));
            self.diagnostics.extend(
                problems
                    .into_found()
                    .into_iter()
                    .map(|problem| document.locate(problem)),
            );
        }
        for (document, written) in &written {
            let mut problems = Problems::default();
            judge.judge_use(written, &mut problems);
            self.diagnostics.extend(
                problems
                    .into_found()
                    .into_iter()
                    .map(|problem| document.locate(problem)),
            );
        }
        self.diagnostics.extend(
            assigned
                .into_iter()
                .filter_map(|one| judge.judge_assigned(one)),
        );
        all
    }

    fn add_repetition(&mut self, written: repetition::Settings, problems: &mut Problems) {
        problems.under("except", |problems| {
            for (index, tool) in written.except.iter().enumerate() {
                if server_of(tool, &self.servers).is_none() {
                    let message = format!("`{tool}` is no tool of a declared server");
                    problems.under(index.to_string(), |problems| {
                        problems.error(message, "name it `server__tool`");
                    });
                }
            }
        });
        if self.repetition.replace(written.compile(problems)).is_some() {
            problems.error("is in two policy files", "keep one");
        }
    }

    fn add_contract(
        &mut self,
        document: &YamlDocument,
        name: &str,
        contract: &Contract,
        problems: &mut Problems,
    ) {
        if !contract::judge_name(name, &self.servers, problems) {
            return;
        }
        names::judge_shared(name, contract, problems);
        self.pairs
            .extend(references::references_in(document, name, contract));
        let server = server_of(name, &self.servers);
        let timeout = server
            .and_then(|server| self.timeouts.get(server))
            .copied()
            .unwrap_or_default();
        let rules = Arc::new(contract::compile(
            contract,
            &self.servers,
            timeout,
            problems,
        ));
        if let (Some(server), Some((_, tool))) = (server, ids::parts(name)) {
            problems.under(secrets::Settings::NAME, |problems| {
                rules.secrets.judge((server, tool), &self.secrets, problems);
            });
        }
        let place = place(document, name);
        if let Some(first) = self.contracts.get(name) {
            let at = format!(
                "{}:{}:{}",
                first.place.file, first.place.line, first.place.column
            );
            problems.error(
                format!("`{name}` has a second contract"),
                format!("the first is at {at}; merge them"),
            );
            self.diagnostics.push(first.place.clone());
            return;
        }
        self.contracts
            .insert(ToolName::new(name), CompiledContract { rules, place });
    }
}

/// What is said at the first of two contracts, once there is a second.
fn place(document: &YamlDocument, name: &str) -> Diagnostic {
    let mut problems = Problems::default();
    problems.under("contracts", |problems| {
        problems.under(name, |problems| {
            problems.error(
                format!("`{name}` has several contracts"),
                "keep one contract a tool, in one file",
            );
        });
    });
    let mut found = problems
        .into_found()
        .into_iter()
        .map(|problem| document.locate(problem));
    found.next().unwrap_or_else(|| {
        about(
            Path::new(document.file()),
            Severity::Error,
            "several contracts",
            "",
        )
    })
}

/// The YAML files under `paths`, sorted. Test packs (`tests/`) and hidden files are no policy.
fn files(paths: &[PathBuf], diagnostics: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = found.len();
            gather(path, 0, &mut found, diagnostics);
            if found.len() == before {
                diagnostics.push(about(
                    path,
                    Severity::Warning,
                    "holds no policy file",
                    "add a file that ends in .yaml",
                ));
            }
        } else {
            found.push(path.clone());
        }
    }
    found.sort();
    found.dedup();
    if found.len() > MAX_POLICY_FILES {
        let message = format!("more than {MAX_POLICY_FILES} policy files");
        diagnostics.push(about(
            &found[MAX_POLICY_FILES],
            Severity::Error,
            &message,
            "merge some of them",
        ));
        found.truncate(MAX_POLICY_FILES);
    }
    found
}

fn gather(
    directory: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) if depth < MAX_DIRECTORY_DEPTH => entries,
        Ok(_) => {
            return diagnostics.push(about(
                directory,
                Severity::Error,
                "directories go too deep",
                "flatten them",
            ));
        }
        Err(error) => {
            let message = format!("cannot be read: {error}");
            return diagnostics.push(about(
                directory,
                Severity::Error,
                &message,
                "let this account read it",
            ));
        }
    };
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let yaml = path
            .extension()
            .is_some_and(|ending| ending == "yaml" || ending == "yml");
        if name.starts_with('.') || found.len() > MAX_POLICY_FILES {
            continue;
        }
        if path.is_dir() && name != "tests" {
            gather(&path, depth + 1, found, diagnostics);
        } else if yaml && !path.is_dir() {
            found.push(path);
        }
    }
}

fn about(path: &Path, severity: Severity, message: &str, hint: &str) -> Diagnostic {
    let hint = (!hint.is_empty()).then(|| hint.to_owned());
    Diagnostic {
        severity,
        file: path.display().to_string(),
        line: 0,
        column: 0,
        message: message.to_owned(),
        hint,
    }
}

fn canonical(tree: &Value) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(tree).unwrap_or_else(|_| tree.to_string().into_bytes())
}

/// The order of files, their comments and their layout don't count.
fn version(mode: Mode, said: &[Vec<u8>]) -> String {
    let mut parts: Vec<[u8; 32]> = said
        .iter()
        .map(|text| Sha256::digest(text).into())
        .collect();
    parts.sort_unstable();
    let mut whole = Sha256::new();
    whole.update([u8::from(mode == Mode::Observe)]);
    for part in parts {
        whole.update(part);
    }
    shown(&whole.finalize())
}

/// A version as people read it: the first twelve digits.
pub(super) fn shown(digest: &[u8]) -> String {
    digest
        .iter()
        .take(6)
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// The server that a tool's full name begins with, if it is declared.
pub(crate) fn server_of<'s>(name: &str, servers: &'s [ServerName]) -> Option<&'s ServerName> {
    let (server, tool) = ids::parts(name)?;
    servers
        .iter()
        .find(|known| known.as_str() == server && !tool.is_empty())
}

#[cfg(test)]
mod tests;
