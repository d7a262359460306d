//! What the ledger keeps of arguments and results, where a contract's `audit` says so.

use crate::harness::answer::code;
use crate::harness::gate::{Gate, run, runs};
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use serde_json::{Value, json};
use std::path::Path;

/// Stands in the arguments, and in what the server answers.
pub(super) const SENT_CANARY: &str = "canary-sent-77ab";
pub(super) const ANSWERED_CANARY: &str = "canary-answered-91cd";
const CARD: &str = "4111111111111111";

async fn stage(audit: &str) -> (ScriptedServer, Gate) {
    let (server, setup) = staged(audit).await;
    (server, setup.start().await)
}

pub(super) async fn staged(audit: &str) -> (ScriptedServer, Setup) {
    let server = ScriptedServer::with(["look", "note"].map(tool).to_vec()).await;
    server.answers(|_| {
        let text = format!("{ANSWERED_CANARY} {CARD}");
        Reply::Result(
            json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" }),
        )
    });
    let shaped = "results: { redact: [ { pattern: '[0-9]{16}', with: '[card]' } ] }";
    let policy = format!(
        "contracts:
  bank__look: {{ purpose: a test, actions: [read], secrets: [], audit: {audit}, {shaped} }}
  bank__note: {{ purpose: a test, actions: [write], permission: anyone, side_effect: {{ writes: notes, rollback: {{ manual: by hand }} }}, secrets: [], audit: {audit}, {shaped}, arguments: {{ properties: {{ note: {{}}, amount: {{}} }} }}, rules: [ {{ code: too_much, when: 'has(arguments.amount) && arguments.amount > 9' }} ] }}
"
    );
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", server.url()))
        .policy(&policy);
    (server, setup)
}

/// Whether `canary` stands in a file below `place`.
pub(super) fn lies_in(place: &Path, canary: &str) -> bool {
    let mut stack = vec![place.to_owned()];
    while let Some(path) = stack.pop() {
        if path.is_dir() {
            stack.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else {
            let bytes = std::fs::read(&path).unwrap();
            if bytes
                .windows(canary.len())
                .any(|window| window == canary.as_bytes())
            {
                return true;
            }
        }
    }
    false
}

async fn contents(gate: &Gate, action: &Value) -> Value {
    let id = action.as_str().unwrap();
    let show = [
        "ledger",
        "show",
        id,
        "--json",
        "--contents",
        "--data",
        "data",
    ];
    let (status, shown, err) = run(&gate.setup, &show).await;
    assert_eq!(status, 0, "{err}");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown.get("contents").cloned().unwrap_or_default()
}

/// 003-53, 003-71, 003-95: with `audit: full` the ledger has what was sent and what its agent read, of reads
/// and writes; what was redacted for the agent is on no disk, and nothing is shown unasked.
#[tokio::test]
async fn full_keeps_what_was_sent_and_read() {
    let (_server, gate) = stage("full").await;
    let agent = gate.agent();
    for tool in ["bank__look", "bank__note"] {
        let sent = json!({ "note": SENT_CANARY, "amount": 2 });
        assert_eq!(code(&agent.call(tool, sent).await), None);
    }
    for entry in gate.entries(2).await {
        let kept = contents(&gate, &entry["action_id"]).await;
        assert_eq!(kept["arguments"]["value"]["note"], SENT_CANARY, "{kept}");
        assert_eq!(kept["arguments"]["form"], "full");
        let read = kept["result"]["value"]["content"][0]["text"]
            .as_str()
            .unwrap();
        assert_eq!(read, format!("{ANSWERED_CANARY} [card]"), "{kept}");
        assert!(entry.get("audit").is_none(), "{entry}");
        let id = entry["action_id"].as_str().unwrap();
        let (_, plain, _) = runs(&gate.setup, &format!("ledger show {id} --data data")).await;
        assert!(plain.contains("--contents shows them"), "{plain}");
        assert!(!plain.contains(SENT_CANARY), "{plain}");
        let (_, told, _) = runs(
            &gate.setup,
            &format!("ledger show {id} --contents --data data"),
        )
        .await;
        insta::assert_snapshot!(
            "full_contents",
            told.lines()
                .filter(|line| line.contains("(full)"))
                .collect::<Vec<_>>()
                .join("\n")
        );
    }
    let (_, exported, _) = runs(&gate.setup, "ledger export --data data").await;
    assert!(!exported.contains(SENT_CANARY) && !exported.contains(ANSWERED_CANARY));
    let (_, exported, _) = runs(&gate.setup, "ledger export --contents --data data").await;
    let lines = exported.lines().filter(|line| line.contains("\"content\""));
    assert_eq!(lines.count(), 4, "{exported}");
    assert!(exported.contains(SENT_CANARY) && exported.contains(ANSWERED_CANARY));
    let setup = gate.stop().await;
    assert!(!lies_in(&setup.directory().join("data"), CARD));
    let (status, said, err) = runs(&setup, "ledger verify --data data").await;
    assert_eq!(status, 0, "{said}{err}");
}

/// 003-53, 003-95: `redacted` keeps names and shape, and no text or number but of arguments that are named;
/// `digest` keeps nothing else than an entry does.
#[tokio::test]
async fn redacted_and_digest_keep_no_text() {
    let sent = json!({ "note": SENT_CANARY, "amount": 2, "list": ["x"], "id": "c-7" });
    for (audit, kept) in [
        ("digest", Value::Null),
        (
            "{ keep: redacted, plain: [id] }",
            json!({ "note": "[text, 16 bytes]", "amount": "[number]", "list": ["[text, 1 bytes]"], "id": "c-7" }),
        ),
    ] {
        let (_server, gate) = stage(audit).await;
        // What a write was answered with is kept for the same call again, whatever is audited.
        let read = gate.agent().call("bank__look", sent.clone()).await;
        assert_eq!(code(&read), None, "{read}");
        let entry = gate.entries(1).await.remove(0);
        let contents = contents(&gate, &entry["action_id"]).await;
        assert_eq!(contents["arguments"]["value"], kept, "{contents}");
        let setup = gate.stop().await;
        let data = setup.directory().join("data");
        assert!(
            !lies_in(&data, SENT_CANARY) && !lies_in(&data, ANSWERED_CANARY),
            "{audit}"
        );
    }
}

/// 003-71: what was sent is in the ledger before it is sent: a kill while the server works loses the
/// result alone. What was refused has its arguments, unless they are long.
#[tokio::test]
async fn what_was_sent_outlives_a_kill() {
    let (server, mut gate) = stage("full").await;
    let refused = gate
        .agent()
        .call("bank__note", json!({ "amount": 10 }))
        .await;
    assert_eq!(code(&refused).as_deref(), Some("too_much"));
    let long = json!({ "amount": 10, "note": "x".repeat(5000) });
    gate.agent().call("bank__note", long).await;
    let refused = gate.entries(2).await;
    let kept = contents(&gate, &refused[0]["action_id"]).await;
    assert_eq!(kept["arguments"]["value"], json!({ "amount": 10 }));
    let kept = contents(&gate, &refused[1]["action_id"]).await;
    assert_eq!(kept["arguments"]["value"], Value::Null);
    assert!(kept["arguments"]["bytes"].as_u64().unwrap() > 5000);

    let _unanswered = server.holds("tools/call");
    let agent = gate.agent();
    let call = tokio::spawn(async move {
        agent
            .call("bank__note", json!({ "note": SENT_CANARY }))
            .await
    });
    server
        .sees("the call", |seen| seen.method() == "tools/call")
        .await;
    gate.kill().await;
    call.abort();
    let gate = gate.setup.clone().start().await;
    let (_, listed, _) = runs(&gate.setup, "ledger list --json --data data").await;
    let died = listed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|entry| entry["outcome"] == "unknown")
        .unwrap();
    let kept = contents(&gate, &died["action_id"]).await;
    assert_eq!(kept["arguments"]["value"], json!({ "note": SENT_CANARY }));
    assert!(kept.get("result").is_none(), "{kept}");
}

/// 003-94: what was kept is judged again without being given, and a regression test is made of it.
#[tokio::test]
async fn kept_arguments_are_judged_again() {
    let (_server, gate) = stage("full").await;
    let agent = gate.agent();
    for amount in [2, 10] {
        agent.call("bank__note", json!({ "amount": amount })).await;
    }
    gate.entries(2).await;
    let setup = gate.stop().await;
    let replay = "test --replay ledger --config toolgate.yaml";
    let (status, said, err) = runs(&setup, replay).await;
    assert_eq!(status, 0, "{said}{err}");
    assert!(!said.contains("no arguments"), "{said}");
    let stricter = std::fs::read_to_string(setup.directory().join("policy.yaml")).unwrap();
    std::fs::write(
        setup.directory().join("policy.yaml"),
        stricter.replace("amount > 9", "amount > 1"),
    )
    .unwrap();
    let (status, said, _) = runs(&setup, replay).await;
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("too_much"), "{said}");
}

/// 003-95, threat-model §3G G8: with a key nothing that is kept lies in the open; only the key shows it, also
/// once another has taken its place, and what was kept is judged again with it. Without its key
/// toolgate does not start.
#[tokio::test]
async fn a_key_encrypts_what_is_kept() {
    let content = |keys: &str| format!("ledger: {{ content: {{ {keys} }} }}\n");
    let (_server, setup) = staged("full").await;
    let setup = setup.more(&content("key: { file: one.key }"));
    setup.write();
    let (status, said, err) = runs(&setup, "serve --config toolgate.yaml").await;
    assert_eq!(status, 1, "{said}{err}");
    assert!(err.contains("ledger.content.key"), "{err}");
    for (name, byte) in [("one.key", "1a"), ("two.key", "2b")] {
        write_private(&setup.directory().join(name), &byte.repeat(32));
    }
    let gate = setup.start().await;
    let sent = json!({ "note": SENT_CANARY, "amount": 2 });
    assert_eq!(
        code(&gate.agent().call("bank__look", sent.clone()).await),
        None
    );
    let id = gate.entries(1).await.remove(0)["action_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let setup = gate.stop().await;
    let data = setup.directory().join("data");
    assert!(!lies_in(&data, SENT_CANARY) && !lies_in(&data, ANSWERED_CANARY));
    let setup = setup.instead(
        "content: { key: { file: one.key } }",
        "content: { key: { file: two.key }, previous: [ { file: one.key } ] }",
    );
    setup.write();
    let show = format!("ledger show {id} --contents");
    for (more, is_shown) in [
        ("--config toolgate.yaml", true),
        ("--data data --key one.key", true),
        ("--data data --key two.key", false),
        ("--data data", false),
    ] {
        let (status, shown, err) = runs(&setup, &format!("{show} {more}")).await;
        assert_eq!(status, 0, "{err}");
        assert_eq!(shown.contains(SENT_CANARY), is_shown, "{more}: {shown}");
        assert_eq!(
            shown.contains("which is not given"),
            !is_shown,
            "{more}: {shown}"
        );
    }
    let (status, said, err) = runs(&setup, "test --replay ledger --config toolgate.yaml").await;
    assert_eq!(status, 0, "{said}{err}");
    assert!(!said.contains("no arguments"), "{said}");
    let (status, exported, err) =
        runs(&setup, "ledger export --contents --data data --key one.key").await;
    assert!(
        status == 0 && exported.contains(SENT_CANARY),
        "{exported}{err}"
    );
}

/// Issue 15 `suggest`, 003-53: in observe mode the configuration has contents kept of tools without a
/// contract, and of those whose contract says nothing of it; what a contract says stands, and in
/// enforce mode nothing else counts.
#[tokio::test]
async fn what_is_observed_is_kept_where_no_contract_says_otherwise() {
    for (mode, observed, kept) in [
        ("observe", "full", [Some("full"), Some("full"), None]),
        (
            "observe",
            "redacted",
            [Some("redacted"), Some("redacted"), None],
        ),
        ("observe", "digest", [None, None, None]),
        ("enforce", "full", [None, None, None]),
    ] {
        let tools = ["bare", "silent", "hashed"];
        let server = ScriptedServer::with(tools.map(tool).to_vec()).await;
        let gate = Setup::new()
            .server_with("bank", &format!("url: \"{}\"", server.url()))
            .mode(mode)
            .policy(
                "contracts:
  bank__silent: { purpose: a test, actions: [read], secrets: [] }
  bank__hashed: { purpose: a test, actions: [read], secrets: [], audit: digest }
layers: { global: { deny: [bank__hashed] } }
",
            )
            .more(&format!(
                "ledger: {{ content: {{ observed: {observed} }} }}"
            ))
            .start()
            .await;
        for (index, (tool, form)) in tools.iter().zip(kept).enumerate() {
            let sent = json!({ "note": SENT_CANARY });
            gate.agent().call(&format!("bank__{tool}"), sent).await;
            let entry = gate.entries(index + 1).await.pop().unwrap();
            let kept = contents(&gate, &entry["action_id"]).await;
            for part in ["arguments", "result"] {
                assert_eq!(
                    kept[part]["form"].as_str(),
                    form,
                    "{mode} {observed} {tool} {part}: {kept}"
                );
            }
        }
        let setup = gate.stop().await;
        let lies = lies_in(&setup.directory().join("data"), SENT_CANARY);
        assert_eq!(lies, kept[0] == Some("full"), "{mode} {observed}");
    }
}

pub(super) fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
