//! `toolgate suggest`: from calls that were observed to contracts, bounds of arguments and a test pack,
//! which let through what was recorded and refuse what is outside.

use crate::harness::answer::code;
use crate::harness::gate::{Gate, run, runs};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

mod unread;

const SECRET: &str = "ghp_canary0123456789abcdef";
const PASSWORD: &str = "canary-of-a-password";
const CALLERS: &str = "
  - { agent: ann, token: token-of-the-agent-ann, tenant: t_1, roles: [reader] }
  - { agent: bob, token: token-of-the-agent-bob }
";
const KEPT: &str = "ledger: { content: { observed: full } }";

async fn files() -> ToolServer {
    let text = json!({ "type": "string" });
    let read = json!({ "type": "object", "required": ["path"], "properties": {
        "path": text, "lines": { "type": "integer" }, "follow": { "type": "boolean" } } });
    let add = json!({ "type": "object", "additionalProperties": false, "properties": {
        "note": text, "kind": text, "token": text, "login": { "type": "object" }, "tags": { "type": "array", "items": text } } });
    Script::new()
        .definition(
            json!({ "name": "read", "description": "Reads a file.", "inputSchema": read, "annotations": { "readOnlyHint": true } }),
            Behaviour::Answers,
        )
        .definition(
            json!({ "name": "add", "description": "Adds a note.", "inputSchema": add, "annotations": { "destructiveHint": false } }),
            Behaviour::Answers,
        )
        .tool("drop-1.x", Behaviour::Answers)
        .tool("fails", Behaviour::Says(json!({ "content": [], "isError": true })))
        .tool("never", Behaviour::Answers)
        .start()
        .await
}

fn observing(server: &ToolServer) -> Setup {
    Setup::new()
        .server("files", server)
        .mode("observe")
        .callers(CALLERS)
        .policy("layers: { agent: { bob: { deny: [files__add] } } }\n")
}

/// What the agents did: agent, tool, arguments.
fn recorded() -> Vec<(&'static str, &'static str, Value)> {
    let mut calls = Vec::new();
    for (index, name) in ["a.txt", "deep/b c.txt", ".git/x", "a.txt", "d", "e"]
        .iter()
        .enumerate()
    {
        let agent = ["ann", "bob"][index % 2];
        let path = format!("/srv/docs/{name}");
        calls.push((
            agent,
            "read",
            json!({ "path": path, "lines": 3 + 17 * index }),
        ));
        let kind = ["memo", "to: do #1"][index % 2];
        calls.push((
            "ann",
            "add",
            json!({ "note": format!("- \"{index}\": {{x}}"), "kind": kind, "token": SECRET, "login": { "password": PASSWORD }, "tags": ["x"] }),
        ));
    }
    calls.push(("bob", "drop-1.x", json!({ "yes": true, "a: #b": "~" })));
    calls
}

/// What nothing may be learned from: a tool that fails, a call that a layer would refuse, and what the
/// tool does not take.
fn unlearned() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("ann", "fails", json!({ "path": "/canary" })),
        ("bob", "add", json!({ "note": "canary", "kind": "canary" })),
        (
            "ann",
            "read",
            json!({ "path": "/srv/docs/a", "canary": true }),
        ),
    ]
}

async fn call(gate: &Gate, agent: &str, tool: &str, arguments: &Value) -> Option<String> {
    let agent = gate.agent().token(&format!("token-of-the-agent-{agent}"));
    let tool = format!("files__{tool}");
    code(&agent.call_anew(&tool, arguments.clone()).await)
}

/// Observes all calls, and stops.
async fn observed(setup: Setup) -> Setup {
    let gate = setup.start().await;
    let calls = [recorded(), unlearned()].concat();
    for (agent, tool, arguments) in &calls {
        assert_eq!(call(&gate, agent, tool, arguments).await, None, "{tool}");
    }
    gate.entries(calls.len()).await;
    gate.stop().await
}

fn drafts(setup: &Setup, place: &str) -> BTreeMap<&'static str, String> {
    let read = |name| {
        let path = setup.directory().join(place).join(name);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        (name, fs::read_to_string(path).unwrap())
    };
    ["files.yaml", "tests/files.yaml"].map(read).into()
}

/// Without the ids of calls, which differ.
fn quiet(text: &str) -> String {
    let id = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    id.replace_all(text, "ACTION_ID").into_owned()
}

/// Issue 15 `suggest`, 003-114: observed calls become contracts with bounds and a pack, without a
/// secret; what would have been refused, failed or does not fit teaches nothing. `check` and `test` accept
/// them; enforced, every recorded call passes, and what is outside is refused before it is sent.
#[tokio::test]
async fn what_was_observed_passes_once_it_is_enforced_and_nothing_else_does() {
    let server = files().await;
    let setup = observed(observing(&server).more(KEPT)).await;
    let (exit, said, wrong) = runs(&setup, "suggest").await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    insta::assert_snapshot!("suggested", said);
    let first = drafts(&setup, "suggested");
    for (name, text) in &first {
        assert!(!text.contains("canary"), "{name}: {text}");
        assert!(!said.contains("canary"));
        insta::assert_snapshot!(name.replace('/', "_"), quiet(text));
    }

    let (exit, _, wrong) = runs(&setup, "suggest").await;
    assert_eq!(exit, 1);
    assert!(
        wrong.contains("suggested/files.yaml is there already"),
        "{wrong}"
    );
    fs::write(setup.directory().join("suggested/files.yaml"), "mine").unwrap();
    let older = ["suggested/files.2.yaml", "suggested/tests/files.2.yaml"];
    let older = older.map(|name| setup.directory().join(name));
    for path in &older {
        fs::write(path, &first["files.yaml"]).unwrap();
    }
    let (exit, said, wrong) = runs(&setup, "suggest --force").await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    assert!(older.iter().all(|path| !path.exists()), "{said}");
    assert!(
        said.contains("removed  suggested/files.2.yaml: not drafted any more"),
        "{said}"
    );
    assert_eq!(
        drafts(&setup, "suggested"),
        first,
        "the same calls give the same drafts"
    );

    enforced(&setup, &server).await;
}

/// The drafts in force: what was recorded passes, and is all that does.
async fn enforced(setup: &Setup, server: &ToolServer) {
    let enforcing = Setup::clone(setup)
        .policy("")
        .mode("enforce")
        .more("policies: [suggested]");
    let executed = server.executions().len();
    let gate = enforcing.start().await;
    for line in ["check", "check --connect", "test", "test suggested/tests"] {
        let (exit, said, wrong) = runs(&gate.setup, line).await;
        assert_eq!(exit, 0, "{line}: {said}{wrong}");
    }
    let passing: Vec<_> = recorded()
        .into_iter()
        .filter(|(_, tool, _)| *tool != "drop-1.x")
        .collect();
    for (agent, tool, arguments) in &passing {
        assert_eq!(
            call(&gate, agent, tool, arguments).await,
            None,
            "{tool} {arguments}"
        );
    }
    assert_eq!(server.executions().len(), executed + passing.len());
    for (tool, arguments) in [
        ("read", json!({ "path": "/srv/docs/../secrets" })),
        ("read", json!({ "path": "/etc/passwd" })),
        ("read", json!({ "path": "/srv/docs/a.txt", "lines": 5000 })),
        ("read", json!({ "path": "/srv/docs/a.txt", "follow": true })),
        ("add", json!({ "kind": "other" })),
        ("drop-1.x", json!({ "other": true })),
    ] {
        let refused = call(&gate, "ann", tool, &arguments).await;
        assert_eq!(
            refused.as_deref(),
            Some("schema_invalid"),
            "{tool} {arguments}"
        );
    }
    for tool in ["never", "fails"] {
        let refused = call(&gate, "ann", tool, &json!({})).await;
        assert_eq!(refused.as_deref(), Some("tool_not_allowlisted"));
    }
    assert_eq!(server.executions().len(), executed + passing.len());
}

/// Issue 15 `suggest`: where the ledger has no arguments, or only their shape, or cannot be decrypted,
/// nothing is drafted, and it is said what is missing; with the key it is.
#[tokio::test]
async fn without_arguments_nothing_is_drafted() {
    let server = files().await;
    for (kept, line, is_drafted) in [
        ("", "suggest", false),
        (
            "ledger: { content: { observed: redacted } }",
            "suggest",
            false,
        ),
        (
            "ledger: { content: { observed: full, key: { env: CONTENT_KEY } } }",
            "suggest --data ../data --out out",
            false,
        ),
        (
            "ledger: { content: { observed: full, key: { env: CONTENT_KEY } } }",
            "suggest",
            true,
        ),
    ] {
        let setup = observing(&server).environment("CONTENT_KEY", &"1a".repeat(32));
        let setup = observed(setup.more(kept)).await;
        let (exit, wrong) = if line == "suggest" {
            let (exit, _, wrong) = run(&setup, &[line]).await;
            (exit, wrong)
        } else {
            // Elsewhere no configuration is found, and so no key.
            let elsewhere = setup.directory().join("elsewhere");
            fs::create_dir(&elsewhere).unwrap();
            let mut command = setup.command(&line.split(' ').collect::<Vec<_>>());
            let output = command.current_dir(elsewhere).output().await.unwrap();
            let wrong = String::from_utf8(output.stderr).unwrap();
            (output.status.code().unwrap(), wrong)
        };
        assert_eq!(exit == 0, is_drafted, "{kept}: {wrong}");
        assert_eq!(
            wrong.contains("observed: full"),
            !is_drafted,
            "{kept}: {wrong}"
        );
        assert_eq!(setup.directory().join("suggested").exists(), is_drafted);
    }
}

/// Tools that take any object, a path behind a reference, commands and addresses.
async fn odd() -> ToolServer {
    let text = json!({ "type": "string" });
    let properties = json!({ "note": text, "meta": { "type": "object" }, "any": {}, "command": text, "url": text,
        "env": { "type": "array", "items": { "type": "object" } }, "argv": { "type": "array", "items": text }, "to": { "$ref": "#/$defs/to" } });
    let schema = json!({ "type": "object", "properties": properties, "$defs": { "to": { "type": "object", "properties": { "id": text } } } });
    ["open", "deep", "runs", "fetches"]
        .into_iter()
        .fold(Script::new(), |script, name| {
            let definition = json!({ "name": name, "inputSchema": schema, "annotations": { "readOnlyHint": true } });
            script.definition(definition, Behaviour::Answers)
        })
        .start()
        .await
}

/// What agents do that no schema names, and with secrets where no name says so.
fn odd_calls() -> Vec<(&'static str, Value)> {
    let deep = (0..50).fold(json!({}), |below, _| json!({ "x": below }));
    let mut calls = vec![
        (
            "open",
            json!({ "note": "hi", "meta": { "title": "x", "done": true } }),
        ),
        ("open", json!({ "meta": { "title": "y" } })),
        (
            "open",
            json!({ "meta": { "title": "z" }, "env": [{ "kind": "x", "n": 1 }] }),
        ),
        (
            "open",
            json!({ "meta": { "title": "z", "prio": 3 }, "to": { "id": "x" } }),
        ),
        ("deep", json!({ "any": deep })),
        (
            "runs",
            json!({ "argv": ["--password", "canary"], "note": "word ".repeat(2_000) }),
        ),
        (
            "runs",
            json!({ "env": [{ "key": "API_KEY", "value": "canary" }] }),
        ),
        (
            "runs",
            json!({ "url": "https://db.example/x?password=canary" }),
        ),
        (
            "runs",
            json!({ "argv": ["-H", "Authorization: Basic Y2FuYXJ5OnNlc2FtZQ=="] }),
        ),
    ];
    for index in 0..5 {
        calls.push((
            "runs",
            json!({ "command": "PGPASSWORD=canary psql -h db", "note": index.to_string() }),
        ));
        let site = format!("https://{}{index}.example/x", "long-".repeat(20));
        calls.push(("fetches", json!({ "url": site })));
    }
    calls
}

/// Issue 15 `suggest`: open objects, odd calls and secrets without a telling name keep nothing from being
/// drafted, stand in no draft, and pass once it is enforced.
#[tokio::test]
async fn odd_calls_pass_once_they_are_enforced_and_their_secrets_are_not_drafted() {
    let server = odd().await;
    let gate = observing(&server).policy("").more(KEPT).start().await;
    for (tool, arguments) in &odd_calls() {
        assert_eq!(call(&gate, "ann", tool, arguments).await, None, "{tool}");
    }
    let wrong = json!({ "to": { "id": "x", "more": 1 } });
    assert_eq!(call(&gate, "ann", "open", &wrong).await, None);
    gate.entries(odd_calls().len() + 1).await;
    let setup = gate.stop().await;
    let (exit, said, wrong) = runs(&setup, "suggest").await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{said}");
    assert!(
        said.contains("left out 1 call") && !said.contains("defect"),
        "{said}"
    );
    for (name, text) in drafts(&setup, "suggested") {
        for secret in ["canary", "Y2FuYXJ5"] {
            assert!(!text.contains(secret), "{name}: {text}");
        }
    }
    let gate = setup
        .policy("")
        .mode("enforce")
        .more("policies: [suggested]")
        .start()
        .await;
    for line in ["check --connect", "test suggested/tests"] {
        let (exit, said, wrong) = runs(&gate.setup, line).await;
        assert_eq!(exit, 0, "{line}: {said}{wrong}");
    }
    for (tool, arguments) in &odd_calls() {
        assert_eq!(
            call(&gate, "ann", tool, arguments).await,
            None,
            "{tool} {arguments}"
        );
    }
    let other = json!({ "meta": { "title": "x", "other": 1 } });
    let refused = call(&gate, "ann", "open", &other).await;
    assert_eq!(refused.as_deref(), Some("schema_invalid"));
}

/// Issue 17 D8: what was observed before any agent had a name is drafted as what the agent did that it
/// was, and the samples are its own.
#[tokio::test]
async fn what_had_no_name_is_drafted_for_an_agent() {
    let server = files().await;
    let setup = Setup::new().server("files", &server).mode("observe");
    let gate = setup.more(KEPT).start().await;
    let arguments = json!({ "path": "/srv/docs/a.txt", "lines": 3 });
    let answer = gate.agent().call_anew("files__read", arguments).await;
    assert_eq!(code(&answer), None);
    gate.entries(1).await;
    let setup = gate.stop().await.callers(CALLERS);
    setup.write();
    let (exit, said, wrong) = run(&setup, &words_of("anonymous=ann")).await;
    assert_eq!(exit, 0, "{said}{wrong}");
    let pack = &drafts(&setup, "suggested")["tests/files.yaml"];
    assert!(
        pack.contains("ann") && !pack.contains("anonymous"),
        "{pack}"
    );
    for (mapping, words) in [
        ("anonymous=nemo", "no such agent"),
        ("someone=ann", "none of the calls is of"),
    ] {
        let (exit, _, wrong) = run(&setup, &[&words_of(mapping)[..], &["--force"]].concat()).await;
        assert!(exit == 1 && wrong.contains(words), "{wrong}");
    }
}

fn words_of(mapping: &str) -> [&str; 5] {
    ["suggest", "--config", "toolgate.yaml", "--as", mapping]
}
