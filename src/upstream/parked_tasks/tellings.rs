//! What a server is told while a call waits as a task: answers and refusals on their way. Each has its
//! time limit, and none keeps the task from hearing its agent.

use crate::mcp::message::Message;
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
    /// Each says whether all of it arrived.
    batches: FuturesUnordered<BoxFuture<'static, bool>>,
}

impl Tellings {
    /// Nothing yet.
    pub(super) fn at(link: &Arc<Link>) -> Self {
        Self {
            link: link.clone(),
            batches: FuturesUnordered::new(),
        }
    }

    /// These go to the server, too; `done` hears when it has them, or has not taken them in time.
    pub(super) fn add(&mut self, messages: Vec<Message>, done: Option<oneshot::Sender<()>>) {
        let link = self.link.clone();
        self.batches.push(Box::pin(async move {
            let told = iter(messages).map(|message| {
                let link = link.clone();
                async move { tell(&link, message).await }
            });
            let mut told = told.buffer_unordered(TOLD_AT_ONCE);
            let mut has_arrived = true;
            while let Some(is_told) = told.next().await {
                has_arrived &= is_told;
            }
            if let Some(done) = done {
                let _ = done.send(());
            }
            has_arrived
        }));
    }

    /// Whether no more can be told now.
    pub(super) fn is_full(&self) -> bool {
        self.batches.len() >= MAX_BATCHES
    }

    /// Whether the next batch has arrived; waits for one, if there is none.
    pub(super) async fn next(&mut self) -> bool {
        match self.batches.next().await {
            Some(has_arrived) => has_arrived,
            None => std::future::pending().await,
        }
    }

    /// Waits for what is on its way, no longer than a server may take.
    pub(super) async fn finish(self) {
        let all = self.batches.for_each(|_| std::future::ready(()));
        drop(tokio::time::timeout(FINISH_TIMEOUT, all).await);
    }
}
