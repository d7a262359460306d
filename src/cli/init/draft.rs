//! The files as they are drafted: `toolgate.yaml`, and one contract for each tool. What a server
//! says stands in them only in quotes or in comments, with everything written out that does not
//! print.

use super::source::{FoundServer, FoundTransport};
use crate::cli::contract_draft::{ContractDraft, UNDO_WORDS_COMMENT};
use crate::cli::yaml::{key, quoted};
use crate::gate::catalogue::tool::Tool;
use crate::guards::pins;
use crate::mcp::pretty::plain;
use crate::model::ids::ServerName;
use crate::model::side::SideDoor;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Commands that fetch a program before they start it.
const FETCHING_COMMANDS: &[&str] = &[
    "npx", "uvx", "bunx", "pnpm", "pipx", "docker", "podman", "deno", "go", "cargo",
];

/// What a server is given to start where nothing is said.
const GRANTED_START_TIME: Duration = Duration::from_secs(30);

const NOT_EXECUTED_COMMENT: &str = "    \
# not_executed: [401, 429]   # only if it, and all before it, refuse so before a call begins: then the call may be sent again\n";

const CONTRACTS_HEADER: &str = "\
# Drafted by `toolgate init`. What a server says of its tools is a claim that nobody has checked: read each contract, correct
# `actions`, and say who may call and with what. How: policies/README.md of toolgate, `toolgate schema policy`. To do is what stands behind
# `to do`, and samples of calls in `tests` beside this file (`toolgate suggest` drafts them): of nothing else does `toolgate check` warn here.
";

const UNKNOWN_TOOLS_COMMENT: &str = "
  # The template does not know these tools: each contract below is drafted from what the server says of it. Read it, and correct `actions`.
";

const SIDES_HEADER: &str = "\
# Drafted by `toolgate init`: what goes on working besides tools, and what tasks may do. What no layer allows is closed once `mode` is `enforce`; take
# away what your agents don't need. How: \"Side doors\" in policies/README.md of toolgate.
layers:
  global:
";

const TASKS_DRAFT: &str = "
# Where nothing is written, enforce mode lets a task that anything names take 1000 calls, and 100 equal ones in a row that are answered
# alike; a task that its agent does not name has ended after an idle hour. Tighter, for example:
# budgets: { global: { max_steps: 250 }, idle: 1h }
# repetition: { stop: 10, stop_reads: 100 }
";

/// How long a server may take to start, where that is more than what toolgate takes for granted.
fn start_timeout(command: &str, bound: Duration) -> Option<&'static str> {
    let minutes = bound.as_secs().div_ceil(60);
    match (FETCHING_COMMANDS.contains(&command), minutes) {
        (true, ..=2) => Some("2m          # it may fetch the server first"),
        (false, ..=1) if bound <= GRANTED_START_TIME => None,
        (_, ..=2) => Some("2m          # so that it is waited for as long as by init"),
        (_, _) => Some("10m         # so that it is waited for as long as by init"),
    }
}

/// `toolgate.yaml`; its servers were given so long to answer. `data` is where it has toolgate keep its record,
/// if not beside itself.
pub(super) fn configuration(
    servers: &[FoundServer],
    from: &str,
    bound: Duration,
    data: Option<&str>,
) -> String {
    let data = data.map_or_else(|| "./toolgate-data".to_owned(), quoted);
    let mut text = format!(
        "# Drafted by `toolgate init` from {}. `toolgate check` judges it.\n\
         mode: observe                  # records what enforce would refuse, and refuses nothing\n\
         data: {data:<24} # the ledger\n\nservers:\n",
        plain(from)
    );
    for FoundServer { name, reached, .. } in servers {
        let _ = writeln!(text, "  {}:", key(name));
        match reached {
            FoundTransport::Child {
                command,
                args,
                env,
                cwd,
            } => {
                let _ = writeln!(text, "    command: {}", quoted(command));
                if !args.is_empty() {
                    let args: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
                    let _ = writeln!(text, "    args: [{}]", args.join(", "));
                }
                if let Some(cwd) = cwd {
                    let _ = writeln!(text, "    cwd: {}", quoted(cwd));
                }
                if let Some(time) = start_timeout(command, bound) {
                    let _ = writeln!(text, "    start_timeout: {time}");
                }
                text.push_str("    env:                       # a server gets these variables and no others\n");
                push_map(&mut text, env);
            }
            FoundTransport::Http { url, headers } => {
                let _ = writeln!(text, "    url: {}", quoted(url));
                if !headers.is_empty() {
                    text.push_str("    headers:\n");
                    push_map(&mut text, headers);
                }
                text.push_str(NOT_EXECUTED_COMMENT);
            }
        }
    }
    let _ = write!(
        text,
        "\n# With this, the arguments of what is observed are kept, too: for `toolgate suggest` and `toolgate test --replay ledger`.\n\
         # ledger: {{ content: {{ observed: full }} }}\n\n\
         # To do before `mode: enforce`: without callers every program on this machine is the agent `anonymous`; name yours:\n\
         # callers:\n\
         #   - {{ agent: my-agent, token: \"${{AGENT_TOKEN}}\" }}      # openssl rand -hex 32\n\n\
         # To do: calls that cannot be taken back wait for a person (`toolgate approvals`). Who may decide:\n\
         # admin: {{ tokens: [ {{ name: me, token: \"${{OPERATOR_TOKEN}}\", roles: [approver, resolver, switch, auditor] }} ] }}\n\n\
         policies: [policies]\npins: {}       # the definitions of tools that are approved\n",
        pins::PIN_FILE_NAME
    );
    text
}

/// The server whose lines of such a text the line is among, from 1.
pub(super) fn server_at(text: &str, line: u32) -> Option<String> {
    let before = usize::try_from(line).ok()?;
    let lines: Vec<&str> = text.lines().take(before).collect();
    let named = |line: &&&str| line.starts_with("  ") && !line.starts_with("   ");
    let named = lines
        .iter()
        .rev()
        .take_while(|line| line.starts_with(' '))
        .find(named)?;
    let name = named.trim().strip_suffix(':')?;
    Some(name.trim_matches('"').to_owned())
}

fn push_map(text: &mut String, map: &BTreeMap<String, String>) {
    for (name, value) in map {
        let _ = writeln!(text, "      {}: {}", key(name), quoted(value));
    }
}

/// A policy file with a contract for each of these tools of one server.
pub(super) fn contracts(tools: &[&Tool]) -> String {
    let mut text = [CONTRACTS_HEADER, UNDO_WORDS_COMMENT].concat();
    text.push_str(if tools.is_empty() {
        "contracts: {}\n"
    } else {
        "contracts:\n"
    });
    push_drafts(tools, &mut text);
    text
}

fn push_drafts(tools: &[&Tool], text: &mut String) {
    for tool in tools {
        let draft = ContractDraft {
            name: tool.name.as_str(),
            server: tool.server.settings.name.as_str(),
            definition: &tool.definition.text.value(),
            notes: &[],
            arguments: "",
        };
        draft.push(text);
    }
}

/// The same where a template is known: `head`, and its contract of each tool that it knows.
pub(super) fn by_template(
    head: &str,
    tools: &[&Tool],
    contract: &dyn Fn(&Tool) -> Option<String>,
) -> String {
    let (mut known, mut drafted) = (String::new(), Vec::new());
    for tool in tools {
        match contract(tool) {
            Some(text) => known.push_str(&text),
            None => drafted.push(*tool),
        }
    }
    let mut text = format!("{head}contracts:\n{known}");
    if !drafted.is_empty() {
        text.push_str(UNKNOWN_TOOLS_COMMENT);
        push_drafts(&drafted, &mut text);
    }
    text
}

/// The file of what goes on working besides tools; no server is called so.
pub(super) fn sides_file(servers: &[FoundServer]) -> String {
    let is_taken = servers.iter().any(|server| server.name == "side-doors");
    format!(
        "policies/side-doors{}.yaml",
        if is_taken { "-of-all" } else { "" }
    )
}

/// One layer for all callers that keeps what these servers offer, and what tasks may do. One file
/// of all: layers hold together, and so do budgets.
pub(super) fn sides(offers: &[(ServerName, Vec<SideDoor>)]) -> String {
    let mut text = SIDES_HEADER.to_owned();
    for door in SideDoor::ALL {
        let offers_it = |offered: &[SideDoor]| door.is_of_agents() || offered.contains(&door);
        let names = offers
            .iter()
            .filter(|(_, offered)| offers_it(offered))
            .map(|(name, _)| {
                if door.is_of_servers() {
                    key(name.as_str())
                } else {
                    quoted(&format!("{name}__*"))
                }
            });
        let names: Vec<String> = names.collect();
        if names.is_empty() {
            continue;
        }
        let (off, why) = kept(door);
        let _ = writeln!(
            text,
            "    {off}{}: {{ allow: [{}] }}   # {why}",
            door.word(),
            names.join(", ")
        );
    }
    if text.ends_with("global:\n") {
        text = text.replace("  global:\n", "  global: {}\n");
    }
    text + TASKS_DRAFT
}

/// Whether it is only shown, and what it means.
fn kept(door: SideDoor) -> (&'static str, &'static str) {
    match door {
        SideDoor::Resources => (
            "",
            "files and texts that agents read past the tools; name those that they need",
        ),
        SideDoor::Prompts => ("", "texts that servers write for models"),
        SideDoor::Completions => ("", "what fits into prompts and names of resources"),
        SideDoor::Sampling => (
            "# ",
            "servers use the agent's model, at its cost and with what it knows",
        ),
        SideDoor::Elicitation => (
            "",
            "servers ask the person behind the agent; never for a password",
        ),
        SideDoor::Roots => ("", "servers ask which directories the agent works in"),
        SideDoor::Logging => ("", "agents read what servers log"),
    }
}
