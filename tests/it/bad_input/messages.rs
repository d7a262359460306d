//! Messages that two readers could read differently, or that are none (threat-model §3A A1–A11,
//! A14), on every door.

use super::{Door, Execution, Setup, StdioGate, executions, governed, json, refused, untouched};
use ambiguous::AMBIGUOUS;

const PARSE: i64 = -32700;
const REQUEST: i64 = -32600;
const PARAMS: i64 = -32602;
const MISMATCH: i64 = -32020;

/// A call whose arguments are `$arguments`.
macro_rules! arguments {
    ($arguments:expr) => {
        concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"@TOOL","arguments":"#,
            $arguments,
            r#","_meta":{@META}}}"#
        )
    };
}

/// A call whose id is `$id`.
macro_rules! id {
    ($id:expr) => {
        concat!(
            r#"{"jsonrpc":"2.0","id":"#,
            $id,
            r#","method":"tools/call","params":{"name":"@TOOL","arguments":{"a":"@CANARY"},"_meta":{@META}}}"#
        )
    };
}

/// A call with more members of the message and of `params`.
macro_rules! more {
    ($message:expr, $params:expr) => {
        concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call""#,
            $message,
            r#","params":{"name":"@TOOL","arguments":{"a":"@CANARY"},"_meta":{@META}"#,
            $params,
            r#"}}"#
        )
    };
}

// The table of this module uses the macros above, so it stands below them.
mod ambiguous;

/// What it is, what is sent, the code, and what the words say.
type MessageCase = (&'static str, &'static str, i64, &'static str);

/// What is no JSON at all.
const MALFORMED: &[MessageCase] = &[
    (
        "no UTF-8",
        arguments!(r#"{"a":"@BYTE"}"#),
        PARSE,
        "invalid UTF-8",
    ),
    (
        "byte order mark",
        concat!("\u{feff}", arguments!("{}")),
        PARSE,
        "not a JSON value",
    ),
    (
        "lone surrogate",
        arguments!(r#"{"a":"\ud800"}"#),
        PARSE,
        "lone surrogate",
    ),
    (
        "trailing text",
        concat!(arguments!("{}"), " x"),
        PARSE,
        "text after the value",
    ),
    (
        "two messages",
        concat!(arguments!("{}"), arguments!("{}")),
        PARSE,
        "text after the value",
    ),
    (
        "trailing comma",
        arguments!(r#"{"a":"@CANARY",}"#),
        PARSE,
        "expected a key",
    ),
    (
        "comment",
        arguments!(r#"{"a":1/*@CANARY*/}"#),
        PARSE,
        "expected `,` or `}`",
    ),
    (
        "raw control character",
        arguments!("{\"a\":\"\u{1}\"}"),
        PARSE,
        "control character in a string",
    ),
    (
        "cut off",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"#,
        PARSE,
        "expected a key",
    ),
    (
        "A14 framing by length",
        "Content-Length: 40",
        PARSE,
        "not a JSON value",
    ),
];

/// A8–A11: JSON that is no call.
const NO_CALLS: &[MessageCase] = &[
    (
        "A8 batch",
        concat!("[", arguments!(r#"{"a":"@CANARY"}"#), "]"),
        REQUEST,
        "send one message",
    ),
    (
        "A8 batch of allowed and denied",
        concat!("[", arguments!("{}"), ",", id!("2"), "]"),
        REQUEST,
        "send one message",
    ),
    ("A8 empty batch", "[]", REQUEST, "send one message"),
    ("no object", "42", REQUEST, "a JSON object"),
    (
        "A9 no jsonrpc",
        r#"{"id":1,"method":"tools/call","params":{"name":"@TOOL","_meta":{@META}}}"#,
        REQUEST,
        "2.0",
    ),
    (
        "A9 jsonrpc 1.0",
        r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"@TOOL","_meta":{@META}}}"#,
        REQUEST,
        "2.0",
    ),
    (
        "A9 method and result",
        more!(r#","result":{}"#, ""),
        REQUEST,
        "exactly one of request",
    ),
    (
        "A9 method is a number",
        r#"{"jsonrpc":"2.0","id":1,"method":7,"params":{"_meta":{@META}}}"#,
        REQUEST,
        "string",
    ),
    ("A10 id null", id!("null"), REQUEST, "`id` must be"),
    ("A10 id 1.5", id!("1.5"), REQUEST, "`id` must be"),
    ("A10 id 1e3", id!("1e3"), REQUEST, "`id` must be"),
    ("A10 id true", id!("true"), REQUEST, "`id` must be"),
    (
        "A10 id object",
        id!(r#"{"a":"@CANARY"}"#),
        REQUEST,
        "`id` must be",
    ),
    ("A10 id array", id!("[1]"), REQUEST, "`id` must be"),
    (
        "A10 id beyond 64 bits",
        id!("18446744073709551616"),
        PARSE,
        "send it as a string, at `/id`",
    ),
    (
        "A11 a call posing as a notification",
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"@TOOL","arguments":{"a":"@CANARY"},"_meta":{@META}}}"#,
        REQUEST,
        "needs an `id`",
    ),
    (
        "params is an array",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["@TOOL"]}"#,
        REQUEST,
        "`params`",
    ),
    (
        "A2 a member nobody knows",
        more!(r#","x":"@CANARY""#, ""),
        REQUEST,
        "and no others",
    ),
    (
        "A2 Name alone",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"@TOOL","arguments":{"a":"@CANARY"},"_meta":{@META}}}"#,
        REQUEST,
        "only looks like `name`",
    ),
    (
        "A2 a parameter nobody knows",
        more!("", r#","x":"@CANARY""#),
        PARAMS,
        "has only the members",
    ),
    (
        "arguments is a string",
        arguments!(r#""@CANARY""#),
        PARAMS,
        "must be an object",
    ),
    (
        "arguments is an array",
        arguments!("[]"),
        PARAMS,
        "must be an object",
    ),
    (
        "arguments is null",
        arguments!("null"),
        PARAMS,
        "must be an object",
    ),
];

/// Calls without a name; on the modern wire the header that names the tool disagrees first.
const NAMELESS: &[MessageCase] = &[(
    "no name",
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{@META}}}"#,
    PARAMS,
    "`params.name`",
)];

fn all(modern: bool) -> Vec<(String, String, i64, &'static str)> {
    let tables = [AMBIGUOUS, MALFORMED, NO_CALLS].concat();
    let mut all: Vec<_> = tables
        .iter()
        .map(|(what, body, code, says)| ((*what).to_owned(), (*body).to_owned(), *code, *says))
        .collect();
    all.extend(NAMELESS.iter().map(|(what, body, code, says)| {
        let (code, says) = if modern {
            (MISMATCH, "header mcp-name")
        } else {
            (*code, *says)
        };
        ((*what).to_owned(), (*body).to_owned(), code, says)
    }));
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let call = |arguments: &str| arguments!("@ARGUMENTS").replace("@ARGUMENTS", arguments);
    all.push((
        "A7 depth 65".to_owned(),
        call(&nested(62)),
        PARSE,
        "nested too deeply",
    ));
    all.push((
        "A7 depth 200 000".to_owned(),
        call(&nested(200_000)),
        PARSE,
        "nested too deeply",
    ));
    all.push((
        "A7 many values".to_owned(),
        call(&format!("{{\"a\":[{}0]}}", "0,".repeat(200_000))),
        PARSE,
        "too many values",
    ));
    all.push((
        "A7 long key".to_owned(),
        call(&format!("{{\"{}\":1}}", "k".repeat(257))),
        PARSE,
        "too long",
    ));
    all.push((
        "A7 long string".to_owned(),
        call(&format!("{{\"a\":\"{}\"}}", "s".repeat((1 << 20) + 1))),
        PARSE,
        "too long",
    ));
    let long_id = id!("@ID").replace("@ID", &format!("\"{}\"", "i".repeat(257)));
    all.push(("A10 long id".to_owned(), long_id, REQUEST, "`id` must be"));
    all
}

#[tokio::test]
async fn a1_to_a11_every_bad_message_is_refused_on_both_http_wires() {
    let (oracle, gate) = governed().await;
    for mut door in [
        Door::Modern(gate.agent()),
        Door::Legacy(gate.agent().declaring(json!({})).await),
    ] {
        for (what, template, code, says) in all(matches!(door, Door::Modern(_))) {
            let answer = door.send(&template).await;
            let what = format!("{what} ({})", door.name());
            refused(&what, &answer, code, says);
            // Who asked is known only once the message was read; then JSON-RPC carries the error on
            // the legacy wire.
            let read = !answer.message()["id"].is_null();
            let expected = if read && (code == PARAMS || matches!(door, Door::Legacy(_))) {
                200
            } else {
                400
            };
            assert_eq!(answer.status, expected, "{what}: {answer:?}");
        }
    }
    assert!(
        gate.ledger().await.is_empty(),
        "what is no call is not judged"
    );
    untouched(&oracle, &gate).await;
}

#[tokio::test]
async fn a1_to_a14_every_bad_message_is_refused_on_stdio() {
    let setup = Setup::new()
        .child("oracle", "", "20s")
        .contracts(&[("oracle__write", "write")]);
    let mut door = Door::Stdio(Box::new(StdioGate::start(&setup)));
    for (what, template, code, says) in all(false) {
        refused(
            &format!("{what} (stdio)"),
            &door.send(&template).await,
            code,
            says,
        );
    }
    assert_eq!(executions(&setup.log_of("oracle")).len(), 0);
    let answer = door.send(arguments!(r#"{"a":"good"}"#)).await;
    assert_eq!(
        answer.message()["result"]["content"][0]["text"],
        "done",
        "{answer:?}"
    );
    let runs: Vec<Execution> = executions(&setup.log_of("oracle"));
    assert_eq!(
        runs.iter()
            .map(|run| run.arguments.clone())
            .collect::<Vec<_>>(),
        [json!({ "a": "good" })]
    );
    let Door::Stdio(gate) = door else { return };
    assert!(gate.close().await.success());
}

/// What cannot be read is refused under the id of its request, where nothing of that is in doubt: no
/// agent waits for its own time-out, and a session goes on.
#[tokio::test]
async fn a_message_that_cannot_be_read_is_answered_under_its_id() {
    let odd = [
        (arguments!(r#"{"a":1234567890123456789012}"#), json!(1)),
        (arguments!(r#"{"a":-0.0,"b":1e400}"#), json!(1)),
        (arguments!(r#"{"a":1,"a":2}"#), json!(1)),
        (arguments!(r#"{"a":"\ud800"}"#), json!(1)),
        (
            r#"{"jsonrpc":"2.0","id":"x","method":"ping","params":{"a":1,"a":2}}"#,
            json!("x"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            json!(null),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"Id":2,"method":"ping","params":{"a":-0}}"#,
            json!(null),
        ),
        (
            r#"{"jsonrpc":"2.0","id":"\ud800","method":"ping"}"#,
            json!(null),
        ),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":-0}}]"#,
            json!(null),
        ),
    ];
    let (_oracle, gate) = governed().await;
    let setup = Setup::new()
        .child("oracle", "", "20s")
        .contracts(&[("oracle__write", "write")]);
    for mut door in [
        Door::Legacy(gate.agent().declaring(json!({})).await),
        Door::Stdio(Box::new(StdioGate::start(&setup))),
    ] {
        for (template, id) in &odd {
            let answer = door.send(template).await;
            assert_eq!(
                answer.message()["id"],
                *id,
                "{} {template}: {answer:?}",
                door.name()
            );
            assert!(
                answer.message()["error"].is_object(),
                "{template}: {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn a7_a_line_without_end_on_stdio_is_refused_and_ends_the_conversation() {
    let setup = Setup::new()
        .child("oracle", "", "20s")
        .contracts(&[("oracle__write", "write")]);
    let mut gate = StdioGate::start(&setup);
    let answer = gate.ask(&vec![b' '; (4 << 20) + 2]).await;
    refused(
        "a line of 4 MiB",
        &answer,
        PARSE,
        "longer than 4194304 bytes",
    );
    assert!(gate.read().await.is_none());
    assert_eq!(executions(&setup.log_of("oracle")).len(), 0);
}
