//! What stands for every tool server of the configuration: a server in the process, on loopback, that has the same
//! tools. It does nothing but to count what reaches it, and says so in each answer.

use crate::mcp::error_codes::METHOD_NOT_FOUND;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::own::FENCE_META_KEY;
use crate::mcp::revision::Revision;
use crate::model::ids::{ServerName, ToolName};
use crate::telemetry::tasks;
use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use url::Url;

/// For how long a listing counts: longer than verifying takes.
const LISTING_MILLIS: u64 = 3_600_000;

/// A tool as it stands for the server's own.
#[derive(Debug, Clone)]
pub(super) struct EchoTool {
    pub(super) definition: Value,
    /// What stands in its results, where its definition says what has to.
    pub(super) structured: Option<Value>,
}

/// The tools by the names of their servers, and by their own.
pub(super) type EchoTools = BTreeMap<ServerName, BTreeMap<String, EchoTool>>;

/// One call that has reached it.
#[derive(Debug, Clone)]
pub(super) struct EchoExecution {
    pub(super) tool: ToolName,
    pub(super) arguments: Value,
    /// The fencing token, if one came along.
    pub(super) token: Option<u64>,
    /// What is said of it in the answer, and of no other.
    pub(super) said: String,
}

/// The running server; its clones are the same one.
#[derive(Clone)]
pub(super) struct EchoServer {
    address: SocketAddr,
    shared: Arc<EchoShared>,
}

struct EchoShared {
    tools: EchoTools,
    executions: Mutex<Vec<EchoExecution>>,
    /// How many calls have come.
    came: watch::Sender<usize>,
    /// Whether answers to calls are kept back.
    keeps_answers: watch::Sender<bool>,
}

impl EchoServer {
    /// Serves these tools at a port of the system's choice.
    pub(super) async fn start(tools: EchoTools) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("what stands for the tool servers finds no port on 127.0.0.1")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(EchoShared {
            tools,
            executions: Mutex::default(),
            came: watch::Sender::new(0),
            keeps_answers: watch::Sender::new(false),
        });
        let router = Router::new().fallback(answer).with_state(shared.clone());
        tasks::spawn("echo server", async move {
            // It serves as long as the process runs.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, shared })
    }

    /// Where it stands for the server `name`.
    pub(super) fn url(&self, name: &ServerName) -> anyhow::Result<Url> {
        let url = format!("http://{}/{name}", self.address);
        url.parse()
            .with_context(|| format!("{url} is no address of a tool server"))
    }

    /// The calls of `tool` that have come, in their order.
    pub(super) fn executions(&self, tool: &ToolName) -> Vec<EchoExecution> {
        let all = self.shared.executions.lock();
        all.iter()
            .filter(|one| one.tool == *tool)
            .cloned()
            .collect()
    }

    /// How many calls of any tool have come.
    pub(super) fn count(&self) -> usize {
        self.shared.executions.lock().len()
    }

    /// Changes with each call that comes from now on.
    pub(super) fn comes(&self) -> watch::Receiver<usize> {
        self.shared.came.subscribe()
    }

    /// From now on what is called is counted, and not answered.
    pub(super) fn keep_answers(&self) {
        self.shared.keeps_answers.send_replace(true);
    }

    /// What was kept back is answered, to those who still wait for it.
    pub(super) fn give_answers(&self) {
        self.shared.keeps_answers.send_replace(false);
    }
}

impl EchoShared {
    /// Counts a call of the tool `own` of `server`; its result, or none if there is no such tool.
    fn run(&self, server: &ServerName, own: &str, params: &Value) -> Option<Value> {
        let tool = self.tools.get(server)?.get(own)?;
        let mut all = self.executions.lock();
        let number = all.len() + 1;
        let said = format!("counted as call {number} of toolgate verify");
        all.push(EchoExecution {
            tool: ToolName::of(server, own),
            arguments: params["arguments"].clone(),
            token: params["_meta"][FENCE_META_KEY]["token"].as_u64(),
            said: said.clone(),
        });
        // Who waits for it finds the call in the list.
        self.came.send_replace(number);
        let mut result = json!({
            "resultType": "complete", "content": [{ "type": "text", "text": said }], "isError": false,
        });
        if let Some(structured) = &tool.structured {
            result["structuredContent"] = structured.clone();
        }
        Some(result)
    }

    fn listing(&self, server: &ServerName) -> Value {
        let tools = self
            .tools
            .get(server)
            .into_iter()
            .flat_map(BTreeMap::values);
        let tools: Vec<&Value> = tools.map(|tool| &tool.definition).collect();
        json!({ "resultType": "complete", "tools": tools, "ttlMs": LISTING_MILLIS, "cacheScope": "public" })
    }
}

async fn answer(State(shared): State<Arc<EchoShared>>, uri: Uri, body: Bytes) -> Response {
    let Ok(text) = Text::read(body, &SERVER_JSON_LIMITS) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let server = ServerName::new(uri.path().trim_matches('/'));
    let message = text.value();
    let Some(id) = message.get("id") else {
        return StatusCode::ACCEPTED.into_response();
    };
    let said = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => Some(json!({
            "resultType": "complete", "supportedVersions": [Revision::NEWEST_MODERN.as_str()],
            "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private",
        })),
        "tools/list" => Some(shared.listing(&server)),
        "tools/call" => {
            let own = message["params"]["name"].as_str().unwrap_or_default();
            let ran = shared.run(&server, own, &message["params"]);
            // Told to keep its answers, it is as one whose answers are lost on the way.
            let mut keeps = shared.keeps_answers.subscribe();
            let _ = keeps.wait_for(|keeps| !keeps).await;
            ran
        }
        _ => None,
    };
    let message = if let Some(result) = said {
        json!({ "jsonrpc": "2.0", "id": id, "result": result })
    } else {
        let error =
            json!({ "code": METHOD_NOT_FOUND, "message": "there is no such method or tool" });
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    };
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, message.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the verdicts stand on: each call counts once, for its own tool of its own server, with what came of it; what
    /// is not there counts for nothing.
    #[tokio::test]
    async fn each_call_is_counted_for_its_own_tool() {
        let tool = EchoTool {
            definition: json!({ "name": "pay" }),
            structured: Some(json!({ "id": 1 })),
        };
        let of = |tool: &EchoTool| BTreeMap::from([("pay".to_owned(), tool.clone())]);
        let (shop, bank) = (ServerName::new("shop"), ServerName::new("bank"));
        let tools = BTreeMap::from([(shop.clone(), of(&tool)), (bank.clone(), of(&tool))]);
        let echo = EchoServer::start(tools).await.unwrap();
        let fenced =
            json!({ "arguments": { "a": 1 }, "_meta": { FENCE_META_KEY: { "token": 7 } } });
        let result = echo.shared.run(&shop, "pay", &fenced).unwrap();
        assert!(echo.shared.run(&bank, "pay", &json!({})).is_some());
        assert!(echo.shared.run(&shop, "pay_all", &json!({})).is_none());
        let shops = echo.executions(&ToolName::of(&shop, "pay"));
        assert_eq!(shops.len(), 1);
        assert_eq!(
            (shops[0].token, &shops[0].arguments),
            (Some(7), &json!({ "a": 1 }))
        );
        assert_eq!(result["content"][0]["text"], shops[0].said);
        assert_eq!(result["structuredContent"], json!({ "id": 1 }));
        assert_eq!(echo.executions(&ToolName::of(&bank, "pay"))[0].token, None);
        assert_eq!((echo.count(), *echo.comes().borrow()), (2, 2));
    }
}
