//! Standing grants as the journal has them: for who only reads it, without a lock and whether a toolgate runs
//! or not.

use crate::model::digest::Digest;
use crate::store::grants::MAX_GRANTS_LISTED;
use crate::store::journal::{JournalError, JournalReader, JournalRecord};
use crate::store::state::event::StoreEvent;
use crate::store::state::grant::Grant;
use crate::store::state::{Millis, apply_to_grant};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

/// What the journal of a data directory knows of grants.
#[derive(Debug, Default)]
pub(crate) struct GrantsAtRest {
    /// Those that a store would list, the newest first.
    pub grants: Vec<Grant>,
    /// The time by which they are judged: never before what is recorded of them.
    pub now: Millis,
}

/// The grants in the journal of `data` at `now`; none where no toolgate has written there yet.
///
/// # Errors
/// The journal cannot be read, or a record of it says what this toolgate does not know.
pub(crate) fn read(data: &Path, now: Millis) -> Result<GrantsAtRest, JournalError> {
    if let Err(error) = JournalReader::open(data) {
        let nothing = GrantsAtRest {
            now,
            ..GrantsAtRest::default()
        };
        let is_unwritten = matches!(error, JournalError::NoJournal(_));
        return is_unwritten.then_some(nothing).ok_or(error);
    }
    let records = JournalReader::replay(data, 0)?;
    let (mut found, mut now) = (HashMap::<Digest, Grant>::new(), now);
    for record in records {
        let Some(event) = event(&record?)? else {
            continue;
        };
        now = now.max(event.at());
        if let Some(key) = event.place().grant {
            let after = apply_to_grant(&event, found.remove(&key));
            found.extend(after.map(|grant| (key, grant)));
        }
    }
    let mut grants: Vec<Grant> = found.into_values().collect();
    grants.retain(|grant| grant.outlived() > now);
    grants.sort_by_key(|grant| Reverse((grant.minted, grant.id)));
    grants.truncate(MAX_GRANTS_LISTED);
    Ok(GrantsAtRest { grants, now })
}

/// What happened, if it may be about a grant.
fn event(record: &JournalRecord) -> Result<Option<StoreEvent>, JournalError> {
    // Most records say nothing of grants, and most of the time goes into reading events whole.
    let speaks = |bytes: &[u8], word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
    let bytes = record.event();
    let bytes = bytes.filter(|bytes| speaks(bytes, b"\"grant") || speaks(bytes, b"\"revoked\""));
    let decoded = bytes.map(StoreEvent::decode).transpose();
    decoded.map_err(|error| JournalError::Unreadable {
        seq: record.seq,
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::clock::Clock;
    use crate::model::ids::ActionId;
    use crate::store::claims::Store as _;
    use crate::store::embedded::EmbeddedStore;
    use crate::store::grants::revoke;
    use crate::store::journal::{Journal, JournalOptions};
    use crate::store::state::claim::ClaimPhase;
    use crate::store::state::command::{Intent, MintGrant, StoreCommand};
    use crate::store::state::tests::grants::{covered, mint};
    use crate::store::state::tests::{named, settle};

    /// guarantees §7: who reads the journal knows of grants what the store knows that wrote it: what was
    /// minted, used, given back and taken back; also while that store is open.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_reader_knows_what_the_store_knows() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path();
        assert_eq!(read(data, 7).unwrap().now, 7, "nothing is there yet");
        let journal = Journal::open(data, JournalOptions::default()).unwrap();
        let store = EmbeddedStore::open(data, journal.clone(), Clock).unwrap();
        let mints = [1, 2].map(|nth| MintGrant {
            grant: Grant {
                max_uses: 5 + nth,
                id: ActionId::generate(),
                ..mint().grant
            },
            lasts: 3_600_000,
            ..mint()
        });
        for mint in &mints {
            let command = StoreCommand::Mint(Box::new(mint.clone()));
            store.run(command, None).await.unwrap().unwrap();
        }
        for (key, phase) in [("k1", None), ("k2", Some(ClaimPhase::NotSent))] {
            let intent = Intent {
                action: ActionId::generate(),
                session: named(key),
                fence: store.token(),
                ..covered(&mints[0], key, 1)
            };
            let entry = intent.entry.clone();
            let ends = phase.map(|phase| settle(&intent, phase));
            let begins = StoreCommand::Begin(Box::new(intent));
            store.run(begins, Some(entry)).await.unwrap().unwrap();
            if let Some(ends) = ends.map(StoreCommand::Settle) {
                store.run(ends, None).await.unwrap().unwrap();
            }
        }
        let revoked = revoke(&store, mints[1].grant.id, "bob", "no more").await;
        assert!(revoked.unwrap());
        journal.flush().await.unwrap();
        let told = read(data, store.now()).unwrap();
        assert_eq!(told.grants, store.grants(9).await.unwrap());
        let uses: Vec<u64> = told.grants.iter().map(|grant| grant.uses).collect();
        assert_eq!((uses.len(), uses.iter().sum::<u64>()), (2, 1));
        assert!(
            told.grants
                .iter()
                .all(|grant| !grant.constraints.is_empty())
        );
        drop(store);
        journal.close().await.unwrap();
        let month = 30 * 24 * 3_600_000;
        assert_eq!(read(data, told.now + month).unwrap().grants, []);
    }
}
