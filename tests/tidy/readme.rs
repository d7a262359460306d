//! README: as long as a page, its contract is the quickstart's, its pictures are there and need
//! nothing from elsewhere, and what commands of README and tutorial nobody runs is a list.

use super::{read, report, root};
use regex::Regex;
use std::collections::BTreeMap;
use std::fs;

/// Words of README, tables and code among them.
const WORDS_MAX: usize = 900;
/// Bytes of one drawn picture.
const PICTURE_BYTES_MAX: usize = 100 << 10;

/// Pages with commands for who begins. `tests/tools/readme` runs the `sh` blocks of the first two,
/// `tests/tools/hour` the `console` blocks of the last.
const PAGES: [&str; 4] = [
    "README.md",
    "docs/quickstart.md",
    "docs/clients.md",
    "docs/first-hour.md",
];

/// The commands there that are not run, and why, as the block says.
const NOT_RUN: &[(&str, &str, &str)] = &[
    (
        "README.md",
        "builds everything once more",
        "cargo install --locked --path .",
    ),
    (
        "docs/clients.md",
        "tests/it/init.rs does, with a file of its own",
        "toolgate init --from ~/.config/Claude/claude_desktop_config.json --rewrite-client",
    ),
    (
        "docs/clients.md",
        "needs Claude Code",
        "claude mcp add --transport http toolgate http://127.0.0.1:7777/mcp --header \"Authorization: Bearer $BOT_TOKEN\"",
    ),
];

/// What is run by nobody because it is what runs the rest.
const RUNS_ALL: &str = "tests/run  ";

/// A block of commands: what its fence says after `sh`, and its lines.
struct CommandBlock {
    said: String,
    text: String,
}

fn command_blocks(page: &str) -> Vec<CommandBlock> {
    let block = Regex::new(r"(?ms)^```(?:sh|bash|shell)\b([^\n]*)\n(.*?)^```").unwrap();
    block
        .captures_iter(&read(page))
        .map(|found| CommandBlock {
            said: found[1].trim().to_owned(),
            text: found[2].trim_end().to_owned(),
        })
        .collect()
}

#[test]
fn readme_is_read_in_minutes() {
    let readme = read("README.md");
    let words = readme.split_whitespace().count();
    assert!(
        words <= WORDS_MAX,
        "README.md has {words} words, at most {WORDS_MAX}: the rest belongs to docs/"
    );
    let (_, commands) = readme.split_once("```sh").unwrap();
    assert!(
        commands.starts_with("\ncargo run --release -- demo\n```"),
        "what a newcomer types first is the demo"
    );
}

/// Issue 20 "every command of README and tutorial runs": what does not stands in a list.
#[test]
fn commands_that_nobody_runs_are_listed() {
    let mut left_out = Vec::new();
    for page in PAGES {
        let blocks = command_blocks(page);
        let is_found = !blocks.is_empty() || page == "docs/first-hour.md";
        assert!(is_found, "{page}: its commands were not found");
        for block in blocks {
            match block.said.strip_prefix("not-run: ") {
                Some(why) => left_out.push((page, why.to_owned(), block.text)),
                None => assert!(
                    block.said.is_empty(),
                    "{page}: a fence says `{}`",
                    block.said
                ),
            }
        }
    }
    let expected = NOT_RUN.iter();
    let expected: Vec<(&str, String, String)> = expected
        .map(|&(page, why, text)| (page, why.to_owned(), text.to_owned()))
        .collect();
    assert_eq!(left_out, expected, "commands that are not run, and why");
    let blocks = command_blocks("docs/first-hour.md");
    assert!(blocks.is_empty(), "the hour is told in `console` blocks");
    let tests = command_blocks("README.md").pop().unwrap();
    assert!(
        tests.text.starts_with(RUNS_ALL),
        "README ends with how it is tested"
    );
    let run = read("tests/run");
    for step in ["tests/tools/readme", "tests/tools/hour"] {
        assert!(run.contains(step), "tests/run has no {step}");
    }
}

/// Issue 20 "a contract shown whole": it is one that counts, not one made up for the page.
#[test]
fn the_contract_of_readme_is_the_quickstarts() {
    let readme = read("README.md");
    let (_, block) = readme.split_once("```yaml\n").unwrap();
    let (contract, _) = block.split_once("```").unwrap();
    let policy = read("examples/quickstart/policies/billing.yaml");
    let (first, _) = policy.split_once("\n\n").unwrap();
    assert_eq!(
        contract.trim_end(),
        first,
        "the contract of README.md, and the first of the quickstart"
    );
}

#[test]
fn pictures_of_readme_are_there() {
    let attribute = Regex::new(r#"\b(?:src|srcset)="([^"]+)""#).unwrap();
    let without_words = Regex::new(r"<img [^>]*>|!\[([^\]]*)\]").unwrap();
    let mut broken = Vec::new();
    let readme = read("README.md");
    let pictures = attribute.captures_iter(&readme);
    let pictures: Vec<&str> = pictures
        .map(|found| found.get(1).unwrap().as_str())
        .collect();
    assert!(pictures.len() > 4, "the pictures were not found");
    for picture in pictures {
        if !root().join(picture).is_file() {
            broken.push(format!("{picture}: no such file"));
        }
    }
    for picture in without_words.captures_iter(&readme) {
        let words = picture.get(1).map_or_else(
            || picture[0].contains("alt=\"") && !picture[0].contains("alt=\"\""),
            |words| !words.is_empty(),
        );
        if !words {
            broken.push(format!("{}: says nothing in words", &picture[0]));
        }
    }
    report("a picture of README is there, and told in words", broken);
}

#[test]
fn drawn_pictures_need_nothing_from_elsewhere() {
    let folder = root().join("docs/pictures");
    let mut drawn = BTreeMap::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.contains(".svg") {
            let text = read(&format!("docs/pictures/{name}"));
            drawn.insert(name, text);
        }
    }
    assert!(drawn.len() > 7, "the pictures were not found");
    let mut broken = Vec::new();
    for (name, svg) in &drawn {
        let body = svg.replacen("http://www.w3.org/2000/svg", "", 1);
        for foreign in [
            "http:",
            "https:",
            "<script",
            "@import",
            "@font-face",
            "href=",
            "<foreignObject",
        ] {
            if body.contains(foreign) {
                broken.push(format!("{name}: {foreign}"));
            }
        }
        for needed in ["<title>", "<desc>", "role=\"img\""] {
            if !body.contains(needed) {
                broken.push(format!("{name}: no {needed}"));
            }
        }
        // Its own ground, or one for each theme, so that it is read on any page.
        let knows_both = svg.contains("prefers-color-scheme: dark");
        let of_one = name
            .strip_suffix("-light.svg")
            .is_some_and(|base| drawn.contains_key(&format!("{base}-dark.svg")))
            || name
                .strip_suffix("-dark.svg")
                .is_some_and(|base| drawn.contains_key(&format!("{base}-light.svg")));
        if !(knows_both || of_one) {
            broken.push(format!("{name}: for one theme only"));
        }
        if svg.len() > PICTURE_BYTES_MAX {
            broken.push(format!("{name}: {} bytes", svg.len()));
        }
    }
    report("a drawn picture is whole by itself", broken);
}
