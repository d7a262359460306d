//! The demo's tool server: a small shop on loopback that keeps no promise at all. What it is asked to do it
//! does, once for each time it is asked, and counts that in a file, synced before it answers.

use crate::cli::files;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::mcp::revision::Revision;
use crate::owners::private::fresh;
use crate::telemetry::tasks;
use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Bytes of a file of counts.
const COUNTS_BYTES_MAX: u64 = 1 << 20;
/// For how long a listing counts: longer than any demo.
const LISTING_MILLIS: u64 = 3_600_000;
/// JSON-RPC: no such method.
const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC: what was asked for failed.
const INTERNAL_ERROR: i32 = -32603;

/// A tool of the shop.
struct DemoTool {
    name: &'static str,
    description: &'static str,
    /// What the ids of what it makes begin with.
    prefix: &'static str,
    /// Its arguments beside the tenant, and their types.
    arguments: &'static [(&'static str, &'static str)],
}

/// What the shop can do.
const DEMO_TOOLS: [DemoTool; 5] = [
    DemoTool {
        name: "create_invoice",
        description: "Creates an invoice.",
        prefix: "inv",
        arguments: &[("customer", "string"), ("cents", "integer")],
    },
    DemoTool {
        name: "refund",
        description: "Pays money back.",
        prefix: "ref",
        arguments: &[("invoice", "string"), ("cents", "integer")],
    },
    DemoTool {
        name: "send_reminder",
        description: "Writes to a customer.",
        prefix: "mail",
        arguments: &[("customer", "string"), ("attempt", "integer")],
    },
    DemoTool {
        name: "list_customers",
        description: "Lists customers.",
        prefix: "list",
        arguments: &[],
    },
    DemoTool {
        name: "delete_customer",
        description: "Deletes a customer.",
        prefix: "del",
        arguments: &[("customer", "string")],
    },
];

/// A running tool server; its clones are the same one.
#[derive(Clone)]
pub(super) struct DemoServer {
    /// Where it is reached.
    pub address: SocketAddr,
    shop: Arc<Shop>,
}

/// What the tool server keeps.
struct Shop {
    counts: PathBuf,
    written: Mutex<File>,
    /// How often anything ran.
    ran: watch::Sender<u64>,
    /// Whether answers to calls are kept back.
    keeps_answers: watch::Sender<bool>,
}

impl DemoServer {
    /// Serves at a port of the system's choice, and counts in the file `counts`, which is made.
    pub(super) async fn start(counts: &Path) -> anyhow::Result<Self> {
        let written =
            fresh(counts).with_context(|| format!("{} cannot be made", counts.display()))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("the demo's tool server finds no port on 127.0.0.1")?;
        let address = listener.local_addr()?;
        let shop = Arc::new(Shop {
            counts: counts.to_owned(),
            written: Mutex::new(written),
            ran: watch::Sender::new(0),
            keeps_answers: watch::Sender::new(false),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shop));
        tasks::spawn("demo_server", async move {
            // It serves until the demo ends.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, shop })
    }

    /// How often `tool` ran, as the file of counts has it.
    pub(super) fn executions(&self, tool: &str) -> anyhow::Result<usize> {
        Ok(made_by(&self.counts()?, tool).count())
    }

    /// The id of what `tool` made last, likewise.
    pub(super) fn made(&self, tool: &str) -> anyhow::Result<Option<String>> {
        Ok(made_by(&self.counts()?, tool).last().map(str::to_owned))
    }

    fn counts(&self) -> anyhow::Result<String> {
        let counts = &self.shop.counts;
        let bytes = files::read(counts, COUNTS_BYTES_MAX)
            .with_context(|| format!("{} cannot be read", counts.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// From now on what is called runs, and is not answered.
    pub(super) fn keep_answers(&self) {
        self.shop.keeps_answers.send_replace(true);
    }

    /// What was kept back is answered, to those who still wait for it.
    pub(super) fn give_answers(&self) {
        self.shop.keeps_answers.send_replace(false);
    }

    /// Changes with each call that runs from now on.
    pub(super) fn runs(&self) -> watch::Receiver<u64> {
        self.shop.ran.subscribe()
    }
}

/// The ids in the lines of `text` that are about `tool`.
fn made_by<'a>(text: &'a str, tool: &'a str) -> impl Iterator<Item = &'a str> {
    let runs = text.lines().filter_map(|line| line.split_once(' '));
    runs.filter(move |(counted, _)| *counted == tool)
        .map(|(_, id)| id)
}

impl Shop {
    /// Runs a tool, and counts it; none if there is no such tool.
    fn run(&self, tool: &str) -> io::Result<Option<Value>> {
        let known = DEMO_TOOLS.iter().find(|known| known.name == tool);
        let Some(DemoTool { name, prefix, .. }) = known else {
            return Ok(None);
        };
        let mut written = self.written.lock();
        let number = *self.ran.borrow() + 1;
        let id = format!("{prefix}_{number:04}");
        written.write_all(format!("{name} {id}\n").as_bytes())?;
        written.sync_data()?;
        self.ran.send_replace(number);
        Ok(Some(json!({ "id": id })))
    }
}

async fn answer(State(shop): State<Arc<Shop>>, body: Bytes) -> Response {
    let Ok(text) = Text::read(body, &SERVER_JSON_LIMITS) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let word = |keys: &[&str]| {
        text.at(keys)
            .and_then(|word| Some(word.as_str()?.into_owned()))
    };
    let Some(id) = text.get("id").map(|id| id.value()) else {
        return StatusCode::ACCEPTED.into_response();
    };
    let said = match word(&["method"]).unwrap_or_default().as_str() {
        "server/discover" => Ok(discovered()),
        "tools/list" => Ok(listing()),
        "tools/call" => {
            let tool = word(&["params", "name"]).unwrap_or_default();
            let ran = shop.run(&tool);
            // Told to keep its answers, it is as one whose answer is lost on the way.
            let mut keeps = shop.keeps_answers.subscribe();
            let _ = keeps.wait_for(|keeps| !keeps).await;
            match ran {
                Ok(Some(made)) => Ok(result(&made)),
                Ok(None) => Err((METHOD_NOT_FOUND, "no such tool".to_owned())),
                Err(error) => Err((INTERNAL_ERROR, error.to_string())),
            }
        }
        _ => Err((METHOD_NOT_FOUND, "no such method".to_owned())),
    };
    let message = match said {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err((code, message)) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    };
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, message.to_string()).into_response()
}

fn discovered() -> Value {
    let revision = Revision::NEWEST_MODERN.as_str();
    json!({
        "resultType": "complete", "supportedVersions": [revision], "capabilities": { "tools": {} }, "ttlMs": 0,
        "cacheScope": "private",
    })
}

fn listing() -> Value {
    let tools = DEMO_TOOLS.map(|tool| {
        let mut properties = json!({ "tenant": { "type": "string" } });
        let mut required = vec!["tenant"];
        for (argument, kind) in tool.arguments {
            properties[*argument] = json!({ "type": kind });
            required.push(*argument);
        }
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        json!({ "name": tool.name, "description": tool.description, "inputSchema": schema })
    });
    json!({ "resultType": "complete", "tools": tools, "ttlMs": LISTING_MILLIS, "cacheScope": "public" })
}

fn result(made: &Value) -> Value {
    let content = [json!({ "type": "text", "text": made.to_string() })];
    json!({
        "resultType": "complete", "content": content, "structuredContent": made, "isError": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the verdicts stand on: a name that only begins alike is not counted, nor is an unfinished line of another.
    #[test]
    fn runs_are_counted_by_the_whole_name_of_their_tool() {
        let text = "refund ref_0001\nrefund_all ref_0002\nrefund ref_0003\nref";
        for (tool, expected) in [
            ("refund", &["ref_0001", "ref_0003"][..]),
            ("refund_all", &["ref_0002"]),
            ("ref", &[]),
            ("send", &[]),
        ] {
            assert_eq!(made_by(text, tool).collect::<Vec<_>>(), expected, "{tool}");
        }
        assert_eq!(made_by("", "refund").count(), 0);
    }

    /// The file says what ran, in whatever order it is asked for.
    #[test]
    fn each_run_is_in_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let counts = temp.path().join("counts");
        let shop = Shop {
            counts: counts.clone(),
            written: Mutex::new(fresh(&counts).unwrap()),
            ran: watch::Sender::new(0),
            keeps_answers: watch::Sender::new(false),
        };
        assert_eq!(
            shop.run("refund").unwrap(),
            Some(json!({ "id": "ref_0001" }))
        );
        assert_eq!(
            shop.run("refund").unwrap(),
            Some(json!({ "id": "ref_0002" }))
        );
        assert_eq!(shop.run("steal").unwrap(), None);
        assert_eq!(*shop.ran.borrow(), 2);
        let text = std::fs::read_to_string(&shop.counts).unwrap();
        assert_eq!(text, "refund ref_0001\nrefund ref_0002\n");
    }
}
