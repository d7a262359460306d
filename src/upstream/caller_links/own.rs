//! What one agent's own link is asked beside calls: questions of the server, subscriptions, the level
//! of its log.

use super::CallerLink;
use crate::mcp::bridge::makes_legacy_tasks;
use crate::mcp::error_codes::METHOD_NOT_FOUND;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::upstream::log_levels::rank;
use crate::upstream::questions::tell;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::broadcast;

/// How long a server may take to say yes to a subscription or a log level.
const SMALL_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

impl CallerLink {
    /// What the server says outside requests, from now on.
    pub(crate) fn notes(&self) -> broadcast::Receiver<Arc<Message>> {
        self.notes.subscribe()
    }

    /// Whether its agent has to be told that it stands in for an earlier one.
    pub(crate) fn is_news(&self) -> bool {
        self.is_news.load(Ordering::Relaxed)
    }

    /// Notes that its agent is told that; true once.
    pub(crate) fn is_told_of(&self) -> bool {
        self.is_news.swap(false, Ordering::Relaxed)
    }

    /// Resolves when it is over, or its agent gets another.
    pub(crate) async fn replaced(&self) {
        tokio::select! {
            () = self.link.ended() => {}
            () = self.given_up.cancelled() => {}
        }
    }

    /// Whether the agent can be asked this: it has declared so.
    pub(crate) fn may_ask(&self, question: &Message) -> bool {
        let params = question.body.as_ref();
        let mode = params.and_then(|params| params.get("mode"));
        let is_url = mode.is_some_and(|mode| mode.as_str().as_deref() == Some("url"));
        let capability: &[&str] = match question.method.as_str() {
            "elicitation/create" if is_url => &["elicitation", "url"],
            "elicitation/create" => &["elicitation"],
            "sampling/createMessage" => &["sampling"],
            "roots/list" => &["roots"],
            _ => return false,
        };
        self.declared.at(capability).is_some()
    }

    /// What the server reads of a question that no agent reads.
    pub(crate) fn declined(&self, question: &Message) -> Message {
        let id = question.id.clone();
        match question.method.as_str() {
            "ping" => Message::response(id, Text::of(&json!({})), false),
            "roots/list" => Message::response(id, Text::of(&json!({ "roots": [] })), false),
            _ => {
                let server = &self.key.server;
                tracing::warn!(%server, method = %question.method.escape_debug(), "a tool server asked something outside any request of the agent");
                let words = "no request of the agent's is open that this belongs to";
                Message::error(id, METHOD_NOT_FOUND, words, None)
            }
        }
    }

    /// Answers such a question.
    pub(crate) async fn decline(&self, question: &Message) {
        tell(&self.link, self.declined(question)).await;
    }

    /// Whether the server says that it makes tasks of calls.
    pub(crate) fn makes_tasks(&self) -> bool {
        makes_legacy_tasks(self.said.get("capabilities").as_ref())
    }

    /// Whether the server says that it tells when this list changes.
    pub(crate) fn tells(&self, list: &str) -> bool {
        self.said
            .at(&["capabilities", list, "listChanged"])
            .is_some_and(|flag| flag.is_true())
    }

    /// Has the server tell of a resource, if it does not yet; whether it does.
    pub(crate) async fn subscribe(&self, uri: &str) -> bool {
        let can = self.said.at(&["capabilities", "resources", "subscribe"]);
        if !can.is_some_and(|flag| flag.is_true()) {
            return false;
        }
        let mut subscribed = self.subscribed.lock().await;
        if let Some(count) = subscribed.get_mut(uri) {
            *count += 1;
            return true;
        }
        let params = Text::of(&json!({ "uri": uri }));
        let taken = self.is_taken("resources/subscribe", params).await;
        if taken {
            subscribed.insert(uri.to_owned(), 1);
        }
        taken
    }

    /// One subscription of the agent less wants to hear of the resource; after the last, the server
    /// is told.
    pub(crate) async fn unsubscribe(&self, uri: &str) {
        let mut subscribed = self.subscribed.lock().await;
        match subscribed.get_mut(uri) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                subscribed.remove(uri);
                let params = Text::of(&json!({ "uri": uri }));
                self.is_taken("resources/unsubscribe", params).await;
            }
            None => {}
        }
    }

    /// Has the server log from `level` on, if it does not yet.
    pub(crate) async fn logs_from(&self, level: &str) {
        let Some(rank) = rank(level) else { return };
        let mut known = self.level.lock().await;
        let has_log = self.said.at(&["capabilities", "logging"]).is_some();
        if !has_log || known.is_some_and(|known| known <= rank) {
            return;
        }
        let params = Text::of(&json!({ "level": level }));
        if self.is_taken("logging/setLevel", params).await {
            *known = Some(rank);
        }
    }

    /// Asks the server something small; whether it says yes in time.
    async fn is_taken(&self, method: &str, params: Text) -> bool {
        let asked = self.link.ask(method, Some(params));
        let answer = tokio::time::timeout(SMALL_REQUEST_TIMEOUT, asked).await;
        answer.is_ok_and(|answer| answer.is_ok_and(|answer| !answer.is_error))
    }
}
