//! Budgets that are right and can be handled (003-04, 003-09, 003-17, 003-90, 003-91, 003-93,
//! 003-115, 003-119): what is charged, what happens at a limit, what holds where nothing is
//! written, and what operators make of tasks.

mod circles;
mod costs;
mod drafted;
mod operators;
mod used_up;

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::{Setup, has_later};
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const DECISION: &str = "dev.toolgate/decision";
const OPERATORS: &str = "tokens: [ { name: ann, token: token-of-ann-who-has-the-roles, roles: [approver, switch] }, \
     { name: bob, token: token-of-bob-who-has-another, roles: [sre] } ]";

/// A read and a write, without a word of how often.
const CONTRACTS: &str = "contracts:
  bank__look: { purpose: a test, actions: [read], secrets: [] }
  bank__poll: { purpose: a test, actions: [read], secrets: [] }
  bank__note: { purpose: a test, actions: [write], permission: anyone, side_effect: { writes: notes, rollback: { manual: by hand } }, secrets: [] }
";

struct Bank {
    server: ScriptedServer,
    gate: Gate,
}

impl Bank {
    /// Behind a toolgate with these budgets besides [`CONTRACTS`].
    async fn with(budgets: &str) -> Self {
        Self::of(CONTRACTS, budgets).await
    }

    async fn of(contracts: &str, budgets: &str) -> Self {
        Self::in_mode("enforce", contracts, budgets).await
    }

    async fn in_mode(mode: &'static str, contracts: &str, budgets: &str) -> Self {
        let tools = ["look", "poll", "note"].map(tool).to_vec();
        let server = ScriptedServer::with(tools).await;
        let setup = Setup::new()
            .server_with("bank", &format!("url: \"{}\"", server.url()))
            .operators(OPERATORS)
            .mode(mode)
            .policy(&format!("{contracts}{budgets}"));
        let gate = setup.start().await;
        Self { server, gate }
    }

    fn agent(&self) -> Agent {
        self.gate.agent()
    }

    /// Runs `toolgate …` as ann, at the door.
    async fn says(&self, words: &[&str]) -> (i32, String) {
        self.says_as("ann", words).await
    }

    async fn says_as(&self, who: &str, words: &[&str]) -> (i32, String) {
        let door = self.gate.operators.to_string();
        let place = ["--config", "toolgate.yaml", "--admin", &door];
        let (status, out, err) =
            run(&self.gate.setup.operator(who), &[words, &place].concat()).await;
        (status, out + &err)
    }

    /// The one task that there is, as operators see it.
    async fn task(&self) -> Value {
        let (status, listed) = self.says(&["tasks", "list", "--json"]).await;
        assert_eq!((status, listed.lines().count()), (0, 1), "{listed}");
        serde_json::from_str(&listed).unwrap()
    }

    /// Its id.
    async fn id(&self) -> String {
        self.task().await["id"].as_str().unwrap().to_owned()
    }

    /// Allows the one call that is held, once it is; gives what the operator was shown.
    async fn allows_one(&self) -> Value {
        let hold: Value = until("a hold", || async {
            let (_, listed) = self.says(&["approvals", "list", "--json"]).await;
            let hold: Value = serde_json::from_str(listed.lines().next()?).ok()?;
            (hold["state"] == "pending").then_some(hold)
        })
        .await;
        let id = hold["id"].as_str().unwrap();
        let (status, said) = self
            .says(&["approvals", "allow", id, "--why", "it is due"])
            .await;
        assert_eq!(status, 0, "{said}");
        hold
    }
}

/// A call that runs even where an equal one has, in the one task that the agent has.
async fn anew(agent: &Agent, tool: &str, arguments: Value) -> Value {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let key = format!("call-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let meta = json!({ "dev.toolgate/idempotencyKey": key });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    agent.ask("tools/call", params).await
}

/// The codes of so many calls, one after the other; each gets its arguments from its number.
async fn codes(
    agent: &Agent,
    tool: &str,
    count: usize,
    arguments: impl Fn(usize) -> Value,
) -> Vec<String> {
    let mut codes = Vec::new();
    for n in 0..count {
        let answer = anew(agent, tool, arguments(n)).await;
        codes.push(code(&answer).unwrap_or_default());
    }
    codes
}

fn passed(codes: &[String]) -> usize {
    codes.iter().filter(|code| code.is_empty()).count()
}

/// 003-93, 003-105: what was proven not to be sent takes neither a step nor a call nor its cost, of
/// a read as of a write.
#[tokio::test]
async fn what_was_not_sent_costs_nothing() {
    let budget = "budget: { cost: 2, rate: { calls: 3, per: 1h } }";
    let contracts = CONTRACTS.replace("secrets: []", &format!("secrets: [], {budget}"));
    let limits =
        "budgets: { global: { max_steps: 3, max_tool_calls: 3, max_cost: 6, max_failures: 4 } }\n";
    for tool in ["bank__look", "bank__note"] {
        let bank = Bank::of(&contracts, limits).await;
        bank.server.down();
        let unsent = codes(&bank.agent(), tool, 5, |n| json!({ "n": n })).await;
        assert_eq!(unsent, ["upstream_unavailable"; 5], "{tool}");
        let task = bank.task().await;
        let used =
            ["steps", "tool_calls", "cost", "failures"].map(|key| task[key].as_f64().unwrap());
        assert!(
            used.iter().all(|used| used.abs() < f64::EPSILON),
            "{tool}: {task}"
        );
        bank.server.up().await;
        until("the server is back", || async {
            let probe = anew(&bank.agent(), tool, json!({ "n": 99 })).await;
            code(&probe).is_none().then_some(())
        })
        .await;
        let sent = codes(&bank.agent(), tool, 3, |n| json!({ "n": n })).await;
        assert_eq!(passed(&sent), 2, "{tool}: {sent:?}");
    }
}

/// 003-115, 003-119: where no budget is written, a loop of 300 equal calls does not pass:
/// neither one whose answers are equal nor one whose answers differ, of reads and of writes. What
/// is switched off is off.
#[tokio::test]
async fn a_loop_of_equal_calls_does_not_pass() {
    let equal = |_| json!({ "n": 1 });
    let table = [
        ("bank__note", false, "loop_detected", 100),
        ("bank__look", false, "loop_detected", 100),
        ("bank__look", true, "loop_detected", 250),
    ];
    for (tool, differs, expected, most) in table {
        let bank = Bank::with("").await;
        if differs {
            let count = AtomicUsize::new(0);
            bank.server.answers(move |_| {
                let text = count.fetch_add(1, Ordering::Relaxed).to_string();
                Reply::Result(json!({ "content": [{ "type": "text", "text": text }] }))
            });
        }
        let read = codes(&bank.agent(), tool, 300, equal).await;
        assert_eq!(passed(&read), most, "{tool} {differs}");
        assert_eq!(read.last().unwrap(), expected, "{tool} {differs}");
        assert_eq!(bank.server.executions(), most, "{tool} {differs}");
    }
    // Of a task that something names, steps come to an end, however they differ; what nothing names is
    // all that the agent ever does.
    let bank = Bank::with("").await;
    let session = bank.agent().initialized().await;
    let read = codes(&session, "bank__look", 1_005, |n| json!({ "n": n })).await;
    assert_eq!(passed(&read), 1_000);
    assert_eq!(read.last().unwrap(), "budget_exceeded");
    let read = codes(&bank.agent(), "bank__look", 300, |n| json!({ "n": n })).await;
    assert_eq!(passed(&read), 300);
    let off = "budgets: { unlimited: true }\nrepetition: { unwatched: true }\n";
    let bank = Bank::with(off).await;
    let all = codes(&bank.agent(), "bank__look", 300, equal).await;
    assert_eq!(passed(&all), 300, "nothing is limited");
}

/// The other side: forty everyday calls, some of them again and again, meet no limit.
#[tokio::test]
async fn everyday_calls_meet_no_limit() {
    let bank = Bank::with("").await;
    let agent = bank.agent();
    for n in 0..8 {
        let answers = [
            agent.call("bank__look", json!({ "file": n })).await,
            anew(&agent, "bank__note", json!({ "file": n })).await,
            agent.call("bank__poll", json!({})).await,
            agent.call("bank__look", json!({ "status": true })).await,
            anew(&agent, "bank__note", json!({ "add": "all" })).await,
        ];
        for answer in answers {
            assert_eq!(code(&answer), None, "{n}: {answer}");
            let warning = &answer["result"]["_meta"][DECISION]["warning"];
            assert!(n > 4 || warning.is_null(), "{n}: {answer}");
        }
    }
    assert_eq!(bank.server.executions(), 40);
}

/// 003-17, 003-90: at a limit that stops, everything is refused; at one that degrades, what changes
/// something; at one that asks, each call is held for a person, who lets exactly that one through.
#[tokio::test]
async fn a_limit_stops_degrades_or_asks() {
    let limit = |action: &str| {
        format!(
            "budgets: {{ global: {{ max_tool_calls: 2, on_limit: {{ tool_calls: {action} }} }} }}\n"
        )
    };
    for (action, read) in [("stop", Some("budget_exceeded")), ("degrade", None)] {
        let bank = Bank::with(&limit(action)).await;
        let agent = bank.agent();
        let first = codes(&agent, "bank__note", 3, |n| json!({ "n": n })).await;
        assert_eq!(first, ["", "", "budget_exceeded"], "{action}");
        let looked = agent.call("bank__look", json!({})).await;
        assert_eq!(code(&looked).as_deref(), read, "{action}: {looked}");
    }
    let bank = Bank::with(&limit("ask")).await;
    let agent = bank.agent();
    let first = codes(&agent, "bank__note", 2, |n| json!({ "n": n })).await;
    assert_eq!(passed(&first), 2);
    for (count, tool) in [(3, "bank__note"), (4, "bank__look"), (5, "bank__note")] {
        let arguments = json!({ "n": count });
        let (answer, hold) = tokio::join!(agent.call(tool, arguments.clone()), bank.allows_one());
        assert_eq!(hold["over"], "tool_calls", "{hold}");
        assert_eq!(hold["arguments"], arguments, "{hold}");
        assert_eq!(code(&answer), None, "{tool}: {answer}");
        assert_eq!(bank.server.executions(), count, "exactly that one");
    }
    assert_eq!(
        bank.task().await["tool_calls"],
        5,
        "what was let through counts"
    );
}

/// 003-91: the task's time ends a call in flight, long before its server would; the answer says what
/// the task has done. What changes something is finished, and its outcome unknown until then.
#[tokio::test]
async fn a_tasks_time_ends_calls_in_flight() {
    let bank = Bank::with("budgets: { global: { max_duration: 2s } }\n").await;
    let agent = bank.agent();
    let done = agent.call("bank__note", json!({ "n": 1 })).await;
    let action = done["result"]["_meta"][DECISION]["action_id"].clone();
    bank.server.answers(|seen| match seen.method() {
        "tools/call" => Reply::Silence,
        _ => Reply::Result(json!({})),
    });
    let (read, write) = tokio::join!(
        agent.call("bank__look", json!({})),
        agent.call("bank__note", json!({ "n": 2 })),
    );
    let after = agent.call("bank__look", json!({ "n": 3 })).await;
    for (answer, expected) in [
        (&read, "budget_exceeded"),
        (&write, "outcome_unknown"),
        (&after, "budget_exceeded"),
    ] {
        assert_eq!(code(answer).as_deref(), Some(expected), "{answer}");
        let decision = &answer["result"]["_meta"][DECISION];
        assert_eq!(decision["evidence"][0], action, "{answer}");
        let words = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(words.contains(action.as_str().unwrap()), "{words}");
    }
    for answer in [&read, &after] {
        assert_eq!(answer["result"]["_meta"][DECISION]["dimension"], "duration");
    }
}

/// 003-119: a loop that is refused goes on being one, however long its agent goes on with it: it never
/// becomes idle, and so no other task with calls of its own.
#[tokio::test]
async fn a_loop_that_is_refused_does_not_end_idle() {
    if !has_later() {
        return;
    }
    let server = ScriptedServer::with(["look", "poll", "note"].map(tool).to_vec()).await;
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", server.url()))
        .policy(&format!(
            "{CONTRACTS}repetition: {{ warn: 1, stop: 2 }}\nbudgets: {{ idle: 20m }}\n"
        ));
    let look = async |gate: &Gate| {
        let answer = gate.agent().call("bank__look", json!({})).await;
        code(&answer).unwrap_or_default()
    };
    let mut gate = setup.start().await;
    assert_eq!([look(&gate).await, look(&gate).await], ["", ""]);
    for minutes in [19, 38, 57] {
        let later = Duration::from_mins(minutes);
        gate = gate.stop().await.later(later).start().await;
        assert_eq!(look(&gate).await, "loop_detected", "{minutes}");
    }
    let later = Duration::from_mins(78);
    gate = gate.stop().await.later(later).start().await;
    assert_eq!(look(&gate).await, "", "after 21 minutes of silence");
}

/// A task that its agent does not name has ended after an idle hour, or what the policy says; one
/// that it names goes on.
#[tokio::test]
async fn a_task_without_a_name_ends_when_it_is_idle() {
    if !has_later() {
        return;
    }
    for (idle, minutes) in [(", idle: 20m", 20), ("", 60)] {
        ends_when_idle(idle, minutes).await;
    }
}

async fn ends_when_idle(idle: &str, minutes: u64) {
    let server = ScriptedServer::with(["look", "poll", "note"].map(tool).to_vec()).await;
    let limits = format!("budgets: {{ global: {{ max_tool_calls: 1 }}{idle} }}\n");
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", server.url()))
        .policy(&format!("{CONTRACTS}{limits}"));
    let calls = async |gate: &Gate, number: usize| {
        let mut read = Vec::new();
        for meta in [json!({}), json!({ "dev.toolgate/task": "named" })] {
            let params =
                json!({ "name": "bank__look", "arguments": { "n": number }, "_meta": meta });
            let answer = gate.agent().ask("tools/call", params).await;
            read.push(code(&answer).unwrap_or_default());
        }
        read
    };
    let gate = setup.start().await;
    assert_eq!(calls(&gate, 1).await, ["", ""]);
    assert_eq!(calls(&gate, 2).await, ["budget_exceeded"; 2]);
    let soon = Duration::from_mins(minutes - 1);
    let gate = gate.stop().await.later(soon).start().await;
    assert_eq!(calls(&gate, 3).await, ["budget_exceeded"; 2], "{minutes}");
    let late = Duration::from_mins(2 * minutes + 1);
    let gate = gate.stop().await.later(late).start().await;
    assert_eq!(calls(&gate, 4).await, ["", "budget_exceeded"], "{minutes}");
}
