//! The drafted files as texts: for each server contracts, and a pack that tries them; several of each
//! where one would be too large. The same calls give the same texts.

use super::definitions::Definitions;
use super::drafted::DraftedTool;
use super::samples::{PackCallers, PackSamples};
use crate::cli::contract_draft::UNDO_WORDS_COMMENT;
use crate::cli::yaml::{flow, key, quoted};
use crate::mcp::pretty::plain;
use crate::model::ids;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What each draft begins with.
pub(super) const DRAFT_MARK: &str = "# Drafted by `toolgate suggest`";
const CONTRACTS_HEADER: &str = "\
# Drafted by `toolgate suggest` from recorded calls: each of those that it learned from passes, and what a bound says is refused. Read each
# contract, and ask of each bound whether it is what you mean. What a server says of its tools is a claim that nobody has checked: correct
# `actions`, and say who may call. How: policies/README.md of toolgate, `toolgate schema policy`.
";
const PACK_HEADER: &str = "\
# Drafted by `toolgate suggest`: some of the recorded calls, and calls outside of the drafted bounds. Values are recorded ones, but for what
# looks like a secret: look before you show them to others.
";
/// Names of tools in a line.
const MAX_TOOLS_TOLD: usize = 32;
/// Bytes of the drafts of one server's tools in a file: less than a file may have.
const MAX_TOOLS_BYTES: usize = 700_000;

/// Where packs stand below the drafts.
pub(super) const PACKS_DIRECTORY: &str = "tests";

/// What is drafted of one server, or of some of its tools.
pub(super) struct ServerDraft {
    /// The name of both files, without their ending.
    pub(super) name: String,
    /// The policy file.
    pub(super) contracts: String,
    /// The test pack; none where no sample passes, or none is refused.
    pub(super) pack: Option<String>,
    /// How many contracts, and samples.
    pub(super) counts: (usize, usize),
}

/// The tools of one file of contracts.
pub(super) struct DraftedFile<'a> {
    /// Its name without the ending.
    pub(super) name: String,
    pub(super) server: String,
    /// A comment on the others.
    uncalled: String,
    pub(super) tools: Vec<DraftedTool<'a>>,
}

/// The drafted tools, file by file.
pub(super) fn files<'a>(
    tools: BTreeMap<&'a str, DraftedTool<'a>>,
    definitions: &Definitions,
) -> Vec<DraftedFile<'a>> {
    let called: BTreeSet<&str> = tools.keys().copied().collect();
    let mut files: Vec<DraftedFile<'a>> = Vec::new();
    let (mut bytes, mut number) = (0, 1);
    for tool in tools.into_values() {
        let Some((server, _)) = ids::parts(tool.name) else {
            continue;
        };
        let size = size(&tool, server);
        bytes += size;
        let is_first = match files.last_mut() {
            Some(file) if file.server == server && bytes <= MAX_TOOLS_BYTES => {
                file.tools.push(tool);
                continue;
            }
            last => last.is_none_or(|file| file.server != server),
        };
        bytes = size;
        number = if is_first { 1 } else { number + 1 };
        files.push(DraftedFile {
            name: match number {
                1 => server.to_owned(),
                // No server is called so.
                _ => format!("{server}.{number}"),
            },
            server: server.to_owned(),
            uncalled: match number {
                1 => uncalled(server, &called, definitions),
                _ => String::new(),
            },
            tools: vec![tool],
        });
    }
    files
}

/// Where contracts and pack of that name stand below the directory of the drafts.
pub(super) fn paths(name: &str) -> [PathBuf; 2] {
    let name = format!("{name}.yaml");
    let pack = Path::new(PACKS_DIRECTORY).join(&name);
    [PathBuf::from(name), pack]
}

/// Bytes of what is drafted of a tool, in the larger of both files.
fn size(tool: &DraftedTool<'_>, server: &str) -> usize {
    let callers = PackCallers::of(std::slice::from_ref(tool));
    let schema = tool.schema.as_ref().map_or(0, |schema| flow(schema).len());
    let callers_bytes = callers_text(&callers).len();
    let pack = PackSamples::of(tool, &callers).text.len() + schema + callers_bytes;
    pack.max(tool.contract(server).len())
}

fn callers_text(callers: &PackCallers) -> String {
    let mut text = "callers:\n".to_owned();
    for (name, settings) in callers.settings() {
        let _ = writeln!(text, "  {}: {}", key(name), flow(&settings));
    }
    text
}

impl DraftedFile<'_> {
    /// As texts.
    pub(super) fn draft(&self) -> ServerDraft {
        self.draft_of(&self.tools)
    }

    /// As texts, with some of its tools.
    pub(super) fn draft_of(&self, tools: &[DraftedTool<'_>]) -> ServerDraft {
        let callers = PackCallers::of(tools);
        let mut samples = PackSamples::default();
        let mut contracts = [
            CONTRACTS_HEADER,
            UNDO_WORDS_COMMENT,
            &self.uncalled,
            "contracts:\n",
        ]
        .concat();
        for tool in tools {
            contracts.push_str(&tool.contract(&self.server));
            samples.add(&PackSamples::of(tool, &callers));
        }
        let (passing, refused) = samples.counts;
        let has_pack = passing > 0 && refused > 0;
        ServerDraft {
            name: self.name.clone(),
            contracts,
            pack: has_pack.then(|| self.pack(tools, &callers, &samples.text)),
            counts: (tools.len(), passing + refused),
        }
    }

    fn pack(&self, tools: &[DraftedTool<'_>], callers: &PackCallers, samples: &str) -> String {
        let mut text = PACK_HEADER.to_owned();
        let name = format!("{} as recorded", self.name);
        let file = format!("../{}.yaml", self.name);
        let _ = writeln!(
            text,
            "pack: {}\npolicies: [{}]",
            quoted(&name),
            quoted(&file)
        );
        let schemas = tools
            .iter()
            .map(|tool| Some((tool.name, tool.schema.as_ref()?)));
        // A server that lists some of its tools has no others.
        if let Some(schemas) = schemas.collect::<Option<Vec<_>>>() {
            let _ = writeln!(text, "servers:\n  {}:\n    tools:", key(&self.server));
            for (name, schema) in schemas {
                let own = ids::parts(name).map_or(name, |(_, own)| own);
                let tool = flow(&json!({ "name": own, "inputSchema": schema }));
                let _ = writeln!(text, "      - {tool}");
            }
        }
        text + &callers_text(callers) + "samples:\n" + samples
    }
}

impl ServerDraft {
    /// A pack that reads the policies, and tries none of their tools.
    pub(super) fn unpacked(&self) -> String {
        let file = quoted(&format!("../{}.yaml", self.name));
        let server = self.name.split('.').next().unwrap_or_default();
        let (server, tool) = (key(server), quoted(&format!("{server}__none")));
        format!(
            "pack: none\npolicies: [{file}]\nservers: {{ {server}: {{}} }}\ncallers: {{ none: {{ agent: none }} }}\nsamples:\n  - {{ name: none, caller: none, tool: {tool}, arguments: {{}}, expect: tool_not_allowlisted }}\n"
        )
    }
}

/// The tools of a server that nobody called.
fn uncalled(server: &str, called: &BTreeSet<&str>, definitions: &Definitions) -> String {
    let all = definitions.of_server(server);
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
