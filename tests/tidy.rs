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
#[path = "tidy/documents.rs"]
mod documents;

use documents::documents;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use toolgate::model::refusal::REFUSAL_CODES;

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
    &["downstream", "admin"],
    // The process: these three put the others together, and may know each other.
    &["config", "app", "cli"],
];
const LINES_AT_MOST: usize = 400;
const LINES_MEDIAN: usize = 140;
const LINES_NINE_OF_TEN: usize = 320;
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
    let import = Regex::new(r"(?:crate::guards|\bsuper)::([a-z_]+)").unwrap();
    let mut broken = Vec::new();
    for source in guards.iter().filter(|source| !source.is_test) {
        for (number, line) in source.code() {
            for found in import.captures_iter(line) {
                if names.contains(&found[1]) && &found[1] != source.part(1) {
                    broken.push(format!(
                        "{}:{number}: {} knows {}",
                        source.path,
                        source.part(1),
                        &found[1]
                    ));
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
    let left = Regex::new(r"Left by `([a-z]+)`\.\n(?:#\[.*\]\n)*pub struct ([A-Za-z]+)").unwrap();
    let text = read("src/guards/evidence.rs");
    let kinds: Vec<_> = left.captures_iter(&text).collect();
    assert_eq!(
        kinds.len(),
        text.matches("pub struct").count(),
        "every evidence says `Left by` which guard"
    );
    for kind in kinds {
        let (guard, name) = (&kind[1], &kind[2]);
        let minted = places(&format!(r"\b{name}::mint\b"), |source| {
            source.module == ["guards", guard]
        });
        report(&format!("{name} is minted by {guard} only"), minted);
    }
    let observed = places(r"\b(Ruled|NotRepeated|Sealed)::observed\(", |source| {
        source.module == ["gate", "observing"]
    });
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

#[test]
fn each_of_these_has_one_place() {
    let yaml = places("saphyr", |source| source.module == ["policy", "locate"]);
    report("YAML is read in policy/locate.rs", yaml);
    let spawn = places(
        r"tokio::(task::)?spawn\b|thread::spawn|JoinSet|spawn_local",
        |source| source.module == ["telemetry", "tasks"],
    );
    report("tasks are started by telemetry::tasks", spawn);
    let now = places(r"\b(SystemTime|Instant|Timestamp|Zoned)::now\b", |source| {
        source.module == ["model", "clock"]
    });
    report("time comes from model::clock", now);
    let print = places(
        r"\be?print(ln)?!|std::io::stdout\(\)|tokio::io::stdout\(\)",
        |source| source.part(0) == "cli",
    );
    report("only the command line prints", print);
    let untrusted = places(r"serde_json::from_(slice|reader)\b", |source| {
        source.module == ["mcp", "json"]
    });
    report("untrusted bytes are read by mcp::json", untrusted);
    let erased = places(r"\banyhow\b", |source| {
        matches!(source.part(0), "app" | "cli" | "main")
    });
    report("anyhow is for app, cli and main", erased);
}

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

/// 002-13, 003-36: whatever door a call comes in by, it becomes one in one place, its arguments are
/// checked in one, and only that check asks a schema whether it accepts them.
#[test]
fn arguments_are_read_and_checked_in_one_place() {
    for (what, pattern, expected) in [
        (
            "a message becomes a call",
            r"= ToolCall \{",
            &["src/downstream/route.rs"][..],
        ),
        (
            "a call goes to the gate",
            r"\.call_tool\(",
            &["src/downstream/route.rs"],
        ),
        (
            "its arguments are checked",
            r"\.arguments\s*\.check\(",
            &["src/gate/steps/judge.rs"],
        ),
        // Arguments; results; and, when a policy is loaded, what its contracts set.
        (
            "a schema is asked",
            r"\.accepts\(",
            &[
                "src/guards/arguments.rs",
                "src/guards/results.rs",
                "src/guards/rewrite/against.rs",
            ],
        ),
    ] {
        let mut found = places(pattern, |_| false);
        for place in &mut found {
            place.truncate(place.find(':').unwrap());
        }
        found.sort();
        assert_eq!(found, expected, "{what} in one place");
    }
}

#[test]
fn exceptions_to_lints_give_a_reason() {
    let mut broken = Vec::new();
    for source in every(["src", "tests/it", "examples/servers/src"]) {
        let lines = source.text.lines().enumerate();
        let found =
            lines.filter(|(_, line)| line.contains("#[allow(") || line.contains("#![allow("));
        broken.extend(found.map(|(index, _)| format!("{}:{}", source.path, index + 1)));
    }
    report("a lint is expected with a reason, not allowed", broken);
}

#[test]
fn files_say_what_they_are_for() {
    let all = every(["src", "tests", "examples/servers"]);
    let silent = all.iter().filter(|source| !source.text.starts_with("//! "));
    report(
        "a file begins with `//!` and what it is for",
        silent.map(|source| source.path.clone()).collect(),
    );
}

#[test]
fn files_are_short() {
    let sources = sources("src");
    let mut sizes: Vec<(usize, &str)> = sources
        .iter()
        .map(|source| (source.code().count(), source.path.as_str()))
        .collect();
    let long = sizes.iter().filter(|(lines, _)| *lines > LINES_AT_MOST);
    report(
        &format!("a file has at most {LINES_AT_MOST} lines of code without tests"),
        long.map(|(lines, path)| format!("{path}: {lines}"))
            .collect(),
    );
    sizes.sort_unstable();
    let (median, tenth) = (sizes[sizes.len() / 2].0, sizes[sizes.len() * 9 / 10].0);
    assert!(
        median <= LINES_MEDIAN,
        "half of the files are longer than {median} lines"
    );
    assert!(
        tenth <= LINES_NINE_OF_TEN,
        "one file of ten is longer than {tenth} lines"
    );
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
        .map(|(code, meaning, remedy)| {
            vec![format!("`{code}`"), (*meaning).into(), (*remedy).into()]
        })
        .collect();
    assert_eq!(
        listed, expected,
        "the table of docs/refusals.md and model::refusal::CODES say the same"
    );
    let explained: BTreeSet<&str> = chapter
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .collect();
    let codes: BTreeSet<&str> = REFUSAL_CODES.iter().map(|(code, ..)| *code).collect();
    assert_eq!(
        explained, codes,
        "docs/refusals.md explains each code under a heading"
    );
}

/// The metrics there are, as a scrape names them.
fn metrics() -> BTreeSet<String> {
    // Kept equal to what a running toolgate says by the test of that name.
    let folder = "src/telemetry/metrics/snapshots";
    let text = read(&format!(
        "{folder}/toolgate__telemetry__metrics__tests__every_metric_says_what_it_is.snap"
    ));
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| match line.split_once(' ').unwrap() {
            (name, "counter") => format!("{name}_total"),
            (name, "info") => format!("{name}_info"),
            (name, _) => name.to_owned(),
        })
        .collect()
}

#[test]
fn metrics_chapter_lists_the_metrics() {
    let exist = metrics();
    let word = Regex::new(r"\btoolgate_[a-z_]+").unwrap();
    // What a query reads of a histogram is the histogram's.
    let whole = |name: &str| {
        let part = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|part| name.strip_suffix(part))
            .filter(|base| exist.contains(*base));
        part.unwrap_or(name).to_owned()
    };
    let named = |document: &str| -> BTreeSet<String> {
        word.find_iter(&read(document))
            .map(|name| whole(name.as_str()))
            .collect()
    };
    assert_eq!(
        named("docs/metrics.md"),
        exist,
        "the table of docs/metrics.md and the metrics there are"
    );
    let elsewhere = ["README.md", "docs/refusals.md", "docs/operations.md"];
    report(
        "a document names a metric that is not there",
        elsewhere
            .into_iter()
            .flat_map(named)
            .filter(|name| !exist.contains(name))
            .collect(),
    );
}

/// 003-113, 004-03, 004-04: the alert rules that are shipped can fire, and each has a test, which
/// promtool runs.
#[test]
fn alert_rules_name_metrics_and_codes_that_exist() {
    let rules = read("examples/prometheus/alerts.yaml");
    let exist = metrics();
    let parts = ["_sum", "_count", "_bucket"];
    let is_known = |name: &str| {
        exist.contains(name)
            || parts.iter().any(|part| {
                name.strip_suffix(part)
                    .is_some_and(|name| exist.contains(name))
            })
    };
    let word = Regex::new(r"\btoolgate_[a-z_]+").unwrap();
    let named: BTreeSet<&str> = word.find_iter(&rules).map(|name| name.as_str()).collect();
    let missing = named.iter().filter(|name| !is_known(name));
    report(
        "an alert rule names a metric that is not there",
        missing.map(|&name| name.to_owned()).collect(),
    );
    for wanted in [
        "toolgate_duplicates_executed_total",
        "toolgate_unknown_outcome_age_seconds",
    ] {
        assert!(named.contains(wanted), "no rule watches {wanted}");
    }
    let codes = Regex::new(r#"code=~?"([a-z_|]+)""#).unwrap();
    let unknown = codes
        .captures_iter(&rules)
        .flat_map(|found| found[1].split('|').map(str::to_owned).collect::<Vec<_>>());
    let unknown = unknown.filter(|code| !REFUSAL_CODES.iter().any(|(known, ..)| known == code));
    report(
        "an alert rule names a code that is not there",
        unknown.collect(),
    );
    let alert = Regex::new(r"- alert: (\w+)").unwrap();
    let tests = read("examples/prometheus/alerts.test.yaml");
    let tested = |name: &str| {
        tests.contains(&format!(
            r#"ALERTS{{alertname="{name}", alertstate="firing", instance="fires""#
        ))
    };
    report(
        "an alert has no test in examples/prometheus/alerts.test.yaml",
        {
            alert
                .captures_iter(&rules)
                .map(|found| found[1].to_owned())
                .filter(|name| !tested(name))
                .collect()
        },
    );
    let run = read("tests/run");
    assert!(
        run.contains("promtool test rules alerts.test.yaml"),
        "promtool runs the tests of the alerts"
    );
    let of = |key: &str| rules.matches(&format!("{key}: ")).count();
    assert_eq!(
        (of("- alert"), of("expr"), of("summary")),
        (of("action"), of("action"), of("action"))
    );
}

#[test]
fn documents_name_files_that_exist() {
    let path =
        Regex::new(r"(?:`|\]\()((?:src|tests|examples|policies|bench|benches|fuzz|\.config|\.ci)/[A-Za-z0-9_./-]*)")
            .unwrap();
    let mut broken = Vec::new();
    for document in documents().into_iter().chain(["CHANGELOG.md".to_owned()]) {
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
