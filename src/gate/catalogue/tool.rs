//! A tool that can be called, and all of them at one time.

use crate::gate::catalogue::last_fit::LastFit;
use crate::gate::catalogue::variants::Variants;
use crate::guards::{Mode, ToolRules};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::readable::TextChanges;
use crate::mcp::tools::{Definition, hints_idempotent};
use crate::model::call::ToolCall;
use crate::model::ids::{ServerName, ToolName, parts};
use crate::schema::{Quarantine, Schema};
use crate::upstream::server::UpstreamServer;
use crate::upstream::servers::Servers;
use serde_json::json;
use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, OnceLock};

/// A tool that can be called.
pub struct Tool {
    /// As policies name it.
    pub name: ToolName,
    /// As its server defines it.
    pub definition: Arc<Definition>,
    /// Its input schema, compiled.
    pub schema: Schema,
    /// Its output schema, compiled for the first call that is checked by it.
    pub output: OnceLock<Option<Result<Schema, Quarantine>>>,
    /// SHA-256 of its definition.
    pub hash: String,
    /// Where it lives.
    pub server: Arc<UpstreamServer>,
    /// How it is shown, profile by profile (002-36).
    pub variants: Variants,
    /// Whether it can be held to its contract, as that was found last.
    pub fit: LastFit,
    /// Whether its server lists it: what it does not list is called in observe mode alone.
    pub is_listed: bool,
}

impl Tool {
    /// Whether its server says that a second call with the same arguments changes nothing.
    pub(in crate::gate) fn hints_idempotent(&self) -> bool {
        hints_idempotent(&self.definition.text)
    }

    /// A tool that no server lists, as observe mode calls it all the same: its server says whether
    /// there is one. Nothing is known of it but its names.
    pub(in crate::gate) fn unlisted(
        judged: &ToolCall,
        server: &Arc<UpstreamServer>,
    ) -> Option<Self> {
        let name = &judged.own_name;
        let input_schema = Text::of(&json!({ "type": "object" }));
        let schema = Schema::compile(&input_schema.value()).ok()?;
        let text = Text::members_of(&[
            ("name", Text::string(name)),
            ("inputSchema", input_schema.clone()),
        ]);
        let definition = Definition {
            name: name.clone(),
            shown: text.clone(),
            text,
            changes: TextChanges::default(),
            input_schema,
            header_params: Vec::new(),
        };
        Some(Self {
            name: judged.tool.clone(),
            definition: Arc::new(definition),
            schema,
            output: OnceLock::new(),
            hash: String::new(),
            server: server.clone(),
            variants: Variants::default(),
            fit: LastFit::default(),
            is_listed: false,
        })
    }

    /// Its answer as the agent may read it (step 16).
    pub fn shaped(&self, rules: &ToolRules, mode: Mode, answer: Message) -> Message {
        rules.results.shape(answer, mode, self.output())
    }

    /// Its output schema, if it has one.
    pub fn output(&self) -> Option<&Result<Schema, Quarantine>> {
        let compiled = || {
            self.definition
                .text
                .get("outputSchema")
                .map(|schema| Schema::compile(&schema.value()))
        };
        self.output.get_or_init(compiled).as_ref()
    }
}

/// All tools at one time.
#[derive(Default)]
pub struct Tools {
    /// Rises with every change.
    pub version: u64,
    /// Those that can be called now, by server in the configuration's order, then in the server's.
    pub all: Vec<Arc<Tool>>,
    /// Tools that are not offered: server, reason for metrics, tool and reason in words.
    pub quarantined: Vec<(ServerName, &'static str, String)>,
    /// Also those of servers that are down, as they were last.
    pub(in crate::gate) by_name: HashMap<ToolName, Arc<Tool>>,
    /// Those that another can be taken for.
    pub(in crate::gate) parted: HashSet<ToolName>,
    /// The servers that were tried at least once, whatever came of it.
    pub(in crate::gate) tried: HashSet<ServerName>,
    /// Those of them whose tools are known, though they may be down now.
    pub(in crate::gate) answered: HashSet<ServerName>,
}

impl Tools {
    /// Whether every server was tried at least once, and the tools of those that answered are here.
    pub fn settled(&self, servers: &Servers) -> bool {
        servers
            .all()
            .iter()
            .all(|server| self.tried.contains(&server.settings.name))
    }

    /// The tool of that name. Its server may be down: then nothing can be sent, and what was
    /// answered before can be told again (guarantees §4).
    pub fn find<N: Hash + Eq + ?Sized>(&self, name: &N) -> Option<&Arc<Tool>>
    where
        ToolName: Borrow<N>,
    {
        self.by_name.get(name)
    }

    /// Whether the tool's server has said what it has, and this is not among it. A server that has not answered yet
    /// may have it.
    pub(in crate::gate) fn lacks(&self, name: &ToolName) -> bool {
        let server = parts(name.as_str()).map(|(server, _)| ServerName::new(server));
        let is_known = server.is_some_and(|server| self.answered.contains(&server));
        is_known && self.find(name).is_none()
    }

    /// All that [`Tools::find`] finds, in no order.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.by_name.values()
    }

    /// Takes tools away.
    pub(in crate::gate) fn without(&mut self, names: &HashSet<ToolName>) {
        self.all.retain(|tool| !names.contains(&tool.name));
        self.by_name.retain(|name, _| !names.contains(name));
    }
}
