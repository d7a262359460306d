//! Changes that are refused, with the reason, and nothing is sent.

use super::{editable, given};
use crate::harness::answer::code;
use crate::harness::hook_server::{HookReply, HookServer};
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::held_calls::{ANN, CALLERS, HoldingGate, OPERATORS, call, held};
use serde_json::json;

/// guarantees §7: what the contract does not name, what its rules or its schema refuse, what only an agent
/// may bring, and what is not theirs: the operator reads why, and the call waits as it was.
#[tokio::test]
async fn what_the_call_could_not_bring_is_refused() {
    let stage = HoldingGate::editing("").await;
    let id = held(&call(&stage.bot(), "pay", given(), "k").await);
    let before = stage.one(&id).await;
    for (who, change, why) in [
        (ANN, "/to=DE99", "does not let an operator change /to"),
        (ANN, "/amount=9", "does not let an operator change /amount"),
        (ANN, "/n/deep=9", "does not let an operator change /n/deep"),
        (ANN, "/n=500", "too_much"),
        (ANN, "/n=0", "/n"),
        (ANN, "/n=\"20\"", "/n"),
        (ANN, "/n=twenty", "no JSON"),
        (ANN, "/n=50", "nothing would be different"),
        (ANN, "/note=<secret_ref:token>", "reference to a secret"),
        ("bob", "/n=20", "expired or not found"),
        ("bot", "/n=20", "of the same name as its agent"),
    ] {
        let (status, said) = stage.edits(who, &id, change).await;
        assert!(status == 1 && said.contains(why), "{change}: {said}");
    }
    let long = format!("/note={}", "x".repeat(17_000));
    let (status, said) = stage.edits(ANN, &id, &long).await;
    assert!(status == 1 && said.contains("longer"), "{said}");
    assert_eq!(stage.one(&id).await, before);
    // Another tool of the same operators, whose contract lets nobody change anything.
    let other = held(&call(&stage.bot(), "send", json!({ "n": 1 }), "k").await);
    let (status, said) = stage.edits(ANN, &other, "/n=2").await;
    assert!(status == 1 && said.contains("does not let"), "{said}");
    assert_eq!(stage.scripted.executions(), 0);
}

/// guarantees §7: what is decided or over is changed by nobody, nor is it what runs then.
#[tokio::test]
async fn what_is_over_is_not_changed() {
    let stage = HoldingGate::editing(", approve_by: 8s").await;
    let pay = async |key: &str| call(&stage.bot(), "pay", given(), key).await;
    let id = held(&pay("k").await);
    stage.allows(&id).await;
    let gone = async |id: &str| {
        let (status, said) = stage.edits("eve", id, "/n=20").await;
        assert!(
            status == 1 && said.contains("expired or not found"),
            "{said}"
        );
    };
    gone(&id).await;
    assert_eq!(code(&pay("k").await), None);
    gone(&id).await;
    let late = held(&pay("k2").await);
    assert_eq!(stage.edits("eve", &late, "/n=20").await.0, 0);
    crate::harness::until("its time is over", || async {
        (stage.one(&late).await["state"] == "expired").then_some(())
    })
    .await;
    gone(&late).await;
    let answer = pay("k2").await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("approval_timeout"),
        "{answer}"
    );
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: hooks are asked about the call as it was changed, and have the last word: one that blocks
/// it, or would make something else of it, ends it unsent.
#[tokio::test]
async fn hooks_see_what_was_changed() {
    let hooks = HookServer::start().await;
    hooks.says(|told| match told.body["arguments"]["n"].as_u64() {
        Some(20) => HookReply::Json(json!({ "block": true, "reason": "not twenty" })),
        Some(30) => HookReply::Json(json!({ "arguments": { "n": 31 } })),
        _ => HookReply::Status(204),
    });
    let tools = ["pay", "slow", "free", "wipe", "send"].map(tool).to_vec();
    let scripted = ScriptedServer::start(Offers {
        tools,
        ..Offers::default()
    })
    .await;
    scripted.answers(|seen| {
        let text = seen.body["params"]["arguments"].to_string();
        Reply::Result(
            json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" }),
        )
    });
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .policy(&editable(""))
        .callers(CALLERS)
        .operators(OPERATORS)
        .more(&hooks.hooks(&[("one", "before", "bank__pay")], ""));
    let gate = setup.start().await;
    let stage = HoldingGate { scripted, gate };
    for (key, change, why) in [
        ("a", "/n=20", "not twenty"),
        ("b", "/n=30", "would change what a person has allowed"),
    ] {
        let arguments = json!({ "n": 50, "note": key });
        let pay = async || call(&stage.bot(), "pay", arguments.clone(), key).await;
        let id = held(&pay().await);
        assert_eq!(stage.edits(ANN, &id, change).await.0, 0);
        assert_eq!(stage.allows_as_is(ANN, &id).await.0, 0);
        let answer = pay().await;
        assert_eq!(code(&answer).as_deref(), Some("hook_blocked"), "{answer}");
        assert!(answer.to_string().contains(why), "{answer}");
    }
    assert_eq!(stage.scripted.executions(), 0);
}
