//! `toolgate check`: judges configuration and policies; all problems at once. Nothing is connected
//! to, unless asked for.

mod connect;
mod unkeyed;
mod untested;

use crate::cli::{unfitted, unnamed};
use crate::config::{self, Config, FILE_NAME, ServerConfig};
use crate::model::counted::counted;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::policy::file::POLICY_FILE_KEYS;
use crate::policy::locate::YamlDocument;
use crate::policy::{Policy, compile};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Characters of a line that are shown.
const SHOWN_LINE_CHARS: usize = 160;

/// What to judge.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Configuration files, directories that hold a toolgate.yaml, or policy files at or below one
    /// [default: ./toolgate.yaml, ~/.config/toolgate/toolgate.yaml, /etc/toolgate/toolgate.yaml]
    paths: Vec<PathBuf>,
    /// The configuration, as other commands take it: the same as a path
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    config: Option<PathBuf>,
    /// Also start or reach each tool server, say which revisions agents will be offered, and
    /// compare the contracts with the tools' own schemas
    #[arg(long)]
    connect: bool,
}

/// Prints every problem and one line that sums up. 0: no error, 1: an error.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let paths = args
        .config
        .as_ref()
        .map_or(&*args.paths, std::slice::from_ref);
    let mut out = std::io::stdout();
    let (text, mut tally) = judge_files(paths)?;
    out.write_all(text.as_bytes())?;
    let mut silent = 0;
    if args.connect && tally.errors == 0 {
        for configuration in configurations(paths)? {
            let connected = connect::connect(&configuration)?;
            out.write_all(connected.text.as_bytes())?;
            tally.add(connected.tally);
            silent += connected.silent;
        }
    }
    let silent_words = if silent > 0 {
        format!(", no answer from {}", counted(silent, "server"))
    } else {
        String::new()
    };
    writeln!(out, "{}{silent_words}", tally.words())?;
    Ok(u8::from(tally.errors > 0 || silent > 0))
}

/// Problems, counted.
#[derive(Debug, Default, Clone, Copy)]
struct ProblemCount {
    errors: usize,
    warnings: usize,
}

impl ProblemCount {
    fn of(found: &[Diagnostic]) -> Self {
        let errors = found
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .count();
        Self {
            errors,
            warnings: found.len() - errors,
        }
    }

    fn add(&mut self, other: Self) {
        self.errors += other.errors;
        self.warnings += other.warnings;
    }

    fn words(self) -> String {
        format!(
            "{}, {}",
            counted(self.errors, "error"),
            counted(self.warnings, "warning")
        )
    }
}

/// What is said of the files, without the line that sums up.
fn judge_files(paths: &[PathBuf]) -> anyhow::Result<(String, ProblemCount)> {
    let mut diagnostics = Vec::new();
    let mut good = Vec::new();
    for configuration in &configurations(paths)? {
        let config::Loaded {
            config, reading, ..
        } = config::load_supposing(configuration);
        if let Some(policy) = reading.policy {
            diagnostics.extend(untested::judge(configuration, &reading.files, &policy));
            let pinned = unfitted::pinned(&policy);
            diagnostics.extend(unfitted::judge(configuration, &policy, &pinned));
            diagnostics.extend(unnamed::judge(configuration, &policy));
            diagnostics.extend(unkeyed::judge(configuration, &policy));
            good.extend(notes(configuration, config.as_ref(), &policy));
        }
        let servers: Vec<ServerConfig> = config
            .map(|config| config.servers.into_values().collect())
            .unwrap_or_default();
        let servers: Vec<&ServerConfig> =
            servers.iter().filter(|server| !server.disabled).collect();
        if servers.len() > 1 {
            good.push(format!("note: {}", together(servers.len())));
        }
        good.extend(servers.iter().filter_map(|server| vouched(server)));
        diagnostics.extend(reading.diagnostics);
    }
    compile::sort(&mut diagnostics);
    let mut text = String::new();
    let mut sources = HashMap::new();
    for diagnostic in &diagnostics {
        text.push_str(&show(diagnostic, &mut sources));
    }
    for line in good {
        writeln!(text, "{line}")?;
    }
    Ok((text, ProblemCount::of(&diagnostics)))
}

/// What is said of a policy that can be used.
fn notes(configuration: &Path, config: Option<&Config>, policy: &Policy) -> Vec<String> {
    let contracts = policy.allowlist.contracts().count();
    let mut notes = vec![format!(
        "{}: {}, policy {}",
        configuration.display(),
        counted(contracts, "contract"),
        policy.version
    )];
    let changing = policy.allowlist.changing().count();
    let irreversible = policy
        .allowlist
        .changing()
        .filter(|(_, rules)| rules.undo.is_irreversible())
        .count();
    if irreversible > 0 {
        let of = counted(changing, "contract");
        notes.push(format!(
            "note: {irreversible} of {of} with side effects cannot be taken back, so a person is asked before each call"
        ));
    }
    notes.extend(unkeyed::regimes(policy));
    let servers = config
        .into_iter()
        .flat_map(|config| config.servers.keys().map(ToString::to_string));
    notes.extend(closed(policy, &servers.collect::<Vec<_>>()));
    notes
}

/// What is closed where no layer says anything of it, and how it is opened.
fn closed(policy: &Policy, servers: &[String]) -> Option<String> {
    let server = servers.first().filter(|_| !policy.allowlist.has_sides())?;
    Some(format!(
        "note: no layer opens resources, prompts, completions, sampling, elicitation, roots or logging, so enforce mode closes \
         them; e.g. `layers: {{ global: {{ resources: {{ allow: [\"{server}__*\"] }} }} }}` opens some"
    ))
}

/// What nobody would guess about several servers at one address.
fn together(servers: usize) -> String {
    format!(
        "/mcp offers every revision, whatever its {servers} servers speak; --connect says what agents lose where theirs is another"
    )
}

/// What the operator's word for a server means for its calls.
fn vouched(server: &ServerConfig) -> Option<String> {
    let (last, others) = server.not_executed.split_last()?;
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let statuses = if others.is_empty() {
        last.to_string()
    } else {
        format!("{} or {last}", others.join(", "))
    };
    Some(format!(
        "note: a call that `{}` answers with HTTP {statuses} counts as not executed and may be sent again: make sure that \
         neither it nor a proxy before it says so once the call has begun",
        server.name
    ))
}

fn configurations(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut configurations = Vec::new();
    if paths.is_empty() {
        let none = || {
            anyhow::anyhow!(
                "no {FILE_NAME} here, in ~/.config/toolgate or in /etc/toolgate; name one"
            )
        };
        configurations.push(config::find().ok_or_else(none)?);
    }
    for path in paths {
        let found = configuration_of(path);
        let found = found.ok_or_else(|| {
            anyhow::anyhow!("no {FILE_NAME} in or above {}; name one", path.display())
        })?;
        if !configurations.contains(&found) {
            configurations.push(found);
        }
    }
    Ok(configurations)
}

/// The configuration that `path` is, holds, or belongs to as a policy.
fn configuration_of(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        let within = path.join(FILE_NAME);
        return if within.is_file() {
            Some(within)
        } else {
            above(path)
        };
    }
    let document = YamlDocument::read(path).ok();
    let is_policy = |document: &YamlDocument| {
        document.tree().as_object().is_some_and(|map| {
            !map.is_empty()
                && map
                    .keys()
                    .all(|key| POLICY_FILE_KEYS.contains(&key.as_str()))
        })
    };
    if document.as_ref().is_some_and(is_policy) {
        above(path)
    } else {
        Some(path.to_path_buf())
    }
}

fn above(path: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(path).ok()?;
    whole
        .ancestors()
        .skip(1)
        .map(|directory| directory.join(FILE_NAME))
        .find(|candidate| candidate.is_file())
}

struct SourceLines {
    lines: Vec<String>,
    secret: Vec<u32>,
}

impl SourceLines {
    fn read(file: &str) -> Option<Self> {
        let document = YamlDocument::read(Path::new(file)).ok()?;
        let lines = document.text().lines().map(ToOwned::to_owned).collect();
        Some(Self {
            lines,
            secret: document.lines_of(holds_secret),
        })
    }

    /// The line, unless a secret is written on it.
    fn line(&self, number: u32) -> Option<&str> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.lines
            .get(index)
            .map(String::as_str)
            .filter(|_| !self.secret.contains(&number))
    }
}

/// Is this a token, a header or a variable of a child, written out instead of `${…}`?
fn holds_secret(path: &[String], value: &serde_json::Value) -> bool {
    let place = path.iter().any(|step| {
        step == "token" || step == "secret" || step == "headers" || step == "env" || step == "url"
    });
    let scalar = !value.is_object() && !value.is_array();
    place && scalar && !value.as_str().is_some_and(is_variable)
}

/// Is this one variable, without a default that could be the secret itself?
fn is_variable(text: &str) -> bool {
    let name = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// One problem, the line it is on, and a caret under the place.
fn show(diagnostic: &Diagnostic, sources: &mut HashMap<String, Option<SourceLines>>) -> String {
    let Diagnostic {
        severity,
        file,
        line,
        column,
        message,
        hint,
    } = diagnostic;
    let severity = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let place = if *line > 0 {
        format!("{file}:{line}:{column}")
    } else {
        file.clone()
    };
    let mut text = format!("{severity}: {message}\n  --> {place}\n");
    let source = sources
        .entry(file.clone())
        .or_insert_with(|| SourceLines::read(file));
    if let Some(written) = source.as_ref().and_then(|source| source.line(*line)) {
        let number = line.to_string();
        let gutter = " ".repeat(number.len());
        let (written, before) = around(
            written,
            usize::try_from(*column).unwrap_or(1).saturating_sub(1),
        );
        let blank: String = before
            .chars()
            .map(|letter| if letter == '\t' { '\t' } else { ' ' })
            .collect();
        let shown = format!("{gutter} |\n{number} | {written}\n{gutter} | {blank}^\n");
        text.push_str(&shown);
    }
    if let Some(hint) = hint {
        let help = format!("  = help: {hint}\n");
        text.push_str(&help);
    }
    text.push('\n');
    text
}

/// As much of `line` as is shown, with the place in it, and what of that stands before the place.
fn around(line: &str, place: usize) -> (String, String) {
    let letters: Vec<char> = line.chars().collect();
    if letters.len() <= SHOWN_LINE_CHARS {
        return (line.to_owned(), letters.iter().take(place).collect());
    }
    let from = place
        .saturating_sub(SHOWN_LINE_CHARS / 2)
        .min(letters.len() - SHOWN_LINE_CHARS);
    let head = if from > 0 { "…" } else { "" };
    let tail = if from + SHOWN_LINE_CHARS < letters.len() {
        "…"
    } else {
        ""
    };
    let shown: String = letters.iter().skip(from).take(SHOWN_LINE_CHARS).collect();
    let before: String = letters.iter().take(place).skip(from).collect();
    (format!("{head}{shown}{tail}"), format!("{head}{before}"))
}

#[cfg(test)]
mod tests;
