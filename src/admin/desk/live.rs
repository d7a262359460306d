//! What happens to held calls, as it happens: server-sent events for the pages, and for programs with a
//! token. An event names the call and how it stands, and nothing of what it says; who wants more looks.

use super::sign_in::SignIn;
use super::streams::StreamPlace;
use crate::admin::operators::proof::StandingProof;
use crate::admin::operators::{OperatorIdentity, Operators};
use crate::admin::{OperatorsDoor, refusal};
use crate::model::clock::Clock;
use crate::store::claims::Store;
use crate::store::hold_news::HoldNews;
use crate::store::operator::time;
use crate::store::state::hold::HoldPhase;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often a line is sent where nothing happens that an operator may see, so that what lies between
/// keeps the stream open.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// After which time a browser asks again whose stream broke.
const RETRY_MS: u32 = 500;
/// After how many seconds one looks again who finds no place for a stream.
const POLL_SECONDS: &str = "5";

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/approvals/events", get(of_page))
        .route("/api/approvals/events", get(of_program))
}

async fn of_page(sign_in: SignIn, State(door): State<Arc<OperatorsDoor>>) -> Response {
    let until = StreamEnd::SignIn {
        at: sign_in.until,
        ended: sign_in.ended,
    };
    events(&door, sign_in.operator, until)
}

async fn of_program(
    known: OperatorIdentity,
    headers: HeaderMap,
    State(door): State<Arc<OperatorsDoor>>,
) -> Response {
    let until = StreamEnd::Proof(door.operators.proof(&known, &headers));
    events(&door, known, until)
}

/// One who looks on.
struct OnLooker {
    known: OperatorIdentity,
    operators: Operators,
    store: Arc<dyn Store>,
    news: Receiver<HoldNews>,
    policies: watch::Receiver<u64>,
    until: StreamEnd,
    /// Events so far.
    count: u64,
    _place: StreamPlace,
}

/// When nobody may look on any more.
enum StreamEnd {
    /// With a sign-in.
    SignIn {
        /// On the steady clock.
        at: Duration,
        /// Done when the operator signs out before.
        ended: CancellationToken,
    },
    /// With the token that a program has shown.
    Proof(StandingProof),
}

impl StreamEnd {
    /// Done at the end.
    async fn comes(&self) {
        match self {
            Self::SignIn { at, ended } => {
                let left = at.saturating_sub(Clock.steady());
                let _ = tokio::time::timeout(left, ended.cancelled()).await;
            }
            Self::Proof(proof) => proof.ends().await,
        }
    }
}

/// The answer to one more who would look on.
fn crowded() -> Response {
    let mut answer = refusal(
        StatusCode::SERVICE_UNAVAILABLE,
        "all places for streams of events are taken",
        "ask GET /api/approvals every few seconds, or close pages that are not used",
    );
    let headers = answer.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static(POLL_SECONDS));
    answer
}

fn events(door: &OperatorsDoor, known: OperatorIdentity, until: StreamEnd) -> Response {
    let Some(place) = door.streams.take(&known.name) else {
        return crowded();
    };
    let mut policies = door.switches.policies.clone();
    policies.mark_unchanged();
    let looks_on = OnLooker {
        operators: door.operators.clone(),
        store: door.switches.store.clone(),
        known,
        news: door.switches.store.look_on(),
        policies,
        until,
        count: 0,
        _place: place,
    };
    let hello = format!("retry: {RETRY_MS}\n: what happens to held calls\n\n");
    let hello = stream::iter([Ok::<_, Infallible>(Bytes::from(hello))]);
    let told = stream::unfold(looks_on, async |mut looks_on| {
        let told = looks_on.next().await?;
        Some((Ok(Bytes::from(told)), looks_on))
    });
    let body = Body::from_stream(futures_util::StreamExt::chain(hello, Box::pin(told)));
    let kind = HeaderValue::from_static("text/event-stream");
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

impl OnLooker {
    /// The next event, or a line that says that there is none; none when nobody may look on any more.
    async fn next(&mut self) -> Option<String> {
        // One for all that happens meanwhile and is not for this operator.
        let silence = tokio::time::sleep(HEARTBEAT_INTERVAL);
        tokio::pin!(silence);
        loop {
            tokio::select! {
                // What happened last is nothing for who has signed out, or whose token is taken no more.
                biased;
                () = self.until.comes() => return None,
                news = self.news.recv() => match news {
                    Ok(news) if self.may_see(&news) => return Some(self.event(&news)),
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return Some(self.say("missed", &json!({}))),
                    Err(RecvError::Closed) => return None,
                },
                changed = self.policies.changed() => {
                    changed.ok()?;
                    return Some(self.say("policy", &json!({})));
                }
                () = &mut silence => return Some(": nothing\n\n".to_owned()),
            }
        }
    }

    fn may_see(&self, news: &HoldNews) -> bool {
        let roles = self.known.seeing(self.store.now());
        self.operators.audits(&self.known) || roles.iter().any(|role| news.roles.contains(role))
    }

    fn event(&mut self, news: &HoldNews) -> String {
        let name = match news.phase {
            _ if news.is_new => "requested",
            HoldPhase::Pending => "changed",
            HoldPhase::Allowed | HoldPhase::Denied | HoldPhase::Withdrawn => "resolved",
            HoldPhase::Used { .. } => "used",
        };
        let about = json!({
            "id": news.id, "state": news.phase.word(), "tool": news.tool, "agent": news.agent,
            "approve_by": time(news.approve_by),
        });
        self.say(name, &about)
    }

    fn say(&mut self, name: &str, about: &serde_json::Value) -> String {
        self.count += 1;
        format!("id: {}\nevent: {name}\ndata: {about}\n\n", self.count)
    }
}
