//! The tools that layers deny. A `deny` that names none, where one is called nearly so, denies
//! nothing: it fails open. A pattern may be for tools to come, so that it has to be nearer.

use super::{KnownBy, KnownTools, full_name};
use crate::guards::allowlist::listed::GROUP_PREFIX;
use crate::guards::allowlist::{Contracts, ToolPattern};
use crate::model::diagnostic::{Problem, Problems, Severity};
use crate::model::ids;
use crate::model::side::SideDoor;
use crate::model::spelling::{nearest, nearest_match};
use crate::policy::locate::YamlDocument;
use serde_json::Value;
use std::collections::BTreeSet;

/// The tools that a policy speaks of: none of them is what another name was meant to be.
pub(super) struct SpokenOf<'p> {
    pub(super) contracts: &'p Contracts,
    pub(super) denied: Vec<ToolPattern>,
}

impl SpokenOf<'_> {
    /// Takes the server's tools out of `known` that are denied, or have a contract of their own.
    pub(super) fn leave_out(&self, server: &str, known: &mut Vec<String>) {
        self.leave_out_denied(server, known);
        known.retain(|tool| {
            let name = full_name(server, tool);
            self.contracts.name_of(&name) != Some(&name)
        });
    }

    fn leave_out_denied(&self, server: &str, known: &mut Vec<String>) {
        known.retain(|tool| {
            let name = full_name(server, tool);
            let mut denied = self.denied.iter();
            !denied.any(|pattern| pattern.matches(name.as_str()))
        });
    }
}

impl KnownTools {
    /// What is said of a name or a pattern that is denied, if only a tool of nearly that name is
    /// there: it denies nothing.
    pub(super) fn judge_denied(
        &self,
        named: NamedTool,
        spoken_of: &SpokenOf<'_>,
    ) -> Option<Problem> {
        let pattern = named.pattern()?;
        let NamedTool { path, name, .. } = named;
        let (server, own) = ids::parts(&name).filter(|(server, _)| !server.contains('*'))?;
        let mut known = self.names_of(server);
        let is_known = |tool: &String| pattern.matches(full_name(server, tool).as_str());
        let is_contracted = spoken_of
            .contracts
            .names()
            .any(|tool| pattern.matches(tool.as_str()));
        let is_there = known.iter().any(is_known) || is_contracted;
        if self.by == KnownBy::Listing {
            spoken_of.leave_out_denied(server, &mut known);
        } else {
            spoken_of.leave_out(server, &mut known);
        }
        let near = if pattern.is_wild() {
            nearest_match(own, &known)
        } else {
            nearest(own, &known)
        };
        let near = near.filter(|_| !is_there)?;
        let is_open = pattern.is_wild() && extends(own, near) && {
            let near = full_name(server, near);
            spoken_of.contracts.name_of(&near) == Some(&near)
        };
        let near = full_name(server, near);
        let message = match self.by {
            KnownBy::Listing => format!("there is no tool `{name}`, so this denies nothing"),
            KnownBy::Pins => {
                format!("no pin is of a tool `{name}`, so this may deny nothing")
            }
        };
        let (severity, hint) = if is_open {
            let hint = format!("did you mean `{near}`? If not, it waits for a tool to come");
            (Severity::Warning, hint)
        } else {
            let hint = match self.by {
                KnownBy::Listing => format!("did you mean `{near}`?"),
                KnownBy::Pins => format!(
                    "did you mean `{near}`? If not, approve the tool, so that it is known: `toolgate pins approve`"
                ),
            };
            (self.severity(server), hint)
        };
        Some(Problem {
            part: None,
            severity,
            path,
            message,
            hint: Some(hint),
        })
    }
}

/// Whether a pattern is for the companions of a tool with this name: it goes on after it, or differs
/// by `_` or the `s` of several.
fn extends(pattern: &str, tool: &str) -> bool {
    let singular = |text: &str| -> String {
        let words = text.split(['_', '*']);
        words
            .map(|word| word.strip_suffix('s').unwrap_or(word))
            .collect()
    };
    pattern.starts_with(tool) || singular(pattern) == singular(tool)
}

/// A tool, or a pattern of tools, that a list names, and where.
pub(super) struct NamedTool {
    path: Vec<String>,
    name: String,
    /// Whether letters in another case are the same.
    any_case: bool,
}

impl NamedTool {
    /// Which tools it names; none if it is no pattern, which is told of where it is compiled.
    pub(super) fn pattern(&self) -> Option<ToolPattern> {
        let pattern = ToolPattern::compile(&self.name, &mut Problems::default())?;
        Some(pattern.in_any_case(self.any_case))
    }
}

/// What the `deny`s of a file name, and the groups of it that some file denies.
pub(super) fn denied_in(
    document: &YamlDocument,
    denied_groups: &BTreeSet<String>,
) -> Vec<NamedTool> {
    let mut found = Vec::new();
    let (layers, groups) = (&document.tree()["layers"], &document.tree()["groups"]);
    named_in(layers, false, &mut vec!["layers".to_owned()], &mut found);
    for (name, tools) in groups.as_object().into_iter().flatten() {
        if denied_groups.contains(name) {
            let mut path = vec!["groups".to_owned(), name.clone()];
            named_in(tools, false, &mut path, &mut found);
        }
    }
    found
}

/// The groups that are denied, in any file.
pub(super) fn denied_groups(documents: &[&YamlDocument]) -> BTreeSet<String> {
    let mut found = Vec::new();
    for document in documents {
        named_in(
            &document.tree()["layers"],
            false,
            &mut Vec::new(),
            &mut found,
        );
    }
    let group = |named: NamedTool| named.name.strip_prefix(GROUP_PREFIX).map(str::to_owned);
    found.into_iter().filter_map(group).collect()
}

/// The names and patterns in the `deny`s under `tree`. Those of side doors name no tools.
fn named_in(tree: &Value, any_case: bool, path: &mut Vec<String>, found: &mut Vec<NamedTool>) {
    match tree {
        Value::Object(members) => {
            let any_case = any_case || members.get("ignore_case") == Some(&Value::Bool(true));
            for (key, value) in members {
                if key != "allow" && SideDoor::ALL.iter().all(|door| door.word() != key) {
                    path.push(key.clone());
                    named_in(value, any_case, path, found);
                    path.pop();
                }
            }
        }
        Value::Array(names) => {
            for (index, name) in names.iter().enumerate() {
                if let Some(name) = name.as_str() {
                    found.push(NamedTool {
                        path: path.iter().cloned().chain([index.to_string()]).collect(),
                        name: name.to_owned(),
                        any_case,
                    });
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
