//! Answers that agents do not read (threat-model §13 M5: 560 connections with 1.8 MB each held
//! memory for a minute).

use super::connections::is_closed;
use super::{GREEDY, Good, prepared_with, tell};
use crate::harness::agent::{Agent, modern};
use crate::harness::tool_server::Behaviour;
use crate::harness::{may_open, until};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Instant;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

/// Bytes of one answer.
const ANSWER: usize = 900_000;
/// Bytes that may wait to be read.
const ENOUGH: usize = 64 << 20;
/// Bytes of an answer that the kernels on both sides may have.
const IN_KERNEL: usize = 512 << 10;
/// Answers of which more waits than may.
const MANY: usize = 200;

/// A call that ran before, so that its answer is there at once.
fn keyed() -> Value {
    let meta = json!({ "dev.toolgate/idempotencyKey": "key 0123456789" });
    modern(
        "tools/call",
        json!({ "name": "oracle__big", "arguments": {}, "_meta": meta }),
    )
}

/// A connection that asks and never reads.
async fn asks(agent: &Agent) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let call = keyed();
    let mut connection = socket.connect(agent.address).await.unwrap();
    connection
        .write_all(&agent.encoded(&agent.mirrored(&call), call.to_string().as_bytes()))
        .await
        .unwrap();
    connection
}

/// A legacy stream on which there is nothing to say.
async fn listens(agent: &Agent) -> TcpStream {
    let headers: Vec<_> = agent
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!("GET {} HTTP/1.1\r\n{}", agent.path, headers.concat());
    let mut connection = TcpStream::connect(agent.address).await.unwrap();
    connection
        .write_all(format!("{head}\r\n").as_bytes())
        .await
        .unwrap();
    connection
}

/// Those who read nothing are closed until the rest fits; other callers, and a stream that has
/// nothing to say, go on. What was called keeps its outcome, which the agent reads when it asks
/// again.
#[tokio::test]
async fn m5_answers_that_nobody_reads_have_a_bound() {
    may_open(None);
    let said = json!({ "content": [ { "type": "text", "text": "x".repeat(ANSWER) } ] });
    let (oracle, setup) = prepared_with(&[("big", "write", Behaviour::Says(said))], "").await;
    let gate = setup.start().await;
    let greedy = gate.agent().token(GREEDY);
    let mut silent = listens(&greedy.declaring(json!({})).await).await;
    let good = Good::beside(&gate);
    let call = keyed();
    let first = greedy.sends(&call).await;
    assert_eq!(first.status, 200, "{first:?}");
    let began = Instant::now();
    let mut connections = Vec::new();
    for _ in 0..MANY {
        connections.push(asks(&greedy).await);
    }
    let mut closed = HashSet::new();
    // An answer that nobody reads has a minute, which is longer than this waits.
    until("what waits has a bound", || {
        let open = connections.iter().enumerate();
        closed.extend(
            open.filter(|(_, it)| it.take_error().unwrap().is_some())
                .map(|(number, _)| number),
        );
        let fits = (MANY - closed.len()) * (ANSWER - IN_KERNEL) <= ENOUGH;
        async move { fits.then_some(()) }
    })
    .await;
    let took = began.elapsed();
    good.ask(3).await;
    assert!(
        MANY - closed.len() >= ENOUGH / ANSWER / 2,
        "what fits stays: {} are closed",
        closed.len()
    );
    assert!(
        !is_closed(&mut silent).await,
        "a stream on which nothing waits stays"
    );
    let again = greedy.sends(&call).await;
    assert!(
        again.text().contains("\"replayed\":true"),
        "{}",
        &again.text()[..400]
    );
    let executions = oracle.executions();
    let big = executions
        .iter()
        .filter(|execution| execution.tool == "big");
    assert_eq!(big.count(), 1);
    let asked = good.end().await;
    assert!(
        gate.log()
            .contains("answers that agents do not read take too much memory")
    );
    tell(&format!(
        "unread: {MANY} answers of {ANSWER} bytes, {} closed in {took:?}; {asked} good calls",
        closed.len()
    ));
}
