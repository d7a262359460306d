//! What toolgate tells programs elsewhere by itself: one POST each, to addresses of the public internet
//! only, unless the configuration names the program as one that is near. The address is judged
//! after its name was looked up, and that very address is connected to. Redirects are not
//! followed, and hardly anything of an answer is read.

use super::http::{Connections, Payload, bytes_payload, connections, patient, tls_clients};
use super::reachable::is_public;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{HeaderMap, RETRY_AFTER};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

/// Bytes of an answer that are read, so that its connection can be used again; a longer one ends
/// it.
const MAX_RECEIPT_BYTES: usize = 4 << 10;
/// The longest that a program may ask to be left alone.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// The way out.
#[derive(Clone)]
pub(crate) struct Egress {
    near: Connections,
    far: Client<HttpsConnector<HttpConnector<PublicNames>>, Payload>,
}

/// What is sent.
#[derive(Debug)]
pub(crate) struct EgressPost {
    /// Where to.
    pub uri: Uri,
    /// With what.
    pub headers: HeaderMap,
    /// What it says.
    pub body: Bytes,
    /// Whether it may go to this machine and its network.
    pub is_near: bool,
}

/// Why something was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EgressError {
    /// No connection, or one that broke.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// Its address is none of the public internet.
    #[error(
        "its address is of this machine or a private network, and `notify.egress` does not name it"
    )]
    Private,
    /// Nothing within its time.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// Another status than 200 to 299; a redirect, too.
    #[error("the status is {status}")]
    Status {
        /// What it answered.
        status: u16,
        /// For how long it asks to be left alone.
        after: Option<Duration>,
    },
}

impl Egress {
    /// Nothing is opened yet. An error where TLS cannot be set up.
    pub(crate) fn new() -> Result<Self, String> {
        let near = connections().map_err(|fault| fault.what)?;
        let far = tls_clients(patient(HttpConnector::new_with_resolver(PublicNames)))
            .map_err(|fault| fault.what)?;
        Ok(Self { near, far })
    }

    /// Sends it once, within `timeout`.
    pub(crate) async fn post(
        &self,
        post: EgressPost,
        timeout: Duration,
    ) -> Result<(), EgressError> {
        let sent = tokio::time::timeout(timeout, self.sent(post)).await;
        sent.unwrap_or(Err(EgressError::Late(timeout)))
    }

    async fn sent(&self, post: EgressPost) -> Result<(), EgressError> {
        let EgressPost {
            uri,
            headers,
            body,
            is_near,
        } = post;
        let response = if is_near {
            let posted = self.near.post(uri, headers, body).await;
            posted.map_err(EgressError::Unreachable)?
        } else {
            self.send_far(uri, headers, body).await?
        };
        let (head, body) = response.into_parts();
        // What it says is nobody's to read; a long answer ends the connection.
        drop(Limited::new(body, MAX_RECEIPT_BYTES).collect().await);
        if head.status.is_success() {
            return Ok(());
        }
        Err(EgressError::Status {
            status: head.status.as_u16(),
            after: retry_after(&head.headers),
        })
    }

    async fn send_far(
        &self,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, EgressError> {
        // Nobody looks up an address that is written as one.
        let written = uri.host().unwrap_or_default();
        let written = written.trim_start_matches('[').trim_end_matches(']');
        if written
            .parse::<IpAddr>()
            .is_ok_and(|written| !is_public(written))
        {
            return Err(EgressError::Private);
        }
        let mut request = Request::new(bytes_payload(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        self.far.request(request).await.map_err(|error| {
            let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
            let mut words = String::new();
            while let Some(one) = cause {
                if let Some(NameError::OnlyPrivate) = one.downcast_ref() {
                    return EgressError::Private;
                }
                words = one.to_string();
                cause = one.source();
            }
            EgressError::Unreachable(words)
        })
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds: u64 = seconds.parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

/// Why a name leads nowhere.
#[derive(Debug, thiserror::Error)]
enum NameError {
    #[error("the name leads to no public address")]
    OnlyPrivate,
    #[error("the name cannot be looked up: {0}")]
    Unknown(io::Error),
}

/// Looks names up, and leaves out what is not public.
#[derive(Debug, Clone)]
struct PublicNames;

impl tower::Service<Name> for PublicNames {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = NameError;
    type Future = BoxFuture<'static, Result<Self::Response, NameError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NameError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found = found.map_err(NameError::Unknown)?;
            let public: Vec<SocketAddr> = found.filter(|one| is_public(one.ip())).collect();
            if public.is_empty() {
                return Err(NameError::OnlyPrivate);
            }
            Ok(public.into_iter())
        })
    }
}
