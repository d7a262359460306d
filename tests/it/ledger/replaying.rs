//! A recorded call, run once more against a sandbox: what comes back is compared, and nothing else
//! hears of it.

mod commands;
mod refusals;

use super::contents::write_private;
use crate::harness::gate::runs;
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Keeps what was sent and what came back.
const FULL: &str = ", audit: full";

/// A result with this text.
fn says(text: &str) -> Behaviour {
    Behaviour::Says(
        json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" }),
    )
}

/// A server with a tool that reads and one that changes something; both answer alike.
async fn server(behaviour: Behaviour) -> ToolServer {
    let script = Script::new().tool("look", behaviour.clone());
    script.tool("pay", behaviour).start().await
}

/// A call that was made, and the server that it was made at.
struct Made {
    own: ToolServer,
    setup: Setup,
    id: String,
}

fn policy(more: &str) -> String {
    let [look, pay] = [("bank__look", "read"), ("bank__pay", "write")]
        .map(|(tool, action)| format!("  {tool}: {}\n", contract(tool, action, more)));
    format!("contracts:\n{look}{pay}{}\n", undo("bank__pay"))
}

fn amount() -> Value {
    json!({ "amount": 5, "to": "c_1" })
}

/// A call of `tool`, with `audit` in its contract, answered like this; toolgate has ended.
async fn made(tool: &str, audit: &str, behaviour: Behaviour) -> Made {
    let own = server(behaviour).await;
    let setup = Setup::new().server("bank", &own).policy(&policy(audit));
    made_in(setup, own, tool, amount()).await
}

async fn made_in(setup: Setup, own: ToolServer, tool: &str, arguments: Value) -> Made {
    let gate = setup.start().await;
    gate.agent().call(tool, arguments).await;
    let entry = gate.entries(1).await.remove(0);
    let id = entry["action_id"].as_str().unwrap().to_owned();
    let setup = gate.stop().await;
    Made { own, setup, id }
}

impl Made {
    /// Replays the call with these words; nothing comes to its own server, or into the ledger.
    async fn replay(&self, words: &str) -> (i32, String, String) {
        let ledger = async || {
            runs(&self.setup, "ledger verify --config toolgate.yaml")
                .await
                .1
        };
        let (before, executions) = (ledger().await, self.own.executions().len());
        let requests = self.own.requests().len();
        let line = format!("ledger replay {} --config toolgate.yaml {words}", self.id);
        let replayed = runs(&self.setup, &line).await;
        assert_eq!(self.own.executions().len(), executions, "{words}");
        assert_eq!(self.own.requests().len(), requests, "{words}");
        assert_eq!(ledger().await, before, "{words}");
        replayed
    }

    /// The same with a sandbox that answers like this.
    async fn replay_at(&self, behaviour: Behaviour, words: &str) -> (i32, String, String) {
        let sandbox = server(behaviour).await;
        let words = format!("--sandbox {} {words}", sandbox.url());
        self.replay(words.trim()).await
    }
}

/// What is other in each run stands as a word.
fn plain(text: &str) -> String {
    let rows = [
        ("call [0-9a-f-]{36}", "call ID"),
        ("127.0.0.1:[0-9]+", "127.0.0.1:PORT"),
        ("policy [0-9a-f]{12}", "policy VERSION"),
        ("[0-9a-f]{64}", "SHA256"),
    ];
    rows.iter().fold(text.to_owned(), |text, (pattern, with)| {
        let pattern = regex::Regex::new(pattern).unwrap();
        pattern.replace_all(&text, *with).into_owned()
    })
}

/// 004-51: what comes back as it came is stable, by its hash; `_meta` may be another. The sandbox gets
/// the arguments, and nothing by which it could take the call for the first one.
#[tokio::test]
async fn a_stable_call_is_told_by_its_hash() {
    let made = made("bank__pay", FULL, says("paid")).await;
    let sandbox = server(says("paid")).await;
    let (status, out, err) = made.replay(&format!("--sandbox {}", sandbox.url())).await;
    assert_eq!(status, 0, "{out}{err}");
    insta::assert_snapshot!("stable", plain(&out));
    let (first, again) = (&made.own.executions()[0], &sandbox.executions()[0]);
    assert_eq!(sandbox.executions().len(), 1);
    assert_eq!(again.arguments, amount());
    assert!(
        first.body.contains("dev.toolgate/") && !first.fence.is_null(),
        "{}",
        first.body
    );
    assert!(
        !again.body.contains("dev.toolgate/") && again.fence.is_null(),
        "{}",
        again.body
    );
    let headers = again.headers.to_string();
    assert!(
        !headers.contains("idempotency") && !headers.contains(&made.id),
        "{headers}"
    );

    let other_meta = Behaviour::Says(json!({
        "_meta": { "at": 2 }, "resultType": "complete",
        "content": [{ "type": "text", "text": "paid", "_meta": { "at": 2 } }],
    }));
    let (status, out, err) = made.replay_at(other_meta, "").await;
    assert_eq!(status, 0, "{out}{err}");
    assert!(
        out.contains("=> stable but for `_meta` and spelling"),
        "{out}"
    );
}

/// 004-51: what comes back otherwise is shown as a diff, for people and for programs.
#[tokio::test]
async fn what_differs_is_shown() {
    let made = made("bank__pay", FULL, says("paid 5\nto c_1\non Monday")).await;
    let (status, out, err) = made.replay_at(says("paid 5\nto c_2\non Monday"), "").await;
    assert_eq!(status, 1, "{out}{err}");
    insta::assert_snapshot!("differs", plain(&out));
    let (status, out, err) = made.replay_at(says("no"), "--json --times 2").await;
    assert_eq!(status, 1, "{out}{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(said["outcome"], "differs", "{said}");
    assert_eq!(said["differences"][0]["pointer"], "/content/0/text");
    assert_eq!(said["differences"][0]["now"], "no");
    assert_eq!(
        (&said["sandbox_is_stable"], &said["action_id"]),
        (&json!(true), &json!(made.id))
    );
    assert_eq!(said["now"].as_array().unwrap().len(), 2);
}

/// 004-51: of a sandbox that answers differently each time that is said: then nothing is the call's.
#[tokio::test]
async fn a_sandbox_that_is_not_stable_is_told() {
    let made = made("bank__look", FULL, says("0")).await;
    let sandbox = ScriptedServer::with(vec![tool("look")]).await;
    let times = AtomicUsize::new(0);
    sandbox.answers(move |_| {
        let text = times.fetch_add(1, Ordering::SeqCst).to_string();
        Reply::Result(
            json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" }),
        )
    });
    let words = format!("--sandbox {} --times 3", sandbox.url());
    let (status, out, err) = made.replay(&words).await;
    assert_eq!((status, sandbox.executions()), (1, 3), "{out}{err}");
    assert!(
        out.contains("the sandbox itself answered differently, 3 times"),
        "{out}"
    );
}

/// 004-51: errors of tools and of the protocol are answers, too: equal ones are stable, and one in
/// place of a result is a difference.
#[tokio::test]
async fn errors_are_compared() {
    let tool_error = || {
        let content = json!([{ "type": "text", "text": "no money" }]);
        Behaviour::Says(json!({ "content": content, "isError": true, "resultType": "complete" }))
    };
    for (recorded, now, status, words) in [
        (
            tool_error(),
            tool_error(),
            0,
            "now:      a result with isError",
        ),
        (tool_error(), says("no money"), 1, "@@ /isError\n-true\n"),
        (says("paid"), tool_error(), 1, "@@ /isError\n+true\n"),
        (
            Behaviour::Error(-32602),
            Behaviour::Error(-32602),
            0,
            "now:      a JSON-RPC error",
        ),
        (
            Behaviour::Error(-32602),
            Behaviour::Error(-32603),
            1,
            "@@ /code\n--32602\n+-32603\n",
        ),
        (
            says("paid"),
            Behaviour::Error(-32602),
            1,
            "recorded: a result,",
        ),
    ] {
        let made = made("bank__look", FULL, recorded).await;
        let (code, out, err) = made.replay_at(now, "").await;
        assert_eq!(code, status, "{out}{err}");
        assert!(out.contains(words), "{words}\n{out}");
    }
}

/// 004-51: where the ledger has only the hash of the answer, that is compared, and there is no diff.
#[tokio::test]
async fn hashes_are_compared_where_nothing_else_was_kept() {
    for (audit, given) in [
        (", audit: [amount, to]", ""),
        (", audit: digest", r#"--arguments {"to":"c_1","amount":5}"#),
    ] {
        let made = made("bank__look", audit, says("17 degrees")).await;
        let (status, out, err) = made.replay_at(says("17 degrees"), given).await;
        assert_eq!(status, 0, "{out}{err}");
        let (status, out, err) = made.replay_at(says("18 degrees"), given).await;
        assert_eq!(status, 1, "{out}{err}");
        assert!(
            out.contains("=> differs; where is not known") && !out.contains("@@"),
            "{out}"
        );
        assert_eq!(out.matches("sha256 ").count(), 3, "{out}");
    }
}

/// 004-51: what is kept under a key is replayed with the configuration's key, or one that is given.
#[tokio::test]
async fn encrypted_contents_are_replayed_with_their_key() {
    let own = server(says("paid")).await;
    let keyed = "ledger: { content: { key: { file: one.key } } }\n";
    let setup = Setup::new()
        .server("bank", &own)
        .policy(&policy(FULL))
        .more(keyed);
    for (name, byte) in [("one.key", "1a"), ("two.key", "2b")] {
        write_private(&setup.directory().join(name), &byte.repeat(32));
    }
    let made = made_in(setup, own, "bank__pay", amount()).await;
    for (words, status) in [("", 0), ("--key one.key", 0), ("--key two.key", 2)] {
        let (code, out, err) = made.replay_at(says("paid"), words).await;
        assert_eq!(code, status, "{words}: {out}{err}");
        let (code, out, err) = made.replay_at(says("unpaid"), words).await;
        assert_eq!(code, status.max(1), "{words}: {out}{err}");
        assert_eq!(out.contains("-\"paid\"\n+\"unpaid\""), status == 0, "{out}");
    }
}

/// 004-51: a dry run judges the call again and says what a sandbox would get; nothing is sent.
#[tokio::test]
async fn a_dry_run_sends_nothing() {
    let made = made("bank__pay", FULL, says("paid")).await;
    for words in [
        "--dry-run",
        "--dry-run --arguments {\"to\":\"c_1\",\"amount\":5}",
    ] {
        let (status, out, err) = made.replay(words).await;
        assert_eq!(status, 0, "{out}{err}");
        insta::assert_snapshot!("dry_run", plain(&out));
    }
    let (status, out, err) = made.replay("--json").await;
    assert_eq!(status, 0, "{out}{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(said["outcome"], "same_verdict", "{said}");
    assert_eq!(said["would_send"]["tool"], "pay", "{said}");
    assert_eq!(
        said["would_send"]["params_hash"],
        said["would_send"]["sent_hash"]
    );
}
