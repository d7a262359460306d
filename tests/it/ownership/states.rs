//! States that tool servers want back (threat-model §13 F8).

use crate::envelopes::policy;
use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Settings;
use serde_json::{Value, json};

/// Two agents of two tenants, and one more tool.
async fn rounds(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(vec![tool("read"), tool("other")]).await;
    scripted.answers(|_| {
        let question = json!({ "q": { "method": "elicitation/create", "params": { "message": "?" } } });
        Reply::Result(json!({ "resultType": "input_required", "requestState": "STATE-1", "inputRequests": question }))
    });
    let callers = "  - { agent: alice, token: token-of-the-agent-alice, tenant: t_1 }\n  \
     - { agent: alice, token: token-of-alice-elsewhere-2, tenant: t_2 }\n  \
     - { agent: bob, token: token-of-the-agent-bob, tenant: t_1 }";
    let servers = vec![("oracle", scripted.url()), ("twin", scripted.url())];
    let twin = "  twin__read: { purpose: test, actions: [read], secrets: [] }\n";
    let policy = policy()
        .replace("hidden", "other")
        .replace(", owner_only: true", "")
        + twin;
    (
        scripted,
        Gate::start(Settings {
            servers,
            callers,
            more: "",
            policy,
            observe,
        })
        .await,
    )
}

const ALICE: &str = "token-of-the-agent-alice";

/// What may ask for input: its method, what it is asked with, and with what else.
fn asking() -> [(&'static str, Value, [Value; 2]); 3] {
    [
        (
            "tools/call",
            json!({ "name": "read", "arguments": { "n": 1 } }),
            [
                json!({ "name": "read", "arguments": { "n": 2 } }),
                json!({ "name": "other", "arguments": { "n": 1 } }),
            ],
        ),
        (
            "prompts/get",
            json!({ "name": "read", "arguments": { "n": "1" } }),
            [
                json!({ "name": "read", "arguments": { "n": "2" } }),
                json!({ "name": "other", "arguments": { "n": "1" } }),
            ],
        ),
        (
            "resources/read",
            json!({ "uri": "x:read" }),
            [
                json!({ "uri": "x:other" }),
                json!({ "uri": "x:read", "more": 1 }),
            ],
        ),
    ]
}

/// The next round with this state.
fn next(params: &Value, state: &Value) -> Value {
    let mut params = params.clone();
    params["inputResponses"] = json!({ "q": { "action": "accept" } });
    params["requestState"] = state.clone();
    params
}

/// threat-model §13 F8, §3C C8, lane: what a server wants back is opened for the agent that it was
/// given to, in its tenant, with the same request to the same server; in every other place, and
/// bent in any way, it is refused and nothing is sent.
#[tokio::test]
async fn f8_a_state_is_brought_back_by_whom_it_was_given_to() {
    let (scripted, gate) = rounds(false).await;
    let agent = |token: &str| gate.agent().at("/mcp/oracle").token(token);
    let alice = agent(ALICE);
    let others = [
        agent("token-of-the-agent-bob"),
        agent("token-of-alice-elsewhere-2"),
        alice.clone().at("/mcp/twin"),
    ];
    let mut cases = 0;
    for (method, params, elsewhere) in asking() {
        let first = alice.ask(method, params.clone()).await;
        let state = first["result"]["requestState"].clone();
        let given = state.as_str().unwrap_or_default().to_owned();
        assert!(given.starts_with("tg1."), "{first}");
        scripted.forget();
        let mut hostile: Vec<(&Agent, Value)> = others
            .iter()
            .map(|other| (other, next(&params, &state)))
            .collect();
        hostile.extend(
            elsewhere
                .iter()
                .map(|params| (&alice, next(params, &state))),
        );
        let mut bent = given.clone().into_bytes();
        bent[8] = if bent[8] == b'A' { b'B' } else { b'A' };
        // As it was before it was sealed, and nothing that a server or an agent may make of it.
        let (bent, cut) = (String::from_utf8(bent).unwrap(), &given[..given.len() - 1]);
        let bare = json!([
            "STATE-1", "", "tg1.", "tg1..STATE-1", bent, cut, format!("{given}x"), given.replace("tg1.", "tg2."),
            { "requestState": given }, [given], 1, null, true
        ]);
        hostile.extend(
            bare.as_array()
                .unwrap()
                .iter()
                .map(|state| (&alice, next(&params, state))),
        );
        for (agent, params) in hostile {
            cases += 1;
            let refused = agent.ask(method, params.clone()).await;
            assert!(
                refused["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains("requestState"),
                "{refused}"
            );
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            assert_eq!(scripted.seen().len(), 0, "{params} {refused}");
        }
        let answer = alice.ask(method, next(&params, &state)).await;
        assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
        assert_eq!(scripted.seen()[0].body["params"]["requestState"], "STATE-1");
    }
    assert_eq!(cases, 54, "states where they do not belong");
}

/// threat-model §3C C8: a question that was asked before a restart can be answered after it, unless
/// the key is gone; in observe mode another state goes on as it came.
#[tokio::test]
async fn f8_a_state_outlives_a_restart() {
    for observe in [false, true] {
        let (scripted, gate) = rounds(observe).await;
        let params = json!({ "name": "read", "arguments": {} });
        let ask = async |gate: &Gate, params: Value| {
            gate.agent()
                .at("/mcp/oracle")
                .token(ALICE)
                .ask("tools/call", params)
                .await
        };
        let state = ask(&gate, params.clone()).await["result"]["requestState"].clone();
        let gate = gate.stop().await.start().await;
        for (state, observed) in [(&state, "STATE-1"), (&json!("another"), "another")] {
            scripted.forget();
            let answer = ask(&gate, next(&params, state)).await;
            let sent = scripted
                .seen()
                .first()
                .map(|seen| seen.body["params"]["requestState"].clone());
            let passes = observe || observed == "STATE-1";
            assert_eq!(sent, passes.then(|| json!(observed)), "{answer}");
        }
        let key = gate.path("data/round-key");
        let setup = gate.stop().await;
        std::fs::remove_file(key).unwrap();
        let gate = setup.start().await;
        scripted.forget();
        ask(&gate, next(&params, &state)).await;
        assert_eq!(scripted.executions(), usize::from(observe));
    }
}

/// threat-model §3C C8: what is no string is no state, and none that is made of it is opened.
#[tokio::test]
async fn f8_what_is_no_string_is_no_state() {
    let (scripted, gate) = rounds(false).await;
    let alice = gate.agent().at("/mcp/oracle").token(ALICE);
    for state in [
        json!({ "requestState": "STATE-1" }),
        json!(["STATE-1"]),
        json!(7),
        json!(null),
    ] {
        let given = state.clone();
        scripted.answers(move |_| {
            Reply::Result(json!({ "resultType": "input_required", "requestState": given }))
        });
        for (method, params, _) in asking() {
            let first = alice.ask(method, params.clone()).await;
            assert_eq!(first["result"]["requestState"], state, "{first}");
            scripted.forget();
            let refused = alice.ask(method, next(&params, &state)).await;
            assert!(refused.to_string().contains("requestState"), "{refused}");
            assert_eq!(scripted.seen().len(), 0);
        }
    }
}
