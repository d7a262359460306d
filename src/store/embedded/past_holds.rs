//! Held calls that are over: what is in memory is newer than what is indexed.

use super::inner::EmbeddedInner;
use crate::model::digest::Digest;
use crate::store::claims::StoreError;
use crate::store::state::hold::Hold;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

/// Up to `most` of that kind, or of any, the newest first.
pub(super) async fn newest(
    shared: &Arc<EmbeddedInner>,
    kind: Option<Digest>,
    most: usize,
) -> Result<Vec<(Digest, Hold)>, StoreError> {
    let (shared, now) = (shared.clone(), shared.time.now());
    let (mut found, known): (_, HashSet<Digest>) = {
        let table = shared.table.lock();
        let known = table.holds.keys().copied().collect();
        (table.past_holds(kind, now, most), known)
    };
    let look = move || {
        shared
            .lookup
            .ask(|index| index.past_holds(kind, &known, now, most))
    };
    let searched = tokio::task::spawn_blocking(look).await;
    found.extend(searched.map_err(|error| StoreError::Broken(error.to_string()))??);
    found.sort_by_key(|(_, hold)| Reverse((hold.changed(), hold.id)));
    found.truncate(most);
    Ok(found)
}
