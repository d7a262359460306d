//! What a tool server executed, as it noted before it answered; and the effects server as a
//! process.

use anyhow::Context as _;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// One execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The tool, by its own name.
    pub tool: String,
    /// The business key.
    pub key: String,
    /// SHA-256 of the arguments' RFC 8785 form.
    pub digest: String,
    /// What toolgate sent along; none from a toolgate that has no fences.
    pub fence: Option<Fence>,
    /// Boot time in nanoseconds.
    pub at: i64,
}

/// `_meta["dev.toolgate/fence"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The session.
    pub session: String,
    /// The token.
    pub token: u64,
    /// toolgate's id of the call.
    pub action: String,
}

impl std::fmt::Display for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "executed at {} with digest {}",
            self.at,
            self.digest.get(..12).unwrap_or(&self.digest)
        )?;
        match &self.fence {
            Some(Fence {
                session,
                token,
                action,
            }) => write!(f, " as action {action}, token {token} of {session}"),
            None => write!(f, " without a fence"),
        }
    }
}

/// Reads the file of an oracle; a last line that is not whole is no execution that anybody was told
/// of.
///
/// # Errors
/// When a whole line is not what an oracle writes.
pub fn executions(log: &Path) -> anyhow::Result<Vec<Execution>> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| read(line).with_context(|| format!("in {}: {line}", log.display())))
        .collect()
}

fn read(line: &str) -> anyhow::Result<Execution> {
    let line: Value = serde_json::from_str(line)?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let fence = &line["fence"];
    let fence = match (
        text(&fence["session"]),
        fence["token"].as_u64(),
        text(&fence["action"]),
    ) {
        (Some(session), Some(token), Some(action)) => Some(Fence {
            session,
            token,
            action,
        }),
        _ => None,
    };
    let digest = text(&line["digest"]).context("no digest")?;
    let at = line["at"].as_i64().context("no time")?;
    let (tool, key) = (
        text(&line["tool"]).unwrap_or_default(),
        text(&line["key"]).unwrap_or_default(),
    );
    Ok(Execution {
        tool,
        key,
        digest,
        fence,
        at,
    })
}

/// A running effects server on HTTP; dropping it kills it.
#[derive(Debug)]
pub struct Oracle {
    /// Where it is.
    pub address: SocketAddr,
    _process: Child,
}

impl Oracle {
    /// Starts `program` at any port; it notes in `log` and takes its orders from `control`.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(program: &Path, log: &Path, control: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command
            .args(["--http", "127.0.0.1:0"])
            .env("ORACLE_LOG", log)
            .env("ORACLE_CONTROL", control);
        let started = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let mut process =
            started.with_context(|| format!("{}: run `cargo build` first", program.display()))?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("no output")?)
            .read_line(&mut line)
            .await?;
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .and_then(|rest| rest.strip_suffix("/mcp"));
        Ok(Self {
            address: address.context("no address")?.parse()?,
            _process: process,
        })
    }
}
