//! What comes back for a call, and what can break on the way.

/// Something broke between us and a tool server. Operators read it; the agent reads the refusal
/// made of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Fault {
    /// In words, for logs and the ledger.
    pub what: String,
    /// Whether the server may have run it.
    pub sent: Sent,
    /// The HTTP status, 400 to 599, under which no answer to the message came.
    pub status: Option<u16>,
    /// What the server would have to be shown, and is not at hand: then nothing was sent to it.
    pub lack: Option<CredentialLack>,
}

/// What is missing of what a tool server is shown of who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialLack {
    /// The token, which its authorization server has not given.
    Token,
    /// What the caller proved itself by: the token that the server is shown is made of that.
    Proof,
    /// The name of the caller: the session at the server was begun in another.
    Session,
}

/// Whether a message may have had an effect. Decides if it may be sent again (guarantees §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Proof that it had none: no byte left, or the server's protocol says that it took nothing of
    /// it.
    Nothing,
    /// No proof: whatever the server's words were, HTTP statuses among them.
    Maybe,
    /// The server has answered with a result that nobody may read.
    Answered,
}

impl Fault {
    /// The same of a call of which something has left before: whatever broke now, and no status of
    /// that says that the tool did nothing.
    #[must_use]
    pub fn of_later(self) -> Self {
        let sent = match self.sent {
            Sent::Nothing => Sent::Maybe,
            sent @ (Sent::Maybe | Sent::Answered) => sent,
        };
        Self {
            sent,
            status: None,
            lack: None,
            ..self
        }
    }

    /// Broke before any byte left.
    pub fn unsent(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            sent: Sent::Nothing,
            status: None,
            lack: None,
        }
    }

    /// Broke after a byte may have left.
    pub fn after_sending(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            sent: Sent::Maybe,
            status: None,
            lack: None,
        }
    }

    /// Answered with a result that the strict reader refuses.
    pub fn unreadable(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            sent: Sent::Answered,
            status: None,
            lack: None,
        }
    }

    /// The same, of what had to be done before the message could leave: nothing of the message has.
    #[must_use]
    pub fn before_sending(self) -> Self {
        Self {
            sent: Sent::Nothing,
            status: None,
            ..self
        }
    }

    /// Whether it says something of the server as a whole, which may be down, new, or refuse
    /// everybody.
    pub fn is_outage(&self) -> bool {
        let is_servers = self.sent == Sent::Nothing && self.lack.is_none();
        is_servers || matches!(self.status, Some(401 | 404 | 429 | 503))
    }
}
