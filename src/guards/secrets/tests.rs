//! Where references may stand, and what becomes of them.

use super::*;
use crate::mcp::headers::params_of;
use crate::mcp::json::AGENT_JSON_LIMITS;
use bytes::Bytes;
use serde_json::json;

fn text(json: &str) -> Text {
    Text::read(Bytes::copy_from_slice(json.as_bytes()), &AGENT_JSON_LIMITS).unwrap()
}

fn bindings() -> Bindings {
    let place = |server: &str, tool: &str, pointer: &str| SecretTarget {
        server: ServerName::new(server),
        tool: tool.to_owned(),
        pointer: pointer.to_owned(),
    };
    let binding = |name: &str, places: Vec<SecretTarget>| {
        let source = SecretSource::Variable(name.to_uppercase());
        (
            name.to_owned(),
            Arc::new(Binding {
                name: name.to_owned(),
                source,
                places,
            }),
        )
    };
    let token = ["/token", "/deep/a~1b/0", "/unlisted", "/mirrored"]
        .map(|pointer| place("bank", "pay", pointer));
    Bindings(BTreeMap::from([
        binding("token", token.to_vec()),
        binding(
            "elsewhere",
            vec![
                place("shop", "pay", "/token"),
                place("bank", "read", "/token"),
            ],
        ),
    ]))
}

fn rule() -> Rule {
    let pointers = ["/token", "/deep/a~1b/0", "/unbound", "/mirrored"]
        .map(str::to_owned)
        .to_vec();
    Settings(pointers).compile(&mut Problems::default())
}

fn wanted(arguments: &Value, beside: &str) -> Result<NeededSecrets, Refusal> {
    let schema = json!({ "type": "object", "properties": { "mirrored": { "type": "string", "x-mcp-header": "M" } } });
    let target = Target {
        server: &ServerName::new("bank"),
        tool: "pay",
        mirrored: &params_of(&schema).unwrap(),
    };
    rule().references(&bindings(), target, arguments, &[text(beside)])
}

/// 002-28, 002-31, threat-model §3F F1: a whole reference, at a pointer that the contract lists, of
/// a secret that is bound to this server, tool and pointer; nothing else.
#[test]
fn references_stand_where_they_may_or_the_call_is_refused() {
    let reference = "<secret_ref:token>";
    for (arguments, fine) in [
        (json!({}), true),
        (
            json!({ "token": "plain", "other": "a < b, <secret>" }),
            true,
        ),
        (json!({ "token": reference }), true),
        (json!({ "deep": { "a/b": [reference] } }), true),
        (
            json!({ "token": reference, "deep": { "a/b": [reference, "x"] } }),
            true,
        ),
        // Listed by the configuration only, by the contract only, by neither.
        (json!({ "unlisted": reference }), false),
        (json!({ "unbound": reference }), false),
        (json!({ "other": reference }), false),
        (json!({ "deep": { "a/b": ["x", reference] } }), false),
        (json!({ "token": { "token": reference } }), false),
        (json!({ "token": [reference] }), false),
        (json!({ "a": { "token": reference } }), false),
        // One that is bound to another server, to another tool, to nothing.
        (json!({ "token": "<secret_ref:elsewhere>" }), false),
        (json!({ "token": "<secret_ref:unknown>" }), false),
        // Not whole, not well-formed.
        (json!({ "token": "Bearer <secret_ref:token>" }), false),
        (json!({ "token": "<secret_ref:token> " }), false),
        (
            json!({ "token": "<secret_ref:token><secret_ref:token>" }),
            false,
        ),
        (json!({ "token": "<secret_ref:token" }), false),
        (json!({ "token": "<secret_ref:>" }), false),
        (json!({ "token": "<secret_ref:Token>" }), false),
        (json!({ "token": "<SECRET_REF:token>" }), false),
        (json!({ "token": "<secret_ref token>" }), false),
        (json!({ "token": "<secret_ref: token>" }), false),
        (json!({ "token": "<secret_ref:0token>" }), false),
        (
            json!({ "token": format!("<secret_ref:{}>", "a".repeat(65)) }),
            false,
        ),
        // In a key, and where the argument would be repeated in a header.
        (json!({ reference: 1 }), false),
        (json!({ "mirrored": reference }), false),
    ] {
        let judged = wanted(&arguments, "{}").map(drop);
        assert_eq!(
            judged,
            if fine {
                Ok(())
            } else {
                Err(Refusal::SecretDenied)
            },
            "{arguments}"
        );
    }
    for (beside, fine) in [
        (r#"{"a":["<secret"]}"#, true),
        (r#"{"a":["\u003csecret_ref:token\u003e"]}"#, false),
        (r#"{"<secret_ref:token>":1}"#, false),
    ] {
        assert_eq!(wanted(&json!({}), beside).is_ok(), fine, "{beside}");
    }
}

/// threat-model §8: there is a bound.
#[test]
fn a_call_has_so_many_references_at_most() {
    let pointers: Vec<String> = (0..=MAX_REFERENCES_PER_CALL)
        .map(|index| format!("/all/{index}"))
        .collect();
    let place = |pointer: &String| SecretTarget {
        server: ServerName::new("bank"),
        tool: "pay".to_owned(),
        pointer: pointer.clone(),
    };
    let source = SecretSource::Variable("T".to_owned());
    let binding = Binding {
        name: "t".to_owned(),
        source,
        places: pointers.iter().map(place).collect(),
    };
    let bindings = Bindings(BTreeMap::from([("t".to_owned(), Arc::new(binding))]));
    let rule = Settings(pointers).compile(&mut Problems::default());
    let target = Target {
        server: &ServerName::new("bank"),
        tool: "pay",
        mirrored: &[],
    };
    for (count, fine) in [
        (MAX_REFERENCES_PER_CALL, true),
        (MAX_REFERENCES_PER_CALL + 1, false),
    ] {
        let arguments = json!({ "all": vec!["<secret_ref:t>"; count] });
        let judged = rule.references(&bindings, target, &arguments, []);
        assert_eq!(judged.is_ok(), fine, "{count}");
    }
}

/// 002-27, threat-model §3F F4: the value goes where its reference stood, once, as it is; the rest
/// stays as it was written.
#[test]
fn values_go_into_the_copy_that_leaves() {
    let written = r#"{ "n" : 1.50, "token":"\u003csecret_ref:token>", "deep": {"a/b":["<secret_ref:token>", 1e0]} }"#;
    let secret = |value: &str| Arc::new(Secret::new(value.to_owned()));
    let wanted = wanted(&text(written).value(), "{}").unwrap();
    assert_eq!(wanted.bindings().count(), 2);
    let sealed = wanted
        .seal(vec![secret("a\"b\\c"), secret("<secret_ref:token>")])
        .unwrap();
    let filled = String::from_utf8(sealed.fill(&text(written)).as_bytes().to_vec()).unwrap();
    assert_eq!(
        filled,
        r#"{"n":1.50,"token":"a\"b\\c","deep":{"a/b":["<secret_ref:token>",1e0]}}"#
    );
}

/// Not all values: not sent.
#[test]
fn a_reference_without_its_value_is_refused() {
    let wanted = wanted(&json!({ "token": "<secret_ref:token>" }), "{}").unwrap();
    assert!(matches!(
        wanted.seal(Vec::new()),
        Err(Refusal::SecretDenied)
    ));
}

/// 002-26, 002-29: what the contract says is judged when it is loaded.
#[test]
fn pointers_are_judged_when_they_are_loaded() {
    let mut problems = Problems::default();
    let pointers = ["/fine", "no", "", "/a~2", "/fine"]
        .map(str::to_owned)
        .to_vec();
    let rule = Settings(pointers).compile(&mut problems);
    rule.judge(&ServerName::new("bank"), "pay", &bindings(), &mut problems);
    let found: Vec<String> = problems
        .into_found()
        .into_iter()
        .map(|one| format!("{:?} {}", one.path, one.message))
        .collect();
    assert_eq!(
        found
            .iter()
            .filter(|one| one.contains("not a JSON pointer"))
            .count(),
        3,
        "{found:?}"
    );
    assert_eq!(
        found
            .iter()
            .filter(|one| one.contains("is named twice"))
            .count(),
        1,
        "{found:?}"
    );
    assert_eq!(
        found
            .iter()
            .filter(|one| one.contains("no secret may go there"))
            .count(),
        5,
        "{found:?}"
    );
}
