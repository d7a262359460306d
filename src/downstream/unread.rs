//! Messages as agents send them, read strictly, in observe mode named for what the strict reader
//! would refuse; and the error that an agent reads where they cannot be: under the id of its
//! request, wherever that can be read, so that it does not wait for an answer that has come.

use crate::guards::Mode;
use crate::mcp::envelope::asked;
use crate::mcp::error_codes::{INVALID_REQUEST, PARSE_ERROR};
use crate::mcp::json::place::pointer;
use crate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits, Malformed, Text};
use crate::mcp::message::{Message, Oddity};
use crate::telemetry::tasks::heavy;
use bytes::Bytes;

/// How an agent's message is read.
#[derive(Clone, Copy)]
pub(super) struct MessageReading {
    pub(super) mode: Mode,
    /// What a message to where it goes may be.
    pub(super) limits: JsonLimits,
}

/// The message, or the error that its agent reads.
pub(super) fn read(bytes: Bytes, reading: MessageReading) -> Result<Message, Message> {
    let MessageReading { mode, limits } = &reading;
    let whole = bytes.clone();
    let read = heavy::aside(bytes.len(), || text(bytes, *mode, limits));
    let (text, odd) = read.map_err(|malformed| {
        let id = asked(&whole).and_then(id);
        Message::error(id, PARSE_ERROR, &words(malformed, &whole, limits), None)
    })?;
    let message = Message::parse(&text).map_err(|reason| {
        let id = asked(text.as_bytes()).and_then(id);
        Message::error(id, INVALID_REQUEST, &reason.to_string(), None)
    })?;
    let oddity = |Malformed { what, at }| {
        let pointer = pointer(&whole, at);
        Box::new(Oddity { what, pointer })
    };
    Ok(Message {
        odd: odd.map(oddity),
        ..message
    })
}

/// The messages of a batch, each to be read on its own; none if it is no array that can be taken
/// apart beyond doubt.
pub(super) fn elements(bytes: &Bytes, reading: MessageReading) -> Option<Vec<Text>> {
    // The array around them is one level more, in which nothing is named.
    let limits = JsonLimits {
        depth: reading.limits.depth + 1,
        folded_depth: 0,
        ..reading.limits
    };
    let whole = bytes.clone();
    let read = heavy::aside(bytes.len(), || text(whole, reading.mode, &limits));
    read.ok()?.0.elements()
}

/// The error of a message that is longer, or has a longer string, than its tool server takes.
pub(super) fn fits(message: &Message, reading: MessageReading) -> Result<(), Message> {
    let MessageReading { mode, limits } = &reading;
    let Some(body) = &message.body else {
        return Ok(());
    };
    let length = body.as_bytes().len();
    if length <= limits.string.min(limits.bytes) {
        return Ok(());
    }
    let read = heavy::aside(length, || text(body.bytes(), *mode, limits));
    read.map(|_| ()).map_err(|malformed| {
        let words = words(malformed, body.as_bytes(), limits);
        Message::error(message.id.clone(), INVALID_REQUEST, &words, None)
    })
}

fn words(malformed: Malformed, text: &[u8], limits: &JsonLimits) -> String {
    let Malformed { what, at } = malformed;
    let place = pointer(text, at);
    let what = match malformed.bound(limits) {
        Some(bound) => format!("{what} ({bound})"),
        None => what.to_owned(),
    };
    if place.is_empty() {
        format!("{what} at byte {at}")
    } else {
        format!("{what}, at `{place}` (byte {at})")
    }
}

/// The text, and in observe mode what enforce mode would refuse it for.
fn text(
    bytes: Bytes,
    mode: Mode,
    limits: &JsonLimits,
) -> Result<(Text, Option<Malformed>), Malformed> {
    match mode {
        Mode::Enforce => Text::read(bytes, limits).map(|text| (text, None)),
        Mode::Observe => Text::read_oddly(bytes, limits),
    }
}

/// What is written, if it is an id as messages may have.
fn id(written: &[u8]) -> Option<Text> {
    let message = [br#"{"jsonrpc":"2.0","method":"ping","id":"#, written, b"}"].concat();
    let text = Text::read(message.into(), &AGENT_JSON_LIMITS).ok()?;
    Message::parse(&text).ok()?.id
}
