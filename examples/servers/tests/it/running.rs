//! A tool server that runs for the length of a test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A running server that is spoken to in lines; it ends when its input closes.
pub(crate) struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl Running {
    pub(crate) fn stdio(program: &str, environment: &[(&str, &Path)]) -> Self {
        let mut child = Command::new(program)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            input,
            output,
            requests: 0,
        }
    }

    /// The handshake of the legacy era, and what the server says of itself.
    pub(crate) fn initialize(&mut self, capabilities: &Value) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client });
        let answer = self.request("initialize", hello, json!({}));
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer["result"].clone()
    }

    /// A call as agents of 2026-07-28 make it: no handshake, everything in `_meta`.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.request("tools/call", params, modern_meta(&json!({})))["result"].take()
    }

    /// Sends a request and reads its answer, which must be the next line.
    pub(crate) fn request(&mut self, method: &str, params: Value, meta: Value) -> Value {
        let id = self.send(method, params, meta);
        let answer = self.hear();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Sends a request and gives its id.
    pub(crate) fn send(&mut self, method: &str, mut params: Value, meta: Value) -> u64 {
        self.requests += 1;
        params["_meta"] = meta;
        self.say(
            &json!({ "jsonrpc": "2.0", "id": self.requests, "method": method, "params": params }),
        );
        self.requests
    }

    pub(crate) fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}

/// A running server that listens on a port of the system's choice; it is killed at the end.
pub(crate) struct Listening {
    child: Child,
    address: String,
}

impl Listening {
    pub(crate) fn http(program: &str, environment: &[(&str, &Path)]) -> Self {
        let mut command = Command::new(program);
        command
            .args(["--http", "127.0.0.1:0"])
            .envs(environment.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim_end()
            .strip_prefix("listening on http://")
            .unwrap()
            .strip_suffix("/mcp")
            .unwrap();
        Self {
            child,
            address: address.to_owned(),
        }
    }

    /// Posts a request of 2026-07-28 with these headers besides the standard ones, and gives status
    /// and answer.
    pub(crate) fn post(&self, message: &Value, headers: &[(&str, &str)]) -> (u16, String) {
        self.try_post(message, headers).unwrap()
    }

    /// The same; none when the connection is closed without an answer.
    pub(crate) fn try_post(
        &self,
        message: &Value,
        headers: &[(&str, &str)],
    ) -> Option<(u16, String)> {
        let body = message.to_string();
        let (method, name) = (
            message["method"].as_str().unwrap(),
            message["params"]["name"].as_str().unwrap(),
        );
        let mut lines = vec![
            "POST /mcp HTTP/1.1".to_owned(),
            format!("host: {}", self.address),
            "connection: close".to_owned(),
            "content-type: application/json".to_owned(),
            "accept: application/json, text/event-stream".to_owned(),
            "mcp-protocol-version: 2026-07-28".to_owned(),
            format!("mcp-method: {method}"),
            format!("mcp-name: {name}"),
            format!("content-length: {}", body.len()),
        ];
        lines.extend(
            headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}")),
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "{}\r\n\r\n{body}", lines.join("\r\n")).unwrap();
        let mut answer = String::new();
        // A process that dies may reset the connection.
        let _ = stream.read_to_string(&mut answer);
        let status = answer.split(' ').nth(1)?.parse().unwrap();
        Some((status, answer))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have been told to die.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

/// The `_meta` of a modern request by an agent with these capabilities.
pub(crate) fn modern_meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "dev.toolgate/fence": 7,
    })
}
