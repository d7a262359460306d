//! The oracle over HTTP: raw JSON, both eras, any tools. Each execution is on the disk before
//! anything is answered.

#[path = "../../../examples/servers/src/oracle/script.rs"]
pub mod script;

mod behaviour;
mod wire;

pub use behaviour::Behaviour;

use script::{Eras, Log};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// The tools of an oracle in the making.
pub struct Script {
    tools: Vec<Value>,
    behaviours: Vec<(String, Behaviour)>,
    eras: Eras,
}

impl Script {
    /// No tools, both eras.
    pub fn new() -> Self {
        Self {
            tools: Vec::new(),
            behaviours: Vec::new(),
            eras: Eras::Both,
        }
    }

    /// A tool that takes any object.
    pub fn tool(self, name: &str, behaviour: Behaviour) -> Self {
        self.tool_with(name, &json!({ "type": "object" }), behaviour)
    }

    /// A tool with its `inputSchema`.
    pub fn tool_with(self, name: &str, schema: &Value, behaviour: Behaviour) -> Self {
        self.definition(json!({ "name": name, "inputSchema": schema }), behaviour)
    }

    /// A tool with its whole definition.
    pub fn definition(mut self, definition: Value, behaviour: Behaviour) -> Self {
        self.behaviours.push((
            definition["name"].as_str().unwrap_or_default().to_owned(),
            behaviour,
        ));
        self.tools.push(definition);
        self
    }

    /// One era only.
    pub fn eras(mut self, eras: Eras) -> Self {
        self.eras = eras;
        self
    }

    /// Serves it on a port of the system's choice.
    pub async fn start(self) -> ToolServer {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::open(&directory.path().join("executions")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: self,
            log,
            held: Semaphore::new(0),
            holding: Mutex::default(),
            requests: Mutex::default(),
        });
        let serving = tokio::spawn(wire::serve(listener, shared.clone()));
        ToolServer {
            address,
            directory,
            shared,
            serving,
        }
    }
}

/// What all connections share.
struct Shared {
    script: Script,
    log: Log,
    /// One permit lets one held answer go.
    held: Semaphore,
    /// How many calls are held now, and how many were at most.
    holding: Mutex<(usize, usize)>,
    /// The JSON-RPC or else the HTTP method of every request.
    requests: Mutex<Vec<String>>,
}

impl Shared {
    /// Holds a call until the scenario releases it.
    async fn hold(&self) -> Option<()> {
        {
            let mut holding = self.holding.lock().unwrap();
            holding.0 += 1;
            holding.1 = holding.1.max(holding.0);
        }
        let released = self.held.acquire().await;
        // Before anything is answered: what the answer lets go does not run beside this one.
        self.holding.lock().unwrap().0 -= 1;
        released.ok().map(tokio::sync::SemaphorePermit::forget)
    }
}

/// A running oracle; dropping it ends it.
pub struct ToolServer {
    address: SocketAddr,
    directory: TempDir,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

/// One execution, as it is in the file.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The tool, by the server's own name.
    pub tool: String,
    /// The arguments as they were parsed.
    pub arguments: Value,
    /// What toolgate says of its session and its turn; null without it.
    pub fence: Value,
    /// The request's headers, names in lower case.
    pub headers: Value,
    /// The request's body, byte for byte.
    pub body: String,
}

impl ToolServer {
    /// The MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The file of executions.
    pub fn log(&self) -> PathBuf {
        self.directory.path().join("executions")
    }

    /// What was executed so far.
    pub fn executions(&self) -> Vec<Execution> {
        executions(&self.log())
    }

    /// The method of every request that came: JSON-RPC's, or else HTTP's.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Lets one call of a tool that is [`Behaviour::Held`] be answered.
    pub fn release(&self) {
        self.shared.held.add_permits(1);
    }

    /// Takes back what let a call go that never came.
    pub async fn take_back(&self) {
        self.shared.held.acquire().await.unwrap().forget();
    }

    /// How many calls of such tools ran side by side at most.
    pub fn most_held(&self) -> usize {
        self.shared.holding.lock().unwrap().1
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Execution {
    /// SHA-256 over the RFC 8785 form of the arguments, in hex: the `params_hash` of the ledger.
    pub fn digest(&self) -> String {
        script::digest(&self.arguments)
    }
}

/// What an oracle noted in `file`.
pub fn executions(file: &Path) -> Vec<Execution> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| Execution {
            tool: line["tool"].as_str().unwrap().to_owned(),
            arguments: line["arguments"].clone(),
            fence: line["fence"].clone(),
            headers: line["headers"].clone(),
            body: line["body"].as_str().unwrap().to_owned(),
        })
        .collect()
}
