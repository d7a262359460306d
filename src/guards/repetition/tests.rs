//! Circles, and what only looks like one.

use super::*;
use crate::guards::Mode;
use serde_json::{Value, json};

fn rule(written: Value) -> (Rule, usize) {
    let mut problems = Problems::default();
    let rule = serde_json::from_value::<Settings>(written)
        .unwrap()
        .compile(&mut problems);
    (rule, problems.into_found().len())
}

/// Each letter a call, its case its outcome.
fn history(text: &str) -> Vec<SeenCall> {
    let seen = |letter: char| {
        let call = u64::from(letter.to_ascii_lowercase());
        SeenCall {
            call,
            outcome: u64::from(letter),
            refused: false,
        }
    };
    text.chars().map(seen).collect()
}

fn watch(rule: &Rule, text: &str, next: char) -> &'static str {
    let last = Final::mint(crate::guards::evidence::Ruled::observed(Mode::Observe).unwrap());
    match rule.watch(
        &history(text),
        &ToolName::new("a__b"),
        u64::from(next),
        &last,
    ) {
        Ok(Allowed { warning: None, .. }) => "fine",
        Ok(Allowed {
            warning: Some(_), ..
        }) => "warned",
        Err(Refusal::LoopDetected {
            pattern: SAME_CALL_MESSAGE,
        }) => "same",
        Err(Refusal::LoopDetected {
            pattern: PING_PONG_MESSAGE,
        }) => "in turn",
        Err(other) => panic!("{other:?}"),
    }
}

/// guarantees §6: the same call with the same result, two calls in turn; progress ends each.
#[test]
fn circles_are_found() {
    let (rule, _) = rule(json!({ "warn": 2, "stop": 4, "ping_pong": 6, "refusals": 5 }));
    let cases = [
        ("", 'a', "fine"),
        ("a", 'a', "fine"),
        ("aa", 'a', "warned"),
        ("aaa", 'a', "warned"),
        ("aaaa", 'a', "same"),
        // Another call may still be made, and does not break the circle.
        ("aaaa", 'b', "fine"),
        ("aaaabcd", 'a', "same"),
        // Another outcome is progress.
        ("aaaA", 'a', "fine"),
        ("AAaa", 'a', "warned"),
        ("ababab", 'a', "in turn"),
        ("ababab", 'b', "warned"),
        ("bababa", 'b', "in turn"),
        ("xbabab", 'a', "warned"),
        ("abAbab", 'a', "fine"),
        ("abcabc", 'a', "warned"),
    ];
    for (before, next, expected) in cases {
        assert_eq!(watch(&rule, before, next), expected, "{before} {next}");
    }
}

/// 003-107: one refusal too many in a row; where nothing is watched, or the tool is left out, none
/// is.
#[test]
fn refusals_in_a_row_come_to_an_end() {
    let at = |written: Value, refused| {
        rule(written)
            .0
            .after(refused, &ToolName::new("a__b"))
            .is_err()
    };
    assert!(!at(json!({ "refusals": 5 }), 4) && at(json!({ "refusals": 5 }), 5));
    assert!(!at(json!({}), 15) && at(json!({}), 16));
    assert!(!at(json!({ "except": ["a__b"] }), 99));
    assert!(Rule::default().after(99, &ToolName::new("a__b")).is_ok());
}

#[test]
fn nothing_is_watched_unless_a_file_says_so() {
    assert_eq!(watch(&Rule::default(), &"a".repeat(32), 'a'), "fine");
    assert_eq!(watch(&rule(json!({})).0, &"a".repeat(9), 'a'), "warned");
    assert_eq!(watch(&rule(json!({})).0, &"a".repeat(10), 'a'), "same");
    assert_eq!(
        watch(&rule(json!({ "except": ["a__b"] })).0, &"a".repeat(32), 'a'),
        "fine"
    );
}

#[test]
fn thresholds_fit_what_is_remembered() {
    for (written, problems) in [
        (json!({}), 0),
        (json!({ "stop": 3 }), 0),
        (json!({ "stop": 2 }), 0),
        (json!({ "stop": 33 }), 1),
        (json!({ "stop": 1 }), 2),
        (json!({ "warn": 10 }), 1),
        (json!({ "warn": 0 }), 1),
        (json!({ "ping_pong": 3 }), 1),
        (json!({ "refusals": 33 }), 1),
    ] {
        assert_eq!(rule(written.clone()).1, problems, "{written}");
    }
}
