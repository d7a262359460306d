//! Contracts, field by field: what loads, what does not and why, and what becomes of it. Variants
//! are tested in `variants`, who may call and how that is undone in `undone`, what is said of a
//! contract beside its tool's schema in `compared`.

use super::*;

mod compared;
mod undone;
mod variants;

/// What is said of a policy with these contracts.
pub(super) fn said(contracts: &str) -> String {
    compile_files(
        &[("a.yaml", &format!("contracts:\n{contracts}\n"))],
        Mode::Enforce,
    )
    .1
}

pub(super) fn policy(contracts: &str) -> Policy {
    let (compiled, shown) = compile_files(
        &[("a.yaml", &format!("contracts:\n{contracts}\n"))],
        Mode::Enforce,
    );
    compiled.policy.unwrap_or_else(|| panic!("{shown}"))
}

/// 002-09, 002-16, 002-26, 002-29, 003-01, 003-05, 003-15, 003-19, 003-45, 003-47, 003-52, 003-114:
/// what a contract must not leave open, and that its tool is named.
#[test]
fn a_contract_with_a_missing_part_does_not_load() {
    let whole = [
        ("purpose", "p"),
        ("actions", "[write]"),
        ("permission", "{ roles: [writer] }"),
        ("secrets", "[]"),
        (
            "side_effect",
            "{ writes: files, rollback: { tool: fs__undo } }",
        ),
    ];
    let undo = "  fs__undo: { purpose: p, actions: [write], permission: anyone, irreversible: true, secrets: [] }";
    let without = |left_out: &str| {
        let parts: Vec<String> = whole
            .iter()
            .filter(|(key, _)| *key != left_out)
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        said(&format!("  fs__a: {{ {} }}\n{undo}", parts.join(", ")))
    };
    assert_eq!(without(""), "");
    for (key, _) in whole {
        let missing = if key == "side_effect" {
            "one of `side_effect.rollback`, `additive` and `irreversible`"
        } else {
            &format!("`{key}`")
        };
        let expected = format!("a.yaml:2:3: error: missing {missing}, in the contract of `fs__a`");
        assert!(without(key).starts_with(&expected), "{}", without(key));
    }
    // Whatever is not only read changes something; what is only read has nothing to take back.
    for action in ["write", "delete", "pay", "grant", "notify"] {
        let shown = said(&format!(
            "  fs__a: {{ purpose: p, actions: [{action}], owner_only: true, secrets: [] }}"
        ));
        assert_eq!(shown.matches("error:").count(), 1, "{action}: {shown}");
        assert!(
            shown.contains("missing one of `side_effect.rollback`"),
            "{action}: {shown}"
        );
    }
    assert_eq!(
        said("  fs__a: { purpose: p, actions: [read], secrets: [] }"),
        ""
    );
}

const READ_CONTRACT: &str = "purpose: p, actions: [read], secrets: []";
const WRITE_CONTRACT: &str =
    "purpose: p, actions: [write], permission: anyone, irreversible: true, secrets: []";

/// Each contract, beside others that it may name: what is said of it, and what to do.
fn do_not_load(cases: &[(String, &str, &str)]) {
    let others = format!(
        "  fs__b: {{ {WRITE_CONTRACT} }}\n  fs__look: {{ {READ_CONTRACT} }}\n  billing__b: {{ {WRITE_CONTRACT} }}"
    );
    for (contract, message, hint) in cases {
        let shown = said(&format!("  {contract}\n{others}"));
        let errors = shown
            .lines()
            .filter(|line| line.starts_with("a.yaml:") && line.contains(": error:"));
        assert!(errors.count() <= 2, "{contract}: {shown}");
        assert!(
            shown.contains(message) && shown.contains(hint),
            "{contract}: {shown}"
        );
    }
}

/// 003-44, 003-46, 003-53: fields that cannot be kept.
#[test]
fn a_field_that_cannot_be_kept_does_not_load() {
    let long = "x".repeat(201);
    let whole = "action_id, request_id, user_id, tenant_id, tool, params_hash, result, latency_ms, id, trace_id";
    do_not_load(&[
        (
            format!("fs__a: {{ {READ_CONTRACT}, not_for: {long} }}"),
            "longer than 200 characters",
            "shorten",
        ),
        (
            format!("FS__b: {{ {WRITE_CONTRACT} }}"),
            "the server `FS` is not declared",
            "known here: billing, fs",
        ),
        (
            format!("fs__B: {{ {WRITE_CONTRACT} }}"),
            "`fs__b` and `fs__B` differ in case only",
            "the tool server lists",
        ),
        (
            format!("fs__a: {{ {READ_CONTRACT}, audit_fields: [action_id] }}"),
            "missing request_id, user_id, tenant_id, tool, params_hash, result, latency_ms",
            "",
        ),
        (
            format!("fs__a: {{ {READ_CONTRACT}, audit: [id], audit_fields: [{whole}, nmae] }}"),
            "no entry has `nmae`",
            "named in `audit`, too",
        ),
    ]);
}

/// 003-50, 003-P4d: sections that name what is not there, or is not what they need.
#[test]
fn a_section_that_cannot_be_kept_does_not_load() {
    do_not_load(&[
        (
            format!("fs__a: {{ {WRITE_CONTRACT}, confirms: {{ tool: fs__look, draft: /id }} }}"),
            "`fs__look` changes nothing",
            "makes the draft",
        ),
        (
            format!("fs__a: {{ {WRITE_CONTRACT}, confirms: {{ tool: fs__a, draft: /id }} }}"),
            "`fs__a` is the tool itself",
            "another tool",
        ),
        (
            format!("fs__a: {{ {WRITE_CONTRACT}, confirms: {{ tool: fs__no, draft: /id }} }}"),
            "`fs__no` has no contract",
            "",
        ),
        (
            format!("fs__a: {{ {WRITE_CONTRACT}, confirms: {{ tool: fs__b, draft: id }} }}"),
            "not a JSON pointer",
            "/id",
        ),
        (
            format!(
                "fs__a: {{ {WRITE_CONTRACT}, idempotency: {{ probe: {{ tool: fs__b, found: /id }} }} }}"
            ),
            "`fs__b` changes something",
            "",
        ),
        (
            format!("fs__a: {{ {WRITE_CONTRACT}, output: {{ errors: [{{ means: retry }}] }} }}"),
            "expected one of",
            "",
        ),
        (
            format!("fs__a: {{ {WRITE_CONTRACT}, output: {{ errors: [{{ means: unknown }}] }} }}"),
            "fits every error",
            "",
        ),
    ]);
}

/// 002-26, 002-30, 003-44: patterns that would decide what nobody has decided.
#[test]
fn a_pattern_that_leaves_something_open_does_not_load() {
    do_not_load(&[
        (
            "fs__get_*: { purpose: p, actions: [read], secrets: [/token] }".to_owned(),
            "a contract for several tools takes no secrets",
            "of its own",
        ),
        (
            "fs__get_*: { purpose: p, actions: [read] }".to_owned(),
            "missing `secrets`, in the contract of `fs__get_*`",
            "",
        ),
        (
            format!("\"*__get\": {{ {READ_CONTRACT} }}"),
            "a contract is for the tools of one server",
            "server__get_*",
        ),
        (
            format!("fs__[a-z]*: {{ {READ_CONTRACT} }}"),
            "`[` has no meaning in a pattern",
            "only `*`",
        ),
        (
            format!("fs__get_*: {{ {READ_CONTRACT} }}\n  fs__*_all: {{ {READ_CONTRACT} }}"),
            "`fs__get_*` and `fs__*_all` can match the same tool",
            "narrow",
        ),
        (
            format!("fs__g**: {{ {READ_CONTRACT} }}\n  fs__g*: {{ {READ_CONTRACT} }}"),
            "neither is narrower",
            "",
        ),
    ]);
}

/// 002-30, 002-32: a pattern is written once for several tools; what is narrower counts, and a
/// tool's own contract most.
#[test]
fn the_narrowest_contract_counts() {
    let read = "actions: [read], secrets: []";
    let policy = policy(&format!(
        "  fs__*: {{ purpose: any, {read} }}\n  fs__get_*: {{ purpose: get, {read} }}\n  \
         fs__get_a*: {{ purpose: get_a, {read} }}\n  fs__get_abc: {{ purpose: abc, {read} }}\n  \
         billing__*_list: {{ purpose: list, {read} }}"
    ));
    for (tool, purpose) in [
        ("fs__put", Some("any")),
        ("fs__get_b", Some("get")),
        ("fs__get_ab", Some("get_a")),
        ("fs__get_abc", Some("abc")),
        ("fs__", Some("any")),
        ("billing__x_list", Some("list")),
        ("billing__x", None),
        ("other__get_a", None),
    ] {
        let name = ToolName::new(tool);
        assert_eq!(
            policy
                .allowlist
                .contract_of(&name)
                .map(|rules| rules.purpose.as_str()),
            purpose,
            "{tool}"
        );
        assert_eq!(
            policy.allowlist.admit(&bot(), &name).is_ok(),
            purpose.is_some(),
            "{tool}"
        );
    }
}
