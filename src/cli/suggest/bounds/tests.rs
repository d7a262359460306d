//! What is drafted of recorded values.

use super::*;

/// The bound of `a`, given in these calls, where the tool says `said` of it.
fn drafted(values: &[Value], said: &Value) -> DraftedBound {
    let mut learned = LearnedMembers::default();
    for (index, value) in values.iter().enumerate() {
        let arguments = Map::from_iter([("a".to_owned(), value.clone())]);
        learned.add(&arguments, ["one", "other"][index % 2]);
    }
    of(&learned.named["a"], "a", said)
}

fn many(values: &[&str], times: usize) -> Vec<Value> {
    values
        .iter()
        .cycle()
        .take(times)
        .map(|text| json!(text))
        .collect()
}

/// Recorded values, and the bound that is drafted of them.
fn rows() -> Vec<(Vec<Value>, Value)> {
    vec![
        (
            vec![json!(3), json!(87)],
            json!({ "type": "number", "minimum": 1, "maximum": 100 }),
        ),
        (
            vec![json!(0), json!(101)],
            json!({ "type": "number", "minimum": 0, "maximum": 200 }),
        ),
        (
            vec![json!(-7.5), json!(-3)],
            json!({ "type": "number", "minimum": -10, "maximum": -2 }),
        ),
        (
            vec![json!(0.25)],
            json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        ),
        (
            vec![json!(0)],
            json!({ "type": "number", "minimum": 0, "maximum": 0 }),
        ),
        (vec![json!(u64::MAX)], json!({})),
        (many(&["b", "a"], 6), json!({ "enum": ["a", "b"] })),
        (
            many(&["b", "a"], 5),
            json!({ "type": "string", "maxLength": 2 }),
        ),
        (
            many(&["/x/a", "/x/b"], 2),
            json!({ "type": "string", "pattern": "" }),
        ),
        (vec![json!(true); 5], json!({ "enum": [true] })),
        (vec![json!(true); 4], json!({})),
        (vec![json!(true), json!("x")], json!({})),
        (vec![json!(null); 9], json!({})),
        (
            vec![json!(["abc", "d"])],
            json!({ "type": "array", "maxItems": 5, "items": { "type": "string", "maxLength": 10 } }),
        ),
        (vec![json!([])], json!({ "type": "array", "maxItems": 0 })),
        (
            vec![json!({ "n": 2, "t": true }), json!({ "n": 3 })],
            json!({ "type": "object", "properties": { "n": { "type": "number", "minimum": 1, "maximum": 5 }, "t": {} } }),
        ),
        (vec![json!({ "t": true }), json!({ "u": null })], json!({})),
        (
            vec![json!([{ "n": 2, "t": true }])],
            json!({ "type": "array", "maxItems": 2, "items": { "type": "object", "properties": {
                "n": { "type": "number", "minimum": 1, "maximum": 2 }, "t": {} } } }),
        ),
        (
            many(&["b", "a", "b"], 6),
            json!({ "type": "string", "maxLength": 2 }),
        ),
    ]
}

/// Issue 15 `suggest`: what is recorded is let through, what is outside is not, and nothing is bounded
/// that was not seen often enough.
#[test]
fn bounds_let_through_what_was_recorded() {
    for (values, expected) in rows() {
        let bound = drafted(&values, &json!({}));
        let mut schema = bound.schema();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for value in &values {
            assert!(validator.is_valid(value), "{value}: {schema}");
        }
        for (what, value) in &bound.outside {
            assert!(!validator.is_valid(value), "{what}: {value}: {schema}");
        }
        if let Some(pattern) = schema.get_mut("pattern") {
            assert!(
                !expected["pattern"].is_null() && pattern.as_str().unwrap().starts_with("^/x(")
            );
            *pattern = json!("");
        }
        assert_eq!(schema, expected, "{values:?}");
    }
}

/// Issue 15 `suggest`: what the tool's own schema says is not said again; what it does not name is
/// named, or it would be refused.
#[test]
fn nothing_is_said_twice() {
    let said = json!({ "type": "number", "minimum": 1 });
    assert_eq!(
        drafted(&[json!(3)], &said).schema(),
        json!({ "maximum": 5 })
    );
    let said = json!({ "type": "object", "properties": { "m": { "type": "number" } } });
    let bound = drafted(&[json!({ "m": 2, "n": 2 })], &said);
    assert_eq!(
        bound.schema(),
        json!({ "properties": { "m": { "minimum": 1, "maximum": 2 }, "n": { "type": "number", "minimum": 1, "maximum": 2 } } })
    );
}

/// Issue 15 `suggest`: nothing is learned from what may be a secret, by its name or its looks, however
/// deep; nor from a reference to one.
#[test]
fn secrets_are_not_learned() {
    for (value, words) in [
        (
            json!("sk-canary"),
            "may hold secrets, so nothing was learned; from 2 calls by 2 agents; look at it",
        ),
        (
            json!("<secret_ref:token>"),
            "holds a secret reference; from 2 calls by 2 agents; look at it",
        ),
    ] {
        let bound = drafted(&[json!("x"), value.clone()], &json!({}));
        assert_eq!((bound.schema(), bound.words.as_str()), (json!({}), words));
        let bound = drafted(&[json!({ "deep": ["x", value] })], &json!({}));
        assert!(
            !bound.schema().to_string().contains("canary"),
            "{:?}",
            bound.schema()
        );
    }
    let bound = drafted(&[json!(["--password", "x"])], &json!({}));
    assert_eq!(
        (bound.schema(), bound.words.as_str()),
        (
            json!({ "type": "array", "maxItems": 5 }),
            "elements may hold secrets, so nothing was learned of them; from 1 call by 1 agent; look at it"
        )
    );
    let bound = drafted(
        &many(&["x"], 9)
            .iter()
            .map(|text| json!({ "password": text }))
            .collect::<Vec<_>>(),
        &json!({}),
    );
    assert_eq!(bound.schema(), json!({}));
}

/// Words that come again and again are choices, also where the argument is called a path.
#[test]
fn words_are_no_paths() {
    for (name, texts, keyword) in [
        ("path", ["up", "down"], "enum"),
        ("path", ["src/up", "down"], "pattern"),
        ("direction", ["src/up", "down"], "enum"),
    ] {
        let mut learned = LearnedMembers::default();
        for text in many(&texts, 6) {
            learned.add(&Map::from_iter([(name.to_owned(), text)]), "ann");
        }
        let bound = of(&learned.named[name], name, &json!({}));
        assert!(
            bound.keywords.contains_key(keyword),
            "{name} {texts:?}: {bound:?}"
        );
    }
}

#[test]
fn what_was_learned_is_counted() {
    let bound = drafted(&many(&["word"], 3), &json!({}));
    assert_eq!(bound.words, "from 3 calls by 2 agents; look at it");
    let bound = drafted(&[json!(true)], &json!({}));
    assert_eq!(
        bound.words,
        "no bound was found; from 1 call by 1 agent; look at it"
    );
}
