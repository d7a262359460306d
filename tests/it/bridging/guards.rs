//! Guards between an agent of one era and a server of the other: they judge the call, not the era
//! (protocol §4.3, §4.4).

use super::crossings::{ALICE, AskedCall, BOB, BOTH, Crossing, Towards, call, finishes};
use super::last;
use crate::harness::answer::code;
use crate::harness::replay::stored;
use crate::harness::scripted_server::{Reply, event, tool};
use crate::harness::until;
use serde_json::{Value, json};

const FENCE: &str = "dev.toolgate/fence";

const POLICY: &str = "
contracts:
  s__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  s__pay:
    purpose: test
    actions: [write]
    permission: anyone
    side_effect: { writes: test, rollback: { tool: s__undo } }
    idempotency: { derive: arguments }
    secrets: []
    output: { errors: [ { code: -32050, means: retryable }, { code: -32051, means: unknown }, { says: no such account, means: not_executed } ] }
  s__read: { purpose: test, actions: [read], secrets: [], permission: { roles: [boss] } }
  s__hid: { purpose: test, actions: [read], secrets: [] }
";

fn question() -> Value {
    json!({ "message": "who?", "requestedSchema": { "type": "object", "properties": {} } })
}

fn accepts() -> Value {
    json!({ "action": "accept", "content": {} })
}

/// Who may not use a tool does not see it, and cannot call it, in a session of the bridge's either;
/// arguments are judged by the schema of the other era's server.
#[tokio::test]
async fn who_may_call_what_is_the_same_across() {
    for towards in BOTH {
        let crossing = Crossing::new(towards, POLICY, "").await;
        let (alice, bob) = (crossing.agent(ALICE).await, crossing.agent(BOB).await);
        assert_eq!(alice.tools().await, ["pay", "read", "hid"], "{towards:?}");
        assert_eq!(bob.tools().await, ["pay", "read"], "{towards:?}");
        // After alice, whose session at the server may be open by now.
        let runs = alice.call("hid", json!({})).await;
        assert_eq!(code(&runs), None, "{towards:?}: {runs}");
        for hidden in ["hid", "none"] {
            let refused = bob.call(hidden, json!({})).await;
            assert_eq!(refused["error"]["code"], -32602, "{towards:?}: {refused}");
        }
        let denied = bob.call("read", json!({})).await;
        assert_eq!(code(&denied).as_deref(), Some("rbac_denied"), "{denied}");
        let wrong = alice.call("pay", json!({ "n": "one" })).await;
        assert_eq!(code(&wrong).as_deref(), Some("schema_invalid"), "{wrong}");
        assert_eq!(crossing.server.executions(), 1, "{towards:?}");
    }
}

/// A call that is sent again gets the answer of the first; one that comes while the first is on its
/// way joins it; and both do so for agents of either era.
#[tokio::test]
async fn a_key_is_one_execution_across() {
    for towards in BOTH {
        let crossing = Crossing::new(towards, POLICY, "").await;
        let agent = crossing.agent(ALICE).await;
        let text = json!({ "content": [{ "type": "text", "text": "paid" }] });
        finishes(&crossing.server, towards, &text);
        let first = agent.call("pay", json!({ "n": 1 })).await;
        let again = agent.call("pay", json!({ "n": 1 })).await;
        let decision = |answer: &Value| answer["result"]["_meta"]["dev.toolgate/decision"].clone();
        assert_eq!(decision(&again)["replayed"], true, "{towards:?}: {again}");
        for answer in [&first, &stored(&again)] {
            assert_eq!(answer["result"]["content"], text["content"], "{towards:?}");
            let is_modern = answer["result"]["resultType"] == "complete";
            assert_eq!(is_modern, towards == Towards::Legacy, "{answer}");
        }
        assert_eq!(crossing.server.executions(), 1, "{towards:?}");

        let says = crossing.server.holds("tools/call");
        // Its head is read while the server still works on it.
        let heard = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "error", "data": "x" } });
        says.send(event(&heard)).await.unwrap();
        let mut one = agent.post(&call(&agent, "pay", json!({ "n": 2 }))).await;
        let fits = |seen: &super::Seen| seen.body["params"]["arguments"]["n"] == 2;
        let seen = crossing.server.sees("the call", fits).await;
        let mut other = agent.post(&call(&agent, "pay", json!({ "n": 2 }))).await;
        let result = json!({ "content": [], "resultType": "complete" });
        let done = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": result });
        says.send(event(&done)).await.unwrap();
        let (one, other) = (one.whole().await, other.whole().await);
        assert_eq!((code(&one), code(&other)), (None, None), "{one} {other}");
        assert_eq!(crossing.server.executions(), 2, "{towards:?}");
    }
}

/// A round is no second call: a task of two calls has two, each with its question, and no third.
#[tokio::test]
async fn a_budget_counts_calls_across() {
    let budget = POLICY.replace(
        "    secrets: []\n",
        "    secrets: []\n    budget: { max_calls_per_task: 2 }\n",
    );
    for towards in BOTH {
        let crossing = Crossing::new(towards, &budget, "").await;
        let agent = crossing.agent(ALICE).await;
        for n in 0..2 {
            let call = call(&agent, "pay", json!({ "n": n }));
            let AskedCall { last, .. } = crossing
                .asked((&agent, &call), &question(), &accepts(), &[])
                .await;
            assert_eq!(code(&last), None, "{towards:?}, {n}: {last}");
        }
        let before = crossing.server.executions();
        let third = agent.call("pay", json!({ "n": 2 })).await;
        let refusal = code(&third);
        assert_eq!(
            refusal.as_deref(),
            Some("budget_calls_exceeded"),
            "{towards:?}: {third}"
        );
        assert_eq!(crossing.server.executions(), before, "{towards:?}");
    }
}

/// The calls of a session leave in turns, each under a higher token, which the server reads; the
/// ledger has it. While a call is parked its session's next one goes on.
#[tokio::test]
async fn fences_rise_across() {
    for towards in BOTH {
        let crossing = Crossing::new(towards, POLICY, "").await;
        let agent = crossing.agent(ALICE).await;
        let mut tokens = Vec::new();
        for n in 0..3 {
            let answer = agent.call("pay", json!({ "n": n })).await;
            assert_eq!(code(&answer), None, "{towards:?}: {answer}");
            let seen = last(&crossing.server, "tools/call");
            let fence = &seen.body["params"]["_meta"][FENCE];
            let token = fence["token"].as_u64();
            tokens.push(token.unwrap_or_else(|| panic!("{towards:?}: {:?}", seen.body)));
        }
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
        let entries = crossing.gate.entries(3).await;
        let noted: Vec<_> = entries.iter().map(|entry| &entry["fence"]).collect();
        assert_eq!(json!(noted), json!(tokens), "{towards:?}");
    }
    let crossing = Crossing::new(Towards::Legacy, POLICY, "").await;
    let agent = crossing.agent(ALICE).await;
    let says = crossing.server.holds("tools/call");
    let asks = json!({ "jsonrpc": "2.0", "id": "q", "method": super::crossings::ELICITED, "params": question() });
    says.send(event(&asks)).await.unwrap();
    let parked = agent
        .answered(&call(&agent, "pay", json!({ "n": 1 })))
        .await;
    assert_eq!(parked["result"]["resultType"], "input_required", "{parked}");
    let other = agent.call("pay", json!({ "n": 2 })).await;
    assert_eq!(code(&other), None, "{other}");
    assert_eq!(crossing.server.executions(), 2);
}

/// What a contract says of errors counts for the server of the other era: what did not run may be
/// sent again, and what may have run may not. An error of a later round proves nothing.
#[tokio::test]
async fn errors_mean_what_the_contract_says_across() {
    for towards in BOTH {
        let crossing = Crossing::new(towards, POLICY, "").await;
        let agent = crossing.agent(ALICE).await;
        let fails = |code: i64| {
            let error = json!({ "code": code, "message": "no" });
            let message = json!({ "jsonrpc": "2.0", "error": error });
            crossing
                .server
                .answers(move |_| Reply::Message(message.clone()));
        };
        fails(-32050);
        let busy = agent.call("pay", json!({ "n": 1 })).await;
        assert!(busy["result"]["content"].is_array() || busy["error"].is_object());
        finishes(&crossing.server, towards, &json!({ "content": [] }));
        let done = agent.call("pay", json!({ "n": 1 })).await;
        assert_eq!(code(&done), None, "{towards:?}: {done}");
        assert_eq!(done["result"]["content"], json!([]), "{towards:?}: {done}");
        fails(-32051);
        let before = crossing.server.executions();
        for _ in 0..2 {
            let unknown = agent.call("pay", json!({ "n": 2 })).await;
            assert_eq!(code(&unknown).as_deref(), Some("outcome_unknown"));
        }
        assert_eq!(crossing.server.executions(), before + 1, "{towards:?}");
    }
    // The enemy: a code that says of a first request that nothing ran, in the second round.
    let crossing = Crossing::new(Towards::Modern, POLICY, "").await;
    let agent = crossing.agent(ALICE).await;
    crossing
        .server
        .answers(|seen| match seen.body["params"].get("requestState") {
            None => Reply::Result(json!({ "resultType": "input_required", "requestState": "one" })),
            Some(_) => Reply::Message(
                json!({ "jsonrpc": "2.0", "error": { "code": -32050, "message": "busy" } }),
            ),
        });
    for _ in 0..2 {
        let answer = agent.call("pay", json!({ "n": 1 })).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    assert_eq!(
        crossing.server.executions(),
        2,
        "two rounds of one call, which is not sent again"
    );
}

/// A definition that was approved in one era and changes is withheld from agents of the other.
#[tokio::test]
async fn a_changed_tool_is_withheld_across() {
    for towards in BOTH {
        let pins = "pins: toolgate.pins.yaml";
        let (server, setup) = Crossing::setup(towards, POLICY, pins).await;
        setup.write();
        let approved = crate::harness::gate::run(&setup, &["pins", "approve", "--all"]).await;
        assert_eq!(approved.0, 0, "{approved:?}");
        let gate = setup.start().await;
        let agent = super::crossings::agent(&gate, towards, ALICE).await;
        assert_eq!(agent.tools().await, ["pay", "read", "hid"], "{towards:?}");
        server.is_listened_to().await;
        let mut other = tool("read");
        other["description"] = json!("does something else");
        server.changes_tools(vec![other, tool("hid")]).await;
        until("the changed tool is withheld", || async {
            (agent.tools().await == ["hid"]).then_some(())
        })
        .await;
        let before = server.executions();
        let refused = agent.call("read", json!({})).await;
        assert!(
            refused["error"].is_object() || code(&refused).is_some(),
            "{towards:?}: {refused}"
        );
        assert_eq!(server.executions(), before, "{towards:?}");
    }
}
