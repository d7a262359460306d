//! What nobody may read stays unread between an agent of one era and a server of the other: what a
//! contract redacts, and values of secrets, in questions as in answers (threat-model §3F).

use super::crossings::{ALICE, AskedCall, BOTH, Crossing, ELICITED, Towards, call, next_round};
use super::last;
use crate::harness::answer::code;
use crate::harness::replay::stored;
use crate::harness::scripted_server::{Reply, event};
use crate::secrets::{CANARY, judge};
use serde_json::{Value, json};

const REFERENCE: &str = "<secret_ref:bank_token>";
const NUMBER: &str = "tel 5550199";

const POLICY: &str = "
contracts:
  s__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  s__pay:
    purpose: test
    actions: [write]
    permission: anyone
    side_effect: { writes: test, rollback: { tool: s__undo } }
    idempotency: { derive: arguments }
    secrets: [/token]
    results: { redact: [ { pattern: 'tel [0-9]+', with: number } ] }
  s__read: { purpose: test, actions: [read], secrets: [] }
  s__hid: { purpose: test, actions: [read], secrets: [] }
";

const SECRETS: &str = "secrets: { bank_token: { env: BANK_TOKEN, for: [ { server: s, tool: pay, pointer: /token } ] } }";

/// Says `said` in the message, and `field` of a field.
fn question(said: &str, field: &str) -> Value {
    let field = json!({ "type": "string", "title": field, "description": format!("of {field}") });
    json!({ "message": format!("is it {said}?"), "requestedSchema": { "type": "object", "properties": { "x": field } } })
}

fn notes(said: &str) -> [Value; 2] {
    let progress = json!({ "progressToken": "p", "progress": 1, "message": said });
    let log = json!({ "level": "error", "logger": said, "data": { "x": [said] } });
    [
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress }),
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": log }),
    ]
}

fn accepts(said: &str) -> Value {
    json!({ "action": "accept", "content": { "x": said } })
}

/// What a contract takes out of a tool's words is taken out of its questions, its log, its progress
/// and its result; what the agent answers is the agent's, and arrives as it was said.
#[tokio::test]
async fn what_is_redacted_is_redacted_across() {
    for towards in BOTH {
        let crossing = Crossing::new(towards, POLICY, "").await;
        let agent = crossing.agent(ALICE).await;
        let mut call = call(&agent, "pay", json!({ "n": 1 }));
        call["params"]["_meta"]["progressToken"] = json!("p");
        let (question, reply) = (question(NUMBER, NUMBER), accepts(NUMBER));
        let asked = crossing
            .asked((&agent, &call), &question, &reply, &notes(NUMBER))
            .await;
        let AskedCall {
            heard,
            question,
            said,
            last,
        } = asked;
        assert_eq!(heard.len(), 2, "{towards:?}: {heard:#?}");
        for text in [json!(heard), question, last] {
            let text = text.to_string();
            assert!(!text.contains("5550199"), "{towards:?}: {text}");
        }
        assert!(json!(heard).to_string().contains("number"), "{heard:?}");
        assert_eq!(said, reply, "{towards:?}");

        let words = json!({ "content": [{ "type": "text", "text": format!("paid, {NUMBER}") }] });
        super::crossings::finishes(&crossing.server, towards, &words);
        for _ in 0..2 {
            let answer = stored(&agent.call("pay", json!({ "n": 2 })).await);
            let text = &answer["result"]["content"][0]["text"];
            assert_eq!(text, "paid, number", "{towards:?}: {answer}");
        }
    }
}

/// The value of a secret arrives at the server of the other era, in each round, and nothing that the
/// server says of it reaches the agent: not in a question, a log, progress, a result or an error.
#[tokio::test]
async fn a_secret_is_its_servers_across() {
    for towards in BOTH {
        let crossing = Crossing::new(towards, POLICY, SECRETS).await;
        let agent = crossing.agent(ALICE).await;
        let arguments = json!({ "n": 1, "token": REFERENCE });
        let mut call = call(&agent, "pay", arguments.clone());
        call["params"]["_meta"]["progressToken"] = json!("p");
        let asked = crossing
            .asked(
                (&agent, &call),
                &question(CANARY, "x"),
                &accepts("no"),
                &notes(CANARY),
            )
            .await;
        let sent = crossing.server.seen().into_iter();
        let sent: Vec<_> = sent.filter(|seen| seen.method() == "tools/call").collect();
        assert_eq!(sent.len(), if towards == Towards::Modern { 2 } else { 1 });
        for seen in sent {
            assert_eq!(seen.body["params"]["arguments"]["token"], CANARY);
        }
        let AskedCall {
            heard,
            question,
            last,
            ..
        } = asked;
        assert_eq!(heard.len(), 2, "{towards:?}: {heard:#?}");
        for text in [json!(heard), question.clone(), last] {
            judge(&format!("{towards:?}"), text.to_string().as_bytes());
        }
        assert!(question.to_string().contains("bank_token"), "{question}");

        let error = json!({ "code": -32000, "message": CANARY, "data": { "x": CANARY } });
        let message = json!({ "jsonrpc": "2.0", "error": error });
        crossing
            .server
            .answers(move |_| Reply::Message(message.clone()));
        let failed = agent
            .call("pay", json!({ "n": 2, "token": REFERENCE }))
            .await;
        judge("an error", failed.to_string().as_bytes());
        let entries = crossing.gate.entries(2).await;
        judge("the ledger", json!(entries).to_string().as_bytes());
    }
}

/// The enemy: an agent whose answer to a question names a secret. It gets none: the round of a modern
/// agent is refused, and the call that waits is not lost by that; the answer of a legacy agent is
/// handed on as it was written.
#[tokio::test]
async fn an_answer_fetches_no_secret() {
    let crossing = Crossing::new(Towards::Legacy, POLICY, SECRETS).await;
    let agent = crossing.agent(ALICE).await;
    let says = crossing.server.holds("tools/call");
    let asks =
        json!({ "jsonrpc": "2.0", "id": "q-1", "method": ELICITED, "params": question("x", "x") });
    says.send(event(&asks)).await.unwrap();
    let first = call(&agent, "pay", json!({ "n": 1, "token": REFERENCE }));
    let asked = agent.answered(&first).await;
    let greedy = next_round(&agent, &first, &asked, &accepts(REFERENCE));
    let refused = agent.answered(&greedy).await;
    assert_eq!(
        code(&refused).as_deref(),
        Some("secret_denied"),
        "{refused}"
    );
    let is_answer = |seen: &super::Seen| seen.body["id"] == "q-1" && seen.method().is_empty();
    assert!(!crossing.server.seen().iter().any(is_answer));
    let answering = async {
        let said = crossing.server.sees("the agent's answer", is_answer).await;
        assert_eq!(said.body["result"], accepts("modest"));
        let id = last(&crossing.server, "tools/call").body["id"].clone();
        let done = json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [] } });
        says.send(event(&done)).await.unwrap();
    };
    let modest = next_round(&agent, &first, &asked, &accepts("modest"));
    let (done, ()) = tokio::join!(agent.answered(&modest), answering);
    assert_eq!(code(&done), None, "{done}");
    assert_eq!(crossing.server.executions(), 1);

    let crossing = Crossing::new(Towards::Modern, POLICY, SECRETS).await;
    let agent = crossing.agent(ALICE).await;
    let first = call(&agent, "pay", json!({ "n": 1, "token": REFERENCE }));
    let AskedCall { said, last, .. } = crossing
        .asked(
            (&agent, &first),
            &question("x", "x"),
            &accepts(REFERENCE),
            &[],
        )
        .await;
    assert_eq!(code(&last), None, "{last}");
    assert_eq!(said, accepts(REFERENCE), "the words, not the value");
}
