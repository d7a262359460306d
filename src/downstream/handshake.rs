//! `initialize`, and what an agent says afterwards that wants no answer.

use super::request_origin::RequestOrigin;
use super::route::{Arrived, CallHeaders};
use super::session::{AgentSession, UnsolicitedMessages};
use super::{Authenticated, Door};
use crate::guards::Mode;
use crate::mcp::bridge::{initialized_of, unknown_server};
use crate::mcp::error_codes::{INTERNAL_ERROR, INVALID_PARAMS};
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::{Era, Revision};
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::reply::Fault;
use crate::model::scope::Scope;
use crate::policy::Policy;
use crate::relay::initialized_together;
use crate::side::{MessageOutcome, Passing, capabilities};
use crate::telemetry::tasks;
use crate::upstream::INBOX_MESSAGES_MAX;
use crate::upstream::keeper::{asks_too_much, withheld};
use crate::upstream::links::Links;
use crate::upstream::questions::Answered;
use crate::upstream::server::UpstreamServer;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Goes only to the server that asked for it.
const PROGRESS_METHOD: &str = "notifications/progress";
/// What an agent tells every server of its session; anything else only in observe mode.
const SERVER_NOTIFICATIONS: &[&str] = &[
    "notifications/initialized",
    "notifications/roots/list_changed",
    PROGRESS_METHOD,
    "notifications/tasks/status",
    "notifications/elicitation/complete",
];

/// How long an agent waits for the server's own answer to `initialize`, before it reads what is known
/// of the server.
const INTRODUCTION_TIMEOUT: Duration = Duration::from_millis(80);
/// How long it waits where the server is asked now whether it speaks the agent's era: what is said to it next
/// depends on that.
const ERA_TIMEOUT: Duration = Duration::from_secs(10);

/// A session that was just opened, and the answer that says so.
pub(super) struct OpenedSession {
    pub(super) session: Arc<AgentSession>,
    pub(super) answer: Message,
    pub(super) unsolicited: UnsolicitedMessages,
}

impl Door {
    /// Opens a session: the servers are asked with the agent's own words, and their answer is the
    /// answer.
    pub(super) async fn initialize(
        &self,
        caller: Arc<Caller>,
        scope: Scope,
        message: &Message,
    ) -> Result<OpenedSession, Message> {
        let refuse = |code, words: &str| Err(Message::error(None, code, words, None));
        let params = Self::initialize_params(message)?;
        if let Err(too_many) = self.sessions.room(&caller.agent) {
            return refuse(INTERNAL_ERROR, &too_many.to_string());
        }
        let (inbox, unsolicited) = mpsc::channel(INBOX_MESSAGES_MAX);
        let links = Arc::new(Links::session(
            self.servers.clone(),
            caller.clone(),
            params.clone(),
            inbox,
        ));
        let opened = match &scope {
            Scope::One(_) => {
                self.open_one(&caller, &links, &scope, asked_revision(&params))
                    .await
            }
            Scope::All => Ok(self.open_all(&caller, &links, &params).await),
        };
        let answer = match opened {
            Ok(answer) if answer.is_error => return Err(answer.brief()),
            Ok(answer) => answer,
            Err(fault) => {
                tracing::warn!(%fault, "a session could not be opened");
                return refuse(
                    INTERNAL_ERROR,
                    "the tool server did not answer `initialize`; toolgate's log says why",
                );
            }
        };
        let version = answer
            .body
            .as_ref()
            .and_then(|result| result.get("protocolVersion"));
        let revision = version
            .and_then(|version| Revision::parse(&version.as_str()?))
            .unwrap_or(Revision::NEWEST_LEGACY);
        links.agree_on(revision);
        let session = match self.sessions.open(caller, scope, revision, links.clone()) {
            Ok(session) => session,
            Err(too_many) => {
                links.close().await;
                return refuse(INTERNAL_ERROR, &too_many.to_string());
            }
        };
        self.metrics.sessions(self.sessions.count());
        Ok(OpenedSession {
            session,
            answer,
            unsolicited,
        })
    }

    /// What the agent says of itself, where a session can be opened for it.
    fn initialize_params(message: &Message) -> Result<Text, Message> {
        let Some(params) = message
            .body
            .clone()
            .filter(|params| params.get("protocolVersion").is_some())
        else {
            let words = "`initialize` needs `params.protocolVersion`";
            return Err(Message::error(None, INVALID_PARAMS, words, None));
        };
        Ok(params)
    }

    async fn open_one(
        &self,
        caller: &Caller,
        links: &Arc<Links>,
        scope: &Scope,
        asked: Revision,
    ) -> Result<Message, Fault> {
        let Scope::One(name) = scope else {
            return Err(Fault::unsent("no server is named"));
        };
        let server = self
            .servers
            .get(name.as_str())
            .ok_or_else(|| Fault::unsent("there is no such tool server"))?;
        let answer = introduction(links, server, asked).await;
        if answer.is_error {
            let revision = Revision::NEWEST_LEGACY.as_str();
            let words = asks_too_much(&*self.gate.sides, caller, name, revision, &answer);
            return Ok(words.map_or(answer.clone(), |words| withheld(&answer, words)));
        }
        let policy = self.policy.current();
        let read = |said: &Text| introduced(&policy, caller, name, said);
        Ok(Message {
            body: answer.body.as_ref().map(read),
            ..answer
        })
    }

    /// Servers that nothing is known of are left out; their tools come when they do.
    async fn open_all(&self, caller: &Caller, links: &Arc<Links>, params: &Text) -> Message {
        let revision = asked_revision(params);
        let known: Vec<_> = self
            .servers
            .all()
            .iter()
            .filter(|server| server.known().is_some())
            .collect();
        let opened = known
            .iter()
            .map(|server| introduction(links, server, revision));
        let opened = futures_util::future::join_all(opened).await;
        let mut said = Vec::new();
        for (server, answer) in known.iter().zip(opened) {
            if answer.is_error {
                tracing::warn!(server = %server.settings.name, "the tool server refused a session");
                continue;
            }
            let (name, policy) = (&server.settings.name, self.policy.current());
            said.extend(
                answer
                    .body
                    .map(|said| (name.to_string(), introduced(&policy, caller, name, &said))),
            );
        }
        let asked = params.get("protocolVersion");
        let asked = asked.as_ref().and_then(Text::as_str).unwrap_or_default();
        Message::response(None, initialized_together(&said, &asked), false)
    }

    /// A notification or a response of an agent: each goes to the server it is for, under the
    /// server's id.
    pub(super) async fn heard(&self, session: &AgentSession, message: Message) {
        if message.kind == MessageKind::Response {
            match session.links.questions.answer(message) {
                Answered::Server(link, message) => report(link.notify(message).await),
                Answered::Toolgate => {}
                Answered::Nobody => self.metrics.dropped("answer_to_nothing"),
            }
            return;
        }
        if message.method == "notifications/initialized" {
            session.links.is_ready();
        }
        match message.method.as_str() {
            "notifications/cancelled" => session.links.cancel(&message),
            method
                if SERVER_NOTIFICATIONS.contains(&method)
                    || self.policy.current().mode == Mode::Observe =>
            {
                let only_asked =
                    method == PROGRESS_METHOD && self.policy.current().mode == Mode::Enforce;
                for (name, link) in session.links.links_to_tell(&message).await {
                    if only_asked && !session.links.questions.asked_under(&link, &message) {
                        self.metrics.dropped("foreign_progress");
                        continue;
                    }
                    if !self.may_tell(session, &name, &message) {
                        self.metrics.dropped("closed_side_door");
                        continue;
                    }
                    report(link.notify(message.clone()).await);
                }
            }
            _ => self.metrics.dropped("unknown_notification"),
        }
    }

    /// May an agent tell this server so? What goes through a side door is recorded.
    fn may_tell(&self, session: &AgentSession, server: &ServerName, message: &Message) -> bool {
        let (caller, revision) = (&*session.caller, session.revision.as_str());
        let passing = Passing {
            caller,
            server,
            revision,
            session: Some(&session.id),
            message,
        };
        let judged = self.gate.sides.judge(passing);
        judged.is_none_or(|judged| {
            self.gate.sides.tell(&judged, MessageOutcome::Passed);
            !judged.is_refused()
        })
    }
}

/// A server's answer to the agent's `initialize`: its own, if it comes at once, else what is known of
/// it. The session at the server is opened all the same: an agent does not wait for a server that
/// starts, or is down.
async fn introduction(
    links: &Arc<Links>,
    server: &Arc<UpstreamServer>,
    revision: Revision,
) -> Message {
    let (opens, at) = (links.clone(), server.clone());
    let patience = if server.is_legacy_unasked() {
        ERA_TIMEOUT
    } else {
        INTRODUCTION_TIMEOUT
    };
    let opening = tasks::spawn("session at a server", async move {
        at.settle_legacy().await;
        let opened = opens.introduction(&at, revision).await;
        if let Err(fault) = &opened {
            tracing::warn!(server = %at.settings.name, %fault, "the tool server opened no session");
        }
        opened
    });
    if let Ok(Ok(Ok(answer))) = tokio::time::timeout(patience, opening).await {
        return answer;
    }
    let known = server.known();
    let said = known
        .and_then(|known| known.as_legacy(revision))
        .unwrap_or_else(|| initialized_of(&unknown_server(), revision));
    Message::response(None, said, false)
}

/// The revision that an agent asks for, as far as it is one of a session.
fn asked_revision(params: &Text) -> Revision {
    let asked = params.get("protocolVersion");
    let asked = asked.as_ref().and_then(Text::as_str);
    asked
        .and_then(|asked| Revision::parse(&asked))
        .filter(|asked| asked.era() == Era::Legacy)
        .unwrap_or(Revision::NEWEST_LEGACY)
}

/// What a server said of itself, as this caller may read it.
fn introduced(policy: &Policy, caller: &Caller, server: &ServerName, said: &Text) -> Text {
    capabilities::introduced(policy, caller, server, &policy.introduced(server, said))
}

fn report(told: Result<(), Fault>) {
    if let Err(fault) = told {
        tracing::debug!(%fault, "a message of an agent did not reach the tool server");
    }
}

/// A request on a session, from `origin`.
pub(super) fn arrived(
    session: &Arc<AgentSession>,
    known: Authenticated,
    message: Message,
    heads: CallHeaders,
    origin: RequestOrigin,
) -> Arrived {
    Arrived {
        origin,
        known,
        scope: session.scope.clone(),
        revision: session.revision,
        message,
        links: session.links.clone(),
        session: Some(session.id.clone()),
        heads,
    }
}
