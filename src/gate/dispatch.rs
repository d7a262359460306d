//! Step 14: sends a judged call upstream and carries back what arrives, up to its answer.

use super::call::Call;
use super::placing::Placed;
use super::toolbox::Tool;
use super::trail::Broken;
use crate::failpoint;
use crate::guards::evidence::Ruled;
use crate::mcp::headers::arguments_of;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::reply::Sent;
use crate::upstream::pump::{Outbound, Passage, Passed};
use std::time::Duration;

/// Our own keys never travel upstream unless toolgate itself put them there.
const OURS: &str = "dev.toolgate/";

/// How a call is sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Way<'a> {
    /// It is finished even when the agent goes away.
    pub detached: bool,
    /// How long the contract lets it take; never longer than the server's own time (003-62).
    pub timeout: Option<Duration>,
    /// What of it travels otherwise than the agent wrote it.
    pub placed: Placed<'a>,
}

/// Sends the call once. `_ruled` is the proof that every guard before has passed it.
pub async fn dispatch(call: &Call, tool: &Tool, way: Way<'_>, _ruled: Ruled) -> Result<Message, Broken> {
    let settings = &tool.server.settings;
    // Until eras are bridged, the agent's is the server's.
    let message = outbound(call, tool, &way.placed);
    let mut params = match call.era {
        Era::Modern => header_params(&message, tool),
        Era::Legacy => Vec::new(),
    };
    params.extend(way.placed.header());
    let passage =
        Passage { outlet: &call.outlet, links: &call.links, waiting: &call.waiting, stop_when_gone: !way.detached };
    let server = &settings.name;
    let timeout = way.timeout.map_or(settings.timeout, |timeout| timeout.min(settings.timeout));
    failpoint::reached("before-send");
    match passage.exchange(Outbound { server, message, params, timeout: Some(timeout) }).await {
        Ok(Passed::Answer(answer)) => {
            if let Some(result) = answer.body.as_ref().filter(|_| !answer.is_error) {
                call.links.tasks.note(&call.caller.agent, server, result);
            }
            Ok(answer)
        }
        Ok(Passed::Gone) => Err(Broken::Cancelled),
        Err(fault) => {
            if fault.sent == Sent::Nothing {
                tool.server.suspect();
            }
            Err(Broken::Fault(fault))
        }
    }
}

fn header_params(message: &Message, tool: &Tool) -> Vec<(String, String)> {
    if tool.definition.header_params.is_empty() {
        return Vec::new();
    }
    let arguments = arguments_of(message.body.as_ref());
    let params = tool.definition.header_params.iter();
    params.filter_map(|param| Some((param.header.clone(), param.value(&arguments)?))).collect()
}

/// The call as it travels: a closed list of fields, each as the agent wrote it and the guards read it.
fn outbound(call: &Call, tool: &Tool, placed: &Placed<'_>) -> Message {
    let sent = call.message.body.as_ref().and_then(Text::object).unwrap_or_default();
    let mut params = Object::new();
    params.set("name", Text::string(&tool.definition.name));
    for (key, value) in sent.iter() {
        match key {
            "arguments" | "_meta" | "task" | "inputResponses" | "requestState" => params.set(key, value.clone()),
            _ => {}
        }
    }
    // Set again, in its place: what is not placed stays as it was written.
    if let Some(arguments) = placed.arguments(sent.get("arguments")) {
        params.set("arguments", arguments);
    }
    if let Some(meta) = placed.meta(sent.get("_meta").map(without_ours).as_ref()) {
        params.set("_meta", meta);
    }
    Message::request(0, "tools/call", Some(params.text()))
}

fn without_ours(meta: &Text) -> Text {
    let Some(mut members) = meta.object() else { return meta.clone() };
    let ours: Vec<String> =
        members.iter().map(|(key, _)| key).filter(|key| key.starts_with(OURS)).map(str::to_owned).collect();
    if ours.is_empty() {
        return meta.clone();
    }
    for key in ours {
        members.remove(&key);
    }
    members.text()
}
