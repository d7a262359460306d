//! `subscriptions/listen`: one stream to the agent, fed by one listen at each server reached. That
//! tools changed is said by toolgate itself, once the new list can be asked for, and also when its
//! policy changed.

use super::feed::{Feed, FeedNews, join};
use super::subscription::{SubscriptionWishes, TOOLS_KEY};
use super::task_feed::TaskFeed;
use super::{Relay, RelayFailure, RelayRequest};
use crate::mcp::bridge::SUBSCRIPTION_META_KEY;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::model::ids::ServerName;
use crate::model::scope::Scope;
use crate::outlet::Outgoing;
use crate::upstream::keeper::{ServerMessage, hears};
use crate::upstream::owners::OwnedTask;
use futures_util::stream::{FuturesUnordered, StreamExt, iter};
use serde_json::{Value, json};

/// Servers that are subscribed to at the same time for one agent's request.
const MAX_SERVERS_AT_ONCE: usize = 16;

impl Relay {
    pub(super) async fn listen(&self, request: &RelayRequest) -> Result<Message, RelayFailure> {
        let (mut tools_changed, mut policies) = (self.tools_changed.clone(), self.policy.changes());
        tools_changed.borrow_and_update();
        policies.borrow_and_update();
        let SubscriptionWishes {
            wanted,
            tools,
            own_tasks,
        } = self.subscription_wishes(request).await;
        let (feeds, honoured) = self.feeds(request, &wanted).await?;
        let mut own_tasks = TaskFeed::of(self, request, own_tasks);
        let mut promised = honoured.clone();
        own_tasks.promise(&mut promised);
        if !self.acknowledge(request, tools, promised).await {
            return Err(RelayFailure::Gone);
        }
        let goes_on_alone = tools || !own_tasks.is_empty();
        let mut next: FuturesUnordered<_> =
            feeds.into_iter().map(|feed| feed.step(&honoured)).collect();
        loop {
            tokio::select! {
                () = request.outlet.closed() => break,
                () = self.closing.cancelled() => return Ok(ended(request)),
                changed = policies.changed() => {
                    // An agent that may hear other things now, or nothing, has to ask again.
                    if changed.is_err() || !self.still_holds(request, &honoured).await { return Ok(ended(request)); }
                }
                changed = tools_changed.changed(), if tools => {
                    let note = Message::notification("notifications/tools/list_changed", None);
                    if changed.is_err() || !tell(request, vec![note]).await { break; }
                }
                note = own_tasks.next(), if !own_tasks.is_empty() => {
                    if !tell(request, vec![note]).await { break; }
                }
                Some((feed, news)) = next.next(), if !next.is_empty() => {
                    let server = &feed.server.settings.name;
                    let (notes, goes_on) = match news {
                        FeedNews::Breath(comment) => {
                            if request.outlet.say(Outgoing::Comment(comment)).await.is_err() { break; }
                            (Vec::new(), true)
                        }
                        FeedNews::Said(note) => (self.heard(request, server, note).await.into_iter().collect(), true),
                        FeedNews::Again(missed) => (self.admitted(request, server, missed), true),
                        FeedNews::Refused(missed) => (self.admitted(request, server, missed), false),
                        FeedNews::Broke { in_order } => (Vec::new(), !in_order || goes_on_alone || !next.is_empty()),
                    };
                    if !tell(request, notes).await { break; }
                    if goes_on {
                        next.push(feed.step(&honoured));
                    } else if next.is_empty() && !goes_on_alone {
                        return Ok(ended(request));
                    }
                }
            }
        }
        Err(RelayFailure::Gone)
    }

    /// What a server says, as the agent may hear it.
    async fn heard(
        &self,
        request: &RelayRequest,
        server: &ServerName,
        note: Message,
    ) -> Option<Message> {
        if note.method == "notifications/tools/list_changed" || !self.admits(request, server, &note)
        {
            return None;
        }
        let may = |owned: &OwnedTask| owned.server == *server && self.may_ask(request, owned);
        request.links.tasks.heard(&request.caller, note, may).await
    }

    /// What of it the agent may hear, by the policy as it is by now.
    fn admitted(
        &self,
        request: &RelayRequest,
        server: &ServerName,
        missed: Vec<Message>,
    ) -> Vec<Message> {
        missed
            .into_iter()
            .filter(|note| self.admits(request, server, note))
            .collect()
    }

    /// May the agent hear this of a server that it listens to, and all that it asks?
    fn admits(&self, request: &RelayRequest, server: &ServerName, note: &Message) -> bool {
        let (caller, revision) = (&*request.caller, request.revision);
        hears(
            &*self.sides,
            &ServerMessage {
                caller,
                server,
                revision,
                message: note,
            },
        )
        .is_ok()
    }

    /// Listens at every server for what toolgate cannot say itself; returns what the servers will
    /// tell. Those that come later, or come back, are asked for that and for no more: it is
    /// what the agent was promised.
    async fn feeds<'a>(
        &'a self,
        request: &'a RelayRequest,
        wanted: &Object,
    ) -> Result<(Vec<Feed<'a>>, Object), RelayFailure> {
        let mut honoured = Object::new();
        if wanted.is_empty() {
            return Ok((Vec::new(), honoured));
        }
        let held = self
            .servers
            .all()
            .iter()
            .filter(|server| request.scope.holds(&server.settings.name));
        let held: Vec<_> = held.cloned().collect();
        let begun = iter(
            held.into_iter()
                .map(|server| Feed::begin(self, request, server, wanted)),
        );
        let mut feeds = Vec::new();
        for begun in begun
            .buffered(MAX_SERVERS_AT_ONCE)
            .collect::<Vec<_>>()
            .await
        {
            match (begun, &request.scope) {
                (Ok(feed), _) => {
                    join(&mut honoured, &feed.told);
                    feeds.push(feed);
                }
                (Err(answer), Scope::One(_)) => {
                    let (code, words) = error_of(&answer);
                    return Err(RelayFailure::Answer(code, words));
                }
                (Err(_), Scope::All) => {}
            }
        }
        feeds.retain(|feed| feed.is_open() || !honoured.is_empty());
        Ok((feeds, honoured))
    }

    async fn acknowledge(&self, request: &RelayRequest, tools: bool, mut honoured: Object) -> bool {
        if tools {
            honoured.set(TOOLS_KEY, Text::of(&Value::Bool(true)));
        }
        let mut params = Object::new();
        params.set("notifications", honoured.text());
        let ack = Message::notification(
            "notifications/subscriptions/acknowledged",
            Some(params.text()),
        );
        request
            .outlet
            .say(Outgoing::Message(Box::new(labelled(ack, request))))
            .await
            .is_ok()
    }
}

/// Tells the agent; false if it has gone.
async fn tell(request: &RelayRequest, notes: Vec<Message>) -> bool {
    for note in notes {
        if request
            .outlet
            .say(Outgoing::Message(Box::new(labelled(note, request))))
            .await
            .is_err()
        {
            return false;
        }
    }
    true
}

/// Every message of a subscription carries the agent's id of it (protocol §1.8).
fn labelled(mut message: Message, request: &RelayRequest) -> Message {
    let Some(id) = request.message.id.clone() else {
        return message;
    };
    let mut params = message
        .body
        .as_ref()
        .and_then(Text::object)
        .unwrap_or_default();
    let mut meta = params
        .get("_meta")
        .and_then(Text::object)
        .unwrap_or_default();
    meta.set(SUBSCRIPTION_META_KEY, id);
    params.set("_meta", meta.text());
    message.body = Some(params.text());
    message
}

fn ended(request: &RelayRequest) -> Message {
    let id = request.message.id.as_ref().map_or(Value::Null, Text::value);
    let result = json!({ "resultType": "complete", "_meta": { SUBSCRIPTION_META_KEY: id } });
    Message::response(None, Text::of(&result), false)
}

fn error_of(answer: &Message) -> (i64, String) {
    let error = answer.body.as_ref();
    let code = error
        .and_then(|error| error.get("code"))
        .and_then(|code| code.value().as_i64());
    let words = error
        .and_then(|error| error.get("message"))
        .and_then(|words| words.as_str().map(std::borrow::Cow::into_owned));
    (
        code.unwrap_or(crate::mcp::error_codes::INTERNAL_ERROR),
        words.unwrap_or_default(),
    )
}
