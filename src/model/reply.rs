//! What comes back for a call, and what can break on the way.

/// Something broke between us and a tool server. Operators read it; the agent reads the refusal made of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Fault {
    /// In words, for logs and the ledger.
    pub what: String,
    /// Whether the server may have run it.
    pub sent: Sent,
    /// The HTTP status that the server answered with instead of a message.
    pub status: Option<u16>,
}

/// Whether a message may have had an effect. Decides if it may be sent again (SEMANTICS §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Proof that it had none: no byte left, or the server refused before running it.
    Nothing,
    /// No proof.
    Maybe,
}

impl Fault {
    /// Broke before any byte left.
    pub fn unsent(what: impl Into<String>) -> Self {
        Self { what: what.into(), sent: Sent::Nothing, status: None }
    }

    /// Broke after a byte may have left.
    pub fn after_sending(what: impl Into<String>) -> Self {
        Self { what: what.into(), sent: Sent::Maybe, status: None }
    }
}
