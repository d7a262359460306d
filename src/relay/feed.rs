//! What one server tells one subscription of an agent: subscribed to, heard, and subscribed to
//! again when it breaks off.

mod own;

use super::{Relay, RelayRequest};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::sse::SseComment;
use crate::model::reply::Fault;
use crate::upstream::Inbound;
use crate::upstream::backoff::Backoff;
use crate::upstream::caller_links::{Asker, ReachedLink};
use crate::upstream::link::UpstreamExchange;
use crate::upstream::server::{ServerState, UpstreamServer};
use own::{OwnSubscription, TaskTurns};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// How long a server may take to say what it will tell.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Resources of one server that an agent is told to read again after its feed broke off; of more it
/// hears nothing.
const MAX_MISSED_RESOURCES: usize = 256;
pub(super) const RESOURCES_KEY: &str = "resourceSubscriptions";
/// Tasks that are asked after.
pub(super) const TASK_IDS_KEY: &str = "taskIds";
/// What a list that may have changed is asked for by, and what is said then (protocol §1.8).
pub(super) const LIST_CHANGES: [(&str, &str); 2] = [
    ("promptsListChanged", "notifications/prompts/list_changed"),
    (
        "resourcesListChanged",
        "notifications/resources/list_changed",
    ),
];

/// One server's part in a subscription.
pub(super) struct Feed<'a> {
    relay: &'a Relay,
    request: &'a RelayRequest,
    pub(super) server: Arc<UpstreamServer>,
    /// What the server says it will tell, of what it was asked for.
    pub(super) told: Object,
    open: Option<AnySubscription>,
    backoff: Backoff,
    /// Whether the log says already that it cannot be opened.
    reported: bool,
}

/// What became of a feed.
pub(super) enum FeedNews {
    /// The server says that it is alive.
    Breath(SseComment),
    /// A notification.
    Said(Message),
    /// The server ended it, in good order or not.
    Broke {
        /// Whether it said so.
        in_order: bool,
    },
    /// It is open again. The notifications say what the agent may have missed.
    Again(Vec<Message>),
    /// The server does not want to be listened to any more. The notifications say what the agent
    /// may have missed.
    Refused(Vec<Message>),
}

/// A subscription at a server, in either era.
enum AnySubscription {
    Shared(Box<OpenSubscription>),
    Own(Box<OwnSubscription>),
}

/// A subscription at a server. Dropping it tells the server so.
struct OpenSubscription {
    reached: ReachedLink,
    exchange: UpstreamExchange,
    over: bool,
}

/// How a server took a subscription.
enum SubscribeAnswer {
    Acknowledged(AnySubscription, Object),
    Refused(Message),
}

impl<'a> Feed<'a> {
    /// Subscribes to `wanted` at a server. One that does not answer is tried again by
    /// [`Self::step`]; the error is the answer of one that refuses.
    pub(super) async fn begin(
        relay: &'a Relay,
        request: &'a RelayRequest,
        server: Arc<UpstreamServer>,
        wanted: &Object,
    ) -> Result<Self, Message> {
        let (told, backoff) = (Object::new(), Backoff::default());
        let mut feed = Self {
            relay,
            request,
            server,
            told,
            open: None,
            backoff,
            reported: false,
        };
        if feed.server.up().is_none() {
            return Ok(feed);
        }
        match feed.subscribe(wanted).await {
            Ok(SubscribeAnswer::Acknowledged(open, told)) => {
                feed.backoff.works();
                (feed.open, feed.told) = (Some(open), told);
            }
            Ok(SubscribeAnswer::Refused(answer)) => return Err(answer),
            Err(fault) => feed.failed(&fault),
        }
        Ok(feed)
    }

    /// Whether the server listens to it now.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Waits for news. A feed that is not open is opened again first, and then asks for `wanted`.
    pub(super) async fn step(mut self, wanted: &Object) -> (Self, FeedNews) {
        let news = match self.open.as_mut() {
            Some(open) => open.next().await,
            None => self.reopen(wanted).await,
        };
        if let FeedNews::Broke { in_order } = &news {
            tracing::debug!(server = %self.server.settings.name, in_order, "a subscription broke off");
            self.backoff.broke();
            self.open = None;
        }
        (self, news)
    }

    async fn reopen(&mut self, wanted: &Object) -> FeedNews {
        loop {
            // All who wait for the server start from the same moment, so the pause comes after it.
            let _ = self
                .server
                .state()
                .wait_for(|state| matches!(state, ServerState::Up(_)))
                .await;
            self.backoff.pause().await;
            match self.subscribe(wanted).await {
                Ok(SubscribeAnswer::Acknowledged(open, told)) => {
                    if std::mem::take(&mut self.reported) {
                        tracing::info!(server = %self.server.settings.name, "a subscription is open again");
                    }
                    self.backoff.works();
                    join(&mut self.told, &told);
                    let missed = missed(&self.told);
                    (self.open, self.told) = (Some(open), told);
                    return FeedNews::Again(missed);
                }
                Ok(SubscribeAnswer::Refused(_)) => {
                    let server = &self.server.settings.name;
                    tracing::warn!(%server, "a tool server refuses a subscription that it had; it is no longer listened to");
                    return FeedNews::Refused(missed(&self.told));
                }
                Err(fault) => self.failed(&fault),
            }
        }
    }

    fn failed(&mut self, fault: &Fault) {
        if !std::mem::replace(&mut self.reported, true) {
            let (server, again_in) = (&self.server.settings.name, self.backoff.longest());
            tracing::warn!(%server, %fault, ?again_in, "a subscription cannot be opened; it is tried again");
        }
        if fault.is_outage() {
            self.server.suspect();
        }
    }

    /// What of `wanted` this server can tell: a task has one server.
    async fn wanted_here(&self, wanted: &Object) -> Object {
        let mut here = self
            .relay
            .open_here(self.request, &self.server.settings.name, wanted)
            .await;
        let Some(ids) = here.get(TASK_IDS_KEY).and_then(Text::elements) else {
            return here;
        };
        let (tasks, caller) = (&self.request.links.tasks, &self.request.caller);
        let is_here = |id: &Text| {
            tasks
                .owned(caller, id, |owned| {
                    owned.server == self.server.settings.name
                })
                .is_some()
        };
        here.set(TASK_IDS_KEY, Text::array(ids.into_iter().filter(is_here)));
        here
    }

    fn turns(&self) -> TaskTurns {
        TaskTurns {
            tasks: self.relay.servers.tasks().clone(),
            caller: self.request.caller.clone(),
            server: self.server.settings.name.clone(),
        }
    }

    async fn subscribe(&self, wanted: &Object) -> Result<SubscribeAnswer, Fault> {
        let wanted = &self.wanted_here(wanted).await;
        let params = self.relay.subscription(self.request, wanted);
        let told = self
            .relay
            .with_meta(self.request, &self.server.settings.name, Some(&params));
        let message = Message {
            body: Some(told.unwrap_or(params)),
            ..self.request.message.clone()
        };
        let begun = async {
            let meta = message.body.as_ref().and_then(|params| params.get("_meta"));
            let asker = Asker {
                caller: &self.request.caller,
                meta: meta.as_ref(),
            };
            let name = &self.server.settings.name;
            let reached = self.request.links.link(name, asker).await?;
            if let Some(own) = reached.legacy().cloned() {
                let (open, told) = OwnSubscription::begin(own, self.turns(), wanted).await;
                let open = AnySubscription::Own(Box::new(open));
                return Ok(SubscribeAnswer::Acknowledged(open, told));
            }
            let exchange = reached.link.request(message, Vec::new()).await?;
            // From the start: one that is given up tells the server so.
            let open = OpenSubscription {
                reached,
                exchange,
                over: false,
            };
            open.acknowledged(wanted).await
        };
        let begun = tokio::time::timeout(ACKNOWLEDGE_TIMEOUT, begun).await;
        begun.unwrap_or_else(|_| {
            Err(Fault::after_sending(format!(
                "no acknowledgement within {ACKNOWLEDGE_TIMEOUT:?}"
            )))
        })
    }
}

impl AnySubscription {
    async fn next(&mut self) -> FeedNews {
        match self {
            Self::Shared(open) => open.next().await,
            Self::Own(open) => open.next().await,
        }
    }
}

impl OpenSubscription {
    /// Waits for what the server says it will tell.
    async fn acknowledged(mut self, wanted: &Object) -> Result<SubscribeAnswer, Fault> {
        loop {
            match self.exchange.next().await? {
                Some(Inbound::Comment(_) | Inbound::Interrupted(_)) => {}
                Some(Inbound::Message(ack))
                    if ack.method == "notifications/subscriptions/acknowledged" =>
                {
                    let told = ack
                        .body
                        .as_ref()
                        .and_then(|params| params.get("notifications"));
                    let told = told.as_ref().and_then(Text::object).unwrap_or_default();
                    let open = AnySubscription::Shared(Box::new(self));
                    return Ok(SubscribeAnswer::Acknowledged(open, within(wanted, &told)));
                }
                Some(Inbound::Message(answer)) if answer.is_error => {
                    self.over = true;
                    return Ok(SubscribeAnswer::Refused(answer));
                }
                Some(Inbound::Message(_)) | None => {
                    return Err(Fault::after_sending(
                        "the tool server did not acknowledge the subscription",
                    ));
                }
            }
        }
    }

    async fn next(&mut self) -> FeedNews {
        let in_order = match self.exchange.next().await {
            Ok(Some(Inbound::Comment(comment))) => return FeedNews::Breath(comment),
            Ok(Some(Inbound::Interrupted(_))) => return FeedNews::Breath(SseComment::default()),
            // On standard input a server may end it so (protocol §1.7).
            Ok(Some(Inbound::Message(note))) if note.method == "notifications/cancelled" => true,
            Ok(Some(Inbound::Message(note))) if note.kind == MessageKind::Notification => {
                return FeedNews::Said(note);
            }
            Ok(Some(Inbound::Message(answer))) => !answer.is_error,
            Ok(None) | Err(_) => false,
        };
        self.over = true;
        FeedNews::Broke { in_order }
    }
}

impl Drop for OpenSubscription {
    fn drop(&mut self) {
        if !self.over {
            self.reached
                .link
                .cancel(&self.exchange.id, "the agent no longer listens");
        }
    }
}

/// What of `told` was asked for.
fn within(wanted: &Object, told: &Object) -> Object {
    let mut kept = Object::new();
    for (key, value) in told.iter() {
        let Some(asked) = wanted.get(key) else {
            continue;
        };
        match (asked.elements(), value.elements()) {
            (Some(asked), Some(values)) => {
                let asked: HashSet<&[u8]> = asked.iter().map(Text::as_bytes).collect();
                kept.set(
                    key,
                    Text::array(
                        values
                            .into_iter()
                            .filter(|value| asked.contains(value.as_bytes())),
                    ),
                );
            }
            _ => kept.set(key, value.clone()),
        }
    }
    kept
}

/// Adds what one server tells to what others do.
pub(super) fn join(all: &mut Object, told: &Object) {
    for (key, value) in told.iter() {
        let known = all.get(key);
        let joined = match (known.and_then(Text::elements), value.elements()) {
            (Some(mut known), Some(values)) => {
                let before: HashSet<_> = known.iter().map(Text::bytes).collect();
                known.extend(
                    values
                        .into_iter()
                        .filter(|value| !before.contains(value.as_bytes())),
                );
                Text::array(known)
            }
            _ if known.is_some_and(Text::is_true) => continue,
            _ => value.clone(),
        };
        all.set(key, joined);
    }
}

/// What an agent that heard nothing for a while has to look at again.
fn missed(told: &Object) -> Vec<Message> {
    let lists = LIST_CHANGES
        .iter()
        .filter(|(key, _)| told.get(key).is_some_and(Text::is_true));
    let mut notes: Vec<_> = lists
        .map(|(_, method)| Message::notification(method, None))
        .collect();
    for uri in told
        .get(RESOURCES_KEY)
        .and_then(Text::elements)
        .unwrap_or_default()
        .iter()
        .take(MAX_MISSED_RESOURCES)
    {
        if let Some(uri) = uri.as_str() {
            let params = Text::of(&json!({ "uri": uri }));
            notes.push(Message::notification(
                "notifications/resources/updated",
                Some(params),
            ));
        }
    }
    notes
}
