//! What crosses from one era to the other, word for word.

use super::*;
use crate::mcp::json::SERVER_JSON_LIMITS;
use crate::mcp::message::Message;
use crate::mcp::revision::Revision;
use bytes::Bytes;

mod eras;
mod instances;
mod published;
mod revisions;

fn text(written: &str) -> Text {
    Text::read(
        Bytes::copy_from_slice(written.as_bytes()),
        &SERVER_JSON_LIMITS,
    )
    .unwrap()
}

fn shown(text: &Text) -> String {
    String::from_utf8(text.bytes().to_vec()).unwrap()
}

fn body(message: &Message) -> String {
    shown(message.body.as_ref().unwrap())
}

/// Protocol §4.4: a legacy agent's request gets the envelope, and keeps what both eras have.
#[test]
fn a_legacy_request_gets_its_envelope() {
    let agent = LegacyIntroduction::of(&text(
        r#"{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"tasks":{"list":{}},"elicitation":{}},"clientInfo":{"name":"a","version":"1"}}"#,
    ));
    let asked = text(
        r#"{"name":"t","arguments":{"b":1.0,"a":2},"task":{"ttl":1},"_meta":{"progressToken":7,"acme/x":"y"}}"#,
    );
    let message = Message::request(1, "tools/call", Some(asked));
    let level = Text::string("info");
    let crossed = to_modern_server(&message, &agent, Some(&level));
    assert_eq!(
        body(&crossed),
        r#"{"name":"t","arguments":{"b":1.0,"a":2},"_meta":{"progressToken":7,"acme/x":"y","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{},"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},"io.modelcontextprotocol/logLevel":"info"}}"#
    );
    let bare = to_modern_server(&Message::request(1, "tools/list", None), &agent, None);
    assert!(body(&bare).starts_with(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion""#));
}

/// Protocol §4.3: a modern agent's request loses the envelope and nothing else.
#[test]
fn a_modern_request_loses_its_envelope() {
    let asked = text(
        r#"{"name":"t","inputResponses":{"q":{}},"requestState":"s","arguments":{"n":1e2},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}}"#,
    );
    let crossed = to_legacy_server(&Message::request(1, "tools/call", Some(asked)));
    assert_eq!(
        body(&crossed),
        r#"{"name":"t","arguments":{"n":1e2},"_meta":{"progressToken":"p"}}"#
    );
    let only = text(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#);
    let crossed = to_legacy_server(&Message::request(1, "prompts/list", Some(only)));
    assert_eq!(body(&crossed), "{}");
}

/// Protocol §4.4: what a legacy agent cannot read is taken away, by its revision.
#[test]
fn an_answer_fits_its_revision() {
    let answer = r#"{"resultType":"complete","content":[{"type":"resource_link","uri":"x:1","name":"n"},{"type":"text","text":"t"}],"structuredContent":{"a":1},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"},"acme/x":1}}"#;
    let read = |revision| {
        let said = Message::response(None, text(answer), false);
        body(&to_legacy_agent("tools/call", said, revision))
    };
    assert_eq!(
        read(Revision::V2025_11_25),
        r#"{"content":[{"type":"resource_link","uri":"x:1","name":"n"},{"type":"text","text":"t"}],"structuredContent":{"a":1},"_meta":{"acme/x":1}}"#
    );
    assert_eq!(
        read(Revision::V2025_03_26),
        r#"{"content":[{"type":"text","text":"n: x:1"},{"type":"text","text":"t"}],"_meta":{"acme/x":1}}"#
    );
    let list = text(r#"{"content":[],"structuredContent":[1],"resultType":"complete"}"#);
    let said = Message::response(None, list, false);
    assert_eq!(
        body(&to_legacy_agent("tools/call", said, Revision::V2025_11_25)),
        r#"{"content":[]}"#
    );
    let listed = text(
        r#"{"prompts":[],"ttlMs":5,"cacheScope":"public","resultType":"complete","nextCursor":"c"}"#,
    );
    let said = Message::response(None, listed, false);
    assert_eq!(
        body(&to_legacy_agent(
            "prompts/list",
            said,
            Revision::V2025_06_18
        )),
        r#"{"prompts":[],"nextCursor":"c"}"#
    );
}

/// Protocol §1.9: a modern agent reads how long a list counts.
#[test]
fn an_answer_gets_what_modern_agents_need() {
    let read = |method: &str, written: &str| {
        let said = Message::response(None, text(written), false);
        body(&to_modern_agent(method, said))
    };
    assert_eq!(
        read("tools/call", r#"{"content":[]}"#),
        r#"{"content":[],"resultType":"complete"}"#
    );
    assert_eq!(
        read("resources/list", r#"{"resources":[]}"#),
        r#"{"resources":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#
    );
}

/// Protocol §4.5: codes that one era does not have are said as the other has them.
#[test]
fn errors_have_the_code_of_the_era() {
    let error = |code: i64, more: &str| {
        let written = format!(r#"{{"code":{code},"message":"m"{more}}}"#);
        Message::response(None, text(&written), true)
    };
    let code = |message: &Message| message.body.as_ref().unwrap().get("code").unwrap().value();
    let newest = Revision::V2025_11_25;
    let gone = to_legacy_agent("resources/read", error(-32602, ""), newest);
    assert_eq!(code(&gone), -32002);
    let other = to_legacy_agent("prompts/get", error(-32602, ""), newest);
    assert_eq!(code(&other), -32602);
    let gone = to_modern_agent("resources/read", error(-32002, ""));
    assert_eq!(code(&gone), -32602);
    for envelope in [-32020, -32022] {
        let said = to_legacy_agent("tools/call", error(envelope, ""), newest);
        assert_eq!(code(&said), -32603);
    }
    let needs = r#","data":{"requiredCapabilities":{"sampling":{}}}"#;
    let missing = to_legacy_agent("tools/call", error(-32021, needs), newest);
    assert!(
        !missing.is_error && body(&missing).contains("sampling"),
        "{missing:?}"
    );
    assert!(to_legacy_agent("prompts/get", error(-32021, needs), newest).is_error);
}

/// Protocol §4.4: a definition is one of the agent's revision; names of arguments are left alone.
#[test]
fn a_definition_fits_its_revision() {
    let definition = text(
        r#"{"name":"t","title":"T","icons":[],"execution":{"taskSupport":"optional"},"inputSchema":{"type":"object","properties":{"x-mcp-header":{"type":"string","x-mcp-header":"H"}},"default":{"x-mcp-header":1}},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
    );
    assert_eq!(
        shown(&definition_for(&definition, Revision::V2026_07_28)),
        r#"{"name":"t","title":"T","icons":[],"inputSchema":{"type":"object","properties":{"x-mcp-header":{"type":"string","x-mcp-header":"H"}},"default":{"x-mcp-header":1}},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#
    );
    let plain = r#""inputSchema":{"type":"object","properties":{"x-mcp-header":{"type":"string"}},"default":{"x-mcp-header":1}}"#;
    assert_eq!(
        shown(&definition_for(&definition, Revision::V2025_11_25)),
        format!(
            r#"{{"name":"t","title":"T","icons":[],"execution":{{"taskSupport":"optional"}},{plain},"outputSchema":{{"type":"object"}},"annotations":{{"readOnlyHint":true}}}}"#
        )
    );
    assert_eq!(
        shown(&definition_for(&definition, Revision::V2025_03_26)),
        format!(
            r#"{{"name":"t","execution":{{"taskSupport":"optional"}},{plain},"annotations":{{"readOnlyHint":true}}}}"#
        )
    );
    let list =
        text(r#"{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}"#);
    assert_eq!(
        shown(&definition_for(&list, Revision::V2025_11_25)),
        r#"{"name":"t","inputSchema":{"type":"object"}}"#
    );
}

/// Protocol §4.3, §4.4: each handshake says what the other era says with every message.
#[test]
fn introductions_cross() {
    let initialized = text(
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"i"}"#,
    );
    let discovered = discovered_of(&initialized);
    assert_eq!(
        shown(&discovered),
        r#"{"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"instructions":"i","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#
    );
    assert_eq!(
        shown(&initialized_of(&discovered, Revision::V2025_06_18)),
        r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"i"}"#
    );
    let meta = text(
        r#"{"io.modelcontextprotocol/clientCapabilities":{"sampling":{},"extensions":{"x":{}}},"io.modelcontextprotocol/clientInfo":{"name":"a","version":"2"}}"#,
    );
    assert_eq!(
        shown(&initialize_of(Some(&meta))),
        r#"{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"a","version":"2"}}"#
    );
    assert!(shown(&initialize_of(None)).contains(r#""capabilities":{}"#));
}
