//! Tokens that change while they are used: the new one and the one before it are good side by side.

use crate::harness::agent::Agent;
use crate::harness::answer::{Reading, exchange, open};
use crate::harness::gate::Gate;
use crate::harness::setup::{Setup, beside};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::{DEADLINE, until};
use crate::kills::{PROGRAM, build};
use jiff::Timestamp;
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

const OLD_TOKEN: &str = "old-0123456789abcdef";
const NEW_TOKEN: &str = "new-0123456789abcdef";
/// Tokens of each phase: before, both, after.
const PHASES: [&str; 3] = [
    "token: old-0123456789abcdef",
    "token: new-0123456789abcdef, previous: [{ token: old-0123456789abcdef, until: 2999-01-01T00:00:00Z }]",
    "token: new-0123456789abcdef",
];

async fn server() -> ToolServer {
    let script = Script::new().tool("read", Behaviour::Answers);
    script.start().await
}

fn setup(server: &ToolServer) -> Setup {
    Setup::new()
        .server("oracle", server)
        .contracts(&[("oracle__read", "read")])
        .unwatched()
        .callers(&callers(PHASES[0]))
        .operators(&operators(PHASES[0]))
}

fn callers(tokens: &str) -> String {
    format!("  - {{ agent: ann, {tokens} }}")
}

/// Tokens are no two doors' at once, so those of operators begin otherwise.
fn operators(tokens: &str) -> String {
    let tokens = tokens.replace("old-", "op-old-").replace("new-", "op-new-");
    format!("tokens: [{{ name: bob, roles: [approver], {tokens} }}]")
}

/// The doors of a toolgate, and who is known there.
#[derive(Clone, Copy)]
struct Doors {
    agents: SocketAddr,
    operators: SocketAddr,
}

impl Doors {
    fn of(gate: &Gate) -> Self {
        Self {
            agents: gate.agents,
            operators: gate.operators,
        }
    }

    /// Whether an agent with that token may call.
    async fn know_agent(self, token: &str) -> bool {
        let agent = Agent::new(self.agents).token(token);
        let answer = agent.modern_call("oracle__read", json!({})).await;
        assert!(matches!(answer.status, 200 | 401), "{answer:?}");
        answer.is_done()
    }

    /// Whether an operator with that token may read.
    async fn know_operator(self, token: &str) -> bool {
        let request = format!(
            "GET /api/status HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer op-{token}\r\n\r\n",
            self.operators
        );
        let answer = exchange(self.operators, request.into_bytes())
            .await
            .unwrap();
        assert!(matches!(answer.status, 200 | 401), "{answer:?}");
        answer.status == 200
    }

    /// The stream of what happens to held calls, opened with that token, behind its first lines.
    async fn looks_on(self, token: &str) -> Reading {
        let request = format!(
            "GET /api/approvals/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer op-{token}\r\n\r\n",
            self.operators
        );
        let mut stream = open(self.operators, request.into_bytes()).await.unwrap();
        while !stream.line().await.unwrap().is_empty() {}
        stream
    }

    /// Whether either is known.
    async fn know(self, token: &str) -> bool {
        self.know_agent(token).await || self.know_operator(token).await
    }

    /// Whether both are.
    async fn know_both(self, token: &str) -> bool {
        self.know_agent(token).await && self.know_operator(token).await
    }
}

/// Issue 20 "tokens rotate with overlap, under load without one failed call", at both doors, and without
/// a restart; then the old one is nobody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rotate_under_load_without_a_failed_call() {
    let server = server().await;
    let gate = setup(&server).start().await;
    let doors = Doors::of(&gate);
    let (stop, phase) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let switched = Arc::new(AtomicUsize::new(0));
    let mut load = Vec::new();
    for _ in 0..4 {
        let (stop, phase, switched) = (stop.clone(), phase.clone(), switched.clone());
        load.push(tokio::spawn(async move {
            let (mut calls, mut failed, mut is_switched) = (0, 0, false);
            while !stop.load(Ordering::Acquire) {
                let is_new = phase.load(Ordering::Acquire) > 0;
                if is_new && !is_switched {
                    is_switched = true;
                    switched.fetch_add(1, Ordering::AcqRel);
                }
                let token = if is_new { NEW_TOKEN } else { OLD_TOKEN };
                failed += usize::from(!doors.know_agent(token).await);
                failed += usize::from(!doors.know_operator(token).await);
                calls += 2;
            }
            (calls, failed)
        }));
    }
    let in_force = |tokens: &'static str| {
        let setup = gate.setup.clone().callers(&callers(tokens));
        setup.operators(&operators(tokens)).write();
    };
    assert!(!doors.know(NEW_TOKEN).await);
    in_force(PHASES[1]);
    until("the new token is taken at both doors", || async {
        doors.know_both(NEW_TOKEN).await.then_some(())
    })
    .await;
    assert!(doors.know_both(OLD_TOKEN).await);
    phase.store(1, Ordering::Release);
    until("all agents have the new one", || async {
        (switched.load(Ordering::Acquire) == 4).then_some(())
    })
    .await;
    // Each has begun with the new token; what it sent before with the old one is answered.
    in_force(PHASES[2]);
    until("the old token is nobody's", || async {
        (!doors.know(OLD_TOKEN).await).then_some(())
    })
    .await;
    stop.store(true, Ordering::Release);
    for load in load {
        let (calls, failed) = load.await.unwrap();
        assert!(calls > 0);
        assert_eq!(failed, 0, "of {calls}");
    }
    assert!(
        !gate.log().contains("restart to apply it"),
        "{}",
        gate.log()
    );
    assert!(!gate.log().contains(OLD_TOKEN) && !gate.log().contains(NEW_TOKEN));
}

/// Sessions are their agent's, whichever of its tokens it shows; and where the operators' door is still needs a
/// restart, and says so.
#[tokio::test]
async fn a_session_outlives_the_token_that_opened_it() {
    let server = server().await;
    let gate = setup(&server).start().await;
    let doors = Doors::of(&gate);
    let before = gate.agent().token(OLD_TOKEN).initialized().await;
    let setup = gate.setup.clone().callers(&callers(PHASES[1]));
    let elsewhere = format!(
        "{}, public_url: \"https://gate.example\"",
        operators(PHASES[1])
    );
    setup.operators(&elsewhere).write();
    until("the new token is taken", || async {
        doors.know_agent(NEW_TOKEN).await.then_some(())
    })
    .await;
    let after = before.token(NEW_TOKEN);
    for agent in [&before, &after] {
        let answer = agent.legacy_call("oracle__read", json!({})).await;
        assert!(answer.is_done(), "{answer:?}");
    }
    until("a change that needs a restart is told of", || async {
        gate.log().contains("`admin` has changed").then_some(())
    })
    .await;
}

/// threat-model §3E: a program's stream of events ends with the token that opened it, and with that alone: when
/// it is taken away, and when its time is over.
#[tokio::test]
async fn a_stream_of_events_ends_with_its_token() {
    let server = server().await;
    for is_timed in [false, true] {
        let soon = Timestamp::now() + Duration::from_secs(15);
        let timed = PHASES[1].replace("2999-01-01T00:00:00Z", &soon.to_string());
        let (before, after) = if is_timed {
            (&*timed, &*timed)
        } else {
            (PHASES[1], PHASES[2])
        };
        let setup = setup(&server).callers(&callers(before));
        let gate = setup.operators(&operators(before)).start().await;
        let doors = Doors::of(&gate);
        let (mut old, mut new) = (
            doors.looks_on(OLD_TOKEN).await,
            doors.looks_on(NEW_TOKEN).await,
        );
        let setup = gate.setup.clone().callers(&callers(after));
        setup.operators(&operators(after)).write();
        let ends = async { while old.line().await.is_some() {} };
        let ended = tokio::time::timeout(DEADLINE, ends).await;
        assert!(ended.is_ok(), "it goes on: {after}");
        assert!(!doors.know_operator(OLD_TOKEN).await);
        assert!(new.line().await.is_some(), "the other goes on");
    }
}

/// The hand on the clocks of a toolgate with fail points (`tests/faults/clock_hand.rs`).
struct ClockHand(BufReader<UnixStream>);

impl ClockHand {
    async fn at(socket: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(socket).await.unwrap()))
    }

    /// Stops the clocks, if they go, and moves them on by so much; the time that they show then.
    async fn pass(&mut self, time: Duration) -> Timestamp {
        let order = format!("{}\n", time.as_millis());
        self.0.write_all(order.as_bytes()).await.unwrap();
        let mut told = String::new();
        self.0.read_line(&mut told).await.unwrap();
        told.trim().parse().unwrap()
    }
}

/// Issue 20: a token counts until its time, and then it is nobody's, without a reload: the enemy waits
/// for it. Its end is counted on the steady clock, which toolgate reads beside the wall clock: a second
/// lies between the two, as far as this looks.
#[tokio::test]
async fn a_previous_token_ends_by_itself() {
    build();
    let server = server().await;
    let end = Timestamp::now() + Duration::from_hours(1);
    let tokens = PHASES[1].replace("2999-01-01T00:00:00Z", &end.to_string());
    let setup = setup(&server).program(beside(PROGRAM));
    let clock = setup.directory().join("clock");
    let setup = setup
        .environment("TOOLGATE_CLOCK", clock.to_str().unwrap())
        .callers(&callers(&tokens))
        .operators(&operators(&tokens));
    let gate = setup.start().await;
    let doors = Doors::of(&gate);
    let mut hand = ClockHand::at(&clock).await;
    let now = hand.pass(Duration::ZERO).await;
    assert!(doors.know_both(OLD_TOKEN).await, "at the start");
    let left = Duration::try_from(end.duration_since(now)).unwrap();
    let second = Duration::from_secs(1);
    hand.pass(left.saturating_sub(second)).await;
    assert!(doors.know_both(OLD_TOKEN).await, "until its time");
    hand.pass(2 * second).await;
    assert!(!doors.know(OLD_TOKEN).await, "from its time on");
    assert!(doors.know_both(NEW_TOKEN).await);
}
