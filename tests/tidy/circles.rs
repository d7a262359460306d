//! Circles of files: who imports whom, also inside a floor. A module and its own descendants may
//! know each other; they are one thing that was divided.

use super::{Source, report, sources};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Path of a module, from the root of the crate.
type Module = Vec<String>;

/// The paths that a tree of imports stands for: `a::{b, c::{self, d as e}}`.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap().trim();
        return vec![path.trim_end_matches("::self").to_owned()];
    };
    let inside = tree[open + 1..].trim_end().trim_end_matches('}');
    let (mut depth, mut begin, mut parts) = (0, 0, Vec::new());
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[begin..]);
    parts.retain(|part| !part.trim().is_empty());
    let within = parts.into_iter().flat_map(leaves);
    within
        .map(|leaf| format!("{}{leaf}", &tree[..open]))
        .map(|path| path.trim_end_matches("::self").to_owned())
        .collect()
}

/// An import, and whether it is for tests.
static IMPORT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)(#\[cfg\(test\)\]\s*)?\buse\s+([^;]+);").unwrap());
/// A path in place.
static PATH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(?:crate|super|self)(?:::[a-z_0-9]+)+").unwrap());

/// Every path that the code of `source` names, tests aside: imports, and paths in place.
fn paths(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.code().map(|(_, line)| line).collect();
    let code = lines.join("\n");
    let mut paths = Vec::new();
    for found in IMPORT.captures_iter(&code) {
        if found.get(1).is_none() {
            paths.extend(leaves(
                &found[2].split_whitespace().collect::<Vec<_>>().join(" "),
            ));
        }
    }
    let rest = IMPORT.replace_all(&code, "");
    paths.extend(PATH.find_iter(&rest).map(|path| path.as_str().to_owned()));
    paths
}

/// The file that `path`, named in `own`, leads to: the deepest module on its way.
fn resolved<'a>(path: &str, own: &[String], modules: &'a BTreeSet<Module>) -> Option<&'a Module> {
    let mut steps = path.split("::").peekable();
    let mut at: Module = match *steps.peek()? {
        "crate" => Vec::new(),
        "self" | "super" => own.to_vec(),
        child => {
            let mut below = own.to_vec();
            below.push(child.to_owned());
            return modules
                .get(&below)
                .and_then(|_| resolved(&format!("self::{path}"), own, modules));
        }
    };
    let mut found = None;
    for step in steps {
        match step {
            "crate" | "self" => {}
            "super" => {
                at.pop();
                found = modules.get(&at);
            }
            name => {
                at.push(name.to_owned());
                match modules.get(&at) {
                    Some(module) => found = Some(module),
                    None => break,
                }
            }
        }
    }
    found
}

/// Which module imports which, apart from its own ancestors and descendants.
fn imports<'a>(
    sources: &'a [Source],
    modules: &'a BTreeSet<Module>,
) -> BTreeMap<&'a Module, BTreeSet<&'a Module>> {
    let mut imports = BTreeMap::new();
    for source in sources {
        let own = &source.module;
        let named = paths(source);
        let others = named.iter().filter_map(|path| resolved(path, own, modules));
        let others = others.filter(|other| !other.starts_with(own) && !own.starts_with(other));
        imports.insert(own, others.collect());
    }
    imports
}

/// All that is reached from `start`.
fn reached<'a>(
    start: &'a Module,
    imports: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
) -> BTreeSet<&'a Module> {
    let (mut open, mut seen) = (vec![start], BTreeSet::new());
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flatten() {
            if seen.insert(*next) {
                open.push(next);
            }
        }
    }
    seen
}

#[test]
fn imports_make_no_circle() {
    let mut sources = sources("src");
    sources.retain(|source| !source.is_test && !matches!(source.part(0), "lib" | "main"));
    let modules: BTreeSet<Module> = sources.iter().map(|source| source.module.clone()).collect();
    let imports = imports(&sources, &modules);
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = imports
        .keys()
        .map(|&module| (module, reached(module, &imports)))
        .collect();
    let mut told = BTreeSet::new();
    let mut circles = Vec::new();
    for (&module, reaches) in &reach {
        if !reaches.contains(module) || told.contains(module) {
            continue;
        }
        let together = reaches
            .iter()
            .filter(|other| reach[**other].contains(module));
        let circle: BTreeSet<&Module> = together.copied().collect();
        told.extend(circle.iter().copied());
        let lines = circle.iter().map(|member| {
            let known = imports[member].intersection(&circle);
            let known: Vec<String> = known.map(|other| other.join("/")).collect();
            format!("    {} knows {}", member.join("/"), known.join(", "))
        });
        let lines: Vec<String> = lines.collect();
        circles.push(format!(
            "{}: a circle of {} files\n{}",
            module[0],
            circle.len(),
            lines.join("\n")
        ));
    }
    report("files import in one direction, inside a floor too", circles);
}

#[test]
fn imports_are_resolved() {
    assert_eq!(
        leaves("crate::a::{self, b as c, d::{E, f::G}}"),
        [
            "crate::a",
            "crate::a::b",
            "crate::a::d::E",
            "crate::a::d::f::G"
        ]
    );
    let module = |path: &str| path.split('/').map(str::to_owned).collect::<Module>();
    let modules: BTreeSet<Module> = ["a", "a/b", "a/c", "d"].map(module).into();
    let from = |path| resolved(path, &module("a/b"), &modules).map(|found| found.join("/"));
    assert_eq!(from("super::c::Thing").as_deref(), Some("a/c"));
    assert_eq!(from("super::Thing").as_deref(), Some("a"));
    assert_eq!(from("super::super::d::E").as_deref(), Some("d"));
    assert_eq!(from("crate::a::Thing").as_deref(), Some("a"));
    assert_eq!(from("std::fmt"), None);
    let in_a = resolved("c::Thing", &module("a"), &modules);
    assert_eq!(in_a, Some(&module("a/c")));
}
