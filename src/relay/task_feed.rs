//! What a subscription hears of tasks of toolgate's own: how each stands when the subscription begins,
//! and whenever that has changed (protocol §1.8, §6.4).

use super::feed::{TASK_IDS_KEY, join};
use super::{Relay, RelayRequest};
use crate::mcp::bridge::status_to_modern;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::revision::Era;
use std::collections::VecDeque;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Tasks of toolgate's own in one subscription, as many as an agent can have; of more it hears nothing.
pub(crate) const MAX_HEARD_TASKS: usize = 64;

/// The part of a subscription that toolgate itself has to tell.
pub(super) struct TaskFeed<'a> {
    relay: &'a Relay,
    request: &'a RelayRequest,
    ids: Vec<Text>,
    changes: broadcast::Receiver<Box<str>>,
    /// Of which it is to be told how they stand.
    due: VecDeque<Text>,
}

impl<'a> TaskFeed<'a> {
    /// Of these tasks, which are all of the agent's.
    pub(super) fn of(relay: &'a Relay, request: &'a RelayRequest, ids: Vec<Text>) -> Self {
        Self {
            relay,
            request,
            // Before it is looked how they stand, so that no change is missed.
            changes: relay.task_news.changes(),
            due: ids.iter().cloned().collect(),
            ids,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds its tasks to what is promised.
    pub(super) fn promise(&self, honoured: &mut Object) {
        if !self.is_empty() {
            let mut own = Object::new();
            own.set(TASK_IDS_KEY, Text::array(self.ids.iter().cloned()));
            join(honoured, &own);
        }
    }

    /// What is told next. Nothing is lost where this is dropped before it ends.
    pub(super) async fn next(&mut self) -> Message {
        loop {
            while let Some(id) = self.due.front() {
                let told = self.relay.task_news.told(&self.request.caller, id).await;
                self.due.pop_front();
                if let Some(told) = told {
                    return status_to_modern(&told);
                }
            }
            match self.changes.recv().await {
                Ok(changed) => {
                    let is_it = |id: &&Text| id.as_str().as_deref() == Some(&*changed);
                    self.due.extend(self.ids.iter().find(is_it).cloned());
                }
                Err(RecvError::Lagged(_)) => self.due.extend(self.ids.iter().cloned()),
                // The gate ends, and with it all subscriptions.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

impl Relay {
    /// Takes out of the ids of tasks those of toolgate's own that are the agent's.
    pub(super) fn own_task_wishes(&self, request: &RelayRequest, ids: &mut Vec<Text>) -> Vec<Text> {
        let is_own = |id: &Text| {
            let tool = self.task_news.task_tool(&request.caller, id);
            request.era == Era::Modern && tool.is_some_and(|tool| request.scope.holds_tool(&tool))
        };
        let (mut own, others) = std::mem::take(ids).into_iter().partition(is_own);
        *ids = others;
        Vec::truncate(&mut own, MAX_HEARD_TASKS);
        own
    }
}
