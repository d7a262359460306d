//! What operators see of held calls, and what their words do.

use super::super::memory::MemoryStore;
use super::super::state::command::Intent;
use super::super::state::tests::{ask, intent};
use super::*;
use crate::model::clock::hands::TestClock;
use std::time::Duration;

fn said(who: &str, allow: bool) -> DecisionRequest {
    DecisionRequest {
        who: who.to_owned(),
        roles: vec!["approver".to_owned()],
        allow,
        why: " looked at it ".to_owned(),
    }
}

async fn states(store: &dyn Store, ids: &[ActionId]) -> Vec<String> {
    let mut states = Vec::new();
    for id in ids {
        states.push(show(store, *id).await.unwrap().unwrap().state);
    }
    states
}

/// 001-44: what is shown is what was asked, whole (003-46, 003-47), in the order in which it was
/// asked; what is over is not listed, and can still be looked at.
#[tokio::test]
async fn operators_see_all_of_what_will_run() {
    let hands = TestClock::new();
    let store = MemoryStore::new(hands.clock());
    let mut ids = Vec::new();
    for key in ["allowed", "denied", "used", "pending"] {
        let ask = ask(key);
        store
            .run(StoreCommand::Hold(Box::new(ask.clone())), None)
            .await
            .unwrap()
            .unwrap();
        ids.push(ask.id);
        if key != "pending" {
            decide(&store, ask.id, said("ann", key != "denied"))
                .await
                .unwrap();
        }
        if key == "used" {
            let call = Intent {
                hold: Some(ask.key),
                ..intent("call", store.token())
            };
            store
                .run(StoreCommand::Begin(Box::new(call)), None)
                .await
                .unwrap()
                .unwrap();
        }
        hands.pass(Duration::from_millis(1));
    }
    let open = open_holds(&store).await.unwrap();
    assert_eq!(
        open.iter().map(|open| &open.state).collect::<Vec<_>>(),
        ["allowed", "pending"]
    );
    assert_eq!(
        states(&store, &ids).await,
        ["allowed", "denied", "used", "pending"]
    );
    let shown = show(&store, ids[0]).await.unwrap().unwrap();
    assert_eq!(shown, open[0]);
    assert_eq!(
        shown.arguments,
        Some(serde_json::json!({ "amount": 100, "to": "DE89" }))
    );
    assert_eq!(
        (shown.purpose.as_str(), shown.not_for.as_deref()),
        ("pays an invoice", Some("salaries"))
    );
    assert_eq!(
        (shown.agent.as_str(), shown.tenant.as_deref()),
        ("billing-agent", Some("t_001"))
    );
    assert_eq!(
        (
            shown.allowed_by.as_slice(),
            shown.needed,
            shown.irreversible
        ),
        (&["ann".to_owned()][..], 1, true)
    );
    assert_eq!(
        (shown.decisions[0].why.as_str(), shown.execute_by.is_some()),
        ("looked at it", true)
    );
    let read: OpenHold = serde_json::from_str(&serde_json::to_string(&shown).unwrap()).unwrap();
    assert_eq!(read, shown);

    hands.pass(Duration::from_mins(1));
    assert_eq!(
        states(&store, &ids).await,
        ["expired", "denied", "used", "pending"]
    );
    hands.pass(Duration::from_mins(9));
    assert_eq!(
        states(&store, &ids).await,
        ["expired", "denied", "used", "expired"]
    );
    assert_eq!(open_holds(&store).await.unwrap(), []);
    assert_eq!(show(&store, ActionId::generate()).await.unwrap(), None);
}

/// Whatever an operator is told is what was counted.
#[tokio::test]
async fn operators_are_told_what_their_words_did() {
    let hands = TestClock::new();
    let store = MemoryStore::new(hands.clock());
    let mut asked = ask("key");
    asked.needed = 2;
    let id = asked.id;
    assert_eq!(
        decide(&store, id, said("ann", true)).await,
        Err(DecisionError::Gone(id))
    );
    store
        .run(StoreCommand::Hold(Box::new(asked)), None)
        .await
        .unwrap()
        .unwrap();
    for why in [
        "",
        "  ",
        "a\nb",
        "\u{7}",
        &"x".repeat(MAX_DECISION_REASON_BYTES + 1),
    ] {
        let unfit = decide(
            &store,
            id,
            DecisionRequest {
                why: why.to_owned(),
                ..said("ann", true)
            },
        )
        .await;
        assert!(matches!(unfit, Err(DecisionError::Unfit(_))), "{why:?}");
    }
    let roles = vec!["approver".to_owned()];
    let not_yours = |is_itself| {
        Err(DecisionError::NotYours {
            roles: roles.clone(),
            is_itself,
        })
    };
    let teller = DecisionRequest {
        roles: vec!["teller".to_owned()],
        ..said("eve", true)
    };
    assert_eq!(decide(&store, id, teller).await, not_yours(false));
    assert_eq!(
        decide(&store, id, said("billing-agent", true)).await,
        not_yours(true)
    );
    let told = |changed, state: &str| {
        let waited = (changed && state == "allowed").then_some(Duration::from_secs(7));
        Ok(DecisionOutcome {
            changed,
            state: state.to_owned(),
            waited,
        })
    };
    assert_eq!(
        decide(&store, id, said("ann", true)).await,
        told(true, "pending")
    );
    assert_eq!(
        decide(&store, id, said("ann", true)).await,
        told(false, "pending")
    );
    hands.pass(Duration::from_secs(7));
    let longest = DecisionRequest {
        why: "x".repeat(MAX_DECISION_REASON_BYTES),
        ..said("bob", true)
    };
    assert_eq!(decide(&store, id, longest).await, told(true, "allowed"));
    assert_eq!(
        decide(&store, id, said("cyd", true)).await,
        told(false, "allowed")
    );
    assert_eq!(
        decide(&store, id, said("cyd", false)).await,
        Err(DecisionError::Other { allowed: true })
    );
    hands.pass(Duration::from_mins(1));
    assert_eq!(
        decide(&store, id, said("cyd", true)).await,
        Err(DecisionError::Gone(id))
    );
}
