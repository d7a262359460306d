//! Calls that were executed although they are forbidden, and who answers for them.

use crate::harness::gate::{Gate, run};
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Settings, Setup};
use serde_json::{Value, json};
use std::fmt::Write as _;

const CALLERS: &str = "
  - { agent: clerk, token: token-of-the-clerk, tenant: t_001, roles: [payer] }
";

const POLICY: &str = r#"
contracts:
  oracle__pay:
    purpose: test
    actions: [write]
    permission: { roles: [payer], tenant: /tenant_id }
    rules: [ { code: too_much, when: "arguments.amount > 100" } ]
    side_effect: { writes: test, rollback: { tool: oracle__undo } }
    secrets: []
    audit: [tenant_id, amount]
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__read: { purpose: test, actions: [read], audit: [q], secrets: [] }
budgets: { global: { max_tool_calls: 2 } }
"#;

const WHERE: [&str; 7] = [
    "test",
    "--replay",
    "ledger",
    "--violations",
    "--config",
    "toolgate.yaml",
    "--data",
];

async fn stage(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(["pay", "read"].map(tool).to_vec()).await;
    let servers = vec![("oracle", scripted.url())];
    let settings = Settings {
        servers,
        callers: CALLERS,
        more: "",
        policy: POLICY.to_owned(),
        observe,
    };
    (scripted, Gate::start(settings).await)
}

/// A call that is fine, and three that are not: one of too much, one in another's name, one more
/// than the task may make.
async fn calls(gate: &Gate) -> Vec<String> {
    let agent = gate.agent().token("token-of-the-clerk");
    for (tool, arguments) in [
        ("pay", json!({ "tenant_id": "t_001", "amount": 99 })),
        ("pay", json!({ "tenant_id": "t_001", "amount": 101 })),
        ("pay", json!({ "tenant_id": "t_999", "amount": 1 })),
        ("read", json!({ "q": 1 })),
        ("read", json!({ "q": 2 })),
    ] {
        let meta = json!({ "dev.toolgate/task": "one" });
        let params =
            json!({ "name": format!("oracle__{tool}"), "arguments": arguments, "_meta": meta });
        agent.ask("tools/call", params).await;
    }
    let entries = gate.entries(5).await;
    entries
        .iter()
        .map(|entry| entry["action_id"].as_str().unwrap().to_owned())
        .collect()
}

/// What is said of the violations, with the exemptions of that text if there is any.
async fn violations(gate: &Gate, exemptions: Option<&str>, more: &[&str]) -> (i32, String, String) {
    let mut words = [&WHERE[..], &["data"], more].concat();
    if let Some(text) = exemptions {
        std::fs::write(gate.path("exemptions.yaml"), text).unwrap();
        words.extend(["--exemptions", "exemptions.yaml"]);
    }
    run(&gate.setup, &words).await
}

fn exemption(of: &str, until: &str) -> String {
    format!("  - {{ {of}, owner: ann, until: \"{until}\", because: the trial of May }}\n")
}

/// The text without what differs from run to run.
fn masked(text: &str, ids: &[String]) -> String {
    let text = ids
        .iter()
        .enumerate()
        .fold(text.to_owned(), |text, (n, id)| {
            text.replace(id, &format!("{:36}", format!("ACTION_ID-{n}")))
        });
    let policy = regex::Regex::new("policy [0-9a-f]{12}")
        .unwrap()
        .replace_all(&text, "policy VERSION")
        .into_owned();
    let time = regex::Regex::new("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z *").unwrap();
    time.replace_all(&policy, "2026-11-21T10:00:00.000000000Z ")
        .into_owned()
}

/// 003-104: what was executed although it is forbidden is listed, call by call. An owner answers
/// for each, until a day, or the audit fails; an exemption that has expired explains nothing.
#[tokio::test]
async fn what_was_executed_though_forbidden_is_explained_or_fails() {
    let (scripted, gate) = stage(true).await;
    let ids = calls(&gate).await;
    assert_eq!(
        scripted.executions(),
        5,
        "observe mode lets all of them through"
    );
    let (code, out, err) = violations(&gate, None, &[]).await;
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    assert!(
        out.ends_with("VIOLATIONS: of 5 executed calls 3 forbidden, 3 not explained\n"),
        "{out}"
    );
    assert!(
        [1, 2, 4].into_iter().all(|n| out.contains(&ids[n])) && !out.contains(&ids[0]),
        "{out}"
    );

    let much = exemption("tool: oracle__pay, code: too_much", "2999-12-31");
    let budget = exemption("tool: oracle__read, code: budget_exceeded", "2999-12-31");
    let foreign = |until| exemption(&format!("action: {}", ids[2]), until);
    let all = format!("exemptions:\n{much}{budget}{}", foreign("2999-12-31"));
    let (code, out, err) = violations(&gate, Some(&all), &[]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(
        out.ends_with("ok: of 5 executed calls 3 forbidden, all explained\n"),
        "{out}"
    );
    let (code, out, _) = violations(&gate, Some(&all), &["--json"]).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (
            code,
            &report["executed"],
            &report["forbidden"],
            &report["unexplained"]
        ),
        (0, &json!(5), &json!(3), &json!(0))
    );
    let of = json!({ "owner": "ann", "until": "2999-12-31", "because": "the trial of May" });
    assert!(
        report["violations"]
            .as_array()
            .unwrap()
            .iter()
            .all(|found| found["explained"] == of),
        "{report}"
    );

    // Another call of the tool, another code, and one whose time is over.
    let others = exemption("tool: oracle__read, code: too_much", "2999-12-31");
    let some = format!("exemptions:\n{much}{others}{}", foreign("2020-01-31"));
    let (code, out, err) = violations(&gate, Some(&some), &[]).await;
    assert_eq!(code, 1, "{out}");
    insta::assert_snapshot!("exempted", masked(&format!("{out}\n{err}"), &ids));
    // Who asks for other calls is not told that it matters.
    let (code, out, _) = violations(&gate, Some(&some), &["--code", "too_much"]).await;
    assert!(
        code == 0 && out.ends_with("ok: of 1 executed call 1 forbidden, all explained\n"),
        "{out}"
    );
}

/// 003-104: enforce mode executes nothing that is forbidden. What a stricter policy forbids is
/// found by judging again, as far as the arguments are known; nothing is executed for that.
#[tokio::test]
async fn what_is_enforced_is_no_violation_until_the_policy_changes() {
    let (scripted, gate) = stage(false).await;
    let ids = calls(&gate).await;
    let (code, out, _) = violations(&gate, None, &[]).await;
    assert!(
        code == 0 && out.ends_with("ok: of 2 executed calls none is known to be forbidden\n"),
        "{out}"
    );
    assert_eq!(scripted.executions(), 2);
    std::fs::write(gate.path("policy.yaml"), POLICY.replace("> 100", "> 50")).unwrap();
    let (code, out, _) = violations(&gate, None, &[]).await;
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains(&ids[0]) && out.contains(" too_much ") && out.contains(" now "),
        "{out}"
    );
    assert!(
        out.ends_with("VIOLATIONS: of 2 executed calls 1 forbidden, 1 not explained\n"),
        "{out}"
    );
    assert_eq!(scripted.executions(), 2, "nothing is executed");
}

/// 002-10, 003-104: what is wrong in an exemption file is said at once, with its places, and
/// nothing is explained by the rest.
#[tokio::test]
async fn everything_that_is_wrong_with_exemptions_is_said() {
    let (_scripted, gate) = stage(true).await;
    let wrong = "exemptions:
  - { action: '0197', owner: ann, until: 2999-12-31, because: of a trial }
  - { action: 0197f0a0-0000-7000-8000-000000000000, tool: oracle__pay, code: c, owner: ann, until: 2999-12-31, because: x }
  - { tool: oracle__pay, owner: ann, until: 2999-12-31, because: x }
  - { tool: pay, code: too_much, owner: ann, until: 2999-12-31, because: x }
  - { tool: oracle__*, code: too_much, owner: ann, until: 2999-12-31, because: x }
  - { tool: oracle__pay, code: too_much, owner: ann, until: soon, because: ' ' }
  - { tool: oracle__pay, code: too_much, owner: ann, until: '20991231', because: x }
  - { tool: oracle__pay, code: too_much, owner: ann, until: '2099-02-30', because: x }
  - { tool: oracle__pay, code: too_much, until: 2999-12-31, becuase: x }
  - { tool: oracle__read, code: too_much, owner: ann, until: 2999-12-31, because: x }
  - { tool: oracle__read, code: too_much, owner: bob, until: 2999-12-31, because: y }
  - { action: 1, owner: ann, until: 2999-12-31, because: x }
exemption: []
";
    let (code, out, err) = violations(&gate, Some(wrong), &[]).await;
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    let mut many = "exemptions:\n".to_owned();
    for n in 0..=1000 {
        writeln!(
            many,
            "{}",
            exemption(&format!("tool: oracle__pay, code: c{n}"), "2999-12-31").trim_end()
        )
        .unwrap();
    }
    let (code, _, too_many) = violations(&gate, Some(&many), &[]).await;
    assert_eq!(code, 1, "{too_many}");
    insta::assert_snapshot!("wrong_exemptions", format!("{err}\n{too_many}"));
    // An account that may write the file could explain everything.
    violations(&gate, Some("exemptions: []\n"), &[]).await;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(gate.path("exemptions.yaml"), open).unwrap();
    let words = [&WHERE[..], &["data", "--exemptions", "exemptions.yaml"]].concat();
    let (code, _, err) = run(&gate.setup, &words).await;
    assert!(
        code == 1 && err.contains("others than its owner may write this file"),
        "{err}"
    );
    let (code, _, err) = run(&Setup::new(), &["test", "--exemptions", "exemptions.yaml"]).await;
    assert!(code == 2 && err.contains("--violations"), "{err}");
}
