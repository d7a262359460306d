//! The toolgate that the demo is about: this program again, as `toolgate serve`, in a process of its own that can be
//! killed. It stands under a guard as tool servers do, so that it ends when the demo is killed.

use super::exchange::exchange;
use crate::model::ids::ServerName;
use crate::upstream::child::sandbox::Sandbox;
use crate::upstream::child::{ChildCommand, ChildProcess};
use crate::upstream::leftovers::Leftovers;
use crate::upstream::lineage;
use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use rustix::process::{Pid, Signal};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

/// How long it may take to serve.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How often it is asked whether it does.
const READY_INTERVAL: Duration = Duration::from_millis(5);
/// How long it may take to end: nothing is in flight then.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of what it says of its addresses.
const ADDRESSES_BYTES_MAX: u64 = 1 << 10;
/// The status of a process that SIGKILL ended.
const KILLED_STATUS: i32 = 128 + 9;

/// A toolgate in a process of its own. Dropping it ends it.
pub(super) struct DemoGate {
    process: ChildProcess,
}

/// Where it serves.
#[derive(Debug, Clone, Copy)]
pub(super) struct DemoDoors {
    pub(super) agents: SocketAddr,
    pub(super) operators: SocketAddr,
}

impl DemoGate {
    /// Starts `toolgate serve` on this configuration, with nothing of the demo's environment.
    pub(super) fn spawn(config: &Path) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("toolgate's own program cannot be found")?;
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.with_context(|| format!("{} is no path in UTF-8", path.display()))
        };
        let command = ChildCommand {
            program: text(&own)?,
            args: vec!["serve".to_owned(), "--config".to_owned(), text(config)?],
            env: Vec::new(),
            cwd: config.parent().map(Path::to_owned),
            sandbox: Sandbox::default(),
            name: ServerName::new("toolgate"),
        };
        let process = ChildProcess::spawn(&command, &own, &Leftovers::default())
            .context("toolgate cannot be started")?;
        Ok(Self { process })
    }

    /// Waits until it serves and knows its tool server.
    pub(super) async fn serves(&mut self) -> anyhow::Result<DemoDoors> {
        let served = tokio::time::timeout(START_TIMEOUT, Box::pin(self.doors())).await;
        served.with_context(|| format!("toolgate does not serve within {START_TIMEOUT:?}"))?
    }

    async fn doors(&mut self) -> anyhow::Result<DemoDoors> {
        let (stdin, stdout) = self
            .process
            .take_pipes()
            .context("toolgate has no output")?;
        drop(stdin);
        let mut lines = BufReader::new(stdout.take(ADDRESSES_BYTES_MAX)).lines();
        let (Some(agents), Some(operators)) = (lines.next_line().await?, lines.next_line().await?)
        else {
            bail!("toolgate does not serve: {}", self.process.ending().await);
        };
        let doors = DemoDoors {
            agents: address(&agents)?,
            operators: address(&operators)?,
        };
        while !is_ready(doors.operators).await? {
            if let Some(exit) = self.process.exit() {
                bail!("toolgate does not serve: {exit}");
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
        Ok(doors)
    }

    /// Ends it as `kill -9` does, and waits until it is gone.
    ///
    /// # Errors
    /// It ended otherwise.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        lineage::kill_descendants(self.guard()?);
        let exit = self.process.ended().await;
        if exit.status != Some(KILLED_STATUS) {
            bail!("toolgate was to be ended by SIGKILL: {exit}");
        }
        Ok(())
    }

    /// Asks it to end, and waits until it is gone.
    ///
    /// # Errors
    /// It does not end in good order.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        lineage::signal_group(self.guard()?, Signal::TERM);
        let ended = tokio::time::timeout(STOP_TIMEOUT, self.process.ended()).await;
        let exit = ended.context("toolgate does not end when it is asked to")?;
        if exit.status != Some(0) {
            bail!("toolgate does not end in good order: {exit}");
        }
        Ok(())
    }

    /// Ends it within seconds, whatever it does, and waits until it is gone.
    pub(super) async fn end(self) {
        self.process.shutdown(Duration::ZERO).await;
    }

    /// The process that it stands under, which leads its group.
    fn guard(&self) -> anyhow::Result<Pid> {
        Pid::from_raw(self.process.id()).context("toolgate has no process")
    }

    /// What it said last on standard error: lines, oldest first.
    pub(super) fn log(&self) -> Vec<String> {
        self.process.stderr_tail()
    }
}

/// The address in a line such as `agents:    http://127.0.0.1:7777/mcp`.
fn address(line: &str) -> anyhow::Result<SocketAddr> {
    let url = line.split_once("http://").map(|(_, rest)| rest.trim());
    let address = url.map(|url| url.trim_end_matches("/mcp"));
    let address = address.and_then(|address| address.parse().ok());
    address.with_context(|| format!("no address in what toolgate says: {line:?}"))
}

/// Whether calls can be judged and sent; no answer at all is an error.
async fn is_ready(operators: SocketAddr) -> anyhow::Result<bool> {
    let request = Request::get("/readyz")
        .header(header::HOST, operators.to_string())
        .body(Full::new(Bytes::new()))?;
    let reply = Box::pin(exchange(operators, request)).await?;
    Ok(reply.status == StatusCode::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_announced() {
        let agents = address("agents:    http://127.0.0.1:7777/mcp").unwrap();
        assert_eq!(agents, SocketAddr::from(([127, 0, 0, 1], 7777)));
        let operators = address("operators: http://[::1]:7778").unwrap();
        assert_eq!(operators.port(), 7778);
        for wrong in ["agents:", "http://", "agents: http://localhost/mcp"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
