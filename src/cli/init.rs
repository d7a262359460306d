//! `toolgate init`: from tool servers, or an agent's own configuration of them, to files that
//! `toolgate check` accepts: a configuration in observe mode, a draft of a contract for each tool,
//! and the pins of all definitions.
//!
//! Nothing is written before every server has answered and the whole was judged; what was written
//! can be taken back.

pub(super) mod conceal;
mod draft;
mod jsonc;
mod rewrite;
mod source;
mod undo;

use super::listed_tools::{ListedTools, listed};
use super::serve::runtime;
use super::{configured, files};
use crate::config::{self, FILE_NAME, Loaded};
use crate::gate::catalogue::tool::Tool;
use crate::guards::pins::PIN_FILE_NAME as PINS;
use crate::mcp::pretty::plain;
use crate::model::counted::counted;
use crate::model::diagnostic::Severity;
use crate::model::ids::{ServerName, unguessable};
use crate::owners::private::{PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE};
use crate::policy::live::LivePolicy;
use crate::policy::pins::{Pins, written};
use anyhow::{Context as _, bail};
use rewrite::AgentRoute;
use source::{AgentConfig, FoundServers};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where to begin.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("begin").required(true).multiple(true).args(["from", "upstream", "command", "undo"]))]
pub(super) struct Args {
    /// An agent's configuration of its servers: Claude Desktop's, .mcp.json, .cursor/mcp.json,
    /// .vscode/mcp.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["upstream", "command"])]
    from: Option<PathBuf>,
    /// A tool server at an address; several by naming each
    #[arg(long, value_name = "[NAME=]URL")]
    upstream: Vec<String>,
    /// What to call the server of COMMAND
    #[arg(long, value_name = "NAME", default_value = "server")]
    name: String,
    /// A server of the agent's configuration to leave as it is; several by naming each
    #[arg(long, value_name = "NAME", requires = "from")]
    skip: Vec<String>,
    /// Point the agent's configuration at toolgate; what it was is kept beside it
    #[arg(long, requires = "from")]
    rewrite_client: bool,
    /// How the agent reaches toolgate then [default: stdio for Claude Desktop, http for all
    /// others]
    #[arg(long, requires = "rewrite_client")]
    via: Option<AgentRoute>,
    /// Where the files are written
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Replace files that are there; what they were is kept beside them
    #[arg(long)]
    force: bool,
    /// Take the last init in DIR back
    #[arg(long, conflicts_with_all = ["from", "upstream", "command", "force"])]
    undo: bool,
    /// A tool server to start
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Takes servers over, or an init back.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let mut out = std::io::stdout().lock();
    if args.undo {
        return undo::undo(args.shown_directory(), &mut out);
    }
    let agents = args
        .from
        .as_deref()
        .map(AgentConfig::read)
        .transpose()
        .map_err(anyhow::Error::msg)?;
    let found = begin(args, agents.as_ref());
    for note in &found.notes {
        writeln!(out, "note     {note}")?;
    }
    judge(args, &found)?;
    let place = args.shown_directory();
    let draft = DraftFiles::new(place, &found, agents.as_ref())?;
    let listed = draft.connect(&found, &mut out)?;
    let mut files = draft.files(&found, &listed);
    let loaded = draft.check(&found, &files)?;
    if let (Some(agents), true) = (&agents, args.rewrite_client) {
        files.push(rewritten(args, agents, &found, &loaded)?);
    }
    undo::write(place, &files)?;
    report(args, &found, &listed, &files, &mut out)?;
    Ok(0)
}

impl Args {
    /// Where the files are written, as it is shown.
    fn shown_directory(&self) -> &Path {
        self.dir.strip_prefix(".").unwrap_or(&self.dir)
    }
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
fn judge(args: &Args, found: &FoundServers) -> anyhow::Result<()> {
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
        configured::say(&format!("problem  {problem}"));
    }
    bail!("nothing was written; everything that is in the way is shown above");
}

/// Files that are there already.
fn occupied(args: &Args, found: &FoundServers) -> Vec<String> {
    let mut problems = Vec::new();
    let names = found
        .servers
        .iter()
        .map(|server| PathBuf::from(format!("policies/{}.yaml", server.name)));
    let sides = PathBuf::from(draft::sides_file(&found.servers));
    let files = [PathBuf::from(FILE_NAME), PathBuf::from(PINS), sides]
        .into_iter()
        .chain(names)
        .map(|name| args.shown_directory().join(name));
    for path in files {
        let backup = undo::backup_of(&path);
        if path.symlink_metadata().is_ok() && !args.force {
            problems.push(format!(
                "{} is there already; --force replaces it",
                path.display()
            ));
        } else if path.symlink_metadata().is_ok() && backup.symlink_metadata().is_ok() {
            problems.push(format!(
                "{} is there already: move it away first",
                backup.display()
            ));
        }
    }
    if args
        .shown_directory()
        .join(undo::RECORD_FILE)
        .symlink_metadata()
        .is_ok()
    {
        problems.push(format!(
            "an earlier init is in {}; `toolgate init --undo` takes it back",
            args.dir.display()
        ));
    }
    let rewritten = args
        .from
        .as_ref()
        .filter(|_| args.rewrite_client)
        .map(|from| undo::backup_of(from));
    if let Some(backup) = rewritten.filter(|backup| backup.symlink_metadata().is_ok()) {
        problems.push(format!(
            "{} is there already: move it away first",
            backup.display()
        ));
    }
    problems
}

/// The files as they will be, in a directory of their own until they are good.
struct DraftFiles {
    directory: PathBuf,
    place: PathBuf,
    configuration: String,
}

impl DraftFiles {
    fn new(
        place: &Path,
        found: &FoundServers,
        agents: Option<&AgentConfig>,
    ) -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let name = agents
            .and_then(|agents| agents.path.file_name())
            .map(|name| name.to_string_lossy().into_owned());
        let configuration = draft::configuration(
            &found.servers,
            &name.unwrap_or_else(|| "the command line".to_owned()),
        );
        let directory = place.join(format!(".toolgate-init-{}", unguessable()));
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE_DIRECTORY_MODE)
            .create(directory.join("policies"));
        made.with_context(|| format!("{} cannot be made", directory.display()))?;
        Ok(Self {
            directory,
            place: place.to_path_buf(),
            configuration,
        })
    }

    fn load(&self, found: &FoundServers, pinned: bool) -> Loaded {
        let variable = |name: &str| {
            found
                .variables
                .value(name)
                .or_else(|| std::env::var(name).ok())
        };
        let path = self.directory.join(FILE_NAME);
        if pinned {
            config::load_with(&path, &variable)
        } else {
            config::load_unpinned(&path, &variable)
        }
    }

    /// What the servers list; an error unless all of them do.
    fn connect(&self, found: &FoundServers, out: &mut impl Write) -> anyhow::Result<ListedTools> {
        files::replace(
            &self.directory.join(FILE_NAME),
            self.configuration.as_bytes(),
            PRIVATE_FILE_MODE,
        )?;
        let Loaded {
            config, reading, ..
        } = self.load(found, false);
        let said: Vec<String> = reading
            .diagnostics
            .iter()
            .map(ToString::to_string)
            .collect();
        let config = config
            .with_context(|| format!("nothing was written: {}", self.shown(&said.join("\n"))))?;
        let again = config::reader(self.directory.join(FILE_NAME), &config);
        let policy = LivePolicy::start(reading, again).context("the policy cannot be used")?;
        let names: Vec<&str> = config.servers.keys().map(ServerName::as_str).collect();
        writeln!(out, "connect  {}", names.join(", "))?;
        out.flush()?;
        let listed = runtime()?.block_on(listed(&config, &policy))?;
        for name in config
            .servers
            .keys()
            .filter(|name| listed.down.iter().all(|(down, _)| down != *name))
        {
            let tools = listed
                .tools
                .iter()
                .filter(|tool| tool.server.settings.name == *name)
                .count();
            writeln!(out, "  {name}: {}", counted(tools, "tool"))?;
        }
        for (server, why) in &listed.quarantined {
            writeln!(
                out,
                "  {server}: a tool is quarantined, and gets no contract: {}",
                plain(why)
            )?;
        }
        for (server, why) in &listed.down {
            configured::say(&format!(
                "problem  {server} does not answer: {}",
                plain(why)
            ));
        }
        if listed.down.is_empty() {
            return Ok(listed);
        }
        bail!(
            "nothing was written: mend the servers that do not answer, or leave them out (--skip)"
        );
    }

    /// Each file, and where it goes.
    fn files(&self, found: &FoundServers, listed: &ListedTools) -> Vec<(PathBuf, String)> {
        let mut files = vec![(self.place.join(FILE_NAME), self.configuration.clone())];
        for server in &found.servers {
            let own = |tool: &&Tool| tool.server.settings.name.as_str() == server.name;
            let tools: Vec<&Tool> = listed
                .tools
                .iter()
                .map(|tool| &**tool)
                .filter(own)
                .collect();
            files.push((
                self.place.join(format!("policies/{}.yaml", server.name)),
                draft::contracts(&tools),
            ));
        }
        files.push((
            self.place.join(draft::sides_file(&found.servers)),
            draft::sides(&listed.offers),
        ));
        let pins: Pins = listed.pins().collect();
        let complete = listed.complete(&pins, &BTreeSet::new());
        files.push((self.place.join(PINS), written(&pins, &complete)));
        files
    }

    /// Judges the files as `toolgate check` does.
    fn check(&self, found: &FoundServers, files: &[(PathBuf, String)]) -> anyhow::Result<Loaded> {
        for (path, text) in files {
            let within = path.strip_prefix(&self.place).unwrap_or(path);
            files::replace(
                &self.directory.join(within),
                text.as_bytes(),
                PRIVATE_FILE_MODE,
            )?;
        }
        let loaded = self.load(found, true);
        let errors = loaded
            .reading
            .diagnostics
            .iter()
            .filter(|found| found.severity == Severity::Error);
        let errors: Vec<String> = errors.map(ToString::to_string).collect();
        if !errors.is_empty() {
            bail!(
                "nothing was written: the draft is not good, which is a defect of toolgate\n{}",
                self.shown(&errors.join("\n"))
            );
        }
        Ok(loaded)
    }

    fn shown(&self, said: &str) -> String {
        said.replace(&format!("{}/", self.directory.display()), "")
    }
}

impl Drop for DraftFiles {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.directory));
    }
}

fn rewritten(
    args: &Args,
    agents: &AgentConfig,
    found: &FoundServers,
    loaded: &Loaded,
) -> anyhow::Result<(PathBuf, String)> {
    let directory = std::path::absolute(&args.dir).context("the directory has no absolute path")?;
    let directory = directory.components().collect::<PathBuf>();
    let program = std::env::current_exe().context("toolgate's own program cannot be found")?;
    let address = rewrite::address(loaded);
    let place = rewrite::ToolgateLocation {
        program: &program,
        directory: &directory,
        address: &address,
    };
    let via = args.via.unwrap_or_else(|| AgentRoute::of(agents));
    let text = rewrite::rewritten(agents, &found.servers, via, &place);
    let text = text
        .map_err(|why| anyhow::anyhow!("nothing was written: {}: {why}", agents.path.display()))?;
    Ok((std::path::absolute(&agents.path)?, text))
}

/// What there is now, and what to do next.
fn report(
    args: &Args,
    found: &FoundServers,
    listed: &ListedTools,
    files: &[(PathBuf, String)],
    out: &mut impl Write,
) -> anyhow::Result<()> {
    for (path, _) in files {
        let what = match path.file_name().and_then(|name| name.to_str()) {
            Some(PINS) => format!(": {} definitions pinned", listed.tools.len()),
            _ => String::new(),
        };
        let before = undo::backup_of(path);
        let kept = if before.exists() {
            format!(" (as it was: {})", before.display())
        } else {
            String::new()
        };
        writeln!(out, "wrote    {}{what}{kept}", path.display())?;
    }
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
        writeln!(
            out,
            "set      {name} before toolgate starts ({}{whence})",
            variable.place
        )?;
    }
    if args.from.is_some() && !args.rewrite_client {
        writeln!(
            out,
            "note     the agent's own configuration is as it was; --rewrite-client points it at toolgate"
        )?;
    }
    let configuration = args.shown_directory().join(FILE_NAME);
    writeln!(
        out,
        "next     toolgate check {0}; toolgate serve --config {0}",
        configuration.display()
    )?;
    writeln!(
        out,
        "later    toolgate suggest drafts bounds from the calls that were observed with `ledger: {{ content: {{ observed: full }} }}`"
    )?;
    Ok(())
}
