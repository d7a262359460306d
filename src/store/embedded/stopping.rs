//! An operator stops a task: that is noted beside the index, too, for a start that has none to ask.

use super::inner::EmbeddedInner;
use crate::store::claims::StoreError;
use crate::store::state::command::SteerTask;
use crate::store::state::event::TaskAct;
use std::sync::Arc;

/// Notes what `steer` is about to do, before it is decided: a stop that is noted and never made does no
/// harm.
pub(super) async fn noted(
    shared: &Arc<EmbeddedInner>,
    steer: &SteerTask,
) -> Result<(), StoreError> {
    let (shared, task) = (shared.clone(), steer.task);
    match steer.act {
        TaskAct::Stop => tokio::task::spawn_blocking(move || shared.closing.stops(&task))
            .await
            .map_err(|error| StoreError::Broken(error.to_string())),
        TaskAct::Reset => Ok(()),
    }
}
