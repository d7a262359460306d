//! The built program on a stage of its own, and agents that say exactly what a test wants said.

use super::agent::anew;
use super::gate::Setup;
use super::stdio::StdioGate;
use super::tool_server::script::{LEGACY, MODERN, VERSION_KEY};
use super::{DEADLINE, folding, gate};
use base64::Engine as _;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What toolgate is started with.
pub struct Settings {
    /// Names and addresses.
    pub servers: Vec<(&'static str, String)>,
    /// Lines of `callers`.
    pub callers: &'static str,
    /// Other lines.
    pub more: &'static str,
    /// The policy file; none if empty.
    pub policy: String,
    /// Whether nothing is refused.
    pub observe: bool,
}

impl Settings {
    /// One server that everybody may use, by contracts of that name with no conditions.
    pub fn open(url: String, tools: &[&str]) -> Self {
        let contract = |tool: &&str| {
            format!("  oracle__{tool}: {{ purpose: test, actions: [read], secrets: [] }}\n")
        };
        let policy = format!(
            "contracts:\n{}",
            tools.iter().map(contract).collect::<String>()
        );
        Self {
            servers: vec![("oracle", url)],
            callers: "",
            more: "",
            policy,
            observe: false,
        }
    }

    /// One server that is only observed.
    pub fn observed(url: String) -> Self {
        Self {
            servers: vec![("oracle", url)],
            callers: "",
            more: "",
            policy: String::new(),
            observe: true,
        }
    }
}

/// The running program.
pub struct Gate {
    pub gate: gate::Gate,
}

impl Settings {
    fn setup(&self) -> Setup {
        let mut setup = Setup::new()
            .more(self.more)
            .callers(self.callers)
            .policy(&self.policy);
        for (name, url) in &self.servers {
            setup = setup.server_with(name, &format!("url: \"{url}\""));
        }
        if self.observe {
            setup.mode("observe")
        } else {
            setup.open_sides()
        }
    }
}

impl Gate {
    /// Starts and waits until it is ready.
    pub async fn start(settings: Settings) -> Self {
        Self {
            gate: settings.setup().start().await,
        }
    }

    pub fn log(&self) -> String {
        self.gate.log()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.gate.setup.directory().join(name)
    }

    pub async fn readiness(&self) -> Value {
        serde_json::from_str(&self.gate.operators("/readyz").await).unwrap()
    }

    /// What it was started with.
    pub fn setup(&self) -> &Setup {
        &self.gate.setup
    }

    /// The value of a series, written as in the text of the metrics; 0 if there is no such series.
    pub async fn metric(&self, series: &str) -> f64 {
        let text = self.gate.operators("/metrics").await;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Tells it to read its files again.
    pub fn hang_up(&self) {
        self.gate.signal(rustix::process::Signal::HUP);
    }

    /// Asks it to stop and waits for the end; its files stay.
    pub async fn stop(mut self) -> Setup {
        self.gate.terminate();
        assert!(self.gate.wait().await.success());
        self.gate.setup.clone()
    }

    /// The ledger, once it has at least `count` entries.
    pub async fn entries(&self, count: usize) -> Vec<Value> {
        self.gate.entries(count).await
    }

    /// A modern agent.
    pub fn agent(&self) -> Agent {
        Agent::new(&format!("http://{}", self.gate.agents))
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

/// An agent on HTTP.
#[derive(Clone)]
pub struct Agent {
    http: reqwest::Client,
    base: String,
    path: String,
    token: Option<String>,
    session: Option<String>,
    next: Arc<AtomicU64>,
    /// Headers besides the usual ones, or instead of them.
    pub headers: Vec<(String, String)>,
}

/// An answer that is being read.
pub struct ArgumentOrigin {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    response: reqwest::Response,
    buffer: String,
}

/// One block of an event stream.
#[derive(Debug, PartialEq)]
pub enum Block {
    Comment(String),
    Event {
        id: Option<String>,
        message: Option<Value>,
    },
}

impl Agent {
    fn new(base: &str) -> Self {
        Self {
            http: reqwest::Client::new(),
            base: base.to_owned(),
            path: "/mcp".to_owned(),
            token: None,
            session: None,
            next: Arc::new(AtomicU64::new(1)),
            headers: Vec::new(),
        }
    }

    pub fn at(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn is_legacy(&self) -> bool {
        self.session.is_some()
    }

    /// The same agent in a legacy session.
    pub async fn initialized(self) -> Self {
        self.declaring(
            json!({ "roots": { "listChanged": true }, "sampling": {}, "elicitation": {} }),
        )
        .await
    }

    /// The same agent with a session in which it says that it can do this.
    pub async fn declaring(mut self, capabilities: Value) -> Self {
        let info = json!({ "name": "agent", "version": "1" });
        let params =
            json!({ "protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": info });
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let mut answer = self.post(&message).await;
        self.session = Some(
            answer.headers["mcp-session-id"]
                .to_str()
                .unwrap()
                .to_owned(),
        );
        let answer = answer.whole().await;
        assert!(answer["result"].is_object(), "{answer}");
        let told = self
            .post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        assert_eq!(told.status, 202);
        self
    }

    /// A request as this agent's revision wants it.
    pub fn request(&self, method: &str, mut params: Value) -> Value {
        if !self.is_legacy() {
            enveloped(&mut params);
        }
        json!({ "jsonrpc": "2.0", "id": self.next.fetch_add(1, Ordering::Relaxed), "method": method, "params": params })
    }

    /// Sends a message with the headers its revision wants.
    pub async fn post(&self, message: &Value) -> ArgumentOrigin {
        self.raw(message, message.to_string()).await
    }

    /// Sends `text` with the headers that `message` wants.
    pub async fn raw(&self, message: &Value, text: String) -> ArgumentOrigin {
        let mut request = self.http.post(format!("{}{}", self.base, self.path));
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.push(("accept", "application/json, text/event-stream".to_owned()));
        if message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string() {
            headers.push(("mcp-protocol-version", MODERN.to_owned()));
            headers.push(("mcp-method", message["method"].as_str().unwrap().to_owned()));
            let named = ["name", "uri", "taskId"]
                .iter()
                .find_map(|key| message["params"].get(key)?.as_str());
            headers.extend(named.map(|name| ("mcp-name", mirrored(name))));
        }
        headers.retain(|(name, _)| !self.headers.iter().any(|(own, _)| own == name));
        for (name, value) in headers.iter().map(|(name, value)| (*name, value)) {
            request = request.header(name, value);
        }
        for (name, value) in self.headers.iter().filter(|(_, value)| value != "-") {
            request = request.header(name, value);
        }
        self.sent(request.body(text)).await
    }

    /// Opens the standalone stream, or takes one up again.
    pub async fn get(&self, after: Option<&str>) -> ArgumentOrigin {
        let mut request = self
            .http
            .get(format!("{}{}", self.base, self.path))
            .header("accept", "text/event-stream");
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        self.sent(request).await
    }

    /// Listens for changes of the tools: in a legacy session, or by a subscription. The agent as it
    /// is then, and what it hears.
    pub async fn listens_for_tools(self, modern: bool) -> (Self, ArgumentOrigin) {
        if !modern {
            let agent = self.initialized().await;
            let listening = agent.get(None).await;
            return (agent, listening);
        }
        let wanted = json!({ "notifications": { "toolsListChanged": true } });
        let mut listening = self
            .post(&self.request("subscriptions/listen", wanted))
            .await;
        assert_eq!(
            listening.message().await["method"],
            "notifications/subscriptions/acknowledged"
        );
        (self, listening)
    }

    /// Ends its session.
    pub async fn delete(&self) {
        let ended = self
            .sent(self.http.delete(format!("{}{}", self.base, self.path)))
            .await;
        assert!(ended.status < 300, "{}", ended.status);
    }

    async fn sent(&self, mut request: reqwest::RequestBuilder) -> ArgumentOrigin {
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(session) = &self.session {
            request = request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", LEGACY);
        }
        let response = tokio::time::timeout(DEADLINE, request.send())
            .await
            .unwrap()
            .unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        ArgumentOrigin {
            status,
            headers,
            response,
            buffer: String::new(),
        }
    }

    /// Sends a request and returns the message that answers it.
    pub async fn ask(&self, method: &str, params: Value) -> Value {
        let message = self.request(method, params);
        self.answered(&message).await
    }

    /// Sends this request and returns the message that answers it.
    pub async fn answered(&self, message: &Value) -> Value {
        let answer = self.post(message).await.whole().await;
        assert_eq!(answer["id"], message["id"], "{answer}");
        answer
    }

    /// A call that runs even where an equal one has.
    pub async fn call_anew(&self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", anew(tool, arguments)).await
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.ask(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
        .await
    }

    /// The names of all tools that are listed, page by page.
    pub async fn tools(&self) -> Vec<String> {
        let (mut names, mut params) = (Vec::new(), json!({}));
        loop {
            let answer = self.ask("tools/list", params).await;
            let tools = answer["result"]["tools"]
                .as_array()
                .unwrap_or_else(|| panic!("{answer}"));
            names.extend(
                tools
                    .iter()
                    .map(|tool| tool["name"].as_str().unwrap().to_owned()),
            );
            match answer["result"].get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return names,
            }
        }
    }
}

/// A value as it stands in a header.
pub fn mirrored(value: &str) -> String {
    let plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && value.trim() == value
        && !value.starts_with("=?");
    if plain {
        return value.to_owned();
    }
    format!(
        "=?base64?{}?=",
        base64::engine::general_purpose::STANDARD.encode(value)
    )
}

impl ArgumentOrigin {
    fn is_stream(&self) -> bool {
        self.headers
            .get("content-type")
            .is_some_and(|kind| kind == "text/event-stream")
    }

    async fn more(&mut self) -> bool {
        let chunk = tokio::time::timeout(DEADLINE, self.response.chunk())
            .await
            .expect("nothing more is said in time");
        match chunk {
            Ok(Some(bytes)) => {
                self.buffer += std::str::from_utf8(&bytes).unwrap();
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    /// The next block of a stream; none at its end.
    pub async fn next(&mut self) -> Option<Block> {
        assert!(self.is_stream(), "{} {:?}", self.status, self.headers);
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.buffer = rest;
                return Some(block_of(&block));
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// The next message of a stream.
    pub async fn message(&mut self) -> Value {
        loop {
            match self.next().await {
                Some(Block::Event {
                    message: Some(message),
                    ..
                }) => return message,
                Some(_) => {}
                None => panic!("the stream ended"),
            }
        }
    }

    /// The whole answer: the message of a JSON body, or the last one of a stream.
    pub async fn whole(&mut self) -> Value {
        if self.is_stream() {
            loop {
                let message = self.message().await;
                if message.get("method").is_none() {
                    return message;
                }
            }
        }
        while self.more().await {}
        folding::reads(&self.buffer);
        serde_json::from_str(&self.buffer)
            .unwrap_or_else(|_| panic!("{} {:?}", self.status, self.buffer))
    }
}

fn block_of(text: &str) -> Block {
    folding::reads_events(text);
    if let Some(comment) = text.strip_prefix(':') {
        return Block::Comment(comment.to_owned());
    }
    let field = |name: &str| {
        text.lines().find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix(':')
                .map(str::trim_start)
        })
    };
    let message = field("data")
        .filter(|data| !data.is_empty())
        .map(|data| serde_json::from_str(data).unwrap());
    Block::Event {
        id: field("id").map(str::to_owned),
        message,
    }
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

/// Adds what every modern request carries to what is there.
fn enveloped(params: &mut Value) {
    params["_meta"][VERSION_KEY] = json!(MODERN);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
}

/// The code of toolgate's decision on a call, or none if it was answered by the tool.
pub fn code(answer: &Value) -> Option<String> {
    let decision = answer["result"]["_meta"].get("dev.toolgate/decision");
    let decision = decision.or_else(|| answer["error"]["data"].get("dev.toolgate/decision"));
    let decision = decision.unwrap_or_else(|| panic!("toolgate decided nothing: {answer}"));
    decision
        .get("code")
        .map(|code| code.as_str().unwrap().to_owned())
}
