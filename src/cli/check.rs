//! `toolgate check`: judges configuration and policies; all problems at once. Nothing is connected
//! to, unless asked for.

mod connect;
mod granted;
mod machine;
mod shown;
mod unkeyed;
mod untested;

use crate::cli::printed::print;
use crate::cli::terminal::Terminal;
use crate::cli::{configured, unfitted, unnamed};
use crate::config::{self, Config, FILE_NAME, Loaded, ServerConfig};
use crate::model::counted::counted;
use crate::model::diagnostic::{self, Diagnostic, MORE_PROBLEMS, Severity};
use crate::policy::file::POLICY_FILE_KEYS;
use crate::policy::locate::YamlDocument;
use crate::policy::{Policy, compile};
use granted::JudgedGrants;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Problems of one file that are shown.
const SHOWN_PER_FILE: usize = 200;

/// What to judge.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Configuration files, directories that hold a toolgate.yaml, or policy files at or below one
    /// [default: ./toolgate.yaml, ~/.config/toolgate/toolgate.yaml, /etc/toolgate/toolgate.yaml]
    paths: Vec<PathBuf>,
    /// The configuration, as other commands take it: the same as a path
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    config: Option<PathBuf>,
    /// Judge it with this data directory, whatever the configuration says, and say what calls there show
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Also start or reach each tool server, say which revisions agents will be offered, and
    /// compare the contracts with the tools' own schemas
    #[arg(long)]
    connect: bool,
    /// Print one JSON object: `diagnostics`, each with its severity, rule,
    /// place, message and help; `notes`, `servers` and the counts
    #[arg(long, conflicts_with = "sarif")]
    json: bool,
    /// Print SARIF 2.1.0, as code hosts show it beside the lines of a change
    #[arg(long)]
    sarif: bool,
}

/// Prints every problem and one line that sums up. 0: no error, 1: an error.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let paths = args
        .config
        .as_ref()
        .map_or(&*args.paths, std::slice::from_ref);
    let report = judge(paths, args.connect, args.data.as_deref())?;
    let text = if args.json {
        machine::json(&report)
    } else if args.sarif {
        machine::sarif(&report)
    } else {
        Terminal::stdout().tinted(&report.text())
    };
    print(&text)?;
    Ok(report.code())
}

/// Everything that is said of configurations and policies.
#[derive(Debug, Default)]
struct Report {
    found: Vec<Diagnostic>,
    /// What is no problem.
    notes: Vec<String>,
    /// What servers showed that were asked.
    servers: Vec<String>,
    /// Servers that did not answer.
    silent: usize,
}

impl Report {
    fn errors(&self) -> usize {
        let is_error = |one: &&Diagnostic| one.severity == Severity::Error;
        self.found.iter().filter(is_error).count()
    }

    fn code(&self) -> u8 {
        u8::from(self.errors() > 0 || self.silent > 0)
    }

    fn text(&self) -> String {
        let mut sources = HashMap::new();
        let (told, more) = self.told();
        let mut text: String = told
            .iter()
            .map(|one| shown::show(one, &mut sources))
            .collect();
        let more: Vec<String> = more
            .iter()
            .map(|(file, more)| format!("{file}: {} not shown", counted(*more, "more problem")))
            .collect();
        for line in more.iter().chain(&self.notes).chain(&self.servers) {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str(&self.sum());
        text.push('\n');
        text
    }

    /// The problems that are shown, at most [`SHOWN_PER_FILE`] of each file; and of which files there
    /// are how many more.
    fn told(&self) -> (Vec<&Diagnostic>, Vec<(&str, usize)>) {
        let (mut told, mut more) = (Vec::new(), Vec::new());
        for of_file in self.found.chunk_by(|one, next| one.file == next.file) {
            let (foremost, left_out) = diagnostic::foremost(of_file, SHOWN_PER_FILE);
            let file = foremost.first().filter(|_| left_out > 0);
            more.extend(file.map(|one| (&*one.file, left_out)));
            told.extend(foremost);
        }
        (told, more)
    }

    /// The last line.
    fn sum(&self) -> String {
        let errors = self.errors();
        let is_more = |one: &Diagnostic| one.message.starts_with(MORE_PROBLEMS);
        let at_least = if self.found.iter().any(is_more) {
            "at least "
        } else {
            ""
        };
        let silent = if self.silent > 0 {
            format!(", no answer from {}", counted(self.silent, "server"))
        } else {
            String::new()
        };
        format!(
            "{at_least}{}, {}{silent}",
            counted(errors, "error"),
            counted(self.found.len() - errors, "warning")
        )
    }
}

/// What is wrong in the files, and with `connect` what the servers say besides; with the directory `data` also
/// whether it can be theirs, and what its calls show.
fn judge(paths: &[PathBuf], connect: bool, data: Option<&Path>) -> anyhow::Result<Report> {
    let mut report = Report::default();
    for configuration in &configurations(paths)? {
        if connect {
            let connected = connect::connect(configuration)?;
            report.found.extend(connected.found);
            report.servers.extend(connected.lines);
            report.silent += connected.silent;
        }
        let loaded = config::load_supposing(configuration);
        if let Some(data) = data {
            judge_data(configuration, &loaded, data, &mut report);
        }
        judge_files(configuration, loaded, &mut report);
    }
    compile::sort(&mut report.found);
    Ok(report)
}

/// Whether the configuration can have its record in the directory `data`, and what doctor notes of it.
fn judge_data(configuration: &Path, loaded: &Loaded, data: &Path, report: &mut Report) {
    let is_other = data.exists() && !data.is_dir();
    let why = is_other.then(|| format!("{} is no directory", data.display()));
    let why = why.or_else(|| configured::why_unusable(loaded.config.as_ref()?, data));
    report.found.extend(why.map(|message| Diagnostic {
        severity: Severity::Error,
        file: configuration.display().to_string(),
        line: 0,
        column: 0,
        length: 0,
        message,
        hint: Some("name another directory with --data".to_owned()),
    }));
    let policy = loaded.reading.policy.as_ref();
    let seen = policy.map(|policy| unnamed::seen(configuration, policy, data));
    let seen = seen.into_iter().flatten();
    report
        .notes
        .extend(seen.map(|note| format!("note: {note}")));
}

/// What is wrong in the files of one configuration.
fn judge_files(configuration: &Path, loaded: Loaded, report: &mut Report) {
    let Loaded {
        config, reading, ..
    } = loaded;
    let diagnostics = &mut report.found;
    if let Some(policy) = reading.policy {
        diagnostics.extend(untested::judge(configuration, &reading.files, &policy));
        let pinned = unfitted::pinned(&policy);
        diagnostics.extend(unfitted::judge(configuration, &policy, &pinned));
        diagnostics.extend(unnamed::judge(configuration, &policy));
        diagnostics.extend(unkeyed::judge(configuration, &policy));
        let granted = config.as_ref();
        let granted = granted.map(|config| granted::judge(configuration, config, &policy));
        let JudgedGrants { found, note } = granted.unwrap_or_default();
        diagnostics.extend(found);
        report
            .notes
            .extend(notes(configuration, config.as_ref(), &policy));
        report.notes.extend(note);
    }
    let servers: Vec<ServerConfig> = config
        .map(|config| config.servers.into_values().collect())
        .unwrap_or_default();
    let servers: Vec<&ServerConfig> = servers.iter().filter(|server| !server.disabled).collect();
    if servers.len() > 1 {
        report
            .notes
            .push(format!("note: {}", together(servers.len())));
    }
    report
        .notes
        .extend(servers.iter().filter_map(|server| vouched(server)));
    report.found.extend(reading.diagnostics);
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
    let (document, _) = YamlDocument::read_through(path);
    if document.as_ref().is_some_and(is_policy) {
        above(path)
    } else {
        Some(path.to_path_buf())
    }
}

/// Is this a policy file, by its keys?
fn is_policy(document: &YamlDocument) -> bool {
    document.tree().as_object().is_some_and(|map| {
        !map.is_empty()
            && map
                .keys()
                .all(|key| POLICY_FILE_KEYS.contains(&key.as_str()))
    })
}

fn above(path: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(path).ok()?;
    whole
        .ancestors()
        .skip(1)
        .map(|directory| directory.join(FILE_NAME))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests;
