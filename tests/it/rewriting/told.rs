//! What is told of steps: by the ledger, `check` and `explain`.

use super::{CALLERS, STEPS, TOKEN, given, policy, stage};
use crate::harness::setup::Setup;
use crate::harness::tool_server::script::digest;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::{Value, json};

/// 001-28, 004-14: what a call was before it was rewritten is on the disk before it is sent.
#[tokio::test]
async fn a_kill_forgets_no_original() {
    let server = Script::new().tool("pay", Behaviour::Held).start().await;
    let setup = Setup::new()
        .server("oracle", &server)
        .callers(CALLERS)
        .policy(&policy(STEPS));
    let mut gate = setup.start().await;
    let agent = gate.agent().token(TOKEN);
    let calling = tokio::spawn(async move { agent.modern_call("oracle__pay", given()).await });
    until("the call is at its tool server", || async {
        (server.executions().len() == 1).then_some(())
    })
    .await;
    gate.kill().await;
    calling.abort();
    let gate = gate.setup.clone().start().await;
    let agent = gate.agent().token(TOKEN);
    assert_eq!(
        agent.modern_call("oracle__pay", given()).await.refusal(),
        "outcome_unknown"
    );
    assert_eq!(server.executions().len(), 1);
    let data = gate.setup.directory().join("data");
    let listed = gate
        .setup
        .run(&["ledger", "list", "--json", "--data", data.to_str().unwrap()])
        .await;
    let listed = String::from_utf8(listed.stdout).unwrap();
    let killed: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(killed["original_params_hash"], digest(&given()), "{killed}");
    assert_eq!(
        killed["params_hash"],
        digest(&server.executions()[0].arguments)
    );
}

/// A rewritten call is judged again as its agent sent it, through the steps as they are now.
#[tokio::test]
async fn a_rewritten_call_can_be_replayed() {
    let (_server, gate, agent) = stage(STEPS, "enforce").await;
    assert!(agent.modern_call("oracle__pay", given()).await.is_done());
    let id = gate.entries(1).await[0]["action_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let (given, made) = (
        given().to_string(),
        json!({ "tenant_id": "t_001", "amount": 100 }).to_string(),
    );
    let replay = async |arguments: &str| {
        let command = [
            "ledger",
            "replay",
            "--config",
            "toolgate.yaml",
            id.as_str(),
            "--arguments",
            arguments,
        ];
        let output = gate.setup.run(&command).await;
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, text, err) = replay(&given).await;
    assert!(
        code == Some(0)
            && text.contains("=> the same verdict")
            && text.contains("rewrite     changed"),
        "{text}{err}"
    );
    let (code, _, err) = replay(&made).await;
    assert!(
        code != Some(0) && err.contains("these are not the call's arguments"),
        "{err}"
    );
    let wrong = policy("    rewrite: [ { name: cap, set: { /tenant_id: t_002 } } ]\n");
    std::fs::write(gate.setup.directory().join("policy.yaml"), wrong).unwrap();
    let (code, text, err) = replay(&given).await;
    assert!(
        code == Some(1) && text.contains("tenant_mismatch"),
        "{text}{err}"
    );
}

/// `check` says what cannot be meant, `explain` what the steps would change and what becomes of it,
/// and executes nothing.
#[tokio::test]
async fn check_and_explain_tell_of_the_steps() {
    let explained = async |steps: &str| {
        let setup = Setup::new()
            .server_with("oracle", "url: \"http://127.0.0.1:9/mcp\"")
            .callers(CALLERS);
        let setup = setup.policy(&policy(steps));
        setup.write();
        let arguments = given().to_string();
        let output = setup
            .run(&[
                "explain",
                "--config",
                "toolgate.yaml",
                "--agent",
                "bot",
                "--tool",
                "oracle__pay",
                "--arguments",
                &arguments,
            ])
            .await;
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, text) = explained(STEPS).await;
    assert_eq!(code, Some(0), "{text}");
    for line in [
        "rewrite     changed",
        "/amount: 500 → 100",
        "/note: \"\" → absent",
        "/currency: absent → \"EUR\"",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    let (code, text) =
        explained("    rewrite: [ { name: wrong, set: { /tenant_id: t_002 } } ]\n").await;
    assert!(
        code == Some(1) && text.contains("=> refused: tenant_mismatch"),
        "{text}"
    );
    let (code, text) = explained("    strip_empty_optionals: true\n").await;
    assert!(
        code == Some(0) && text.contains("=> the call would be sent"),
        "{text}"
    );
}

#[tokio::test]
async fn check_says_what_is_wrong_with_steps() {
    let setup = Setup::new()
        .server_with("oracle", "url: \"http://127.0.0.1:9/mcp\"")
        .callers(CALLERS);
    let wrong = "    rewrite: [ { name: a, set: { /amount: 0 } }, { name: a, clamp: { /x: {} } }, { name: b },
      { name: c, set: { /idempotency_key: k } } ]\n";
    let setup = setup.policy(&policy(wrong));
    setup.write();
    let output = setup.run(&["check", "toolgate.yaml"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "the contract's own schema refuses this value",
        "`a` is the name of two steps",
        "bounds nothing",
        "a step does one thing",
        "this argument holds the call's idempotency key",
        "5 errors",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
}
