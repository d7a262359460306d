//! Of several faults at once, the earliest step's code is the answer, whatever wire the call comes
//! on (guarantees §2, 003-29, C14).

use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Settings;
use crate::harness::stdio::Launched;
use serde_json::{Value, json};

const POLICY: &str = r#"
contracts:
  ops__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  ops__transfer:
    purpose: Everything a contract can ask for.
    actions: [write]
    side_effect: { writes: test, rollback: { tool: ops__undo } }
    permission:
      roles: [payer]
      tenant: /tenant_id
      resource: { pointer: /account, allow: ["{tenant}/*"] }
    arguments: { properties: { memo: { type: string } } }
    rules:
      - { code: first_rule, when: "arguments.amount > 100" }
      - { code: second_rule, when: "arguments.currency != 'USD'" }
      - { code: third_rule, when: "arguments.late" }
    secrets: []
layers:
  agent:
    blind: { deny: ["*"] }
    blind-nobody: { deny: ["*"] }
"#;

const CALLERS: &str = "
  - { agent: payer, token: token-of-the-payer, tenant: t_001, roles: [payer] }
  - { agent: nobody, token: token-of-nobody-at-all, tenant: t_001, roles: [] }
  - { agent: blind, token: token-of-the-blind, tenant: t_001, roles: [payer] }
  - { agent: blind-nobody, token: token-of-the-blind-nobody, tenant: t_001, roles: [] }
";

/// Every fault, the earliest first, with its code.
const CODES: [&str; 8] = [
    "tool_not_allowlisted",
    "schema_invalid",
    "rbac_denied",
    "tenant_mismatch",
    "resource_denied",
    "first_rule",
    "second_rule",
    "third_rule",
];

/// All sets of faults: agent and token, arguments, and the code of the earliest.
fn cases() -> impl Iterator<Item = ((&'static str, &'static str), Value, Option<&'static str>)> {
    (0_u32..256).map(|set| {
        let fault = |at: usize| set >> at & 1 == 1;
        let agent = match (fault(0), fault(2)) {
            (false, false) => ("payer", "token-of-the-payer"),
            (false, true) => ("nobody", "token-of-nobody-at-all"),
            (true, false) => ("blind", "token-of-the-blind"),
            (true, true) => ("blind-nobody", "token-of-the-blind-nobody"),
        };
        let arguments = json!({
            "memo": if fault(1) { json!(1) } else { json!("x") },
            "tenant_id": if fault(3) { "t_999" } else { "t_001" },
            "account": if fault(4) { "t_999/main" } else { "t_001/main" },
            "amount": if fault(5) { 101 } else { 100 },
            "currency": if fault(6) { "EUR" } else { "USD" },
            "late": fault(7),
        });
        (
            agent,
            arguments,
            (0..8).find(|at| fault(*at)).map(|at| CODES[at]),
        )
    })
}

async fn stage() -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(vec![tool("transfer")]).await;
    let servers = vec![("ops", scripted.url())];
    let gate = Gate::start(Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: POLICY.to_owned(),
        observe: false,
    })
    .await;
    (scripted, gate)
}

/// 003-29, C14: hidden, schema, role, tenant, resource, then the rules as listed, for every set of
/// faults, over HTTP.
#[tokio::test]
async fn the_earliest_step_decides_on_both_wires() {
    let (scripted, gate) = stage().await;
    for legacy in [false, true] {
        scripted.forget();
        let mut agents = Vec::new();
        for (agent, ..) in cases() {
            if !agents.iter().any(|(name, _)| *name == agent.0) {
                let at = gate.agent().token(agent.1);
                agents.push((agent.0, if legacy { at.initialized().await } else { at }));
            }
        }
        for ((name, _), arguments, expected) in cases() {
            let agent = &agents.iter().find(|(known, _)| *known == name).unwrap().1;
            let answer = agent.call_anew("ops__transfer", arguments.clone()).await;
            assert_eq!(
                code(&answer).as_deref(),
                expected,
                "{name}, {arguments}, legacy: {legacy}: {answer}"
            );
        }
        assert_eq!(
            scripted.executions(),
            1,
            "only the call without a fault ran"
        );
    }
}

/// The same over stdio.
#[tokio::test]
async fn the_earliest_step_decides_over_stdio() {
    let (scripted, gate) = stage().await;
    for (name, legacy) in [
        ("payer", false),
        ("nobody", true),
        ("blind", false),
        ("blind-nobody", true),
        ("payer", true),
    ] {
        scripted.forget();
        let data = gate.path("launched");
        let args = ["--agent", name, "--data", data.to_str().unwrap()];
        let mut agent = Launched::start(&gate.setup, &args, legacy).await;
        for (_, arguments, expected) in cases().filter(|((agent, _), ..)| *agent == name) {
            let answer = agent.call_anew("transfer", arguments.clone()).await;
            assert_eq!(
                code(&answer).as_deref(),
                expected,
                "{name}, {arguments}, legacy: {legacy}: {answer}"
            );
        }
        assert_eq!(scripted.executions(), usize::from(name == "payer"));
        agent.end().await;
    }
}
