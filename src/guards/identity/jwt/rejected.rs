//! Why a token makes nobody of its sender. The words go to the agent, in `error_description`: none of
//! them quotes the token.

use super::super::Unauthorized;
use super::TOKEN_BYTES_MAX;
use std::time::Duration;

/// When an agent may come again whose issuer's keys cannot be had.
const UNAVAILABLE_RETURN_DELAY: Duration = Duration::from_secs(5);
/// The least that an agent is told to wait.
const MIN_RETURN_DELAY: Duration = Duration::from_secs(1);

/// Why one was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenRejected {
    /// More bytes than a token has.
    #[error("the token is longer than {} KiB", TOKEN_BYTES_MAX >> 10)]
    TooLong,
    /// Not three parts of base64url, or not JSON as it has to be.
    #[error("the token is no JWT")]
    Malformed,
    /// `none`: nobody has signed it.
    #[error("the token is not signed")]
    Unsigned,
    /// An algorithm that is not taken from this issuer.
    #[error("the token is signed by an algorithm that is not taken")]
    Algorithm,
    /// An extension that has to be understood.
    #[error("the token's header has an extension that is not understood")]
    Critical,
    /// Made for something else, as its `typ` says.
    #[error("the token's `typ` says that it is no access token")]
    Kind,
    /// The issuer is not in the configuration.
    #[error("the token's issuer is not known here")]
    Issuer,
    /// The issuer has no such key.
    #[error("the token's issuer has no key that it names")]
    UnknownKey,
    /// Not by the key that it names.
    #[error("the token's signature is not by a key of its issuer")]
    Signature,
    /// Made for another audience.
    #[error("the token is for another audience")]
    Audience,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// It has no `exp`.
    #[error("the token has no `exp`")]
    NoExpiry,
    /// Its time has not begun.
    #[error("the token is not valid yet")]
    NotYet,
    /// A claim that the configuration reads is missing, or is none of its kind.
    #[error("the token lacks a claim that this server reads, or has it in another form")]
    Claim,
    /// It names an agent that it may not name.
    #[error("the token names an agent that its issuer may not name here")]
    Agent,
    /// It lacks a scope that is asked for.
    #[error("the token lacks a scope")]
    Scope,
    /// No value of its claim is a role of an operator here.
    #[error("the token gives no operator's role")]
    Role,
    /// The issuer's keys could not be had, or not for too long: nothing is wrong with the token.
    #[error("the keys of the token's issuer cannot be had just now; keep the token and come again")]
    KeysUnavailable,
    /// The issuer's keys are looked for, and were a moment ago.
    #[error("the token's key is looked for; keep the token and come again")]
    KeyPending {
        /// When.
        after: Duration,
    },
}

impl TokenRejected {
    /// One word of it, for metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Unsigned => "unsigned",
            Self::Algorithm => "algorithm",
            Self::Critical => "critical",
            Self::Kind => "kind",
            Self::Issuer => "issuer",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Audience => "audience",
            Self::Expired => "expired",
            Self::NoExpiry => "no_expiry",
            Self::NotYet => "not_yet",
            Self::Claim => "claim",
            Self::Agent => "agent",
            Self::Scope => "scope",
            Self::Role => "role",
            Self::KeysUnavailable => "keys_unavailable",
            Self::KeyPending { .. } => "key_pending",
        }
    }

    /// When to come again with the same token, if nothing is wrong with it.
    pub fn again(self) -> Option<Duration> {
        if let Self::KeyPending { after } = self {
            return Some(after.max(MIN_RETURN_DELAY));
        }
        (self == Self::KeysUnavailable).then_some(UNAVAILABLE_RETURN_DELAY)
    }
}

impl From<TokenRejected> for Unauthorized {
    fn from(rejected: TokenRejected) -> Self {
        Self::Token(rejected)
    }
}
