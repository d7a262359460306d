//! JSON as the validator reads it, each look at it paid for: an evaluation ends where its units are
//! spent, whatever the schema multiplies (threat-model §13 F3).
//!
//! What the validator does between two looks (subschemas that combine others and look at nothing)
//! is paid for with the value they apply to: [`super::weight`] says how much that can be.

use crate::model::work::spend;
use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, cmp, unique};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::cell::Cell;

/// One look at a value, and a search for a member, in units.
const LOOK_UNITS: u64 = 1;
const MEMBER_SEARCH_UNITS: u64 = 3;
/// Bytes of text that are read for one unit.
const BYTES_PER_UNIT: usize = 16;
/// What comparing two values costs, and putting one into a table, beside its text.
const COMPARE_UNITS: u64 = 1;
const HASH_UNITS: u64 = 8;
/// Up to so many elements are compared each with each.
const PAIRWISE_ELEMENTS_MAX: usize = 15;

/// What a schema adds to each look that leads to another value.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Toll {
    /// Units for the whole value, for the subschemas that apply to it and look at nothing.
    pub(super) root: u64,
    /// The same for a value in it.
    pub(super) value: u64,
    /// The same for a reference that leads back.
    pub(super) again: u64,
    /// Units for a byte of a name, for the patterns of names.
    pub(super) name: u64,
}

thread_local! {
    static CURRENT_TOLL: Cell<Toll> = const { Cell::new(Toll { root: 0, value: 0, again: 0, name: 0 }) };
}

/// Evaluates with this toll.
pub(super) fn tolled<T>(toll: Toll, evaluate: impl FnOnce() -> T) -> T {
    CURRENT_TOLL.set(toll);
    spend(toll.root);
    evaluate()
}

fn toll() {
    spend(LOOK_UNITS + CURRENT_TOLL.get().value);
}

fn text_units(text: &str) -> u64 {
    (text.len() / BYTES_PER_UNIT) as u64
}

/// The representation, for jsonschema.
pub(super) struct Metered;

/// A value that is paid for.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeteredValue<'a>(pub(super) &'a Value);

/// An object, and an array, that are paid for.
pub(super) struct MeteredObject<'a>(&'a Map<String, Value>);
pub(super) struct MeteredArray<'a>(&'a [Value]);

impl Json for Metered {
    type Node<'a> = MeteredValue<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        f: impl FnOnce(MeteredValue<'_>) -> T,
    ) -> T {
        spend(text_units(string));
        toll();
        *buffer = Value::String(string.to_owned());
        f(MeteredValue(buffer))
    }
}

impl<'a> Node<'a, Metered> for MeteredValue<'a> {
    type Object = MeteredObject<'a>;
    type Array = MeteredArray<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<MeteredObject<'a>> {
        spend(LOOK_UNITS);
        self.0.as_object().map(MeteredObject)
    }

    fn as_array(&self) -> Option<MeteredArray<'a>> {
        spend(LOOK_UNITS);
        self.0.as_array().map(|elements| MeteredArray(elements))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        spend(LOOK_UNITS);
        let text = self.0.as_str()?;
        spend(text_units(text));
        Some(Cow::Borrowed(text))
    }

    fn as_number(&self) -> Option<&'a Number> {
        spend(LOOK_UNITS);
        if let Value::Number(number) = self.0 {
            Some(number)
        } else {
            None
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        spend(LOOK_UNITS);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        spend(LOOK_UNITS);
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        spend(LOOK_UNITS);
        match self.0 {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Number(_) => JsonType::Number,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        equal(self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        // Asked where a reference leads back, and the subschemas behind it are evaluated again.
        spend(LOOK_UNITS + CURRENT_TOLL.get().again);
        Some(NodeIdentity::new(std::ptr::from_ref(self.0) as usize))
    }
}

impl<'a> Object<'a, Metered> for MeteredObject<'a> {
    type Node = MeteredValue<'a>;
    type MemberName = &'a str;
    type MembersIter = EachMember<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<MeteredValue<'a>> {
        spend(MEMBER_SEARCH_UNITS);
        let member = self.0.get(key)?;
        toll();
        Some(MeteredValue(member))
    }

    fn members(&self) -> EachMember<'a> {
        EachMember(self.0.iter())
    }
}

/// The members of an object, paid for one by one.
pub(super) struct EachMember<'a>(serde_json::map::Iter<'a>);

impl<'a> Iterator for EachMember<'a> {
    type Item = (&'a str, MeteredValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, member) = self.0.next()?;
        spend(
            MEMBER_SEARCH_UNITS
                + text_units(name)
                + CURRENT_TOLL
                    .get()
                    .name
                    .saturating_mul(name.len() as u64 + 1),
        );
        toll();
        Some((name, MeteredValue(member)))
    }
}

impl<'a> Array<'a, Metered> for MeteredArray<'a> {
    type Node = MeteredValue<'a>;
    type ElementsIter = EachElement<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> EachElement<'a> {
        EachElement(self.0.iter())
    }

    fn is_unique(&self) -> bool {
        let (each, times) = if self.0.len() <= PAIRWISE_ELEMENTS_MAX {
            (COMPARE_UNITS, self.0.len() as u64)
        } else {
            (HASH_UNITS, 1)
        };
        self.0.iter().for_each(|element| pay(element, each, times));
        unique::is_unique(self.0)
    }
}

/// The elements of an array, paid for one by one.
pub(super) struct EachElement<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for EachElement<'a> {
    type Item = MeteredValue<'a>;

    fn next(&mut self) -> Option<MeteredValue<'a>> {
        let element = self.0.next()?;
        toll();
        Some(MeteredValue(element))
    }
}

/// Pays for all of `value`, `each` for every value in it and the text besides, so many times.
pub(super) fn pay(value: &Value, each: u64, times: u64) {
    spend(each.saturating_mul(times));
    match value {
        Value::Array(elements) => elements
            .iter()
            .for_each(|element| pay(element, each, times)),
        Value::Object(members) => {
            for (name, member) in members {
                spend((MEMBER_SEARCH_UNITS + text_units(name)).saturating_mul(times));
                pay(member, each, times);
            }
        }
        Value::String(text) => spend(text_units(text).saturating_mul(times)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Equality of JSON Schema, in which 1 equals 1.0, paid for as far as it goes.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    spend(COMPARE_UNITS);
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let same = |(name, value): (&String, &Value)| {
                spend(MEMBER_SEARCH_UNITS + text_units(name));
                right.get(name).is_some_and(|other| equal(value, other))
            };
            left.len() == right.len() && left.iter().all(same)
        }
        (Value::String(left), Value::String(right)) => {
            if left.len() == right.len() {
                spend(text_units(left));
            }
            left == right
        }
        _ => cmp::equal(left, right),
    }
}
