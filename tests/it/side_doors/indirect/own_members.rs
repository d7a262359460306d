//! Members of toolgate's own in `_meta`, and how long the others may be.

use super::super::*;

/// What a message brings for toolgate alone.
fn ours() -> Value {
    json!({ "dev.toolgate/fence": "1", "dev.toolgate/hops": 1, "dev.toolgate/x": {}, "com.acme/kept": 1 })
}

/// threat-model §3C C9: what agents say to toolgate travels no further, whatever they say it with;
/// in both modes.
#[tokio::test]
async fn what_is_toolgates_own_stays_with_it() {
    let mut cases = 0;
    for mode in ["enforce", "observe"] {
        let scripted = docs().await;
        let setup = Setup::new()
            .server_with("docs", &format!("url: \"{}\"", scripted.url()))
            .callers(CALLERS);
        let policy = "contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }\n";
        let setup = if mode == "enforce" {
            setup.open_sides()
        } else {
            setup.mode(mode)
        };
        let gate = setup.policy(policy).start().await;
        let modern = gate.agent().token(ALICE).at("/mcp/docs");
        for agent in [modern.clone(), modern.initialized().await] {
            for (method, mut params, legacy) in requests("file:///srv/docs/a.md", "greet") {
                if legacy && !agent.is_legacy() {
                    continue;
                }
                params["_meta"] = ours();
                agent.ask(method, params).await;
                cases += 1;
            }
            if !agent.is_legacy() {
                continue;
            }
            says_of_its_own(&agent, &scripted).await;
            cases += 3;
        }
        let seen = scripted.seen();
        assert!(seen.len() > 15, "{seen:#?}");
        for seen in seen {
            let params = seen.body.get("params").or(seen.body.get("result")).unwrap();
            assert!(
                !params.to_string().contains("dev.toolgate/"),
                "{}",
                seen.body
            );
            assert_eq!(params["_meta"]["com.acme/kept"], 1, "{}", seen.body);
        }
    }
    assert_eq!(cases, 2 * (7 + 10 + 3));
}

/// A legacy agent answers and tells, with members of toolgate's own.
async fn says_of_its_own(agent: &Agent, scripted: &ScriptedServer) {
    let mut standalone = agent.get(None).await;
    until("the session listens", || async {
        (scripted.listeners() >= 2).then_some(())
    })
    .await;
    scripted
        .tells(json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list" }))
        .await;
    let id = standalone.message().await["id"].clone();
    let roots = json!({ "roots": [], "_meta": ours() });
    agent
        .post(&json!({ "jsonrpc": "2.0", "id": id, "result": roots }))
        .await;
    scripted
        .sees("the answer", |seen| seen.body["id"] == "q")
        .await;
    for method in ["roots/list_changed", "tasks/status"] {
        let params = json!({ "taskId": "t", "status": "working", "_meta": ours() });
        let method = format!("notifications/{method}");
        agent
            .post(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            .await;
        scripted
            .sees("the notification", |seen| seen.method() == method)
            .await;
    }
}

/// threat-model §8: `_meta` has the bytes that the configuration gives it; in observe mode more
/// pass, and are counted.
#[tokio::test]
async fn what_stands_beside_a_message_has_a_bound() {
    for (mode, most) in [("enforce", 2_048), ("observe", 2_048), ("enforce", 65_536)] {
        let scripted = docs().await;
        let policy = "contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }\n";
        let setup = Setup::new()
            .server_with("docs", &format!("url: \"{}\"", scripted.url()))
            .policy(policy)
            .mode(mode);
        let setup = if most == 65_536 {
            setup
        } else {
            setup.more(&format!("meta_max_bytes: {most}"))
        };
        let gate = setup.start().await;
        for agent in [gate.agent().at("/mcp/docs"), gate.legacy("/mcp/docs").await] {
            for (length, is_long) in [(most - 400, false), (most, true)] {
                scripted.forget();
                let mut call =
                    agent.request("tools/call", json!({ "name": "read", "arguments": {} }));
                call["params"]["_meta"]["com.acme/x"] = json!("x".repeat(length));
                let answer = agent.answered(&call).await;
                let passes = !is_long || mode == "observe";
                assert_eq!(
                    scripted.executions(),
                    usize::from(passes),
                    "{mode} {most} {length}: {answer}"
                );
                let words = answer["error"]["message"].as_str().unwrap_or_default();
                assert_eq!(words.contains("`meta_max_bytes`"), !passes, "{answer}");
            }
        }
        assert_eq!(
            gate.metric("toolgate_long_meta_total").await.to_string(),
            "2",
            "{mode} {most}"
        );
    }
}
