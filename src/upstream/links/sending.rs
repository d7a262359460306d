//! A request of an agent on its way to a server: on which link, in which era's words, and once more
//! in a new session where that is harmless.

use super::Links;
use crate::mcp::bridge::{
    LOG_LEVEL_META_KEY, LegacyIntroduction, TaskSupport, as_legacy_task, as_round, is_after_pages,
    knows_tasks, makes_tasks, to_legacy_server, to_modern_server,
};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::reply::Fault;
use crate::telemetry::tasks;
use crate::upstream::caller_links::{Asker, CallerLink, ReachedLink};
use crate::upstream::departure::Departure;
use crate::upstream::link::{Link, UpstreamExchange};
use crate::upstream::parking::ParkedCalls;
use std::sync::Arc;

/// A request for a server.
#[derive(Clone, Copy)]
pub(crate) struct Sending<'a> {
    /// Who asks.
    pub caller: &'a Caller,
    /// What travels, under any id, in the words of the agent's era.
    pub message: &'a Message,
    /// Headers besides the usual ones.
    pub params: &'a [(String, String)],
    /// It may change something: it is sent once, whatever the server says.
    pub changes: bool,
    /// What becomes of it at a server of the other era.
    pub terms: BridgeTerms,
    /// By which the gate, which waits for it, may take it back before it has left.
    pub departure: Option<&'a Departure>,
}

/// What becomes of a request whose server speaks another era than its agent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BridgeTerms {
    /// It may be sent again once pages were opened for which its server's error asks: it changes
    /// nothing.
    pub begins_anew: bool,
    /// Whether the called tool's server makes tasks of its calls.
    pub task: TaskSupport,
}

/// A request that was sent.
pub(crate) struct SentRequest {
    /// On which link.
    pub reached: ReachedLink,
    /// Until its answer.
    pub exchange: UpstreamExchange,
}

impl SentRequest {
    fn begins(&self, begins: &mut impl FnMut(&ReachedLink, &Text) -> bool) -> bool {
        begins(&self.reached, &self.exchange.id)
    }
}

impl Sending<'_> {
    fn meta(&self) -> Option<Text> {
        self.message.body.as_ref()?.get("_meta")
    }
}

impl Links {
    /// Sends a request to a server. `begins` hears on which link and under which id before anything
    /// leaves; if it says no, nothing is sent, and there is no exchange. A server that no
    /// longer knows the session, as after a restart, gets a new one; the request is sent once
    /// more only if it changes nothing, for what the server says is no proof that it did
    /// nothing (guarantees §4). So is one whose token the server takes no more.
    pub(crate) async fn request(
        &self,
        name: &ServerName,
        sending: Sending<'_>,
        mut begins: impl FnMut(&ReachedLink, &Text) -> bool,
    ) -> Result<Option<Box<SentRequest>>, Fault> {
        let changes = sending.changes;
        let reached = if changes {
            Box::pin(self.known(name, sending)).await
        } else {
            self.reached(name, sending).await
        };
        let reached = reached.map_err(Fault::before_sending)?;
        let mut request = self.ready(name, reached, sending).await?;
        self.notice(name, &request.reached);
        if !request.begins(&mut begins) {
            return Ok(None);
        }
        if let Some(departure) = sending.departure {
            request.exchange.departs_by(departure.clone());
        }
        if changes {
            request.exchange.keeps(&request.reached.link);
        }
        let begun = request.exchange.begin().await;
        if request.exchange.is_heard() {
            request.reached.link.heard();
        }
        if !changes && request.exchange.token_is_old() {
            return Box::pin(self.again(name, sending, begins)).await;
        }
        if !request.exchange.session_is_gone() {
            return begun.map(|()| Some(request));
        }
        tracing::info!(server = %name, "the tool server no longer knows the session; a new one is opened");
        self.give_up(&request.reached.link).await;
        if changes {
            return begun.map(|()| Some(request));
        }
        Box::pin(self.again(name, sending, begins)).await
    }

    /// Sends a request once more, in a new session.
    async fn again(
        &self,
        name: &ServerName,
        sending: Sending<'_>,
        mut begins: impl FnMut(&ReachedLink, &Text) -> bool,
    ) -> Result<Option<Box<SentRequest>>, Fault> {
        let reached = self.reached(name, sending).await?;
        let mut request = self.ready(name, reached, sending).await?;
        self.notice(name, &request.reached);
        if !request.begins(&mut begins) {
            return Ok(None);
        }
        request.exchange.begin().await?;
        Ok(Some(request))
    }

    /// Asks for what nobody but toolgate reads: the answer in the words of the server's era.
    pub(crate) async fn ask(
        &self,
        name: &ServerName,
        caller: &Caller,
        message: &Message,
    ) -> Result<Message, Fault> {
        let sending = Sending {
            caller,
            message,
            params: &[],
            changes: false,
            terms: BridgeTerms::default(),
            departure: None,
        };
        let reached = self.reached(name, sending).await?;
        let request = self.ready(name, reached, sending).await?;
        request.exchange.answer().await
    }

    async fn reached(&self, name: &ServerName, sending: Sending<'_>) -> Result<ReachedLink, Fault> {
        let server = self.server(name)?;
        // What a request declares is read only where the link depends on it.
        let is_own = self.session.is_none() && self.wire(server) == Era::Legacy;
        let meta = if is_own { sending.meta() } else { None };
        let (caller, meta) = (sending.caller, meta.as_ref());
        let asker = Asker { caller, meta };
        match self.open_link(server, asker)? {
            Some(open) => Ok(open),
            None => tasks::rarely("opening of a link", self.link(name, asker)).await,
        }
    }

    /// The request under an id of ours, in the words of the server's era; nothing of it has left.
    async fn ready(
        &self,
        name: &ServerName,
        mut reached: ReachedLink,
        sending: Sending<'_>,
    ) -> Result<Box<SentRequest>, Fault> {
        let exchange = if let Some(own) = reached.legacy().cloned() {
            let as_task = self.is_sent_as_task(&mut reached, &own, sending);
            Box::pin(ready_on_own(&own, sending, as_task)).await?
        } else {
            let params = sending.params.to_vec();
            let message = self.stamped(name, &reached.link, sending);
            let logs = message.meta(LOG_LEVEL_META_KEY).is_some();
            let (link, user) = (&reached.link, reached.user);
            link.request_of(message, params, logs, user).await?
        };
        Ok(Box::new(SentRequest { reached, exchange }))
    }

    /// Whether the server is to make a task of a call. Where its agent would hold the task, the link
    /// is kept for it; if that cannot be, a call that has to become one is waited for here.
    fn is_sent_as_task(
        &self,
        reached: &mut ReachedLink,
        own: &CallerLink,
        sending: Sending<'_>,
    ) -> bool {
        let is_known = || sending.meta().as_ref().is_some_and(knows_tasks);
        let support = sending.terms.task;
        if support == TaskSupport::Forbidden || !own.makes_tasks() || !support.is_wanted(is_known())
        {
            return false;
        }
        let is_kept = !is_known() || self.servers.callers().pin(reached);
        is_kept || support == TaskSupport::Required
    }

    /// A round of a request as a modern server reads it, with what was answered to its questions.
    pub(crate) fn stamped_round(
        &self,
        name: &ServerName,
        link: &Link,
        sending: Sending<'_>,
    ) -> Message {
        let stamped = self.stamped(name, link, sending);
        as_round(stamped, sending.message.body.as_ref())
    }

    /// A legacy agent's request with what a modern server needs of it; any other as it is.
    pub(crate) fn stamped(&self, name: &ServerName, link: &Link, sending: Sending<'_>) -> Message {
        let Some(session) = self
            .session
            .as_ref()
            .filter(|_| link.revision.era() == Era::Modern)
        else {
            return sending.message.clone();
        };
        let told = self
            .servers
            .keeper()
            .introduce(&session.caller, name, &session.initialize);
        let level = session.log_level.lock().clone();
        let (message, mut agent) = (sending.message, LegacyIntroduction::of(&told));
        let may_be_task = || message.method == "tools/call" && self.makes_tasks(name);
        if message.method.starts_with("tasks/") || may_be_task() {
            agent = agent.with_tasks();
        }
        to_modern_server(message, &agent, level.as_ref())
    }

    fn makes_tasks(&self, name: &ServerName) -> bool {
        let up = self.server(name).ok().and_then(|server| server.up());
        up.is_some_and(|up| up.verdict.discovered.as_ref().is_some_and(makes_tasks))
    }

    /// The link to a server for what is sent once only: where nothing was heard for long, the
    /// server is asked first whether it knows the session. One that it does not know is left
    /// alone, not ended: who says so may be wrong, and other calls may be in flight in it.
    async fn known(&self, name: &ServerName, sending: Sending<'_>) -> Result<ReachedLink, Fault> {
        let reached = self.reached(name, sending).await?;
        let after = self
            .servers
            .get(name.as_str())
            .map(|server| server.settings.ping_after);
        let link = &reached.link;
        if !after.is_some_and(|after| link.is_idle(after)) {
            return Ok(reached);
        }
        if Box::pin(link.is_known()).await? {
            link.heard();
            return Ok(reached);
        }
        tracing::info!(server = %name, "the tool server no longer knows the session; a new one is opened");
        self.give_up(link).await;
        self.reached(name, sending).await
    }

    /// From now on the agent has another link to that server.
    async fn give_up(&self, link: &Arc<Link>) {
        match &self.session {
            Some(session) => session
                .links
                .lock()
                .await
                .retain(|_, known| !Arc::ptr_eq(&known.link, link)),
            None => self.servers.callers().give_up(link),
        }
    }
}

/// A modern agent's request on its own link to a legacy server.
async fn ready_on_own(
    own: &CallerLink,
    sending: Sending<'_>,
    as_task: bool,
) -> Result<UpstreamExchange, Fault> {
    let body = sending.message.body.as_ref();
    if ParkedCalls::is_round(body) || (sending.changes && is_after_pages(body)) {
        return Err(Fault::after_sending("a round of a call is never sent anew"));
    }
    let level = sending.message.meta(LOG_LEVEL_META_KEY);
    let level = level.as_ref().and_then(Text::as_str);
    if let Some(level) = &level {
        own.logs_from(level).await;
    }
    let (mut message, params) = (to_legacy_server(sending.message), sending.params.to_vec());
    if as_task {
        message = as_legacy_task(message);
    }
    own.link
        .request_of(message, params, level.is_some(), own.user_number())
        .await
}
