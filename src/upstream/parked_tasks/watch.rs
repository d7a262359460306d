//! Whether a server still knows the session in which a call waits: of one that was started anew
//! meanwhile nothing more comes, and nothing says so.

use crate::model::reply::Fault;
use crate::upstream::caller_links::{CallerLink, ReachedLink};
use crate::upstream::link::Link;
use futures_util::future::BoxFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// How often at most a server is asked whether it knows a session.
const MIN_PING_INTERVAL: Duration = Duration::from_secs(1);

/// Asks the server after the session when nothing was heard in it for long, when another call of
/// the agent was told that there is none, and when an answer did not arrive. A server without
/// sessions is not asked.
pub(super) struct SessionWatch {
    link: Arc<Link>,
    own: Option<Arc<CallerLink>>,
    interval: Duration,
    next: Pin<Box<Sleep>>,
    asked: Option<BoxFuture<'static, Result<bool, Fault>>>,
    /// It is known already that the agent has another link.
    is_replaced: bool,
    is_doubted: bool,
}

impl SessionWatch {
    /// Of this link.
    pub(super) fn of(reached: &ReachedLink, ping_after: Duration) -> Self {
        let interval = ping_after.max(MIN_PING_INTERVAL);
        Self {
            link: reached.link.clone(),
            own: reached.own.clone(),
            interval,
            next: Box::pin(sleep(interval)),
            asked: None,
            is_replaced: false,
            is_doubted: false,
        }
    }

    /// If so, the server is asked at once.
    pub(super) fn doubts(&mut self, anew: bool) {
        if anew && self.asked.is_none() {
            self.is_doubted = true;
            self.next = Box::pin(sleep(Duration::ZERO));
        }
    }

    /// Resolves once the server says that it knows no such session. May be given up and begun
    /// again.
    pub(super) async fn lost(&mut self) {
        if !self.link.is_idle(Duration::ZERO) {
            return std::future::pending().await;
        }
        loop {
            if let Some(asked) = &mut self.asked {
                let known = asked.await;
                self.asked = None;
                self.next = Box::pin(sleep(self.interval));
                match known {
                    Ok(false) => return,
                    Ok(true) => self.link.heard(),
                    Err(_) => {}
                }
                continue;
            }
            let replaced = async {
                match &self.own {
                    Some(own) => own.replaced().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut self.next => {}
                () = replaced, if !self.is_replaced => {
                    (self.is_replaced, self.is_doubted) = (true, true);
                }
            }
            if std::mem::take(&mut self.is_doubted) || self.link.is_idle(self.interval) {
                let link = self.link.clone();
                self.asked = Some(Box::pin(async move { link.is_known().await }));
            } else {
                self.next = Box::pin(sleep(self.interval));
            }
        }
    }
}
