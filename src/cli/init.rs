//! `toolgate init`: from tool servers, or an agent's own configuration of them, to files that
//! `toolgate check` accepts: a configuration in observe mode, a draft of a contract for each tool,
//! and the pins of all definitions.
//!
//! Nothing is written before every server has answered and the whole was judged; what was written
//! can be taken back.

pub(super) mod conceal;
mod connect;
mod draft;
mod draft_files;
mod init_record;
mod jsonc;
mod merge;
mod record;
mod record_place;
mod rewrite;
mod source;
mod telling;
mod undo;

use super::listed_tools::ListedTools;
use super::printed::LastingOutput;
use super::timeouts::timeout;
use crate::config::{FILE_NAME, Loaded};
use crate::guards::pins::PIN_FILE_NAME as PINS;
use anyhow::{Context as _, bail};
use connect::{CONNECT_TIMEOUT, InterruptibleRuntime};
use draft_files::{DraftFiles, GoodFiles, pack_file, policy_file};
use init_record::WrittenFile;
use record::NewFile;
use record_place::RecordPlace;
pub(super) use rewrite::AgentRoute;
use source::{AgentConfig, FoundServers};
use std::path::{Path, PathBuf};
use std::time::Duration;
use telling::{FileSaid, InitTelling};

/// Where to begin.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("begin").required(true).multiple(true).args(["from", "upstream", "command", "undo"]))]
pub(super) struct Args {
    /// An agent's configuration of its servers: Claude Desktop's, .mcp.json, .cursor/mcp.json,
    /// .vscode/mcp.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["upstream", "command", "undo"])]
    pub(super) from: Option<PathBuf>,
    /// A tool server at an address; several by naming each
    #[arg(long, value_name = "[NAME=]URL", conflicts_with = "undo")]
    pub(super) upstream: Vec<String>,
    /// What to call the server of COMMAND
    #[arg(long, value_name = "NAME", default_value = "server")]
    pub(super) name: String,
    /// A server of the agent's configuration to leave as it is; several by naming each
    #[arg(long, value_name = "NAME", requires = "from")]
    pub(super) skip: Vec<String>,
    /// Point the agent's configuration at toolgate; what it was is kept in ~/.local/state/toolgate
    #[arg(long, requires = "from")]
    pub(super) rewrite_client: bool,
    /// How the agent reaches toolgate then [default: stdio for Claude Desktop, http for all
    /// others]
    #[arg(long, requires = "rewrite_client")]
    pub(super) via: Option<AgentRoute>,
    /// Where and how files are written.
    #[command(flatten)]
    pub(super) writing: WriteArgs,
    /// A tool server to start
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "undo")]
    pub(super) command: Vec<String>,
}

/// Where and how files are written, and taken back.
#[derive(Debug, clap::Args)]
pub(super) struct WriteArgs {
    /// Where the files are written
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) dir: PathBuf,
    /// Where the configuration has toolgate keep its data [default: toolgate-data beside it]
    #[arg(long, value_name = "DIR", conflicts_with = "undo")]
    pub(super) data: Option<PathBuf>,
    /// How long the tool servers may take to answer, all together [default: 20s, at most 10m]
    #[arg(long, value_name = "TIME", value_parser = timeout, conflicts_with = "undo")]
    pub(super) timeout: Option<Duration>,
    /// Replace files that are there, or with --undo take those back, too, that were changed since;
    /// what they were is kept in ~/.local/state/toolgate
    #[arg(long)]
    pub(super) force: bool,
    /// Take back what the last init in DIR did; what was changed since stays, and is named
    #[arg(long)]
    pub(super) undo: bool,
    /// One JSON object at the end, in place of lines
    #[arg(long)]
    pub(super) json: bool,
}

impl WriteArgs {
    /// How long the tool servers may take to answer.
    fn bound(&self) -> Duration {
        self.timeout.unwrap_or(CONNECT_TIMEOUT)
    }

    /// Where the files are written, as it is shown.
    fn shown_directory(&self) -> &Path {
        self.dir.strip_prefix(".").unwrap_or(&self.dir)
    }
}

/// Takes servers over, or an init back. 1 where a server did not answer, or a file has to stay.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut out = LastingOutput(std::io::stdout().lock());
    let mut telling = InitTelling::new(&mut out, args.writing.json);
    let place = args.writing.shown_directory();
    let done = if args.writing.undo {
        undo::undo(place, args.writing.force, &mut telling)
    } else {
        take_over(args, place, &mut telling)
    };
    telling.end(done)
}

/// Why nothing was begun, in the form that is asked for.
pub(super) fn refused(error: anyhow::Error, is_json: bool) -> anyhow::Result<u8> {
    let mut out = LastingOutput(std::io::stdout().lock());
    InitTelling::new(&mut out, is_json).end(Err(error))
}

fn take_over(args: &Args, place: &Path, telling: &mut InitTelling<'_>) -> anyhow::Result<u8> {
    let agents = args
        .from
        .as_deref()
        .map(AgentConfig::read)
        .transpose()
        .map_err(anyhow::Error::msg)?;
    let mut found = begin(args, agents.as_ref());
    for note in &found.notes {
        telling.note(note);
    }
    judge(args, &found, telling)?;
    let mut runtime = InterruptibleRuntime::new()?;
    let (bound, data) = (args.writing.bound(), args.writing.data.as_deref());
    let draft = DraftFiles::new(place, agents.as_ref(), bound, data)?;
    let listed = draft.connect(&mut runtime, &found, telling)?;
    let left_out = found.keep(|name| {
        listed
            .offers
            .iter()
            .any(|(known, _)| known.as_str() == name)
    });
    let GoodFiles {
        mut files,
        loaded,
        notes,
    } = draft.good(&found, &listed)?;
    for note in &notes {
        telling.note(note);
    }
    if let (Some(agents), true) = (&agents, args.rewrite_client) {
        files.push(rewritten(args, agents, &found, &loaded)?);
    }
    let record_place = RecordPlace::of(place)?;
    let alone = record_place.alone()?;
    // While the servers were asked, another may have written here.
    judge(args, &found, telling)?;
    runtime.not_interrupted()?;
    let record = record::write(&record_place, place, &files)?;
    drop(alone);
    telling.keeps(record.backups.as_ref());
    for (file, written) in files.iter().zip(&record.files) {
        telling.wrote(said_of(file, written, place, &listed));
    }
    report(args, &found, telling);
    for name in &left_out {
        telling.problem(&format!(
            "{name} was left out, since it does not answer: mend it, then `toolgate init --undo` and init again"
        ));
    }
    Ok(u8::from(!left_out.is_empty()))
}

fn begin(args: &Args, agents: Option<&AgentConfig>) -> FoundServers {
    let mut found = agents.map_or_else(FoundServers::default, |agents| agents.servers(&args.skip));
    for written in &args.upstream {
        source::upstream(written, &mut found);
    }
    source::command(&args.name, &args.command, &mut found);
    if found.servers.is_empty() && found.problems.is_empty() {
        found
            .problems
            .push("there is no server to take over".to_owned());
    }
    found
}

/// All that speaks against it, before anything is started.
fn judge(args: &Args, found: &FoundServers, telling: &mut InitTelling<'_>) -> anyhow::Result<()> {
    let mut problems = found.problems.clone();
    problems.extend(occupied(args, found));
    let unset = found
        .variables
        .all()
        .filter(|(name, one)| one.value.is_none() && std::env::var_os(name).is_none());
    problems.extend(
        unset.map(|(name, one)| {
            format!("the variable {name} is not set, and {} needs it", one.place)
        }),
    );
    if problems.is_empty() {
        return Ok(());
    }
    for problem in &problems {
        telling.problem(problem);
    }
    bail!("nothing was written; everything that is in the way is shown above");
}

/// Files that are there already.
fn occupied(args: &Args, found: &FoundServers) -> Vec<String> {
    let mut problems = Vec::new();
    let names = found
        .servers
        .iter()
        .flat_map(|server| [policy_file(&server.name), pack_file(&server.name)].map(PathBuf::from));
    let sides = PathBuf::from(draft::sides_file(&found.servers));
    let files = [PathBuf::from(FILE_NAME), PathBuf::from(PINS), sides]
        .into_iter()
        .chain(names)
        .map(|name| args.writing.shown_directory().join(name));
    for path in files {
        if let Some(why) = record::obstacle(&path) {
            if !problems.contains(&why) {
                problems.push(why);
            }
        } else if path.symlink_metadata().is_ok() && !args.writing.force {
            problems.push(format!(
                "{} is there already; --force replaces it",
                path.display()
            ));
        }
    }
    match RecordPlace::of(args.writing.shown_directory()) {
        Ok(place) if place.is_taken() => problems.push(format!(
            "an earlier init is in {}; `toolgate init --undo` takes it back",
            args.writing.dir.display()
        )),
        Ok(_) => {}
        Err(why) => problems.push(format!("{why:#}")),
    }
    problems
}

fn rewritten(
    args: &Args,
    agents: &AgentConfig,
    found: &FoundServers,
    loaded: &Loaded,
) -> anyhow::Result<NewFile> {
    let directory =
        std::path::absolute(&args.writing.dir).context("the directory has no absolute path")?;
    let directory = directory.components().collect::<PathBuf>();
    let program = std::env::current_exe().context("toolgate's own program cannot be found")?;
    let address = rewrite::address(loaded);
    let data = match &args.writing.data {
        Some(data) => std::path::absolute(data).context("--data has no absolute path")?,
        None => directory.join("toolgate-data"),
    };
    let place = rewrite::ToolgateLocation {
        program: &program,
        directory: &directory,
        data: &data,
        address: address.as_deref(),
    };
    let via = args.via.unwrap_or_else(|| AgentRoute::of(agents));
    let text = rewrite::rewritten(agents, &found.servers, via, &place);
    let text = text
        .map_err(|why| anyhow::anyhow!("nothing was written: {}: {why}", agents.path.display()))?;
    Ok(NewFile {
        path: std::path::absolute(&agents.path)?,
        text,
        is_agents: true,
        read_as: Some(agents.document.written().to_owned()),
    })
}

/// What became of a file.
fn said_of(file: &NewFile, written: &WrittenFile, place: &Path, listed: &ListedTools) -> FileSaid {
    let is_pins = file.path.file_name().is_some_and(|name| name == PINS);
    FileSaid {
        path: place.join(&written.path),
        change: match (&written.backup, file.is_agents) {
            (Some(_), true) => "rewritten",
            (Some(_), false) => "replaced",
            (None, _) => "created",
        },
        backup: written.backup.clone(),
        definitions: is_pins.then_some(listed.tools.len()),
        why: None,
    }
}

/// What there is to set, and what to do next.
fn report(args: &Args, found: &FoundServers, telling: &mut InitTelling<'_>) {
    let from = args
        .from
        .as_ref()
        .and_then(|from| from.file_name())
        .map(|name| name.to_string_lossy());
    for (name, variable) in found.variables.all() {
        let whence = match (&variable.value, &from) {
            (Some(_), Some(from)) => format!("; its value was in {from}, and was not copied"),
            (Some(_), None) => "; its value was on the command line, and was not copied".to_owned(),
            (None, _) => String::new(),
        };
        telling.set(name, &variable.place, &whence);
    }
    if args.from.is_some() && !args.rewrite_client {
        telling.note(
            "the agent's own configuration is as it was; --rewrite-client points it at toolgate",
        );
    }
    let configuration = args.writing.shown_directory().join(FILE_NAME);
    let configuration = configuration.display();
    telling.next(&[
        format!("toolgate check {configuration}"),
        format!("toolgate serve --config {configuration}"),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: Args,
    }

    /// Issue 17 D9: "20 s", unless the operator says otherwise.
    #[test]
    fn servers_have_20_seconds_unless_the_operator_says_otherwise() {
        let bound = |words: &[&str]| {
            let begin = ["init", "--upstream", "http://127.0.0.1:9/mcp"];
            let words = begin.iter().chain(words);
            let line = CommandLine::try_parse_from(words).ok();
            line.map(|line| line.args.writing.bound())
        };
        assert_eq!(bound(&[]), Some(Duration::from_secs(20)));
        assert_eq!(bound(&["--timeout", "1s"]), Some(Duration::from_secs(1)));
        assert_eq!(bound(&["--timeout", "10m"]), Some(Duration::from_mins(10)));
        assert_eq!(bound(&["--timeout", "11m"]), None);
    }
}
