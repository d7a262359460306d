//! Scenarios of roles, tenants and resources.

use super::*;
use crate::model::ids::TenantId;
use serde_json::json;

fn caller(tenant: Option<&str>, roles: &[&str]) -> Caller {
    Caller {
        tenant: tenant.map(TenantId::new),
        roles: roles.iter().map(|&role| role.to_owned()).collect(),
        ..Caller::named("bot")
    }
}

fn compile(settings: Value) -> (Rule, Vec<String>) {
    let mut problems = Problems::default();
    let settings: Settings = serde_json::from_value(settings).unwrap();
    let rule = settings.compile(&mut problems);
    (
        rule,
        problems
            .into_found()
            .into_iter()
            .map(|problem| problem.path.join("."))
            .collect(),
    )
}

fn judged(rule: &Rule, caller: &Caller, arguments: &Value) -> Result<(), String> {
    let checked = Checked::mint();
    rule.allow(caller, arguments, &checked)
        .map(drop)
        .map_err(|refusal| refusal.code().to_owned())
}

/// What a contract asks of the caller, of its tenant and of a path.
fn billing() -> Rule {
    let (rule, problems) = compile(
        json!({ "roles": ["billing_admin", "boss"], "tenant": "/tenant_id",
        "resource": { "pointer": "/to/path", "allow": ["{tenant}/*.txt", "shared", "{agent}"] } }),
    );
    assert_eq!(problems, [""; 0]);
    rule
}

fn admin() -> Caller {
    caller(Some("t_001"), &["x", "boss"])
}

fn of_path(path: &Value) -> Value {
    json!({ "tenant_id": "t_001", "to": { "path": path } })
}

fn assert_refused(caller: &Caller, arguments: &Value, code: &str) {
    assert_eq!(
        judged(&billing(), caller, arguments),
        Err(code.to_owned()),
        "{arguments}"
    );
}

/// 003-15, 003-22: a role comes first.
#[test]
fn a_caller_has_one_of_the_roles() {
    let fine = of_path(&json!("t_001/a.txt"));
    assert_eq!(judged(&billing(), &admin(), &fine), Ok(()));
    assert_refused(&caller(Some("t_001"), &[]), &json!({}), "rbac_denied");
    assert_refused(&caller(None, &["Boss"]), &fine, "rbac_denied");
}

/// 003-15, 003-23, 003-32: then the tenant.
#[test]
fn a_call_is_for_the_callers_own_tenant() {
    for arguments in [
        json!({ "tenant_id": "t_999", "to": {} }),
        json!({ "to": { "path": "shared" } }),
        json!({ "tenant_id": 1 }),
        json!({ "tenant_id": null }),
        json!({ "tenant_id": "T_001" }),
    ] {
        assert_refused(&admin(), &arguments, "tenant_mismatch");
    }
    let without = caller(None, &["boss"]);
    for arguments in [of_path(&json!("t_001/a.txt")), json!({})] {
        assert_refused(&without, &arguments, "tenant_mismatch");
    }
}

/// 003-15: then the resource.
#[test]
fn a_call_is_for_an_allowed_resource() {
    assert_refused(
        &admin(),
        &json!({ "tenant_id": "t_001" }),
        "resource_denied",
    );
    for path in [
        json!("t_002/a.txt"),
        json!("t_001/a.md"),
        json!("t_001/../t_002/a.txt"),
        json!("t_001/%2E%2e/t_002/a.txt"),
        json!("t_001\\..\\a.txt"),
        json!("t_001/a\u{0}.txt"),
        json!(7),
        json!([]),
        json!(["shared", "other"]),
    ] {
        assert_refused(&admin(), &of_path(&path), "resource_denied");
    }
    for path in [
        json!("shared"),
        json!("bot"),
        json!(["shared", "t_001/x/y.txt"]),
        json!("t_001/.txt"),
    ] {
        assert_eq!(
            judged(&billing(), &admin(), &of_path(&path)),
            Ok(()),
            "{path}"
        );
    }
}

#[test]
fn a_star_stands_for_any_text_and_a_name_with_a_star_for_itself() {
    for (pattern, text, matches) in [
        ("*", "", true),
        ("*", "a", true),
        ("a*", "a", true),
        ("a*a", "a", false),
        ("a*a", "aba", true),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("**", "x", true),
        ("{tenant}", "*", true),
        ("{tenant}", "x", false),
        ("x{tenant}/*", "x*/1", true),
        ("x{tenant}/*", "xy/1", false),
    ] {
        let (rule, _) = compile(json!({ "resource": { "pointer": "/a", "allow": [pattern] } }));
        let judged = judged(&rule, &caller(Some("*"), &[]), &json!({ "a": text }));
        assert_eq!(judged.is_ok(), matches, "{pattern} {text}");
    }
}

#[test]
fn settings_that_cannot_mean_anything_are_errors() {
    for (settings, path) in [
        (json!({ "roles": [""] }), "roles"),
        (json!({ "tenant": "tenant_id" }), "tenant"),
        (json!({ "tenant": "" }), "tenant"),
        (json!({ "tenant": "/a~2" }), "tenant"),
        (
            json!({ "resource": { "pointer": "a", "allow": ["*"] } }),
            "resource.pointer",
        ),
        (
            json!({ "resource": { "pointer": "/a", "allow": [] } }),
            "resource.allow",
        ),
        (
            json!({ "resource": { "pointer": "/a", "allow": ["ok", "{person}/*"] } }),
            "resource.allow.1",
        ),
        (
            json!({ "resource": { "pointer": "/a", "allow": ["a}"] } }),
            "resource.allow.0",
        ),
        (
            json!({ "resource": { "pointer": "/a", "allow": [""] } }),
            "resource.allow.0",
        ),
    ] {
        assert_eq!(compile(settings.clone()).1, [path], "{settings}");
    }
    assert!(serde_json::from_value::<Settings>(json!({ "role": [] })).is_err());
    assert_eq!(
        judged(&Rule::default(), &caller(None, &[]), &json!({})),
        Ok(())
    );
}
