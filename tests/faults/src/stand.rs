//! A toolgate with one tool server, in a directory that outlives each of its processes.

use crate::agent::{Agents, boot_time};
use crate::invariants::Evidence;
use crate::operators::TOKEN;
use crate::oracle::{Oracle, executions};
use crate::rows::Row;
use crate::wire::{HOST, status};
use anyhow::{Context as _, bail};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// How long a start or an end may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// A secret of the tool server's, which is to be found nowhere else (I8).
const CANARY: &str = "canary-5f0c2b9e-never-to-be-seen";
/// What the ledger is sealed with.
const KEY: (&str, &str) = ("LEDGER_KEY", "a key of a stand of 32 bytes or more");

/// What carries toolgate's messages to its tool server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// HTTP; the tool server outlives toolgate.
    Http,
    /// Standard input and output: the tool server is toolgate's child.
    Stdio,
    /// The same, and it does not end when its input does.
    StubbornStdio,
}

/// How a stand is made.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// `toolgate` or `toolgate-failpoints`.
    pub program: &'static str,
    /// More members of the contract of `oracle__effect`, as YAML flow text such as `, idempotency:
    /// { ttl: 1h }`.
    pub contract: &'static str,
    /// Variables of toolgate's environment.
    pub environment: &'static [(&'static str, &'static str)],
    /// How the tool server is reached.
    pub carrier: Carrier,
}

impl Settings {
    /// A program over HTTP, and nothing else.
    pub fn of(program: &'static str) -> Self {
        Self {
            program,
            contract: "",
            environment: &[],
            carrier: Carrier::Http,
        }
    }
}

/// A toolgate that can be ended and started again, and its tool server, which goes on.
pub struct Stand {
    /// Configuration, data, logs.
    pub directory: TempDir,
    /// The tool server.
    pub oracle: Oracle,
    settings: Settings,
    programs: PathBuf,
    running: Option<Running>,
    runs: Vec<(i64, i64)>,
    kills: Vec<i64>,
}

struct Running {
    process: Child,
    _output: BufReader<ChildStdout>,
    agents: SocketAddr,
    operators: SocketAddr,
    since: i64,
}

impl Stand {
    /// A stand whose programs are in `programs`. Nothing of toolgate runs yet.
    ///
    /// # Errors
    /// When the tool server does not start.
    pub async fn new(programs: &Path, settings: Settings) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let (log, control) = (
            directory.path().join("executions"),
            directory.path().join("orders"),
        );
        let oracle = Oracle::start(&programs.join("effects-server"), &log, &control).await?;
        let programs = programs.to_owned();
        let stand = Self {
            directory,
            oracle,
            settings,
            programs,
            running: None,
            runs: Vec::new(),
            kills: Vec::new(),
        };
        stand.configure(stand.oracle.address)?;
        stand.policy("key")?;
        Ok(stand)
    }

    /// Where toolgate finds its tool server: there, or what stands before it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn configure(&self, upstream: SocketAddr) -> anyhow::Result<()> {
        let member = match self.settings.carrier {
            Carrier::Http => {
                format!(
                    "url: \"http://{upstream}/mcp\", timeout: 5s, headers: {{ X-Canary: \"${{CANARY}}\" }}"
                )
            }
            Carrier::Stdio | Carrier::StubbornStdio => {
                let (program, log) = (
                    self.programs.join("effects-server"),
                    self.path("executions"),
                );
                let stubborn = if self.settings.carrier == Carrier::Stdio {
                    ""
                } else {
                    ", ORACLE_STUBBORN: \"1\""
                };
                format!(
                    "command: \"{}\", timeout: 5s, env: {{ ORACLE_LOG: \"{}\", CANARY: \"${{CANARY}}\"{stubborn} }}",
                    program.display(),
                    log.display()
                )
            }
        };
        let text = format!(
            "listen: 127.0.0.1:0\nallowed_hosts: [{HOST}]\nadmin: {{ listen: 127.0.0.1:0, tokens: [ {{ name: ann, token: {TOKEN}, roles: [approver] }} ] }}\ndata: data\npolicies: [policy.yaml]\nservers:\n  \
             oracle: {{ {member} }}\nledger: {{ seal: {{ key: {{ env: LEDGER_KEY }} }}, heads: {{ every: 1s, file: heads }} }}\n"
        );
        Ok(std::fs::write(
            self.directory.path().join("toolgate.yaml"),
            text,
        )?)
    }

    /// Writes the policy; another `name` of an argument to be audited is another policy.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn policy(&self, name: &str) -> anyhow::Result<()> {
        let text = format!(
            "contracts:\n  \
             oracle__undo: {{ purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: {{ writes: test, rollback: {{ manual: by hand }} }} }}\n  \
             oracle__effect: {{ purpose: a test, actions: [write], permission: anyone, side_effect: {{ writes: test, rollback: {{ tool: oracle__undo }} }}, secrets: []{} }}\n  \
             oracle__held: {{ purpose: a test, actions: [write], permission: anyone, side_effect: {{ writes: test, rollback: {{ tool: oracle__undo }} }}, secrets: [], approval: {{ ask: always, hold: 1s }}{} }}\n  \
             oracle__look: {{ purpose: a test, actions: [read], secrets: [], audit: [{name}] }}\n",
            self.settings.contract, self.settings.contract
        );
        let path = self.directory.path().join("policy.yaml");
        let new = path.with_extension("new");
        std::fs::write(&new, text)?;
        Ok(std::fs::rename(new, path)?)
    }

    /// Starts toolgate and waits until it serves; how long that took. `failpoint` is `point[:nth]`.
    ///
    /// # Errors
    /// When it does not serve in time, with what it logged.
    pub async fn start(&mut self, failpoint: Option<&str>) -> anyhow::Result<Duration> {
        self.start_under(None, failpoint).await
    }

    /// Starts toolgate as an argument of `before`, such as strace with its options.
    ///
    /// # Errors
    /// As [`Stand::start`].
    pub async fn start_under(
        &mut self,
        before: Option<&[&str]>,
        failpoint: Option<&str>,
    ) -> anyhow::Result<Duration> {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("log"))?;
        let mut words: Vec<std::ffi::OsString> =
            before.unwrap_or_default().iter().map(Into::into).collect();
        words.push(self.programs.join(self.settings.program).into());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(["serve", "--config", "toolgate.yaml"])
            .env_clear();
        command
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("CANARY", CANARY)
            .envs([KEY]);
        command.envs(self.settings.environment.iter().copied());
        command.envs(failpoint.map(|point| ("TOOLGATE_FAILPOINT", point)));
        command
            .current_dir(self.directory.path())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        let since = boot_time();
        let missing = || {
            format!(
                "{} cannot be started; build it first",
                self.settings.program
            )
        };
        let mut process = command.spawn().with_context(missing)?;
        let mut output = BufReader::new(process.stdout.take().context("no output")?);
        let serving = async {
            let agents = address(&mut output).await?;
            let operators = address(&mut output).await?;
            while status(operators, "/readyz").await != Some(200) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            anyhow::Ok((agents, operators))
        };
        let doors = tokio::time::timeout(DEADLINE, serving)
            .await
            .context("toolgate is not ready in time");
        let (agents, operators) = doors.and_then(|doors| doors).with_context(|| self.log())?;
        self.running = Some(Running {
            process,
            _output: output,
            agents,
            operators,
            since,
        });
        Ok(Duration::from_nanos(u64::try_from(boot_time() - since)?))
    }

    /// Where agents are served.
    ///
    /// # Panics
    /// When toolgate was not started.
    pub fn agents(&self) -> SocketAddr {
        self.running
            .as_ref()
            .map(|running| running.agents)
            .expect("toolgate runs")
    }

    /// Where operators are served.
    ///
    /// # Panics
    /// When toolgate was not started.
    pub fn operators(&self) -> SocketAddr {
        self.running
            .as_ref()
            .map(|running| running.operators)
            .expect("toolgate runs")
    }

    /// The process that was started.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref()?.process.id()
    }

    /// Ends toolgate as `kill -9` does, and waits until it is gone.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(running) = &mut self.running {
            running.process.start_kill()?;
        }
        self.died().await
    }

    /// Waits until toolgate has ended by itself.
    ///
    /// # Errors
    /// When it does not, or was not killed.
    pub async fn died(&mut self) -> anyhow::Result<()> {
        let Some(mut running) = self.running.take() else {
            return Ok(());
        };
        let ended = tokio::time::timeout(DEADLINE, running.process.wait())
            .await
            .context("toolgate goes on")??;
        if std::os::unix::process::ExitStatusExt::signal(&ended) != Some(9) {
            bail!(
                "toolgate was to be killed and ended with {ended}; log:\n{}",
                self.log()
            );
        }
        let now = boot_time();
        self.runs.push((running.since, now));
        self.kills.push(now);
        Ok(())
    }

    /// Whether toolgate still runs.
    pub fn runs(&mut self) -> bool {
        self.running
            .as_mut()
            .is_some_and(|running| matches!(running.process.try_wait(), Ok(None)))
    }

    /// Ends toolgate in good order.
    ///
    /// # Errors
    /// When it does not end so.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut running) = self.running.take() else {
            return Ok(());
        };
        let pid = running
            .process
            .id()
            .and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?));
        rustix::process::kill_process(
            pid.context("toolgate has ended")?,
            rustix::process::Signal::TERM,
        )?;
        let ended = tokio::time::timeout(DEADLINE, running.process.wait())
            .await
            .context("toolgate goes on")??;
        self.runs.push((running.since, boot_time()));
        if !ended.success() {
            bail!("toolgate ended with {ended}; log:\n{}", self.log());
        }
        Ok(())
    }

    /// All there is to judge by; `rows` reads the journal of a data directory. Ends toolgate in good order
    /// first.
    ///
    /// # Errors
    /// When something cannot be read.
    pub async fn evidence(
        &mut self,
        agents: &Agents,
        rows: impl Fn(&Path) -> anyhow::Result<Vec<Row>>,
    ) -> anyhow::Result<Evidence> {
        self.stop().await?;
        let data = self.path("data");
        let mut verify = Command::new(self.programs.join(self.settings.program));
        // The canary is asked for by the configuration, too.
        verify.args([
            "ledger",
            "verify",
            "--config",
            "toolgate.yaml",
            "--heads",
            "heads",
        ]);
        verify
            .current_dir(self.directory.path())
            .env("CANARY", CANARY)
            .envs([KEY]);
        let verified = verify.output().await?;
        let said = || [verified.stdout.as_slice(), &verified.stderr].concat();
        let damage =
            (!verified.status.success()).then(|| String::from_utf8_lossy(&said()).into_owned());
        let mut places = vec![("the log".to_owned(), std::fs::read(self.path("log"))?)];
        files(&data, &mut places)?;
        Ok(Evidence {
            executions: executions(&self.path("executions"))?,
            told: agents.told(),
            rows: rows(&data)?,
            damage,
            runs: self.runs.clone(),
            faults: self.kills.clone(),
            excused: agents.excused(),
            canary: Some(CANARY.to_owned()),
            places,
        })
    }

    /// The orders of the tool server for calls that give none.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn orders(&self, orders: &serde_json::Value) -> anyhow::Result<()> {
        let new = self.path("orders.new");
        std::fs::write(&new, orders.to_string())?;
        Ok(std::fs::rename(new, self.path("orders"))?)
    }

    /// A file of the stand.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

async fn address(output: &mut BufReader<ChildStdout>) -> anyhow::Result<SocketAddr> {
    let mut line = String::new();
    output.read_line(&mut line).await?;
    let address = line
        .split_once("http://")
        .map(|(_, rest)| rest.trim().trim_end_matches("/mcp"));
    Ok(address
        .with_context(|| format!("no address in {line:?}"))?
        .parse()?)
}

fn files(directory: &Path, found: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else {
            found.push((path.display().to_string(), std::fs::read(&path)?));
        }
    }
    Ok(())
}
