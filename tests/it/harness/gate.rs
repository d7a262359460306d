//! The built toolgate, running.

use super::agent::Agent;
use super::answer::{Answer, exchange, get};
use super::setup::{Settings, Setup};
use super::{DEADLINE, until, until_or};
use serde_json::Value;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout};

/// A running `toolgate serve`; dropping it kills it.
pub struct Gate {
    /// Where agents are served; port 0 where that is a socket.
    pub agents: SocketAddr,
    /// Where operators are served.
    pub operators: SocketAddr,
    /// What it was started with.
    pub setup: Setup,
    process: Child,
    stdout: BufReader<ChildStdout>,
}

impl Setup {
    /// Starts `toolgate serve` and waits until it is ready.
    pub async fn start(self) -> Gate {
        let gate = self.begin().await;
        until_or(
            || format!("/readyz is 200; log:\n{}", gate.log()),
            || async {
                get(gate.operators, "/readyz")
                    .await
                    .filter(|answer| answer.status == 200)
            },
        )
        .await;
        gate
    }

    /// Starts `toolgate serve` and waits until it lives; its tool servers may be down.
    pub async fn start_at_once(self) -> Gate {
        let gate = self.begin().await;
        until("/healthz", || async {
            get(gate.operators, "/healthz")
                .await
                .filter(|answer| answer.status == 200)
        })
        .await;
        gate
    }

    /// Starts `toolgate serve` and waits for its two addresses.
    pub async fn begin(self) -> Gate {
        let config = self.write();
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.directory().join("log"))
            .unwrap();
        let config = config.to_str().unwrap();
        let mut command = self.command(&["serve", "--config", config, "--log", self.log]);
        let mut process = command.stderr(log).spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let (mut agents, mut operators) = (String::new(), String::new());
        let read = async {
            stdout.read_line(&mut agents).await.unwrap();
            stdout.read_line(&mut operators).await.unwrap();
        };
        tokio::time::timeout(DEADLINE, read).await.unwrap();
        let address = |line: &str| {
            if line.contains(" unix:") {
                return SocketAddr::from(([127, 0, 0, 1], 0));
            }
            let found = line
                .split_once("://")
                .map(|(_, rest)| rest.trim().trim_end_matches("/mcp").to_owned());
            let log = std::fs::read_to_string(self.directory().join("log")).unwrap();
            found
                .unwrap_or_else(|| panic!("no address in {line:?}; log:\n{log}"))
                .parse()
                .unwrap()
        };
        Gate {
            agents: address(&agents),
            operators: address(&operators),
            process,
            stdout,
            setup: self.clone(),
        }
    }
}

impl Gate {
    /// An agent without a token, at `/mcp`.
    pub fn agent(&self) -> Agent {
        Agent::new(self.agents)
    }

    /// What it wrote to its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.setup.directory().join("log")).unwrap()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id().expect("toolgate runs")
    }

    /// A page of the operators' door, as the first operator of the configuration is shown it.
    pub async fn operators(&self, path: &str) -> String {
        let token = self
            .setup
            .operators
            .split_once("token: ")
            .map(|(_, rest)| rest);
        let token = token
            .and_then(|rest| rest.split([',', ' ', '}']).next())
            .map(|token| token.trim_matches('"'));
        let bearer = token.map(|token| format!("Bearer {token}"));
        // As Prometheus asks for the metrics.
        let mut headers = vec![("Accept", "application/openmetrics-text, */*;q=0.5")];
        headers.extend(
            bearer
                .iter()
                .map(|bearer| ("Authorization", bearer.as_str())),
        );
        self.asks_operators(("GET", path), &headers, "")
            .await
            .text()
    }

    /// A request to the operators' door, with these headers besides `Host`.
    pub async fn asks_operators(
        &self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.operators);
        for (name, value) in headers {
            write!(text, "{name}: {value}\r\n").unwrap();
        }
        write!(text, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        exchange(self.operators, text.into_bytes())
            .await
            .expect("the operators' door answers")
    }

    /// The ledger, once it has at least `count` entries.
    pub async fn entries(&self, count: usize) -> Vec<Value> {
        until(&format!("{count} ledger entries"), || async {
            let entries = self.ledger().await;
            (entries.len() >= count).then_some(entries)
        })
        .await
    }

    /// The ledger as it is, oldest entry first, without calls that are on their way.
    pub async fn ledger(&self) -> Vec<Value> {
        self.settles().await;
        let data = self.setup.directory().join("data");
        let output = self
            .setup
            .run(&["ledger", "list", "--json", "--data", data.to_str().unwrap()])
            .await;
        let text = String::from_utf8(output.stdout).unwrap();
        let calls = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        calls
            .filter(|call| call["outcome"] != "dispatching")
            .collect()
    }

    /// Waits until what it recorded is in its files, where it lives and its disk has room: records
    /// that nobody waits for gather for a moment.
    async fn settles(&self) {
        let written = async {
            while self.metric("toolgate_journal_unsynced_records").await > 0.0 {
                tokio::task::yield_now().await;
            }
        };
        let lives = tokio::net::TcpStream::connect(self.operators).await.is_ok();
        if lives {
            // A full disk leaves them waiting: then the files are read as they are.
            drop(tokio::time::timeout(Duration::from_secs(2), written).await);
        }
    }

    /// Asks it to end in good order.
    pub fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Ends it as `kill -9` does, and waits until it is gone.
    pub async fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        self.wait().await;
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(DEADLINE, self.process.wait()).await;
        ended
            .unwrap_or_else(|_| panic!("toolgate does not end; log:\n{}", self.log()))
            .unwrap()
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        let _ = &self.stdout;
        self.process.try_wait().unwrap().is_none()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Starts and waits until it is ready.
    pub async fn start(settings: Settings) -> Self {
        settings.setup().start().await
    }

    /// A file of its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.setup.directory().join(name)
    }

    /// What `/readyz` says.
    pub async fn readiness(&self) -> Value {
        serde_json::from_str(&self.operators("/readyz").await).unwrap()
    }

    /// The value of a series, written as in the text of the metrics; 0 if there is no such series.
    pub async fn metric(&self, series: &str) -> f64 {
        let text = self.operators("/metrics").await;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Tells it to read its files again.
    pub fn hang_up(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    /// Asks it to stop and waits for the end; its files stay.
    pub async fn stop(mut self) -> Setup {
        self.terminate();
        assert!(self.wait().await.success());
        self.setup.clone()
    }

    /// A legacy agent in a session at `path`.
    pub async fn legacy(&self, path: &str) -> Agent {
        self.agent().at(path).initialized().await
    }
}

/// Runs a verb of toolgate in a directory.
pub async fn run(setup: &Setup, args: &[&str]) -> (i32, String, String) {
    let output = setup.run(args).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Runs a verb of toolgate in a directory, written as in a shell without quotes.
pub async fn runs(setup: &Setup, line: &str) -> (i32, String, String) {
    run(setup, &line.split(' ').collect::<Vec<_>>()).await
}
