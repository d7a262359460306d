//! What is said of a tree that is not what its struct holds.

use super::*;
use serde::Deserialize;
use serde_json::json;

fn said<T: AsWritten>(tree: Value) -> (bool, Vec<String>) {
    let mut problems = Problems::default();
    let read: Option<T> = read(tree, &mut problems);
    let found = problems.into_found().into_iter();
    (
        read.is_some(),
        found
            .map(|problem| format!("{}: {}", problem.path.join("/"), problem.message))
            .collect(),
    )
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Numbers {
    small: u32,
    large: u64,
    count: usize,
    either: i64,
    maybe: Option<u64>,
    any: f64,
}

/// 003-114: a number that no field can hold is named where it stands, however it is written.
#[test]
fn a_number_that_does_not_fit_has_its_place() {
    let digits = |most: &str| format!("expected a whole number in digits, at most {most}");
    let (small, large, signed) = (
        digits("4294967295"),
        digits("18446744073709551615"),
        digits("9223372036854775807"),
    );
    let (whole, less) = (
        "expected a whole number".to_owned(),
        "is less than 0".to_owned(),
    );
    for (key, number, expected) in [
        ("small", "4294967295", None),
        ("small", "4294967296", Some(&small)),
        ("large", "18446744073709551615", None),
        ("large", "18446744073709551616", Some(&large)),
        ("large", "3.0", Some(&large)),
        ("large", "1e3", Some(&large)),
        ("large", "3.5", Some(&whole)),
        ("large", "-1", Some(&less)),
        ("large", "-1.0", Some(&less)),
        ("count", "1e30", Some(&large)),
        ("either", "-9223372036854775808", None),
        ("either", "9223372036854775807", None),
        ("either", "9223372036854775808", Some(&signed)),
        ("either", "-1e30", Some(&signed)),
        ("either", "-3.0", Some(&signed)),
        ("maybe", "2.0", Some(&large)),
        ("any", "3.0", None),
        ("any", "1e300", None),
    ] {
        let tree = serde_json::from_str(&format!("{{\"{key}\": {number}}}")).unwrap();
        let expected: Vec<String> = expected
            .map(|words| format!("{key}: {words}"))
            .into_iter()
            .collect();
        assert_eq!(said::<Numbers>(tree), (true, expected), "{key} {number}");
    }
}

/// What no struct of ours asks for yet has the name of its keyword.
#[test]
fn a_keyword_without_words_of_its_own_is_named() {
    let (_, words) = said::<std::collections::BTreeSet<u8>>(json!([1, 1]));
    insta::assert_snapshot!("unique", words.join("\n"));
}

/// What its schema takes and it does not.
#[derive(Debug)]
struct Even;

impl JsonSchema for Even {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Even".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object" })
    }
}

impl<'de> Deserialize<'de> for Even {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let tree = Value::deserialize(deserializer)?;
        if tree["number"] == 2 {
            Ok(Self)
        } else {
            Err(serde::de::Error::custom("`number` is odd"))
        }
    }
}

/// A schema that nothing can be judged by.
#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only read")]
struct Unjudged {
    number: u8,
}

impl JsonSchema for Unjudged {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Unjudged".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "no type" })
    }
}

/// Whatever the schema says or cannot say, nothing is read that its struct refuses, and nothing is
/// refused without a word.
#[test]
fn what_the_schema_does_not_say_the_struct_does() {
    assert_eq!(said::<Even>(json!({ "number": 2 })), (true, vec![]));
    assert_eq!(
        said::<Even>(json!({ "number": 3 })),
        (false, vec![": `number` is odd".to_owned()])
    );
    assert_eq!(said::<Unjudged>(json!({ "number": 2 })), (true, vec![]));
    let (is_read, words) = said::<Unjudged>(json!({ "number": 300 }));
    assert!(
        !is_read && words.len() == 1 && words[0].contains("300"),
        "{words:?}"
    );
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Groups {
    groups: std::collections::BTreeMap<String, Vec<String>>,
}

/// 017: what is wrong is told a thousand times at most, however much there is of it.
#[test]
fn of_many_flaws_the_first_are_told() {
    let many = |value: Value| json!({ "groups": { "g": vec![value; 200_000] } });
    for (value, words) in [(json!(1), "expected text"), (json!(null), "empty value")] {
        let tree = many(value);
        let mut problems = Problems::default();
        assert!(mend::<Groups>(tree.clone(), &tree, &mut problems).is_none());
        let found = problems.into_found();
        assert_eq!(found.len(), PROBLEMS_AT_MOST + 1, "{words}");
        assert_eq!(found[0].message, words);
        let (read, told) = said::<Groups>(tree);
        assert_eq!((read, told.len()), (false, PROBLEMS_AT_MOST + 1), "{words}");
        let last = &told[PROBLEMS_AT_MOST];
        assert!(last.contains("there are more errors"), "{last}");
    }
}
