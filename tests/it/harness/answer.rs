//! What an agent reads: whole answers, and those that still arrive, down to their bytes.

use super::replay::stored;
use super::{DEADLINE, folding};
use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The key of our verdict in `_meta`.
pub const DECISION: &str = "dev.toolgate/decision";

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
pub struct Reading {
    /// Status and headers.
    pub head: Answer,
    reader: BufReader<OwnedReadHalf>,
    /// Closing it says that the agent left.
    _writer: OwnedWriteHalf,
    pending: Vec<u8>,
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

    /// Whether the tool answered, and well, now or before.
    pub fn is_done(&self) -> bool {
        self.status == 200 && stored(&self.message())["result"]["content"][0]["text"] == "done"
    }
}

impl Reading {
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

    /// The next block of a stream; none at its end.
    pub async fn next(&mut self) -> Option<Block> {
        assert!(self.is_stream(), "{:?}", self.head);
        let mut lines = Vec::new();
        loop {
            match self.line().await? {
                line if !line.is_empty() => lines.push(line),
                // Nothing before the end of a block is no block.
                _ if lines.is_empty() => {}
                _ => return Some(Block::of(&lines)),
            }
        }
    }

    /// The next message of a stream.
    pub async fn message(&mut self) -> Value {
        self.event().await.expect("the stream goes on")
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
        let body = tokio::time::timeout(DEADLINE, body(&self.head, &mut self.reader)).await;
        self.head.body = body.expect("a body in time").expect("a whole body");
        folding::reads(&self.head.text());
        serde_json::from_str(&self.head.text()).unwrap_or_else(|_| panic!("{:?}", self.head))
    }

    /// Whether it is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.head.header("content-type") == Some("text/event-stream")
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

impl Block {
    fn of(lines: &[String]) -> Self {
        if let Some(comment) = lines.first().and_then(|line| line.strip_prefix(':')) {
            return Self::Comment(comment.to_owned());
        }
        let field = |name: &str| {
            lines.iter().find_map(|line| {
                let value = line.strip_prefix(name)?.strip_prefix(':')?;
                Some(value.trim_start())
            })
        };
        let message = field("data").filter(|data| !data.is_empty());
        Self::Event {
            id: field("id").map(str::to_owned),
            message: message.map(|data| serde_json::from_str(data).unwrap()),
        }
    }
}

/// The code of toolgate's decision on a call, or none if it was answered by the tool.
pub fn code(answer: &Value) -> Option<String> {
    let decision = answer["result"]["_meta"].get(DECISION);
    let decision = decision.or_else(|| answer["error"]["data"].get(DECISION));
    let decision = decision.unwrap_or_else(|| panic!("toolgate decided nothing: {answer}"));
    decision
        .get("code")
        .map(|code| code.as_str().unwrap().to_owned())
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
        let Reading {
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

/// Sends requests on one connection, each when the one before it is answered whole.
pub async fn exchange_each(address: SocketAddr, requests: Vec<Vec<u8>>) -> Vec<Answer> {
    let (reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
    let (mut reader, mut answers) = (BufReader::new(reader), Vec::new());
    for request in requests {
        let answered = tokio::time::timeout(DEADLINE, async {
            writer.write_all(&request).await.ok()?;
            let mut answer = head(&mut reader).await?;
            answer.body = body(&answer, &mut reader).await?;
            Some(answer)
        });
        let answer = answered.await.expect("an answer in time");
        let answer = answer.expect("the connection stays");
        folding::reads(&answer.text());
        answers.push(answer);
    }
    answers
}

/// Sends exact bytes and reads the head of an answer.
pub async fn open(address: SocketAddr, bytes: Vec<u8>) -> Option<Reading> {
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
    Some(Reading {
        head: head?,
        reader,
        _writer: writer,
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
