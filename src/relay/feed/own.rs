//! A subscription of an agent of 2026-07-28 at a server that knows none: what the server says in the
//! agent's own session, as far as it is asked for (protocol §4.3).

use super::{FeedNews, LIST_CHANGES, RESOURCES_KEY, TASK_IDS_KEY};
use crate::mcp::bridge::{
    TaskStatus, status_of, status_to_modern, task_to_modern, to_modern_agent, with_ending,
};
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use crate::telemetry::tasks;
use crate::upstream::caller_links::CallerLink;
use crate::upstream::legacy_tasks::{HeldTaskKey, LegacyTasks};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// How long a server may take to give the result of a task that it says has ended.
const RESULT_TIMEOUT: Duration = Duration::from_secs(5);

/// By which requests about one task take turns.
pub(super) struct TaskTurns {
    /// The tasks that agents hold.
    pub(super) tasks: Arc<LegacyTasks>,
    /// Whose they are.
    pub(super) caller: Arc<Caller>,
    /// At which server.
    pub(super) server: ServerName,
}

/// What an agent hears on its own link. Dropping it takes back what it asked the server for.
pub(super) struct OwnSubscription {
    own: Arc<CallerLink>,
    turns: TaskTurns,
    notes: Receiver<Arc<Message>>,
    told: Object,
    uris: Vec<String>,
}

impl OwnSubscription {
    /// Asks for as much of `wanted` as the server can tell; returns that, too.
    pub(super) async fn begin(
        own: Arc<CallerLink>,
        turns: TaskTurns,
        wanted: &Object,
    ) -> (Self, Object) {
        let notes = own.notes();
        // From the start, so that what was taken is given back when nobody waits any more.
        let mut open = Self {
            own,
            turns,
            notes,
            told: Object::new(),
            uris: Vec::new(),
        };
        for (key, value) in wanted.iter() {
            let list = LIST_CHANGES.iter().find(|(list, _)| *list == key);
            if let Some((_, method)) = list {
                if value.is_true() && open.own.tells(list_of(method)) {
                    open.told.set(key, value.clone());
                }
            } else if key == TASK_IDS_KEY && open.own.makes_tasks() {
                open.told.set(key, value.clone());
            } else if key == RESOURCES_KEY {
                let mut taken = Vec::new();
                for uri in value.elements().unwrap_or_default() {
                    let Some(name) = uri.as_str().map(std::borrow::Cow::into_owned) else {
                        continue;
                    };
                    if open.own.subscribe(&name).await {
                        open.uris.push(name);
                        taken.push(uri);
                    }
                }
                if !taken.is_empty() {
                    open.told.set(key, Text::array(taken));
                }
            }
        }
        let told = open.told.clone();
        (open, told)
    }

    /// What the server says next of what was asked for.
    pub(super) async fn next(&mut self) -> FeedNews {
        loop {
            let note = tokio::select! {
                note = self.notes.recv() => note,
                () = self.own.replaced() => return FeedNews::Broke { in_order: false },
            };
            match note {
                Ok(note) if status_of(&note).is_some() => {
                    if let Some(told) = self.of_task(&note).await {
                        return FeedNews::Said(told);
                    }
                }
                Ok(note) if self.is_wanted(&note) => return FeedNews::Said((*note).clone()),
                Ok(_) => {}
                // The agent reads slower than the server talks: it is told to look again.
                Err(RecvError::Lagged(_)) => return FeedNews::Again(super::missed(&self.told)),
                Err(RecvError::Closed) => return FeedNews::Broke { in_order: false },
            }
        }
    }

    /// Word of how a task stands that was asked for, as the agent reads it. One that has ended comes
    /// with its end, or not at all: the agent can ask.
    async fn of_task(&self, note: &Message) -> Option<Message> {
        let task = status_of(note)?;
        let id = task.get("taskId")?;
        let wanted = self.told.get(TASK_IDS_KEY)?.elements()?;
        if !wanted.iter().any(|known| known.as_bytes() == id.as_bytes()) {
            return None;
        }
        let mut told = task_to_modern(task);
        let status = TaskStatus::of(task);
        if matches!(status, TaskStatus::Completed | TaskStatus::Failed) {
            let TaskTurns {
                tasks,
                caller,
                server,
            } = &self.turns;
            let place = tasks.open(&HeldTaskKey::of(caller, server, &id));
            let params = Text::members_of(&[("taskId", id)]);
            let asked = async {
                let _turn = match &place {
                    Some(place) => Some(place.lock().await),
                    None => None,
                };
                self.own.link.ask("tasks/result", Some(params)).await
            };
            let ended = tokio::time::timeout(RESULT_TIMEOUT, asked)
                .await
                .ok()?
                .ok()?;
            with_ending(&mut told, &to_modern_agent("tools/call", ended));
        }
        Some(status_to_modern(&told))
    }

    fn is_wanted(&self, note: &Message) -> bool {
        if note.method == "notifications/resources/updated" {
            let uri = note.body.as_ref().and_then(|params| params.get("uri"));
            let uri = uri.as_ref().and_then(Text::as_str).unwrap_or_default();
            return self.uris.iter().any(|known| *known == uri);
        }
        LIST_CHANGES.iter().any(|(list, method)| {
            *method == note.method && self.told.get(list).is_some_and(Text::is_true)
        })
    }
}

impl Drop for OwnSubscription {
    fn drop(&mut self) {
        let (own, uris) = (self.own.clone(), std::mem::take(&mut self.uris));
        if uris.is_empty() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        tasks::spawn("unsubscribing", async move {
            for uri in uris {
                own.unsubscribe(&uri).await;
            }
        });
    }
}

/// `prompts` or `resources`, of the notification that its list has changed.
fn list_of(method: &str) -> &str {
    method.split('/').nth(1).unwrap_or_default()
}
