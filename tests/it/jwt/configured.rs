//! Issuers that the configuration names while agents call.

use super::{CLAIMS, OWN_TOKEN, auth, mark, server, setup};
use crate::harness::issuer::{TokenIssuer, TokenKey};
use crate::harness::{until, until_or};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// One identity provider takes another's place, with a time in which both count, and no call of anybody fails who has a
/// token that counts; then the one before gives nobody a token any more. No restart is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issuers_come_and_go_under_load() {
    let (server, keys) = (server().await, ["first", "second"].map(TokenKey::new));
    let issuers = [
        TokenIssuer::start(&keys[0]).await,
        TokenIssuer::start(&keys[1]).await,
    ];
    let bots = ["first-bot", "second-bot"];
    let entry = |one: usize| issuers[one].entry(&format!(", agents: [{}]{CLAIMS}", bots[one]));
    let entries = [0, 1].map(entry);
    let gate = setup(&server, &auth(&entries[..1])).start().await;
    let tokens = [0, 1].map(|one| keys[one].token(&issuers[one].claims(bots[one])));
    let (stop, phase) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let moved = Arc::new(AtomicUsize::new(0));
    let mut load = Vec::new();
    for number in 0..4 {
        let (agent, tokens) = (gate.agent(), tokens.clone());
        let (stop, phase, moved) = (stop.clone(), phase.clone(), moved.clone());
        load.push(tokio::spawn(async move {
            let (mut calls, mut seen) = (0, 0);
            while !stop.load(Ordering::Acquire) {
                let now = phase.load(Ordering::Acquire);
                moved.fetch_add(now - seen, Ordering::AcqRel);
                seen = now;
                let token = if number == 0 { OWN_TOKEN } else { &tokens[now] };
                let answer = mark(&agent.clone().token(token)).await;
                assert!(answer.is_done(), "after {calls} calls: {answer:?}");
                calls += 1;
            }
            calls
        }));
    }
    let is_known = async |one: usize| mark(&gate.agent().token(&tokens[one])).await.is_done();
    assert!(is_known(0).await && !is_known(1).await);
    let configured = |now: &[String]| {
        let setup = gate.setup.clone();
        setup.instead(&auth(&entries[..1]), &auth(now)).write();
    };
    configured(&entries);
    let said = || format!("both issuers count: {}", gate.log());
    until_or(said, || async { is_known(1).await.then_some(()) }).await;
    assert!(is_known(0).await);
    phase.store(1, Ordering::Release);
    until("all agents have a token of the second", || async {
        (moved.load(Ordering::Acquire) == 4).then_some(())
    })
    .await;
    configured(&entries[1..]);
    until("the first counts no more", || async {
        (!is_known(0).await).then_some(())
    })
    .await;
    assert!(is_known(1).await);
    stop.store(true, Ordering::Release);
    for load in load {
        assert!(load.await.unwrap() > 0);
    }
    let log = gate.log();
    assert!(!log.contains("restart to apply it"), "{log}");
}
