//! Floor 4: every message that is not a governed call. Its parameters arrive as they came, but for
//! what is toolgate's own, what the agent may not use, and what was sealed; ids change, and, where
//! several servers share one address, the names that say which server is meant.

mod bridging;
mod discover;
mod feed;
mod forward;
mod listen;
mod merge;
mod subscription;
pub(crate) mod task_feed;
pub(crate) mod tasks;

pub(crate) use discover::initialized_together;

use crate::mcp::error_codes::{INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_CANCELLED};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::methods::{Treatment, treatment};
use crate::mcp::revision::Era;
use crate::mcp::round::RoundSeal;
use crate::model::caller::Caller;
use crate::model::reply::Fault;
use crate::model::scope::Scope;
use crate::outlet::Outlet;
use crate::policy::live::LivePolicy;
use crate::side::Sides;
use crate::side::task_news::TaskNews;
use crate::upstream::links::{Links, WaitingRequest};
use crate::upstream::server::UpstreamServer;
use crate::upstream::servers::Servers;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What the relay needs.
pub(crate) struct Relay {
    servers: Arc<Servers>,
    policy: Arc<LivePolicy>,
    sides: Arc<Sides>,
    seal: Arc<RoundSeal>,
    task_news: Arc<dyn TaskNews>,
    tools_changed: watch::Receiver<u64>,
    closing: CancellationToken,
}

/// A request, who makes it, and the way back.
pub(crate) struct RelayRequest {
    /// Who asks.
    pub caller: Arc<Caller>,
    /// Which servers are reached.
    pub scope: Scope,
    /// The agent's era.
    pub era: Era,
    /// The revision it speaks.
    pub revision: &'static str,
    /// Its legacy session.
    pub session: Option<String>,
    /// The request as it was read.
    pub message: Message,
    /// What the agent reaches.
    pub links: Arc<Links>,
    /// HTTP headers that travel as they came.
    pub headers: Vec<(String, String)>,
    /// Where the agent reads.
    pub outlet: Outlet,
    /// Its place among the agent's requests that wait.
    pub waiting: WaitingRequest,
}

/// Why a request got no answer from a server.
#[derive(Debug)]
pub(crate) enum RelayFailure {
    /// toolgate answers with this JSON-RPC error.
    Answer(i64, String),
    /// Something broke on the way.
    Fault(Fault),
    /// The agent went away; nobody reads an answer.
    Gone,
}

impl From<Fault> for RelayFailure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Relay {
    /// A relay to these servers. `seal` is for what they want back with answers to their questions.
    /// `task_news`: of tasks of toolgate's own. `tools_changed` rises when a list of tools may have changed for an agent.
    pub(crate) fn new(
        servers: Arc<Servers>,
        sides: Arc<Sides>,
        seal: Arc<RoundSeal>,
        task_news: Arc<dyn TaskNews>,
        tools_changed: watch::Receiver<u64>,
    ) -> Self {
        Self {
            servers,
            policy: sides.live(),
            sides,
            seal,
            task_news,
            tools_changed,
            closing: CancellationToken::new(),
        }
    }

    /// Ends what would otherwise wait for ever: subscriptions, and requests without a deadline.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Word of changed tools.
    pub(crate) fn tools_changed(&self) -> watch::Receiver<u64> {
        self.tools_changed.clone()
    }

    /// Carries a request to its end.
    pub(crate) async fn request(&self, request: RelayRequest) {
        let ended = match self.permitted(&request) {
            Ok(()) => Box::pin(self.answer(&request)).await,
            Err(failed) => Err(failed),
        };
        let id = request.message.id.clone();
        let answer = match ended {
            Ok(answer) => Message {
                id,
                ..answer.brief()
            },
            Err(RelayFailure::Answer(code, words)) => {
                Message::error(id, code, &words, None).brief()
            }
            Err(RelayFailure::Gone) if request.era == Era::Modern => return,
            Err(RelayFailure::Gone) => {
                Message::error(id, REQUEST_CANCELLED, "the request was cancelled", None)
            }
            Err(RelayFailure::Fault(fault)) => {
                tracing::warn!(method = %request.message.method.escape_debug(), %fault, "a request was not answered");
                let words = "the tool server did not answer; toolgate's log says why";
                Message::error(id, crate::mcp::error_codes::INTERNAL_ERROR, words, None)
            }
        };
        let answer = request.links.with_news(answer);
        request.outlet.answer(answer);
    }

    /// Known methods travel unless the configuration denies them; unknown ones only in observe mode
    /// (threat-model §3C C13).
    fn permitted(&self, request: &RelayRequest) -> Result<(), RelayFailure> {
        let method = request.message.method.as_str();
        let policy = self.policy.current();
        let refuse = |why: &str| {
            let shown: String = method.chars().take(64).collect();
            Err(RelayFailure::Answer(
                METHOD_NOT_FOUND,
                format!("method `{}` {why}", shown.escape_debug()),
            ))
        };
        match treatment(method, request.era) {
            Treatment::Removed => refuse("was removed in this revision"),
            Treatment::Unknown if !policy.methods.passes(method, false, policy.mode) => {
                refuse("is not known; an operator can allow it with `methods: { allow: […] }`")
            }
            _ if !policy.methods.passes(method, true, policy.mode) => {
                refuse("is denied by the configuration")
            }
            Treatment::Call
            | Treatment::List
            | Treatment::Local
            | Treatment::Forward
            | Treatment::Unknown => Ok(()),
        }
    }

    async fn answer(&self, request: &RelayRequest) -> Result<Message, RelayFailure> {
        let message = &request.message;
        match (message.method.as_str(), &request.scope) {
            ("server/discover", _) => self
                .discover(&request.caller, &request.scope)
                .map(|result| Message::response(None, result, false)),
            ("ping", _) => Ok(Message::response(
                None,
                Text::of(&serde_json::json!({})),
                false,
            )),
            ("subscriptions/listen", _) => self.listen(request).await,
            (method, _) if method.starts_with("tasks/") && method != "tasks/list" => {
                Box::pin(self.of_task(request)).await
            }
            ("tasks/list", Scope::One(server)) => {
                self.own_tasks(
                    request,
                    self.forward(request, server, message.clone()).await?,
                )
                .await
            }
            ("tasks/list", Scope::All) => {
                self.own_tasks(request, Box::pin(self.merged(request)).await?)
                    .await
            }
            (_, Scope::One(server)) => self.forward(request, server, message.clone()).await,
            (_, Scope::All) => Box::pin(self.merged(request)).await,
        }
    }

    /// The servers reached that answer.
    fn reached(&self, scope: &Scope) -> Vec<Arc<UpstreamServer>> {
        let reached = self
            .servers
            .all()
            .iter()
            .filter(|server| scope.holds(&server.settings.name) && server.up().is_some());
        reached.cloned().collect()
    }
}

/// The same whether there is none or it is not for the agent (threat-model §5).
fn no_such_resource() -> RelayFailure {
    RelayFailure::Answer(INVALID_PARAMS, "there is no such resource".to_owned())
}

fn no_such_prompt() -> RelayFailure {
    RelayFailure::Answer(INVALID_PARAMS, "there is no prompt of this name".to_owned())
}
