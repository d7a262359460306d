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

fn before() -> Value {
    json!({ "limit": 500, "note": "x", "who": { "id": "c_1", "name": "Ann" }, "lines": [{ "n": 1 }, { "n": 9 }] })
}

/// `step` makes of the arguments what `change` does.
fn assert_changes(mut step: Value, change: impl FnOnce(&mut Value)) {
    let mut after = before();
    change(&mut after);
    step["name"] = json!("it");
    assert_eq!(
        chain(&json!([step]), &before()),
        Ok((after, vec!["it".to_owned()])),
        "{step}"
    );
}

/// 001-27, 001-31: steps that say what an argument is, or that there is none, at the top and below
/// it.
#[test]
fn steps_change_what_they_name() {
    assert_changes(json!({ "set": { "/note": "y" } }), |after| {
        after["note"] = json!("y");
    });
    assert_changes(json!({ "set": { "/new": { "a": 1 } } }), |after| {
        after["new"] = json!({ "a": 1 });
    });
    assert_changes(json!({ "set": { "/who/id": "c_2" } }), |after| {
        after["who"]["id"] = json!("c_2");
    });
    assert_changes(json!({ "set": { "/deep/down": true } }), |after| {
        after["deep"] = json!({ "down": true });
    });
    assert_changes(json!({ "set": { "/lines/1/n": 2 } }), |after| {
        after["lines"][1]["n"] = json!(2);
    });
    assert_changes(json!({ "set": { "/a~1b~0c": 1 } }), |after| {
        after["a/b~c"] = json!(1);
    });
    assert_changes(
        json!({ "default": { "/note": "z", "/page": 1 } }),
        |after| after["page"] = json!(1),
    );
    assert_changes(json!({ "remove": ["/note", "/none"] }), |after| {
        drop(after.as_object_mut().unwrap().remove("note"));
    });
    assert_changes(json!({ "remove": ["/who/name"] }), |after| {
        drop(after["who"].as_object_mut().unwrap().remove("name"));
    });
}

/// 001-27, 001-31: steps that make a value of others.
#[test]
fn steps_bound_and_compute() {
    assert_changes(json!({ "clamp": { "/limit": { "max": 100 } } }), |after| {
        after["limit"] = json!(100);
    });
    assert_changes(
        json!({ "clamp": { "/limit": { "min": 1000.5 } } }),
        |after| after["limit"] = json!(1000.5),
    );
    assert_changes(
        json!({ "clamp": { "/lines/1/n": { "min": 0, "max": 3 } } }),
        |after| after["lines"][1]["n"] = json!(3),
    );
    assert_changes(
        json!({ "compute": { "/limit": "arguments.limit * 2" } }),
        |after| after["limit"] = json!(1000),
    );
    assert_changes(
        json!({ "compute": { "/note": "arguments.who.name + ' of ' + caller.tenant" } }),
        |after| after["note"] = json!("Ann of t_001"),
    );
    assert_changes(
        json!({ "compute": { "/ns": "arguments.lines.map(l, l.n)" } }),
        |after| after["ns"] = json!([1, 9]),
    );
    assert_changes(
        json!({ "compute": { "/by": "{'agent': caller.agent}" } }),
        |after| after["by"] = json!({ "agent": "bot" }),
    );
}

#[test]
fn what_is_as_wanted_already_stays() {
    for mut step in [
        json!({ "set": { "/note": "x" } }),
        json!({ "default": { "/limit": 1, "/who/id": "" } }),
        json!({ "remove": ["/none", "/none/below"] }),
        json!({ "clamp": { "/limit": { "min": 1, "max": 500 }, "/none": { "max": 1 } } }),
        json!({ "compute": { "/note": "arguments.note" } }),
    ] {
        step["name"] = json!("it");
        assert_eq!(
            chain(&json!([step]), &before()),
            Ok((before(), vec![])),
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
            json!({ "compute": { "/n": "double(arguments.n) * 1000.0" } }),
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

/// A contract's own schema.
fn contract() -> Value {
    json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "limit": { "type": "integer", "minimum": 1, "maximum": 100 },
            "who": { "type": "object", "properties": { "id": { "type": "string" } } },
        },
    })
}

fn one_step(mut step: Value) -> Value {
    step["name"] = json!("it");
    json!([step])
}

fn assert_error(steps: &Value, expected: &str) {
    let (_, problems) = compile(steps, &contract());
    assert!(
        problems.iter().any(|problem| problem == expected),
        "{steps}: {expected:?} is not in {problems:?}"
    );
}

/// What cannot be meant is an error when the policy is loaded, with its place.
#[test]
fn what_cannot_be_meant_is_an_error() {
    for (step, expected) in [
        (json!({}), "0: a step does one thing"),
        (
            json!({ "set": { "/limit": 1 }, "remove": ["/limit"] }),
            "0: a step does one thing",
        ),
        (json!({ "set": {} }), "0: changes no argument"),
        (
            json!({ "set": { "limit": 1 } }),
            "0.set.limit: not a JSON pointer to an argument",
        ),
        (
            json!({ "set": { "/~2": 1 } }),
            "0.set./~2: not a JSON pointer to an argument",
        ),
        (
            json!({ "remove": [""] }),
            "0.remove.0: not a JSON pointer to an argument",
        ),
        (
            json!({ "clamp": { "/limit": {} } }),
            "0.clamp./limit: bounds nothing",
        ),
        (
            json!({ "clamp": { "/limit": { "min": 2, "max": 1 } } }),
            "0.clamp./limit: `min` is more than `max`",
        ),
        (
            json!({ "compute": { "/limit": "argument.n" } }),
            "0.compute./limit: unknown name `argument`",
        ),
    ] {
        assert_error(&one_step(step), expected);
    }
    let fine = json!({ "name": "it", "set": { "/limit": 1 } });
    assert_error(
        &json!([fine, fine]),
        "1.name: `it` is the name of two steps",
    );
    assert_error(
        &json!([{ "name": " ", "remove": ["/limit"] }]),
        "0.name: is no name for a step",
    );
    let many: Vec<Value> = (0..33)
        .map(|n| json!({ "name": n.to_string(), "remove": ["/limit"] }))
        .collect();
    assert_eq!(
        compile(&json!(many), &json!({})).1,
        [": more than 32 steps"]
    );
}

/// The same of what the contract's own schema, or its key, does not allow.
#[test]
fn what_the_contract_does_not_allow_is_an_error() {
    for (step, expected) in [
        (
            json!({ "set": { "/limit": 0 } }),
            "0.set./limit: the contract's own schema refuses this value",
        ),
        (
            json!({ "default": { "/who/id": 7 } }),
            "0.default./who/id: the contract's own schema refuses this value",
        ),
        (
            json!({ "clamp": { "/limit": { "max": 500 } } }),
            "0.clamp./limit: the contract's own schema refuses this value",
        ),
        (
            json!({ "set": { "/limits": 1 } }),
            "0.set./limits: the contract allows no argument `limits`",
        ),
        (
            json!({ "remove": ["/none"] }),
            "0.remove.0: the contract allows no argument `none`",
        ),
        (
            json!({ "default": { "/request": "r-1" } }),
            "0.default./request: this argument holds the call's idempotency key, which only its agent gives",
        ),
    ] {
        assert_error(&one_step(step), expected);
    }
    let open = one_step(json!({ "set": { "/who/other": 1 } }));
    assert_eq!(compile(&open, &contract()).1, [""; 0]);
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
