//! Secrets that a tool server knows from earlier: from another toolgate, or from the one that ran
//! before this one.

use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::run;
use crate::harness::hook_server::HookServer;
use crate::harness::scripted_server::{Reply, ScriptedServer, Seen, event, tool};
use crate::harness::setup::Setup;
use crate::harness::stdio::Launched;
use crate::harness::until;
use crate::secrets::{CANARY, forms, judge};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

const REFERENCE: &str = "<secret_ref:bank_token>";

const POLICY: &str = "
contracts:
  bank__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  bank__pay: { purpose: test, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: bank__undo } }, secrets: [/token], audit: [token] }
  bank__read: { purpose: test, actions: [read], secrets: [] }
";

const SECRETS: &str = "pins: { require: false }
secrets:
  bank_token: { env: BANK_TOKEN, for: [ { server: bank, tool: pay, pointer: /token } ] }
  of_file: { file: token.txt, for: [ { server: bank, tool: pay, pointer: /token } ] }
  of_program: { command: [sh, -c, 'echo canary-$((40 + 2))-program'], ttl: 1h, for: [ { server: bank, tool: pay, pointer: /token } ] }
";

/// All that the server knows, in every form.
fn known() -> String {
    let mut known = forms();
    known.extend(["canary-of-a-file", "canary-42-program"].map(str::to_owned));
    known.join(" | ")
}

fn own(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn tools() -> Vec<Value> {
    let mut read = tool("read");
    read["description"] = json!(known());
    read["title"] = json!(CANARY);
    read["inputSchema"]["properties"] =
        json!({ "p": { "description": known(), "default": CANARY } });
    vec![read, tool("pay")]
}

/// Whatever it is asked, it says all it knows.
fn answer(seen: &Seen) -> Reply {
    let known = known();
    let is_modern = seen.header("mcp-protocol-version") == Some("2026-07-28");
    let question =
        json!({ "message": known, "requestedSchema": { "type": "object", "properties": {} } });
    Reply::Result(match seen.method() {
        "tools/call" if seen.body["params"]["arguments"]["asks"] == true && is_modern => json!({
            "resultType": "input_required", "requestState": "s",
            "inputRequests": { "q": { "method": "elicitation/create", "params": question } },
        }),
        "tools/call" if seen.body["params"]["arguments"]["asks"] == true => {
            let (sender, receiver) = tokio::sync::mpsc::channel(8);
            let asked = json!({ "jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": question });
            sender.try_send(event(&asked)).unwrap();
            return Reply::Stream(receiver);
        }
        "tools/call" => {
            json!({ "resultType": "complete", "content": [{ "type": "text", "text": known }] })
        }
        "prompts/list" => {
            json!({ "resultType": "complete", "prompts": [{ "name": "p", "description": known }] })
        }
        "prompts/get" => {
            let content = json!({ "type": "text", "text": known });
            json!({ "resultType": "complete", "messages": [{ "role": "user", "content": content }] })
        }
        "resources/list" => {
            json!({ "resultType": "complete", "resources": [{ "uri": "x:y", "name": known }] })
        }
        "resources/templates/list" => {
            json!({ "resultType": "complete", "resourceTemplates": [{ "uriTemplate": "x:{y}", "name": known }] })
        }
        "resources/read" => {
            json!({ "resultType": "complete", "contents": [{ "uri": "x:y", "text": known }] })
        }
        "completion/complete" => {
            json!({ "resultType": "complete", "completion": { "values": [known] } })
        }
        _ => json!({ "resultType": "complete" }),
    })
}

fn setup(scripted: &ScriptedServer) -> Setup {
    let setup = Setup::new()
        .server_with("bank", &format!("url: \"{}\"", scripted.url()))
        .policy(POLICY)
        .open_sides()
        .more(SECRETS)
        .environment("BANK_TOKEN", CANARY)
        .environment("LATER_TOKEN", "canary-of-later");
    own(&setup.directory().join("token.txt"), "canary-of-a-file\n");
    own(&setup.directory().join("toolgate.pins.yaml"), "pins: {}\n");
    setup
}

/// Everything that an agent can ask a server, and the question that a server asks back.
async fn agents_have_none(agent: &Agent) {
    let reference =
        json!({ "type": "ref/prompt", "name": if agent.is_legacy() { "p" } else { "bank__p" } });
    for (method, params) in [
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": reference["name"] })),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "x:y" })),
        (
            "completion/complete",
            json!({ "ref": reference, "argument": { "name": "a", "value": "" } }),
        ),
    ] {
        let answer = agent.ask(method, params).await.to_string();
        judge(method, answer.as_bytes());
        assert!(
            answer.contains("secret_ref:bank_token") && answer.contains("secret_ref:of_file"),
            "{method}: {answer}"
        );
        assert!(
            answer.contains("secret_ref:of_program"),
            "{method}: {answer}"
        );
    }
    let name = if agent.is_legacy() {
        "read"
    } else {
        "bank__read"
    };
    for asks in [false, true] {
        let mut request = agent.request(
            "tools/call",
            json!({ "name": name, "arguments": { "asks": asks } }),
        );
        if !agent.is_legacy() {
            let capabilities =
                &mut request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            capabilities["elicitation"] = json!({ "form": {} });
        }
        let mut reading = agent.post(&request).await;
        let streams = reading.is_stream();
        let heard = if streams {
            reading.message().await
        } else {
            reading.whole().await
        }
        .to_string();
        judge("a call", heard.as_bytes());
        assert_eq!(heard.contains("elicitation/create"), asks, "{heard}");
        assert!(heard.contains("secret_ref:bank_token"), "{heard}");
    }
}

/// 002-31, threat-model §3F F2, §3C C9, invariant I8: a server was given values before this
/// toolgate was started, and repeats them wherever it can, before any call refers to one: nobody
/// reads them, neither agents, hooks and operators, nor who looks at definitions with another verb;
/// and a secret that is added while toolgate runs is known before it is used.
#[tokio::test]
async fn what_a_server_knows_from_earlier_is_taken_out_from_the_start() {
    let (scripted, hooks) = (
        ScriptedServer::with(tools()).await,
        HookServer::start().await,
    );
    scripted.instructs(&known());
    scripted.answers(answer);
    let setup = setup(&scripted).more(&hooks.hooks(&[("it", "after", "bank__*")], ""));
    setup.write();
    for verb in [
        &["pins", "diff"][..],
        &["pins", "verify"],
        &["check", "--connect", "toolgate.yaml"],
        &["doctor"],
        &["pins", "approve", "--all"],
    ] {
        let (_, said, wrong) = run(&setup, verb).await;
        judge(&verb.join(" "), (said + &wrong).as_bytes());
    }
    let pins = std::fs::read_to_string(setup.directory().join("toolgate.pins.yaml")).unwrap();
    judge("pins", pins.as_bytes());
    assert!(pins.contains("secret_ref:bank_token"), "{pins}");

    let gate = setup.start().await;
    for agent in [gate.agent(), gate.legacy("/mcp/bank").await] {
        agents_have_none(&agent).await;
    }
    let discovered = gate
        .agent()
        .ask("server/discover", json!({}))
        .await
        .to_string();
    judge("instructions", discovered.as_bytes());
    assert!(discovered.contains("secret_ref:bank_token"), "{discovered}");
    for told in hooks.heard(2).await {
        judge("a hook", told.body.to_string().as_bytes());
    }

    let place = gate.path("toolgate.yaml");
    let written = std::fs::read_to_string(&place).unwrap();
    let later = "secrets:\n  later: { env: LATER_TOKEN, for: [ { server: bank, tool: pay, pointer: /token } ] }";
    scripted.answers(|_| {
        Reply::Result(json!({ "content": [{ "type": "text", "text": "canary-of-later" }] }))
    });
    own(&place, &written.replacen("secrets:", later, 1));
    until("the secret that was added is known", || async {
        let said = gate
            .agent()
            .call_anew("bank__read", json!({}))
            .await
            .to_string();
        said.contains("secret_ref:later").then_some(())
    })
    .await;
    let setup = gate.stop().await;
    let (_, exported, _) = run(&setup, &["ledger", "export", "--data", "data"]).await;
    assert!(exported.contains("bank__read"), "{exported}");
}

/// 002-27, 002-31: the hook that may change a call, the one that hears of its end, and every verb
/// that tells of it later have the reference, as the agent wrote it; only the server has the value.
#[tokio::test]
async fn whoever_is_told_of_a_call_is_told_the_reference() {
    let (scripted, hooks) = (
        ScriptedServer::with(tools()).await,
        HookServer::start().await,
    );
    scripted.answers(answer);
    let hooked = hooks.hooks(
        &[("early", "before", "bank__*"), ("late", "after", "bank__*")],
        "",
    );
    let setup = setup(&scripted).more(&hooked);
    let gate = setup.start().await;
    let arguments = json!({ "token": REFERENCE });
    assert_eq!(
        code(&gate.agent().call("bank__pay", arguments.clone()).await),
        None
    );
    let call = scripted
        .seen()
        .into_iter()
        .find(|seen| seen.method() == "tools/call")
        .unwrap();
    assert_eq!(call.body["params"]["arguments"]["token"], CANARY);
    let told = hooks.heard(2).await;
    assert_eq!(
        told.iter()
            .map(|told| told.hook.as_str())
            .collect::<Vec<_>>(),
        ["early", "late"]
    );
    for told in told {
        assert_eq!(told.body["arguments"], arguments, "{}", told.hook);
        judge(&told.hook, told.body.to_string().as_bytes());
    }
    let action = gate.entries(1).await[0]["action_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let setup = gate.stop().await;
    std::fs::write(
        setup.directory().join("arguments.jsonl"),
        arguments.to_string() + "\n",
    )
    .unwrap();
    verbs_say_the_reference(&setup, &action, &arguments).await;
}

async fn verbs_say_the_reference(setup: &Setup, action: &str, arguments: &Value) {
    let given = arguments.to_string();
    for (verb, has_reference) in [
        ("test add ACTION --data data --to tests/pack.yaml", false),
        (
            "test --replay ledger --data data --arguments arguments.jsonl",
            false,
        ),
        ("ledger replay ACTION --data data --arguments GIVEN", false),
        ("ledger show ACTION --data data", true),
        ("ledger export --data data", true),
    ] {
        let words = verb.split(' ').map(|word| match word {
            "ACTION" => action,
            "GIVEN" => &given,
            word => word,
        });
        let words: Vec<&str> = words.collect();
        let (code, said, wrong) = run(setup, &words).await;
        assert_eq!(code, 0, "{verb:?}: {said}{wrong}");
        assert!(
            !has_reference || said.contains("secret_ref:bank_token"),
            "{verb:?}: {said}"
        );
        judge(verb, (said + &wrong).as_bytes());
    }
    let pack = std::fs::read_to_string(setup.directory().join("tests/pack.yaml")).unwrap();
    assert!(pack.contains(REFERENCE), "{pack}");
    judge("a pack", pack.as_bytes());
}

/// A toolgate of its own over stdio keeps what the one before knows.
#[tokio::test]
async fn an_agent_over_stdio_is_told_the_reference() {
    let scripted = ScriptedServer::with(tools()).await;
    scripted.answers(answer);
    let setup = setup(&scripted);
    setup.write();
    let arguments = json!({ "token": REFERENCE });
    for (is_legacy, data) in [(false, "modern"), (true, "legacy")] {
        let mut agent = Launched::start(&setup, &["--data", data], is_legacy).await;
        let listed = agent.ask("tools/list", json!({})).await;
        judge("tools/list over stdio", listed.to_string().as_bytes());
        assert!(
            listed.to_string().contains("secret_ref:bank_token"),
            "{listed}"
        );
        let tools = listed["result"]["tools"].as_array().unwrap();
        let pay = tools
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .find(|name| name.ends_with("pay"))
            .unwrap();
        let said = agent.call(pay, arguments.clone()).await.to_string();
        judge("a call over stdio", said.as_bytes());
        assert!(said.contains("secret_ref:bank_token"), "{said}");
        agent.end().await;
        judge(
            "the log of stdio",
            &std::fs::read(setup.directory().join("stdio.log")).unwrap(),
        );
    }
}
