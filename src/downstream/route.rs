//! Where a request goes, whatever wire it came on: the gate, the gate's listing, or the relay.

mod begun_request;
mod call_params;
mod own_task;
mod passed_headers;

use super::request_origin::RequestOrigin;
use super::unread::{MessageReading, fits};
use super::{Authenticated, Door};
use crate::failpoint;
use crate::gate::call::{Call, CallOrigin};
use crate::gate::catalogue::view::ListAsked;
use crate::mcp::error_codes::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST};
use crate::mcp::headers::{HOPS_HEADER, IDEMPOTENCY_KEY_HEADER};
use crate::mcp::json::{JsonLimits, Text};
use crate::mcp::message::Message;
use crate::mcp::methods::{Treatment, treatment};
use crate::mcp::revision::Revision;
use crate::model::call::ToolCall;
use crate::model::ids::{ActionId, ServerName};
use crate::model::scope::Scope;
use crate::model::work;
use crate::outlet::{Inlet, Outlet, way_back};
use crate::policy::Policy;
use crate::relay;
use crate::telemetry::tasks::heavy::{self, HeavyWorkError};
use crate::telemetry::tasks::{self, DetachOnDrop};
use crate::telemetry::traces::{CallStart, call_span};
use crate::upstream::links::{Links, WaitingRequest};
pub(super) use begun_request::BegunRequest;
use call_params::{CallParams, MetaMembers, length, shown_id};
use http::HeaderMap;
use http::header::{AsHeaderName, HeaderName};
use own_task::task_terms;
use parking_lot::Mutex;
use passed_headers::passed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use tracing::Instrument;

/// Subscribes.
pub(super) const LISTEN_METHOD: &str = "subscriptions/listen";

const TRACE_PARENT_NAME: HeaderName = HeaderName::from_static("traceparent");
const IDEMPOTENCY_KEY_NAME: HeaderName = HeaderName::from_static(IDEMPOTENCY_KEY_HEADER);
const HOPS_NAME: HeaderName = HeaderName::from_static(HOPS_HEADER);

/// Turns on the pool that one list may take, each about 1 s.
const MAX_LIST_TURNS: usize = 60;

/// A request whose era, caller and scope are known.
#[derive(Clone)]
pub(super) struct Arrived {
    pub(super) known: Authenticated,
    pub(super) scope: Scope,
    pub(super) revision: Revision,
    pub(super) message: Message,
    pub(super) links: Arc<Links>,
    pub(super) session: Option<String>,
    pub(super) heads: CallHeaders,
    pub(super) origin: RequestOrigin,
}

impl Arrived {
    /// Whose tools it asks for, and where.
    fn asks(&self) -> ListAsked<'_> {
        ListAsked {
            caller: &self.known.caller,
            scope: &self.scope,
            links: Some(&self.links),
        }
    }
}

/// What an agent says about a request in HTTP headers. Empty: a header that is no text, or that
/// occurs twice.
#[derive(Clone, Default)]
pub(super) struct CallHeaders {
    traceparent: Option<String>,
    key: Option<String>,
    session: Option<String>,
    hops: Option<String>,
    /// Those that travel as they came.
    passed: Vec<(String, String)>,
}

/// Where the answer to a request goes, and its place among those that wait.
struct AnswerPath {
    outlet: Outlet,
    waiting: WaitingRequest,
}

impl Door {
    /// What a message may be that comes to this address.
    pub(super) fn limits(&self, scope: &Scope) -> JsonLimits {
        match scope {
            Scope::All => self.servers.limits(None),
            Scope::One(server) => self.servers.limits(Some(server)),
        }
    }

    /// Reads the headers that are about the request, not about how it travels.
    pub(super) fn heads(policy: &Policy, headers: &HeaderMap) -> CallHeaders {
        let session = policy.session_header.as_deref();
        CallHeaders {
            traceparent: single_text(headers, TRACE_PARENT_NAME),
            key: single_text(headers, IDEMPOTENCY_KEY_NAME),
            session: session.and_then(|name| single_text(headers, name)),
            hops: single_text(headers, HOPS_NAME),
            passed: passed(headers),
        }
    }

    /// Starts a request on its own.
    pub(super) fn start(self: &Arc<Self>, arrived: Arrived) -> Inlet {
        let BegunRequest { inlet, work, .. } = self.begin(arrived);
        drop(work);
        inlet
    }

    /// Begins a request: the task that waits for its first word does the work meanwhile, or drops
    /// it into one of its own.
    pub(super) fn begin(self: &Arc<Self>, arrived: Arrived) -> BegunRequest {
        failpoint::reached("after-parse");
        let (outlet, inlet) = way_back();
        let era = arrived.revision.era();
        let id = arrived
            .message
            .id
            .clone()
            .unwrap_or_else(|| Text::string(""));
        let waiting = match arrived.links.wait(&id) {
            Ok(waiting) => waiting,
            Err(cannot) => {
                let refused = Message::error(Some(id), INVALID_REQUEST, &cannot.to_string(), None);
                outlet.answer(refused);
                return self.begun(inlet, None);
            }
        };
        if let Some(id) = self.own_task(&arrived) {
            let work = self.begin_own_task(arrived, id, AnswerPath { outlet, waiting });
            return self.begun(inlet, Some(work));
        }
        let work = match treatment(&arrived.message.method, era) {
            Treatment::Call => match self.lacking(&arrived) {
                Some(server) => Some(self.begin_call_after_listing(
                    arrived,
                    server,
                    AnswerPath { outlet, waiting },
                )),
                None => self.begin_call(arrived, &outlet, waiting),
            },
            Treatment::List if self.passes("tools/list") => {
                self.begin_list(arrived, AnswerPath { outlet, waiting })
            }
            Treatment::List
            | Treatment::Local
            | Treatment::Forward
            | Treatment::Removed
            | Treatment::Unknown => {
                Some(self.begin_relayed(arrived, AnswerPath { outlet, waiting }))
            }
        };
        self.begun(inlet, work)
    }

    fn begun(&self, inlet: Inlet, work: Option<DetachOnDrop>) -> BegunRequest {
        BegunRequest {
            inlet,
            work,
            patience: self.patience.clone(),
        }
    }

    fn begin_call(
        &self,
        arrived: Arrived,
        outlet: &Outlet,
        waiting: WaitingRequest,
    ) -> Option<DetachOnDrop> {
        let place = arrived.origin.place.clone();
        let work = self.call_work(arrived, outlet, waiting)?;
        Some(DetachOnDrop::at(place, "call", work))
    }

    /// What is to be done for a call; none if it is answered already.
    fn call_work(
        &self,
        arrived: Arrived,
        outlet: &Outlet,
        waiting: WaitingRequest,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let id = arrived.message.id.clone();
        let read = heavy::aside(length(&arrived.message), || {
            self.call(arrived, outlet.clone(), waiting)
        });
        match read {
            Ok((span, call)) => {
                let gate = self.gate.clone();
                // What breaks here breaks this call only, as in the work that follows; there is no
                // call yet that could be recorded.
                let Some(work) = tasks::begun("call", || span.in_scope(|| gate.answers(call)))
                else {
                    let words = "toolgate itself broke before anything was sent";
                    let answer = Message::error(id, INTERNAL_ERROR, words, None);
                    outlet.answer(answer);
                    return None;
                };
                let work = work.instrument(span);
                Some(self.running.track_future(work))
            }
            Err(answer) => {
                outlet.answer(answer);
                None
            }
        }
    }

    /// The server of a tool that the agent calls and nobody knows, but which the server may show it
    /// in a session of its own by now. What was listed there before is taken up here.
    fn lacking(&self, arrived: &Arrived) -> Option<Scope> {
        let body = arrived.message.body.as_ref();
        let name = body.and_then(|params| params.get("name"));
        let name = name.as_ref().and_then(Text::as_str)?;
        let (links, caller) = (&arrived.links, &arrived.known.caller);
        let scope = Scope::One(arrived.scope.server_of(&name)?);
        if !links.has_own(&scope) {
            return None;
        }
        let meta = body.and_then(|params| params.get("_meta"));
        links.recall_own(&scope, caller, meta.as_ref());
        let (tool, ..) = self.gate.named(arrived.asks(), &name);
        let lacks = self.gate.tool_of(Some(links), &tool).is_none();
        lacks.then_some(scope)
    }

    async fn list_own(arrived: &Arrived, scope: &Scope) {
        let body = arrived.message.body.as_ref();
        let meta = body.and_then(|params| params.get("_meta"));
        let caller = &arrived.known.caller;
        arrived.links.list_own(scope, caller, meta.as_ref()).await;
    }

    fn begin_call_after_listing(
        self: &Arc<Self>,
        arrived: Arrived,
        server: Scope,
        AnswerPath { outlet, waiting }: AnswerPath,
    ) -> DetachOnDrop {
        let (this, place) = (self.clone(), arrived.origin.place.clone());
        let work = async move {
            Self::list_own(&arrived, &server).await;
            if let Some(call) = this.call_work(arrived, &outlet, waiting) {
                Box::pin(call).await;
            }
        };
        let work = self.running.track_future(work);
        DetachOnDrop::at(place, "call after a listing", work)
    }

    fn begin_relayed(self: &Arc<Self>, arrived: Arrived, path: AnswerPath) -> DetachOnDrop {
        let (this, place) = (self.clone(), arrived.origin.place.clone());
        let work = async move {
            if arrived.message.method == LISTEN_METHOD {
                Box::pin(this.resume_heard(&arrived)).await;
            }
            this.relay.request(relayed(arrived, path)).await;
        };
        DetachOnDrop::at(place, "request", self.running.track_future(work))
    }

    pub(super) fn passes(&self, method: &str) -> bool {
        let policy = self.policy.current();
        policy.methods.passes(method, true, policy.mode)
    }

    fn list(&self, arrived: &Arrived) -> Message {
        let cursor = arrived
            .message
            .body
            .as_ref()
            .and_then(|params| params.get("cursor"))
            .filter(|cursor| !cursor.is_null());
        let (id, policy) = (arrived.message.id.clone(), &arrived.known.policy);
        let asked = arrived.asks();
        match self
            .gate
            .list_tools(policy, asked, arrived.revision, cursor.as_ref())
        {
            Ok(result) => Message::response(id, result, false),
            Err(no_such_page) => {
                Message::error(id, INVALID_PARAMS, &no_such_page.to_string(), None)
            }
        }
    }

    /// Answers with the list at once, unless it takes long to make.
    fn begin_list(
        self: &Arc<Self>,
        arrived: Arrived,
        AnswerPath { outlet, waiting }: AnswerPath,
    ) -> Option<DetachOnDrop> {
        if arrived.links.has_own(&arrived.scope) {
            let (this, place) = (self.clone(), arrived.origin.place.clone());
            let work = async move {
                let _waiting = waiting;
                Self::list_own(&arrived, &arrived.scope).await;
                // Made at once, or by work that waits for no request.
                if let Some(slow) = this.begin_list_made(arrived, outlet) {
                    slow.await;
                }
            };
            let work = self.running.track_future(work);
            return Some(DetachOnDrop::at(place, "own list", work));
        }
        self.begin_list_made(arrived, outlet)
    }

    fn begin_list_made(self: &Arc<Self>, arrived: Arrived, outlet: Outlet) -> Option<DetachOnDrop> {
        if let Ok(listed) = work::within(work::INLINE_WORK_UNITS, || self.list(&arrived)) {
            outlet.answer(listed);
            return None;
        }
        let work = self.clone().list_slowly(arrived, outlet);
        Some(DetachOnDrop::new("list", self.running.track_future(work)))
    }

    /// What was fitted to the caller's profile stays so: each time there is less to do, until the
    /// list is made at once. So memory of its own is taken rarely.
    async fn list_slowly(self: Arc<Self>, arrived: Arrived, outlet: Outlet) {
        let (id, arrived) = (arrived.message.id.clone(), Arc::new(arrived));
        let mut listed = Err(HeavyWorkError::TooHeavy);
        for _ in 0..MAX_LIST_TURNS {
            let (this, of) = (self.clone(), arrived.clone());
            listed = heavy::on_pool(&arrived.known.caller.agent, move || this.list(&of)).await;
            if listed.as_ref().err() != Some(&HeavyWorkError::TooHeavy) {
                break;
            }
        }
        let busy = |_| {
            Message::error(
                id,
                INTERNAL_ERROR,
                "the list takes long to make; ask again in a while",
                None,
            )
        };
        outlet.answer(listed.unwrap_or_else(busy));
    }

    fn fits(&self, arrived: &Arrived, server: Option<&ServerName>) -> Result<(), Message> {
        let (limits, mode) = (self.servers.limits(server), arrived.known.policy.mode);
        fits(&arrived.message, MessageReading { mode, limits })
    }

    /// Reads a call from a closed list of fields; nothing else of it can travel.
    pub(super) fn call(
        &self,
        arrived: Arrived,
        outlet: Outlet,
        waiting: WaitingRequest,
    ) -> Result<(tracing::Span, Call), Message> {
        let CallParams {
            name,
            arguments,
            reading,
        } = CallParams::read(&arrived)?;
        let (tool, server, own_name) = self.gate.named(arrived.asks(), &name);
        self.fits(&arrived, server.as_ref())?;
        let (request_id, meta) = (shown_id(&arrived.message), MetaMembers::of(&arrived));
        let (mut trace, task) = (meta.trace(), task_terms(&arrived));
        let known = self.gate.tool_of(Some(&arrived.links), &tool);
        let start = CallStart {
            tool: known.is_some().then(|| tool.as_str()),
            revision: arrived.revision.as_str(),
            request_id: &request_id,
        };
        let span = call_span(&start, &mut trace);
        let said = meta.said(arrived.heads, &trace);
        let judged = ToolCall {
            action: ActionId::generate(),
            tool,
            server,
            own_name,
            arguments,
            request_id,
            trace_id: trace.trace_id(),
            session: arrived.session,
            revision: arrived.revision.as_str(),
            key_argument: None,
            key_taken: false,
            rewritten: None,
            arrived: self.clock.steady(),
            said,
        };
        let (Authenticated { caller, policy, .. }, links) = (arrived.known, arrived.links);
        Ok((
            span,
            Call {
                judged,
                reading,
                message: arrived.message,
                origin: Arc::new(CallOrigin {
                    caller,
                    policy,
                    era: arrived.revision.era(),
                    links,
                    outlet,
                    waiting,
                    arrived: arrived.origin.arrived,
                    is_relayed: arrived.origin.is_relayed,
                    task,
                    asks_page: AtomicBool::default(),
                    undoes: None,
                    own_undo: Mutex::default(),
                    claimed: OnceLock::new(),
                    page: OnceLock::new(),
                    waited: AtomicU64::default(),
                }),
            },
        ))
    }
}

/// What a header says; empty if it is no text, or occurs twice.
fn single_text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok();
    let is_single = values.next().is_none();
    let said = value.filter(|_| is_single);
    Some(said.unwrap_or_default().to_owned())
}

/// As the relay carries it.
fn relayed(arrived: Arrived, AnswerPath { outlet, waiting }: AnswerPath) -> relay::RelayRequest {
    relay::RelayRequest {
        caller: arrived.known.caller,
        scope: arrived.scope,
        era: arrived.revision.era(),
        revision: arrived.revision.as_str(),
        session: arrived.session,
        headers: arrived.heads.passed,
        message: arrived.message,
        links: arrived.links,
        outlet,
        waiting,
    }
}
