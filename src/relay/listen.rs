//! `subscriptions/listen`: one stream to the agent, fed by one listen at each server reached. That tools changed is said
//! by toolgate itself, once the new list can be asked for, and also when its policy changed.

use super::feed::{Feed, LISTS, News, RESOURCES, TASK_IDS, join};
use super::{Failed, Relay, Request};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::model::ids::ServerName;
use crate::model::scope::Scope;
use crate::outlet::Outgoing;
use crate::side::{Became, Judged, Passing};
use crate::upstream::keeper::{Keeper as _, Spoken, asks_too_much};
use crate::upstream::owners::Owned;
use futures_util::stream::{FuturesUnordered, StreamExt, iter};
use serde_json::{Value, json};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const TOOLS: &str = "toolsListChanged";
/// Resources of one subscription; of more an agent hears nothing.
const MOST: usize = 1_000;
/// Servers that are subscribed to at the same time for one agent's request.
const SIDE_BY_SIDE: usize = 16;

impl Relay {
    pub(super) async fn listen(&self, request: &Request) -> Result<Message, Failed> {
        let (mut tools_changed, mut policies) = (self.tools_changed.clone(), self.policy.changes());
        tools_changed.borrow_and_update();
        policies.borrow_and_update();
        let params = request.message.body.as_ref().and_then(Text::object).unwrap_or_default();
        let mut wanted = params.get("notifications").and_then(Text::object).unwrap_or_default();
        let tools = wanted.remove(TOOLS).is_some_and(|flag| flag.is_true());
        self.only_own(request, &mut wanted);
        self.only_open(request, &mut wanted);
        let (feeds, honoured) = self.feeds(request, &wanted).await?;
        if !self.acknowledge(request, tools, honoured.clone()).await {
            return Err(Failed::Gone);
        }
        let mut next: FuturesUnordered<_> = feeds.into_iter().map(|feed| feed.step(&honoured)).collect();
        loop {
            tokio::select! {
                () = request.outlet.closed() => break,
                () = self.closing.cancelled() => return Ok(ended(request)),
                changed = policies.changed() => {
                    // Whoever may hear other things now, or nothing, has to ask again.
                    let is_known = self.policy.current().identity.callers().contains(&request.caller);
                    if changed.is_err() || !is_known { return Ok(ended(request)); }
                }
                changed = tools_changed.changed(), if tools => {
                    let note = Message::notification("notifications/tools/list_changed", None);
                    if changed.is_err() || !tell(request, vec![note]).await { break; }
                }
                Some((feed, news)) = next.next(), if !next.is_empty() => {
                    let mut goes_on = true;
                    let notes = match news {
                        News::Breath(comment) => {
                            if request.outlet.send(Outgoing::Comment(comment)).await.is_err() { break; }
                            Vec::new()
                        }
                        News::Said(note) if note.method == "notifications/tools/list_changed" => Vec::new(),
                        News::Said(note) if !self.admits(request, &feed.server.settings.name, &note) => Vec::new(),
                        News::Said(note) => {
                            let may = |owned: &Owned| self.may_ask(request, owned);
                            request.links.tasks.heard(&request.caller, note, may).into_iter().collect()
                        }
                        News::Again(missed) => missed,
                        News::Refused(missed) => {
                            goes_on = false;
                            missed
                        }
                        News::Broke { in_order } => {
                            goes_on = !in_order || tools || !next.is_empty();
                            Vec::new()
                        }
                    };
                    if !tell(request, notes).await { break; }
                    if goes_on {
                        next.push(feed.step(&honoured));
                    } else if next.is_empty() && !tools {
                        return Ok(ended(request));
                    }
                }
            }
        }
        Err(Failed::Gone)
    }

    /// Takes away the tasks that are not the caller's (SECURITY §3C C4).
    fn only_own(&self, request: &Request, wanted: &mut Object) {
        let Some(ids) = wanted.get(TASK_IDS).and_then(Text::elements) else { return };
        let own: Vec<_> = ids.into_iter().filter(|id| self.own_task(request, id).is_some()).collect();
        if own.is_empty() {
            wanted.remove(TASK_IDS);
        } else {
            wanted.set(TASK_IDS, Text::array(own));
        }
    }

    /// Takes away what no server may tell the agent, and records what it wanted (SECURITY §5).
    fn only_open(&self, request: &Request, wanted: &mut Object) {
        let reached: Vec<_> = self.reached(&request.scope).iter().map(|server| server.settings.name.clone()).collect();
        if let Some(uris) = wanted.get(RESOURCES).and_then(Text::elements) {
            wanted.set(RESOURCES, Text::array(uris.into_iter().take(MOST)));
        }
        for (key, note) in &asked_of(wanted) {
            let open =
                |server: &&ServerName| self.judge(request, server, note).is_some_and(|judged| !judged.is_refused());
            let server = reached.iter().find(open);
            if let Some(judged) = server.or(reached.first()).and_then(|server| self.judge(request, server, note)) {
                self.sides.tell(&judged, Became::Passed);
            }
            if server.is_none() {
                take_away(wanted, key, note);
            }
        }
    }

    /// Takes away what this server may not tell the agent.
    pub(super) fn open_here(&self, request: &Request, server: &ServerName, wanted: &mut Object) {
        for (key, note) in &asked_of(wanted) {
            if self.judge(request, server, note).is_some_and(|judged| judged.is_refused()) {
                take_away(wanted, key, note);
            }
        }
    }

    fn judge<'a>(&self, request: &'a Request, server: &'a ServerName, message: &'a Message) -> Option<Judged<'a>> {
        let Request { caller, revision, session, .. } = request;
        self.sides.judge(Passing { caller, server, revision, session: session.as_deref(), message })
    }

    /// May the agent hear this of a server that it listens to, and all that it asks?
    fn admits(&self, request: &Request, server: &ServerName, note: &Message) -> bool {
        let (caller, revision) = (&*request.caller, request.revision);
        let heard = self.sides.lets_through(&Spoken { caller, server, revision, message: note });
        let as_answer = note.body.clone().map(|params| Message::response(None, params, false));
        let asks = |answer: &Message| asks_too_much(&*self.sides, (caller, server, revision), answer).is_some();
        heard.is_ok() && !as_answer.as_ref().is_some_and(asks)
    }

    /// Listens at every server for what toolgate cannot say itself; returns what the servers will tell. Those that come
    /// later, or come back, are asked for that and for no more: it is what the agent was promised.
    async fn feeds<'a>(&'a self, request: &'a Request, wanted: &Object) -> Result<(Vec<Feed<'a>>, Object), Failed> {
        let mut honoured = Object::new();
        if wanted.is_empty() {
            return Ok((Vec::new(), honoured));
        }
        let held = self.servers.all().iter().filter(|server| request.scope.holds(&server.settings.name));
        let held: Vec<_> = held.cloned().collect();
        let begun = iter(held.into_iter().map(|server| Feed::begin((self, request), server, wanted)));
        let mut feeds = Vec::new();
        for begun in begun.buffered(SIDE_BY_SIDE).collect::<Vec<_>>().await {
            match (begun, &request.scope) {
                (Ok(feed), _) => {
                    join(&mut honoured, &feed.told);
                    feeds.push(feed);
                }
                (Err(answer), Scope::One(_)) => {
                    let (code, words) = error_of(&answer);
                    return Err(Failed::Answer(code, words));
                }
                (Err(_), Scope::All) => {}
            }
        }
        feeds.retain(|feed| feed.is_open() || !honoured.is_empty());
        Ok((feeds, honoured))
    }

    async fn acknowledge(&self, request: &Request, tools: bool, mut honoured: Object) -> bool {
        if tools {
            honoured.set(TOOLS, Text::of(&Value::Bool(true)));
        }
        let mut params = Object::new();
        params.set("notifications", honoured.text());
        let ack = Message::notification("notifications/subscriptions/acknowledged", Some(params.text()));
        request.outlet.send(Outgoing::Message(Box::new(labelled(ack, request)))).await.is_ok()
    }
}

/// What a subscription asks for besides tools and tasks: its key, and what would be said.
fn asked_of(wanted: &Object) -> Vec<(&'static str, Message)> {
    let lists = LISTS.iter().filter(|(key, _)| wanted.get(key).is_some_and(Text::is_true));
    let lists = lists.map(|(key, method)| (*key, Message::notification(method, None)));
    let uris = wanted.get(RESOURCES).and_then(Text::elements).unwrap_or_default();
    let updated = uris.into_iter().map(|uri| {
        let params = Text::members_of(&[("uri", uri)]);
        (RESOURCES, Message::notification("notifications/resources/updated", Some(params)))
    });
    lists.chain(updated).collect()
}

fn take_away(wanted: &mut Object, key: &str, note: &Message) {
    let uri = note.body.as_ref().and_then(|params| params.get("uri"));
    let rest = uri.zip(wanted.get(key).and_then(Text::elements));
    let rest: Vec<Text> =
        rest.map(|(uri, all)| all.into_iter().filter(|one| *one != uri).collect()).unwrap_or_default();
    if rest.is_empty() {
        wanted.remove(key);
    } else {
        wanted.set(key, Text::array(rest));
    }
}

/// Tells the agent; false if it has gone.
async fn tell(request: &Request, notes: Vec<Message>) -> bool {
    for note in notes {
        if request.outlet.send(Outgoing::Message(Box::new(labelled(note, request)))).await.is_err() {
            return false;
        }
    }
    true
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
