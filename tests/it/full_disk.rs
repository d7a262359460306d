//! A ledger that cannot be written: side effects are refused, reads go on, operators are told, and
//! it ends by itself where that is safe (threat-model §9, §12, G4, G7).
//!
//! Needs file systems of its own, so it needs to be root; says so when it cannot be.

use crate::harness::agent::{anew, modern};
use crate::harness::answer::get;
use crate::harness::gate::Gate;
use crate::harness::left_out::left_out;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls that are made side by side, where it takes many.
const CALLS_AT_ONCE: usize = 16;

/// File systems that are unmounted, the last one first.
#[derive(Default)]
struct Mounts(Vec<PathBuf>);

impl Mounts {
    /// Unmounts what was mounted last; a process that has files open there keeps them.
    fn remove(&mut self) {
        let mount = self.0.pop().unwrap();
        assert!(ran(Command::new("umount").arg("-l").arg(mount)));
    }

    /// Mounts with those arguments on `on`, which is made. Says so when that cannot be done.
    fn add(&mut self, arguments: &[&str], on: &Path) -> bool {
        let need = if arguments.contains(&"loop") {
            "loop device"
        } else {
            "root"
        };
        std::fs::create_dir_all(on).unwrap();
        let mounted = ran(Command::new("mount").args(arguments).arg(on));
        if mounted {
            self.0.push(on.to_owned());
        } else {
            left_out(
                need,
                "run as root, where such a file system can be mounted, to try it",
            );
        }
        mounted
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for mount in self.0.iter().rev() {
            ran(Command::new("umount").arg("-l").arg(mount));
        }
    }
}

fn ran(command: &mut Command) -> bool {
    command.output().is_ok_and(|done| done.status.success())
}

async fn oracle() -> ToolServer {
    Script::new()
        .tool("read", Behaviour::Answers)
        .tool("write", Behaviour::Answers)
        .start()
        .await
}

fn setup(oracle: &ToolServer) -> Setup {
    Setup::new()
        .server("oracle", oracle)
        .contracts(&[("oracle__read", "read"), ("oracle__write", "write")])
        .unwatched()
}

/// A result with that many bytes of text after the word for which agents wait.
fn long(bytes: usize) -> Value {
    let content =
        ["done".to_owned(), "x".repeat(bytes)].map(|text| json!({ "type": "text", "text": text }));
    json!({ "content": content, "isError": false, "resultType": "complete" })
}

async fn ready(gate: &Gate) {
    until("/readyz is 200", || async {
        gate.agent().modern_call("oracle__read", json!({})).await;
        get(gate.operators, "/readyz")
            .await
            .filter(|answer| answer.status == 200)
    })
    .await;
}

/// Waits until the journal has met a full disk. It looks for more room only once a part of what it has
/// reserved is used, which takes entries of a few hundred reads: one after the other, they would not be
/// there in time on a busy machine.
async fn filled(gate: &Gate) {
    until("/readyz is 503", || async {
        let read = |_| async { gate.agent().modern_call("oracle__read", json!({})).await };
        join_all((0..CALLS_AT_ONCE).map(read)).await;
        let answer = get(gate.operators, "/readyz").await;
        answer.filter(|answer| answer.status == 503)
    })
    .await;
}

/// 003-02: without room for their intents calls with side effects are refused, and reads go on.
#[tokio::test]
async fn g4_nothing_that_changes_something_runs_without_a_record() {
    let oracle = oracle().await;
    let setup = setup(&oracle);
    let (data, mut mounts) = (setup.directory().join("data"), Mounts::default());
    if !mounts.add(&["-t", "tmpfs", "-o", "size=16m,mode=0700", "tmpfs"], &data) {
        return;
    }
    let gate = setup.start().await;
    let agent = gate.agent();
    assert!(agent.anew_call("oracle__write", json!({})).await.is_done());
    std::fs::write(data.join("everything-else"), vec![0_u8; 32 << 20]).unwrap_err();
    filled(&gate).await;
    let before = oracle.executions().len();
    for _ in 0..3 {
        let refused = agent.anew_call("oracle__write", json!({})).await;
        assert_eq!(refused.refusal(), "store_unavailable");
        assert!(
            refused.words().contains("did not run"),
            "{}",
            refused.words()
        );
    }
    assert_eq!(oracle.executions().len(), before);
    // One line of the log stands for all of them.
    let said = gate.log().matches("the store refuses side effects").count();
    assert_eq!(said, 1, "{}", gate.log());
    // Operators are told before, and read it in the metrics.
    until("the disk is told to be nearly full", || async {
        let is_told = gate
            .log()
            .contains("the disk of the data directory is nearly full");
        let free = gate.metric("toolgate_disk_free_bytes").await;
        (is_told && free < f64::from(2 << 20)).then_some(())
    })
    .await;
    let total = gate.metric("toolgate_disk_total_bytes").await;
    assert!((total - f64::from(16 << 20)).abs() < 1.0, "{total}");
    let reasons = gate.readiness().await["reasons"].to_string();
    assert!(reasons.contains("nearly full"), "{reasons}");
    assert!(agent.modern_call("oracle__read", json!({})).await.is_done());
    assert_eq!(oracle.executions().len(), before + 1);
    // The operator makes space: it goes on without a restart, and what was refused meanwhile is in
    // the ledger too.
    std::fs::remove_file(data.join("everything-else")).unwrap();
    ready(&gate).await;
    assert!(agent.anew_call("oracle__write", json!({})).await.is_done());
    let entries = gate.entries(before + 4).await;
    let refused = entries
        .iter()
        .filter(|entry| entry["aborted_reason"] == "store_unavailable")
        .count();
    assert_eq!(refused, 3);
    let verified = gate
        .setup
        .run(&["ledger", "verify", "--data", data.to_str().unwrap()])
        .await;
    assert!(
        verified.status.success(),
        "{}",
        String::from_utf8_lossy(&verified.stdout)
    );
}

/// threat-model §3I: a process of toolgate's account lowers how large its files may get. What
/// changes something is refused as on a full disk, toolgate lives, and goes on once they may be
/// larger; programs that it starts do with the signal what they always did.
#[tokio::test]
async fn g4_files_that_may_not_grow_do_not_end_it() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let oracle = oracle().await;
    let setup = setup(&oracle);
    let seen = setup.directory().join("signals");
    let script = format!(
        "grep SigIgn /proc/self/status > {}; exec sleep 600",
        seen.display()
    );
    let gate = setup
        .server_with("child", &format!("command: sh, args: [-c, \"{script}\"]"))
        .start_at_once()
        .await;
    let agent = gate.agent();
    until("it writes", || async {
        agent
            .anew_call("oracle__write", json!({}))
            .await
            .is_done()
            .then_some(())
    })
    .await;
    let pid = Pid::from_raw(i32::try_from(gate.pid()).unwrap()).unwrap();
    let usual = prlimit(
        Some(pid),
        Resource::Fsize,
        Rlimit {
            current: Some(1),
            maximum: None,
        },
    )
    .unwrap();
    until("it is refused", || async {
        let answer = agent.anew_call("oracle__write", json!({})).await;
        (answer.refusal() == "store_unavailable").then_some(())
    })
    .await;
    let before = oracle.executions().len();
    assert_eq!(
        agent.anew_call("oracle__write", json!({})).await.refusal(),
        "store_unavailable"
    );
    assert_eq!(oracle.executions().len(), before);
    prlimit(Some(pid), Resource::Fsize, usual).unwrap();
    until("it goes on", || async {
        agent
            .anew_call("oracle__write", json!({}))
            .await
            .is_done()
            .then_some(())
    })
    .await;
    let ignored = std::fs::read_to_string(seen).unwrap();
    let ignored = u64::from_str_radix(ignored.split_whitespace().nth(1).unwrap(), 16).unwrap();
    assert_eq!(
        ignored & (1 << (25 - 1)),
        0,
        "SIGXFSZ is not ignored by what toolgate starts"
    );
}

// The index meets the full disk first: nothing is begun, what is in flight ends, and the index is
// made anew without a restart.
#[tokio::test]
async fn g4_an_index_that_cannot_be_written_is_made_anew() {
    let (oracle, setup) = holding().await;
    let (index, mut mounts) = (setup.directory().join("data/index"), Mounts::default());
    // An index that is there already is trusted, wherever it lies.
    let mut gate = setup.start().await;
    gate.terminate();
    gate.wait().await;
    let copy = gate.setup.directory().join("copy");
    std::fs::rename(&index, &copy).unwrap();
    if !mounts.add(&["-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs"], &index) {
        return;
    }
    assert!(ran(Command::new("cp")
        .arg("-r")
        .arg(copy.join("."))
        .arg(&index)));
    let gate = gate.setup.clone().start().await;
    let agent = gate.agent();
    let first = anew("oracle__write", json!({}));
    assert!(agent.modern("tools/call", first.clone()).await.is_done());
    let holder = agent.declaring(json!({})).await;
    let held = tokio::spawn(async move { holder.anew_call("oracle__hold", json!({})).await });
    until("the call is held", || async {
        (oracle.executions().len() == 2).then_some(())
    })
    .await;
    std::fs::write(index.join("everything-else"), vec![0_u8; 8 << 20]).unwrap_err();
    let broken = until("/readyz is 503", || async {
        agent.anew_call("oracle__write", json!({})).await;
        get(gate.operators, "/readyz")
            .await
            .filter(|answer| answer.status == 503)
    })
    .await;
    let broken = broken.text();
    assert!(broken.contains("the index is made anew"), "{broken}");
    let before = oracle.executions().len();
    assert_eq!(
        agent.anew_call("oracle__write", json!({})).await.refusal(),
        "store_unavailable"
    );
    let read = agent.modern_call("oracle__read", json!({})).await;
    assert!(read.is_done(), "{}", read.text());
    oracle.release();
    assert!(held.await.unwrap().is_done());
    assert_eq!(oracle.executions().len(), before + 1);
    mounts.remove();
    ready(&gate).await;
    let before = oracle.executions().len();
    let again = agent.modern("tools/call", first).await;
    assert!(
        again.text().contains("\"replayed\":true"),
        "{}",
        again.text()
    );
    assert_eq!(oracle.executions().len(), before);
    assert!(agent.anew_call("oracle__write", json!({})).await.is_done());
}

/// An oracle with long answers, and a tool that holds its own.
async fn holding() -> (ToolServer, Setup) {
    let long = long(12 << 10);
    let script = Script::new()
        .tool("read", Behaviour::Answers)
        .tool("write", Behaviour::Says(long));
    let oracle = script.tool("hold", Behaviour::Held).start().await;
    let tools = [
        ("oracle__read", "read"),
        ("oracle__write", "write"),
        ("oracle__hold", "write"),
    ];
    let setup = Setup::new().server("oracle", &oracle).contracts(&tools);
    (oracle, setup.unwatched())
}

// An answer too long for the journal's reserve: its agent gets it all the same, and it is kept when
// there is room.
#[tokio::test]
async fn g4_an_answer_without_room_is_given_and_kept_later() {
    let long = long(64 << 10);
    let script = Script::new()
        .tool("read", Behaviour::Answers)
        .tool("hold", Behaviour::Held);
    let oracle = script
        .tool("write", Behaviour::SaysOnceReleased(long))
        .start()
        .await;
    let setup = setup(&oracle);
    let (data, mut mounts) = (setup.directory().join("data"), Mounts::default());
    if !mounts.add(&["-t", "tmpfs", "-o", "size=16m,mode=0700", "tmpfs"], &data) {
        return;
    }
    let gate = setup.start().await;
    let (agent, message) = (gate.agent(), anew("oracle__write", json!({})));
    let (caller, params) = (agent.clone(), message.clone());
    let held = tokio::spawn(async move { caller.modern("tools/call", params).await });
    until("the call is held", || async {
        (oracle.executions().len() == 1).then_some(())
    })
    .await;
    std::fs::write(data.join("everything-else"), vec![0_u8; 32 << 20]).unwrap_err();
    oracle.release();
    let told = held.await.unwrap();
    assert_eq!(told.refusal(), "executed_but_not_recorded");
    assert!(
        told.text().contains(&"x".repeat(64 << 10)),
        "the result is attached"
    );
    let again = agent.modern("tools/call", message.clone()).await;
    assert_eq!(again.refusal(), "outcome_unknown");
    std::fs::remove_file(data.join("everything-else")).unwrap();
    let again = until("the answer is kept", || async {
        let again = agent.modern("tools/call", message.clone()).await;
        again.is_done().then_some(again)
    })
    .await;
    assert!(
        again.text().contains("\"replayed\":true") && again.text().contains(&"x".repeat(64 << 10))
    );
    assert_eq!(
        oracle
            .executions()
            .iter()
            .filter(|execution| execution.tool == "write")
            .count(),
        1
    );
}

// A disk that takes writes and fails to sync them: nobody knows what is on it, so the process ends,
// with a reason.
#[tokio::test]
async fn g4_a_failed_sync_ends_the_process() {
    let oracle = oracle().await;
    let setup = setup(&oracle);
    let (below, data) = (
        setup.directory().join("below"),
        setup.directory().join("data"),
    );
    let mut mounts = Mounts::default();
    if !mounts.add(&["-t", "tmpfs", "-o", "size=24m", "tmpfs"], &below) {
        return;
    }
    // A sparse disk image that the file system below has no space for.
    let image = below.join("image");
    std::fs::File::create(&image)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    let made = ran(Command::new("mkfs.ext4")
        .args(["-q", "-E", "lazy_itable_init=0"])
        .arg(&image));
    if !made {
        return left_out("mkfs.ext4", "install it to try a disk that fills up below");
    }
    if !mounts.add(&["-o", "loop", image.to_str().unwrap()], &data) {
        return;
    }
    let mut gate = setup.start().await;
    let agent = gate.agent();
    assert!(agent.anew_call("oracle__write", json!({})).await.is_done());
    std::fs::write(below.join("everything-else"), vec![0_u8; 32 << 20]).unwrap_err();
    // The ledger grows beyond what is filled with zeros already, into places of the disk that nothing
    // stands behind. Calls are answered, or the process is gone.
    until("the process ends", || async {
        let write = |_| async {
            let message = modern("tools/call", anew("oracle__write", json!({})));
            let request = agent.encoded(&agent.mirrored(&message), message.to_string().as_bytes());
            agent.bytes(request).await
        };
        // One sync is for all of them.
        let answers = join_all((0..CALLS_AT_ONCE).map(write)).await;
        answers.iter().any(Option::is_none).then_some(())
    })
    .await;
    let status = gate.wait().await;
    assert_eq!(status.code(), Some(1));
    assert!(
        gate.log().contains("the journal can't be written any more"),
        "{}",
        gate.log()
    );
}
