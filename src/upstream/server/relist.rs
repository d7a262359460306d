//! When a server's tools are asked for again: because it says that they changed, because it may be
//! lost, and because what is known of them is old, whatever the server says or keeps to itself
//! (threat-model §13 L7). One question at a time.

use super::UpstreamServer;
use crate::model::reply::Fault;
use crate::upstream::backoff::jittered;
use crate::upstream::catalog::Catalog;
use crate::upstream::link::Link;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Changes that a server announces faster than this are listed once (threat-model §3C C10).
const MIN_ANNOUNCED_INTERVAL: Duration = Duration::from_secs(1);
/// A server that announces no changes is asked no more often than this, however short its `ttlMs`
/// is.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// So many times in a row may a server fail to list what is merely old: it may be busy with one
/// long call.
const MAX_FAILED_REFRESHES: u32 = 3;

type Asking<'s> = Pin<Box<dyn Future<Output = Result<Catalog, Fault>> + Send + 's>>;

/// Why a server is asked for its tools again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelistCause {
    /// What is known of them is old.
    Age,
    /// They may have changed, or it may be lost.
    Change,
}

/// What asks a connected server for its tools again.
pub(super) struct Relist<'s> {
    server: &'s UpstreamServer,
    base: &'s Link,
    /// The server says that they changed.
    told: bool,
    /// A request found that it could not be reached.
    suspected: bool,
    /// From when on it may be asked because they changed.
    due: Pin<Box<Sleep>>,
    /// When what is known is too old.
    old: Pin<Box<Sleep>>,
    /// The question that waits for its answer.
    asking: Option<Asking<'s>>,
    /// An agent uses the process: it is asked no more, and the tools have changed.
    pub(super) needs_another: bool,
    /// Why the question was put.
    cause: RelistCause,
    failures: u32,
}

impl<'s> Relist<'s> {
    pub(super) fn new(server: &'s UpstreamServer, base: &'s Link) -> Self {
        let (due, old) = (
            Box::pin(sleep(Duration::ZERO)),
            Box::pin(sleep(age(server))),
        );
        Self {
            server,
            base,
            told: false,
            suspected: false,
            due,
            old,
            asking: None,
            needs_another: false,
            cause: RelistCause::Change,
            failures: 0,
        }
    }

    /// The tools changed, the server says.
    pub(super) fn changed(&mut self) {
        self.told = true;
    }

    /// The server could not be reached, a request found.
    pub(super) fn suspect(&mut self) {
        self.suspected = true;
    }

    /// Waits until there is a reason to ask, asks, and takes in what is answered. Nothing is lost
    /// when it is dropped before its end and called again. A fault: the server is lost.
    pub(super) async fn next(&mut self) -> Result<(), Fault> {
        if self.asking.is_none() {
            self.cause = RelistCause::Change;
            if !self.told && !self.suspected {
                self.old.as_mut().await;
                self.cause = RelistCause::Age;
            } else if !self.suspected {
                self.due.as_mut().await;
            }
            let told = std::mem::take(&mut self.told);
            self.suspected = false;
            // What it lists to that agent may be nobody else's business.
            if self.server.children.is_taken(self.base) {
                self.needs_another |= told;
                self.old = Box::pin(sleep(age(self.server)));
                return Ok(());
            }
        }
        let (server, base) = (self.server, self.base);
        let asking = self
            .asking
            .get_or_insert_with(|| Box::pin(server.list_from(base)));
        let listed = asking.as_mut().await;
        self.asking = None;
        let is_suspected = std::mem::take(&mut self.suspected);
        let routine = self.cause == RelistCause::Age && !is_suspected;
        let done = self.take(listed, routine);
        (self.due, self.old) = (
            Box::pin(sleep(MIN_ANNOUNCED_INTERVAL)),
            Box::pin(sleep(age(server))),
        );
        done
    }

    fn take(&mut self, listed: Result<Catalog, Fault>, routine: bool) -> Result<(), Fault> {
        let name = &self.server.settings.name;
        match listed {
            Ok(catalog) => {
                self.failures = 0;
                let known = self.server.up().filter(|_| routine);
                if known.is_some_and(|up| up.catalog.offers_the_same(&catalog)) {
                    return Ok(());
                }
                if routine {
                    tracing::info!(server = %name, "tool server lists other tools, and did not say so");
                }
                self.server.lists(catalog);
                Ok(())
            }
            Err(fault) => {
                self.failures += 1;
                if !routine || self.failures >= MAX_FAILED_REFRESHES {
                    return Err(fault);
                }
                let words =
                    "tool server does not list its tools again; what it listed before still counts";
                tracing::warn!(server = %name, %fault, "{words}");
                Ok(())
            }
        }
    }
}

/// How long what is known of the server's tools counts, less some, so that not all servers are
/// asked at once.
fn age(server: &UpstreamServer) -> Duration {
    let longest = server.settings.refresh;
    let up = server.up().filter(|up| !server.is_told(up));
    let said = up.and_then(|up| up.catalog.fresh_for);
    jittered(said.map_or(longest, |said| said.max(MIN_REFRESH_INTERVAL).min(longest)))
}

#[cfg(test)]
mod tests;
