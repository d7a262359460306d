//! Closed segments are compressed while toolgate runs; nothing of what the ledger says is different for it.

use crate::harness::agent::modern;
use crate::harness::gate::{Gate, run};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use serde_json::{Value, json};
use std::path::PathBuf;

const TOKEN: &str = "token-of-the-reader-of-much";
/// A ledger that may have so much has segments of 2 MiB.
const MOST: u64 = 16 << 20;
/// Calls whose entries fill more than two of them.
const CALLS: usize = 220;
/// Bytes that each entry keeps of its call's argument.
const KEPT: usize = 24_000;

const POLICY: &str = "contracts:
  oracle__read: { purpose: Reads., actions: [read], secrets: [], audit: [x] }
";

async fn prepared(more: &str) -> (ToolServer, Setup) {
    let oracle = Script::new().tool("read", Behaviour::Answers).start().await;
    let setup = Setup::new()
        .server("oracle", &oracle)
        .policy(POLICY)
        .callers(&format!("  - {{ agent: reader, token: {TOKEN} }}"))
        .more(&format!("ledger: {{ max_bytes: {MOST}{more} }}"));
    (oracle, setup)
}

async fn read_much(gate: &Gate) {
    let agent = gate.agent().token(TOKEN);
    for number in 0..CALLS {
        let x = format!("{number:0>KEPT$}");
        let call = json!({ "name": "oracle__read", "arguments": { "x": x } });
        let answer = agent.sends(&modern("tools/call", call)).await;
        assert!(answer.is_done(), "{answer:?}");
    }
}

/// The segments, oldest first, and whether each is compressed, which its format says.
fn segments(setup: &Setup) -> Vec<(PathBuf, bool)> {
    let files = std::fs::read_dir(setup.directory().join("data/journal")).unwrap();
    let mut all: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "journal"))
        .map(|path| {
            let format = std::fs::read(&path).unwrap()[8];
            (path, format == 2)
        })
        .collect();
    all.sort();
    all
}

async fn says(setup: &Setup, words: &[&str]) -> String {
    let (code, out, err) = run(setup, &[&["ledger"], words, &["--data", "data"]].concat()).await;
    assert_eq!(code, 0, "{words:?}: {out}{err}");
    out
}

/// Issue 18: closed segments take a fraction of the room while toolgate goes on; `list`, `show`, `export` and `verify`
/// say of them what they said before, beside the process and after it.
#[tokio::test]
async fn closed_segments_are_compressed_and_read_as_before() {
    let (_oracle, setup) = prepared(", compress: false").await;
    let gate = setup.start().await;
    read_much(&gate).await;
    let setup = gate.stop().await;
    let plain = segments(&setup);
    assert!(plain.len() > 2, "{plain:?}");
    assert!(plain.iter().all(|(_, compressed)| !compressed), "{plain:?}");
    let exported = says(&setup, &["export"]).await;
    let verified = says(&setup, &["verify"]).await;
    let head = verified.lines().find_map(|line| line.strip_prefix("head "));
    let head = head.unwrap().to_owned();
    let size = std::fs::metadata(&plain[0].0).unwrap().len();
    // A segment that is closed has those of before compressed with it.
    let gate = setup.instead(", compress: false", "").start().await;
    read_much(&gate).await;
    let compressed = until("closed segments are compressed", || async {
        let now = segments(&gate.setup);
        let (newest, closed) = now.split_last().unwrap();
        (!newest.1 && closed.iter().all(|(_, compressed)| *compressed)).then_some(now)
    })
    .await;
    assert!(compressed.len() > plain.len(), "{compressed:?}");
    assert!(std::fs::metadata(&plain[0].0).unwrap().len() < size / 4);
    let setup = gate.setup.clone();
    let mut stopping = Some(gate);
    for running in [true, false] {
        if !running {
            stopping.take().unwrap().stop().await;
        }
        let now = says(&setup, &["export"]).await;
        assert!(now.starts_with(&exported), "running: {running}");
        let first = exported
            .lines()
            .find(|line| line.contains("\"kind\":\"entry\""));
        let first: Value = serde_json::from_str(first.unwrap()).unwrap();
        let id = first["action_id"].as_str().unwrap();
        assert!(says(&setup, &["show", id]).await.contains("oracle__read"));
        let listed = says(&setup, &["list", "--json", "--limit", "0"]).await;
        assert!(listed.contains(id), "running: {running}");
        let verified = says(&setup, &["verify", "--expect-head", &head]).await;
        assert!(verified.starts_with("ok: "), "{verified}");
    }
}
