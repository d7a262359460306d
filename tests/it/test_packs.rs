//! Recorded calls and test packs: a call becomes a sample, and a changed policy is tried on the
//! calls of the past.

mod anonymous;
mod explained;

use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Settings;
use serde_json::{Value, json};
use std::fmt::Write as _;

const CALLERS: &str = "
  - { agent: clerk, token: token-of-the-clerk, tenant: t_001, roles: [payer] }
  - { agent: reader, token: token-of-the-reader, tenant: t_001, roles: [viewer] }
";

const POLICY: &str = r#"
contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__pay:
    purpose: test
    not_for: paying oneself
    actions: [write]
    permission: { roles: [payer], tenant: /tenant_id }
    rules: [ { code: too_much, when: "arguments.amount > 100" } ]
    budget: { max_calls_per_task: 2 }
    side_effect: { writes: test, rollback: { tool: oracle__undo } }
    secrets: []
  oracle__read: { purpose: test, actions: [read], audit: [q], secrets: [] }
"#;

async fn stage(policy: &str, observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(["pay", "read", "hidden"].map(tool).to_vec()).await;
    let servers = vec![("oracle", scripted.url())];
    let settings = Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: policy.to_owned(),
        observe,
    };
    (scripted, Gate::start(settings).await)
}

fn pay(amount: i64, tenant: &str) -> Value {
    json!({ "tenant_id": tenant, "amount": amount })
}

/// A call of the clerk in the task of that name.
async fn call(gate: &Gate, tool: &str, arguments: &Value, task: &str) -> Value {
    let params =
        json!({ "name": tool, "arguments": arguments, "_meta": { "dev.toolgate/task": task } });
    gate.agent()
        .token("token-of-the-clerk")
        .ask("tools/call", params)
        .await
}

/// Runs `toolgate test …` beside the running gate.
async fn test(gate: &Gate, more: &[&str]) -> (i32, String) {
    let (code, out, err) = run(&gate.setup, &[&["test"], more].concat()).await;
    (code, format!("{out}{err}"))
}

const WHERE: [&str; 4] = ["--config", "toolgate.yaml", "--data", "data"];

/// What was let through, and must not be.
const EXPECTED: &[&str] = &[
    "--expect",
    "too_much",
    "--because",
    "more than 50 needs a person",
];

/// 003-20, 003-102, 003-116: what was attempted becomes a sample; what should have been refused
/// fails until it is, and passes after.
#[tokio::test]
async fn a_recorded_call_becomes_a_sample() {
    let (scripted, gate) = stage(POLICY, false).await;
    for (amount, tenant) in [(1, "t_999"), (99, "t_001"), (7, "t_001"), (8, "t_001")] {
        call(&gate, "oracle__pay", &pay(amount, tenant), "one").await;
    }
    call(&gate, "oracle__read", &json!({ "q": "what" }), "one").await;
    call(&gate, "oracle__hidden", &json!({}), "one").await;
    let entries = gate.entries(6).await;
    let ids: Vec<&str> = entries
        .iter()
        .map(|entry| entry["action_id"].as_str().unwrap())
        .collect();
    let executed = scripted.executions();
    let (foreign, dear, third) = (
        pay(1, "t_999").to_string(),
        pay(99, "t_001").to_string(),
        pay(8, "t_001").to_string(),
    );
    let add = async |id: &str, more: &[&str]| {
        test(&gate, &[&["add", id], &WHERE[..], more].concat()).await
    };
    let to = ["--to", "tests/incidents.yaml"];
    let rows: [(&str, Vec<&str>, &str); 5] = [
        (
            ids[0],
            vec!["--arguments", &foreign],
            "AS EXPECTED got=tenant_mismatch expect=tenant_mismatch",
        ),
        // It passed, and must not.
        (
            ids[1],
            [&["--arguments", &dear], EXPECTED].concat(),
            "UNEXPECTED PASS got=allow expect=too_much",
        ),
        // With what its task had used by then.
        (
            ids[3],
            vec!["--arguments", &third],
            "AS EXPECTED got=budget_calls_exceeded expect=budget_calls_exceeded",
        ),
        // The ledger has all its arguments, as the contract wants.
        (ids[4], vec![], "AS EXPECTED got=allow expect=allow"),
        (
            ids[5],
            vec![],
            "AS EXPECTED got=tool_not_allowlisted expect=tool_not_allowlisted",
        ),
    ];
    for (id, more, verdict) in &rows {
        let (code, said) = add(id, &[&more[..], &to].concat()).await;
        assert!(
            code == 0 && said.contains(&format!("now: {verdict}\n")),
            "{more:?}: {said}"
        );
    }
    let named = ["--arguments", &foreign, "--name", "a \"foreign\" tenant"];
    let (code, printed) = add(ids[0], &named).await;
    assert_eq!(code, 0, "{printed}");
    insta::assert_snapshot!("a_sample", masked(&printed));
    refuses_what_makes_no_sample(&gate, ids[0], &foreign).await;
    judge_pack(&gate).await;
    assert_eq!(scripted.executions(), executed, "nothing is executed");
}

/// The pack fails until the policy is mended.
async fn judge_pack(gate: &Gate) {
    let (code, said) = test(gate, &["tests", "--quiet"]).await;
    assert!(
        code == 1 && said.contains("because more than 50 needs a person"),
        "{said}"
    );
    assert!(
        said.contains("1 UNEXPECTED PASS, 1 MISSING")
            && said.contains("nothing says what has mended this"),
        "{said}"
    );
    std::fs::write(gate.path("policy.yaml"), POLICY.replace("> 100", "> 50")).unwrap();
    let (_, said) = test(gate, &["tests", "--quiet"]).await;
    assert!(
        said.contains("5 samples: 1 MISSING") && !said.contains("FAIL "),
        "{said}"
    );
}

async fn refuses_what_makes_no_sample(gate: &Gate, id: &str, foreign: &str) {
    let add = async |more: &[&str]| test(gate, &[&["add", id], &WHERE[..], more].concat()).await;
    for (more, words) in [
        (vec![], "give them with --arguments"),
        (vec!["--arguments", "{}"], "not the call's arguments"),
    ] {
        let (code, said) = add(&more).await;
        assert!(code == 1 && said.contains(words), "{said}");
    }
    std::fs::write(gate.path("odd.yaml"), "samples: []\npack: odd\n").unwrap();
    let (code, said) = add(&["--arguments", foreign, "--to", "odd.yaml"]).await;
    assert!(code == 1 && said.contains("odd.yaml"), "{said}");
}

/// 003-104, 003-105, 003-117: before a changed policy ships, it says what it would have said of the
/// calls that were recorded, like for like.
#[tokio::test]
async fn a_changed_policy_is_tried_on_recorded_calls() {
    let (scripted, gate) = stage(POLICY, false).await;
    call(&gate, "oracle__pay", &pay(99, "t_001"), "one").await;
    call(&gate, "oracle__pay", &pay(101, "t_001"), "one").await;
    for n in 0..3 {
        call(&gate, "oracle__read", &json!({ "q": n }), "one").await;
    }
    gate.entries(5).await;
    let executed = scripted.executions();
    let replay = async |more: &[&str]| {
        test(&gate, &[&["--replay", "ledger"], &WHERE[..], more].concat()).await
    };
    let (code, said) = replay(&[]).await;
    assert!(
        code == 0 && said.ends_with("ok: of 5 calls none is known to change\n"),
        "{said}"
    );
    let policy = gate.path("policy.yaml");
    let stricter = POLICY.replace("> 100", "> 50").replace(
        "actions: [read], audit",
        "actions: [read], owner_only: true, audit",
    );
    std::fs::write(&policy, &stricter).unwrap();
    let (code, said) = replay(&[]).await;
    assert!(
        code == 1 && said.ends_with("CHANGED: 3 of 5 calls\n"),
        "{said}"
    );
    assert!(
        said.contains("2 undecided: the ledger has no arguments: give them with --arguments\n"),
        "{said}"
    );
    let known = [pay(99, "t_001"), pay(101, "t_001")]
        .map(|arguments| arguments.to_string())
        .join("\n\n");
    std::fs::write(gate.path("known.jsonl"), known).unwrap();
    let (code, said) = replay(&["--arguments", "known.jsonl"]).await;
    assert!(
        code == 1 && said.ends_with("CHANGED: 4 of 5 calls\n"),
        "{said}"
    );
    insta::assert_snapshot!(masked(&said));
    let only = ["--arguments", "known.jsonl", "--json", "--tool"];
    let (_, said) = replay(&[&only[..], &["oracle__pay"]].concat()).await;
    judge_report(&said);
    // Who lacks the role is refused whatever the arguments are.
    std::fs::write(&policy, POLICY.replace("roles: [payer]", "roles: [viewer]")).unwrap();
    let (_, said) = replay(&[]).await;
    assert!(
        said.ends_with("CHANGED: 2 of 5 calls\n") && said.contains("rbac_denied"),
        "{said}"
    );
    assert_eq!(scripted.executions(), executed, "nothing is executed");
}

fn judge_report(said: &str) {
    let report: Value = serde_json::from_str(said).unwrap();
    assert_eq!(
        (&report["calls"], &report["changed"]),
        (&json!(2), &json!(1)),
        "{report}"
    );
    assert_eq!(
        report["verdicts"]["too_much"],
        json!({ "then": 1, "now": 2 }),
        "{report}"
    );
    assert_eq!(report["changes"][0]["then"], "passed", "{report}");
}

/// 003-117: what was observed is compared like for like with what was enforced: what budgets, keys
/// and loops would have refused depends on other calls, and has not changed; each of several
/// entries of one agent is judged as itself.
#[tokio::test]
async fn an_observed_ledger_is_tried_on_a_changed_policy() {
    let policy = format!("{POLICY}repetition: {{ warn: 2, stop: 3 }}\n");
    let second = "  - { agent: clerk, token: token-of-the-clerk-that-reads, tenant: t_002, roles: [viewer] }\n";
    for observe in [true, false] {
        let scripted = ScriptedServer::with(["pay", "read", "hidden"].map(tool).to_vec()).await;
        let (servers, callers) = (
            vec![("oracle", scripted.url())],
            format!("{CALLERS}{second}"),
        );
        let callers: &'static str = callers.leak();
        let settings = Settings {
            servers,
            callers,
            more: "",
            policy: policy.clone(),
            observe,
        };
        let gate = Gate::start(settings).await;
        for amount in 1..=3 {
            call(&gate, "oracle__pay", &pay(amount, "t_001"), "one").await;
        }
        for _ in 0..4 {
            call(&gate, "oracle__read", &json!({ "q": 1 }), "one").await;
        }
        let viewer = gate.agent().token("token-of-the-clerk-that-reads");
        viewer
            .ask(
                "tools/call",
                json!({ "name": "oracle__pay", "arguments": pay(1, "t_002") }),
            )
            .await;
        let entries = gate.entries(8).await;
        let key = ["aborted_reason", "would_refuse"][usize::from(observe)];
        let code = |entry: &Value| entry[key].clone();
        let codes: Vec<Value> = entries
            .iter()
            .map(code)
            .filter(|code| !code.is_null())
            .collect();
        assert_eq!(
            codes,
            ["budget_calls_exceeded", "loop_detected", "rbac_denied"]
        );
        let known = [(1, "t_001"), (2, "t_001"), (3, "t_001"), (1, "t_002")];
        let known = known.map(|(amount, tenant)| pay(amount, tenant).to_string());
        std::fs::write(gate.path("known.jsonl"), known.join("\n")).unwrap();
        std::fs::write(gate.path("policy.yaml"), policy.replace("> 100", "> 1000")).unwrap();
        let (exit, said) = test(&gate, &replayed()).await;
        assert!(
            exit == 0 && said.ends_with("ok: of 8 calls none is known to change\n"),
            "{observe}: {said}"
        );
        std::fs::write(gate.path("policy.yaml"), policy.replace("> 100", "> 2")).unwrap();
        let (exit, said) = test(&gate, &replayed()).await;
        assert!(
            exit == 1 && said.ends_with("CHANGED: 1 of 8 calls\n"),
            "{observe}: {said}"
        );
    }
}

fn replayed() -> Vec<&'static str> {
    let line = "--replay ledger --config toolgate.yaml --data data --arguments known.jsonl";
    line.split(' ').collect()
}

/// The text without what differs from run to run.
fn masked(text: &str) -> String {
    let version = regex::Regex::new("policy [0-9a-f]{12}").unwrap();
    let id = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    id.replace_all(&version.replace_all(text, "policy VERSION"), "ACTION_ID")
        .into_owned()
}

/// 003-46: `explain` tells what the tool is for, and every step up to the one that decides, and
/// what would follow; nothing is executed.
#[tokio::test]
async fn explain_tells_the_steps() {
    let policy = format!(
        "{POLICY}budgets: {{ global: {{ max_steps: 20 }} }}\nrepetition: {{}}\nlayers: {{ global: {{ deny: [\"oracle__h*\"] }} }}\n"
    );
    let (scripted, gate) = stage(&policy, false).await;
    let mut said = String::new();
    for (agent, tool, arguments) in [
        ("clerk", "oracle__pay", pay(1, "t_001")),
        ("clerk", "oracle__pay", pay(101, "t_001")),
        ("reader", "oracle__pay", pay(101, "t_001")),
        ("clerk", "oracle__hidden", json!({})),
        ("clerk", "oracle__raed", json!({})),
        ("clerc", "oracle__read", json!({})),
    ] {
        let arguments = arguments.to_string();
        let words = [
            "explain",
            "--config",
            "toolgate.yaml",
            "--agent",
            agent,
            "--tool",
            tool,
            "--arguments",
            &arguments,
        ];
        let (code, out, err) = run(&gate.setup, &words).await;
        let err = err.lines().filter(|line| line.starts_with("toolgate: "));
        let err = err.fold(String::new(), |text, line| text + line + "\n");
        writeln!(said, "{}{err}exit code {code}\n", masked(&out)).unwrap();
    }
    insta::assert_snapshot!(said);
    assert_eq!(scripted.executions(), 0);
}

/// 003-104, 003-105: where no recorded call could be judged, nothing is known to be well, and both
/// questions fail. Calls of an agent that has another name now are judged as it.
#[tokio::test]
async fn what_decides_nothing_fails_and_other_names_are_mapped() {
    let (_scripted, gate) = stage(POLICY, true).await;
    call(&gate, "oracle__pay", &pay(99, "t_001"), "one").await;
    for n in 0..3 {
        call(&gate, "oracle__read", &json!({ "q": n }), "one").await;
    }
    gate.entries(4).await;
    let replay = async |more: &[&str]| {
        test(&gate, &[&["--replay", "ledger"], &WHERE[..], more].concat()).await
    };
    for what in [&[][..], &["--violations"]] {
        let (code, said) = replay(&[what, &["--tool", "oracle__raed"]].concat()).await;
        let expected = "NOTHING DECIDED: no recorded call is asked for\n";
        let meant = "did you mean `oracle__read`?";
        assert!(
            code == 1 && said.contains(expected) && said.contains(meant),
            "{said}"
        );
    }
    let config = std::fs::read_to_string(gate.path("toolgate.yaml")).unwrap();
    let renamed = config.replace("agent: clerk,", "agent: cashier,");
    assert_ne!(renamed, config);
    std::fs::write(gate.path("toolgate.yaml"), renamed).unwrap();
    for (what, calls) in [
        (&[][..], "4 calls"),
        (&["--violations"], "4 executed calls"),
    ] {
        let (code, said) = replay(what).await;
        let expected = format!("NOTHING DECIDED: of {calls} none could be judged\n");
        assert!(code == 1 && said.ends_with(&expected), "{said}");
        let (_, said) = replay(&[what, &["--json"]].concat()).await;
        let report: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(report["decided"], 0, "{report}");
    }
    let (code, said) = replay(&["--as", "clerk=cashier"]).await;
    let expected = "ok: of 4 calls none is known to change (1 undecided)\n";
    assert!(code == 0 && said.ends_with(expected), "{said}");
    let (code, said) = replay(&["--violations", "--as", "clerk=cashier"]).await;
    let expected = "ok: of 4 executed calls none is known to be forbidden (1 undecided)\n";
    assert!(code == 0 && said.ends_with(expected), "{said}");
    let (code, said) = replay(&["--as", "clerk=reader"]).await;
    assert!(
        code == 1 && said.contains("rbac_denied") && said.ends_with("CHANGED: 1 of 4 calls\n"),
        "another role decides without arguments: {said}"
    );
    let mut refusals = String::new();
    for mapped in [
        &["clerk=casheir"][..],
        &["clark=cashier"],
        &["clerk=cashier", "--as", "clerk=reader"],
        &["clerk"],
    ] {
        let (code, said) = replay(&[&["--as"], mapped].concat()).await;
        assert_ne!(code, 0, "{said}");
        let _ = writeln!(refusals, "{}: {said}", mapped.join(" "));
    }
    insta::assert_snapshot!("mapped_agents", refusals);
}
