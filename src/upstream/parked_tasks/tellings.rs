//! What a server is told while a call waits as a task: answers and refusals on their way. Each has its
//! time limit, and none keeps the task from hearing its agent.

use crate::mcp::message::Message;
use crate::upstream::legacy_tasks::TaskQuestion;
use crate::upstream::link::Link;
use crate::upstream::questions::tell;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _, iter};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Messages of one batch that are on their way at once.
const TOLD_AT_ONCE: usize = 8;
/// Batches that are on their way at once; beyond it the server is not listened to.
const MAX_BATCHES: usize = 16;
/// How long a server may take for what it is told after the end of a call.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// What is on its way to one server.
pub(super) struct Tellings {
    link: Arc<Link>,
    batches: FuturesUnordered<BoxFuture<'static, ToldBatch>>,
}

/// What a server is told.
pub(super) struct Telling {
    pub(super) message: Message,
    /// What it answers, if it answers a question of the agent's.
    pub(super) asked: Option<TaskQuestion>,
}

/// Messages that were on their way together.
pub(super) struct ToldBatch {
    /// Whether all of them arrived.
    pub(super) has_arrived: bool,
    /// What is asked again: its answer did not arrive.
    pub(super) open: Vec<TaskQuestion>,
    /// Hears whether all of them arrived.
    done: Option<oneshot::Sender<bool>>,
}

impl ToldBatch {
    /// The agent whose answers they were hears of it.
    pub(super) fn note(self) {
        if let Some(done) = self.done {
            let _ = done.send(self.has_arrived);
        }
    }
}

impl Tellings {
    /// Nothing yet.
    pub(super) fn at(link: &Arc<Link>) -> Self {
        Self {
            link: link.clone(),
            batches: FuturesUnordered::new(),
        }
    }

    /// These go to the server, too.
    pub(super) fn add(&mut self, messages: Vec<Message>) {
        let told = messages.into_iter().map(|message| Telling {
            message,
            asked: None,
        });
        self.push(told.collect(), None);
    }

    /// The same with answers; `done` hears when the server has them, or has not taken them in time.
    pub(super) fn answer(&mut self, answers: Vec<Telling>, done: oneshot::Sender<bool>) {
        self.push(answers, Some(done));
    }

    fn push(&mut self, messages: Vec<Telling>, done: Option<oneshot::Sender<bool>>) {
        let link = self.link.clone();
        self.batches.push(Box::pin(async move {
            let told = iter(messages).map(|Telling { message, asked }| {
                let link = link.clone();
                async move { (tell(&link, message).await, asked) }
            });
            let mut told = told.buffer_unordered(TOLD_AT_ONCE);
            let (mut has_arrived, mut open) = (true, Vec::new());
            while let Some((is_told, asked)) = told.next().await {
                has_arrived &= is_told;
                open.extend(asked.filter(|_| !is_told));
            }
            ToldBatch {
                has_arrived,
                open,
                done,
            }
        }));
    }

    /// Whether no more can be told now.
    pub(super) fn is_full(&self) -> bool {
        self.batches.len() >= MAX_BATCHES
    }

    /// What became of the next batch; waits for one, if there is none.
    pub(super) async fn next(&mut self) -> ToldBatch {
        match self.batches.next().await {
            Some(told) => told,
            None => std::future::pending().await,
        }
    }

    /// Waits for what is on its way, no longer than a server may take.
    pub(super) async fn finish(self) {
        let all = self.batches.for_each(|told| {
            told.note();
            std::future::ready(())
        });
        drop(tokio::time::timeout(FINISH_TIMEOUT, all).await);
    }
}
