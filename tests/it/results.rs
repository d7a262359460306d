//! What becomes of results and of what tools say of themselves, before an agent reads it.

use crate::harness::answer::code;
use crate::harness::gate::{Gate, run};
use crate::harness::replay::stored;
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::{Value, json};

const POLICY: &str = "
contracts:
  bank__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  bank__pay:
    purpose: test
    actions: [write]
    permission: anyone
    side_effect: { writes: test, rollback: { tool: bank__undo } }
    secrets: []
    results: { max_bytes: 2048, redact: [ { pointer: /iban }, { pattern: 'tel [0-9]+', with: tel } ] }
  bank__read: { purpose: test, actions: [read], secrets: [], results: { output_schema: check } }
  bank__plain: { purpose: test, actions: [read], secrets: [] }
  bank__open: { purpose: test, actions: [read], secrets: [], results: { output_schema: off } }
";

fn tools() -> Vec<Value> {
    let schema = json!({ "type": "object", "properties": { "iban": { "type": "string" } }, "required": ["iban"] });
    ["pay", "read", "plain", "open"]
        .map(|name| {
            let mut tool = tool(name);
            tool["outputSchema"] = schema.clone();
            tool
        })
        .to_vec()
}

async fn stage() -> (ScriptedServer, Gate) {
    stage_in("enforce").await
}

async fn stage_in(mode: &'static str) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(tools()).await;
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .policy(POLICY)
        .mode(mode);
    let gate = setup.start().await;
    (scripted, gate)
}

fn without_ours(answer: &Value) -> Value {
    let mut result = answer["result"].clone();
    result["_meta"]
        .as_object_mut()
        .unwrap()
        .remove("dev.toolgate/decision");
    result
}

/// guarantees §2 step 16, §4 "duplicate after the end": the call is done whatever becomes
/// of its result; a repeated call reads the same bytes, and what was taken out is on no disk.
#[tokio::test]
async fn a_result_is_shaped_once_and_kept_as_it_was_read() {
    let (scripted, gate) = stage().await;
    for agent in [gate.agent(), gate.legacy("/mcp").await] {
        let kind = if agent.is_legacy() {
            "legacy"
        } else {
            "modern"
        };
        for (case, long, fits) in [("short", 0, true), ("long", 4096, true), ("odd", 0, false)] {
            scripted.answers(move |_| {
                let iban = if fits { json!("DE12 9999") } else { json!(["DE12 9999"]) };
                Reply::Result(json!({
                    "resultType": "complete", "isError": false, "structuredContent": { "iban": iban },
                    "content": [{ "type": "text", "text": format!("DE12 9999, tel 5550199 {}", "x".repeat(long)) }],
                }))
            });
            let (before, arguments) =
                (scripted.executions(), json!({ "case": case, "kind": kind }));
            let first = agent.call("bank__pay", arguments.clone()).await;
            let again = agent.call("bank__pay", arguments).await;
            assert_eq!(scripted.executions(), before + 1, "it is done, once");
            assert_eq!((code(&first), code(&again)), (None, None));
            assert_eq!(
                without_ours(&first),
                without_ours(&stored(&again)),
                "{case}"
            );
            assert_eq!(
                again["result"]["_meta"]["dev.toolgate/decision"]["replayed"],
                true
            );
            assert_eq!(first["result"]["isError"], false, "nothing failed: {first}");
            let text = first["result"]["content"][0]["text"].as_str().unwrap();
            if case == "short" {
                assert_eq!(text, "[redacted], tel ");
                assert_eq!(
                    first["result"]["structuredContent"],
                    json!({ "iban": "[redacted]" })
                );
            } else {
                assert!(
                    text.contains("The tool has run") && text.contains("SHA-256"),
                    "{first}"
                );
                assert!(
                    first["result"].get("structuredContent").is_none(),
                    "{first}"
                );
            }
        }
    }
    let entries = gate.entries(12).await;
    assert!(
        entries.iter().all(|entry| entry["outcome"] == "answered"),
        "{entries:#?}"
    );
    keeps_nothing_of_it(&gate.stop().await);
}

fn keeps_nothing_of_it(setup: &Setup) {
    let data = setup.directory().join("data");
    for path in walk(&data) {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(
            !text.contains("DE12") && !text.contains("5550199"),
            "{}",
            path.display()
        );
    }
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                walk(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Issue 4, "outputSchema checked": a result must fit, unless the contract says otherwise; where
/// nothing is enforced, only if it says so. A tool's own error need not fit. What may come out
/// otherwise than its schema says is listed without it (protocol §5.1).
#[tokio::test]
async fn a_result_fits_its_schema() {
    for mode in ["enforce", "observe"] {
        fits_in(mode).await;
    }
}

async fn fits_in(mode: &'static str) {
    let (scripted, gate) = stage_in(mode).await;
    for (structured, is_error, fits) in [
        (json!({ "iban": "a" }), false, true),
        (json!({ "iban": 7 }), false, false),
        (json!({}), true, true),
    ] {
        let result = json!({ "resultType": "complete", "content": [], "isError": is_error, "structuredContent": structured });
        let written = result.clone();
        scripted.answers(move |_| Reply::Result(written.clone()));
        let rows = [
            ("bank__read", fits),
            ("bank__plain", fits || mode == "observe"),
            ("bank__open", true),
        ];
        for (tool, passes) in rows {
            let answer = without_ours(&gate.agent().call(tool, json!({})).await);
            let mut expected = result.clone();
            expected["_meta"] = json!({});
            assert_eq!(answer == expected, passes, "{tool}: {answer}");
            assert_eq!(
                answer.to_string().contains("is withheld"),
                !passes,
                "{tool}: {answer}"
            );
            // An agent's SDK throws a result away that lacks what the listed schema asks for, and
            // hands on an error.
            assert!(
                passes
                    || (answer["isError"] == true
                        && answer.to_string().contains("The tool has run")),
                "{answer}"
            );
        }
    }
    let listed = gate.agent().ask("tools/list", json!({})).await;
    let has: Vec<bool> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool.get("outputSchema").is_some())
        .collect();
    assert_eq!(has, [false, true, true, true], "{listed}");
}

/// threat-model §9 "result too big", guarantees §4: an answer that is too long to be read at all
/// has been given all the same: what changes something is unknown, not "not sent", and is not sent
/// again; nothing of it is in the ledger.
#[tokio::test]
async fn an_answer_that_is_too_long_to_be_read_is_no_proof_that_nothing_ran() {
    let (scripted, gate) = stage().await;
    scripted.answers(|_| {
        let text = "DE12 ".repeat(1 << 20);
        Reply::Result(
            json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] }),
        )
    });
    for (count, agent) in [gate.agent(), gate.legacy("/mcp").await].iter().enumerate() {
        for (tool, expected, executions) in [
            ("bank__pay", "outcome_unknown", 1),
            ("bank__open", "upstream_failed", 2),
        ] {
            let before = scripted.executions();
            for _ in 0..2 {
                let answer = agent.call(tool, json!({ "n": count })).await;
                assert_eq!(code(&answer).as_deref(), Some(expected), "{answer}");
                assert!(!answer.to_string().contains("did not run"), "{answer}");
            }
            assert_eq!(scripted.executions(), before + executions, "{tool}");
        }
    }
    let exported = run(&gate.stop().await, &["ledger", "export", "--data", "data"])
        .await
        .1;
    assert!(
        exported.contains("outcome_unknown") && !exported.contains("DE12"),
        "{exported}"
    );
}

/// guarantees §4 "upstream timeout": an answer that comes late is shaped before it is kept, too.
#[tokio::test]
async fn a_late_answer_is_kept_as_it_may_be_read() {
    let result = json!({ "content": [{ "type": "text", "text": "DE12 9999 tel 5550199" }],
        "structuredContent": { "iban": "DE12 9999" }, "resultType": "complete" });
    let server = Script::new()
        .tool("pay", Behaviour::SaysOnceReleased(result))
        .start()
        .await;
    let setup = Setup::new()
        .server_with(
            "bank",
            &format!("url: \"{}\", timeout: 200ms", server.url()),
        )
        .policy(POLICY);
    let gate = setup.start().await;
    let agent = gate.agent();
    let first = agent.call("bank__pay", json!({})).await;
    assert_eq!(code(&first).as_deref(), Some("outcome_unknown"));
    server.release();
    let again = until("the late answer is kept", || async {
        let again = agent.call("bank__pay", json!({})).await;
        code(&again).is_none().then_some(again)
    })
    .await;
    let text = &stored(&again)["result"]["content"][0]["text"];
    assert_eq!(text, "[redacted] tel", "{again}");
    assert_eq!(server.executions().len(), 1);
}

/// threat-model §3D D6: the same of what servers list beside their tools, at both addresses, on
/// both wires; names and addresses, which a request must repeat, stay.
#[tokio::test]
async fn lists_beside_the_tools_say_what_can_be_seen() {
    let scripted = ScriptedServer::with(tools()).await;
    scripted.answers(|seen| {
        let odd = "a\u{202e}b\u{1b}[1mc\u{e0041}";
        let entry = json!({ "name": odd, "uri": "x:y", "uriTemplate": "x:{odd}", "title": odd, "description": odd,
            "arguments": [{ "name": "p", "description": odd }] });
        let key = match seen.method() {
            "prompts/list" => "prompts",
            "resources/list" => "resources",
            _ => "resourceTemplates",
        };
        Reply::Result(json!({ "resultType": "complete", key: [entry] }))
    });
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .policy(POLICY)
        .open_sides();
    let gate = setup.start().await;
    for agent in [
        gate.agent(),
        gate.agent().at("/mcp/bank"),
        gate.legacy("/mcp").await,
        gate.legacy("/mcp/bank").await,
    ] {
        for (method, key) in [
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ] {
            let listed = agent.ask(method, json!({})).await;
            let entry = &listed["result"][key][0];
            assert_eq!(
                (&entry["title"], &entry["description"]),
                (&json!("abc"), &json!("abc")),
                "{listed}"
            );
            assert_eq!(entry["arguments"][0]["description"], "abc");
            assert!(
                entry["name"]
                    .as_str()
                    .unwrap()
                    .ends_with("a\u{202e}b\u{1b}[1mc\u{e0041}"),
                "{listed}"
            );
        }
    }
}

/// threat-model §3D D6: what a model would read in a definition and a person would not see is not
/// shown; a tool whose names or values mislead is not there; the operator is told of both.
#[tokio::test]
async fn definitions_say_what_can_be_seen() {
    let mut shown = tool("read");
    shown["description"] =
        json!("Reads.\u{1b}[8m hidden\u{1b}[0m\u{202e}\u{200b}\u{e0041}\n\tFine, größer.");
    shown["title"] = json!("Re\u{200b}ad");
    shown["annotations"] = json!({ "title": "R\u{2066}" });
    shown["inputSchema"]["properties"] =
        json!({ "path": { "type": "string", "description": "p\u{feff}" } });
    let mut hidden = tool("open");
    hidden["inputSchema"]["properties"] = json!({ "mode": { "enum": ["fast", "fas\u{200b}t"] } });
    let mut long = tool("pay");
    long["description"] = json!("x".repeat(5000));
    let scripted = ScriptedServer::with(vec![shown, hidden, long]).await;
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .policy(POLICY)
        .open_sides();
    let gate = setup.start().await;
    for agent in [gate.agent(), gate.legacy("/mcp").await] {
        let listed = agent.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 2, "{listed}");
        assert_eq!(tools[0]["description"], "Reads. hidden\n\tFine, größer.");
        assert_eq!(
            (&tools[0]["title"], &tools[0]["annotations"]),
            (&json!("Read"), &json!({ "title": "R" }))
        );
        assert_eq!(
            tools[0]["inputSchema"]["properties"]["path"]["description"],
            "p"
        );
        assert_eq!(tools[1]["description"].as_str().unwrap().len(), 4096);
    }
    let setup = gate.stop().await;
    let (_, report, _) = run(&setup, &["doctor", "--config", "toolgate.yaml"]).await;
    for expected in [
        "note     tool `read` of `bank`: 14 characters",
        "note     tool `pay` of `bank`: 0 characters",
        "`open`: a name or a value",
    ] {
        assert!(report.contains(expected), "{expected}: {report}");
    }
}
