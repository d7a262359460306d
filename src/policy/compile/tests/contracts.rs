//! Contracts, field by field: what loads, what does not and why, and what becomes of it.

use super::*;
use crate::schema::Schema;
use serde_json::json;

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

/// 002-09, 002-16, 002-26, 002-29, 003-01, 003-05, 003-19, 003-45, 003-47, 003-52, 003-114: what a
/// contract must not leave open, and that its tool is named.
#[test]
fn a_contract_with_a_missing_part_does_not_load() {
    let whole = [
        ("purpose", "p"),
        ("actions", "[write]"),
        ("secrets", "[]"),
        (
            "side_effect",
            "{ writes: files, rollback: { tool: fs__undo } }",
        ),
    ];
    let undo = "  fs__undo: { purpose: p, actions: [write], irreversible: true, secrets: [] }";
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
            "side_effect.rollback` or `irreversible"
        } else {
            key
        };
        let expected =
            format!("a.yaml:2:3: error: missing `{missing}`, in the contract of `fs__a`");
        assert!(without(key).starts_with(&expected), "{}", without(key));
    }
    // Whatever is not only read changes something; what is only read has nothing to take back.
    for action in ["write", "delete", "pay", "grant", "notify", "frobnicate"] {
        let shown = said(&format!(
            "  fs__a: {{ purpose: p, actions: [{action}], owner_only: true, secrets: [] }}"
        ));
        assert!(
            shown.contains("missing `side_effect.rollback` or `irreversible`"),
            "{action}: {shown}"
        );
    }
    assert_eq!(
        said("  fs__a: { purpose: p, actions: [read], secrets: [] }"),
        ""
    );
}

const READ_CONTRACT: &str = "purpose: p, actions: [read], secrets: []";
const WRITE_CONTRACT: &str = "purpose: p, actions: [write], irreversible: true, secrets: []";

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

/// 003-19, 003-52, 003-64, 003-98: a way back is a call of the same server that can be made, or
/// there is none.
#[test]
fn a_way_back_that_leads_nowhere_does_not_load() {
    let effect = |effect: &str| {
        format!(
            "fs__a: {{ purpose: p, actions: [write], secrets: [], side_effect: {{ {effect} }} }}"
        )
    };
    let back = |tool: &str| effect(&format!("writes: x, rollback: {{ tool: {tool} }}"));
    let with = |id: &str| {
        effect(&format!(
            "writes: x, rollback: {{ tool: fs__b, arguments: {{ id: {id} }} }}"
        ))
    };
    let both = format!(
        "fs__a: {{ {WRITE_CONTRACT}, side_effect: {{ writes: x, rollback: {{ tool: fs__b }} }} }}"
    );
    do_not_load(&[
        (both, "yet there is a call that takes it back", ""),
        (
            effect("writes: x"),
            "missing `side_effect.rollback`",
            "rollback",
        ),
        (back("fs__a"), "`fs__a` is the tool itself", "another tool"),
        (
            back("fs__no"),
            "`fs__no` has no contract",
            "write its contract",
        ),
        (back("fs__look"), "`fs__look` changes nothing", ""),
        (back("billing__b"), "a tool of another server", ""),
        (
            with("result#id"),
            "`result#` is followed by no JSON pointer",
            "action#",
        ),
        (with("action#/id"), "`action#` is followed by no", ""),
        (
            with("[reslt#/id]"),
            "warning: `reslt#` stands for nothing",
            "",
        ),
    ]);
    assert_eq!(
        said(&format!(
            "  {}\n  fs__b: {{ {WRITE_CONTRACT} }}",
            with("[result#/id, arguments#/a/b, action#, c#]")
        )),
        ""
    );
}

/// 003-44, 003-46, 003-50, 003-53, 003-P4d: fields that cannot be kept.
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
        (
            format!("fs__a: {{ {WRITE_CONTRACT}, confirms: {{ tool: fs__look, draft: /id }} }}"),
            "`fs__look` changes nothing",
            "makes the draft",
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

const VARIANTS_CONTRACT: &str = r#"
  fs__file:
    purpose: Works on one file.
    actions: [read, write, delete]
    permission: { resource: { pointer: /path, allow: ["/{agent}/*"] } }
    rules: [ { code: hidden, when: "arguments.path.contains('/.')" } ]
    idempotency: { expose: true, ttl: 2h }
    budget: { max_calls_per_task: 9, cost: 1 }
    output: { errors: [ { says: busy, means: retryable } ] }
    side_effect: { writes: files, rollback: { tool: fs__restore, arguments: { id: "action#" } } }
    secrets: []
    audit: [path]
    variants:
      by: /action
      absent: show
      cases:
        show: { actions: [read], budget: { max_calls_per_task: 3 } }
        write:
          actions: [write]
          permission: { roles: [writer] }
          arguments: { properties: { text: { maxLength: 10 } } }
          idempotency: { derive: [/path], ttl: 1h }
        delete:
          actions: [delete]
          permission: { roles: [janitor] }
          rules: [ { code: not_alone, when: "!has(arguments.reason)" } ]
          irreversible: true
          output: { errors: [ { says: busy, means: unknown } ] }
  fs__restore: { purpose: Restores a file., actions: [write], irreversible: true, secrets: [] }"#;

/// 002-32: a case is chosen by its argument, narrows what the contract says, and replaces what
/// cannot be both.
#[test]
fn a_variant_narrows_its_contract() {
    assert_eq!(said(VARIANTS_CONTRACT), "");
    let policy = policy(VARIANTS_CONTRACT);
    let tool = ToolName::new("fs__file");
    let rules = |arguments: Value| {
        let admitted = policy
            .allowlist
            .admit(&bot(), &tool)
            .unwrap()
            .on(&arguments);
        let rules = admitted.rules();
        let asked = rules
            .budget
            .ask(&policy.tasks, &bot(), (&tool, rules.side_effect));
        (
            rules.clone(),
            asked.price.tool.to_string(),
            asked.limits.calls_per_tool,
        )
    };
    let (show, counted, most) = rules(json!({ "path": "/support-bot/a" }));
    assert_eq!(
        (
            show.variant.as_deref(),
            show.side_effect,
            counted.as_str(),
            most
        ),
        (Some("show"), false, "fs__file#show", Some(3))
    );
    assert!(
        show.writes.is_none() && show.rollback.is_none(),
        "what only reads takes nothing from the contract's effect"
    );
    assert!(
        show.idempotency.is_some(),
        "the contract asks for keys, of all its calls"
    );
    let (write, counted, most) = rules(json!({ "action": "write" }));
    assert_eq!(
        (write.variant.as_deref(), counted.as_str(), most),
        (Some("write"), "fs__file", Some(9))
    );
    assert_eq!(
        (
            write.writes.as_deref(),
            write
                .rollback
                .as_ref()
                .map(|rollback| rollback.tool.as_str())
        ),
        (Some("files"), Some("fs__restore"))
    );
    let keys = write.idempotency.as_ref().unwrap();
    assert_eq!(
        keys.reads(),
        [["path"], ["action"]],
        "a write and another action on one path are two calls"
    );
    let (delete, _, _) = rules(json!({ "action": "delete" }));
    assert!(
        delete.writes.is_none() && delete.rollback.is_none(),
        "the case says itself that it is irreversible"
    );
    let busy = crate::guards::output::UpstreamError {
        text: Some("busy"),
        ..Default::default()
    };
    assert_eq!(
        delete
            .output
            .judge(busy)
            .map(crate::guards::output::Meaning::word),
        Some("unknown")
    );
    assert_eq!(
        write
            .output
            .judge(busy)
            .map(crate::guards::output::Meaning::word),
        Some("retryable")
    );
    // A step or hook that changes the arguments chooses again.
    let (one, other) = (json!({ "action": "show" }), json!({ "action": "delete" }));
    let admitted = policy
        .allowlist
        .admit(&bot(), &tool)
        .unwrap()
        .on(&one)
        .on(&other);
    assert_eq!(admitted.rules().variant.as_deref(), Some("delete"));
    let (none, counted, _) = rules(json!({ "action": "Delete" }));
    assert_eq!(
        (none.variant.as_deref(), none.side_effect, counted.as_str()),
        (None, true, "fs__file")
    );
}

/// 002-32, 002-33, 003-22, 003-100: `action=delete` needs another role than `action=list`; an
/// unknown action is refused by the pointer, whichever caller asks; the halves of an overloaded
/// tool cannot be mixed.
#[test]
fn each_variant_is_judged_by_its_own_conditions() {
    let policy = policy(VARIANTS_CONTRACT);
    let schema = Schema::compile(&json!({ "type": "object", "properties": {
        "action": { "type": "string" }, "path": { "type": "string" }, "text": { "type": "string" },
        "reason": { "type": "string" } }, "required": ["path"] }))
    .unwrap();
    let judged = |roles: &[&str], arguments: Value| {
        let caller = Caller {
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            ..bot()
        };
        let admitted = policy
            .allowlist
            .admit(&caller, &ToolName::new("fs__file"))
            .unwrap()
            .on(&arguments);
        let rules = admitted.rules();
        let judge = || {
            let checked = rules.arguments.check(&schema, &arguments)?;
            let permit = rules.permission.allow(&caller, &arguments, &checked)?;
            rules.rules.apply(&caller, &arguments, &permit).map(drop)
        };
        judge().map_or_else(|refusal| refusal.code().to_owned(), |()| "allow".to_owned())
    };
    let on = |action: &str| json!({ "action": action, "path": "/support-bot/a" });
    for (roles, arguments, verdict) in [
        (&[][..], json!({ "path": "/support-bot/a" }), "allow"),
        (&[], on("show"), "allow"),
        (&[], on("write"), "rbac_denied"),
        (&["writer"], on("write"), "allow"),
        (&["writer"], on("delete"), "rbac_denied"),
        (&["janitor"], on("delete"), "not_alone"),
        (
            &["janitor"],
            json!({ "action": "delete", "path": "/support-bot/a", "reason": "old" }),
            "allow",
        ),
        (
            &["janitor"],
            json!({ "action": "delete", "path": "/support-bot/.a", "reason": "old" }),
            "hidden",
        ),
        (
            &["janitor"],
            json!({ "action": "delete", "path": "/other/a", "reason": "old" }),
            "resource_denied",
        ),
        (
            &["writer"],
            json!({ "action": "write", "path": "/support-bot/a", "text": "01234567890" }),
            "schema_invalid",
        ),
        (&["writer", "janitor"], on("DELETE"), "schema_invalid"),
        (&["writer", "janitor"], on("rename"), "schema_invalid"),
        (
            &["writer", "janitor"],
            json!({ "action": 1, "path": "/support-bot/a" }),
            "schema_invalid",
        ),
        (
            &["writer", "janitor"],
            json!({ "Action": "delete", "path": "/support-bot/a" }),
            "schema_invalid",
        ),
    ] {
        assert_eq!(
            judged(roles, arguments.clone()),
            verdict,
            "{roles:?} {arguments}"
        );
    }
}

/// 002-32: cases that cannot be kept do not load; the place is the case's.
#[test]
fn a_variant_that_cannot_be_kept_does_not_load() {
    let contract = |cases: &str| {
        format!(
            "  fs__a: {{ purpose: p, actions: [read, write], secrets: [], variants: {{ by: /do, {cases} }} }}"
        )
    };
    let read = "list: { actions: [read] }";
    for (cases, message, hint) in [
        ("cases: {}".to_owned(), "not between 1 and 64 cases", ""),
        (
            format!("absent: lst, cases: {{ {read} }}"),
            "there is no case `lst`",
            "did you mean `list`?",
        ),
        (
            format!("cases: {{ {read}, put: {{ actions: [write] }} }}"),
            "missing `side_effect.rollback` or `irreversible`",
            "",
        ),
        (
            format!("cases: {{ {read}, put: {{ actions: [pay], irreversible: true }} }}"),
            "`pay` is not among the contract's",
            "",
        ),
        ("cases: { list: {} }".to_owned(), "missing `actions`", ""),
        (
            "cases: { list: { actions: [read], purpose: x } }".to_owned(),
            "unknown key `purpose`",
            "",
        ),
        (
            "cases: { list: { actions: [read], idempotency: { require: true } } }".to_owned(),
            "holds for all variants or for none",
            "",
        ),
        (
            "cases: { list: { actions: [read], rules: [ { code: no, when: 'x >' } ] } }".to_owned(),
            "a.yaml:2:",
            "",
        ),
        (
            "cases: { list: { actions: [read], irreversible: true } }".to_owned(),
            "only `read`, yet the contract tells of an effect",
            "",
        ),
    ] {
        let shown = said(&contract(&cases));
        assert_eq!(
            shown
                .lines()
                .filter(|line| line.contains(": error:"))
                .count(),
            1,
            "{cases}: {shown}"
        );
        assert!(
            shown.contains(message) && shown.contains(hint),
            "{cases}: {shown}"
        );
    }
    assert_eq!(
        said(&contract(&format!(
            "cases: {{ {read}, put: {{ actions: [write], irreversible: true }} }}"
        ))),
        ""
    );
}

/// 002-32, 003-97: contracts that load and probably mean something else.
#[test]
fn contracts_that_say_too_little_are_warned_of() {
    for (contract, message) in [
        (
            "actions: [read, delete], irreversible: true, owner_only: true",
            "reads and changes things under the same conditions",
        ),
        (
            "actions: [write], irreversible: true, arguments: { properties: { action: { enum: [add, drop] } } }",
            "`action` says what is done, and all of it is judged alike",
        ),
        (
            "actions: [pay], irreversible: true",
            "everybody who sees the tool may `pay`",
        ),
        (
            "actions: [pay], irreversible: true, permission: { roles: [payer] }",
            "",
        ),
    ] {
        let shown = said(&format!(
            "  fs__a: {{ purpose: p, secrets: [], {contract} }}"
        ));
        assert_eq!(
            shown.matches("warning:").count(),
            usize::from(!message.is_empty()),
            "{contract}: {shown}"
        );
        assert!(
            shown.contains(message) && !shown.contains("error:"),
            "{contract}: {shown}"
        );
    }
}

/// 002-05, 002-11, 002-34: what a contract decides by must be there; what it says again is told.
#[test]
fn a_contract_is_compared_with_the_schema_of_its_tool() {
    let policy = policy(
        "  fs__a:
    purpose: p
    actions: [write]
    permission: { tenant: /tenent, resource: { pointer: /file/path, allow: [x] } }
    arguments: { required: [id], properties: { id: { type: string, maxLength: 9 }, nmae: {} } }
    idempotency: { derive: [/id, /kye] }
    variants: { by: /acton, cases: { put: { actions: [write], permission: { tenant: /who } } } }
    irreversible: true
    secrets: []
    audit: [id, naem]",
    );
    let rules = policy
        .allowlist
        .contract_of(&ToolName::new("fs__a"))
        .unwrap();
    let found = |schema: Value| {
        let schema = Schema::compile(&schema).unwrap();
        let told = |problem: crate::model::diagnostic::Problem| {
            format!(
                "{:?} {}: {}",
                problem.severity,
                problem.path.join("/"),
                problem.message
            )
        };
        let told: Vec<String> = crate::policy::contract_lint::problems("fs__a", rules, &schema)
            .into_iter()
            .map(told)
            .collect();
        assert_eq!(
            rules.lacks(&schema).is_some(),
            told.iter().any(|line| line.starts_with("Error"))
        );
        told
    };
    let properties = json!({ "id": { "type": "string" }, "file": { "type": "object", "properties": { "name": {} } } });
    insta::assert_snapshot!(
        found(json!({ "type": "object", "required": ["id"], "properties": properties })).join("\n")
    );
    // A schema that says nothing of its arguments can have any.
    assert_eq!(found(json!({ "type": "object" })), [""; 0]);
}

/// 002-32, 002-33: an argument that says what is done asks for variants.
#[test]
fn a_tool_with_several_uses_asks_for_variants() {
    let policy = policy(
        "  fs__a: { purpose: p, actions: [write], irreversible: true, secrets: [] }
  fs__b: { purpose: p, actions: [read], secrets: [] }",
    );
    let schema =
        json!({ "type": "object", "properties": { "action": { "enum": ["create", "delete"] } } });
    let schema = Schema::compile(&schema).unwrap();
    let told = |name: &str| {
        let rules = policy.allowlist.contract_of(&ToolName::new(name)).unwrap();
        let told = crate::policy::contract_lint::problems(name, rules, &schema).into_iter();
        told.map(|problem| problem.message).collect::<Vec<_>>()
    };
    insta::assert_snapshot!("several_uses", told("fs__a").join("\n"));
    assert_eq!(told("fs__b"), [""; 0], "what only reads is one use");
}

/// 002-05, 002-11, 001-27: a step for an argument that the tool calls otherwise would change
/// nothing, so the tool is withheld.
#[test]
fn steps_are_compared_with_the_schema_of_their_tool() {
    let schema = json!({ "type": "object", "properties": {
        "limit": { "type": "integer" }, "page": { "type": "object", "properties": { "size": {} } },
        "lines": { "type": "array", "items": { "type": "object", "properties": { "price": {} } } }, "any": {} } });
    let schema = Schema::compile(&schema).unwrap();
    for (step, lacking) in [
        ("clamp: { /limit: { max: 100 } }", None),
        (
            "clamp: { /Limit: { max: 100 } }",
            Some("rewrite/0/clamp//Limit"),
        ),
        (
            "clamp: { /page/siz: { max: 100 } }",
            Some("rewrite/0/clamp//page/siz"),
        ),
        (
            "set: { /page/size: 1, /any/thing: 1, /lines/0/price: 1 }",
            None,
        ),
        (
            "set: { /lines/0/prize: 1 }",
            Some("rewrite/0/set//lines/0/prize"),
        ),
        ("remove: [/limit, /limits]", Some("rewrite/0/remove/1")),
        (
            "default: { /dryRun: true }",
            Some("rewrite/0/default//dryRun"),
        ),
        (
            "compute: { /total: arguments.limit * 2 }",
            Some("rewrite/0/compute//total"),
        ),
    ] {
        let contract = format!(
            "  fs__a: {{ purpose: p, actions: [read], secrets: [], rewrite: [ {{ name: s, {step} }} ] }}"
        );
        let policy = policy(&contract);
        let rules = policy
            .allowlist
            .contract_of(&ToolName::new("fs__a"))
            .unwrap();
        let found = crate::policy::contract_lint::problems("fs__a", rules, &schema);
        let places: Vec<String> = found
            .iter()
            .map(|problem| problem.path[2..].join("/"))
            .collect();
        assert_eq!(
            places,
            lacking.into_iter().collect::<Vec<_>>(),
            "{step}: {found:?}"
        );
        assert_eq!(rules.lacks(&schema).is_some(), lacking.is_some(), "{step}");
        assert_eq!(
            rules.lacks(&Schema::compile(&json!({ "type": "object" })).unwrap()),
            None,
            "it can have any"
        );
    }
}
