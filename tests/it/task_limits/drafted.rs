//! A loop meets its end in enforce mode under what is drafted, and under the example, too: neither
//! switches off what holds where nothing is written.

use crate::harness::answer::code;
use crate::harness::gate::run;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::stdio::Launched;
use serde_json::json;
use std::fs;

/// Calls of a loop, and how many of them pass.
const LOOP: usize = 300;
const MOST: usize = 100;

/// 003-115, 003-119: what `toolgate init` drafts, once it is enforced.
#[tokio::test]
async fn a_loop_under_a_draft_comes_to_an_end() {
    let mut reads = tool("look");
    reads["annotations"] = json!({ "readOnlyHint": true });
    let server = ScriptedServer::with(vec![reads]).await;
    let setup = Setup::new();
    let home = setup.directory().join("home");
    let setup = setup.environment("HOME", home.to_str().unwrap());
    let upstream = format!("bank={}", server.url());
    let (exit, said, wrong) = run(&setup, &["init", "--upstream", &upstream]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    let path = setup.directory().join("toolgate.yaml");
    let drafted = fs::read_to_string(&path).unwrap();
    let enforced = drafted.replace("mode: observe", "mode: enforce");
    assert_ne!(drafted, enforced);
    fs::write(&path, enforced).unwrap();
    let mut agent = Launched::start(&setup, &[], false).await;
    let mut codes = Vec::new();
    for _ in 0..LOOP {
        let answer = agent.call("look", json!({ "n": 1 })).await;
        codes.push(code(&answer).unwrap_or_default());
    }
    let passed = codes.iter().filter(|code| code.is_empty()).count();
    assert_eq!((passed, codes[LOOP - 1].as_str()), (MOST, "loop_detected"));
    assert_eq!(server.executions(), MOST);
    agent.end().await;
}

/// 003-115, 003-119: the example that people begin with.
#[tokio::test]
async fn a_loop_in_the_quickstart_comes_to_an_end() {
    let tenant = json!({ "type": "object", "properties": { "tenant_id": { "type": "string" } } });
    let tools = [
        "create_invoice",
        "get_invoice",
        "list_invoices",
        "delete_draft_invoice",
        "send_invoice",
    ];
    let tools = tools.map(|name| json!({ "name": name, "inputSchema": tenant }));
    let server = ScriptedServer::with(tools.to_vec()).await;
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/quickstart/policies/billing.yaml"
    );
    let callers = "  - { agent: support-bot, token: token-of-the-support-bot, tenant: t_001, roles: [billing_admin], group: support }";
    let setup = Setup::new()
        .server_with("billing", &format!("url: \"{}\"", server.url()))
        .policy(&fs::read_to_string(example).unwrap());
    let gate = setup.callers(callers).start().await;
    let agent = gate.agent().token("token-of-the-support-bot");
    let mut codes = Vec::new();
    for _ in 0..LOOP {
        let answer = agent.call("billing__list_invoices", json!({ "tenant_id": "t_001" }));
        codes.push(code(&answer.await).unwrap_or_default());
    }
    let passed = codes.iter().filter(|code| code.is_empty()).count();
    assert_eq!((passed, codes[LOOP - 1].as_str()), (MOST, "loop_detected"));
    assert_eq!(server.executions(), MOST);
}
