//! Documents: links inside the repository lead somewhere, the book has every chapter, files that
//! are named exist, and the table of refusals is that of the code.

use super::{read, report, root};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use toolgate::guards::REFUSAL_CODES;

/// Documents beside the book's chapters.
const BESIDE: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "policies/README.md",
    "examples/README.md",
    "examples/quickstart/README.md",
];

/// The pages of the book, from the root of the repository: `docs/design.md`.
pub(super) fn chapters() -> Vec<String> {
    let mut chapters = Vec::new();
    for folder in ["docs", "docs/decisions"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name)
                .extension()
                .is_some_and(|ending| ending == "md")
            {
                chapters.push(format!("{folder}/{name}"));
            }
        }
    }
    chapters.sort();
    assert!(chapters.len() > 10, "the chapters were not found");
    chapters
}

/// The chapters, and the documents beside them that are there.
pub(super) fn documents() -> Vec<String> {
    let beside = BESIDE.iter().map(|&name| name.to_owned());
    let beside = beside.filter(|name| root().join(name).exists());
    chapters().into_iter().chain(beside).collect()
}

/// The lines of a document that are text, with their numbers: no code that stands between fences.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    })
}

/// The words of each heading.
pub(super) fn headings(text: &str) -> impl Iterator<Item = &str> {
    prose(text).filter_map(|(_, line)| {
        let words = line.trim_start_matches('#');
        (words.len() < line.len()).then_some(words.strip_prefix(' ')?.trim())
    })
}

/// What a heading is linked to by, as GitHub and mdBook make it.
fn anchors(text: &str) -> BTreeSet<String> {
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for heading in headings(text) {
        let anchor: String = link
            .replace_all(heading, "$1")
            .chars()
            .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .flat_map(char::to_lowercase)
            .collect();
        let before = seen.entry(anchor.clone()).or_default();
        anchors.insert(match *before {
            0 => anchor,
            again => format!("{anchor}-{again}"),
        });
        *before += 1;
    }
    anchors
}

/// `path` without `..` and `.`, or none if it leads out of the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => plain.pop().then_some(())?,
            Component::CurDir => {}
            Component::Normal(step) => plain.push(step),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// Why a link from `document` leads nowhere.
fn dead(document: &str, link: &str) -> Option<&'static str> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let beside = Path::new(document).with_file_name("");
    let Some(target) = normal(&beside.join(path)) else {
        return Some("leads out of the repository");
    };
    let target = match path {
        "" => PathBuf::from(document),
        _ => target,
    };
    if !root().join(&target).exists() {
        return Some("no such file");
    }
    let is_page = target.extension().is_some_and(|ending| ending == "md");
    let found =
        anchor.is_empty() || !is_page || anchors(&read(target.to_str().unwrap())).contains(anchor);
    (!found).then_some("no such heading")
}

#[test]
fn links_lead_somewhere() {
    // Also links whose words are broken over two lines: the target is on the second.
    let link = Regex::new(r"\]\(([^)\s]+)\)|(?m)^\[[^\]]+\]: (\S+)").unwrap();
    let code = Regex::new("`[^`\n]*`").unwrap();
    let away = Regex::new("^[a-z]+:").unwrap();
    let mut broken = Vec::new();
    let mut looked_at = 0;
    for document in documents() {
        let text = read(&document);
        for (number, line) in prose(&text) {
            for found in link.captures_iter(&code.replace_all(line, "`code`")) {
                let link = found.get(1).or(found.get(2)).unwrap().as_str();
                if away.is_match(link) {
                    continue;
                }
                looked_at += 1;
                if let Some(why) = dead(&document, link) {
                    broken.push(format!("{document}:{number}: {link}: {why}"));
                }
            }
        }
    }
    assert!(looked_at > 100, "the links were not found");
    report(
        "a link leads to a file and a heading that are there",
        broken,
    );
}

#[test]
fn the_book_has_every_chapter() {
    let entry = Regex::new(r"\]\(([^)]+)\)").unwrap();
    let summary = read("docs/SUMMARY.md");
    let listed: Vec<String> = entry
        .captures_iter(&summary)
        .map(|found| format!("docs/{}", &found[1]))
        .collect();
    let mut sorted = listed.clone();
    sorted.sort();
    let mut expected = chapters();
    expected.retain(|chapter| chapter != "docs/SUMMARY.md");
    assert_eq!(sorted, expected, "docs/SUMMARY.md lists each chapter once");
}

#[test]
fn refusals_lists_the_codes() {
    let chapter = read("docs/refusals.md");
    let (_, table) = chapter
        .split_once("| code | meaning | what an agent can do |\n|---|---|---|\n")
        .unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        row.trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let listed: Vec<Vec<String>> = rows.map(cells).collect();
    let expected: Vec<Vec<String>> = REFUSAL_CODES
        .iter()
        .map(|own| {
            vec![
                format!("`{}`", own.code),
                own.meaning.into(),
                own.remedy.into(),
            ]
        })
        .collect();
    assert_eq!(
        listed, expected,
        "the table of docs/refusals.md and guards::REFUSAL_CODES say the same"
    );
    let explained: BTreeSet<&str> = chapter
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .collect();
    let codes: BTreeSet<&str> = REFUSAL_CODES.iter().map(|own| own.code).collect();
    assert_eq!(
        explained, codes,
        "docs/refusals.md explains each code under a heading"
    );
}

/// What only a restart applies is what the chapters say it is.
#[test]
fn documents_name_the_keys_that_need_a_restart() {
    let within = |text: &str, begin: &str, end: &str| {
        let (_, after) = text.split_once(begin).expect(begin);
        after.split_once(end).expect(end).0.to_owned()
    };
    let names = |text: &str, quote: &str| -> BTreeSet<String> {
        let name = Regex::new(&format!("{quote}([a-z_]+){quote}")).unwrap();
        name.captures_iter(text)
            .map(|found| found[1].to_owned())
            .collect()
    };
    let source = read("src/config.rs");
    let keys = names(&within(&source, "const RESTART_KEYS", "];"), "\"");
    assert!(keys.contains("listen"), "{keys:?}");
    for (document, begin, end) in [
        (
            "docs/operations.md",
            "need a restart, and a reload warns of them: ",
            ". ",
        ),
        (
            "docs/policy.md",
            "written out where others may read the file is warned of. ",
            " need a restart",
        ),
    ] {
        let told = names(&within(&read(document), begin, end), "`");
        assert_eq!(told, keys, "{document}");
    }
}

#[test]
fn documents_name_files_that_exist() {
    let path =
        Regex::new(r"(?:`|\]\()((?:src|tests|examples|policies|bench|benches|fuzz|\.config|\.ci)/[A-Za-z0-9_./-]*)")
            .unwrap();
    let mut broken = Vec::new();
    let all = documents().into_iter().chain(["CHANGELOG.md".to_owned()]);
    // What the help of verbs names is the operator's.
    for document in all.filter(|document| document != "docs/verbs.md") {
        let text = read(&document);
        let beside = root().join(&document).with_file_name("");
        let missing = path
            .captures_iter(&text)
            .filter(|found| !root().join(&found[1]).exists() && !beside.join(&found[1]).exists());
        broken.extend(missing.map(|found| format!("{document}: {}", &found[1])));
    }
    report("a document names a file that is not there", broken);
}

#[test]
fn architecture_fits_on_three_pages() {
    let words = read("ARCHITECTURE.md").split_whitespace().count();
    assert!(
        words <= 2100,
        "ARCHITECTURE.md has {words} words; three pages are 2100"
    );
}
