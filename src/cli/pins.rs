//! `toolgate pins`: which definitions of tools are approved. Approving is an operator's act:
//! nothing else writes pins, and nothing is written where anything went wrong (threat-model §3D D4,
//! D8).

use super::configured;
use super::ledger::text::json as escaped;
use super::listed_tools::{ListedTools, listed_but};
use super::operator::print;
use super::runtime::runtime;
use super::terminal::{Terminal, Tone};
use crate::config::{self, Loaded};
use crate::guards::pins::Pin;
use crate::mcp::pretty::readable;
use crate::model::counted::counted;
use crate::model::ids::ServerName;
use crate::policy::live::LivePolicy;
use crate::policy::pins::{self, Pins};
use anyhow::{Context as _, bail};
use compared::{ComparedTool, PinStatus};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

mod approve;
mod compared;

/// Lines around a change.
const DIFF_CONTEXT_LINES: usize = 3;
/// How long a diff may be refined.
const DIFF_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// What to do with pins.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: PinsVerb,
    /// The configuration [default: as for serve]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// One JSON object: each tool, how it stands to what is approved, and what changed
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum PinsVerb {
    /// Compare what the tool servers list with what is approved. 0: the same, 1: not, or a server
    /// does not answer
    Verify,
    /// Show what has changed since it was approved, and what is new. 0: nothing, 1: something
    Diff {
        /// `server__tool`; a `*` at the end stands for any rest [default: all]
        tools: Vec<String>,
    },
    /// Approve tools as their servers list them now: write them to the pin file, and show what
    /// changed
    Approve(approve::Approve),
}

/// What the verbs work on.
struct PinsState {
    /// The pin file.
    file: PathBuf,
    /// What it says; nothing if there is none yet.
    pins: Pins,
    /// Its text, to see whether another process writes it.
    text: Option<String>,
    /// Servers all of whose tools it has, as it says.
    complete: BTreeSet<ServerName>,
    /// Whether a tool needs a pin.
    require: bool,
    listed: ListedTools,
}

/// Compares, shows or approves.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let is_written = matches!(args.verb, PinsVerb::Approve(_));
    let ground = PinsState::prepare(args.config.as_deref(), is_written)?;
    let mut text = Vec::new();
    let done = match &args.verb {
        PinsVerb::Verify if args.json => ground.json(&[], true, &mut text),
        PinsVerb::Verify => ground.verify(&mut text),
        PinsVerb::Diff { tools } if args.json => ground.json(tools, false, &mut text),
        PinsVerb::Diff { tools } => ground.diff(tools, &mut text),
        PinsVerb::Approve(approve) => approve.run(&ground, args.json, &mut text),
    };
    let text = String::from_utf8_lossy(&text);
    let is_diff = is_written || matches!(args.verb, PinsVerb::Diff { .. });
    print(&match (args.json, is_diff) {
        (true, _) => text.into_owned(),
        (false, true) => colored(&text),
        (false, false) => Terminal::stdout().tinted(&text),
    })?;
    done
}

impl PinsState {
    /// Asks the servers. To compare needs no policy, and only the secrets of the servers that are
    /// asked; what is to be written is judged whole before.
    fn prepare(named: Option<&Path>, is_written: bool) -> anyhow::Result<Self> {
        let (path, loaded) = if is_written {
            configured::unpinned(named)?
        } else {
            configured::ungoverned(named)?
        };
        let Loaded {
            config,
            reading,
            unset,
        } = loaded;
        let config = config.context("the configuration cannot be used")?;
        let Some(source) = &config.pins else {
            bail!(
                "{} names no pin file; add: `pins: {}`",
                path.display(),
                crate::guards::pins::PIN_FILE_NAME
            );
        };
        let file = source.file.clone();
        let (pins, complete, text) = if file.symlink_metadata().is_ok() {
            let servers: Vec<_> = config.servers.keys().chain(unset.keys()).cloned().collect();
            let found = pins::read(&file, &servers);
            for diagnostic in &found.diagnostics {
                configured::say(&diagnostic.to_string());
            }
            if found.is_broken() {
                bail!("{} cannot be used, and is left as it is", file.display());
            }
            (found.pins, found.complete, Some(found.text))
        } else {
            (Pins::new(), BTreeSet::new(), None)
        };
        let policy = LivePolicy::start(reading, config::reader(path, &config))
            .context("the policy cannot be used")?;
        let require = source.require;
        let listed = runtime()?.block_on(listed_but(config, &policy, unset))?;
        Ok(Self {
            file,
            pins,
            text,
            complete,
            require,
            listed,
        })
    }

    fn verify(&self, out: &mut impl std::io::Write) -> anyhow::Result<u8> {
        let found = compared::compare(&self.pins, &self.listed);
        let mut problems = self.listed.down.len();
        for one in &found {
            let wrong = match one.stands {
                PinStatus::AsPinned => false,
                PinStatus::New(_) => self.require,
                PinStatus::Drifted(..) | PinStatus::Quarantined | PinStatus::Absent => true,
            };
            problems += usize::from(wrong);
            writeln!(out, "{one}")?;
        }
        self.notes(out)?;
        let pinned = found
            .iter()
            .filter(|one| matches!(one.stands, PinStatus::AsPinned))
            .count();
        writeln!(
            out,
            "{pinned} as approved, {}",
            counted(problems, "problem")
        )?;
        Ok(u8::from(problems > 0))
    }

    fn diff(&self, tools: &[String], out: &mut impl std::io::Write) -> anyhow::Result<u8> {
        let found = compared::compare(&self.pins, &self.listed);
        let chosen = compared::choose(&found, tools)?;
        let mut differs = !self.listed.down.is_empty();
        for one in chosen {
            differs |= !matches!(one.stands, PinStatus::AsPinned);
            out.write_all(shown(one).as_bytes())?;
        }
        self.notes(out)?;
        Ok(u8::from(differs))
    }

    /// How each tool stands that `tools` names, for programs; `of_all` judges as `verify` does.
    fn json(
        &self,
        tools: &[String],
        of_all: bool,
        out: &mut impl std::io::Write,
    ) -> anyhow::Result<u8> {
        let found = compared::compare(&self.pins, &self.listed);
        let chosen = compared::choose(&found, tools)?;
        let mut problems = self.listed.down.len();
        for one in &chosen {
            problems += usize::from(match one.stands {
                PinStatus::AsPinned => false,
                PinStatus::New(_) => self.require || !of_all,
                PinStatus::Drifted(..) | PinStatus::Quarantined | PinStatus::Absent => true,
            });
        }
        let tools: Vec<Value> = chosen.iter().map(|one| one.json()).collect();
        let down = self.listed.down.iter();
        let down = down.map(|(server, why)| json!({ "server": server.as_str(), "why": why }));
        let said =
            json!({ "tools": tools, "silent": down.collect::<Vec<_>>(), "problems": problems });
        writeln!(out, "{}", escaped(&said.to_string()))?;
        Ok(u8::from(problems > 0))
    }

    /// Servers that do not answer, and tools that are not offered whatever is pinned.
    fn notes(&self, out: &mut impl std::io::Write) -> anyhow::Result<()> {
        for (server, why) in &self.listed.down {
            writeln!(out, "unknown  tools of {server}: it does not answer: {why}")?;
        }
        for (server, why) in &self.listed.quarantined {
            writeln!(out, "withheld a tool of {server} is quarantined: {why}")?;
        }
        Ok(())
    }
}

/// A unified diff in the colours that it has everywhere.
fn colored(text: &str) -> String {
    let terminal = Terminal::stdout();
    let line = |line: &str| match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => terminal.paint(Tone::Head, line),
        [b'+', ..] => terminal.paint(Tone::Good, line),
        [b'-', ..] => terminal.paint(Tone::Bad, line),
        [b'@', ..] => terminal.paint(Tone::Hint, line),
        _ => terminal.tinted(line),
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

/// What was approved against what is listed, as a unified diff.
fn shown(one: &ComparedTool<'_>) -> String {
    let text = |pin: &Pin| readable(&pin.definition.value()) + "\n";
    let (old, new) = match &one.stands {
        PinStatus::AsPinned => return String::new(),
        PinStatus::Drifted(pin, now) => (text(pin), text(now)),
        PinStatus::New(now) => (String::new(), text(now)),
        PinStatus::Quarantined | PinStatus::Absent => return format!("{one}\n"),
    };
    let (approved, listed) = (
        format!("approved/{}", one.name),
        format!("listed/{}", one.name),
    );
    let approved = if old.is_empty() {
        "/dev/null"
    } else {
        &approved
    };
    let diff = similar::TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_lines(&old, &new);
    diff.unified_diff()
        .context_radius(DIFF_CONTEXT_LINES)
        .header(approved, &listed)
        .to_string()
}
