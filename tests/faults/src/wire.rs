//! One modern request over a connection of its own, read strictly: what is not whole is broken.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// By what name agents know toolgate, whatever stands before it.
pub const HOST: &str = "toolgate.test";

const MODERN: &str = "2026-07-28";
/// How long an operator waits for the door.
const OPERATORS: Duration = Duration::from_secs(10);

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// A whole answer: the HTTP status and the JSON-RPC response, if there is one.
    Answer(u16, Option<Value>),
    /// No whole answer, and why.
    Broken(String),
}

/// A modern request with these `params`; `meta` is put beside the envelope.
pub fn request(id: u64, method: &str, mut params: Value, meta: &[(&str, Value)]) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    });
    for (key, value) in meta {
        params["_meta"][*key] = value.clone();
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Sends `message` to `/mcp` at `address` and reads its answer.
pub async fn exchange(address: SocketAddr, message: &Value, within: Duration) -> Heard {
    let body = message.to_string();
    let name = message["params"]["name"]
        .as_str()
        .map(|name| format!("Mcp-Name: {name}\r\n"))
        .unwrap_or_default();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {MODERN}\r\nMcp-Method: {}\r\n{name}\
         Content-Length: {}\r\n\r\n",
        message["method"].as_str().unwrap_or_default(),
        body.len()
    );
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        stream.write_all((head + &body).as_bytes()).await?;
        hear(BufReader::new(stream), &message["id"]).await
    };
    match tokio::time::timeout(within, asking).await {
        Ok(Ok(whole)) => whole,
        Ok(Err(error)) => Heard::Broken(error.to_string()),
        Err(_) => Heard::Broken(format!("no answer within {within:?}")),
    }
}

/// The status of a GET, for the operators' door; none while nobody answers.
pub async fn status(address: SocketAddr, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
        .await
        .ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await.ok()?;
    line.split(' ').nth(1)?.parse().ok()
}

/// A request to the operators' door; its status and its JSON. None while nobody answers.
pub async fn ask(
    address: SocketAddr,
    (method, path): (&str, &str),
    token: &str,
    body: &str,
) -> Option<(u16, Value)> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        whole(&mut BufReader::new(stream)).await
    };
    let (status, _, text) = tokio::time::timeout(OPERATORS, asking).await.ok()?.ok()?;
    Some((status, serde_json::from_str(&text).unwrap_or_default()))
}

async fn hear(mut stream: BufReader<TcpStream>, id: &Value) -> std::io::Result<Heard> {
    let (status, events, text) = whole(&mut stream).await?;
    let messages: Vec<&str> = if events {
        text.lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(str::trim)
            .collect()
    } else {
        vec![text.trim()]
    };
    let messages = messages.into_iter().filter(|text| !text.is_empty());
    let mut responses = messages.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    Ok(Heard::Answer(
        status,
        responses.find(|message| message.get("method").is_none() && message["id"] == *id),
    ))
}

/// Status and text of an answer, and whether it is an event stream.
async fn whole(stream: &mut BufReader<TcpStream>) -> std::io::Result<(u16, bool, String)> {
    let first = line(stream).await?;
    let status = first
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| torn("no status"))?;
    let (mut length, mut chunked, mut events) = (0, false, false);
    loop {
        let line = line(stream).await?.to_ascii_lowercase();
        match line
            .split_once(':')
            .map(|(name, value)| (name, value.trim()))
        {
            None => break,
            Some(("content-length", value)) => {
                length = value.parse().map_err(|_| torn("no length"))?;
            }
            Some(("transfer-encoding", value)) => chunked = value == "chunked",
            Some(("content-type", value)) => events = value.starts_with("text/event-stream"),
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    if chunked {
        loop {
            let size = usize::from_str_radix(line(stream).await?.trim(), 16)
                .map_err(|_| torn("no chunk"))?;
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).await?;
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    } else {
        stream.read_exact(&mut body).await?;
    }
    Ok((
        status,
        events,
        String::from_utf8(body).map_err(|_| torn("no text"))?,
    ))
}

/// A line that ends: the end of the connection is no end of a line.
async fn line(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    match line.strip_suffix('\n') {
        Some(whole) => Ok(whole.trim_end_matches('\r').to_owned()),
        None => Err(torn("the connection ended")),
    }
}

fn torn(words: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, words.to_owned())
}
