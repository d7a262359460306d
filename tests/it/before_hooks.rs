//! Programs of the operator's that are asked before a call is sent (001-22 … 001-32): what they are
//! told, what becomes of what they say, and that nothing runs when they fail.

mod told;

use crate::harness::agent::Agent;
use crate::harness::gate::{Gate, run};
use crate::harness::hook_server::{HookReply, HookServer};
use crate::harness::setup::Setup;
use crate::harness::tool_server::script::digest;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};

const TOKEN: &str = "token-of-the-bot-of-tenant-one";

const CALLERS: &str = "  - { agent: bot, token: token-of-the-bot-of-tenant-one, tenant: t_001, roles: [teller, clerk] }\n";

const POLICY: &str = "contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__pay:
    purpose: a test
    actions: [write]
    secrets: []
    side_effect: { writes: test, rollback: { tool: oracle__undo } }
    permission: { tenant: /tenant_id }
    arguments: { properties: { amount: { type: integer, maximum: 1000 }, who: { type: object } }, additionalProperties: true }
    rules: [ { code: too_much, when: \"has(arguments.amount) && arguments.amount > 900\" } ]
    rewrite: [ { name: usual, default: { /currency: EUR } } ]
  oracle__read: { purpose: a test, actions: [read], secrets: [] }
";

async fn stage(hooks: &HookServer, lines: &str) -> (ToolServer, Gate, Agent) {
    let server = Script::new()
        .tool("pay", Behaviour::Answers)
        .tool("read", Behaviour::Answers)
        .start()
        .await;
    let setup = Setup::new()
        .server("oracle", &server)
        .callers(CALLERS)
        .policy(POLICY)
        .more(lines);
    let gate = setup.start().await;
    let agent = gate.agent().token(TOKEN);
    // Nobody who is not told is asked.
    assert!(hooks.told().is_empty());
    (server, gate, agent)
}

fn given() -> Value {
    json!({ "tenant_id": "t_001", "amount": 5, "who": { "id": 1, "name": "Ann" } })
}

/// 001-22, 001-23, 001-27, 001-28, 001-31, 001-32: two hooks on different keys both survive, on the
/// same key the last one wins, and only the top level is merged; each sees what the one before has
/// made, the contract's own steps first.
#[tokio::test]
async fn hooks_are_a_chain() {
    let hooks = HookServer::start().await;
    hooks.says(|told| match told.hook.as_str() {
        "one" => HookReply::Json(
            json!({ "arguments": { "amount": 6, "first": true, "who": { "id": 2 } } }),
        ),
        "two" => HookReply::Json(
            json!({ "arguments": { "amount": 7, "second": true }, "reason": "nobody reads it" }),
        ),
        _ => HookReply::Status(204),
    });
    let lines = hooks.hooks(
        &[
            ("one", "before", "oracle__pay"),
            ("two", "before", "oracle__*"),
            ("not", "before", "oracle__read"),
        ],
        "",
    );
    let (server, gate, agent) = stage(&hooks, &lines).await;
    let mut message = crate::harness::agent::modern(
        "tools/call",
        json!({ "name": "oracle__pay", "arguments": given() }),
    );
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    message["params"]["_meta"]["traceparent"] = json!(format!("00-{trace}-00f067aa0ba902b7-01"));
    let answer = agent.sends(&message).await;
    assert!(answer.is_done(), "{answer:?}");
    let made = json!({
        "tenant_id": "t_001", "amount": 7, "currency": "EUR", "first": true, "second": true, "who": { "id": 2 },
    });
    assert_eq!(server.executions()[0].arguments, made);
    let entry = gate.entries(1).await.remove(0);
    judge_hashes(&entry, &made);
    let told = hooks.told();
    assert_eq!(told.len(), 2, "{told:#?}");
    let mut sees = given();
    sees["currency"] = json!("EUR");
    let caller = json!({ "agent": "bot", "tenant": "t_001", "roles": ["teller", "clerk"] });
    let expected = json!({
        "type": "toolgate.before", "server": "oracle", "tool": "pay", "arguments": sees, "call_id": entry["action_id"],
        "caller": caller, "trace_id": trace,
    });
    assert_eq!(told[0].body, expected);
    assert_eq!(
        told[1].body["arguments"]["first"], true,
        "it sees its predecessor's"
    );
    let ids: Vec<String> = told
        .iter()
        .map(|told| told.header("webhook-id").to_owned())
        .collect();
    let id = |hook: &str| format!("{}_before_{hook}", entry["action_id"].as_str().unwrap());
    assert_eq!(ids, [id("one"), id("two")]);
    let metrics = gate.operators("/metrics").await;
    assert!(
        metrics.contains("toolgate_before_hooks_total{outcome=\"changed\"} 2"),
        "{metrics}"
    );
}

fn judge_hashes(entry: &Value, made: &Value) {
    assert_eq!(
        (&entry["params_hash"], &entry["original_params_hash"]),
        (&json!(digest(made)), &json!(digest(&given())))
    );
    assert_eq!(entry["rewritten_by"], json!(["usual", "one", "two"]));
}

/// 001-24, 001-31: a block sticks; the last reason is read, made plain and short, and is final.
#[tokio::test]
async fn a_block_is_told_with_its_reason() {
    let hooks = HookServer::start().await;
    let lines = hooks.hooks(
        &[
            ("one", "before", "oracle__pay"),
            ("two", "before", "oracle__pay"),
        ],
        "",
    );
    let (server, gate, agent) = stage(&hooks, &lines).await;
    let no = |reason: &str| json!({ "block": true, "reason": reason });
    let long = format!("over\u{202e} the \n limit\u{200b} {}", "x".repeat(1000));
    let shown = format!("over the limit {}…", "x".repeat(184));
    for (first, second, words) in [
        (no("no more today"), json!({}), "no more today"),
        (
            no("first"),
            json!({ "block": false, "reason": "last" }),
            "last",
        ),
        (json!({}), no(&long), shown.as_str()),
        (
            json!({ "block": true }),
            json!({ "arguments": { "amount": 1 } }),
            "a hook does not let the call pass",
        ),
    ] {
        let said = (first.clone(), second);
        hooks.says(move |told| {
            HookReply::Json(if told.hook == "one" {
                said.0.clone()
            } else {
                said.1.clone()
            })
        });
        let answer = agent.modern_call("oracle__pay", given()).await;
        assert_eq!(answer.refusal(), "hook_blocked", "{answer:?}");
        let words = format!("hook_blocked: {words}. The tool did not run.");
        assert!(answer.words().starts_with(&words), "{answer:?}");
        let decision = &answer.message()["result"]["_meta"]["dev.toolgate/decision"];
        assert_eq!(
            (&decision["stage"], &decision["final"]),
            (&json!("rewrite"), &json!(true)),
            "{first}"
        );
    }
    assert_eq!(server.executions().len(), 0);
    let entry = gate.entries(4).await.remove(0);
    assert_eq!(
        (&entry["decided_by"], &entry["outcome"]),
        (&json!("hook one"), &json!("refused")),
        "{entry}"
    );
    // Packs ask no hooks: such a call makes no sample that could be as expected, unless something
    // else is expected of it.
    judge_packs(&gate, &entry).await;
    assert!(
        agent.modern_call("oracle__read", json!({})).await.is_done(),
        "nobody asked about that"
    );
}

async fn judge_packs(gate: &Gate, entry: &Value) {
    let (action, arguments) = (entry["action_id"].as_str().unwrap(), given().to_string());
    for (more, code) in [(&[][..], 1), (&["--expect", "allow"][..], 0)] {
        let words = [
            &[
                "test",
                "add",
                action,
                "--arguments",
                &arguments,
                "--data",
                "data",
            ],
            more,
        ]
        .concat();
        let (status, out, wrong) = run(&gate.setup, &words).await;
        assert_eq!(status, code, "{out}{wrong}");
        assert!(
            code == 0 || wrong.contains("the hook one refused this call, and packs ask no hooks"),
            "{wrong}"
        );
    }
}

/// policy §1 decision 10, 001-24: a hook that is slow, broken, gone or talks nonsense blocks;
/// nothing runs, and the agent learns nothing of where the hook is.
#[tokio::test]
async fn a_hook_that_fails_blocks() {
    let hooks = HookServer::start().await;
    let lines = hooks.hooks(
        &[
            ("it", "before", "oracle__pay"),
            ("after", "before", "oracle__pay"),
        ],
        ", timeout: 400ms",
    );
    let (server, gate, agent) = stage(&hooks, &lines).await;
    let rows = failures(&hooks);
    let failures = rows.len();
    for says in rows {
        let said = says.clone();
        hooks.says(move |told| {
            if told.hook == "it" {
                said.clone()
            } else {
                HookReply::Status(204)
            }
        });
        let answer = agent.modern_call("oracle__pay", given()).await;
        assert_eq!(answer.refusal(), "hook_blocked", "{says:?}: {answer:?}");
        let decision = &answer.message()["result"]["_meta"]["dev.toolgate/decision"];
        assert_eq!(
            (&decision["retry"], &decision["final"]),
            (&json!("same_key"), &json!(false)),
            "{says:?}"
        );
        assert!(
            !answer.text().contains(&hooks.address.to_string()),
            "{answer:?}"
        );
    }
    let metrics = gate.operators("/metrics").await;
    let failed = format!(
        "toolgate_before_hooks_total{{outcome=\"failed\"}} {}",
        failures - 1
    );
    assert!(metrics.contains(&failed), "{failed} is not in {metrics}");
    drop(hooks);
    assert_eq!(
        agent.modern_call("oracle__pay", given()).await.refusal(),
        "hook_blocked"
    );
    assert_eq!(server.executions().len(), 0);
}

/// What a hook may say or do that is no answer to the question.
fn failures(hooks: &HookServer) -> [HookReply; 18] {
    let change = json!({ "arguments": { "amount": 1 } }).to_string();
    [
        HookReply::Status(500),
        HookReply::Status(202),
        HookReply::Status(401),
        HookReply::Redirects(format!("http://{}/after", hooks.address)),
        HookReply::Cut,
        HookReply::Never,
        HookReply::Text(String::new()),
        HookReply::Text("<html>".to_owned()),
        HookReply::Text(format!("{change}{change}")),
        HookReply::Text("[]".to_owned()),
        HookReply::Text("null".to_owned()),
        HookReply::Text(r#"{"arguments":{"amount":1},"arguments":{}}"#.to_owned()),
        HookReply::Text(r#"{"arguments":[1]}"#.to_owned()),
        HookReply::Text(r#"{"block":"no"}"#.to_owned()),
        HookReply::Text(r#"{"params":{}}"#.to_owned()),
        HookReply::Text(format!(r#"{{"reason":"{}"}}"#, "x".repeat(2 << 20))),
        HookReply::Text(format!(
            r#"{{"arguments":{{"a":{}1{}}}}}"#,
            "[".repeat(100),
            "]".repeat(100)
        )),
        // It is an answer, but no agent could send what would come out.
        HookReply::Text(r#"{"arguments":{"Amount":1}}"#.to_owned()),
    ]
}

/// policy §1 decision 11: what a hook answers goes through schema, permission and rules once more.
#[tokio::test]
async fn what_a_hook_makes_is_judged_again() {
    let hooks = HookServer::start().await;
    let (server, gate, agent) = stage(&hooks, &hooks.hooks(&[("it", "before", "*")], "")).await;
    let rows = [
        (json!({ "tenant_id": "t_002" }), "tenant_mismatch"),
        (json!({ "amount": 5000 }), "schema_invalid"),
        (json!({ "who": "Ann" }), "schema_invalid"),
        (json!({ "amount": 950 }), "too_much"),
    ];
    for (made, code) in rows.clone() {
        hooks.says(move |_| HookReply::Json(json!({ "arguments": made })));
        let answer = agent.modern_call("oracle__pay", given()).await;
        assert_eq!(answer.refusal(), code, "{answer:?}");
    }
    assert_eq!(server.executions().len(), 0);
    let entries = gate.entries(rows.len()).await;
    for (entry, (made, _)) in entries.iter().zip(rows) {
        let mut last = given();
        last["currency"] = json!("EUR");
        last.as_object_mut()
            .unwrap()
            .extend(made.as_object().unwrap().clone());
        assert_eq!(
            (&entry["params_hash"], &entry["original_params_hash"]),
            (&json!(digest(&last)), &json!(digest(&given())))
        );
    }
    // And what it answers once is not remembered for anybody.
    hooks.says(|_| HookReply::Status(204));
    assert!(agent.modern_call("oracle__pay", given()).await.is_done());
}

/// 001-25: two agents that use the same request id and call at once: each call keeps what was made
/// of it.
#[tokio::test]
async fn calls_under_one_id_do_not_mix() {
    let hooks = HookServer::start().await;
    hooks.says(|told| {
        HookReply::Json(json!({ "arguments": { "seen": told.body["arguments"]["n"] } }))
    });
    let (server, _gate, agent) = stage(
        &hooks,
        &hooks.hooks(&[("it", "before", "oracle__read")], ""),
    )
    .await;
    let calls = (0..64).map(|n| {
        let agent = agent.clone();
        async move {
            assert!(
                agent
                    .modern_call("oracle__read", json!({ "n": n }))
                    .await
                    .is_done()
            );
        }
    });
    futures_util::future::join_all(calls).await;
    let executions = server.executions();
    assert_eq!(executions.len(), 64);
    for execution in executions {
        assert_eq!(execution.arguments["n"], execution.arguments["seen"]);
    }
}

/// An agent that leaves while a hook thinks takes its call back: nothing runs.
#[tokio::test]
async fn an_agent_may_leave_while_a_hook_thinks() {
    let hooks = HookServer::start().await;
    hooks.says(|_| HookReply::Held);
    let (server, gate, agent) = stage(
        &hooks,
        &hooks.hooks(&[("it", "before", "oracle__pay")], ", timeout: 30s"),
    )
    .await;
    let calling = tokio::spawn(async move { agent.modern_call("oracle__pay", given()).await });
    hooks.heard(1).await;
    calling.abort();
    let entry = gate.entries(1).await.remove(0);
    assert_eq!(
        (&entry["aborted_reason"], &entry["attempts"]),
        (&json!("cancelled"), &json!(0)),
        "{entry}"
    );
    hooks.release(1);
    assert_eq!(server.executions().len(), 0);
}

/// A changed configuration has other hooks at once; one that cannot be used keeps the last good
/// ones.
#[tokio::test]
async fn hooks_are_reloaded_with_the_policy() {
    let hooks = HookServer::start().await;
    hooks.says(|_| HookReply::Json(json!({ "block": true })));
    let (_server, gate, agent) =
        stage(&hooks, &hooks.hooks(&[("it", "before", "oracle__pay")], "")).await;
    assert_eq!(
        agent.modern_call("oracle__pay", given()).await.refusal(),
        "hook_blocked"
    );
    let path = gate.setup.directory().join("toolgate.yaml");
    let before = std::fs::read_to_string(&path).unwrap();
    for (from, to, blocked) in [
        ("secret: whsec_", "secret: ", true),
        ("on: before", "on: after", false),
    ] {
        std::fs::write(&path, before.replace(from, to)).unwrap();
        gate.signal(rustix::process::Signal::HUP);
        let series = if blocked {
            "\ntoolgate_policy_stale 1\n"
        } else {
            "\ntoolgate_policy_stale 0\n"
        };
        until("the files are read", || async {
            gate.operators("/metrics")
                .await
                .contains(series)
                .then_some(())
        })
        .await;
        let refusal = agent.modern_call("oracle__pay", given()).await.refusal();
        assert_eq!(refusal == "hook_blocked", blocked, "{refusal}");
    }
}
