//! What operators may say, and what becomes of it.

use super::*;
use serde_json::json;

fn terms(body: Value) -> GrantTerms {
    serde_json::from_value(body).unwrap()
}

/// The constraints as pairs, or why there are none.
#[expect(
    clippy::needless_pass_by_value,
    reason = "values are written where they are used"
)]
fn kept(body: Value, shown: Option<Value>) -> Result<Vec<(String, ArgumentRule)>, String> {
    let any = ["/note".to_owned()];
    let kept = terms(body).kept(shown.as_ref(), &any)?;
    let pairs = kept.constraints.iter();
    Ok(pairs
        .map(|one| (one.pointer.clone(), one.is.clone()))
        .collect())
}

fn equals(value: Value) -> ArgumentRule {
    ArgumentRule::Equals(value)
}

/// By itself a grant is for exactly the arguments that were shown; each widening leaves the rest as it is.
#[test]
fn what_is_not_widened_stays_as_it_was_shown() {
    let shown = json!({ "to": { "iban": "DE89", "name": "x" }, "amount": 100, "note": "hi", "list": [1, 2] });
    let exact = kept(json!({}), Some(shown.clone())).unwrap();
    assert_eq!(exact, [(String::new(), equals(shown.clone()))]);
    let constraints = json!([
        { "pointer": "/amount", "at_most": 500 },
        { "pointer": "/to/name", "one_of": ["x", "y"] },
        { "pointer": "/note", "any": true },
        { "pointer": "/list/0", "same_as_this": true },
    ]);
    let mut wide = kept(json!({ "constraints": constraints }), Some(shown)).unwrap();
    wide.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        ("/amount", ArgumentRule::AtMost(500.into())),
        ("/list/0", equals(json!(1))),
        ("/list/1", equals(json!(2))),
        ("/note", ArgumentRule::Any),
        ("/to/iban", equals(json!("DE89"))),
        (
            "/to/name",
            ArgumentRule::OneOf(vec![json!("x"), json!("y")]),
        ),
    ];
    assert_eq!(wide, expected.map(|(pointer, is)| (pointer.to_owned(), is)));
    // Without a call that was shown only what is named is granted.
    let alone = kept(
        json!({ "constraints": [{ "pointer": "/a", "equals": null }] }),
        None,
    );
    assert_eq!(alone.unwrap(), [("/a".to_owned(), equals(json!(null)))]);
    assert_eq!(kept(json!({}), None).unwrap(), []);
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "one step after the other; to be cut into its parts"
)]
fn what_cannot_be_granted_says_why() {
    let shown = json!({ "amount": 100, "note": "hi", "to": { "iban": "DE89" } });
    let many: serde_json::Map<String, Value> =
        (0..40).map(|n| (format!("a{n}"), json!(n))).collect();
    let one = |constraint: Value| json!({ "constraints": [constraint] });
    let cases = [
        (json!({ "until": "31d" }), "`until` is out of bounds"),
        (json!({ "until": "1s" }), "`until` is out of bounds"),
        (json!({ "until": "soon" }), "`until` is no length of time"),
        (json!({ "uses": 0 }), "`uses` is out of bounds"),
        (json!({ "uses": 1001 }), "`uses` is out of bounds"),
        (
            one(json!({ "pointer": "amount", "at_most": 1 })),
            "JSON pointer",
        ),
        (one(json!({ "pointer": "/amount" })), "say one thing"),
        (
            one(json!({ "pointer": "/amount", "at_most": 500, "any": true })),
            "say one thing",
        ),
        (
            one(json!({ "pointer": "/amount", "at_most": -1 })),
            "below 0",
        ),
        (
            one(json!({ "pointer": "/amount", "at_most": 50 })),
            "the call that was shown is not covered",
        ),
        (
            one(json!({ "pointer": "/amount", "any": true })),
            "`approval.grant_any`",
        ),
        (
            one(json!({ "pointer": "", "any": true })),
            "`approval.grant_any`",
        ),
        (
            one(json!({ "pointer": "/amount", "one_of": [] })),
            "names nothing",
        ),
        (
            one(json!({ "pointer": "/note", "starts_with": "" })),
            "is empty",
        ),
        (
            one(json!({ "pointer": "/note", "starts_with": "a/../b" })),
            "leads up",
        ),
        (
            one(json!({ "pointer": "/none", "same_as_this": true })),
            "no call was shown that has",
        ),
        (
            json!({ "total": { "pointer": "/amount", "at_most": 0 } }),
            "`total` needs",
        ),
        (
            json!({ "total": { "pointer": "/note", "at_most": 5 } }),
            "no number that fits",
        ),
        (
            json!({ "total": { "pointer": "/amount", "at_most": 99 } }),
            "no number that fits",
        ),
        (
            json!({ "constraints": [{ "pointer": "/to", "same_as_this": true }, { "pointer": "/to/iban", "same_as_this": true }] }),
            "spoken of twice",
        ),
    ];
    for (body, why) in cases {
        let found = kept(body.clone(), Some(shown.clone())).unwrap_err();
        assert!(found.contains(why), "{body}: {found}");
    }
    let wide = one(json!({ "pointer": "/a1", "at_most": 9 }));
    let found = kept(wide, Some(Value::Object(many))).unwrap_err();
    assert!(found.contains("more than 32"), "{found}");
    let long = json!({ "a": "x".repeat(MAX_GRANT_BYTES) });
    let found = kept(json!({}), Some(long)).unwrap_err();
    assert!(found.contains("longer than 16 KiB"), "{found}");
    let total = json!({ "total": { "pointer": "/amount", "at_most": 5 } });
    assert!(
        kept(total, None)
            .unwrap_err()
            .contains("say what `/amount` may be")
    );
    for body in [
        json!({ "untill": "8h" }),
        json!({ "constraints": [{ "pointer": "/a", "equal": 1 }] }),
    ] {
        assert!(serde_json::from_value::<GrantTerms>(body).is_err());
    }
}

/// What chooses a contract's variant is read from what has to be equal.
#[test]
fn a_sample_has_what_is_said_exactly() {
    let said = json!({ "constraints": [
        { "pointer": "/do/what", "equals": "list" }, { "pointer": "/amount", "at_most": 5 },
    ] });
    assert_eq!(terms(said).sample(), json!({ "do": { "what": "list" } }));
    let whole = json!({ "constraints": [{ "pointer": "", "equals": { "a": 1 } }] });
    assert_eq!(terms(whole).sample(), json!({ "a": 1 }));
}
