//! The tools of servers, as far as they are known: by their pins when a policy is loaded, by their
//! listings for `check --connect`. What a policy says of other tools is a slip of the pen, and what
//! it says of these must fit them.

use super::contract_lint;
use super::locate::YamlDocument;
use super::probe_lint::{self, ProbeContext};
use super::result_lint;
use super::rollback_lint::{self, RollbackContext, RollbackTool};
use crate::guards::ToolRules;
use crate::guards::allowlist::{Contracts, ToolPattern};
use crate::guards::pins::{self, INSTRUCTIONS_PIN_NAME};
use crate::model::diagnostic::{Diagnostic, Problem, Problems, Severity};
use crate::model::ids::{self, ServerName, ToolName};
use crate::model::spelling::{nearest, nearest_match};
use crate::schema::Schema;
use denied::{SpokenOf, denied_groups, denied_in};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

mod denied;
mod excepted;
pub(crate) mod hooked;

/// Tools in a warning at most.
const MAX_TOOLS_NAMED: usize = 8;

/// How the tools are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownBy {
    /// By their pins: a tool without one may be there, and wait for its approval.
    Pins,
    /// By what their servers list now.
    Listing,
}

/// Tools that are known. Of a server that is not among `servers`, nothing is.
#[derive(Debug)]
pub(crate) struct KnownTools {
    by: KnownBy,
    servers: BTreeSet<ServerName>,
    /// Those of which no other tool is there.
    complete: BTreeSet<ServerName>,
    /// Each with its input schema, as it came.
    tools: BTreeMap<ToolName, Value>,
    /// What those say of their results that do.
    results: BTreeMap<ToolName, Value>,
}

/// A contract that is held against tools.
struct JudgedContract<'a> {
    name: &'a ToolName,
    rules: &'a ToolRules,
    contracts: &'a Contracts,
}

impl KnownTools {
    /// Those that are pinned.
    pub(crate) fn pinned(pins: &pins::Rule) -> Self {
        let mut known = Self {
            by: KnownBy::Pins,
            servers: BTreeSet::new(),
            complete: BTreeSet::new(),
            tools: BTreeMap::new(),
            results: BTreeMap::new(),
        };
        for (server, tool, pin) in pins.pins() {
            if tool != INSTRUCTIONS_PIN_NAME {
                if pins.is_all_of(server) {
                    known.complete.insert(server.clone());
                }
                let schema = pin.definition.get("inputSchema");
                let schema = schema.map_or(Value::Null, |schema| schema.value());
                known.add(server, tool, schema);
                if let Some(result) = pin.definition.get("outputSchema") {
                    known.add_result(server, tool, result.value());
                }
            }
        }
        known
    }

    /// Nothing yet: what servers list is added.
    pub(crate) fn listed() -> Self {
        Self {
            by: KnownBy::Listing,
            servers: BTreeSet::new(),
            complete: BTreeSet::new(),
            tools: BTreeMap::new(),
            results: BTreeMap::new(),
        }
    }

    /// A server that lists its tools, of which there may be none.
    pub(crate) fn add_server(&mut self, server: &ServerName) {
        self.servers.insert(server.clone());
        if self.by == KnownBy::Listing {
            self.complete.insert(server.clone());
        }
    }

    /// A tool of `server`, by the server's own name.
    pub(crate) fn add(&mut self, server: &ServerName, tool: &str, schema: Value) {
        self.add_server(server);
        self.tools.insert(ToolName::of(server, tool), schema);
    }

    /// What a tool of `server` says of its results.
    pub(crate) fn add_result(&mut self, server: &ServerName, tool: &str, schema: Value) {
        self.results.insert(ToolName::of(server, tool), schema);
    }

    /// What in `documents`, from which `contracts` come, does not fit these tools.
    pub(crate) fn judge(
        &self,
        contracts: &Contracts,
        documents: &[&YamlDocument],
    ) -> Vec<Diagnostic> {
        let named: BTreeMap<&str, (&ToolName, &ToolRules)> = contracts
            .named()
            .map(|(name, rules)| (name.as_str(), (name, &**rules)))
            .collect();
        let denied_groups = denied_groups(documents);
        let spoken_of = SpokenOf {
            contracts,
            denied: documents
                .iter()
                .flat_map(|document| denied_in(document, &denied_groups))
                .filter_map(|named| named.pattern())
                .collect(),
        };
        let mut found = Vec::new();
        for document in documents {
            let written = document.tree()["contracts"].as_object();
            let mut problems: Vec<Problem> = written
                .into_iter()
                .flatten()
                .filter_map(|(name, _)| named.get(name.as_str()))
                .flat_map(|&(name, rules)| self.judge_contract(name, rules, &spoken_of))
                .collect();
            let denied = denied_in(document, &denied_groups).into_iter();
            problems.extend(denied.filter_map(|named| self.judge_denied(named, &spoken_of)));
            problems.extend(self.judge_excepted(document));
            let news = problems
                .into_iter()
                .filter(|problem| document.is_news(problem));
            found.extend(news.map(|problem| document.locate(problem)));
        }
        found
    }

    fn judge_contract(
        &self,
        name: &ToolName,
        rules: &ToolRules,
        spoken_of: &SpokenOf<'_>,
    ) -> Vec<Problem> {
        let judged = JudgedContract {
            name,
            rules,
            contracts: spoken_of.contracts,
        };
        let pattern = ToolPattern::compile(name.as_str(), &mut Problems::default());
        let Some(pattern) = pattern.filter(ToolPattern::is_wild) else {
            return match self.tools.get(name) {
                Some(schema) => self.misfits(&judged, name, schema),
                None => self.absent(name, spoken_of).into_iter().collect(),
            };
        };
        if let Some(lost) = self.matching_nothing(name, &pattern, spoken_of) {
            return vec![lost];
        }
        let covered: Vec<(&ToolName, &Value)> = self
            .tools
            .iter()
            .filter(|(tool, _)| {
                pattern.matches(tool.as_str()) && spoken_of.contracts.name_of(tool) == Some(name)
            })
            .collect();
        together(&covered, |tool, schema| self.misfits(&judged, tool, schema))
    }

    /// What of a contract does not fit `tool`. What cannot be judged is quarantined, and is told by
    /// `doctor`. Rollbacks were judged by pins already, where they are known by them.
    fn misfits(
        &self,
        judged: &JudgedContract<'_>,
        tool: &ToolName,
        schema: &Value,
    ) -> Vec<Problem> {
        let name = judged.name.as_str();
        let own = Schema::compile(schema).ok();
        let mut found = own
            .as_ref()
            .map(|schema| contract_lint::problems(name, judged.rules, schema))
            .unwrap_or_default();
        let probed = ProbeContext {
            own: own.as_ref(),
            arguments: &|tool: &ToolName| self.tools.get(tool),
            result: &|tool: &ToolName| self.results.get(tool),
        };
        found.extend(probe_lint::problems(name, judged.rules, &probed));
        if let Some(result) = self.results.get(tool) {
            found.extend(result_lint::problems(name, judged.rules, result));
        }
        if self.by == KnownBy::Listing {
            let context = RollbackContext {
                known: &|tool: &ToolName| self.rollback_tool(tool),
                contract: &|tool: &ToolName| judged.contracts.get(tool).cloned(),
            };
            found.extend(rollback_lint::problems(name, tool, judged.rules, &context));
        }
        found
    }

    /// What the listings say of a tool that takes something back.
    fn rollback_tool(&self, tool: &ToolName) -> RollbackTool {
        match self.tools.get(tool) {
            Some(schema) => RollbackTool::of(schema, self.results.get(tool)),
            None if self.is_of_these(tool) => RollbackTool::Missing(
                format!("the server lists no `{tool}`"),
                "compare the spelling with the server's listing",
            ),
            None => RollbackTool::Unknown,
        }
    }

    /// Whether it would be known if it were there.
    fn is_of_these(&self, tool: &ToolName) -> bool {
        let server = ids::parts(tool.as_str()).map(|(server, _)| ServerName::new(server));
        server.is_some_and(|server| self.servers.contains(&server))
    }

    /// What is said of a contract for a tool that is not known.
    fn absent(&self, name: &ToolName, spoken_of: &SpokenOf<'_>) -> Option<Problem> {
        let (server, own) = ids::parts(name.as_str())?;
        if !self.is_of_these(name) {
            return None;
        }
        let mut known = self.names_of(server);
        if self.by == KnownBy::Pins {
            // A tool that waits for its approval may be called nearly as another; but then a policy
            // speaks of the other, too.
            spoken_of.leave_out(server, &mut known);
        }
        let near =
            nearest(own, &known).map(|near| format!("did you mean `{}`?", full_name(server, near)));
        let (message, hint) = match self.by {
            KnownBy::Listing => (
                format!("`{server}` lists no tool `{own}`"),
                near.unwrap_or_else(|| format!("it lists {}", known.join(", "))),
            ),
            KnownBy::Pins => (
                format!("no pin of `{server}` is of a tool `{own}`"),
                format!(
                    "{} If not, approve the tool: `toolgate pins approve`",
                    near?
                ),
            ),
        };
        Some(Problem {
            part: None,
            severity: self.severity(server),
            path: vec!["contracts".to_owned(), name.to_string()],
            message,
            hint: Some(hint),
        })
    }

    /// How much it counts that a tool of this server is not known: one that nobody approved, or that
    /// needs no pin, may be there all the same.
    fn severity(&self, server: &str) -> Severity {
        if self.complete.contains(&ServerName::new(server)) {
            Severity::Error
        } else {
            Severity::Warning
        }
    }

    /// The same of the server of `tool`.
    fn severity_of(&self, tool: &ToolName) -> Severity {
        ids::parts(tool.as_str()).map_or(Severity::Warning, |(server, _)| self.severity(server))
    }

    /// What is said of a contract for several tools that is for none of those that are known. The
    /// tool that was meant is under another contract, or under none.
    fn matching_nothing(
        &self,
        name: &ToolName,
        pattern: &ToolPattern,
        spoken_of: &SpokenOf<'_>,
    ) -> Option<Problem> {
        let (server, own) = ids::parts(name.as_str())?;
        let mut known = self.names_of(server);
        let is_there = self.tools.keys().any(|tool| pattern.matches(tool.as_str()));
        if is_there || known.is_empty() {
            return None;
        }
        spoken_of.leave_out(server, &mut known);
        let near = nearest_match(own, &known)
            .map(|near| format!("did you mean `{}`?", full_name(server, near)));
        let (severity, message) = match self.by {
            KnownBy::Listing => {
                let message = format!("`{server}` lists no tool that `{name}` names");
                let severity = near
                    .as_ref()
                    .map_or(Severity::Warning, |_| self.severity(server));
                (severity, message)
            }
            KnownBy::Pins => {
                near.as_ref()?;
                let message = format!("no pin of `{server}` is of a tool that `{name}` names");
                (self.severity(server), message)
            }
        };
        Some(Problem {
            part: None,
            severity,
            path: vec!["contracts".to_owned(), name.to_string()],
            message,
            hint: Some(near.unwrap_or_else(|| {
                "compare the spelling with the server's listing, unless it waits for a tool to come"
                    .to_owned()
            })),
        })
    }

    /// The tool that a name or a pattern was nearly meant for, if it names none of its server.
    fn nearly(&self, name: &str) -> Option<ToolName> {
        let pattern = ToolPattern::compile(name, &mut Problems::default())?;
        let (server, own) = ids::parts(name).filter(|(server, _)| !server.contains('*'))?;
        let known = self.names_of(server);
        if self.tools.keys().any(|tool| pattern.matches(tool.as_str())) {
            return None;
        }
        let near = if pattern.is_wild() {
            nearest_match(own, &known)
        } else {
            nearest(own, &known)
        };
        near.map(|near| full_name(server, near))
    }

    /// The server's own names of its tools.
    fn names_of(&self, server: &str) -> Vec<String> {
        self.tools
            .keys()
            .filter_map(|tool| ids::parts(tool.as_str()))
            .filter(|(of, _)| *of == server)
            .map(|(_, own)| own.to_owned())
            .collect()
    }
}

fn full_name(server: &str, own: &str) -> ToolName {
    ToolName::of(&ServerName::new(server), own)
}

/// What does not fit any of the tools, and as a warning what does not fit some of them; which, is
/// said.
fn together(
    tools: &[(&ToolName, &Value)],
    judge: impl Fn(&ToolName, &Value) -> Vec<Problem>,
) -> Vec<Problem> {
    let mut found: Vec<(Problem, Vec<&str>)> = Vec::new();
    for (tool, schema) in tools {
        for problem in judge(tool, schema) {
            let known = found.iter_mut().find(|(known, _)| {
                (&known.path, &known.message) == (&problem.path, &problem.message)
            });
            match known {
                Some((_, named)) => named.push(tool.as_str()),
                None => found.push((problem, vec![tool.as_str()])),
            }
        }
    }
    let one = |(problem, named): (Problem, Vec<&str>)| {
        let severity = if named.len() == tools.len() {
            problem.severity
        } else {
            Severity::Warning
        };
        let more = named.len().saturating_sub(MAX_TOOLS_NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let shown: Vec<&str> = named.into_iter().take(MAX_TOOLS_NAMED).collect();
        Problem {
            severity,
            message: format!("of {}{more}: {}", shown.join(", "), problem.message),
            ..problem
        }
    };
    found.into_iter().map(one).collect()
}
