//! What hostile patterns, schemas and arguments may take.

use super::*;
use std::time::Duration;

fn cpu(work: impl FnOnce()) -> Duration {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(
            time.tv_sec.unsigned_abs(),
            u32::try_from(time.tv_nsec).unwrap(),
        )
    };
    let before = now();
    work();
    now().checked_sub(before).unwrap()
}

#[test]
fn patterns_that_cannot_be_bounded_quarantine() {
    let quick = |schema: &Value| {
        let mut judged = Ok(());
        let time = cpu(|| judged = Schema::compile(schema).map(drop));
        assert!(time < Duration::from_secs(1), "{time:?} for {schema}");
        judged
    };
    let letters = json!({ "properties": (0..60).map(|n| (format!("p{n}"), json!({ "pattern": r"^\p{L}{1,100}k$" })))
        .collect::<serde_json::Map<_, _>>() });
    let broken = [
        letters,
        json!({ "pattern": "(a{1000}){1000}" }),
        json!({ "pattern": "(a)\\1" }),
        json!({ "pattern": "(" }),
        json!({ "patternProperties": { "(?=a)b": {} } }),
        json!({ "properties": (0..17).map(|n| (format!("p{n}"), json!({ "pattern": format!(r"^{n}(\p{{L}}{{1,4}}|\d)k") })))
            .collect::<serde_json::Map<_, _>>() }),
        json!({ "properties": (0..17).map(|n| (format!("p{n}"), json!({ "pattern": format!("(?=a)a{n}") })))
            .collect::<serde_json::Map<_, _>>() }),
    ];
    for schema in broken {
        assert!(
            matches!(
                quick(&schema),
                Err(Quarantine::UnusablePattern | Quarantine::Invalid { .. })
            ),
            "{schema}"
        );
    }
}

#[test]
fn look_around_reads_short_text_only() {
    let email = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";
    let schema =
        Schema::compile(&json!({ "properties": { "to": { "pattern": email }, "body": {} } }))
            .unwrap();
    let long = "x".repeat(100_000);
    assert_eq!(
        schema.accepts(&json!({ "to": "ann@example.com", "body": long })),
        Ok(())
    );
    let refused = schema
        .accepts(&json!({ "to": "ann..b@example.com" }))
        .unwrap_err();
    assert!(
        refused.pointer == "/to"
            && refused
                .expected
                .starts_with("text that matches the pattern"),
        "{refused:?}"
    );
    for text in ["x".repeat(4097), long] {
        assert!(schema.accepts(&json!({ "to": text })).is_err());
    }
    // What costs too much fails, also where failing is what the schema asks for.
    let not = Schema::compile(&json!({ "properties": { "to": { "not": { "pattern": email } } } }))
        .unwrap();
    assert_eq!(not.accepts(&json!({ "to": "nobody" })), Ok(()));
    assert!(not.accepts(&json!({ "to": "x".repeat(4097) })).is_err());
}

fn noise() -> String {
    let mut seed = 88_172_645_463_325_252_u64;
    let mut bit = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        if seed >> 40 & 1 == 1 { '1' } else { '0' }
    };
    (0..1_000_000).map(|_| bit()).collect()
}

fn assert_bounded(name: &str, schema: &Value, arguments: &Value) {
    let compiled = Schema::compile(schema).unwrap();
    let time = cpu(|| drop(compiled.accepts(arguments).expect_err(name)));
    // Debug code is about ten times slower than what is served: 0.25 s at worst there.
    assert!(time < Duration::from_secs(5), "{name}: {time:?}");
}

#[test]
fn hostile_patterns_take_a_bounded_time() {
    let noise = noise();
    for (name, schema, text) in [
        (
            "plain",
            json!({ "pattern": "^(a+)+$" }),
            json!("a".repeat(100_000) + "b"),
        ),
        (
            "look-around",
            json!({ "pattern": "(?=a)(.*)*b" }),
            json!("a".repeat(4_096)),
        ),
        (
            "look-around 2",
            json!({ "pattern": "^(?:(?=a)a|(?=a)a)+$" }),
            json!("a".repeat(4_095) + "b"),
        ),
        (
            "states",
            json!({ "pattern": "1[01]{400}[^01]" }),
            json!(noise),
        ),
        (
            "states, allowed text",
            json!({ "pattern": "1[01]{400}[^01]" }),
            json!(noise[..4_000]),
        ),
        (
            "few states",
            json!({ "pattern": "1[01]{15}[23]" }),
            json!(noise[..500_000]),
        ),
    ] {
        assert_bounded(name, &schema, &text);
    }
}

#[test]
fn hostile_schemas_and_arguments_take_a_bounded_time() {
    let tree = (0..60).fold(json!({}), |inner, _| json!({ "c": inner }));
    let alike = json!({ "a": vec!["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"; 3_000] });
    let noise = noise();
    let keys: serde_json::Map<String, Value> = (0..20_000)
        .map(|n| (format!("{}{n}", &noise[n..n + 200]), json!(1)))
        .collect();
    for (name, schema, arguments) in [
        (
            "keys",
            json!({ "patternProperties": { "1[01]{400}[^01]": {} }, "not": {} }),
            Value::Object(keys),
        ),
        (
            "many texts",
            json!({ "properties": { "a": { "items": { "pattern": "^(?:(?=a)a|(?=a)a)+$" } } } }),
            alike,
        ),
        (
            "recursion",
            json!({ "$ref": "#/$defs/t", "$defs": { "t": { "anyOf": [
                { "properties": { "c": { "$ref": "#/$defs/t" } }, "required": ["x"] },
                { "properties": { "c": { "$ref": "#/$defs/t" } }, "required": ["y"] } ] } } }),
            tree,
        ),
        (
            "alternatives",
            json!({ "items": { "oneOf": (0..64).map(|n| json!({ "const": n })).collect::<Vec<_>>() } }),
            json!([vec![63; 20_000], vec![64]].concat()),
        ),
    ] {
        assert_bounded(name, &schema, &arguments);
    }
}
