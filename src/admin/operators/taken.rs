//! The tokens of operators, as they stand: they change while toolgate runs, the operators do not.
//! Kept as SHA-256 only, and every one of them is compared each time, so that neither memory nor
//! time tells one.

use crate::guards::identity::tokens::{TokenEnds, hash};
use crate::model::secret::Secret;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// The tokens. A clone is another handle on the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperatorTokens(Arc<ArcSwap<TokenList>>);

#[derive(Debug, Default)]
struct TokenList {
    /// Each with its operator's name.
    known: Vec<([u8; 32], String)>,
    ends: TokenEnds,
}

/// A token of an operator.
pub(crate) struct TakenToken<'a> {
    /// Whose it is.
    pub(crate) name: &'a str,
    /// The token.
    pub(crate) token: &'a Secret,
    /// Until when it is taken, on the steady clock; none: for as long as it is configured.
    pub(crate) end: Option<Duration>,
}

/// What a token showed.
pub(super) struct ProvedOperator {
    /// The operator's name.
    pub(super) name: String,
    /// The digest of the token.
    pub(super) token: [u8; 32],
}

impl OperatorTokens {
    /// From now on these are taken, and no others.
    pub(crate) fn put<'a>(&self, tokens: impl IntoIterator<Item = TakenToken<'a>>) {
        let mut list = TokenList::default();
        for TakenToken { name, token, end } in tokens {
            let digest = hash(token.expose());
            list.known.push((digest, name.to_owned()));
            list.ends.note(digest, end);
        }
        self.0.store(Arc::new(list));
    }

    /// Whose token it is.
    pub(super) fn proved(&self, token: &str) -> Option<ProvedOperator> {
        let digest = hash(token);
        let list = self.0.load();
        let mut found = None;
        for (known, name) in &list.known {
            if bool::from(known.ct_eq(&digest)) {
                found = Some(name);
            }
        }
        let name = found.filter(|_| list.ends.lasts(&digest))?.clone();
        Some(ProvedOperator {
            name,
            token: digest,
        })
    }

    /// Whether the token of that digest is taken, which was shown before.
    pub(super) fn is_taken(&self, digest: &[u8; 32]) -> bool {
        let list = self.0.load();
        list.known.iter().any(|(known, _)| known == digest) && list.ends.lasts(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 20 "tokens rotate with overlap": both are taken, then the new one alone.
    #[test]
    fn two_tokens_of_one_operator_are_taken_until_one_goes() {
        let [new, old] = ["new-0123456789abcdef", "old-0123456789abcdef"];
        let secrets = [new, old].map(|token| Secret::new(token.to_owned()));
        let of = |secret, end| TakenToken {
            name: "ann",
            token: secret,
            end,
        };
        let tokens = OperatorTokens::default();
        let name = |token| tokens.proved(token).map(|proved| proved.name);
        tokens.put([of(&secrets[0], None), of(&secrets[1], Some(Duration::MAX))]);
        assert_eq!(
            [name(new), name(old)],
            [Some("ann".to_owned()), Some("ann".to_owned())]
        );
        let shown = tokens.proved(old).unwrap().token;
        assert!(tokens.is_taken(&shown));
        tokens.put([of(&secrets[0], None), of(&secrets[1], Some(Duration::ZERO))]);
        assert_eq!(
            [name(new), name(old)],
            [Some("ann".to_owned()), None],
            "its time is over"
        );
        assert!(!tokens.is_taken(&shown), "nor does a sign-in stand for it");
        tokens.put([of(&secrets[0], None)]);
        assert_eq!(
            [name(new), name(old), name("")],
            [Some("ann".to_owned()), None, None]
        );
    }
}
