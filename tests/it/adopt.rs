//! The walk of a new adopter, as `examples/adopt/README.md` tells it: each command is run, and each
//! answer compared.
//!
//! `ADOPT_WRITE=1` writes the answers into the file instead, to be read before they are committed.

use crate::harness::setup::programs;
use regex::Regex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/adopt")
}

/// A shell at the place of the example.
struct Shell {
    place: tempfile::TempDir,
    environment: BTreeMap<String, String>,
}

impl Shell {
    fn new() -> Self {
        Self::with_files_of(&example())
    }

    fn with_files_of(directory: &Path) -> Self {
        let place = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() && path.extension().is_none_or(|ending| ending != "md") {
                fs::copy(&path, place.path().join(path.file_name().unwrap())).unwrap();
            }
        }
        let path = format!(
            "{}:{}",
            programs().display(),
            std::env::var("PATH").unwrap()
        );
        let home = place.path().display().to_string();
        Self {
            place,
            environment: BTreeMap::from([("PATH".to_owned(), path), ("HOME".to_owned(), home)]),
        }
    }

    /// What is read after a command was typed.
    fn run(&mut self, command: &str) -> String {
        if let Some((name, value)) = command
            .strip_prefix("export ")
            .and_then(|rest| rest.split_once('='))
        {
            self.environment.insert(name.to_owned(), value.to_owned());
            return String::new();
        }
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("umask 022; {{ {command}\n}} 2>&1")])
            .env_clear()
            .envs(&self.environment);
        let output = shell.current_dir(self.place.path()).output().unwrap();
        let mut text = String::from_utf8(output.stdout).unwrap();
        if !output.status.success() {
            writeln!(text, "(exit code {})", output.status.code().unwrap()).unwrap();
        }
        let place = self.place.path().canonicalize().unwrap();
        let text = text
            .replace(place.to_str().unwrap(), "/home/ann")
            .replace(self.place.path().to_str().unwrap(), "/home/ann");
        text.replace(programs().to_str().unwrap(), "/usr/local/bin")
    }
}

/// Issue 4 "tried as a new user would": from `mcpServers` to an enforced policy.
#[test]
fn the_example_of_adopting_toolgate_is_what_happens() {
    let path = example().join("README.md");
    let written = fs::read_to_string(&path).unwrap();
    let (mut shell, mut happened, mut within, mut commands) =
        (Shell::new(), String::new(), false, 0);
    for line in written.lines() {
        within = if line.starts_with("```") {
            line == "```console"
        } else {
            within
        };
        let command = line.strip_prefix("$ ").filter(|_| within);
        if !within || line.starts_with("```") || command.is_some() {
            writeln!(happened, "{line}").unwrap();
        }
        if let Some(command) = command {
            commands += 1;
            happened += &shell.run(command);
        }
    }
    assert!(commands > 10, "the commands were not found");
    let failed: Vec<&str> = happened
        .lines()
        .filter(|line| line.starts_with("(exit code"))
        .collect();
    assert!(
        failed.is_empty(),
        "what is shown to who begins succeeds:\n{happened}"
    );
    if std::env::var_os("ADOPT_WRITE").is_some() {
        fs::write(&path, &happened).unwrap();
        return;
    }
    // The version of the policy is a hash of everything; a server takes as long as it takes.
    let shown = |text: &str| {
        let patterns = [
            ("policy [0-9a-f]{12}", "policy …"),
            (r"\([0-9.]+ s\)", "(… s)"),
            ("(backups/[0-9TZ]+|undone)-[0-9a-f]{8}", "…"),
        ];
        let one = |text: String, (pattern, with)| {
            let pattern = Regex::new(pattern).unwrap();
            pattern.replace_all(&text, with).into_owned()
        };
        patterns.into_iter().fold(text.to_owned(), one)
    };
    compare(&shown(&written), &shown(&happened));
}

/// Issue 17 "pins are on in what the quickstart writes": its server says what its pins say.
#[test]
fn the_quickstart_has_the_pins_of_its_server() {
    let quickstart = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let mut shell = Shell::with_files_of(&quickstart);
    let own = "s/command: cargo .*/command: billing-server/; /args: /d; s/^policies: .*/policies: []/; s/^data: .*/data: data/";
    assert_eq!(shell.run(&format!("sed -i '{own}' toolgate.yaml")), "");
    let said = shell.run("toolgate pins verify");
    assert!(said.ends_with("5 as approved, 0 problems\n"), "{said}");
}

fn compare(expected: &str, happened: &str) {
    let differs = expected
        .lines()
        .zip(happened.lines())
        .position(|(one, other)| one != other);
    let at = differs.unwrap_or_else(|| expected.lines().count().min(happened.lines().count()));
    let around = |text: &str| {
        text.lines()
            .skip(at.saturating_sub(3))
            .take(12)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(
        expected == happened,
        "from line {}\nwritten:\n{}\n\nhappened:\n{}",
        at + 1,
        around(expected),
        around(happened)
    );
}
