//! Floor 3: what the files say, compiled into one immutable snapshot.

use crate::guards::budget::TaskLimits;
use crate::guards::pins::Instructions;
use crate::guards::secrets::Bindings;
use crate::guards::{self, Mode, allowlist, hooks, identity, repetition};
use crate::mcp::json::Text;
use crate::mcp::readable::readable_words;
use crate::model::disabled::TakenAway;
use crate::model::ids::ServerName;
use bound::BoundConfiguration;
use sha2::{Digest as _, Sha256};

pub mod bound;
pub mod breakers;
pub(crate) mod bundle;
pub(crate) mod compile;
mod contract_lint;
pub(crate) mod exemptions;
pub(crate) mod file;
pub(crate) mod issuer_keys;
pub(crate) mod known_tools;
pub(crate) mod layers;
pub mod live;
pub(crate) mod locate;
mod named_call;
pub(crate) mod pack;
pub(crate) mod pins;
mod probe_lint;
mod result_lint;
pub(crate) mod rollback_lint;
mod rollback_values;
pub(crate) mod shape;
pub mod sources;

/// Bytes of `_meta` that one message of an agent may have, if nothing is said (threat-model §8).
pub const META_MAX_BYTES: usize = 64 << 10;

/// Everything a call is judged by. Immutable; replaced as a whole.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Twelve hexadecimal digits over what all files say and what operators have taken away.
    pub version: String,
    /// The same over what all files say alone.
    pub written: String,
    /// What the configuration says of what calls go to.
    pub configured: BoundConfiguration,
    /// Whether calls are refused, or only would be.
    pub mode: Mode,
    /// Who calls?
    pub identity: identity::Rule,
    /// What may this caller see? The only door to the contracts.
    pub allowlist: allowlist::Rule,
    /// Whose definition has an operator approved?
    pub pins: guards::pins::Rule,
    /// When does a task go in circles?
    pub repetition: repetition::Rule,
    /// What may tasks use?
    pub tasks: TaskLimits,
    /// When does an incident open by itself?
    pub breakers: Vec<breakers::Breaker>,
    /// Who hears of calls?
    pub hooks: hooks::Rule,
    /// Which messages pass besides tool calls.
    pub methods: Methods,
    /// The header, in lower case, in which agents name their session.
    pub session_header: Option<String>,
    /// Bytes of `_meta` that one message of an agent may have.
    pub meta_max_bytes: usize,
    /// Where secrets come from and where they may go.
    pub secrets: Bindings,
}

impl Policy {
    /// The same policy without the tools that operators and incidents have taken away: another
    /// version, unless there are none.
    #[must_use]
    pub fn without(self, away: impl Into<TakenAway>) -> Self {
        let (away, mut version) = (away.into(), self.written.clone());
        if !away.is_empty() {
            version = compile::content::shown(&Sha256::digest(version + &away.lines()));
        }
        Self {
            version,
            allowlist: self.allowlist.without(away),
            ..self
        }
    }

    /// What a server said of itself, as agents may read it: without `instructions` that no operator
    /// has approved, where pins are kept (threat-model §3C C9), and without what cannot be seen in
    /// its texts (§3D D6).
    #[must_use]
    pub fn introduced(&self, server: &ServerName, said: &Text) -> Text {
        let approved = |one: &Instructions| {
            self.pins
                .judge(server, guards::pins::INSTRUCTIONS_PIN_NAME, &one.digest)
                .is_ok()
        };
        let shown = readable_words(said);
        if self.mode == Mode::Observe || Instructions::of(said).is_none_or(|one| approved(&one)) {
            return shown;
        }
        let Some(mut members) = shown.object() else {
            return shown;
        };
        members.remove("instructions");
        members.text()
    }
}

/// Which methods pass (design §3): known ones do unless denied, unknown ones only if allowed, or
/// when nothing is enforced. Names are matched whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Methods {
    /// Refused, known or not.
    pub deny: Vec<String>,
    /// Passed although unknown.
    pub allow: Vec<String>,
}

impl Methods {
    /// Does a message with this method pass?
    pub fn passes(&self, method: &str, known: bool, mode: Mode) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == method);
        !named(&self.deny) && (known || mode == Mode::Observe || named(&self.allow))
    }
}
