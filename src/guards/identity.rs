//! Refuses a message whose caller is not in the configuration, nor named by an issuer that is.
//!
//! First of all: everything later asks who calls. Tokens are kept as SHA-256 only, and every one of
//! them is compared on every message, so that neither memory nor time tells one.

use super::{CallerRules, Section};
use crate::model::caller::Caller;
use crate::model::clock::Clock;
use crate::model::diagnostic::Problems;
use crate::model::ids::AgentId;
use crate::model::rate::{Meter, RateSettings};
use crate::model::secret::Secret;
use issued::IssuedCallers;
use issued::settings::AuthSettings;
use jwt::rejected::TokenRejected;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use subtle::{ConditionallySelectable, ConstantTimeEq};

pub(crate) mod behind;
pub(crate) mod certificates;
mod class;
mod entry;
mod family;
mod front_ends;
pub(crate) mod issued;
pub(crate) mod jwt;
mod known;
mod schemas;
pub(crate) mod tokens;

use behind::UsersBehind;
use certificates::CertifiedCallers;
pub(crate) use class::{EntryMiss, kept_of};
pub(crate) use schemas::SchemaSettings;
use tokens::{PreviousTokenSettings, TokenEnds, digest, hash};

/// The agent of every message when no callers are configured.
pub(crate) const ANONYMOUS_AGENT: &str = "anonymous";

/// Who may call, as written: the keys `callers`, `front_ends`, `groups` and `auth`.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// The agents.
    pub callers: Vec<CallerSettings>,
    /// Trusted programs that name the agent they speak for.
    pub front_ends: Vec<FrontEndSettings>,
    /// The groups of agents, by name.
    pub groups: BTreeMap<String, GroupSettings>,
    /// The issuers of tokens that name agents.
    pub auth: AuthSettings,
    /// Whether those agents keep their tokens: a tool server is shown what is made of them.
    pub keeps_tokens: bool,
}

/// One agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Caller")]
pub(crate) struct CallerSettings {
    /// The agent's name, in policies and in the ledger.
    pub agent: String,
    /// The bearer token that proves it; 16 bytes or more. Several entries may give one agent
    /// several tokens.
    pub token: Option<Secret>,
    /// Tokens that proved it before, and still do for a while.
    #[serde(default)]
    pub previous: Vec<PreviousTokenSettings>,
    /// The URI in a client certificate that proves it, such as
    /// `spiffe://example.org/ns/agents/sa/support`; the door needs `tls.client_ca`.
    pub certificate: Option<String>,
    /// The name of the front end that speaks for it.
    pub front_end: Option<String>,
    /// The tenant it acts for.
    pub tenant: Option<String>,
    /// Its roles.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The team it belongs to.
    pub group: Option<String>,
    /// The model it runs on, as `provider/model`.
    pub model: Option<String>,
    /// May it use tools that are `owner_only`?
    #[serde(default)]
    pub owner: bool,
    /// The profile whose layer holds for it: `layers.profile` of a policy file has to have it.
    pub profile: Option<String>,
    /// Where it runs: `layers.environment` of a policy file has to have it.
    pub environment: Option<String>,
    /// Who is behind it: `one` person, or a program for itself; or several people, of whom it is
    /// trusted to name one in `_meta["dev.toolgate/user"]` of each request: `meta`.
    pub users: Option<UsersBehind>,
    /// Is a request refused that names no user? [default: true with `users: meta`, and for requests
    /// that come through a front end with a `user_header`]
    pub needs_user: Option<bool>,
    /// The agent that starts it. It sees no tool that its parent does not see, and has no role
    /// that its parent has not.
    pub parent: Option<String>,
    /// Which schemas and names it is shown.
    #[serde(default)]
    pub schemas: SchemaSettings,
    /// Messages of any kind that the agent may send in a span of time, all of them at once at
    /// most: 60000 in 1m if absent. More are answered 429. All entries of one agent share it:
    /// only one of them has to say it.
    pub rate: Option<RateSettings>,
    /// Tool calls that the agent may make for each user in a span of time, all of them at once at
    /// most; calls that name no user are one user's. More are refused with `rate_exceeded`. All
    /// entries of one agent share it.
    pub user_limits: Option<RateSettings>,
    /// Tool calls that the agent, and those it starts, may make in a span of time, all of them at
    /// once at most. More are refused with `rate_exceeded`. All entries of one agent share it.
    pub limits: Option<RateSettings>,
}

/// A group of callers, as written: `groups` of the configuration.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CallerGroup")]
pub(crate) struct GroupSettings {
    /// Calls that all callers of the group may make together in a span of time, all of them at once
    /// at most. More are refused with `rate_exceeded`.
    pub limits: Option<RateSettings>,
}

/// A trusted program between agents and toolgate. Its header counts only in a message that carries
/// its own token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FrontEnd")]
pub(crate) struct FrontEndSettings {
    /// What `callers[].front_end` calls it.
    pub name: String,
    /// The bearer token that proves it; 16 bytes or more.
    pub token: Secret,
    /// Tokens that proved it before, and still do for a while.
    #[serde(default)]
    pub previous: Vec<PreviousTokenSettings>,
    /// The HTTP header in which it names the agent.
    pub header: String,
    /// The HTTP header in which it names the user for whom the agent asks; none: users are not told
    /// apart.
    pub user_header: Option<String>,
}

/// As run.
#[derive(Debug, Clone)]
pub struct Rule {
    tokens: Vec<([u8; 32], TokenHolder)>,
    ends: TokenEnds,
    certified: CertifiedCallers,
    callers: Vec<Arc<Caller>>,
    anonymous: Option<Arc<Caller>>,
    issued: Option<Arc<IssuedCallers>>,
    /// What is asked of callers besides who they are.
    pub(crate) rules: CallerRules,
}

#[derive(Debug, Clone)]
enum TokenHolder {
    Agent(Arc<Caller>),
    FrontEnd {
        header: String,
        user_header: Option<String>,
        agents: HashMap<AgentId, Arc<Caller>>,
    },
}

/// Who has proved itself, before a user is known.
#[derive(Debug)]
pub struct Identified<'r> {
    /// The agent.
    pub caller: Arc<Caller>,
    /// The header in which its front end names the user: no other sender's counts.
    pub user_header: Option<&'r str>,
}

/// Why nobody was recognised. The agent reads only that it was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unauthorized {
    /// No bearer token came.
    #[error(
        "no bearer token came; send `Authorization: Bearer …` with a token of the configuration"
    )]
    NoToken,
    /// The token is not in the configuration.
    #[error("the bearer token is not in the configuration")]
    UnknownToken,
    /// A front end named no agent, or one that it does not speak for.
    #[error("the front end named no agent that it speaks for")]
    UnknownAgent,
    /// The token is none that an issuer vouches for.
    #[error("{0}")]
    Token(TokenRejected),
    /// The certificate names no caller, and no bearer token came.
    #[error(
        "the client certificate names no caller of the configuration, and no bearer token came"
    )]
    UnknownCertificate,
    /// The certificate names more than one caller.
    #[error("the client certificate names two callers of the configuration, so it proves neither")]
    TwoCallers,
    /// Token and certificate are of two callers.
    #[error("the bearer token and the client certificate are of different callers")]
    Contradicted,
    /// An issuer's token and the certificate are of one agent, of which they say different things.
    #[error(
        "the bearer token and the entry of the client certificate's caller differ in the agent's {0}"
    )]
    Unlike(&'static str),
}

// === impl Settings ===

impl Settings {
    /// The tokens by which agents and front-ends are known.
    pub(crate) fn tokens(&self) -> Vec<&Secret> {
        let callers = self.callers.iter();
        let front_ends = self.front_ends.iter();
        callers
            .flat_map(CallerSettings::tokens)
            .chain(front_ends.flat_map(FrontEndSettings::tokens))
            .collect()
    }

    fn judge_groups(&self, problems: &mut Problems) {
        problems.under("groups", |problems| {
            for name in self.groups.keys() {
                let own = self.callers.iter().map(|caller| &caller.group);
                let issued = self.auth.jwt.iter().map(|issuer| &issuer.group);
                if !own.chain(issued).flatten().any(|group| group == name) {
                    problems.under(name, |problems| {
                        problems.error(
                            format!("no caller is of the group `{}`", name.escape_debug()),
                            "name a `group` of `callers`",
                        );
                    });
                }
            }
        });
    }
}

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "callers";

    fn compile(self, problems: &mut Problems) -> Rule {
        let rules = CallerRules::compile(&self, problems);
        self.judge_groups(problems);
        let Self {
            callers,
            front_ends,
            groups: _,
            auth,
            keeps_tokens,
        } = self;
        if callers.is_empty() && front_ends.is_empty() && auth.jwt.is_empty() {
            return Rule::anonymous();
        }
        let mut rule = Rule {
            rules,
            ..Rule::nobody()
        };
        let mut seen = HashSet::new();
        let mut spoken: HashMap<String, HashMap<AgentId, Arc<Caller>>> = HashMap::new();
        let with_header = front_ends
            .iter()
            .map(|one| (one.name.as_str(), one.user_header.is_some()));
        let names: HashMap<&str, bool> = with_header.collect();
        rule.callers = problems.under(Self::NAME, |problems| family::callers(&callers, problems));
        rule.issued = problems.under("auth", |problems| {
            let issued = IssuedCallers::compile(auth, &callers, &rule.callers, problems);
            issued.map(|issued| Arc::new(issued.keeping_tokens(keeps_tokens)))
        });
        problems.under(Self::NAME, |problems| {
            for (index, (settings, caller)) in callers.into_iter().zip(&rule.callers).enumerate() {
                problems.under(index.to_string(), |problems| {
                    let has_header = settings.judge(&names, problems);
                    let spoken_for = behind::spoken_for(caller, &settings, has_header);
                    rule.certified.add(&settings, caller, problems);
                    let token = settings.token.iter();
                    let token: Vec<_> = token.map(|one| digest(one, &mut seen, problems)).collect();
                    let before =
                        tokens::previous(settings.previous, &mut seen, &mut rule.ends, problems);
                    let holder = || TokenHolder::Agent(Arc::clone(caller));
                    let all = token.into_iter().chain(before);
                    rule.tokens.extend(all.map(|digest| (digest, holder())));
                    let of = settings.front_end;
                    let of = of.map(|name| spoken.entry(name).or_default());
                    let agent = caller.agent.clone();
                    if of.is_some_and(|agents| agents.insert(agent, spoken_for).is_some()) {
                        let hint = "one front end speaks for an agent in one entry only";
                        problems.error("this front end speaks for this agent already", hint);
                    }
                });
            }
        });
        problems.under("front_ends", |problems| {
            for (index, front_end) in front_ends.into_iter().enumerate() {
                problems.under(index.to_string(), |problems| {
                    let ends = &mut rule.ends;
                    let known = front_end.compile(&mut spoken, &mut seen, ends, problems);
                    rule.tokens.extend(known);
                });
            }
        });
        rule
    }
}

// === impl Rule ===

impl Rule {
    /// Takes every caller for the agent [`ANONYMOUS_AGENT`], without tenant or roles.
    pub fn anonymous() -> Self {
        let pace = Some(Arc::new(Meter::new(family::DEFAULT_MESSAGE_RATE)));
        let caller = Arc::new(Caller {
            pace,
            ..Caller::named(ANONYMOUS_AGENT)
        });
        Self {
            callers: vec![Arc::clone(&caller)],
            anonymous: Some(caller),
            ..Self::nobody()
        }
    }

    /// Takes nobody for a caller.
    fn nobody() -> Self {
        Self {
            tokens: Vec::new(),
            ends: TokenEnds::default(),
            certified: CertifiedCallers::default(),
            callers: Vec::new(),
            anonymous: None,
            issued: None,
            rules: CallerRules::default(),
        }
    }

    /// Knows `callers` and takes nobody for one of them: for policies that are only tested. Without
    /// any, every caller is [`ANONYMOUS_AGENT`].
    pub fn of(callers: Vec<Arc<Caller>>) -> Self {
        if callers.is_empty() {
            return Self::anonymous();
        }
        Self {
            callers,
            ..Self::nobody()
        }
    }

    /// Who sent a message with this bearer token? `header` gives the value of a header that came
    /// exactly once.
    pub fn identify<'h>(
        &self,
        bearer: Option<&str>,
        header: impl FnOnce(&str) -> Option<&'h str>,
    ) -> Result<Identified<'_>, Unauthorized> {
        let by_itself = |caller: &Arc<Caller>| Identified {
            caller: Arc::clone(caller),
            user_header: None,
        };
        if let Some(caller) = &self.anonymous {
            return Ok(by_itself(caller));
        }
        let bearer = bearer.ok_or(Unauthorized::NoToken)?;
        let digest = hash(bearer);
        let mut found = u64::MAX;
        for (index, (known, _)) in (0_u64..).zip(&self.tokens) {
            found.conditional_assign(&index, known.ct_eq(&digest));
        }
        let holder = usize::try_from(found)
            .ok()
            .and_then(|found| self.tokens.get(found))
            .filter(|(digest, _)| self.ends.lasts(digest));
        let Some((_, holder)) = holder else {
            let issued = self.issued.as_ref().filter(|_| jwt::is_token(bearer));
            let issued = issued.ok_or(Unauthorized::UnknownToken)?;
            return Ok(by_itself(&issued.identify(bearer)?));
        };
        match holder {
            TokenHolder::Agent(caller) => Ok(by_itself(caller)),
            TokenHolder::FrontEnd {
                header: name,
                user_header,
                agents,
            } => header(name)
                .and_then(|agent| agents.get(agent))
                .map(|caller| Identified {
                    user_header: user_header.as_deref(),
                    ..by_itself(caller)
                })
                .ok_or(Unauthorized::UnknownAgent),
        }
    }

    /// Takes the place of `before`. What counts against an agent's `rate` stays counted, also where
    /// that rate is another now.
    pub fn succeed(&self, before: &Self) {
        let paces = |rule: &'_ Self| -> HashMap<AgentId, Arc<Meter>> {
            let paced = rule
                .callers
                .iter()
                .filter_map(|caller| Some((caller.agent.clone(), caller.pace.clone()?)));
            paced.collect()
        };
        self.rules.succeed(&before.rules);
        if let (Some(now), Some(before)) = (&self.issued, &before.issued) {
            now.succeed(before);
        }
        let (had, now) = (paces(before), Clock.steady());
        for (agent, pace) in paces(self) {
            if let Some(had) = had.get(&agent) {
                pace.take_over(had, now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
