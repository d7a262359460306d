//! Names of tools: fitted, counted, and given back.

use super::{CALLERS, as_of, last, stage};
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Settings;
use crate::harness::until;
use serde_json::json;

/// policy §8: a tool's name is shown as the profile takes it, and means the same tool; its own name
/// goes on meaning it.
#[tokio::test]
async fn names_of_tools_come_back() {
    let (server, gate) = stage().await;
    for (name, path, start) in [
        ("gpt", "/mcp", "oracle__with_dots_"),
        ("gpt", "/mcp/oracle", "with_dots_"),
        ("windsurf", "/mcp", "oracle__with_dots_"),
        ("gemini", "/mcp", "oracle__with.dots"),
        ("plain", "/mcp", "oracle__with.dots"),
    ] {
        let agent = as_of(&gate, name).at(path);
        let shown = agent
            .tools()
            .await
            .into_iter()
            .find(|shown| shown.contains("dots"))
            .unwrap();
        assert!(shown.starts_with(start), "{name}: {shown}");
        let own = if path == "/mcp" {
            "oracle__with.dots"
        } else {
            "with.dots"
        };
        for called in [shown.as_str(), own] {
            let answer = agent.call(called, json!({})).await;
            assert_eq!(code(&answer), None, "{name}, {called}: {answer}");
            assert_eq!(server.executions().pop().unwrap().tool, "with.dots");
        }
        let answer = agent.call(&format!("{start}00000000"), json!({})).await;
        assert_eq!(
            code(&answer).as_deref(),
            Some("tool_not_allowlisted"),
            "{name}: {answer}"
        );
    }
    let entries = gate.entries(10).await;
    assert!(entries.iter().all(|entry| {
        entry["tool"]
            .as_str()
            .unwrap()
            .starts_with("oracle__with.dots")
            || entry["tool"].as_str().unwrap().ends_with("00000000")
    }));
}

/// policy §8: a program that takes only so many tools is shown so many, and the others are counted.
#[tokio::test]
async fn programs_are_shown_as_many_tools_as_they_take() {
    let (_server, gate) = stage().await;
    assert_eq!(
        as_of(&gate, "few").tools().await,
        ["oracle__order", "oracle__free"]
    );
    assert_eq!(as_of(&gate, "plain").tools().await.len(), 3);
    let series = "toolgate_quarantined_tools{reason=\"profile_tools\",profile=\"none\"}";
    until("the metric", || async {
        (gate.metric(series).await > 0.5).then_some(())
    })
    .await;
}

/// policy §8: a program is shown names as long as it takes, whatever its model takes; they mean the
/// same tools.
#[tokio::test]
async fn programs_are_shown_names_as_long_as_they_take() {
    let long = "does_".repeat(18);
    let callers = "
  - { agent: short, token: token-of-short-agent, schemas: { max_name_len: 48 } }
  - { agent: cursor, token: token-of-cursor-agent, schemas: { client: cursor } }
  - { agent: both, token: token-of-both-agent, model: openai/gpt-5, schemas: { client: claude-code } }
  - { agent: plain, token: token-of-plain-agent }
";
    let scripted = ScriptedServer::with(vec![tool(&long), tool("fine")]).await;
    let gate = Gate::start(Settings {
        callers,
        ..Settings::open(scripted.url(), &[long.leak(), "fine"])
    })
    .await;
    for (name, longest) in [("short", 48), ("cursor", 51), ("both", 64), ("plain", 98)] {
        let agent = as_of(&gate, name);
        let shown = agent.tools().await;
        assert_eq!(shown[1], "oracle__fine", "{name}");
        assert_eq!(shown[0].len(), longest, "{name}: {shown:?}");
        assert_eq!(
            code(&agent.call(&shown[0], json!({})).await),
            None,
            "{name}"
        );
        assert!(
            last(&scripted).body["params"]["name"]
                .as_str()
                .unwrap()
                .starts_with("does_does_"),
            "{name}"
        );
    }
    assert_eq!(scripted.executions(), 4);
}

/// policy §3, step 8: a tool whose fitted name is another's own is hidden with its reason; the name
/// means its owner.
#[tokio::test]
async fn a_fitted_name_is_nobody_elses() {
    let alone = ScriptedServer::with(vec![tool("with.dots")]).await;
    let gate = Gate::start(Settings {
        callers: CALLERS,
        ..Settings::open(alone.url(), &["with.dots"])
    })
    .await;
    let fitted = as_of(&gate, "gpt").tools().await.remove(0);
    let other: &'static str = fitted.strip_prefix("oracle__").unwrap().to_owned().leak();
    let scripted = ScriptedServer::with(vec![tool("with.dots"), tool(other)]).await;
    let gate = Gate::start(Settings {
        callers: CALLERS,
        ..Settings::open(scripted.url(), &["with.dots", other])
    })
    .await;
    assert_eq!(
        as_of(&gate, "plain").tools().await,
        ["oracle__with.dots", fitted.as_str()]
    );
    let agent = as_of(&gate, "gpt");
    assert_eq!(agent.tools().await, [fitted.as_str()]);
    assert_eq!(code(&agent.call(&fitted, json!({})).await), None);
    assert_eq!(last(&scripted).body["params"]["name"], other);
    let series = "toolgate_quarantined_tools{reason=\"profile_names\",profile=\"openai\"}";
    until("the metric", || async {
        (gate.metric(series).await > 0.5).then_some(())
    })
    .await;
    until("the log", || async {
        gate.log()
            .contains("two names would be shown as one")
            .then_some(())
    })
    .await;
}
