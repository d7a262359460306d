//! What operators see of held calls that are decided or over.

use super::{OpenHold, VoidJudge};
use crate::model::digest::Digest;
use crate::store::claims::{Store, StoreError};
use crate::store::state::hold::hold_kind;

/// Up to `most` held calls that are decided or over, the newest first.
pub(crate) async fn past_holds(
    store: &dyn Store,
    void: &VoidJudge,
    most: usize,
) -> Result<Vec<OpenHold>, StoreError> {
    past_of(store, void, None, most).await
}

/// The same of the tool, the agent and the tenant of `hold`, and without that one.
pub(crate) async fn past_like(
    store: &dyn Store,
    void: &VoidJudge,
    hold: &OpenHold,
    most: usize,
) -> Result<Vec<OpenHold>, StoreError> {
    let kind = hold_kind(&hold.tool, &hold.agent, hold.tenant.as_deref());
    let mut past = past_of(store, void, Some(kind), most.saturating_add(1)).await?;
    past.retain(|one| one.id != hold.id);
    past.truncate(most);
    Ok(past)
}

async fn past_of(
    store: &dyn Store,
    void: &VoidJudge,
    kind: Option<Digest>,
    most: usize,
) -> Result<Vec<OpenHold>, StoreError> {
    let (holds, now) = (store.past_holds(kind, most).await?, store.now());
    let past = holds.iter().map(|(_, hold)| OpenHold::of(hold, now, void));
    Ok(past.collect())
}
