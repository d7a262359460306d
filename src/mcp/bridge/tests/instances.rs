//! Values that a published schema of MCP lets through, drawn by a seed: each member that it knows, and
//! names that mean something in another revision only.

use serde_json::{Map, Value, json};
use toolgate_faults::dice::Dice;

/// How deep a value may go before only what has to be there is.
const MAX_DEPTH: usize = 9;
const STRINGS: [&str; 14] = [
    "",
    "a",
    "complete",
    "input_required",
    "2025-11-25",
    "é\u{301}\u{202e}\u{feff}",
    "\u{0}\u{1f}\"\\/\u{7f}",
    "\u{1f980}\u{10ffff}",
    " \t\r\n",
    "__proto__",
    "io.modelcontextprotocol/tasks",
    "18446744073709551615",
    "{\"jsonrpc\":\"2.0\"}",
    "long long long long long long long long long long long long long long long long",
];
/// Names that mean something in some revision, or in none.
const NAMES: [&str; 16] = [
    "resultType",
    "ttlMs",
    "cacheScope",
    "inputRequests",
    "inputResponses",
    "requestState",
    "task",
    "execution",
    "structuredContent",
    "elicitationId",
    "mode",
    "icons",
    "title",
    "x-vendor",
    "é",
    "",
];
/// Names that only 2026-07-28 has in `_meta`.
const META_NAMES: [&str; 7] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/serverInfo",
    "io.modelcontextprotocol/subscriptionId",
    "acme/x",
];
/// Schemas of a tool's arguments or results, which the schema of MCP describes but loosely.
const TOOL_SCHEMAS: [&str; 7] = [
    r#"{"type":"object"}"#,
    r#"{"type":"object","properties":{},"required":[],"additionalProperties":false}"#,
    r#"{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"":{"const":null}},"required":["a"]}"#,
    r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"n":{"type":["integer","null"]}},"properties":{"n":{"$ref":"#/$defs/n"}}}"##,
    r#"{"type":"object","properties":{"x":{"enum":[1,"a",null,[1.50],{"b":18446744073709551615}]}},"default":{"x":1}}"#,
    r#"{"type":"object","properties":{"any":true,"none":false,"x":{"items":true}}}"#,
    r#"{"type":"object","oneOf":[{"required":["a"]},{"properties":{"x":{"not":{}}}}],"x-vendor":[true]}"#,
];
/// The same of results since 2026-07-28, which may be anything.
const RESULT_SCHEMAS: [&str; 3] = [
    r#"{"type":"array","items":{"type":"integer"}}"#,
    r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
    r"{}",
];

/// Draws values of one revision's definitions.
pub(super) struct Instances<'a> {
    pub(super) definitions: &'a Map<String, Value>,
    pub(super) is_modern: bool,
    pub(super) dice: Dice,
}

impl Instances<'_> {
    /// One of this definition.
    pub(super) fn of(&mut self, name: &str) -> Value {
        let definition = &self.definitions[name];
        self.drawn(definition, 0)
    }

    pub(super) fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        let index = self.dice.below(u64::try_from(all.len()).unwrap());
        all[usize::try_from(index).unwrap()].clone()
    }

    pub(super) fn string(&mut self) -> String {
        self.one_of(&STRINGS).to_owned()
    }

    fn drawn(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(to) = schema["$ref"].as_str() {
            let name = to.rsplit('/').next().unwrap();
            let definition = &self.definitions[name];
            return self.drawn(definition, depth);
        }
        if let Some(all) = schema["allOf"].as_array() {
            let mut whole = Map::new();
            for part in all {
                let Value::Object(members) = self.drawn(part, depth) else {
                    panic!("allOf of {schema}")
                };
                whole.extend(members);
            }
            return Value::Object(whole);
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(choices) = ["enum", "anyOf"]
            .map(|key| schema[key].as_array())
            .into_iter()
            .flatten()
            .next()
        {
            let chosen = self.one_of(choices);
            let is_value = schema["enum"].is_array();
            return if is_value {
                chosen
            } else {
                self.drawn(&chosen, depth)
            };
        }
        let kind = match schema["type"].as_array() {
            Some(kinds) => self.one_of(kinds),
            None => schema["type"].clone(),
        };
        match kind.as_str() {
            Some("object") => self.object(schema, depth),
            Some("array") => {
                let most = if depth > MAX_DEPTH { 0 } else { 3 };
                let count = self.dice.below(most + 1);
                (0..count)
                    .map(|_| self.drawn(&schema["items"], depth + 1))
                    .collect()
            }
            Some("string") => self.text_of(schema).into(),
            Some("integer") => self.integer(schema),
            Some("number") => self.number(schema),
            Some("boolean") => self.dice.chance(50).into(),
            Some("null") => Value::Null,
            _ => self.any(depth),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let empty = Map::new();
        let known = schema["properties"].as_object().unwrap_or(&empty);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let mut members = Map::new();
        for (name, value) in known {
            let is_needed = required.iter().any(|it| it == name);
            if !is_needed && (depth > MAX_DEPTH || self.dice.chance(50)) {
                continue;
            }
            let is_tools = matches!(name.as_str(), "inputSchema" | "outputSchema");
            let value = if is_tools {
                self.tool_schema(name == "outputSchema")
            } else {
                self.drawn(value, depth + 1)
            };
            members.insert(name.clone(), value);
        }
        let more = match schema.get("additionalProperties") {
            Some(more) if more.as_object().is_some_and(|more| !more.is_empty()) => Some(more),
            _ => None,
        };
        if depth > MAX_DEPTH || !self.dice.chance(30) {
            return Value::Object(members);
        }
        for _ in 0..=self.dice.below(2) {
            let name = if self.dice.chance(40) {
                self.one_of(&META_NAMES)
            } else {
                self.one_of(&NAMES)
            };
            let is_free = schema["additionalProperties"] != false && !known.contains_key(name);
            if is_free && !self.is_own(name) {
                let value = match (more, name) {
                    (Some(more), _) => self.drawn(more, depth + 1),
                    // Who is ahead of its revision has these as the later ones have them.
                    (None, "title") => self.string().into(),
                    (None, "icons") => json!([{ "src": "x:1" }]),
                    (None, _) => self.any(depth + 1),
                };
                members.insert(name.to_owned(), value);
            }
        }
        Value::Object(members)
    }

    /// Whether the name means something in this revision where the schema does not say so: what
    /// an extension calls so.
    fn is_own(&self, name: &str) -> bool {
        self.is_modern && name.starts_with("io.modelcontextprotocol/")
    }

    fn tool_schema(&mut self, is_result: bool) -> Value {
        let (schemas, results) = (&TOOL_SCHEMAS[..], &RESULT_SCHEMAS[..]);
        let all = if self.is_modern && is_result && self.dice.chance(40) {
            results
        } else {
            schemas
        };
        let drawn: Value = serde_json::from_str(self.one_of(all)).unwrap();
        // Until then, what an argument is is said by an object.
        let has_flags = drawn["properties"]
            .as_object()
            .is_some_and(|all| all.values().any(Value::is_boolean));
        if has_flags && !self.is_modern {
            json!({ "type": "object" })
        } else {
            drawn
        }
    }

    fn text_of(&mut self, schema: &Value) -> String {
        match schema["format"].as_str() {
            Some("uri") => self
                .one_of(&[
                    "x:1",
                    "https://example.com/a?b=%20#c",
                    "file:///a%20b",
                    "urn:a:b",
                ])
                .to_owned(),
            Some("uri-template") => self
                .one_of(&["x:{a}", "https://example.com/{+path}{?q*}"])
                .to_owned(),
            Some("byte") => self.one_of(&["", "AA==", "+/+/"]).to_owned(),
            _ => self.string(),
        }
    }

    fn integer(&mut self, schema: &Value) -> Value {
        let any = [
            json!(0),
            json!(1),
            json!(9_007_199_254_740_993_u64),
            json!(u64::MAX),
            json!(-1),
            json!(i64::MIN),
        ];
        let all = match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            (None, None) => &any[..],
            (Some(0), None) => &any[..4],
            (least, most) => return self.one_of(&[json!(least.or(most)), json!(most.or(least))]),
        };
        self.one_of(all)
    }

    fn number(&mut self, schema: &Value) -> Value {
        if schema["maximum"].is_number() {
            return self.one_of(&[json!(0), json!(1), json!(0.5), json!(1e-300)]);
        }
        self.one_of(&[
            json!(0),
            json!(-0.0),
            json!(1.5),
            json!(1e300),
            json!(u64::MAX),
            json!(i64::MIN),
        ])
    }

    /// Anything that is JSON.
    fn any(&mut self, depth: usize) -> Value {
        let kinds = if depth > MAX_DEPTH { 5 } else { 8 };
        match self.dice.below(kinds) {
            0 => Value::Null,
            1 => self.dice.chance(50).into(),
            2 => self.number(&Value::Null),
            3 | 4 => self.string().into(),
            5 => (0..self.dice.below(3))
                .map(|_| self.any(depth + 2))
                .collect(),
            _ => {
                let mut members = Map::new();
                for _ in 0..self.dice.below(3) {
                    let name = self.one_of(&NAMES).to_owned();
                    members.insert(name, self.any(depth + 2));
                }
                Value::Object(members)
            }
        }
    }
}
