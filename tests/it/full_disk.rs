//! A ledger that cannot be written: side effects are refused, reads go on, and operators are told (SECURITY §9, G4).

use crate::harness::agent::get;
use crate::harness::gate::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::json;

/// Needs a small file system of its own, so it needs to be root; says so when it cannot be.
#[tokio::test]
#[expect(clippy::print_stderr, reason = "a scenario that is left out says so")]
async fn g4_nothing_that_changes_something_runs_without_a_record() {
    let oracle = Script::new().tool("read", Behaviour::Answers).tool("write", Behaviour::Answers).start().await;
    let setup =
        Setup::new().server("oracle", &oracle).contracts(&[("oracle__read", "read"), ("oracle__write", "write")]);
    let data = setup.directory().join("data");
    std::fs::create_dir(&data).unwrap();
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1200k,mode=0700", "tmpfs"]).arg(&data);
    if !mount.output().is_ok_and(|done| done.status.success()) {
        eprintln!("SKIPPED: no file system can be mounted here; run as root to try a full disk");
        return;
    }
    let gate = setup.start().await;
    let agent = gate.agent();
    std::fs::write(data.join("everything-else"), vec![0_u8; 2 << 20]).unwrap_err();
    until("the ledger cannot be written", || async {
        agent.call("oracle__read", json!({})).await;
        get(gate.operators, "/readyz").await.filter(|answer| answer.status == 503)
    })
    .await;
    let before = oracle.executions().len();
    let refused = agent.call("oracle__write", json!({})).await;
    assert_eq!(refused.refusal(), "store_unavailable");
    assert!(refused.words().contains("did not run"), "{}", refused.words());
    assert_eq!(oracle.executions().len(), before);
    assert!(agent.call("oracle__read", json!({})).await.is_done());
    assert_eq!(oracle.executions().len(), before + 1);
    drop(gate);
    assert!(std::process::Command::new("umount").arg("-l").arg(&data).status().unwrap().success());
}
