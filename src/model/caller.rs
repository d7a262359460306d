//! Who calls: one immutable record, made once when the message arrives (001-60).

use super::digest::Digest;
use super::ids::{AgentId, TenantId, UserId};
use super::rate::Meter;
use super::reads::SchemaReader;
use super::secret::Secret;
use std::sync::Arc;

/// The identity behind a message. Built by `guards::identity` from a credential, never from what a
/// message claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The agent.
    pub agent: AgentId,
    /// The tenant it acts for.
    pub tenant: Option<TenantId>,
    /// The person it acts for, where one is named; none is a person of its own.
    pub user: Option<UserId>,
    /// May it name that person itself, in `_meta`? Strictly from the configuration.
    pub names_users: bool,
    /// Is a request of it refused that names no such person?
    pub needs_user: bool,
    /// Its roles.
    pub roles: Vec<String>,
    /// The team it belongs to.
    pub group: Option<String>,
    /// The model it runs on, as `provider/model`.
    pub model: Option<String>,
    /// May it use owner-only tools? Strictly from the configuration (001-03).
    pub owner: bool,
    /// The profile whose layer holds for it (001-05).
    pub profile: Option<String>,
    /// Where it runs (001-12).
    pub environment: Option<String>,
    /// Every entry of the agent that started it: it sees nothing that one of them does not see
    /// (001-13).
    pub parents: Vec<Arc<Self>>,
    /// Which schemas and names it can be shown (001-19).
    pub reads: SchemaReader,
    /// The URI of the certificate by which it proved itself, if it did so.
    pub certificate: Option<Arc<str>>,
    /// How fast its messages may follow each other; none: as fast as they come.
    pub pace: Option<Arc<Meter>>,
    /// Who has named it in a token; none: the configuration, or a token that is not at hand any more.
    pub issued: Option<Arc<IssuedIdentity>>,
}

/// Whose word it is that a caller is who it is, for the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedIdentity {
    /// The issuer of its token.
    pub issuer: String,
    /// Whom the token is about, as its issuer calls them.
    pub subject: Option<String>,
    /// The token itself, where a tool server is shown one that is made of it.
    pub proof: Option<CallerProof>,
}

/// A token by which a caller has proved itself. It stays in memory, and goes only to where it is
/// exchanged. All are equal: a caller that comes with another one is the same.
#[derive(Debug, Clone)]
pub struct CallerProof {
    /// The token.
    pub token: Secret,
    /// SHA-256 of it.
    pub digest: [u8; 32],
    /// When it ends, in seconds since 1970.
    pub until: f64,
}

impl PartialEq for CallerProof {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CallerProof {}

/// Whose something is: what belongs to a caller is kept under it, and found by no other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallerKey {
    /// The agent.
    pub agent: AgentId,
    /// The tenant it acts for.
    pub tenant: Option<TenantId>,
    /// The person it acts for.
    pub user: Option<UserId>,
}

impl Caller {
    /// That agent, of which nothing else is known.
    pub fn named(agent: &str) -> Self {
        Self {
            agent: AgentId::new(agent),
            tenant: None,
            user: None,
            names_users: false,
            needs_user: false,
            roles: Vec::new(),
            group: None,
            model: None,
            owner: false,
            profile: None,
            environment: None,
            parents: Vec::new(),
            reads: SchemaReader::default(),
            certificate: None,
            pace: None,
            issued: None,
        }
    }

    /// Whether both are one agent, acting for one tenant and one user: then what belongs to one
    /// belongs to the other.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_same_agent(other) && self.user == other.user
    }

    /// Whether both are one agent, acting for one tenant, whichever person is behind it.
    pub fn is_same_agent(&self, other: &Self) -> bool {
        (&self.agent, &self.tenant) == (&other.agent, &other.tenant)
    }

    /// Whether it is what `entry`, as configured, stands for, whichever person is behind it, and
    /// whether it came through the front end of that entry or by itself, with a token or a certificate, of
    /// the configuration or of an issuer.
    pub fn is_of_entry(&self, entry: &Self) -> bool {
        let asked = Self {
            user: None,
            needs_user: entry.needs_user,
            certificate: None,
            issued: entry.issued.clone(),
            ..self.clone()
        };
        asked == *entry
    }

    /// The same, acting for `user`.
    #[must_use]
    pub fn for_user(&self, user: UserId) -> Self {
        Self {
            user: Some(user),
            ..self.clone()
        }
    }

    /// The same, acting for nobody but itself.
    #[must_use]
    pub fn as_agent(&self) -> Self {
        Self {
            user: None,
            ..self.clone()
        }
    }

    /// Under which key what belongs to the caller is kept.
    pub fn key(&self) -> CallerKey {
        CallerKey {
            agent: self.agent.clone(),
            tenant: self.tenant.clone(),
            user: self.user.clone(),
        }
    }

    /// For whom it asks, as the ledger has it: the user, where there is one, else the agent.
    pub fn user_id(&self) -> String {
        let named = self.user.as_ref().map(UserId::as_str);
        named.unwrap_or(self.agent.as_str()).to_owned()
    }

    /// The agent, as the ledger has it: where it asks for a user.
    pub fn agent_id(&self) -> Option<String> {
        self.user.as_ref().map(|_| self.agent.to_string())
    }

    /// How it proved itself, as the ledger has it: by which certificate.
    pub fn certificate_id(&self) -> Option<String> {
        self.certificate.as_deref().map(str::to_owned)
    }

    /// Whose token has named it, and the token, where both are at hand.
    pub fn proof(&self) -> Option<(&Arc<IssuedIdentity>, &CallerProof)> {
        let issued = self.issued.as_ref()?;
        Some((issued, issued.proof.as_ref()?))
    }

    /// Whose token has named it, and whom that is about, as the ledger has both.
    pub fn issued_by(&self) -> (Option<String>, Option<String>) {
        let issued = self.issued.as_ref();
        (
            issued.map(|issued| issued.issuer.clone()),
            issued.and_then(|issued| issued.subject.clone()),
        )
    }

    /// Hashes `parts` so that those of two users never give the same. Without a user it is what
    /// records have that know of none.
    pub fn digest(&self, purpose: &str, parts: &[&[u8]]) -> Digest {
        match &self.user {
            None => Digest::of_parts(purpose, parts),
            Some(user) => {
                let purpose = format!("{purpose} of a user");
                Digest::of_parts(&purpose, &[parts, &[user.as_str().as_bytes()]].concat())
            }
        }
    }

    /// The provider of its model: what stands before the first `/`.
    pub fn provider(&self) -> Option<&str> {
        self.model.as_deref().map(|model| {
            model
                .split_once('/')
                .map_or(model, |(provider, _)| provider)
        })
    }
}
