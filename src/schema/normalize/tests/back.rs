//! What an agent says by a normalized schema comes back as the tool's own schema means it.

use super::*;

/// policy §8: strict mode wants every property; a null stands for one that is absent, and is taken
/// away again.
#[test]
fn nulls_of_strict_mode_are_absence() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": { "type": "string" },
            "b": { "type": "integer", "minimum": 0 },
            "c": { "type": "object", "properties": { "d": { "enum": ["x"] } }, "additionalProperties": false }
        },
        "required": ["a"],
        "additionalProperties": false
    });
    let normal = normalize(&schema, Profile::OpenaiStrict).unwrap();
    assert_eq!(
        property(&normal.schema, "/required"),
        &json!(["a", "b", "c"])
    );
    assert_eq!(
        property(&normal.schema, "/properties/b/type"),
        &json!(["integer", "null"])
    );
    let read = |arguments: Value| normal.back.read(&arguments).unwrap().unwrap_or(arguments);
    assert_eq!(
        read(json!({ "a": "x", "b": null, "c": null })),
        json!({ "a": "x" })
    );
    assert_eq!(
        read(json!({ "a": "x", "b": 1, "c": { "d": null } })),
        json!({ "a": "x", "b": 1, "c": {} })
    );
    assert_eq!(
        read(json!({ "a": null, "b": 1 })),
        json!({ "a": null, "b": 1 }),
        "a required null is the agent's"
    );
    assert!(!normal.losses.narrows, "{:?}", normal.losses.named);
}

/// 002-01, policy §8: names come back at every depth; the same property under both names is
/// refused, not chosen from.
#[test]
fn names_come_back() {
    let normal = normalize(&hostile("names"), Profile::Portable).unwrap();
    let renamed = normal.back.renamed();
    assert_eq!(renamed.len(), 6, "{renamed:?}");
    let shown = renamed.iter().find(|(name, _)| *name == "a.b").unwrap().1;
    let read = normal
        .back
        .read(&json!({ shown: "x", "a_b": "y" }))
        .unwrap();
    assert_eq!(read, Some(json!({ "a.b": "x", "a_b": "y" })));
    let twice = normal
        .back
        .read(&json!({ shown: "x", "a.b": "y" }))
        .unwrap_err();
    assert_eq!(twice.expected, "the property `a.b` under one name only");
    assert_eq!(
        normal.back.read(&json!({ "a_b": "y" })).unwrap(),
        None,
        "what is not renamed is not touched"
    );
}

/// policy §3 step 5, 002-03: a text that stands for a number is a number again, and no other text
/// is.
#[test]
fn texts_of_enums_come_back() {
    let normal = normalize(&hostile("enums"), Profile::Gemini).unwrap();
    let level = property(&normal.schema, "/properties/level");
    assert_eq!(level, &json!({ "type": "string", "enum": ["1", "2", "3"] }));
    let read = |arguments: Value| normal.back.read(&arguments).unwrap().unwrap_or(arguments);
    assert_eq!(
        read(json!({ "level": "2", "flag": "true" })),
        json!({ "level": 2, "flag": true })
    );
    assert_eq!(
        read(json!({ "level": "4", "loose": "1" })),
        json!({ "level": "4", "loose": "1" })
    );
}
