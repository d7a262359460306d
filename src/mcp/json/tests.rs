//! What the strict reader accepts, refuses and keeps (threat-model §3A A1–A7).

use super::*;
use proptest::prelude::*;

mod bytewise;

fn read(text: &str) -> Result<Text, Malformed> {
    Text::read(Bytes::copy_from_slice(text.as_bytes()), &AGENT_JSON_LIMITS)
}

fn refused(text: &str, what: &str) {
    let malformed = read(text).expect_err(text);
    assert!(malformed.what.contains(what), "{text}: {malformed}");
}

#[test]
fn refuses_what_peers_read_differently() {
    for (text, what) in [
        (r#"{"a":1,"a":2}"#, "duplicate"),
        (r#"{"name":1,"n\u0061me":2}"#, "duplicate"),
        (r#"{"name":1,"Name":2}"#, "duplicate"),
        ("{\"params\":1,\"param\u{17f}\":2}", "duplicate"),
        ("{\"kind\":1,\"\u{212a}ind\":2}", "duplicate"),
        (r#"{"x":{"y":{"a":1,"A":2}}}"#, "duplicate"),
        (r#"{"x":{"y":{"z":{"a":1,"\u0061":2}}}}"#, "duplicate"),
        (r#"{"$serde_json::private::RawValue":"1"}"#, "reserved"),
        (r#"{"$serde_json::private::Number":"1"}"#, "reserved"),
        (r#"{"\u0024serde_json::private::RawValue":"1"}"#, "reserved"),
        (r#"{"name\u0000":1}"#, "NUL"),
        (r#"{"na\u0007me":1}"#, "control"),
        ("{\"na\u{7}me\":1}", "control"),
        ("{\"na\u{7f}me\":1}", "control"),
        (r#"{"na\u007fme":1}"#, "control"),
        ("{\"n\u{e4}\u{7f}me\":1}", "control"),
        ("{\"n\u{85}me\":1}", "control"),
        ("{\"stra\u{df}e\":1,\"stra\u{1e9e}e\":2}", "duplicate"),
        (r#"{"\u00df":1,"\u1E9E":2}"#, "duplicate"),
        ("\"\u{1}\"", "control"),
        (r#""\u0000""#, "NUL"),
        (r#""\ud800""#, "surrogate"),
        (r#""\udc00\ud800""#, "surrogate"),
        (r#""\ud800\u0041""#, "surrogate"),
        (r#""\x41""#, "escape"),
        ("1e400", "number"),
        ("-9223372036854775809", "number"),
        ("9007199254740993.0", "number"),
        ("18446744073709551616", "number"),
        ("1e17", "number"),
        ("-0", "negative zero"),
        ("-0.0", "negative zero"),
        ("-0e1", "negative zero"),
        ("-0.00E-7", "negative zero"),
        ("-1e-400", "takes for zero"),
        ("1e-400", "takes for zero"),
        ("[0.0,123.456e-789]", "takes for zero"),
        ("2.470328229206232720e-324", "takes for zero"),
        ("01", "malformed number"),
        ("1.", "malformed number"),
        (".5", "not a JSON value"),
        ("+1", "not a JSON value"),
        ("NaN", "not a JSON value"),
        ("nul", "not a JSON value"),
        ("[1,]", "not a JSON value"),
        (r#"{"a":1,}"#, "key"),
        ("{\"a\":1}x", "after"),
        ("\u{feff}1", "not a JSON value"),
        ("", "unexpected end"),
        ("[1", "expected"),
        ("\"a", "end of a string"),
    ] {
        refused(text, what);
    }
}

/// Deeper than a call's arguments, keys that differ in case pass, and so do numbers of 64 bits.
#[test]
fn keeps_what_is_exact_and_what_nobody_decides_by() {
    for text in [
        r#"{"x":{"y":{"z":{"a":1,"A":2}}}}"#,
        "[[[{\"Content-Type\":1,\"content-type\":2}]]]",
        "[9007199254740993,-9007199254740993,18446744073709551615,-9223372036854775808]",
    ] {
        let read = read(text).expect(text);
        assert_eq!(read.value().to_string(), text);
    }
}

#[test]
fn refuses_what_is_beyond_the_bounds() {
    refused(&"[".repeat(65), "deeply");
    refused(&format!("[{}1]", "1,".repeat(200_001)), "too many");
    refused(&format!("\"{}\"", "a".repeat((1 << 20) + 1)), "too long");
    refused(&format!("{{\"{}\":1}}", "k".repeat(257)), "too long");
}

#[test]
fn finds_a_repeated_key_among_many() {
    let many: Vec<String> = (0..100)
        .map(|n| format!("\"k{n}\":1"))
        .chain(["\"K7\":2".to_owned()])
        .collect();
    refused(&format!("{{{}}}", many.join(",")), "duplicate");
}

#[test]
fn server_texts_keep_exotic_numbers_and_keys_but_no_duplicates() {
    let read =
        |text: &str| Text::read(Bytes::copy_from_slice(text.as_bytes()), &SERVER_JSON_LIMITS);
    assert!(read(r#"{"a":1,"A":18446744073709551616}"#).is_ok());
    assert!(read(r#"{"a":1,"a":2}"#).is_err());
    assert!(read(r#"{"$serde_json::private::RawValue":"1"}"#).is_err());
}

/// threat-model §3A A7: what is as deep as may be is read whole, by whatever of it is asked.
#[test]
fn a7_the_deepest_text_has_a_value() {
    for limits in [&AGENT_JSON_LIMITS, &SERVER_JSON_LIMITS] {
        let of = |depth: usize| {
            let text = format!("{}7{}", "[".repeat(depth), "]".repeat(depth));
            Text::read(Bytes::from(text), limits).map(|text| (text.value().to_string(), text))
        };
        let (value, text) = of(limits.depth).unwrap();
        assert_eq!(value.as_bytes(), text.as_bytes());
        assert!(of(limits.depth + 1).is_err());
    }
}

#[test]
fn takes_objects_apart_without_changing_them() {
    let text = read(r#" { "a" : [1, {"b":"}\"]"}] , "c\u0041":null,"d":{} } "#).unwrap();
    let object = text.object().unwrap();
    let members: Vec<_> = object
        .iter()
        .map(|(key, value)| (key.to_owned(), value.value()))
        .collect();
    assert_eq!(
        members[0],
        ("a".to_owned(), serde_json::json!([1, {"b": "}\"]"}]))
    );
    assert_eq!(members[1], ("cA".to_owned(), Value::Null));
    assert_eq!(object.text().value(), text.value());
    assert_eq!(text.at(&["d"]).unwrap().as_bytes(), b"{}");
    assert_eq!(text.get("a").unwrap().elements().unwrap().len(), 2);
}

/// All members of `text` and of what is in it, by the walk or by what the reader noted.
fn told(text: &Text) -> Vec<(String, Vec<u8>)> {
    let members = text.members().into_iter().flatten();
    members
        .flat_map(|(name, value)| {
            assert_eq!(text.get(&name).map(|first| first.bytes), first(text, &name));
            let inner = told(&value);
            let this = (name.into_owned(), value.bytes.to_vec());
            std::iter::once(this).chain(inner)
        })
        .collect()
}

fn first(text: &Text, key: &str) -> Option<Bytes> {
    let mut members = text.members()?;
    members.find_map(|(name, value)| (name == key).then_some(value.bytes))
}

/// What the reader notes of a text is what the walk finds, whatever the text is part of, and however
/// many members it has.
fn is_known_as_it_is_walked(text: &Text) {
    let walked = Text::of_bytes(text.bytes());
    assert_eq!(told(text), told(&walked));
    assert_eq!(text.alike(&OUTER_LEVEL), walked.alike(&OUTER_LEVEL));
    for outer in ["a", "b", "new"] {
        is_known_when_it_grows(text, outer);
    }
    for outer in ["a", "b", "k"] {
        for inner in ["a", "b", "k"] {
            let one_by_one = walked.get(outer).and_then(|value| value.get(inner));
            assert_eq!(text.at(&[outer, inner]), one_by_one);
            let third = one_by_one.and_then(|value| value.get("a"));
            assert_eq!(text.at(&[outer, inner, "a"]), third);
        }
    }
}

/// The same of a text that members are put into.
fn is_known_when_it_grows(text: &Text, outer: &str) {
    let mut grown = text.clone();
    for key in ["new", "n\"ew", "newer", "new"] {
        let with = grown.with_inner_member(outer, key, |out| out.extend_from_slice(b"{\"y\":[7]}"));
        let Some(with) = with else { continue };
        let walked = Text::of_bytes(with.bytes());
        assert_eq!(told(&with), told(&walked));
        assert_eq!(with.alike(&OUTER_LEVEL), walked.alike(&OUTER_LEVEL));
        let added = with.at(&[outer, key]).map(|added| added.value());
        assert_eq!(added, Some(serde_json::json!({ "y": [7] })));
        assert!(with.noted.is_none() || grown.noted.is_some());
        grown = with;
    }
    let is_taken = text.get(outer).is_some_and(|inner| !inner.is_object());
    assert_eq!(grown != *text, text.is_object() && !is_taken);
}

#[test]
fn what_is_known_of_a_text_is_known_when_it_grows() {
    for json in [
        r#"{"content":[{"type":"text"}],"isError":false}"#,
        r#" {"content":[{"type":"text"}], "_meta" : { "x":{"y":1} , "z":2 } , "more":{"a":{"b":1}}}"#,
    ] {
        let text = Text::read(Bytes::from(json), &SERVER_JSON_LIMITS).unwrap();
        let one = text.with_inner_member("_meta", "one", |out| out.push(b'1'));
        let two = one
            .unwrap()
            .with_inner_member("_meta", "two", |out| out.push(b'2'))
            .unwrap();
        let three = two.with_new_member("three", &Text::bool(true));
        assert!(three.noted.is_some());
        is_known_as_it_is_walked(&three);
        for (path, expected) in [
            (&["_meta", "one"][..], "1"),
            (&["_meta", "two"], "2"),
            (&["three"], "true"),
        ] {
            assert_eq!(three.at(path).unwrap().as_bytes(), expected.as_bytes());
        }
    }
}

static OUTER_LEVEL: Level = Level {
    place: "outside",
    members: &[
        ("a", MemberContent::Objects(&INNER_LEVEL)),
        ("b", MemberContent::Each(&INNER_LEVEL)),
        ("k", MemberContent::Anything),
    ],
    prefixes: &["x/"],
};

static INNER_LEVEL: Level = Level {
    place: "inside",
    members: &[
        ("a", MemberContent::Objects(&INMOST_LEVEL)),
        ("b", MemberContent::Anything),
    ],
    prefixes: &[],
};

static INMOST_LEVEL: Level = Level {
    place: "inmost",
    members: &[("a", MemberContent::Anything)],
    prefixes: &[],
};

#[test]
fn members_are_found_as_they_are_walked() {
    let members = |count: usize| {
        let all: Vec<_> = (0..count)
            .map(|n| format!(r#""k{n}":{{"v":[{n}]}}"#))
            .collect();
        format!("{{{}}}", all.join(","))
    };
    for (json, is_indexed) in [
        (members(63), true),
        (members(65), false),
        ("[]".to_owned(), false),
        ("{}".to_owned(), false),
        (
            r#" { "a" : { } , "b":{"a":{"a":{"a":{"a":1}},"b":2}}, "c":3 }"#.to_owned(),
            true,
        ),
        (
            r#"{"a":[{"b":{"c":1}},{"b":2}],"\u0062":{"b":[{"a":1}]},"z":{"a":""}}"#.to_owned(),
            true,
        ),
        (
            r#"{"a":{"x":1},"a":{"x":2},"":{"":{"":{"":null}}}}"#.to_owned(),
            true,
        ),
    ] {
        let (text, _) = Text::read_oddly(Bytes::from(json.clone()), &SERVER_JSON_LIMITS).unwrap();
        assert_eq!(text.noted.is_some(), is_indexed, "{json}");
        is_known_as_it_is_walked(&text);
        if let Some(object) = text.object() {
            object
                .iter()
                .for_each(|(_, value)| is_known_as_it_is_walked(value));
        }
    }
}

/// guarantees §2: of what is let pass unread, only what is no JSON is refused.
#[test]
fn what_is_nested_beyond_the_stack_is_json_or_not() {
    let depth = scan::MAX_STACKED_DEPTH;
    for (inner, is_json) in [
        (
            r#"{ "a" : [ ] , "b" : {"c":[1, "]",{}]} , "d":-0.0 }"#,
            true,
        ),
        (r#"[[],[[1],[2]],{"":{}}]"#, true),
        ("[1,]", false),
        ("[,1]", false),
        ("[1 2]", false),
        ("[1}", false),
        (r#"{"a":1]"#, false),
        (r#"{"a"}"#, false),
        (r#"{"a":}"#, false),
        (r#"{"a":1,}"#, false),
        ("{1:1}", false),
        ("[[1]", false),
        ("[01]", false),
    ] {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        let text = Bytes::from(format!("{open}{inner}{close}"));
        let read = Text::read_oddly(text.clone(), &AGENT_JSON_LIMITS);
        assert_eq!(read.is_ok(), is_json, "{inner}");
        assert!(Text::read(text, &SERVER_JSON_LIMITS).is_err(), "{inner}");
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991_i64..9_007_199_254_740_991).prop_map(Value::from),
        (-1.0e9..1.0e9_f64).prop_map(|number| Value::from(number + 0.0)),
        "[^\u{0}]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..6)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// Objects in objects and lists, whose members are known, only look so, or are neither.
fn nearly_known() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["a", "A", "b", "B", "k", "\u{212a}", "X/y", "é\n"]);
    let leaf = prop_oneof![Just(Value::Null), Just(Value::from("}\"]"))];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        let object = prop::collection::btree_map(name.clone(), inner.clone(), 0..6);
        prop_oneof![
            1 => prop::collection::vec(inner, 0..3).prop_map(Value::from),
            3 => object.prop_map(|map| {
                map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    /// threat-model §3A A2: what the reader has noted leads past nothing.
    #[test]
    fn members_that_look_alike_are_found_as_they_are_walked(value in nearly_known(), pretty: bool) {
        let written = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let (text, _) = Text::read_oddly(Bytes::from(written.unwrap()), &SERVER_JSON_LIMITS).unwrap();
        is_known_as_it_is_walked(&text);
        for part in text.object().iter().flat_map(Object::iter) { is_known_as_it_is_walked(part.1); }
    }

    #[test]
    fn what_is_read_is_what_serde_reads(value in json()) {
        let text = read(&value.to_string()).unwrap();
        prop_assert_eq!(text.value(), value.clone());
        is_known_as_it_is_walked(&text);
        let pretty = read(&serde_json::to_string_pretty(&value).unwrap()).unwrap();
        is_known_as_it_is_walked(&pretty);
        if let Some(object) = text.object() { prop_assert_eq!(object.text().value(), value); }
    }

    /// guarantees §2: what is let pass unread is JSON however deep it stands.
    #[test]
    fn what_is_beyond_the_stack_is_read_as_what_is_not(bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:\\u0a1-.e ntrf".to_vec()), 0..24)) {
        let depth = scan::MAX_STACKED_DEPTH;
        let here = [b"[", &bytes[..], b"]"].concat();
        let beyond = [&b"[".repeat(depth), &here[..], &b"]".repeat(depth)].concat();
        let is_json = |text: Vec<u8>| Text::read_oddly(Bytes::from(text), &AGENT_JSON_LIMITS).is_ok();
        prop_assert_eq!(is_json(beyond), is_json(here));
    }

    #[test]
    fn never_accepts_more_than_serde(bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:\\u0a1-.e ntrf".to_vec()), 0..24)) {
        if let Ok(text) = Text::read(Bytes::from(bytes.clone()), &AGENT_JSON_LIMITS) {
            prop_assert!(serde_json::from_str::<Value>(std::str::from_utf8(&bytes).unwrap()).is_ok());
            prop_assert!(!text.as_bytes().is_empty());
        }
    }
}
