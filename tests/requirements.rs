//! Which rows of docs/requirements.md a test proves.
//!
//! A row is proven by a marker on a test function: its id in the documentation or the attributes
//! directly above the function, or in its name. A mention anywhere else proves nothing, and neither
//! does a test that is ignored. `just requirements` prints how many rows are done and which are
//! open; `just requirements write` takes down in tests/requirements/proven.txt which are proven.

#![expect(
    clippy::unwrap_used,
    reason = "a tree that cannot be read is a failure"
)]

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const CHAPTER: &str = "docs/requirements.md";
const PROVEN: &str = "tests/requirements/proven.txt";
const ROWS: usize = 317;
/// Where test functions are.
const FOLDERS: [&str; 4] = ["src", "tests", "examples", "bench"];
/// What a row's id is made of: the document, then a number, or a letter and a number for what a
/// document lists apart (acceptance, pitfalls, deliverables).
const ID: &str = r"00\d-(?:[ADP]\d[a-f]?|\d{2,3})";

static FUNCTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:pub(?:\([a-z]+\))? )?(?:async )?fn (\$?[A-Za-z0-9_]+)").unwrap()
});
static TEST: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"#\[(?:[a-z_]+::)*test[\]\(]").unwrap());
/// A macro and what it is made of.
static MACRO: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?ms)^macro_rules! ([a-z_]+) \{(.*?)^\}").unwrap());

/// A row of the chapter.
struct Requirement {
    id: String,
    words: String,
}

impl Requirement {
    fn document(&self) -> &str {
        &self.id[..3]
    }
}

/// All rows, in the chapter's order.
struct Chapter {
    rows: Vec<Requirement>,
    citation: Regex,
}

impl Chapter {
    fn new(text: &str) -> Self {
        let row = Regex::new(&format!(r"(?m)^\| ({ID}) \| (.+?) \|")).unwrap();
        Self {
            rows: row
                .captures_iter(text)
                .map(|found| Requirement {
                    id: found[1].to_owned(),
                    words: found[2].to_owned(),
                })
                .collect(),
            citation: Regex::new(&format!(
                r"\b({ID})\b(?:\s*…\s*(?:({ID})|-([ADP]?\d{{1,3}}[a-f]?))\b)?"
            ))
            .unwrap(),
        }
    }

    fn read() -> Self {
        Self::new(&fs::read_to_string(root().join(CHAPTER)).unwrap())
    }

    fn position(&self, id: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.id == id)
    }

    /// The rows that `text` names: `003-21`, and all of `003-21 … 003-33` or `003-21 … -33`. An id
    /// that no row has is an error.
    fn named(&self, text: &str) -> Result<BTreeSet<usize>, String> {
        let known = |id: &str| self.position(id).ok_or_else(|| id.to_owned());
        let mut found = BTreeSet::new();
        for citation in self.citation.captures_iter(text) {
            let first = known(&citation[1])?;
            let last = match (citation.get(2), citation.get(3)) {
                (Some(id), _) => known(id.as_str())?,
                (None, Some(number)) => {
                    known(&format!("{}-{}", &citation[1][..3], number.as_str()))?
                }
                (None, None) => first,
            };
            if self.rows[first].document() != self.rows[last].document() || last < first {
                return Err(citation[0].to_owned());
            }
            found.extend(first..=last);
        }
        Ok(found)
    }

    /// The rows of `test`'s marker.
    fn proven_by(&self, test: &TestFunction) -> Result<BTreeSet<usize>, String> {
        let mut found = self.named(&test.above)?;
        // `row_003_21_…`: a name has no dashes.
        let parts: Vec<&str> = test.name.split('_').collect();
        let ids = parts.windows(2).map(|pair| pair.join("-").to_uppercase());
        found.extend(ids.filter_map(|id| self.position(&id)));
        Ok(found)
    }
}

/// A function that the test harness runs.
#[derive(Debug, PartialEq)]
struct TestFunction {
    name: String,
    /// The documentation and the attributes directly above it.
    above: String,
}

/// The functions of a file's `text` that the test harness runs.
///
/// Those with a test attribute that are not ignored, and those that are given by name to a macro of
/// the same file which makes a test of each (one scenario for several stores).
fn test_functions(text: &str) -> Vec<TestFunction> {
    let run_by_macros = run_by_macros(text);
    let mut found = Vec::new();
    let mut above = String::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line.starts_with("///") {
            writeln!(above, "{line}").unwrap();
        } else if line.starts_with("#[") {
            let mut attribute = line.to_owned();
            while !attribute.ends_with(']') {
                attribute.push_str(lines.next().unwrap());
            }
            writeln!(above, "{attribute}").unwrap();
        } else {
            let above = std::mem::take(&mut above);
            let Some(name) = FUNCTION.captures(line).map(|found| found[1].to_owned()) else {
                continue;
            };
            let runs = TEST.is_match(&above) && !above.contains("#[ignore");
            if runs || run_by_macros.contains(name.as_str()) {
                found.push(TestFunction { name, above });
            }
        }
    }
    found
}

/// What is named in the use of a macro that `text` defines with a test in it.
fn run_by_macros(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for definition in MACRO.captures_iter(text) {
        if !TEST.is_match(&definition[2]) {
            continue;
        }
        let usage = format!("\n{}!", &definition[1]);
        for used in text.split(&usage).skip(1) {
            let arguments = used.split([')', '}']).next().unwrap();
            found
                .extend(arguments.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
        }
    }
    found
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The tests that prove each row, by the row's position.
fn proofs(chapter: &Chapter) -> BTreeMap<usize, Vec<String>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        walk(&root().join(folder), &mut files);
    }
    files.sort();
    let (mut found, mut unknown) = (BTreeMap::<usize, Vec<String>>::new(), Vec::new());
    for file in files {
        let path = file.strip_prefix(root()).unwrap().display();
        let text = fs::read_to_string(&file).unwrap();
        for test in test_functions(&text) {
            match chapter.proven_by(&test) {
                Ok(rows) => {
                    for row in rows {
                        let place = format!("{path}: {}", test.name);
                        found.entry(row).or_default().push(place);
                    }
                }
                Err(id) => unknown.push(format!("{path}: {}: {id}", test.name)),
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "{CHAPTER} has no such row:\n{}",
        unknown.join("\n")
    );
    found
}

/// How many rows are done, document by document, and which are open.
fn summary(chapter: &Chapter, done: &BTreeMap<usize, Vec<String>>) -> String {
    let mut text = String::new();
    let is_open = |row: &usize| !done.contains_key(row);
    for row in (0..chapter.rows.len()).filter(is_open) {
        let Requirement { id, words } = &chapter.rows[row];
        writeln!(text, "open  {id:7}  {words}").unwrap();
    }
    let mut counts = BTreeMap::<&str, (usize, usize)>::new();
    for (position, row) in chapter.rows.iter().enumerate() {
        let count = counts.entry(row.document()).or_default();
        if is_open(&position) {
            count.1 += 1;
        } else {
            count.0 += 1;
        }
    }
    for (document, (done, open)) in counts {
        writeln!(text, "{document}: {done} done, {open} open").unwrap();
    }
    let all = chapter.rows.len();
    let open = all - done.len();
    writeln!(text, "{all} rows: {} done, {open} open", done.len()).unwrap();
    text
}

/// The ids of tests/requirements/proven.txt.
fn taken_down() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(PROVEN)).unwrap_or_default();
    let ids = text.lines().filter(|line| !line.starts_with('#'));
    ids.map(str::to_owned).collect()
}

#[test]
fn proven_rows_keep_their_proof() {
    let chapter = Chapter::read();
    let proofs = proofs(&chapter);
    let text = summary(&chapter, &proofs);
    std::io::stdout().write_all(text.as_bytes()).unwrap();
    let proven: Vec<&str> = proofs
        .keys()
        .map(|row| chapter.rows[*row].id.as_str())
        .collect();
    if std::env::var("REQUIREMENTS").is_ok_and(|wanted| wanted == "write") {
        let head = "# The rows of docs/requirements.md that a test proves; `just requirements write` writes it.";
        fs::write(
            root().join(PROVEN),
            format!("{head}\n{}\n", proven.join("\n")),
        )
        .unwrap();
    }
    let before = taken_down();
    let lost: Vec<&String> = before
        .iter()
        .filter(|id| !proven.contains(&id.as_str()))
        .collect();
    assert!(
        lost.is_empty(),
        "no test proves these rows any more: {lost:?}"
    );
    let new: Vec<&&str> = proven.iter().filter(|id| !before.contains(**id)).collect();
    assert!(
        new.is_empty(),
        "`just requirements write` takes down that these rows are proven: {new:?}"
    );
}

#[test]
fn the_chapter_has_every_row_once() {
    let chapter = Chapter::read();
    assert_eq!(chapter.rows.len(), ROWS, "{CHAPTER}");
    let ids: BTreeSet<&String> = chapter.rows.iter().map(|row| &row.id).collect();
    assert_eq!(ids.len(), ROWS, "{CHAPTER} has an id twice");
}

/// 002-35: as many tests as the change that this was learnt from had, told apart by their markers:
/// what is shown and read back, schemas made plain, and arguments made plain.
#[test]
fn areas_have_as_many_proofs_as_they_need() {
    let chapter = Chapter::read();
    let proofs = proofs(&chapter);
    for (area, rows, least) in [
        (
            "shown and read back",
            "002-01, 002-13 … 002-15, 002-36, 002-37",
            7,
        ),
        ("schemas", "001-19 … 001-21, 002-17 … 002-22", 13),
        ("arguments", "001-27, 002-06, 002-23 … 002-25", 7),
    ] {
        let rows = chapter.named(rows).unwrap();
        let tests: BTreeSet<&String> = rows
            .iter()
            .filter_map(|row| proofs.get(row))
            .flatten()
            .collect();
        assert!(
            tests.len() >= least,
            "{area}: {} tests, and {least} are needed",
            tests.len()
        );
    }
}

const SAMPLE: &str = "| ID | Requirement |\n|---|---|\n| 001-01 | one |\n| 001-02 | two |\n\
    | 001-03 | three |\n| 001-A1 | four |\n| 003-P4c | five |\n| 003-P4d | six |\n| 003-100 | seven |\n";

#[test]
fn ids_are_read_as_they_are_written() {
    let chapter = Chapter::new(SAMPLE);
    assert_eq!(chapter.rows.len(), 7);
    let ids = |text: &str| {
        chapter.named(text).map(|rows| {
            let ids = rows.iter().map(|row| chapter.rows[*row].id.as_str());
            ids.collect::<Vec<_>>().join(" ")
        })
    };
    for (text, expected) in [
        ("001-01: one", "001-01"),
        ("(001-A1, 003-P4d, 003-100)", "001-A1 003-P4d 003-100"),
        ("001-01 … 001-03", "001-01 001-02 001-03"),
        ("001-01…-03", "001-01 001-02 001-03"),
        ("003-P4c … -P4d", "003-P4c 003-P4d"),
        ("001-01 …", "001-01"),
        ("on 2026-07-28, issue 1001-01, 003-2, 0001-01, t_001-01", ""),
    ] {
        assert_eq!(ids(text), Ok(expected.to_owned()), "{text}");
    }
    for (text, unknown) in [
        ("001-04", "001-04"),
        ("003-P4e", "003-P4e"),
        ("001-01 … 001-09", "001-09"),
        ("001-03 … 001-01", "001-03 … 001-01"),
        ("001-01 … 003-100", "001-01 … 003-100"),
    ] {
        assert_eq!(ids(text), Err(unknown.to_owned()), "{text}");
    }
}

#[test]
fn only_what_stands_on_a_test_function_is_a_marker() {
    let chapter = Chapter::new(SAMPLE);
    let ids = |text: &str| {
        let tests = test_functions(text);
        let rows = tests.iter().map(|test| chapter.proven_by(test).unwrap());
        let rows: BTreeSet<usize> = rows.flatten().collect();
        let ids = rows.iter().map(|row| chapter.rows[*row].id.as_str());
        ids.collect::<Vec<_>>().join(" ")
    };
    for (text, expected) in [
        ("/// 001-01\n#[test]\nfn a() {}", "001-01"),
        ("#[test]\n/// 001-01\nfn a() {}", "001-01"),
        (
            "  /// 001-01\n  #[tokio::test(flavor = \"x\")]\n  async fn a() {}",
            "001-01",
        ),
        (
            "/// 001-01\n#[test]\n#[expect(\n  x,\n  reason = \"y\"\n)]\nfn a() {}",
            "001-01",
        ),
        ("#[doc = \"001-02\"]\n#[test]\nfn a() {}", "001-02"),
        ("#[test]\nfn row_001_a1_holds() {}", "001-A1"),
        (
            "proptest! {\n  /// 001-03\n  #[test]\n  fn a(x in 0..1) {}\n}",
            "001-03",
        ),
        ("//! 001-01\n#[test]\nfn a() {}", ""),
        ("// 001-01\n#[test]\nfn a() {}", ""),
        ("/// 001-01\n\n#[test]\nfn a() {}", ""),
        ("/// 001-01\nconst A: u8 = 1;\n#[test]\nfn a() {}", ""),
        ("/// 001-01\nfn helper() {}\n#[test]\nfn a() {}", ""),
        (
            "#[test]\nfn a() {\n  // 001-01\n  assert!(true, \"001-01\");\n}",
            "",
        ),
        ("/// 001-01\n#[test]\n#[ignore]\nfn a() {}", ""),
        (
            "macro_rules! m {\n  #[test]\n}\nm!(x: a, b);\n/// 001-01\nasync fn a() {}",
            "001-01",
        ),
        (
            "macro_rules! m {\n  #[test]\n}\nm!(x: b);\n/// 001-01\nasync fn a() {}",
            "",
        ),
        (
            "macro_rules! m {\n}\nm!(x: a);\n/// 001-01\nasync fn a() {}",
            "",
        ),
    ] {
        assert_eq!(ids(text), expected, "{text}");
    }
}
