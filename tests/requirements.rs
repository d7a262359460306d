//! Which rows of the requirements a test names. Prints the table, and fails when a row that had a
//! test has none any more. `REQUIREMENTS=write cargo test --test requirements` takes down which
//! have one.

#![expect(
    clippy::unwrap_used,
    reason = "a tree that cannot be read is a failure"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Where tests are: all of these folders, and of `src` what only tests see.
const FOLDERS: [&str; 7] = [
    "src",
    "tests",
    "examples/servers/tests",
    "examples/quickstart",
    "examples/adopt",
    "policies",
    "bench",
];
const ROWS: &str = "tests/requirements/rows.txt";
const COVERED: &str = "tests/requirements/covered.txt";
/// Rows between the two ends of a range at most; more is a sentence about something else.
const WIDEST: u32 = 60;

/// A document's number and a row's, such as 3 and 21 of `003-21`.
type Id = (u32, u32);

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// What tests say: Rust that only tests see, and test packs.
fn tests() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        walk(&root().join(folder), &mut files);
    }
    let mut found = Vec::new();
    for file in files {
        let path = file
            .strip_prefix(root())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let ending = file
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or_default();
        let is_test =
            path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs");
        if !matches!(ending, "rs" | "yaml" | "snap")
            || path.starts_with("tests/requirements")
            || ending == "snap"
        {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let only_tests = text
            .split_once("#[cfg(test)]\nmod tests {")
            .map(|(_, rest)| rest.to_owned());
        match (is_test, only_tests) {
            (true, _) => found.push((path, text)),
            (false, Some(rest)) if ending == "rs" => found.push((path, rest)),
            (false, _) => {}
        }
    }
    found.sort();
    found
}

/// The number of three digits, the dash and the row at the beginning of `text`, and what follows.
fn id(text: &str) -> Option<(Id, &str)> {
    let (document, rest) = (text.get(..3)?, text.get(3..)?.strip_prefix('-')?);
    let digits = rest
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(rest.len());
    let row = rest
        .get(..digits)
        .filter(|row| (2..=3).contains(&row.len()))?;
    // Something like 2026-07-28 is no row.
    let is_alone =
        !rest[digits..].starts_with(|letter: char| letter == '-' || letter.is_ascii_alphanumeric());
    let document = document
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(document)?;
    is_alone.then_some(((document.parse().ok()?, row.parse().ok()?), &rest[digits..]))
}

/// The rows that `text` names: `003-21`, and all of `003-21 … 003-33`, `003-21 … -33`.
fn named(text: &str) -> BTreeSet<Id> {
    let mut found = BTreeSet::new();
    let starts = text
        .char_indices()
        .filter(|(_, letter)| letter.is_ascii_digit())
        .map(|(at, _)| at);
    for at in starts.filter(|at| {
        !text[..*at].ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '-')
    }) {
        let Some(((document, row), rest)) = id(&text[at..]) else {
            continue;
        };
        found.insert((document, row));
        let Some(after) = rest.trim_start().strip_prefix('…').map(str::trim_start) else {
            continue;
        };
        let last = match id(after) {
            Some(((other, last), _)) if other == document => Some(last),
            Some(_) => None,
            None => after
                .trim_start_matches('-')
                .split(|letter: char| !letter.is_ascii_digit())
                .next()
                .unwrap()
                .parse()
                .ok(),
        };
        if let Some(last) = last.filter(|last| (row..row + WIDEST).contains(last)) {
            found.extend((row..=last).map(|row| (document, row)));
        }
    }
    found
}

fn written((document, row): Id) -> String {
    format!("{document:03}-{row:02}")
}

/// The rows of a list, with their words.
fn list(name: &str) -> BTreeMap<Id, String> {
    let text = fs::read_to_string(root().join(name)).unwrap_or_default();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            id(line)
                .map(|(id, words)| (id, words.trim().to_owned()))
                .unwrap()
        })
        .collect()
}

#[test]
fn rows_that_had_a_test_have_one() {
    let rows = list(ROWS);
    assert_eq!(rows.len(), 123, "{ROWS} names every row once");
    let mut by: BTreeMap<Id, Vec<String>> = BTreeMap::new();
    for (path, text) in tests() {
        for id in named(&text).into_iter().filter(|id| rows.contains_key(id)) {
            by.entry(id).or_default().push(path.clone());
        }
    }
    let mut table = String::new();
    for (id, words) in &rows {
        let (first, others) = by
            .get(id)
            .map_or(("-", 0), |paths| (paths[0].as_str(), paths.len() - 1));
        let more = if others > 0 {
            format!(" and {others} more")
        } else {
            String::new()
        };
        writeln!(table, "{:7} {words:64} {first}{more}", written(*id)).unwrap();
    }
    writeln!(table, "{} of {} rows have a test", by.len(), rows.len()).unwrap();
    std::io::stdout().write_all(table.as_bytes()).unwrap();
    if std::env::var("REQUIREMENTS").is_ok_and(|wanted| wanted == "write") {
        let lines: Vec<String> = by.keys().map(|id| written(*id)).collect();
        let head = "# Rows that a test names. Write it again with: REQUIREMENTS=write cargo test --test requirements\n";
        fs::write(
            root().join(COVERED),
            format!("{head}{}\n", lines.join("\n")),
        )
        .unwrap();
    }
    let lost: Vec<String> = list(COVERED)
        .into_keys()
        .filter(|id| !by.contains_key(id))
        .map(written)
        .collect();
    assert!(
        lost.is_empty(),
        "no test names these rows any more, and one did: {}",
        lost.join(", ")
    );
}

#[test]
fn rows_are_read_as_they_are_written() {
    let ids = |text: &str| {
        named(text)
            .into_iter()
            .map(written)
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (text, expected) in [
        ("003-21: one", "003-21"),
        ("(003-21, 003-100)", "003-21 003-100"),
        ("003-21 … 003-23", "003-21 003-22 003-23"),
        ("003-21…-23", "003-21 003-22 003-23"),
        ("001-01 … 003-03", "001-01 003-03"),
        ("on 2026-07-28, issue 1003-21, 003-P1a, 0003-21, 003-2", ""),
        ("t_003-21", "003-21"),
    ] {
        assert_eq!(ids(text), expected, "{text}");
    }
}

/// 002-35: each area of schemas has as many tests as the change that this was learnt from had: what
/// is shown and read back, schemas themselves, and arguments that are made plain before they are
/// judged.
#[test]
fn areas_have_as_many_tests_as_they_need() {
    for (area, folders, least) in [
        (
            "shown and read back",
            &["tests/it/shown.rs", "src/gate/shown.rs"][..],
            7,
        ),
        ("schemas", &["src/schema/"], 13),
        (
            "arguments made plain",
            &["tests/it/rewriting.rs", "src/guards/arguments/tests.rs"],
            7,
        ),
    ] {
        let texts = tests()
            .into_iter()
            .filter(|(path, _)| folders.iter().any(|folder| path.starts_with(folder)));
        let is_test = |line: &&str| matches!(line.trim(), "#[test]" | "#[tokio::test]");
        let found: usize = texts
            .map(|(_, text)| text.lines().filter(is_test).count())
            .sum();
        assert!(
            found >= least,
            "{area}: {found} tests, and {least} are needed"
        );
    }
}
