//! The demo's agent: one that speaks the newest revision, numbers its requests, and knows nothing of what stands
//! between it and the tool server.

use super::exchange::exchange;
use crate::mcp::answer::DECISION_META_KEY;
use crate::mcp::bridge::{CAPABILITIES_META_KEY, CLIENT_META_KEY};
use crate::mcp::json::Text;
use crate::mcp::revision::Revision;
use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::Full;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long an answer may take: longer than toolgate holds a call for a person (45 s).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// Where a message says its revision.
const REVISION_META_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// Where an agent names its task to toolgate.
const TASK_META_KEY: &str = "dev.toolgate/task";

/// An agent at an address.
pub(super) struct DemoAgent {
    pub(super) address: SocketAddr,
    /// `/mcp`, or what toolgate has of one server.
    pub(super) path: &'static str,
    pub(super) token: Option<String>,
    /// The id of its last request.
    pub(super) last_id: AtomicU64,
}

/// What it calls, and calls again.
#[derive(Debug, Clone)]
pub(super) struct DemoCall {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
    pub(super) task: Option<&'static str>,
}

/// What the agent reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadAnswer {
    /// In a word: `answered`, `replayed`, or the code of a refusal.
    pub(super) word: String,
    /// What it says to the agent's model.
    pub(super) text: String,
    /// The id of what was made.
    pub(super) id: Option<String>,
    /// After which time the same call may be sent again, where it is to be.
    pub(super) again_after: Option<Duration>,
}

impl DemoAgent {
    /// An agent at `address` that has made no request.
    pub(super) fn new(address: SocketAddr, path: &'static str, token: Option<String>) -> Self {
        Self {
            address,
            path,
            token,
            last_id: AtomicU64::new(0),
        }
    }

    /// Calls, under a new JSON-RPC id, and waits for the answer.
    ///
    /// # Errors
    /// No whole answer comes.
    pub(super) async fn call(&self, call: &DemoCall) -> anyhow::Result<ReadAnswer> {
        let asked = Box::pin(exchange(self.address, self.request(call)?));
        let answered = tokio::time::timeout(ANSWER_TIMEOUT, asked).await;
        let reply = answered.context("no answer in time")??;
        read(&reply.text)
            .with_context(|| format!("what answers the call of {} ({})", call.tool, reply.status))
    }

    fn request(&self, call: &DemoCall) -> anyhow::Result<Request<Full<Bytes>>> {
        let revision = Revision::NEWEST_MODERN.as_str();
        let mut meta = json!({
            REVISION_META_KEY: revision,
            CLIENT_META_KEY: { "name": "toolgate demo", "version": env!("CARGO_PKG_VERSION") },
            CAPABILITIES_META_KEY: {},
        });
        if let Some(task) = call.task {
            meta[TASK_META_KEY] = json!(task);
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let message = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": call.tool, "arguments": call.arguments, "_meta": meta },
        });
        let mut request = Request::post(self.path)
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header("MCP-Protocol-Version", revision)
            .header("Mcp-Method", "tools/call")
            .header("Mcp-Name", call.tool);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        Ok(request.body(Full::new(Bytes::from(message.to_string())))?)
    }
}

fn read(message: &Text) -> anyhow::Result<ReadAnswer> {
    let word = |text: Option<Text>| text.and_then(|text| Some(text.as_str()?.into_owned()));
    if let Some(error) = message.get("error") {
        let said = word(error.get("message")).unwrap_or_default();
        bail!("is an error: {said}");
    }
    let result = message.get("result").context("has no result")?;
    let decision = result.at(&["_meta", DECISION_META_KEY]);
    let decided = |key: &str| decision.as_ref().and_then(|decision| decision.get(key));
    let is_replayed = decided("replayed").is_some_and(|replayed| replayed.is_true());
    let failed = result.get("isError").is_some_and(|failed| failed.is_true());
    let said = match (word(decided("code")), is_replayed, failed) {
        (Some(code), _, _) => code,
        (None, true, _) => "replayed".to_owned(),
        (None, false, false) => "answered".to_owned(),
        (None, false, true) => "failed".to_owned(),
    };
    let content = result.get("content").and_then(|content| content.elements());
    let first = content.and_then(|content| content.into_iter().next());
    let again = decided("retry_after").and_then(|after| after.parse::<u32>().ok());
    Ok(ReadAnswer {
        word: said,
        text: word(first.and_then(|first| first.get("text"))).unwrap_or_default(),
        id: word(result.at(&["structuredContent", "id"])),
        again_after: again.map(|seconds| Duration::from_secs(seconds.into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdicts stand on this word: a refusal must not be read as an answer, nor a first answer as one that is
    /// given again.
    #[test]
    fn an_answer_is_read_as_what_it_says() {
        let decision = |more: Value| json!({ "dev.toolgate/decision": more });
        for (result, expected) in [
            (json!({ "content": [] }), "answered"),
            (json!({ "content": [], "isError": true }), "failed"),
            (
                json!({ "_meta": decision(json!({ "replayed": true })) }),
                "replayed",
            ),
            (
                json!({ "_meta": decision(json!({ "replayed": false })) }),
                "answered",
            ),
            (
                json!({ "_meta": decision(json!({ "replayed": true, "code": "fenced" })) }),
                "fenced",
            ),
        ] {
            let message = Text::of(&json!({ "jsonrpc": "2.0", "id": 1, "result": result }));
            assert_eq!(read(&message).unwrap().word, expected, "{result}");
        }
        let made = json!({
            "content": [{ "type": "text", "text": "done" }], "structuredContent": { "id": "inv_0001" },
            "_meta": decision(json!({ "code": "approval_pending", "retry_after": 5 })),
        });
        let read_whole = read(&Text::of(&json!({ "result": made }))).unwrap();
        assert_eq!(read_whole.text, "done");
        assert_eq!(read_whole.id.as_deref(), Some("inv_0001"));
        assert_eq!(read_whole.again_after, Some(Duration::from_secs(5)));
        for wrong in [
            json!({ "error": { "code": -1, "message": "x" } }),
            json!({}),
        ] {
            assert!(read(&Text::of(&wrong)).is_err(), "{wrong}");
        }
    }
}
