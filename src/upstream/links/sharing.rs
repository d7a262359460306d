//! What a session says that holds for a whole process of a legacy server, where others use the same
//! process: log levels, subscriptions, and what it tells outside requests.

use super::{LegacySession, Links};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::model::reply::Fault;
use crate::upstream::caller_links::Asker;
use crate::upstream::link::Link;
use crate::upstream::log_levels::rank;
use crate::upstream::server::UpstreamServer;
use crate::upstream::shared_children::{ChildSeat, SeatInbox, SessionMarks, SharedChild, Sitter};
use serde_json::json;
use std::sync::Arc;

/// What each session tells for itself, and the process was told once, or cannot know for all.
const OWN_NOTIFICATIONS: [&str; 2] = [
    "notifications/initialized",
    "notifications/roots/list_changed",
];
const PROGRESS_METHOD: &str = "notifications/progress";

/// The link of a session to a legacy server.
pub(super) struct SessionLink {
    pub(super) link: Arc<Link>,
    /// Its place in a process.
    pub(super) seat: Option<ChildSeat>,
}

/// A session's link that was just opened.
pub(super) struct OpenedSessionLink {
    /// None where the server refused.
    pub(super) link: Option<Arc<Link>>,
    /// The server's answer to `initialize`.
    pub(super) answer: Message,
    /// The server was told that the agent is ready.
    pub(super) is_introduced: bool,
    /// What its requests are told by from those of others.
    pub(super) user: u64,
    /// The process, where others may use it too.
    pub(super) shared: Option<Arc<SharedChild>>,
}

impl OpenedSessionLink {
    pub(super) fn refused(answer: Message) -> Self {
        Self {
            link: None,
            answer,
            is_introduced: false,
            user: 0,
            shared: None,
        }
    }
}

impl SessionLink {
    /// The process, where others may use it too.
    pub(super) fn shared(&self) -> Option<&Arc<SharedChild>> {
        let child = self.seat.as_ref().map(ChildSeat::child);
        child.filter(|child| child.is_shared())
    }

    pub(super) fn user_number(&self) -> u64 {
        self.seat.as_ref().map_or(0, |seat| seat.number)
    }

    /// Ends it, as far as it is the session's.
    pub(super) async fn close(self) {
        match self.seat {
            Some(seat) => seat.close().await,
            None => self.link.close().await,
        }
    }
}

impl LegacySession {
    /// Takes a place in a process of the server.
    pub(super) async fn joins(
        &self,
        server: &UpstreamServer,
        told: &Text,
    ) -> Result<OpenedSessionLink, Fault> {
        let sitter = Sitter {
            inbox: SeatInbox::Session(self.unsolicited.clone()),
            marks: Some(self.marks.clone()),
        };
        let joined = server.join(&self.caller, told, true, &sitter).await?;
        let (Some(seat), answer) = joined else {
            return Ok(OpenedSessionLink::refused(joined.1));
        };
        let (child, user) = (seat.child().clone(), seat.number);
        let link = child.link.clone();
        let open = SessionLink {
            link: link.clone(),
            seat: Some(seat),
        };
        let name = server.settings.name.clone();
        self.links.lock().await.insert(name, open);
        Ok(OpenedSessionLink {
            link: Some(link),
            answer,
            is_introduced: child.is_introduced,
            user,
            shared: Some(child).filter(|child| child.is_shared()),
        })
    }
}

impl Links {
    /// What is known of the session, if this is one.
    pub(crate) fn marks(&self) -> Option<&Arc<SessionMarks>> {
        self.session.as_ref().map(|session| &session.marks)
    }

    /// The legacy links on which a server may be told this by the agent.
    pub(crate) async fn links_to_tell(&self, note: &Message) -> Vec<(ServerName, Arc<Link>)> {
        let Some(session) = &self.session else {
            return Vec::new();
        };
        let links = session.links.lock().await;
        let may = |to: &SessionLink| {
            let Some(child) = to.shared() else {
                return true;
            };
            let method = note.method.as_str();
            if method == PROGRESS_METHOD {
                return self.questions.asked_under(&to.link, note);
            }
            !OWN_NOTIFICATIONS.contains(&method) && !child.is_everyones()
        };
        let told = links.iter().filter(|(_, to)| may(to));
        told.map(|(name, to)| (name.clone(), to.link.clone()))
            .collect()
    }

    /// What the agent asks for the whole of a process that it shares: that it logs, or tells no more of
    /// a resource. None: the server is asked as ever.
    pub(crate) async fn asks_for_all(
        &self,
        name: &ServerName,
        caller: &Caller,
        message: &Message,
    ) -> Option<Result<Message, Fault>> {
        let is_level = message.method == "logging/setLevel";
        let session = self.session.as_ref()?;
        if !is_level && message.method != "resources/unsubscribe" {
            return None;
        }
        let said = |key: &str| Some(message.body.as_ref()?.get(key)?.as_str()?.into_owned());
        let asker = Asker { caller, meta: None };
        if let Err(fault) = self.link(name, asker).await {
            return Some(Err(fault));
        }
        let (child, number) = {
            let links = session.links.lock().await;
            let to = links.get(name)?;
            (to.shared()?.clone(), to.user_number())
        };
        let done = || Message::response(None, Text::of(&json!({})), false);
        if !is_level {
            let uri = said("uri")?;
            return child.is_wanted_besides(number, &uri).then(|| Ok(done()));
        }
        let level = said("level").filter(|level| rank(level).is_some())?;
        let swap = |level: Option<String>| {
            let mut wishes = session.marks.wishes.lock();
            let wishes = wishes.entry(name.clone()).or_default();
            std::mem::replace(&mut wishes.level, level)
        };
        let before = swap(Some(level));
        let told = child.sets_level().await;
        if !matches!(&told, Ok(answer) if !answer.as_ref().is_some_and(|answer| answer.is_error)) {
            swap(before);
        }
        Some(told.map(|answer| answer.unwrap_or_else(done)))
    }
}
