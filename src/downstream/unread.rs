//! Messages as agents send them, read strictly; and the error that an agent reads where they cannot
//! be: under the id of its request, where nothing of that is in doubt, so that it does not wait for
//! an answer that has come.

use crate::mcp::envelope::asked;
use crate::mcp::error_codes::{INVALID_REQUEST, PARSE_ERROR};
use crate::mcp::json::place::pointer;
use crate::mcp::json::{AGENT_JSON_LIMITS, Malformed, Text};
use crate::mcp::message::Message;
use crate::telemetry::tasks::heavy;
use bytes::Bytes;

/// The message, or the error that its agent reads.
pub(super) fn read(bytes: Bytes) -> Result<Message, Message> {
    let whole = bytes.clone();
    let text = heavy::aside(bytes.len(), || Text::read(bytes, &AGENT_JSON_LIMITS)).map_err(
        |malformed| {
            let id = asked(&whole).and_then(id);
            let place = pointer(&whole, malformed.at);
            let words = if place.is_empty() {
                malformed.to_string()
            } else {
                let Malformed { what, at } = malformed;
                format!("{what}, at `{place}` (byte {at})")
            };
            Message::error(id, PARSE_ERROR, &words, None)
        },
    )?;
    Message::parse(&text).map_err(|reason| {
        let id = asked(text.as_bytes()).and_then(id);
        Message::error(id, INVALID_REQUEST, &reason.to_string(), None)
    })
}

/// What is written, if it is an id as messages may have.
fn id(written: &[u8]) -> Option<Text> {
    let message = [br#"{"jsonrpc":"2.0","method":"ping","id":"#, written, b"}"].concat();
    let text = Text::read(message.into(), &AGENT_JSON_LIMITS).ok()?;
    Message::parse(&text).ok()?.id
}
