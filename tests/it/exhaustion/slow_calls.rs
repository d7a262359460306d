//! Calls in flight: one agent's slow calls take none of the room that others are left
//! (threat-model §3I).

use super::{GREEDY, Good, prepared_with};
use crate::harness::tool_server::Behaviour;
use crate::harness::{may_open, until};
use serde_json::json;
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// Calls of one agent in flight at most, and what it sends.
const MOST: usize = 256;
const SENT: usize = 300;

#[tokio::test]
async fn slow_calls_of_one_agent_leave_room() {
    may_open(None);
    let (oracle, setup) = prepared_with(&[("slow", "read", Behaviour::Held)], "").await;
    let gate = setup.start().await;
    let good = Good::beside(&gate);
    good.ask(2).await;
    let mut calls = JoinSet::new();
    for sent in 1..=SENT {
        let greedy = gate.agent().token(GREEDY);
        calls.spawn(async move { greedy.anew_call("oracle__slow", json!({})).await });
        // More connections at once than may be unproven give way.
        if sent % 50 == 0 {
            until("they run", || async {
                (oracle.most_held() == sent.min(MOST)).then_some(())
            })
            .await;
        }
    }
    // What is refused comes at once; the others wait.
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for _ in MOST..SENT {
        *told
            .entry(calls.join_next().await.unwrap().unwrap().refusal())
            .or_default() += 1;
    }
    assert_eq!(
        told,
        BTreeMap::from([("overloaded".to_owned(), SENT - MOST)])
    );
    good.ask(20).await;
    (0..MOST).for_each(|_| oracle.release());
    while let Some(answer) = calls.join_next().await {
        let answer = answer.unwrap();
        assert!(answer.is_done(), "{answer:?}");
    }
    good.ask(2).await;
    assert!(
        gate.agent()
            .token(GREEDY)
            .anew_call("oracle__read", json!({}))
            .await
            .is_done(),
        "its room is its own again"
    );
    assert!(good.end().await >= 24);
}
