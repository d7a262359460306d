//! One JSON-RPC message: exactly a request, a notification or a response, or refused.

use super::error_codes::INTERNAL_ERROR;
use super::json::{Object, Text, push_string};
use bytes::Bytes;
use memchr::memchr2;
use serde_json::{Value, json};

/// Longest JSON-RPC id as written, in bytes (threat-model §3A A10).
const MAX_ID_BYTES: usize = 258;

/// Bytes of the words of an error, and of its data and other members as written, that an agent
/// reads.
const MAX_ERROR_TEXT_BYTES: usize = 512;
const MAX_ERROR_DATA_BYTES: usize = 16 << 10;
const OPENING: &[u8] = br#"{"jsonrpc":"2.0""#;
const BEFORE_ID: &[u8] = br#","id":"#;
const BEFORE_METHOD: &[u8] = br#","method":"#;
/// From so many bytes on, copying a body costs more than the write of its own that it takes else.
const SHARED_BODY_BYTES_MIN: usize = 256 << 10;
/// What is said of words that were cut.
const CUT_SUFFIX: &str = " … (cut)";

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// Wants an answer.
    Request,
    /// Wants none.
    Notification,
    /// Is an answer.
    Response,
}

/// A message taken apart one level. Only what JSON-RPC knows of it is written again, whatever it is
/// and wherever it goes; but for calls in observe mode.
#[derive(Debug, Clone)]
pub struct Message {
    /// What it is.
    pub kind: MessageKind,
    /// The id as written: a string or a number. A response to an unreadable request has none.
    pub id: Option<Text>,
    /// The method of a request or notification, empty for a response.
    pub method: String,
    /// `params`, `result` or `error`, as written.
    pub body: Option<Text>,
    /// Whether `body` of a response is its `error`.
    pub is_error: bool,
    /// Members that JSON-RPC does not know, in order, to be judged: what is read here is not written
    /// again.
    pub unknown: Option<Box<Object>>,
    /// Whether they are written again: of a call in observe mode.
    pub keeps_unknown: bool,
    /// What the strict reader refuses in it, where that was let pass: it is JSON, and no tree of it
    /// says all that it says.
    pub odd: Option<Box<Oddity>>,
}

/// What the strict reader refuses in a text that is JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oddity {
    /// The rule that is broken.
    pub what: &'static str,
    /// Where, as a JSON pointer into the message; of what a tool server sent none is made.
    pub pointer: String,
}

/// Why a JSON value is not one JSON-RPC message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAMessage {
    /// Arrays are taken in sessions of 2025-03-26 only (threat-model §3A A8).
    #[error("only sessions of 2025-03-26 have batches; send one message a request")]
    Batch,
    /// Not an object.
    #[error("a message is a JSON object")]
    NotAnObject,
    /// `jsonrpc` is not "2.0".
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    /// The id is neither a string nor a whole number.
    #[error("`id` must be a string of at most 256 bytes or a whole number")]
    Id,
    /// `method` is not a string.
    #[error("`method` must be a string")]
    Method,
    /// `params` is not an object.
    #[error("`params` must be an object")]
    Params,
    /// Not exactly one of request, notification and response.
    #[error("a message is exactly one of request, notification and response")]
    Shape,
}

impl Oddity {
    /// One that a tool server sent. Its place is its words, which are nobody's to repeat.
    pub(crate) fn of_server(what: &'static str) -> Self {
        Self {
            what,
            pointer: String::new(),
        }
    }
}

impl Message {
    /// Takes a text apart that was read.
    pub fn parse(text: &Text) -> Result<Self, NotAMessage> {
        if text.is_array() {
            return Err(NotAMessage::Batch);
        }
        let (mut version, mut id, mut method, mut params) = (None, None, None, None);
        let (mut result, mut error, mut unknown) = (None, None, Object::new());
        for (key, value) in text.members().ok_or(NotAMessage::NotAnObject)? {
            let member = match &*key {
                "jsonrpc" => &mut version,
                "id" => &mut id,
                "method" => &mut method,
                "params" => &mut params,
                "result" => &mut result,
                "error" => &mut error,
                _ => {
                    unknown.add(&key, value);
                    continue;
                }
            };
            // The strict reader refuses a second one. Where it is let pass, it may not say other than
            // the first: a message is judged and sent by what its envelope says.
            if member.as_ref().is_some_and(|first| *first != value) {
                return Err(NotAMessage::Shape);
            }
            *member = Some(value);
        }
        let unknown = (!unknown.is_empty()).then(|| Box::new(unknown));
        if version.is_none_or(|version| version.as_bytes() != b"\"2.0\"") {
            return Err(NotAMessage::Version);
        }
        let is_error = error.is_some();
        match (method, result, error) {
            (Some(method), None, None) => {
                let method = method.as_str().ok_or(NotAMessage::Method)?.into_owned();
                if params.as_ref().is_some_and(|params| !params.is_object()) {
                    return Err(NotAMessage::Params);
                }
                let kind = if id.is_some() {
                    MessageKind::Request
                } else {
                    MessageKind::Notification
                };
                let id = id.map(checked_id).transpose()?;
                Ok(Self {
                    kind,
                    id,
                    method,
                    body: params,
                    is_error: false,
                    unknown,
                    keeps_unknown: false,
                    odd: None,
                })
            }
            (None, Some(body), None) | (None, None, Some(body)) if params.is_none() => {
                let id = id.filter(|id| !id.is_null()).map(checked_id).transpose()?;
                Ok(Self {
                    unknown,
                    ..Self::response(id, body, is_error)
                })
            }
            _ => Err(NotAMessage::Shape),
        }
    }

    /// A request of ours.
    pub fn request(id: u64, method: &str, params: Option<Text>) -> Self {
        Self {
            kind: MessageKind::Request,
            id: Some(number(id)),
            method: method.to_owned(),
            body: params,
            is_error: false,
            unknown: None,
            keeps_unknown: false,
            odd: None,
        }
    }

    /// A notification of ours.
    pub fn notification(method: &str, params: Option<Text>) -> Self {
        let (kind, method) = (MessageKind::Notification, method.to_owned());
        Self {
            kind,
            id: None,
            method,
            body: params,
            is_error: false,
            unknown: None,
            keeps_unknown: false,
            odd: None,
        }
    }

    /// A response of ours.
    pub fn response(id: Option<Text>, body: Text, is_error: bool) -> Self {
        Self {
            kind: MessageKind::Response,
            id,
            method: String::new(),
            body: Some(body),
            is_error,
            unknown: None,
            keeps_unknown: false,
            odd: None,
        }
    }

    /// An error response of ours. `data` adds to code and words.
    pub fn error(id: Option<Text>, code: i64, words: &str, data: Option<Text>) -> Self {
        let mut error = Object::new();
        error.set("code", Text::of(&code.into()));
        error.set("message", Text::string(words));
        if let Some(data) = data {
            error.set("data", data);
        }
        Self::response(id, error.text(), true)
    }

    /// The same message; of an error of a tool server no more than an agent has to read
    /// (threat-model §8): words of more than 512 bytes are cut, and of the other members as many
    /// are kept, in order, as make 16 KiB. What is no error is left alone.
    #[must_use]
    pub fn brief(self) -> Self {
        match self
            .body
            .as_ref()
            .filter(|body| self.is_error && body.as_bytes().len() > MAX_ERROR_TEXT_BYTES)
        {
            Some(error) => Self {
                body: Some(brief_error(error)),
                ..self
            },
            None => self,
        }
    }

    /// The same message under another id.
    #[must_use]
    pub fn with_id(mut self, id: Text) -> Self {
        self.id = Some(id);
        self
    }

    /// The message as one line of JSON, without a line end.
    pub fn encode(&self) -> Bytes {
        let body = self.body.as_ref().map_or(&[][..], Text::as_bytes);
        let mut out = self.begun(body.len());
        let start = out.len();
        out.extend_from_slice(body);
        on_one_line(&mut out[start..]);
        self.end(&mut out);
        Bytes::from(out)
    }

    /// The same in pieces, one after the other. A long body that is on one line is shared, not copied.
    pub fn encoded_pieces(&self) -> [Bytes; 3] {
        let shared = self.body.as_ref().map(Text::bytes).filter(|body| {
            body.len() >= SHARED_BODY_BYTES_MIN && memchr2(b'\n', b'\r', body).is_none()
        });
        let Some(body) = shared else {
            return [self.encode(), Bytes::new(), Bytes::new()];
        };
        let (begun, mut end) = (self.begun(0), Vec::new());
        self.end(&mut end);
        [Bytes::from(begun), body, Bytes::from(end)]
    }

    /// The message up to its body, with room for as many bytes and for its end. Exactly so much, if no
    /// name in it has to be escaped: a buffer that is full needs no other memory to be shared.
    fn begun(&self, room: usize) -> Vec<u8> {
        let is_response = self.kind == MessageKind::Response;
        let id = self.id.as_ref().map(Text::as_bytes);
        let id = id.or_else(|| is_response.then_some(&b"null"[..]));
        let method = (!is_response).then_some(self.method.as_str());
        let body: &[u8] = match (&self.body, is_response) {
            (None, _) => b"",
            (Some(_), false) => b",\"params\":",
            (Some(_), true) if self.is_error => b",\"error\":",
            (Some(_), true) => b",\"result\":",
        };
        let size = OPENING.len()
            + id.map_or(0, |id| BEFORE_ID.len() + id.len())
            + method.map_or(0, |method| BEFORE_METHOD.len() + method.len() + 2)
            + body.len();
        let mut out = Vec::with_capacity(size + room + 1);
        out.extend_from_slice(OPENING);
        if let Some(id) = id {
            out.extend_from_slice(BEFORE_ID);
            let start = out.len();
            out.extend_from_slice(id);
            on_one_line(&mut out[start..]);
        }
        if let Some(method) = method {
            out.extend_from_slice(BEFORE_METHOD);
            push_string(&mut out, method);
        }
        out.extend_from_slice(body);
        out
    }

    /// What follows its body.
    fn end(&self, out: &mut Vec<u8>) {
        if let Some(unknown) = self.unknown.as_ref().filter(|_| self.keeps_unknown) {
            let start = out.len();
            unknown.push_more(out);
            on_one_line(&mut out[start..]);
        }
        out.push(b'}');
    }

    /// `params._meta`, or `result._meta`.
    pub fn meta(&self, key: &str) -> Option<Text> {
        self.body.as_ref()?.at(&["_meta", key])
    }
}

/// Raw line ends occur between values only, and one line is one message on stdio and in an event.
fn on_one_line(text: &mut [u8]) {
    let mut at = 0;
    while let Some(end) = memchr2(b'\n', b'\r', &text[at..]) {
        text[at + end] = b' ';
        at += end + 1;
    }
}

fn brief_error(error: &Text) -> Text {
    let Some(members) = error.object() else {
        return in_brief(&Object::new()).text();
    };
    let (mut brief, mut room) = (in_brief(&members), MAX_ERROR_DATA_BYTES);
    for (key, value) in members
        .iter()
        .filter(|(key, _)| !["code", "message"].contains(key))
    {
        if let Some(left) = room.checked_sub(key.len() + value.as_bytes().len()) {
            room = left;
            brief.set(key, value.clone());
        }
    }
    brief.text()
}

/// Its code and its words, whatever else stands in their places.
fn in_brief(error: &Object) -> Object {
    let mut brief = Object::new();
    let code = error
        .get("code")
        .filter(|code| code.as_bytes().len() <= MAX_ID_BYTES);
    brief.set(
        "code",
        code.cloned()
            .unwrap_or_else(|| Text::of(&json!(INTERNAL_ERROR))),
    );
    let words = error
        .get("message")
        .and_then(Text::as_str)
        .unwrap_or_default();
    let is_short = words.len() <= MAX_ERROR_TEXT_BYTES;
    let cut = || {
        format!(
            "{}{CUT_SUFFIX}",
            &words[..words.floor_char_boundary(MAX_ERROR_TEXT_BYTES - CUT_SUFFIX.len())]
        )
    };
    brief.set(
        "message",
        Text::string(&if is_short { words.into_owned() } else { cut() }),
    );
    brief
}

/// How toolgate introduces itself to agents and tool servers.
pub fn introduction() -> Value {
    json!({ "name": "toolgate", "version": env!("CARGO_PKG_VERSION") })
}

/// A whole number as an id.
pub fn number(id: u64) -> Text {
    Text::of(&id.into())
}

fn checked_id(id: Text) -> Result<Text, NotAMessage> {
    let bytes = id.as_bytes();
    let whole = bytes
        .iter()
        .enumerate()
        .all(|(at, byte)| byte.is_ascii_digit() || (at == 0 && *byte == b'-'));
    if bytes.len() <= MAX_ID_BYTES && (bytes.first() == Some(&b'"') || whole) {
        Ok(id)
    } else {
        Err(NotAMessage::Id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::SERVER_JSON_LIMITS;

    /// threat-model §3A A8: pieces say what the one line says, and what is no line is copied.
    #[test]
    fn pieces_are_the_message() {
        for (bytes, end, is_shared) in [
            (0, "}", false),
            (SHARED_BODY_BYTES_MIN, "}", true),
            (SHARED_BODY_BYTES_MIN, "\n}", false),
            (SHARED_BODY_BYTES_MIN, "\r}", false),
        ] {
            let body = format!("{{\"text\":\"{}\"{end}", "x".repeat(bytes));
            let body = Text::read(body.into(), &SERVER_JSON_LIMITS).unwrap();
            let mut unknown = Object::new();
            unknown.set("more", Text::bool(true));
            for message in [
                Message::response(Some(number(7)), body.clone(), false),
                Message::response(None, body.clone(), true),
                Message::request(7, "a\"b", Some(body.clone())),
                Message {
                    unknown: Some(Box::new(unknown.clone())),
                    keeps_unknown: true,
                    ..Message::request(7, "tools/call", Some(body.clone()))
                },
                Message::notification("x", None),
            ] {
                let pieces = message.encoded_pieces();
                assert_eq!(pieces.concat(), message.encode());
                // What is escaped takes more room than it is given.
                let (begun, is_plain) = (message.begun(0), !message.method.contains('"'));
                assert_eq!(begun.capacity() == begun.len() + 1, is_plain);
                let has_own = message.body.is_some() && is_shared;
                assert_eq!(pieces[1] == body.bytes(), has_own);
                assert_eq!(pieces[1].as_ptr() == body.as_bytes().as_ptr(), has_own);
            }
        }
    }
}
