//! Files → what they say, compiled.

use super::compiler::{CompiledContract, Compiler, about};
use super::content::PolicyContent;
use super::contract::{self, ContractEnvironment};
use super::files::files;
use super::{fence_headers, names, references};
use crate::guards::allowlist::layers::Layers;
use crate::guards::allowlist::written::LayerEnvironment;
use crate::guards::{self, Mode, Section, allowlist, budget, identity, repetition, secrets};
use crate::model::diagnostic::{Diagnostic, Problems, Severity};
use crate::model::ids::{self, AgentId, ServerName, ToolName};
use crate::policy::breakers::{BreakerSettings, MAX_BREAKERS};
use crate::policy::file::{self, Contract, PolicyFile};
use crate::policy::locate::{self, YamlDocument};
use crate::policy::sources::SourceKind;
use crate::policy::{layers, pins, shape};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Compiler {
    /// Reads the pin file. Its digests are part of what the policy says.
    pub(super) fn pins(
        &mut self,
        source: &pins::PinSource,
        content: &mut PolicyContent,
    ) -> guards::pins::Rule {
        let mut found = pins::read(&source.file, &self.servers);
        content.bytes([1, u8::from(found.is_broken())]);
        content.bytes(Sha256::digest(&found.text));
        if !found.text.is_empty() {
            content.keep(&source.file, SourceKind::Pins, &found.text);
        }
        self.diagnostics.append(&mut found.diagnostics);
        let digests = found
            .pins
            .iter()
            .map(|((server, tool), pin)| json!([server, tool, pin.digest]));
        content.say(&json!([source.require, digests.collect::<Vec<_>>()]));
        found.into_rule(source.require)
    }

    /// Reads the policy files under `paths`.
    pub(super) fn read(&mut self, paths: &[PathBuf], content: &mut PolicyContent) {
        let before = self.diagnostics.len();
        let found = files(paths, &mut self.diagnostics);
        let is_error = |one: &Diagnostic| one.severity == Severity::Error;
        self.is_complete &= !self.diagnostics[before..].iter().any(is_error);
        for path in found {
            let open = locate::too_open(&path);
            // A right that is taken away or given changes what the file is worth, though not a byte
            // of it.
            content.bytes([u8::from(!open.is_empty())]);
            self.diagnostics.extend(open);
            let (document, unreadable) = YamlDocument::read_through(&path);
            self.diagnostics.extend(unreadable);
            self.is_complete &= document.as_ref().is_some_and(YamlDocument::is_complete);
            if let Some(document) = document {
                content.bytes(Sha256::digest(document.text()));
                content.keep(&path, SourceKind::Policy, document.text());
                content.say(document.tree());
                self.add(document);
            }
        }
    }

    fn add(&mut self, mut document: YamlDocument) {
        let mut problems = Problems::default();
        let mut tree = document.tree().clone();
        file::take_later(&mut tree, &mut problems);
        let mut written = None;
        let read = file::read(&tree, &mut problems);
        self.is_complete &= read.is_some();
        if let Some(PolicyFile {
            contracts,
            layers,
            groups,
            budgets,
            repetition,
            breakers,
        }) = read
        {
            problems.under("contracts", |problems| {
                for (name, contract) in contracts {
                    problems.under(name.clone(), |problems| {
                        self.add_contract(&document, &name, &contract, problems);
                    });
                }
            });
            problems.under(budget::TaskSettings::NAME, |problems| {
                let any = budgets.agent.keys().filter(|_| self.any_agent);
                let agents = self.agents.iter().cloned();
                let agents: Vec<AgentId> =
                    agents.chain(any.map(|name| AgentId::new(name))).collect();
                judge_budgets(&budgets, &agents, &self.groups, problems);
                self.tasks.extend(budgets.compile(problems));
            });
            if let Some(written) = repetition {
                problems.under(repetition::Settings::NAME, |problems| {
                    self.add_repetition(written, problems);
                });
            }
            problems.under("breakers", |problems| {
                self.add_breakers(&breakers, problems);
            });
            written = Some(layers::WrittenLayers { layers, groups });
        }
        document.told_of(problems.stand_ins());
        let found = problems
            .into_found()
            .into_iter()
            .map(|problem| document.locate(names::tell(problem)))
            // What could not be read is not missing, nor is its key without a value.
            .filter(|found| !found.message.starts_with("missing") || !document.is_torn(found.line))
            .filter(|found| !document.is_left_empty(found));
        self.diagnostics.extend(found);
        self.written
            .extend(written.map(|written| (document, written)));
    }

    /// The layers of all files, once they are read: a group may stand in another file than the
    /// layer that names it.
    pub(super) fn layers(
        &mut self,
        mode: Mode,
        identity: &identity::Rule,
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
                if ids::server_of(tool, &self.servers).is_none() {
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

    fn add_breakers(&mut self, written: &[BreakerSettings], problems: &mut Problems) {
        for (index, one) in written.iter().enumerate() {
            let compiled = problems.under(index.to_string(), |problems| {
                one.compile(&self.servers, problems)
            });
            self.breakers.push(compiled);
        }
        if self.breakers.len() > MAX_BREAKERS {
            problems.error(
                format!("there are more than {MAX_BREAKERS}"),
                "name several tools in one",
            );
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
        let server = ids::server_of(name, &self.servers);
        let timeout = server
            .and_then(|server| self.timeouts.get(server))
            .copied()
            .unwrap_or_default();
        let begins = document.place_of(&["contracts".to_owned(), name.to_owned()]);
        let around = ContractEnvironment {
            servers: &self.servers,
            timeout,
            roles: &self.roles,
            models: &self.models,
            written: super::content::digest(&document.tree()["contracts"][name]),
            place: &begins,
        };
        let rules = Arc::new(contract::compile(contract, around, problems));
        if let (Some(server), Some((_, tool))) = (server, ids::parts(name)) {
            fence_headers::judge(&rules, self.fences.get(server), problems);
            problems.under(secrets::Settings::NAME, |problems| {
                rules.secrets.judge(server, tool, &self.secrets, problems);
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

/// Judges the names in `budgets`: with a typo they would limit nobody.
fn judge_budgets(
    budgets: &budget::TaskSettings,
    agents: &[AgentId],
    groups: &[String],
    problems: &mut Problems,
) {
    let agents: Vec<String> = agents.iter().map(ToString::to_string).collect();
    let named: [(&str, Vec<&String>, &[String]); 2] = [
        ("agent", budgets.agent.keys().collect(), &agents),
        ("group", budgets.group.keys().collect(), groups),
    ];
    for (kind, names, known) in named {
        problems.under(kind, |problems| {
            for name in names.into_iter().filter(|name| !known.contains(name)) {
                let message = match kind {
                    "agent" => format!("no caller is the agent `{name}`"),
                    _ => format!("no caller has the group `{name}`"),
                };
                problems.under(name.clone(), |problems| {
                    problems.error(message, shape::suggest(name, known));
                });
            }
        });
    }
}
