//! What the ledger of a running toolgate says of a changed policy (003-117).

use crate::harness::gate::{Gate, runs};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until_or;
use serde_json::{Value, json};

const POLICY: &str = "contracts:
  oracle__add: { purpose: a test, actions: [write], permission: anyone, secrets: [], side_effect: { writes: notes, rollback: { tool: oracle__remove } }, budget: { cost: 1.5 } }
  oracle__remove: { purpose: a test, actions: [write], permission: anyone, secrets: [], side_effect: { writes: notes, rollback: { tool: oracle__add } } }
";
/// Calls under each version.
const CALLS: usize = 30;

/// What is wrong with a configuration is said where the ledger is looked for by it, not that no
/// journal is there.
#[tokio::test]
async fn an_unusable_configuration_is_named() {
    let setup = Setup::new();
    std::fs::write(setup.directory().join("wrong.yaml"), "servers: [\n").unwrap();
    std::fs::write(setup.directory().join("odd.yaml"), "data: [1]\n").unwrap();
    for file in ["wrong.yaml", "odd.yaml", "none.yaml"] {
        // 2: nothing says where the record is; 1: nor what it would be judged by.
        for (words, code) in [
            (&["report"][..], 2),
            (&["test", "add", "0198"], 2),
            (&["ledger", "list"], 2),
            (&["test", "--replay", "ledger"], 1),
        ] {
            let output = setup.run(&[words, &["--config", file]].concat()).await;
            let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(code), "{words:?} {file}: {said}");
            assert!(
                said.contains(file) && !said.contains("no journal"),
                "{words:?} {file}: {said}"
            );
        }
    }
}

/// 003-117: a policy that changes while toolgate runs, so that a third of the same calls is refused
/// and the others cost more: `report` has a line for each version, `report --compare` says what is
/// worse and to roll back, with exit code 1, beside the running toolgate and after it.
#[tokio::test]
async fn a_changed_policy_that_is_worse_is_said_to_be() {
    let server = Script::new()
        .tool("add", Behaviour::Answers)
        .tool("remove", Behaviour::Answers)
        .start()
        .await;
    let mut gate = Setup::new()
        .server("oracle", &server)
        .policy(POLICY)
        .start()
        .await;
    let agent = gate.agent();
    for n in 0..CALLS {
        assert!(
            agent
                .anew_call("oracle__add", json!({ "n": n }))
                .await
                .is_done()
        );
    }
    refuses_a_third(&gate).await;
    for n in 0..CALLS {
        let answer = agent.anew_call("oracle__add", json!({ "n": n })).await;
        assert_eq!(
            answer.refusal(),
            if n % 3 == 0 { "third" } else { "" },
            "{answer:?}"
        );
    }
    let entries = gate.entries(2 * CALLS).await;
    let setup = gate.setup.clone();
    let (said, code) = report(&setup, "--json").await;
    let versions = serde_json::from_str::<Value>(&said).unwrap()["versions"].clone();
    assert_eq!(
        (code, versions.as_array().unwrap().len()),
        (Some(0), 2),
        "{said}"
    );
    judge_versions(&versions, &entries);
    let (said, code) = report(&setup, COMPARE).await;
    let back = format!("Roll back to {}\n", versions[0]["policy"].as_str().unwrap());
    for row in ["violations ", "cost per call "] {
        let line = said.lines().find(|line| line.starts_with(row)).unwrap();
        assert!(line.ends_with("WORSE"), "{said}");
    }
    assert!(code == Some(1) && said.ends_with(&back), "{said}");
    let line = said
        .lines()
        .find(|line| line.starts_with("success "))
        .unwrap();
    assert!(
        !line.ends_with("WORSE"),
        "what was sent went as well: {said}"
    );
    gate.terminate();
    assert!(gate.wait().await.success());
    let later = report(&setup, COMPARE).await;
    assert_eq!(later, (said, Some(1)), "it needs no lock");
}

/// From now on a third of the calls is refused, and the others cost more.
async fn refuses_a_third(gate: &Gate) {
    let rule = r#"cost: 2 }, rules: [ { code: third, when: "arguments.n % 3 == 0" } ] }"#;
    let changed = POLICY.replace("cost: 1.5 } }", rule);
    std::fs::write(gate.setup.directory().join("policy.yaml"), changed).unwrap();
    gate.signal(rustix::process::Signal::HUP);
    until_or(
        || format!("the policy is swapped; log:\n{}", gate.log()),
        || async {
            let metrics = gate.operators("/metrics").await;
            metrics
                .contains("toolgate_reloads_total{outcome=\"swapped\"} 1")
                .then_some(())
        },
    )
    .await;
}

const COMPARE: &str = "--compare --threshold 10";

/// What `report` says, and its exit code.
async fn report(setup: &Setup, words: &str) -> (String, Option<i32>) {
    let line = format!("report {words} --config toolgate.yaml");
    let (code, said, _) = runs(setup, &line).await;
    (said, Some(code))
}

fn judge_versions(versions: &Value, entries: &[Value]) {
    for (version, at, expected) in [
        (&versions[0], 0, json!([30, 0, 0, 30, 30, 45.0])),
        (&versions[1], CALLS, json!([30, 10, 0, 20, 20, 40.0])),
    ] {
        assert_eq!(
            version["policy"], entries[at]["policy"],
            "in the order in which they came"
        );
        let found = [
            "calls",
            "violations",
            "overruns",
            "sent",
            "successes",
            "cost",
        ]
        .map(|key| version[key].clone());
        assert_eq!(json!(found), expected, "{version}");
        assert!(
            version["upstream_p50_ms"].as_f64().unwrap() > 0.0
                && version["gate_p95_ms"].as_f64().unwrap() > 0.0,
            "{version}"
        );
    }
}
