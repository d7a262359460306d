//! Tool servers as child processes that answer garbage, twice, for another, or never, and that die
//! before or after their effect (threat-model §3A A12, A13).

use super::{Setup, executions, json};
use crate::harness::gate::Gate;
use crate::harness::until;

/// What a tool does, what the agent reads after a side effect, and whether the child lives on.
const MISBEHAVIOUR: &[(&str, &str, bool)] = &[
    ("garbage", "outcome_unknown", true),
    ("twice", "", true),
    ("foreign_id", "outcome_unknown", true),
    ("never", "outcome_unknown", true),
    ("asks", "", true),
    ("dies_before", "outcome_unknown", false),
    ("dies_after", "outcome_unknown", false),
    ("half_a_line", "outcome_unknown", false),
    ("long_line", "outcome_unknown", false),
];

async fn scenery(arguments: &str) -> Gate {
    let mut contracts: Vec<(String, &str)> = MISBEHAVIOUR
        .iter()
        .map(|(tool, ..)| (format!("odd__{tool}"), "write"))
        .collect();
    contracts.push(("odd__read".to_owned(), "read"));
    contracts.push(("calm__read".to_owned(), "read"));
    let contracts: Vec<(&str, &str)> = contracts
        .iter()
        .map(|(tool, action)| (tool.as_str(), *action))
        .collect();
    let setup = Setup::new()
        .child("odd", arguments, "1s")
        .child("calm", arguments, "20s")
        .contracts(&contracts);
    setup.start().await
}

/// Waits until the child, which may have to be started again, answers.
async fn recovered(gate: &Gate) {
    until("the child answers again", || async {
        let agent = gate.agent();
        let answer = agent.modern_call("odd__read", json!({})).await;
        answer.is_done().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a12_a13_a_modern_child_that_misbehaves_costs_its_call_only() {
    let gate = scenery("--modern").await;
    for (tool, refusal, lives_on) in MISBEHAVIOUR {
        let log = gate.setup.log_of("odd");
        let before = executions(&log)
            .iter()
            .filter(|run| run.tool == *tool)
            .count();
        let name = format!("odd__{tool}");
        let answer = gate.agent().modern_call(&name, json!({ "n": 1 })).await;
        assert_eq!(
            (answer.status, answer.refusal().as_str()),
            (200, *refusal),
            "{tool}: {answer:?}"
        );
        let ran = executions(&log)
            .iter()
            .filter(|run| run.tool == *tool)
            .count()
            - before;
        assert_eq!(ran, usize::from(*tool != "dies_before"), "{tool}");
        assert!(
            gate.agent()
                .modern_call("calm__read", json!({}))
                .await
                .is_done(),
            "another server suffers from {tool}"
        );
        if *lives_on {
            assert!(
                gate.agent()
                    .modern_call("odd__read", json!({}))
                    .await
                    .is_done(),
                "after {tool}"
            );
        } else {
            recovered(&gate).await;
        }
        let entry = until("an entry", || async {
            gate.ledger()
                .await
                .into_iter()
                .find(|entry| entry["tool"] == name.as_str())
        })
        .await;
        let outcome = if refusal.is_empty() {
            "answered"
        } else {
            "unknown"
        };
        assert_eq!(entry["outcome"], outcome, "{tool}: {entry}");
    }
}

#[tokio::test]
async fn a12_a_legacy_child_that_dies_after_its_effect_is_not_called_again() {
    let gate = scenery("--legacy").await;
    let session = gate.agent().declaring(json!({})).await;
    let answer = session.legacy_call("odd__dies_after", json!({})).await;
    assert_eq!(answer.refusal(), "outcome_unknown", "{answer:?}");
    assert!(session.legacy_call("calm__read", json!({})).await.is_done());
    let ran = executions(&gate.setup.log_of("odd"));
    assert_eq!(
        ran.iter().map(|run| run.tool.as_str()).collect::<Vec<_>>(),
        ["dies_after"]
    );
    assert_eq!(
        gate.entries(2)
            .await
            .iter()
            .filter(|entry| entry["outcome"] == "unknown")
            .count(),
        1
    );
}

/// Answers the handshake and the listing, notes when, and dies.
const DIES_AFTER_LISTING: &str = r#"
import json, sys, time
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "dying", "version": "1"}}
    elif message["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
    if message["method"] == "tools/list":
        with open("listed", "a") as file: file.write("%f\n" % time.monotonic())
        sys.exit(3)
"#;

#[tokio::test]
async fn i4_a_child_that_lists_and_dies_is_started_at_growing_distances() {
    let setup = Setup::new()
        .server_with(
            "dying",
            "command: python3, args: [dying.py], cwd: ., env: { PATH: \"${PATH}\" }",
        )
        .child("calm", "", "20s")
        .contracts(&[("dying__t", "read"), ("calm__read", "read")]);
    std::fs::write(setup.directory().join("dying.py"), DIES_AFTER_LISTING).unwrap();
    let listed = setup.directory().join("listed");
    let gate = setup.begin().await;
    let times = until("it was started four times", || async {
        let times: Vec<f64> = std::fs::read_to_string(&listed)
            .ok()?
            .lines()
            .map(|time| time.parse().unwrap())
            .collect();
        (times.len() >= 4).then_some(times)
    })
    .await;
    // Half of 500 ms, 1 s and 2 s is the least that the jitter leaves.
    for (pair, least) in times.windows(2).zip([0.25, 0.5, 1.0]) {
        assert!(pair[1] - pair[0] >= least, "less than {least} s: {times:?}");
    }
    assert!(
        gate.agent()
            .at("calm")
            .modern_call("read", json!({}))
            .await
            .is_done(),
        "nobody else suffers"
    );
    until("the log says when it is tried again", || async {
        let log = gate.log();
        let lost = log
            .lines()
            .filter(|line| line.contains("tool server is lost") && line.contains("again_in"));
        (lost.count() >= 3).then_some(())
    })
    .await;
}
