//! What operators may say, and what becomes of it.

use super::*;
use serde_json::json;

fn terms(body: Value) -> GrantTerms {
    serde_json::from_value(body).unwrap()
}

/// The constraints as pairs, or why there are none.
fn kept(body: Value, shown: Option<&Value>) -> Result<Vec<(String, ArgumentRule)>, String> {
    let any = ["/note".to_owned()];
    let kept = terms(body).kept(shown, &any)?;
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
    let exact = kept(json!({}), Some(&shown)).unwrap();
    assert_eq!(exact, [(String::new(), equals(shown.clone()))]);
    let constraints = json!([
        { "pointer": "/amount", "at_most": 500 },
        { "pointer": "/to/name", "one_of": ["x", "y"] },
        { "pointer": "/note", "any": true },
        { "pointer": "/list/0", "same_as_this": true },
    ]);
    let mut wide = kept(json!({ "constraints": constraints }), Some(&shown)).unwrap();
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

/// That none of these can be granted beside a call that was shown, in words that say why.
fn judge_refused<const N: usize>(cases: [(Value, &str); N]) {
    let shown = json!({ "amount": 100, "note": "hi", "to": { "iban": "DE89" } });
    for (body, why) in cases {
        let found = kept(body.clone(), Some(&shown)).unwrap_err();
        assert!(found.contains(why), "{body}: {found}");
    }
}

fn constrained(constraint: &Value) -> Value {
    json!({ "constraints": [constraint] })
}

#[test]
fn terms_that_cannot_be_granted_say_why() {
    judge_refused([
        (json!({ "until": "31d" }), "`until` is out of bounds"),
        (json!({ "until": "1s" }), "`until` is out of bounds"),
        (json!({ "until": "soon" }), "`until` is no length of time"),
        (json!({ "uses": 0 }), "`uses` is out of bounds"),
        (json!({ "uses": 1001 }), "`uses` is out of bounds"),
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
    ]);
    let total = json!({ "total": { "pointer": "/amount", "at_most": 5 } });
    assert!(
        kept(total, None)
            .unwrap_err()
            .contains("say what `/amount` may be")
    );
    for body in [
        json!({ "untill": "8h" }),
        constrained(&json!({ "pointer": "/a", "equal": 1 })),
    ] {
        assert!(serde_json::from_value::<GrantTerms>(body).is_err());
    }
}

#[test]
fn constraints_that_cannot_be_granted_say_why() {
    let cases = [
        (json!({ "pointer": "amount", "at_most": 1 }), "JSON pointer"),
        (json!({ "pointer": "/amount" }), "say one thing"),
        (
            json!({ "pointer": "/amount", "at_most": 500, "any": true }),
            "say one thing",
        ),
        (json!({ "pointer": "/amount", "at_most": -1 }), "below 0"),
        (
            json!({ "pointer": "/amount", "at_most": 50 }),
            "the call that was shown is not covered",
        ),
        (
            json!({ "pointer": "/amount", "any": true }),
            "`approval.grant_any`",
        ),
        (
            json!({ "pointer": "", "any": true }),
            "`approval.grant_any`",
        ),
        (
            json!({ "pointer": "/amount", "one_of": [] }),
            "names nothing",
        ),
        (json!({ "pointer": "/note", "starts_with": "" }), "is empty"),
        (
            json!({ "pointer": "/note", "starts_with": "a/../b" }),
            "leads up",
        ),
        (
            json!({ "pointer": "/none", "same_as_this": true }),
            "no call was shown that has",
        ),
    ];
    judge_refused(cases.map(|(constraint, why)| (constrained(&constraint), why)));
    let both = json!([{ "pointer": "/to", "same_as_this": true }, { "pointer": "/to/iban", "same_as_this": true }]);
    judge_refused([(json!({ "constraints": both }), "spoken of twice")]);
}

/// What no constraint names counts as it was shown, and with that towards what a grant can hold.
#[test]
fn what_is_too_much_cannot_be_granted() {
    let many: serde_json::Map<String, Value> =
        (0..40).map(|n| (format!("a{n}"), json!(n))).collect();
    let wide = constrained(&json!({ "pointer": "/a1", "at_most": 9 }));
    let found = kept(wide, Some(&Value::Object(many))).unwrap_err();
    assert!(found.contains("more than 32"), "{found}");
    let long = json!({ "a": "x".repeat(MAX_GRANT_BYTES) });
    let found = kept(json!({}), Some(&long)).unwrap_err();
    assert!(found.contains("longer than 16 KiB"), "{found}");
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

/// What was shown as an array is covered as an array, and what was an object as an object, also where the steps to
/// what is in them are the same; without a call that was shown, digits name items.
#[test]
fn a_grant_covers_the_shape_that_was_shown() {
    let [list, object] = [
        json!({ "a": [5], "z": 1 }),
        json!({ "a": { "0": 5 }, "z": 1 }),
    ];
    let [none, nothing] = [json!({ "a": [], "z": 1 }), json!({ "a": {}, "z": 1 })];
    let body = json!({ "constraints": [
        { "pointer": "/a/0", "at_most": 9 }, { "pointer": "/z", "equals": 1 },
    ] });
    let open = json!({ "constraints": [
        { "pointer": "/a/0", "any": true }, { "pointer": "/z", "equals": 1 },
    ] });
    let any = ["/a/0".to_owned()];
    for (shown, covered, other) in [
        (Some(&list), &list, &object),
        (Some(&object), &object, &list),
        (None, &list, &object),
    ] {
        let kept = terms(body.clone()).kept(shown, &[]).unwrap();
        assert_eq!(fit(&kept.constraints, covered), Ok(()), "{shown:?}");
        assert!(fit(&kept.constraints, other).is_err(), "{shown:?}");
        let kept = terms(open.clone()).kept(shown, &any).unwrap();
        let (emptied, foreign) = if *covered == list {
            (&none, &nothing)
        } else {
            (&nothing, &none)
        };
        for (arguments, is_covered) in [
            (covered, true),
            (other, false),
            (emptied, true),
            (foreign, false),
        ] {
            let fits = fit(&kept.constraints, arguments).is_ok();
            assert_eq!(fits, is_covered, "{shown:?} {arguments}");
        }
        let written = serde_json::to_value(&*kept.constraints).unwrap();
        let is_member = shown == Some(&object);
        assert_eq!(
            written[0].get("numbered_members").is_some(),
            is_member,
            "{written}"
        );
    }
}
