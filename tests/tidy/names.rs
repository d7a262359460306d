//! Names and comments say what they mean.

use super::{Source, every, report, sources};
use regex::Regex;
use std::collections::BTreeMap;

/// Words that say nothing, or another word for what the glossary names (design §4).
const BANNED: &[&str] = &[
    "manager",
    "handler",
    "helper",
    "helpers",
    "util",
    "utils",
    "info",
    "context",
    "data",
    "middleware",
    "filter",
    "client",
    "user",
    "principal",
    "bus",
    "common",
    "misc",
];

/// What libraries, the wire and the configuration call so: a variable that holds it may, too.
const OF_OTHERS: &[&str] = &["client", "context", "data", "filter", "info"];

/// A comment names its subject: agent, operator, caller, tool server, thread.
#[test]
fn comments_have_subjects() {
    let vague = ["whoever", "somebody", "someone"].join("|");
    let vague = Regex::new(&format!(r"(?i)//.*\b({vague})\b")).unwrap();
    let mut broken = Vec::new();
    for source in every(["src", "tests", "bench", "fuzz/src", "fuzz/fuzz_targets"]) {
        let lines = source
            .text
            .lines()
            .enumerate()
            .filter(|(_, line)| vague.is_match(line));
        broken.extend(
            lines.map(|(index, line)| format!("{}:{}: {}", source.path, index + 1, line.trim())),
        );
    }
    report("a comment names its subject", broken);
}

/// What belongs together has a type with named fields, or is two parameters. Closures take what
/// iterators give.
#[test]
fn no_parameter_is_a_tuple() {
    let tuple = Regex::new(
        r"^\s+\([a-z_]+(?:, [a-z_]+)+\): &?(?:mut )?\(|\bfn [a-z_]+.*\([a-z_]+(?:, [a-z_]+)+\): ",
    )
    .unwrap();
    let mut broken = Vec::new();
    for source in every(["src"]) {
        if source.path.contains("/tests") {
            continue;
        }
        for (number, line) in (1..).zip(source.text.lines()) {
            if !line.contains('|') && tuple.is_match(line) {
                broken.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    report("a parameter has a name of its own", broken);
}

#[test]
fn names_are_of_the_glossary() {
    let kind = Regex::new(r"\b(?:struct|enum|trait|type|union)\s+([A-Z][A-Za-z0-9]*)").unwrap();
    let function = Regex::new(r"\bfn\s+([a-z_0-9]+)").unwrap();
    let variable = Regex::new(r"\blet\s+(?:mut\s+)?([a-z_0-9]+)\b").unwrap();
    let implemented = Regex::new(r"^\s+type [A-Za-z]+ = ").unwrap();
    let is_banned = |name: &str| BANNED.contains(&name.to_lowercase().as_str());
    let mut broken = Vec::new();
    for source in every(["src", "tests/it", "examples/servers/src"]) {
        let steps = source.module.iter().filter(|step| is_banned(step));
        broken.extend(steps.map(|step| format!("{}: {step}", source.path)));
        for (number, line) in (1..).zip(source.text.lines()) {
            // How a trait calls the types of those who implement it stands where the trait is.
            if line.trim_start().starts_with("//") || implemented.is_match(line) {
                continue;
            }
            let names = kind.captures_iter(line).chain(function.captures_iter(line));
            let names = names.map(|name| name.extract::<1>().1[0]);
            let variables = variable.captures_iter(line);
            let variables = variables
                .map(|name| name.extract::<1>().1[0])
                .filter(|name| !OF_OTHERS.contains(name));
            broken.extend(
                names
                    .chain(variables)
                    .filter(|name| is_banned(name))
                    .map(|name| format!("{}:{number}: {name}", source.path)),
            );
        }
    }
    report(
        "these names say nothing; take one of the glossary, or say more",
        broken,
    );
}

/// A name that stands for several things sends its reader to the wrong one.
#[test]
fn type_names_occur_once() {
    let defined =
        Regex::new(r"^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|union) ([A-Z]\w*)").unwrap();
    // Types that are associated stand inside of something.
    let alias = Regex::new(r"^(?:pub(?:\([^)]*\))? )?type ([A-Z]\w*)").unwrap();
    // What all of a folder have, and name with their module: `budget::Rule`.
    let shared = |source: &Source, name: &str| {
        matches!(
            (source.part(0), name),
            ("guards", "Settings" | "Rule") | ("cli", "Args")
        )
    };
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources("src").iter().filter(|source| !source.is_test) {
        for (number, line) in source.code() {
            let name = defined.captures(line).or_else(|| alias.captures(line));
            let name = name.map(|found| found[1].to_owned());
            if let Some(name) = name.filter(|name| !shared(source, name)) {
                let place = format!("{}:{number}", source.path);
                places.entry(name).or_default().push(place);
            }
        }
    }
    let several = places.into_iter().filter(|(_, places)| places.len() > 1);
    report(
        "a type's name occurs once in src",
        several
            .map(|(name, places)| format!("{name}: {}", places.join(", ")))
            .collect(),
    );
}
