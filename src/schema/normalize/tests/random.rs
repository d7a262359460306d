//! Random schemas, and random calls that they take (policy §12).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other kinds share one answer"
)]

use super::*;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Map;

/// Names that a profile changes, that are keywords, or that hide something.
const PROPERTY_NAMES: &[&str] = &[
    "a", "b", "c", "title", "type", "a.b", "$ref", "x y", "名", "kind",
];

fn name() -> impl Strategy<Value = String> {
    select(PROPERTY_NAMES).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("a")),
        Just(json!("1")),
        Just(json!("")),
        Just(json!(1)),
        Just(json!(2.0)),
        Just(json!(2.5)),
        Just(json!(true)),
        Just(Value::Null)
    ]
}

/// What `type` may be.
fn kinds() -> impl Strategy<Value = Value> {
    let kinds = [
        "string", "integer", "number", "boolean", "null", "array", "object",
    ];
    proptest::sample::subsequence(kinds.to_vec(), 1..4).prop_map(|kinds| json!(kinds))
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => Just(json!({ "type": "string" })),
        2 => Just(json!({ "type": "integer" })),
        1 => (0..3_u8, 2..5_u8).prop_map(|(least, most)| json!({ "type": "string", "minLength": least, "maxLength": most })),
        1 => (0..3_u8).prop_map(|least| json!({ "type": "number", "minimum": least, "exclusiveMaximum": 9 })),
        1 => Just(json!({ "type": "boolean", "title": "T", "default": true })),
        1 => Just(json!({ "type": ["string", "null"] })),
        1 => Just(json!({ "type": ["integer", "array", "object"], "items": { "type": "string" } })),
        1 => Just(json!({ "pattern": "^a", "type": "string" })),
        1 => Just(json!({ "$ref": "#/$defs/One" })),
        1 => Just(json!({ "$ref": "#/$defs/Two", "description": "beside" })),
        1 => Just(json!({ "$ref": "#" })),
        1 => Just(json!({})),
        1 => Just(json!(true)),
        1 => Just(json!(false)),
        2 => proptest::collection::vec(scalar(), 1..4).prop_map(|values| json!({ "enum": values })),
        1 => scalar().prop_map(|value| json!({ "const": value })),
        1 => (kinds(), proptest::collection::vec(scalar(), 1..4))
            .prop_map(|(kinds, values)| json!({ "type": kinds, "enum": values })),
        1 => (kinds(), scalar()).prop_map(|(kinds, value)| json!({ "type": kinds, "const": value })),
        1 => kinds().prop_map(|kinds| json!({ "type": kinds, "minimum": 1, "maxLength": 1, "format": "uri" })),
    ]
}

fn named(inner: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Value> {
    proptest::collection::vec((name(), inner), 0..4)
        .prop_map(|all| all.into_iter().collect::<Map<_, _>>().into())
}

fn with(base: &Value, more: Value) -> Value {
    let (mut base, Value::Object(more)) = (base.clone(), more) else {
        return base.clone();
    };
    base.as_object_mut().unwrap().extend(more);
    base
}

fn object(inner: impl Strategy<Value = Value> + Clone + 'static) -> impl Strategy<Value = Value> {
    let rest = prop_oneof![
        3 => Just(json!({})),
        2 => Just(json!({ "additionalProperties": false })),
        1 => inner.clone().prop_map(|schema| json!({ "additionalProperties": schema })),
        1 => inner.clone().prop_map(|schema| json!({ "patternProperties": { "^[a-x_]": schema } })),
        1 => Just(json!({ "propertyNames": { "maxLength": 5 }, "maxProperties": 3 })),
        1 => Just(json!({ "dependentRequired": { "a": ["b"] }, "minProperties": 1 })),
        1 => Just(json!({ "unevaluatedProperties": false })),
    ];
    (
        named(inner),
        proptest::collection::vec(name(), 0..2),
        rest,
        any::<bool>(),
    )
        .prop_map(|(properties, required, rest, typed)| {
            let base = json!({ "properties": properties, "required": required });
            let base = if typed {
                with(&base, json!({ "type": "object" }))
            } else {
                base
            };
            with(&base, rest)
        })
}

fn schema() -> BoxedStrategy<Value> {
    leaf()
        .prop_recursive(3, 24, 4, |inner| {
            let several = || proptest::collection::vec(inner.clone(), 1..4);
            prop_oneof![
                4 => object(inner.clone()),
                2 => inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
                1 => Just(json!({ "type": "array", "minItems": 1 })),
                1 => (several(), inner.clone())
                    .prop_map(|(prefix, items)| json!({ "type": "array", "prefixItems": prefix, "items": items })),
                1 => several().prop_map(|prefix| json!({ "type": "array", "prefixItems": prefix, "maxItems": 2 })),
                1 => (inner.clone(), 0..2_u8).prop_map(|(one, least)| {
                    json!({ "type": "array", "contains": one, "minContains": least, "maxContains": 2 })
                }),
                2 => several().prop_map(|branches| json!({ "anyOf": branches })),
                1 => several().prop_map(|branches| json!({ "oneOf": branches })),
                1 => several().prop_map(|parts| json!({ "allOf": parts })),
                1 => (object(inner.clone()), several()).prop_map(|(base, any)| with(&base, json!({ "anyOf": any }))),
                1 => (object(inner.clone()), several()).prop_map(|(base, all)| with(&base, json!({ "allOf": all }))),
                1 => (object(inner.clone()), inner.clone()).prop_map(|(base, not)| with(&base, json!({ "not": not }))),
                1 => (object(inner.clone()), inner.clone(), inner.clone(), inner.clone())
                    .prop_map(|(base, a, b, c)| with(&base, json!({ "if": a, "then": b, "else": c }))),
                1 => inner.clone().prop_map(|one| match one {
                    Value::Object(_) => with(&one, json!({ "nullable": true, "xml": {} })),
                    one => one,
                }),
            ]
        })
        .boxed()
}

/// A schema that a failure shows as it can be tried again.
struct Tried(Value);

impl std::fmt::Debug for Tried {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.0)
    }
}

fn root() -> impl Strategy<Value = Tried> {
    let whole = prop_oneof![
        3 => object(schema()),
        2 => (object(schema()), proptest::collection::vec(object(schema()), 1..4), select(&["anyOf", "oneOf", "allOf"][..]))
            .prop_map(|(base, several, keyword)| with(&base, json!({ keyword: several }))),
        1 => (object(schema()), proptest::collection::vec(schema(), 1..4), select(&["anyOf", "oneOf", "allOf"][..]))
            .prop_map(|(base, several, keyword)| with(&base, json!({ keyword: several }))),
        1 => (object(schema()), object(schema()), object(schema()))
            .prop_map(|(base, one, other)| with(&base, json!({ "if": one, "then": other, "dependentSchemas": { "a": one } }))),
    ];
    (whole, schema(), schema())
        .prop_map(|(root, one, two)| {
            with(
                &root,
                json!({ "type": "object", "$defs": { "One": one, "Two": two } }),
            )
        })
        .prop_map(Tried)
}

/// Draws numbers from a seed.
struct Luck(u64);

impl Luck {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end.max(1)
    }
}

/// A value that `schema` may take: most are, and the test sorts the others out.
fn value(root: &Value, schema: &Value, luck: &mut Luck, depth: usize) -> Value {
    if depth > 7 {
        return json!(1);
    }
    let pick = |luck: &mut Luck, of: &Value| {
        of.as_array()
            .and_then(|of| of.get(luck.below(of.len())))
            .cloned()
    };
    if let Some(target) = schema["$ref"]
        .as_str()
        .and_then(|target| root.pointer(target.trim_start_matches('#')))
    {
        return value(root, target, luck, depth + 1);
    }
    let mut made = match &schema["const"] {
        Value::Null => pick(luck, &schema["enum"]),
        one => Some(one.clone()),
    };
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let (None, Some(branch)) = (&made, pick(luck, &schema[keyword])) {
            let one = value(root, &branch, luck, depth + 1);
            made = (!one.is_object() || schema.get("properties").is_none()).then_some(one);
        }
    }
    if let Some(made) = made {
        return made;
    }
    let kind = schema["type"]
        .as_str()
        .map(str::to_owned)
        .or_else(|| pick(luck, &schema["type"])?.as_str().map(str::to_owned));
    match kind.as_deref() {
        Some("string") => json!(["a", "aa", "1", "abc"][luck.below(4)]),
        Some("integer") => [json!(1), json!(2.0), json!(7)][luck.below(3)].clone(),
        Some("number") => json!([2.5, 3.0][luck.below(2)]),
        Some("boolean") => json!(luck.below(2) == 0),
        Some("null") => Value::Null,
        Some("array") => {
            let of = |at: usize| {
                schema["prefixItems"]
                    .get(at)
                    .or(schema.get("items"))
                    .unwrap_or(&Value::Null)
            };
            (0..luck.below(4))
                .map(|at| value(root, of(at), luck, depth + 1))
                .collect()
        }
        Some(_) => members(root, schema, luck, depth),
        None if schema.get("properties").is_some() => members(root, schema, luck, depth),
        None => [
            json!("a"),
            json!(1),
            json!(null),
            json!([1]),
            json!({ "a": "a" }),
        ][luck.below(5)]
        .clone(),
    }
}

fn members(root: &Value, schema: &Value, luck: &mut Luck, depth: usize) -> Value {
    let mut all = Map::new();
    for part in [
        schema,
        &schema["then"],
        &schema["anyOf"][0],
        &schema["oneOf"][0],
        &schema["allOf"][0],
    ] {
        for (name, below) in part["properties"].as_object().into_iter().flatten() {
            let required = part["required"]
                .as_array()
                .is_some_and(|names| names.iter().any(|one| one == name));
            if required || luck.below(3) > 0 {
                all.insert(name.clone(), value(root, below, luck, depth + 1));
            }
        }
        for name in part["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            all.entry(name.to_owned()).or_insert_with(|| json!("a"));
        }
    }
    if luck.below(4) == 0 {
        let rest = schema.get("additionalProperties").unwrap_or(&Value::Null);
        let name = PROPERTY_NAMES[luck.below(PROPERTY_NAMES.len())];
        let made = value(root, rest, luck, depth + 1);
        all.entry(name.to_owned()).or_insert(made);
    }
    all.into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, max_shrink_iters: 400, ..ProptestConfig::default() })]

    /// 001-20, 001-21, 002-01, 002-21: whatever a server declares, each profile shows something that it takes or gives a
    /// reason; what the original takes can be said and comes back, unless the report names what cannot; and where it names
    /// nothing, what can be said is what the original takes.
    #[test]
    fn any_schema_in_any_profile(Tried(schema) in root(), luck in any::<u64>()) {
        holds(&schema, luck)?;
    }
}

/// What must hold of a schema, tried with random calls.
pub(super) fn holds(schema: &Value, luck: u64) -> Result<(), TestCaseError> {
    let Ok(original) = Schema::compile(schema) else {
        return Ok(());
    };
    let mut luck = Luck(luck);
    let calls: Vec<Value> = (0..8)
        .map(|_| members(schema, schema, &mut luck, 0))
        .collect();
    let calls: Vec<&Value> = calls
        .iter()
        .filter(|call| original.accepts(call).is_ok())
        .collect();
    for profile in Profile::ALL
        .into_iter()
        .filter(|profile| *profile != Profile::None)
    {
        let normal = match normalize(schema, profile) {
            Ok(normal) => normal,
            Err(unfit) => {
                prop_assert!(unfit.label().starts_with("profile_"), "{unfit}");
                continue;
            }
        };
        let problems = checker::problems(profile, &normal.schema);
        prop_assert!(
            problems.is_empty(),
            "{profile}: {problems:#?}\n{}",
            normal.schema
        );
        if normal.losses.named.is_empty() {
            exact(profile, &normal, &original, &mut luck)?;
        }
        for call in &calls {
            if let Err(why) = said(profile, &normal, call) {
                prop_assert!(
                    normal.losses.narrows,
                    "{profile}: {call}: {why}\n{:#}",
                    normal.schema
                );
            }
        }
    }
    Ok(())
}

/// Where the report names nothing, what can be said is what the original takes.
fn exact(
    profile: Profile,
    normal: &NormalizedSchema,
    original: &Schema,
    luck: &mut Luck,
) -> Result<(), TestCaseError> {
    let shown = if profile == Profile::Gemini {
        as_json_schema(&normal.schema)
    } else {
        normal.schema.clone()
    };
    for _ in 0..4 {
        let said = members(&shown, &shown, luck, 0);
        if !takes(&shown, &said) {
            continue;
        }
        match normal.back.read(&said) {
            Ok(read) => {
                let read = read.unwrap_or(said);
                prop_assert_eq!(
                    original.accepts(&read),
                    Ok(()),
                    "{}: {}\n{:#}",
                    profile,
                    read,
                    normal.schema
                );
            }
            // One property, said under both its names: refused, whatever it holds.
            Err(why) => prop_assert!(
                why.expected.ends_with("under one name only"),
                "{why:?}: {said}"
            ),
        }
    }
    Ok(())
}

/// `TOOLGATE_CASES` schemas, or a few.
fn cases() -> u32 {
    std::env::var("TOOLGATE_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(96)
}

/// policy §12, 002-01: random calls of the real tools can be said in each profile and come back as
/// they were, or the report names what cannot be said.
#[test]
fn random_calls_of_the_real_tools_come_back() {
    let (mut came_back, mut narrowed) = (0, 0);
    for Listing { name, tools } in corpus()
        .into_iter()
        .filter(|listing| listing.name != "hostile")
    {
        for tool in tools {
            let (schema, what) = (&tool["inputSchema"], format!("{name}/{}", tool["name"]));
            let original = Schema::compile(schema).unwrap();
            let mut luck = Luck(7);
            let calls: Vec<Value> = (0..24)
                .map(|_| members(schema, schema, &mut luck, 0))
                .collect();
            let calls: Vec<&Value> = calls
                .iter()
                .filter(|call| original.accepts(call).is_ok())
                .collect();
            assert!(!calls.is_empty(), "{what} takes none of them");
            for profile in Profile::ALL
                .into_iter()
                .filter(|profile| *profile != Profile::None)
            {
                let Ok(normal) = normalize(schema, profile) else {
                    continue;
                };
                for call in &calls {
                    let Err(why) = said(profile, &normal, call) else {
                        came_back += 1;
                        continue;
                    };
                    assert!(
                        normal.losses.narrows,
                        "{what} in {profile}: {call}: {why}\n{:#}",
                        normal.schema
                    );
                    narrowed += 1;
                }
            }
        }
    }
    // One at least for each of the 480 golden listings of a real tool that lose nothing.
    assert!(
        came_back >= 480,
        "{came_back} came back, {narrowed} narrowed"
    );
}
