//! Policy files, well and badly written.

use super::*;
use crate::model::caller::Caller;
use crate::model::refusal::Refusal;
use std::fs;

fn basis(policies: &Path, mode: Mode) -> Basis {
    Basis {
        mode,
        servers: ["billing", "fs"].map(ServerName::new).to_vec(),
        timeouts: [("billing", 600), ("fs", 60)]
            .map(|(name, s)| (ServerName::new(name), Duration::from_secs(s)))
            .into(),
        agents: vec![AgentId::new("support-bot")],
        identity: identity::Rule::anonymous(),
        methods: Methods::default(),
        session_header: None,
        policies: vec![policies.to_path_buf()],
        written: Value::Null,
    }
}

fn compile_files(files: &[(&str, &str)], mode: Mode) -> (Compiled, String) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let compiled = compile(basis(directory.path(), mode), Vec::new());
    let shown = compiled.diagnostics.iter().fold(String::new(), |text, diagnostic| text + &format!("{diagnostic}\n"));
    (compiled, shown.replace(&format!("{}/", directory.path().display()), ""))
}

fn bot() -> Caller {
    let agent = AgentId::new("support-bot");
    Caller { agent, tenant: None, roles: Vec::new(), group: None, model: None, owner: false }
}

const GOOD: &str = r#"
contracts:
  billing__create_invoice:
    purpose: Create a draft invoice for the caller's tenant.
    actions: [write]
    permission: { roles: [billing_admin], tenant: /tenant_id }
    arguments:
      properties:
        currency:     { enum: [CNY, USD] }
        note:         { default: null }
    rules:
      - { code: amount_out_of_range, when: "arguments.amount_cents > 1000000 && !('finance' in caller.roles)" }
    side_effect: { writes: "invoices(draft)", rollback: { tool: billing__delete_draft_invoice, arguments: { id: result#/id } } }
    secrets: []
    audit: [customer_id]
  billing__get_invoice: { purpose: Show one., actions: [read], secrets: [] }
layers:
  global: { deny: ["*__drop_*"] }
"#;

const BROKEN: &str = r#"
contracts:
  billing__create_invoice:
    purpose: Create a draft invoice for the caller's tenant.
    actions: [wirte]
    idempotency: { derive: [/tenant_id], ttl: 1h }
    budget:
    approval: { ask: on-miss }
    variants: []
    secrets: [api_key]
    audit: ["", /a/b, id, id]
    side_effect: { writes: x, rollback: { tool: biling__undo } }
    owner_only: "true"
  billing__get_invoice:
    purpose: "   "
    actions: []
  billing__list: { purpose: p, actions: [read], secrets: [], irreversible: true, permision: {} }
  billing__*: { purpose: p, actions: [read], secrets: [] }
  biling__get: { purpose: p, actions: [read], secrets: [] }
  get_invoice: { purpose: p, actions: [read], secrets: [] }
  billing__bad_rule:
    purpose: p
    actions: [write]
    secrets: []
    permission: { tenant: tenant_id }
    rules: [ { code: Bad Code, when: "arguments.amount >" }, { code: no_when } ]
layers:
  profile: { coding: { allow: ["fs__*"] } }
  global: { deny: ["*__drop_*", "", "blling__*", "fs__{a,b}"], allow: }
  agent:
    support-bot: { allow: ["billing__*", "serch__*"], deny: nothing, by_model_provider: {} }
    suport-bot: { allow: [] }
  team: {}
"#;

#[test]
fn every_problem_of_a_broken_policy_is_named_at_once() {
    let (compiled, shown) = compile_files(&[("broken.yaml", BROKEN)], Mode::Enforce);
    assert!(compiled.policy.is_none());
    insta::assert_snapshot!(shown);
}

#[test]
fn two_contracts_for_one_tool_are_shown_at_both_places() {
    let (compiled, shown) = compile_files(&[("a.yaml", GOOD), ("b.yaml", GOOD)], Mode::Enforce);
    assert!(compiled.policy.is_none());
    insta::assert_snapshot!(shown);
}

#[test]
fn the_whole_format_that_is_enforced_compiles() {
    let (compiled, shown) = compile_files(&[("good.yaml", GOOD)], Mode::Enforce);
    let policy = compiled.policy.unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(shown, "");
    let admitted = policy.allowlist.admit(&bot(), &ToolName::new("billing__create_invoice")).unwrap();
    assert!(admitted.rules().side_effect);
    assert_eq!(admitted.rules().audit, ["customer_id"]);
    let read = policy.allowlist.admit(&bot(), &ToolName::new("billing__get_invoice")).unwrap();
    assert!(!read.rules().side_effect);
    // 003-21: no contract, no tool.
    let denied = policy.allowlist.admit(&bot(), &ToolName::new("billing__other")).unwrap_err();
    assert_eq!(denied.refusal, Refusal::ToolNotAllowlisted);
}

#[test]
fn the_version_tells_what_is_said_not_how_it_is_written() {
    let version = |files: &[(&str, &str)]| compile_files(files, Mode::Enforce).0.policy.unwrap().version;
    let one = "contracts: { fs__a: { purpose: p, actions: [read], secrets: [] } }\n";
    let same = "# a comment\ncontracts:\n  fs__a:\n    secrets: []\n    actions: [read]\n    purpose: p\n";
    let other = "contracts: { fs__a: { purpose: q, actions: [read], secrets: [] } }\n";
    let first = version(&[("a.yaml", one), ("b.yaml", "layers: {}\n")]);
    assert_eq!(first, version(&[("z.yaml", same), ("b.yaml", "layers: {}\n")]));
    assert_ne!(first, version(&[("a.yaml", other), ("b.yaml", "layers: {}\n")]));
    assert_eq!(first.len(), 12);
}

#[test]
fn an_unknown_action_is_a_side_effect() {
    let text = "contracts: { fs__a: { purpose: p, actions: [read, frobnicate], secrets: [] } }\n";
    let (compiled, shown) = compile_files(&[("a.yaml", text)], Mode::Enforce);
    let policy = compiled.policy.unwrap();
    assert!(policy.allowlist.admit(&bot(), &ToolName::new("fs__a")).unwrap().rules().side_effect);
    assert!(shown.contains("warning: `frobnicate` is no known action"), "{shown}");
}
