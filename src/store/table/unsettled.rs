//! Calls that have not come to an end.

use super::StateTable;
use crate::model::digest::Digest;
use crate::store::claims::ClaimPage;
use crate::store::state::claim::Claim;

impl StateTable {
    /// The claims of `page` that have not come to an end, in the order of their keys.
    pub(in crate::store) fn unsettled(&self, page: ClaimPage) -> Vec<(Digest, Claim)> {
        let is_behind = |key: &Digest| page.after.is_none_or(|after| *key > after);
        let open = self.claims.iter();
        let open = open.filter(|(key, kept)| is_behind(key) && !kept.value.phase.is_final());
        let mut open: Vec<_> = open.collect();
        open.sort_by_key(|(key, _)| **key);
        let page = open.into_iter().take(page.most);
        page.map(|(key, kept)| (*key, kept.value.clone())).collect()
    }
}
