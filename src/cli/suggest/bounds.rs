//! The bounds that are drafted of what was learned: no tighter than what was recorded, and widened to
//! values that a person would have written.

pub(super) mod rounds;

use super::learned::{LearnedMembers, LearnedNumbers, LearnedTexts, LearnedValues};
use super::paths::PlacePattern;
use crate::model::counted::counted;
use crate::schema::kinds::JsonKind;
use rounds::{widened_down, widened_up};
use serde_json::{Map, Value, json};

/// Values from which on it counts that they are few.
const MIN_VALUES: u64 = 5;
/// How often each of few values was given.
const MIN_TIMES_EACH: u64 = 3;
/// Characters up to which a text is made that is too long, and elements of a list.
const MAX_OUTSIDE_CHARS: usize = 1_000;
const MAX_OUTSIDE_ELEMENTS: usize = 100;
/// Members of an object that are bounded; one with more is a map.
const MAX_BOUNDED_MEMBERS: usize = 16;

const HIDDEN_ELEMENTS_WORDS: &str = "elements may hold secrets, so nothing was learned of them";

/// What is drafted of one argument.
#[derive(Debug, Default)]
pub(super) struct DraftedBound {
    /// Keywords of a schema.
    pub(super) keywords: Map<String, Value>,
    /// Bounds of its members.
    pub(super) members: Vec<(String, DraftedBound)>,
    /// From what it was learned.
    pub(super) words: String,
    /// What it refuses, and what is wrong with that.
    pub(super) outside: Vec<(String, Value)>,
}

impl DraftedBound {
    /// As one schema.
    pub(super) fn schema(&self) -> Value {
        let mut schema = self.keywords.clone();
        if !self.members.is_empty() {
            let member = |(name, bound): &(String, Self)| (name.clone(), bound.schema());
            let members: Map<String, Value> = self.members.iter().map(member).collect();
            schema.insert("properties".to_owned(), members.into());
        }
        schema.into()
    }

    fn keyword(&mut self, name: &str, value: Value) {
        self.keywords.insert(name.to_owned(), value);
    }

    fn refuses(&mut self, what: String, value: Value) {
        self.outside.push((what, value));
    }

    fn is_empty(&self) -> bool {
        self.keywords.is_empty() && self.members.is_empty()
    }
}

/// The bounds of members; `said` is what the tool's own schema says of them. What neither names is
/// refused, so all that were given are named, or none: an object with many names is a map.
fn of_members(learned: &LearnedMembers, said: &Value) -> Vec<(String, DraftedBound)> {
    let said = &said["properties"];
    let own = |name: &&String| said.get(name.as_str()).is_none();
    if learned.has_others || learned.named.keys().filter(own).count() > MAX_BOUNDED_MEMBERS {
        return Vec::new();
    }
    let bounds = learned
        .named
        .iter()
        .map(|(name, values)| (name.clone(), of(values, name, &said[name])))
        .filter(|(name, bound)| own(&name) || !bound.is_empty());
    let bounds: Vec<_> = bounds.collect();
    if bounds.iter().all(|(_, bound)| bound.is_empty()) {
        return Vec::new();
    }
    bounds
}

/// The bound of an argument called `name`.
pub(super) fn of(learned: &LearnedValues, name: &str, said: &Value) -> DraftedBound {
    let from = from(learned);
    if learned.has_reference {
        return DraftedBound {
            words: format!("holds a secret reference; {from}"),
            ..DraftedBound::default()
        };
    }
    if learned.is_hidden {
        return DraftedBound {
            words: format!("may hold secrets, so nothing was learned; {from}"),
            ..DraftedBound::default()
        };
    }
    let mut bound = match learned.kind() {
        Some(JsonKind::Boolean) => flag(learned),
        Some(JsonKind::Number) => number(&learned.numbers),
        Some(JsonKind::String) => text(&learned.texts, learned.times, name, said),
        Some(JsonKind::Array) => list(learned, name, said),
        Some(JsonKind::Object) => DraftedBound {
            members: of_members(&learned.members, said),
            ..DraftedBound::default()
        },
        Some(JsonKind::Null) | None => DraftedBound::default(),
    };
    if let (Some(kind), None) = (learned.kind(), said.get("type"))
        && !bound.is_empty()
        && !bound.keywords.contains_key("enum")
    {
        // Without it, a value of another type would not be bound.
        bound.keyword("type", word(kind).into());
    }
    bound
        .keywords
        .retain(|keyword, value| said.get(keyword) != Some(value));
    let elements = learned.elements.as_deref();
    bound.words = if elements.is_some_and(|elements| elements.is_hidden) {
        format!("{HIDDEN_ELEMENTS_WORDS}; {from}")
    } else if bound.is_empty() {
        format!("no bound was found; {from}")
    } else {
        from
    };
    bound
}

fn from(learned: &LearnedValues) -> String {
    learned_from(learned.times, learned.agents.len())
}

/// From what it was learned, as comments say it.
pub(super) fn learned_from(calls: u64, agents: usize) -> String {
    let (calls, agents) = (counted(calls, "call"), counted(agents as u64, "agent"));
    format!("from {calls} by {agents}; look at it")
}

fn word(kind: JsonKind) -> &'static str {
    match kind {
        JsonKind::Null => "null",
        JsonKind::Boolean => "boolean",
        JsonKind::Number => "number",
        JsonKind::String => "string",
        JsonKind::Array => "array",
        JsonKind::Object => "object",
    }
}

fn flag(learned: &LearnedValues) -> DraftedBound {
    let mut bound = DraftedBound::default();
    if let (Some(only), true) = (learned.flags.first(), learned.flags.len() == 1)
        && learned.times >= MIN_VALUES
    {
        bound.keyword("enum", json!([only]));
        bound.refuses(format!("that is {}", !only), json!(!only));
    }
    bound
}

fn number(numbers: &LearnedNumbers) -> DraftedBound {
    let mut bound = DraftedBound::default();
    let Some((least, most)) = numbers.span.filter(|_| !numbers.is_huge) else {
        return bound;
    };
    let (least, most) = (widened_down(least), widened_up(most));
    bound.keyword("minimum", json!(least));
    bound.keyword("maximum", json!(most));
    bound.refuses(format!("below {least}"), json!(least - 1));
    bound.refuses(format!("above {most}"), json!(most + 1));
    bound
}

fn text(texts: &LearnedTexts, times: u64, name: &str, said: &Value) -> DraftedBound {
    let mut bound = DraftedBound::default();
    let are_few = !texts.are_many
        && times >= MIN_VALUES
        && texts.few.values().all(|times| *times >= MIN_TIMES_EACH);
    let place = texts.places.pattern(name);
    // Words are no paths, however their argument is called.
    let place = place.filter(|_| !are_few || texts.places.has_slash);
    if let Some(PlacePattern { pattern, outside }) = place {
        bound.keyword("pattern", pattern.into());
        for (what, text) in outside {
            bound.refuses(what.to_owned(), text.into());
        }
    } else if are_few {
        let all: Vec<&str> = texts.few.keys().map(String::as_str).collect();
        bound.keyword("enum", json!(all));
        bound.refuses(
            "that was never given".to_owned(),
            (all.concat() + "x").into(),
        );
    } else if said.get("enum").is_none() {
        let most = widened_up(twice(texts.longest));
        bound.keyword("maxLength", json!(most));
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if most < MAX_OUTSIDE_CHARS {
            bound.refuses(
                format!("longer than {most} characters"),
                "x".repeat(most + 1).into(),
            );
        }
    }
    bound
}

fn list(learned: &LearnedValues, name: &str, said: &Value) -> DraftedBound {
    let mut bound = DraftedBound::default();
    let most = widened_up(twice(learned.longest));
    bound.keyword("maxItems", json!(most));
    let elements = learned
        .elements
        .as_deref()
        .map(|elements| of(elements, name, &said["items"]));
    let elements = elements.unwrap_or_default();
    for (what, value) in &elements.outside {
        bound.refuses(format!("with an element {what}"), json!([value]));
    }
    if !elements.is_empty() {
        bound.keyword("items", elements.schema());
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if elements.is_empty() && most < MAX_OUTSIDE_ELEMENTS {
        let one = vec![Value::from("x"); most + 1];
        bound.refuses(format!("of more than {most} elements"), one.into());
    }
    bound
}

fn twice(count: usize) -> f64 {
    2.0 * u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests;
