//! `subscriptions/listen`: one stream to the agent, fed by one listen at each server reached. That tools changed is said
//! by toolgate itself, once the new list can be asked for, and also when its policy changed.

use super::{Failed, Relay, Request};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::{Kind, Message};
use crate::mcp::sse::Comment;
use crate::model::reply::Fault;
use crate::outlet::Outgoing;
use crate::upstream::Inbound;
use crate::upstream::link::{Exchange, Link};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const TOOLS: &str = "toolsListChanged";
/// How long a server may take to say what it will tell.
const ACKNOWLEDGE: Duration = Duration::from_secs(5);

struct Feed {
    link: Arc<Link>,
    exchange: Exchange,
}

impl Relay {
    pub(super) async fn listen(&self, request: &Request) -> Result<Message, Failed> {
        let mut tools_changed = self.tools_changed.clone();
        tools_changed.borrow_and_update();
        let params = request.message.body.as_ref().and_then(Text::object).unwrap_or_default();
        let mut wanted = params.get("notifications").and_then(Text::object).unwrap_or_default();
        let tools = wanted.remove(TOOLS).is_some_and(|flag| flag.is_true());
        let (feeds, honoured) = self.feeds(request, params, &wanted).await?;
        if !self.acknowledge(request, tools, honoured).await {
            return Err(Failed::Gone);
        }
        let asked = !wanted.is_empty();
        let mut next: FuturesUnordered<_> = feeds.into_iter().map(step).collect();
        loop {
            tokio::select! {
                () = request.outlet.closed() => break,
                () = self.closing.cancelled() => return Ok(ended(request)),
                changed = tools_changed.changed(), if tools => {
                    let note = Message::notification("notifications/tools/list_changed", None);
                    if changed.is_err() || request.outlet.send(Outgoing::Message(labelled(note, request))).await.is_err() {
                        break;
                    }
                }
                Some((feed, inbound)) = next.next(), if !next.is_empty() => {
                    let outgoing = match inbound {
                        Some(Inbound::Comment(comment)) => {
                            next.push(step(feed));
                            Outgoing::Comment(comment)
                        }
                        Some(Inbound::Interrupted(_)) => {
                            next.push(step(feed));
                            Outgoing::Comment(Comment::default())
                        }
                        Some(Inbound::Message(message)) if message.kind == Kind::Notification => {
                            next.push(step(feed));
                            match message.method.as_str() {
                                "notifications/tools/list_changed" => continue,
                                _ => Outgoing::Message(labelled(message, request)),
                            }
                        }
                        Some(Inbound::Message(_)) | None => {
                            if next.is_empty() && asked && !tools { return Ok(ended(request)); }
                            continue;
                        }
                    };
                    if request.outlet.send(outgoing).await.is_err() { break; }
                }
            }
        }
        Err(Failed::Gone)
    }

    /// Listens at every server for what toolgate cannot say itself; returns what the servers will tell.
    async fn feeds(
        &self,
        request: &Request,
        mut params: Object,
        wanted: &Object,
    ) -> Result<(Vec<Feed>, Object), Failed> {
        let mut feeds = Vec::new();
        let mut honoured = Object::new();
        if wanted.is_empty() {
            return Ok((feeds, honoured));
        }
        params.set("notifications", wanted.text());
        for server in self.reached(&request.scope) {
            let Ok(link) = request.links.link(&server.settings.name).await else { continue };
            let message = Message { body: Some(params.text()), ..request.message.clone() };
            // A feed from the start: one that is given up tells the server so.
            let begun = async {
                let exchange = link.request(message, Vec::new()).await?;
                let mut feed = Feed { link: link.clone(), exchange };
                let first = feed.exchange.next().await?;
                Ok::<_, Fault>((feed, first))
            };
            match tokio::time::timeout(ACKNOWLEDGE, begun).await {
                Ok(Ok((feed, Some(Inbound::Message(ack))))) if ack.kind == Kind::Notification => {
                    let told = ack.body.as_ref().and_then(|params| params.get("notifications"));
                    for (key, value) in told.iter().flat_map(|told| told.members().into_iter().flatten()) {
                        honoured.set(&key, value);
                    }
                    feeds.push(feed);
                }
                Ok(Ok((_, Some(Inbound::Message(answer))))) if answer.is_error && feeds.is_empty() => {
                    if let crate::model::scope::Scope::One(_) = request.scope {
                        let (code, words) = error_of(&answer);
                        return Err(Failed::Answer(code, words));
                    }
                }
                _ => {}
            }
        }
        Ok((feeds, honoured))
    }

    async fn acknowledge(&self, request: &Request, tools: bool, mut honoured: Object) -> bool {
        if tools {
            honoured.set(TOOLS, Text::of(&Value::Bool(true)));
        }
        let mut params = Object::new();
        params.set("notifications", honoured.text());
        let ack = Message::notification("notifications/subscriptions/acknowledged", Some(params.text()));
        request.outlet.send(Outgoing::Message(labelled(ack, request))).await.is_ok()
    }
}

async fn step(mut feed: Feed) -> (Feed, Option<Inbound>) {
    let inbound = match feed.exchange.next().await {
        Ok(inbound) => inbound,
        Err(fault) => {
            tracing::debug!(%fault, "a subscription broke off");
            None
        }
    };
    (feed, inbound)
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.link.cancel(&self.exchange.id, "the agent no longer listens");
    }
}

/// Every message of a subscription carries the agent's id of it (PROTOCOL §1.8).
fn labelled(mut message: Message, request: &Request) -> Message {
    let Some(id) = request.message.id.clone() else { return message };
    let mut params = message.body.as_ref().and_then(Text::object).unwrap_or_default();
    let mut meta = params.get("_meta").and_then(Text::object).unwrap_or_default();
    meta.set(SUBSCRIPTION, id);
    params.set("_meta", meta.text());
    message.body = Some(params.text());
    message
}

fn ended(request: &Request) -> Message {
    let id = request.message.id.as_ref().map_or(Value::Null, Text::value);
    let result = json!({ "resultType": "complete", "_meta": { SUBSCRIPTION: id } });
    Message::response(None, Text::of(&result), false)
}

fn error_of(answer: &Message) -> (i64, String) {
    let error = answer.body.as_ref();
    let code = error.and_then(|error| error.get("code")).and_then(|code| code.value().as_i64());
    let words =
        error.and_then(|error| error.get("message")).and_then(|words| words.as_str().map(std::borrow::Cow::into_owned));
    (code.unwrap_or(crate::mcp::answer::INTERNAL), words.unwrap_or_default())
}
