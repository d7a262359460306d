//! Random calls of tools with random schemas, some with a secret in them.

use super::*;

const SECRET: &str = "hunter2canary";
/// How many servers are tried.
const ROUNDS: u64 = 40;
const NAMES: &[&str] = &[
    "a",
    "file_path",
    "url",
    "meta",
    "größe",
    "a: #b",
    "yes",
    "list",
    "Kind",
    "日本",
];
const TEXTS: &[&str] = &[
    "x",
    "up",
    "down",
    "/srv/docs/a.txt",
    "/srv/docs/b/",
    "src/main.rs",
    "~/x",
    "C:/x",
    "https://a.example/x",
    "to: do #1",
    "\"quoted\"",
    "né 発 😀",
    "\u{202e}\u{0}\n\t",
    "",
    "- x",
    "null",
    "1e3",
    "${HOME}",
    "*a &b !c",
];

/// Numbers that the seed alone decides.
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// A value that holds the secret, in one of many ways.
    fn secret(&mut self) -> Value {
        let ways = [
            json!(format!("PGPASSWORD={SECRET} psql -h db")),
            json!(["--password", SECRET]),
            json!(format!("https://db.example/x?a=b&password={SECRET}")),
            json!(format!("https://ann:{SECRET}@db.example/x")),
            json!([format!("Authorization: Bearer {SECRET}"), "Accept: */*"]),
            json!([{ "key": "API_KEY", "value": SECRET }, { "key": "x", "value": "y" }]),
            json!([{ "name": "DB_PASSWORD", "value": SECRET }]),
            json!({ "password": SECRET }),
            json!({ "login": { "token": [SECRET] } }),
            json!(format!("run --api-key {SECRET}")),
            json!(format!("sk-{SECRET}")),
            json!({ format!("token={SECRET}"): 1 }),
            json!(format!("{{\"token\": \"{SECRET}\"}}")),
            json!(["curl", "-u", format!("ann:{SECRET}"), "https://a.example"]),
        ];
        ways[self.below(ways.len())].clone()
    }

    fn schema(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 9 }) {
            0 => json!({ "type": "string" }),
            1 => json!({ "type": "integer" }),
            2 => json!({}),
            3 => json!({ "type": "object" }),
            4 => json!({ "type": ["string", "null"] }),
            5 => json!({ "type": "array", "items": self.schema(depth - 1) }),
            6 => json!({ "$ref": "#/$defs/d" }),
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let names = self.below(4);
        let names = (0..names).map(|_| (self.of(NAMES).to_owned(), self.schema(depth)));
        let mut schema = json!({ "type": "object", "properties": names.collect::<Map<_, _>>() });
        if self.below(3) == 0 {
            schema["additionalProperties"] = json!(self.below(2) == 0);
        }
        schema
    }

    /// A value that `schema` may take.
    fn value(&mut self, schema: &Value, whole: &Value, depth: usize) -> Value {
        if self.below(25) == 0 {
            return self.secret();
        }
        let kind = match schema["type"].as_array() {
            Some(kinds) => kinds[self.below(kinds.len())].clone(),
            None => schema["type"].clone(),
        };
        match kind.as_str() {
            _ if schema.get("$ref").is_some() => self.value(&whole["$defs"]["d"], whole, depth),
            Some("string") => self.text(),
            Some("integer") => json!(self.below(2_000)),
            Some("null") => Value::Null,
            Some("array") => {
                let count = self.below(4);
                (0..count)
                    .map(|_| self.value(&schema["items"], whole, depth))
                    .collect()
            }
            Some("object") => self.members(schema, whole, depth).into(),
            _ if depth == 0 => self.text(),
            _ => match self.below(6) {
                0 => Value::Null,
                1 => json!(self.below(2) == 0),
                2 => json!(f64::from(u32::try_from(self.below(1_000)).unwrap()) / 8.0 - 60.0),
                3 => json!([self.value(&json!({}), whole, depth - 1), self.text()]),
                4 => self.members(&json!({}), whole, depth).into(),
                _ => self.text(),
            },
        }
    }

    fn text(&mut self) -> Value {
        match self.below(12) {
            0 => json!(self.of(TEXTS).repeat(500)),
            _ => json!(self.of(TEXTS)),
        }
    }

    fn members(&mut self, schema: &Value, whole: &Value, depth: usize) -> Map<String, Value> {
        let mut members = Map::new();
        let said = schema["properties"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        for (name, schema) in &said {
            if self.below(4) > 0 {
                members.insert(
                    name.clone(),
                    self.value(schema, whole, depth.saturating_sub(1)),
                );
            }
        }
        let is_open = said.is_empty() || schema["additionalProperties"] == true;
        if is_open && depth > 0 {
            for _ in 0..self.below(3) {
                let (name, value) = (self.of(NAMES), self.value(&json!({}), whole, depth - 1));
                members.insert(name.to_owned(), value);
            }
        }
        members
    }

    fn recorded(&mut self) -> Recorded {
        let (mut schemas, mut calls) = (Vec::new(), Vec::new());
        for tool in 0..3 {
            let mut schema = self.object(2);
            schema["$defs"] = json!({ "d": self.object(0) });
            let name = format!("tool_{tool}");
            for _ in 0..=self.below(9) {
                let given = self.members(&schema, &schema, 6).into();
                for _ in 0..=self.below(3) {
                    calls.push((name.clone(), Value::clone(&given)));
                }
            }
            schemas.push((name, schema));
        }
        Recorded { schemas, calls }
    }
}

/// Issue 15 `suggest`: whatever was recorded passes what is drafted of it, and no secret stands there.
#[test]
fn random_calls_pass_what_is_drafted_of_them() {
    let (mut learned, mut tools, mut planted) = (0, 0, 0);
    for seed in 0..ROUNDS {
        let recorded = Draws(seed).recorded();
        let suggested = recorded.suggested();
        assert_eq!(suggested.notes, Vec::<String>::new(), "{seed}");
        assert_eq!(suggested.flaws, [], "{seed}");
        suggested.lets_through(&recorded);
        suggested.is_without("canary");
        learned += suggested.learned.len();
        let is_planted = |given: &Value| given.to_string().contains("canary");
        planted += suggested
            .learned
            .iter()
            .filter(|(_, given)| is_planted(given))
            .count();
        tools += suggested
            .drafts
            .iter()
            .map(|draft| draft.counts.0)
            .sum::<usize>();
    }
    assert!(
        learned > 300 && tools > 60 && planted > 30,
        "{learned} {tools} {planted}"
    );
}
