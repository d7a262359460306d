//! Where the public keys of an issuer come from: an address, or a file. One GET, within a time, of a
//! bounded answer; redirects are not followed, since the configuration says where keys are.

use super::http::Connections;
use bytes::Bytes;
use http::Uri;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http_body_util::{BodyExt as _, Limited};
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;

/// How long one fetch may take, connection and all.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there are no keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyFetchError {
    /// No connection, or one that broke, or no file.
    #[error("they cannot be reached: {0}")]
    Unreachable(String),
    /// Nothing within the time.
    #[error("no answer within {FETCH_TIMEOUT:?}")]
    Late,
    /// Another status than 200; a redirect, too.
    #[error("the status is {0}")]
    Status(u16),
    /// More than a key set has.
    #[error("the answer was cut off, or is longer than {0} bytes")]
    TooLong(usize),
}

/// What the address `url` answers, of `most` bytes at most.
pub(crate) async fn fetch(
    connections: &Connections,
    url: &str,
    most: usize,
) -> Result<Bytes, KeyFetchError> {
    let fetched = tokio::time::timeout(FETCH_TIMEOUT, got(connections, url, most)).await;
    fetched.unwrap_or(Err(KeyFetchError::Late))
}

async fn got(connections: &Connections, url: &str, most: usize) -> Result<Bytes, KeyFetchError> {
    let uri: Uri = url
        .parse()
        .map_err(|_| KeyFetchError::Unreachable("it is no address".to_owned()))?;
    let mut headers = HeaderMap::new();
    let kinds = HeaderValue::from_static("application/jwk-set+json, application/json");
    headers.insert(ACCEPT, kinds);
    let response = connections.get(uri, headers).await;
    let (head, body) = response.map_err(KeyFetchError::Unreachable)?.into_parts();
    if head.status != http::StatusCode::OK {
        return Err(KeyFetchError::Status(head.status.as_u16()));
    }
    let body = Limited::new(body, most).collect().await;
    let body = body.map_err(|_| KeyFetchError::TooLong(most))?;
    Ok(body.to_bytes())
}

/// What the file at `path` holds, of `most` bytes at most.
pub(crate) async fn read(path: &Path, most: usize) -> Result<Bytes, KeyFetchError> {
    let unreachable = |error: std::io::Error| KeyFetchError::Unreachable(error.to_string());
    let reading = async {
        let file = tokio::fs::File::open(path).await.map_err(unreachable)?;
        let mut bytes = Vec::new();
        let bound = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        let mut file = file.take(bound);
        file.read_to_end(&mut bytes).await.map_err(unreachable)?;
        if bytes.len() > most {
            return Err(KeyFetchError::TooLong(most));
        }
        Ok(Bytes::from(bytes))
    };
    let read = tokio::time::timeout(FETCH_TIMEOUT, reading).await;
    read.unwrap_or(Err(KeyFetchError::Late))
}
