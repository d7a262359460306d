//! What comes out of results, and what does not come through.

use super::*;
use serde_json::Value;

fn rule(settings: &Value) -> Rule {
    let mut problems = Problems::default();
    let settings: Settings = serde_json::from_value(settings.clone()).unwrap();
    let rule = settings.compile(&mut problems);
    let found: Vec<String> = problems
        .into_found()
        .into_iter()
        .map(|one| one.message)
        .collect();
    assert_eq!(found, Vec::<String>::new());
    rule
}

fn result(body: &str) -> Message {
    let body = Text::read(Bytes::copy_from_slice(body.as_bytes()), &SERVER_JSON_LIMITS).unwrap();
    Message::response(None, body, false)
}

fn body(message: &Message) -> String {
    String::from_utf8(message.body.as_ref().unwrap().as_bytes().to_vec()).unwrap()
}

fn shaped(settings: &Value, written: &str) -> String {
    body(&rule(settings).shape(result(written), Mode::Enforce, None))
}

/// Transparent: what no rule touches arrives as it was sent.
#[test]
fn without_a_rule_nothing_is_touched() {
    let written = r#"{ "content" : [], "n":1.50 , "structuredContent":{"a":1e0}}"#;
    assert!(!Rule::default().acts(Mode::Enforce, None));
    assert_eq!(
        body(&Rule::default().shape(result(written), Mode::Enforce, None)),
        written
    );
    assert_eq!(
        shaped(
            &json!({ "max_bytes": 1024, "redact": [{ "pointer": "/b" }, { "pattern": "x" }] }),
            written
        )
        .replace(' ', ""),
        written.replace(' ', "")
    );
}

/// What the contract redacts is taken out of the structured result, of JSON in texts, and
/// of plain texts that say the same.
#[test]
fn places_are_redacted_wherever_they_are_told() {
    let settings =
        json!({ "redact": [{ "pointer": "/rows/*/iban" }, { "pointer": "/pin", "with": "***" }] });
    for (written, expected) in [
        (
            r#"{"content":[],"structuredContent":{"rows":[{"iban":"DE12","n":1.50},{"iban":7}],"pin":1234}}"#,
            r#"{"content":[],"structuredContent":{"rows":[{"iban":"[redacted]","n":1.50},{"iban":"[redacted]"}],"pin":"***"}}"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"{ \"pin\": 1234, \"n\": 1.50 }"}]}"#,
            r#"{"content":[{"type":"text","text":"{\"pin\":\"***\",\"n\":1.50}"}]}"#,
        ),
        (
            r#"{"content":[{"type":"text","text":"the pin is 1234, not 12345 7"}],"structuredContent":{"pin":1234,"rows":[{"iban":7}]}}"#,
            r#"{"content":[{"type":"text","text":"the pin is ***, not ***5 7"}],"structuredContent":{"pin":"***","rows":[{"iban":"[redacted]"}]}}"#,
        ),
        (
            r#"{"content":[{"type":"resource","resource":{"uri":"a:b","text":"{\"rows\":[{\"iban\":\"DE12\"}]}"}}]}"#,
            r#"{"content":[{"type":"resource","resource":{"uri":"a:b","text":"{\"rows\":[{\"iban\":\"[redacted]\"}]}"}}]}"#,
        ),
    ] {
        assert_eq!(shaped(&settings, written), expected);
    }
}

/// Names that become equal are told apart, also from one that is there already.
#[test]
fn no_two_names_become_equal() {
    let settings = json!({ "redact": [{ "pattern": "[0-9]{4}", "with": "n" }] });
    let written = r#"{"content":[],"structuredContent":{"1234":1,"n#1":2,"in":{"5678":7890}}}"#;
    let expected = r#"{"content":[],"structuredContent":{"n#2":1,"n#1":2,"in":{"n#3":"n"}}}"#;
    assert_eq!(shaped(&settings, written), expected);
}

/// A pattern is looked for in every text, and in names and numbers of what a tool says in a
/// form of its own; the protocol's own words and the server's handles stay.
#[test]
fn patterns_are_redacted_everywhere() {
    let settings = json!({ "redact": [{ "pattern": "[0-9]{3}e?-[0-9]{2}", "with": "$0" }, { "pattern": "text|complete|state" }] });
    let written = r#"{"resultType":"complete","content":[{"type":"text","text":"a \u0031\u0032\u0033-45 text"}],"structuredContent":{"123-45":["x123-45",{"type":"123-45"}],"n":12345,"a 123-45":-123e-45},"requestState":"state 123-45"}"#;
    let expected = r#"{"resultType":"complete","content":[{"type":"text","text":"a $0 [redacted]"}],"structuredContent":{"$0#1":["x$0",{"type":"$0"}],"n":12345,"a $0#2":"$0"},"requestState":"state 123-45"}"#;
    assert_eq!(shaped(&settings, written), expected);
    let error = Message::error(
        None,
        -32000,
        "no 123-45",
        Some(Text::of(&json!({ "of": "123-45", "123-45": 1 }))),
    );
    let shaped = rule(&settings).shape(error, Mode::Enforce, None);
    assert_eq!(
        (body(&shaped).as_str(), shaped.is_error),
        (
            r#"{"code":-32000,"message":"no $0","data":{"of":"$0","$0#1":1}}"#,
            true
        )
    );
}

/// threat-model §9: a result that is too long is withheld, and the agent is told that the tool has
/// run, how long the result was and its digest. What was to be redacted is not in the digest.
#[test]
fn what_is_too_long_is_withheld() {
    let settings = json!({ "max_bytes": 1024, "redact": [{ "pattern": "secret" }] });
    let long = "y".repeat(1024);
    let written = format!(
        r#"{{"resultType":"complete","content":[{{"type":"text","text":"secret {long}"}}],"isError":false}}"#
    );
    let redacted = written.replace("secret", "[redacted]");
    let digest = Sha256::digest(&redacted)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat();
    let value: Value = serde_json::from_str(&shaped(&settings, &written)).unwrap();
    let words = value["content"][0]["text"].as_str().unwrap();
    for part in [
        "has run",
        &redacted.len().to_string(),
        &digest,
        "1024 bytes",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert_eq!(
        (&value["isError"], &value["resultType"]),
        (&json!(false), &json!("complete"))
    );
    assert!(shaped(&settings, &written).len() < RESULT_BYTES_MIN);
    let failed = written.replace("false", "true");
    assert!(
        shaped(&settings, &failed).contains(r#""isError":true"#),
        "a tool's own error stays one"
    );
    // What asks for input must come through to be answered.
    let asks = format!(r#"{{"resultType":"input_required","requestState":"{long}"}}"#);
    assert_eq!(shaped(&settings, &asks), asks);
    let error = Message::error(None, -32042, &long, None);
    let error = rule(&settings).shape(error, Mode::Enforce, None);
    assert!(
        error.is_error && body(&error).contains("-32042") && !body(&error).contains(&long),
        "{}",
        body(&error)
    );
}

/// The issue, "outputSchema checked": a result that the tool's own schema does not allow does not
/// come through.
#[test]
fn what_does_not_fit_its_schema_is_withheld() {
    let schema = json!({ "type": "object", "properties": { "id": { "type": "string" } }, "required": ["id"] });
    let (schema, broken) = (
        Schema::compile(&schema),
        Schema::compile(&json!({ "type": "nothing" })),
    );
    assert!(broken.is_err());
    let check = rule(&json!({}));
    for (written, output, fits) in [
        (
            r#"{"content":[],"structuredContent":{"id":"a"}}"#,
            Some(&schema),
            true,
        ),
        (
            r#"{"content":[],"structuredContent":{"id":7}}"#,
            Some(&schema),
            false,
        ),
        (
            r#"{"content":[],"structuredContent":{}}"#,
            Some(&schema),
            false,
        ),
        (r#"{"content":[]}"#, Some(&schema), false),
        (r#"{"content":[],"isError":true}"#, Some(&schema), true),
        (r#"{"resultType":"input_required"}"#, Some(&schema), true),
        (r#"{"content":[]}"#, None, true),
        (
            r#"{"content":[],"structuredContent":{"id":"a"}}"#,
            Some(&broken),
            false,
        ),
    ] {
        let shaped = body(&check.shape(result(written), Mode::Enforce, output));
        assert_eq!(shaped == written, fits, "{shaped}");
        assert_eq!(shaped.contains("withheld"), !fits, "{shaped}");
        // Without a word in the contract: where it is enforced, and where the schema can be judged.
        let usual = |mode| body(&Rule::usual().shape(result(written), mode, output)) == written;
        let is_judged = output.is_some_and(std::result::Result::is_ok);
        assert_eq!(usual(Mode::Enforce), fits || !is_judged, "{written}");
        assert!(usual(Mode::Observe), "{written}");
        let off = rule(&json!({ "output_schema": "off" }));
        assert_eq!(
            body(&off.shape(result(written), Mode::Enforce, output)),
            written
        );
    }
}

/// threat-model §3C C4: what a call left for later is shaped like what it answers at once, on both
/// wires.
#[test]
fn results_of_tasks_are_shaped_too() {
    let rule = rule(&json!({ "redact": [{ "pointer": "/pin" }] }));
    let inner = r#"{"content":[],"structuredContent":{"pin":1234}}"#;
    let expected = r#"{"content":[],"structuredContent":{"pin":"[redacted]"}}"#;
    assert_eq!(
        body(&rule.shape(result(inner), Mode::Enforce, None)),
        expected
    );
    let around = r#"{"resultType":"complete","status":"completed","result":RESULT,"x":1}"#;
    let shaped = rule.shape_task(
        result(&around.replace("RESULT", inner)),
        Mode::Enforce,
        None,
    );
    assert_eq!(body(&shaped), around.replace("RESULT", expected));
    let working = r#"{"resultType":"complete","status":"working","taskId":"1234"}"#;
    assert_eq!(
        body(&rule.shape_task(result(working), Mode::Enforce, None)),
        working
    );
}

/// What cannot be meant is an error when it is loaded.
#[test]
fn rules_are_judged_when_they_are_loaded() {
    let long = "a".repeat(513);
    for settings in [
        json!({ "max_bytes": 1023 }),
        json!({ "max_bytes": (4 << 20) + 1 }),
        json!({ "redact": [{}] }),
        json!({ "redact": [{ "pointer": "/a", "pattern": "b" }] }),
        json!({ "redact": [{ "pointer": "a" }] }),
        json!({ "redact": [{ "pattern": "(" }] }),
        json!({ "redact": [{ "pattern": "(?=a)" }] }),
        json!({ "redact": [{ "pattern": "a*" }] }),
        json!({ "redact": [{ "pattern": "" }] }),
        json!({ "redact": [{ "pattern": "(a{100}){100}{100}" }] }),
        json!({ "redact": [{ "pattern": long }] }),
        json!({ "redact": [{ "pattern": "a", "with": long }] }),
        json!({ "redact": vec![json!({ "pattern": "a" }); 33] }),
    ] {
        let mut problems = Problems::default();
        let written: Settings = serde_json::from_value(settings.clone()).unwrap();
        let _ = written.compile(&mut problems);
        assert_eq!(problems.into_found().len(), 1, "{settings}");
    }
}
