//! The files as they are drafted: `toolgate.yaml`, and one contract for each tool. What a server
//! says stands in them only in quotes or in comments, with everything written out that does not
//! print.

use super::guess;
use super::source::{FoundServer, FoundTransport};
use crate::gate::catalogue::tool::Tool;
use crate::guards::pins;
use crate::mcp::pretty::plain;
use crate::model::ids::ServerName;
use crate::model::side::SideDoor;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Characters of a purpose: what a contract may have.
const PURPOSE_CHARS_MAX: usize = 200;
/// Names of arguments that are told.
const MAX_ARGUMENTS_NAMED: usize = 12;
/// Characters of anything else that a server says.
const SERVER_TEXT_CHARS_MAX: usize = 60;

/// Commands that fetch a program before they start it.
const FETCHING_COMMANDS: &[&str] = &[
    "npx", "uvx", "bunx", "pnpm", "pipx", "docker", "podman", "deno", "go", "cargo",
];

const NOT_EXECUTED_COMMENT: &str = "    \
# not_executed: [401, 429]   # only if it, and all before it, refuse so before a call begins: then the call may be sent again\n";

const CONTRACTS_HEADER: &str = "\
# Drafted by `toolgate init`. What a server says of its tools is a claim that nobody has checked: read each contract, correct
# `actions`, and say who may call and with what. How: policies/README.md of toolgate, `toolgate schema policy`.
# What changes something says in one of four words how it is undone; only for the last one a person is asked each time:
#   side_effect: { writes: files, rollback: { tool: server__tool, arguments: { id: result#/id } } }      another call does it
#   side_effect: { writes: files, rollback: { manual: restore it from version control } }                a person does it
#   additive: true                                                                                      nothing is lost
#   irreversible: true                                                                                  nothing does it
contracts:
";

const PERMISSION_DRAFT: &str =
    "    permission: anyone     # say who: roles, a tenant, a resource\n";
const RETRY_DRAFT: &str =
    "    idempotency: { derive: retry } # only a call that is sent again is the same\n";
const UNCLEAR_RETRY_DRAFT: &str = "    idempotency: { derive: retry } # only a call that is sent again is the same; does it pay or grant? `derive: [/order_id]`, or `require: true`\n";
const ADDITIVE_DRAFT: &str =
    "    additive: true         # so it says: nothing is lost; else another of the four words\n";
const IRREVERSIBLE_DRAFT: &str = "    irreversible: true     # so a person has to allow each call; or another of the four words\n";

const OVERWRITES_DRAFT: &str = "    irreversible: true     # so a person has to allow each call; if you can restore what is lost, in place of this line:\n    # side_effect: { writes: files, rollback: { manual: restore it from version control } }\n";

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

/// `toolgate.yaml`.
pub(super) fn configuration(servers: &[FoundServer], from: &str) -> String {
    let mut text = format!(
        "# Drafted by `toolgate init` from {}. `toolgate check` judges it.\n\
         mode: observe                  # records what enforce would refuse, and refuses nothing\n\
         data: ./toolgate-data          # the ledger\n\nservers:\n",
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
                if FETCHING_COMMANDS.contains(&command.as_str()) {
                    text.push_str(
                        "    start_timeout: 2m          # it may fetch the server first\n",
                    );
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
        "\n# Without callers every program on this machine is the agent `anonymous`. Before `mode: enforce`, name yours:\n\
         # callers:\n\
         #   - {{ agent: my-agent, token: \"${{AGENT_TOKEN}}\" }}      # openssl rand -hex 32\n\n\
         # Calls that cannot be taken back wait for a person (`toolgate approvals`). Who may decide:\n\
         # admin: {{ tokens: [ {{ name: me, token: \"${{OPERATOR_TOKEN}}\", roles: [approver, resolver, switch, auditor] }} ] }}\n\n\
         policies: [policies]\npins: {}       # the definitions of tools that are approved\n",
        pins::PIN_FILE_NAME
    );
    text
}

fn push_map(text: &mut String, map: &BTreeMap<String, String>) {
    for (name, value) in map {
        let _ = writeln!(text, "      {}: {}", key(name), quoted(value));
    }
}

/// A policy file with a contract for each of these tools of one server.
pub(super) fn contracts(tools: &[&Tool]) -> String {
    let mut text = CONTRACTS_HEADER.to_owned();
    if tools.is_empty() {
        return text.replace("contracts:\n", "contracts: {}\n");
    }
    for tool in tools {
        push_contract(&mut text, tool);
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

fn push_contract(text: &mut String, tool: &Tool) {
    let definition = tool.definition.text.value();
    let annotations = &definition["annotations"];
    let (actions, why) = guess::actions(&definition);
    let _ = writeln!(text, "  {}:", key(tool.name.as_str()));
    let _ = writeln!(text, "    # {}", claims(&definition));
    let _ = writeln!(
        text,
        "    # takes: {}",
        arguments(&definition["inputSchema"])
    );
    let _ = writeln!(text, "    purpose: {}", quoted(&purpose(tool, &definition)));
    let _ = writeln!(
        text,
        "    actions: [{actions}]{}# {why}",
        " ".repeat(12 - actions.len())
    );
    // Drafted only where the server says that nothing is lost.
    let is_additive = actions == "write" && annotations["destructiveHint"] == false;
    // Where a second call changes nothing, or nothing is lost by it, no key is worth its trouble.
    let is_harmless = is_additive || annotations["idempotentHint"] == true;
    match actions {
        "read" => {}
        _ if is_additive => text.push_str(&[PERMISSION_DRAFT, ADDITIVE_DRAFT].concat()),
        "write" => text.push_str(&[PERMISSION_DRAFT, OVERWRITES_DRAFT].concat()),
        _ => text.push_str(&[PERMISSION_DRAFT, IRREVERSIBLE_DRAFT].concat()),
    }
    text.push_str(match actions {
        "read" => "",
        _ if is_harmless => RETRY_DRAFT,
        _ => UNCLEAR_RETRY_DRAFT,
    });
    text.push_str("    secrets: []\n");
}

/// Title and annotations, as the server has them.
fn claims(definition: &Value) -> String {
    let mut said = Vec::new();
    for title in [&definition["title"], &definition["annotations"]["title"]] {
        said.extend(
            title
                .as_str()
                .map(|title| format!("title \"{}\"", cut(&sentence(title), SERVER_TEXT_CHARS_MAX))),
        );
    }
    for hint in [
        "readOnlyHint",
        "destructiveHint",
        "idempotentHint",
        "openWorldHint",
    ] {
        said.extend(
            definition["annotations"][hint]
                .as_bool()
                .map(|value| format!("{hint} {value}")),
        );
    }
    if said.is_empty() {
        "says nothing of itself: no annotations".to_owned()
    } else {
        format!("says: {}", said.join(", "))
    }
}

fn arguments(schema: &Value) -> String {
    let required = |name: &str| {
        schema["required"]
            .as_array()
            .is_some_and(|list| list.iter().any(|one| one == name))
    };
    let properties = schema["properties"].as_object();
    let one = |(name, shape): (&String, &Value)| {
        let kind = shape["type"].as_str().unwrap_or("anything");
        let mark = if required(name) { "" } else { "?" };
        format!(
            "{}{mark} ({})",
            cut(&plain(name), SERVER_TEXT_CHARS_MAX),
            cut(&plain(kind), SERVER_TEXT_CHARS_MAX)
        )
    };
    let mut shown: Vec<String> = properties
        .into_iter()
        .flatten()
        .take(MAX_ARGUMENTS_NAMED)
        .map(one)
        .collect();
    let more = properties.map_or(0, serde_json::Map::len) - shown.len();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    if shown.is_empty() {
        "nothing that it names".to_owned()
    } else {
        shown.join(", ")
    }
}

/// The first sentence of the description.
fn purpose(tool: &Tool, definition: &Value) -> String {
    let said = sentence(definition["description"].as_str().unwrap_or_default());
    if said.is_empty() {
        format!("Not described by {}.", tool.server.settings.name)
    } else {
        cut(&said, PURPOSE_CHARS_MAX)
    }
}

/// One line of what is said, up to the end of its first sentence, without what does not print.
fn sentence(said: &str) -> String {
    let prints = |letter: &char| {
        letter.is_whitespace()
            || matches!(letter, '"' | '\'' | '\\')
            || letter.escape_debug().len() == 1
    };
    let spaced: String = said.chars().filter(prints).collect();
    let line = spaced.split_whitespace().collect::<Vec<_>>().join(" ");
    // A number's point and an abbreviation's end no sentence: only what goes on with a capital
    // letter is another one.
    let ends = |(at, _): &(usize, &str)| line[at + 2..].starts_with(char::is_uppercase) && *at > 8;
    let end = line
        .match_indices(". ")
        .find(ends)
        .map_or(line.len(), |(at, _)| at + 1);
    line[..end].to_owned()
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        text.to_owned()
    } else {
        text.chars().take(most - 1).chain(['…']).collect()
    }
}

/// A key, in quotes where YAML could read it as something else than a text.
fn key(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let word = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
        .contains(&&*name.to_ascii_lowercase());
    let clear = !word
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(plain);
    if clear { name.to_owned() } else { quoted(name) }
}

/// A text in YAML's double quotes.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\'' => out.push(letter),
            _ if letter.escape_debug().len() == 1 => out.push(letter),
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(letter));
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_is_the_first_sentence_without_what_does_not_print() {
        for (said, expected) in [
            ("Creates a draft. Then sends it.", "Creates a draft."),
            (
                "Reads v1. 5 files, e.g. logs",
                "Reads v1. 5 files, e.g. logs",
            ),
            (
                "\n  Reads\u{202e}\u{1b}[1m\tall \u{200b}\"files\"\n\nArgs:\n",
                "Reads[1m all \"files\" Args:",
            ),
            ("", ""),
        ] {
            assert_eq!(sentence(said), expected);
        }
        assert_eq!(cut(&"é".repeat(300), 200).chars().count(), 200);
    }

    #[test]
    fn quoted_texts_are_read_as_they_were() {
        for text in [
            "plain",
            "a: b # c",
            "\"'\\ ${X} $${",
            "\u{202e}\u{1b}\n\t\u{e0041}é発😀\u{feff}\u{85}",
            "null",
            "- x",
            "",
        ] {
            let document =
                crate::policy::locate::YamlDocument::parse("f", format!("a: {}\n", quoted(text)))
                    .map_err(|error| error.to_string());
            assert_eq!(document.unwrap().tree()["a"], text);
        }
    }
}
