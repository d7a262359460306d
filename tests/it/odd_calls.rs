//! Observe mode refuses nothing that is JSON: what enforce mode would refuse unread is recorded, and
//! travels as it was written.

use crate::harness::DEADLINE;
use crate::harness::agent::modern;
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::stdio::StdioGate;
use serde_json::json;

/// Writes down each call as it came, and says that it is done.
const CHILD: &str = r#"
import json, re, sys
for line in sys.stdin:
    # This reader, too, has a stack.
    is_call = '"method":"tools/call"' in line
    seen = {"method": "tools/call", "id": json.loads(re.search('"id":("[^"]*"|[0-9]+)', line)[1])} if is_call else None
    message = seen or json.loads(line)
    if "id" not in message: continue
    method, result = message["method"], None
    if method == "server/discover":
        result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pay", "undo")]
        result = {"tools": tools, "resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}
    elif method == "tools/call":
        with open("came", "a") as file: file.write(line)
        result = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None: answer["error"] = {"code": -32601, "message": "no such method"}
    else: answer["result"] = result
    print(json.dumps(answer), flush=True)
"#;

fn setup(mode: &'static str) -> Setup {
    let members = "command: python3, args: [odd.py], cwd: ., env: { PATH: \"${PATH}\" }";
    let setup = Setup::new()
        .server_with("odd", members)
        .contracts(&[("odd__pay", "write")])
        .mode(mode)
        .environment("PATH", &std::env::var("PATH").unwrap());
    std::fs::write(setup.directory().join("odd.py"), CHILD).unwrap();
    setup
}

/// Arguments that the strict reader refuses.
fn oddities() -> Vec<String> {
    let nested = |depth| format!(r#"{{"a":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let (deep, deeper) = (nested(130), nested(300_000));
    let objects = format!(
        "{}[{{}},[ ]]{}",
        r#"{"a" : "#.repeat(9_000),
        r#" , "b":[]}"#.repeat(9_000)
    );
    let long = format!(r#"{{"a":"{}"}}"#, "s".repeat((1 << 20) + 1));
    let many = format!(r#"{{"a":[{}1]}}"#, "1,".repeat(1_900_000));
    [
        r#"{ "a" : 18446744073709551616 }"#,
        r#"{"a":-123456789012345678901234567890}"#,
        r#"{"a":1e20,"b":[1E+400,-0.0,-0]}"#,
        r#"{"a":"\u0000\ud800 \udc00"}"#,
        r#"{"\ud800":1,"\ud801":2}"#,
        r#"{"a":{"b":1,"b":2}}"#,
        r#"{"path":1,"PATH":2}"#,
        r#"{"a\u0007":1}"#,
        r#"{"$serde_json::private::RawValue":"{"}"#,
        &deep,
        &deeper,
        &objects,
        &long,
        &many,
    ]
    .map(str::to_owned)
    .to_vec()
}

/// A call with these arguments, and with more members of `params` and of the message.
fn call(arguments: &str, params: &str, root: &str) -> (serde_json::Value, String) {
    let message = modern(
        "tools/call",
        json!({ "name": "odd__pay", "arguments": "@" }),
    );
    let text = message.to_string().replacen("\"@\"", arguments, 1);
    let text = text.replacen("\"params\":{", &format!("\"params\":{{{params}"), 1);
    (message, text.replacen('{', &format!("{{{root}"), 1))
}

fn has_come(gate: &Gate, what: &str, nth: usize) {
    let came = std::fs::read_to_string(gate.path("came")).unwrap();
    let line = came
        .lines()
        .nth(nth)
        .unwrap_or_else(|| panic!("{what:.200} did not come"));
    assert!(line.contains(what), "{what:.200} came as {line:.400}");
}

#[tokio::test]
async fn what_enforce_mode_would_refuse_unread_is_recorded_and_travels() {
    let gate = setup("observe").start().await;
    let agent = gate.agent();
    for (nth, arguments) in oddities().iter().enumerate() {
        let (message, text) = call(arguments, "", "");
        let answer = agent.send(&agent.mirrored(&message), text.as_bytes()).await;
        assert!(answer.is_done(), "{arguments:.200}: {answer:?}");
        has_come(&gate, &format!(r#""arguments":{arguments}"#), nth);
    }
    let before = oddities().len();
    for (nth, (params, root)) in [
        (r#""x":{"y":[1e400,"\ud800"]},"#, ""),
        ("", r#""x":{"y":[1e400,"\ud800"]},"#),
        (r#""\ud800":1,"#, r#""z":2,"#),
        (r#""arguments":{"b":1},"arguments":{"c":2},"#, ""),
        (r#""task":{"ttl":1},"task":{"ttl":2},"#, ""),
    ]
    .into_iter()
    .enumerate()
    {
        let (message, text) = call("{}", params, root);
        let answer = agent.send(&agent.mirrored(&message), text.as_bytes()).await;
        assert!(answer.is_done(), "{text}: {answer:?}");
        for more in [params, root] {
            has_come(&gate, more.trim_end_matches(','), before + nth);
        }
    }
    let entries = gate.entries(before + 5).await;
    for entry in &entries {
        assert_eq!(entry["outcome"], "answered", "{entry}");
        assert_eq!(entry["would_refuse"], "schema_invalid", "{entry}");
    }
    let mut hashes: Vec<_> = entries[..before]
        .iter()
        .map(|entry| entry["params_hash"].to_string())
        .collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), before, "each is known by what it says");
}

/// Members of `_meta` and of the arguments may be there twice; what says where the message goes may
/// not say two things: a server that takes the other one would run another tool, or answer another
/// request.
#[tokio::test]
async fn what_leads_a_message_says_one_thing() {
    let gate = setup("observe").start().await;
    let agent = gate.agent();
    let (message, text) = call(r#"{"a":1,"a":2}"#, "", "");
    let twice = |what: &str, more: &str| {
        let twice = text.replacen(what, &format!("{what},{more}"), 1);
        assert_ne!(twice, text, "{what}");
        twice
    };
    let name = r#""name":"odd__pay""#;
    // The first one counts here.
    let params = text.strip_suffix("}}").unwrap();
    let twin_meta = format!(r#"{params},"_meta":{{"z":1}}}}}}"#);
    let answer = agent
        .send(&agent.mirrored(&message), twin_meta.as_bytes())
        .await;
    assert!(answer.is_done(), "{answer:?}");
    has_come(&gate, r#""_meta":{"z":1}"#, 0);
    has_come(&gate, r#"{"a":1,"a":2}"#, 0);
    let said_twice = [
        (name, name),
        (r#""method":"tools/call""#, r#""method":"tools/call""#),
        (r#""jsonrpc":"2.0""#, r#""jsonrpc":"2.0""#),
        (r#""id":1"#, r#""id":1"#),
    ];
    for (nth, (what, again)) in said_twice.into_iter().enumerate() {
        let text = twice(what, again);
        let answer = agent.send(&agent.mirrored(&message), text.as_bytes()).await;
        assert!(answer.is_done(), "{text}: {answer:?}");
        has_come(&gate, r#"{"a":1,"a":2}"#, nth + 1);
    }
    for refused in [
        twice(name, r#""name":"odd__undo""#),
        twice(name, r#""name":7"#),
        twice(r#""method":"tools/call""#, r#""method":"ping""#),
        twice(r#""jsonrpc":"2.0""#, r#""jsonrpc":"1.0""#),
        text.replacen('{', r#"{"id":77,"#, 1),
        text.replacen('{', r#"{"params":{"name":"odd__undo"},"#, 1),
    ] {
        let answer = agent
            .send(&agent.mirrored(&message), refused.as_bytes())
            .await;
        assert_ne!(answer.error(), 0, "{refused}: {answer:?}");
    }
    let came = std::fs::read_to_string(gate.path("came")).unwrap();
    assert_eq!(came.lines().count(), 5, "{came}");
}

/// The same on standard input, where an agent would wait for an answer without its id.
#[tokio::test]
async fn what_would_be_refused_travels_through_standard_input() {
    for mode in ["observe", "enforce"] {
        let setup = setup(mode);
        let mut gate = StdioGate::start(&setup);
        let list = modern("tools/list", json!({})).to_string();
        let listed =
            async { while !gate.ask(list.as_bytes()).await.text().contains(r#""pay""#) {} };
        tokio::time::timeout(DEADLINE, listed)
            .await
            .expect("the tool in time");
        for (nth, arguments) in oddities().iter().enumerate() {
            let (_, text) = call(arguments, "", "");
            let text = text.replacen("odd__pay", "pay", 1);
            let answer = gate.ask(text.as_bytes()).await;
            assert_eq!(answer.message()["id"], 1, "{arguments:.200}: {answer:?}");
            let came = std::fs::read_to_string(setup.directory().join("came")).unwrap_or_default();
            let expected = if mode == "observe" { nth + 1 } else { 0 };
            assert_eq!(
                came.lines().count(),
                expected,
                "{arguments:.200}: {answer:?}"
            );
            assert_eq!(
                answer.error() == 0,
                mode == "observe",
                "{arguments:.200}: {answer:?}"
            );
        }
        gate.close().await;
    }
}

/// guarantees §2: `toolgate stdio` has one server, which answers for a tool that it does not list.
#[tokio::test]
async fn a_tool_that_is_not_listed_is_its_servers_on_standard_input() {
    for mode in ["observe", "enforce"] {
        let setup = setup(mode);
        let mut gate = StdioGate::start(&setup);
        let list = modern("tools/list", json!({})).to_string();
        let listed =
            async { while !gate.ask(list.as_bytes()).await.text().contains(r#""pay""#) {} };
        tokio::time::timeout(DEADLINE, listed)
            .await
            .expect("the tool in time");
        let (_, text) = call("{}", "", "");
        let text = text.replacen("odd__pay", "ghost", 1);
        let answer = gate.ask(text.as_bytes()).await;
        let came = std::fs::read_to_string(setup.directory().join("came")).unwrap_or_default();
        let expected = usize::from(mode == "observe");
        assert_eq!(came.lines().count(), expected, "{mode}: {answer:?}");
        assert_eq!(answer.error() == 0, mode == "observe", "{mode}: {answer:?}");
        if mode == "observe" {
            assert!(came.contains(r#""name":"ghost""#), "{came}");
        }
        gate.close().await;
    }
}

/// How long messages and strings may be is each tool server's own, and what is refused says how
/// long.
#[tokio::test]
async fn sizes_are_each_servers_own() {
    let members = "command: python3, args: [odd.py], cwd: ., env: { PATH: \"${PATH}\" }";
    let roomy = format!("{members}, message_max_bytes: 8388608, string_max_bytes: 6291456");
    let setup = setup("enforce")
        .server_with("roomy", &roomy)
        .contracts(&[("odd__pay", "write"), ("roomy__pay", "write")]);
    let gate = setup.start().await;
    for (path, tool, bytes, status, says) in [
        ("/mcp", "roomy__pay", 5 << 20, 200, "done"),
        ("/mcp/roomy", "pay", 5 << 20, 200, "done"),
        ("/mcp/roomy", "pay", 7 << 20, 400, "at most 6291456 bytes"),
        ("/mcp", "odd__pay", 5 << 20, 400, "at most 4194304 bytes"),
        ("/mcp", "odd__pay", 2 << 20, 400, "at most 1048576 bytes"),
        ("/mcp/odd", "pay", 2 << 20, 400, "at most 1048576 bytes"),
        ("/mcp/odd", "pay", 5 << 20, 413, "at most 4194304 bytes"),
        ("/mcp", "roomy__pay", 9 << 20, 413, "at most 8388608 bytes"),
    ] {
        let agent = gate.agent().at(path);
        let arguments = json!({ "a": "s".repeat(bytes), "path": path });
        let message = modern(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        );
        let answer = agent.sends(&message).await;
        let case = format!("{path} {tool} {bytes}");
        assert_eq!(answer.status, status, "{case}: {answer:?}");
        assert!(answer.text().contains(says), "{case}: {answer:?}");
        if status == 400 {
            assert_eq!(answer.message()["id"], message["id"], "{case}");
        }
    }
    let came = std::fs::read_to_string(gate.path("came")).unwrap();
    assert_eq!(came.lines().count(), 2);
}
