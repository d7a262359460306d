//! Who keeps the files of each policy that comes in force.

use super::LivePolicy;
use crate::policy::sources::PolicySources;

/// Keeps what a policy was made of. What cannot be kept is said, and comes in force all the same: a
/// full disk must not be why a looser policy stays.
pub trait PolicyKeeper: Send + Sync {
    /// What was made of `sources` is about to come in force as `version`; writes to disk.
    fn comes(&self, sources: &PolicySources, version: &str);

    /// The policy in force is called `version` from now on, because operators have taken tools away
    /// or given them back; writes to disk.
    fn renamed(&self, version: &str);
}

impl LivePolicy {
    /// From now on `keeper` is told; at once of what is in force, which was made of `sources`. Writes
    /// to disk: not for an async task that serves.
    pub fn keep_with(&self, keeper: Box<dyn PolicyKeeper>, sources: &PolicySources) {
        let state = self.state.lock();
        keeper.comes(sources, &state.status.version);
        // The second of two would keep what the first keeps.
        drop(self.keeper.set(keeper));
    }
}
