//! More connections than there are places (SECURITY §3B B9, §3I I5, §9): one more reads so at once, those that have a
//! place keep it, and a place that becomes free is given to the next.

use super::{ToolServer, governed, json};
use crate::harness::agent::{anew, exchange, get, modern};
use crate::harness::gate::Gate;
use crate::harness::{DEADLINE, until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Places for agents, if the process may open twice as many files.
const PLACES: u64 = 1_024;

/// The files that this process and what it starts may open.
fn may_open(files: Option<u64>) -> Option<u64> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = files.or(maximum);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    current
}

/// Connects until all places are taken. Connections are accepted in the order in which they are made.
async fn fill(gate: &Gate, places: u64) -> Vec<TcpStream> {
    let mut taken = Vec::new();
    for _ in 0..places {
        taken.push(TcpStream::connect(gate.agents).await.unwrap());
    }
    taken
}

/// A good call, as bytes: one that runs.
fn call(gate: &Gate) -> Vec<u8> {
    let (agent, call) = (gate.agent(), modern("tools/call", anew("oracle__write", json!({}))));
    agent.request(&agent.mirrored(&call), call.to_string().as_bytes())
}

async fn crowded(oracle: &ToolServer, gate: &Gate, places: u64) {
    let mut taken = fill(gate, places).await;
    for _ in 0..3 {
        let answer = exchange(gate.agents, call(gate)).await.expect("words for one more");
        assert_eq!((answer.status, answer.header("retry-after"), answer.error()), (503, Some("1"), -32603));
        assert!(answer.words().contains(&format!("all {places} connections are taken")), "{answer:?}");
    }
    assert_eq!(oracle.executions().len(), 0, "nothing of it was read");
    assert_eq!(gate.log().matches("all connections are taken").count(), 1, "{}", gate.log());

    // Whoever has a place keeps it, and operators have doors of their own.
    taken[0].write_all(&call(gate)).await.unwrap();
    let mut bytes = [0; 15];
    tokio::time::timeout(DEADLINE, taken[0].read_exact(&mut bytes)).await.unwrap().unwrap();
    assert_eq!(&bytes, b"HTTP/1.1 200 OK");
    assert_eq!(get(gate.operators, "/readyz").await.unwrap().status, 200);

    // More than are answered at once, and silent: all are closed, and none takes a place.
    let silent = fill(gate, 80).await;
    for mut connection in silent {
        let ended = tokio::time::timeout(DEADLINE, connection.read(&mut bytes)).await.expect("an end in time");
        assert!(ended.is_err() || ended.is_ok_and(|read| read == 0));
    }

    taken.pop();
    until("the place that became free is given to the next", || async {
        exchange(gate.agents, call(gate)).await.filter(super::Answer::is_done)
    })
    .await;
    assert_eq!(oracle.executions().len(), 2);
}

#[tokio::test]
async fn b9_one_connection_more_than_there_are_places_reads_so_and_recovers() {
    let files = may_open(None).unwrap_or(u64::MAX);
    let (oracle, gate) = governed().await;
    crowded(&oracle, &gate, PLACES.min(files / 2)).await;
}

#[tokio::test]
async fn i5_where_few_files_may_be_open_agents_leave_half_of_them() {
    let files = may_open(Some(200)).unwrap();
    let (oracle, gate) = governed().await;
    may_open(None);
    crowded(&oracle, &gate, files / 2).await;
}
