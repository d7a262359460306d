//! The recording and the table that README begins with: they say what `toolgate demo` prints and
//! counts now. `docs/pictures/record` takes the recording.

use crate::harness::gate::run;
use crate::harness::setup::Setup;
use regex::Regex;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Bytes of a recording.
const BYTES_MAX: usize = 100 << 10;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines that a picture shows, from the first to the last.
fn shown(svg: &str) -> Vec<String> {
    let line = Regex::new(r#"<text id="l(\d+)"[^>]*>(.*)</text>"#).unwrap();
    let colour = Regex::new("</?tspan[^>]*>").unwrap();
    let lines: Vec<(u32, String)> = line
        .captures_iter(svg)
        .map(|found| {
            let text = colour.replace_all(&found[2], "");
            let text = text.replace("&lt;", "<").replace("&gt;", ">");
            (found[1].parse().unwrap(), text.replace("&amp;", "&"))
        })
        .collect();
    let in_order = lines.is_sorted_by_key(|(number, _)| *number);
    assert!(in_order, "the lines of a picture stand in their order");
    lines.into_iter().map(|(_, text)| text).collect()
}

/// Without what is another number each time.
fn lasting(line: &str) -> String {
    let seconds = Regex::new(r"in \d+\.\d s").unwrap();
    let records = Regex::new(r"chain of \d+ records").unwrap();
    let line = seconds.replace(line, "in … s").into_owned();
    records.replace(&line, "chain of … records").into_owned()
}

/// Issue 20 "a recording made by a script in the repository from a real run".
#[tokio::test]
async fn the_recording_is_of_the_demo_as_it_is() {
    let (code, out, err) = run(&Setup::new(), &["demo"]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let printed = std::iter::once("$ toolgate demo").chain(out.lines());
    let printed = printed.filter(|line| !line.is_empty());
    let printed: Vec<String> = printed.map(lasting).collect();
    for name in ["demo.svg", "demo-still.svg"] {
        let svg = read(&format!("docs/pictures/{name}"));
        assert!(svg.len() <= BYTES_MAX, "{name} has {} bytes", svg.len());
        let told: Vec<String> = shown(&svg).iter().map(|line| lasting(line)).collect();
        assert_eq!(told, printed, "{name} is old: run docs/pictures/record");
        let moves = svg.contains("@keyframes");
        assert_eq!(moves, name == "demo.svg", "{name} moves: {moves}");
        assert_eq!(
            moves,
            svg.contains("@media (prefers-reduced-motion: no-preference)"),
            "{name} moves only for a reader who may like it"
        );
    }
}

/// Issue 20 "what happens when, without and with": README has no other numbers than the demo.
#[tokio::test]
async fn the_table_of_readme_is_what_the_demo_counts() {
    let (code, out, err) = run(&Setup::new(), &["demo", "--json"]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let told: Value = out.parse().unwrap();
    let stories = told["stories"].as_array().unwrap();
    let count = |story: &Value, key: &str| story[key].as_u64().unwrap();
    let counted: Vec<(u64, u64)> = stories
        .iter()
        .map(|story| (count(story, "without"), count(story, "with")))
        .collect();

    let readme = read("README.md");
    let (_, table) = readme.split_once("| what happens when").unwrap();
    let number = Regex::new(r"\d+").unwrap();
    let first = |cell: &str| -> u64 {
        let found = number.find(cell);
        let found = found.unwrap_or_else(|| panic!("`{cell}` has no number"));
        found.as_str().parse().unwrap()
    };
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let written: Vec<(u64, u64)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').collect();
            (first(cells[2]), first(cells[3]))
        })
        .collect();
    assert_eq!(written, counted, "the table of README.md");
}
