//! More connections than there are places (threat-model §3B B9, §3I I5, §9): one more that asks for
//! something reads so at once, those that have a place keep it, and a place that becomes free is
//! given to the next. Who says nothing: `exhaustion`.

use super::{ToolServer, governed, json};
use crate::harness::agent::{anew, modern};
use crate::harness::answer::{exchange, get};
use crate::harness::gate::Gate;
use crate::harness::{DEADLINE, may_open, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Refusals one after the other that show that all places are taken.
const REFUSALS: usize = 20;
/// Places for agents, if the process may open twice as many files.
const PLACES: u64 = 1_024;

/// A good call, as bytes: one that runs.
fn call(gate: &Gate) -> Vec<u8> {
    let (agent, call) = (
        gate.agent(),
        modern("tools/call", anew("oracle__write", json!({}))),
    );
    agent.encoded(&agent.mirrored(&call), call.to_string().as_bytes())
}

/// Connections on each of which all of a good call has come but its last byte.
async fn fill(gate: &Gate, places: u64) -> Vec<TcpStream> {
    let mut taken = Vec::new();
    for _ in 0..places {
        let mut connection = TcpStream::connect(gate.agents).await.unwrap();
        let call = call(gate);
        connection.write_all(&call[..call.len() - 1]).await.unwrap();
        taken.push(connection);
    }
    taken
}

async fn crowded(oracle: &ToolServer, gate: &Gate, places: u64) {
    // A quarter is for strangers; of the rest, a quarter is for others than the one caller that
    // everybody is here.
    let own = (places - places / 4) / 4 * 3;
    let mut taken = fill(gate, own).await;
    // One of them may have come while a call was in its place that has ended since, and read that there is none. Which
    // call that was, the gate knows a moment after its agent has the answer: one refusal proves nothing.
    let is_full = async {
        let mut refused = 0;
        while refused < REFUSALS {
            let answer = exchange(gate.agents, call(gate)).await;
            if answer.expect("an answer").status == 503 {
                refused += 1;
            } else {
                refused = 0;
                taken.append(&mut fill(gate, 1).await);
            }
        }
    };
    let full = tokio::time::timeout(DEADLINE, is_full).await;
    full.expect("there is a last place");
    let before = oracle.executions().len();
    for _ in 0..3 {
        let answer = exchange(gate.agents, call(gate))
            .await
            .expect("words for one more");
        assert_eq!(
            (answer.status, answer.header("retry-after"), answer.error()),
            (503, Some("1"), -32603)
        );
        assert!(answer.words().contains(&format!(
            "all {own} connections that one caller may have are taken"
        )));
    }
    assert_eq!(oracle.executions().len(), before, "nothing of it was read");
    let said = || gate.log().matches("all connections are taken").count();
    until("it is said in the log", || async {
        (said() > 0).then_some(())
    })
    .await;
    assert_eq!(said(), 1, "{}", gate.log());

    // A caller that has a place keeps it, and operators have doors of their own.
    taken[0].write_all(b"}").await.unwrap();
    let mut bytes = [0; 15];
    tokio::time::timeout(DEADLINE, taken[0].read_exact(&mut bytes))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&bytes, b"HTTP/1.1 200 OK");
    assert_eq!(get(gate.operators, "/readyz").await.unwrap().status, 200);

    drop(taken.drain(1..10));
    until(
        "the place that became free is given to the next",
        || async {
            exchange(gate.agents, call(gate))
                .await
                .filter(super::Answer::is_done)
        },
    )
    .await;
    assert_eq!(oracle.executions().len(), before + 2);
    drop(taken);
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
