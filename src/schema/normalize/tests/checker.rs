//! What each provider takes, written down a second time from policy §8: shares nothing with the
//! normalizer or its data. The words that providers know are in `words`.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other kinds share one answer"
)]

use crate::model::reads::Profile;
use serde_json::Value;
use words::{ASIDE_KEYWORDS, KNOWN_FORMATS, TYPE_NAMES};

mod words;

/// What `profile` would refuse in `schema`.
pub(super) fn problems(profile: Profile, schema: &Value) -> Vec<String> {
    if profile == Profile::None {
        return Vec::new();
    }
    let mut checker = Checker {
        profile,
        problems: Vec::new(),
        properties: 0,
        optional: 0,
        unions: 0,
        values: 0,
        text: 0,
    };
    if schema["type"] != "object" || !schema["properties"].is_object() {
        checker.note("", "the root is no object with properties");
    }
    for keyword in ["anyOf", "oneOf", "allOf", "enum", "const", "not", "if"] {
        if schema.get(keyword).is_some() {
            checker.note("", &format!("{keyword} at the root"));
        }
    }
    checker.walk(schema, "", 1);
    checker.sums();
    checker.problems
}

struct Checker {
    profile: Profile,
    problems: Vec<String>,
    properties: usize,
    optional: usize,
    unions: usize,
    values: usize,
    text: usize,
}

/// Whether `profile` takes a tool of that name.
pub(super) fn takes_name(profile: Profile, name: &str) -> bool {
    let letters = |first: &str, rest: &str, longest: usize| {
        let of = |set: &str, letter: char| letter.is_ascii_alphabetic() || set.contains(letter);
        (1..=longest).contains(&name.len())
            && name.starts_with(|letter| of(first, letter))
            && name.chars().all(|letter| of(rest, letter))
    };
    let digits = "0123456789";
    let dashes = format!("{digits}_-");
    match profile {
        Profile::None => letters(&format!("{dashes}."), &format!("{dashes}."), 170),
        Profile::Portable => letters("", &dashes, 60),
        Profile::Anthropic | Profile::AnthropicStrict => letters(&dashes, &dashes, 128),
        Profile::Gemini | Profile::GeminiJson => letters("_", &format!("{dashes}."), 64),
        _ => letters(&dashes, &dashes, 64),
    }
}

impl Checker {
    fn note(&mut self, at: &str, what: &str) {
        self.problems.push(format!("{at}: {what}"));
    }

    fn is_strict(&self) -> bool {
        matches!(
            self.profile,
            Profile::OpenaiStrict | Profile::AnthropicStrict
        )
    }

    fn walk(&mut self, schema: &Value, at: &str, depth: usize) {
        let Some(members) = schema.as_object() else {
            return self.note(at, "is no object");
        };
        if depth
            > if self.profile == Profile::OpenaiStrict {
                10
            } else {
                60
            }
        {
            self.note(at, "is too deep");
        }
        self.keywords(members.keys().map(String::as_str), at);
        self.types(schema, at);
        self.values(schema, at);
        self.object(schema, at);
        for (keyword, below) in members {
            let at = format!("{at}/{keyword}");
            match (keyword.as_str(), below) {
                ("properties" | "patternProperties", Value::Object(named)) => {
                    for (name, below) in named {
                        self.walk(below, &format!("{at}/{name}"), depth + 1);
                    }
                }
                ("items", below) => self.walk(below, &at, depth + 1),
                ("additionalProperties", Value::Object(_)) => self.walk(below, &at, depth + 1),
                ("anyOf" | "prefixItems", Value::Array(several)) => {
                    if several.is_empty() {
                        self.note(&at, "is empty");
                    }
                    for (index, below) in several.iter().enumerate() {
                        self.walk(
                            below,
                            &format!("{at}/{index}"),
                            depth + usize::from(keyword == "prefixItems"),
                        );
                    }
                }
                (aside, below) if ASIDE_KEYWORDS.contains(&aside) => {
                    self.aside(below, &at, aside == "dependentSchemas");
                }
                _ => {}
            }
        }
    }

    /// What stands as it was written: nothing in it leads elsewhere. `named`: its members are
    /// schemas.
    fn aside(&mut self, schema: &Value, at: &str, named: bool) {
        for (keyword, below) in schema.as_object().into_iter().flatten() {
            let place = format!("{at}/{keyword}");
            if named {
                self.aside(below, &place, false);
                continue;
            }
            if keyword.starts_with('$') || keyword == "definitions" {
                self.note(at, &format!("{keyword} is refused"));
            }
            let by_name =
                ["properties", "patternProperties", "dependentSchemas"].contains(&keyword.as_str());
            match below {
                Value::Array(several)
                    if ["anyOf", "oneOf", "allOf", "prefixItems"].contains(&keyword.as_str()) =>
                {
                    for below in several {
                        self.aside(below, &place, false);
                    }
                }
                Value::Object(_)
                    if by_name || !["const", "default"].contains(&keyword.as_str()) =>
                {
                    self.aside(below, &place, by_name);
                }
                _ => {}
            }
        }
    }

    fn keywords<'a>(&mut self, keywords: impl Iterator<Item = &'a str>, at: &str) {
        let only = words::keywords_of(self.profile);
        for keyword in keywords {
            let never = ["oneOf", "allOf", "title", "examples"].contains(&keyword)
                || keyword.starts_with('$')
                || keyword == "definitions"
                || (self.profile == Profile::Xai
                    && ["minContains", "maxContains"].contains(&keyword));
            if never || only.is_some_and(|only| !only.contains(&keyword)) {
                self.note(at, &format!("{keyword} is refused"));
            }
        }
    }

    fn types(&mut self, schema: &Value, at: &str) {
        let types: Vec<&Value> = match &schema["type"] {
            Value::Array(several) => several.iter().collect(),
            Value::Null => Vec::new(),
            one => vec![one],
        };
        if types
            .iter()
            .any(|kind| !kind.as_str().is_some_and(|kind| TYPE_NAMES.contains(&kind)))
        {
            self.note(at, "a type that is none");
        }
        if self.profile == Profile::Gemini && schema["type"].is_array() {
            self.note(at, "a list of types");
        }
        if self.profile == Profile::Gemini
            && schema.get("anyOf").is_some()
            && schema.as_object().unwrap().len() > 1
        {
            self.note(at, "anyOf is not alone");
        }
        if self.is_strict() && types.is_empty() && schema.get("anyOf").is_none() {
            self.note(at, "has no type");
        }
        let has = |kind: &str| types.iter().any(|one| *one == kind);
        if has("array") && !schema["items"].is_object() {
            self.note(at, "an array without items");
        }
        if has("object") && !schema["properties"].is_object() {
            self.note(at, "an object without properties");
        }
        if self.is_strict() && schema.get("format").is_some() {
            let format = schema["format"].as_str().unwrap_or_default();
            if !KNOWN_FORMATS.contains(&format)
                && (self.profile != Profile::AnthropicStrict || format != "uri")
            {
                self.note(at, "a format that is refused");
            }
        }
        let few = ["date-time", "date", "time"];
        if self.profile == Profile::GeminiJson
            && schema
                .get("format")
                .is_some_and(|format| few.iter().all(|one| format != one))
        {
            self.note(at, "a format that is refused");
        }
        self.unions += usize::from(types.len() > 1 || schema.get("anyOf").is_some());
    }

    fn values(&mut self, schema: &Value, at: &str) {
        let letters = |value: &Value| {
            value
                .as_str()
                .map_or(value.to_string().len(), |text| text.chars().count())
        };
        self.text += schema.get("const").map_or(0, letters);
        let Some(values) = schema.get("enum") else {
            return;
        };
        let values = values.as_array().cloned().unwrap_or_default();
        let text: usize = values.iter().map(letters).sum();
        (self.values, self.text) = (self.values + values.len(), self.text + text);
        if self.profile == Profile::OpenaiStrict && values.len() > 250 && text > 15_000 {
            self.note(at, "too many characters in one enum");
        }
        if values.is_empty() {
            self.note(at, "an empty enum");
        }
        if self.profile == Profile::Gemini
            && values
                .iter()
                .any(|value| value.as_str().is_none_or(str::is_empty))
        {
            self.note(at, "a member of enum is no text");
        }
        if self.is_strict()
            && values
                .iter()
                .any(|value| value.is_object() || value.is_array())
        {
            self.note(at, "a member of enum is no scalar");
        }
    }

    fn object(&mut self, schema: &Value, at: &str) {
        let Some(properties) = schema["properties"].as_object() else {
            return;
        };
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for name in &required {
            if !properties.contains_key(*name) {
                self.note(at, &format!("requires {name}, which is not there"));
            }
        }
        if self.profile == Profile::OpenaiStrict && schema.get("required").is_none() {
            self.note(at, "has no required");
        }
        self.properties += properties.len();
        self.text += properties
            .keys()
            .map(|name| name.chars().count())
            .sum::<usize>();
        self.optional += properties
            .keys()
            .filter(|name| !required.contains(&name.as_str()))
            .count();
        if self.profile == Profile::OpenaiStrict && required.len() < properties.len() {
            self.note(at, "not all is required");
        }
        if self.is_strict() && schema["additionalProperties"] != false {
            self.note(at, "is not closed");
        }
        let plain = |name: &str, first: &str, rest: &str, longest: usize| {
            let holds =
                |set: &str, letter: char| letter.is_ascii_alphanumeric() || set.contains(letter);
            let digit =
                name.starts_with(|letter: char| letter.is_ascii_digit()) && !first.contains('0');
            !digit
                && (1..=longest).contains(&name.len())
                && name.starts_with(|letter| holds(first, letter))
                && name.chars().all(|letter| holds(rest, letter))
        };
        for name in properties.keys() {
            let fine = match self.profile {
                Profile::Anthropic | Profile::AnthropicStrict | Profile::Bedrock => {
                    !at.is_empty() || plain(name, "_.-0", "_.-", 64)
                }
                Profile::Gemini | Profile::GeminiJson | Profile::Portable => {
                    plain(name, "_", "_", 64)
                }
                _ => true,
            };
            if !fine {
                self.note(at, &format!("the name {name}"));
            }
        }
    }

    fn sums(&mut self) {
        let sums = [
            (Profile::OpenaiStrict, self.properties, 5_000, "properties"),
            (Profile::OpenaiStrict, self.values, 1_000, "members of enum"),
            (
                Profile::OpenaiStrict,
                self.text,
                120_000,
                "characters of names and values",
            ),
            (
                Profile::AnthropicStrict,
                self.optional,
                24,
                "optional properties",
            ),
            (Profile::AnthropicStrict, self.unions, 16, "unions"),
        ];
        for (profile, sum, most, what) in sums {
            if profile == self.profile && sum > most {
                self.note("", &format!("{sum} {what}"));
            }
        }
    }
}
