//! toolgate is killed at every point of a call while agents call, and started again: nothing runs
//! twice, nothing acknowledged is lost (004-14, 004-44; threat-model §12, fail points).

use crate::approvals::{ask, held, says, setup, shown};
use crate::harness::journal::rows;
use crate::harness::setup::{beside, programs};
use crate::harness::until;
use crate::opening::OPENING;
use serde_json::json;
use std::time::Duration;
use toolgate_faults::agent::{Agents, Told, What};
use toolgate_faults::dice::{Dice, seed};
use toolgate_faults::invariants::check;
use toolgate_faults::kills::{Load, at_point};
use toolgate_faults::stand::{Carrier, Settings, Stand};

/// How often toolgate is killed at one point.
const KILLS: u64 = 5;
/// Where chance begins.
const SEED: u64 = 20_260_728;
pub const PROGRAM: &str = "toolgate-failpoints";
/// The points of a call that is held.
pub const HELD: [&str; 2] = ["approval-pending", "approval-approved"];
/// The points of an incident.
pub const INCIDENT: &str = "incident-opened";
pub const INCIDENT_NOTED: &str = "incident-noted";
/// The points of a rollback of the policy.
pub const ROLLBACK: [&str; 2] = ["rollback-written", "rollback-ended"];

/// What is killed has to be what is under test: cargo builds nothing when that is so already. The whole
/// workspace and a test are named so that what toolgate is built on is what it is elsewhere, and is not
/// built again with fewer features.
pub fn build() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.args([
        "build",
        "--quiet",
        "--workspace",
        "--features",
        "failpoints",
        "--bin",
        PROGRAM,
        "--test",
        "order",
    ]);
    let built = command.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(
        built.is_ok_and(|built| built.success()),
        "{PROGRAM} cannot be built"
    );
}

async fn killed_at(point: &'static str, carrier: Carrier) {
    build();
    let seed = seed(SEED);
    let kills = std::env::var("TOOLGATE_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(KILLS);
    let dice = Dice::new(seed);
    // A segment is soon full, so that the next one is begun, and filled with zeros, and the full one
    // compressed, under load, but not before a call was answered.
    let of_segments = matches!(point, "rotate" | "fill" | "compress" | "compressed");
    let environment: &[(&str, &str)] = if of_segments {
        &[("TOOLGATE_SEGMENT_BYTES", "16384")]
    } else {
        &[]
    };
    let settings = Settings {
        environment,
        carrier,
        ..Settings::of(PROGRAM)
    };
    let mut stand = Stand::new(programs(), settings).await.unwrap();
    stand.start(None).await.unwrap();
    let agents = Agents::new(stand.agents(), dice.fork(1)).patience(Duration::from_secs(5));
    let load = Load::start(&agents, 4, 60, &dice.fork(2));
    for kill in 0..kills {
        stand.kill().await.unwrap();
        let nth = if of_segments || point == "reload" {
            1
        } else {
            kill % 5 + 1
        };
        at_point(&mut stand, &agents, point, nth).await.unwrap();
    }
    // The last process lives on: without an answer by it, nothing was shown.
    let answered = |told: &Told| matches!(told.what, What::Done { .. });
    until("a call is answered", || async {
        agents.told().iter().any(answered).then_some(())
    })
    .await;
    load.stop().await;
    let found = check(&stand.evidence(&agents, rows).await.unwrap());
    let words: Vec<String> = found.iter().take(10).map(ToString::to_string).collect();
    assert!(
        found.is_empty(),
        "TOOLGATE_SEED={seed}: {} violations\n{}",
        found.len(),
        words.join("\n")
    );
}

macro_rules! points {
    ($($name:ident: $point:literal),* $(,)?) => {
        $(
            /// 004-14, 004-44: nothing runs twice, and nothing acknowledged is lost.
            #[tokio::test]
            async fn $name() {
                killed_at($point, Carrier::Http).await;
            }
        )*

        /// Every point has its scenario, here, where calls are held, of incidents, of rollbacks, or where
        /// a store opens.
        #[test]
        fn every_point_is_tried() {
            let incidents = [INCIDENT, INCIDENT_NOTED];
            let elsewhere = [&HELD[..], &OPENING, &incidents, &ROLLBACK].concat();
            let points = toolgate::failpoint::POINTS.iter().filter(|point| !elsewhere.contains(point));
            assert_eq!(points.copied().collect::<Vec<_>>(), [$($point),*]);
        }
    };
}

points! {
    after_parse: "after-parse",
    preparing: "preparing",
    after_policy: "after-policy",
    intent_before_fsync: "intent-before-fsync",
    intent_after_fsync: "intent-after-fsync",
    before_send: "before-send",
    mid_send: "mid-send",
    after_send: "after-send",
    first_response_byte: "first-response-byte",
    mid_response: "mid-response",
    outcome_before_fsync: "outcome-before-fsync",
    outcome_after_fsync: "outcome-after-fsync",
    reply_to_agent: "reply-to-agent",
    reload: "reload",
    rotate: "rotate",
    fill: "fill",
    compress: "compress",
    compressed: "compressed",
}

/// A child of toolgate's gets half of a line, or all of it, and is ended with toolgate.
#[tokio::test]
async fn mid_send_to_a_child() {
    killed_at("mid-send", Carrier::Stdio).await;
}

/// The child has the line, and goes on when its input ends: it must not run on beside the next one.
#[tokio::test]
async fn after_send_to_a_stubborn_child() {
    killed_at("after-send", Carrier::StubbornStdio).await;
}

/// The child has answered.
#[tokio::test]
async fn first_response_byte_of_a_child() {
    killed_at("first-response-byte", Carrier::Stdio).await;
}

/// threat-model §12: killed right after a decision is durable, before its operator hears of it.
#[tokio::test]
async fn a_decision_outlives_a_kill_at_its_fail_point() {
    build();
    for (word, state) in [("allow", "allowed"), ("deny", "denied")] {
        let setup = setup();
        setup.write();
        let ids = held(&setup, vec![ask(1, json!({ "amount": 1 }))]).await;
        let armed = setup
            .clone()
            .program(beside(PROGRAM))
            .environment("TOOLGATE_FAILPOINT", HELD[1]);
        let mut gate = armed.begin().await;
        let (code, told) = says(&gate, "ann", &[word, &ids[0], "--why", "x"]).await;
        assert_eq!(code, 1, "{told}");
        gate.wait().await;
        let gate = setup.begin().await;
        let after = shown(&gate, &ids[0]).await;
        assert_eq!(
            (&after["state"], &after["decisions"][0]["who"]),
            (&json!(state), &json!("ann"))
        );
        let (code, told) = says(&gate, "bob", &[word, &ids[0], "--why", "x"]).await;
        assert_eq!(
            (code, told),
            (
                0,
                format!("nothing changes: that is said already, and it is {state}\n")
            )
        );
    }
}
