//! To which request of an agent a question belongs that its server asks outside any stream
//! (protocol §4.3).

use super::CallerLink;
use crate::mcp::bridge::{TaskSupport, task_named_by};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Questions that wait for the request that they belong to.
const QUESTIONS_KEPT: usize = 16;

/// What is in flight that a server may ask about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AskedAbout {
    /// A request that never becomes a task.
    Request,
    /// A call of which the server may make a task.
    Call,
    /// The task of this id, as written: its result is waited for.
    Task(Vec<u8>),
}

impl AskedAbout {
    /// Of a request that may become a task as this says.
    pub(crate) fn of(support: TaskSupport) -> Self {
        match support {
            TaskSupport::Forbidden => Self::Request,
            TaskSupport::Optional | TaskSupport::Required => Self::Call,
        }
    }
}

/// A request in flight, as the link knows it.
pub(super) struct AskedRequest {
    asks: mpsc::Sender<Message>,
    about: Arc<Mutex<AskedAbout>>,
}

/// Where questions arrive that name no request.
pub(crate) struct QuestionInbox {
    arrives: mpsc::Receiver<Message>,
    about: Arc<Mutex<AskedAbout>>,
}

impl QuestionInbox {
    /// The next question.
    pub(crate) async fn recv(&mut self) -> Option<Message> {
        self.arrives.recv().await
    }

    /// What has arrived and nobody has read; nothing more arrives.
    pub(crate) fn unread(&mut self) -> Vec<Message> {
        self.arrives.close();
        std::iter::from_fn(|| self.arrives.try_recv().ok()).collect()
    }

    /// From now on it is this task that is asked about.
    pub(crate) fn becomes(&self, task: &Text) {
        *self.about.lock() = AskedAbout::Task(task.as_bytes().to_vec());
    }

    #[cfg(test)]
    pub(crate) fn of(arrives: mpsc::Receiver<Message>) -> Self {
        Self {
            arrives,
            about: Arc::new(Mutex::new(AskedAbout::Request)),
        }
    }
}

impl CallerLink {
    /// Where questions of the server arrive that belong to a request which is sent now.
    pub(crate) fn questions(&self, about: AskedAbout) -> QuestionInbox {
        let (asks, arrives) = mpsc::channel(QUESTIONS_KEPT);
        let about = Arc::new(Mutex::new(about));
        let request = AskedRequest {
            asks,
            about: about.clone(),
        };
        let mut asking = self.asking.lock();
        asking.retain(|request| !request.asks.is_closed());
        asking.push(request);
        QuestionInbox { arrives, about }
    }

    /// A request of the server names no request of the agent's. One that names a task belongs to
    /// it; any other to the only request in flight that is none for a task's result. Where there
    /// are several, nobody can tell which one it belongs to.
    pub(super) async fn asked(&self, question: Message) {
        if question.method != "ping" {
            let only = self.only_asker(&question);
            if only.is_some_and(|asks| asks.try_send(question.clone()).is_ok()) {
                return;
            }
        }
        self.decline(&question).await;
    }

    fn only_asker(&self, question: &Message) -> Option<mpsc::Sender<Message>> {
        let mut asking = self.asking.lock();
        asking.retain(|request| !request.asks.is_closed());
        let only = |fits: &dyn Fn(&AskedAbout) -> bool| {
            let mut fitting = asking.iter().filter(|request| fits(&request.about.lock()));
            let first = fitting.next().map(|request| request.asks.clone());
            (first, fitting.next().is_some())
        };
        let is_task = |about: &AskedAbout| matches!(about, AskedAbout::Task(_));
        let named = task_named_by(question);
        let tried: [&dyn Fn(&AskedAbout) -> bool; 2] = match &named {
            Some(task) => [
                &|about| matches!(about, AskedAbout::Task(id) if *id == task.as_bytes()),
                // The server may have made a task of it, and the agent has not heard of that yet.
                &|about| *about == AskedAbout::Call,
            ],
            // What a task asks names it (2025-11-25), but for servers that forget to.
            None => [&|about| !is_task(about), &is_task],
        };
        for fits in tried {
            match only(fits) {
                (Some(only), false) => return Some(only),
                (Some(_), true) => return None,
                (None, _) => {}
            }
        }
        None
    }
}
