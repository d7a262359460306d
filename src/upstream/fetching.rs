//! What toolgate fetches for itself from an address of the configuration: one exchange within a time,
//! of a bounded answer. Redirects are not followed, since the configuration says where things are.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use std::time::Duration;

/// How long one fetch may take, connection and all.
pub(super) const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// What posts, for what is known by connections itself.
pub(crate) type Poster = dyn Fn(Uri, HeaderMap, Bytes) -> BoxFuture<'static, Result<Response<Incoming>, String>>
    + Send
    + Sync;

/// Why nothing was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FetchError {
    /// No connection, or one that broke.
    Unreachable(String),
    /// Nothing within [`FETCH_TIMEOUT`].
    Late,
    /// A status whose answer is not read; a redirect, too.
    Status(u16),
    /// It was cut off, or is longer than so many bytes.
    TooLong(usize),
}

/// What is answered to `asking`, of `most` bytes at most, under one of the statuses that are `read`.
pub(super) async fn fetched(
    asking: impl Future<Output = Result<Response<Incoming>, String>>,
    most: usize,
    read: &[StatusCode],
) -> Result<(StatusCode, Bytes), FetchError> {
    let whole = async {
        let response = asking.await.map_err(FetchError::Unreachable)?;
        let (head, body) = response.into_parts();
        if !read.contains(&head.status) {
            return Err(FetchError::Status(head.status.as_u16()));
        }
        let body = Limited::new(body, most).collect().await;
        let body = body.map_err(|_| FetchError::TooLong(most))?;
        Ok((head.status, body.to_bytes()))
    };
    let whole = tokio::time::timeout(FETCH_TIMEOUT, whole).await;
    whole.unwrap_or(Err(FetchError::Late))
}
