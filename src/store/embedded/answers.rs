//! Answers as they are kept: beside their claim or in a file, encrypted where there is a key.

use super::errors::unkept;
use super::inner::EmbeddedInner;
use crate::store::claims::{MAX_INLINE_RESULT_BYTES, StoreError};
use crate::store::content_key::ContentKeys;
use crate::store::state::claim::Stored;
use bytes::Bytes;
use std::sync::Arc;

/// Keeps an answer, durably where it is too long to stand in an event.
pub(super) async fn keep(
    shared: &Arc<EmbeddedInner>,
    keys: &Arc<ContentKeys>,
    is_error: bool,
    body: Bytes,
) -> Result<Stored, StoreError> {
    if body.len() <= MAX_INLINE_RESULT_BYTES {
        return sealed(keys, is_error, body);
    }
    let (shared, keys) = (shared.clone(), keys.clone());
    let written = tokio::task::spawn_blocking(move || {
        let stored = sealed(&keys, is_error, body)?;
        let put = shared.results.put(&stored.body);
        put.map_err(|error| unkept(&error))?;
        Ok(stored.into_file())
    });
    written
        .await
        .map_err(|error| StoreError::Broken(error.to_string()))?
}

/// The bytes of an answer, as it came.
pub(super) async fn body(
    shared: &Arc<EmbeddedInner>,
    keys: &Arc<ContentKeys>,
    stored: &Stored,
) -> Result<Bytes, StoreError> {
    if !stored.in_file {
        return opened(keys, stored, stored.body.clone());
    }
    let (shared, keys, stored) = (shared.clone(), keys.clone(), stored.clone());
    let read = tokio::task::spawn_blocking(move || {
        let kept = shared.results.get(stored.kept_digest());
        opened(&keys, &stored, kept.map_err(|error| unkept(&error))?)
    });
    read.await
        .map_err(|error| StoreError::Broken(error.to_string()))?
}

fn sealed(keys: &ContentKeys, is_error: bool, body: Bytes) -> Result<Stored, StoreError> {
    let stored = keys.seal_answer(is_error, body);
    stored.ok_or_else(|| StoreError::Broken("an answer cannot be encrypted".to_owned()))
}

fn opened(keys: &ContentKeys, stored: &Stored, kept: Bytes) -> Result<Bytes, StoreError> {
    keys.open_answer(stored, kept)
        .map_err(|error| StoreError::Broken(format!("a kept answer cannot be given: {error}")))
}
