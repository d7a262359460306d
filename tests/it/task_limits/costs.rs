//! What calls have cost, as their answers say.

use super::*;

/// 003-93, guarantees §4: an answer that comes after the call was given up says what it cost, too, of a
/// read as of a write, enforced or only observed. Until then the most that it can cost is charged.
#[tokio::test]
async fn a_late_answer_says_what_its_call_cost() {
    let budget = "budget: { cost: 8, cost_from: /cost, timeout_ms: 300 }";
    let contracts = CONTRACTS.replace("secrets: []", &format!("secrets: [], {budget}"));
    // Observe mode counts where something is limited.
    let (limited, unlimited) = ("budgets: { global: { max_cost: 10 } }\n", "");
    for (tool, read, mode, limits) in [
        ("bank__note", "outcome_unknown", "enforce", limited),
        ("bank__note", "outcome_unknown", "enforce", unlimited),
        ("bank__look", "upstream_failed", "enforce", limited),
        ("bank__look", "upstream_failed", "enforce", unlimited),
        ("bank__note", "outcome_unknown", "observe", limited),
        ("bank__look", "upstream_failed", "observe", limited),
    ] {
        let bank = Bank::in_mode(mode, &contracts, limits).await;
        let (answers, answer) = tokio::sync::oneshot::channel();
        let answer = std::sync::Mutex::new(Some(answer));
        bank.server.answers(move |seen| match seen.method() {
            "tools/call" => Reply::Later(answer.lock().unwrap().take().unwrap()),
            _ => Reply::Result(json!({})),
        });
        let given_up = bank.agent().call(tool, json!({ "n": 1 })).await;
        assert_eq!(code(&given_up).as_deref(), Some(read), "{given_up}");
        // What is only observed is counted a moment after its answer.
        until("the call is counted", || async {
            let (_, listed) = bank.says(&["tasks", "list", "--json"]).await;
            (listed.lines().count() == 1).then_some(())
        })
        .await;
        let task = bank.task().await;
        assert_eq!(task["cost"], 8.0, "{mode}: nobody knows yet: {task}");
        let result = json!({ "content": [], "structuredContent": { "cost": 1 } });
        answers.send(Reply::Result(result)).ok().unwrap();
        until("the late answer counts", || async {
            (bank.task().await["cost"] == 1.0).then_some(())
        })
        .await;
        let task = bank.task().await;
        assert_eq!(
            (&task["failures"], &task["tool_calls"]),
            (&json!(1), &json!(1)),
            "{mode}: {task}"
        );
    }
}

/// guarantees §4: a write that is only observed goes on after its deadline also where nothing counts it:
/// its server is not told to stop.
#[tokio::test]
async fn an_observed_write_goes_on_after_its_deadline() {
    let budget = "permission: anyone, budget: { timeout_ms: 300 },";
    let contracts = CONTRACTS.replace("permission: anyone,", budget);
    let bank = Bank::in_mode("observe", &contracts, "").await;
    let (answers, answer) = tokio::sync::oneshot::channel();
    let answer = std::sync::Mutex::new(Some(answer));
    bank.server.answers(move |seen| match seen.method() {
        "tools/call" => match answer.lock().unwrap().take() {
            Some(later) => Reply::Later(later),
            None => Reply::Result(json!({ "content": [] })),
        },
        _ => Reply::Result(json!({})),
    });
    let given_up = bank.agent().call("bank__note", json!({ "n": 1 })).await;
    assert_eq!(
        code(&given_up).as_deref(),
        Some("outcome_unknown"),
        "{given_up}"
    );
    // By then the server would have heard that nobody waits for its answer.
    for n in 0..5 {
        let look = anew(&bank.agent(), "bank__look", json!({ "n": n })).await;
        assert_eq!(code(&look), None, "{look}");
    }
    assert!(!answers.is_closed());
}

/// 003-93: reads that nobody answers are listened for to a bound; what is beyond it is charged as it was
/// reserved, and the others make room when they are answered.
#[tokio::test]
async fn late_answers_are_listened_for_to_a_bound() {
    const LISTENED_FOR: usize = 64;
    let budget = "budget: { cost: 8, cost_from: /cost, timeout_ms: 300 }";
    let contracts = CONTRACTS.replace("secrets: []", &format!("secrets: [], {budget}"));
    let bank = Bank::of(&contracts, "budgets: { global: { max_cost: 1000 } }\n").await;
    let waiting = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let asked = waiting.clone();
    bank.server.answers(move |seen| match seen.method() {
        "tools/call" => {
            let (answers, answer) = tokio::sync::oneshot::channel();
            asked.lock().unwrap().push(answers);
            Reply::Later(answer)
        }
        _ => Reply::Result(json!({})),
    });
    let agent = bank.agent();
    let mut spent = 0.0;
    for (calls, listened_for) in [(LISTENED_FOR + 6, LISTENED_FOR), (1, 1)] {
        let looks = (0..calls).map(|n| agent.call("bank__look", json!({ "n": n, "of": calls })));
        for given_up in futures_util::future::join_all(looks).await {
            assert_eq!(code(&given_up).as_deref(), Some("upstream_failed"));
        }
        for answers in waiting.lock().unwrap().drain(..) {
            let result = json!({ "content": [], "structuredContent": { "cost": 1 } });
            answers.send(Reply::Result(result)).ok();
        }
        let reserved = 8 * (calls - listened_for) + listened_for;
        spent += f64::from(u32::try_from(reserved).unwrap());
        until("the late answers count", || async {
            (bank.task().await["cost"] == spent).then_some(())
        })
        .await;
    }
}

/// 003-87, 003-93: what a call has cost beyond what was reserved for it counts in full, and stops the
/// next, also one that costs nothing; whether it changes something or not.
#[tokio::test]
async fn what_costs_more_than_was_reserved_stops_the_next() {
    let budget = "secrets: [], budget: { cost: 1, cost_from: /cost }";
    for tool in ["bank__note", "bank__look"] {
        let of_tool = format!("  {tool}: ");
        let contracts = CONTRACTS.lines().map(|line| {
            if line.starts_with(&of_tool) {
                line.replace("secrets: []", budget) + "\n"
            } else {
                line.to_owned() + "\n"
            }
        });
        let contracts: String = contracts.collect();
        let bank = Bank::of(&contracts, "budgets: { global: { max_cost: 3 } }\n").await;
        bank.server.answers(|_| {
            let spent = json!({ "content": [], "structuredContent": { "cost": 2.5 } });
            Reply::Result(spent)
        });
        let agent = bank.agent();
        let first = codes(&agent, tool, 3, |n| json!({ "n": n })).await;
        // What is left after the first is less than the next can cost.
        assert_eq!(first, ["", "budget_exceeded", "budget_exceeded"], "{tool}");
        let free = agent.call("bank__poll", json!({})).await;
        assert_eq!(code(&free), None, "what costs nothing fits: {free}");
        bank.says(&["tasks", "reset", &bank.id().await, "--why", "it goes on"])
            .await;
        bank.server.answers(|_| {
            let spent = json!({ "content": [], "structuredContent": { "cost": 7 } });
            Reply::Result(spent)
        });
        let again = codes(&agent, tool, 2, |n| json!({ "again": n })).await;
        assert_eq!(again, ["", "budget_exceeded"], "{tool}");
        assert_eq!(bank.task().await["cost"], 7.0, "{tool}: in full");
        let free = agent.call("bank__poll", json!({ "again": true })).await;
        assert_eq!(code(&free).as_deref(), Some("budget_exceeded"), "{free}");
    }
}
