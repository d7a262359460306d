//! What holds of every verb, asked of the command line itself, so that none that comes is forgotten (issue
//! 17).

use crate::cli::help;
use clap::{Arg, ArgAction, Command, ValueEnum as _};
use std::collections::BTreeMap;

/// Verbs that take no `--json`, and why.
const WITHOUT_JSON: [(&str, &str); 9] = [
    ("serve", "prints two addresses, then its log"),
    ("stdio", "its lines are an agent's and a server's"),
    ("import", "prints a policy file"),
    ("approvals", "is `approvals list`"),
    ("approvals grants", "is `approvals grants list`"),
    ("ledger export", "prints JSON"),
    ("schema", "prints JSON Schema"),
    ("completions", "prints what a shell reads"),
    ("man", "prints what a reader of manual pages reads"),
];

/// Verbs that take no `--data`, and why.
const WITHOUT_DATA: [(&str, &str); 8] = [
    ("import", "reads one file"),
    ("demo", "makes a directory of its own; --keep names it"),
    ("pins verify", "compares servers with the pin file"),
    ("pins diff", "compares servers with the pin file"),
    ("pins approve", "writes the pin file"),
    ("schema", "reads nothing"),
    ("completions", "reads nothing"),
    ("man", "reads nothing"),
];

/// What calls are picked by, wherever they are.
const CALL_FILTERS: [&str; 14] = [
    "agent", "user", "tool", "method", "code", "outcome", "state", "task", "session", "trace",
    "resource", "action", "since", "until",
];

/// Each verb that does something by itself, by its path.
fn verbs() -> BTreeMap<String, Command> {
    let (mut command, mut found) = (help::command().term_width(80), BTreeMap::new());
    command.build();
    below(&command, "", &mut found);
    found
}

fn below(command: &Command, before: &str, found: &mut BTreeMap<String, Command>) {
    for verb in command.get_subcommands() {
        if verb.get_name() == "help" {
            continue;
        }
        let path = format!("{before} {}", verb.get_name());
        let path = path.trim_start();
        below(verb, path, found);
        if !verb.is_subcommand_required_set() {
            found.insert(path.to_owned(), verb.clone());
        }
    }
}

fn option<'a>(verb: &'a Command, name: &str) -> Option<&'a Arg> {
    verb.get_arguments()
        .find(|argument| argument.get_long() == Some(name))
}

/// The verbs that lack the option `name`, and those that are known to, in order.
fn lacking(name: &str, known: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let all = verbs().into_iter();
    let lacking = all.filter(|(_, verb)| option(verb, name).is_none());
    let mut known: Vec<String> = known.iter().map(|(path, _)| (*path).to_owned()).collect();
    known.sort();
    (lacking.map(|(path, _)| path).collect(), known)
}

/// Issue 17 "`--json` on every verb that prints".
#[test]
fn every_verb_that_prints_has_json() {
    let (lacking, known) = lacking("json", &WITHOUT_JSON);
    assert_eq!(lacking, known);
    let all = verbs();
    assert!(all.len() > 50, "{:?}", all.keys());
    for (path, verb) in &all {
        let json = option(verb, "json");
        let is_flag = json.is_none_or(|json| matches!(json.get_action(), ArgAction::SetTrue));
        assert!(is_flag, "{path}");
    }
}

/// Issue 17 "`--data DIR` everywhere".
#[test]
fn every_verb_that_has_a_record_takes_data() {
    let (lacking, known) = lacking("data", &WITHOUT_DATA);
    assert_eq!(lacking, known);
}

/// Issue 17 "consistent filters that refuse unknown values": the same names mean the same wherever calls are
/// picked, and what can only be one of a few words takes no other, on any verb.
#[test]
fn filters_are_the_same_everywhere() {
    let all = verbs();
    let said = |path: &str, name: &str| {
        let filter = option(&all[path], name).unwrap_or_else(|| panic!("{path} has no --{name}"));
        let help: Option<String> = filter.get_help().map(ToString::to_string);
        let values: Vec<String> = filter
            .get_possible_values()
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect();
        (help, values)
    };
    for path in ["ledger export", "ledger tail", "report", "suggest", "test"] {
        for name in CALL_FILTERS {
            assert_eq!(
                said(path, name),
                said("ledger list", name),
                "{path} --{name}"
            );
        }
    }
    for (path, verb) in &all {
        for name in ["outcome", "state"] {
            let is_bound = option(verb, name).is_none_or(|_| said(path, name).1.len() > 1);
            assert!(is_bound, "{path} --{name}");
        }
    }
}

/// D26: help fits 80 columns, but for how a verb is used, which is one line that a terminal breaks.
#[test]
fn help_fits_80_columns() {
    for (path, mut verb) in verbs() {
        for help in [verb.render_long_help(), verb.render_help()] {
            let help = help.to_string();
            let lines = help.lines().filter(|line| !line.starts_with("Usage:"));
            let wide = lines.filter(|line| line.chars().count() > 80);
            assert_eq!(wide.collect::<Vec<_>>(), Vec::<&str>::new(), "{path}");
        }
    }
}

/// Issue 17 "completions generated": a shell is told every verb that is shown, and what it takes.
#[test]
fn each_shell_completes_every_verb() {
    let hidden = "man";
    for shell in clap_complete::Shell::value_variants() {
        let mut script = Vec::new();
        clap_complete::generate(*shell, &mut help::command(), "toolgate", &mut script);
        let script = String::from_utf8(script).unwrap();
        for path in verbs().keys().filter(|path| *path != hidden) {
            for word in path.split(' ').chain(["token-file", "dry-run", "wide"]) {
                assert!(script.contains(word), "{shell}: {path}");
            }
        }
    }
}
