//! One request to one server, and its answer back.

use super::merge::empty;
use super::{Failed, Relay, Request, no_such_prompt, no_such_resource};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::readable::readable_words;
use crate::mcp::revision::Era;
use crate::model::ids::ServerName;
use crate::model::side::SideDoor;
use crate::side::{Became, Passing, capabilities, lists};
use crate::upstream::keeper::{asks_too_much, withheld};
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

    /// The same, with what a contract makes of what the server says on the way. What goes through a side door is judged
    /// here, for one server and under its own names: nothing of it reaches a server in another way.
    pub(super) async fn forward_shaped(
        &self,
        request: &Request,
        server: &ServerName,
        message: Message,
        shaping: Option<&dyn Shaping>,
    ) -> Result<Message, Failed> {
        let Request { caller, revision, session, .. } = request;
        let (asked, session) = (message.clone(), session.as_deref());
        let passing = Passing { caller, server, revision, session, message: &asked };
        let Some(judged) = self.sides.judge(passing) else {
            return self.carry(request, server, message, shaping).await;
        };
        if judged.is_refused() {
            self.sides.tell(&judged, Became::Ended);
            return closed(request.era, &asked.method);
        }
        let answer = self.carry(request, server, message, shaping).await;
        self.sides.tell(&judged, became(&answer));
        Ok(self.sides.listed((caller, server), &asked.method, answer?).await)
    }

    async fn carry(
        &self,
        request: &Request,
        server: &ServerName,
        mut message: Message,
        shaping: Option<&dyn Shaping>,
    ) -> Result<Message, Failed> {
        let Request { caller, outlet, links, waiting, .. } = request;
        if let Some(params) = self.with_meta(request, server, message.body.as_ref()) {
            message.body = Some(params);
        }
        let passage = Passage { caller, outlet, links, waiting, stop_when_gone: true, shaping };
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
            Ok(Passed::Answer(answer)) => {
                let from = (&**caller, server, request.revision);
                match asks_too_much(&*self.sides, from, &answer) {
                    Some(words) => Ok(withheld(&answer, words)),
                    None if is_list => Ok(Message { body: answer.body.as_ref().map(readable_words), ..answer }),
                    None => Ok(answer),
                }
            }
            Ok(Passed::Gone(_)) => Err(Failed::Gone),
            Err(fault) => {
                if let Some(server) = known.filter(|_| fault.is_outage()) {
                    server.suspect();
                }
                Err(fault.into())
            }
        }
    }

    /// The parameters with what the server may be told of the agent; none if they are as it wrote them.
    pub(super) fn with_meta(&self, request: &Request, server: &ServerName, params: Option<&Text>) -> Option<Text> {
        let meta = params?.get("_meta")?;
        let told = capabilities::meta(&self.sides.policy(), (&request.caller, server), &meta)?;
        let mut params = params?.object()?;
        params.set("_meta", told);
        Some(params.text())
    }
}

fn became(answer: &Result<Message, Failed>) -> Became<'_> {
    match answer {
        Ok(answer) => Became::Answered(answer),
        Err(Failed::Fault(fault)) => Became::Broke(fault),
        Err(Failed::Answer(..) | Failed::Gone) => Became::Ended,
    }
}

/// What an agent reads to which a side door is closed: what it would read if there were nothing behind it.
fn closed(era: Era, method: &str) -> Result<Message, Failed> {
    if let Some((key, _)) = lists::members(method) {
        return Ok(empty(era, key));
    }
    match SideDoor::of_method(method) {
        Some(SideDoor::Logging) => Ok(Message::response(None, Object::new().text(), false)),
        Some(SideDoor::Prompts) => Err(no_such_prompt()),
        _ => Err(no_such_resource()),
    }
}
