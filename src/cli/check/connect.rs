//! `toolgate check --connect`: what each tool server speaks, what agents are therefore offered, and
//! where contracts do not fit what the servers say of their tools.

use crate::app;
use crate::cli::runtime::runtime;
use crate::cli::terminal::asking::AskingProgress;
use crate::cli::unfitted::{self, ToolSchema};
use crate::config::{self, Loaded};
use crate::mcp::revision::{Era, Revision};
use crate::model::counted::counted;
use crate::model::diagnostic::Diagnostic;
use crate::model::ids::{ServerName, ToolName};
use crate::policy::known_tools::{KnownTools, hooked};
use crate::policy::locate::YamlDocument;
use crate::policy::{Policy, compile};
use crate::upstream::catalog::Catalog;
use crate::upstream::leftovers::Leftovers;
use crate::upstream::server::ServerState;
use crate::upstream::servers::Servers;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long tool servers may take to end.
const SERVER_SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

/// What the servers that answer list.
struct ConnectedTools {
    known: KnownTools,
    /// Tools without a pin.
    unpinned: Vec<ToolSchema>,
}

impl ConnectedTools {
    fn none() -> Self {
        Self {
            known: KnownTools::listed(),
            unpinned: Vec::new(),
        }
    }

    fn add(&mut self, policy: &Policy, server: &ServerName, catalog: &Catalog) {
        self.known.add_server(server);
        for tool in &catalog.tools {
            let schema = tool.input_schema.value();
            self.known.add(server, &tool.name, schema.clone());
            if let Some(result) = tool.text.get("outputSchema") {
                self.known.add_result(server, &tool.name, result.value());
            }
            if policy.pins.pin(server, &tool.name).is_none() {
                let name = ToolName::of(server, &tool.name);
                self.unpinned.push(ToolSchema { name, schema });
            }
        }
        // What cannot be judged is quarantined, and `doctor` tells of it; it is there, though.
        for (tool, ..) in &catalog.quarantined {
            self.known.add(server, tool, Value::Null);
        }
    }
}

/// What the servers of a configuration showed.
#[derive(Debug, Default)]
pub(super) struct Connected {
    /// What is printed of it.
    pub(super) lines: Vec<String>,
    /// Where the policy does not fit them.
    pub(super) found: Vec<Diagnostic>,
    /// Servers that did not answer.
    pub(super) silent: usize,
}

/// What a configuration is by what its servers say, also while its policies have errors. Neither
/// the ledger nor the doors are opened, so a toolgate may run beside it.
pub(super) fn connect(configuration: &Path) -> anyhow::Result<Connected> {
    let (loaded, draft) = config::load_draft(configuration);
    let Loaded {
        config,
        reading,
        unset,
    } = loaded;
    let config = config.or(draft.config);
    let policy = reading.policy.or(draft.policy);
    let (Some(mut config), Some(policy)) = (config, policy) else {
        let file = configuration.display();
        return Ok(Connected {
            lines: vec![format!(
                "note: {file} has errors, so its servers were not asked"
            )],
            ..Connected::default()
        });
    };
    config.servers.retain(|name, _| !unset.contains_key(name));
    let is_policy = |file: &PathBuf| file != configuration;
    let named: Vec<PathBuf> = reading.files.into_iter().filter(is_policy).collect();
    runtime()?.block_on(async {
        let servers = app::servers(&config, Leftovers::default(), Arc::new(()))?;
        let (stop, running) = (CancellationToken::new(), TaskTracker::new());
        // What agents of the one era lose is told.
        servers.all().iter().for_each(|one| one.expects_legacy());
        servers.start(&running, &stop);
        let mut connected = Connected::default();
        let mut listed = ConnectedTools::none();
        let asking = AskingProgress::of(config.servers.len());
        for name in config.servers.keys() {
            let Some(server) = servers.get(name.as_str()) else {
                continue;
            };
            let mut state = server.state();
            let settled = state.wait_for(|state| !matches!(state, ServerState::Starting));
            drop(asking.during(settled).await);
            asking.tried();
            let (line, is_up) = match &*state.borrow() {
                ServerState::Up(up) => {
                    listed.add(&policy, name, &up.catalog);
                    let tools = counted(up.catalog.tools.len(), "tool");
                    (format!("{}, {tools}", up.verdict.words()), true)
                }
                ServerState::Starting => ("did not answer in its start_timeout".to_owned(), false),
                ServerState::Down(why) => (format!("does not answer: {why}"), false),
            };
            connected.silent += usize::from(!is_up);
            connected.lines.push(format!("server {name}: {line}"));
        }
        for (name, why) in &unset {
            connected.silent += 1;
            let line = format!("server {name}: not asked: {why}");
            connected.lines.push(line);
        }
        stop.cancel();
        running.close();
        let _ = tokio::time::timeout(SERVER_SHUTDOWN_GRACE, running.wait()).await;
        connected.lines.extend(offered(&servers));
        connected.found = judge(configuration, &policy, &named, &listed);
        Ok(connected)
    })
}

/// Where the policy does not fit what the servers list, and callers that would not be shown all of
/// it. What of that pins tell was told before.
fn judge(
    configuration: &Path,
    policy: &Policy,
    named: &[PathBuf],
    listed: &ConnectedTools,
) -> Vec<Diagnostic> {
    let documents = compile::documents(named);
    let documents: Vec<&YamlDocument> = documents.iter().collect();
    let mut found = listed.known.judge(policy.allowlist.written(), &documents);
    if let Ok(document) = YamlDocument::read(configuration) {
        found.extend(listed.known.judge_hooked(&hooked::hooked(&document)));
    }
    found.extend(unfitted::judge(configuration, policy, &listed.unpinned));
    found
}

/// What is lost where an agent up to 2025-11-25 uses a server of 2026-07-28 only.
const LEGACY_AGENTS_LOSE: &str = "agents up to 2025-11-25 hear of their tasks only when they ask, and have no structured content that is no object";
/// What is lost where an agent of 2026-07-28 uses a server up to 2025-11-25 only.
const MODERN_AGENTS_LOSE: &str = "agents of 2026-07-28 share one session an agent there, and are not asked outside their requests";

/// What `/mcp` offers, and what agents lose at servers that speak the other era.
fn offered(servers: &Servers) -> Vec<String> {
    let revisions = Revision::ALL.map(Revision::as_str).join(", ");
    let mut lines = vec![format!("/mcp offers {revisions}")];
    for server in servers.all() {
        let Some(up) = server.up() else { continue };
        let loses = match (
            up.verdict.speaks_era(Era::Modern),
            up.verdict.speaks_era(Era::Legacy),
        ) {
            (true, false) => LEGACY_AGENTS_LOSE,
            (false, true) => MODERN_AGENTS_LOSE,
            (true, true) | (false, false) => continue,
        };
        let name = &server.settings.name;
        lines.push(format!("server {name} is bridged: {loses}"));
    }
    lines
}
