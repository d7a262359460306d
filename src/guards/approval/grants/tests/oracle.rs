//! Says the same in another way: arguments as a list of what stands at which place, and sets of these
//! lists compared. And dice that throw arguments which are often alike.

use crate::store::state::grant::{ArgumentConstraint, ArgumentRule};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What stands at which place: scalars, and containers that hold nothing.
fn leaves(value: &Value, at: &str, found: &mut BTreeMap<String, String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        Value::Array(list) => list
            .iter()
            .enumerate()
            // The dice constrain members alone, so that an item's place is at no pointer of theirs.
            .map(|(index, value)| (format!("#{index}"), value))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    if members.is_empty() {
        found.insert(at.to_owned(), value.to_string());
    }
    for (key, value) in members {
        let key = key.replace('~', "~0").replace('/', "~1");
        leaves(value, &format!("{at}/{key}"), found);
    }
}

fn is_at_or_below(place: &str, pointer: &str) -> bool {
    let rest = place.strip_prefix(pointer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Tenths of a number as it is written; the dice throw no finer ones.
fn tenths(text: &str) -> Option<i64> {
    let (whole, tenth) = text.split_once('.').unwrap_or((text, "0"));
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    let whole: i64 = whole.trim_start_matches('-').parse().ok()?;
    let tenth: i64 = tenth.parse().ok()?;
    Some(sign * (whole * 10 + tenth))
}

pub(super) fn allows(constraints: &[ArgumentConstraint], arguments: &Value) -> bool {
    let mut found = BTreeMap::new();
    leaves(arguments, "", &mut found);
    let met = constraints.iter().all(|one| is_met(one, arguments, &found));
    met && found
        .keys()
        .all(|place| is_named(constraints, arguments, place))
}

fn is_met(one: &ArgumentConstraint, arguments: &Value, found: &BTreeMap<String, String>) -> bool {
    let part: BTreeMap<String, String> = found
        .iter()
        .filter(|(place, _)| is_at_or_below(place, &one.pointer))
        .map(|(place, text)| (place.clone(), text.clone()))
        .collect();
    let is_there = |wanted: &Value| {
        let mut expected = BTreeMap::new();
        leaves(wanted, &one.pointer, &mut expected);
        // A list and an object may have the same places.
        let kind = || arguments.pointer(&one.pointer).map(shape);
        expected == part && kind() == Some(shape(wanted))
    };
    let text = || part.get(&one.pointer).cloned();
    match &one.is {
        ArgumentRule::Any => true,
        ArgumentRule::Equals(value) => is_there(value),
        ArgumentRule::OneOf(values) => values.iter().any(is_there),
        ArgumentRule::AtMost(most) => {
            let most = tenths(&most.to_string()).unwrap();
            text()
                .and_then(|text| tenths(&text))
                .is_some_and(|found| (0..=most).contains(&found))
        }
        ArgumentRule::StartsWith(start) => {
            text().is_some_and(|text| text.starts_with(&format!("\"{start}")))
        }
    }
}

/// Where lists and objects stand in a value.
fn shape(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(shape).collect::<String>()),
        Value::Object(map) => {
            let sorted: BTreeMap<&String, String> =
                map.iter().map(|(key, value)| (key, shape(value))).collect();
            format!("{sorted:?}")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => "_".to_owned(),
    }
}

fn is_named(constraints: &[ArgumentConstraint], arguments: &Value, place: &str) -> bool {
    let is_named = constraints
        .iter()
        .any(|one| is_at_or_below(place, &one.pointer));
    let holds_nothing = match arguments.pointer(place) {
        Some(Value::Object(map)) => map.is_empty(),
        _ => false,
    };
    let is_around = constraints
        .iter()
        .any(|one| one.pointer != place && is_at_or_below(&one.pointer, place));
    let is_whole = place.is_empty() && arguments.is_object();
    is_named || holds_nothing && (is_around || is_whole)
}

/// Throws the same row each time.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn pick<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[usize::try_from(self.below(N as u64)).unwrap()]
    }

    fn scalar(&mut self) -> Value {
        match self.below(6) {
            0 => json!(null),
            1 => json!(self.below(2) == 0),
            2 => json!(self.pick(["pay", "pay it", "PAY", ""])),
            3 => json!(self.below(4)),
            4 => json!(-1),
            // Halves have an exact double.
            _ => serde_json::from_str(&format!("{}.5", self.below(4))).unwrap(),
        }
    }

    fn value(&mut self, depth: u64) -> Value {
        match self.below(if depth == 0 { 4 } else { 8 }) {
            0..4 => self.scalar(),
            4 => Value::Array((0..self.below(3)).map(|_| self.value(0)).collect()),
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: u64) -> Value {
        let mut map = Map::new();
        for key in ["a", "b", "c/d", "0"] {
            if self.below(2) == 0 {
                map.insert(key.to_owned(), self.value(depth));
            }
        }
        Value::Object(map)
    }

    pub(super) fn arguments(&mut self) -> Value {
        self.object(2)
    }

    /// The same, or with one thing changed.
    pub(super) fn like(&mut self, shown: &Value) -> Value {
        let mut changed = shown.clone();
        let Some(members) = changed.as_object_mut() else {
            return changed;
        };
        let key = self.pick(["a", "b", "c/d", "0"]);
        match self.below(5) {
            0 => {
                members.remove(key);
            }
            1 => {
                members.insert(key.to_owned(), self.value(1));
            }
            2 => {
                if let Some(inner) = members.get_mut(key).and_then(Value::as_object_mut) {
                    inner.insert("a".to_owned(), self.scalar());
                }
            }
            _ => {}
        }
        changed
    }

    /// Constraints on some of the places of `shown`, most of which it meets, and exactness elsewhere.
    pub(super) fn constraints(&mut self, shown: &Value) -> Vec<ArgumentConstraint> {
        let mut found = Vec::new();
        self.constrain(shown, "", &mut found);
        found
    }

    fn constrain(&mut self, value: &Value, at: &str, found: &mut Vec<ArgumentConstraint>) {
        let deeper = value.as_object().filter(|map| !map.is_empty());
        if let Some(map) = deeper.filter(|_| self.below(4) > 0) {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                self.constrain(value, &format!("{at}/{key}"), found);
            }
            return;
        }
        let is = match (self.below(12), value) {
            // It is not spoken of.
            (0, _) => return,
            (1, _) => ArgumentRule::Any,
            (2, _) => ArgumentRule::OneOf(vec![value.clone(), self.scalar()]),
            (3, _) => ArgumentRule::Equals(self.value(1)),
            (4..7, Value::Number(number)) => {
                let most = tenths(&number.to_string()).unwrap().max(0) / 10 + 1;
                ArgumentRule::AtMost(most.into())
            }
            (4..7, Value::String(_)) => ArgumentRule::StartsWith("pay".to_owned()),
            _ => ArgumentRule::Equals(value.clone()),
        };
        let steps = at.split('/').skip(1).enumerate();
        let numbered = steps.filter(|(_, step)| *step == "0");
        found.push(ArgumentConstraint {
            pointer: at.to_owned(),
            numbered_members: numbered.map(|(nth, _)| nth).collect(),
            is,
        });
    }
}
