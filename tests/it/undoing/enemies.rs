//! Agents that want their calls to stay, and tool servers that lie, ask, or give what is no id: nothing
//! is taken back that was not meant, nothing twice, and what is not known is said so.

use super::{RITA, UndoStage, decision, done, failed, name_of, policy};
use crate::harness::agent::modern;
use crate::harness::scripted_server::{Reply, Seen, tool};
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
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

fn asks(state: &str) -> Reply {
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

/// The policy of the stage, with a check of the draft by `look`.
fn checked() -> String {
    let check =
        "verify: { tool: bank__look, arguments: { id: result#/id }, expect: { /status: gone } }";
    let plain = policy("ask: never");
    let checked = plain.replacen("of: action# }", &format!("of: action# }}, {check}"), 1);
    assert_ne!(checked, plain);
    checked
}

/// A server that does what takes back and says that it failed is not asked a second time where the contract
/// has a check.
#[tokio::test]
async fn a_lie_is_seen_by_the_check() {
    let stage = UndoStage::of(&checked()).await;
    let is_gone = AtomicBool::new(false);
    stage.scripted.answers(move |seen| {
        let status = if is_gone.load(Ordering::SeqCst) {
            "gone"
        } else {
            "draft"
        };
        match name_of(seen).as_str() {
            "bin" => {
                is_gone.store(true, Ordering::SeqCst);
                failed()
            }
            "look" => done(&json!({ "status": status })),
            _ => done(&json!({ "id": 7 })),
        }
    });
    let id = stage.made("draft", "k").await;
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 1 && said.contains("failed by"), "{said}");
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 1 && said.contains("gone already"), "{said}");
    assert_eq!(stage.sent("bin").len(), 1);
}

/// An undo that was made is told, though what it is checked with is taken away meanwhile.
#[tokio::test]
async fn what_was_made_is_told_without_its_check() {
    let stage = UndoStage::of(&checked()).await;
    let (release, held) = oneshot::channel();
    let held = Mutex::new(Some(held));
    stage.scripted.answers(move |seen| {
        let held = held.lock().unwrap().take_if(|_| name_of(seen) == "bin");
        held.map_or_else(
            || done(&json!({ "id": 7, "status": "draft" })),
            Reply::Later,
        )
    });
    let id = stage.made("draft", "k").await;
    let meanwhile = async {
        stage
            .scripted
            .sees("the undo", |seen| name_of(seen) == "bin")
            .await;
        let rest = ["draft", "bin"].map(tool).to_vec();
        stage.scripted.changes_tools(rest).await;
        until("the check is not listed any more", || async {
            let listed = stage.bot().tools().await;
            (!listed.iter().any(|name| name == "bank__look")).then_some(())
        })
        .await;
        assert!(release.send(done(&json!({}))).is_ok());
    };
    let body = json!({ "why": "a typo" });
    let ((status, report), ()) = tokio::join!(stage.asks(RITA, &id, &body), meanwhile);
    let told = (status, &report["state"], &report["verified"]);
    assert_eq!(told, (200, &json!("done"), &json!(false)), "{report}");
}

/// Nobody answers what a server asks in the middle of an undo: whether it took back is not known, it is not
/// sent again, and an operator says what became of it.
#[tokio::test]
async fn an_undo_that_is_asked_is_not_known() {
    let stage = UndoStage::new()
        .await
        .again(crate::harness::setup::Setup::open_sides)
        .await;
    stage.scripted.answers(|seen| match name_of(seen).as_str() {
        "bin" => asks("sure?"),
        _ => done(&json!({ "id": 1 })),
    });
    let id = stage.made("draft", "k").await;
    let mut by = String::new();
    for _ in 0..2 {
        let (code, said) = stage.undoes(&id).await;
        assert!(
            code == 1 && said.contains("it is not known whether"),
            "{said}"
        );
        let named = said.split("calls resolve ").nth(1);
        let named = named.and_then(|rest| rest.split([' ', '`', '\n']).next());
        by = named.unwrap_or_else(|| panic!("{said}")).to_owned();
    }
    assert_eq!(stage.sent("bin").len(), 1);
    let words = ["calls", "resolve", &by, "--not-applied", "--why", "seen"];
    let (code, said) = stage.runs("rita", &words).await;
    assert_eq!(code, 0, "{said}");
    stage.scripted.answers(|_| done(&json!({})));
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 0 && said.contains("taken back by"), "{said}");
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
    let state = first["result"]["requestState"].clone();
    assert!(state.is_string(), "{first}");
    let answer = round(&state).await.message();
    let id = decision(&answer)["action_id"].as_str().unwrap().to_owned();
    let before = stage.sent("draft").len();
    let (code, said) = stage.undoes(&id).await;
    assert_eq!(code, 0, "{said}");
    for state in [&state, &Value::Null] {
        let again = round(state).await;
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
    let owned = named.replacen(BIN, &BIN.replace("anyone", "{ tenant: /tenant }"), 1);
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
