//! `toolgate approvals wait`, and what it asks: programs that go on once a person has decided
//! (001-42, 001-43).

use super::{ask, held, says, setup};
use crate::harness::gate::Gate;
use serde_json::{Value, json};

const ANN_TOKEN: &str = "token-of-ann-the-operator";

/// What the door answers ann.
async fn asks(gate: &Gate, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let bearer = format!("Bearer {ANN_TOKEN}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let body = if method == "GET" {
        String::new()
    } else {
        body.to_string()
    };
    let answer = gate.asks_operators((method, path), &headers, &body).await;
    (answer.status, serde_json::from_str(&answer.text()).unwrap())
}

/// 001-51: a script waits, and goes on once a person has decided, in either way; it is told who and why.
#[tokio::test]
async fn a_script_goes_on_once_a_person_has_decided() {
    let setup = setup();
    setup.write();
    let asked = vec![ask(1, json!({})), ask(2, json!({}))];
    let ids = held(&setup, asked).await;
    let gate = setup.begin().await;
    let waits = async { says(&gate, "bob", &["wait", &ids[0]]).await };
    let allows = async { says(&gate, "ann", &["allow", &ids[0], "--why", "it is due"]).await };
    let ((status, told), (done, _)) = tokio::join!(waits, allows);
    assert_eq!((status, done), (0, 0), "{told}");
    assert!(told.contains("allowed by ann: it is due"), "{told}");

    // One of two who allow it is no decision; one who denies it is.
    let waits = async { says(&gate, "eve", &["wait", &ids[1], "--json"]).await };
    let decides = async {
        let first = says(&gate, "ann", &["allow", &ids[1], "--why", "first"]).await;
        assert_eq!(first.0, 0, "{}", first.1);
        let (status, open) = says(
            &gate,
            "ann",
            &["wait", &ids[1], "--timeout", "0s", "--json"],
        )
        .await;
        let open: Value = serde_json::from_str(&open).unwrap();
        assert_eq!((status, &open["decision"]), (3, &Value::Null), "{open}");
        assert_eq!(open["state"], "pending");
        says(&gate, "bob", &["deny", &ids[1], "--why", "too dear"]).await
    };
    let ((status, told), _) = tokio::join!(waits, decides);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((status, &told["decision"]), (1, &json!("deny")), "{told}");
    assert_eq!(
        (&told["who"], &told["why"]),
        (&json!(["bob"]), &json!("too dear"))
    );
    // Asked late, it is told the same at once.
    assert_eq!(says(&gate, "ann", &["wait", &ids[1]]).await.0, 1);
}

/// 001-51, 001-52, 001-53: a wait that is over is no error, and no decision; what is not known is told
/// like what is over.
#[tokio::test]
async fn a_wait_that_is_over_is_no_decision() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({}))]).await;
    let gate = setup.begin().await;
    let (status, told) = says(&gate, "ann", &["wait", &ids[0], "--timeout", "1s"]).await;
    assert!(
        status == 3 && told.contains("nobody has decided yet"),
        "{told}"
    );
    let path = format!("/api/approvals/{}/wait", ids[0]);
    for (query, status) in [
        ("", 200),
        ("?timeout=1", 200),
        ("?timeout=26", 400),
        ("?for=1", 400),
    ] {
        let (found, told) = asks(&gate, "GET", &format!("{path}{query}"), &json!(null)).await;
        assert_eq!(found, status, "{query}: {told}");
        assert_eq!(told["decision"], Value::Null, "{told}");
    }
    let unknown = says(
        &gate,
        "ann",
        &["wait", "01988888-0000-7000-8000-000000000000"],
    )
    .await;
    assert!(
        unknown.0 == 2 && unknown.1.contains("expired or not found"),
        "{}",
        unknown.1
    );
}

/// 001-54, 001-A3: the words of the documents are understood; what nobody can grant is refused, and a second
/// equal word is a success.
#[tokio::test]
async fn the_words_of_the_documents_are_understood() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({}))]).await;
    let gate = setup.begin().await;
    let path = format!("/api/approvals/{}", ids[0]);
    let says = |word: &'static str| json!({ "decision": word, "why": "it is due" });
    let (status, told) = asks(&gate, "POST", &path, &says("allow-always")).await;
    assert_eq!(status, 409, "{told}");
    let error = told["error"].as_str().unwrap();
    assert!(error.contains("the effect is irreversible"), "{told}");
    for changed in [true, false] {
        let (status, told) = asks(&gate, "POST", &path, &says("allow-once")).await;
        assert_eq!((status, &told["changed"]), (200, &json!(changed)), "{told}");
    }
}
