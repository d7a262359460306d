//! 2026-07-28: every request stands alone. Envelope, header agreement, revision, then the request
//! (protocol §1, §4.2).

use super::body::{HttpAnswer, json, json_in_pieces, json_on, modern_events};
use super::carried_answer::{CarriedAnswer, carrying, carrying_all};
use super::route::Arrived;
use super::{Door, Visit};
use crate::gate::catalogue::view::ListAsked;
use crate::mcp::answer::status;
use crate::mcp::bridge::{CAPABILITIES_META_KEY, VERSION_META_KEY};
use crate::mcp::error_codes::{HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION};
use crate::mcp::headers::{
    HeaderParam, METHOD_HEADER, NAME_HEADER, PARAM_HEADER_PREFIX, PROTOCOL_VERSION_HEADER,
    arguments_of, decode, name_of,
};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::methods::{Treatment, treatment};
use crate::mcp::revision::{Era, Revision};
use crate::model::reads::Profile;
use crate::outlet::{AnswerTicket, Outgoing};
use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::json;
use std::sync::Arc;

static VERSION_NAME: HeaderName = HeaderName::from_static(PROTOCOL_VERSION_HEADER);
static METHOD_NAME: HeaderName = HeaderName::from_static(METHOD_HEADER);
static TOOL_NAME: HeaderName = HeaderName::from_static(NAME_HEADER);

/// Whether a message carries the modern envelope.
pub(super) fn is_modern(message: &Message) -> bool {
    message.meta(VERSION_META_KEY).is_some()
}

impl Door {
    /// Answers a modern request over HTTP.
    pub(super) async fn modern(
        self: &Arc<Self>,
        visit: Visit,
        mut headers: HeaderMap,
        message: Message,
    ) -> HttpAnswer {
        let Visit {
            scope,
            known,
            origin,
            connection: _,
            certificate: _,
        } = visit;
        let id = message.id.clone();
        let links = Arc::new(self.links.alone());
        let checked = Self::envelope(&message, Some(&headers)).and_then(|revision| {
            let asked = ListAsked {
                caller: &known.caller,
                scope: &scope,
                links: Some(&links),
            };
            self.params_agree(asked, &headers, &message)
                .map(|()| revision)
        });
        let revision = match checked {
            Ok(revision) => revision,
            Err(refused) => {
                let refused = Message { id, ..refused };
                return json(StatusCode::BAD_REQUEST, &refused);
            }
        };
        let heads = Self::heads(&known.policy, &headers);
        // They hold the connection's read buffer, and the emptied map becomes the answer's: both
        // are then used again.
        headers.clear();
        let begun = self.begin(Arrived {
            known,
            scope,
            revision,
            message,
            links,
            session: None,
            heads,
            origin,
        });
        let (first, inlet) = begun.first().await;
        match first {
            Some(Outgoing::Last(answer)) => whole(headers, &answer, inlet.ticket()),
            Some(first) => {
                let ticket = inlet.ticket();
                carrying_all(modern_events(first, inlet), CarriedAnswer::of(ticket))
            }
            None => super::body::empty(StatusCode::NO_CONTENT),
        }
    }

    /// What every modern request must carry; the headers only on HTTP.
    pub(super) fn envelope(
        message: &Message,
        headers: Option<&HeaderMap>,
    ) -> Result<Revision, Message> {
        let refuse = |code, words: &str| Err(Message::error(None, code, words, None));
        let named = message.meta(VERSION_META_KEY);
        let Some(named) = named.as_ref().and_then(Text::as_str) else {
            return refuse(
                INVALID_PARAMS,
                &format!("`params._meta` needs `{VERSION_META_KEY}`"),
            );
        };
        if !message
            .meta(CAPABILITIES_META_KEY)
            .is_some_and(|capabilities| capabilities.is_object())
        {
            return refuse(
                INVALID_PARAMS,
                &format!("`params._meta` needs `{CAPABILITIES_META_KEY}`"),
            );
        }
        if let Some(headers) = headers {
            agree(headers, &VERSION_NAME, Some(&named))?;
            agree(headers, &METHOD_NAME, Some(&message.method))?;
            let name = name_of(message);
            if name.is_some() || treatment(&message.method, Era::Modern) == Treatment::Call {
                let name = name.as_ref().and_then(Text::as_str);
                agree(headers, &TOOL_NAME, name.as_deref())?;
            }
        }
        let revision = Revision::parse(&named).filter(|revision| revision.era() == Era::Modern);
        if let Some(revision) = revision {
            return Ok(revision);
        }
        let supported = Revision::ALL.map(Revision::as_str);
        let shown: String = named.chars().take(64).collect();
        let data = Text::of(&json!({ "supported": supported, "requested": shown }));
        Err(Message::error(
            None,
            UNSUPPORTED_VERSION,
            "this revision is not served",
            Some(data),
        ))
    }

    /// `Mcp-Param-…` headers mirror the arguments of the tool as the caller sees it; unknown ones
    /// say nothing.
    fn params_agree(
        &self,
        asked: ListAsked<'_>,
        headers: &HeaderMap,
        message: &Message,
    ) -> Result<(), Message> {
        // In observe mode what cannot be read alike by all travels, and so do the headers with it.
        if message.method != "tools/call" || message.odd.is_some() {
            return Ok(());
        }
        let name = message.body.as_ref().and_then(|params| params.get("name"));
        let Some(name) = name.as_ref().and_then(Text::as_str) else {
            return Ok(());
        };
        if self.gate.mirrors_none(asked, &name) {
            return Ok(());
        }
        let (tool, ..) = self.gate.named(asked, &name);
        let known = self.gate.tool_of(asked.links, &tool);
        if known.is_none_or(|known| known.definition.header_params.is_empty()) {
            return Ok(());
        }
        let Some(tool) = self.gate.visible(asked, &tool) else {
            return Ok(());
        };
        let body = message.body.as_ref();
        let written = body.and_then(|params| params.get("arguments"));
        // A tree is made only where the caller's model writes them otherwise than the tool reads them.
        let (read, told) = if asked.caller.reads.profile == Profile::None {
            (None, true)
        } else {
            let (read, told) = self.gate.declared(asked.caller, &tool, arguments_of(body));
            (Some(read), told)
        };
        let expected = |param: &HeaderParam| match &read {
            Some(arguments) => param.value(arguments),
            None => param.value_in(written.as_ref()?),
        };
        for param in &tool.definition.header_params {
            let mut values = headers.get_all(param.header.as_str()).iter();
            let (first, second) = (values.next(), values.next());
            if first.is_none() && !told {
                continue;
            }
            let given = first.map(http::HeaderValue::as_bytes);
            if second.is_some() || !HeaderParam::is_told(given, expected(param)) {
                let shown = param
                    .header
                    .strip_prefix(PARAM_HEADER_PREFIX)
                    .unwrap_or_default();
                let words = format!(
                    "header Mcp-Param-{shown} does not mirror `/{}` of the arguments",
                    param.path.join("/")
                );
                return Err(Message::error(None, HEADER_MISMATCH, &words, None));
            }
        }
        Ok(())
    }
}

/// The answer in one body.
fn whole(headers: HeaderMap, answer: &Message, ticket: AnswerTicket) -> HttpAnswer {
    let code = StatusCode::from_u16(status(answer)).unwrap_or(StatusCode::OK);
    if ticket.receipt().is_some() {
        return carrying(json_on(headers, code, answer), ticket);
    }
    json_in_pieces(headers, code, answer)
}

fn agree(headers: &HeaderMap, name: &HeaderName, body: Option<&str>) -> Result<(), Message> {
    let mut values = headers.get_all(name).iter();
    let given = values.next().and_then(|value| decode(value.as_bytes()));
    if values.next().is_none() && body.is_some() && given.as_deref() == body {
        return Ok(());
    }
    let words = format!("header {name} must be there once and mirror the body");
    Err(Message::error(None, HEADER_MISMATCH, &words, None))
}
