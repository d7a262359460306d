//! What comes again or without end: an id that is in flight, a listing whose cursor never ends; and
//! the last of what two readers could read differently (threat-model §3A A6, §3B B1, §3C C2).

use super::{
    Behaviour, CANARY, Door, Script, Setup, executions, governed, json, refused, untouched,
};
use crate::harness::agent::modern;
use crate::harness::answer::exchange;
use crate::harness::scripted_server::{Offers, ScriptedServer, tool};
use crate::harness::setup::beside;
use crate::harness::stdio::StdioGate;
use crate::harness::until;

const REQUEST: i64 = -32600;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"@TOOL","arguments":{},"_meta":{@META}}}"#;

#[tokio::test]
async fn an_id_in_flight_on_a_session_is_refused_and_the_first_call_runs_once() {
    let oracle = Script::new().tool("write", Behaviour::Held).start().await;
    let gate = Setup::new()
        .server("oracle", &oracle)
        .contracts(&[("oracle__write", "write")])
        .start()
        .await;
    let session = gate.agent().declaring(json!({})).await;
    let first = session.clone();
    let first = tokio::spawn(async move { first.legacy_call("oracle__write", json!({})).await });
    until("the first call runs", || async {
        (oracle.executions().len() == 1).then_some(())
    })
    .await;
    for method in ["tools/call", "tools/list", "resources/list"] {
        let params = json!({ "name": "oracle__write", "arguments": { "a": CANARY } });
        refused(method, &session.legacy(method, params).await, REQUEST, "id");
    }
    oracle.release();
    assert!(first.await.unwrap().is_done());
    assert_eq!(oracle.executions().len(), 1);
    oracle.release();
    assert!(
        session
            .legacy_call("oracle__write", json!({}))
            .await
            .is_done(),
        "an id that was answered is free again"
    );
}

#[tokio::test]
async fn an_id_in_flight_on_stdio_is_refused_and_the_first_call_runs_once() {
    let oracle = Script::new().tool("write", Behaviour::Held).start().await;
    let setup = Setup::new()
        .server("oracle", &oracle)
        .contracts(&[("oracle__write", "write")]);
    let mut gate = StdioGate::start(&setup);
    let call = modern("tools/call", json!({ "name": "write", "arguments": {} })).to_string();
    gate.write(call.as_bytes()).await;
    until("the first call runs", || async {
        (oracle.executions().len() == 1).then_some(())
    })
    .await;
    refused("stdio", &gate.ask(call.as_bytes()).await, REQUEST, "id");
    assert_eq!(oracle.executions().len(), 1);
    oracle.release();
    let answer = gate
        .read()
        .await
        .expect("the first call's answer")
        .message();
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(1), &json!("done")),
        "{answer}"
    );
    assert_eq!(oracle.executions().len(), 1);
    assert!(gate.close().await.success());
}

#[tokio::test]
async fn a6_minus_zero_is_refused_wherever_it_stands() {
    let (oracle, gate) = governed().await;
    let mut doors = [
        Door::Modern(gate.agent()),
        Door::Legacy(gate.agent().declaring(json!({})).await),
    ];
    for door in &mut doors {
        for (place, code) in [
            ("{\"a\":-0}", -32700),
            ("{\"a\":[{\"b\":-0.0}]}", -32700),
            ("{\"a\":-0e1}", -32700),
        ] {
            let answer = door
                .send(&CALL.replace("\"arguments\":{}", &format!("\"arguments\":{place}")))
                .await;
            refused(
                &format!("{} {place}", door.name()),
                &answer,
                code,
                "negative zero",
            );
        }
        let answer = door.send(&CALL.replace("\"id\":1", "\"id\":-0")).await;
        assert!(
            matches!(answer.error(), -32700 | -32600),
            "{}: {answer:?}",
            door.name()
        );
    }
    untouched(&oracle, &gate).await;
}

#[tokio::test]
async fn a_command_after_the_dashes_stands_in_for_the_configured_server() {
    let setup = Setup::new()
        .server_with("first", "url: \"http://127.0.0.1:1/mcp\"")
        .server_with("second", "command: /nowhere/at-all")
        .contracts(&[("second__write", "write")]);
    let (config, log) = (setup.write(), setup.log_of("second"));
    let program = beside("oracle-server");
    let setup = setup.environment("ORACLE_LOG", log.to_str().unwrap());
    let arguments = [
        "--config",
        config.to_str().unwrap(),
        "--server",
        "second",
        "--",
        program.to_str().unwrap(),
    ];
    let mut gate = StdioGate::start_with(&setup, &arguments);
    let call =
        |tool: &str| modern("tools/call", json!({ "name": tool, "arguments": {} })).to_string();
    let hidden = gate.ask(call("read").as_bytes()).await;
    assert_eq!(
        hidden.refusal(),
        "tool_not_allowlisted",
        "the policy of the server holds: {hidden:?}"
    );
    let answer = gate.ask(call("write").as_bytes()).await.message();
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    let ran: Vec<String> = executions(&log).into_iter().map(|run| run.tool).collect();
    assert_eq!(ran, ["write"]);
    assert!(gate.close().await.success());
}

#[tokio::test]
async fn c2_a_listing_without_end_takes_only_its_server_down() {
    let oracle = Script::new().tool("read", Behaviour::Answers).start().await;
    // Pages of no tools, each with a cursor.
    let endless = ScriptedServer::start(Offers {
        tools: vec![tool("read")],
        page: 0,
        ..Offers::default()
    })
    .await;
    let setup = Setup::new()
        .server("good", &oracle)
        .server_with("endless", &format!("url: \"{}\"", endless.url()))
        .contracts(&[("good__read", "read"), ("endless__read", "read")]);
    let gate = setup.start().await;
    let listed = gate.agent().modern("tools/list", json!({})).await.message();
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["good__read"]);
    assert!(
        gate.agent()
            .modern_call("good__read", json!({}))
            .await
            .is_done()
    );
    assert_eq!(
        gate.agent()
            .modern_call("endless__read", json!({}))
            .await
            .refusal(),
        "tool_not_allowlisted"
    );
    let ready = until("a word of it", || async {
        Some(gate.operators("/readyz").await).filter(|ready| ready.contains("more than 50 pages"))
    })
    .await;
    assert!(ready.contains("endless"), "{ready}");
    assert_eq!(endless.executions(), 0);
}

#[tokio::test]
async fn b1_a_head_with_a_bare_carriage_return_or_line_feed_runs_nothing() {
    let (oracle, gate) = governed().await;
    let agent = gate.agent();
    let call = modern(
        "tools/call",
        json!({ "name": "oracle__write", "arguments": { "a": CANARY } }),
    );
    let good =
        String::from_utf8(agent.encoded(&agent.mirrored(&call), call.to_string().as_bytes()))
            .unwrap();
    for (what, text) in [
        (
            "one",
            good.replacen("\r\nContent-Type", "\rContent-Type", 1),
        ),
        ("all", good.replace("\r\n", "\r")),
        ("after the request line", good.replacen("\r\n", "\r", 1)),
        (
            "one line feed",
            good.replacen("\r\nContent-Type", "\nContent-Type", 1),
        ),
        ("line feeds only", good.replace("\r\n", "\n")),
        (
            "line feed after the request line",
            good.replacen("\r\n", "\n", 1),
        ),
    ] {
        let answer = exchange(gate.agents, text.into_bytes()).await;
        assert!(
            answer.as_ref().is_none_or(|answer| answer.status == 400),
            "{what}: {answer:?}"
        );
        assert_eq!(oracle.executions().len(), 0, "{what}");
    }
    untouched(&oracle, &gate).await;
}
