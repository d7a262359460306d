//! What a caller may do is what the policy in force says of it, with every message: nothing of an
//! older policy, of a session's beginning or of another entry of the same agent counts (001-60,
//! 004-24; guarantees §5, design §3).

use crate::harness::agent::{Agent, modern};
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::stdio::Launched;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::{DEADLINE, until};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

const TOKEN: &str = "token-of-the-bot-of-tenant-one";
const SECOND: &str = "second-token-of-the-same-bot";

fn callers(roles: &str) -> String {
    format!("  - {{ agent: bot, token: {TOKEN}, tenant: t_001, roles: [{roles}] }}\n")
}

/// Who pays has to be a teller, and the first policy lets nobody pay.
fn policy(rules: &str) -> String {
    format!(
        "contracts:
  oracle__undo: {{ purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: {{ writes: test, rollback: {{ manual: by hand }} }} }}
  oracle__pay: {{ purpose: a test, actions: [write], secrets: [], side_effect: {{ writes: test, rollback: {{ tool: oracle__undo }} }}, permission: {{ roles: [teller] }}{rules} }}
  oracle__mark: {{ purpose: a test, actions: [read], secrets: [], permission: {{ roles: [clerk] }} }}
"
    )
}

async fn stage(setup: impl FnOnce(Setup) -> Setup) -> (ToolServer, Gate, Agent) {
    let server = Script::new()
        .tool("pay", Behaviour::Answers)
        .tool("mark", Behaviour::Answers)
        .start()
        .await;
    let gate = setup(Setup::new().server("oracle", &server)).start().await;
    let agent = gate.agent().token(TOKEN);
    (server, gate, agent)
}

/// Puts other callers and another policy in force, under which a clerk may mark.
async fn change(gate: &Gate, callers: &str, policy: &str) {
    gate.setup.clone().callers(callers).policy(policy).write();
    gate.signal(Signal::HUP);
    let agent = gate.agent().token(TOKEN);
    until("the change is in force", || async {
        agent
            .anew_call("oracle__mark", json!({}))
            .await
            .is_done()
            .then_some(())
    })
    .await;
}

/// A call that asks before it sends its body, and how long its head is.
fn slow(agent: &Agent) -> (Vec<u8>, usize) {
    let params = json!({ "name": "oracle__pay", "arguments": {} });
    let message = modern("tools/call", params);
    let mut headers = agent.mirrored(&message);
    headers.extend(
        [("Expect", "100-continue"), ("Connection", "close")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let body = message.to_string();
    let request = agent.encoded(&headers, body.as_bytes());
    let head = request.len() - body.len();
    (request, head)
}

/// Sends a head, and waits until it was read, and its caller known.
async fn begun(gate: &Gate, head: &[u8]) -> (BufReader<OwnedReadHalf>, OwnedWriteHalf) {
    let (reader, mut writer) = TcpStream::connect(gate.agents).await.unwrap().into_split();
    let mut reader = BufReader::new(reader);
    writer.write_all(head).await.unwrap();
    let mut line = String::new();
    reader.read_line(&mut line).await.unwrap();
    assert!(line.starts_with("HTTP/1.1 100"), "{line}");
    (reader, writer)
}

/// A message whose body comes late is not judged by a caller of yesterday and the rules of today:
/// neither policy lets it pass, and a mixture of both would.
#[tokio::test]
async fn a_slow_message_is_judged_by_one_policy_whole() {
    let forbidden = ", rules: [ { code: no_payments, when: \"true\" } ]";
    let (server, gate, agent) =
        stage(|setup| setup.callers(&callers("teller")).policy(&policy(forbidden))).await;
    assert_eq!(
        agent.modern_call("oracle__pay", json!({})).await.refusal(),
        "no_payments"
    );
    let (request, head) = slow(&agent);
    let (mut reader, mut writer) = begun(&gate, &request[..head]).await;
    change(&gate, &callers("clerk"), &policy("")).await;
    writer.write_all(&request[head..]).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(DEADLINE, reader.read_to_string(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert!(answer.contains("\"code\":\"rbac_denied\""), "{answer}");
    assert_eq!(
        server
            .executions()
            .iter()
            .filter(|execution| execution.tool == "pay")
            .count(),
        0
    );
}

/// A token that is gone by the time that all is there opens nothing.
#[tokio::test]
async fn a_token_that_goes_while_a_message_comes_opens_nothing() {
    let (_server, gate, agent) =
        stage(|setup| setup.callers(&callers("clerk")).policy(&policy(""))).await;
    let (request, head) = slow(&agent);
    let (mut reader, mut writer) = begun(&gate, &request[..head]).await;
    let other = callers("clerk").replace(TOKEN, SECOND);
    gate.setup
        .clone()
        .callers(&other)
        .policy(&policy(""))
        .write();
    gate.signal(Signal::HUP);
    until("the token is gone", || async {
        (agent.modern_call("oracle__mark", json!({})).await.status == 401).then_some(())
    })
    .await;
    writer.write_all(&request[head..]).await.unwrap();
    let mut answer = String::new();
    reader.read_line(&mut answer).await.unwrap();
    reader.read_line(&mut answer).await.unwrap();
    assert!(answer.contains("HTTP/1.1 401"), "{answer}");
}

/// A session that was opened with a role has it no longer when its agent has lost it.
#[tokio::test]
async fn a_session_keeps_no_rights() {
    let (server, gate, agent) =
        stage(|setup| setup.callers(&callers("teller")).policy(&policy(""))).await;
    let session = agent.declaring(json!({})).await;
    assert!(
        session
            .legacy_call("oracle__pay", json!({ "n": 1 }))
            .await
            .is_done()
    );
    change(&gate, &callers("clerk"), &policy("")).await;
    assert_eq!(
        session
            .legacy_call("oracle__pay", json!({ "n": 2 }))
            .await
            .refusal(),
        "rbac_denied"
    );
    assert!(
        session
            .legacy_call("oracle__mark", json!({}))
            .await
            .is_done(),
        "the session itself goes on"
    );
    assert_eq!(
        server
            .executions()
            .iter()
            .filter(|execution| execution.tool == "pay")
            .count(),
        1
    );
}

/// guarantees §5, threat-model §3B B5: an agent's weaker token has no more rights in a session that
/// its stronger one opened, and one of another tenant does not find it.
#[tokio::test]
async fn a_session_lends_no_rights() {
    for (tenant, found) in [("t_001", true), ("t_002", false)] {
        let weaker =
            format!("  - {{ agent: bot, token: {SECOND}, tenant: {tenant}, roles: [clerk] }}\n");
        let both = format!("{}{weaker}", callers("teller"));
        let (server, _gate, agent) = stage(|setup| setup.callers(&both).policy(&policy(""))).await;
        let session = agent.declaring(json!({})).await.token(SECOND);
        let answer = session.legacy_call("oracle__pay", json!({})).await;
        if found {
            assert_eq!(answer.refusal(), "rbac_denied", "{answer:?}");
        } else {
            assert_eq!(answer.status, 404, "{answer:?}");
        }
        assert_eq!(server.executions().len(), 0);
    }
}

/// An agent that launched toolgate is judged by what its entry says now; when it has none any more,
/// it is told so.
#[tokio::test]
async fn behind_stdio_a_caller_is_what_the_files_say_now() {
    for legacy in [false, true] {
        let server = Script::new()
            .tool("pay", Behaviour::Answers)
            .tool("mark", Behaviour::Answers)
            .start()
            .await;
        let setup = Setup::new()
            .server("oracle", &server)
            .callers(&callers("teller"))
            .policy(&policy(""));
        setup.write();
        let mut agent = Launched::start(&setup, &["--agent", "bot"], legacy).await;
        let call = |name: &str| json!({ "name": name, "arguments": {}, "_meta": {} });
        let paid = agent.ask("tools/call", call("pay")).await;
        assert_ne!(paid["result"]["isError"], true, "{paid}");
        setup.clone().callers(&callers("clerk")).write();
        let marked = async {
            while agent.ask("tools/call", call("mark")).await["result"]["isError"] == true {}
        };
        tokio::time::timeout(DEADLINE, marked)
            .await
            .expect("the change is in force");
        let refused = agent.ask("tools/call", call("pay")).await;
        assert_eq!(
            refused["result"]["_meta"]["dev.toolgate/decision"]["code"], "rbac_denied",
            "{refused}"
        );
        setup
            .clone()
            .callers(&callers("clerk").replace("bot", "other"))
            .write();
        let gone = async {
            loop {
                let answer = agent.ask("tools/call", call("mark")).await;
                if answer["error"].is_object() {
                    return answer;
                }
            }
        };
        let told = tokio::time::timeout(DEADLINE, gone)
            .await
            .expect("the change is in force");
        assert!(
            told["error"]["message"]
                .as_str()
                .unwrap()
                .contains("no longer names this agent"),
            "{told}"
        );
        agent.end().await;
        assert_eq!(
            server
                .executions()
                .iter()
                .filter(|execution| execution.tool == "pay")
                .count(),
            1
        );
    }
}

/// The streams of an agent that is taken away end, on both wires, and those of others go on.
#[tokio::test]
async fn nobody_listens_on_who_is_taken_away() {
    let other = format!("  - {{ agent: other, token: {SECOND} }}\n");
    let both = format!("{}{other}", callers("teller"));
    let server = Script::new().tool("pay", Behaviour::Answers).start().await;
    let setup = Setup::new()
        .server("oracle", &server)
        .callers(&both)
        .policy(&policy(""));
    let gate = setup.start().await;
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let mut streams = Vec::new();
    for token in [TOKEN, SECOND] {
        let agent = gate.agent().token(token);
        streams.push((
            token,
            agent
                .post(&agent.request("subscriptions/listen", wanted.clone()))
                .await,
        ));
        streams.push((token, agent.initialized().await.get(None).await));
    }
    gate.setup.clone().callers(&other).write();
    gate.hang_up();
    for (token, mut stream) in streams {
        if token == TOKEN {
            let ended = async { while stream.next().await.is_some() {} };
            tokio::time::timeout(DEADLINE, ended)
                .await
                .expect("the stream ends");
        } else {
            loop {
                let said = stream.message().await;
                if said["method"] == "notifications/tools/list_changed" {
                    break;
                }
            }
        }
    }
}
