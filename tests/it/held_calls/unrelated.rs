//! Edits of `toolgate.yaml`: those that make a call another one void what was said of it, others do not
//! (guarantees §7).

use super::void::{rewrites, shown};
use super::{ANN, HoldingGate, call, held, policy};
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use serde_json::{Value, json};

const CONFIGURATION: &str = "toolgate.yaml";

async fn pays(agent: &Agent) -> Value {
    call(agent, "pay", json!({ "n": 1 }), "k").await
}

/// guarantees §7: neither where toolgate keeps its record, nor who else calls, nor a new token of the same agent
/// makes it another call; before the decision and after it.
#[tokio::test]
async fn an_edit_of_the_configuration_elsewhere_voids_nothing() {
    let stage = HoldingGate::new().await;
    let id = held(&pays(&stage.bot()).await);
    let edit = |text: &str| {
        let text = text.replace("token-of-the-agent-bot", "token-of-the-bot-anew");
        let cat = "token-of-the-agent-cat, roles: [clerk]";
        let text = text.replace("token-of-the-agent-cat", cat);
        format!("# A comment.\nledger: {{ keep: 80d }}\n{text}")
    };
    rewrites(&stage, CONFIGURATION, edit).await;
    let bot = stage.gate.agent().token("token-of-the-bot-anew");
    assert_eq!(held(&pays(&bot).await), id, "it still waits");
    stage.allows(&id).await;
    let slower = |text: &str| text.replace("url: ", "timeout: 50s, url: ");
    rewrites(&stage, CONFIGURATION, slower).await;
    let ran = pays(&bot).await;
    assert_eq!(code(&ran), None, "{ran}");
    assert_eq!(stage.scripted.executions(), 1);
}

/// guarantees §7: what the configuration says of the agent, and of the server that is asked, is part of what was
/// allowed.
#[tokio::test]
async fn an_edit_of_its_server_or_agent_voids_a_hold() {
    for (from, to) in [
        (
            "token-of-the-agent-bot",
            "token-of-the-agent-bot, roles: [clerk]",
        ),
        ("url: ", "headers: { x-account: other }, url: "),
    ] {
        let stage = HoldingGate::new().await;
        let id = held(&pays(&stage.bot()).await);
        stage.allows(&id).await;
        rewrites(&stage, CONFIGURATION, |text| text.replace(from, to)).await;
        let void = shown(&stage, &id).await;
        assert_eq!(void["state"], "void", "{to}: {void}");
        let why = void["void"].as_str().unwrap();
        assert!(why.contains("the tool or its agent has changed"), "{void}");
        assert_ne!(
            held(&pays(&stage.bot()).await),
            id,
            "{to}: it is asked anew"
        );
        assert_eq!(stage.scripted.executions(), 0, "{to}");
    }
}

/// guarantees §7: a standing grant is bound to the same, and outlives edits of anything else.
#[tokio::test]
async fn a_grant_outlives_edits_of_something_else() {
    let stage = HoldingGate::with(&policy(", ask: on-miss"), "enforce").await;
    let words = [
        "grants",
        "add",
        "--tool",
        "bank__pay",
        "--agent",
        "bot",
        "--tenant",
        "t_1",
        "--at-most",
        "/n=5",
        "--why",
        "every day",
    ];
    let (status, said) = stage.says(ANN, &words).await;
    assert_eq!(status, 0, "{said}");
    let elsewhere = |text: &str| format!("ledger: {{ keep: 80d }}\n{text}");
    rewrites(&stage, CONFIGURATION, elsewhere).await;
    let covered = pays(&stage.bot()).await;
    assert_eq!(code(&covered), None, "{covered}");
    assert_eq!(stage.scripted.executions(), 1);
    let roles = |text: &str| {
        let bot = "token-of-the-agent-bot, roles: [clerk]";
        text.replace("token-of-the-agent-bot", bot)
    };
    rewrites(&stage, CONFIGURATION, roles).await;
    held(&call(&stage.bot(), "pay", json!({ "n": 2 }), "k2").await);
    assert_eq!(stage.scripted.executions(), 1);
}
