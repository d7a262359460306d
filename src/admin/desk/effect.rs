//! What kind of thing a call does, by the actions of its contract: a word, a colour and a shape, so
//! that no operator has to tell colours apart.

/// The worst of what a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    /// It reads.
    Reads,
    /// It changes something.
    Writes,
    /// It sends a message.
    Notifies,
    /// It deletes.
    Deletes,
    /// It moves money.
    Pays,
    /// It gives rights away.
    Grants,
    /// Nothing takes it back.
    Irreversible,
}

impl Effect {
    /// The worst of `actions`.
    pub(super) fn of(actions: &[String], irreversible: bool) -> Self {
        let each = actions.iter().map(|action| match action.as_str() {
            "read" => Self::Reads,
            "notify" => Self::Notifies,
            "delete" => Self::Deletes,
            "pay" => Self::Pays,
            "grant" => Self::Grants,
            _ => Self::Writes,
        });
        let worst = irreversible.then_some(Self::Irreversible);
        each.chain(worst).max().unwrap_or(Self::Writes)
    }

    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "changes data",
            Self::Notifies => "sends a message",
            Self::Deletes => "deletes",
            Self::Pays => "moves money",
            Self::Grants => "gives rights",
            Self::Irreversible => "cannot be undone",
        }
    }

    /// The class of its elements.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Reads | Self::Writes | Self::Notifies => "calm",
            Self::Deletes | Self::Pays | Self::Grants => "dear",
            Self::Irreversible => "final",
        }
    }

    /// A shape beside the word.
    pub(super) fn shape(self) -> &'static str {
        match self {
            Self::Reads => "○",
            Self::Writes | Self::Notifies => "●",
            Self::Deletes => "▼",
            Self::Pays => "◆",
            Self::Grants => "▲",
            Self::Irreversible => "■",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_counts() {
        let of = |actions: &[&str], irreversible| {
            let actions: Vec<_> = actions.iter().map(|action| (*action).to_owned()).collect();
            Effect::of(&actions, irreversible).words()
        };
        assert_eq!(of(&["read", "pay", "write"], false), "moves money");
        assert_eq!(of(&["delete", "notify"], false), "deletes");
        assert_eq!(of(&["write"], true), "cannot be undone");
        assert_eq!(of(&[], false), "changes data");
    }
}
