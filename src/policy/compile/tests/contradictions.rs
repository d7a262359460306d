//! Sections that contradict each other, or name what is not there: where, and what to do.

use super::*;

/// One contract of `fs__a` with `section`, and `rest` beside the contracts.
fn problems_of(section: &str, rest: &str) -> String {
    let text = format!(
        "contracts: {{ fs__a: {{ purpose: p, actions: [write], permission: anyone, {UNDONE_EFFECT}, secrets: [], {section} }}, {UNDO_CONTRACTS} }}\n{rest}\n"
    );
    compile_files(&[("a.yaml", &text)], Mode::Enforce).1
}

/// One problem with these words and this hint; none, where there are no words.
fn assert_problem(section: &str, rest: &str, message: &str, hint: &str) {
    let shown = problems_of(section, rest);
    let said = shown
        .lines()
        .filter(|line| line.starts_with("a.yaml:"))
        .count();
    assert_eq!(
        said,
        usize::from(!message.is_empty()),
        "{section} {rest}: {shown}"
    );
    assert!(
        shown.contains(message) && shown.contains(hint),
        "{section} {rest}: {shown}"
    );
}

/// 004-29, 004-55, design §2: keys that contradict other sections, or name what is not there, say
/// where and what to do.
#[test]
fn keys_that_contradict_other_sections_do_not_load() {
    for (section, message, hint) in [
        (
            "idempotency: { require: true, derive: arguments }",
            "every call has a key",
            "take `derive` away",
        ),
        (
            "idempotency: { ttl: 2m }, budget: { timeout_ms: 60000 }",
            "",
            "",
        ),
        (
            "idempotency: { ttl: soon }",
            "is no length of time",
            "write 60s",
        ),
        (
            "idempotency: { derive: [/naem] }, arguments: { additionalProperties: false, properties: { name: {} } }",
            "the contract allows no argument `naem`",
            "did you mean `name`?",
        ),
        (
            "idempotency: { derive: { a: b } }",
            "expected text or a list",
            "",
        ),
        (
            "idempotency: { windows: 1h }",
            "unknown key `windows`",
            "did you mean `window`?",
        ),
        (
            "idempotency: { probe: { tool: fs__b, found: /id } }",
            "`fs__b` has no contract",
            "actions: [read]",
        ),
        (
            "idempotency: { attempts: 11 }",
            "is out of bounds",
            "between 1 and 10",
        ),
    ] {
        assert_problem(section, "", message, hint);
    }
}

/// design §2: the same of a tool's budget.
#[test]
fn budgets_that_contradict_the_server_do_not_load() {
    for (section, message, hint) in [
        (
            "budget: { max_call_per_task: 1 }",
            "unknown key `max_call_per_task`",
            "did you mean `max_calls_per_task`?",
        ),
        (
            "budget: { timeout_ms: 61000 }",
            "warning: is longer than the server's `timeout` (60000 ms)",
            "raise",
        ),
        (
            "budget: { rate: { calls: 1 } }",
            "missing `per`",
            "add `per`",
        ),
    ] {
        assert_problem(section, "", message, hint);
    }
}

/// design §2: the same of what stands beside the contracts.
#[test]
fn sections_beside_contracts_that_name_what_is_not_there_do_not_load() {
    for (rest, message, hint) in [
        (
            "budgets: { agent: { suport-bot: { max_steps: 1 } } }",
            "no caller is the agent `suport-bot`",
            "support-bot",
        ),
        (
            "budgets: { group: { support: { max_steps: 1 } } }",
            "no caller has the group `support`",
            "",
        ),
        (
            "budgets: { global: { max_steps: 1, on_limit: { steps: pause } } }",
            "expected one of",
            "",
        ),
        (
            "repetition: { except: [sf__a] }",
            "`sf__a` is no tool of a declared server",
            "server__tool",
        ),
        (
            "repetition: { stop: 99 }",
            "is out of bounds",
            "between 2 and 32",
        ),
    ] {
        assert_problem("", rest, message, hint);
    }
    let twice = [
        ("a.yaml", "repetition: {}\n"),
        ("b.yaml", "repetition: {}\n"),
    ];
    assert!(
        compile_files(&twice, Mode::Enforce)
            .1
            .contains("b.yaml:1:1: error: is in two policy files")
    );
}

/// 004-55: the server's own time counts where the contract has none.
#[test]
fn a_key_outlives_the_attempts_of_its_call() {
    let [one, other] = ["a", "b"].map(|other| {
        format!("side_effect: {{ writes: w, rollback: {{ tool: billing__{other} }} }}")
    });
    let text = format!(
        "contracts:\n  billing__a: {{ purpose: p, actions: [write], permission: anyone, {other}, secrets: [], idempotency: {{ ttl: 5m }} }}\n  \
         billing__b: {{ purpose: p, actions: [write], permission: anyone, {one}, secrets: [], budget: {{ timeout_ms: 3000 }} }}\n"
    );
    let shown = compile_files(&[("a.yaml", &text)], Mode::Enforce).1;
    assert!(
        shown.contains("error: is shorter than what a call can take: 1 times 600 s"),
        "{shown}"
    );
    let shorter = text.replace("ttl: 5m }", "ttl: 5m }, budget: { timeout_ms: 3000 }");
    assert_eq!(compile_files(&[("a.yaml", &shorter)], Mode::Enforce).1, "");
}
