//! The conformance server as a program: what the official suite does not ask, above all over stdio.

use serde_json::{Value, json};

use crate::running::{Listening, Running, modern_meta};

const PROGRAM: &str = env!("CARGO_BIN_EXE_conformance-server");

fn call(name: &str, arguments: &Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

fn posted(name: &str, arguments: &Value) -> Value {
    let mut params = call(name, arguments);
    params["_meta"] = modern_meta(&json!({}));
    json!({ "jsonrpc": "2.0", "id": "one", "method": "tools/call", "params": params })
}

#[test]
fn a_legacy_call_asks_its_caller_over_stdio() {
    let mut server = Running::stdio(PROGRAM, &[]);
    server.initialize(&json!({ "elicitation": {} }));
    let id = server.send(
        "tools/call",
        call("test_elicitation", &json!({ "message": "Who?" })),
        json!({}),
    );
    let question = server.hear();
    assert_eq!(
        (&question["method"], &question["params"]["message"]),
        (&json!("elicitation/create"), &json!("Who?"))
    );
    let person = json!({ "action": "accept", "content": { "username": "ann", "email": "a@b.c" } });
    server.say(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": person }));
    let answer = server.hear();
    assert_eq!(answer["id"], id);
    assert!(
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("ann"),
        "{answer}"
    );
}

#[test]
fn a_modern_call_asks_in_rounds_and_refuses_a_state_of_another_tool() {
    let mut server = Running::stdio(PROGRAM, &[]);
    let mut round = |tool: &str, state: Option<&Value>| {
        let mut params = call(tool, &json!({}));
        if let Some(state) = state {
            params["requestState"] = state.clone();
            params["inputResponses"] =
                json!({ "confirm": { "action": "accept", "content": { "ok": true } } });
        }
        server.request(
            "tools/call",
            params,
            modern_meta(&json!({ "elicitation": {} })),
        )
    };
    let asked = round("test_input_required_result_request_state", None);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let state = &asked["result"]["requestState"];
    let foreign = round("test_input_required_result_tampered_state", Some(state));
    assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
    let done = round("test_input_required_result_request_state", Some(state));
    assert_eq!(done["result"]["content"][0]["text"], "state-ok", "{done}");
}

#[test]
fn a_modern_listener_hears_of_changes_over_stdio() {
    let mut server = Running::stdio(PROGRAM, &[]);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let id = server.send("subscriptions/listen", wanted, modern_meta(&json!({})));
    assert_eq!(
        server.hear()["method"],
        "notifications/subscriptions/acknowledged"
    );
    server.send(
        "tools/call",
        call("test_trigger_prompt_change", &json!({})),
        modern_meta(&json!({})),
    );
    assert!(
        server.hear()["result"].is_object(),
        "a change nobody asked for is not announced"
    );
    server.send(
        "tools/call",
        call("test_trigger_tool_change", &json!({})),
        modern_meta(&json!({})),
    );
    let heard = [server.hear(), server.hear()];
    let change = heard
        .iter()
        .find(|message| message["method"] == "notifications/tools/list_changed")
        .unwrap();
    assert_eq!(
        change["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id,
        "{change}"
    );
    // A server that is left with an open listener waits some seconds before it ends.
    server.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    assert_eq!(
        server.call("test_simple_text", &json!({}))["isError"],
        false
    );
}

#[test]
fn mirrored_arguments_must_agree_with_their_headers_nested_ones_too() {
    let server = Listening::http(PROGRAM, &[]);
    let message = posted(
        "test_custom_headers",
        &json!({ "region": "eu", "placement": { "zone": "b" } }),
    );
    for (headers, status) in [
        (
            &[("mcp-param-region", "eu"), ("mcp-param-zone", "b")][..],
            200,
        ),
        (
            &[("mcp-param-region", "eu"), ("mcp-param-zone", "c")][..],
            400,
        ),
        (&[("mcp-param-region", "eu")][..], 400),
    ] {
        let (answered, answer) = server.post(&message, headers);
        assert_eq!(
            (answered, answer.contains("-32020")),
            (status, status == 400),
            "{headers:?}: {answer}"
        );
    }
}

#[test]
fn pages_of_other_sites_are_turned_away() {
    let server = Listening::http(PROGRAM, &[]);
    let message = posted("test_simple_text", &json!({}));
    assert_eq!(
        server
            .post(&message, &[("origin", "http://localhost:3000")])
            .0,
        200
    );
    assert_eq!(
        server
            .post(&message, &[("origin", "http://evil.example.com")])
            .0,
        403
    );
}
