//! The command line as it is parsed and shown: its verbs in groups, and an example of each. Help,
//! completions and manual pages are all made of this.

use super::Cli;
use clap::{Command, CommandFactory as _};
use std::fmt::Write as _;

/// The verbs, by what one wants to do.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run", &["serve", "stdio"]),
    (
        "Start",
        &[
            "demo",
            "adopt",
            "init",
            "check",
            "import",
            "suggest",
            "test",
            "verify",
            "explain",
            "uninstall",
        ],
    ),
    (
        "Operate",
        &[
            "status",
            "doctor",
            "approvals",
            "calls",
            "undo",
            "tasks",
            "disable",
            "enable",
            "incident",
            "pins",
            "policy",
        ],
    ),
    ("Record", &["ledger", "report"]),
    ("More", &["schema", "completions", "help"]),
];

/// What stands at the end of the help of toolgate itself.
const EXIT_CODES: &str =
    "Exit codes: 0 fine, 1 found a problem or refused, 2 wrong usage; `approvals wait` has more.
`toolgate VERB --help` says all of a verb, with examples.";

/// Examples of verbs.
const EXAMPLES: [(&str, &[&str]); 58] = [
    (
        "serve",
        &[
            "toolgate serve",
            "toolgate serve --upstream http://127.0.0.1:9000/mcp",
        ],
    ),
    (
        "stdio",
        &["toolgate stdio -- npx -y @modelcontextprotocol/server-memory"],
    ),
    (
        "init",
        &[
            "toolgate init --from .mcp.json",
            "toolgate init -- uvx mcp-server-git",
        ],
    ),
    (
        "check",
        &["toolgate check", "toolgate check --connect policies"],
    ),
    ("demo", &["toolgate demo", "toolgate demo --page"]),
    ("import", &["toolgate import openclaw.json"]),
    ("suggest", &["toolgate suggest --since 7d --out suggested"]),
    (
        "test",
        &[
            "toolgate test",
            "toolgate test --coverage policies/tests",
            "toolgate test --drill --server staging",
            "toolgate test --replay ledger --since 1d",
        ],
    ),
    (
        "test add",
        &["toolgate test add 9f3c2a17 --to policies/tests/bank.yaml"],
    ),
    (
        "verify",
        &[
            "toolgate verify",
            "toolgate verify --tool bank__pay --caller bot",
        ],
    ),
    (
        "explain",
        &["toolgate explain --agent bot --tool bank__pay --arguments '{\"amount\": 5}'"],
    ),
    ("calls", &["toolgate calls list"]),
    ("calls list", &["toolgate calls list --state unknown"]),
    ("calls ask", &["toolgate calls ask 9f3c2a17"]),
    (
        "calls resolve",
        &["toolgate calls resolve 9f3c2a17 --applied --why 'the bank shows it'"],
    ),
    (
        "undo",
        &[
            "toolgate undo 9f3c2a17 --dry-run",
            "toolgate undo 9f3c2a17 --why 'the wrong customer'",
            "toolgate undo --task 5e884898 --why 'it went astray'",
            "toolgate undo --list",
        ],
    ),
    ("tasks", &["toolgate tasks list"]),
    ("tasks list", &["toolgate tasks list --agent bot"]),
    ("tasks show", &["toolgate tasks show 5e884898"]),
    (
        "tasks stop",
        &["toolgate tasks stop 5e884898 --why 'it goes round in circles'"],
    ),
    (
        "tasks reset",
        &["toolgate tasks reset 5e884898 --why 'it was right after all'"],
    ),
    (
        "approvals",
        &["toolgate approvals", "toolgate approvals watch"],
    ),
    ("approvals list", &["toolgate approvals list --json"]),
    ("approvals show", &["toolgate approvals show 9f3c2a17"]),
    (
        "approvals allow",
        &["toolgate approvals allow 9f3c2a17 --why 'it is due'"],
    ),
    (
        "approvals deny",
        &["toolgate approvals deny 9f3c2a17 --why 'not this customer'"],
    ),
    (
        "approvals edit",
        &["toolgate approvals edit 9f3c2a17 /amount=900 --why 'the rest comes later'"],
    ),
    (
        "approvals extend",
        &["toolgate approvals extend 9f3c2a17 --why 'the owner is on the way'"],
    ),
    (
        "approvals wait",
        &["toolgate approvals wait 9f3c2a17 --timeout 10m"],
    ),
    ("approvals watch", &["toolgate approvals watch"]),
    ("approvals grants", &["toolgate approvals grants list"]),
    (
        "disable",
        &[
            "toolgate disable bank__pay --why 'pays twice'",
            "toolgate disable",
        ],
    ),
    (
        "enable",
        &["toolgate enable bank__pay --why 'mended in 1.4.2'"],
    ),
    (
        "incident",
        &[
            "toolgate incident open --tool 'bank__*' --why 'it pays twice'",
            "toolgate incident list",
        ],
    ),
    (
        "incident open",
        &["toolgate incident open --tool 'bank__*' --why 'it pays twice'"],
    ),
    ("incident show", &["toolgate incident show 3"]),
    (
        "incident sample",
        &["toolgate incident sample 9f3c2a17 --expect too_much"],
    ),
    (
        "incident collect",
        &["toolgate incident collect 3 --out incident-3.jsonl"],
    ),
    (
        "incident close",
        &["toolgate incident close 3 --why 'mended in 1.4.2'"],
    ),
    ("ledger", &["toolgate ledger list --since 1h"]),
    (
        "ledger list",
        &[
            "toolgate ledger list --outcome refused --since 1h",
            "toolgate ledger list --agent bot --json",
        ],
    ),
    ("ledger show", &["toolgate ledger show 9f3c2a17"]),
    (
        "ledger export",
        &["toolgate ledger export --entries --since 1d"],
    ),
    ("ledger replay", &["toolgate ledger replay 9f3c2a17"]),
    (
        "ledger verify",
        &["toolgate ledger verify --heads heads.jsonl"],
    ),
    ("report", &["toolgate report", "toolgate report --compare"]),
    ("pins", &["toolgate pins verify"]),
    ("pins diff", &["toolgate pins diff 'bank__*'"]),
    ("policy", &["toolgate policy list"]),
    ("policy diff", &["toolgate policy diff 3f9c2a17"]),
    (
        "policy rollback",
        &[
            "toolgate policy rollback 3f9c2a17 --dry-run",
            "toolgate policy rollback 3f9c2a17 --why 'the new rules refuse too much'",
        ],
    ),
    ("pins approve", &["toolgate pins approve bank__pay"]),
    ("adopt", &["toolgate adopt", "toolgate adopt .mcp.json"]),
    ("status", &["toolgate status", "toolgate status --watch"]),
    ("ledger tail", &["toolgate ledger tail -f"]),
    ("ledger events", &["toolgate ledger events"]),
    ("doctor", &["toolgate doctor"]),
    (
        "completions",
        &["toolgate completions bash > ~/.local/share/bash-completion/completions/toolgate"],
    ),
];

/// All of the command line.
pub(super) fn command() -> Command {
    let command = with_examples(Cli::command(), "");
    let groups = groups(&command);
    command.after_help(EXIT_CODES).help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options of every verb:\n{{options}}{{after-help}}"
    ))
}

/// `command`, whose path is `path`, and all below it with their examples.
fn with_examples(mut command: Command, path: &str) -> Command {
    let found = EXAMPLES.iter().find(|(verb, _)| *verb == path);
    if let Some((_, examples)) = found {
        let mut text = format!("Examples:\n  $ {}", examples.join("\n  $ "));
        if let Some(more) = command.get_after_help() {
            text = format!("{more}\n\n{text}");
        }
        command = command.after_long_help(text);
    }
    let below: Vec<String> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .collect();
    for name in below {
        let path = format!("{path} {name}");
        let path = path.trim_start();
        command = command.mut_subcommand(&name, |below| with_examples(below, path));
    }
    command
}

/// The verbs by their groups, a line each.
fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (group, verbs) in GROUPS {
        let _ = writeln!(text, "{group}:");
        for verb in verbs {
            let about = match (command.find_subcommand(verb), *verb) {
                (Some(found), _) => found.get_about().map(ToString::to_string),
                (None, "help") => Some("Print this, or the help of a verb".to_owned()),
                (None, _) => None,
            };
            if let Some(about) = about {
                let _ = writeln!(text, "  {verb:<12} {about}");
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every verb of `command` that is not hidden, by its path.
    fn verbs(command: &Command, before: &str, found: &mut Vec<String>) {
        for below in command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
        {
            let path = format!("{before} {}", below.get_name());
            let path = path.trim_start().to_owned();
            verbs(below, &path, found);
            found.push(path);
        }
    }

    /// D26: a verb that stands in no group would not be shown at all.
    #[test]
    fn each_verb_is_in_one_group_and_has_an_example() {
        let (command, mut found) = (command(), Vec::new());
        verbs(&command, "", &mut found);
        for verb in found.iter().filter(|verb| !verb.contains(' ')) {
            let named = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter());
            assert_eq!(named.filter(|named| *named == verb).count(), 1, "{verb}");
            let has_example = EXAMPLES.iter().any(|(path, _)| path == verb);
            assert!(has_example || verb == "schema", "an example of {verb}");
        }
        for (path, _) in EXAMPLES {
            assert!(found.iter().any(|verb| verb == path), "{path} is a verb");
        }
    }

    /// An example that is not taken teaches a slip.
    #[test]
    fn each_example_is_taken() {
        for example in EXAMPLES.iter().flat_map(|(_, examples)| *examples) {
            let typed = example.split(" > ").next().unwrap();
            let mut words: Vec<String> = Vec::new();
            for (index, part) in typed.split('\'').enumerate() {
                if index % 2 == 1 {
                    words.push(part.to_owned());
                } else {
                    words.extend(part.split_whitespace().map(str::to_owned));
                }
            }
            let taken = command().try_get_matches_from(&words);
            assert!(taken.is_ok(), "{example}: {}", taken.unwrap_err());
        }
    }

    #[test]
    fn the_groups_fit_80_columns() {
        let command = Cli::command();
        let groups = groups(&command);
        for line in groups.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(groups.contains("  serve        Serve agents"), "{groups}");
    }
}
