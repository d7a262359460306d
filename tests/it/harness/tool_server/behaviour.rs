//! How a tool answers once it has run.

use super::Shared;
use super::script::done;
use super::wire::{json_answer, status_line};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::OwnedWriteHalf;

/// How a tool answers.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// As it should.
    Answers,
    /// As it should, once the scenario releases it.
    Held,
    /// With this `result`.
    Says(Value),
    /// With this `result`, once the scenario releases it.
    SaysOnceReleased(Value),
    /// Never.
    Never,
    /// With text that is no JSON.
    Garbage,
    /// With JSON that is no JSON-RPC.
    NoMessage,
    /// Twice, on an event stream.
    Twice,
    /// Under an id that nobody asked with.
    ForeignId,
    /// With half of its answer, and closes the connection.
    Cut,
    /// Not at all: it closes the connection.
    HangsUp,
    /// Not at all, once the scenario releases it: it closes the connection.
    HangsUpOnceReleased,
    /// With this JSON-RPC error.
    Error(i64),
    /// With an event stream that ends without an answer.
    EndsWithoutAnswer,
    /// With a redirect to an address.
    Redirects(String),
    /// As if compressed.
    Gzip,
    /// With more bytes than any answer may have.
    Giant,
    /// With a request of its own on the stream, then as it should.
    Asks,
    /// With a page for people.
    Html,
    /// With a bare status.
    Status(u16),
    /// With comments and a notification on an event stream, then, once released, as it should.
    SlowEvents,
}

impl Behaviour {
    /// Answers `message`. None: the connection is over.
    pub(super) async fn answer(
        &self,
        shared: &Shared,
        message: &Value,
        to: &mut OwnedWriteHalf,
    ) -> Option<()> {
        let right = done(message).to_string();
        let says = |result: &Value| {
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            json_answer(&answer.to_string())
        };
        let bytes = match self {
            Self::Answers => json_answer(&right),
            Self::Held => {
                shared.hold().await?;
                json_answer(&right)
            }
            Self::Says(result) => says(result),
            Self::SaysOnceReleased(result) => {
                shared.hold().await?;
                says(result)
            }
            Self::Never => return std::future::pending().await,
            Self::Garbage => json_answer("this is no JSON {"),
            Self::NoMessage => json_answer("{\"answer\":42}"),
            Self::Twice => events(&[&right, &right]),
            Self::ForeignId => {
                json_answer(&json!({ "jsonrpc": "2.0", "id": 987_654, "result": {} }).to_string())
            }
            Self::Cut => json_answer(&right)[..right.len()].to_vec(),
            Self::HangsUpOnceReleased => return shared.hold().await.and(None),
            Self::HangsUp => return None,
            Self::Error(code) => {
                let error = json!({ "code": code, "message": "told to" });
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
                json_answer(&answer.to_string())
            }
            Self::EndsWithoutAnswer => events(&[]),
            Self::Redirects(location) => {
                format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")
                    .into_bytes()
            }
            Self::Gzip => with_header("Content-Encoding: gzip", &right),
            Self::Giant => json_answer(&format!("\"{}\"", "x".repeat(5 << 20))),
            Self::Asks => {
                let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {} });
                events(&[&request.to_string(), &right])
            }
            Self::Html => plain("200 OK", "text/html", "<h1>done</h1>"),
            Self::Status(status) => {
                format!("{}Content-Length: 0\r\n\r\n", status_line(*status)).into_bytes()
            }
            Self::SlowEvents => {
                let note = json!({ "jsonrpc": "2.0", "method": "notifications/message",
                    "params": { "level": "info", "data": "working" } });
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
                let begin = format!("{head}: one\n\n: two\n\ndata: {note}\n\n");
                to.write_all(begin.as_bytes()).await.ok()?;
                shared.held.acquire().await.ok()?.forget();
                format!("data: {right}\n\n").into_bytes()
            }
        };
        to.write_all(&bytes).await.ok()?;
        (!matches!(self, Self::Cut | Self::SlowEvents)).then_some(())
    }
}

fn plain(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn with_header(header: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{header}\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn events(parts: &[&str]) -> Vec<u8> {
    let body: Vec<String> = parts
        .iter()
        .map(|part| format!("data: {part}\n\n"))
        .collect();
    plain("200 OK", "text/event-stream", &body.concat())
}
