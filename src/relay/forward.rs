//! One request to one server, and its answer back.

use super::{Failed, Relay, Request};
use crate::mcp::message::Message;
use crate::mcp::readable::readable_words;
use crate::model::ids::ServerName;
use crate::upstream::owners::Shaping;
use crate::upstream::pump::{Outbound, Passage, Passed};

/// Lists of what models and people choose from by its words.
const LISTS: [&str; 3] = ["prompts/list", "resources/list", "resources/templates/list"];
/// What a server that has forgotten the session may be asked once more: it changes nothing, or the same twice.
const REPEATABLE: [&str; 14] = [
    "ping",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "completion/complete",
    "logging/setLevel",
    "tasks/list",
    "tasks/get",
    PATIENT,
    "tasks/cancel",
];
/// Waits for something to happen, so it has no deadline of ours.
const PATIENT: &str = "tasks/result";

impl Relay {
    /// Sends `message` to `server` and carries everything back; the answer is returned under the server's id.
    pub(super) async fn forward(
        &self,
        request: &Request,
        server: &ServerName,
        message: Message,
    ) -> Result<Message, Failed> {
        self.forward_shaped(request, server, message, None).await
    }

    /// The same, with what a contract makes of what the server says on the way.
    pub(super) async fn forward_shaped(
        &self,
        request: &Request,
        server: &ServerName,
        message: Message,
        shaping: Option<&dyn Shaping>,
    ) -> Result<Message, Failed> {
        let Request { outlet, links, waiting, .. } = request;
        let passage = Passage { outlet, links, waiting, stop_when_gone: true, shaping };
        let is_list = LISTS.contains(&message.method.as_str());
        let known = self.servers.get(server.as_str());
        let timeout = known.filter(|_| message.method != PATIENT).map(|server| server.settings.timeout);
        let changes = !REPEATABLE.contains(&message.method.as_str());
        let exchange = passage.exchange(Outbound { server, message, params: Vec::new(), timeout, changes });
        let ended = tokio::select! {
            ended = exchange => ended,
            () = self.closing.cancelled(), if timeout.is_none() => return Err(Failed::Gone),
        };
        match ended {
            Ok(Passed::Answer(answer)) if is_list => {
                Ok(Message { body: answer.body.as_ref().map(readable_words), ..answer })
            }
            Ok(Passed::Answer(answer)) => Ok(answer),
            Ok(Passed::Gone(_)) => Err(Failed::Gone),
            Err(fault) => {
                if let Some(server) = known.filter(|_| fault.is_outage()) {
                    server.suspect();
                }
                Err(fault.into())
            }
        }
    }
}
