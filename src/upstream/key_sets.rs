//! Where the public keys of an issuer come from: an address, or a file. A file is judged
//! before each look: an account that may change it could sign as every agent.

use super::fetching::{FETCH_TIMEOUT, FetchError, fetched};
use super::http::Connections;
use crate::owners;
use crate::owners::regular::{self, FileFault};
use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{StatusCode, Uri};
use std::path::Path;

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
    /// Others could have put them there.
    #[error("{0}; {1}")]
    Exposed(String, String),
}

impl From<FetchError> for KeyFetchError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Unreachable(why) => Self::Unreachable(why),
            FetchError::Late => Self::Late,
            FetchError::Status(status) => Self::Status(status),
            FetchError::TooLong(most) => Self::TooLong(most),
        }
    }
}

/// What the address `url` answers, of `most` bytes at most.
pub(crate) async fn fetch(
    connections: &Connections,
    url: &str,
    most: usize,
) -> Result<Bytes, KeyFetchError> {
    let uri: Uri = url
        .parse()
        .map_err(|_| KeyFetchError::Unreachable("it is no address".to_owned()))?;
    let mut headers = HeaderMap::new();
    let kinds = HeaderValue::from_static("application/jwk-set+json, application/json");
    headers.insert(ACCEPT, kinds);
    let asking = connections.get(uri, headers);
    let (_, keys) = fetched(asking, most, &[StatusCode::OK]).await?;
    Ok(keys)
}

/// What the file at `path` holds, of `most` bytes at most.
pub(crate) async fn read(path: &Path, most: usize) -> Result<Bytes, KeyFetchError> {
    let path = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || read_now(&path, most));
    let read = tokio::time::timeout(FETCH_TIMEOUT, reading).await;
    let read = read.map_err(|_| KeyFetchError::Late)?;
    read.unwrap_or_else(|error| Err(KeyFetchError::Unreachable(error.to_string())))
}

fn read_now(path: &Path, most: usize) -> Result<Bytes, KeyFetchError> {
    if let Some(exposed) = owners::exposed(path).first() {
        let (shown, message) = (exposed.path.display(), exposed.message());
        let words = format!("{shown}: {message}");
        return Err(KeyFetchError::Exposed(words, exposed.hint()));
    }
    let bound = u64::try_from(most).unwrap_or(u64::MAX);
    let read = regular::read(path, bound).map(Bytes::from);
    read.map_err(|fault| match fault {
        FileFault::TooLarge(_) => KeyFetchError::TooLong(most),
        other @ (FileFault::Unreadable(_) | FileFault::NotRegular) => {
            KeyFetchError::Unreachable(other.to_string())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    /// threat-model §10: keys that others could have put there are not read, and what mends it is said.
    #[tokio::test]
    async fn a_file_that_others_may_change_is_not_read() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("keys.json");
        fs::write(&file, "{}").unwrap();
        let chmod = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        for (of_directory, of_file, hint) in [
            (0o755, 0o644, None),
            (0o755, 0o666, Some("chmod go-w")),
            (0o757, 0o644, Some("chmod o-w")),
        ] {
            chmod(place.path(), of_directory).unwrap();
            chmod(&file, of_file).unwrap();
            match (read(&file, 2).await, hint) {
                (Ok(text), None) => assert_eq!(text, "{}"),
                (Err(KeyFetchError::Exposed(_, said)), Some(hint)) => {
                    assert!(said.contains(hint), "{said}");
                }
                (other, _) => panic!("{of_directory:o} {of_file:o}: {other:?}"),
            }
        }
        chmod(place.path(), 0o755).unwrap();
        assert_eq!(read(&file, 1).await, Err(KeyFetchError::TooLong(1)));
        fs::remove_file(&file).unwrap();
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, mode).unwrap();
        let pipe = read(&file, 2).await.unwrap_err().to_string();
        assert!(pipe.contains("it is no regular file"), "{pipe}");
    }
}
