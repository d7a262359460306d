//! Which hooks hear of which calls, and what is refused when the configuration is loaded.

use super::*;
use serde_json::{Value, json};

const HOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn hook(change: &Value) -> HookSettings {
    let mut written = json!({
        "name": "it", "url": "https://hooks.example/x", "secret": HOOK_SECRET, "on": "before", "tools": ["shop__pay"],
    });
    written
        .as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    serde_json::from_value(written).unwrap()
}

fn compile(all: Vec<HookSettings>) -> (Rule, Vec<String>) {
    let mut problems = Problems::default();
    let rule = Settings(all).compile_for(&[ServerName::new("shop")], &mut problems);
    let words = |problem: crate::model::diagnostic::Problem| {
        format!("{}: {}", problem.path.join("."), problem.message)
    };
    (rule, problems.into_found().into_iter().map(words).collect())
}

/// 001-31: in the order of the file, each on its side, by whole names or their beginnings.
#[test]
fn hooks_hear_of_the_calls_they_name() {
    let (rule, problems) = compile(vec![
        hook(&json!({ "name": "one", "tools": ["shop__pay", "shop__refund"] })),
        hook(&json!({ "name": "all", "tools": ["*"], "on": "after" })),
        hook(&json!({ "name": "shop", "tools": ["shop__*"] })),
        hook(
            &json!({ "name": "near", "tools": ["shop__pa*"], "url": "http://127.0.0.1:1/x", "timeout": "30s" }),
        ),
    ]);
    assert_eq!(problems, [""; 0]);
    for (on, tool, expected) in [
        (HookPhase::Before, "shop__pay", vec!["one", "shop", "near"]),
        (HookPhase::Before, "shop__refund", vec!["one", "shop"]),
        (HookPhase::Before, "shop__pay2", vec!["shop", "near"]),
        (HookPhase::Before, "bank__pay", vec![]),
        (HookPhase::After, "bank__pay", vec!["all"]),
    ] {
        let heard: Vec<&str> = rule
            .of(on, &ToolName::new(tool))
            .map(|hook| hook.name.as_str())
            .collect();
        assert_eq!(heard, expected, "{on:?} {tool}");
    }
}

#[test]
fn what_cannot_be_meant_is_an_error() {
    for (change, expected) in [
        (json!({ "name": "a b" }), "0.name: is no name for a hook"),
        (
            json!({ "url": "ftp://x/" }),
            "0.url: is no address that can be reached",
        ),
        (
            json!({ "url": "https://me:word@x/" }),
            "0.url: holds a password",
        ),
        (
            json!({ "url": "http://10.0.0.7/x" }),
            "0.url: arguments would leave this machine unencrypted",
        ),
        (
            json!({ "url": "http://10.0.0.7/x", "unencrypted": true }),
            "",
        ),
        (json!({ "url": "http://localhost/x" }), ""),
        (json!({ "url": "http://[::1]:8080/x" }), ""),
        (json!({ "secret": "a word" }), "0.secret: is no key"),
        (json!({ "secret": "whsec_c2hvcnQ=" }), "0.secret: is no key"),
        (json!({ "timeout": "31s" }), "0.timeout: is out of bounds"),
        (
            json!({ "tools": ["shop__*_draft"] }),
            "0.tools.0: `shop__*_draft` has a `*` that is not at its end",
        ),
        (
            json!({ "tools": ["shop__pay", "bank__pay"] }),
            "0.tools.1: `bank__pay` is no tool of a declared server",
        ),
        (
            json!({ "tools": ["shop__"] }),
            "0.tools.0: `shop__` is no tool of a declared server",
        ),
        (
            json!({ "tools": ["ba*"] }),
            "0.tools.0: `ba*` is no tool of a declared server",
        ),
    ] {
        let problems = compile(vec![hook(&change)]).1;
        let found = problems.iter().any(|problem| problem == expected);
        assert!(
            found || (expected.is_empty() && problems.is_empty()),
            "{change}: {expected:?} is not in {problems:?}"
        );
    }
    let twice = compile(vec![hook(&json!({})), hook(&json!({}))]).1;
    assert_eq!(twice, ["1.name: `it` is the name of two hooks"]);
    let many = (0..17)
        .map(|n| hook(&json!({ "name": n.to_string() })))
        .collect();
    assert_eq!(compile(many).1, [": more than 16 hooks"]);
}
