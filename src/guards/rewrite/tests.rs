//! What steps make of arguments, what hooks may add to that, and what is refused when a policy is
//! loaded.

use super::*;
use crate::guards::Mode;
use crate::model::ids::TenantId;
use serde_json::json;

fn caller() -> Caller {
    Caller {
        tenant: Some(TenantId::new("t_001")),
        roles: vec!["teller".to_owned()],
        ..Caller::named("bot")
    }
}

fn compile(written: &Value, schema: &Value) -> (Rule, Vec<String>) {
    let mut problems = Problems::default();
    let rule = serde_json::from_value::<Settings>(written.clone())
        .unwrap()
        .compile(&mut problems);
    rule.judge_by(schema, &["request"], &mut problems);
    let words = |problem: crate::model::diagnostic::Problem| {
        format!("{}: {}", problem.path.join("."), problem.message)
    };
    (rule, problems.into_found().into_iter().map(words).collect())
}

fn proof() -> Ruled {
    Ruled::observed(Mode::Observe).unwrap()
}

/// What the steps make of the arguments, and which of them did.
fn chain(steps: &Value, arguments: &Value) -> Result<(Value, Vec<String>), Refusal> {
    let (rule, problems) = compile(steps, &json!({}));
    assert_eq!(problems, [""; 0], "{steps}");
    let mut draft = RewriteDraft::of(arguments, proof());
    draft.take(rule.steps(&caller(), arguments)?);
    Ok(match draft.finish()? {
        RewriteOutcome::Same(_) => (arguments.clone(), Vec::new()),
        RewriteOutcome::Changed(ChangedArguments { arguments, by }) => (arguments, by),
    })
}

/// 001-27, 001-31: each kind of step, at the top and below it, and what is already as wanted.
#[test]
fn steps_change_what_they_name() {
    let before = json!({ "limit": 500, "note": "x", "who": { "id": "c_1", "name": "Ann" }, "lines": [{ "n": 1 }, { "n": 9 }] });
    let with = |change: &dyn Fn(&mut Value)| {
        let mut after = before.clone();
        change(&mut after);
        after
    };
    for (step, after) in [
        (
            json!({ "set": { "/note": "y" } }),
            with(&|after| after["note"] = json!("y")),
        ),
        (
            json!({ "set": { "/new": { "a": 1 } } }),
            with(&|after| after["new"] = json!({ "a": 1 })),
        ),
        (
            json!({ "set": { "/who/id": "c_2" } }),
            with(&|after| after["who"]["id"] = json!("c_2")),
        ),
        (
            json!({ "set": { "/deep/down": true } }),
            with(&|after| after["deep"] = json!({ "down": true })),
        ),
        (
            json!({ "set": { "/lines/1/n": 2 } }),
            with(&|after| after["lines"][1]["n"] = json!(2)),
        ),
        (
            json!({ "set": { "/a~1b~0c": 1 } }),
            with(&|after| after["a/b~c"] = json!(1)),
        ),
        (
            json!({ "default": { "/note": "z", "/page": 1 } }),
            with(&|after| after["page"] = json!(1)),
        ),
        (
            json!({ "remove": ["/note", "/none"] }),
            with(&|after| drop(after.as_object_mut().unwrap().remove("note"))),
        ),
        (
            json!({ "remove": ["/who/name"] }),
            with(&|after| drop(after["who"].as_object_mut().unwrap().remove("name"))),
        ),
        (
            json!({ "clamp": { "/limit": { "max": 100 } } }),
            with(&|after| after["limit"] = json!(100)),
        ),
        (
            json!({ "clamp": { "/limit": { "min": 1000.5 } } }),
            with(&|after| after["limit"] = json!(1000.5)),
        ),
        (
            json!({ "clamp": { "/lines/1/n": { "min": 0, "max": 3 } } }),
            with(&|after| after["lines"][1]["n"] = json!(3)),
        ),
        (
            json!({ "compute": { "/limit": "arguments.limit * 2" } }),
            with(&|after| after["limit"] = json!(1000)),
        ),
        (
            json!({ "compute": { "/note": "arguments.who.name + ' of ' + caller.tenant" } }),
            with(&|after| after["note"] = json!("Ann of t_001")),
        ),
        (
            json!({ "compute": { "/ns": "arguments.lines.map(l, l.n)" } }),
            with(&|after| after["ns"] = json!([1, 9])),
        ),
        (
            json!({ "compute": { "/by": "{'agent': caller.agent}" } }),
            with(&|after| after["by"] = json!({ "agent": "bot" })),
        ),
    ] {
        let mut step = step;
        step["name"] = json!("it");
        assert_eq!(
            chain(&json!([step]), &before),
            Ok((after, vec!["it".to_owned()])),
            "{step}"
        );
    }
    for step in [
        json!({ "set": { "/note": "x" } }),
        json!({ "default": { "/limit": 1, "/who/id": "" } }),
        json!({ "remove": ["/none", "/none/below"] }),
        json!({ "clamp": { "/limit": { "min": 1, "max": 500 }, "/none": { "max": 1 } } }),
        json!({ "compute": { "/note": "arguments.note" } }),
    ] {
        let mut step = step;
        step["name"] = json!("it");
        assert_eq!(
            chain(&json!([step]), &before),
            Ok((before.clone(), vec![])),
            "{step}"
        );
    }
}

/// 001-31, policy §1 decision 9: a step sees what the one before has left; within one step all see
/// the same.
#[test]
fn a_step_sees_its_predecessor() {
    let steps = json!([
        { "name": "usual", "default": { "/count": 3 } },
        { "name": "total", "compute": { "/total": "arguments.price * arguments.count" } },
        { "name": "cap", "clamp": { "/total": { "max": 20 } } },
        { "name": "idle", "remove": ["/nothing"] },
        { "name": "swap", "compute": { "/price": "arguments.count", "/count": "arguments.price" } },
    ]);
    let by = ["usual", "total", "cap", "swap"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(
        chain(&steps, &json!({ "price": 9 })),
        Ok((json!({ "price": 3, "count": 9, "total": 20 }), by))
    );
    // What is as it was in the end was not rewritten.
    let there_and_back =
        json!([{ "name": "a", "set": { "/n": 2 } }, { "name": "b", "set": { "/n": 1 } }]);
    assert_eq!(
        chain(&there_and_back, &json!({ "n": 1 })),
        Ok((json!({ "n": 1 }), vec![]))
    );
}

/// policy §1 decision 10: a step that cannot be taken blocks, and so does what nobody could have
/// sent.
#[test]
fn a_step_that_cannot_be_taken_blocks() {
    let long = "x".repeat(33 << 10);
    for (step, arguments) in [
        (
            json!({ "set": { "/text/below": 1 } }),
            json!({ "text": "x" }),
        ),
        (json!({ "set": { "/list/7": 1 } }), json!({ "list": [] })),
        (json!({ "remove": ["/list/0"] }), json!({ "list": [1] })),
        (
            json!({ "clamp": { "/n": { "max": 1 } } }),
            json!({ "n": "2" }),
        ),
        (
            json!({ "compute": { "/n": "arguments.missing + 1" } }),
            json!({}),
        ),
        (json!({ "compute": { "/n": "1.0 / 0.0" } }), json!({})),
        (
            json!({ "compute": { "/n": "arguments.text + arguments.text" } }),
            json!({ "text": long }),
        ),
        (
            json!({ "compute": { "/n": "size(arguments.text)" } }),
            json!({ "text": format!("{long}{long}") }),
        ),
        (
            json!({ "compute": { "/n": "arguments.n * 1000" } }),
            json!({ "n": 9_007_199_254_740_991_i64 }),
        ),
        (
            json!({ "set": { "/Path": "/etc" } }),
            json!({ "path": "/tmp" }),
        ),
    ] {
        let mut step = step;
        step["name"] = json!("it");
        let refusal = chain(&json!([step]), &arguments).unwrap_err();
        assert!(
            matches!(&refusal, Refusal::HookBroken { by, .. } if by == "it"),
            "{step}: {refusal:?}"
        );
        assert_eq!(refusal.code(), "hook_blocked");
    }
}

fn answered(members: &Value) -> Map<String, Value> {
    members.as_object().unwrap().clone()
}

/// 001-31, 001-32: hooks on different keys both survive, the last one wins on the same; only the
/// top level is merged.
#[test]
fn hooks_are_merged_at_the_top() {
    let before = json!({ "a": 1, "b": 1, "who": { "id": 1, "name": "Ann" } });
    let mut draft = RewriteDraft::of(&before, proof());
    assert!(draft.merge("first", answered(&json!({ "a": 2, "c": 2 }))));
    assert!(!draft.merge("idle", answered(&json!({ "a": 2 }))));
    assert_eq!(draft.arguments()["c"], 2, "the next one sees it");
    assert!(draft.merge(
        "second",
        answered(&json!({ "b": 3, "c": 3, "who": { "id": 3 } }))
    ));
    let Ok(RewriteOutcome::Changed(changed)) = draft.finish() else {
        panic!("it has changed")
    };
    assert_eq!(
        changed.arguments,
        json!({ "a": 2, "b": 3, "c": 3, "who": { "id": 3 } })
    );
    assert_eq!(changed.by, ["first", "second"]);
    assert_eq!(changed.describe(&before)[..2], ["/a: 1 → 2", "/b: 1 → 3"]);
    let none = RewriteDraft::of(&before, proof());
    assert!(matches!(none.finish(), Ok(RewriteOutcome::Same(_))));
}

/// 001-24, 001-31: a block sticks whatever hooks after it say, and the last reason is read.
#[test]
fn a_block_sticks() {
    let before = json!({ "a": 1 });
    for (reasons, read) in [
        (vec![], ""),
        (vec!["first"], "first"),
        (vec!["first", "la\u{202e}st\n"], "last"),
    ] {
        let mut draft = RewriteDraft::of(&before, proof());
        draft.block("gate keeper");
        for reason in &reasons {
            draft.reason(reason);
            draft.merge("later", answered(&json!({ "a": 2 })));
        }
        let refusal = draft.finish().unwrap_err();
        let expected = Refusal::HookBlocked {
            by: "gate keeper".to_owned(),
            reason: read.to_owned(),
        };
        assert_eq!(refusal, expected, "{reasons:?}");
        assert!(
            refusal.words().contains("The tool did not run."),
            "{}",
            refusal.words()
        );
    }
}

/// What cannot be meant is an error when the policy is loaded, with its place.
#[test]
fn what_cannot_be_meant_is_an_error() {
    let schema = json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "limit": { "type": "integer", "minimum": 1, "maximum": 100 },
            "who": { "type": "object", "properties": { "id": { "type": "string" } } },
        },
    });
    let step = |change: Value| {
        let mut step = change;
        step["name"] = json!("it");
        json!([step])
    };
    let fine = json!({ "name": "it", "set": { "/limit": 1 } });
    for (steps, expected) in [
        (step(json!({})), "0: a step does one thing"),
        (
            step(json!({ "set": { "/limit": 1 }, "remove": ["/limit"] })),
            "0: a step does one thing",
        ),
        (step(json!({ "set": {} })), "0: changes no argument"),
        (
            step(json!({ "set": { "limit": 1 } })),
            "0.set.limit: not a JSON pointer to an argument",
        ),
        (
            step(json!({ "set": { "/~2": 1 } })),
            "0.set./~2: not a JSON pointer to an argument",
        ),
        (
            step(json!({ "remove": [""] })),
            "0.remove.0: not a JSON pointer to an argument",
        ),
        (
            step(json!({ "clamp": { "/limit": {} } })),
            "0.clamp./limit: bounds nothing",
        ),
        (
            step(json!({ "clamp": { "/limit": { "min": 2, "max": 1 } } })),
            "0.clamp./limit: `min` is more than `max`",
        ),
        (
            step(json!({ "compute": { "/limit": "argument.n" } })),
            "0.compute./limit: column 1: unknown name `argument`",
        ),
        (json!([fine, fine]), "1.name: `it` is the name of two steps"),
        (
            json!([{ "name": " ", "remove": ["/limit"] }]),
            "0.name: is no name for a step",
        ),
        (
            step(json!({ "set": { "/limit": 0 } })),
            "0.set./limit: the contract's own schema refuses this value",
        ),
        (
            step(json!({ "default": { "/who/id": 7 } })),
            "0.default./who/id: the contract's own schema refuses this value",
        ),
        (
            step(json!({ "clamp": { "/limit": { "max": 500 } } })),
            "0.clamp./limit: the contract's own schema refuses this value",
        ),
        (
            step(json!({ "set": { "/limits": 1 } })),
            "0.set./limits: the contract allows no argument `limits`",
        ),
        (
            step(json!({ "remove": ["/none"] })),
            "0.remove.0: the contract allows no argument `none`",
        ),
        (
            step(json!({ "default": { "/request": "r-1" } })),
            "0.default./request: this argument holds the call's idempotency key, which only its agent gives",
        ),
        (step(json!({ "set": { "/who/other": 1 } })), ""),
    ] {
        let (_, problems) = compile(&steps, &schema);
        let found = problems.iter().any(|problem| problem == expected);
        assert!(
            found || (expected.is_empty() && problems.is_empty()),
            "{steps}: {expected:?} is not in {problems:?}"
        );
    }
    let many: Vec<Value> = (0..33)
        .map(|n| json!({ "name": n.to_string(), "remove": ["/limit"] }))
        .collect();
    assert_eq!(
        compile(&json!(many), &json!({})).1,
        [": more than 32 steps"]
    );
}

/// What a chain may bring in counts as named where a contract closes its arguments, and what it
/// computes from as judged.
#[test]
fn a_chain_says_what_it_reads_and_brings() {
    let (rule, _) = compile(
        &json!([{ "name": "a", "set": { "/source": 1 } }, { "name": "b", "compute": { "/n": "arguments.who.id" } }]),
        &json!({}),
    );
    assert_eq!(rule.brings(), ["source", "n"]);
    assert_eq!(rule.reads(), [["who", "id"]]);
    assert_eq!(rule.names().collect::<Vec<_>>(), ["a", "b"]);
}
