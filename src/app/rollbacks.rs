//! What rollbacks leave in the ledger: they are another process's, and the journal is this one's.

use crate::gate::Gate;
use crate::policy::bundle::notes::{self, RollbackNote};
use crate::policy::bundle::shelf::PolicyShelf;
use crate::store::disabling::note;
use crate::store::state::event::{Note, Noted, PolicyRolledBack};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked for rollbacks that brought nothing in force, as where only packs were written.
const ROLLBACK_LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Records rollbacks, those too that ended while no toolgate ran, for as long as toolgate runs.
pub(super) async fn record(gate: Arc<Gate>, data: PathBuf) {
    let mut swaps = gate.policy.swaps();
    loop {
        let shelf = PolicyShelf::of(&data);
        let found = tokio::task::spawn_blocking(move || notes::unrecorded(&shelf)).await;
        match found {
            Ok(Ok(found)) => {
                for (file, one) in found {
                    record_one(&gate, file, one).await;
                }
            }
            Ok(Err(error)) => tracing::warn!(%error, "rollbacks cannot be looked for"),
            Err(error) => tracing::error!(%error, "rollbacks cannot be looked for"),
        }
        // Where no policy can come any more, toolgate ends.
        let _ = tokio::time::timeout(ROLLBACK_LOOK_INTERVAL, swaps.changed()).await;
    }
}

/// Makes the record durable before the file goes that says it is missing.
async fn record_one(gate: &Gate, file: PathBuf, done: RollbackNote) {
    let RollbackNote {
        to,
        copy: from,
        at,
        by: who,
        why,
        forced,
    } = done;
    tracing::info!(%from, %to, who, why, forced, "the policy files were rolled back");
    let noted = Noted {
        at: gate.effects.store.now(),
        note: Note::RolledBack(PolicyRolledBack {
            from,
            to,
            who,
            why,
            forced,
            began: u64::try_from(at.as_millisecond()).unwrap_or_default(),
        }),
    };
    let kept = match note(&gate.journal, noted) {
        Ok(kept) => kept.durable().await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = kept {
        tracing::error!(error, "a rollback cannot be recorded yet");
        return;
    }
    let gone = tokio::task::spawn_blocking(move || notes::recorded(&file)).await;
    if let Ok(Err(error)) = gone {
        tracing::error!(%error, "a rollback is recorded, and will be once more");
    }
}
