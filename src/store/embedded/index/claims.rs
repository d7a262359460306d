//! Claims, as the index keeps them.

use super::names::{
    CLAIM_PREFIX, EXPIRY_PREFIX, GROUP_PREFIX, KEY_BYTES, OPEN_PREFIX, acting, kept_in, named,
};
use super::rows::IndexRows;
use super::values::claim_text;
use crate::model::digest::Digest;
use crate::store::claims::StoreError;
use crate::store::state::Millis;
use crate::store::state::claim::Claim;
use std::collections::BTreeMap;

/// Keys that stand together at most.
const MAX_KEYS_PER_GROUP: usize = 64;

/// `is_new`: nothing of it is in the index.
pub(super) fn put_claim(
    rows: &mut IndexRows,
    key: &Digest,
    claim: &Claim,
    is_new: bool,
) -> Result<(), StoreError> {
    rows.insert(named(CLAIM_PREFIX, key), claim_text(claim)?);
    if !is_new || !claim.phase.is_final() {
        rows.insert(acting(claim.action), key.as_bytes().to_vec());
    }
    if let Some(past) = claim.kinship.past {
        rows.remove(acting(past));
    }
    if let Some(stored) = claim.phase.stored().filter(|stored| stored.in_file) {
        rows.mark(kept_in(stored.kept_digest(), key));
    }
    if claim.phase.is_final() {
        if !is_new {
            rows.remove(named(OPEN_PREFIX, key));
        }
    } else {
        rows.mark(named(OPEN_PREFIX, key));
    }
    Ok(())
}

/// Notes when the answers among `claims`, as of record `seq`, may be forgotten. Calls end many at a
/// time: those of one moment stand together, under names that no other write uses.
pub(super) fn put_ends(rows: &mut IndexRows, claims: &[(Digest, Claim)], seq: u64) {
    let mut ends = BTreeMap::<Millis, Vec<u8>>::new();
    for (key, claim) in claims.iter().filter(|(_, claim)| claim.phase.is_final()) {
        ends.entry(claim.changed + claim.ttl)
            .or_default()
            .extend_from_slice(key.as_bytes());
    }
    for (at, keys) in &ends {
        for some in keys.chunks(MAX_KEYS_PER_GROUP * KEY_BYTES) {
            // While a carried state is read, several writes have the same number; no two of them
            // have the same keys.
            let name = [
                &[EXPIRY_PREFIX][..],
                &at.to_be_bytes(),
                &[GROUP_PREFIX],
                &seq.to_be_bytes(),
                &some[..KEY_BYTES],
            ]
            .concat();
            rows.insert(name, some.to_vec());
        }
    }
}
