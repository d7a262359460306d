//! Where a demo takes place: a directory with a configuration and a policy, two tool servers that are alike, and a
//! toolgate before one of them. What it makes, it takes away again.

use super::agent::DemoAgent;
use super::gate_process::{DemoDoors, DemoGate};
use super::tool_server::DemoServer;
use crate::model::ids::unguessable;
use crate::owners::private::{PRIVATE_DIRECTORY_MODE, fresh};
use anyhow::{Context as _, bail};
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the agent may do.
const POLICY: &str = include_str!("policy.yaml");
/// Whose agent it is.
pub(super) const TENANT: &str = "acme";
/// What toolgate calls the tool server.
const SERVER: &str = "shop";
/// Where toolgate has the tools of that server under their own names.
const GATE_PATH: &str = "/mcp/shop";
/// Where the tool server has them.
const BARE_PATH: &str = "/mcp";
/// How often a directory is looked at again that a process which has just ended was writing to.
const MAX_REMOVALS: u32 = 50;
/// And after which time.
const REMOVAL_INTERVAL: Duration = Duration::from_millis(20);

/// The directory of a demo; removed when it is dropped, unless it is to be kept.
struct DemoDirectory {
    path: PathBuf,
    is_kept: bool,
}

/// All that a demo needs.
pub(super) struct DemoPlace {
    directory: DemoDirectory,
    /// The tool server behind toolgate.
    pub(super) shop: DemoServer,
    /// The same without toolgate.
    pub(super) bare: DemoServer,
    /// What the agent shows.
    agent_token: String,
    /// What the operator shows.
    pub(super) operator_token: String,
    gate: Option<DemoGate>,
    doors: Option<DemoDoors>,
}

impl DemoDirectory {
    /// `kept`, which has to be new or empty; else one of its own below the system's directory for such files.
    fn make(kept: Option<&Path>) -> anyhow::Result<Self> {
        let make = |path: &Path| DirBuilder::new().mode(PRIVATE_DIRECTORY_MODE).create(path);
        let Some(kept) = kept else {
            let above = std::env::temp_dir();
            let path = above.join(format!("toolgate-demo-{}", unguessable()));
            make(&path).with_context(|| {
                format!(
                    "{} cannot be written: name another directory in TMPDIR, or with --keep",
                    above.display()
                )
            })?;
            return Ok(Self {
                path,
                is_kept: false,
            });
        };
        let path = std::path::absolute(kept)?;
        match make(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let mut inside = fs::read_dir(&path)
                    .with_context(|| format!("{} cannot be read", path.display()))?;
                if inside.next().is_some() {
                    bail!("{} is not empty: name a new directory", path.display());
                }
            }
            done => done.with_context(|| format!("{} cannot be made", path.display()))?,
        }
        Ok(Self {
            path,
            is_kept: true,
        })
    }
}

impl Drop for DemoDirectory {
    fn drop(&mut self) {
        if !self.is_kept {
            // Who could be told was told when it was removed in good order.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl DemoPlace {
    /// Makes the directory and starts the tool servers.
    pub(super) async fn make(kept: Option<&Path>) -> anyhow::Result<Self> {
        let directory = DemoDirectory::make(kept)?;
        let path = &directory.path;
        let shop = DemoServer::start(&path.join("shop.counts")).await?;
        let bare = DemoServer::start(&path.join("bare.counts")).await?;
        let place = Self {
            shop,
            bare,
            agent_token: format!("agent-{}", unguessable()),
            operator_token: format!("demo-{}", unguessable()),
            gate: None,
            doors: None,
            directory,
        };
        place.write("policy.yaml", POLICY)?;
        place.write("toolgate.yaml", &place.configuration())?;
        Ok(place)
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.directory.path.join(name);
        let written = fresh(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("{} cannot be written", path.display()))
    }

    fn configuration(&self) -> String {
        let (url, operator) = (self.shop.address, &self.operator_token);
        format!(
            "# The toolgate of `toolgate demo`; its tool server lived as long as the demo.
listen: 127.0.0.1:0
data: data
servers:
  {SERVER}: {{ url: \"http://{url}{BARE_PATH}\" }}
callers:
  - {{ agent: demo-agent, token: {}, tenant: {TENANT} }}
admin:
  listen: 127.0.0.1:0
  tokens:
    - {{ name: you, token: {operator}, roles: [approver, resolver, switch, auditor] }}
policies: [policy.yaml]
",
            self.agent_token
        )
    }

    /// The data directory of toolgate.
    pub(super) fn data_directory(&self) -> PathBuf {
        self.directory.path.join("data")
    }

    /// The same, where it is there after the demo.
    pub(super) fn kept_data(&self) -> Option<PathBuf> {
        self.directory.is_kept.then(|| self.data_directory())
    }

    /// Starts toolgate and waits until it serves.
    pub(super) async fn start_gate(&mut self) -> anyhow::Result<()> {
        let gate = DemoGate::spawn(&self.directory.path.join("toolgate.yaml"))?;
        self.doors = Some(self.gate.insert(gate).serves().await?);
        Ok(())
    }

    /// Ends toolgate as `kill -9` does.
    pub(super) async fn kill_gate(&mut self) -> anyhow::Result<()> {
        let gate = self.gate.as_mut().context("toolgate does not run")?;
        gate.kill().await?;
        (self.gate, self.doors) = (None, None);
        Ok(())
    }

    /// Ends toolgate in good order.
    pub(super) async fn stop_gate(&mut self) -> anyhow::Result<()> {
        self.doors = None;
        let gate = self.gate.take().context("toolgate does not run")?;
        self.keep_log(&gate)?;
        gate.stop().await
    }

    /// Writes what toolgate logged last, where that is to be kept.
    fn keep_log(&self, gate: &DemoGate) -> anyhow::Result<()> {
        if !self.directory.is_kept {
            return Ok(());
        }
        self.write("toolgate.log", &(gate.log().join("\n") + "\n"))
    }

    /// Where toolgate serves.
    pub(super) fn doors(&self) -> anyhow::Result<DemoDoors> {
        self.doors.context("toolgate does not run")
    }

    /// An agent of toolgate's.
    pub(super) fn agent(&self) -> anyhow::Result<DemoAgent> {
        let token = Some(self.agent_token.clone());
        Ok(DemoAgent::new(self.doors()?.agents, GATE_PATH, token))
    }

    /// The same agent at the tool server itself.
    pub(super) fn bare_agent(&self) -> DemoAgent {
        DemoAgent::new(self.bare.address, BARE_PATH, None)
    }

    /// Ends what still runs, and removes the directory, unless it is to be kept.
    pub(super) async fn clear(mut self) -> anyhow::Result<()> {
        // The demo has failed, or was told to end.
        if let Some(gate) = self.gate.take() {
            let logged = self.keep_log(&gate);
            gate.end().await;
            logged?;
        }
        if self.directory.is_kept {
            return Ok(());
        }
        let path = &self.directory.path;
        for _ in 1..MAX_REMOVALS {
            if fs::remove_dir_all(path).is_ok() || !path.exists() {
                return Ok(());
            }
            tokio::time::sleep(REMOVAL_INTERVAL).await;
        }
        fs::remove_dir_all(path).with_context(|| format!("{} cannot be removed", path.display()))
    }
}

/// The name that toolgate has for `tool`.
pub(super) fn named(tool: &str) -> String {
    format!("{SERVER}__{tool}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was in a directory before is never taken for the demo's, and never removed.
    #[test]
    fn only_a_new_or_empty_directory_is_taken() {
        let temp = tempfile::tempdir().unwrap();
        let new = temp.path().join("new");
        for _ in 0..2 {
            let taken = DemoDirectory::make(Some(&new)).unwrap();
            assert!(taken.is_kept);
        }
        assert!(new.is_dir(), "it is kept");
        fs::write(new.join("mine"), "").unwrap();
        let refused = DemoDirectory::make(Some(&new)).err().unwrap();
        assert!(refused.to_string().contains("is not empty"), "{refused}");
        let file = new.join("mine");
        assert!(DemoDirectory::make(Some(&file)).is_err());
        assert!(file.is_file());
        let below_nothing = temp.path().join("a/b");
        let refused = DemoDirectory::make(Some(&below_nothing)).err().unwrap();
        assert!(refused.to_string().contains("cannot be made"), "{refused}");
    }

    /// One of its own goes with it.
    #[test]
    fn a_directory_of_its_own_is_removed() {
        let own = DemoDirectory::make(None).unwrap();
        let path = own.path.clone();
        fs::write(path.join("file"), "").unwrap();
        drop(own);
        assert!(!path.exists());
    }
}
