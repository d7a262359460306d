//! What the tool servers say of their tools: as it is pinned, or else as they list it now.

use super::searched::NameSearches;
use crate::cli::listed_tools::listed_but;
use crate::cli::runtime::runtime;
use crate::config::{self, Loaded};
use crate::guards::pins::INSTRUCTIONS_PIN_NAME;
use crate::guards::{arguments, pins};
use crate::mcp::json::Text;
use crate::mcp::pretty::plain;
use crate::model::ids::{self, ServerName, ToolName};
use crate::policy::live::LivePolicy;
use crate::schema::Schema;
use crate::schema::kinds::ELEMENT_STEP;
use anyhow::Context as _;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Names within each other that are compared with a schema's: deeper than what drafts bound.
const MAX_NAME_DEPTH: usize = 8;

/// The definitions that are known, by `server__tool`.
#[derive(Default)]
pub(super) struct Definitions {
    known: BTreeMap<String, KnownDefinition>,
    searches: NameSearches,
    /// What is to be said of it.
    pub(super) notes: Vec<String>,
}

/// A definition, and its input schema if that can be judged.
struct KnownDefinition {
    whole: Value,
    schema: Option<Schema>,
}

impl Definitions {
    /// Those that are pinned. Where none is, the servers are asked: they start and stop.
    pub(super) fn of(path: &Path, loaded: Loaded) -> anyhow::Result<Self> {
        let Loaded {
            config,
            reading,
            unset,
        } = loaded;
        let mut definitions = Self::default();
        let pinned = reading.policy.as_ref().map(|policy| &policy.pins);
        for (server, tool, pin) in pinned.into_iter().flat_map(pins::Rule::pins) {
            if tool != INSTRUCTIONS_PIN_NAME {
                definitions.add(server, tool, &pin.definition);
            }
        }
        if !definitions.known.is_empty() {
            return Ok(definitions);
        }
        let config = config.context("the configuration cannot be used")?;
        let again = config::reader(path.to_path_buf(), &config);
        let policy = LivePolicy::start(reading, again).context("the policy cannot be used")?;
        let listed = runtime()?.block_on(listed_but(config, &policy, unset))?;
        for tool in &listed.tools {
            let definition = &tool.definition;
            definitions.add(
                &tool.server.settings.name,
                &definition.name,
                &definition.text,
            );
        }
        for (server, why) in &listed.down {
            let note = format!(
                "{server} does not answer, and no pin tells of its tools: {}",
                plain(why)
            );
            definitions.notes.push(note);
        }
        Ok(definitions)
    }

    pub(super) fn add(&mut self, server: &ServerName, tool: &str, definition: &Text) {
        let whole = definition.value();
        let known = KnownDefinition {
            schema: Schema::compile(&whole["inputSchema"]).ok(),
            whole,
        };
        self.known
            .insert(ToolName::of(server, tool).to_string(), known);
    }

    /// The definition of `tool`, or what stands for one that is not known.
    pub(super) fn whole(&self, tool: &str) -> Value {
        let own = ids::parts(tool).map_or(tool, |(_, own)| own);
        self.known
            .get(tool)
            .map_or_else(|| json!({ "name": own }), |known| known.whole.clone())
    }

    /// The input schema of `tool`, if it is known and can be judged.
    pub(super) fn input_schema(&self, tool: &str) -> Option<Value> {
        self.known.get(tool)?.schema.as_ref().map(Schema::source)
    }

    /// Whether the tool takes these arguments under a contract that constrains them: it has all that
    /// they name, at any depth. Of a tool that is not known nothing speaks against it.
    pub(super) fn takes(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        let Some(schema) = self.known.get(tool).and_then(|known| known.schema.as_ref()) else {
            return true;
        };
        let arguments = Value::Object(arguments.clone());
        let excludes = |path: &[String]| {
            let search = || schema.names().exclude(path);
            self.searches.excludes(tool, path, search)
        };
        has_all(&excludes, &mut Vec::new(), &arguments)
            && arguments::Rule::default().check(schema, &arguments).is_ok()
    }

    /// How many names were looked for in schemas.
    #[cfg(test)]
    pub(super) fn searched(&self) -> usize {
        self.searches.count()
    }

    /// The names of a server's tools that are known.
    pub(super) fn of_server<'a>(&'a self, server: &'a str) -> impl Iterator<Item = &'a str> {
        self.known
            .keys()
            .map(String::as_str)
            .filter(move |name| ids::parts(name).is_some_and(|(of, _)| of == server))
    }
}

/// Whether nothing at `path` names what the schema `excludes`.
fn has_all(excludes: &dyn Fn(&[String]) -> bool, path: &mut Vec<String>, value: &Value) -> bool {
    if path.len() == MAX_NAME_DEPTH {
        return true;
    }
    let mut is_there = |step: &str, below: &Value, is_name: bool| {
        path.push(step.to_owned());
        let is_there = !(is_name && excludes(path)) && has_all(excludes, path, below);
        path.pop();
        is_there
    };
    match value {
        Value::Object(members) => members
            .iter()
            .all(|(name, member)| is_there(name, member, true)),
        Value::Array(elements) => elements
            .iter()
            .all(|element| is_there(ELEMENT_STEP, element, false)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
