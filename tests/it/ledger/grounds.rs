//! What a call was about and what let it through stand in its entry.

use super::CANARY;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Settings;
use serde_json::{Value, json};

const CALLERS: &str = "
  - { agent: clerk, token: token-of-the-clerk, tenant: t_001, roles: [viewer, payer], profile: tills }
  - { agent: robot, token: token-of-the-robot }
";

const POLICY: &str = r#"
contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__pay:
    purpose: test
    actions: [write]
    side_effect: { writes: test, rollback: { tool: oracle__undo } }
    permission: { roles: [owner, payer], tenant: /tenant_id, resource: { pointer: /accounts, allow: ["{tenant}/*", "shared"] } }
    arguments: { properties: { memo: { type: string } } }
    secrets: []
  oracle__re*: { purpose: test, actions: [read], secrets: [] }
layers:
  profile: { tills: { allow: ["oracle__p*"] } }
"#;

async fn stage(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(["pay", "read"].map(tool).to_vec()).await;
    scripted.answers(|_| Reply::Result(json!({ "content": [], "resultType": "complete" })));
    let settings = Settings {
        servers: vec![("oracle", scripted.url())],
        callers: CALLERS,
        more: "",
        policy: POLICY.to_owned(),
        observe,
    };
    (scripted, Gate::start(settings).await)
}

fn pay(accounts: &Value) -> Value {
    json!({ "tenant_id": "t_001", "accounts": accounts, "memo": CANARY })
}

fn grounds_of_pay() -> Value {
    json!([
        "profile tills: allowed by `oracle__p*`",
        "contract oracle__pay",
        "role payer",
        "tenant t_001",
        "resource {tenant}/*",
    ])
}

/// 003-96, 003-P1a, 003-94: an entry names the resources of its call, also of a refused one, and of
/// one that was let through the layer, the contract, the role, the tenant and the pattern.
#[tokio::test]
async fn an_entry_says_what_it_is_about_and_what_let_it_through() {
    let (scripted, gate) = stage(false).await;
    let clerk = gate.agent().token("token-of-the-clerk");
    let robot = gate.agent().token("token-of-the-robot");
    clerk.call("oracle__pay", pay(&json!("t_001/a"))).await;
    let several = json!(["t_001/b", "t_001/c", "t_001/b"]);
    clerk.call("oracle__pay", pay(&several)).await;
    clerk.call("oracle__pay", pay(&json!("t_002/a"))).await;
    robot.call("oracle__read", json!({})).await;
    scripted.answers(|_| Reply::Stream(tokio::sync::mpsc::channel(1).1));
    clerk.call("oracle__pay", pay(&json!("shared"))).await;
    let entries = gate.entries(5).await;
    let fields = |entry: &Value| (entry["resources"].clone(), entry["allowed_by"].clone());
    assert_eq!(fields(&entries[0]), (json!(["t_001/a"]), grounds_of_pay()));
    assert_eq!(
        fields(&entries[1]),
        (json!(["t_001/b", "t_001/c"]), grounds_of_pay())
    );
    assert_eq!(entries[2]["aborted_reason"], "resource_denied");
    assert_eq!(fields(&entries[2]), (json!(["t_002/a"]), Value::Null));
    let read = json!(["no layer limits it", "contract oracle__re*", "anyone"]);
    assert_eq!(fields(&entries[3]), (Value::Null, read));
    // It left, whatever became of it.
    assert_eq!(entries[4]["outcome"], "unknown");
    assert_eq!(entries[4]["allowed_by"][4], "resource shared");
    super::judge_values(&gate);
    let id = entries[0]["action_id"].as_str().unwrap();
    let (_, shown, _) = run(&gate.setup, &["ledger", "show", id, "--data", "data"]).await;
    let told = shown.lines().find(|line| line.starts_with("allowed_by "));
    assert!(
        told.is_some_and(|told| told.contains("role payer")),
        "{shown}"
    );
    let listed = async |resource: &str| {
        let words = [
            "ledger",
            "list",
            "--json",
            "--data",
            "data",
            "--resource",
            resource,
        ];
        let (code, listed, err) = run(&gate.setup, &words).await;
        assert_eq!(code, 0, "{err}");
        let ids = listed
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        ids.map(|line| line["action_id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed("t_001/c").await, [entries[1]["action_id"].clone()]);
    assert_eq!(listed("t_002/a").await, [entries[2]["action_id"].clone()]);
    assert_eq!(listed("t_001").await, [] as [Value; 0]);
}

/// In observe mode nothing let a call through that enforce mode would have refused.
#[tokio::test]
async fn what_would_be_refused_has_no_grounds() {
    let (_scripted, gate) = stage(true).await;
    let clerk = gate.agent().token("token-of-the-clerk");
    clerk.call("oracle__pay", pay(&json!("t_002/a"))).await;
    clerk.call("oracle__pay", pay(&json!("t_001/a"))).await;
    let entries = gate.entries(2).await;
    assert_eq!(entries[0]["would_refuse"], "resource_denied");
    assert_eq!(
        (&entries[0]["resources"], entries[0].get("allowed_by")),
        (&json!(["t_002/a"]), None)
    );
    assert_eq!(entries[1]["allowed_by"], grounds_of_pay());
}
