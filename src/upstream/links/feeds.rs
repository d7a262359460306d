//! What a legacy agent's session hears of a server of 2026-07-28 outside its requests: one
//! subscription, opened anew whenever the agent wants to hear of other resources (protocol §4.4).

use super::Links;
use super::news::room_for;
use crate::mcp::bridge::{LegacyIntroduction, notification_to_legacy_agent, to_modern_server};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::{Message, MessageKind};
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::reply::Fault;
use crate::telemetry::tasks;
use crate::upstream::Inbound;
use crate::upstream::backoff::Backoff;
use crate::upstream::link::{Link, UpstreamExchange};
use crate::upstream::server::UpstreamServer;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// How long a server may take to say that it will tell of a resource.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);
/// What a server says that its lists change, by what it is asked for, and what it says then.
const LIST_CHANGES: [ListChange; 2] = [
    ListChange {
        capability: "prompts",
        wish: "promptsListChanged",
        method: "notifications/prompts/list_changed",
    },
    ListChange {
        capability: "resources",
        wish: "resourcesListChanged",
        method: "notifications/resources/list_changed",
    },
];

struct ListChange {
    capability: &'static str,
    wish: &'static str,
    method: &'static str,
}

/// The resources that an agent wants to hear of, and the number of that wish.
#[derive(Debug, Clone, Default)]
struct Wish {
    number: u64,
    uris: BTreeSet<String>,
}

/// One session's subscription at one server.
pub(super) struct SessionFeed {
    wish: watch::Sender<Wish>,
    /// The number of the last wish that the server has taken.
    taken: watch::Receiver<u64>,
}

/// What the task of a subscription knows.
struct FeedTask {
    server: Arc<UpstreamServer>,
    caller: Arc<Caller>,
    introduction: LegacyIntroduction,
    wish: watch::Receiver<Wish>,
    taken: watch::Sender<u64>,
    unsolicited: mpsc::Sender<(ServerName, Arc<Link>, Inbound)>,
}

impl Links {
    /// The agent wants to hear of a resource, or no more, at a server that takes wishes by
    /// subscription only.
    pub(crate) async fn subscribes(
        &self,
        name: &ServerName,
        uri: &str,
        wants: bool,
    ) -> Result<(), Fault> {
        let (mut taken, number) = {
            let mut feeds = self.feeds.lock();
            let Some(feed) = self.feed(&mut feeds, name)? else {
                return Err(Fault::unsent("there is no session"));
            };
            let mut room = Ok(());
            feed.wish.send_modify(|wish| {
                if wants {
                    room = room_for(&wish.uris, uri);
                }
                let changed = match wants {
                    true if room.is_err() => false,
                    true => wish.uris.insert(uri.to_owned()),
                    false => wish.uris.remove(uri),
                };
                wish.number += u64::from(changed);
            });
            room.map_err(Fault::unsent)?;
            let number = feed.wish.borrow().number;
            (feed.taken.clone(), number)
        };
        let taken = taken.wait_for(|taken| *taken >= number);
        match tokio::time::timeout(SUBSCRIBE_TIMEOUT, taken).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Fault::after_sending(
                "the tool server did not say that it will tell of the resource",
            )),
        }
    }

    /// Whether the agent may hear of a resource, too, at such a server; else why not, as it reads it.
    pub(crate) fn may_hear_of(&self, name: &ServerName, uri: &str) -> Result<(), String> {
        let feeds = self.feeds.lock();
        match feeds.get(name) {
            Some(feed) => room_for(&feed.wish.borrow().uris, uri),
            None => room_for(&BTreeSet::new(), uri),
        }
    }

    /// The agent is ready to hear what changes. A child is asked only once the agent asks: there
    /// are some that read nothing more after a subscription.
    pub(super) fn listens(&self) {
        if self.session.is_none() {
            return;
        }
        let mut feeds = self.feeds.lock();
        for server in self.servers.all() {
            let changes = server.up().is_some_and(|up| {
                up.verdict.initialized.is_none() && tells(up.verdict.discovered.as_ref())
            });
            if changes && !server.settings.is_child() {
                let _ = self.feed(&mut feeds, &server.settings.name);
            }
        }
    }

    fn feed<'f>(
        &self,
        feeds: &'f mut std::collections::HashMap<ServerName, SessionFeed>,
        name: &ServerName,
    ) -> Result<Option<&'f SessionFeed>, Fault> {
        let Some(session) = &self.session else {
            return Ok(None);
        };
        let server = self.server(name)?.clone();
        Ok(Some(feeds.entry(name.clone()).or_insert_with(|| {
            let (wish, wishes) = watch::channel(Wish::default());
            let (acknowledges, taken) = watch::channel(0);
            let told = self
                .servers
                .keeper()
                .introduce(&session.caller, name, &session.initialize);
            let task = FeedTask {
                server,
                caller: session.caller.clone(),
                introduction: LegacyIntroduction::of(&told),
                wish: wishes,
                taken: acknowledges,
                unsolicited: session.unsolicited.clone(),
            };
            tasks::spawn("subscription of a session", task.run());
            SessionFeed { wish, taken }
        })))
    }
}

fn tells(discovered: Option<&Text>) -> bool {
    LIST_CHANGES
        .iter()
        .any(|change| changes(discovered, change))
}

fn changes(discovered: Option<&Text>, change: &ListChange) -> bool {
    discovered
        .and_then(|said| said.at(&["capabilities", change.capability, "listChanged"]))
        .is_some_and(|flag| flag.is_true())
}

impl FeedTask {
    /// Until the session ends.
    async fn run(mut self) {
        let (gone, mut backoff) = (self.unsolicited.clone(), Backoff::default());
        let mut open: Option<(Arc<Link>, UpstreamExchange)> = None;
        let mut lost = false;
        loop {
            let wish = self.wish.borrow_and_update().clone();
            // The new one first, so that nothing falls between the two.
            let opened = tokio::select! {
                opened = self.open(&wish) => opened,
                () = gone.closed() => return,
            };
            if let Some((link, exchange)) = open.take() {
                link.cancel(&exchange.id, "the agent listens to other resources");
            }
            match opened {
                Ok(opened) => {
                    backoff.works();
                    open = opened;
                    self.taken.send_replace(wish.number);
                    if let (true, Some((link, _))) = (std::mem::take(&mut lost), &open) {
                        self.tell_missed(&wish, link).await;
                    }
                }
                Err(fault) => {
                    tracing::debug!(server = %self.server.settings.name, %fault, "a session's subscription cannot be opened; it is tried again");
                    lost = true;
                    tokio::select! {
                        () = backoff.pause() => continue,
                        () = gone.closed() => return,
                        changed = self.wish.changed() => if changed.is_err() { return },
                    }
                    continue;
                }
            }
            let mut wish = self.wish.clone();
            tokio::select! {
                () = gone.closed() => {
                    if let Some((link, exchange)) = open.take() {
                        link.cancel(&exchange.id, "the agent no longer listens");
                    }
                    return;
                }
                changed = wish.changed() => if changed.is_err() { return },
                () = self.hear(&mut open) => {
                    backoff.broke();
                    (open, lost) = (None, true);
                    tokio::select! {
                        () = backoff.pause() => {}
                        () = gone.closed() => return,
                    }
                }
            }
        }
    }

    /// None where there is nothing to ask for.
    async fn open(&self, wish: &Wish) -> Result<Option<(Arc<Link>, UpstreamExchange)>, Fault> {
        let up = self.server.want()?;
        let mut wanted = Object::new();
        for change in &LIST_CHANGES {
            if changes(up.verdict.discovered.as_ref(), change) {
                wanted.set(change.wish, Text::bool(true));
            }
        }
        if !wish.uris.is_empty() {
            wanted.set(
                "resourceSubscriptions",
                Text::array(wish.uris.iter().map(|uri| Text::string(uri))),
            );
        }
        if wanted.is_empty() {
            return Ok(None);
        }
        let link = self.server.shared_for(&self.caller)?;
        let params = Text::members_of(&[("notifications", wanted.text())]);
        let message = Message::request(0, "subscriptions/listen", Some(params));
        let message = to_modern_server(&message, &self.introduction, None);
        let opening = async {
            let mut exchange = link.request(message, Vec::new()).await?;
            loop {
                match exchange.next().await? {
                    Some(Inbound::Comment(_) | Inbound::Interrupted(_)) => {}
                    Some(Inbound::Message(ack))
                        if ack.method == "notifications/subscriptions/acknowledged" =>
                    {
                        return Ok(Some((link, exchange)));
                    }
                    Some(Inbound::Message(_)) | None => {
                        let words = "the tool server did not acknowledge the subscription";
                        return Err(Fault::after_sending(words));
                    }
                }
            }
        };
        let opened = tokio::time::timeout(SUBSCRIBE_TIMEOUT, opening).await;
        opened.unwrap_or_else(|_| Err(Fault::after_sending("no acknowledgement in time")))
    }

    /// Hands on what the server says, until it says no more.
    async fn hear(&self, open: &mut Option<(Arc<Link>, UpstreamExchange)>) {
        let Some((link, exchange)) = open else {
            return std::future::pending().await;
        };
        while let Ok(Some(inbound)) = exchange.next().await {
            match inbound {
                Inbound::Message(note) if note.kind == MessageKind::Notification => {
                    if note.method == "notifications/cancelled" {
                        return;
                    }
                    self.tell(link, notification_to_legacy_agent(note)).await;
                }
                Inbound::Message(_) => return,
                Inbound::Comment(_) | Inbound::Interrupted(_) => {}
            }
        }
    }

    /// What an agent that heard nothing for a while has to look at again.
    async fn tell_missed(&self, wish: &Wish, link: &Arc<Link>) {
        for change in &LIST_CHANGES {
            self.tell(link, Message::notification(change.method, None))
                .await;
        }
        for uri in &wish.uris {
            let params = Text::of(&json!({ "uri": uri }));
            let note = Message::notification("notifications/resources/updated", Some(params));
            self.tell(link, note).await;
        }
    }

    async fn tell(&self, link: &Arc<Link>, note: Message) {
        let name = self.server.settings.name.clone();
        let said = (name, link.clone(), Inbound::Message(note));
        drop(self.unsolicited.send(said).await);
    }
}
