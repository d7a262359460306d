//! A toolgate whose index is gone opens beside the reads (003-02, 003-115, 004-14; guarantees §8): what
//! only reads is served, everything else waits, and nothing is lost, whenever it is killed.

use crate::harness::answer::{code, get};
use crate::harness::gate::{Gate, run};
use crate::harness::journal::rows;
use crate::harness::setup::{Setup, beside, contract, undo};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::until;
use crate::kills::{PROGRAM, build};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

/// The points of a start that makes its index anew.
pub const OPENING: [&str; 2] = ["opening", "opened"];

const OPERATORS: &str =
    "tokens: [ { name: ann, token: token-of-ann-who-has-the-roles, roles: [approver, switch] } ]";

/// A toolgate before one tool server, and a pipe at which its opening waits.
struct Stage {
    oracle: ToolServer,
    setup: Setup,
    pipe: PathBuf,
}

impl Stage {
    async fn new() -> Self {
        build();
        let oracle = Script::new()
            .tool("look", Behaviour::Answers)
            .tool("count", Behaviour::Answers)
            .tool("write", Behaviour::Answers)
            .tool("hang", Behaviour::Never)
            .start()
            .await;
        let few = ", budget: { max_calls_per_task: 2 }";
        let policy = format!(
            "contracts:\n  oracle__look: {}\n  oracle__count: {}\n  oracle__write: {}\n  oracle__hang: {}\n{}\n",
            contract("oracle__look", "read", ""),
            contract("oracle__count", "read", few),
            contract("oracle__write", "write", ""),
            contract("oracle__hang", "write", ""),
            undo("oracle__write"),
        );
        let setup = Setup::new()
            .server("oracle", &oracle)
            .policy(&policy)
            .unwatched()
            .operators(OPERATORS)
            .program(beside(PROGRAM));
        let pipe = setup.directory().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        Self {
            oracle,
            setup,
            pipe,
        }
    }

    async fn start(&self) -> Gate {
        self.setup.clone().start().await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.setup.directory().join(name)
    }

    /// The same, which takes few records of the journal for many.
    fn slow(&self) -> Setup {
        let setup = self.setup.clone();
        setup.environment("TOOLGATE_OPENING_RECORDS", "0")
    }

    /// Starts without the index, which is not made before [`Stage::go_on`]; serves reads.
    async fn opens(&self) -> Gate {
        std::fs::remove_dir_all(self.path("data/index")).unwrap();
        let hold = format!("opening:{}", self.pipe.display());
        let gate = self
            .slow()
            .environment("TOOLGATE_HOLD", &hold)
            .begin()
            .await;
        until("a read is served", || async {
            code(&read(&gate, "look", "first").await)
                .is_none()
                .then_some(())
        })
        .await;
        gate
    }

    /// Now the index is made.
    async fn go_on(&self) {
        let pipe = self.pipe.clone();
        let written = tokio::task::spawn_blocking(move || std::fs::write(pipe, "go on"));
        written.await.unwrap().unwrap();
    }

    async fn is_open(&self, gate: &Gate) {
        self.go_on().await;
        until("/readyz is 200", || async {
            let answer = get(gate.operators, "/readyz").await?;
            (answer.status == 200).then_some(())
        })
        .await;
    }

    /// How often the tool has run.
    fn ran(&self, tool: &str) -> usize {
        let executions = self.oracle.executions();
        executions.iter().filter(|one| one.tool == tool).count()
    }
}

async fn call(gate: &Gate, tool: &str, meta: Value) -> Value {
    let params = json!({ "name": format!("oracle__{tool}"), "arguments": {}, "_meta": meta });
    gate.agent().ask("tools/call", params).await
}

async fn read(gate: &Gate, tool: &str, task: &str) -> Value {
    call(gate, tool, json!({ "dev.toolgate/task": task })).await
}

async fn write(gate: &Gate, tool: &str, key: &str) -> Value {
    let meta = json!({ "dev.toolgate/idempotencyKey": key, "dev.toolgate/session": key });
    call(gate, tool, meta).await
}

/// Runs `toolgate …` as ann, at the door.
async fn says(gate: &Gate, words: &[&str]) -> (i32, String) {
    let door = gate.operators.to_string();
    let place = ["--config", "toolgate.yaml", "--admin", &door];
    let (status, out, err) = run(&gate.setup.operator("ann"), &[words, &place].concat()).await;
    (status, out + &err)
}

/// The task of that name, as operators see it.
async fn task(gate: &Gate, name: &str) -> Option<Value> {
    let (_, listed) = says(gate, &["tasks", "list", "--json"]).await;
    let mut tasks = listed
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    tasks.find(|task: &Value| task["name"] == name)
}

fn is_refused(answer: &Value) {
    assert_eq!(
        code(answer).as_deref(),
        Some("store_unavailable"),
        "{answer}"
    );
    let words = answer["result"]["content"][0]["text"].as_str().unwrap();
    for part in ["still reads its ledger (0 % so far)", "did not run"] {
        assert!(words.contains(part), "{words}");
    }
}

/// 003-02, 003-115: reads are served, recorded and counted; what changes something is refused, with how
/// far it is; then everything goes on without a restart.
#[tokio::test]
async fn reads_are_served_while_the_index_is_made_anew() {
    let stage = Stage::new().await;
    let mut gate = stage.start().await;
    assert_eq!(code(&write(&gate, "write", "one").await), None);
    gate.kill().await;
    let gate = stage.opens().await;
    for key in ["one", "two"] {
        is_refused(&write(&gate, "write", key).await);
    }
    for _ in 0..3 {
        let answer = read(&gate, "look", "counted").await;
        assert_eq!(code(&answer), None, "{answer}");
    }
    assert_eq!(stage.ran("write"), 1);
    assert_eq!(get(gate.operators, "/healthz").await.unwrap().status, 200);
    assert_eq!(get(gate.operators, "/readyz").await.unwrap().status, 503);
    let why = "the index is brought up to the journal, 0 % so far: only reads are served";
    let reasons = gate.readiness().await["reasons"].clone();
    assert!(
        reasons.as_array().unwrap().contains(&json!(why)),
        "{reasons}"
    );
    let (status, seen) = says(&gate, &["status"]).await;
    assert!(status == 1 && seen.contains(why), "{seen}");
    until("the ledger has the reads and what was refused", || async {
        let entries = gate.ledger().await;
        let of = |tool: &str| entries.iter().filter(|entry| entry["tool"] == tool).count();
        (of("oracle__look") >= 4 && of("oracle__write") == 3).then_some(())
    })
    .await;

    stage.is_open(&gate).await;
    assert_eq!(code(&write(&gate, "write", "one").await), None);
    assert_eq!(stage.ran("write"), 1, "the answer of before is given again");
    assert_eq!(code(&write(&gate, "write", "two").await), None);
    assert_eq!(stage.ran("write"), 2);
    let counted = task(&gate, "counted").await.unwrap();
    assert_eq!(counted["steps"], 3, "{counted}");
    gate.stop().await;
    rows(&stage.path("data")).unwrap();
}

/// 003-09, 003-85: what an operator has stopped stays so, and a budget that a policy gives to reads is not
/// guessed at.
#[tokio::test]
async fn what_the_index_alone_could_refuse_waits_for_it() {
    let stage = Stage::new().await;
    let gate = stage.start().await;
    assert_eq!(code(&read(&gate, "look", "bad").await), None);
    for _ in 0..2 {
        assert_eq!(code(&read(&gate, "count", "few").await), None);
    }
    let bad = until("the task is listed", || task(&gate, "bad")).await;
    let id = bad["id"].as_str().unwrap();
    let (status, said) = says(&gate, &["tasks", "stop", id, "--why", "enough"]).await;
    assert_eq!(status, 0, "{said}");
    gate.stop().await;
    let gate = stage.opens().await;
    assert_eq!(code(&read(&gate, "look", "good").await), None);
    is_refused(&read(&gate, "look", "bad").await);
    is_refused(&read(&gate, "count", "few").await);
    assert_eq!(stage.ran("count"), 2);

    stage.is_open(&gate).await;
    let stopped = read(&gate, "look", "bad").await;
    assert_eq!(code(&stopped).as_deref(), Some("task_stopped"), "{stopped}");
    let over = read(&gate, "count", "few").await;
    let over = code(&over).unwrap_or_default();
    assert_eq!(over, "budget_calls_exceeded");
    assert_eq!(stage.ran("count"), 2);
}

/// 004-14: whenever it is killed, nothing runs twice, nothing acknowledged is lost, and what was in flight is
/// unknown.
#[tokio::test]
async fn a_kill_while_the_index_is_made_loses_nothing() {
    for point in [None, Some(OPENING[0]), Some(OPENING[1])] {
        let stage = Stage::new().await;
        let mut gate = stage.start().await;
        assert_eq!(code(&write(&gate, "write", "one").await), None);
        let agent = gate.agent();
        let meta = json!({ "dev.toolgate/idempotencyKey": "lost", "dev.toolgate/session": "lost" });
        let params = json!({ "name": "oracle__hang", "arguments": {}, "_meta": meta });
        let message = agent.request("tools/call", params);
        tokio::select! {
            _ = agent.post(&message) => panic!("it never answers"),
            () = until("it runs", || async { (stage.ran("hang") == 1).then_some(()) }) => {}
        }
        gate.kill().await;
        if let Some(point) = point {
            std::fs::remove_dir_all(stage.path("data/index")).unwrap();
            let armed = stage.slow().environment("TOOLGATE_FAILPOINT", point);
            let ended = armed.run(&["serve", "--config", "toolgate.yaml"]).await;
            assert_eq!(ended.status.signal(), Some(9), "{point}");
        } else {
            stage.opens().await.kill().await;
        }
        let gate = stage.start().await;
        assert_eq!(code(&write(&gate, "write", "one").await), None, "{point:?}");
        let lost = write(&gate, "hang", "lost").await;
        assert_eq!(code(&lost).as_deref(), Some("outcome_unknown"), "{lost}");
        assert_eq!((stage.ran("write"), stage.ran("hang")), (1, 1), "{point:?}");
        gate.stop().await;
        rows(&stage.path("data")).unwrap();
    }
}

/// A store that turns out not to be one ends the process, as at a start that waits for it.
#[tokio::test]
async fn an_index_that_cannot_be_made_ends_the_process() {
    let stage = Stage::new().await;
    let mut gate = stage.start().await;
    assert_eq!(code(&write(&gate, "write", "one").await), None);
    gate.kill().await;
    let mut gate = stage.opens().await;
    std::fs::create_dir(stage.path("data/index/run.new")).unwrap();
    stage.go_on().await;
    assert_eq!(gate.wait().await.code(), Some(1));
    let log = gate.log();
    assert!(
        log.contains("stopping: the store cannot be opened"),
        "{log}"
    );
    let gate = stage.start().await;
    assert_eq!(code(&write(&gate, "write", "one").await), None);
    assert_eq!(stage.ran("write"), 1);
}
