//! The oracle's connections: HTTP/1.1 by hand, so that nothing stands between a scenario and the
//! bytes.

use super::super::folding;
use super::script::{Eras, answer, execution, is_modern};
use super::{Behaviour, Shared};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

struct Request {
    method: String,
    headers: Map<String, Value>,
    body: String,
}

/// Serves until it is aborted; its connections end with it.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        connections.spawn(connection(stream, shared.clone()));
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    while let Some(request) = read(&mut reader).await {
        let going_on = tokio::select! {
            answered = respond(&shared, &request, &mut writer) => answered.is_some(),
            // A client that hangs up no longer waits.
            _ = reader.fill_buf() => false,
        };
        if !going_on {
            return;
        }
    }
}

async fn read(reader: &mut BufReader<OwnedReadHalf>) -> Option<Request> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .await
        .ok()
        .filter(|read| *read > 0)?;
    let method = line.split(' ').next()?.to_owned();
    let mut headers = Map::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), json!(value.trim()));
    }
    let length = headers
        .get("content-length")
        .and_then(|length| length.as_str()?.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.ok()?;
    Some(Request {
        method,
        headers,
        body: String::from_utf8(body).ok()?,
    })
}

async fn respond(shared: &Shared, request: &Request, to: &mut OwnedWriteHalf) -> Option<()> {
    folding::reads(&request.body);
    let message = serde_json::from_str::<Value>(&request.body);
    let method = message
        .as_ref()
        .ok()
        .and_then(|message| message["method"].as_str());
    shared
        .requests
        .lock()
        .unwrap()
        .push(method.unwrap_or(&request.method).to_owned());
    let Ok(message) = message else {
        let status = if request.method == "DELETE" { 200 } else { 405 };
        return bare(status, to).await;
    };
    if message.get("id").is_none() || message.get("method").is_none() {
        return bare(202, to).await;
    }
    if is_modern(&message) && shared.script.eras == Eras::Legacy {
        return bare(400, to).await;
    }
    if message["method"] == "tools/call" {
        let tool = message["params"]["name"].as_str()?;
        let mut line = execution(&message["params"]);
        line["headers"] = json!(request.headers);
        line["body"] = json!(request.body);
        shared.log.note(&line).unwrap();
        let found = shared
            .script
            .behaviours
            .iter()
            .find(|(name, _)| name == tool);
        return found
            .map_or(&Behaviour::Answers, |(_, behaviour)| behaviour)
            .answer(shared, &message, to)
            .await;
    }
    let mut bytes =
        json_answer(&answer(&message, &shared.script.tools, shared.script.eras).to_string());
    if message["method"] == "initialize" {
        let at = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
        bytes.splice(at..at, *b"Mcp-Session-Id: oracle-session\r\n");
    }
    to.write_all(&bytes).await.ok()
}

async fn bare(status: u16, to: &mut OwnedWriteHalf) -> Option<()> {
    to.write_all(format!("{}Content-Length: 0\r\n\r\n", status_line(status)).as_bytes())
        .await
        .ok()
}

/// The first line of an answer.
pub(super) fn status_line(status: u16) -> String {
    format!("HTTP/1.1 {status} Status\r\n")
}

/// A whole answer.
pub(super) fn json_answer(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}
