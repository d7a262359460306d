//! A second reading of JSON, which forgives what other parsers forgive: it keeps every member of an
//! object, in order, also two of one name. What the strict reader lets pass must mean the same to
//! it.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A key and what stands under it.
pub type Member = (String, Node);

/// A value with all members of its objects.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Null, a boolean, a number or a string.
    Leaf(Value),
    /// An array.
    Array(Vec<Node>),
    /// An object.
    Object(Vec<Member>),
}

impl Node {
    /// Reads a text; none if it is no JSON, or deeper than 127.
    pub fn read(text: &[u8]) -> Option<Self> {
        serde_json::from_str(std::str::from_utf8(text).ok()?).ok()
    }

    /// The tree in which the last of two members counts.
    pub fn value(&self) -> Value {
        match self {
            Self::Leaf(value) => value.clone(),
            Self::Array(elements) => elements.iter().map(Self::value).collect(),
            Self::Object(members) => members
                .iter()
                .map(|(key, node)| (key.clone(), node.value()))
                .collect(),
        }
    }

    /// The members of an object.
    pub fn members(&self) -> &[Member] {
        if let Self::Object(members) = self {
            members
        } else {
            &[]
        }
    }

    /// How deep arrays and objects are nested.
    pub fn depth(&self) -> usize {
        match self {
            Self::Leaf(_) => 0,
            Self::Array(elements) => 1 + elements.iter().map(Self::depth).max().unwrap_or(0),
            Self::Object(members) => {
                1 + members
                    .iter()
                    .map(|(_, node)| node.depth())
                    .max()
                    .unwrap_or(0)
            }
        }
    }

    /// Calls `judge` with every object's members, and how deep it is nested below `above` others.
    pub fn each_object(&self, above: usize, judge: &mut dyn FnMut(usize, &[Member])) {
        match self {
            Self::Leaf(_) => {}
            Self::Array(elements) => {
                for node in elements {
                    node.each_object(above + 1, judge);
                }
            }
            Self::Object(members) => {
                judge(above + 1, members);
                for (_, node) in members {
                    node.each_object(above + 1, judge);
                }
            }
        }
    }
}

/// Whether a reader that ignores case takes two names for one.
pub fn is_same(one: &str, other: &str) -> bool {
    let upper = |text: &str| {
        text.chars()
            .flat_map(char::to_uppercase)
            .collect::<String>()
    };
    let lower = |text: &str| {
        text.chars()
            .flat_map(char::to_lowercase)
            .collect::<String>()
    };
    upper(one) == upper(other)
        || lower(one) == lower(other)
        || lower(&upper(one)) == lower(&upper(other))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Leaf(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = access.next_element()? {
            elements.push(element);
        }
        Ok(Node::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = access.next_entry()? {
            members.push(member);
        }
        Ok(Node::Object(members))
    }
}
