//! Citations: `guarantees §4` in a comment or a chapter is a heading of docs/guarantees.md that
//! begins with 4.

use super::documents::{documents, headings, prose};
use super::{every, read, report, root};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The numbers that a chapter's headings begin with.
type Numbers = BTreeSet<String>;

/// Which sections there are, by the chapter's name: `threat-model`.
struct Sections(BTreeMap<String, Option<Numbers>>);

impl Sections {
    /// Why `name §number` leads nowhere.
    fn missing(&mut self, name: &str, number: &str) -> Option<String> {
        let numbers = self.0.entry(name.to_owned()).or_insert_with(|| {
            let path = format!("docs/{name}.md");
            root().join(&path).exists().then(|| numbers(&read(&path)))
        });
        match numbers {
            None => Some(format!("there is no docs/{name}.md")),
            Some(numbers) => (!numbers.contains(number))
                .then(|| format!("no heading of docs/{name}.md begins with {number}")),
        }
    }
}

fn numbers(text: &str) -> Numbers {
    let number = Regex::new(r"^(\d+[A-Za-z]?(?:\.\d+[a-z]?)*)\.? ").unwrap();
    headings(text)
        .filter_map(|heading| Some(number.captures(heading)?[1].to_owned()))
        .collect()
}

/// Text that belongs together, with the number of its first line.
type Block = (usize, String);

/// The comments of a file of Rust: lines of one that follow each other are one text.
fn comments(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut before = None;
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim_start();
        let words = trimmed.strip_prefix("//").map_or_else(
            || line.split_once(" // ").map(|(_, words)| words),
            |words| Some(words.trim_start_matches(['/', '!'])),
        );
        let Some(words) = words else { continue };
        match blocks.last_mut() {
            Some((_, block)) if before == Some(number - 1) && trimmed.starts_with("//") => {
                block.push(' ');
                block.push_str(words.trim());
            }
            _ => blocks.push((number, words.trim().to_owned())),
        }
        before = Some(number);
    }
    blocks
}

/// The paragraphs of a chapter; names of links are read as what they say.
fn paragraphs(text: &str) -> Vec<Block> {
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    let mut before = 0;
    for (number, line) in prose(text) {
        let begins = line.trim().is_empty() || line.starts_with(['|', '#', '*', '-']);
        match blocks.last_mut() {
            Some((_, block)) if before + 1 == number && !begins => {
                block.push(' ');
                block.push_str(line.trim());
            }
            _ => blocks.push((number, line.to_owned())),
        }
        before = number;
    }
    for (_, block) in &mut blocks {
        *block = link.replace_all(block, "$1").into_owned();
    }
    blocks
}

/// `guarantees §4`, `§3C` after it, with the word before.
static SECTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:([A-Za-z-]+) +)?§ ?(\d+[A-Za-z]?(?:\.\d+[a-z]?)*)?").unwrap());
/// Of those who make standards: `RFC 9110 §5.5`, `UTS #39 §4`, `W3C Trace Context §3.2`.
static OUTSIDE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:RFC \d+|UTS #\d+|UAX #\d+|ECMA-\d+|W3C Trace Context) $").unwrap()
});

/// Each citation of `block`: the document and the number. A section without a name is one of what
/// was named last, which is `own` at first. Standards of others are left out.
fn cited(block: &str, own: Option<&str>) -> Vec<(Option<String>, String)> {
    let mut last = own.map(str::to_owned);
    let mut is_ours = true;
    let mut found = Vec::new();
    if !block.contains('§') {
        return found;
    }
    for citation in SECTION.captures_iter(block) {
        let at = citation.get(0).unwrap();
        let mark = at.start() + at.as_str().find('§').unwrap();
        if OUTSIDE.is_match(&block[..mark]) {
            is_ours = false;
            continue;
        }
        // Other words stand before a section as well: "the table of §5".
        if let Some(word) = citation.get(1).map(|word| word.as_str()) {
            let is_paper = word.len() > 1 && word.chars().all(char::is_uppercase);
            let chapter = word.to_lowercase();
            if is_paper || root().join(format!("docs/{chapter}.md")).exists() {
                last = Some(if is_paper { word.to_owned() } else { chapter });
                is_ours = true;
            }
        }
        if is_ours {
            let number = citation.get(2).map_or("", |number| number.as_str());
            found.push((last.clone(), number.to_owned()));
        }
    }
    found
}

#[test]
fn citations_lead_to_a_heading() {
    let mut sections = Sections(BTreeMap::new());
    let mut broken = Vec::new();
    let mut looked_at = 0;
    let mut check = |path: &str, blocks: Vec<Block>, own: Option<&str>| {
        for (number, block) in blocks {
            for (name, section) in cited(&block, own) {
                looked_at += 1;
                let why = match &name {
                    None => Some("which document?".to_owned()),
                    Some(name) => sections.missing(name, &section),
                };
                let name = name.unwrap_or_default();
                broken.extend(why.map(|why| format!("{path}:{number}: {name} §{section}: {why}")));
            }
        }
    };
    for source in every([
        "src",
        "tests",
        "bench",
        "fuzz/src",
        "fuzz/fuzz_targets",
        "examples",
    ]) {
        // What is said of citations is none.
        if !source.path.starts_with("tests/tidy") {
            check(&source.path, comments(&source.text), None);
        }
    }
    for document in documents() {
        let chapter = document
            .strip_prefix("docs/")
            .and_then(|name| name.strip_suffix(".md"));
        check(&document, paragraphs(&read(&document)), chapter);
    }
    assert!(looked_at > 500, "the citations were not found");
    report("a citation leads to a heading of docs/", broken);
}

#[test]
fn citations_are_found() {
    let ours = |block| {
        let names = cited(block, None).into_iter();
        names
            .map(|(name, number)| format!("{} {number}", name.unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    for (block, expected) in [
        (
            "(threat-model §3C C4, §5; guarantees §4)",
            &["threat-model 3C", "threat-model 5", "guarantees 4"][..],
        ),
        (
            "protocol §4.3 (8) and §3.4.",
            &["protocol 4.3", "protocol 3.4"],
        ),
        (
            "guarantees §3–§6, §3 to §6",
            &[
                "guarantees 3",
                "guarantees 6",
                "guarantees 3",
                "guarantees 6",
            ],
        ),
        (
            "threat-model §2.2b, §0 rule 1",
            &["threat-model 2.2b", "threat-model 0"],
        ),
        (
            "guarantees §2 step 16, §4 \"duplicate after the end\"",
            &["guarantees 2", "guarantees 4"],
        ),
        (
            "RFC 9110 §5.5, §6, UTS #39 §4, W3C Trace Context §3.3.1.5",
            &[],
        ),
        ("RFC 9110 §5.5 and protocol §1.2", &["protocol 1.2"]),
        ("BRIDGING §9", &["BRIDGING 9"]),
        ("see §3", &[" 3"]),
        ("(§3)", &[" 3"]),
    ] {
        assert_eq!(ours(block), expected, "{block}");
    }
    let text = "let a = 1; // one (guarantees\n// two\n//\n// three (design\n// §4)\nlet b;\n";
    assert_eq!(
        comments(text),
        [(1, "one (guarantees two  three (design §4)".to_owned())]
    );
}
