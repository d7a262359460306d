//! The contracts under `policies/library`; `toolgate test` runs their packs.

use super::*;
use serde_json::json;

fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("policies/library")
        .join(name);
    YamlDocument::read(&path)
        .unwrap_or_else(|problem| panic!("{problem}"))
        .tree()
        .clone()
}

/// All six files together, for all servers that they name.
fn library() -> Policy {
    let servers = ["billing", "shop", "bank", "crm", "iam", "mail"].map(ServerName::new);
    let timeouts = servers
        .iter()
        .map(|name| (name.clone(), Duration::from_mins(1)))
        .collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/library");
    let compiled = compile(
        CompileInput {
            servers: servers.to_vec(),
            timeouts,
            ..basis(&path, Mode::Enforce)
        },
        Vec::new(),
    );
    assert_eq!(
        compiled.diagnostics,
        [],
        "the library is free of errors and of warnings"
    );
    compiled.policy.unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|one| one.as_str().unwrap().to_owned())
        .collect()
}

/// 003-D3: six contracts and more load together without a word, and most that change something name
/// a call that takes it back.
#[test]
fn the_library_loads_together() {
    let policy = library();
    assert!(policy.allowlist.contracts().count() >= 6);
    let changing = policy.allowlist.changing().count();
    let named = policy
        .allowlist
        .changing()
        .filter(|(_, rules)| rules.undo.call().is_some())
        .count();
    assert!(
        named >= 6 && named < changing,
        "{named} of {changing} name a rollback"
    );
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
        (
            "/side_effect/rollback/tool",
            json!("billing__delete_draft_invoice"),
        ),
        (
            "/side_effect/rollback/arguments/action_id",
            json!("action#"),
        ),
    ];
    for (pointer, value) in values {
        assert_eq!(written.pointer(pointer), Some(&value), "{pointer}");
    }
    let fields = texts(&written["audit_fields"]);
    assert!(
        crate::model::entry::MANDATORY_FIELDS
            .iter()
            .all(|field| fields.iter().any(|one| one == field))
    );
}
