//! The drafted files as texts: for each server contracts, and a pack that tries them. The same calls
//! give the same texts.

use super::arguments::DraftedArguments;
use super::bounds::learned_from;
use super::definitions::Definitions;
use super::observed::{LearnedCalls, ObservedCaller, ObservedTool};
use crate::cli::contract_draft::{ContractDraft, UNDO_WORDS_COMMENT, asks};
use crate::cli::ledger::recorded::APPROVAL_CODES;
use crate::cli::yaml::{flow, key, quoted};
use crate::mcp::pretty::plain;
use crate::model::ids;
use crate::policy::pack::EXPECT_ALLOW;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const CONTRACTS_HEADER: &str = "\
# Drafted by `toolgate suggest` from recorded calls. It lets through what was recorded and little else: read each contract, and ask of each
# bound whether it is what you mean. What a server says of its tools is a claim that nobody has checked: correct `actions`, and say who may call.
# How: policies/README.md of toolgate, `toolgate schema policy`.
";
const PACK_HEADER: &str = "\
# Drafted by `toolgate suggest`: calls as they were recorded, and calls outside of the drafted bounds. Values are recorded ones: look before you
# show them to others.
";
/// Characters of a sample's name: what a pack may have.
const SAMPLE_NAME_CHARS_MAX: usize = 200;
/// Names of tools in a line.
const MAX_TOOLS_TOLD: usize = 32;
/// What refuses arguments outside of the bounds.
const OUTSIDE_CODE: &str = "schema_invalid";

/// What is drafted of one server.
pub(super) struct ServerDraft {
    pub(super) server: String,
    /// The policy file.
    pub(super) contracts: String,
    /// The test pack.
    pub(super) pack: String,
    /// How many contracts, and samples.
    pub(super) counts: (usize, usize),
}

/// The tools of one server.
struct ServerTools<'a> {
    server: &'a str,
    tools: Vec<(&'a str, &'a ObservedTool)>,
    definitions: &'a Definitions,
}

/// What is drafted, server by server.
pub(super) fn drafts(observed: &LearnedCalls, definitions: &Definitions) -> Vec<ServerDraft> {
    let mut servers: BTreeMap<&str, ServerTools<'_>> = BTreeMap::new();
    for (name, tool) in &observed.tools {
        let Some((server, _)) = ids::parts(name) else {
            continue;
        };
        let of = servers.entry(server).or_insert_with(|| ServerTools {
            server,
            tools: Vec::new(),
            definitions,
        });
        of.tools.push((name, tool));
    }
    servers.into_values().map(|tools| tools.draft()).collect()
}

impl ServerTools<'_> {
    fn draft(&self) -> ServerDraft {
        let callers = callers(&self.tools);
        let mut samples = Samples::default();
        let mut contracts = [
            CONTRACTS_HEADER,
            UNDO_WORDS_COMMENT,
            &self.uncalled(),
            "contracts:\n",
        ]
        .concat();
        for (name, tool) in &self.tools {
            let schema = self.definitions.input_schema(name);
            let arguments = DraftedArguments::of(tool, schema.as_ref().unwrap_or(&Value::Null));
            let definition = self.definitions.whole(name);
            let draft = ContractDraft {
                name,
                server: self.server,
                definition: &definition,
                notes: &notes(tool, schema.is_some()),
                arguments: &arguments.text(),
            };
            draft.push(&mut contracts);
            samples.add(
                name,
                tool,
                &arguments,
                &SampleCallers {
                    callers: &callers,
                    asks: asks(&definition),
                },
            );
        }
        let (text, count) = (samples.text, samples.count);
        ServerDraft {
            server: self.server.to_owned(),
            contracts,
            pack: self.pack(&callers, &text),
            counts: (self.tools.len(), count),
        }
    }

    /// The tools that nobody called.
    fn uncalled(&self) -> String {
        let called: BTreeSet<&str> = self.tools.iter().map(|(name, _)| *name).collect();
        let all = self.definitions.of_server(self.server);
        let uncalled: Vec<String> = all
            .filter(|name| !called.contains(name))
            .map(plain)
            .collect();
        if uncalled.is_empty() {
            return String::new();
        }
        let more = uncalled.len().saturating_sub(MAX_TOOLS_TOLD);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let shown = uncalled
            .into_iter()
            .take(MAX_TOOLS_TOLD)
            .collect::<Vec<_>>()
            .join(", ");
        format!(
            "# No call of these was learned from, so they have no contract and are closed in enforce mode: {shown}{more}\n"
        )
    }

    fn pack(&self, callers: &BTreeMap<ObservedCaller, String>, samples: &str) -> String {
        let mut text = PACK_HEADER.to_owned();
        let name = format!("{} as recorded", self.server);
        let file = format!("../{}.yaml", self.server);
        let _ = writeln!(
            text,
            "pack: {}\npolicies: [{}]",
            quoted(&name),
            quoted(&file)
        );
        let schemas = self
            .tools
            .iter()
            .map(|(name, _)| Some((*name, self.definitions.input_schema(name)?)));
        // A server that lists some of its tools has no others.
        if let Some(schemas) = schemas.collect::<Option<Vec<_>>>() {
            let _ = writeln!(text, "servers:\n  {}:\n    tools:", key(self.server));
            for (name, schema) in schemas {
                let own = ids::parts(name).map_or(name, |(_, own)| own);
                let _ = writeln!(
                    text,
                    "      - {}",
                    flow(&json!({ "name": own, "inputSchema": schema }))
                );
            }
        }
        text.push_str("callers:\n");
        for (caller, name) in callers {
            let ObservedCaller {
                agent,
                tenant,
                roles,
            } = caller;
            let mut settings = json!({ "agent": agent, "roles": roles });
            if let Some(tenant) = tenant {
                settings["tenant"] = json!(tenant);
            }
            let _ = writeln!(text, "  {}: {}", key(name), flow(&settings));
        }
        text + "samples:\n" + samples
    }
}

/// What is to be known of a contract.
fn notes(tool: &ObservedTool, is_known: bool) -> Vec<String> {
    let mut notes = vec![format!(
        "drafted {}",
        learned_from(tool.calls, tool.agents.len())
    )];
    if !is_known {
        notes.push(
            "what its server says of it is not known here: neither a pin nor the server told it"
                .to_owned(),
        );
    }
    let named = tool
        .arguments
        .named
        .iter()
        .filter(|(_, values)| values.has_reference);
    notes.extend(named.map(|(name, _)| {
        let name = quoted(name);
        format!("a reference to a secret was given in {name}: write its place in `secrets` if it may stand there")
    }));
    notes
}

/// Those who called, each with a name for the pack.
fn callers(tools: &[(&str, &ObservedTool)]) -> BTreeMap<ObservedCaller, String> {
    let samples = tools.iter().flat_map(|(_, tool)| &tool.samples);
    let all: BTreeSet<&ObservedCaller> = samples.map(|sample| &sample.caller).collect();
    let mut called = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for caller in all {
        let numbered = (2..).map(|number| format!("{}-{number}", caller.agent));
        let mut names = std::iter::once(caller.agent.clone()).chain(numbered);
        if let Some(name) = names.find(|name| taken.insert(name.clone())) {
            called.insert(caller.clone(), name);
        }
    }
    if called.is_empty() {
        let somebody = ObservedCaller {
            agent: "somebody".to_owned(),
            tenant: None,
            roles: Vec::new(),
        };
        called.insert(somebody, "somebody".to_owned());
    }
    called
}

/// Who asks, and whether a person is asked.
struct SampleCallers<'a> {
    callers: &'a BTreeMap<ObservedCaller, String>,
    asks: bool,
}

/// The samples of a pack.
#[derive(Default)]
struct Samples {
    text: String,
    count: usize,
}

impl Samples {
    /// Those of one tool: what was recorded passes, what is outside of the bounds does not.
    fn add(
        &mut self,
        name: &str,
        tool: &ObservedTool,
        arguments: &DraftedArguments,
        asking: &SampleCallers<'_>,
    ) {
        let anybody = asking.callers.values().next().map_or("", String::as_str);
        let approved = asking.asks.then(|| json!({ "approved": true }));
        for (index, sample) in tool.samples.iter().enumerate() {
            let caller = asking
                .callers
                .get(&sample.caller)
                .map_or(anybody, String::as_str);
            let (given, said) = (Value::from(sample.arguments.clone()), sample.because());
            let title = format!("{name}: recorded call {}", index + 1);
            self.push(&[
                ("name", title.into()),
                ("caller", caller.into()),
                ("tool", name.into()),
                ("arguments", given.clone()),
                ("state", approved.clone().unwrap_or_default()),
                ("expect", EXPECT_ALLOW.into()),
                ("because", said.into()),
            ]);
            if asking.asks && index == 0 {
                self.push(&[
                    ("name", format!("{name}: a person is asked").into()),
                    ("caller", caller.into()),
                    ("tool", name.into()),
                    ("arguments", given),
                    ("expect", APPROVAL_CODES[0].into()),
                ]);
            }
        }
        let first = tool.samples.first();
        let nothing = Map::new();
        let given = first.map_or(&nothing, |sample| &sample.arguments);
        let caller = first.and_then(|sample| asking.callers.get(&sample.caller));
        for (index, outside) in arguments.outside(given).into_iter().enumerate() {
            self.push(&[
                (
                    "name",
                    format!("{name}: outside {}, {}", index + 1, outside.what).into(),
                ),
                ("caller", caller.map_or(anybody, String::as_str).into()),
                ("tool", name.into()),
                ("arguments", outside.arguments.into()),
                ("expect", OUTSIDE_CODE.into()),
            ]);
        }
    }

    /// One sample; what is null is left out.
    fn push(&mut self, members: &[(&str, Value)]) {
        let members = members.iter().filter(|(_, value)| !value.is_null());
        for (index, (name, value)) in members.enumerate() {
            let mark = if index == 0 { "- " } else { "  " };
            let value = match value.as_str().filter(|_| *name == "name") {
                Some(title) => quoted(
                    &title
                        .chars()
                        .take(SAMPLE_NAME_CHARS_MAX)
                        .collect::<String>(),
                ),
                None => flow(value),
            };
            let _ = writeln!(self.text, "  {mark}{name}: {value}");
        }
        self.count += 1;
    }
}
