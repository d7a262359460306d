//! A message that is read and sent on says the same to all peers (threat-model §3A A2, A8–A11, §13
//! F2): one line, and a reader that ignores case finds the same method and id in it, and no other
//! member of an envelope.

use super::second::{Node, is_same};
use bytes::Bytes;
use toolgate::mcp::json::{AGENT_JSON_LIMITS, SERVER_JSON_LIMITS, Text};
use toolgate::mcp::message::{Message, MessageKind};

const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The first byte chooses who sent it.
pub fn run(data: &[u8]) {
    let (first, text) = super::led(data);
    let limits = if first & 1 == 0 {
        &AGENT_JSON_LIMITS
    } else {
        &SERVER_JSON_LIMITS
    };
    let Ok(text) = Text::read(Bytes::copy_from_slice(text), limits) else {
        return;
    };
    let Ok(message) = Message::parse(&text) else {
        return;
    };
    let encoded = message.encode();
    assert!(
        !encoded.contains(&b'\n') && !encoded.contains(&b'\r'),
        "a message is one line"
    );
    let again = Text::read(encoded.clone(), limits).expect("what is sent can be read strictly");
    let again = Message::parse(&again).expect("it is a message");
    assert_eq!(
        (again.kind, again.is_error, &again.method),
        (message.kind, message.is_error, &message.method)
    );
    let value = |part: &Option<Text>| part.as_ref().map(Text::value);
    assert_eq!(
        (value(&again.id), value(&again.body)),
        (value(&message.id), value(&message.body))
    );
    match message.kind {
        MessageKind::Request => assert!(message.id.is_some() && !message.is_error),
        MessageKind::Notification => assert!(message.id.is_none() && !message.is_error),
        MessageKind::Response => assert!(message.method.is_empty() && message.body.is_some()),
    }
    folded(&Node::read(&encoded).expect("others read it"), &message);
}

/// What a reader that ignores case finds.
fn folded(sent: &Node, message: &Message) {
    for name in ENVELOPE {
        let found: Vec<_> = sent
            .members()
            .iter()
            .filter(|(key, _)| is_same(key, name))
            .collect();
        assert!(found.len() <= 1, "two members are `{name}`");
        assert!(
            found.iter().all(|(key, _)| key == name),
            "{:?} is taken for `{name}`",
            found[0].0
        );
        let is_there = !found.is_empty();
        match name {
            "jsonrpc" => assert!(is_there),
            "method" => assert_eq!(is_there, message.kind != MessageKind::Response),
            "result" => assert_eq!(
                is_there,
                message.kind == MessageKind::Response && !message.is_error
            ),
            "error" => assert_eq!(is_there, message.is_error),
            "id" => assert_eq!(is_there, message.kind != MessageKind::Notification),
            _ => assert!(!is_there || message.kind != MessageKind::Response),
        }
    }
}
