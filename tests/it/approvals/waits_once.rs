//! Who waits for a decision waits at the door, and goes on waiting: neither answers before there is
//! something to tell (001-51, 001-52).

use super::{ask, held, says, setup};
use crate::harness::gate::run;
use axum::extract::State;
use axum::http::Uri;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// 001-51, 001-52: one request waits as long as it may, and is answered once a person has decided.
#[tokio::test]
async fn a_request_waits_at_the_door() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({}))]).await;
    let gate = setup.begin().await;
    let waits = async |seconds: u32| {
        let path = format!("/api/approvals/{}/wait?timeout={seconds}", ids[0]);
        let bearer = [("authorization", "Bearer token-of-ann-the-operator")];
        let answer = gate.asks_operators(("GET", &path), &bearer, "").await;
        serde_json::from_str::<Value>(&answer.text()).unwrap()
    };
    let began = Instant::now();
    let open = waits(1).await;
    assert_eq!(open["decision"], Value::Null, "{open}");
    assert!(began.elapsed() >= Duration::from_millis(900), "{open}");
    let word = ["allow", &ids[0], "--why", "it is due"];
    let allows = says(&gate, "ann", &word);
    let (told, allowed) = tokio::join!(waits(25), allows);
    assert_eq!(allowed.0, 0, "{}", allowed.1);
    assert_eq!(told["decision"], "allow-once", "{told}");
}

/// A door that says so often that nobody has decided yet.
#[derive(Default)]
struct StubDoor {
    open: usize,
    asked: Mutex<Vec<String>>,
}

async fn answer(State(door): State<Arc<StubDoor>>, uri: Uri) -> String {
    let mut asked = door.asked.lock().unwrap();
    asked.push(uri.to_string());
    let is_open = asked.len() <= door.open;
    let (decision, state) = if is_open {
        (Value::Null, "pending")
    } else {
        (json!("allow-once"), "allowed")
    };
    let told = json!({
        "id": "01988888-0000-7000-8000-000000000000", "decision": decision, "state": state,
        "approve_by": "2026-11-21T10:00:00Z", "who": ["ann"], "why": "it is due",
    });
    told.to_string()
}

/// 001-51: the command asks the door anew as long as nobody has decided and its own time is not over.
#[tokio::test]
async fn the_command_goes_on_waiting() {
    let setup = setup();
    setup.write();
    let door = Arc::new(StubDoor {
        open: 3,
        ..StubDoor::default()
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let app = axum::Router::new()
        .fallback(answer)
        .with_state(door.clone());
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let id = "01988888-0000-7000-8000-000000000000";
    let place = ["--config", "toolgate.yaml", "--admin", &address];
    let words = ["approvals", "wait", id, "--timeout", "10m"];
    let (status, told, wrong) = run(&setup, &[&words[..], &place].concat()).await;
    serving.abort();
    assert_eq!(status, 0, "{told}{wrong}");
    assert!(told.contains("allowed by ann: it is due"), "{told}");
    let path = format!("/api/approvals/{id}/wait?timeout=25");
    assert_eq!(*door.asked.lock().unwrap(), [&path[..]; 4]);
}
