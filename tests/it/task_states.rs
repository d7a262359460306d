//! Where a task is: as its agent says, or as its calls tell (003-04, 003-08, 003-10, 003-73 …
//! 003-85).

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, runs};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Settings;
use crate::harness::table::rows;
use crate::harness::until;
use serde_json::{Value, json};

const POLICY: &str = r#"
contracts:
  bank__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  bank__pay:
    purpose: test
    actions: [write]
    permission: anyone
    side_effect: { writes: test, rollback: { tool: bank__undo } }
    rules: [ { code: too_much, when: "arguments.amount > 100" } ]
    idempotency: { require: true }
    budget: { max_calls_per_task: 2 }
    secrets: []
  bank__look: { purpose: test, actions: [read], secrets: [] }
"#;

async fn stage(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(["pay", "look", "drop"].map(tool).to_vec()).await;
    let servers = vec![("bank", scripted.url())];
    let settings = Settings {
        servers,
        callers: "",
        more: "",
        policy: POLICY.to_owned(),
        observe,
    };
    (scripted, Gate::start(settings).await)
}

/// A call of `task`; `state`: what its agent reports, if anything.
async fn call(agent: &Agent, (task, state): (&str, Value), name: &str, arguments: Value) -> Value {
    let mut meta = json!({ "dev.toolgate/task": task });
    meta["dev.toolgate/idempotencyKey"] = json!(format!("{task}-{arguments}"));
    if !state.is_null() {
        meta["dev.toolgate/state"] = state;
    }
    let params = json!({ "name": format!("bank__{name}"), "arguments": arguments, "_meta": meta });
    agent.ask("tools/call", params).await
}

fn amount(amount: u32) -> Value {
    json!({ "amount": amount })
}

/// Reported state, tool, arguments, the code that is read (none: the tool answered), and the
/// entry's state, event, code and the state before.
type Step = (
    Value,
    &'static str,
    Value,
    Option<&'static str>,
    [Option<&'static str>; 4],
);

/// The state that is reported, the tool, the amount; the code that is answered; the state, the event
/// and the state before in the ledger. A step that would be refused ends the plan, whatever it is
/// refused for; in doubt a task goes back to asking, and for what is left with what is left of the
/// budget.
const LIFE: &str = "
execute   | pay  | 1   | state_out_of_order    | execute   | fail | -
summarize | look | -   | state_out_of_order    | summarize | fail | -
collect   | look | -   | -                     | collect   | exit | -
-         | look | -   | -                     | collect   | exit | -
plan      | pay  | 1   | planned               | plan      | exit | collect
plan      | drop | -   | tool_not_allowlisted  | plan      | fail | -
execute   | pay  | 1   | state_out_of_order    | execute   | fail | collect
plan      | pay  | 1   | planned               | plan      | exit | collect
plan      | pay  | 101 | too_much              | plan      | fail | -
plan      | pay  | 1   | planned               | plan      | exit | collect
plan      | look | -   | planned               | plan      | exit | plan
plan      | pay  | 2   | planned               | plan      | exit | plan
plan      | pay  | 3   | planned               | plan      | exit | plan
execute   | pay  | 1   | -                     | execute   | exit | plan
execute   | look | -   | -                     | execute   | exit | execute
-         | pay  | 9   | not_planned           | execute   | fail | -
execute   | pay  | 9   | not_planned           | execute   | fail | -
-         | pay  | 2   | -                     | execute   | exit | -
execute   | pay  | 3   | budget_calls_exceeded | execute   | fail | execute
summarize | look | -   | -                     | summarize | exit | execute
summarize | pay  | 4   | schema_invalid        | execute   | fail | -
thinking  | look | -   | schema_invalid        | collect   | fail | -
collect   | look | -   | -                     | collect   | exit | summarize
plan      | pay  | 3   | budget_calls_exceeded | plan      | fail | collect
";

/// The life of one task, call by call.
fn life() -> Vec<Step> {
    let some = |cell: &'static str| Some(cell).filter(|cell| *cell != "-");
    let step = |[reports, tool, amounts, code, state, event, before]: [&'static str; 7]| {
        let state_reported = some(reports).map_or(Value::Null, |state| json!(state));
        let arguments = some(amounts).map_or(json!({}), |text| amount(text.parse().unwrap()));
        let reason = some(code).filter(|code| *code != "planned");
        let recorded = [Some(state), Some(event), reason, some(before)];
        (state_reported, tool, arguments, some(code), recorded)
    };
    rows(LIFE).into_iter().map(step).collect()
}

/// 003-04, 003-10, 003-73 … 003-79, 003-81 … 003-85, 003-P3b: every state with its ways in and out,
/// also those that fail, on both wires.
#[tokio::test]
async fn a_task_is_held_to_what_its_agent_reports() {
    let (scripted, gate) = stage(false).await;
    let mut count = 0;
    for (wire, agent) in [
        ("modern", gate.agent()),
        ("legacy", gate.agent().initialized().await),
    ] {
        scripted.forget();
        let mut paid = Vec::new();
        for (number, (state, name, arguments, expected, recorded)) in life().into_iter().enumerate()
        {
            let what = format!("{wire}, step {number}: {state} {name} {arguments}");
            let before = scripted.executions();
            let answer = call(&agent, (wire, state.clone()), name, arguments).await;
            assert_eq!(code(&answer).as_deref(), expected, "{what}: {answer}");
            assert_eq!(
                scripted.executions() - before,
                usize::from(expected.is_none()),
                "{what}"
            );
            count += 1;
            let entry = gate.entries(count).await.pop().unwrap();
            let found = ["state", "event", "aborted_reason", "state_before"]
                .map(|field| entry[field].as_str());
            assert_eq!(found, recorded, "{what}: {entry}");
            judge_entry(&entry, wire, expected.is_none());
            let is_of_state = ["state_out_of_order", "not_planned", "schema_invalid"];
            if expected.is_some_and(|code| is_of_state.contains(&code)) {
                assert_eq!(entry["stage"], "repetition", "{what}: {entry}");
            }
            if recorded[0] == Some("execute") && name == "pay" && expected.is_none() {
                paid.push(entry["action_id"].clone());
                assert!(
                    entry["budget_remaining"]["calls_per_task"].is_u64(),
                    "003-85: {entry}"
                );
            }
            let decision = &answer["result"]["_meta"]["dev.toolgate/decision"];
            let told = evidence_told(&state, expected, &paid);
            assert_eq!(decision["evidence"], told, "003-76, 003-91: {what}");
            if expected == Some("planned") {
                judge_plan(&answer, &entry);
            }
        }
        assert!(
            scripted
                .seen()
                .iter()
                .all(|seen| !seen.body.to_string().contains("dev.toolgate/state"))
        );
    }
    let planned = "ledger list --state plan --outcome planned --data data";
    let (_, planned, _) = runs(&gate.setup, planned).await;
    assert_eq!(planned.lines().count(), 1 + 12, "{planned}");
}

/// What a task reads beside an answer with this code of the calls that have `paid`: all of them with its
/// summary, and when it can do no more.
fn evidence_told(state: &Value, code: Option<&str>, paid: &[Value]) -> Value {
    let is_summary = state == "summarize" && code.is_none();
    let is_used_up = code.is_some_and(|code| code.starts_with("budget_"));
    if is_summary || is_used_up {
        json!(paid)
    } else {
        Value::Null
    }
}

/// What is planned does not run.
fn judge_plan(answer: &Value, entry: &Value) {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("did not run") && answer["result"]["isError"] == true,
        "{text}"
    );
    assert_eq!(
        (&entry["outcome"], &entry["attempts"]),
        (&json!("planned"), &json!(0))
    );
}

/// What every entry has.
fn judge_entry(entry: &Value, task: &str, passed: bool) {
    assert_eq!(
        (&entry["task"], entry["trace_id"].is_string()),
        (&json!(task), true),
        "003-80: {entry}"
    );
    assert_eq!(
        entry["params_hash"].as_str().unwrap().len(),
        64,
        "003-78: {entry}"
    );
    assert_eq!(entry["result_hash"].is_string(), passed, "003-78: {entry}");
}

/// 003-74: what a plan lacks is said as it will be said later, and a plan takes nothing: neither a
/// key nor a budget.
#[tokio::test]
async fn a_plan_is_judged_as_the_call_will_be() {
    let (scripted, gate) = stage(false).await;
    let agent = gate.agent();
    let meta = json!({ "dev.toolgate/task": "t", "dev.toolgate/state": "plan" });
    let params = json!({ "name": "bank__pay", "arguments": amount(1), "_meta": meta });
    let answer = agent.ask("tools/call", params).await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("idempotency_key_required"),
        "{answer}"
    );
    for _ in 0..5 {
        let answer = call(&agent, ("t", json!("plan")), "pay", amount(1)).await;
        assert_eq!(code(&answer).as_deref(), Some("planned"), "{answer}");
        let left = &answer["result"]["_meta"]["dev.toolgate/decision"]["budget_remaining"];
        assert_eq!(left["calls_per_task"], 1, "{answer}");
    }
    assert_eq!(scripted.executions(), 0);
    assert_eq!(
        code(&call(&agent, ("t", json!("execute")), "pay", amount(1)).await),
        None
    );
    assert_eq!(scripted.executions(), 1);
}

/// 003-11, 003-74: a call that is refused when it is planned is no plan: a task that has none goes on as
/// before, and one that executes what it has planned goes on with that.
#[tokio::test]
async fn a_refused_plan_strands_no_task() {
    let (scripted, gate) = stage(false).await;
    let agent = gate.agent();
    let meta = json!({ "dev.toolgate/task": "first", "dev.toolgate/state": "plan" });
    let params = json!({ "name": "bank__pay", "arguments": amount(1), "_meta": meta });
    let keyless = agent.ask("tools/call", params).await;
    assert_eq!(
        code(&keyless).as_deref(),
        Some("idempotency_key_required"),
        "{keyless}"
    );
    let paid = call(&agent, ("first", Value::Null), "pay", amount(1)).await;
    assert_eq!(code(&paid), None, "nothing was planned: {paid}");
    let script = rows(
        "
plan    | 1 | planned
plan    | 2 | planned
execute | 1 | -
plan    | 101 | too_much
execute | 2 | -
plan    | 2 | budget_calls_exceeded
",
    );
    for (number, [state, paid, expected]) in script.into_iter().enumerate() {
        let arguments = amount(paid.parse().unwrap());
        let answer = call(&agent, ("second", json!(state)), "pay", arguments).await;
        let expected = Some(expected).filter(|code| *code != "-");
        assert_eq!(code(&answer).as_deref(), expected, "{number}: {answer}");
    }
    let summary = call(&agent, ("second", json!("summarize")), "look", json!({})).await;
    assert_eq!(code(&summary), None, "{summary}");
    assert_eq!(scripted.executions(), 1 + 2 + 1);
}

/// 003-11: a plan has a bound, and says so: no call that was planned is dropped for a later one, and all
/// of them may run.
#[tokio::test]
async fn a_plan_that_is_full_stands() {
    let (scripted, gate) = stage(false).await;
    let agent = gate.agent();
    let plan = async |number| call(&agent, ("t", json!("plan")), "pay", amount(number)).await;
    for number in 0..64 {
        let answer = plan(number).await;
        assert_eq!(code(&answer).as_deref(), Some("planned"), "{answer}");
    }
    let full = plan(64).await;
    assert_eq!(code(&full).as_deref(), Some("not_planned"), "{full}");
    let words = full["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("has 64 calls already"), "{words}");
    for (number, expected) in [(0, None), (64, Some("not_planned")), (63, None)] {
        let answer = call(&agent, ("t", json!("execute")), "pay", amount(number)).await;
        assert_eq!(code(&answer).as_deref(), expected, "{number}: {answer}");
    }
    assert_eq!(scripted.executions(), 2);
}

/// A plan is not sent in observe mode either; everything else is.
#[tokio::test]
async fn observe_mode_sends_no_plan() {
    let (scripted, gate) = stage(true).await;
    for (state, expected) in [
        ("plan", Some("planned")),
        ("execute", None),
        ("summarize", None),
        ("Plan", Some("schema_invalid")),
    ] {
        let before = scripted.executions();
        let answer = call(&gate.agent(), ("t", json!(state)), "look", json!({})).await;
        assert_eq!(code(&answer).as_deref(), expected, "{state}: {answer}");
        assert_eq!(
            scripted.executions() - before,
            usize::from(expected.is_none()),
            "{state}"
        );
    }
    // As enforce mode calls the step.
    let entries = gate.entries(4).await;
    let refused: Vec<_> = entries
        .iter()
        .filter(|entry| entry["outcome"] != "answered")
        .map(|entry| &entry["stage"])
        .collect();
    assert_eq!(refused, ["repetition", "repetition"]);
}

/// Where a task is outlives the process.
#[tokio::test]
async fn a_task_is_where_it_was_after_a_crash() {
    let (scripted, mut gate) = stage(false).await;
    call(&gate.agent(), ("t", json!("plan")), "pay", amount(1)).await;
    assert_eq!(
        code(&call(&gate.agent(), ("t", json!("execute")), "pay", amount(1)).await),
        None
    );
    gate.kill().await;
    let gate = gate.setup.clone().start().await;
    let answer = until("the summary", || async {
        let answer = call(&gate.agent(), ("t", json!("summarize")), "look", json!({})).await;
        code(&answer).is_none().then_some(answer)
    })
    .await;
    let evidence = &answer["result"]["_meta"]["dev.toolgate/decision"]["evidence"];
    assert_eq!(
        (evidence.as_array().map(Vec::len), scripted.executions()),
        (Some(1), 2),
        "{answer}"
    );
}
