//! Prices, limits in layers, and what is said when they are reached.

use super::*;
use crate::model::refusal::Retry;
use crate::store::state::budget::{Dimension, TaskUsage};
use serde_json::json;

fn compile<S: Section + serde::de::DeserializeOwned>(written: Value) -> (S::Rule, Vec<String>) {
    let mut problems = Problems::default();
    let rule = serde_json::from_value::<S>(written)
        .unwrap()
        .compile(&mut problems);
    let shown = problems
        .into_found()
        .into_iter()
        .map(|found| format!("{}: {}", found.path.join("."), found.message));
    (rule, shown.collect())
}

fn rule(written: Value) -> Rule {
    compile::<Settings>(written).0
}

fn tasks(written: Value) -> TaskLimits {
    compile::<TaskSettings>(written).0
}

fn bot() -> Caller {
    let group = Some("support".to_owned());
    Caller {
        group,
        ..Caller::named("bot")
    }
}

fn tool() -> ToolName {
    ToolName::new("billing__create_invoice")
}

/// 003-33, 003-61: one call of one; the code is the documents', final, and says what to do.
#[test]
fn the_second_call_of_one_is_refused() {
    let rule = rule(json!({ "max_calls_per_task": 1, "timeout_ms": 3000, "cost": 1 }));
    assert_eq!(rule.timeout(), Some(Duration::from_secs(3)));
    let asked = rule.ask(&TaskLimits::default(), &bot(), &tool(), true);
    assert_eq!(asked.price.cost, 1_000_000);
    let mut task = TaskUsage::new(0);
    assert!(asked.limits.admit(Some(&task), &asked.price, 0).is_ok());
    task.tools.entry(tool()).or_default().calls = 1;
    let refusal = asked.refuse(
        &asked
            .limits
            .admit(Some(&task), &asked.price, 0)
            .unwrap_err(),
    );
    assert_eq!(
        (refusal.code(), refusal.dimension()),
        ("budget_calls_exceeded", Some("calls_per_task"))
    );
    assert_eq!(refusal.retry(), Retry::Never);
    assert!(
        refusal.words().contains("Go on without it"),
        "{}",
        refusal.words()
    );
}

/// 003-86, 003-87, 003-92: all layers hold; the smallest number decides, whichever layer says it.
#[test]
fn the_tightest_layer_wins() {
    let mut tasks = tasks(json!({
        "global": { "max_steps": 50, "max_tool_calls": 30, "max_cost": 2.5, "max_duration": "15m", "max_failures": 5 },
        "group": { "support": { "max_steps": 20 }, "sales": { "max_steps": 1 } },
        "agent": { "bot": { "max_tool_calls": 40 }, "other": { "max_cost": 0.1 } },
    }));
    tasks.extend(self::tasks(json!({ "global": { "max_failures": 3 } })));
    let limits = tasks.limits(&bot(), |_| true);
    assert_eq!(
        (limits.steps, limits.tool_calls, limits.failures),
        (Some(20), Some(30), Some(3))
    );
    assert_eq!(
        (limits.cost, limits.duration),
        (Some(2_500_000), Some(900_000))
    );
    let explained = tasks.explain(&bot());
    assert!(
        explained.contains(&"group support: max_steps 20".to_owned()),
        "{explained:?}"
    );
    assert!(
        !explained.iter().any(|line| line.contains("sales")),
        "{explained:?}"
    );
}

/// Beyond a limit that degrades, what changes nothing may still be called, up to a limit
/// that stops; a looser layer that stops is not lost behind a tighter one that degrades.
#[test]
fn degrading_leaves_reads() {
    let tasks = tasks(json!({
        "global": { "max_cost": 20 },
        "agent": { "bot": { "max_cost": 10, "on_limit": { "cost": "degrade" } } },
    }));
    let rule = rule(json!({ "cost": 1 }));
    let (writes, reads) = (
        rule.ask(&tasks, &bot(), &tool(), true),
        rule.ask(&tasks, &bot(), &tool(), false),
    );
    assert_eq!(
        (writes.limits.cost, reads.limits.cost),
        (Some(10_000_000), Some(20_000_000))
    );
    let mut task = TaskUsage::new(0);
    task.cost = 9_500_000;
    let exceeded = writes
        .limits
        .admit(Some(&task), &writes.price, 0)
        .unwrap_err();
    let words = writes.refuse(&exceeded).words();
    assert!(words.contains("Only tools that change nothing"), "{words}");
    assert!(reads.limits.admit(Some(&task), &reads.price, 0).is_ok());
    task.cost = 20_000_000;
    let words = reads
        .refuse(
            &reads
                .limits
                .admit(Some(&task), &reads.price, 0)
                .unwrap_err(),
        )
        .words();
    assert!(words.contains("Stop, and report"), "{words}");
}

/// 003-40, 003-88: which dimension, what is left of the others, that it is final, and the next
/// step.
#[test]
fn a_used_up_task_is_told_what_is_left() {
    let tasks =
        tasks(json!({ "global": { "max_steps": 3, "max_cost": 1.5, "max_duration": "10s" } }));
    let asked = Rule::default().ask(&tasks, &bot(), &tool(), true);
    let mut task = TaskUsage::new(1000);
    (task.steps, task.cost) = (3, 250_000);
    let exceeded = asked
        .limits
        .admit(Some(&task), &asked.price, 5000)
        .unwrap_err();
    assert_eq!(exceeded.dimension, Dimension::Steps);
    let refusal = asked.refuse(&exceeded);
    assert_eq!(
        (refusal.code(), refusal.dimension(), refusal.retry()),
        ("budget_exceeded", Some("steps"), Retry::Never)
    );
    assert_eq!(
        refusal.words(),
        "budget_exceeded: the task has reached its limit of steps; left: 1.25 cost, 6 s. The tool did not run. Stop, and \
         report what was done and what is missing."
    );
    assert_eq!(
        shown(&exceeded.remaining),
        json!({ "steps": 0, "cost": 1.25, "duration_ms": 6000 })
    );
}

/// A rate gives way with time, and says when.
#[test]
fn a_rate_says_when_to_come_back() {
    let asked = rule(json!({ "rate": { "calls": 1, "per": "1m" } })).ask(
        &TaskLimits::default(),
        &bot(),
        &tool(),
        true,
    );
    let mut task = TaskUsage::new(0);
    task.tools.entry(tool()).or_default().due = 60_000;
    let refusal = asked.refuse(
        &asked
            .limits
            .admit(Some(&task), &asked.price, 1000)
            .unwrap_err(),
    );
    assert_eq!(
        (refusal.code(), refusal.dimension()),
        ("budget_exceeded", Some("rate"))
    );
    assert_eq!(refusal.retry(), Retry::AfterMs(59_000));
}

/// 003-93: the result can say what a call has cost; what is no cost says nothing.
#[test]
fn the_result_can_tell_the_cost() {
    let rule = rule(json!({ "cost": 2, "cost_from": "/usage/cost" }));
    let spent = |cost: Value| rule.spent(&json!({ "usage": { "cost": cost } }));
    assert_eq!(
        (spent(json!(0.25)), spent(json!(0.1)), spent(json!(3))),
        (Some(250_000), Some(100_000), Some(3_000_000))
    );
    // The dearest call is not the one that costs what was reserved.
    assert_eq!(spent(json!(1e300)), spent(json!(1e12)));
    for none in [json!(-1), json!("1"), json!(null)] {
        assert_eq!(spent(none.clone()), None, "{none}");
    }
    assert_eq!(
        self::rule(json!({ "cost": 2 })).spent(&json!({ "usage": { "cost": 1 } })),
        None
    );
}

#[test]
fn contradictions_of_a_contract_are_named() {
    let cases = [
        (
            json!({ "max_calls_per_task": 0 }),
            "max_calls_per_task: no call would ever pass",
        ),
        (json!({ "timeout_ms": 0 }), "timeout_ms: is out of bounds"),
        (
            json!({ "timeout_ms": 600_001 }),
            "timeout_ms: is out of bounds",
        ),
        (json!({ "cost": -1 }), "cost: is no cost"),
        (
            json!({ "cost": 1, "cost_from": "usage" }),
            "cost_from: not a JSON pointer into the result",
        ),
        (
            json!({ "cost_from": "/usage" }),
            "cost_from: nothing would be reserved while the call runs",
        ),
        (
            json!({ "rate": { "calls": 0, "per": "1s" } }),
            "rate.calls: no call would ever pass",
        ),
        (
            json!({ "rate": { "calls": 1, "per": "1ms" } }),
            "rate.per: is out of bounds",
        ),
    ];
    for (written, expected) in cases {
        assert_eq!(
            compile::<Settings>(written.clone()).1,
            [expected],
            "{written}"
        );
    }
}

#[test]
fn contradictions_of_tasks_are_named() {
    let cases = [
        (json!({ "global": {} }), "global: limits nothing"),
        (
            json!({ "agent": { "bot": { "max_steps": 0 } } }),
            "agent.bot.max_steps: no call would ever pass",
        ),
        (json!({ "idle": "0s" }), "idle: is out of bounds"),
        (
            json!({ "global": { "max_steps": 1, "on_limit": { "cost": "degrade" } } }),
            "global.on_limit.cost: there is no `max_cost`",
        ),
        (
            json!({ "global": { "max_duration": "0s" } }),
            "global.max_duration: is out of bounds",
        ),
    ];
    for (written, expected) in cases {
        let problems = compile::<TaskSettings>(written.clone()).1;
        assert_eq!(
            problems.first().map(String::as_str),
            Some(expected),
            "{written}: {problems:?}"
        );
    }
}

/// 003-90: what degrades leaves reads alone, and what asks asks about writes alone that it degrades: of
/// one limit that does either, no person is asked where nothing holds.
#[test]
fn what_degrades_asks_nobody_about_reads() {
    let tasks = tasks(json!({
        "global": { "max_steps": 3, "max_cost": 2, "on_limit": { "steps": "degrade", "cost": "ask" } },
    }));
    let rule = rule(json!({ "cost": 1 }));
    let limits = |changes| {
        let asked = rule.ask(&tasks, &bot(), &tool(), changes);
        let of = |limits: &BudgetLimits| (limits.steps, limits.cost);
        (of(&asked.limits), of(&asked.firm))
    };
    assert_eq!(limits(true), ((Some(3), Some(2_000_000)), (Some(3), None)));
    assert_eq!(limits(false), ((None, Some(2_000_000)), (None, None)));
}

/// 003-87: a layer may count all calls of a user together; what a task may use, and the usual steps of
/// one about which nothing is written, stay beside it.
#[test]
fn a_layer_limits_a_user() {
    let tasks = tasks(json!({
        "global": { "max_tool_calls": 5 },
        "agent": { "bot": { "per": "user", "max_cost": 2, "max_steps": 9, "on_limit": { "cost": "ask" } } },
    }))
    .or_usual();
    let asked = rule(json!({ "cost": 2 })).ask(&tasks, &bot(), &tool(), true);
    assert_eq!(asked.limits.tool_calls, Some(5));
    assert_eq!(asked.limits.steps, Some(1000), "the usual ones");
    let account = asked.account.as_ref().unwrap();
    assert_eq!(
        (account.limits.cost, account.limits.span),
        (Some(2_000_000), Some(86_400_000))
    );
    assert_eq!((account.limits.tool_calls, account.firm.cost), (None, None));
    let other = Caller::named("other");
    assert_eq!(
        Rule::default().ask(&tasks, &other, &tool(), true).account,
        None
    );
    assert!(asked.has_written_limits(true) && asked.is_limited());
    assert!(
        tasks
            .explain(&bot())
            .contains(&"agent bot: max_steps 9 per user within 86400s".to_owned()),
        "{:?}",
        tasks.explain(&bot())
    );

    // The user's part is asked after the task's, and what is left is the lower of both.
    let admits = |of_user: &TaskUsage, is_firm: bool| {
        let used = UsedBudget {
            task: None,
            account: Some(of_user),
        };
        if is_firm {
            return asked.admit_firmly(used, 60_000);
        }
        asked.admit(used, 60_000)
    };
    let of_user = |steps, cost| TaskUsage {
        steps,
        cost,
        ..TaskUsage::new(0)
    };
    let exceeded = admits(&of_user(9, 0), false).unwrap_err();
    let refusal = asked.refuse(&exceeded);
    assert_eq!(refusal.retry(), Retry::AfterMs(86_340_000));
    assert!(
        refusal.words().contains("for this user"),
        "{}",
        refusal.words()
    );
    let left = admits(&of_user(4, 0), false).unwrap();
    assert_eq!((left.steps, left.tool_calls), (Some(5), Some(5)));
    assert!(admits(&of_user(4, 1), false).is_err());
    assert!(admits(&of_user(4, 1), true).is_ok());
}

/// 003-40, 003-87: whichever of a task and its user has no more, the agent reads what is left of both;
/// also where a person could let it go over the limit of the other.
#[test]
fn a_refusal_tells_what_is_left_of_both() {
    let tasks = tasks(json!({
        "global": { "max_tool_calls": 5, "max_steps": 9, "on_limit": { "tool_calls": "ask" } },
        "agent": { "bot": { "per": "user", "max_cost": 2, "max_failures": 3 } },
    }));
    let asked = rule(json!({ "cost": 1 })).ask(&tasks, &bot(), &tool(), true);
    let of = |calls, cost| TaskUsage {
        calls,
        cost,
        ..TaskUsage::new(0)
    };
    for (task, account, is_firm, words) in [
        (
            of(5, 0),
            of(0, 1_000_000),
            false,
            "the task has reached its limit of tool_calls; left: 9 steps, 1 cost, 3 failures",
        ),
        (
            of(4, 0),
            of(0, 2_000_000),
            false,
            "all that is done for this user has reached its limit of cost; left: 9 steps, 1 tool_calls, 3 failures",
        ),
        (
            of(5, 0),
            of(0, 2_000_000),
            true,
            "all that is done for this user has reached its limit of cost; left: 9 steps, 0 tool_calls, 3 failures",
        ),
    ] {
        let used = UsedBudget {
            task: Some(&task),
            account: Some(&account),
        };
        let judged = if is_firm {
            asked.admit_firmly(used, 1000)
        } else {
            asked.admit(used, 1000)
        };
        let exceeded = judged.unwrap_err();
        let told = asked.refuse(&exceeded).words();
        assert!(told.contains(words), "{told}");
        let left = shown(&exceeded.remaining);
        assert_eq!(left["cost"], units(2_000_000 - account.cost), "{left}");
        assert_eq!(left["tool_calls"], 5 - task.calls, "{left}");
    }
}

/// 003-87: a user's calls count together for as long as is written, and for the longest of what is.
#[test]
fn a_span_is_as_it_is_written() {
    let span = |written: Value| {
        let limits = tasks(written).user_limits(&bot(), |_| true);
        limits.unwrap().span
    };
    let layer = |within: &str| json!({ "per": "user", "max_steps": 9, "within": within });
    assert_eq!(span(json!({ "global": layer("1h") })), Some(3_600_000));
    for (global, agent) in [("1h", "2h"), ("2h", "1h")] {
        let both = json!({ "global": layer(global), "agent": { "bot": layer(agent) } });
        assert_eq!(span(both), Some(7_200_000), "{global} {agent}");
    }
}

/// What only one of the two can have is an error in the other.
#[test]
fn a_span_is_of_users_and_a_duration_of_tasks() {
    let problems = |written: Value| compile::<TaskSettings>(json!({ "global": written })).1;
    assert_eq!(
        problems(json!({ "per": "user", "max_steps": 5, "max_duration": "1h" })),
        ["global.max_duration: a user's calls have no duration"]
    );
    assert_eq!(
        problems(json!({ "max_steps": 5, "within": "1h" })),
        ["global.within: only the calls of a user count for a span of time"]
    );
    assert_eq!(
        problems(json!({ "per": "user", "max_steps": 5, "within": "1h" })),
        [""; 0]
    );
}
