//! One request to one server, and its answer back.

use super::merge::empty;
use super::{Relay, RelayFailure, RelayRequest, no_such_prompt, no_such_resource};
use crate::guards::Mode;
use crate::mcp::error_codes::INVALID_PARAMS;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::readable::readable_words;
use crate::mcp::revision::Era;
use crate::mcp::round::{Foreign, RoundBinding};
use crate::model::ids::ServerName;
use crate::model::side::SideDoor;
use crate::side::{MessageOutcome, Passing, capabilities, lists};
use crate::upstream::keeper::{asks_too_much, withheld};
use crate::upstream::link::Tolerance;
use crate::upstream::links::BridgeTerms;
use crate::upstream::owners::OwnedTask;
use crate::upstream::pump::{ExchangeContext, ExchangeOutcome, Outbound};

/// Lists of what models and people choose from by its words.
const LIST_METHODS: [&str; 3] = ["prompts/list", "resources/list", "resources/templates/list"];
/// What a server that has forgotten the session may be asked once more: it changes nothing, or the
/// same twice.
const REPEATABLE_METHODS: [&str; 14] = [
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
    UNTIMED_METHOD,
    "tasks/cancel",
];
/// What a server may answer with a question, besides a call (protocol §1.6).
const ASKING_METHODS: [&str; 2] = ["prompts/get", "resources/read"];
/// Lasts as long as the session, so it has a bound.
const SUBSCRIBE_METHOD: &str = "resources/subscribe";
/// Waits for something to happen, so it has no deadline of ours.
const UNTIMED_METHOD: &str = "tasks/result";

impl Relay {
    /// Sends `message` to `server` and carries everything back; the answer is returned under the
    /// server's id.
    pub(super) async fn forward(
        &self,
        request: &RelayRequest,
        server: &ServerName,
        message: Message,
    ) -> Result<Message, RelayFailure> {
        self.forward_task(request, server, message, None).await
    }

    /// The same for what is asked of a task, if it is: with what its contract makes of what the
    /// server says on the way. What goes through a side door is judged here, for one server and
    /// under its own names: nothing of it reaches a server in another way.
    pub(super) async fn forward_task(
        &self,
        request: &RelayRequest,
        server: &ServerName,
        message: Message,
        task: Option<&OwnedTask>,
    ) -> Result<Message, RelayFailure> {
        let RelayRequest {
            caller,
            revision,
            session,
            ..
        } = request;
        let (asked, session) = (message.clone(), session.as_deref());
        let passing = Passing {
            caller,
            server,
            revision,
            session,
            message: &asked,
        };
        let Some(judged) = self.sides.judge(passing) else {
            return self.carry(request, server, message, task).await;
        };
        if judged.is_refused() {
            self.sides.tell(&judged, MessageOutcome::Ended);
            return closed(request.era, &asked.method);
        }
        let answer = self.carry(request, server, message, task).await;
        self.sides.tell(&judged, became(&answer));
        Ok(self
            .sides
            .listed(caller, server, &asked.method, answer?)
            .await)
    }

    async fn carry(
        &self,
        request: &RelayRequest,
        server: &ServerName,
        mut message: Message,
        task: Option<&OwnedTask>,
    ) -> Result<Message, RelayFailure> {
        if let Some(params) = self.with_meta(request, server, message.body.as_ref()) {
            message.body = Some(params);
        }
        let asks = ASKING_METHODS.contains(&message.method.as_str());
        let is_list = LIST_METHODS.contains(&message.method.as_str());
        let bound = RoundBinding {
            caller: &request.caller,
            server,
            method: request.message.method.as_str(),
            params: request.message.body.as_ref(),
        };
        let message = if asks {
            self.opened(bound, message)?
        } else {
            message
        };
        let is_judged = is_judged_where_it_was_asked(request, server, &message);
        let answer = self.exchanged(request, server, message, task).await?;
        let rest = is_judged.then(|| without_questions(&answer));
        Ok(
            match asks_too_much(
                &*self.sides,
                &request.caller,
                server,
                request.revision,
                rest.as_ref().unwrap_or(&answer),
            ) {
                Some(words) => withheld(&answer, words),
                None if is_list => Message {
                    body: answer.body.as_ref().map(readable_words),
                    ..answer
                },
                None if asks => self.seal.sealed(bound, answer),
                None => answer,
            },
        )
    }

    /// What is let pass of what the strict reader refuses: of a list every entry is read here.
    fn tolerance(&self, method: &str) -> Tolerance {
        match self.policy.current().mode {
            Mode::Observe if !LIST_METHODS.contains(&method) => Tolerance::Everything,
            Mode::Observe | Mode::Enforce => Tolerance::None,
        }
    }

    /// The answer of the server, as it is.
    async fn exchanged(
        &self,
        request: &RelayRequest,
        server: &ServerName,
        message: Message,
        task: Option<&OwnedTask>,
    ) -> Result<Message, RelayFailure> {
        if let Some(answer) = self.in_its_place(request, server, &message).await {
            return answer;
        }
        has_room(request, server, &message)?;
        let (shaping, task_token) = task
            .map(|task| (&*task.shaping, task.token.as_ref()))
            .unzip();
        let passage = ExchangeContext {
            caller: &request.caller,
            outlet: &request.outlet,
            links: &request.links,
            waiting: &request.waiting,
            stop_when_gone: true,
            outlives: None,
            shaping,
            tolerance: self.tolerance(&message.method),
            task_token: task_token.flatten(),
        };
        let known = self.servers.get(server.as_str());
        let headers = known.map_or_else(Vec::new, |server| {
            server.settings.beside(&[], &request.headers)
        });
        let timeout = known
            .filter(|_| message.method != UNTIMED_METHOD)
            .map(|server| server.settings.timeout);
        let changes = !REPEATABLE_METHODS.contains(&message.method.as_str());
        let exchange = passage.exchange(Outbound {
            server,
            message: &message,
            params: &headers,
            timeout,
            changes,
            terms: BridgeTerms {
                begins_anew: true,
                ..BridgeTerms::default()
            },
        });
        let ended = tokio::select! {
            ended = exchange => ended,
            () = self.closing.cancelled(), if timeout.is_none() => return Err(RelayFailure::Gone),
        };
        match ended {
            Ok(ExchangeOutcome::Answer(answer)) => {
                if !answer.is_error {
                    let params = message.body.as_ref();
                    request.links.granted(server, &message.method, params);
                }
                Ok(answer)
            }
            Ok(ExchangeOutcome::Gone(_)) => Err(RelayFailure::Gone),
            Err(fault) => {
                if let Some(server) = known.filter(|_| fault.is_outage()) {
                    server.suspect();
                }
                Err(fault.into())
            }
        }
    }

    /// The message as its server knows it: with its own state in place of what was given to the
    /// agent. Another is refused, or in observe mode goes on as it is, to a server that knows
    /// nothing of it.
    fn opened(&self, bound: RoundBinding<'_>, message: Message) -> Result<Message, RelayFailure> {
        match self.seal.opened(bound, &message) {
            Ok(opened) => Ok(opened.unwrap_or(message)),
            Err(foreign) => {
                let (agent, server) = (&bound.caller.agent, bound.server);
                tracing::warn!(%agent, %server, "an agent brought a `requestState` that is not of this request");
                if self.policy.current().mode == Mode::Observe {
                    Ok(message)
                } else {
                    Err(foreign.into())
                }
            }
        }
    }

    /// The parameters with what the server may be told of the agent; none if they are as it wrote
    /// them.
    pub(super) fn with_meta(
        &self,
        request: &RelayRequest,
        server: &ServerName,
        params: Option<&Text>,
    ) -> Option<Text> {
        let meta = params?.get("_meta")?;
        let told = capabilities::meta(&self.sides.policy(), &request.caller, server, &meta)?;
        let mut params = params?.object()?;
        params.set("_meta", told);
        Some(params.text())
    }
}

/// Whether the questions in the answer come from a legacy server: each was judged, and recorded, when
/// the server asked it, and the agent reads it as often as it asks how its task stands.
fn is_judged_where_it_was_asked(
    request: &RelayRequest,
    server: &ServerName,
    message: &Message,
) -> bool {
    let links = &request.links;
    message.method == "tasks/get" && links.is_modern() && links.is_legacy_at(server)
}

fn without_questions(answer: &Message) -> Message {
    let mut rest = answer.clone();
    if let Some(mut body) = answer.body.as_ref().and_then(Text::object) {
        drop(body.remove("inputRequests"));
        rest.body = Some(body.text());
    }
    rest
}

pub(super) fn became(answer: &Result<Message, RelayFailure>) -> MessageOutcome<'_> {
    match answer {
        Ok(answer) => MessageOutcome::Answered(answer),
        Err(RelayFailure::Fault(fault)) => MessageOutcome::Broke(fault),
        Err(RelayFailure::Answer(..) | RelayFailure::Gone) => MessageOutcome::Ended,
    }
}

/// What an agent reads to which a side door is closed: what it would read if there were nothing
/// behind it.
fn closed(era: Era, method: &str) -> Result<Message, RelayFailure> {
    if let Some((key, _)) = lists::members(method) {
        return Ok(empty(era, key));
    }
    match SideDoor::of_method(method) {
        Some(SideDoor::Logging) => Ok(Message::response(None, Object::new().text(), false)),
        Some(SideDoor::Prompts) => Err(no_such_prompt()),
        _ => Err(no_such_resource()),
    }
}

impl From<Foreign> for RelayFailure {
    fn from(foreign: Foreign) -> Self {
        Self::Answer(INVALID_PARAMS, foreign.to_string())
    }
}

/// Whether the session may be subscribed to one more resource, where the message asks for that.
fn has_room(
    request: &RelayRequest,
    server: &ServerName,
    message: &Message,
) -> Result<(), RelayFailure> {
    if message.method != SUBSCRIBE_METHOD {
        return Ok(());
    }
    let may = request.links.may_subscribe(server, message.body.as_ref());
    may.map_err(|words| RelayFailure::Answer(INVALID_PARAMS, words))
}
