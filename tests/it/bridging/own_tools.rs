//! Tools that a server shows one agent's session and not toolgate's own: they are listed, judged by
//! that listing, and called.

use super::answers;
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Offers, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};

async fn server() -> ScriptedServer {
    let server = ScriptedServer::start(Offers {
        modern: false,
        tools: vec![tool("read")],
        ..Offers::default()
    })
    .await;
    answers(&server, json!({ "content": [] }));
    server
}

async fn behind(server: &ScriptedServer) -> Gate {
    Setup::new()
        .server_with("s", &format!("url: \"{}\"", server.url()))
        .contracts(&[("s__read", "read"), ("s__late", "read")])
        .start()
        .await
}

/// A tool with a schema that takes a number.
fn late(kind: &str) -> Value {
    let mut late = tool("late");
    late["inputSchema"] = json!({ "type": "object", "properties": { "n": { "type": kind } } });
    late
}

/// It lists the tools until this one is there: a session is asked once a second at most.
async fn lists(agent: &Agent, name: &str) {
    until("the tool is listed", || async {
        let names = agent.tools().await;
        names.iter().any(|known| known == name).then_some(())
    })
    .await;
}

/// A server that adds a tool and tells nobody: the next list has it, for agents of both eras; it is
/// judged by the schema of that listing, and one without a contract is not shown.
#[tokio::test]
async fn a_tool_that_comes_later_is_listed_and_judged() {
    let server = server().await;
    let gate = behind(&server).await;
    for agent in [gate.legacy("/mcp/s").await, gate.agent().at("s")] {
        server.changes_tools_silently(vec![tool("read")]);
        until("what was listed before is gone", || async {
            (agent.tools().await == ["read"]).then_some(())
        })
        .await;
        server.changes_tools_silently(vec![tool("read"), late("number"), tool("secret")]);
        lists(&agent, "late").await;
        assert_eq!(agent.tools().await, ["read", "late"]);
        let before = server.executions();
        let wrong = agent.call("late", json!({ "n": "one" })).await;
        assert_eq!(code(&wrong).as_deref(), Some("schema_invalid"), "{wrong}");
        let right = agent.call_anew("late", json!({ "n": 1 })).await;
        assert!(
            code(&right).is_none() && right["result"].is_object(),
            "{right}"
        );
        let secret = agent.call("secret", json!({})).await;
        assert_eq!(secret["error"]["code"], -32602, "{secret}");
        assert_eq!(server.executions(), before + 1);
    }
}

/// A tool that nobody has listed is looked for before its call is refused.
#[tokio::test]
async fn a_tool_that_nobody_listed_is_looked_for() {
    let server = server().await;
    let gate = behind(&server).await;
    for agent in [gate.legacy("/mcp/s").await, gate.agent().at("s")] {
        server.changes_tools_silently(vec![tool("read")]);
        let missing = agent.call("late", json!({})).await;
        assert_eq!(missing["error"]["code"], -32602, "{missing}");
        server.changes_tools_silently(vec![tool("read"), tool("late")]);
        until("the tool is found", || async {
            let answer = agent.call_anew("late", json!({})).await;
            answer["result"].is_object().then_some(())
        })
        .await;
    }
}
