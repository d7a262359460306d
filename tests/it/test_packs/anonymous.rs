//! A ledger from before any caller had a name.

use super::*;

/// 003-104, 003-105: what was observed before any caller was named is judged as the agent that it was.
#[tokio::test]
async fn what_nobody_named_is_judged_as_an_agent() {
    let scripted = ScriptedServer::with(["pay", "read", "hidden"].map(tool).to_vec()).await;
    let gate = Gate::start(Settings {
        servers: vec![("oracle", scripted.url())],
        callers: "",
        more: "",
        policy: POLICY.to_owned(),
        observe: true,
    })
    .await;
    for arguments in [pay(99, "t_001"), pay(1, "t_999")] {
        gate.agent().call("oracle__pay", arguments).await;
    }
    let entries = gate.entries(2).await;
    assert!(
        entries.iter().all(|entry| entry["user_id"] == "anonymous"),
        "{entries:?}"
    );
    let known = [pay(99, "t_001"), pay(1, "t_999")].map(|arguments| arguments.to_string());
    std::fs::write(gate.path("known.jsonl"), known.join("\n")).unwrap();
    let path = gate.path("toolgate.yaml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{config}callers:{CALLERS}")).unwrap();
    let (exit, said) = test(&gate, &replayed()).await;
    let expected = "NOTHING DECIDED: of 2 calls none could be judged\n";
    assert!(exit == 1 && said.ends_with(expected), "{said}");
    let advice = "help: add `--as anonymous=AGENT` to judge what anonymous did as calls of AGENT: one of clerk, reader\n";
    assert!(said.contains(advice), "{said}");
    let id = entries[0]["action_id"].as_str().unwrap();
    let add = [
        "add",
        id,
        "--arguments",
        &known[0],
        "--as",
        "anonymous=clerk",
    ];
    let (exit, said) = test(&gate, &[&add[..], &WHERE].concat()).await;
    assert!(exit == 0 && said.contains("caller: \"clerk\"\n"), "{said}");
    // Nobody had the role; the clerk has it, and may pay for its own tenant alone.
    let mapped = async |agent: &str| {
        let mapped = format!("anonymous={agent}");
        test(&gate, &[&replayed()[..], &["--as", &mapped]].concat()).await
    };
    let (exit, said) = mapped("clerk").await;
    assert!(
        exit == 1 && said.contains("tenant_mismatch") && said.ends_with("CHANGED: 2 of 2 calls\n"),
        "{said}"
    );
    let (exit, said) = mapped("reader").await;
    let expected = "ok: of 2 calls none is known to change\n";
    assert!(exit == 0 && said.ends_with(expected), "{said}");
}
