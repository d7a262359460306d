//! `toolgate check --connect`: what each tool server speaks, and what agents are therefore offered.

use crate::app;
use crate::cli::serve::runtime;
use crate::config;
use crate::upstream::leftovers::Leftovers;
use crate::upstream::server::State;
use crate::upstream::servers::Servers;
use anyhow::Context as _;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long tool servers may take to end.
const FAREWELL: Duration = Duration::from_secs(30);

/// What is printed for a configuration without errors, and whether every server answered. Neither the ledger nor the
/// doors are opened, so a toolgate may run beside it.
pub(super) fn connect(configuration: &Path) -> anyhow::Result<(String, bool)> {
    let config = config::load(configuration).config.context("the configuration cannot be used")?;
    runtime()?.block_on(async {
        let servers = app::servers(&config, Leftovers::default())?;
        let (stop, running) = (CancellationToken::new(), TaskTracker::new());
        servers.start(&running, &stop);
        let mut text = String::new();
        let mut answered = true;
        for name in config.servers.keys() {
            let Some(server) = servers.get(name.as_str()) else { continue };
            let mut state = server.state();
            let _ = state.wait_for(|state| !matches!(state, State::Starting)).await;
            let (line, up) = match &*state.borrow() {
                State::Up(up) => (format!("{}, {} tools", up.verdict.words(), up.catalog.tools.len()), true),
                State::Starting => ("did not answer in its start_timeout".to_owned(), false),
                State::Down(why) => (format!("does not answer: {why}"), false),
            };
            answered &= up;
            writeln!(text, "server {name}: {line}")?;
        }
        stop.cancel();
        running.close();
        let _ = tokio::time::timeout(FAREWELL, running.wait()).await;
        writeln!(text, "{}", offered(&servers, answered))?;
        Ok((text, answered))
    })
}

fn offered(servers: &Servers, answered: bool) -> String {
    let revisions: Vec<&str> = servers.revisions(None).iter().map(|revision| revision.as_str()).collect();
    let known = if answered { "" } else { " (of the servers that answer)" };
    match revisions.as_slice() {
        [] => "/mcp offers nothing: no revision is spoken by all servers; use /mcp/{server}".to_owned(),
        some => format!("/mcp offers {}{known}", some.join(", ")),
    }
}
