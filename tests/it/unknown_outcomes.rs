//! An unknown outcome ends by an operator's word when nothing else ends it (guarantees §4; 004-37):
//! what the operator says, with toolgate running and without, and what an agent that sends the call
//! again is told.

use crate::harness::agent::Agent;
use crate::harness::answer::Answer;
use crate::harness::gate::{Gate, runs};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};
use std::process::Output;

mod given_up;
mod probed;
mod resolved;

const ANN: &str = "token-of-ann-the-operator";
const PAY: &str = "oracle__pay";

/// A toolgate before a server that runs `pay` and hangs up, with these lines for operators.
async fn stage(more: &str) -> (ToolServer, Gate) {
    let server = Script::new()
        .tool("pay", Behaviour::HangsUp)
        .tool("held", Behaviour::Held)
        .start()
        .await;
    let setup = Setup::new()
        .server("oracle", &server)
        .contracts(&[(PAY, "write"), ("oracle__held", "write")]);
    (server, setup.operators(more).start().await)
}

fn tokens() -> String {
    format!(
        "tokens: [ {{ name: ann, token: \"{ANN}\", roles: [resolver] }}, {{ name: bob, token: \"token-of-bob-the-operator\" }} ]"
    )
}

fn decision(answer: &Answer) -> Value {
    answer.message()["result"]["_meta"]["dev.toolgate/decision"].clone()
}

/// Calls under `key`; the outcome is unknown. Gives the action id.
async fn unknown(agent: &Agent, key: &str) -> String {
    let answer = agent.modern_call(PAY, json!({ "key": key })).await;
    assert_eq!(answer.refusal(), "outcome_unknown", "{answer:?}");
    let again = agent.modern_call(PAY, json!({ "key": key })).await;
    let (first, again) = (decision(&answer), decision(&again));
    assert_eq!(
        (&again["code"], &again["claimed_by"]),
        (&json!("outcome_unknown"), &first["action_id"])
    );
    first["action_id"].as_str().unwrap().to_owned()
}

fn words(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

async fn calls(setup: &Setup, admin: Option<&str>, more: &[&str]) -> (i32, String, String) {
    let mut arguments = vec!["calls", "--config", "toolgate.yaml"];
    arguments.extend(admin.iter().flat_map(|admin| ["--admin", admin]));
    arguments.extend(more);
    let setup = admin.map_or_else(|| setup.clone(), |_| setup.operator("ann"));
    words(&setup.run(&arguments).await)
}

/// The three words an operator can say, near and far, and what the agent is told then; each is said
/// once only.
#[tokio::test]
async fn an_operator_ends_an_unknown_outcome() {
    let result =
        r#"{"content":[{"type":"text","text":"receipt 7"}],"structuredContent":{"receipt":7}}"#;
    for running in [true, false] {
        let (server, mut gate) = stage(&tokens()).await;
        let setup = gate.setup.clone();
        let agent = gate.agent();
        let mut ids = Vec::new();
        for key in ["applied", "given", "not-applied", "abandon"] {
            ids.push(unknown(&agent, key).await);
        }
        assert_eq!(server.executions().len(), 4);
        if !running {
            gate.terminate();
            gate.wait().await;
        }
        let door = gate.operators.to_string();
        let admin = running.then_some(door.as_str());
        are_listed(&setup, admin, &ids).await;
        let said: [(&str, &[&str], &str); 4] = [
            (&ids[0], &["--applied"], "completed"),
            (&ids[1], &["--applied", "--result", result], "completed"),
            (&ids[2], &["--not-applied"], "not_sent"),
            (&ids[3], &["--abandon"], "abandoned"),
        ];
        for (id, verdict, became) in said {
            let looked = ["resolve", id, "--why", "looked at the bank's page"];
            let resolve = [&looked, verdict].concat();
            let (code, out, err) = calls(&setup, admin, &resolve).await;
            assert!(
                code == 0 && out.starts_with(&format!("{became} by ")),
                "{out}{err}"
            );
            let (code, _, err) = calls(&setup, admin, &resolve).await;
            assert!(
                code == 1 && err.contains(&format!("has ended as `{became}`")),
                "{err}"
            );
        }
        let (code, listed, _) = calls(&setup, admin, &["list"]).await;
        assert_eq!(
            (code, listed.as_str()),
            (
                0,
                "nothing is open: no call is in flight, unknown or held\n"
            )
        );
        if !running {
            gate = setup.clone().start().await;
        }
        let agent = gate.agent();
        are_told_of_it(&agent).await;
        let abandoned = agent.modern_call(PAY, json!({ "key": "abandon" })).await;
        assert_eq!(abandoned.refusal(), "outcome_unknown");
        assert_eq!(server.executions().len(), 4);
        // What is proven not to have run runs when it is sent again.
        let sent = json!({ "key": "not-applied" });
        let sent = agent.modern_call(PAY, sent).await;
        assert_eq!(sent.refusal(), "outcome_unknown");
        assert_eq!(server.executions().len(), 5);
    }
}

/// Agents that send again what was applied are told so, with the result where there is one.
async fn are_told_of_it(agent: &Agent) {
    let applied = agent.modern_call(PAY, json!({ "key": "applied" })).await;
    assert!(
        applied
            .text()
            .contains("An operator has found that this call was carried out"),
        "{applied:?}"
    );
    let given = agent.modern_call(PAY, json!({ "key": "given" })).await;
    assert_eq!(
        given.message()["result"]["structuredContent"],
        json!({ "receipt": 7 }),
        "{given:?}"
    );
    for answer in [&applied, &given] {
        assert_eq!(
            (answer.refusal().as_str(), &decision(answer)["replayed"]),
            ("", &json!(true)),
            "{answer:?}"
        );
    }
}

/// What is unknown is listed, oldest first.
async fn are_listed(setup: &Setup, admin: Option<&str>, ids: &[String]) {
    let (code, listed, err) = calls(setup, admin, &["list", "--json", "--state", "unknown"]).await;
    assert_eq!(code, 0, "{err}");
    let open: Vec<Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let found: Vec<&str> = open
        .iter()
        .map(|call| call["action_id"].as_str().unwrap())
        .collect();
    assert_eq!(found, ids, "oldest first: {listed}");
    assert_eq!(
        (&open[0]["agent"], &open[0]["tool"]),
        (&json!("anonymous"), &json!(PAY))
    );
}

/// While the call is on its way nobody can say that its outcome is unknown.
#[tokio::test]
async fn a_call_in_flight_is_not_an_operators_to_end() {
    let (server, gate) = stage(&tokens()).await;
    let agent = gate.agent();
    let running = tokio::spawn(async move {
        agent
            .modern_call("oracle__held", json!({ "key": "k" }))
            .await
    });
    until("the tool runs", || async {
        (server.executions().len() == 1).then_some(())
    })
    .await;
    let (setup, door) = (gate.setup.clone(), gate.operators.to_string());
    let (_, listed, _) = calls(&setup, Some(&door), &["list", "--json"]).await;
    let call: Value = serde_json::from_str(listed.trim()).unwrap();
    assert_eq!(call["state"], "dispatching");
    let id = call["action_id"].as_str().unwrap();
    let (code, _, err) = calls(
        &setup,
        Some(&door),
        &["resolve", id, "--abandon", "--why", "impatience"],
    )
    .await;
    assert!(code == 1 && err.contains("is in flight"), "{err}");
    server.release();
    assert_eq!(running.await.unwrap().refusal(), "");
    let nobody = "0198f1a2-0000-7000-8000-000000000000";
    let (code, _, err) = calls(
        &setup,
        Some(&door),
        &["resolve", nobody, "--abandon", "--why", "w"],
    )
    .await;
    assert!(
        code == 1 && err.contains("holds an idempotency key"),
        "{err}"
    );
}

/// Only an operator with a token may look or say anything at the door, and what is said badly
/// changes nothing.
#[tokio::test]
async fn without_operators_the_door_is_shut() {
    let (_server, gate) = stage("").await;
    let id = unknown(&gate.agent(), "k").await;
    let resolve = format!("/api/calls/{id}/resolve");
    let body = r#"{"verdict":"abandon","why":"looked"}"#;
    for (method, path) in [("GET", "/api/calls"), ("POST", resolve.as_str())] {
        let answer = gate
            .asks_operators(
                (method, path),
                &[("Authorization", &format!("Bearer {ANN}"))],
                body,
            )
            .await;
        assert!(
            answer.status == 403 && answer.text().contains("admin.tokens"),
            "{answer:?}"
        );
    }
    let (code, _, err) = listed_through(&gate).await;
    assert!(code == 1 && err.contains("admin.tokens"), "{err}");
}

const NO_VERDICTS: [&str; 11] = [
    "",
    "[]",
    r#"["abandon","w"]"#,
    "{}",
    r#"{"verdict":"abandon"}"#,
    r#"{"verdict":"abandon","why":" "}"#,
    r#"{"verdict":"perhaps","why":"w"}"#,
    r#"{"verdict":"abandon","why":"w","result":{"content":[]}}"#,
    r#"{"verdict":"applied","why":"w","result":{"text":"no content"}}"#,
    r#"{"verdict":"applied","why":"w","who":"somebody else"}"#,
    r#"{"verdict":"abandon","verdict":"applied","why":"w"}"#,
];

async fn resolves(gate: &Gate, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    gate.asks_operators(("POST", path), headers, body).await
}

async fn listed_through(gate: &Gate) -> (i32, String, String) {
    let door = gate.operators;
    let line = format!("calls --config toolgate.yaml --admin {door} list");
    runs(&gate.setup, &line).await
}

#[tokio::test]
async fn the_door_knows_its_operators() {
    let body = r#"{"verdict":"abandon","why":"looked"}"#;
    let (_server, gate) = stage(&tokens()).await;
    let id = unknown(&gate.agent(), "k").await;
    let resolve = format!("/api/calls/{id}/resolve");
    let good = format!("Bearer {ANN}");
    let json_body = ("Content-Type", "application/json");
    let proven = [("Authorization", good.as_str()), json_body];
    for wrong in [
        "",
        "Bearer ",
        "Bearer token-of-ann-the-operatox",
        ANN,
        "Basic YTpi",
    ] {
        let answer = resolves(
            &gate,
            &resolve,
            &[("Authorization", wrong), json_body],
            body,
        )
        .await;
        assert_eq!(answer.status, 401, "{wrong}: {answer:?}");
    }
    let answer = resolves(&gate, &resolve, &proven[..1], body).await;
    assert_eq!(answer.status, 415);
    let page = [
        ("Authorization", good.as_str()),
        json_body,
        ("Origin", "http://127.0.0.1"),
    ];
    assert_eq!(resolves(&gate, &resolve, &page, body).await.status, 403);
    for wrong in NO_VERDICTS {
        let answer = resolves(&gate, &resolve, &proven, wrong).await;
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
    }
    let (code, _, err) = listed_through(&gate).await;
    assert!(code == 1 && err.contains("OPERATOR_TOKEN"), "{err}");
    let answer = resolves(&gate, &resolve, &proven, body).await;
    assert_eq!(
        (answer.status, &answer.message()["who"]),
        (200, &json!("ann"))
    );
}

/// Waits until a series has a value.
async fn shows(gate: &Gate, series: &str, value: &str) {
    until(&format!("{series} {value}"), || async {
        let text = gate.operators("/metrics").await;
        text.lines()
            .any(|line| {
                line.strip_prefix(series)
                    .is_some_and(|rest| rest.trim() == value)
            })
            .then_some(())
    })
    .await;
}

/// 004-47, 004-48, 004-50: what is kept from running twice is counted; so is what nobody knows,
/// until an operator does.
#[tokio::test]
async fn what_operators_watch_is_counted() {
    let (server, gate) = stage(&tokens()).await;
    let agent = gate.agent();
    server.release();
    for _ in 0..3 {
        assert_eq!(
            agent
                .modern_call("oracle__held", json!({ "key": "k" }))
                .await
                .refusal(),
            ""
        );
    }
    let id = unknown(&agent, "k").await;
    let counts = [
        ("toolgate_duplicates_suppressed_total", "3"),
        ("toolgate_replays_total", "2"),
        ("toolgate_first_arrival_failures_total", "1"),
        ("toolgate_side_effects_total", "2"),
        ("toolgate_duplicates_executed_total", "0"),
        ("toolgate_unknown_outcomes", "1"),
    ];
    for (series, value) in counts {
        shows(&gate, series, value).await;
    }
    let text = gate.operators("/metrics").await;
    let syncs = text
        .lines()
        .find_map(|line| line.strip_prefix("toolgate_journal_sync_seconds_count "));
    assert!(
        syncs.is_some_and(|syncs| syncs.parse::<u64>().unwrap() >= 4),
        "two for each side effect: {syncs:?}"
    );
    let door = gate.operators.to_string();
    let resolve = [
        "resolve",
        id.as_str(),
        "--abandon",
        "--why",
        "the bank does not know either",
    ];
    assert_eq!(calls(&gate.setup, Some(&door), &resolve).await.0, 0);
    shows(&gate, "toolgate_unknown_outcomes", "0").await;
    shows(&gate, "toolgate_unknown_outcome_age_seconds", "0").await;
}

/// 004-03, 004-04: side effects with one trace, tool and arguments are seen at once where nothing
/// keeps them apart.
#[tokio::test]
async fn an_incident_of_duplicates_is_seen_within_the_minute() {
    let server = Script::new().tool("pay", Behaviour::Answers).start().await;
    let gate = Setup::new()
        .server("oracle", &server)
        .contracts(&[(PAY, "write")])
        .mode("observe")
        .start()
        .await;
    let agent = gate.agent();
    for trace in [
        "0af7651916cd43dd8448eb211c80319c",
        "0af7651916cd43dd8448eb211c80319d",
    ] {
        for _ in 0..3 {
            let params = json!({ "name": PAY, "arguments": { "amount": 1 } });
            let mut message = crate::harness::agent::modern("tools/call", params);
            message["params"]["_meta"]["traceparent"] =
                json!(format!("00-{trace}-b7ad6b7169203331-01"));
            let answer = agent.sends(&message).await;
            assert!(answer.is_done(), "{answer:?}");
        }
    }
    assert_eq!(server.executions().len(), 6);
    shows(&gate, "toolgate_side_effects_total", "6").await;
    shows(&gate, "toolgate_duplicates_executed_total", "4").await;
}

#[tokio::test]
async fn a_resolution_is_said_in_full() {
    let setup = Setup::new().mode("observe");
    let id = "0198f1a2-0000-7000-8000-000000000000";
    for wrong in [
        &["resolve", id, "--why", "w"][..],
        &["resolve", id, "--applied"],
        &["resolve", id, "--applied", "--abandon", "--why", "w"],
        &["resolve", id, "--abandon", "--why", "w", "--result", "{}"],
        &["resolve", "019", "--abandon", "--why", "w"],
        &["list", "--state", "sleeping"],
    ] {
        let (code, _, err) = words(&setup.run(&[&["calls"], wrong].concat()).await);
        assert_eq!(code, 2, "{wrong:?}: {err}");
    }
    setup.write();
    let (code, _, err) = calls(&setup, None, &["list"]).await;
    assert!(code == 1 && err.contains("there is no journal in"), "{err}");
    assert!(!setup.directory().join("data").exists(), "nothing is made");
}
