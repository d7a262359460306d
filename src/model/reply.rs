//! What comes back for a call, and what can break on the way.

/// Something broke between us and a tool server. Operators read it; the agent reads the refusal made of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Fault {
    /// In words, for logs and the ledger.
    pub what: String,
    /// Whether a byte of the message may have left.
    pub sent: Sent,
}

/// Whether a byte of a message may have left us. Decides if it may be sent again (SEMANTICS §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Proof that no byte left.
    Nothing,
    /// A byte may have left.
    Maybe,
}

impl Fault {
    /// Broke before any byte left.
    pub fn unsent(what: impl Into<String>) -> Self {
        Self { what: what.into(), sent: Sent::Nothing }
    }

    /// Broke after a byte may have left.
    pub fn after_sending(what: impl Into<String>) -> Self {
        Self { what: what.into(), sent: Sent::Maybe }
    }
}
