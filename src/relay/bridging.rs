//! What a server of the other era has no method for, and toolgate does in its place (protocol §4.3,
//! §4.4).

use super::{Relay, RelayFailure, RelayRequest};
use crate::mcp::bridge::task_to_legacy;
use crate::mcp::error_codes::INVALID_PARAMS;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::ids::ServerName;
use crate::upstream::log_levels::rank;
use futures_util::stream::{StreamExt, iter};
use serde_json::json;
use std::time::Duration;

/// Tasks of a list that no server has: the newest that the agent holds, and how many of them are
/// asked after at once, each for so long.
const MAX_LISTED_TASKS: usize = 64;
const TASKS_AT_ONCE: usize = 8;
const TASK_TIMEOUT: Duration = Duration::from_secs(5);

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
            return Box::pin(self.asks_for_all(request, server, message)).await;
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
                if wants && let Err(words) = request.links.may_hear_of(server, &uri) {
                    return Some(invalid(&words));
                }
                match request.links.subscribes(server, &uri, wants).await {
                    Ok(()) => Ok(done()),
                    Err(fault) => Err(fault.into()),
                }
            }
            ("tasks/list", Era::Legacy) => Ok(held_tasks(request, server).await),
            _ => return None,
        })
    }

    /// What is asked of a process that the agent's session shares with others.
    async fn asks_for_all(
        &self,
        request: &RelayRequest,
        server: &ServerName,
        message: &Message,
    ) -> Option<Result<Message, RelayFailure>> {
        let (links, caller) = (&request.links, &request.caller);
        let answer = links.asks_for_all(server, caller, message).await?;
        if matches!(&answer, Ok(answer) if !answer.is_error) {
            links.granted(server, &message.method, message.body.as_ref());
        }
        Some(answer.map_err(RelayFailure::from))
    }
}

/// The tasks that the agent holds at a server of 2026-07-28, which lists none.
async fn held_tasks(request: &RelayRequest, server: &ServerName) -> Message {
    let (links, caller) = (&request.links, &request.caller);
    let mut ids = links.tasks.held(caller, server);
    ids.truncate(MAX_LISTED_TASKS);
    let standing = iter(ids).map(|id| async move {
        let params = Text::members_of(&[("taskId", id)]);
        let asked = Message::request(0, "tasks/get", Some(params));
        let answer = links.ask(server, caller, &asked);
        let answer = tokio::time::timeout(TASK_TIMEOUT, answer)
            .await
            .ok()?
            .ok()?;
        let task = answer.body.filter(|_| !answer.is_error)?;
        Some(task_to_legacy(&task))
    });
    let standing = standing.buffered(TASKS_AT_ONCE);
    let tasks: Vec<_> = standing.filter_map(|task| async { task }).collect().await;
    let result = Text::members_of(&[("tasks", Text::array(tasks))]);
    Message::response(None, result, false)
}

fn done() -> Message {
    Message::response(None, Text::of(&json!({})), false)
}

fn invalid(words: &str) -> Result<Message, RelayFailure> {
    Err(RelayFailure::Answer(INVALID_PARAMS, words.to_owned()))
}
