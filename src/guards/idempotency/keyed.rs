//! What a call is known by once it has its key.

use super::{
    CallPlace, KeyRequest, KeySource, Likeness, MAX_KEY_TTL, Regime, Rule, TOMBSTONE_TTL, derive,
};
use crate::guards::evidence::NotRepeated;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::store::state::undo::OpenUndo;
use std::time::Duration;

/// The call has its key. Made by [`Rule::key`] only.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed {
    pub(super) call_key: Digest,
    pub(super) fingerprint: Digest,
    pub(super) source: KeySource,
    pub(super) regime: Regime,
    /// What all calls have in common that equal it, whatever their keys; none where that is its key.
    pub(super) kin: Option<Digest>,
    pub(super) ttl: Duration,
    pub(super) window: Duration,
    pub(super) place: CallPlace,
    /// The call that it takes back.
    pub(super) undoes: Option<ActionId>,
    pub(super) seed: Option<String>,
    pub(super) near: Option<Likeness>,
}

impl Rule {
    /// Gives the call its key: the agent's own, else a derived one (guarantees §3). Keys that
    /// disagree, or cannot be used, refuse like a missing one.
    ///
    /// What takes another call back is known by that call, whatever key it came with: twice is once.
    pub fn key(&self, asked: &KeyRequest<'_>, _watched: &NotRepeated) -> Result<Keyed, Refusal> {
        let keyed = self.own_key(asked)?;
        Ok(match asked.undoes {
            Some(of) => keyed.undoing(of),
            None => keyed,
        })
    }

    /// What the call has in common with all that equal it, whatever their keys: its key where that is
    /// made of all arguments, and none of them can hold a key.
    pub(super) fn kin(&self, asked: &KeyRequest<'_>, fingerprint: Digest) -> Digest {
        let mut fingerprint = fingerprint;
        if self.holds_key(asked.arguments) {
            let mut rest = asked.arguments.clone();
            if let Some(members) = rest.as_object_mut() {
                members.retain(|name, _| self.holders().all(|holder| holder != name));
            }
            fingerprint = derive::fingerprint(&KeyRequest {
                arguments: &rest,
                ..*asked
            });
        }
        derive::call_key(asked, derive::KeyKind::Arguments, fingerprint.as_bytes())
    }
}

impl Keyed {
    /// The key of a call that takes `of` back. Its answer is given again for as long as `of` could be
    /// taken back, and no call that equals it is held for it.
    pub(super) fn undoing(self, of: ActionId) -> Self {
        let ttl = self.ttl.max(MAX_KEY_TTL);
        Self {
            call_key: OpenUndo::call_key_of(of),
            regime: Regime::Keyed,
            undoes: Some(of),
            near: None,
            window: ttl,
            ttl,
            ..self
        }
    }

    /// SHA-256 over tenant, agent, user, server, tool and key, each with its length: what the store knows
    /// the call by.
    pub fn call_key(&self) -> Digest {
        self.call_key
    }

    /// SHA-256 over the RFC 8785 form of server, tool and final arguments: two calls with one key
    /// must agree in it.
    pub fn fingerprint(&self) -> Digest {
        self.fingerprint
    }

    /// Which calls are the same as this one.
    pub fn regime(&self) -> Regime {
        self.regime
    }

    /// What all calls have in common that equal it, whatever their keys; none where that is its key.
    pub fn kin(&self) -> Option<Digest> {
        self.kin
    }

    /// What makes it much like others, where the contract says so.
    pub fn likeness(&self) -> Option<Likeness> {
        self.near
    }

    /// Where it is made.
    pub fn place(&self) -> CallPlace {
        self.place
    }

    /// How long after its end an equal call can be a re-issue.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// Where the key comes from and how long it counts, for `explain`.
    pub fn describe(&self, rule: &Rule) -> String {
        if let Regime::Reissue { joins_only } = self.regime {
            let until = if joins_only {
                "while the first one is in flight: the server says that a second one changes nothing (idempotentHint)".to_owned()
            } else {
                format!(
                    "within {} s after its end, unless the agent has shown that it went on",
                    self.window.as_secs()
                )
            };
            return format!("retry: an equal call is the same one {until}");
        }
        let from = match (self.source, &rule.derive) {
            (KeySource::Derived, Some(derive)) => format!("derived from {derive}"),
            _ => "given".to_owned(),
        };
        format!(
            "the key is {from}, and counts for {} s after the call",
            self.ttl.as_secs()
        )
    }

    /// Where the key comes from.
    pub fn source(&self) -> KeySource {
        self.source
    }

    /// How long the call's answer is given again, counted from its end: `ttl` of a given key,
    /// `window` of a derived one.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// How long the key stays used after that: a given one is never executed again silently, while
    /// a call that equals one whose window is over is a new call.
    pub fn keep(&self) -> Duration {
        if self.source == KeySource::Derived && self.undoes.is_none() {
            Duration::ZERO
        } else {
            TOMBSTONE_TTL
        }
    }

    /// The key for the tool server, where no agent can make another's. That of a derived key names
    /// the claim, too: a server that remembers for longer than the window must not take the
    /// next call for the last. The documents' formula goes out as it is, so that a server which
    /// computes it as well finds it equal.
    pub fn upstream_key(&self, claim: ActionId) -> String {
        let is_of_claim = self.source == KeySource::Derived || self.undoes.is_some();
        match (&self.seed, is_of_claim) {
            (Some(seed), _) => seed.clone(),
            // One that has failed may be made anew.
            (None, true) => {
                let claim = claim.to_string();
                Digest::of_parts(
                    "toolgate upstream key",
                    &[self.call_key.as_bytes(), claim.as_bytes()],
                )
                .to_string()
            }
            (None, false) => {
                Digest::of_parts("toolgate upstream key", &[self.call_key.as_bytes()]).to_string()
            }
        }
    }
}
