//! Connections that ask for nothing, or for nothing that they may have (threat-model §13 F10: 1,030
//! silent ones, no token, denied every caller for 16 s).

use super::{GOOD, GREEDY, Good, OPERATOR, guarded, listing, tell};
use crate::harness::gate::Gate;
use crate::harness::{DEADLINE, may_open};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// More than all places for agents.
const MANY: usize = 1_100;
/// More than all places for operators.
const MANY_OPERATORS: usize = 300;
/// How long a stranger may stay: toolgate gives it 5 s, and 75 s would be too long.
const STAYS: Duration = Duration::from_secs(40);

/// What is sent on each connection.
struct Attack {
    name: &'static str,
    /// Bytes at the beginning.
    first: Vec<u8>,
    /// Bytes that follow one by one while the attack lasts.
    then: Vec<u8>,
    /// Whether those who send it have proved nothing, so that all of them are closed within
    /// seconds.
    strangers: bool,
}

fn at_agents(gate: &Gate) -> Vec<Attack> {
    let agent = gate.agent();
    let (unknown, body) = listing(&agent);
    let (wrong, _) = listing(&agent.token("wrong-token-0123456789"));
    let (greedy, _) = listing(&agent.token(GREEDY));
    let half = unknown[..unknown.len() / 2].to_vec();
    let foreign = String::from_utf8(unknown.clone())
        .unwrap()
        .replace("Host: 127", "Host: 128")
        .into_bytes();
    let whole = |head: &[u8]| [head, &body].concat();
    let stranger = |name, first: Vec<u8>, then| Attack {
        name,
        first,
        then,
        strangers: true,
    };
    let caller = |name, first: Vec<u8>, then| Attack {
        name,
        first,
        then,
        strangers: false,
    };
    vec![
        stranger("silent", Vec::new(), Vec::new()),
        stranger("one byte", b"P".to_vec(), Vec::new()),
        stranger("half heads", half, Vec::new()),
        stranger("heads a byte at a time", Vec::new(), unknown.clone()),
        stranger("empty lines", b"\r\n".repeat(3), Vec::new()),
        stranger("no token", whole(&unknown), Vec::new()),
        stranger("wrong tokens", whole(&wrong), Vec::new()),
        stranger(
            "wrong tokens, half bodies",
            [&wrong[..], &body[..9]].concat(),
            Vec::new(),
        ),
        stranger("foreign hosts", whole(&foreign), Vec::new()),
        caller("a hoard of idle connections", whole(&greedy), Vec::new()),
        caller(
            "half heads behind requests",
            [whole(&greedy), greedy[..50].to_vec()].concat(),
            Vec::new(),
        ),
        caller(
            "half bodies",
            [&greedy[..], &body[..9]].concat(),
            Vec::new(),
        ),
        caller("bodies a byte at a time", greedy.clone(), body.clone()),
    ]
}

fn at_operators(gate: &Gate) -> Vec<Attack> {
    let host = gate.operators;
    let head = |path: &str, more: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").into_bytes()
    };
    let token = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let posts = |token: &str| {
        format!(
            "POST /api/tools/oracle__read/disable HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{{\"why"
        )
    };
    let stranger = |name, first: Vec<u8>| Attack {
        name,
        first,
        then: Vec::new(),
        strangers: true,
    };
    let caller = |name, first: Vec<u8>| Attack {
        name,
        first,
        then: Vec::new(),
        strangers: false,
    };
    vec![
        stranger("silent", Vec::new()),
        stranger("half heads", head("/readyz", "")[..20].to_vec()),
        stranger("no token", head("/api/calls", "")),
        stranger(
            "wrong tokens",
            head("/api/calls", &token("wrong-token-0123456789")),
        ),
        stranger("an agent's token", head("/api/calls", &token(GOOD))),
        stranger(
            "wrong tokens, half bodies",
            posts("wrong-token-0123456789").into_bytes(),
        ),
        stranger("paths that are not there", head("/nothing", "")),
        caller("a hoard that needs no token", head("/healthz", "")),
        caller(
            "a hoard of one operator",
            head("/api/calls", &token(OPERATOR)),
        ),
    ]
}

/// Whether the other side has closed; what it said before is read and forgotten.
pub(super) async fn is_closed(connection: &mut TcpStream) -> bool {
    let mut bytes = [0; 4 << 10];
    loop {
        match tokio::time::timeout(Duration::ZERO, connection.read(&mut bytes)).await {
            Err(_) => return false,
            Ok(Ok(0) | Err(_)) => return true,
            Ok(Ok(_)) => {}
        }
    }
}

/// The connections of an attack, since when they are there.
struct Running {
    attack: Attack,
    began: Instant,
    connections: Vec<TcpStream>,
}

/// Makes `many` connections that do as `attack` says, while `good` asks.
async fn begin(door: SocketAddr, attack: Attack, many: usize, good: &Good) -> Running {
    let (began, mut connections) = (Instant::now(), Vec::new());
    for _ in 0..many {
        let mut connection = TcpStream::connect(door).await.unwrap();
        // Who is closed while it writes is closed.
        let _ = connection.write_all(&attack.first).await;
        connections.push(connection);
    }
    let made = began.elapsed();
    good.ask(3).await;
    for byte in attack.then.iter().take(3) {
        for connection in &mut connections {
            let _ = connection.write_all(&[*byte]).await;
        }
        good.ask(1).await;
    }
    tell(&format!(
        "{}: {many} connections in {made:?}, good calls until {:?}",
        attack.name,
        began.elapsed()
    ));
    Running {
        attack,
        began,
        connections,
    }
}

/// Waits until all strangers are sent away, whatever they still send.
async fn ends(running: Running, good: &Good) {
    let Running {
        attack,
        began,
        connections,
    } = running;
    for mut connection in connections.into_iter().filter(|_| attack.strangers) {
        let mut more = attack.then.iter().skip(3).cycle();
        while !is_closed(&mut connection).await {
            assert!(began.elapsed() < STAYS, "{}: a stranger stays", attack.name);
            if let Some(byte) = more.next() {
                let _ = connection.write_all(&[*byte]).await;
            }
            good.ask(1).await;
        }
    }
}

/// Runs all attacks, one after the other, each while those before it last.
async fn attacked(gate: &Gate, door: SocketAddr, attacks: Vec<Attack>, many: usize) {
    let (good, cases) = (Good::beside(gate), attacks.len());
    let mut running = Vec::new();
    for attack in attacks {
        running.push(begin(door, attack, many, &good).await);
    }
    for one in running {
        ends(one, &good).await;
    }
    let asked = good.end().await;
    tell(&format!(
        "connections: {cases} attacks of {many}, {asked} good calls beside them"
    ));
}

/// threat-model §13 F10 and its neighbours at the agents' door: 13 attacks of 1,100 connections.
#[tokio::test]
async fn f10_connections_that_ask_agents_for_nothing_deny_nobody() {
    may_open(None);
    let (_oracle, gate) = guarded("").await;
    attacked(&gate, gate.agents, at_agents(&gate), MANY).await;
}

/// The same at the operators' door: 9 attacks of 300 connections.
#[tokio::test]
async fn f10_connections_that_ask_operators_for_nothing_deny_nobody() {
    may_open(None);
    let (_oracle, gate) = guarded("").await;
    attacked(&gate, gate.operators, at_operators(&gate), MANY_OPERATORS).await;
}

/// Whom toolgate knows may be silent between requests for longer than a stranger.
#[tokio::test]
async fn f10_idle_connections_of_callers_keep_their_own_time() {
    let (_oracle, gate) = guarded("").await;
    let (head, body) = listing(&gate.agent().token(GOOD));
    let request = [head, body].concat();
    let mut known = TcpStream::connect(gate.agents).await.unwrap();
    let mut stranger = TcpStream::connect(gate.agents).await.unwrap();
    let mut bytes = vec![0; 64 << 10];
    for _ in 0..2 {
        known.write_all(&request).await.unwrap();
        let read = tokio::time::timeout(DEADLINE, known.read(&mut bytes))
            .await
            .unwrap()
            .unwrap();
        assert!(
            bytes[..read].starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&bytes[..read])
        );
        // Until a stranger that came at the same time is sent away.
        let read = tokio::time::timeout(DEADLINE, stranger.read(&mut bytes))
            .await
            .unwrap();
        assert!(read.is_err() || read.is_ok_and(|read| read == 0));
        stranger = TcpStream::connect(gate.agents).await.unwrap();
    }
}
