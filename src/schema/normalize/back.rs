//! The way back: what a model wrote by a normalized schema, as the original schema means it
//! (guarantees §2, step 3).

use super::super::explain::{pointer, shown};
use super::super::violation::SchemaViolation;
use super::node::{PropertyNode, Rest, SchemaNode};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Values that one way back looks at; more is refused. What an agent may send has fewer.
const MAX_MAPPED_VALUES: usize = 1_000_000;

/// How arguments are read back. The default changes nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArgumentMapping {
    /// Shown name to declared name.
    pub(super) names: HashMap<String, String>,
    /// What is below each declared property.
    pub(super) below: HashMap<String, ArgumentMapping>,
    /// What is below properties that are not declared.
    pub(super) rest: Option<Box<ArgumentMapping>>,
    /// What is below elements.
    pub(super) inside: Option<Box<ArgumentMapping>>,
    /// Declared properties whose null means that they are absent.
    pub(super) absent: HashSet<String>,
    /// Declared properties whose null can be meant.
    pub(super) null: HashSet<String>,
    /// What a shown text stands for.
    pub(super) values: HashMap<String, Value>,
}

/// Two declared names would be shown as one.
pub(super) struct Clash;

impl ArgumentMapping {
    pub(super) fn of(node: &SchemaNode) -> Result<Self, Clash> {
        let mut back = Self {
            values: node.values.iter().cloned().collect(),
            ..Self::default()
        };
        for member in &node.members {
            back.add(member, node.is_required(&member.name))?;
        }
        let like = match &node.rest {
            Rest::Like(like) => Some(&**like),
            Rest::Open | Rest::Closed => None,
        };
        for part in like
            .into_iter()
            .chain(node.patterns.iter().map(|(_, part)| part))
        {
            let below = Self::of(part)?;
            boxed(&mut back.rest, below)?;
        }
        for part in node.prefix.iter().chain(node.items.as_deref()) {
            let below = Self::of(part)?;
            boxed(&mut back.inside, below)?;
        }
        for branch in node.unions.iter().flatten() {
            back.join(Self::of(branch)?)?;
        }
        Ok(back)
    }

    fn add(&mut self, member: &PropertyNode, required: bool) -> Result<(), Clash> {
        let shown = member.shown.as_ref().unwrap_or(&member.name);
        if self
            .names
            .insert(shown.clone(), member.name.clone())
            .is_some_and(|known| known != member.name)
        {
            return Err(Clash);
        }
        if member.null_is_absent {
            self.absent.insert(member.name.clone());
        } else if required && member.node.takes_null() {
            self.null.insert(member.name.clone());
        }
        let below = Self::of(&member.node)?;
        self.below
            .entry(member.name.clone())
            .or_default()
            .join(below)
    }

    /// What is true of either.
    fn join(&mut self, other: Self) -> Result<(), Clash> {
        for (shown, name) in other.names {
            if self
                .names
                .insert(shown, name.clone())
                .is_some_and(|known| known != name)
            {
                return Err(Clash);
            }
        }
        for (name, below) in other.below {
            self.below.entry(name).or_default().join(below)?;
        }
        for (mine, theirs) in [
            (&mut self.rest, other.rest),
            (&mut self.inside, other.inside),
        ] {
            if let Some(below) = theirs {
                boxed(mine, *below)?;
            }
        }
        self.absent.extend(other.absent);
        self.null.extend(other.null);
        self.values.extend(other.values);
        Ok(())
    }

    /// The same without what changes nothing; none if nothing is left.
    pub(super) fn pruned(mut self) -> Option<Self> {
        self.names.retain(|shown, name| shown != name);
        self.rest = self.rest.and_then(|below| below.pruned()).map(Box::new);
        let below = self
            .below
            .into_iter()
            .map(|(name, below)| (name, below.pruned()));
        // A declared property must not be taken for one of the rest.
        let kept = below.filter(|(_, below)| below.is_some() || self.rest.is_some());
        self.below = kept
            .map(|(name, below)| (name, below.unwrap_or_default()))
            .collect();
        self.inside = self.inside.and_then(|below| below.pruned()).map(Box::new);
        self.absent.retain(|name| !self.null.contains(name));
        self.null.clear();
        (self != Self::default()).then_some(self)
    }

    /// Whether arguments stay as they are.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Names that are shown otherwise at the root: declared, shown.
    pub fn renamed(&self) -> Vec<(&str, &str)> {
        let mut renamed: Vec<_> = self
            .names
            .iter()
            .map(|(shown, name)| (name.as_str(), shown.as_str()))
            .collect();
        renamed.sort_unstable();
        renamed
    }

    /// Reads `arguments` back; none if they stay as they are.
    pub fn read(&self, arguments: &Value) -> Result<Option<Value>, SchemaViolation> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut reading = MappingWalk {
            left: MAX_MAPPED_VALUES,
            path: Vec::new(),
            changed: false,
        };
        let value = reading.value(self, arguments)?;
        Ok(reading.changed.then_some(value))
    }
}

fn boxed(place: &mut Option<Box<ArgumentMapping>>, below: ArgumentMapping) -> Result<(), Clash> {
    place.get_or_insert_default().join(below)
}

struct MappingWalk {
    left: usize,
    path: Vec<String>,
    changed: bool,
}

impl MappingWalk {
    fn value(&mut self, back: &ArgumentMapping, value: &Value) -> Result<Value, SchemaViolation> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| self.violation("arguments with fewer values"))?;
        match value {
            Value::Object(members) => self.object(back, members),
            Value::Array(elements) => match &back.inside {
                Some(inside) => {
                    let read = elements.iter().enumerate();
                    let read = read
                        .map(|(index, element)| self.below(&index.to_string(), inside, element));
                    read.collect::<Result<Vec<_>, _>>().map(Value::Array)
                }
                None => Ok(value.clone()),
            },
            Value::String(text) => Ok(match back.values.get(text) {
                Some(meant) => {
                    self.changed = true;
                    meant.clone()
                }
                None => value.clone(),
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
        }
    }

    fn object(
        &mut self,
        back: &ArgumentMapping,
        members: &Map<String, Value>,
    ) -> Result<Value, SchemaViolation> {
        let mut read = Map::new();
        for (shown_name, value) in members {
            let name = back.names.get(shown_name).unwrap_or(shown_name);
            self.changed |= name != shown_name;
            if value.is_null() && back.absent.contains(name) {
                self.changed = true;
                continue;
            }
            let value = match back.below.get(name).or(back.rest.as_deref()) {
                Some(below) => self.below(name, below, value)?,
                None => value.clone(),
            };
            if read.insert(name.clone(), value).is_some() {
                return Err(self.violation(&format!(
                    "the property `{}` under one name only",
                    shown(name)
                )));
            }
        }
        Ok(Value::Object(read))
    }

    fn below(
        &mut self,
        step: &str,
        back: &ArgumentMapping,
        value: &Value,
    ) -> Result<Value, SchemaViolation> {
        self.path.push(step.to_owned());
        let read = self.value(back, value);
        self.path.pop();
        read
    }

    fn violation(&self, expected: &str) -> SchemaViolation {
        SchemaViolation {
            pointer: pointer(&self.path),
            expected: expected.to_owned(),
        }
    }
}
