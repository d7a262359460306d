//! What a server of the other era has no method for, and toolgate does in its place (protocol §4.3,
//! §4.4).

use super::{Relay, RelayFailure, RelayRequest};
use crate::mcp::error_codes::{INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::ids::ServerName;
use crate::upstream::caller_links::rank;
use serde_json::json;

impl Relay {
    /// toolgate's own answer to a request that the server's era does not know; none if the server
    /// is to be asked.
    pub(super) async fn in_its_place(
        &self,
        request: &RelayRequest,
        server: &ServerName,
        message: &Message,
    ) -> Option<Result<Message, RelayFailure>> {
        let known = self.servers.get(server.as_str())?;
        let (agent, wire) = (request.era, request.links.wire(known));
        if agent == wire {
            return None;
        }
        let param = |name: &str| {
            let value = message.body.as_ref().and_then(|params| params.get(name));
            value.and_then(|value| value.as_str().map(std::borrow::Cow::into_owned))
        };
        Some(match (message.method.as_str(), agent) {
            ("logging/setLevel", Era::Legacy) => match param("level") {
                Some(level) if rank(&level).is_some() => {
                    request.links.log_from(Text::string(&level));
                    Ok(done())
                }
                _ => invalid("`level` is not one of the protocol's"),
            },
            ("resources/subscribe" | "resources/unsubscribe", Era::Legacy) => {
                let Some(uri) = param("uri") else {
                    return Some(invalid("`uri` must be a string"));
                };
                let wants = message.method == "resources/subscribe";
                match request.links.subscribes(server, &uri, wants).await {
                    Ok(()) => Ok(done()),
                    Err(fault) => Err(fault.into()),
                }
            }
            (method, _) if method.starts_with("tasks/") => Err(RelayFailure::Answer(
                METHOD_NOT_FOUND,
                "the tool server speaks another revision, whose tasks are of another kind"
                    .to_owned(),
            )),
            _ => return None,
        })
    }
}

fn done() -> Message {
    Message::response(None, Text::of(&json!({})), false)
}

fn invalid(words: &str) -> Result<Message, RelayFailure> {
    Err(RelayFailure::Answer(INVALID_PARAMS, words.to_owned()))
}
