//! An agent that sends exact bytes over a connection of its own for each request, and convenience
//! on top for both wires.

use super::DEADLINE;
use super::answer::{Answer, Reading, exchange, exchange_each, open};
use super::tool_server::script::{LEGACY, MODERN, VERSION_KEY};
use base64::Engine as _;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An agent at one address, perhaps with a token, perhaps in a legacy session.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Where toolgate is.
    pub address: SocketAddr,
    /// `/mcp` or `/mcp/{server}`.
    pub path: String,
    /// The bearer token.
    pub token: Option<String>,
    /// The legacy session.
    pub session: Option<String>,
    /// Headers besides the usual ones, or instead of them; `-` leaves one out.
    pub own: Vec<(String, String)>,
    /// The id of its next request.
    pub next: Arc<AtomicU64>,
}

impl Agent {
    /// An agent at `/mcp`.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            path: "/mcp".to_owned(),
            token: None,
            session: None,
            own: Vec::new(),
            next: Arc::new(AtomicU64::new(1)),
        }
    }

    /// The same agent at a path, or at the path of this server.
    pub fn at(&self, place: &str) -> Self {
        let path = match place.strip_prefix('/') {
            Some(_) => place.to_owned(),
            None => format!("/mcp/{place}"),
        };
        Self {
            path,
            ..self.clone()
        }
    }

    /// The same agent with a token.
    pub fn token(&self, token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            ..self.clone()
        }
    }

    /// The same agent with a header of its own.
    pub fn header(&self, name: &str, value: &str) -> Self {
        let mut agent = self.clone();
        agent.own.push((name.to_owned(), value.to_owned()));
        agent
    }

    pub fn is_legacy(&self) -> bool {
        self.session.is_some()
    }

    /// The same agent in a legacy session in which it says that it can do much.
    pub async fn initialized(&self) -> Self {
        self.declaring(
            json!({ "roots": { "listChanged": true }, "sampling": {}, "elicitation": {} }),
        )
        .await
    }

    /// The same agent in a legacy session in which it says that it can do this.
    pub async fn declaring(&self, capabilities: Value) -> Self {
        let info = json!({ "name": "agent", "version": "1" });
        let params =
            json!({ "protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": info });
        let mut answer = self
            .post(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }))
            .await;
        let session = answer.head.header("mcp-session-id").map(str::to_owned);
        let answer = answer.whole().await;
        assert!(
            session.is_some() && answer["result"].is_object(),
            "no session: {answer}"
        );
        let agent = Self {
            session,
            ..self.clone()
        };
        let told = agent
            .post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        assert_eq!(told.head.status, 202);
        agent
    }

    /// Host, type, accepted types, token and session: what every good request has.
    pub fn headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![
            ("Host".to_owned(), self.address.to_string()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
            (
                "Accept".to_owned(),
                "application/json, text/event-stream".to_owned(),
            ),
        ];
        headers.extend(
            self.token
                .iter()
                .map(|token| ("Authorization".to_owned(), format!("Bearer {token}"))),
        );
        headers.extend(
            self.session
                .iter()
                .map(|id| ("Mcp-Session-Id".to_owned(), id.clone())),
        );
        headers
    }

    /// The headers that mirror a modern message.
    pub fn mirrored(&self, message: &Value) -> Vec<(String, String)> {
        let mut headers = self.headers();
        let method = message["method"].as_str().unwrap_or_default();
        headers.push(("MCP-Protocol-Version".to_owned(), MODERN.to_owned()));
        headers.push(("Mcp-Method".to_owned(), method.to_owned()));
        let named = ["name", "uri", "taskId"]
            .iter()
            .find_map(|key| message["params"].get(key)?.as_str());
        headers.extend(named.map(|name| ("Mcp-Name".to_owned(), mirrored(name))));
        headers
    }

    /// The headers that a message of its revision wants, with the agent's own.
    fn fitting(&self, message: &Value) -> Vec<(String, String)> {
        let mut headers = if message["params"]["_meta"][VERSION_KEY].is_string() {
            self.mirrored(message)
        } else {
            self.headers()
        };
        headers.extend(self.revision());
        headers.retain(|(name, _)| {
            let is_own = |(own, _): &(String, String)| own.eq_ignore_ascii_case(name);
            !self.own.iter().any(is_own)
        });
        let own = self.own.iter().filter(|(_, value)| value != "-");
        headers.extend(own.cloned());
        headers
    }

    /// What every request in a session says of its revision.
    fn revision(&self) -> Option<(String, String)> {
        let revision = || ("MCP-Protocol-Version".to_owned(), LEGACY.to_owned());
        self.is_legacy().then(revision)
    }

    /// A POST as bytes, with its length.
    pub fn encoded(&self, headers: &[(String, String)], body: &[u8]) -> Vec<u8> {
        let length = ("Content-Length".to_owned(), body.len().to_string());
        let mut bytes = self.head("POST", &[headers, &[length]].concat());
        bytes.extend_from_slice(body);
        bytes
    }

    fn head(&self, method: &str, headers: &[(String, String)]) -> Vec<u8> {
        let mut bytes = format!("{method} {} HTTP/1.1\r\n", self.path).into_bytes();
        for (name, value) in headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    /// Sends exact bytes and reads one answer. None: the connection was closed without one.
    pub async fn bytes(&self, bytes: Vec<u8>) -> Option<Answer> {
        exchange(self.address, bytes).await
    }

    /// Posts a body under these headers.
    pub async fn send(&self, headers: &[(String, String)], body: &[u8]) -> Answer {
        self.bytes(self.encoded(headers, body))
            .await
            .expect("an answer")
    }

    /// Posts and reads the answer as it comes.
    pub async fn stream(&self, headers: &[(String, String)], body: &[u8]) -> Reading {
        self.opened(self.encoded(headers, body)).await
    }

    async fn opened(&self, bytes: Vec<u8>) -> Reading {
        let opened = tokio::time::timeout(DEADLINE, open(self.address, bytes)).await;
        opened.expect("an answer in time").expect("an answer")
    }

    /// A request as this agent's revision wants it.
    pub fn request(&self, method: &str, mut params: Value) -> Value {
        if !self.is_legacy() {
            enveloped(&mut params);
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// Sends a message with the headers its revision wants.
    pub async fn post(&self, message: &Value) -> Reading {
        self.raw(message, message.to_string()).await
    }

    /// Sends `text` with the headers that `message` wants.
    pub async fn raw(&self, message: &Value, text: String) -> Reading {
        self.stream(&self.fitting(message), text.as_bytes()).await
    }

    /// Sends requests on one connection, one after the other, and returns what answers them.
    pub async fn on_one_connection(&self, requests: &[Value]) -> Vec<Value> {
        let encoded = requests
            .iter()
            .map(|request| self.encoded(&self.fitting(request), request.to_string().as_bytes()));
        let answers = exchange_each(self.address, encoded.collect()).await;
        let messages = answers.iter().map(Answer::message);
        messages.collect()
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

    /// A `tools/call` as this agent's revision wants it, and the message that answers it.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.ask("tools/call", params).await
    }

    /// A call that runs even where an equal one has.
    pub async fn call_anew(&self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", anew(tool, arguments)).await
    }

    /// The names of all tools that are listed, page by page.
    pub async fn tools(&self) -> Vec<String> {
        let (mut names, mut params) = (Vec::new(), json!({}));
        loop {
            let answer = self.ask("tools/list", params).await;
            let tools = answer["result"]["tools"].as_array();
            let tools = tools.unwrap_or_else(|| panic!("{answer}")).iter();
            names.extend(tools.map(|tool| tool["name"].as_str().unwrap().to_owned()));
            match answer["result"].get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return names,
            }
        }
    }

    /// Opens the standalone stream, or takes one up again.
    pub async fn get(&self, after: Option<&str>) -> Reading {
        let mut headers = self.bodiless();
        headers.push(("Accept".to_owned(), "text/event-stream".to_owned()));
        headers.extend(after.map(|id| ("Last-Event-ID".to_owned(), id.to_owned())));
        self.opened(self.head("GET", &headers)).await
    }

    /// Ends its session.
    pub async fn delete(&self) {
        let ended = self.bytes(self.head("DELETE", &self.bodiless())).await;
        assert!(
            ended.as_ref().is_some_and(|ended| ended.status < 300),
            "{ended:?}"
        );
    }

    /// The headers of a request without a body.
    fn bodiless(&self) -> Vec<(String, String)> {
        let mut headers = self.headers();
        headers.retain(|(name, _)| !matches!(&**name, "Content-Type" | "Accept"));
        headers.extend(self.revision());
        headers.extend(self.own.iter().filter(|(_, value)| value != "-").cloned());
        headers
    }

    /// Listens for changes of the tools: in a legacy session, or by a subscription. The agent as it
    /// is then, and what it hears.
    pub async fn listens_for_tools(&self, modern: bool) -> (Self, Reading) {
        if !modern {
            let agent = self.initialized().await;
            let listening = agent.get(None).await;
            return (agent, listening);
        }
        let wanted = json!({ "notifications": { "toolsListChanged": true } });
        let request = self.request("subscriptions/listen", wanted);
        let mut listening = self.post(&request).await;
        let first = listening.message().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        (self.clone(), listening)
    }

    /// A modern request.
    pub async fn modern(&self, method: &str, params: Value) -> Answer {
        self.sends(&modern(method, params)).await
    }

    /// Posts a modern message.
    pub async fn sends(&self, message: &Value) -> Answer {
        self.send(&self.mirrored(message), message.to_string().as_bytes())
            .await
    }

    /// A modern `tools/call`.
    pub async fn modern_call(&self, tool: &str, arguments: Value) -> Answer {
        self.modern(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
        .await
    }

    /// A `tools/call` that runs even where an equal one has, on the agent's wire.
    pub async fn anew_call(&self, tool: &str, arguments: Value) -> Answer {
        let params = anew(tool, arguments);
        match self.session {
            Some(_) => self.legacy("tools/call", params).await,
            None => self.modern("tools/call", params).await,
        }
    }

    /// The same beside others of its kind: no two have one id.
    pub async fn call_beside(&self, tool: &str, arguments: Value) -> Answer {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let params = anew(tool, arguments);
        if self.session.is_none() {
            let mut message = modern("tools/call", params);
            message["id"] = json!(id);
            return self.sends(&message).await;
        }
        let message =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        self.send(&self.headers(), message.to_string().as_bytes())
            .await
    }

    /// A legacy request, in the session if there is one.
    pub async fn legacy(&self, method: &str, params: Value) -> Answer {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.send(&self.headers(), message.to_string().as_bytes())
            .await
    }

    /// A legacy `tools/call`.
    pub async fn legacy_call(&self, tool: &str, arguments: Value) -> Answer {
        self.legacy(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
        .await
    }
}

/// The parameters of a call that runs even where an equal one has: with an idempotency key and a
/// session of its own, so that it is neither answered as the first one was nor kept waiting for it.
pub fn anew(tool: &str, arguments: Value) -> Value {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let own = format!("call-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let meta = json!({ "dev.toolgate/idempotencyKey": own, "dev.toolgate/session": own });
    let mut params = json!({ "name": tool, "_meta": meta });
    params["arguments"] = arguments;
    params
}

/// A modern request, with its envelope and id 1.
pub fn modern(method: &str, mut params: Value) -> Value {
    enveloped(&mut params);
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// Adds what every modern request carries to what is there.
pub fn enveloped(params: &mut Value) {
    params["_meta"][VERSION_KEY] = json!(MODERN);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
}

/// A value as it stands in a header.
pub fn mirrored(value: &str) -> String {
    let plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && value.trim() == value
        && !value.starts_with("=?");
    if plain {
        return value.to_owned();
    }
    let encoded = base64::engine::general_purpose::STANDARD.encode(value);
    format!("=?base64?{encoded}?=")
}
