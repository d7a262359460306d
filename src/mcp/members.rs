//! Members whose names only look like known ones: what leaves in either direction has none
//! (threat-model §3A A2).

use super::json::LookAlike;
use super::message::{Message, MessageKind};
use crate::model::tally::LOOK_ALIKE_MEMBERS;
use known_members::{AGENT_RESULT, ENVELOPE, ERROR, PARAMS, SERVER_RESULT};

mod known_members;

/// Bytes of a name that are shown.
const MAX_NAME_BYTES_SHOWN: usize = 64;

/// Who sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageSender {
    /// An agent.
    Agent,
    /// A tool server.
    Server,
}

/// The members of a message whose names only look like known ones: of the message itself, and of
/// what is in it.
#[derive(Debug)]
pub(crate) struct LookAlikes {
    outside: Vec<LookAlike>,
    inside: Vec<LookAlike>,
}

impl LookAlikes {
    /// Those of `message`; none of most.
    pub(crate) fn of(message: &Message, from: MessageSender) -> Option<Self> {
        let level = match (message.kind, message.is_error, from) {
            (MessageKind::Request | MessageKind::Notification, ..) => &PARAMS,
            (MessageKind::Response, true, _) => &ERROR,
            (MessageKind::Response, false, MessageSender::Agent) => &AGENT_RESULT,
            (MessageKind::Response, false, MessageSender::Server) => &SERVER_RESULT,
        };
        let inside = message
            .body
            .as_ref()
            .map(|body| body.alike(level))
            .unwrap_or_default();
        let outside: Vec<_> = message
            .unknown
            .iter()
            .flat_map(|unknown| unknown.iter())
            .filter_map(|(name, _)| outside(name))
            .collect();
        (!inside.is_empty() || !outside.is_empty()).then_some(Self { outside, inside })
    }

    /// The message without them.
    #[must_use]
    pub(crate) fn taken_out(&self, mut message: Message) -> Message {
        if let Some(unknown) = &mut message.unknown {
            unknown.retain(|name| !self.outside.iter().any(|alike| alike.name == name));
        }
        message.body = message.body.map(|body| {
            if self.inside.is_empty() {
                body
            } else {
                body.without(&self.inside)
            }
        });
        message
    }

    /// The first of them, and how many there are.
    pub(crate) fn first(&self) -> (Option<&LookAlike>, usize) {
        (
            self.outside.iter().chain(&self.inside).next(),
            self.outside.len() + self.inside.len(),
        )
    }
}

impl std::fmt::Display for LookAlike {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown: String = self.name.chars().take(MAX_NAME_BYTES_SHOWN).collect();
        write!(
            f,
            "`{}` in {} only looks like `{}`",
            shown.escape_default(),
            self.place,
            self.like
        )
    }
}

fn outside(name: &str) -> Option<LookAlike> {
    let like = ENVELOPE.alike(name)?;
    Some(LookAlike {
        place: ENVELOPE.place,
        name: name.to_owned(),
        like,
        range: 0..0,
    })
}

/// A tool server's message without its look-alikes: what was asked for has run by then, so the rest
/// of an answer is handed on, in every mode. They are counted, and said now and then.
#[must_use]
pub(crate) fn of_server(message: Message) -> Message {
    let Some(found) = LookAlikes::of(&message, MessageSender::Server) else {
        return message;
    };
    let (first, count) = found.first();
    if let (true, Some(first)) = (LOOK_ALIKE_MEMBERS.add(count), first) {
        tracing::warn!(%first, so_far = LOOK_ALIKE_MEMBERS.so_far(), "a tool server's message had members that are taken out");
    }
    found.taken_out(message)
}

#[cfg(test)]
mod tests;
