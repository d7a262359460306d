//! Step 14: sends a judged call upstream and carries back what arrives, up to its answer.

use super::call::Call;
use super::toolbox::Tool;
use super::trail::Broken;
use crate::failpoint;
use crate::guards::evidence::Ruled;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::reply::Sent;
use crate::upstream::pump::{Outbound, Passage, Passed};

/// Our own keys never travel upstream unless toolgate itself put them there.
const OURS: &str = "dev.toolgate/";

/// Sends the call once; a detached one is finished even when the agent goes away. `_ruled` is the proof that every guard
/// before has passed it.
pub async fn dispatch(call: &Call, tool: &Tool, detached: bool, _ruled: Ruled) -> Result<Message, Broken> {
    let settings = &tool.server.settings;
    // Until eras are bridged, the agent's is the server's.
    let params = match call.era {
        Era::Modern => header_params(call, tool),
        Era::Legacy => Vec::new(),
    };
    let passage =
        Passage { outlet: &call.outlet, links: &call.links, waiting: &call.waiting, stop_when_gone: !detached };
    let (server, timeout) = (&settings.name, Some(settings.timeout));
    failpoint::reached("before-send");
    match passage.exchange(Outbound { server, message: outbound(call, tool), params, timeout }).await {
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

fn header_params(call: &Call, tool: &Tool) -> Vec<(String, String)> {
    let params = tool.definition.header_params.iter();
    params.filter_map(|param| Some((param.header.clone(), param.value(&call.judged.arguments)?))).collect()
}

/// The call as it travels: a closed list of fields, each as the agent wrote it and the guards read it.
fn outbound(call: &Call, tool: &Tool) -> Message {
    let sent = call.message.body.as_ref().and_then(Text::object).unwrap_or_default();
    let mut params = Object::new();
    params.set("name", Text::string(&tool.definition.name));
    for (key, value) in sent.iter() {
        match key {
            "arguments" | "task" | "inputResponses" | "requestState" => params.set(key, value.clone()),
            "_meta" => params.set(key, without_ours(value)),
            _ => {}
        }
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
