//! The ledger has a size as well as an age (threat-model §3G G7).

use super::{GOOD, Script, tell};
use crate::harness::agent::{Agent, modern};
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};

const MOST: u64 = 16 << 20;
/// Bytes of one entry, nearly: the contract has one argument kept.
const ENTRY: usize = 30_000;
/// Calls that make a fifth more than there may be.
const CALLS: usize = 660;
/// Writes that do.
const WRITES: usize = 330;

fn size(gate: &Gate) -> u64 {
    let files = std::fs::read_dir(gate.setup.directory().join("data/journal")).unwrap();
    files
        .filter_map(|file| file.unwrap().metadata().ok())
        .map(|about| about.len())
        .sum()
}

fn keyed(key: &str) -> Value {
    json!({ "name": "oracle__write", "arguments": {}, "_meta": { "dev.toolgate/idempotencyKey": key } })
}

async fn fill(agent: &Agent, calls: impl Iterator<Item = usize>) {
    for number in calls {
        let x = format!("{number:0>ENTRY$}");
        let call = modern(
            "tools/call",
            json!({ "name": "oracle__read", "arguments": { "x": x } }),
        );
        let answer = agent.sends(&call).await;
        assert!(answer.is_done(), "{answer:?}");
    }
}

/// Each leaves two entries with its argument.
async fn write(agent: &Agent, numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        let mut call = keyed(&format!("key {number}"));
        call["arguments"] = json!({ "x": format!("{number:0>ENTRY$}") });
        let call = modern("tools/call", call);
        // Faster than segments are dropped, it is refused for a moment, and asks again as it is
        // told to.
        until("room for the next", || async {
            let answer = agent.sends(&call).await;
            assert!(
                answer.is_done() || answer.refusal() == "store_unavailable",
                "{answer:?}"
            );
            answer.is_done().then_some(())
        })
        .await;
    }
}

async fn prepared(more: &str) -> (ToolServer, Setup) {
    let oracle = Script::new()
        .tool("read", Behaviour::Answers)
        .tool("write", Behaviour::Answers)
        .start()
        .await;
    let policy = "contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__write: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [], audit: [x] }
  oracle__read: { purpose: p, actions: [read], secrets: [], audit: [x] }
";
    let setup = Setup::new()
        .server("oracle", &oracle)
        .policy(policy)
        .callers(&format!("  - {{ agent: good, token: {GOOD} }}"))
        .more(more);
    (oracle, setup)
}

async fn ended(mut gate: Gate) -> Setup {
    gate.terminate();
    assert!(gate.wait().await.success());
    gate.setup.clone()
}

async fn verified(setup: &Setup) {
    let data = setup.directory().join("data");
    let verified = setup
        .run(&["ledger", "verify", "--data", data.to_str().unwrap()])
        .await;
    assert!(verified.status.success(), "{verified:?}");
}

/// An agent that reads a fifth more than the ledger may have pushes nothing out of it: the reads
/// are summed up, each still counts, and what belongs to a promise has its entry.
#[tokio::test]
async fn g7_reads_push_nothing_out_of_a_ledger_that_is_nearly_full() {
    let (_oracle, setup) =
        prepared(&format!("ledger: {{ max_bytes: {MOST}, compress: false }}")).await;
    let gate = setup.start().await;
    let agent = gate.agent().token(GOOD);
    let first = agent.modern("tools/call", keyed("kept")).await;
    assert!(first.is_done(), "{first:?}");
    let part = |first: usize| fill(&agent, (first..CALLS).step_by(4));
    futures_util::join!(part(0), part(1), part(2), part(3));
    let log = gate.log();
    let setup = ended(gate).await;
    assert!(!log.contains("are dropped"), "{log}");
    let gate = setup.start().await;
    assert!(size(&gate) <= MOST, "{}", size(&gate));
    let entries = gate.ledger().await;
    let (reads, others): (Vec<_>, Vec<_>) = entries
        .iter()
        .partition(|entry| entry["tool"] == "oracle__read");
    let counted: u64 = reads
        .iter()
        .map(|entry| entry["count"].as_u64().unwrap_or(1))
        .sum();
    assert_eq!(counted, CALLS as u64, "none is lost, none is counted twice");
    assert!(
        reads.len() < CALLS - 50 && others.len() == 1,
        "{} {}",
        reads.len(),
        others.len()
    );
    verified(&gate.setup).await;
    tell(&format!(
        "{CALLS} reads of {ENTRY} bytes in {MOST} bytes: {} entries, {} bytes",
        reads.len(),
        size(&gate)
    ));
}

/// A fifth more of what belongs to promises is recorded than the ledger may have: it stays within,
/// verifies, keeps what it promised before, and operators are told of what is gone.
#[tokio::test]
async fn g7_a_ledger_that_is_full_drops_its_oldest_and_keeps_its_promises() {
    let (oracle, setup) =
        prepared(&format!("ledger: {{ max_bytes: {MOST}, compress: false }}")).await;
    let gate = setup.start().await;
    let agent = gate.agent().token(GOOD);
    let first = agent.modern("tools/call", keyed("kept")).await;
    assert!(first.is_done(), "{first:?}");
    let part = |first: usize| write(&agent, (first..WRITES).step_by(4));
    futures_util::join!(part(0), part(1), part(2), part(3));
    // The files go first, then it is said and counted.
    let told = until("the ledger is within its size, and it is said", || async {
        let log = gate.log();
        let told = log
            .lines()
            .find(|line| line.contains("old segments of the ledger are dropped before"))?;
        (size(&gate) <= MOST).then(|| told.to_owned())
    })
    .await;
    assert!(told.contains(r#""level":"ERROR""#), "{told}");
    assert!(told.contains(r#""early":"#), "{told}");
    until("what is gone is counted", || async {
        let metrics = gate.operators("/metrics").await;
        metrics
            .lines()
            .find_map(|line| line.strip_prefix("toolgate_ledger_records_dropped_early_total "))
            .filter(|count| *count != "0")
            .map(|_| ())
    })
    .await;
    let gate = ended(gate).await.start().await;
    let agent = gate.agent().token(GOOD);
    let again = agent.modern("tools/call", keyed("kept")).await;
    assert!(again.text().contains("\"replayed\":true"), "{again:?}");
    let writes = oracle
        .executions()
        .iter()
        .filter(|execution| execution.tool == "write")
        .count();
    assert_eq!(
        writes,
        1 + WRITES,
        "its segment is gone, the promise is not"
    );
    verified(&gate.setup).await;
    let left = gate.ledger().await.len();
    assert!(left < 2 * WRITES && left > 100, "{left}");
    tell(&format!(
        "{WRITES} writes of {ENTRY} bytes in {MOST} bytes: {left} entries, {} bytes",
        size(&gate)
    ));
}

/// `doctor` drops nothing at all, whatever is configured and however long it takes: what a ledger
/// is to lose is decided by who runs toolgate.
#[tokio::test]
async fn g7_doctor_drops_nothing() {
    // Twice as much first, so that nothing goes yet, in segments that may.
    let larger = format!("ledger: {{ max_bytes: {}, compress: false }}", 2 * MOST);
    let (_oracle, setup) = prepared(&larger).await;
    let gate = setup.start().await;
    let agent = gate.agent().token(GOOD);
    let part = |first: usize| fill(&agent, (first..CALLS).step_by(4));
    futures_util::join!(part(0), part(1), part(2), part(3));
    let setup = ended(gate).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let setup = setup
        .instead(
            &larger,
            &format!("ledger: {{ max_bytes: {MOST}, compress: false }}"),
        )
        .server_with(
            "silent",
            &format!("url: \"http://{address}/mcp\", start_timeout: 5s"),
        );
    let entries = async |setup: &Setup| {
        let data = setup.directory().join("data");
        let listed = setup
            .run(&["ledger", "list", "--json", "--data", data.to_str().unwrap()])
            .await;
        String::from_utf8(listed.stdout)
            .unwrap()
            .lines()
            .filter(|line| line.contains("oracle__read"))
            .count()
    };
    assert_eq!(entries(&setup).await, CALLS);
    let config = setup.write();
    let looked = setup
        .run(&["doctor", "--config", config.to_str().unwrap()])
        .await;
    let text = String::from_utf8_lossy(&looked.stdout);
    assert!(text.contains("silent"), "{text}");
    assert_eq!(entries(&setup).await, CALLS, "{text}");
}

/// A size that nothing fits in is refused with its place.
#[tokio::test]
async fn g7_a_size_that_nothing_fits_in_is_refused() {
    let setup = Setup::new().more("ledger: { max_bytes: 1000 }");
    let config = setup.write();
    let checked = setup.run(&["check", config.to_str().unwrap()]).await;
    let text = String::from_utf8_lossy(&checked.stdout).into_owned()
        + &String::from_utf8_lossy(&checked.stderr);
    assert!(
        !checked.status.success() && text.contains("16777216"),
        "{text}"
    );
}
