//! What a tool server wants back with the answers to its questions: agents read it sealed, and
//! bring it back so (threat-model §3C C8). Between the two, everything is done with the server's
//! own words.

use crate::gate::call::ArgumentOrigin;
use crate::gate::call::Call;
use crate::gate::catalogue::tool::Tool;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::mcp::round::{RoundBinding, RoundSeal};

/// The call with the server's own state. One that brings another is refused, with a JSON-RPC error
/// (2026-07-28).
pub(in crate::gate) fn opened(seal: &RoundSeal, tool: &Tool, mut call: Call) -> Call {
    match seal.opened(
        bound(&call, tool, call.message.body.as_ref()),
        &call.message,
    ) {
        // A server of sessions asks in them: what answers it has the state that the question came
        // with, or is of no call that stands.
        Ok(None) if answers_nothing(&call, tool) => call.reading = ArgumentOrigin::Foreign,
        Ok(None) => {}
        Ok(Some(message)) => call.message = message,
        Err(foreign) => {
            tracing::debug!(action = %call.judged.action, %foreign, "a call brought a state that was not given for it");
            call.reading = ArgumentOrigin::Foreign;
        }
    }
    call
}

fn answers_nothing(call: &Call, tool: &Tool) -> bool {
    let (origin, name) = (&call.origin, &tool.server.settings.name);
    // What it answers is read out of the call last: most calls answer nothing.
    origin.era == Era::Modern && origin.links.is_legacy_at(name) && call.round().is_some()
}

/// The answer as the agent reads it; `params` as it wrote them.
pub(in crate::gate) fn sealed(
    seal: &RoundSeal,
    tool: Option<&Tool>,
    call: &Call,
    params: Option<&Text>,
    answer: Message,
) -> Message {
    match tool {
        Some(tool) => seal.sealed(bound(call, tool, params), answer),
        None => answer,
    }
}

fn bound<'a>(call: &'a Call, tool: &'a Tool, params: Option<&'a Text>) -> RoundBinding<'a> {
    RoundBinding {
        caller: &call.origin.caller,
        server: &tool.server.settings.name,
        method: "tools/call",
        params,
    }
}
