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
            times: 1,
        }
    };
    text.chars().map(seen).collect()
}

fn watch(rule: &Rule, text: &str, next: char) -> &'static str {
    let last = Final::mint(crate::guards::evidence::Ruled::observed(Mode::Observe).unwrap());
    watched(rule, &history(text), (next, true), &last)
}

/// A call whose tool changes something or not, after `history`.
fn watched(
    rule: &Rule,
    history: &[SeenCall],
    (next, changes): (char, bool),
    last: &Final,
) -> &'static str {
    let attempt = WatchedAttempt {
        row: 0,
        caller_row: 0,
        tool: &ToolName::new("a__b"),
        changes,
        call: u64::from(next),
    };
    match rule.watch(history, attempt, last) {
        Ok(Allowed { warning: None, .. }) => "fine",
        Ok(Allowed {
            warning: Some(_), ..
        }) => "warned",
        Err(Refusal::LoopDetected {
            pattern: SAME_CALL_MESSAGE,
            ..
        }) => "same",
        Err(Refusal::LoopDetected {
            pattern: PING_PONG_MESSAGE,
            ..
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
        // The one that was not refused does not begin it anew.
        ("ababab", 'b', "in turn"),
        ("ababab", 'c', "fine"),
        ("abababc", 'a', "warned"),
        ("bababa", 'b', "in turn"),
        ("xbabab", 'a', "warned"),
        ("abAbab", 'a', "fine"),
        ("abcabc", 'a', "warned"),
    ];
    for (before, next, expected) in cases {
        assert_eq!(watch(&rule, before, next), expected, "{before} {next}");
    }
}

/// 003-115: a refused call is said not to have run again where it has: in its task, or in another of its
/// caller's.
#[test]
fn a_call_that_never_ran_is_not_said_to_have_run() {
    let (rule, _) = rule(json!({ "warn": 2, "stop": 4 }));
    let last = Final::mint(crate::guards::evidence::Ruled::observed(Mode::Observe).unwrap());
    let has_run = |history: &[SeenCall], caller_row| {
        let attempt = WatchedAttempt {
            row: 0,
            caller_row,
            tool: &ToolName::new("a__b"),
            changes: true,
            call: u64::from('a'),
        };
        match rule.watch(history, attempt, &last) {
            Err(Refusal::LoopDetected { has_run, .. }) => has_run,
            other => panic!("{other:?}"),
        }
    };
    let refused: Vec<SeenCall> = history("aaaa")
        .into_iter()
        .map(|seen| SeenCall {
            refused: true,
            ..seen
        })
        .collect();
    assert!(!has_run(&refused, 0));
    assert!(has_run(&refused, 1), "elsewhere");
    assert!(has_run(&history("aaaa"), 0), "here");
    assert!(has_run(&[], USUAL_ROW), "only elsewhere");
    let others: Vec<SeenCall> = history("b").into_iter().chain(refused).collect();
    assert!(!has_run(&others, 0), "another call");
}

/// 003-107: one refusal too many in a row; where nothing is watched, or the tool is left out, none
/// is.
#[test]
fn refusals_in_a_row_come_to_an_end() {
    let at = |written: Value, refused| {
        rule(written)
            .0
            .after(refused, &ToolName::new("a__b"))
            .is_some()
    };
    assert!(!at(json!({ "refusals": 5 }), 4) && at(json!({ "refusals": 5 }), 5));
    assert!(!at(json!({}), 15) && at(json!({}), 16));
    assert!(!at(json!({ "except": ["a__b"] }), 99));
    assert!(Rule::default().after(99, &ToolName::new("a__b")).is_none());
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

/// 003-115, 003-119: where nothing is written, a loop of equal calls comes to an end; polling goes on
/// for long, and two tools may be polled in turn.
#[test]
fn the_usual_thresholds_end_a_loop() {
    let usual = Rule::usual();
    let last = Final::mint(crate::guards::evidence::Ruled::observed(Mode::Observe).unwrap());
    let after = |times| {
        vec![SeenCall {
            times,
            ..history("a").remove(0)
        }]
    };
    for (times, changes, expected) in [
        (49, true, "fine"),
        (99, true, "warned"),
        (100, true, "same"),
        (49, false, "fine"),
        (99, false, "warned"),
        (100, false, "same"),
    ] {
        let found = watched(&usual, &after(times), ('a', changes), &last);
        assert_eq!(found, expected, "{times} {changes}");
    }
    let in_turn = history(&"ab".repeat(16));
    for call in ['a', 'b'] {
        assert_eq!(watched(&usual, &in_turn, (call, true), &last), "in turn");
    }
    // As often as other calls stand between, it is no loop.
    let among_others = history(&"abc".repeat(10));
    assert_eq!(watched(&usual, &among_others, ('a', true), &last), "fine");
    assert_eq!(watched(&usual, &in_turn, ('a', false), &last), "fine");
    assert_eq!(
        watched(&usual, &history("abababababab"), ('a', true), &last),
        "fine"
    );
    let unanswered = [SeenCall {
        refused: true,
        ..after(200)[0]
    }];
    assert_eq!(watched(&usual, &unanswered, ('a', true), &last), "fine");
    // Whatever came of them, equal calls in a row come to an end.
    let row = |row| {
        let tool = ToolName::new("s__t");
        let attempt = WatchedAttempt {
            tool: &tool,
            changes: true,
            call: history("a")[0].call,
            row,
            caller_row: 0,
        };
        usual.watch(&after(1), attempt, &last).is_err()
    };
    assert!(!row(USUAL_ROW - 1) && row(USUAL_ROW));
    let (unwatched, problems) = rule(json!({ "unwatched": true }));
    assert_eq!((unwatched, problems), (Rule::default(), 0));
}
