//! What an operator has said of a call is read wherever the call is told of.

use super::{Gate, PAY, calls, shows, stage, tokens, unknown, words};
use crate::harness::setup::Setup;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How often open calls are counted when nothing wakes the count.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);

/// Each line as JSON.
fn lines(listed: &str) -> Vec<Value> {
    listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

async fn list(setup: &Setup, more: &[&str]) -> String {
    let read = ["ledger", "list", "--config", "toolgate.yaml"];
    let (code, listed, err) = words(&setup.run(&[&read, more].concat()).await);
    assert_eq!(code, 0, "{err}");
    listed
}

async fn resolves(gate: &Gate, id: &str, verdict: &str) {
    let door = gate.operators.to_string();
    let resolve = ["resolve", id, verdict, "--why", "the bank says so"];
    let (code, _, err) = calls(&gate.setup, Some(&door), &resolve).await;
    assert_eq!(code, 0, "{err}");
}

/// 003-94: the listing, its JSON, `show`, `calls list --all` and the gauge say who resolved a call
/// and as what, also of one that asked again; `--open` leaves it out.
#[tokio::test]
async fn a_resolved_call_says_so_everywhere() {
    let (_server, gate) = stage(&tokens()).await;
    let agent = gate.agent();
    let (first, second) = (unknown(&agent, "k").await, unknown(&agent, "l").await);
    gate.entries(4).await;
    assert_eq!(
        lines(&list(&gate.setup, &["--json", "--open"]).await).len(),
        4
    );
    resolves(&gate, &first, "--not-applied").await;
    let table = list(&gate.setup, &[]).await;
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert!(
        rows[0].contains("unknown") && rows[0].contains("resolved: not_sent by ann"),
        "{table}"
    );
    let again = format!("(of {}, resolved)", &first[first.len() - 8..]);
    assert!(rows[1].contains(&again), "{table}");
    assert!(
        !rows[2].contains("resolved") && !rows[3].contains("resolved"),
        "{table}"
    );
    let entries = lines(&list(&gate.setup, &["--json"]).await);
    let told = &entries[0]["resolved"];
    assert_eq!(
        (
            &told["state"],
            &told["evidence"],
            &told["who"],
            &told["why"]
        ),
        (
            &json!("not_sent"),
            &json!("operator"),
            &json!("ann"),
            &json!("the bank says so")
        )
    );
    assert_eq!(entries[2].get("resolved"), None);
    let open = lines(&list(&gate.setup, &["--json", "--open"]).await);
    assert!(
        open.len() == 2 && open[0]["action_id"] == *second,
        "{open:?}"
    );
    let show = ["ledger", "show", &first, "--config", "toolgate.yaml"];
    let (_, shown, _) = words(&gate.setup.run(&show).await);
    let line = shown.lines().find(|line| line.starts_with("resolved "));
    assert!(
        line.is_some_and(|line| line.contains("not_sent, by the operator ann")),
        "{shown}"
    );
    let (_, shown, _) = words(&gate.setup.run(&[&show[..], &["--json"]].concat()).await);
    assert_eq!(lines(&shown)[0]["resolved"], *told);
}

/// `calls list --all`: the open ones, then those that were resolved, near and far.
#[tokio::test]
async fn all_calls_are_listed_with_what_was_said() {
    let (_server, mut gate) = stage(&tokens()).await;
    let agent = gate.agent();
    let mut ids = Vec::new();
    for key in ["applied", "abandoned", "open"] {
        ids.push(unknown(&agent, key).await);
    }
    gate.entries(6).await;
    let door = gate.operators.to_string();
    let (_, listed, _) = calls(&gate.setup, Some(&door), &["list", "--all", "--json"]).await;
    assert_eq!(lines(&listed).len(), 3, "{listed}");
    resolves(&gate, &ids[1], "--abandon").await;
    resolves(&gate, &ids[0], "--applied").await;
    for running in [true, false] {
        if !running {
            gate.terminate();
            gate.wait().await;
        }
        let admin = running.then_some(door.as_str());
        let (code, listed, err) = calls(&gate.setup, admin, &["list", "--all", "--json"]).await;
        assert_eq!(code, 0, "{err}");
        let listed = lines(&listed);
        let told: Vec<_> = listed
            .iter()
            .map(|call| {
                (
                    call["action_id"].as_str().unwrap(),
                    call["state"].as_str().unwrap(),
                )
            })
            .collect();
        let wanted = [
            (&ids[2], "unknown"),
            (&ids[1], "abandoned"),
            (&ids[0], "completed"),
        ];
        assert_eq!(
            told,
            wanted.map(|(id, state)| (id.as_str(), state)),
            "{running}"
        );
        let last = &listed[2];
        assert_eq!(
            (&last["tool"], &last["agent"]),
            (&json!(PAY), &json!("anonymous"))
        );
        assert_eq!(last["why"], "by the operator ann: the bank says so");
    }
}

/// 004-48: the count of unknown outcomes follows an operator's word at once: three words are
/// counted one by one in less than one interval.
#[tokio::test]
async fn the_count_follows_an_operators_word() {
    let (_server, gate) = stage(&tokens()).await;
    let agent = gate.agent();
    let mut ids = Vec::new();
    for key in ["a", "b", "c"] {
        ids.push(unknown(&agent, key).await);
    }
    let (name, bearer) = ("Authorization", format!("Bearer {}", super::ANN));
    let headers = [
        (name, bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    let begun = Instant::now();
    for (id, left) in ids.iter().zip(["2", "1", "0"]) {
        let path = format!("/api/calls/{id}/resolve");
        let body = r#"{"verdict":"abandon","why":"looked"}"#;
        let answer = super::resolves(&gate, &path, &headers, body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        shows(&gate, "toolgate_unknown_outcomes", left).await;
    }
    assert!(begun.elapsed() < COUNT_INTERVAL);
}
