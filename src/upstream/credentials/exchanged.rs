//! Tokens that stand for callers: each is made of the token by which its caller has proved itself
//! (RFC 8693), is shown for that caller alone, and ends no later than what it was made of.

use super::TokenFetcher;
use super::classes::SubjectName;
use super::grant::TokenGrant;
use super::source::TokenSource;
use super::terms::{ExchangeTerms, Otherwise};
use crate::model::caller::{Caller, CallerProof};
use crate::model::clock::Clock;
use crate::model::reply::{CredentialLack, Fault};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Callers whose tokens are kept; where more come, the one that was not heard of for longest goes.
const SUBJECTS_MAX: usize = 4096;
/// Tokens of one caller that are kept: its programs may each have one.
const PROOFS_MAX: usize = 4;

/// All of them, of one server.
pub(super) struct ExchangedTokens {
    terms: ExchangeTerms,
    fetcher: Arc<TokenFetcher>,
    clock: Clock,
    known: Mutex<KnownSubjects>,
}

#[derive(Default)]
struct KnownSubjects {
    subjects: HashMap<Arc<SubjectName>, KnownSubject>,
    /// Rises with each request.
    turn: u64,
}

/// A caller, and what it has proved itself by, the latest last.
struct KnownSubject {
    turn: u64,
    proofs: Vec<([u8; 32], Arc<TokenSource>)>,
}

impl ExchangedTokens {
    pub(super) fn new(terms: ExchangeTerms, fetcher: Arc<TokenFetcher>, clock: Clock) -> Self {
        Self {
            terms,
            fetcher,
            clock,
            known: Mutex::default(),
        }
    }

    /// In whose name a request of `caller` is, whose token is noted; none: in toolgate's own.
    pub(super) fn name_of(&self, caller: &Caller) -> Result<Option<Arc<SubjectName>>, Fault> {
        let Some((issued, proof)) = caller.proof() else {
            return match self.terms.otherwise {
                Otherwise::ClientCredentials => Ok(None),
                Otherwise::Refuse => Err(no_proof()),
            };
        };
        let name = Arc::new(SubjectName {
            whose: caller.key(),
            issuer: issued.issuer.clone(),
            subject: issued.subject.clone(),
        });
        self.note(&name, proof);
        Ok(Some(name))
    }

    /// Notes what a caller has proved itself by, unless that is over.
    fn note(&self, name: &Arc<SubjectName>, proof: &CallerProof) {
        let mut known = self.known.lock();
        known.turn += 1;
        let turn = known.turn;
        if let Some(subject) = known.subjects.get_mut(name) {
            subject.turn = turn;
            if subject.proofs.iter().any(|(one, _)| *one == proof.digest) {
                return;
            }
        }
        let (now, left) = (self.clock.steady(), self.left(proof));
        if left.is_zero() {
            return;
        }
        if !known.subjects.contains_key(name) && known.subjects.len() >= SUBJECTS_MAX {
            let oldest = known.subjects.iter().min_by_key(|(_, one)| one.turn);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|name| known.subjects.remove(&name));
        }
        let source = Arc::new(self.source_of(proof, now + left));
        let subject = known.subjects.entry(name.clone());
        let subject = subject.or_insert_with(|| KnownSubject {
            turn,
            proofs: Vec::new(),
        });
        subject.proofs.retain(|(_, one)| !one.is_over(now));
        if subject.proofs.len() >= PROOFS_MAX {
            subject.proofs.remove(0);
        }
        subject.proofs.push((proof.digest, source));
    }

    /// For how long the token still counts.
    fn left(&self, proof: &CallerProof) -> Duration {
        let wall = self.clock.wall().as_duration().as_secs_f64();
        Duration::try_from_secs_f64(proof.until - wall).unwrap_or_default()
    }

    fn source_of(&self, proof: &CallerProof, end: Duration) -> TokenSource {
        let (fetcher, token) = (self.fetcher.clone(), proof.token.clone());
        let kind = self.terms.subject_token_type;
        TokenSource::new(self.clock, Some(end), move || {
            let (fetcher, token) = (fetcher.clone(), token.clone());
            async move { fetcher.fetch(TokenGrant::Exchange(kind, token)).await }.boxed()
        })
    }

    /// Where the token for requests in that name comes from: made of the one with this digest, else of
    /// the latest.
    ///
    /// # Errors
    ///
    /// When there is none that counts still: the caller has to come again.
    pub(super) fn source(
        &self,
        name: &Arc<SubjectName>,
        made_of: Option<&[u8; 32]>,
    ) -> Result<Arc<TokenSource>, Fault> {
        let (known, now) = (self.known.lock(), self.clock.steady());
        let proofs = known.subjects.get(name).map(|one| one.proofs.as_slice());
        let good = || {
            let all = proofs.unwrap_or_default().iter().rev();
            all.filter(|(_, one)| !one.is_over(now))
        };
        let exact = good().find(|(digest, _)| Some(digest) == made_of);
        let found = exact.or_else(|| good().next());
        found.map(|(_, source)| source.clone()).ok_or_else(no_proof)
    }
}

fn no_proof() -> Fault {
    Fault {
        lack: Some(CredentialLack::Proof),
        ..Fault::unsent(
            "the tool server is asked in the name of its caller, whose own token is not at hand or is over",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fetcher;
    use super::*;
    use crate::model::caller::IssuedIdentity;
    use crate::model::clock::hands::TestClock;
    use crate::model::secret::Secret;

    fn exchanged(hands: &'static TestClock, otherwise: Otherwise) -> ExchangedTokens {
        let terms = ExchangeTerms {
            subject_token_type: super::super::terms::SubjectTokenType::default(),
            otherwise,
        };
        ExchangedTokens::new(terms, fetcher(), hands.clock())
    }

    /// A caller who has proved itself by token `number`, which counts for `left` seconds.
    fn caller(hands: &'static TestClock, subject: &str, number: u8, left: f64) -> Caller {
        let until = hands.clock().wall().as_duration().as_secs_f64() + left;
        let proof = CallerProof {
            token: Secret::new(format!("token {number}")),
            digest: [number; 32],
            until,
        };
        let issued = IssuedIdentity {
            issuer: "https://login.example.com".to_owned(),
            subject: Some(subject.to_owned()),
            proof: Some(proof),
        };
        Caller {
            issued: Some(Arc::new(issued)),
            ..Caller::named("bot")
        }
    }

    /// One agent for two people is two callers, and each token of one of them is told from the others.
    #[test]
    fn no_two_callers_share_a_token() {
        let hands = TestClock::new();
        let all = exchanged(hands, Otherwise::Refuse);
        let name = |subject, number| {
            let caller = caller(hands, subject, number, 60.0);
            all.name_of(&caller).unwrap().unwrap()
        };
        let (ada, bob) = (name("ada", 1), name("bob", 2));
        assert_ne!(ada, bob);
        let of = |name, digest: u8| all.source(name, Some(&[digest; 32])).unwrap();
        let is_same = |one: &Arc<TokenSource>, other: &Arc<TokenSource>| Arc::ptr_eq(one, other);
        assert!(!is_same(&of(&ada, 1), &of(&bob, 2)));
        let first = of(&ada, 1);
        assert_eq!(name("ada", 3), ada, "a newer token makes no other caller");
        assert!(is_same(&of(&ada, 1), &first));
        assert!(!is_same(&of(&ada, 3), &first));
        let latest = all.source(&ada, None).unwrap();
        assert!(is_same(&latest, &of(&ada, 3)));
    }

    /// What was made of a token is over with it; then its caller has to come again.
    #[test]
    fn nothing_outlives_what_it_was_made_of() {
        let hands = TestClock::new();
        let all = exchanged(hands, Otherwise::ClientCredentials);
        let ada = caller(hands, "ada", 1, 60.0);
        let name = all.name_of(&ada).unwrap().unwrap();
        hands.pass(Duration::from_secs(59));
        assert!(all.source(&name, None).is_ok());
        hands.pass(Duration::from_secs(1));
        let again = all.name_of(&ada).unwrap().unwrap();
        let lacking = all.source(&again, Some(&[1; 32])).err().unwrap();
        assert_eq!(
            lacking.lack,
            Some(CredentialLack::Proof),
            "not toolgate's own"
        );
        assert!(!lacking.is_outage());
    }

    #[test]
    fn who_brings_no_token_is_refused_unless_it_is_said_otherwise() {
        let hands = TestClock::new();
        let plain = Caller::named("bot");
        let refused = exchanged(hands, Otherwise::Refuse).name_of(&plain);
        assert_eq!(refused.unwrap_err().lack, Some(CredentialLack::Proof));
        let own = exchanged(hands, Otherwise::ClientCredentials).name_of(&plain);
        assert_eq!(own.unwrap(), None);
    }

    /// However many come, so many are kept; who was heard of last stays.
    #[test]
    fn what_is_kept_is_bounded() {
        let hands = TestClock::new();
        let all = exchanged(hands, Otherwise::Refuse);
        let first = caller(hands, "first", 1, 60.0);
        let name = all.name_of(&first).unwrap().unwrap();
        for number in 0..SUBJECTS_MAX {
            let other = caller(hands, &format!("other {number}"), 2, 60.0);
            all.name_of(&other).unwrap();
            all.name_of(&first).unwrap();
        }
        assert_eq!(all.known.lock().subjects.len(), SUBJECTS_MAX);
        assert!(all.source(&name, None).is_ok());
        for number in 0..2 * PROOFS_MAX {
            let number = u8::try_from(number).unwrap();
            all.name_of(&caller(hands, "first", number, 60.0)).unwrap();
        }
        assert_eq!(all.known.lock().subjects[&name].proofs.len(), PROOFS_MAX);
    }
}
