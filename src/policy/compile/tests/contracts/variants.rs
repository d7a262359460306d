//! Variants: which one a call gets, what it is judged by, and what does not load.

use super::*;
use crate::guards::ToolRules;
use crate::guards::output::{Meaning, UpstreamError};
use crate::guards::rollback::Undo;
use crate::schema::DeclaredArguments;
use crate::schema::Schema;
use serde_json::json;
use std::sync::Arc;

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
  fs__restore: { purpose: Restores a file., actions: [write], permission: anyone, irreversible: true, secrets: [] }"#;

/// What the arguments of a call choose.
struct Chosen {
    rules: Arc<ToolRules>,
    /// The tool that its calls are counted as, and how many there may be.
    counted: String,
    most: Option<u64>,
}

impl Chosen {
    fn by(arguments: &Value) -> Self {
        let (policy, tool) = (policy(VARIANTS_CONTRACT), ToolName::new("fs__file"));
        let admitted = policy.allowlist.admit(&bot(), &tool).unwrap().on(arguments);
        let rules = admitted.rules();
        let asked = rules
            .budget
            .ask(&policy.tasks, &bot(), &tool, rules.side_effect);
        Self {
            rules: rules.clone(),
            counted: asked.price.tool.to_string(),
            most: asked.limits.calls_per_tool,
        }
    }

    fn variant(&self) -> Option<&str> {
        self.rules.variant.as_deref()
    }

    /// What an error of the tool server that says `busy` means.
    fn meaning_of_busy(&self) -> Option<&'static str> {
        let busy = UpstreamError {
            text: Some("busy"),
            ..Default::default()
        };
        self.rules.output.judge(busy).map(Meaning::word)
    }
}

#[test]
fn a_contract_with_variants_loads() {
    assert_eq!(said(VARIANTS_CONTRACT), "");
}

/// 002-32: a case is chosen by its argument, or by there being none; what only reads takes nothing
/// of the contract's effect.
#[test]
fn a_variant_that_only_reads_has_no_effect() {
    let show = Chosen::by(&json!({ "path": "/support-bot/a" }));
    assert_eq!(
        (
            show.variant(),
            show.rules.side_effect,
            show.counted.as_str(),
            show.most
        ),
        (Some("show"), false, "fs__file#show", Some(3))
    );
    assert!(
        show.rules.writes.is_none() && show.rules.undo == Undo::Unsaid,
        "what only reads takes nothing from the contract's effect"
    );
    assert!(
        show.rules.idempotency.is_some(),
        "the contract asks for keys, of all its calls"
    );
}

/// 002-32: a case narrows what the contract says, and replaces what cannot be both.
#[test]
fn a_variant_narrows_its_contract() {
    let write = Chosen::by(&json!({ "action": "write" }));
    assert_eq!(
        (write.variant(), write.counted.as_str(), write.most),
        (Some("write"), "fs__file", Some(9))
    );
    let rollback = write.rules.undo.call();
    assert_eq!(
        (
            write.rules.writes.as_deref(),
            rollback.map(|rollback| rollback.tool.as_str())
        ),
        (Some("files"), Some("fs__restore"))
    );
    let keys = write.rules.idempotency.as_ref().unwrap();
    assert_eq!(
        keys.reads(),
        [["path"], ["action"]],
        "a write and another action on one path are two calls"
    );
    let delete = Chosen::by(&json!({ "action": "delete" }));
    assert!(
        delete.rules.writes.is_none() && delete.rules.undo.is_irreversible(),
        "the case says itself that it is irreversible"
    );
    assert_eq!(delete.meaning_of_busy(), Some("unknown"));
    assert_eq!(write.meaning_of_busy(), Some("retryable"));
}

/// 002-32: a step or hook that changes the arguments chooses again; what names no case has none.
#[test]
fn the_last_arguments_choose_the_variant() {
    let (one, other) = (json!({ "action": "show" }), json!({ "action": "delete" }));
    let policy = policy(VARIANTS_CONTRACT);
    let admitted = policy
        .allowlist
        .admit(&bot(), &ToolName::new("fs__file"))
        .unwrap()
        .on(&one)
        .on(&other);
    assert_eq!(admitted.rules().variant.as_deref(), Some("delete"));
    let none = Chosen::by(&json!({ "action": "Delete" }));
    assert_eq!(
        (
            none.variant(),
            none.rules.side_effect,
            none.counted.as_str()
        ),
        (None, true, "fs__file")
    );
}

/// What a caller with these roles is answered, or `allow`.
fn judged(roles: &[&str], arguments: &Value) -> String {
    let policy = policy(VARIANTS_CONTRACT);
    let schema = Schema::compile(&json!({ "type": "object", "properties": {
        "action": { "type": "string" }, "path": { "type": "string" }, "text": { "type": "string" },
        "reason": { "type": "string" } }, "required": ["path"] }))
    .unwrap();
    let caller = Caller {
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..bot()
    };
    let admitted = policy
        .allowlist
        .admit(&caller, &ToolName::new("fs__file"))
        .unwrap()
        .on(arguments);
    let chosen = admitted.rules();
    let judge = || {
        let checked = chosen.arguments.check(&schema, arguments)?;
        let permit = chosen.permission.allow(&caller, arguments, &checked)?;
        chosen
            .rules
            .apply(&caller, arguments, &DeclaredArguments::default(), &permit)
            .map(drop)
    };
    judge().map_or_else(|refusal| refusal.code().to_owned(), |()| "allow".to_owned())
}

fn on(action: &str) -> Value {
    json!({ "action": action, "path": "/support-bot/a" })
}

/// 002-32, 003-22, 003-100: `action=delete` needs another role than `action=list`, and what the
/// contract says of its paths holds for all.
#[test]
fn each_variant_is_judged_by_its_own_conditions() {
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
    ] {
        assert_eq!(judged(roles, &arguments), verdict, "{roles:?} {arguments}");
    }
}

/// 002-32, 002-33: an unknown action is refused by the pointer, whichever caller asks; the halves
/// of an overloaded tool cannot be mixed.
#[test]
fn what_is_no_variant_is_refused_to_all() {
    for arguments in [
        on("DELETE"),
        on("rename"),
        json!({ "action": 1, "path": "/support-bot/a" }),
        json!({ "Action": "delete", "path": "/support-bot/a" }),
    ] {
        assert_eq!(
            judged(&["writer", "janitor"], &arguments),
            "schema_invalid",
            "{arguments}"
        );
    }
}

fn with_cases(cases: &str) -> String {
    format!(
        "  fs__a: {{ purpose: p, actions: [read, write], permission: anyone, secrets: [], variants: {{ by: /do, {cases} }} }}"
    )
}

/// 002-32: cases that cannot be kept do not load; the place is the case's.
#[test]
fn a_variant_that_cannot_be_kept_does_not_load() {
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
            "missing one of `side_effect.rollback`, `additive` and `irreversible`",
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
        let shown = said(&with_cases(&cases));
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
        said(&with_cases(&format!(
            "cases: {{ {read}, put: {{ actions: [write], irreversible: true }} }}"
        ))),
        ""
    );
}
