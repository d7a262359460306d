//! An incident that opens while many calls run: each is answered, and none begins after it.

use crate::harness::agent::modern;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use crate::incidents::{CALLERS, CLERK, OPERATORS, ORDER, order, policy, says};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// Calls at once …
const CALLS: u32 = 100;
/// … in so many sessions, of which each has one call on its way.
const SESSIONS: u32 = 10;

/// Orders something of its own, as the `nth` call.
async fn places(gate: &Gate, nth: u32) -> Value {
    let mut wanted = order(1);
    wanted["business_id"] = json!(format!("order-{nth}"));
    let mut message = modern("tools/call", json!({ "name": ORDER, "arguments": wanted }));
    message["id"] = json!(nth + 1);
    let meta = &mut message["params"]["_meta"];
    meta["dev.toolgate/idempotencyKey"] = json!(format!("key-{nth}"));
    meta["dev.toolgate/session"] = json!(format!("session-{}", nth % SESSIONS));
    gate.agent().token(CLERK).answered(&message).await
}

fn ran(answer: &Value) -> bool {
    answer["result"].is_object() && answer["result"]["isError"] != true
}

/// 003-41: what has left is answered with its result, what has not is refused, and nothing is lost between the two.
#[tokio::test]
async fn a_freeze_under_load_answers_each_call() {
    let server = ScriptedServer::with(vec![tool("create_order")]).await;
    let held: Arc<Mutex<Vec<oneshot::Sender<Reply>>>> = Arc::default();
    let keep = held.clone();
    server.answers(move |_: &Seen| {
        let (release, late) = oneshot::channel();
        keep.lock().unwrap().push(release);
        Reply::Later(late)
    });
    let setup = Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", server.url()))
        .callers(CALLERS)
        .operators(OPERATORS)
        .policy(&policy(100))
        .unwatched();
    let gate = setup.start().await;
    let load = join_all((0..CALLS).map(|nth| places(&gate, nth)));
    let freeze = async {
        until("each session has a call on its way", || async {
            (held.lock().unwrap().len() >= SESSIONS as usize).then_some(())
        })
        .await;
        let open = ["open", "--tool", "oracle__*", "--why", "too many orders"];
        let (code, told) = says(Ok(&gate), &open).await;
        assert_eq!(code, 0, "{told}");
        let begun = server.executions();
        for release in held.lock().unwrap().drain(..) {
            let said = json!({ "content": [], "resultType": "complete" });
            assert!(release.send(Reply::Result(said)).is_ok());
        }
        begun
    };
    let (answers, begun) = tokio::join!(load, freeze);
    assert_eq!(begun, SESSIONS as usize, "the others wait for their turn");
    assert_eq!(server.executions(), begun, "none begins after the freeze");
    let (done, refused): (Vec<&Value>, Vec<&Value>) = answers.iter().partition(|one| ran(one));
    assert_eq!(done.len(), begun, "what has left is answered");
    assert_eq!(refused.len(), CALLS as usize - begun);
    for answer in refused {
        let is_error = answer["error"].is_object() || answer["result"]["isError"] == true;
        assert!(is_error, "{answer}");
    }
    // All of it stands in the ledger, and nothing is left open.
    let entries = gate.entries(CALLS as usize).await;
    let sent = entries
        .iter()
        .filter(|entry| entry["outcome"] == "answered");
    assert_eq!(sent.count(), begun);
    let unknown = gate.metric("toolgate_unknown_outcomes").await;
    assert!(unknown.abs() < 0.1, "{unknown}");
}
