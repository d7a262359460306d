//! Floors: who imports whom, and who leaves evidence.

use super::{Source, places, read, report, sources};
use regex::Regex;
use std::collections::BTreeSet;

/// Lowest first. A module imports from lines above its own; neighbours on a line don't know each
/// other.
const FLOORS: &[&[&str]] = &[
    &["model"],
    &["mcp"],
    &["telemetry", "outlet", "failpoint", "owners"],
    &["store", "upstream", "schema", "expression"],
    &["guards"],
    &["policy"],
    &["side"],
    &["gate", "relay"],
    &["downstream", "admin", "notify"],
    // The process: these three put the others together, and may know each other.
    &["config", "app", "cli"],
];

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// The modules of the crate that a line names: after `crate::`, in `crate::{…}`, and after enough
/// `super::` for the root.
fn named(line: &str, depth: usize) -> Vec<&str> {
    let word = |text: &str| {
        text.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_')
            .unwrap_or(text.len())
    };
    let mut names = Vec::new();
    for (at, _) in line.match_indices("crate::") {
        let rest = &line[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(several) => names.extend(
                several
                    .split(',')
                    .map(|one| &one.trim()[..word(one.trim())]),
            ),
            None => names.push(&rest[..word(rest)]),
        }
    }
    let climb = "super::".repeat(depth);
    names.extend(
        line.match_indices(&climb)
            .map(|(at, _)| &line[at + climb.len()..])
            .map(|rest| &rest[..word(rest)]),
    );
    names.retain(|name| !name.is_empty());
    names
}

#[test]
fn imports_point_to_lower_floors() {
    let mut broken = Vec::new();
    for source in sources("src").iter().filter(|source| !source.is_test) {
        let top = source.part(0);
        if top == "lib" || top == "main" {
            continue;
        }
        let Some(own) = floor(top) else {
            broken.push(format!(
                "{}: `{top}` has no floor; give it one in this test and in ARCHITECTURE.md",
                source.path
            ));
            continue;
        };
        for (number, line) in source.code() {
            for name in named(line, source.module.len()) {
                let together = own == FLOORS.len() - 1;
                let fine = name == top
                    || floor(name).is_some_and(|other| other < own || (other == own && together));
                if !fine {
                    broken.push(format!(
                        "{}:{number}: {top} does not know {name}",
                        source.path
                    ));
                }
            }
        }
    }
    report(
        "imports only point to lower floors, and neighbours do not know each other",
        broken,
    );
}

#[test]
fn the_world_knows_of_telemetry_only_how_to_start_a_task() {
    let world = |source: &Source| !matches!(source.part(0), "store" | "upstream" | "schema");
    report(
        "only telemetry::tasks may be used here",
        places(r"telemetry::(?:[^t]|t[^a])|crate::telemetry;", world),
    );
}

#[test]
fn every_module_of_the_library_has_a_floor() {
    let declared: BTreeSet<String> = Regex::new(r"(?m)^(?:pub )?mod ([a-z_]+);")
        .unwrap()
        .captures_iter(&read("src/lib.rs"))
        .map(|found| found[1].to_owned())
        .collect();
    let known: BTreeSet<String> = FLOORS
        .concat()
        .iter()
        .map(|&name| name.to_owned())
        .collect();
    assert_eq!(declared, known);
}

#[test]
fn guards_do_not_know_each_other() {
    let sources = sources("src");
    let guards: Vec<&Source> = sources
        .iter()
        .filter(|source| source.part(0) == "guards" && source.module.len() > 1)
        .collect();
    let names: BTreeSet<&str> = guards
        .iter()
        .map(|source| source.part(1))
        .filter(|name| *name != "evidence")
        .collect();
    assert!(names.len() > 3, "the guards were not found");
    let import = Regex::new(r"(?:crate::guards|\bsuper)::(?:([a-z_]+)|\{([^}]*)\})").unwrap();
    let mut broken = Vec::new();
    for source in guards.iter().filter(|source| !source.is_test) {
        let own = source.part(1);
        for (number, line) in source.code() {
            let found = import.captures_iter(line);
            let found = found.filter_map(|found| found.get(1).or(found.get(2)));
            let found = found.flat_map(|found| found.as_str().split(", "));
            for other in found.filter_map(|path| path.split("::").next()) {
                if names.contains(other) && other != own {
                    broken.push(format!("{}:{number}: {own} knows {other}", source.path));
                }
            }
        }
    }
    report(
        "a guard knows no other guard; what one leaves for the next is evidence",
        broken,
    );
}

#[test]
fn evidence_is_minted_by_its_guard_only() {
    let left =
        Regex::new(r"Left by `([a-z]+)`\.\n(?:#\[.*\]\n)*pub(?:\(crate\))? struct ([A-Za-z]+)")
            .unwrap();
    let text = read("src/guards/evidence.rs");
    let kinds: Vec<_> = left.captures_iter(&text).collect();
    assert_eq!(
        kinds.len(),
        text.matches("#[must_use]\n").count(),
        "every evidence says `Left by` which guard"
    );
    for kind in kinds {
        let (guard, name) = (&kind[1], &kind[2]);
        let minted = places(&format!(r"\b{name}::mint\b"), |source| {
            source.module == ["guards", guard]
        });
        report(&format!("{name} is minted by {guard} only"), minted);
    }
    let observed = places(
        r"\b(Welcome|Ruled|NotRepeated|Sealed)::observed\(",
        |source| source.module == ["gate", "observing"],
    );
    report("evidence without proof is for observe mode only", observed);
}

#[test]
fn words_and_guards_do_no_input_or_output() {
    let pure = |source: &Source| !matches!(source.part(0), "model" | "guards");
    let broken = places(
        r"\b(hyper|axum|tokio|reqwest)\b|\bhttp::|\basync\b|std::(fs|net|process)\b",
        pure,
    );
    report(
        "model and guards know no HTTP, no files and nothing asynchronous",
        broken,
    );
}
