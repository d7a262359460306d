//! What people read who look after a running toolgate, whole: what is well, what was called, what
//! is open, what was changed.

mod newer;
mod widths;

use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use serde_json::{Value, json};
use std::fmt::Write as _;

const TOKEN: &str = "token-of-the-bot-of-tenant-one";
const CALLERS: &str =
    "  - { agent: bot, token: token-of-the-bot-of-tenant-one, tenant: t_001, roles: [teller] }\n";
const POLICY: &str = "contracts:
  bank__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  bank__balance: { purpose: a test, actions: [read], secrets: [] }
  bank__pay: { purpose: a test, actions: [write], secrets: [], side_effect: { writes: test, rollback: { tool: bank__undo } }, permission: { tenant: /tenant_id }, arguments: { properties: { amount: { type: integer } } } }
  bank__lose: { purpose: a test, actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { tool: bank__undo } } }
  bank__gone: { purpose: a test, actions: [read], secrets: [] }
";

/// What differs from run to run has one look.
fn masked(text: &str, setup: &Setup) -> String {
    let text = text.replace(&setup.directory().display().to_string(), "DIRECTORY");
    let rows = [
        (
            "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z +",
            "2026-11-21T10:00:00.000Z  ",
        ),
        ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ACTION_ID"),
        ("127.0.0.1:[0-9]+", "127.0.0.1:PORT"),
        ("[0-9a-f]{64}", "SHA256"),
        ("policy [0-9a-f]{12}", "policy VERSION"),
        (r"(?m) +[0-9]+\.[0-9]$", "  MS"),
        // As wide as the slowest call was.
        (r"(?m) +MS$", "  MS"),
        (r"[a-z][a-z0-9_-]* \(uid [0-9]+\) *", "USER "),
        ("WHO +", "WHO  "),
        ("[0-9]+ batches, ", "N batches, "),
        ("[0-9]+ bytes", "N bytes"),
        (r"[0-9.]+ [KMG]iB are free", "N GiB are free"),
    ];
    rows.iter().fold(text, |text, (pattern, with)| {
        regex::Regex::new(pattern)
            .unwrap()
            .replace_all(&text, *with)
            .into_owned()
    })
}

/// What an operator types; `~` is a blank within a word.
const SCREENS: &str = r#"
doctor
ledger list
ledger list --code tenant_mismatch
ledger verify
ledger replay REFUSED --arguments {"tenant_id":"t_002","amount":1}
calls list
calls resolve UNKNOWN --applied --why seen~in~the~books
calls list
disable bank__pay --why it~pays~too~much
disable
enable bank__pay --why mended
disable
pins verify
pins approve bank__balance --config pinned.yaml
pins approve --all --config pinned.yaml
pins approve bank__blance --config pinned.yaml
"#;

/// A toolgate that has run, with the ledger entries of its calls: one that passed, one that was answered
/// again, one that was refused, one of which the outcome is not known.
async fn stage() -> (ToolServer, Gate, Vec<Value>) {
    let server = Script::new()
        .tool("balance", Behaviour::Answers)
        .tool("pay", Behaviour::Answers)
        .tool("lose", Behaviour::HangsUp)
        .start()
        .await;
    let operators = "tokens: [ { name: ann, token: token-of-the-operator-ann, roles: [resolver, switch, auditor] } ]";
    let setup = Setup::new()
        .server("bank", &server)
        .callers(CALLERS)
        .operators(operators)
        .policy(POLICY);
    let mut gate = setup.start().await;
    let agent = gate.agent().token(TOKEN);
    let call = async |tool: &str, arguments| {
        agent
            .modern_call(&format!("bank__{tool}"), arguments)
            .await
            .refusal()
    };
    let pay = |tenant: &str| json!({ "tenant_id": tenant, "amount": 1 });
    for (tool, arguments, refusal) in [
        ("balance", json!({}), ""),
        ("pay", pay("t_001"), ""),
        ("pay", pay("t_001"), ""),
        ("pay", pay("t_002"), "tenant_mismatch"),
        ("lose", json!({}), "outcome_unknown"),
    ] {
        assert_eq!(call(tool, arguments).await, refusal, "{tool}");
    }
    let entries = gate.entries(5).await;
    gate.terminate();
    assert!(gate.wait().await.success());
    let Gate { setup, .. } = &gate;
    let written = std::fs::read_to_string(setup.directory().join("toolgate.yaml")).unwrap();
    std::fs::write(
        setup.directory().join("pinned.yaml"),
        format!("pins: toolgate.pins.yaml\n{written}"),
    )
    .unwrap();
    (server, gate, entries)
}

/// 003-86, guarantees §4, 003-106: `doctor`, `ledger` and `calls`, each with something to tell.
#[tokio::test]
async fn screens_of_operators() {
    let (_server, gate, entries) = stage().await;
    insta::assert_snapshot!(screens(&gate.setup, &entries, SCREENS).await);
}

/// What an operator types, and reads.
async fn screens(setup: &Setup, entries: &[Value], lines: &str) -> String {
    let id = |index: usize| entries[index]["action_id"].as_str().unwrap();
    let config = ["--config", "toolgate.yaml"];
    let mut screens = String::new();
    for line in lines.trim().lines() {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('~', " ")).collect();
        let words = words.iter().map(|word| match word.as_str() {
            "REFUSED" => id(3),
            "UNKNOWN" => id(4),
            word => word,
        });
        let words: Vec<&str> = words.collect();
        let is_made = ["--config", "init"].iter().any(|word| words.contains(word));
        let rest = if is_made { &[][..] } else { &config };
        let output = setup.run(&[&words[..], rest].concat()).await;
        let text = |bytes| masked(&String::from_utf8(bytes).unwrap(), setup);
        let (code, shown) = (
            output.status.code().unwrap(),
            masked(&words.join(" "), setup),
        );
        let (out, err) = (text(output.stdout), text(output.stderr));
        writeln!(screens, "$ toolgate {shown}  → {code}\n{out}{err}").unwrap();
    }
    screens
}
