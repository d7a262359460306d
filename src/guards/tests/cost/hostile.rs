//! Schemas and arguments whose authors mean to take time, within every limit on their size.

#![expect(
    clippy::needless_pass_by_value,
    reason = "what is put together here is used once"
)]

use serde_json::{Map, Value, json};

/// Numbers by a seed.
pub(super) struct HostileRng(pub(super) u64);

impl HostileRng {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.roll(most - least + 1)
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Definitions, of which each element of `v`, or `v` itself, is judged by the first.
fn of_elements(definitions: Map<String, Value>, first: &str) -> Value {
    json!({ "$defs": definitions, "properties": { "v": { "items": reference(first) } } })
}

fn of_value(definitions: Map<String, Value>, first: &str) -> Value {
    json!({ "$defs": definitions, "properties": { "v": reference(first) } })
}

/// A step of a ladder asks for the next one by what `rung` makes of a reference to it.
fn rungs(steps: usize, rung: impl Fn(Value) -> Value, leaf: &Value) -> Map<String, Value> {
    let steps_up = (0..steps).map(|n| (format!("a{n}"), rung(reference(&format!("a{}", n + 1)))));
    steps_up
        .chain([(format!("a{steps}"), leaf.clone())])
        .collect()
}

/// Each step asks for the next one twice: 2^n for each element.
pub(super) fn ladder(keyword: &str, steps: usize, leaf: &Value) -> Value {
    of_elements(
        rungs(steps, |next| json!({ keyword: [next, next] }), leaf),
        "a0",
    )
}

/// Each definition asks for all the others: the ways through them are as many as n!.
fn complete(keyword: &str, many: usize, leaf: &Value) -> Value {
    let others = |n: usize| {
        (0..many)
            .filter(move |m| *m != n)
            .map(|m| reference(&format!("a{m}")))
    };
    let definition = |n: usize| {
        let mut definition = leaf.clone();
        definition[keyword] = others(n).collect();
        (format!("a{n}"), definition)
    };
    of_elements((0..many).map(definition).collect(), "a0")
}

/// The member that stands last in [`alike`], too.
fn member(size: usize, last: usize) -> Value {
    json!({ "a": vec![0; size], "z": last })
}

/// An enumeration of objects that differ at their end only.
fn alike(many: usize, size: usize) -> Value {
    json!({ "enum": (0..many).map(|n| member(size, n)).collect::<Vec<_>>() })
}

fn leaves() -> Vec<(&'static str, Value)> {
    vec![
        ("integers", json!({ "type": "integer" })),
        ("nothing", json!({})),
        ("no text", json!({ "not": { "type": "string" } })),
        ("members", alike(20, 30)),
        ("one member", json!({ "const": member(40, 1) })),
        ("unique", json!({ "uniqueItems": true })),
        ("pattern", json!({ "pattern": "^(a|ab|b)*c$" })),
        ("short", json!({ "maxLength": 2_000_000 })),
        (
            "names",
            json!({ "patternProperties": { "^1[01]{20}2$": {}, "b+c": {} } }),
        ),
        ("multiple", json!({ "multipleOf": 0.01 })),
        ("a name", json!({ "propertyNames": { "maxLength": 100 } })),
        (
            "required",
            json!({ "required": (0..50).map(|n| format!("r{n}")).collect::<Vec<_>>() }),
        ),
    ]
}

/// Ways to ask once more.
fn again(keyword: &str) -> impl Fn(Value) -> Value {
    move |next| json!({ "allOf": [next], keyword: { "type": "integer" } })
}

/// The schema of F3, scaled: steps, members and their size.
fn of_finding(steps: usize, many: usize, size: usize) -> Value {
    ladder("allOf", steps, &alike(many, size))
}

fn alternatives(keyword: &str, many: usize) -> Value {
    let one = |n: usize| {
        json!({ "type": "object", "required": ["kind"], "properties": { "kind": { "const": format!("k{n}") },
                                  "c": reference("a0"), "l": { "items": reference("a0") } } })
    };
    of_elements(
        [(
            "a0".to_owned(),
            json!({ keyword: (0..many).map(one).collect::<Vec<_>>() }),
        )]
        .into_iter()
        .collect(),
        "a0",
    )
}

/// All families, each in several sizes.
pub(super) fn schemas(dice: &mut HostileRng) -> Vec<(String, Value)> {
    let mut all = vec![
        ("F3".to_owned(), of_finding(11, 100, 120)),
        ("F3, lighter".to_owned(), of_finding(6, 40, 60)),
        (
            "F3, integers".to_owned(),
            ladder("allOf", 11, &json!({ "type": "integer" })),
        ),
    ];
    for (name, leaf) in leaves() {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let steps = dice.between(3, 11);
            all.push((
                format!("{steps} × {keyword}, {name}"),
                ladder(keyword, steps, &leaf),
            ));
        }
        let many = dice.between(3, 9);
        all.push((
            format!("{many} complete, {name}"),
            complete("allOf", many, &leaf),
        ));
    }
    for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
        for steps in [2, 5, 8, 11, 14, 30] {
            let leaf = json!({ "properties": { "a": {} }, "prefixItems": [{}] });
            all.push((
                format!("{steps} × {keyword}"),
                of_elements(rungs(steps, again(keyword), &leaf), "a0"),
            ));
            all.push((
                format!("{steps} × {keyword} of all"),
                of_value(rungs(steps, again(keyword), &leaf), "a0"),
            ));
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        for many in [2, 8, 60] {
            all.push((
                format!("{many} {keyword} that lead back"),
                alternatives(keyword, many),
            ));
        }
    }
    all.extend(of_one_keyword(dice));
    all
}

/// Each element of a list is judged by the whole schema, twice.
fn dynamic() -> Value {
    json!({ "$dynamicAnchor": "node", "properties": { "v": { "$ref": "#/$defs/l" }, "c": { "$dynamicRef": "#node" } },
        "$defs": { "l": { "items": { "allOf": [{ "$dynamicRef": "#node" }, { "$dynamicRef": "#node" }] } } } })
}

fn of_one_keyword(dice: &mut HostileRng) -> Vec<(String, Value)> {
    let long = dice.between(300, 900);
    let steps = dice.between(8, 11);
    let twice = |next: Value| json!({ "if": next, "then": next });
    let beside = |next: Value| json!({ "dependentSchemas": { "a": next, "z": next }, "unevaluatedProperties": { "type": "integer" } });
    let old = |next: Value| json!({ "dependencies": { "a": next, "z": next } });
    let holds = |next: Value| json!({ "contains": next, "minContains": 2, "items": next });
    let nots = |next: Value| json!({ "not": { "anyOf": [next, { "not": next }] } });
    let leaf = json!({ "type": "integer" });
    let keys: Map<String, Value> = (0..60)
        .map(|n| (format!("{n}[01]{{10}}$"), leaf.clone()))
        .collect();
    vec![
        (
            format!("chain of {long}"),
            of_elements(
                rungs(long, |next| next, &json!({ "not": { "type": "integer" } })),
                "a0",
            ),
        ),
        (
            format!("{steps} × if"),
            of_elements(rungs(steps, twice, &leaf), "a0"),
        ),
        (
            "6 × dependentSchemas".to_owned(),
            of_elements(rungs(6, beside, &leaf), "a0"),
        ),
        (
            format!("{steps} × dependencies"),
            of_elements(rungs(steps, old, &leaf), "a0"),
        ),
        (
            "4 × contains".to_owned(),
            of_value(rungs(4, holds, &leaf), "a0"),
        ),
        (
            format!("{steps} × not"),
            of_elements(rungs(steps, nots, &leaf), "a0"),
        ),
        ("$dynamicRef".to_owned(), dynamic()),
        (
            "60 patternProperties".to_owned(),
            json!({ "properties": { "v": { "patternProperties": keys } } }),
        ),
        (
            "unique in unique".to_owned(),
            json!({ "properties": { "v": { "uniqueItems": true, "items": { "uniqueItems": true } } } }),
        ),
        (
            "1 000 names".to_owned(),
            json!({ "properties": { "v": { "items": {
            "required": (0..1_000).map(|n| format!("r{n}")).collect::<Vec<_>>() } } } }),
        ),
        (
            "names that are listed".to_owned(),
            json!({ "properties": { "v": { "propertyNames": {
            "anyOf": (0..60).map(|n| json!({ "const": format!("n{n}") })).collect::<Vec<_>>() } } } }),
        ),
    ]
}

/// Arguments of every shape, `v` being what is judged; none is short of values.
pub(super) fn arguments(dice: &mut HostileRng) -> Vec<(String, Value)> {
    let many = dice.between(2_000, 20_000);
    let deep = dice.between(20, 60);
    let tree = (0..deep).fold(
        json!({ "a": 1 }),
        |inner, _| json!({ "c": inner, "kind": "k1" }),
    );
    let lists = (0..deep).fold(json!([1]), |inner, _| json!([inner, 1]));
    let bushy = (0..8).fold(
        json!({ "a": 1, "z": 2 }),
        |inner, _| json!({ "l": [inner, inner], "kind": "k7" }),
    );
    let keys: Map<String, Value> = (0..many / 8)
        .map(|n| (format!("{:0>24b}{n}", n * 7_919), json!(n)))
        .collect();
    vec![
        ("integers".to_owned(), json!(vec![7; many])),
        ("distinct integers".to_owned(), (0..many).collect()),
        ("members".to_owned(), json!(vec![member(30, 19); many / 40])),
        ("members of F3".to_owned(), json!(vec![member(120, 99); 20])),
        ("texts".to_owned(), json!(vec!["abababab"; many / 2])),
        ("a text".to_owned(), json!(["ab".repeat(many)])),
        (
            "small lists".to_owned(),
            json!(vec![json!((0..15).collect::<Vec<_>>()); many / 20]),
        ),
        (
            "objects".to_owned(),
            json!(vec![json!({ "a": 1, "z": 2, "b": "x" }); many / 4]),
        ),
        ("wide".to_owned(), json!([keys])),
        ("wide itself".to_owned(), keys.into()),
        ("a tree".to_owned(), json!([tree])),
        ("lists in lists".to_owned(), lists),
        ("a bush".to_owned(), json!([bushy])),
        ("nothing".to_owned(), json!([])),
    ]
    .into_iter()
    .map(|(name, v)| (name, json!({ "v": v })))
    .collect()
}
