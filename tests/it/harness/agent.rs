//! An agent that sends exact bytes over a connection of its own for each request, and a little
//! convenience on top for both wires.

use super::tool_server::script::{LEGACY, MODERN, VERSION_KEY};
use super::{DEADLINE, folding};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The key of our verdict in `_meta`.
const DECISION: &str = "dev.toolgate/decision";

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
}

/// An answer, whole.
#[derive(Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without its framing.
    pub body: Vec<u8>,
}

/// An answer that still arrives.
pub struct Streaming {
    /// Status and headers.
    pub head: Answer,
    reader: BufReader<OwnedReadHalf>,
    /// Closing it says that the agent left.
    _writer: Option<OwnedWriteHalf>,
    pending: Vec<u8>,
}

impl Agent {
    /// An agent at `/mcp`.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            path: "/mcp".to_owned(),
            token: None,
            session: None,
        }
    }

    /// The same agent at `/mcp/{server}`.
    pub fn at(&self, server: &str) -> Self {
        Self {
            path: format!("/mcp/{server}"),
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
        let key = if method == "resources/read" {
            "uri"
        } else {
            "name"
        };
        if let Some(name) = message["params"][key].as_str() {
            headers.push(("Mcp-Name".to_owned(), name.to_owned()));
        }
        headers
    }

    /// A POST as bytes, with its length.
    pub fn request(&self, headers: &[(String, String)], body: &[u8]) -> Vec<u8> {
        let mut bytes = format!("POST {} HTTP/1.1\r\n", self.path).into_bytes();
        for (name, value) in headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    /// Sends exact bytes and reads one answer. None: the connection was closed without one.
    pub async fn bytes(&self, bytes: Vec<u8>) -> Option<Answer> {
        exchange(self.address, bytes).await
    }

    /// Posts a body under these headers.
    pub async fn post(&self, headers: &[(String, String)], body: &[u8]) -> Answer {
        self.bytes(self.request(headers, body))
            .await
            .expect("an answer")
    }

    /// Posts and reads the answer as it comes.
    pub async fn stream(&self, headers: &[(String, String)], body: &[u8]) -> Streaming {
        open(self.address, self.request(headers, body))
            .await
            .expect("an answer")
    }

    /// A modern request.
    pub async fn modern(&self, method: &str, params: Value) -> Answer {
        let message = modern(method, params);
        self.post(&self.mirrored(&message), message.to_string().as_bytes())
            .await
    }

    /// A modern `tools/call`.
    pub async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.modern(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
        .await
    }

    /// A `tools/call` that runs even where an equal one has, on the agent's wire.
    pub async fn call_anew(&self, tool: &str, arguments: Value) -> Answer {
        let params = anew(tool, arguments);
        match self.session {
            Some(_) => self.legacy("tools/call", params).await,
            None => self.modern("tools/call", params).await,
        }
    }

    /// Opens a legacy session: the same agent, with the session's id.
    pub async fn initialize(&self) -> Self {
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": { "name": "agent", "version": "1" },
        });
        let answer = self.legacy("initialize", params).await;
        let session = answer.header("mcp-session-id").map(str::to_owned);
        assert!(session.is_some(), "no session: {answer:?}");
        let agent = Self {
            session,
            ..self.clone()
        };
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(
            agent
                .post(&agent.headers(), message.to_string().as_bytes())
                .await
                .status,
            202
        );
        agent
    }

    /// A legacy request, in the session if there is one.
    pub async fn legacy(&self, method: &str, params: Value) -> Answer {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(&self.headers(), message.to_string().as_bytes())
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
    params["_meta"][VERSION_KEY] = json!(MODERN);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text: String = self.text().chars().take(2_000).collect();
        write!(f, "{} {:?} {text}", self.status, self.headers)
    }
}

impl Answer {
    /// A header, if it is there.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(given, _)| given == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// All messages: the one of a JSON body, or those of an event stream.
    pub fn messages(&self) -> Vec<Value> {
        let text = self.text();
        if self.header("content-type") != Some("text/event-stream") {
            return serde_json::from_str(&text).into_iter().collect();
        }
        text.lines()
            .filter_map(|line| {
                line.strip_prefix("data:")
                    .map(str::trim)
                    .filter(|data| !data.is_empty())
            })
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    /// The response: the last message.
    pub fn message(&self) -> Value {
        self.messages()
            .pop()
            .unwrap_or_else(|| panic!("no message in {self:?}"))
    }

    /// The JSON-RPC error code; 0 for none.
    pub fn error(&self) -> i64 {
        self.message()["error"]["code"].as_i64().unwrap_or_default()
    }

    /// The words an agent reads: of the error, or of the refusal.
    pub fn words(&self) -> String {
        let message = self.message();
        let words = message["error"]["message"]
            .as_str()
            .or(message["result"]["content"][0]["text"].as_str());
        words.unwrap_or_default().to_owned()
    }

    /// The code of the refusal; empty for none.
    pub fn refusal(&self) -> String {
        let message = self.message();
        let code = message["result"]["_meta"][DECISION]["code"]
            .as_str()
            .or(message["error"]["data"]["code"].as_str());
        code.unwrap_or_default().to_owned()
    }

    /// Whether the tool answered, and well.
    pub fn is_done(&self) -> bool {
        self.status == 200 && self.message()["result"]["content"][0]["text"] == "done"
    }
}

impl Streaming {
    /// The next line of the body; none at its end.
    pub async fn line(&mut self) -> Option<String> {
        let chunked = self.head.header("transfer-encoding") == Some("chunked");
        tokio::time::timeout(DEADLINE, async {
            loop {
                if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.pending.drain(..=end).collect();
                    let line = String::from_utf8(line).unwrap().trim_end().to_owned();
                    folding::reads_events(&line);
                    return Some(line);
                }
                assert!(chunked, "only chunked bodies are read line by line");
                let chunk = chunk(&mut self.reader)
                    .await
                    .filter(|chunk| !chunk.is_empty())?;
                self.pending.extend(chunk);
            }
        })
        .await
        .expect("a line in time")
    }

    /// The next event's message; none at the end.
    pub async fn event(&mut self) -> Option<Value> {
        loop {
            let line = self.line().await?;
            if let Some(data) = line
                .strip_prefix("data:")
                .map(str::trim)
                .filter(|data| !data.is_empty())
            {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}

/// A GET, for the operators' door. None: no connection or no answer.
pub async fn get(address: SocketAddr, path: &str) -> Option<Answer> {
    exchange(
        address,
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes(),
    )
    .await
}

/// Sends exact bytes and reads one answer, whole.
pub async fn exchange(address: SocketAddr, bytes: Vec<u8>) -> Option<Answer> {
    tokio::time::timeout(DEADLINE, async {
        let Streaming {
            mut head,
            mut reader,
            _writer,
            ..
        } = open(address, bytes).await?;
        head.body = body(&head, &mut reader).await?;
        match head.header("content-type") {
            Some("text/event-stream") => folding::reads_events(&head.text()),
            _ => folding::reads(&head.text()),
        }
        Some(head)
    })
    .await
    .expect("an answer or an end in time")
}

/// Sends exact bytes and reads the head of an answer.
pub async fn open(address: SocketAddr, bytes: Vec<u8>) -> Option<Streaming> {
    let (reader, mut writer) = TcpStream::connect(address).await.ok()?.into_split();
    let mut reader = BufReader::new(reader);
    // An answer may come before all is written; what is left then is of no interest to anybody.
    let write = async {
        let _ = writer.write_all(&bytes).await;
        std::future::pending::<()>().await;
    };
    let head = tokio::select! {
        head = head(&mut reader) => head,
        () = write => None,
    };
    Some(Streaming {
        head: head?,
        reader,
        _writer: Some(writer),
        pending: Vec::new(),
    })
}

async fn head(reader: &mut BufReader<OwnedReadHalf>) -> Option<Answer> {
    let mut line = String::new();
    reader.read_line(&mut line).await.ok()?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await.ok()?;
        // Half of a head is none.
        let line = line.strip_suffix("\r\n")?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Some(Answer {
        status,
        headers,
        body: Vec::new(),
    })
}

async fn body(head: &Answer, reader: &mut BufReader<OwnedReadHalf>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    if head.header("transfer-encoding") == Some("chunked") {
        while let Some(chunk) = chunk(reader).await.filter(|chunk| !chunk.is_empty()) {
            body.extend(chunk);
        }
    } else if let Some(length) = head.header("content-length") {
        body.resize(length.parse().unwrap(), 0);
        reader.read_exact(&mut body).await.ok()?;
    }
    Some(body)
}

async fn chunk(reader: &mut BufReader<OwnedReadHalf>) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).await.ok()?;
    let size = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut bytes = vec![0; size + 2];
    reader.read_exact(&mut bytes).await.ok()?;
    bytes.truncate(size);
    Some(bytes)
}
