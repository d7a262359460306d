//! When a token is fetched, and when not, on a clock that the test moves.

use super::TokenFetcher;
use super::grant::IssuedToken;
use super::source::TokenSource;
use super::terms::{ClientAuth, OauthTerms};
use crate::model::clock::hands::TestClock;
use crate::model::ids::ServerName;
use crate::model::reply::Fault;
use crate::model::secret::Secret;
use futures_util::FutureExt as _;
use http::header::HeaderValue;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

const LIFE: Duration = Duration::from_secs(100);

/// An endpoint in the test's hands: it answers with the next number, or fails as often as it is told.
struct Stage {
    hands: &'static TestClock,
    source: Arc<TokenSource>,
    fetches: Arc<AtomicUsize>,
    failures: Arc<Mutex<VecDeque<&'static str>>>,
    /// Lets one fetch end.
    gate: Arc<Notify>,
}

impl Stage {
    fn with(end: Option<Duration>) -> Self {
        let (hands, gate) = (TestClock::new(), Arc::new(Notify::new()));
        let (fetches, failures) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::<Mutex<VecDeque<_>>>::default(),
        );
        let (counted, failing, waits) = (fetches.clone(), failures.clone(), gate.clone());
        let source = TokenSource::new(hands.clock(), end, move || {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            let (failing, waits) = (failing.clone(), waits.clone());
            async move {
                waits.notified().await;
                if let Some(why) = failing.lock().pop_front() {
                    return Err(Fault::unsent(why));
                }
                Ok(IssuedToken {
                    value: value(number),
                    lasts: LIFE,
                })
            }
            .boxed()
        });
        Self {
            hands,
            source: Arc::new(source),
            fetches,
            failures,
            gate,
        }
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    /// The token, where the fetch for it may end.
    async fn token(&self) -> Result<HeaderValue, Fault> {
        self.gate.notify_one();
        self.source.token().await
    }
}

/// One whose endpoint nobody asks.
pub(super) fn fetcher() -> Arc<TokenFetcher> {
    let terms = OauthTerms {
        token_url: "https://login.example.com/token".to_owned(),
        client_id: "toolgate".to_owned(),
        client_secret: Secret::new("secret".to_owned()),
        auth: ClientAuth::Basic,
        scopes: Vec::new(),
        resource: None,
        audience: None,
        exchange: None,
    };
    let nowhere = |_, _, _| async { Err("nobody is there".to_owned()) }.boxed();
    let server = ServerName::new("billing");
    Arc::new(TokenFetcher::new(&server, terms, Arc::new(nowhere)))
}

fn value(number: usize) -> HeaderValue {
    HeaderValue::from_str(&format!("Bearer {number}")).unwrap()
}

#[tokio::test]
async fn many_who_want_one_token_have_it_fetched_once() {
    let stage = Stage::with(None);
    let all = (0..100).map(|_| stage.source.token());
    let all = futures_util::future::join_all(all);
    let opened = async { stage.gate.notify_one() };
    let (all, ()) = tokio::join!(all, opened);
    assert!(all.into_iter().all(|one| one.unwrap() == value(1)));
    assert_eq!(stage.fetches(), 1);
}

/// From four fifths of its life on another is fetched, while the one that is there is still sent.
#[tokio::test]
async fn a_token_is_fetched_anew_before_it_ends() {
    let stage = Stage::with(None);
    assert_eq!(stage.token().await.unwrap(), value(1));
    stage.hands.pass(LIFE * 79 / 100);
    assert_eq!(stage.source.token().await.unwrap(), value(1));
    assert_eq!(stage.fetches(), 1);
    stage.hands.pass(LIFE * 2 / 100);
    for _ in 0..3 {
        assert_eq!(stage.source.good(), Some(value(1)), "nobody waits");
    }
    assert_eq!(stage.fetches(), 2, "once");
    stage.gate.notify_one();
    while stage.source.holds(&value(1)) {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.source.good(), Some(value(2)));
}

#[tokio::test]
async fn a_token_is_not_sent_when_it_may_be_over() {
    let stage = Stage::with(None);
    assert_eq!(stage.token().await.unwrap(), value(1));
    stage.hands.pass(LIFE * 90 / 100);
    assert_eq!(stage.source.good(), None);
    assert_eq!(stage.token().await.unwrap(), value(2));
}

/// What it stands for ends before it does.
#[tokio::test]
async fn a_token_counts_no_longer_than_what_it_stands_for() {
    let stage = Stage::with(Some(Duration::from_hours(1) + LIFE / 2));
    assert_eq!(stage.token().await.unwrap(), value(1));
    stage
        .hands
        .pass((LIFE / 2).saturating_sub(Duration::from_millis(1)));
    assert_eq!(stage.source.good(), Some(value(1)));
    stage.hands.pass(Duration::from_millis(1));
    assert_eq!(stage.source.good(), None);
}

/// An endpoint that fails is left alone for a while, and asked again afterwards; a token that is
/// there is sent meanwhile.
#[tokio::test]
async fn an_endpoint_that_fails_is_left_alone() {
    let stage = Stage::with(None);
    stage.failures.lock().extend(["down"; 8]);
    for failure in 1..=8 {
        assert_eq!(stage.token().await.unwrap_err().what, "down");
        assert_eq!(stage.fetches(), failure);
        assert_eq!(stage.source.token().await.unwrap_err().what, "down");
        assert_eq!(stage.fetches(), failure, "it is left alone");
        stage.hands.pass(Duration::from_secs(10));
    }
    assert_eq!(
        stage.token().await.unwrap(),
        value(9),
        "the pause is bounded"
    );
}

/// What a tool server takes no more is fetched anew, once, and seldom.
#[tokio::test]
async fn a_token_that_is_refused_is_dropped_once() {
    let stage = Stage::with(None);
    assert_eq!(stage.token().await.unwrap(), value(1));
    stage.source.refused(&value(7));
    assert_eq!(stage.source.good(), Some(value(1)), "it was another");
    stage.source.refused(&value(1));
    assert_eq!(stage.source.good(), None);
    assert_eq!(stage.token().await.unwrap(), value(2));
    stage.source.refused(&value(1));
    stage.source.refused(&value(2));
    assert_eq!(stage.source.good(), Some(value(2)), "not so soon again");
    stage.hands.pass(Duration::from_secs(5));
    stage.source.refused(&value(2));
    assert_eq!(stage.source.good(), None);
}
