//! The dashboard and the alert rules that are shipped, on a real Prometheus that scrapes a real toolgate.

use crate::harness::gate::Gate;
use crate::harness::left_out::left_out;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::{answer, until, until_or};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::process::{Child, Command};

const POLICY: &str = "
contracts:
  bank__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  bank__pay: { purpose: a test, actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { tool: bank__undo } }, idempotency: { derive: arguments } }
  bank__lose: { purpose: a test, actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { tool: bank__undo } }, idempotency: { derive: arguments } }
  bank__send: { purpose: a test, actions: [notify], permission: anyone, irreversible: true, secrets: [], approval: { hold: 0s } }
  bank__read: { purpose: a test, actions: [read], secrets: [] }
budgets: { global: { max_steps: 100000, max_cost: 100000 } }
repetition: { unwatched: true }
";

const OPERATORS: &str =
    "tokens: [ { name: ann, token: token-of-the-operator-ann, roles: [approver] } ]";

/// Panels that show something of what [`calls`] does; what others show takes a fault, a hook or a day.
const ALIVE: &[&str] = &[
    "Calls by how they ended",
    "Refusals by code",
    "Time of a call",
    "What toolgate adds, mean of a call",
    "What toolgate adds, by stage",
    "Oldest unknown",
    "Held",
    "No answer, last hour",
    "Executed, replayed, kept from running twice",
    "Waiting",
    "Oldest wait",
    "Waiting over time",
    "What tasks had left",
    "What tasks had used",
    "Up",
    "Time of a tool server",
    "Calls by tool server",
    "Breakers and incidents",
    "Failures of tool servers",
    "Withheld from everybody",
    "Disabled",
    "Asked for and not to be had",
    "Disk of the data directory",
    "Time of a sync",
    "Not yet durable",
    "Stale",
    "In force for",
    "Reloads",
    "Version",
    "Up for",
    "Open files",
    "Computing",
    "Memory",
    "To collectors",
    "Log records lost",
];

/// A running Prometheus; dropping it kills it.
struct Prometheus {
    address: SocketAddr,
    log: PathBuf,
    _process: Child,
    _directory: TempDir,
}

/// The program, or none, which is said.
async fn program() -> Option<PathBuf> {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".tools/bin/prometheus");
    let program = if own.exists() {
        own
    } else {
        "prometheus".into()
    };
    let version = Command::new(&program).arg("--version").output().await;
    if version.is_err() {
        left_out("prometheus", "tests/tools/setup installs it");
        return None;
    }
    Some(program)
}

impl Prometheus {
    /// It scrapes `gate`, and judges the rules that are shipped.
    async fn start(program: PathBuf, gate: &Gate) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rules =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/prometheus/alerts.yaml");
        let settings = json!({
            "global": { "scrape_interval": "200ms", "evaluation_interval": "200ms" },
            "rule_files": [rules],
            "scrape_configs": [
                { "job_name": "toolgate", "static_configs": [ { "targets": [gate.operators.to_string()] } ] },
            ],
        });
        // What is JSON is YAML.
        let file = directory.path().join("prometheus.yml");
        std::fs::write(&file, settings.to_string()).unwrap();
        let log = directory.path().join("log");
        let process = Command::new(program)
            .arg("--config.file")
            .arg(&file)
            .arg("--storage.tsdb.path")
            .arg(directory.path().join("tsdb"))
            .args(["--web.listen-address", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let words = || std::fs::read_to_string(&log).unwrap();
        let address = until_or(
            || format!("Prometheus listens; its log:\n{}", words()),
            || async {
                let log = words();
                let line = log.lines().find(|line| line.contains("\"Listening on\""))?;
                line.split_once("address=")?.1.trim().parse().ok()
            },
        )
        .await;
        // It listens before it has read what it keeps.
        until("Prometheus is ready", || async {
            let answer = answer::get(address, "/-/ready").await?;
            (answer.status == 200).then_some(())
        })
        .await;
        Self {
            address,
            log,
            _process: process,
            _directory: directory,
        }
    }

    /// What its API answers for a query, or what is wrong with it.
    async fn ask(&self, path: &str, query: &str) -> Result<Value, String> {
        let coded: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let answer = answer::get(self.address, &format!("{path}{coded}")).await;
        let message = answer.map(|answer| answer.message()).unwrap_or_default();
        if message["status"] == "success" {
            Ok(message["data"].clone())
        } else {
            Err(format!("{query}: {message}"))
        }
    }

    /// The series that a query gives now.
    async fn series(&self, query: &str) -> Vec<Value> {
        let found = self.ask("/api/v1/query?query=", query).await;
        let found = found.unwrap_or_else(|wrong| panic!("{wrong}"));
        found["result"].as_array().unwrap().clone()
    }
}

/// The queries of the dashboard by the title of their panel, with its variables filled in.
fn queries() -> BTreeMap<String, Vec<String>> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/grafana/toolgate.json");
    let board: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut queries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for panel in board["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().into_iter().flatten();
        let filled = targets.map(|target| {
            let query = target["expr"].as_str().unwrap();
            query
                .replace("$__rate_interval", "10s")
                .replace("$instance", ".+")
        });
        let title = panel["title"].as_str().unwrap().to_owned();
        queries.entry(title).or_default().extend(filled);
    }
    queries
}

async fn stage() -> (ToolServer, Gate) {
    let server = Script::new()
        .tool("read", Behaviour::Answers)
        .tool("pay", Behaviour::Answers)
        .tool("send", Behaviour::Answers)
        .tool("undo", Behaviour::Answers)
        .tool("lose", Behaviour::HangsUp)
        .start()
        .await;
    let setup = Setup::new().server("bank", &server).policy(POLICY);
    (server, setup.operators(OPERATORS).start().await)
}

/// Calls of each kind, a few times each: read, executed, replayed, lost, held, and of a tool that is not there.
async fn calls(gate: &Gate, number: u64) {
    let agent = gate.agent();
    agent
        .modern_call("bank__read", json!({ "n": number }))
        .await;
    if number > 5 {
        return;
    }
    for (tool, arguments) in [
        ("pay", json!({ "n": number })),
        ("pay", json!({ "n": number })),
        ("lose", json!({ "n": number })),
        ("send", json!({ "n": 0 })),
        ("none", json!({})),
    ] {
        agent.modern_call(&format!("bank__{tool}"), arguments).await;
    }
}

/// Issue 20, seeing it: Prometheus takes each query of the dashboard, and those show something of which
/// something happens; it scrapes without an error, and the alerts that should fire do.
#[tokio::test]
async fn every_panel_can_be_asked_of_a_prometheus_that_scrapes_a_toolgate() {
    let Some(program) = program().await else {
        return;
    };
    let (_server, gate) = stage().await;
    let prometheus = Prometheus::start(program, &gate).await;
    let queries = queries();
    let alive: Vec<&String> = ALIVE.iter().flat_map(|title| &queries[*title]).collect();
    assert!(alive.len() > 40 && queries.values().flatten().count() > alive.len());
    let number = std::cell::Cell::new(0);
    until("each of those panels shows something", || async {
        number.set(number.get() + 1);
        calls(&gate, number.get()).await;
        for query in &alive {
            if prometheus.series(query).await.is_empty() {
                return None;
            }
        }
        Some(())
    })
    .await;
    for query in queries.values().flatten() {
        prometheus.series(query).await;
    }
    let kinds = prometheus
        .series("count by (outcome) (toolgate_calls_total)")
        .await;
    assert_eq!(kinds.len(), 3, "answered, refused, unknown: {kinds:?}");
    let rules = prometheus
        .ask("/api/v1/rules?type=", "alert")
        .await
        .unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    assert!(
        rules.len() > 20 && rules.iter().all(|rule| rule["health"] != "err"),
        "{rules:?}"
    );
    let scraped = prometheus
        .ask("/api/v1/targets?state=", "active")
        .await
        .unwrap();
    let target = &scraped["activeTargets"][0];
    assert_eq!(
        (&target["health"], &target["lastError"]),
        (&json!("up"), &json!(""))
    );
    let log = std::fs::read_to_string(&prometheus.log).unwrap();
    assert!(!log.contains("level=error"), "{log}");
}

/// A query that names what is not there shows nothing: what [`ALIVE`] is judged by can fail, and a query that
/// Prometheus cannot read is an error.
#[tokio::test]
async fn a_wrong_query_is_found_out() {
    let Some(program) = program().await else {
        return;
    };
    let (_server, gate) = stage().await;
    let prometheus = Prometheus::start(program, &gate).await;
    until("a scrape", || async {
        let up = prometheus.series("toolgate_build_info").await;
        (!up.is_empty()).then_some(())
    })
    .await;
    assert!(
        prometheus
            .series("toolgate_no_such_metric")
            .await
            .is_empty()
    );
    let wrong = prometheus.ask("/api/v1/query?query=", "sum by (").await;
    assert!(wrong.unwrap_err().contains("parse error"));
}
