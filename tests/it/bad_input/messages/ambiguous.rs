//! Messages that two readers could read differently (threat-model §3A A1–A6).

use super::{MessageCase, PARSE};

/// A1–A6.
pub(super) const AMBIGUOUS: &[MessageCase] = &[
    (
        "A1 duplicate method",
        more!(r#","method":"tools/list""#, ""),
        PARSE,
        "duplicate key",
    ),
    (
        "A1 duplicate name",
        more!("", r#","name":"other""#),
        PARSE,
        "duplicate key",
    ),
    (
        "A1 duplicate name by escape",
        more!("", r#","n\u0061me":"other""#),
        PARSE,
        "duplicate key",
    ),
    (
        "A1 duplicate deep in the arguments",
        arguments!(r#"{"a":[{"b":{"c":"@CANARY","c":1}}]}"#),
        PARSE,
        "duplicate key",
    ),
    (
        "A2 Method beside method",
        more!(r#","Method":"tools/list""#, ""),
        PARSE,
        "differ in case only",
    ),
    (
        "A2 NAME beside name",
        more!("", r#","NAME":"other""#),
        PARSE,
        "differ in case only",
    ),
    (
        "A2 long s",
        more!("", r#","argumentſ":{}"#),
        PARSE,
        "differ in case only",
    ),
    (
        "A2 Kelvin sign",
        arguments!("{\"k\":\"@CANARY\",\"\u{212a}\":2}"),
        PARSE,
        "differ in case only",
    ),
    (
        "A3 PATH beside path in what is called",
        more!("", r#","task":{"path":"/ok","PATH":"@CANARY"}"#),
        PARSE,
        "differ in case only, at `/params/task/PATH`",
    ),
    (
        "A3 Path beside path",
        arguments!(r#"{"path":"/ok","Path":"@CANARY"}"#),
        PARSE,
        "differ in case only",
    ),
    (
        "A4 NUL in a key",
        more!("", r#","name\u0000":"@CANARY""#),
        PARSE,
        "NUL",
    ),
    (
        "A4 line feed in a key",
        arguments!(r#"{"a\nb":"@CANARY"}"#),
        PARSE,
        "control character in a key",
    ),
    (
        "L1 sharp s, small and capital",
        arguments!(r#"{"ß":"@CANARY","ẞ":2}"#),
        PARSE,
        "differ in case only",
    ),
    (
        "L1 delete in a key",
        arguments!("{\"a\u{7f}\":\"@CANARY\"}"),
        PARSE,
        "control character in a key",
    ),
    (
        "L1 delete in a key by escape",
        arguments!(r#"{"a\u007f":"@CANARY"}"#),
        PARSE,
        "control character in a key",
    ),
    (
        "A4 NUL in a value",
        arguments!(r#"{"a":"@CANARY\u0000"}"#),
        PARSE,
        "NUL in a string",
    ),
    (
        "A5 serde_json's raw value",
        arguments!(r#"{"$serde_json::private::RawValue":"{\"a\":\"@CANARY\"}"}"#),
        PARSE,
        "reserved key",
    ),
    (
        "A5 serde_json's number",
        arguments!(r#"{"a":{"$serde_json::private::Number":"1"}}"#),
        PARSE,
        "reserved key",
    ),
    (
        "A5 the token by escape",
        arguments!(r#"{"\u0024serde_json::private::RawValue":"1"}"#),
        PARSE,
        "reserved key",
    ),
    (
        "A6 2^53 as a double",
        arguments!(r#"{"a":9007199254740992.0}"#),
        PARSE,
        "send it as a string, at `/params/arguments/a`",
    ),
    (
        "A6 2^64",
        arguments!(r#"{"a":18446744073709551616}"#),
        PARSE,
        "send it as a string",
    ),
    ("A6 1e400", arguments!(r#"{"a":1e400}"#), PARSE, "number"),
    (
        "L1 1e-400",
        arguments!(r#"{"a":1e-400}"#),
        PARSE,
        "takes for zero",
    ),
    (
        "L1 -1e-400",
        arguments!(r#"{"a":-1e-400}"#),
        PARSE,
        "takes for zero",
    ),
    (
        "A6 leading zero",
        arguments!(r#"{"a":012}"#),
        PARSE,
        "malformed number",
    ),
    (
        "A6 NaN",
        arguments!(r#"{"a":NaN}"#),
        PARSE,
        "not a JSON value",
    ),
];
