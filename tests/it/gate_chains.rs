//! toolgates in a row (001-29): each applies its own hooks, once; a call that goes round between
//! them is found out.

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::hook_server::{HookReply, HookServer};
use crate::harness::scripted_server::{Reply, ScriptedServer, event, tool};
use crate::harness::setup::{Settings, Setup};
use crate::harness::tool_server::{Behaviour, Script};
use serde_json::json;
use std::sync::{Arc, OnceLock};

/// 001-29, 001-30: with two in a row each hook runs once, the second one on what the first has
/// made.
#[tokio::test]
async fn each_toolgate_runs_its_hook_once() {
    let hooks = HookServer::start().await;
    hooks.says(|told| {
        let so_far = told.body["arguments"]["by"].as_str().unwrap_or_default();
        HookReply::Json(json!({ "arguments": { "by": format!("{so_far}{}", told.hook) } }))
    });
    let server = Script::new().tool("read", Behaviour::Answers).start().await;
    let contract = |tool: &str| {
        format!("contracts: {{ {tool}: {{ purpose: a test, actions: [read], secrets: [] }} }}\n")
    };
    let lines = |name: &str| hooks.hooks(&[(name, "before", "*")], "");
    let second = Setup::new()
        .server("oracle", &server)
        .policy(&contract("oracle__read"))
        .more(&lines("b"))
        .start()
        .await;
    let members = format!("url: \"http://{}/mcp/oracle\"", second.agents);
    let first = Setup::new()
        .server_with("second", &members)
        .policy(&contract("second__read"))
        .more(&lines("a"));
    let first = first.start().await;
    let answer = first.agent().modern_call("second__read", json!({})).await;
    assert!(answer.is_done(), "{answer:?}");
    assert_eq!(server.executions().len(), 1);
    assert_eq!(server.executions()[0].arguments, json!({ "by": "ab" }));
    assert_eq!(server.executions()[0].headers["toolgate-hops"], "2");
    let told: Vec<String> = hooks.told().into_iter().map(|told| told.hook).collect();
    assert_eq!(told, ["a", "b"]);
}

/// 001-29: a tool that leads back to its toolgate: the call is refused when it has gone round eight
/// times, in words that say why, and every round has its entry.
#[tokio::test]
async fn a_loop_is_found_out() {
    let scripted = ScriptedServer::with(vec![tool("again")]).await;
    let gate = Gate::start(Settings::open(scripted.url(), &["again"])).await;
    let agent: Arc<OnceLock<Agent>> = Arc::default();
    agent.set(gate.agent()).ok().unwrap();
    scripted.answers(move |seen| {
        let hops = seen.header("toolgate-hops").unwrap().to_owned();
        let (agent, id) = (
            agent.get().unwrap().clone().header("toolgate-hops", &hops),
            seen.body["id"].clone(),
        );
        let (say, said) = tokio::sync::mpsc::channel(1);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let mut answer = runtime.block_on(agent.call("oracle__again", json!({})));
            answer["id"] = id;
            answer["result"]["_meta"] = json!({ "round": code(&answer) });
            say.blocking_send(event(&answer)).unwrap();
        });
        Reply::Stream(said)
    });
    let answer = gate.agent().call("oracle__again", json!({})).await;
    assert_eq!(scripted.executions(), 8, "{answer}");
    assert_eq!(answer["result"]["isError"], true);
    let words = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        words.starts_with("loop_detected: ") && words.contains("toolgates"),
        "{words}"
    );
    let entries = gate.entries(9).await;
    let refused = entries
        .iter()
        .filter(|entry| entry["aborted_reason"] == "loop_detected")
        .count();
    assert_eq!((entries.len(), refused), (9, 1), "{entries:#?}");
}

/// A number that is none is no way around it; a call of an agent's own is not marked where there
/// are no headers.
#[tokio::test]
async fn hops_cannot_be_talked_away() {
    let scripted = ScriptedServer::with(vec![tool("read")]).await;
    let gate = Gate::start(Settings::open(scripted.url(), &["read"])).await;
    for (header, meta, passes) in [
        (None, None, true),
        (Some("7"), None, true),
        (Some("8"), None, false),
        (Some("-1"), None, false),
        (Some("many"), None, false),
        (None, Some(json!(7)), true),
        (None, Some(json!(8)), false),
        (None, Some(json!("1")), false),
        (Some("1"), Some(json!(9)), false),
    ] {
        scripted.forget();
        let agent = gate.agent();
        let agent = header
            .into_iter()
            .fold(agent, |agent, hops| agent.header("toolgate-hops", hops));
        let mut params = json!({ "name": "oracle__read", "arguments": {} });
        if let Some(hops) = &meta {
            params["_meta"] = json!({ "dev.toolgate/hops": hops });
        }
        let answer = agent.ask("tools/call", params).await;
        let refused = code(&answer).as_deref() == Some("loop_detected");
        assert_eq!(refused, !passes, "{header:?} {meta:?}: {answer}");
        if refused {
            let words = answer["result"]["content"][0]["text"].as_str().unwrap();
            assert!(words.contains("The tool did not run. "), "{words}");
        }
        assert_eq!(scripted.executions(), usize::from(passes));
        if passes {
            let (seen, hops) = (
                &scripted.seen()[0],
                if header.is_some() || meta.is_some() {
                    8
                } else {
                    1
                },
            );
            assert_eq!(
                seen.header("toolgate-hops"),
                Some(hops.to_string().as_str())
            );
            let marked = seen.body["params"]["_meta"]
                .get("dev.toolgate/hops")
                .cloned();
            assert_eq!(marked, (hops > 1).then(|| json!(hops)));
        }
    }
}
