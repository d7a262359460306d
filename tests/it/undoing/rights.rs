//! An agent that has several entries, with other roles each: an undo is made by the rights of the call, or of the
//! entry that asks, and never by another's (003-64).

use super::{RITA, UndoStage, decision, keyed, policy};
use crate::harness::agent::Agent;
use serde_json::{Value, json};

/// The senior entry is the first.
const CALLERS: &str =
    "  - { agent: bot, token: token-of-bot-the-senior, tenant: t_1, roles: [senior] }
  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1, roles: [junior] }";

/// Seniors bin; who has drafted may ask for that.
async fn stage() -> UndoStage {
    let plain = policy("ask: never");
    let asked = plain.replacen("of: action# }", "of: action# }, agent: true", 1);
    let any = "bank__bin: { purpose: A test., permission: anyone,";
    let shut = asked.replacen(
        any,
        "bank__bin: { purpose: A test., permission: { roles: [senior] },",
        1,
    );
    assert!(asked != plain && shut != asked);
    UndoStage::set(&shut, CALLERS, "").await
}

fn senior(stage: &UndoStage) -> Agent {
    stage.gate.agent().token("token-of-bot-the-senior")
}

async fn drafts(agent: &Agent) -> String {
    let call = keyed("draft", &json!({ "name": "a" }), "k");
    let made = agent.modern("tools/call", call).await.message();
    let id = decision(&made)["action_id"].as_str().map(str::to_owned);
    id.unwrap_or_else(|| panic!("{made}"))
}

/// The state and the code that the agent reads.
async fn asks(agent: &Agent, id: &str) -> (Value, Value) {
    let call = json!({ "name": "toolgate__undo", "arguments": { "action_id": id } });
    let answer = agent.modern("tools/call", call).await.message();
    let told = &answer["result"]["structuredContent"];
    (told["state"].clone(), told["code"].clone())
}

/// The junior's call is not taken back by the senior's rights, but where the senior asks.
#[tokio::test]
async fn a_juniors_undo_is_no_seniors() {
    let stage = stage().await;
    let id = drafts(&stage.bot()).await;
    let bin = keyed("bin", &json!({ "id": 7 }), "own");
    let own = stage.bot().modern("tools/call", bin).await.message();
    assert_eq!(decision(&own)["code"], "rbac_denied", "{own}");
    let refused = (json!("requested"), json!("rbac_denied"));
    assert_eq!(asks(&stage.bot(), &id).await, refused);
    let (_, report) = stage.asks(RITA, &id, &json!({ "why": "a typo" })).await;
    assert_eq!(report["code"], "rbac_denied", "{report}");
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    assert_eq!(asks(&senior(&stage), &id).await.0, json!("done"));
    assert_eq!(stage.sent("bin").len(), 1);
}

/// The senior's call is not taken back at the junior's word; at an operator's it is, by the rights of the call.
#[tokio::test]
async fn a_seniors_call_is_not_undone_by_a_junior() {
    let stage = stage().await;
    let id = drafts(&senior(&stage)).await;
    let refused = (json!("requested"), json!("rbac_denied"));
    assert_eq!(asks(&stage.bot(), &id).await, refused);
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 0 && said.contains("taken back by"), "{said}");
    assert_eq!(stage.sent("bin").len(), 1);
}
