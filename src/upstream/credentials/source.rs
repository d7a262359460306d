//! One token, fetched when it is first wanted and anew before it ends. However many want it, it is
//! fetched once; who wants it and leaves stops no fetch.

use super::grant::IssuedToken;
use crate::model::clock::Clock;
use crate::model::reply::{CredentialLack, Fault};
use crate::telemetry::tasks;
use crate::upstream::backoff::Backoff;
use futures_util::future::BoxFuture;
use http::header::HeaderValue;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A token is no longer sent so long before it ends, or a tenth of its life where that is less.
const MARGIN_MAX: Duration = Duration::from_secs(30);
/// The longest that a token endpoint is left alone after a failure.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How seldom a tool server has a token fetched anew by saying that it takes none.
const REFUSED_INTERVAL: Duration = Duration::from_secs(5);
/// Fetches that one request waits for.
const FETCHES_WAITED_MAX: usize = 2;

type TokenFetch = dyn Fn() -> BoxFuture<'static, Result<IssuedToken, Fault>> + Send + Sync;

/// Where one token comes from, and the token.
pub(in crate::upstream) struct TokenSource {
    fetch: Box<TokenFetch>,
    /// None of it counts longer than until then, in steady time.
    end: Option<Duration>,
    clock: Clock,
    state: Mutex<SourceState>,
}

#[derive(Default)]
struct SourceState {
    good: Option<GoodToken>,
    /// What is under way: it ends when its sender is dropped.
    flight: Option<watch::Receiver<()>>,
    failed: Option<FailedFetch>,
    backoff: Backoff,
    /// When the tool server last had it fetched anew.
    refused: Option<Duration>,
}

struct GoodToken {
    value: HeaderValue,
    /// From when on another is fetched.
    due: Duration,
    /// Until when it is sent.
    until: Duration,
}

struct FailedFetch {
    fault: Fault,
    /// Until when nobody asks again.
    until: Duration,
}

impl TokenSource {
    /// A token that `fetch` brings, which counts until `end` at most.
    pub(super) fn new(
        clock: Clock,
        end: Option<Duration>,
        fetch: impl Fn() -> BoxFuture<'static, Result<IssuedToken, Fault>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            fetch: Box::new(fetch),
            end,
            clock,
            state: Mutex::default(),
        }
    }

    /// The token, if it is at hand. Where it ends soon, another is fetched meanwhile.
    pub(in crate::upstream) fn good(self: &Arc<Self>) -> Option<HeaderValue> {
        self.good_at(&mut self.state.lock(), self.clock.steady())
    }

    fn good_at(self: &Arc<Self>, state: &mut SourceState, now: Duration) -> Option<HeaderValue> {
        let good = state.good.as_ref().filter(|good| now < good.until)?;
        let (value, is_due) = (good.value.clone(), good.due <= now);
        if is_due && state.resting(now).is_none() && !self.is_over(now) {
            drop(self.flight(state, now));
        }
        Some(value)
    }

    /// The token, waited for if need be.
    ///
    /// # Errors
    ///
    /// When there is none, or the endpoint has just failed and is left alone.
    pub(in crate::upstream) async fn token(self: &Arc<Self>) -> Result<HeaderValue, Fault> {
        for _ in 0..=FETCHES_WAITED_MAX {
            let mut flight = {
                let (mut state, now) = (self.state.lock(), self.clock.steady());
                if let Some(good) = self.good_at(&mut state, now) {
                    return Ok(good);
                }
                if let Some(fault) = state.resting(now) {
                    return Err(fault);
                }
                self.flight(&mut state, now)
            };
            // An error says that it has ended.
            while flight.changed().await.is_ok() {}
        }
        Err(Fault {
            lack: Some(CredentialLack::Token),
            ..Fault::unsent("no token for the tool server: each one is over as soon as it comes")
        })
    }

    /// The fetch that is under way, or one that begins.
    fn flight(self: &Arc<Self>, state: &mut SourceState, now: Duration) -> watch::Receiver<()> {
        let under_way = state.flight.as_ref();
        if let Some(flight) = under_way.filter(|flight| flight.has_changed().is_ok()) {
            return flight.clone();
        }
        let (ends, flight) = watch::channel(());
        state.flight = Some(flight.clone());
        let (this, fetching) = (self.clone(), (self.fetch)());
        tasks::spawn("token for a tool server", async move {
            let fetched = fetching.await;
            this.arrived(fetched, now);
            drop(ends);
        });
        flight
    }

    /// What was asked for at `asked` is here.
    fn arrived(&self, fetched: Result<IssuedToken, Fault>, asked: Duration) {
        let mut state = self.state.lock();
        state.flight = None;
        match fetched {
            Ok(IssuedToken { value, lasts }) => {
                let margin = (lasts / 10).min(MARGIN_MAX);
                let until = asked + lasts.saturating_sub(margin);
                state.good = Some(GoodToken {
                    value,
                    due: asked + lasts * 4 / 5,
                    until: self.end.map_or(until, |end| until.min(end)),
                });
                state.failed = None;
                state.backoff = Backoff::default();
            }
            Err(fault) => {
                let pause = state.backoff.next().min(PAUSE_MAX);
                let until = self.clock.steady() + pause;
                state.failed = Some(FailedFetch { fault, until });
            }
        }
    }

    /// The tool server takes `sent` no more: the next request waits for another. Once a token, and not
    /// often: a tool server that takes none must not have the endpoint asked for each call.
    pub(in crate::upstream) fn refused(&self, sent: &HeaderValue) {
        let (mut state, now) = (self.state.lock(), self.clock.steady());
        let is_new = |at: Duration| now.saturating_sub(at) >= REFUSED_INTERVAL;
        let is_it = state.good.as_ref().is_some_and(|good| good.value == *sent);
        if is_it && state.refused.is_none_or(is_new) {
            state.good = None;
            state.refused = Some(now);
        }
    }

    /// Whether `sent` is the token that is sent just now.
    pub(in crate::upstream) fn holds(&self, sent: &HeaderValue) -> bool {
        let state = self.state.lock();
        state.good.as_ref().is_some_and(|good| good.value == *sent)
    }

    /// Whether no token of it counts any more.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        self.end.is_some_and(|end| end <= now)
    }
}

impl SourceState {
    /// The last fault, while nobody asks again.
    fn resting(&self, now: Duration) -> Option<Fault> {
        let failed = self.failed.as_ref().filter(|failed| now < failed.until);
        failed.map(|failed| failed.fault.clone())
    }
}
