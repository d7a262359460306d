//! Whether what the files say is what is in force: for who proves something of the files.

use super::LivePolicy;

impl LivePolicy {
    /// What tells the files that are in force from all others, read anew; none where they say something else
    /// by now, or have errors. Reads from disk: not for an async task.
    pub(crate) fn files_in_force(&self) -> Option<[u8; 32]> {
        let _alone = self.reading.lock();
        let now = (self.read)().fingerprint;
        let state = self.state.lock();
        (now == state.fingerprint && !state.status.stale()).then_some(now)
    }
}
