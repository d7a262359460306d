//! A store that opens beside the calls, and may turn out not to be one.

use crate::store::claims::Store;
use anyhow::bail;

/// Waits until `store` cannot be opened, if that ever happens: the process has to end then, as when
/// that is found before it serves.
pub(super) async fn failed(store: &dyn Store) {
    let Some(opening) = store.opening() else {
        return std::future::pending().await;
    };
    let error = opening.failed().await;
    tracing::error!(error, "stopping: the store cannot be opened");
}

/// An error where it could not.
pub(super) fn ended(store: &dyn Store) -> anyhow::Result<()> {
    let opening = store.opening();
    if let Some(why) = opening.as_ref().and_then(|opening| opening.failure()) {
        bail!("the store cannot be opened: {why}");
    }
    Ok(())
}
