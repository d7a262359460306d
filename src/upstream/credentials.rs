//! What a tool server is shown of who asks: tokens that toolgate gets for it from the authorization
//! server of its configuration, by itself or for its callers. Never the token of an agent (protocol §7).
//!
//! Nothing is discovered: a tool server that answers 401 says nothing of where tokens come from.

pub mod classes;
mod exchanged;
mod grant;
mod source;
pub mod terms;
#[cfg(test)]
mod tests;

use super::fetching::Poster;
use crate::model::caller::Caller;
use crate::model::clock::Clock;
use crate::model::ids::ServerName;
use crate::model::reply::{CredentialLack, Fault};
use crate::model::scrub::{KNOWN_SECRETS, MIN_SECRET_BYTES};
use crate::model::secret::Secret;
use classes::{CredentialName, HeaderClass};
use exchanged::ExchangedTokens;
use futures_util::FutureExt as _;
use grant::{IssuedToken, TokenError, TokenGrant};
use http::header::HeaderMap;
use parking_lot::Mutex;
pub(super) use source::TokenSource;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use terms::OauthTerms;

/// What one tool server is shown, whichever caller it is asked for.
#[derive(Default)]
pub struct Credentials {
    /// The first that has a caller is the caller's.
    classes: Vec<HeaderClass>,
    tokens: Option<ServerTokens>,
}

/// What was fetched for a server since toolgate was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TokenTally {
    /// Tokens that came.
    pub(crate) fetched: u64,
    /// Fetches of which none came.
    pub(crate) failed: u64,
    /// Why none came, if the last fetch was one of these.
    pub(crate) last_error: Option<String>,
}

/// The tokens of one server.
struct ServerTokens {
    fetcher: Arc<TokenFetcher>,
    /// toolgate's own.
    own: Arc<TokenSource>,
    /// Those that stand for callers, if callers are told apart so.
    exchanged: Option<ExchangedTokens>,
}

/// What asks the token endpoint.
struct TokenFetcher {
    server: ServerName,
    terms: OauthTerms,
    poster: Arc<Poster>,
    fetched: AtomicU64,
    failed: AtomicU64,
    last_error: Mutex<Option<String>>,
}

// === impl Credentials ===

impl Credentials {
    /// Those of `server`, which wants tokens of `terms`. Nothing is fetched yet.
    pub(crate) fn of(server: &ServerName, terms: Option<OauthTerms>, poster: Arc<Poster>) -> Self {
        let tokens = terms.map(|terms| ServerTokens::new(server, terms, poster));
        Self {
            classes: Vec::new(),
            tokens,
        }
    }

    /// The same, with these headers for some callers.
    #[must_use]
    pub fn with_classes(self, classes: Vec<HeaderClass>) -> Self {
        Self { classes, ..self }
    }

    /// The headers of each class, in order.
    pub(super) fn class_headers(&self) -> impl Iterator<Item = &HeaderMap> {
        self.classes.iter().map(|class| &class.headers)
    }

    /// In whose name a request of `caller` is; none where all are shown the same.
    ///
    /// # Errors
    ///
    /// When the server is not to be asked for this caller.
    pub(super) fn name_of(&self, caller: &Caller) -> Result<Option<CredentialName>, Fault> {
        let exchanged = self.tokens.as_ref();
        let exchanged = exchanged.and_then(|tokens| tokens.exchanged.as_ref());
        if self.classes.is_empty() && exchanged.is_none() {
            return Ok(None);
        }
        let class = self.classes.iter().position(|class| class.has(caller));
        let subject = match exchanged {
            Some(exchanged) => exchanged.name_of(caller)?,
            None => None,
        };
        Ok(Some(CredentialName { class, subject }))
    }

    /// Whether every request carries a token.
    pub(super) fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Where the token comes from that requests in that name are shown; none where they are shown
    /// none. `made_of`: the digest of what their caller proved itself by.
    ///
    /// # Errors
    ///
    /// When none stands for the caller: then nothing is to be sent.
    pub(super) fn source(
        &self,
        name: &CredentialName,
        made_of: Option<&[u8; 32]>,
    ) -> Result<Option<Arc<TokenSource>>, Fault> {
        let Some(tokens) = &self.tokens else {
            return Ok(None);
        };
        match name.subject.as_ref().zip(tokens.exchanged.as_ref()) {
            Some((subject, exchanged)) => exchanged.source(subject, made_of).map(Some),
            None => Ok(Some(tokens.own.clone())),
        }
    }

    /// What was fetched; none where no tokens are.
    pub(crate) fn tally(&self) -> Option<TokenTally> {
        let fetcher = &self.tokens.as_ref()?.fetcher;
        Some(TokenTally {
            fetched: fetcher.fetched.load(Ordering::Relaxed),
            failed: fetcher.failed.load(Ordering::Relaxed),
            last_error: fetcher.last_error.lock().clone(),
        })
    }
}

// === impl ServerTokens ===

impl ServerTokens {
    fn new(server: &ServerName, terms: OauthTerms, poster: Arc<Poster>) -> Self {
        let fetcher = Arc::new(TokenFetcher::new(server, terms, poster));
        let own_fetcher = fetcher.clone();
        let own = TokenSource::new(Clock, None, move || {
            let fetcher = own_fetcher.clone();
            async move { fetcher.fetch(TokenGrant::ClientCredentials).await }.boxed()
        });
        let exchange = fetcher.terms.exchange;
        Self {
            exchanged: exchange.map(|terms| ExchangedTokens::new(terms, fetcher.clone(), Clock)),
            own: Arc::new(own),
            fetcher,
        }
    }
}

// === impl TokenFetcher ===

impl TokenFetcher {
    fn new(server: &ServerName, terms: OauthTerms, poster: Arc<Poster>) -> Self {
        Self {
            server: server.clone(),
            terms,
            poster,
            fetched: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            last_error: Mutex::default(),
        }
    }

    async fn fetch(&self, grant: TokenGrant) -> Result<IssuedToken, Fault> {
        let is_own = matches!(grant, TokenGrant::ClientCredentials);
        match grant::fetch(self.poster.as_ref(), &self.terms, &grant).await {
            Ok(issued) => {
                self.fetched.fetch_add(1, Ordering::Relaxed);
                *self.last_error.lock() = None;
                if is_own {
                    self.looks_for(&issued);
                }
                Ok(issued)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// A server that repeats toolgate's own token is not handed on with it.
    fn looks_for(&self, issued: &IssuedToken) {
        let written = issued.value.to_str().ok();
        let token = written.and_then(|written| written.strip_prefix(grant::BEARER_PREFIX));
        let Some(token) = token.filter(|token| token.len() >= MIN_SECRET_BYTES) else {
            return;
        };
        let token = Arc::new(Secret::new(token.to_owned()));
        let name = format!("token_of_{}", self.server);
        if KNOWN_SECRETS.add(&name, &token).is_err() {
            tracing::warn!(server = %self.server, "the token for the tool server is not looked for in what the server says: there are too many secrets");
        }
    }

    fn failed(&self, error: &TokenError) -> Fault {
        let (server, place) = (&self.server, self.terms.place());
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut last = self.last_error.lock();
        let words = error.to_string();
        // Once a fault, however often it is tried.
        if last.as_ref() != Some(&words) {
            tracing::warn!(%server, token_endpoint = place, error = words, "no token for the tool server");
        }
        let what = format!("no token for the tool server: the token endpoint {place}: {words}");
        *last = Some(words);
        Fault {
            lack: Some(CredentialLack::Token),
            ..Fault::unsent(what)
        }
    }
}
