//! The answers that are kept for the same call again, where `ledger.content` encrypts what is kept.

use super::contents::{ANSWERED_CANARY, SENT_CANARY, lies_in, staged, write_private};
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Reply, ScriptedServer};
use crate::harness::setup::Setup;
use serde_json::{Value, json};

/// Longer than what is kept beside its claim.
const LONG_ANSWER_BYTES: usize = 40_000;

const ONE: &str = "key: { file: one.key }";
const TWO: &str = "key: { file: two.key }";
const TWO_AND_ONE: &str = "key: { file: two.key }, previous: [ { file: one.key } ]";

/// A bank whose notes are answered with as much as their amount says, and whose answers are kept
/// encrypted with the key `one.key`.
async fn stage() -> (ScriptedServer, Gate) {
    let (server, setup) = staged("digest").await;
    server.answers(|seen| {
        let long = seen.body["params"]["arguments"]["amount"] == 2;
        let more = "x".repeat(if long { LONG_ANSWER_BYTES } else { 1 });
        let text = format!("{ANSWERED_CANARY} {more}");
        Reply::Result(
            json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" }),
        )
    });
    let setup = setup.more(&format!("ledger: {{ content: {{ {ONE} }} }}\n"));
    for (name, byte) in [("one.key", "1a"), ("two.key", "2b")] {
        write_private(&setup.directory().join(name), &byte.repeat(32));
    }
    (server, setup.start().await)
}

/// The same toolgate, with other keys.
fn rekeyed(setup: Setup, before: &str, after: &str) -> Setup {
    let content = |keys: &str| format!("content: {{ {keys} }}");
    setup.instead(&content(before), &content(after))
}

async fn note(agent: &Agent, amount: u64) -> Value {
    let arguments = json!({ "note": SENT_CANARY, "amount": amount });
    let meta = json!({ "dev.toolgate/idempotencyKey": format!("key {amount}") });
    let params = json!({ "name": "bank__note", "arguments": arguments, "_meta": meta });
    agent.ask("tools/call", params).await
}

fn text(answer: &Value) -> &str {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}"))
}

/// threat-model §3G G8: with a key the answers that are kept for the same call again, short
/// and long ones, lie in the open nowhere; the same call reads them all the same, also over a
/// restart and once another key has taken the place of theirs.
#[tokio::test]
async fn a_key_encrypts_kept_answers() {
    let (server, gate) = stage().await;
    let first = [note(&gate.agent(), 1).await, note(&gate.agent(), 2).await];
    let again = [note(&gate.agent(), 1).await, note(&gate.agent(), 2).await];
    let setup = gate.stop().await;
    let data = setup.directory().join("data");
    let files = std::fs::read_dir(data.join("results")).unwrap();
    assert_eq!(files.count(), 1, "the long one is a file");
    assert!(!lies_in(&data, ANSWERED_CANARY) && !lies_in(&data, SENT_CANARY));
    let gate = rekeyed(setup, ONE, TWO_AND_ONE).start().await;
    let later = [note(&gate.agent(), 1).await, note(&gate.agent(), 2).await];
    for answers in [&again, &later] {
        for (answer, first) in answers.iter().zip(&first) {
            assert!(text(first).starts_with(ANSWERED_CANARY));
            assert_eq!(text(answer), text(first));
            let decision = &answer["result"]["_meta"]["dev.toolgate/decision"];
            assert_eq!(decision["replayed"], true, "{answer}");
        }
    }
    assert_eq!(server.executions(), 2);
}

/// threat-model §3G G8: an answer whose key nobody has is not given, and its call does not run
/// again; others run.
#[tokio::test]
async fn without_its_key_a_kept_answer_is_not_given() {
    let (server, gate) = stage().await;
    for amount in [1, 2] {
        assert_eq!(code(&note(&gate.agent(), amount).await), None);
    }
    let gate = rekeyed(gate.stop().await, ONE, TWO).start().await;
    for amount in [1, 2] {
        let answer = note(&gate.agent(), amount).await;
        assert_eq!(code(&answer).as_deref(), Some("store_unavailable"));
    }
    assert_eq!(server.executions(), 2);
    assert!(gate.log().contains("which is not given"), "{}", gate.log());
    assert_eq!(code(&note(&gate.agent(), 3).await), None);
}

/// threat-model §3G G8: what an operator says that a call was answered with, while no toolgate runs,
/// is encrypted likewise.
#[tokio::test]
async fn what_an_operator_gives_is_encrypted() {
    let (server, gate) = stage().await;
    server.answers(|_| Reply::Status(502));
    let unknown = note(&gate.agent(), 1).await;
    assert_eq!(code(&unknown).as_deref(), Some("outcome_unknown"));
    let id = &unknown["result"]["_meta"]["dev.toolgate/decision"]["action_id"];
    let setup = gate.stop().await;
    let said = json!({ "content": [{ "type": "text", "text": ANSWERED_CANARY }] }).to_string();
    let resolve = ["calls", "resolve", id.as_str().unwrap(), "--applied"];
    let why = ["--why", "it is there", "--result", &said];
    let place = ["--config", "toolgate.yaml"];
    let (status, _, err) = run(&setup, &[&resolve[..], &why, &place].concat()).await;
    assert_eq!(status, 0, "{err}");
    assert!(!lies_in(&setup.directory().join("data"), ANSWERED_CANARY));
    let gate = setup.start().await;
    assert_eq!(text(&note(&gate.agent(), 1).await), ANSWERED_CANARY);
    assert_eq!(server.executions(), 1);
}
