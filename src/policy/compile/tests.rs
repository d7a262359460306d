//! Policy files, well and badly written. Contracts are tried field by field in `contracts`, sections
//! against each other in `contradictions`.

use super::*;
use crate::model::caller::Caller;
use crate::model::ids::ToolName;
use crate::model::refusal::Refusal;
use crate::policy::locate::YamlDocument;
use std::fs;
use std::path::Path;

mod bound;
mod closed;
mod contracts;
mod contradictions;
mod held;
mod library;
mod shell;

fn basis(policies: &Path, mode: Mode) -> CompileInput {
    CompileInput {
        mode,
        servers: ["billing", "fs"].map(ServerName::new).to_vec(),
        disabled: Vec::new(),
        timeouts: [("billing", 600), ("fs", 60)]
            .map(|(name, s)| (ServerName::new(name), Duration::from_secs(s)))
            .into(),
        agents: vec![AgentId::new("support-bot")],
        identity: identity::Rule::anonymous(),
        roles: Vec::new(),
        assigned: Vec::new(),
        bound: Vec::new(),
        hooked: Vec::new(),
        fences: BTreeMap::new(),
        approvers: None,
        methods: Methods::default(),
        hooks: crate::guards::hooks::Rule::default(),
        session_header: None,
        meta_max_bytes: crate::policy::META_MAX_BYTES,
        pins: None,
        secrets: crate::guards::secrets::Bindings::default(),
        policies: vec![policies.to_path_buf()],
        is_whole: true,
        written: Value::Null,
    }
}

fn compile_files(files: &[(&str, &str)], mode: Mode) -> (CompileResult, String) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let compiled = compile(basis(directory.path(), mode), Vec::new());
    let shown = compiled
        .diagnostics
        .iter()
        .fold(String::new(), |text, diagnostic| {
            text + &format!("{diagnostic}\n")
        });
    (
        compiled,
        shown.replace(&format!("{}/", directory.path().display()), ""),
    )
}

fn bot() -> Caller {
    Caller::named("support-bot")
}

/// D13: a key whose value could not be read is not told to have none: who took it away would lose what is below it.
#[test]
fn what_could_not_be_read_is_not_empty() {
    for (text, is_empty) in [
        ("contracts:\n  billing__pay: { purpose: \"x\" ]\n", false),
        ("contracts:\n  billing__pay:\n    purpose: \"x\n", false),
        ("contracts:\n", true),
        ("contracts:\n  billing__pay: a: b\nbudgets:\n", true),
    ] {
        let (compiled, shown) = compile_files(&[("policy.yaml", text)], Mode::Enforce);
        assert!(!compiled.diagnostics.is_empty(), "{text}");
        assert_eq!(shown.contains("empty value"), is_empty, "{text}{shown}");
    }
}

const GOOD_POLICY: &str = r#"
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
    idempotency: { derive: [/tenant_id, /customer_id, /amount_cents], ttl: 1h }
    budget: { max_calls_per_task: 1, timeout_ms: 3000, cost: 1 }
    side_effect: { writes: "invoices(draft)", rollback: { tool: billing__delete_draft_invoice, arguments: { id: result#/id } } }
    secrets: []
    audit: [customer_id]
  billing__delete_draft_invoice:
    { purpose: Delete a draft., actions: [write], owner_only: true, side_effect: { writes: drafts, rollback: { tool: billing__create_invoice } }, secrets: [] }
  billing__get_invoice: { purpose: Show one., actions: [read], secrets: [] }
layers:
  global: { deny: ["*__drop_*"] }
budgets:
  global: { max_tool_calls: 30, max_cost: 10, on_limit: { cost: degrade } }
repetition: {}
"#;

const BROKEN_POLICY: &str = r#"
contracts:
  billing__create_invoice:
    purpose: Create a draft invoice for the caller's tenant.
    actions: [wirte]
    permission: anyone
    idempotency: { derive: [/tenant_id], ttl: 1h }
    budget:
    approval: { ask: on-miss }
    variants: { by: action, absent: lst, cases: { list: { actions: [red] } } }
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
  profile: { coding: { allow: ["fs__*", "fs__zz_*"] } }
  global: { deny: ["*__drop_*", "", "blling__*", "fs__{a,b}"], allow: }
  agent:
    support-bot: { allow: ["billing__*", "serch__*"], deny: nothing, by_model_provider: {} }
    suport-bot: { allow: [] }
  team: {}
"#;

#[test]
fn every_problem_of_a_broken_policy_is_named_at_once() {
    let (compiled, shown) = compile_files(&[("broken.yaml", BROKEN_POLICY)], Mode::Enforce);
    assert!(compiled.policy.is_none());
    insta::assert_snapshot!(shown);
}

#[test]
fn two_contracts_for_one_tool_are_shown_at_both_places() {
    let (compiled, shown) = compile_files(
        &[("a.yaml", GOOD_POLICY), ("b.yaml", GOOD_POLICY)],
        Mode::Enforce,
    );
    assert!(compiled.policy.is_none());
    insta::assert_snapshot!(shown);
}

#[test]
fn the_whole_format_that_is_enforced_compiles() {
    let (compiled, shown) = compile_files(&[("good.yaml", GOOD_POLICY)], Mode::Enforce);
    let policy = compiled.policy.unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(shown, "");
    let admitted = policy
        .allowlist
        .admit(&bot(), &ToolName::new("billing__create_invoice"))
        .unwrap();
    assert!(admitted.rules().side_effect);
    assert_eq!(admitted.rules().audit.plain, ["customer_id"]);
    // 003-61, 003-62: the documents' numbers; the task's are those of all layers.
    let asked = admitted
        .rules()
        .budget
        .ask(&policy.tasks, &bot(), &ToolName::new("x"), true);
    assert_eq!(
        (
            asked.limits.calls_per_tool,
            asked.limits.tool_calls,
            asked.price.cost
        ),
        (Some(1), Some(30), 1_000_000)
    );
    assert_eq!(
        admitted.rules().budget.timeout(),
        Some(Duration::from_secs(3))
    );
    assert!(policy.repetition.describe().is_some());
    assert_eq!(
        admitted.rules().idempotency.as_ref().unwrap().reads().len(),
        3
    );
    let read = policy
        .allowlist
        .admit(&bot(), &ToolName::new("billing__get_invoice"))
        .unwrap();
    assert!(!read.rules().side_effect && read.rules().idempotency.is_none());
    // 003-21: no contract, no tool.
    let denied = policy
        .allowlist
        .admit(&bot(), &ToolName::new("billing__other"))
        .unwrap_err();
    assert_eq!(denied.refusal, Refusal::ToolNotAllowlisted);
}

#[test]
fn the_version_tells_what_is_said_not_how_it_is_written() {
    let version = |files: &[(&str, &str)]| {
        compile_files(files, Mode::Enforce)
            .0
            .policy
            .unwrap()
            .version
    };
    let one = "contracts: { fs__a: { purpose: p, actions: [read], secrets: [] } }\n";
    let same =
        "# a comment\ncontracts:\n  fs__a:\n    secrets: []\n    actions: [read]\n    purpose: p\n";
    let other = "contracts: { fs__a: { purpose: q, actions: [read], secrets: [] } }\n";
    let first = version(&[("a.yaml", one), ("b.yaml", "layers: {}\n")]);
    assert_eq!(
        first,
        version(&[("z.yaml", same), ("b.yaml", "layers: {}\n")])
    );
    assert_ne!(
        first,
        version(&[("a.yaml", other), ("b.yaml", "layers: {}\n")])
    );
    assert_eq!(first.len(), 12);
}

/// 003-47: what a call does is said in words that are known; one that is not would be guarded as
/// nobody can tell, so that the policy does not load, in either mode.
#[test]
fn an_unknown_action_is_an_error_with_a_suggestion() {
    for (action, hint) in [
        ("deletes", "did you mean `delete`?"),
        ("Delete", "did you mean `delete`?"),
        (
            "payment",
            "known here: read, write, delete, pay, grant, notify",
        ),
    ] {
        let text = format!(
            "contracts: {{ fs__a: {{ purpose: p, actions: [read, {action}], permission: anyone, {UNDONE_EFFECT}, secrets: [] }}, \
             {UNDO_CONTRACTS} }}\n"
        );
        for mode in [Mode::Enforce, Mode::Observe] {
            let (compiled, shown) = compile_files(&[("a.yaml", &text)], mode);
            assert!(compiled.policy.is_none(), "{action}");
            let message = format!("error: `{action}` is no action");
            assert!(shown.contains(&message) && shown.contains(hint), "{shown}");
        }
    }
}

/// What a contract says of its effect, and the contracts of the tools that take it back, which stay
/// when it is wrong.
const UNDONE_EFFECT: &str = "side_effect: { writes: w, rollback: { tool: fs__undo } }";
const UNDO_CONTRACTS: &str = "fs__undo: { purpose: p, actions: [write], permission: anyone, secrets: [], side_effect: { writes: w, rollback: { tool: fs__redo } } }, \
                    fs__redo: { purpose: p, actions: [write], permission: anyone, secrets: [], side_effect: { writes: w, rollback: { tool: fs__undo } } }";

/// 004-10, 004-53, 004-58: whatever changes something is told apart, whether its contract says how
/// or not.
#[test]
fn side_effects_have_keys_without_being_told() {
    for action in ["write", "delete", "pay", "grant", "notify"] {
        let text = format!(
            "contracts: {{ fs__a: {{ purpose: p, actions: [read, {action}], permission: anyone, {UNDONE_EFFECT}, secrets: [] }}, {UNDO_CONTRACTS} }}\n"
        );
        let policy = compile_files(&[("a.yaml", &text)], Mode::Enforce)
            .0
            .policy
            .unwrap();
        let admitted = policy
            .allowlist
            .admit(&bot(), &ToolName::new("fs__a"))
            .unwrap();
        assert_eq!(
            admitted.rules().idempotency.as_ref().unwrap().ttl(),
            Duration::from_hours(1),
            "{action}"
        );
    }
}

/// 003-44: a tool has one name; contracts whose names differ in case, or look alike, are an error.
#[test]
fn two_contracts_that_can_be_taken_for_each_other_are_an_error() {
    let contract = "{ purpose: p, actions: [read], secrets: [] }";
    let one = format!("contracts:\n  fs__Delete: {contract}\n  fs__list: {contract}\n");
    for (other, errors, words) in [
        ("fs__delete", 1, "differ in case only"),
        (
            "fs__1ist",
            2,
            "`fs__1ist` has a contract, and so has `fs__list`, which can be taken for it",
        ),
        ("fs__l.ist", 0, ""),
        ("billing__1ist", 0, ""),
    ] {
        let other = format!("contracts:\n  {other}: {contract}\n");
        let (compiled, shown) =
            compile_files(&[("a.yaml", &one), ("b.yaml", &other)], Mode::Enforce);
        assert_eq!(
            (compiled.diagnostics.len(), compiled.policy.is_none()),
            (errors, errors > 0),
            "{shown}"
        );
        assert!(shown.contains(words), "{shown}");
    }
}

/// 017: of patterns each of which meets each of many others, no more is told than shows that.
#[test]
fn patterns_that_all_meet_are_not_told_of_one_by_one() {
    let contract = "{ purpose: p, actions: [read], secrets: [] }";
    let pair =
        |number: usize| format!("  fs__a{number}_*: {contract}\n  fs__*_z{number}: {contract}\n");
    let text: String = (0..60).map(pair).collect();
    let text = format!("contracts:\n{text}");
    let (compiled, _) = compile_files(&[("a.yaml", &text)], Mode::Enforce);
    let meets = |one: &&Diagnostic| one.message.contains("neither is narrower");
    let told = compiled.diagnostics.iter().filter(meets).count();
    assert!((1_001..1_100).contains(&told), "{told}");
}
