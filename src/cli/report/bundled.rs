//! Versions that are named by the hash of their bundle.

use super::versions::Versions;
use crate::cli::ledger::text::plain;
use crate::cli::policy::named::KeptPolicies;
use anyhow::bail;
use std::collections::BTreeSet;

/// What is `named`, with versions in place of hashes. A beginning that versions of the ledger have, too,
/// is one of those.
pub(super) fn versions(
    versions: &Versions,
    kept: &KeptPolicies,
    named: &[String],
) -> anyhow::Result<Vec<String>> {
    let one = |beginning: &String| {
        let is_version = |known: &str| known.starts_with(beginning.as_str());
        if versions.all.iter().any(|version| is_version(&version.name)) {
            return Ok(beginning.clone());
        }
        let Ok(bundle) = kept.named(beginning) else {
            // That no version begins so is said where versions are looked for.
            return Ok(beginning.clone());
        };
        // One bundle has several versions where operators have disabled tools.
        let lives: BTreeSet<&str> = kept.lives_of(bundle).map(|life| &*life.policy).collect();
        let called: Vec<&str> = versions
            .all
            .iter()
            .map(|version| version.name.as_str())
            .filter(|name| lives.contains(name))
            .collect();
        match called.as_slice() {
            [] => bail!(
                "no such call was judged under the policy {}, which is kept",
                plain(beginning)
            ),
            [only] => Ok((*only).to_owned()),
            several => bail!(
                "the policy {} was in force as several versions, since tools were disabled: {}; name one of them",
                plain(beginning),
                plain(&several.join(", "))
            ),
        }
    };
    named.iter().map(one).collect()
}
