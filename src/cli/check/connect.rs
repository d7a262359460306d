//! `toolgate check --connect`: what each tool server speaks, what agents are therefore offered, and
//! where contracts do not fit what the servers say of their tools.

use super::show;
use crate::app;
use crate::cli::serve::runtime;
use crate::config;
use crate::mcp::revision::{Era, Revision};
use crate::mcp::tools::Definition;
use crate::model::counted::counted;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::{ServerName, ToolName};
use crate::policy::locate::YamlDocument;
use crate::policy::{Policy, compile, contract_lint};
use crate::schema::Schema;
use crate::upstream::leftovers::Leftovers;
use crate::upstream::server::ServerState;
use crate::upstream::servers::Servers;
use anyhow::Context as _;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long tool servers may take to end.
const SERVER_SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

/// What is printed for a configuration without errors, and whether every server answered. Neither
/// the ledger nor the doors are opened, so a toolgate may run beside it.
pub(super) fn connect(configuration: &Path) -> anyhow::Result<(String, bool)> {
    let config::Loaded { config, reading } = config::load(configuration);
    let config = config.context("the configuration cannot be used")?;
    let policy = reading.policy.context("the policy cannot be used")?;
    let named: Vec<_> = reading
        .files
        .into_iter()
        .filter(|file| file != configuration)
        .collect();
    let documents = compile::documents(&named);
    runtime()?.block_on(async {
        let servers = app::servers(&config, Leftovers::default(), Arc::new(()))?;
        let (stop, running) = (CancellationToken::new(), TaskTracker::new());
        servers.start(&running, &stop);
        let mut text = String::new();
        let (mut answered, mut found) = (true, Vec::new());
        for name in config.servers.keys() {
            let Some(server) = servers.get(name.as_str()) else {
                continue;
            };
            let mut state = server.state();
            let _ = state
                .wait_for(|state| !matches!(state, ServerState::Starting))
                .await;
            let (line, up) = match &*state.borrow() {
                ServerState::Up(up) => {
                    found.extend(
                        up.catalog
                            .tools
                            .iter()
                            .flat_map(|tool| unfit(&policy, &documents, name, tool)),
                    );
                    (
                        format!(
                            "{}, {}",
                            up.verdict.words(),
                            counted(up.catalog.tools.len(), "tool")
                        ),
                        true,
                    )
                }
                ServerState::Starting => ("did not answer in its start_timeout".to_owned(), false),
                ServerState::Down(why) => (format!("does not answer: {why}"), false),
            };
            answered &= up;
            writeln!(text, "server {name}: {line}")?;
        }
        stop.cancel();
        running.close();
        let _ = tokio::time::timeout(SERVER_SHUTDOWN_GRACE, running.wait()).await;
        compile::sort(&mut found);
        let errors = found
            .iter()
            .filter(|one| one.severity == Severity::Error)
            .count();
        let mut sources = HashMap::new();
        let shown: String = found.iter().map(|one| show(one, &mut sources)).collect();
        writeln!(text, "{}\n{shown}", offered(&servers))?;
        Ok((text.trim_end().to_owned() + "\n", answered && errors == 0))
    })
}

/// Where the contract of `tool` does not fit what its server says of it.
fn unfit(
    policy: &Policy,
    documents: &[YamlDocument],
    server: &ServerName,
    tool: &Definition,
) -> Vec<Diagnostic> {
    let tool_name = ToolName::of(server, &tool.name);
    let name = policy.allowlist.contract_name_of(&tool_name);
    let rules = policy.allowlist.contract_of(&tool_name);
    let (Some(name), Some(rules)) = (name, rules) else {
        return Vec::new();
    };
    // What cannot be judged is quarantined, and is told by `doctor`.
    let Ok(schema) = Schema::compile(&tool.input_schema.value()) else {
        return Vec::new();
    };
    let holds =
        |document: &&YamlDocument| document.tree()["contracts"].get(name.as_str()).is_some();
    let Some(document) = documents.iter().find(holds) else {
        return Vec::new();
    };
    let problems = contract_lint::problems(name.as_str(), rules, &schema);
    problems
        .into_iter()
        .map(|problem| document.locate(problem))
        .collect()
}

/// What is lost where an agent up to 2025-11-25 uses a server of 2026-07-28 only.
const LEGACY_AGENTS_LOSE: &str = "agents up to 2025-11-25 hear of their tasks only when they ask, and have no structured content that is no object";
/// What is lost where an agent of 2026-07-28 uses a server up to 2025-11-25 only.
const MODERN_AGENTS_LOSE: &str = "agents of 2026-07-28 share one session an agent there, and are not asked outside their requests";

/// What `/mcp` offers, and what agents lose at servers that speak the other era.
fn offered(servers: &Servers) -> String {
    let revisions = Revision::ALL.map(Revision::as_str).join(", ");
    let mut text = format!("/mcp offers {revisions}");
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
        let _ = write!(text, "\nserver {name} is bridged: {loses}");
    }
    text
}
