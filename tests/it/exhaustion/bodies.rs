//! Bodies of which only a part comes (threat-model §13 F11: 300 × 3 MiB by one caller took 755
//! MiB), callers that send too fast, and addresses that guess.

use super::{GOOD, GREEDY, Good, OPERATOR, guarded, listing, prepared, tell};
use crate::harness::agent::{anew, modern};
use crate::harness::answer::get;
use crate::harness::gate::Gate;
use crate::harness::stdio::StdioGate;
use crate::harness::{may_open, until};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// MiB of memory that the process has.
fn resident(gate: &Gate) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.pid())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// MiB that one attack with half bodies may take up: one caller's share, and what carries it and
/// the long calls beside it.
const GROWTH: u64 = 96;
/// MiB that may be left of all attacks a minute later: the allocator gives back what it does not
/// need within ten seconds.
const LEFT: u64 = 40;

/// What was said on a connection before it ended or fell silent.
async fn said(connection: &mut TcpStream) -> String {
    let mut bytes = vec![0; 4 << 10];
    let read = tokio::time::timeout(Duration::from_millis(1), connection.read(&mut bytes)).await;
    let read = read.ok().and_then(Result::ok).unwrap_or_default();
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

/// threat-model §13 F11 and its neighbours: half bodies of one caller, long and short, beside a
/// good agent with long bodies.
#[tokio::test]
async fn f11_half_bodies_of_one_caller_have_their_share() {
    may_open(None);
    let (_oracle, gate) = guarded("").await;
    let good = Good::beside(&gate);
    good.ask(2).await;
    let before = resident(&gate);
    let (mut growth, mut refused, mut cases) = (0, 0, 0);
    for (many, declared, sent) in [
        (300, 4_000_000, 3 << 20),
        (300, 4 << 20, 100),
        (300, 100_000, 99_999),
        (300, 60_000, 59_999),
        (100, 4 << 20, 0),
    ] {
        let (head, _) = listing(&gate.agent().token(GREEDY));
        let head = String::from_utf8(head).unwrap();
        let begin = head.rfind("Content-Length").unwrap();
        let head = format!("{}Content-Length: {declared}\r\n\r\n", &head[..begin]);
        let bytes = [head.as_bytes(), &b" ".repeat(sent)].concat();
        let mut connections = Vec::new();
        let quiet = resident(&gate);
        for _ in 0..many {
            let mut connection = TcpStream::connect(gate.agents).await.unwrap();
            // Who is refused may be closed while it writes.
            let _ = connection.write_all(&bytes).await;
            connections.push(connection);
        }
        let taken = resident(&gate).saturating_sub(quiet);
        tell(&format!(
            "{many} bodies of {declared}, {sent} sent: {taken} MiB"
        ));
        growth = growth.max(taken);
        good.ask(2).await;
        let long = gate
            .agent()
            .token(GOOD)
            .anew_call("oracle__read", json!({ "x": "x".repeat(900_000) }))
            .await;
        assert!(long.is_done(), "a long body of another caller: {long:?}");
        for connection in &mut connections {
            let text = said(connection).await;
            if text.starts_with("HTTP/1.1 429") {
                let says = ["retry-after: 1", "16 MiB"];
                assert!(says.iter().all(|says| text.contains(says)), "{text}");
                refused += 1;
            }
        }
        cases += 1;
    }
    assert!(refused > 0, "more than the share is refused in words");
    assert!(growth < GROWTH, "one attack took {growth} MiB");
    until("the memory comes back", || async {
        (resident(&gate) <= before + LEFT).then_some(())
    })
    .await;
    let asked = good.end().await;
    tell(&format!(
        "bodies: {cases} attacks, {before} MiB before, {growth} of one attack, {} after; {asked} good calls",
        resident(&gate)
    ));
}

/// Four of the longest messages of one caller fit at once.
#[tokio::test]
async fn f11_the_longest_messages_pass() {
    let (oracle, gate) = guarded("").await;
    let agent = gate.agent().token(GOOD);
    let calls = (0..4).map(|_| {
        let (agent, call) = (
            agent.clone(),
            modern(
                "tools/call",
                anew(
                    "oracle__read",
                    json!({ "x": "x".repeat(1_000_000), "y": "y".repeat(1_000_000), "z": "z".repeat(1_000_000) }),
                ),
            ),
        );
        async move { agent.sends(&call).await }
    });
    for answer in futures_util::future::join_all(calls).await {
        assert!(answer.is_done(), "{answer:?}");
    }
    assert_eq!(oracle.executions().len(), 4);
}

/// threat-model §3I: a caller's rate is its own, and says when to come again; one that keeps to it
/// never hears of it.
#[tokio::test]
async fn a_caller_that_sends_too_fast_reads_so_and_no_other() {
    let callers = format!(
        "  - {{ agent: good, token: {GOOD} }}\n  - {{ agent: greedy, token: {GREEDY}, rate: {{ calls: 5, per: 1h }} }}"
    );
    let (_oracle, setup) = prepared("").await;
    let gate = setup.callers(&callers).start().await;
    let good = Good::beside(&gate);
    let greedy = gate.agent().token(GREEDY);
    for number in 0..20 {
        let answer = greedy.anew_call("oracle__read", json!({})).await;
        if number < 5 {
            assert!(answer.is_done(), "{number}: {answer:?}");
            continue;
        }
        assert_eq!(
            (answer.status, answer.error()),
            (429, -32603),
            "{number}: {answer:?}"
        );
        assert!(
            answer.words().contains("5 messages in 3600 s"),
            "{answer:?}"
        );
        let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((600..=720).contains(&after), "{after}");
    }
    good.ask(5).await;
    tell(&format!(
        "rates: 20 calls at a rate of 5, {} good calls",
        good.end().await
    ));
    drop(gate);
}

/// The same rate holds on standard input.
#[tokio::test]
async fn a_launched_agent_that_sends_too_fast_reads_so() {
    let callers =
        format!("  - {{ agent: greedy, token: {GREEDY}, rate: {{ calls: 2, per: 1h }} }}");
    let (_oracle, setup) = prepared("").await;
    let setup = setup.callers(&callers);
    setup.write();
    let mut launched = StdioGate::launch(&setup, &["--server", "oracle", "--agent", "greedy"]);
    for number in 0..4 {
        let answer = launched
            .ask(modern("tools/list", json!({})).to_string().as_bytes())
            .await;
        assert_eq!(
            answer.message().get("result").is_some(),
            number < 2,
            "{number}: {answer:?}"
        );
        assert!(
            number < 2 || answer.words().contains("2 messages in 3600 s"),
            "{answer:?}"
        );
    }
}

/// threat-model §3I: a stranger who guesses from one address is told to wait; an agent with a token
/// there is not.
#[tokio::test]
async fn guesses_from_one_address_are_answered_429_and_tokens_are_not() {
    let (_oracle, gate) = guarded("").await;
    let good = Good::beside(&gate);
    let (mut unauthorized, mut too_many) = (0, 0);
    for number in 0..500 {
        let answer = gate
            .agent()
            .token(&format!("guessed-token-{number:04}"))
            .modern_call("oracle__read", json!({}))
            .await;
        match answer.status {
            401 => unauthorized += 1,
            429 => {
                assert!(
                    answer.header("retry-after").is_some()
                        && answer.words().contains("prove nothing"),
                    "{answer:?}"
                );
                too_many += 1;
            }
            other => panic!("{other}: {answer:?}"),
        }
    }
    assert!(
        unauthorized >= 300 && too_many > 0,
        "{unauthorized} {too_many}"
    );
    good.ask(3).await;
    for number in 0..500 {
        let token = format!("Bearer guessed-token-{number:04}");
        let answer = gate
            .asks_operators(("GET", "/api/calls"), &[("Authorization", &token)], "")
            .await;
        assert!(matches!(answer.status, 401 | 429), "{answer:?}");
        too_many += u32::from(answer.status == 429);
    }
    let token = format!("Bearer {OPERATOR}");
    assert_eq!(
        gate.asks_operators(("GET", "/api/calls"), &[("Authorization", &token)], "")
            .await
            .status,
        200
    );
    assert_eq!(get(gate.operators, "/readyz").await.unwrap().status, 200);
    tell(&format!(
        "guesses: 1000, {too_many} answered 429; {} good calls",
        good.end().await
    ));
}
