//! What a supervisor asks: can calls be judged? Not: does anything need an operator? (`toolgate status --ready`)

use crate::harness::gate::run;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::json;
use std::net::{SocketAddr, TcpListener};

const OPERATORS: &str =
    "tokens: [ { name: ann, token: token-of-the-operator-ann, roles: [resolver, switch] } ]";

/// The exit code of the probe, and the word it says.
async fn probed(setup: &Setup, admin: SocketAddr) -> (i32, String) {
    let admin = admin.to_string();
    let words = ["status", "--ready", "--admin", &admin];
    let (code, out, err) = run(setup, &words).await;
    (code, out + &err)
}

fn ready() -> (i32, String) {
    (0, "ready\n".to_owned())
}

fn not_ready() -> (i32, String) {
    (1, "not_ready\n".to_owned())
}

/// An unknown outcome, a policy file with errors, and a token of the operator or none: calls are judged, so it is
/// ready, where `status` says that operators have work to do. When toolgate is gone, it is not.
#[tokio::test]
async fn what_needs_operators_is_ready_all_the_same() {
    let server = Script::new().tool("lose", Behaviour::HangsUp).start().await;
    let setup = Setup::new().server("bank", &server);
    let setup = setup.contracts(&[("bank__lose", "write")]);
    let gate = setup.operators(OPERATORS).start().await;
    let lost = gate.agent().modern_call("bank__lose", json!({})).await;
    assert_eq!(lost.refusal(), "outcome_unknown");
    let policy = gate.path("policy.yaml");
    let written = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(&policy, format!("{written}contractz: {{}}\n")).unwrap();
    until("the policy is stale", || async {
        let readiness = gate.readiness().await;
        (readiness["policy"]["stale"] == true).then_some(())
    })
    .await;
    let (admin, ann) = (gate.operators, gate.setup.operator("ann"));
    assert_eq!(probed(&ann, admin).await, ready());
    assert_eq!(probed(&gate.setup, admin).await, ready());
    let named = admin.to_string();
    let (code, ..) = run(&ann, &["status", "--admin", &named]).await;
    assert_eq!(code, 1, "an operator has work to do");
    let setup = gate.stop().await;
    assert_eq!(probed(&setup, admin).await, not_ready());
}

/// While a server is tried for the first time, agents would see no tool of its: it lives, and is not ready. What
/// answers for another data directory is not the one that is meant.
#[tokio::test]
async fn one_that_still_starts_is_not_ready_and_nor_is_a_neighbour() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", mute.local_addr().unwrap());
    let starting = Setup::new()
        .server_with("mute", &format!("url: \"{url}\", start_timeout: 1h"))
        .contracts(&[("mute__read", "read")])
        .start_at_once()
        .await;
    let admin = starting.operators;
    assert_eq!(probed(&starting.setup, admin).await, not_ready());

    let server = Script::new().tool("read", Behaviour::Answers).start().await;
    let tools = [("bank__read", "read")];
    let near = Setup::new().server("bank", &server).contracts(&tools);
    let near = near.start().await;
    assert_eq!(probed(&near.setup, near.operators).await, ready());
    let admin = near.operators.to_string();
    let data = starting.setup.directory().join("data");
    let data = data.to_str().unwrap();
    let words = ["status", "--ready", "--admin", &admin, "--data", data];
    let (code, out, _) = run(&starting.setup, &words).await;
    assert_eq!((code, out), not_ready(), "the lock is another toolgate's");
}
