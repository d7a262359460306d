//! Who is not who they say: tokens and other callers' sessions (threat-model §3B B5, §3C C1, §3H
//! H1).

use super::{Behaviour, Script, Setup, json, refused};

const BOT: &str = "bot-token-0123456789";
const OTHER: &str = "other-token-0123456789";

async fn two_callers() -> (super::ToolServer, super::Gate) {
    let oracle = Script::new()
        .tool("read", Behaviour::Answers)
        .tool("write", Behaviour::Answers)
        .tool("no_contract", Behaviour::Answers)
        .start()
        .await;
    let callers =
        format!("  - {{ agent: bot, token: {BOT} }}\n  - {{ agent: other, token: {OTHER} }}");
    let policy = "contracts:
  oracle__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  oracle__read: { purpose: p, actions: [read], secrets: [] }
  oracle__write: { purpose: p, actions: [write], permission: anyone, side_effect: { writes: test, rollback: { tool: oracle__undo } }, secrets: [] }
layers:
  agent: { other: { allow: [oracle__read] } }
";
    let gate = Setup::new()
        .server("oracle", &oracle)
        .callers(&callers)
        .policy(policy)
        .start()
        .await;
    (oracle, gate)
}

#[tokio::test]
async fn without_the_right_token_nothing_is_read() {
    let (oracle, gate) = two_callers().await;
    let agent = gate.agent();
    let wrong = [
        "",
        "x",
        "bot-token-012345678",
        "bot-token-0123456789x",
        "BOT-TOKEN-0123456789",
    ];
    let answers = [
        agent.modern_call("oracle__write", json!({})).await,
        agent
            .legacy(
                "initialize",
                json!({ "protocolVersion": "2025-11-25", "capabilities": {} }),
            )
            .await,
        agent.send(&agent.headers(), b"no JSON at all").await,
    ];
    for answer in answers {
        assert_eq!(
            (answer.status, answer.header("www-authenticate")),
            (401, Some("Bearer")),
            "{answer:?}"
        );
        refused("no token", &answer, -32600, "token");
    }
    for token in wrong {
        let answer = agent
            .token(token)
            .modern_call("oracle__write", json!({}))
            .await;
        assert_eq!(answer.status, 401, "{token}: {answer:?}");
        refused(token, &answer, -32600, "token");
        assert!(
            token.is_empty() || token == "x" || !answer.text().contains(token),
            "{token} is echoed"
        );
    }
    let mut basic = agent.headers();
    basic.push(("Authorization".to_owned(), format!("Basic {BOT}")));
    assert_eq!(agent.send(&basic, b"{}").await.status, 401);
    assert!(oracle.executions().is_empty());
    assert!(
        agent
            .token(BOT)
            .modern_call("oracle__write", json!({}))
            .await
            .is_done()
    );
}

#[tokio::test]
async fn h1_b5_another_callers_session_is_as_unknown_as_none() {
    let (oracle, gate) = two_callers().await;
    let own = gate.agent().token(BOT).declaring(json!({})).await;
    let thief = super::Agent {
        session: own.session.clone(),
        ..gate.agent().token(OTHER)
    };
    let none = super::Agent {
        session: Some("00000000000000000000000000000000".to_owned()),
        ..gate.agent().token(OTHER)
    };
    let stolen = thief.legacy_call("oracle__read", json!({})).await;
    let unknown = none.legacy_call("oracle__read", json!({})).await;
    assert_eq!(stolen.status, 404);
    assert_eq!(
        stolen.text(),
        unknown.text(),
        "a foreign session must not show"
    );
    let elsewhere = own.at("oracle").legacy_call("read", json!({})).await;
    assert_eq!(elsewhere.status, 404, "a session belongs to one address");
    for method in ["GET", "DELETE"] {
        let token = format!(
            "Authorization: Bearer {OTHER}\r\nMcp-Session-Id: {}",
            own.session.clone().unwrap()
        );
        let text = format!(
            "{method} /mcp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n{token}\r\n\r\n",
            gate.agents
        );
        assert_eq!(
            own.bytes(text.into_bytes()).await.unwrap().status,
            404,
            "{method}"
        );
    }
    assert!(oracle.executions().is_empty());
    assert!(
        own.legacy_call("oracle__read", json!({})).await.is_done(),
        "the session lives on"
    );
}

#[tokio::test]
async fn c1_c14_unknown_hidden_and_ungoverned_tools_get_one_answer_on_both_wires() {
    let (oracle, gate) = two_callers().await;
    let agent = gate.agent().token(OTHER);
    let session = agent.declaring(json!({})).await;
    let hidden = [
        "oracle__write",
        "oracle__no_contract",
        "oracle__nothing",
        "nowhere__read",
        "read",
        "",
        "oracle__READ",
        "oracle__read ",
        "oracle__read\t",
        "oracle__r\u{435}ad",
        "oracle__",
        "__read",
        "oracle__oracle__read",
    ];
    let mut texts = Vec::new();
    for tool in hidden {
        for answer in [
            agent.modern_call(tool, json!({})).await,
            session.legacy_call(tool, json!({})).await,
        ] {
            let message = answer.message();
            if answer.error() == -32020 {
                // The tabulator cannot travel in a header, so the header already disagrees.
                continue;
            }
            assert_eq!(
                (answer.error(), answer.refusal().as_str()),
                (-32602, "tool_not_allowlisted"),
                "{tool:?}: {message}"
            );
            texts.push((
                answer.words(),
                message["error"]["data"]["dev.toolgate/decision"]["stage"].clone(),
            ));
        }
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "the answers differ: {texts:?}");
    assert!(oracle.executions().is_empty());
    let listed = agent.modern("tools/list", json!({})).await.message();
    assert_eq!(
        listed["result"]["tools"].as_array().unwrap().len(),
        1,
        "{listed}"
    );
    assert!(
        gate.entries(2)
            .await
            .iter()
            .all(|entry| entry["outcome"] == "refused")
    );
}
