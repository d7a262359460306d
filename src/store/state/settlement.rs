//! How a claim is settled: by what evidence, and at what charge.

use serde::{Deserialize, Serialize};

/// How we know what became of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The exchange itself: an answer, or how it broke.
    Exchange,
    /// An answer that came after the call was given up.
    Late,
    /// The same call was sent again under the server's own key.
    UpstreamKey,
    /// What the journal held after a crash.
    Restart,
    /// A read that the contract names.
    Probe,
    /// An operator said so.
    Operator {
        /// Who.
        who: String,
        /// Why.
        why: String,
    },
}

/// What becomes of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Charge {
    /// Given back: nothing ran.
    Release,
    /// Kept: nobody knows.
    Hold,
    /// Replaced by what it cost, in millionths.
    Settle(u64),
}
