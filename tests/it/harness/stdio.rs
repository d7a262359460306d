//! `toolgate stdio` as an agent runs it: one line out, one line in.

use super::agent::{anew, enveloped};
use super::answer::Answer;
use super::setup::Setup;
use super::tool_server::script::LEGACY;
use super::{DEADLINE, folding};
use serde_json::{Value, json};
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// A running `toolgate stdio`; dropping it kills it.
pub struct StdioGate {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl StdioGate {
    /// Starts it on a configuration with one server.
    pub fn start(setup: &Setup) -> Self {
        let config = setup.write();
        Self::start_with(setup, &["--config", config.to_str().unwrap()])
    }

    /// Starts it on the configuration that is there, with more arguments.
    pub fn launch(setup: &Setup, arguments: &[&str]) -> Self {
        Self::start_with(setup, &[&["--config", "toolgate.yaml"], arguments].concat())
    }

    /// Starts it with these arguments.
    pub fn start_with(setup: &Setup, arguments: &[&str]) -> Self {
        let log = std::fs::File::create(setup.directory().join("stdio.log")).unwrap();
        let mut command = setup.command(&[&["stdio"], arguments].concat());
        let mut process = command.stdin(Stdio::piped()).stderr(log).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self {
            process,
            input,
            output,
        }
    }

    /// Writes a line.
    pub async fn write(&mut self, line: &[u8]) {
        self.input.write_all(&[line, b"\n"].concat()).await.unwrap();
    }

    /// Reads a line; its status is 0, for there is none. None: the end.
    pub async fn read(&mut self) -> Option<Answer> {
        next(&mut self.output).await
    }

    /// Writes a line and reads one.
    pub async fn ask(&mut self, line: &[u8]) -> Answer {
        self.write(line).await;
        self.read().await.expect("an answer")
    }

    /// Closes its input and reads what it says until its end.
    pub async fn rest(self) -> Vec<Answer> {
        let Self {
            process: _process,
            input,
            mut output,
        } = self;
        drop(input);
        let mut answers = Vec::new();
        while let Some(answer) = next(&mut output).await {
            answers.push(answer);
        }
        answers
    }

    /// Closes its input and waits for its end.
    pub async fn close(self) -> ExitStatus {
        let Self {
            mut process, input, ..
        } = self;
        drop(input);
        tokio::time::timeout(DEADLINE, process.wait())
            .await
            .expect("toolgate ends")
            .unwrap()
    }
}

async fn next(output: &mut Lines<BufReader<ChildStdout>>) -> Option<Answer> {
    let line = tokio::time::timeout(DEADLINE, output.next_line())
        .await
        .expect("a line in time")
        .unwrap()?;
    folding::reads(&line);
    Some(Answer {
        status: 0,
        headers: Vec::new(),
        body: line.into_bytes(),
    })
}

/// An agent that launches toolgate and speaks over its standard input and output.
pub struct Launched {
    gate: StdioGate,
    legacy: bool,
    next: u64,
}

impl Launched {
    /// Launches toolgate in the directory of `setup`.
    pub async fn start(setup: &Setup, args: &[&str], legacy: bool) -> Self {
        let mut launched = Self {
            gate: StdioGate::launch(setup, args),
            legacy,
            next: 0,
        };
        if legacy {
            let info = json!({ "name": "agent", "version": "1" });
            let params =
                json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info });
            assert!(launched.ask("initialize", params).await["result"].is_object());
            launched
                .say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
                .await;
        }
        launched
    }

    pub async fn say(&mut self, message: &Value) {
        self.gate.write(message.to_string().as_bytes()).await;
    }

    pub async fn ask(&mut self, method: &str, mut params: Value) -> Value {
        if !self.legacy {
            enveloped(&mut params);
        }
        self.next += 1;
        let id = self.next;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        loop {
            let message = self
                .gate
                .read()
                .await
                .expect("toolgate still lives")
                .message();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The next thing that toolgate says.
    pub async fn hears(&mut self) -> Value {
        self.gate
            .read()
            .await
            .expect("toolgate still lives")
            .message()
    }

    /// A call that runs even where an equal one has.
    pub async fn call_anew(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", anew(tool, arguments)).await
    }

    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
        .await
    }

    /// Closes standard input and waits for the end.
    pub async fn end(self) {
        assert!(self.gate.close().await.success());
    }
}
