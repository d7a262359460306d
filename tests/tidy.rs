//! What the compiler does not see: floors, guards, names, sizes, and documents that agree with the
//! code. Reads files only; an author who breaks a rule is told the file, the line and the rule.

#![expect(
    clippy::unwrap_used,
    reason = "a tree that cannot be read is a failure"
)]

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/citations.rs"]
mod citations;
#[path = "tidy/dashboard.rs"]
mod dashboard;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/files.rs"]
mod files;
#[path = "tidy/floors.rs"]
mod floors;
#[path = "tidy/keys.rs"]
mod keys;
#[path = "tidy/label_values.rs"]
mod label_values;
#[path = "tidy/metrics.rs"]
mod metrics;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/one_place.rs"]
mod one_place;
#[path = "tidy/public.rs"]
mod public;
#[path = "tidy/readme.rs"]
mod readme;

use regex::Regex;
use std::fs;
use std::path::{Path, PathBuf};

/// One file of Rust.
struct Source {
    /// From the root of the repository, such as `src/gate/call.rs`.
    path: String,
    /// Such as `["gate", "call"]`.
    module: Vec<String>,
    /// All of it.
    text: String,
    /// Is the whole file a test?
    is_test: bool,
}

impl Source {
    /// Lines that are code and not a test, with their numbers.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let inline = self
            .text
            .find("#[cfg(test)]\nmod tests {")
            .unwrap_or(self.text.len());
        let lines = self.text[..inline]
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line));
        lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with("//"))
    }

    /// The file without its ending, and its folders.
    fn part(&self, index: usize) -> &str {
        self.module.get(index).map_or("", String::as_str)
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name))
        .unwrap_or_else(|error| panic!("{name} cannot be read: {error}"))
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources(folder: &str) -> Vec<Source> {
    let mut files = Vec::new();
    walk(&root().join(folder), &mut files);
    let source = |file: PathBuf| {
        let path = file
            .strip_prefix(root())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let within = path
            .strip_prefix(folder)
            .unwrap()
            .trim_start_matches('/')
            .trim_end_matches(".rs");
        let module: Vec<String> = within.split('/').map(ToOwned::to_owned).collect();
        let is_test = module.iter().any(|step| step == "tests");
        Source {
            text: fs::read_to_string(&file).unwrap(),
            path,
            module,
            is_test,
        }
    };
    let sources: Vec<Source> = files.into_iter().map(source).collect();
    assert!(!sources.is_empty(), "{folder} holds no source");
    sources
}

fn every<const N: usize>(folders: [&str; N]) -> Vec<Source> {
    folders.into_iter().flat_map(sources).collect()
}

fn report(rule: &str, mut broken: Vec<String>) {
    broken.sort();
    assert!(broken.is_empty(), "{rule}:\n  {}\n", broken.join("\n  "));
}

/// Every place of code, tests aside, where `pattern` stands, unless `allowed` says that it may.
fn places(pattern: &str, allowed: impl Fn(&Source) -> bool) -> Vec<String> {
    let pattern = Regex::new(pattern).unwrap();
    let mut places = Vec::new();
    for source in sources("src")
        .iter()
        .filter(|source| !source.is_test && !allowed(source))
    {
        let found = source.code().filter(|(_, line)| pattern.is_match(line));
        places.extend(
            found.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim())),
        );
    }
    places
}
