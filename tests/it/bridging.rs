//! Agents and servers of different eras (protocol §4.3, §4.4): the table of the two, row by row, in
//! both directions, before a server that keeps everything that arrives.

use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::Setup;
use serde_json::{Value, json};

mod batches;
mod children;
mod crossings;
mod crowds;
mod guards;
mod histories;
mod holds;
mod kills;
mod legacy_agents;
mod modern_agents;
mod old_agents;
mod old_transport;
mod other_readers;
mod own_tools;
mod pages;
mod parked_tasks;
mod questions;
mod reissues;
mod replaced_sessions;
mod secrecy;
mod tasks;

/// A server of one era behind toolgate, which lets everything through that it is asked.
struct Bridge {
    server: ScriptedServer,
    gate: Gate,
}

impl Bridge {
    async fn to(modern: bool, mode: &'static str) -> Self {
        let mut read = tool("read");
        read["execution"] = json!({ "taskSupport": "optional" });
        if modern {
            read["inputSchema"] = json!({
                "type": "object",
                "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
            });
        }
        let server = ScriptedServer::start(Offers {
            modern,
            legacy: !modern,
            tools: vec![read, tool("write")],
            ..Offers::default()
        })
        .await;
        let gate = Setup::new()
            .server_with("s", &format!("url: \"{}\"", server.url()))
            .contracts(&[("s__read", "read"), ("s__write", "write")])
            .open_sides()
            .mode(mode)
            .start()
            .await;
        Self { server, gate }
    }

    async fn modern() -> Self {
        Self::to(true, "enforce").await
    }

    async fn legacy() -> Self {
        Self::to(false, "enforce").await
    }

    /// An agent of 2026-07-28 at the address of the server.
    fn modern_agent(&self) -> Agent {
        self.gate.agent().at("s")
    }

    /// A legacy agent in a session at the address of the server.
    async fn legacy_agent(&self) -> Agent {
        self.gate.legacy("/mcp/s").await
    }
}

/// What the server was asked last by this method.
fn last(server: &ScriptedServer, method: &str) -> Seen {
    let seen = server.seen();
    let found = seen.into_iter().rev().find(|seen| seen.method() == method);
    found.unwrap_or_else(|| panic!("`{method}` never came: {:#?}", server.seen()))
}

/// Every server answers so, in words that only its own era has.
fn answers(server: &ScriptedServer, result: Value) {
    server.answers(move |_| Reply::Result(result.clone()));
}

/// `/mcp` offers every revision, whatever mixture of servers is behind it (protocol §4.2).
#[tokio::test]
async fn one_address_serves_both_eras_whatever_is_behind_it() {
    let (old, new) = (
        ScriptedServer::start(Offers {
            modern: false,
            tools: vec![tool("read")],
            ..Offers::default()
        })
        .await,
        ScriptedServer::start(Offers {
            legacy: false,
            tools: vec![tool("read")],
            ..Offers::default()
        })
        .await,
    );
    let content = json!([{ "type": "text", "text": "ok" }]);
    answers(&old, json!({ "content": content }));
    answers(
        &new,
        json!({ "content": content, "resultType": "complete" }),
    );
    let gate = Setup::new()
        .server_with("old", &format!("url: \"{}\"", old.url()))
        .server_with("new", &format!("url: \"{}\"", new.url()))
        .contracts(&[("old__read", "read"), ("new__read", "read")])
        .start()
        .await;
    let both = ["new__read", "old__read"];
    for agent in [gate.agent(), gate.legacy("/mcp").await] {
        assert_eq!(agent.tools().await, both);
        for tool in both {
            let answer = agent.call(tool, json!({})).await;
            assert_eq!(
                answer["result"]["content"][0]["text"], "ok",
                "{tool}: {answer}"
            );
            let is_modern = answer["result"]["resultType"] == "complete";
            assert_eq!(is_modern, !agent.is_legacy(), "{answer}");
        }
    }
    let discovered = gate.agent().ask("server/discover", json!({})).await;
    assert_eq!(
        discovered["result"]["supportedVersions"],
        json!(["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
    );
    // Each server read its own era only.
    assert!(
        old.seen()
            .iter()
            .all(|seen| seen.body["params"]["_meta"].is_null())
    );
    let version = "io.modelcontextprotocol/protocolVersion";
    let is_stamped = |seen: &Seen| seen.body["params"]["_meta"][version] == "2026-07-28";
    assert!(new.seen().iter().all(is_stamped), "{:#?}", new.seen());
}
