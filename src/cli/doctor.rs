//! `toolgate doctor`: looks at everything a running toolgate needs and says what is missing. Where one
//! runs, it is asked. Else doctor starts as `serve` does, without opening its doors: tool servers start
//! and stop. The ledger is only read; what is to be recorded meanwhile goes to a directory of doctor's
//! own, which is removed.

use super::configured::{self, DataArgs};
use super::ledger::text::json as escaped;
use super::operator::{DoorArgs, print};
use super::running::{self, Running};
use super::runtime::runtime;
use super::terminal::Terminal;
use super::terminal::asking::AskingProgress;
use super::unfitted::{self, ToolSchema};
use super::unnamed;
use crate::admin::overview::StatusReport;
use crate::app::{App, ledger};
use crate::config::{Config, Loaded, TransportConfig};
use crate::gate::catalogue::contract_mismatch::{self, Unfit};
use crate::gate::catalogue::hidden::Hidden;
use crate::gate::catalogue::pinned::{self, Withheld};
use crate::gate::catalogue::tool::Tool;
use crate::gate::vault::{Failed, Vault};
use crate::guards::Mode;
use crate::guards::secrets::Binding;
use crate::model::acting::shown;
use crate::model::clock::Clock;
use crate::model::counted::counted;
use crate::model::diagnostic::Diagnostic;
use crate::model::ids::ServerName;
use crate::owners::keep_private;
use crate::policy::Policy;
use crate::policy::live::LivePolicy;
use crate::upstream::child::sandbox;
use crate::upstream::server::{ServerState, Up};
use anyhow::Context as _;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

mod around;
mod record;
mod unpinned;

/// What to look at.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: DataArgs,
    #[command(flatten)]
    door: DoorArgs,
    /// One JSON object: what was found, and how many problems
    #[arg(long)]
    json: bool,
}

/// Looks; 0 if nothing is missing.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    keep_private();
    let (path, loaded) = configured::load(args.place.config.as_deref())?;
    let Loaded {
        config, reading, ..
    } = loaded;
    let config = config.context("the configuration cannot be used")?;
    let place = args.place.place_of(&path)?;
    let mut config = args.place.apply(config)?;
    let mut found = DoctorFindings::default();
    found.fine(&format!(
        "configuration {} and its policies can be used",
        path.display()
    ));
    runtime()?.block_on(async {
        if !config.admin.tokens.is_empty() {
            let own = rustix::process::geteuid().as_raw();
            found.note(&format!(
                "approvals are advisory for agents that run as uid {own}, as toolgate does here: they can read its tokens; run \
                 toolgate as another user"
            ));
        }
        let address = args.door.address_if_any(&place)?;
        let naming = args.door.naming(&args.place);
        let running = running::find(&config.data, address, &args.door, naming).await?;
        around::ports(&config, &running, &mut found);
        let named = path.clone();
        let policy = LivePolicy::start(reading, crate::config::reader(path, &config)).context("the policy cannot be used")?;
        record::judge(&config, &mut found).await;
        around::disk(&config, &mut found);
        for note in unnamed::seen(&named, &policy.current(), &config.data) {
            found.note(&note);
        }
        for note in unpinned::notes(&config, &policy.current()) {
            found.note(&note);
        }
        if let Running::Seen(_, report) = &running {
            through(report, &policy.current(), &mut found).await;
            return anyhow::Ok(());
        }
        around::disabled(&config.data, &mut found);
        let own = record::Scratch::of(&mut config)?;
        let started = ledger::open(&config).await;
        match started.and_then(|journal| App::look(&config, &policy, journal)) {
            Ok(app) => {
                secrets(&app, &mut found).await;
                servers(&app, &config, &mut found).await;
                unfitted(&named, &app, &mut found);
                if let Err(error) = app.stop().await {
                    found.wrong(&format!("{error:#}"));
                }
            }
            Err(error) => found.wrong(&format!("{error:#}")),
        }
        drop(own);
        anyhow::Ok(())
    })?;
    print(&found.shown(args.json))?;
    Ok(u8::from(found.wrong > 0))
}

/// What is seen of a toolgate that runs: nothing is started beside it.
async fn through(report: &StatusReport, policy: &Policy, found: &mut DoctorFindings) {
    around::seen(report, policy, found);
    let secrets = &policy.secrets;
    let failures = Vault::default().learn(secrets, Clock).await;
    had(secrets.0.len(), failures, found);
}

async fn secrets(app: &App, found: &mut DoctorFindings) {
    let gate = &app.door.gate;
    let secrets = gate.policy.current().secrets.clone();
    let failures = gate.vault.learn(&secrets, gate.clock).await;
    had(secrets.0.len(), failures, found);
}

/// Whether these of so many secrets cannot be had.
fn had(all: usize, failures: Vec<(Arc<Binding>, Failed)>, found: &mut DoctorFindings) {
    let had = all - failures.len();
    if had > 0 {
        found.fine(&format!("{} can be had", counted(had, "secret")));
    }
    for (binding, failed) in failures {
        found.wrong(&format!(
            "the secret `{}` cannot be had: {failed}; calls that name it are refused",
            binding.name
        ));
    }
}

async fn servers(app: &App, config: &Config, found: &mut DoctorFindings) {
    let asking = AskingProgress::of(config.servers.len());
    for name in config.servers.keys() {
        asking.during(app.door.gate.tools.settled(name)).await;
        asking.tried();
        let Some(server) = app.door.servers.get(name.as_str()) else {
            continue;
        };
        match &*server.state().borrow() {
            ServerState::Up(up) => answering(name, up, config, found),
            ServerState::Starting => found.wrong(&format!(
                "tool server `{name}` did not answer in its start_timeout"
            )),
            ServerState::Down(why) => {
                found.wrong(&format!("tool server `{name}` does not answer: {why}"));
            }
        }
    }
    withheld(app, found);
}

/// What a tool server that is up says.
fn answering(name: &ServerName, up: &Up, config: &Config, found: &mut DoctorFindings) {
    let tools = counted(up.catalog.tools.len(), "tool");
    found.fine(&format!(
        "tool server `{name}` answers: {}, {tools}",
        up.verdict.words()
    ));
    confined(name, &config.servers[name].transport, found);
    for tool in up
        .catalog
        .tools
        .iter()
        .filter(|tool| !tool.changes.is_none())
    {
        found.note(&format!(
            "tool `{}` of `{name}`: {}",
            tool.name, tool.changes
        ));
    }
}

/// Tools that agents do not see.
fn withheld(app: &App, found: &mut DoctorFindings) {
    for (server, _, why) in &app.door.gate.tools.current().quarantined {
        found.wrong(&format!("a tool of `{server}` is quarantined: {why}"));
    }
    for Hidden {
        tool,
        profile,
        reason,
        ..
    } in app.door.gate.hidden()
    {
        found.wrong(&format!(
            "`{tool}` is not shown in profile {profile}: {reason}"
        ));
    }
    let policy = app.door.policy.current();
    for Unfit { tool, words, .. } in
        contract_mismatch::unfit(&policy, &app.door.gate.tools.current())
    {
        found.wrong(&format!("`{tool}` is withheld: {words}"));
    }
    for Withheld { tool, words, .. } in
        pinned::withheld(&policy, &app.door.gate.tools.current(), &app.door.servers)
    {
        let what = if policy.mode == Mode::Observe {
            "enforce mode would withhold"
        } else {
            "withheld:"
        };
        found.wrong(&format!(
            "{what} `{tool}`: {words}; see `toolgate pins diff`"
        ));
    }
}

/// Callers whose models would not be shown all tools.
fn unfitted(configuration: &Path, app: &App, found: &mut DoctorFindings) {
    let tools = app.door.gate.tools.current();
    let one = |tool: &Arc<Tool>| ToolSchema {
        name: tool.name.clone(),
        schema: tool.schema.source(),
    };
    let tools: Vec<ToolSchema> = tools.all.iter().map(one).collect();
    let policy = app.door.policy.current();
    for Diagnostic { message, hint, .. } in unfitted::judge(configuration, &policy, &tools) {
        let hint = hint.unwrap_or_default();
        found.note(&format!("{message}; {hint}"));
    }
}

/// How a tool server that toolgate starts is confined.
fn confined(name: &ServerName, transport: &TransportConfig, found: &mut DoctorFindings) {
    let TransportConfig::Child { sandbox, .. } = transport else {
        return;
    };
    if sandbox.is_none() {
        let words = "may do to this machine what toolgate may, but leave core dumps; see servers.NAME.sandbox";
        return found.note(&format!("tool server `{name}` is not confined: it {words}"));
    }
    found.fine(&format!("tool server `{name}` {}", sandbox.words()));
    if sandbox.files.is_some() && !sandbox::keeps_to_files() {
        found.wrong(&format!(
            "this kernel cannot keep `{name}` to its files: boot it with Landlock (Linux 6.2 or newer)"
        ));
    }
}

#[derive(Default)]
struct DoctorFindings {
    /// How each is to be taken, and what it is.
    report: Vec<(&'static str, String)>,
    wrong: usize,
}

impl DoctorFindings {
    /// All that was found, for people or as JSON.
    fn shown(&self, as_json: bool) -> String {
        if as_json {
            let found = self.report.iter();
            let found = found.map(|(mark, what)| json!({ "mark": mark, "what": what }));
            let found: Vec<_> = found.collect();
            let said = json!({ "found": found, "problems": self.wrong });
            return escaped(&said.to_string()) + "\n";
        }
        let mut lines = String::new();
        for (mark, what) in &self.report {
            let _ = writeln!(lines, "{mark:<8} {}", shown(what));
        }
        Terminal::stdout().tinted(&lines)
    }

    fn fine(&mut self, what: &str) {
        self.report.push(("ok", what.to_owned()));
    }

    fn note(&mut self, what: &str) {
        self.report.push(("note", what.to_owned()));
    }

    fn wrong(&mut self, what: &str) {
        self.wrong += 1;
        self.report.push(("problem", what.to_owned()));
    }
}
