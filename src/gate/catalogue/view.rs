//! How a tool is shown to a caller, and how its call is read back: what the model takes decides the
//! one, the tool's own schema the other (policy §3; guarantees §2, step 3).

use crate::gate::Gate;
use crate::gate::catalogue::tool::Tool;
use crate::gate::catalogue::tool::Tools;
use crate::gate::catalogue::variants::How;
use crate::gate::catalogue::variants::MadeVariant;
use crate::gate::catalogue::variants::Variant;
use crate::gate::steps::placing::with_key;
use crate::guards::allowlist::Admitted;
use crate::guards::idempotency::Shown;
use crate::mcp::json::Text;
use crate::model::caller::Caller;
use crate::model::ids::{ServerName, ToolName};
use crate::model::reads::{Profile, SchemaReader};
use crate::model::scope::Scope;
use crate::policy::Policy;
use crate::schema::limits;
use crate::schema::normalize::{ArgumentMapping, Losses, NormalizeError, normalize};
use crate::upstream::links::Links;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Tables of names that are kept.
const TABLES: usize = 64;

impl How {
    fn of(policy: &Policy, caller: &Caller, tool: &Tool) -> Self {
        let admitted = policy.allowlist.admit(caller, &tool.name).ok();
        let rules = admitted.as_ref().map(Admitted::rules);
        let key = rules.and_then(|rules| rules.idempotency.as_ref()?.shown(&tool.schema));
        Self {
            key,
            reshaped: rules.is_some_and(|rules| rules.results.may_reshape()),
        }
    }

    /// The definition as its server wrote it, as far as it can be read, without an output schema
    /// that the contract's rules for results may break (protocol §5.1).
    fn written(self, tool: &Tool) -> Text {
        let shown = &tool.definition.shown;
        let members = shown
            .object()
            .filter(|members| self.reshaped && members.get("outputSchema").is_some());
        let Some(mut members) = members else {
            return shown.clone();
        };
        members.remove("outputSchema");
        members.text()
    }
}

/// A definition as its server wrote it, with the argument for the key where the contract shows one,
/// in a profile.
pub(crate) fn variant_of(
    written: &Text,
    key: Option<Shown>,
    profile: Profile,
) -> Result<Variant, NormalizeError> {
    let definition = key.map_or_else(|| written.clone(), |key| with_key(written, key));
    if profile == Profile::None {
        return Ok(Variant {
            definition,
            back: ArgumentMapping::default(),
            losses: Losses::default(),
        });
    }
    let schema = definition
        .get("inputSchema")
        .map(|schema| schema.value())
        .unwrap_or_default();
    let normal = normalize(&schema, profile)?;
    let mut members = definition.object().unwrap_or_default();
    members.set("inputSchema", Text::of(&normal.schema));
    Ok(Variant {
        definition: members.text(),
        back: normal.back,
        losses: normal.losses,
    })
}

/// Names that are shown otherwise than the tools' own: shown, and the tool; none where two tools
/// would share it.
type NameTable = HashMap<String, Option<ToolName>>;

/// The tables already made, each for one state of the tools.
#[derive(Default)]
pub(crate) struct Names(Mutex<HashMap<(Scope, SchemaReader), OfTools>>);

/// The version of the tools, and their table.
type OfTools = (u64, Arc<NameTable>);

impl Names {
    fn table(&self, tools: &Tools, scope: &Scope, reads: SchemaReader) -> Arc<NameTable> {
        let mut tables = self.0.lock();
        if let Some((_, table)) = tables
            .get(&(scope.clone(), reads))
            .filter(|(version, _)| *version == tools.version)
        {
            return table.clone();
        }
        let table = Arc::new(table(tools, scope, reads));
        tables.retain(|_, (version, _)| *version == tools.version);
        if tables.len() < TABLES {
            tables.insert((scope.clone(), reads), (tools.version, table.clone()));
        }
        table
    }
}

fn table(tools: &Tools, scope: &Scope, reads: SchemaReader) -> NameTable {
    let alphabet = limits::of(reads.profile).tool_name.within(&reads.caps);
    let mut table = NameTable::new();
    for tool in tools
        .known()
        .filter(|tool| scope.holds(&tool.server.settings.name))
    {
        let name = scope.name(&tool.server.settings.name, &tool.definition.name);
        if alphabet.takes(&name) {
            continue;
        }
        let shown = alphabet.fit(&name);
        let taken = tools.find(&scope.tool(&shown).0).is_some() || table.contains_key(&shown);
        table.insert(shown, (!taken).then(|| tool.name.clone()));
    }
    table
}

/// A tool in a listing.
pub(in crate::gate) struct Listed {
    pub(in crate::gate) tool: Arc<Tool>,
    pub(in crate::gate) name: String,
    pub(in crate::gate) definition: Text,
}

/// Who asks for the list, and where.
#[derive(Clone, Copy)]
pub struct ListAsked<'a> {
    /// The agent.
    pub caller: &'a Caller,
    /// The servers behind the address that it asks.
    pub scope: &'a Scope,
    /// What the agent reaches; none for an agent that only is supposed.
    pub links: Option<&'a Links>,
}

impl Gate {
    /// The tool as this caller is shown it, or why it is not.
    pub(in crate::gate) fn variant(
        &self,
        policy: &Policy,
        caller: &Caller,
        tool: &Tool,
    ) -> MadeVariant {
        let (profile, how) = (caller.reads.profile, How::of(policy, caller, tool));
        let fit = || variant_of(&how.written(tool), how.key, profile).map(Arc::new);
        if profile == Profile::None {
            return fit();
        }
        let (made, known) = tool.variants.get((profile, how), fit);
        self.metrics.normalized(known);
        made
    }

    /// Of the tools that a caller may use those that its model and its program take, and the
    /// others.
    pub(in crate::gate) fn fitting(
        &self,
        policy: &Policy,
        tools: &Tools,
        asked: ListAsked<'_>,
        visible: Vec<&Arc<Tool>>,
    ) -> (Vec<Listed>, Vec<(Arc<Tool>, NormalizeError)>) {
        let ListAsked { caller, scope, .. } = asked;
        let reads = caller.reads;
        let alphabet = limits::of(reads.profile).tool_name.within(&reads.caps);
        let most = limits::of(reads.profile)
            .tools
            .unwrap_or(usize::MAX)
            .min(reads.caps.tools);
        let table = if reads.is_all() {
            Arc::default()
        } else {
            self.listings.names.table(tools, scope, reads)
        };
        let (mut listed, mut hidden) = (Vec::new(), Vec::new());
        for tool in visible {
            let own = scope.name(&tool.server.settings.name, &tool.definition.name);
            let stays = reads.is_all() || alphabet.takes(&own);
            let name = if stays { own } else { alphabet.fit(&own) };
            // Its own name is no other tool's, whichever would be fitted to it.
            let is_free = stays || table.get(&name).is_none_or(Option::is_some);
            let variant = if is_free {
                self.variant(policy, caller, tool)
            } else {
                Err(NormalizeError::NameClash)
            };
            match variant {
                Ok(_) if listed.len() >= most => {
                    hidden.push((tool.clone(), NormalizeError::TooManyTools { most }));
                }
                Ok(variant) => {
                    listed.push(Listed {
                        tool: tool.clone(),
                        name,
                        definition: variant.definition.clone(),
                    });
                }
                Err(reason) => hidden.push((tool.clone(), reason)),
            }
        }
        (listed, hidden)
    }

    /// The tool that `name` means to this caller: as policies name it, where it would live, and its
    /// name there.
    pub fn named(
        &self,
        asked: ListAsked<'_>,
        name: &str,
    ) -> (ToolName, Option<ServerName>, String) {
        let ListAsked { caller, scope, .. } = asked;
        // Nearly every call names a tool that is there: its names are, too.
        if let Some(tool) = scope.look_up(name, |full| self.tool_of(asked.links, full)) {
            return (
                tool.name.clone(),
                Some(tool.server.settings.name.clone()),
                tool.definition.name.clone(),
            );
        }
        let written = scope.tool(name);
        if caller.reads.is_all() {
            return written;
        }
        let tools = self.tools_of(asked.links);
        if tools.find(&written.0).is_some() {
            return written;
        }
        let table = self.listings.names.table(&tools, scope, caller.reads);
        let meant = table
            .get(name)
            .and_then(Option::as_ref)
            .and_then(|name| tools.find(name));
        match meant {
            Some(tool) => (
                tool.name.clone(),
                Some(tool.server.settings.name.clone()),
                tool.definition.name.clone(),
            ),
            None => written,
        }
    }

    /// Whether `name` is that of a tool of whose arguments none travels as a header, as its server has it,
    /// with the server's where that is needed: as most calls name most tools.
    pub fn mirrors_none(&self, asked: ListAsked<'_>, name: &str) -> bool {
        let find = |full: &str| self.tool_of(asked.links, full);
        let tool = asked.scope.look_up(name, find);
        tool.is_some_and(|tool| tool.definition.header_params.is_empty())
    }

    /// `arguments` as the tool's own schema means them, and whether its caller is told of arguments
    /// that travel as headers.
    pub fn declared(&self, caller: &Caller, tool: &Tool, arguments: Value) -> (Value, bool) {
        if caller.reads.profile == Profile::None {
            return (arguments, true);
        }
        let read = self.variant(&self.policy.current(), caller, tool).ok();
        let read = read.and_then(|variant| variant.back.read(&arguments).ok().flatten());
        let keep = limits::of(caller.reads.profile).keep.as_ref();
        (read.unwrap_or(arguments), keep.is_none())
    }
}
