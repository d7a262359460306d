//! A network that breaks three of ten exchanges on both sides of toolgate: what agents send again
//! runs once (004-01, 004-46, 004-60; threat-model §12, chaos proxy).

use crate::harness::journal::rows;
use crate::harness::setup::programs;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use toolgate_faults::agent::{Agents, Errand, What};
use toolgate_faults::dice::{Dice, seed};
use toolgate_faults::invariants::{Evidence, check};
use toolgate_faults::operators::Operators;
use toolgate_faults::proxy::Proxy;
use toolgate_faults::stand::{Settings, Stand};

/// How many of 100 exchanges break on either side.
const BROKEN: u64 = 30;
/// In how many of 100 cases an agent asks twice at once.
const TWICE: u64 = 10;
/// How many of 100 calls a person has to allow, and how many are answered with any status.
const HELD: u64 = 10;
const STATUSES: u64 = 10;
/// Where chance begins.
const SEED: u64 = 20_260_728;
/// Agents at once, each in a session of its own.
const SESSIONS: u32 = 24;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// How often what was told at last.
fn kinds(endings: &BTreeMap<String, What>) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for what in endings.values() {
        *kinds.entry(format!("{what:?}")).or_default() += 1;
    }
    kinds
}

/// A call: some name their key, the others rely on the one that is derived.
fn errand(call: u64, session: u32, mut dice: Dice) -> Errand {
    let errand = Errand::effect(&format!("key-{call}"), &format!("session-{session}"));
    let errand = if dice.chance(HELD) {
        errand.held()
    } else {
        errand
    };
    let errand = if dice.chance(STATUSES) {
        errand.with_status(&mut dice)
    } else {
        errand
    };
    Errand {
        explicit: call.is_multiple_of(3),
        ..errand
    }
}

/// 003-P4c, 003-P4e, 004-01, 004-07, 004-46, 004-60: `TOOLGATE_CHAOS_CALLS` and `TOOLGATE_SEED` ask
/// for another number of calls and another chance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::print_stderr,
    reason = "how much went wrong is what the lane shows"
)]
async fn calls_run_once_on_a_network_that_breaks() {
    let calls = number("TOOLGATE_CHAOS_CALLS").unwrap_or(2_000);
    let seed = seed(SEED);
    let dice = Dice::new(seed);
    let mut stand = Stand::new(programs(), Settings::of("toolgate"))
        .await
        .unwrap();
    let server = Arc::new(Mutex::new(stand.oracle.address));
    let upstream = Proxy::start(server, dice.fork(1), 0).await.unwrap();
    stand.configure(upstream.address).unwrap();
    stand.start(None).await.unwrap();
    let downstream = Proxy::start(Arc::new(Mutex::new(stand.agents())), dice.fork(2), BROKEN)
        .await
        .unwrap();
    upstream.breaks_now(BROKEN);
    let agents = Agents::new(downstream.address, dice.fork(3))
        .twice(TWICE)
        .patience(Duration::from_secs(3));
    let operators = Operators::start(stand.operators(), dice.fork(5));
    let endings = load(&agents, calls, &dice.fork(4)).await;
    eprintln!("what agents were told at last: {:#?}", kinds(&endings));
    upstream.breaks_now(0);
    let mut evidence = stand.evidence(&agents, rows).await.unwrap();
    evidence.faults.extend(upstream.breaks());
    let found = check(&evidence);
    let words: Vec<String> = found.iter().take(10).map(ToString::to_string).collect();
    assert!(
        found.is_empty(),
        "seed {seed}: {} violations\n{}",
        found.len(),
        words.join("\n")
    );
    judge(&endings, &evidence, operators.decided());
}

/// That enough went wrong, and that agents know of nearly every call what became of it.
#[expect(
    clippy::print_stderr,
    reason = "how much went wrong is what the lane shows"
)]
fn judge(endings: &BTreeMap<String, What>, evidence: &Evidence, (allowed, denied): (u64, u64)) {
    let calls = endings.len();
    let count = |fits: fn(&What) -> bool| endings.values().filter(|what| fits(what)).count();
    let (done, unknown) = (
        count(|what| matches!(what, What::Done { .. })),
        count(|what| *what == What::Unknown),
    );
    let replayed = evidence
        .told
        .iter()
        .filter(|told| told.what == What::Done { replayed: true })
        .count();
    // An error is an answer to a status, and nobody knows what ran; a denial is the end.
    let (errors, refused) = (
        count(|what| matches!(what, What::Error(_))),
        count(|what| matches!(what, What::Refused { code, .. } if code == "approval_denied")),
    );
    let told = done + unknown + errors + refused;
    assert!(
        told >= endings.len() * 99 / 100,
        "{done} done, {unknown} unknown, {errors} errors, {refused} denied of {calls}"
    );
    assert!(
        allowed > 0 && denied > 0 && refused > 0 && errors > 0,
        "{allowed} allowed, {denied} denied"
    );
    assert!(
        replayed > 0 && unknown > 0,
        "{replayed} replayed, {unknown} unknown: nothing was tried"
    );
    let executed = evidence.executions.len();
    assert!(
        (done..=done + unknown + errors + endings.len() / 100).contains(&executed),
        "{executed} executions"
    );
    eprintln!(
        "{calls} calls: {done} done, {unknown} unknown, {executed} executions, {replayed} answers replayed"
    );
}

/// What agents in as many sessions as there are were told at last, by key.
async fn load(agents: &Agents, calls: u64, dice: &Dice) -> BTreeMap<String, What> {
    let mut sessions = JoinSet::new();
    for session in 0..SESSIONS {
        let (agents, dice) = (agents.clone(), dice.clone());
        sessions.spawn(async move {
            let mut endings = Vec::new();
            for call in (0..calls).filter(|call| call % u64::from(SESSIONS) == u64::from(session)) {
                let errand = errand(call, session, dice.fork(call));
                endings.push((errand.key.clone(), agents.run(&errand).await));
            }
            endings
        });
    }
    sessions.join_all().await.into_iter().flatten().collect()
}
