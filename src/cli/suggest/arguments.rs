//! The section `arguments` of a drafted contract, and calls that it refuses.

use super::bounds::rounds::widened_up;
use super::bounds::{DraftedBound, learned_from, of};
use super::observed::ObservedTool;
use crate::cli::yaml::{flow, key};
use crate::mcp::pretty::plain;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Names of arguments that are told to be unused.
const MAX_NAMES_TOLD: usize = 12;
/// Calls of one tool that have to be refused, at most.
const MAX_OUTSIDE_CALLS: usize = 16;
/// The name of an argument that no tool has.
const NEVER_GIVEN: &str = "never_given";

/// What is drafted of a tool's arguments.
pub(super) struct DraftedArguments {
    /// Every argument that was given, also without a bound.
    members: Vec<(String, DraftedBound)>,
    /// How many may come, where not all of their names are told; else no others may.
    most: Option<usize>,
    /// From what it was learned.
    words: String,
    /// Those that the tool has and nobody gave.
    unused: Vec<String>,
}

/// A call that the draft refuses.
pub(super) struct OutsideCall {
    /// What is wrong with it.
    pub(super) what: String,
    pub(super) arguments: Map<String, Value>,
}

impl DraftedArguments {
    /// By what was learned of `tool`, whose own schema is `said`.
    pub(super) fn of(tool: &ObservedTool, said: &Value) -> Self {
        let learned = &tool.arguments;
        let member = |(name, values): (&String, _)| {
            (name.clone(), of(values, name, &said["properties"][name]))
        };
        let names = said["properties"].as_object().into_iter().flatten();
        let unused = names
            .map(|(name, _)| name)
            .filter(|name| !learned.named.contains_key(*name));
        let most = usize::try_from(widened_up(as_number(learned.most))).unwrap_or(usize::MAX);
        Self {
            members: learned.named.iter().map(member).collect(),
            most: learned.has_others.then_some(most),
            words: learned_from(tool.calls, tool.agents.len()),
            unused: unused.cloned().collect(),
        }
    }

    /// As one schema.
    pub(super) fn schema(&self) -> Map<String, Value> {
        let member = |(name, bound): &(String, DraftedBound)| (name.clone(), bound.schema());
        let members: Map<String, Value> = self.members.iter().map(member).collect();
        let mut schema = Map::new();
        schema.insert(
            "additionalProperties".to_owned(),
            self.most.is_some().into(),
        );
        if let Some(most) = self.most {
            schema.insert("maxProperties".to_owned(), most.into());
        }
        if !members.is_empty() {
            schema.insert("properties".to_owned(), members.into());
        }
        schema
    }

    /// In lines of a contract.
    pub(super) fn text(&self) -> String {
        let mut text = "    arguments:\n".to_owned();
        let _ = match self.most {
            None => writeln!(
                text,
                "      additionalProperties: false   # {}{}",
                self.words,
                self.unused()
            ),
            Some(most) => writeln!(
                text,
                "      additionalProperties: true   # not all names were told; {}\n      maxProperties: {most}",
                self.words
            ),
        };
        push_members(&mut text, &self.members, 6);
        text
    }

    /// What nobody gave, and what is therefore refused.
    fn unused(&self) -> String {
        if self.unused.is_empty() {
            return String::new();
        }
        let shown = self
            .unused
            .iter()
            .take(MAX_NAMES_TOLD)
            .map(|name| plain(name));
        let mut shown: Vec<String> = shown.collect();
        let more = self.unused.len() - shown.len();
        if more > 0 {
            shown.push(format!("{more} more"));
        }
        format!("; never given: {}", shown.join(", "))
    }

    /// Calls that it refuses: `given` with one thing that is wrong. At least one.
    pub(super) fn outside(&self, given: &Map<String, Value>) -> Vec<OutsideCall> {
        let mut calls = vec![self.unnamed(given)];
        for (name, bound) in &self.members {
            for (what, value) in &bound.outside {
                let mut arguments = given.clone();
                arguments.insert(name.clone(), value.clone());
                calls.push(OutsideCall {
                    what: format!("`{name}` {what}"),
                    arguments,
                });
            }
        }
        calls.truncate(MAX_OUTSIDE_CALLS);
        calls
    }

    /// With arguments that nobody gave.
    fn unnamed(&self, given: &Map<String, Value>) -> OutsideCall {
        let mut arguments = given.clone();
        let is_there = |name: &String| self.members.iter().any(|(known, _)| known == name);
        let names = (0..).map(|index| match index {
            0 => NEVER_GIVEN.to_owned(),
            _ => format!("{NEVER_GIVEN}_{index}"),
        });
        for name in names
            .filter(|name| !is_there(name))
            .take(self.most.unwrap_or(0) + 1)
        {
            arguments.insert(name, true.into());
        }
        OutsideCall {
            what: match self.most {
                None => "an argument that was never given".to_owned(),
                Some(most) => format!("more than {most} arguments"),
            },
            arguments,
        }
    }
}

/// Each on a line of its own, with where it comes from.
fn push_members(text: &mut String, members: &[(String, DraftedBound)], indent: usize) {
    if members.is_empty() {
        return;
    }
    let _ = writeln!(text, "{:indent$}properties:", "");
    for (name, bound) in members {
        let (name, deeper) = (key(name), indent + 2);
        if bound.members.is_empty() {
            let schema = flow(&bound.schema());
            let _ = writeln!(text, "{:deeper$}{name}: {schema}   # {}", "", bound.words);
            continue;
        }
        let _ = writeln!(text, "{:deeper$}{name}:   # {}", "", bound.words);
        for (keyword, value) in &bound.keywords {
            let _ = writeln!(text, "{:1$}{keyword}: {2}", "", deeper + 2, flow(value));
        }
        push_members(text, &bound.members, deeper + 2);
    }
}

fn as_number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}
