//! The contracts under `policies/library`, and what their packs expect of them.

use super::*;
use crate::guards::idempotency::{Asked, Given};
use crate::guards::rewrite::{Draft, Outcome};
use crate::model::ids::TenantId;
use crate::schema::Schema;
use crate::store::state::budget::{Dimension, Task, Use};
use serde_json::json;
use std::collections::BTreeSet;

fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/library").join(name);
    Document::read(&path).unwrap_or_else(|problem| panic!("{problem}")).tree().clone()
}

/// All six files together, for all servers that they name.
fn library() -> Policy {
    let servers = ["billing", "shop", "bank", "crm", "iam", "mail"].map(ServerName::new);
    let timeouts = servers.iter().map(|name| (name.clone(), Duration::from_mins(1))).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/library");
    let compiled = compile(Basis { servers: servers.to_vec(), timeouts, ..basis(&path, Mode::Enforce) }, Vec::new());
    assert_eq!(compiled.diagnostics, [], "the library is free of errors and of warnings");
    compiled.policy.unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// What the policy says of one sample.
fn verdict(policy: &Policy, pack: &Value, sample: &Value) -> Result<(), String> {
    let code = |refusal: Refusal| refusal.code().to_owned();
    let who = &pack["callers"][sample["caller"].as_str().unwrap()];
    let tenant = who["tenant"].as_str().map(TenantId::new);
    let caller =
        Caller { agent: AgentId::new(who["agent"].as_str().unwrap()), tenant, roles: texts(&who["roles"]), ..bot() };
    let name = ToolName::new(sample["tool"].as_str().unwrap());
    let (server, own) = name.as_str().split_once(SEPARATOR).unwrap();
    let arguments = sample.get("arguments").cloned().unwrap_or_else(|| json!({}));
    let admitted = policy.allowlist.admit(&caller, &name).map_err(|denied| code(denied.refusal))?.on(&arguments);
    let tools = pack["servers"][server]["tools"].as_array().unwrap();
    let listed = tools.iter().find(|tool| tool["name"] == own).unwrap_or_else(|| panic!("{name} is not listed"));
    let schema = Schema::compile(&listed["inputSchema"]).unwrap();
    let rules = admitted.rules();
    assert_eq!(rules.lacks(&schema), None, "{name}");
    let checked = rules.arguments.check(&schema, &arguments).map_err(code)?;
    let permit = rules.permission.allow(&caller, &arguments, &checked).map_err(code)?;
    let passed = rules.rules.apply(&caller, &arguments, &permit).map_err(code)?;
    let rewritten = Draft::of(&arguments, passed).finish().map_err(code)?;
    let Outcome::Same(last) = rewritten else { panic!("no contract of the library changes anything") };
    let watched = policy.repetition.watch(&[], &name, 0, &last).map_err(code)?.watched;
    if let Some(keys) = &rules.idempotency {
        let key = sample.get("key");
        let given = Given { meta: key, ..Given::default() };
        let asked =
            Asked { caller: &caller, server: &ServerName::new(server), tool: own, arguments: &arguments, given };
        let _ = keys.key(&asked, &watched).map_err(code)?;
    }
    let asked = rules.budget.ask(&policy.tasks, &caller, (&name, rules.side_effect));
    let (now, mut task) = (1_000_000_000, Task::new(1_000_000_000));
    let state = |key: &str| sample["state"][key].as_u64().unwrap_or(0);
    let step = asked.limits.rate.map_or(0, |rate| rate.per.div_ceil(rate.calls));
    let used = Use { calls: state("calls_used"), due: now + step * state("calls_now") };
    task.tools.insert(asked.price.tool.clone(), used);
    asked.limits.admit(Some(&task), &asked.price, now).map(drop).map_err(|exceeded| {
        let calls = exceeded.dimension == Dimension::CallsPerTool;
        if calls { "budget_calls_exceeded" } else { "budget_exceeded" }.to_owned()
    })
}

/// 003-D1, 003-D3, 003-54 … 003-61, 003-99, 003-100, 002-32: six contracts and more, each with a pack of good samples, and of
/// overreach, injection, budget and failure recovery, all of which they meet.
#[test]
fn the_library_meets_its_packs() {
    let policy = library();
    let mut reached = BTreeSet::new();
    for name in ["invoice", "order", "transfer", "record", "grant", "notify"] {
        let pack = read(&format!("tests/{name}.yaml"));
        assert_eq!((pack["pack"].as_str(), texts(&pack["policies"])), (Some(name), vec![format!("../{name}.yaml")]));
        let mut codes = BTreeSet::new();
        let samples = pack["samples"].as_array().unwrap();
        for sample in samples {
            let said = verdict(&policy, &pack, sample).map_or_else(|code| code, |()| "allow".to_owned());
            assert_eq!(said, sample["expect"].as_str().unwrap(), "{name}: {}", sample["name"]);
            codes.insert(said);
            reached.insert(sample["tool"].as_str().unwrap().to_owned());
        }
        for kind in ["overreach:", "injection:", "budget:", "recovery:"] {
            let told = samples.iter().filter(|sample| sample["name"].as_str().unwrap().starts_with(kind)).count();
            assert!(told > 0, "{name} has no sample of {kind}");
        }
        for code in
            ["allow", "schema_invalid", "rbac_denied", "tenant_mismatch", "budget_calls_exceeded", "budget_exceeded"]
        {
            assert!(codes.contains(code), "{name} has no sample of {code}");
        }
    }
    assert!(policy.allowlist.contracts().count() >= 6);
    let (changing, undone) = policy.allowlist.undone();
    assert!(undone >= 6 && undone < changing, "003-106: {undone} of {changing} can be taken back");
}

/// 003-54 … 003-64: the documents' example contract, value by value.
#[test]
fn the_example_contract_is_the_documents() {
    let tree = read("invoice.yaml");
    let written = &tree["contracts"]["billing__create_invoice"];
    let values = [
        ("/actions", json!(["write"])),
        ("/permission/tenant", json!("/tenant_id")),
        ("/permission/roles", json!(["billing_admin"])),
        ("/budget/max_calls_per_task", json!(1)),
        ("/budget/timeout_ms", json!(3000)),
        ("/side_effect/writes", json!("invoices(draft)")),
        ("/side_effect/rollback/tool", json!("billing__delete_draft_invoice")),
        ("/side_effect/rollback/arguments/action_id", json!("action#")),
    ];
    for (pointer, value) in values {
        assert_eq!(written.pointer(pointer), Some(&value), "{pointer}");
    }
    let fields = texts(&written["audit_fields"]);
    assert!(crate::model::entry::MANDATORY.iter().all(|field| fields.iter().any(|one| one == field)));
}
