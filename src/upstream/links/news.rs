//! A legacy session at a server that was opened anew: what the server kept in the old one is gone, so
//! the agent is told, and what it had asked the session for is asked again (protocol §3.6).

use super::Links;
use crate::mcp::answer::SESSION_REPLACED_META_KEY;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::model::ids::ServerName;
use crate::upstream::Inbound;
use crate::upstream::caller_links::{CallerLink, ReachedLink};
use crate::upstream::link::Link;
use crate::upstream::log_levels::rank;
use crate::upstream::shared_children::{SessionWishes, SharedChild};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;

/// Resources of one session at one server that it may be subscribed to, because they are subscribed
/// to again once the session was opened anew; bytes of one URI, and of all.
const MAX_RESOURCES_KEPT: usize = 1_000;
const URI_BYTES_MAX: usize = 8 << 10;
const URIS_BYTES_MAX: usize = 1 << 20;
/// How long a server may take to say yes to what was asked before.
const AGAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// From which level on the agent reads that a session was opened anew.
const NEWS_LEVEL: &str = "warning";

/// What an agent has not been told yet.
#[derive(Default)]
pub(super) struct SessionNews {
    untold: Mutex<Untold>,
    more: Notify,
}

/// Servers at which the agent's session was opened anew. There are no more of them than servers.
#[derive(Default)]
struct Untold {
    /// To be said with the next answer.
    with_answer: BTreeSet<ServerName>,
    /// The same of links that outlast the request, each of which knows whether it was said.
    of_own: BTreeMap<ServerName, Weak<CallerLink>>,
    /// To be said outside requests.
    beside: BTreeSet<ServerName>,
}

impl Untold {
    fn has_none_for_answers(&self) -> bool {
        self.with_answer.is_empty() && self.of_own.is_empty()
    }
}

impl Links {
    fn is_replaced(&self, name: &ServerName) {
        is_gone(name);
        let mut untold = self.news.untold.lock();
        untold.with_answer.insert(name.clone());
        if self.session.is_some() {
            untold.beside.insert(name.clone());
            self.news.more.notify_one();
        }
    }

    /// Notes that a request goes out on a link that stands in for an earlier one.
    pub(super) fn notice(&self, name: &ServerName, reached: &ReachedLink) {
        if let Some(own) = reached.own.as_ref().filter(|own| own.is_news()) {
            let mut untold = self.news.untold.lock();
            untold.of_own.insert(name.clone(), Arc::downgrade(own));
        }
    }

    /// An answer of a server, with what the agent has not been told yet.
    #[must_use]
    pub(crate) fn with_news(&self, answer: Message) -> Message {
        if self.news.untold.lock().has_none_for_answers() {
            return answer;
        }
        let result = answer.body.as_ref().filter(|_| !answer.is_error);
        let Some(mut result) = result.and_then(Text::object) else {
            return answer;
        };
        let (mut names, of_own) = {
            let mut untold = self.news.untold.lock();
            let of_own = std::mem::take(&mut untold.of_own);
            (std::mem::take(&mut untold.with_answer), of_own)
        };
        // Two answers may be about to say it; one does.
        let told = of_own.into_iter().filter(|(_, own)| {
            let own = own.upgrade();
            own.is_some_and(|own| own.is_told_of())
        });
        for (name, _) in told {
            is_gone(&name);
            names.insert(name);
        }
        if names.is_empty() {
            return answer;
        }
        let meta = result.get("_meta").and_then(Text::object);
        let mut meta = meta.unwrap_or_default();
        let names = names.iter().map(|name| Text::string(name.as_str()));
        meta.set(SESSION_REPLACED_META_KEY, Text::array(names));
        result.set("_meta", meta.text());
        Message {
            body: Some(result.text()),
            ..answer
        }
    }

    /// Waits until a session was opened anew; what the agent is told of it outside requests: that it
    /// was, and which lists it has to look at again.
    pub(crate) async fn news(&self) -> Vec<Message> {
        loop {
            let names = std::mem::take(&mut self.news.untold.lock().beside);
            if !names.is_empty() {
                return names.iter().flat_map(|name| self.told_of(name)).collect();
            }
            self.news.more.notified().await;
        }
    }

    fn told_of(&self, name: &ServerName) -> Vec<Message> {
        let mut told = Vec::new();
        if self.reads_news_of(name) {
            let words = format!(
                "the session at tool server `{name}` ended and was opened anew: what the server kept in it is gone"
            );
            let params = json!({ "level": NEWS_LEVEL, "logger": "toolgate", "data": words });
            let params = Some(Text::of(&params));
            told.push(Message::notification("notifications/message", params));
        }
        let known = self.server(name).ok().and_then(|server| server.known());
        for list in ["tools", "prompts", "resources"] {
            if known.as_ref().is_some_and(|known| known.has(list)) {
                let method = format!("notifications/{list}/list_changed");
                told.push(Message::notification(&method, None));
            }
        }
        told
    }

    /// Whether the agent has not asked for graver words only.
    fn reads_news_of(&self, name: &ServerName) -> bool {
        let Some(session) = &self.session else {
            return false;
        };
        let wishes = session.marks.wishes.lock();
        let level = wishes.get(name).and_then(|wishes| wishes.level.as_deref());
        level.and_then(rank) <= rank(NEWS_LEVEL)
    }

    /// Whether the agent's session at a legacy server may be subscribed to what these parameters of
    /// `resources/subscribe` name, too; else why not, as the agent reads it.
    pub(crate) fn may_subscribe(
        &self,
        name: &ServerName,
        params: Option<&Text>,
    ) -> Result<(), String> {
        let (Some(session), Some(uri)) = (&self.session, params.and_then(|said| said.get("uri")))
        else {
            return Ok(());
        };
        let Some(uri) = uri.as_str() else {
            return Ok(());
        };
        let all = session.marks.wishes.lock();
        let none = BTreeSet::new();
        let kept = all.get(name).map_or(&none, |wishes| &wishes.resources);
        room_for(kept, &uri)
    }

    /// Notes what a legacy server granted the agent's session that outlasts the request.
    pub(crate) fn granted(&self, name: &ServerName, method: &str, params: Option<&Text>) {
        let Some(session) = &self.session else { return };
        let said = |key: &str| Some(params?.get(key)?.as_str()?.into_owned());
        let mut all = session.marks.wishes.lock();
        let Some(wishes) = all.get_mut(name) else {
            return;
        };
        match method {
            "logging/setLevel" => wishes.level = said("level"),
            "resources/subscribe" => {
                let uri = said("uri").filter(|uri| room_for(&wishes.resources, uri).is_ok());
                wishes.resources.extend(uri);
            }
            "resources/unsubscribe" => {
                said("uri").map(|uri| wishes.resources.remove(&uri));
            }
            _ => {}
        }
    }

    /// Notes that the agent has a session at the server; true where it had one before.
    pub(super) fn had_session(&self, name: &ServerName) -> bool {
        let Some(session) = &self.session else {
            return false;
        };
        let mut all = session.marks.wishes.lock();
        all.insert(name.clone(), SessionWishes::default())
            .is_some_and(|before| {
                all.insert(name.clone(), before);
                true
            })
    }

    /// Where the agent had a session at the server before: tells it of the new one, and asks again in
    /// that for what was granted before.
    pub(super) fn opened_again(
        &self,
        name: &ServerName,
        link: &Arc<Link>,
        shared: Option<Arc<SharedChild>>,
    ) {
        if !self.had_session(name) {
            return;
        }
        self.is_replaced(name);
        let Some(session) = &self.session else { return };
        let (level, resources) = {
            let all = session.marks.wishes.lock();
            let wishes = all.get(name);
            let resources = wishes.map(|wishes| wishes.resources.clone());
            (
                wishes.and_then(|wishes| wishes.level.clone()),
                resources.unwrap_or_default(),
            )
        };
        if level.is_none() && resources.is_empty() {
            return;
        }
        let (name, link, inbox) = (name.clone(), link.clone(), session.unsolicited.clone());
        crate::telemetry::tasks::spawn("wishes of a session", async move {
            if let Some(child) = shared.filter(|_| level.is_some()) {
                let _ = tokio::time::timeout(AGAIN_TIMEOUT, child.sets_level()).await;
            } else if let Some(level) = level {
                is_granted(&link, "logging/setLevel", json!({ "level": level })).await;
            }
            for uri in resources {
                let uri = json!({ "uri": uri });
                if is_granted(&link, "resources/subscribe", uri.clone()).await {
                    // Nobody knows what happened in between.
                    let method = "notifications/resources/updated";
                    let note = Message::notification(method, Some(Text::of(&uri)));
                    let said = (name.clone(), link.clone(), Inbound::Message(note));
                    drop(inbox.send(said).await);
                }
            }
        });
    }
}

/// Whether a session with these subscriptions may have one more; else why not.
pub(super) fn room_for(kept: &BTreeSet<String>, uri: &str) -> Result<(), String> {
    if kept.contains(uri) {
        return Ok(());
    }
    if uri.len() > URI_BYTES_MAX {
        let words = format!("a subscription has a `uri` of at most {URI_BYTES_MAX} bytes");
        return Err(words);
    }
    let bytes: usize = kept.iter().map(String::len).sum();
    if kept.len() >= MAX_RESOURCES_KEPT || bytes + uri.len() > URIS_BYTES_MAX {
        let words = format!(
            "a session is subscribed to {MAX_RESOURCES_KEPT} resources of a server at most, whose URIs have {URIS_BYTES_MAX} bytes; unsubscribe from others first"
        );
        return Err(words);
    }
    Ok(())
}

fn is_gone(name: &ServerName) {
    tracing::warn!(server = %name, "an agent's session at the tool server was opened anew; what the server kept in it is gone");
}

async fn is_granted(link: &Link, method: &str, params: serde_json::Value) -> bool {
    let asked = link.ask(method, Some(Text::of(&params)));
    let answer = tokio::time::timeout(AGAIN_TIMEOUT, asked).await;
    let granted = matches!(&answer, Ok(Ok(answer)) if answer.kind == MessageKind::Response && !answer.is_error);
    if !granted {
        tracing::warn!(%method, "a new session does not grant what an earlier one did");
    }
    granted
}
