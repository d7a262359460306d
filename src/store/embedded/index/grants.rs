//! Standing grants in the index.

use super::names::{GRANT_PREFIX, expiring, named, named_by};
use super::rows::IndexRows;
use super::values::{grant_text, read_grant};
use super::{Index, calmly};
use crate::model::digest::Digest;
use crate::store::claims::StoreError;
use crate::store::state::grant::Grant;

impl Index {
    /// The grant of that key.
    pub(in crate::store::embedded) fn grant(
        &self,
        key: &Digest,
    ) -> Result<Option<Grant>, StoreError> {
        self.get(&named(GRANT_PREFIX, key))?
            .map(|value| read_grant(&value))
            .transpose()
    }

    /// The grants that are so. Looks through all of them.
    pub(in crate::store::embedded) fn grants(
        &self,
        is_so: impl Fn(&Grant) -> bool,
    ) -> Result<Vec<(Digest, Grant)>, StoreError> {
        let (mut grants, mut found) = (self.db.scan_prefix([GRANT_PREFIX]), Vec::new());
        while let Some((name, value)) = calmly(|| grants.next().transpose())? {
            let grant = read_grant(&value)?;
            if let (true, Some(key)) = (is_so(&grant), named_by(&name)) {
                found.push((key, grant));
            }
        }
        Ok(found)
    }
}

/// Notes grants in their newest form.
pub(super) fn put(rows: &mut IndexRows, grants: &[(Digest, Grant)]) -> Result<(), StoreError> {
    for (key, grant) in grants {
        rows.insert(named(GRANT_PREFIX, key), grant_text(grant)?);
        rows.mark(expiring(grant.outlived(), GRANT_PREFIX, key));
    }
    Ok(())
}
