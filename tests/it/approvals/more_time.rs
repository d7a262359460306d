//! A held call is given more time: once, by who may decide about it, for what they were shown (001-A3).

use super::{ask, held, says, setup, shown};
use crate::harness::gate::{Gate, run};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Asks the door for more time with the token of `who`; the status, and the answer.
async fn asks(gate: &Gate, who: &str, id: &str, body: &Value) -> (u16, Value) {
    let path = format!("/api/approvals/{id}/extend");
    let bearer = format!("Bearer token-of-{who}-the-operator");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let answer = gate
        .asks_operators(("POST", &path), &headers, &body.to_string())
        .await;
    (answer.status, serde_json::from_str(&answer.text()).unwrap())
}

fn time(told: &Value) -> Timestamp {
    told.as_str().unwrap().parse().unwrap()
}

/// 001-A3: programs ask for more time as the page does: who may not decide gets none, and neither does who was
/// shown something else; the second time is refused to each of them.
#[tokio::test]
async fn a_program_gives_more_time_once() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({ "n": 1 }))]).await;
    let gate = setup.begin().await;
    let before = shown(&gate, &ids[0]).await;
    assert_eq!(before["extended"], false, "{before}");
    let card = json!({ "shown": before["shown"], "why": "the owner is on the way" });
    for (who, body, status) in [
        ("eve", &card, 403),
        ("ann", &json!({ "shown": "sha256:0" }), 409),
        ("ann", &json!({ "until": "tomorrow" }), 400),
        ("ann", &json!({ "why": "two\nlines" }), 400),
    ] {
        let (told, answer) = asks(&gate, who, &ids[0], body).await;
        assert_eq!(told, status, "{who} {body}: {answer}");
    }
    assert_eq!(shown(&gate, &ids[0]).await, before, "nothing was given");
    let (status, given) = asks(&gate, "ann", &ids[0], &card).await;
    assert_eq!((status, &given["who"]), (200, &json!("ann")), "{given}");
    let more = time(&given["approve_by"]).duration_since(time(&before["approve_by"]));
    assert_eq!(more, SignedDuration::from_mins(10), "as long as it had");
    let after = shown(&gate, &ids[0]).await;
    assert_eq!(
        (&after["extended"], &after["approve_by"], &after["shown"]),
        (&json!(true), &given["approve_by"], &before["shown"]),
        "{after}"
    );
    for (who, body) in [("ann", &card), ("bob", &json!({}))] {
        let (status, again) = asks(&gate, who, &ids[0], body).await;
        let why = again["error"].as_str().unwrap();
        assert!(
            status == 409 && why.contains("more time already"),
            "{again}"
        );
    }
    let nowhere = "0198f1a2-0000-7000-8000-000000000000";
    assert_eq!(asks(&gate, "ann", nowhere, &json!({})).await.0, 404);
}

/// 001-A3: the same at a terminal, with a reason that stands in the ledger; a call that is decided gets none.
#[tokio::test]
async fn a_person_gives_more_time_at_a_prompt() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({ "n": 1 })), ask(1, json!({}))]).await;
    let gate = setup.begin().await;
    let why = "the owner is on the way";
    let (status, said) = says(&gate, "ann", &["extend", &ids[0], "--why", why]).await;
    assert!(
        status == 0 && said.contains("given more time by ann"),
        "{said}"
    );
    let (status, again) = says(&gate, "bob", &["extend", &ids[0]]).await;
    assert!(
        status == 1 && again.contains("more time already"),
        "{again}"
    );
    let (_, rows, _) = run(&gate.setup, &["ledger", "export", "--data", "data"]).await;
    let told = |row: &str| {
        [why, ids[0].as_str(), "\"ann\""]
            .iter()
            .all(|part| row.contains(part))
    };
    assert!(rows.lines().any(told), "{rows}");
    let (status, said) = says(&gate, "ann", &["deny", &ids[1], "--why", "not due"]).await;
    assert_eq!(status, 0, "{said}");
    let (status, late) = says(&gate, "ann", &["extend", &ids[1]]).await;
    assert!(
        status == 1 && late.contains("expired or not found"),
        "{late}"
    );
    let words = ["allow", &ids[0], "--why", "due"];
    let (status, allowed) = says(&gate, "bob", &words).await;
    assert_eq!(status, 0, "{allowed}");
    assert_eq!(shown(&gate, &ids[0]).await["state"], "allowed");
}

/// 001-A3, threat-model §12: killed once it was given, more time stands, and is not given again.
#[tokio::test]
async fn more_time_outlives_a_kill() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({ "n": 1 }))]).await;
    let mut gate = setup.begin().await;
    let (status, given) = asks(&gate, "ann", &ids[0], &json!({})).await;
    assert_eq!(status, 200, "{given}");
    gate.kill().await;
    let gate = gate.setup.clone().begin().await;
    let after = shown(&gate, &ids[0]).await;
    assert_eq!(
        (&after["extended"], &after["approve_by"]),
        (&json!(true), &given["approve_by"]),
        "{after}"
    );
    let (status, again) = asks(&gate, "bob", &ids[0], &json!({})).await;
    assert_eq!(status, 409, "{again}");
}
