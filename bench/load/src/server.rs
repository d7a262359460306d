//! The tool server: does nothing, and answers at once from memory.

use crate::scenes::{REVISION, definition};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io::{BufRead as _, Write as _};
use std::rc::Rc;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

/// Results, ready to be sent.
struct Results {
    discover: Bytes,
    calls: [Bytes; 3],
    lists: [Bytes; 2],
}

impl Results {
    fn new() -> Self {
        let bytes = |value: Value| Bytes::from(value.to_string());
        let text = |length: usize| "All is well. ".repeat(length / 13 + 1);
        let call = |length: usize| {
            bytes(
                json!({ "resultType": "complete", "content": [{ "type": "text", "text": text(length) }], "isError": false }),
            )
        };
        let list = |tools: usize| {
            let tools: Vec<Value> = (0..tools).map(definition).collect();
            bytes(
                json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" }),
            )
        };
        let discover = json!({
            "resultType": "complete",
            "supportedVersions": [REVISION],
            "capabilities": { "tools": {} },
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "load", "version": "1" } },
        });
        Self {
            discover: bytes(discover),
            calls: [call(26), call(64 << 10), call(1 << 20)],
            lists: [list(100), list(1000)],
        }
    }

    fn find(&self, asked: &Asked) -> Option<Bytes> {
        match asked.method.as_str() {
            "server/discover" => Some(self.discover.clone()),
            "tools/list" => Some(self.lists[usize::from(asked.is_long)].clone()),
            "tools/call" => match asked.tool.as_str() {
                "tool_0000" | "tool_0003" => Some(self.calls[0].clone()),
                "tool_0001" => Some(self.calls[1].clone()),
                "tool_0002" => Some(self.calls[2].clone()),
                _ => None,
            },
            "initialize" => Some(initialized(&asked.revision)),
            "ping" => Some(Bytes::from_static(b"{}")),
            _ => None,
        }
    }

    /// The answer to a request; whether it is a result.
    fn answer(&self, asked: &Asked) -> (Bytes, bool) {
        let result = self.find(asked);
        let mut answer = BytesMut::with_capacity(64 + result.as_ref().map_or(0, Bytes::len));
        answer.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        answer.extend_from_slice(asked.id.as_bytes());
        answer.extend_from_slice(if result.is_some() {
            b",\"result\":"
        } else {
            b",\"error\":"
        });
        answer.extend_from_slice(
            result
                .as_deref()
                .unwrap_or(b"{\"code\":-32601,\"message\":\"unknown\"}"),
        );
        answer.extend_from_slice(b"}");
        (answer.freeze(), result.is_some())
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        let mut response = Response::new(Full::default());
        if head.method != Method::POST {
            // It has no stream of its own, and no session to end.
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            return response;
        }
        let asked = Asked::read(&head, &body);
        if asked.id.is_empty() {
            *response.status_mut() = StatusCode::ACCEPTED;
            return response;
        }
        let (answer, is_result) = self.answer(&asked);
        *response.body_mut() = Full::new(answer);
        if !is_result && is_modern(&head) {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// Whether the request is of 2026-07-28, in which a status says what an error is; before, some agents take such a status
/// for the end of the connection.
fn is_modern(head: &Parts) -> bool {
    let version = head.headers.get("mcp-protocol-version");
    version.is_some_and(|version| version == REVISION)
}

/// What opens a session. None is kept: every request is answered alike.
fn initialized(revision: &str) -> Bytes {
    let result = json!({
        "protocolVersion": revision,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "load", "version": "1" },
    });
    Bytes::from(result.to_string())
}

/// What is asked. Where the head says it, as in 2026-07-28, the body is not read.
#[derive(Default)]
struct Asked {
    method: String,
    tool: String,
    revision: String,
    /// As it is written; empty for a notification.
    id: String,
    is_long: bool,
}

impl Asked {
    fn read(head: &Parts, body: &[u8]) -> Self {
        let header = |name| {
            let value: Option<&HeaderValue> = head.headers.get(name);
            value
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        let is_long = head.uri.path() == "/mcp/s1000";
        let (method, id) = (header("mcp-method"), id(body));
        // Some clients name `initialize` in a header, too; which revision they ask for stands in the body alone.
        let is_in_body = method.is_empty() || method == "initialize";
        let asked = if is_in_body || id.is_empty() {
            Self::of(body)
        } else {
            Self {
                method,
                tool: header("mcp-name"),
                id: id.to_owned(),
                ..Self::default()
            }
        };
        Self { is_long, ..asked }
    }

    /// From the body alone.
    fn of(body: &[u8]) -> Self {
        let text = std::str::from_utf8(body).unwrap_or_default();
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        let word = |place: &str| {
            let value = message.pointer(place).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        Self {
            method: word("/method"),
            tool: word("/params/name"),
            revision: word("/params/protocolVersion"),
            id: message.get("id").map(Value::to_string).unwrap_or_default(),
            is_long: false,
        }
    }
}

/// The id where it is a whole number; empty where it is none, or there is none.
fn id(body: &[u8]) -> &str {
    let Some(start) = body.windows(5).position(|window| window == b"\"id\":") else {
        return "";
    };
    let rest = &body[start + 5..];
    let end = rest
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len());
    std::str::from_utf8(&rest[..end]).unwrap_or_default()
}

/// The same as a child process: a message a line, until there are no more.
///
/// # Errors
///
/// Nobody reads what it says.
pub(crate) fn serve_lines() -> anyhow::Result<()> {
    let results = Results::new();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let asked = Asked::of(line?.as_bytes());
        if !asked.id.is_empty() {
            out.write_all(&results.answer(&asked).0)?;
            out.write_all(b"\n")?;
            out.flush()?;
        }
    }
    Ok(())
}

/// Says on stdout where it serves, and serves until it is ended.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let results = Rc::new(Results::new());
    let serve = async {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                continue;
            };
            let _ = stream.set_nodelay(true);
            let results = results.clone();
            tokio::task::spawn_local(async move {
                let answer = service_fn(move |request| {
                    let results = results.clone();
                    async move { Ok::<_, Infallible>(results.respond(request).await) }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    };
    LocalSet::new().run_until(serve).await
}

#[cfg(test)]
mod tests {
    use super::{Asked, Results, id};
    use serde_json::{Value, json};

    fn answered(message: &Value) -> (Value, bool) {
        let asked = Asked::of(message.to_string().as_bytes());
        let (answer, is_result) = Results::new().answer(&asked);
        let text = std::str::from_utf8(&answer).unwrap();
        (serde_json::from_str(text).unwrap(), is_result)
    }

    #[test]
    fn a_legacy_agent_is_answered_by_what_its_body_says() {
        let params = json!({ "protocolVersion": "2025-06-18" });
        let (said, is_result) = answered(
            &json!({ "jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params }),
        );
        assert!(is_result);
        assert_eq!(
            (&said["id"], &said["result"]["protocolVersion"]),
            (&json!("a"), &json!("2025-06-18"))
        );
        let call = json!({ "id": 7, "method": "tools/call", "params": { "name": "tool_0000" } });
        let (said, is_result) = answered(&call);
        assert!(is_result && said["result"]["isError"] == false, "{said}");
        let (said, is_result) = answered(&json!({ "id": 8, "method": "prompts/list" }));
        assert!(!is_result && said["error"]["code"] == -32601, "{said}");
    }

    /// As the client of tower mcp-proxy writes it.
    #[test]
    fn a_legacy_agent_may_name_initialize_in_a_header() {
        let request = hyper::Request::builder().header("mcp-method", "initialize");
        let (head, ()) = request.body(()).unwrap().into_parts();
        let params = json!({ "protocolVersion": "2025-11-25" });
        let body = json!({ "id": 1, "method": "initialize", "params": params }).to_string();
        let asked = Asked::read(&head, body.as_bytes());
        assert_eq!(asked.revision, "2025-11-25");
    }

    #[test]
    fn ids_are_found_where_they_are_numbers() {
        for (body, expected) in [
            (r#"{"method":"a","id":17}"#, "17"),
            (r#"{"id":"x"}"#, ""),
            (r#"{"method":"notifications/initialized"}"#, ""),
        ] {
            assert_eq!(id(body.as_bytes()), expected, "{body}");
        }
    }
}
