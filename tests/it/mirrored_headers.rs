//! The headers that mirror a modern body: checked against it, and made anew from the final call
//! (protocol §1.2).

use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::{Settings, Setup};
use serde_json::{Value, json};

async fn stage() -> (ScriptedServer, Gate) {
    let mut regional = tool("regional");
    regional["inputSchema"] = json!({ "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" },
        "urgent": { "type": "boolean", "x-mcp-header": "Urgent" },
        "deep": { "type": "object", "properties": { "count": { "type": "integer", "x-mcp-header": "Count" } } },
    } });
    let scripted = ScriptedServer::with(vec![regional]).await;
    let gate = Gate::start(Settings::open(scripted.url(), &["regional"])).await;
    (scripted, gate)
}

fn arguments() -> Value {
    json!({ "region": "eu", "urgent": true, "deep": { "count": 42 } })
}

/// An agent whose headers mirror [`arguments`], with one of them as said; `-` leaves it out.
fn mirroring(agent: &Agent, name: &str, value: &str) -> Agent {
    let usual = [
        ("mcp-param-region", "eu"),
        ("mcp-param-urgent", "true"),
        ("mcp-param-count", "42"),
    ];
    let agent = usual
        .iter()
        .filter(|(usual, _)| *usual != name)
        .fold(agent.clone(), |agent, (name, value)| {
            agent.header(name, value)
        });
    agent.header(name, value)
}

/// protocol §1.2: what mirrors the body travels on under the tool's own name, whatever name it had
/// here.
#[tokio::test]
async fn mirrored_headers_are_made_anew_from_the_final_call() {
    let (scripted, gate) = stage().await;
    for (path, name) in [("/mcp", "oracle__regional"), ("/mcp/oracle", "regional")] {
        scripted.forget();
        let agent = mirroring(&gate.agent().at(path), "mcp-param-unknown", "ignored");
        let answer = agent.call(name, arguments()).await;
        assert_eq!(crate::harness::answer::code(&answer), None, "{answer}");
        let seen = &scripted.seen()[0];
        for (header, value) in [
            ("mcp-name", "regional"),
            ("mcp-method", "tools/call"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-param-region", "eu"),
            ("mcp-param-urgent", "true"),
            ("mcp-param-count", "42"),
        ] {
            assert_eq!(seen.header(header), Some(value), "{header} at {path}");
        }
        assert_eq!(seen.header("mcp-param-unknown"), Some("ignored"));
        assert_eq!(seen.header("mcp-session-id"), None);
    }
}

/// protocol §1.2: values that no header can hold travel in the sentinel, integers compare as
/// numbers, null has no header.
#[tokio::test]
async fn values_travel_in_the_form_that_headers_need() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent();
    for (region, given, expected) in [
        (
            "Zürich",
            "=?base64?WsO8cmljaA==?=",
            "=?base64?WsO8cmljaA==?=",
        ),
        ("plain", "=?base64?cGxhaW4=?=", "plain"),
        ("eu", "  eu  ", "eu"),
        ("", "", ""),
    ] {
        scripted.forget();
        let mut arguments = arguments();
        arguments["region"] = json!(region);
        arguments["deep"]["count"] = json!(42.0);
        let answer = mirroring(&agent, "mcp-param-region", given)
            .call("oracle__regional", arguments)
            .await;
        assert_eq!(crate::harness::answer::code(&answer), None, "{answer}");
        assert_eq!(
            scripted.seen()[0].header("mcp-param-region"),
            Some(expected),
            "{region}"
        );
    }
    scripted.forget();
    let answer = agent
        .call("oracle__regional", json!({ "region": null }))
        .await;
    // Null is no string, so the tool's schema refuses it; what is asked here is that no header was
    // missed.
    assert_eq!(
        crate::harness::answer::code(&answer).as_deref(),
        Some("schema_invalid")
    );
    assert!(agent.call("oracle__regional", json!({})).await["result"].is_object());
    assert_eq!(scripted.seen()[0].header("mcp-param-region"), None);
}

/// protocol §1.2, §1.5: a header that is missing, differs, or cannot be read gets 400 and −32020,
/// and nothing runs.
#[tokio::test]
async fn headers_that_do_not_mirror_the_body_are_refused() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent();
    for (name, value) in [
        ("mcp-param-region", "us"),
        ("mcp-param-region", "EU"),
        ("mcp-param-region", "-"),
        ("mcp-param-region", "=?base64?%%%?="),
        ("mcp-param-urgent", "false"),
        ("mcp-param-urgent", "TRUE"),
        ("mcp-param-count", "43"),
        ("mcp-name", "regional"),
        ("mcp-name", "ORACLE__REGIONAL"),
        ("mcp-name", "-"),
        ("mcp-method", "tools/list"),
        ("mcp-method", "Tools/Call"),
        ("mcp-method", "-"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-protocol-version", "-"),
    ] {
        let agent = mirroring(&agent, name, value);
        let message = agent.request(
            "tools/call",
            json!({ "name": "oracle__regional", "arguments": arguments() }),
        );
        let mut answer = agent.post(&message).await;
        let (status, body) = (answer.head.status, answer.whole().await);
        assert_eq!(
            (status, &body["error"]["code"]),
            (400, &json!(-32020)),
            "{name}: {value}: {body}"
        );
        assert_eq!(body["id"], message["id"], "{name}: {value}: {body}");
    }
    let agent = mirroring(&agent, "mcp-param-region", "eu").header("mcp-param-region", "eu");
    let message = agent.request(
        "tools/call",
        json!({ "name": "oracle__regional", "arguments": arguments() }),
    );
    assert_eq!(
        agent.post(&message).await.head.status,
        400,
        "twice is not once"
    );
    assert_eq!(scripted.executions(), 0);
}

/// protocol §1.2: an argument that the headers leave out is refused even if it is the only one.
#[tokio::test]
async fn a_header_without_its_argument_is_refused() {
    let (scripted, gate) = stage().await;
    let agent = gate.agent().header("mcp-param-region", "eu");
    let message = agent.request(
        "tools/call",
        json!({ "name": "oracle__regional", "arguments": {} }),
    );
    let mut answer = agent.post(&message).await;
    assert_eq!(
        (
            answer.head.status,
            answer.whole().await["error"]["code"].clone()
        ),
        (400, json!(-32020))
    );
    assert_eq!(scripted.executions(), 0);
}

/// protocol §1.2: what nobody here knows of the parameters, and what traces and baggage say, goes
/// on as it came, once, and never in the place of ours or of what the operator has configured;
/// nothing else of an agent's headers does.
#[tokio::test]
async fn headers_of_others_travel_and_no_more() {
    let scripted = ScriptedServer::with(vec![tool("plain")]).await;
    let members = format!(
        "url: \"{}\", headers: {{ baggage: ours, Mcp-Param-Own: ours }}",
        scripted.url()
    );
    let setup = Setup::new()
        .server_with("oracle", &members)
        .contracts(&[("oracle__plain", "read")])
        .open_sides();
    let gate = setup.start().await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let said = [
        ("traceparent", trace),
        ("tracestate", "a=b,c=d"),
        ("baggage", "theirs"),
        ("mcp-param-own", "theirs"),
        ("mcp-param-x", "1"),
        ("cookie", "secret=1"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-custom", "1"),
        ("user-agent", "agent/1"),
        ("toolgate-hops", "0"),
    ];
    let agent = said.iter().fold(gate.agent(), |agent, (name, value)| {
        agent.header(name, value)
    });
    let agent = agent
        .header("mcp-param-twice", "1")
        .header("mcp-param-twice", "2");
    let called = agent.call("oracle__plain", json!({})).await;
    assert_eq!(crate::harness::answer::code(&called), None, "{called}");
    agent
        .ask("resources/read", json!({ "uri": "file:///a" }))
        .await;
    for method in ["tools/call", "resources/read"] {
        let all = scripted.seen();
        let seen = all.iter().find(|seen| seen.method() == method).unwrap();
        for (name, value) in [
            ("traceparent", Some(trace)),
            ("tracestate", Some("a=b,c=d")),
            ("baggage", Some("ours")),
            ("mcp-param-own", Some("ours")),
            ("mcp-param-x", Some("1")),
            ("mcp-param-twice", None),
            ("cookie", None),
            ("x-forwarded-for", None),
            ("x-custom", None),
            ("user-agent", None),
            ("authorization", None),
        ] {
            assert_eq!(seen.header(name), value, "{name} of {method}");
        }
    }
}
