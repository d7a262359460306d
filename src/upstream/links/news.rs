//! A legacy session at a server that was opened anew: what the server kept in the old one is gone, so
//! the agent is told, and what it had asked the session for is asked again (protocol §3.6).

use super::Links;
use crate::mcp::answer::SESSION_REPLACED_META_KEY;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::model::ids::ServerName;
use crate::upstream::Inbound;
use crate::upstream::caller_links::{ReachedLink, rank};
use crate::upstream::link::Link;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Resources of one session at one server that are subscribed to again; of more the agent hears
/// nothing after the session was opened anew.
const MAX_RESOURCES_KEPT: usize = 1_000;
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
    /// To be said outside requests.
    beside: BTreeSet<ServerName>,
}

/// What an agent asked a legacy session for that outlasts the request.
#[derive(Default)]
pub(super) struct SessionWishes {
    resources: BTreeSet<String>,
    level: Option<String>,
}

impl Links {
    fn is_replaced(&self, name: &ServerName) {
        tracing::warn!(server = %name, "an agent's session at the tool server was opened anew; what the server kept in it is gone");
        let mut untold = self.news.untold.lock();
        untold.with_answer.insert(name.clone());
        if self.session.is_some() {
            untold.beside.insert(name.clone());
            self.news.more.notify_one();
        }
    }

    /// Notes that a request goes out on a link that stands in for an earlier one.
    pub(super) fn notice(&self, name: &ServerName, reached: &ReachedLink) {
        if reached.own.as_ref().is_some_and(|own| own.is_news()) {
            self.is_replaced(name);
        }
    }

    /// An answer of a server, with what the agent has not been told yet.
    #[must_use]
    pub(crate) fn with_news(&self, answer: Message) -> Message {
        if self.news.untold.lock().with_answer.is_empty() {
            return answer;
        }
        let result = answer.body.as_ref().filter(|_| !answer.is_error);
        let Some(mut result) = result.and_then(Text::object) else {
            return answer;
        };
        let names = std::mem::take(&mut self.news.untold.lock().with_answer);
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
        let wishes = session.wishes.lock();
        let level = wishes.get(name).and_then(|wishes| wishes.level.as_deref());
        level.and_then(rank) <= rank(NEWS_LEVEL)
    }

    /// Notes what a legacy server granted the agent's session that outlasts the request.
    pub(crate) fn granted(&self, name: &ServerName, method: &str, params: Option<&Text>) {
        let Some(session) = &self.session else { return };
        let said = |key: &str| Some(params?.get(key)?.as_str()?.into_owned());
        let mut all = session.wishes.lock();
        let Some(wishes) = all.get_mut(name) else {
            return;
        };
        match method {
            "logging/setLevel" => wishes.level = said("level"),
            "resources/subscribe" if wishes.resources.len() < MAX_RESOURCES_KEPT => {
                wishes.resources.extend(said("uri"));
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
        let mut all = session.wishes.lock();
        all.insert(name.clone(), SessionWishes::default())
            .is_some_and(|before| {
                all.insert(name.clone(), before);
                true
            })
    }

    /// Where the agent had a session at the server before: tells it of the new one, and asks again in
    /// that for what was granted before.
    pub(super) fn opened_again(&self, name: &ServerName, link: &Arc<Link>) {
        if !self.had_session(name) {
            return;
        }
        self.is_replaced(name);
        let Some(session) = &self.session else { return };
        let (level, resources) = {
            let all = session.wishes.lock();
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
            if let Some(level) = level {
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

async fn is_granted(link: &Link, method: &str, params: serde_json::Value) -> bool {
    let asked = link.ask(method, Some(Text::of(&params)));
    let answer = tokio::time::timeout(AGAIN_TIMEOUT, asked).await;
    let granted = matches!(&answer, Ok(Ok(answer)) if answer.kind == MessageKind::Response && !answer.is_error);
    if !granted {
        tracing::warn!(%method, "a new session does not grant what an earlier one did");
    }
    granted
}
