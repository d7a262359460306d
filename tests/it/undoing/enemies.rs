//! Agents that want their calls to stay, and tool servers that ask, or give what is no id: nothing is taken
//! back that was not meant, nothing twice, and what is not known is said so.

use super::{UndoStage, decision, done, name_of, policy};
use crate::harness::agent::modern;
use crate::harness::scripted_server::{Reply, Seen};
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::Mutex;
use tokio::sync::oneshot;

/// How the contract of `bin` begins.
const BIN: &str = "bank__bin: { purpose: A test., permission: anyone";

/// An answer whose structured result is written so.
fn written(seen: &Seen, structured: &str) -> Reply {
    let id = &seen.body["id"];
    let text = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[],\"resultType\":\"complete\",\"structuredContent\":{structured}}}}}"
    );
    Reply::Said(200, "application/json", text)
}

/// A question.
pub(super) fn asks(state: &str) -> Reply {
    Reply::Result(json!({ "resultType": "input_required", "requestState": state }))
}

/// An agent that uses up, plans or names what it likes does not reach the place of an undo.
#[tokio::test]
async fn an_agent_does_not_stop_an_undo() {
    let limited = policy("ask: never") + "budgets: { global: { max_tool_calls: 3 } }\n";
    let stage = UndoStage::of(&limited).await;
    let id = stage.made("draft", "k").await;
    let place = format!("undo of {id}");
    for nth in 0..5 {
        let meta = json!({
            "dev.toolgate/idempotencyKey": format!("n{nth}"), "dev.toolgate/task": place,
            "dev.toolgate/session": place, "dev.toolgate/state": if nth == 0 { "plan" } else { "execute" },
        });
        let params = json!({ "name": "bank__note", "arguments": { "name": nth }, "_meta": meta });
        stage.bot().modern("tools/call", params).await;
    }
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 0 && said.contains("taken back by"), "{said}");
}

/// A part of a result that is nothing, or is read in two ways, is no id; one of 64 bits is exact, and one that
/// reads like a place is a text.
#[tokio::test]
async fn what_is_no_id_takes_nothing_back() {
    let stage = UndoStage::new().await;
    stage.scripted.answers(|seen| {
        let structured = seen.body["params"]["arguments"]["name"].as_str();
        if name_of(seen) == "draft" {
            written(seen, structured.unwrap())
        } else {
            done(&json!({}))
        }
    });
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(9_000));
    for structured in [
        r#"{"id":null}"#,
        r#"{"id":18446744073709551616}"#,
        r#"{"id":{"of":[-9223372036854775809]}}"#,
        r#"{"id":1,"id":2}"#,
        r#"[{"id":1}]"#,
        r#""id""#,
        long.as_str(),
    ] {
        // An undo has nothing of what is longer than it may keep.
        let key = &structured[..structured.len().min(64)];
        let answer = stage
            .calls("draft", json!({ "name": structured }), key)
            .await;
        let id = decision(&answer)["action_id"].as_str().map(str::to_owned);
        let id = id.unwrap_or_else(|| panic!("{structured}: {answer}"));
        let (code, said) = stage.undoes(&id).await;
        assert_eq!(code, 1, "{structured}: {said}");
        assert_eq!(stage.sent("bin"), Vec::<Value>::new(), "{structured}");
    }
    for (nth, (structured, sent)) in [
        (
            r#"{"id":9007199254740993}"#,
            json!(9_007_199_254_740_993_u64),
        ),
        (r#"{"id":18446744073709551615}"#, json!(u64::MAX)),
        (r#"{"id":"action#"}"#, json!("action#")),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = stage
            .calls("draft", json!({ "name": structured }), structured)
            .await;
        let id = decision(&answer)["action_id"].as_str().unwrap().to_owned();
        let (code, said) = stage.undoes(&id).await;
        assert_eq!((code, &stage.sent("bin")[nth]["id"]), (0, &sent), "{said}");
    }
}

/// A call whose server has asked on the way cannot be told from its rounds: once it was taken back, none of
/// them runs, and none is answered as if it had not been.
#[tokio::test]
async fn an_undone_call_with_rounds_keeps_its_key() {
    let stage = UndoStage::new()
        .await
        .again(crate::harness::setup::Setup::open_sides)
        .await;
    stage.scripted.answers(|seen| {
        let params = &seen.body["params"];
        match name_of(seen).as_str() {
            "draft" if params["inputResponses"].is_null() => asks("one"),
            _ => done(&json!({ "id": 1 })),
        }
    });
    let round = async |state: &Value| {
        let meta = json!({ "dev.toolgate/idempotencyKey": "k" });
        let mut params =
            json!({ "name": "bank__draft", "arguments": { "name": "a" }, "_meta": meta });
        if state.is_string() {
            params["requestState"] = state.clone();
            params["inputResponses"] = json!({ "sure": { "action": "accept", "content": {} } });
        }
        stage.bot().sends(&modern("tools/call", params)).await
    };
    let first = round(&Value::Null).await.message();
    let question = first["result"]["requestState"].clone();
    assert!(question.is_string(), "{first}");
    let answer = round(&question).await.message();
    let id = decision(&answer)["action_id"].as_str().unwrap().to_owned();
    let before = stage.sent("draft").len();
    let (code, said) = stage.undoes(&id).await;
    assert_eq!(code, 0, "{said}");
    for said in [&question, &Value::Null] {
        let again = round(said).await;
        assert_eq!(again.refusal(), "idempotency_key_expired", "{again:?}");
    }
    assert_eq!(stage.sent("draft").len(), before);
}

/// What was held for a call of unknown outcome is told that it was done, until that is taken back: then it
/// is a new call.
#[tokio::test]
async fn what_was_held_for_an_undone_call_runs() {
    let stage = UndoStage::new().await;
    let stage = stage
        .again(|setup| setup.server_member("timeout: 1s"))
        .await;
    let (release, late) = oneshot::channel();
    let late = Mutex::new(Some(late));
    stage.scripted.answers(move |seen| {
        let late = late.lock().unwrap().take_if(|_| name_of(seen) == "draft");
        late.map_or_else(|| done(&json!({ "id": 2 })), Reply::Later)
    });
    let draft = async |key: &str| stage.calls("draft", json!({ "name": "a" }), key).await;
    let first = decision(&draft("k1").await);
    assert_eq!(first["code"], "outcome_unknown", "{first}");
    let held = decision(&draft("k2").await);
    assert_eq!(held["code"], "outcome_unknown", "{held}");
    assert!(release.send(done(&json!({ "id": 1 }))).is_ok());
    let id = first["action_id"].as_str().unwrap();
    until("the late answer", || async {
        (stage.undoes(id).await.0 == 0).then_some(())
    })
    .await;
    let ran = draft("k2").await;
    assert_eq!(decision(&ran)["outcome"], "answered", "{ran}");
    assert_eq!(decision(&ran)["replayed"], Value::Null, "{ran}");
    assert_eq!(ran["result"]["structuredContent"]["id"], 2, "{ran}");
    assert_eq!(stage.sent("draft").len(), 2);
}

/// Two tenants' agents of one name: a call is taken back for the one whose it was.
#[tokio::test]
async fn each_tenants_call_is_taken_back_for_it() {
    let plain = policy("ask: never");
    let named = plain.replacen(
        "of: action# }",
        "of: action#, tenant: arguments#/tenant }",
        1,
    );
    let owned = named.replacen(
        BIN,
        &BIN.replace(
            "anyone",
            "{ tenant: /tenant }, arguments: { additionalProperties: true }",
        ),
        1,
    );
    assert!(plain != named && named != owned);
    let callers = "  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1 }\n  \
                   - { agent: bot, token: token-of-the-other-bot, tenant: t_2 }";
    let stage = UndoStage::of(&owned)
        .await
        .again(|setup| setup.callers(callers))
        .await;
    for (token, tenant) in [
        ("token-of-the-agent-bot", "t_1"),
        ("token-of-the-other-bot", "t_2"),
    ] {
        let meta = json!({ "dev.toolgate/idempotencyKey": "k" });
        let arguments = json!({ "name": "a", "tenant": tenant });
        let params = json!({ "name": "bank__draft", "arguments": arguments, "_meta": meta });
        let agent = stage.gate.agent().token(token);
        let answer = agent.modern("tools/call", params).await.message();
        let id = decision(&answer)["action_id"].as_str().unwrap().to_owned();
        let (code, said) = stage.undoes(&id).await;
        assert_eq!(code, 0, "{tenant}: {said}");
        assert_eq!(stage.row_of(&id).await["tenant_id"], tenant);
    }
    assert_eq!(stage.sent("bin").len(), 2);
}

/// The contract of what takes back counts as it stands now, whatever it was when the call was made.
#[tokio::test]
async fn the_contract_counts_as_it_stands() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let plain = policy("ask: never");
    let other = plain.replacen(BIN, &BIN.replace("anyone", "{ roles: [boss] }"), 1);
    assert_ne!(other, plain);
    let closed = stage.again(|setup| setup.policy(&other).unwatched()).await;
    let (code, said) = closed.undoes(&id).await;
    assert!(code == 1 && said.contains("not sent"), "{said}");
    assert_eq!(closed.sent("bin"), Vec::<Value>::new());
    let open = closed.again(|setup| setup.policy(&plain).unwatched()).await;
    let (code, said) = open.undoes(&id).await;
    assert!(code == 0 && said.contains("taken back by"), "{said}");
}

/// A task is not said to be taken back while of one of its calls nobody knows, or while it has done more than
/// it names.
#[tokio::test]
async fn a_task_is_not_taken_back_in_part_in_silence() {
    let stage = UndoStage::new().await;
    stage.scripted.answers(|seen| {
        let is_lost = seen.body["params"]["arguments"]["name"] == "lost";
        if is_lost && name_of(seen) == "draft" {
            return Reply::Status(503);
        }
        done(&json!({ "id": 1 }))
    });
    let draft = async |key: &str| {
        let meta = json!({ "dev.toolgate/idempotencyKey": key, "dev.toolgate/task": "t" });
        let params = json!({ "name": "bank__draft", "arguments": { "name": key }, "_meta": meta });
        decision(&stage.bot().modern("tools/call", params).await.message())
    };
    draft("a").await;
    let lost = draft("lost").await;
    assert_eq!(lost["code"], "outcome_unknown", "{lost}");
    draft("b").await;
    let task = stage.task().await;
    let undo = ["undo", "--task", &task, "--why", "it went astray"];
    let (code, said) = stage.runs("rita", &undo).await;
    assert!(code == 1 && said.contains("calls resolve"), "{said}");
    assert_eq!(stage.sent("bin").len(), 2, "what is known is: {said}");
    let id = lost["action_id"].as_str().unwrap();
    let words = ["calls", "resolve", id, "--not-applied", "--why", "seen"];
    assert_eq!(stage.runs("rita", &words).await.0, 0);
    let (code, said) = stage.runs("rita", &undo).await;
    assert_eq!((code, stage.sent("bin").len()), (0, 2), "{said}");
    for nth in 0..32 {
        draft(&format!("more {nth}")).await;
    }
    let (code, said) = stage.runs("rita", &undo).await;
    assert!(code == 1 && said.contains("stopped at"), "{said}");
    assert_eq!(stage.sent("bin").len(), 34);
}
