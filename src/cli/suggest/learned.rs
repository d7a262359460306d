//! What is remembered of the values that calls gave one argument: little, however many they are, and
//! nothing of what is not told.

use super::hidden::{hidden_names, is_hidden, is_hidden_list, is_hidden_text, is_reference};
use super::paths::TextPlaces;
use crate::schema::kinds::JsonKind;
use serde_json::{Map, Number, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Texts that are remembered one by one, at most.
pub(super) const MAX_TEXTS_REMEMBERED: usize = 8;
/// Characters of a text that is one of few.
const MAX_CHOICE_CHARS: usize = 64;
/// Members of an object that are told apart; one with more is a map.
const MAX_MEMBERS: usize = 64;
/// Bytes of a name that is told.
const MAX_NAME_BYTES: usize = 200;
/// Objects and lists within each other that are looked at.
const MAX_DEPTH: usize = 4;
/// The largest number of which every whole one below it is exact.
const EXACT_NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

/// One place in the arguments.
#[derive(Debug, Default)]
pub(super) struct LearnedValues {
    /// Values that were given; of an argument as many as calls.
    pub(super) times: u64,
    pub(super) agents: BTreeSet<String>,
    pub(super) kinds: Vec<JsonKind>,
    /// Something may be a secret: nothing else counts.
    pub(super) is_hidden: bool,
    /// A reference to a secret was given.
    pub(super) has_reference: bool,
    pub(super) flags: BTreeSet<bool>,
    pub(super) numbers: LearnedNumbers,
    pub(super) texts: LearnedTexts,
    /// Elements of the longest list.
    pub(super) longest: usize,
    pub(super) elements: Option<Box<LearnedValues>>,
    pub(super) members: LearnedMembers,
}

/// The numbers of one place.
#[derive(Debug, Default)]
pub(super) struct LearnedNumbers {
    /// The least and the greatest.
    pub(super) span: Option<(f64, f64)>,
    /// Some have a fraction.
    pub(super) is_broken: bool,
    /// Some are too large to be compared.
    pub(super) is_huge: bool,
}

/// The texts of one place.
#[derive(Debug, Default)]
pub(super) struct LearnedTexts {
    /// All of them with how often each was given, as long as they are few and short.
    pub(super) few: BTreeMap<String, u64>,
    pub(super) are_many: bool,
    /// Characters of the longest.
    pub(super) longest: usize,
    pub(super) places: TextPlaces,
}

/// The members of the objects of one place, or the arguments of a tool.
#[derive(Debug, Default)]
pub(super) struct LearnedMembers {
    pub(super) named: BTreeMap<String, LearnedValues>,
    /// There are too many names, or some that are not told.
    pub(super) has_others: bool,
    /// Members of the object that has most.
    pub(super) most: usize,
}

impl LearnedMembers {
    /// Learns from what a call of `agent` gave.
    pub(super) fn add(&mut self, members: &Map<String, Value>, agent: &str) {
        self.add_at(members, agent, 0);
    }

    fn add_at(&mut self, members: &Map<String, Value>, agent: &str, depth: usize) {
        self.most = self.most.max(members.len());
        let is_hidden_under = hidden_names(members);
        for (name, value) in members {
            let is_new = !self.named.contains_key(name);
            let is_untold = name.len() > MAX_NAME_BYTES || is_hidden_text(name);
            if is_untold || (is_new && self.named.len() == MAX_MEMBERS) {
                self.has_others = true;
                continue;
            }
            let known = self.named.entry(name.clone()).or_default();
            known.is_hidden |= is_hidden_under(name);
            known.add_at(value, agent, depth);
        }
    }
}

impl LearnedValues {
    fn add_at(&mut self, value: &Value, agent: &str, depth: usize) {
        self.times += 1;
        if !self.agents.contains(agent) {
            self.agents.insert(agent.to_owned());
        }
        self.has_reference |= is_reference(value);
        let is_plain = !matches!(value, Value::Array(_) | Value::Object(_));
        self.is_hidden |= (is_plain || depth == MAX_DEPTH) && is_hidden(value);
        let kind = JsonKind::of(value);
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
        if self.is_hidden || self.has_reference {
            self.forget();
            return;
        }
        match value {
            Value::Null => {}
            Value::Bool(flag) => {
                self.flags.insert(*flag);
            }
            Value::Number(number) => self.numbers.add(number),
            Value::String(text) => self.texts.add(text),
            Value::Array(values) => {
                self.longest = self.longest.max(values.len());
                if depth < MAX_DEPTH {
                    let elements = self.elements.get_or_insert_default();
                    elements.is_hidden |= is_hidden_list(values);
                    for value in values {
                        elements.add_at(value, agent, depth + 1);
                    }
                }
            }
            Value::Object(members) if depth < MAX_DEPTH => {
                self.members.add_at(members, agent, depth + 1);
            }
            Value::Object(_) => self.members.has_others = true,
        }
    }

    /// Keeps how often, by whom and of which types.
    fn forget(&mut self) {
        let rest = Self {
            times: self.times,
            agents: std::mem::take(&mut self.agents),
            kinds: std::mem::take(&mut self.kinds),
            is_hidden: self.is_hidden,
            has_reference: self.has_reference,
            ..Self::default()
        };
        *self = rest;
    }

    /// The only type that was given.
    pub(super) fn kind(&self) -> Option<JsonKind> {
        match self.kinds[..] {
            [only] => Some(only),
            _ => None,
        }
    }
}

impl LearnedNumbers {
    fn add(&mut self, number: &Number) {
        let Some(value) = number
            .as_f64()
            .filter(|value| value.abs() < EXACT_NUMBER_MAX)
        else {
            self.is_huge = true;
            return;
        };
        self.is_broken |= !(number.is_i64() || number.is_u64());
        let (least, most) = self.span.unwrap_or((value, value));
        self.span = Some((least.min(value), most.max(value)));
    }
}

impl LearnedTexts {
    fn add(&mut self, text: &str) {
        let length = text.chars().count();
        self.longest = self.longest.max(length);
        self.places.add(text);
        if let Some(times) = self.few.get_mut(text) {
            *times += 1;
        } else if self.few.len() < MAX_TEXTS_REMEMBERED && length <= MAX_CHOICE_CHARS {
            self.few.insert(text.to_owned(), 1);
        } else {
            self.are_many = true;
        }
    }
}
