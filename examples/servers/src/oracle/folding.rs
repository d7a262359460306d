//! A second reader of every message that leaves toolgate: it folds the case of names, takes any
//! spelling of them, and of equal ones the last. Where it reads something else than a strict
//! reader, some peer does (threat-model §3A A2).
//!
//! The scenarios of toolgate include this file for their tool servers over HTTP and their agents,
//! so that all read alike. Nothing of it is toolgate's own: its tables and its folding are other
//! ones.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many messages were read.
static READ: AtomicU64 = AtomicU64::new(0);

/// All that a message has, whatever it is.
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
const PARAMS: &[&str] = &[
    "name",
    "arguments",
    "_meta",
    "task",
    "inputResponses",
    "requestState",
    "uri",
    "ref",
    "cursor",
    "taskId",
    "requestId",
    "progressToken",
    "notifications",
    "protocolVersion",
    "capabilities",
    "level",
    "messages",
    "message",
];
const META: &[&str] = &[
    "progressToken",
    "traceparent",
    "tracestate",
    "baggage",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/subscriptionId",
    "io.modelcontextprotocol/related-task",
    "dev.toolgate/fence",
    "dev.toolgate/hops",
    "dev.toolgate/decision",
    "dev.toolgate/session",
    "dev.toolgate/idempotencyKey",
];
const RESULT: &[&str] = &[
    "content",
    "structuredContent",
    "isError",
    "resultType",
    "_meta",
    "task",
    "taskId",
    "status",
    "requestState",
    "inputRequests",
    "tools",
    "resources",
    "prompts",
    "contents",
    "messages",
    "nextCursor",
    "protocolVersion",
];
const ERROR: &[&str] = &["code", "message", "data"];
const CONTENT: &[&str] = &["type", "text", "data", "resource", "uri", "mimeType"];
const TOOL: &[&str] = &[
    "name",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];
const REFERENCE: &[&str] = &["type", "name", "uri"];
/// Names that begin so are toolgate's or the protocol's.
const PREFIXES: [&str; 2] = ["dev.toolgate/", "io.modelcontextprotocol/"];

/// A JSON value with all members that were written, in order.
#[derive(Debug, PartialEq)]
enum Node {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Other(Value),
}

/// How many messages this process has read so.
pub fn read() -> u64 {
    READ.load(Ordering::Relaxed)
}

/// What a reader that folds case reads otherwise than a strict one; none where both agree, and of
/// what is no message.
pub fn disagreement(text: &str) -> Option<String> {
    let Ok(Node::Object(members)) = serde_json::from_str::<Node>(text) else {
        return None;
    };
    if !members.iter().any(|(name, _)| fold(name) == "jsonrpc") {
        return None;
    }
    READ.fetch_add(1, Ordering::Relaxed);
    if let Some((name, _)) = members
        .iter()
        .find(|(name, _)| !ENVELOPE.contains(&name.as_str()))
    {
        return Some(format!(
            "the message has a member `{}`: {text}",
            name.escape_default()
        ));
    }
    let found = judge(&members, &ENVELOPE, "the message").or_else(|| inside(&members));
    found.map(|words| format!("{words}: {}", text.chars().take(2_000).collect::<String>()))
}

fn inside(message: &[(String, Node)]) -> Option<String> {
    let shape = (
        strict(message, "method").is_some(),
        strict(message, "result").is_some(),
        strict(message, "error").is_some(),
    );
    if !matches!(
        shape,
        (true, false, false) | (false, true, false) | (false, false, true)
    ) {
        return Some("the message is not exactly one thing".to_owned());
    }
    each(strict(message, "params"), PARAMS, "params")
        .or_else(|| each(strict(message, "result"), RESULT, "result"))
        .or_else(|| each(strict(message, "error"), ERROR, "error"))
}

/// An object, or those of a list, and what is known to be in them.
fn each(node: Option<&Node>, known: &[&str], place: &str) -> Option<String> {
    match node? {
        Node::Other(_) => None,
        Node::Array(nodes) => nodes.iter().find_map(|node| match node {
            Node::Object(_) => each(Some(node), known, place),
            Node::Array(_) | Node::Other(_) => None,
        }),
        Node::Object(members) => judge(members, known, place).or_else(|| {
            let below = |name: &str, known| each(strict(members, name), known, name);
            below("_meta", META).or_else(|| match place {
                "params" => below("ref", REFERENCE),
                "result" => below("content", CONTENT)
                    .or_else(|| below("contents", CONTENT))
                    .or_else(|| below("tools", TOOL)),
                _ => None,
            })
        }),
    }
}

fn judge(members: &[(String, Node)], known: &[&str], place: &str) -> Option<String> {
    let otherwise = known
        .iter()
        .find(|name| !same(strict(members, name), folding(members, name)));
    if let Some(name) = otherwise {
        return Some(format!(
            "another `{name}` in {place} for a reader that folds case"
        ));
    }
    let foreign = |name: &str| {
        PREFIXES
            .iter()
            .any(|prefix| fold(name).starts_with(prefix) && !name.starts_with(prefix))
    };
    let found = members.iter().find(|(name, _)| foreign(name));
    found.map(|(name, _)| format!("`{}` in {place}", name.escape_default()))
}

/// The same member, not an equal one.
fn same(one: Option<&Node>, other: Option<&Node>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => std::ptr::eq(one, other),
        _ => false,
    }
}

/// As a strict reader finds it: the first of that name. (It would refuse a second one.)
fn strict<'m>(members: &'m [(String, Node)], name: &str) -> Option<&'m Node> {
    members
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, node)| node)
}

fn folding<'m>(members: &'m [(String, Node)], name: &str) -> Option<&'m Node> {
    let name = fold(name);
    members
        .iter()
        .rev()
        .find(|(known, _)| fold(known) == name)
        .map(|(_, node)| node)
}

/// Upper case, lower case, and that again, because `ẞ` and `İ` need two turns.
fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let turn = |name: &str| {
        name.chars()
            .flat_map(char::to_lowercase)
            .flat_map(char::to_uppercase)
            .collect::<String>()
    };
    turn(&turn(name)).to_lowercase().replace('\u{307}', "")
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Node::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Node::Array(nodes))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Other(text.into()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Other(value.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Other(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Other(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Other(number.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Other(Value::Null))
    }
}
