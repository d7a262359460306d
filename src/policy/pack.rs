//! A test pack: calls that nobody makes, and what the policies are to say of them (design §2,
//! 003-38).

use super::compile::{self, CompileInput, CompileResult};
use super::locate::YamlDocument;
use super::shape;
use super::{Methods, Policy};
use crate::guards::secrets::{Binding, Bindings, SecretSource, SecretTarget};
use crate::guards::{Mode, hooks, identity};
use crate::model::caller::Caller;
use crate::model::diagnostic::{Diagnostic, Problem, Problems, Severity};
use crate::model::ids::{self, AgentId, ServerName, ToolName, UserId};
use crate::schema::Schema;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

mod drilled;
mod read;
mod written;

pub(crate) use drilled::{BaselineTerms, DrillTerms};
use read::Parts;
pub(crate) use written::PackFile;

/// How long a call may take of a server that no configuration tells of; as long as of one that says
/// nothing of it.
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// What a sample expects of a call that passes.
pub(crate) const EXPECT_ALLOW: &str = "allow";

/// A pack that can be run.
pub(crate) struct Pack {
    /// What it is called.
    pub name: String,
    /// Where it was read.
    pub file: PathBuf,
    /// The policy files it tests; none: the configuration's.
    pub policies: Vec<PathBuf>,
    /// Its calls, in the order in which they are written.
    pub samples: Vec<PosedCall>,
    /// Names that the pack's own policies take as bound.
    secrets: Vec<String>,
    callers: BTreeMap<String, Arc<Caller>>,
    servers: BTreeSet<ServerName>,
    /// The servers whose tools are listed.
    listed: HashSet<ServerName>,
    schemas: HashMap<ToolName, Schema>,
    document: YamlDocument,
}

/// One call that nobody makes, and what is expected of it.
pub(crate) struct PosedCall {
    /// What it shows.
    pub name: String,
    /// Who calls: a name of the pack, or an agent of the configuration.
    pub caller: String,
    /// The user for whom it asks.
    pub user: Option<UserId>,
    /// `server__tool`.
    pub tool: ToolName,
    /// The arguments.
    pub arguments: Value,
    /// The idempotency key beside them.
    pub key: Option<Value>,
    /// Its task as it is before.
    pub before: TaskBefore,
    /// The code of the refusal; none: it passes.
    pub expect: Option<String>,
    /// Why that is right; for readers.
    pub because: Option<String>,
    /// What it repeats: the action id of a recorded call, or the number of a report.
    pub repro: Option<String>,
    /// How it is made for real and taken back, where a drill is asked for.
    pub drill: Option<DrillTerms>,
}

/// A task as it is before a call: what it has used, and what its last calls were. The default has
/// just begun.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TaskBefore {
    /// Milliseconds since its first call.
    pub elapsed: u64,
    /// Judged calls.
    pub steps: u64,
    /// Calls sent.
    pub tool_calls: u64,
    /// Calls of the same tool.
    pub calls: u64,
    /// Calls of the same tool at this very moment, as its rate counts them.
    pub calls_now: u64,
    /// Millionths of a unit of cost.
    pub cost: u64,
    /// Failed calls.
    pub failures: u64,
    /// Those since the last that did not fail.
    pub failures_in_a_row: u64,
    /// Failed calls of the same tool since the last that did not fail.
    pub tool_failures: u64,
    /// Has it made the draft that the call confirms?
    pub is_drafted: bool,
    /// Has a person allowed the call, if one has to?
    pub is_approved: bool,
    /// How often the very same call was made last, each time with the same outcome.
    pub repeated: usize,
    /// How many calls were refused after those.
    pub refused: usize,
}

/// What a pack knows of a tool.
pub(crate) enum KnownTool<'a> {
    /// Its input schema.
    Schema(&'a Schema),
    /// Its server's tools are listed, and this is not among them.
    Absent,
    /// Nothing.
    Nothing,
}

impl Pack {
    /// Reads the pack at `path`: everything there is to say of it, and the pack if there is no
    /// error among it.
    pub(crate) fn read(path: &Path) -> (Option<Self>, Vec<Diagnostic>) {
        let document = match YamlDocument::read(path) {
            Ok(document) => document,
            Err(unreadable) => return (None, vec![unreadable]),
        };
        let mut problems = Problems::default();
        let parts = match shape::read::<PackFile>(document.tree().clone(), &mut problems) {
            Some(file) => Parts::from(file),
            // The shape is wrong; what else is wrong is said as well.
            None => Parts::rest(document.tree()),
        };
        let mut found = Vec::new();
        let pack = read::compile(path, document, parts, &mut problems, &mut found);
        found.extend(problems.into_found());
        let usable = found
            .iter()
            .all(|problem| problem.severity != Severity::Error);
        let found = found
            .into_iter()
            .map(|problem| pack.document.locate(problem))
            .collect();
        (usable.then_some(pack), found)
    }

    /// Who is meant by `name`, if the pack says it.
    pub(crate) fn caller(&self, name: &str) -> Option<&Arc<Caller>> {
        self.callers.get(name)
    }

    /// The names of its callers.
    pub(crate) fn callers(&self) -> impl Iterator<Item = (&String, &Arc<Caller>)> {
        self.callers.iter()
    }

    /// What the pack knows of `tool`.
    pub(crate) fn tool(&self, tool: &ToolName) -> KnownTool<'_> {
        match self.schemas.get(tool) {
            Some(schema) => KnownTool::Schema(schema),
            None if server_of(tool.as_str()).is_some_and(|server| self.listed.contains(server)) => {
                KnownTool::Absent
            }
            None => KnownTool::Nothing,
        }
    }

    /// A problem of the sample at `index`, or of its `key`.
    pub(crate) fn about(
        &self,
        index: usize,
        key: Option<&str>,
        message: &str,
        hint: &str,
    ) -> Diagnostic {
        let steps = ["samples", &index.to_string()]
            .map(str::to_owned)
            .into_iter();
        let path = steps.chain(key.map(str::to_owned)).collect();
        let (message, hint) = (message.to_owned(), Some(hint.to_owned()));
        self.document.locate(Problem {
            part: None,
            severity: Severity::Error,
            path,
            message,
            hint,
        })
    }

    /// Compiles the pack's own policies, as enforced, for the pack's own callers and servers.
    pub(crate) fn compile(&self) -> CompileResult {
        let named = self
            .samples
            .iter()
            .filter_map(|sample| server_of(sample.tool.as_str()))
            .map(ServerName::new);
        let servers: BTreeSet<ServerName> = self.servers.iter().cloned().chain(named).collect();
        let agents: BTreeSet<AgentId> = self
            .callers
            .values()
            .map(|caller| caller.agent.clone())
            .collect();
        let basis = CompileInput {
            mode: Mode::Enforce,
            timeouts: servers
                .iter()
                .map(|server| (server.clone(), DEFAULT_CALL_TIMEOUT))
                .collect(),
            servers: servers.into_iter().collect(),
            disabled: Vec::new(),
            agents: agents.into_iter().collect(),
            identity: identity::Rule::of(self.callers.values().cloned().collect()),
            // Those of a pack's callers are only what its samples try.
            roles: Vec::new(),
            assigned: Vec::new(),
            bound: Vec::new(),
            hooked: Vec::new(),
            fences: BTreeMap::new(),
            approvers: None,
            hooks: hooks::Rule::default(),
            methods: Methods::default(),
            session_header: None,
            meta_max_bytes: super::META_MAX_BYTES,
            policies: self.policies.clone(),
            is_whole: false,
            pins: None,
            secrets: Bindings::default(),
            written: Value::Null,
        };
        let mut compiled = compile::compile(basis, Vec::new());
        if let Some(policy) = &mut compiled.policy {
            policy.secrets = self.bindings(policy);
        }
        compiled
    }

    /// The pack's secrets, each bound to every argument of which a contract says that it may hold
    /// one.
    fn bindings(&self, policy: &Policy) -> Bindings {
        let places: Vec<SecretTarget> = policy
            .allowlist
            .contracts()
            .flat_map(|tool| places(policy, tool))
            .collect();
        let bind = |name: &String| {
            // Nothing is fetched for a call that nobody makes.
            let binding = Binding {
                name: name.clone(),
                source: SecretSource::Variable(name.clone()),
                places: places.clone(),
            };
            (name.clone(), Arc::new(binding))
        };
        Bindings(self.secrets.iter().map(bind).collect())
    }
}

/// The arguments of a tool that may hold a reference, by its contract, whichever of its variants
/// counts.
fn places(policy: &Policy, tool: &ToolName) -> Vec<SecretTarget> {
    let (Some((server, own)), Some(rules)) = (
        ids::parts(tool.as_str()),
        policy.allowlist.contract_of(tool),
    ) else {
        return Vec::new();
    };
    let cases = rules
        .variants
        .iter()
        .flat_map(|variants| variants.cases().map(|(_, rules)| rules));
    let pointers = std::iter::once(rules)
        .chain(cases)
        .flat_map(|rules| rules.secrets.pointers());
    let server = ServerName::new(server);
    pointers
        .map(|pointer| SecretTarget {
            server: server.clone(),
            tool: own.to_owned(),
            pointer: pointer.clone(),
        })
        .collect()
}

/// The server that the name of a tool begins with.
fn server_of(tool: &str) -> Option<&str> {
    ids::parts(tool)
        .map(|(server, _)| server)
        .filter(|server| !server.is_empty())
}
