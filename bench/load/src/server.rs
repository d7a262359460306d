//! The tool server: does nothing, and answers at once from memory.

use crate::scenes::{REVISION, definition};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
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

    fn find(&self, request: &Request<Incoming>) -> Option<&Bytes> {
        let header = |name| {
            request
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        match header("mcp-method") {
            "server/discover" => Some(&self.discover),
            "tools/list" => Some(&self.lists[usize::from(request.uri().path() == "/mcp/s1000")]),
            "tools/call" => match header("mcp-name") {
                "tool_0000" | "tool_0003" => Some(&self.calls[0]),
                "tool_0001" => Some(&self.calls[1]),
                "tool_0002" => Some(&self.calls[2]),
                _ => None,
            },
            _ => None,
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let result = self.find(&request).cloned();
        let body = request
            .into_body()
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        let id = id(&body);
        let mut answer = BytesMut::with_capacity(64 + result.as_ref().map_or(0, Bytes::len));
        answer.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        answer.extend_from_slice(id);
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
        let mut response = Response::new(Full::new(answer.freeze()));
        *response.status_mut() = if result.is_some() {
            StatusCode::OK
        } else {
            StatusCode::NOT_FOUND
        };
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// All who call here write the id first, and as a whole number.
fn id(body: &[u8]) -> &[u8] {
    let Some(start) = body.windows(5).position(|window| window == b"\"id\":") else {
        return b"null";
    };
    let rest = &body[start + 5..];
    let end = rest
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len());
    &rest[..end]
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
                    async move { Ok::<_, Infallible>(results.answer(request).await) }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    };
    LocalSet::new().run_until(serve).await
}
