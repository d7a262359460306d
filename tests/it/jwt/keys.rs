//! The keys of issuers: rotated under load, and by issuers that break (threat-model §3F F10).

use super::{CLAIMS, OWN_TOKEN, auth, challenge, mark, server, setup, stage};
use crate::harness::issuer::{KeysReply, TokenIssuer, TokenKey, key_set, now};
use crate::harness::until;
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An issuer that changes its keys while agents call fails none of their calls, and is asked once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_under_load_fails_no_call() {
    let (_server, issuer, first, gate) = stage().await;
    let old = first.token(&issuer.claims("support-bot"));
    assert!(mark(&gate.agent().token(&old)).await.is_done());
    let (fetches, second) = (issuer.fetches(), TokenKey::new("second"));
    let stop = Arc::new(AtomicBool::new(false));
    let tokens = Arc::new(std::sync::Mutex::new(old.clone()));
    let load: Vec<_> = (0..6)
        .map(|_| {
            let (agent, tokens, stop) = (gate.agent(), tokens.clone(), stop.clone());
            tokio::spawn(async move {
                let mut calls = 0;
                while !stop.load(Ordering::Relaxed) {
                    let token = tokens.lock().unwrap().clone();
                    let answer = mark(&agent.token(&token)).await;
                    assert!(answer.is_done(), "after {calls} calls: {answer:?}");
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    issuer.answers(key_set(&[&first, &second]));
    let new = second.token(&issuer.claims("support-bot"));
    *tokens.lock().unwrap() = new.clone();
    until("the new key is fetched", || async {
        (issuer.fetches() > fetches).then_some(())
    })
    .await;
    let agent = gate.agent().token(&new);
    for _ in 0..50 {
        assert!(mark(&agent).await.is_done());
    }
    stop.store(true, Ordering::Relaxed);
    for load in load {
        assert!(load.await.unwrap() > 0);
    }
    assert_eq!(
        issuer.fetches(),
        fetches + 1,
        "all who waited waited for one fetch"
    );
    assert!(
        mark(&gate.agent().token(&old)).await.is_done(),
        "the old key is there still"
    );
}

/// Tokens with keys that nobody has lead to one fetch in ten seconds, however many come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_keys_are_looked_for_once() {
    let (_server, issuer, key, gate) = stage().await;
    let agent = gate
        .agent()
        .token(&key.token(&issuer.claims("support-bot")));
    assert!(mark(&agent).await.is_done());
    let (fetches, begun) = (issuer.fetches(), now());
    let strangers: Vec<_> = (0..24)
        .map(|number| {
            let key = TokenKey::new(&format!("unknown-{number}"));
            let agent = gate
                .agent()
                .token(&key.token(&issuer.claims("support-bot")));
            tokio::spawn(async move { mark(&agent).await })
        })
        .collect();
    for stranger in strangers {
        let answer = stranger.await.unwrap();
        assert!(matches!(answer.status, 401 | 429 | 503), "{answer:?}");
        let is_waiting = answer.status == 503;
        assert_eq!(answer.header("retry-after").is_some(), answer.status != 401);
        assert!(
            !is_waiting || challenge(&answer).is_empty(),
            "it is to keep its token"
        );
    }
    let windows = usize::try_from((now() - begun) / 10).unwrap() + 1;
    assert!(
        issuer.fetches() <= fetches + windows,
        "{} of {windows}",
        issuer.fetches() - fetches
    );
    assert!(
        mark(&agent).await.is_done(),
        "who is known is not kept waiting"
    );
}

/// Whatever an issuer does when it is asked for its keys, those that were good count still, nothing is
/// read without an end, and nobody is led elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_that_breaks_takes_nobody_away() {
    let wide = format!("{{\"keys\":[],\"more\":\"{}\"}}", "m".repeat(300 << 10));
    for (name, reply) in [
        ("hangs", KeysReply::Never),
        ("never ends", KeysReply::Endless),
        ("leads elsewhere", KeysReply::Redirects),
        ("is cut off", KeysReply::Cut),
        ("is down", KeysReply::Said(503, "down".to_owned())),
        ("says nothing", KeysReply::Said(200, String::new())),
        ("says too much", KeysReply::Said(200, wide)),
        ("has no keys", KeysReply::Keys(json!({ "keys": [] }))),
    ] {
        let (_server, issuer, key, gate) = stage().await;
        let good = gate
            .agent()
            .token(&key.token(&issuer.claims("support-bot")));
        assert!(mark(&good).await.is_done(), "{name}");
        issuer.answers(reply);
        let fetches = issuer.fetches();
        let unknown = TokenKey::new("unknown").token(&issuer.claims("support-bot"));
        let waits = mark(&gate.agent().token(&unknown)).await;
        assert_eq!(waits.status, 503, "{name}: {waits:?}");
        assert!(
            issuer.fetches() > fetches && issuer.followed() == 0,
            "{name}"
        );
        assert!(
            mark(&good).await.is_done(),
            "{name}: the last good keys count"
        );
        let fresh = gate
            .agent()
            .token(&key.token(&issuer.claims("another-bot")));
        assert!(mark(&fresh).await.is_done(), "{name}: for new tokens, too");
        assert!(
            mark(&gate.agent().token(OWN_TOKEN)).await.is_done(),
            "{name}"
        );
        let failed = format!(
            "toolgate_issuer_key_fetches_total{{issuer=\"{}\",outcome=\"failed\"}}",
            issuer.name()
        );
        // A fetch takes longer than its token waits for it.
        until("the fetch has failed, and the log says so", || async {
            let is_counted = gate.metric(&failed).await >= 1.0;
            let words = "the keys of an issuer could not be fetched; its last ones count";
            (is_counted && gate.log().contains(words)).then_some(())
        })
        .await;
    }
}

/// An issuer that never had keys lets nobody in, and takes nobody's token away: its agents are told to
/// come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_without_keys_keeps_its_agents_waiting() {
    let (server, key) = (server().await, TokenKey::new("first"));
    let issuer = TokenIssuer::start(&key).await;
    issuer.answers(KeysReply::Said(500, "not yet".to_owned()));
    let gate = setup(&server, &auth(&[issuer.entry(CLAIMS)])).start().await;
    let agent = gate
        .agent()
        .token(&key.token(&issuer.claims("support-bot")));
    let waits = mark(&agent).await;
    assert_eq!((waits.status, challenge(&waits).as_str()), (503, ""));
    assert!(waits.header("retry-after").is_some());
    let counted = "toolgate_refused_messages_total{reason=\"keys\"}";
    assert!(gate.metric(counted).await >= 1.0);
    let words = "could not be fetched; until they are, its tokens are answered 503";
    until("the log says what becomes of its tokens", || async {
        gate.log().contains(words).then_some(())
    })
    .await;
    assert!(mark(&gate.agent().token(OWN_TOKEN)).await.is_done());
    issuer.answers(key_set(&[&key]));
    until("its keys are fetched", || async {
        mark(&agent).await.is_done().then_some(())
    })
    .await;
}

/// The entry of `issuer`, whose keys lie in `keys.json` beside the configuration.
fn entry_of_file(issuer: &TokenIssuer) -> String {
    issuer.entry(CLAIMS).replace(
        &format!("jwks_url: \"{}/jwks\"", issuer.name()),
        "jwks_file: keys.json",
    )
}

/// Puts `keys` into the place of those in `directory`, with this mode.
fn put(directory: &Path, keys: &[&TokenKey], mode: u32) {
    let (file, new) = (directory.join("keys.json"), directory.join("new.json"));
    let keys: Vec<_> = keys.iter().map(|key| key.public()).collect();
    std::fs::write(&new, json!({ "keys": keys }).to_string()).unwrap();
    std::fs::set_permissions(&new, Permissions::from_mode(mode)).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// Keys that lie in a file are read anew when the file is another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_keys_is_followed() {
    let (server, first, second) = (server().await, TokenKey::new("1"), TokenKey::new("2"));
    let issuer = TokenIssuer::start(&first).await;
    let setup = setup(&server, &auth(&[entry_of_file(&issuer)]));
    put(setup.directory(), &[&first], 0o644);
    let gate = setup.clone().start().await;
    let at = |key: &TokenKey| {
        gate.agent()
            .token(&key.token(&issuer.claims("support-bot")))
    };
    assert!(mark(&at(&first)).await.is_done());
    put(&gate.path(""), &[&second], 0o644);
    assert!(
        mark(&at(&second)).await.is_done(),
        "a key that is not known yet is looked for"
    );
    // For ten seconds after a look it is told to come again.
    let gone = mark(&at(&first)).await;
    assert!(matches!(gone.status, 401 | 503), "{gone:?}");
    assert_eq!(issuer.fetches(), 0);
}

/// threat-model §10: who may write the keys may be every agent. So keys that others could have put into the
/// file are not taken while toolgate runs, the log says so, and the last ones count until it is mended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_others_may_write_are_not_taken() {
    let (server, first, forged) = (server().await, TokenKey::new("1"), TokenKey::new("2"));
    let issuer = TokenIssuer::start(&first).await;
    let setup = setup(&server, &auth(&[entry_of_file(&issuer)]));
    put(setup.directory(), &[&first], 0o644);
    let gate = setup.start().await;
    let at = |key: &TokenKey| {
        gate.agent()
            .token(&key.token(&issuer.claims("support-bot")))
    };
    assert!(mark(&at(&first)).await.is_done());
    put(&gate.path(""), &[&first, &forged], 0o666);
    let refused = mark(&at(&forged)).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    until("the log says why", || async {
        let log = gate.log();
        (log.contains("others than its owner may write this file") && log.contains("chmod go-w"))
            .then_some(())
    })
    .await;
    assert!(
        mark(&at(&first)).await.is_done(),
        "the last good keys count"
    );
    put(&gate.path(""), &[&first, &forged], 0o644);
    until("what its owner alone may write is taken", || async {
        mark(&at(&forged)).await.is_done().then_some(())
    })
    .await;
}
