//! The tokens of operators, as they stand: they change while toolgate runs.
//! Kept as SHA-256 only, and every one of them is compared each time, so that neither memory nor
//! time tells one.

use crate::guards::identity::tokens::{TokenEnd, TokenEnds, hash};
use crate::model::secret::Secret;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

/// The tokens. A clone is another handle on the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperatorTokens(Arc<ArcSwap<TokenList>>);

#[derive(Debug, Default)]
struct TokenList {
    /// Each with its operator's name.
    known: Vec<([u8; 32], String)>,
    ends: TokenEnds,
    /// Done once another list stands in its place.
    replaced: CancellationToken,
}

/// A token of an operator.
pub(crate) struct TakenToken<'a> {
    /// Whose it is.
    pub(crate) name: &'a str,
    /// The token.
    pub(crate) token: &'a Secret,
    /// Until when it is taken; none: for as long as it is configured.
    pub(crate) end: Option<TokenEnd>,
}

/// What a token showed.
pub(super) struct ProvedOperator {
    /// The operator's name.
    pub(super) name: String,
    /// The digest of the token.
    pub(super) token: [u8; 32],
    /// For how long it counts still, where it has an end.
    pub(super) lasts: Option<Duration>,
}

impl TokenList {
    /// Whether it has the token of that digest, as one of the operator `name`.
    fn has(&self, digest: &[u8; 32], name: &str) -> bool {
        let mut known = self.known.iter();
        known.any(|(known, whose)| known == digest && whose == name)
    }
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
        self.0.swap(Arc::new(list)).replaced.cancel();
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
            lasts: list.ends.left(&digest),
        })
    }

    /// Takes those away that are none of `tokens` any more, by their operators.
    pub(crate) fn keep<'a>(&self, tokens: impl IntoIterator<Item = TakenToken<'a>>) {
        let before = self.0.load();
        let is_known = |token: &TakenToken<'_>| {
            let digest = hash(token.token.expose());
            before.has(&digest, token.name) && before.ends.lasts(&digest)
        };
        self.put(tokens.into_iter().filter(is_known));
    }

    /// Whether the token of that digest is taken, which the operator `name` has shown before.
    pub(super) fn is_taken(&self, digest: &[u8; 32], name: &str) -> bool {
        let list = self.0.load();
        list.has(digest, name) && list.ends.lasts(digest)
    }

    /// Ends when the token of that digest, which the operator `name` has shown before, is taken no more.
    pub(super) async fn ends(&self, digest: &[u8; 32], name: &str) {
        loop {
            // The list first: what takes its place after the look wakes this.
            let (replaced, left) = {
                let list = self.0.load();
                (list.replaced.clone(), list.ends.left(digest))
            };
            if !self.is_taken(digest, name) {
                return;
            }
            let left = left.unwrap_or(Duration::MAX);
            let _ = tokio::time::timeout(left, replaced.cancelled()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::clock::Clock;
    use futures_util::FutureExt as _;

    /// threat-model §3E: what stands open for a token ends when other tokens take its place, or its time is over;
    /// the same once more end nothing.
    #[tokio::test(start_paused = true)]
    async fn what_a_token_opened_ends_with_it() {
        let [kept, gone, timed] = [
            "kept-0123456789abcdef",
            "gone-0123456789abcdef",
            "timed-0123456789abcdef",
        ]
        .map(|token| Secret::new(token.to_owned()));
        let end = Some(TokenEnd::at(Clock.wall() + Duration::from_mins(1), Clock));
        let of = |secret, end| TakenToken {
            name: "ann",
            token: secret,
            end,
        };
        let tokens = OperatorTokens::default();
        tokens.put([of(&kept, None), of(&gone, None), of(&timed, end)]);
        let digests = [&kept, &gone, &timed].map(|token| hash(token.expose()));
        let [of_kept, of_gone, of_timed] = digests
            .each_ref()
            .map(|digest| Box::pin(tokens.ends(digest, "ann")));
        let (mut of_kept, mut of_gone) = (of_kept, of_gone);
        for _ in 0..2 {
            let soon = Duration::from_secs(9);
            assert!(tokio::time::timeout(soon, &mut of_gone).await.is_err());
            tokens.put([of(&kept, None), of(&gone, None), of(&timed, end)]);
        }
        tokens.put([of(&kept, None), of(&timed, end)]);
        of_gone.now_or_never().expect("it is taken no more");
        assert!(
            tokio::time::timeout(Duration::from_hours(1), &mut of_kept)
                .await
                .is_err()
        );
        tokens.put([
            of(&kept, None),
            of(&timed, Some(TokenEnd::at(Clock.wall(), Clock))),
        ]);
        of_timed.now_or_never().expect("its time is over");
    }

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
        let end = |until: &str| Some(TokenEnd::at(until.parse().unwrap(), Clock));
        let tokens = OperatorTokens::default();
        let name = |token| tokens.proved(token).map(|proved| proved.name);
        tokens.put([
            of(&secrets[0], None),
            of(&secrets[1], end("2999-12-24T08:00:00Z")),
        ]);
        assert_eq!(
            [name(new), name(old)],
            [Some("ann".to_owned()), Some("ann".to_owned())]
        );
        let proved = tokens.proved(old).unwrap();
        let shown = proved.token;
        assert!(proved.lasts.is_some() && tokens.proved(new).unwrap().lasts.is_none());
        assert!(tokens.is_taken(&shown, "ann"));
        assert!(!tokens.is_taken(&shown, "bob"), "it is another's");
        tokens.put([
            of(&secrets[0], None),
            of(&secrets[1], end("1999-12-24T08:00:00Z")),
        ]);
        assert_eq!(
            [name(new), name(old)],
            [Some("ann".to_owned()), None],
            "its time is over"
        );
        assert!(
            !tokens.is_taken(&shown, "ann"),
            "nor does a sign-in stand for it"
        );
        tokens.put([of(&secrets[0], None)]);
        assert_eq!(
            [name(new), name(old), name("")],
            [Some("ann".to_owned()), None, None]
        );
    }
    /// threat-model §3E: what files take away is gone before their policy is judged, and what they give is not there, nor
    /// what they give to another.
    #[test]
    fn what_is_kept_was_there_for_the_same_operator() {
        let secrets = ["kept", "new", "moved"].map(|token| Secret::new(token.to_owned()));
        let of = |name, secret| TakenToken {
            name,
            token: secret,
            end: None,
        };
        let tokens = OperatorTokens::default();
        tokens.put([of("ann", &secrets[0]), of("ann", &secrets[2])]);
        tokens.keep([
            of("ann", &secrets[0]),
            of("ann", &secrets[1]),
            of("bob", &secrets[2]),
        ]);
        let whose = secrets
            .each_ref()
            .map(|token| tokens.proved(token.expose()).map(|proved| proved.name));
        assert_eq!(whose, [Some("ann".to_owned()), None, None]);
    }
}
