//! Tokens that an issuer has signed (RFC 7519, RFC 9068), checked against the issuer's public keys:
//! its algorithm before anything is done with it, its signature before anything is believed, then
//! its audience and its time. What is checked is the same at both doors; whom it makes of the sender
//! is theirs to say.

mod algorithm;
pub(crate) mod claims;
pub(crate) mod key_ring;
pub(crate) mod key_set;
pub(crate) mod rejected;
#[cfg(test)]
pub(crate) mod signing;
#[cfg(test)]
mod tests;
mod token;
pub(crate) mod verified;
pub(crate) mod written;

use crate::model::address::is_trustworthy;
use crate::model::clock::Clock;
use crate::model::diagnostic::Problems;
use crate::model::times::between;
pub(crate) use algorithm::SigningAlgorithm;
use claims::Claims;
use key_ring::{IssuerKeySource, KeyRing};
use key_set::IssuerKey;
use rejected::TokenRejected;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use token::SignedToken;

/// How far the clocks of an issuer and of this machine may be apart.
const LEEWAY_BOUNDS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(5);
const DEFAULT_LEEWAY: Duration = Duration::from_secs(30);
/// For how long keys count that cannot be fetched anew.
const MAX_STALE_BOUNDS: RangeInclusive<Duration> =
    Duration::from_mins(1)..=Duration::from_hours(24);
const DEFAULT_MAX_STALE: Duration = Duration::from_hours(1);

/// Bytes of a token (threat-model §8).
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Issuers of one door at most.
const MAX_ISSUERS: usize = 16;

/// What both doors are told of an issuer, as written.
#[derive(Debug, Default)]
pub(crate) struct IssuerTerms {
    /// What `iss` of its tokens says: an address.
    pub(crate) issuer: String,
    /// What `aud` of its tokens has to name.
    pub(crate) audience: String,
    /// Where its keys are: this, or `jwks_file`.
    pub(crate) jwks_url: Option<String>,
    /// The file that they are in.
    pub(crate) jwks_file: Option<String>,
    /// What may sign; none: what usually does.
    pub(crate) algs: Vec<SigningAlgorithm>,
    /// How far its clock may be off, from 0 to 5m; `30s` if absent.
    pub(crate) leeway: Option<String>,
    /// For how long its last keys count, from 1m to 24h; `1h` if absent.
    pub(crate) max_stale: Option<String>,
}

/// An issuer, as run.
#[derive(Debug)]
pub(crate) struct Issuer {
    /// Its name: what `iss` of its tokens says.
    pub(crate) name: String,
    audience: String,
    algorithms: Vec<SigningAlgorithm>,
    /// Seconds.
    leeway: f64,
    /// Its keys.
    pub(crate) ring: Arc<KeyRing>,
}

/// A token that was checked.
#[derive(Debug)]
pub(crate) struct CheckedToken {
    /// What it says.
    pub(crate) claims: Claims,
    /// Until when it counts, in seconds since 1970.
    pub(crate) until: f64,
    /// When it ends, as it says itself.
    pub(crate) expires: f64,
    /// The keys it was checked by.
    pub(crate) generation: u64,
    /// The one of them that has signed it.
    pub(crate) key: Arc<IssuerKey>,
}

/// The moment at which a token is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenMoment {
    /// Seconds since 1970: tokens speak of wall time.
    pub(crate) wall: f64,
    /// On the steady clock, by which keys get old.
    pub(crate) steady: Duration,
}

impl TokenMoment {
    /// Now, by `clock`.
    pub(crate) fn at(clock: Clock) -> Self {
        Self {
            wall: clock.wall().as_duration().as_secs_f64(),
            steady: clock.steady(),
        }
    }
}

// === impl IssuerTerms ===

impl IssuerTerms {
    /// As run; what is wrong is noted.
    pub(crate) fn compile(self, problems: &mut Problems) -> Issuer {
        problems.under("issuer", |problems| {
            if !self.issuer.starts_with("https://") && !self.issuer.starts_with("http://") {
                let hint =
                    "write the value of `iss` of its tokens, such as https://login.example.com";
                problems.error("is no address of an issuer", hint);
            }
        });
        problems.under("audience", |problems| {
            if self.audience.trim() != self.audience || self.audience.is_empty() {
                let hint = "write the value of `aud` that its tokens for this server have";
                problems.error("is blank or has blanks around it", hint);
            }
        });
        let leeway = between("leeway", self.leeway.as_deref(), LEEWAY_BOUNDS, problems);
        let max_stale = self.max_stale.as_deref();
        let max_stale = between("max_stale", max_stale, MAX_STALE_BOUNDS, problems);
        let source = source(self.jwks_url, self.jwks_file, problems);
        let algorithms = if self.algs.is_empty() {
            SigningAlgorithm::USUAL.to_vec()
        } else {
            self.algs
        };
        let max_stale = max_stale.unwrap_or(DEFAULT_MAX_STALE);
        Issuer {
            ring: Arc::new(KeyRing::new(self.issuer.clone(), source, max_stale)),
            name: self.issuer,
            audience: self.audience,
            algorithms,
            leeway: leeway.unwrap_or(DEFAULT_LEEWAY).as_secs_f64(),
        }
    }
}

fn source(url: Option<String>, file: Option<String>, problems: &mut Problems) -> IssuerKeySource {
    match (url, file) {
        (Some(url), None) => {
            problems.under("jwks_url", |problems| judge_url(&url, problems));
            IssuerKeySource::Url(url)
        }
        (None, Some(file)) => IssuerKeySource::File(PathBuf::from(file)),
        (url, _) => {
            problems.error(
                "needs either `jwks_url` or `jwks_file`",
                "name the one place where the issuer's public keys are",
            );
            IssuerKeySource::Url(url.unwrap_or_default())
        }
    }
}

fn judge_url(url: &str, problems: &mut Problems) {
    if !is_trustworthy(url) {
        let hint = "write an https:// address without a user, such as https://login.example.com/jwks; http:// only to this \
                    machine";
        problems.error("is no address to take keys from", hint);
    }
}

// === impl Issuer ===

impl Issuer {
    /// Checks `token`, which names this issuer, at this moment.
    fn check(
        &self,
        token: &SignedToken<'_>,
        at: TokenMoment,
    ) -> Result<CheckedToken, TokenRejected> {
        if !self.algorithms.contains(&token.by) {
            return Err(TokenRejected::Algorithm);
        }
        let good = self.ring.good(at.steady)?;
        let id = token.key_id.as_deref();
        if id.is_some_and(|id| !good.keys.has(id)) {
            return Err(self.ring.why_unknown(id, at.steady));
        }
        let fitting = good.keys.fitting(id, token.by);
        if fitting.is_empty() {
            return Err(TokenRejected::UnknownKey);
        }
        let has_signed = |key: &&Arc<IssuerKey>| {
            let by = &key.material;
            token.by.has_signed(by, token.signed, &token.signature)
        };
        let key = fitting.into_iter().find(has_signed);
        let key = key.ok_or(TokenRejected::Signature)?.clone();
        let claims = Claims(token.claims.value());
        let until = self.judge(&claims, at.wall)?;
        Ok(CheckedToken {
            claims,
            until,
            expires: until - self.leeway,
            generation: good.generation,
            key,
        })
    }

    /// For whom and when it is; until when, with the leeway.
    fn judge(&self, claims: &Claims, now: f64) -> Result<f64, TokenRejected> {
        if !claims.is_for(&self.audience) {
            return Err(TokenRejected::Audience);
        }
        let until = claims.time("exp")?.ok_or(TokenRejected::NoExpiry)? + self.leeway;
        if now >= until {
            return Err(TokenRejected::Expired);
        }
        let from = claims.time("nbf")?.unwrap_or_default() - self.leeway;
        if now < from {
            return Err(TokenRejected::NotYet);
        }
        Ok(until)
    }

    /// Whether a token counts still that was checked by the keys of `generation`: they are the
    /// issuer's keys still, and not too old.
    fn still_checks(&self, generation: u64, at: TokenMoment) -> Result<bool, TokenRejected> {
        let good = self.ring.good(at.steady)?;
        Ok(good.generation == generation)
    }

    /// Whether what was signed by `key` counts still as far as that key goes: it is one of the issuer's,
    /// and they are not too old. Keys that come beside it change nothing.
    pub(crate) fn still_signs(&self, key: &IssuerKey, at: TokenMoment) -> bool {
        let good = self.ring.good(at.steady);
        good.is_ok_and(|good| good.keys.holds(key))
    }

    /// Whether `token` says that it is of this issuer.
    fn named(&self, token: &SignedToken<'_>) -> bool {
        let said = token.claims.get("iss");
        said.is_some_and(|said| said.as_str().is_some_and(|said| said == self.name))
    }
}

/// A token names one issuer, and each entry of a door is of another: `names`, in their order.
pub(crate) fn judge_names(names: &[String], problems: &mut Problems) {
    if names.len() > MAX_ISSUERS {
        let hint = "let one provider issue the tokens of several";
        problems.error(format!("more than {MAX_ISSUERS} issuers"), hint);
    }
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            problems.under(index.to_string(), |problems| {
                problems.under("issuer", |problems| {
                    let hint = "keep one entry an issuer";
                    problems.error("another entry is of the same issuer", hint);
                });
            });
        }
    }
}

/// Checks `token` with the one of `issuers` that it names; which one.
fn check<'i>(
    issuers: impl IntoIterator<Item = &'i Issuer>,
    token: &str,
    at: TokenMoment,
) -> Result<(usize, CheckedToken), TokenRejected> {
    let token = SignedToken::read(token)?;
    let mut issuers = issuers.into_iter().enumerate();
    let named = issuers.find(|(_, issuer)| issuer.named(&token));
    let (index, issuer) = named.ok_or(TokenRejected::Issuer)?;
    Ok((index, issuer.check(&token, at)?))
}

/// The keys that have to be fetched before `token` can be judged, and which of them; none where that
/// would not help.
fn lacking<'i>(
    issuers: impl IntoIterator<Item = &'i Issuer>,
    token: &str,
    at: TokenMoment,
) -> Option<LackingKey> {
    let token = SignedToken::read(token).ok()?;
    let mut issuers = issuers.into_iter();
    let issuer = issuers.find(|issuer| issuer.named(&token))?;
    let id = token.key_id;
    let is_taken = issuer.algorithms.contains(&token.by);
    let wants = is_taken && issuer.ring.wants(id.as_deref(), at.steady);
    wants.then(|| LackingKey {
        ring: issuer.ring.clone(),
        id,
    })
}

/// A key that is not there.
#[derive(Debug)]
pub(crate) struct LackingKey {
    /// Whose keys.
    pub(crate) ring: Arc<KeyRing>,
    /// Which of them, if the token says so.
    pub(crate) id: Option<String>,
}

/// Whether a bearer token can be one of an issuer at all.
pub(crate) fn is_token(bearer: &str) -> bool {
    token::is_like_one(bearer)
}
