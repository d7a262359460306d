//! Refuses a call that must have an idempotency key and has none that can be used; gives every
//! other call its key.
//!
//! After rules and repetition, so that only a call that would be sent is looked up; before budget
//! and approval, so that a repeated call costs nothing and asks nobody again. What became of a key
//! is the store's business; here is only which key.

use super::Section;
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::ids::{ActionId, ServerName};
use crate::model::pointer::steps;
use crate::model::refusal::Refusal;
use crate::model::times::between;
use crate::schema::Schema;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::Duration;

mod derive;
pub(super) mod given;
mod keyed;
mod near;
mod probe;
mod regime;
mod seed;
mod upstream;

pub(crate) use derive::DeriveSettings as Derive;
pub(crate) use given::{Given, KEY_ARGUMENT_NAME, KEY_META_NAME};
pub(crate) use keyed::Keyed;
pub(crate) use near::{Likeness, NearSettings};
pub(crate) use probe::{Probe, ProbeSettings, ProbeVerdict};
pub(crate) use regime::{CallPlace, Regime, RegimeKeys};
pub(crate) use upstream::{Placement, UpstreamKeyRule, UpstreamKeySettings as UpstreamSettings};

/// How long a key is known after its call has ended (004-29).
pub(crate) const DEFAULT_KEY_TTL: Duration = Duration::from_hours(1);
const KEY_TTL_BOUNDS: RangeInclusive<Duration> = Duration::from_mins(1)..=MAX_KEY_TTL;
const MAX_KEY_TTL: Duration = Duration::from_hours(24 * 30);
/// How long it is remembered after that that a key was used (guarantees §3).
const TOMBSTONE_TTL: Duration = Duration::from_hours(24 * 90);
const KEY_WINDOW_BOUNDS: RangeInclusive<Duration> = Duration::from_secs(1)..=MAX_KEY_TTL;
/// The latest that agents and gateways send a call again on their own (004-01).
const RESEND_HORIZON: Duration = Duration::from_secs(90);
const MAX_SEND_ATTEMPTS: u32 = 10;

/// Which calls are one and the same, and how the tool server learns of it.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Idempotency")]
pub(crate) struct Settings {
    /// Refuse a call without a key, instead of deriving one.
    pub require: bool,
    /// A call without a key: calls are the same when these arguments are, by JSON pointer;
    /// `arguments`: when all are; `retry`, the default: when one is sent again because the answer to
    /// the other was lost, as far as that shows; `sha256-32`: the first 32 hexadecimal digits of
    /// SHA-256 over the sorted JSON of name, user and args.
    pub derive: Option<Derive>,
    /// Show the optional argument `idempotency_key` to agents, required with `require` [default: with
    /// `require` and where only what is sent again is the same]. Shown or not, it is a key where an
    /// agent sends it, and not sent to the tool server, unless the tool has it itself.
    pub expose: Option<bool>,
    /// How long the key and its answer are kept after the call has ended [default: 1h, 1m to 30d].
    pub ttl: Option<String>,
    /// How long after its end a call with a derived key is still the same call [default: as
    /// `ttl`; where only what is sent again is the same 2m, 1s to 1h].
    pub window: Option<String>,
    /// Where the tool server takes a key of its own.
    pub upstream: Option<UpstreamSettings>,
    /// Errors of the tool server that prove that nothing was done: HTTP statuses (400 to 599) and
    /// JSON-RPC codes (negative).
    pub not_executed: Vec<i64>,
    /// A call that changes nothing and finds out whether a call with an unknown outcome was done.
    pub probe: Option<ProbeSettings>,
    /// Which other calls are so much like one that a person is asked whether both are meant.
    pub near: Option<NearSettings>,
    /// How often one call may be sent at most, when the attempt before is proven not to have been
    /// done [default: 1].
    pub attempts: Option<u32>,
}

/// As run. By default only what is sent again within two minutes is the same.
#[derive(Debug)]
pub struct Rule {
    /// None: a key is required.
    derive: Option<derive::DeriveRule>,
    /// The contract says which calls are the same.
    is_said: bool,
    expose: bool,
    ttl: Duration,
    window: Duration,
    upstream: Option<UpstreamKeyRule>,
    not_executed: Vec<i64>,
    probe: Option<Probe>,
    near: Option<near::NearRule>,
    attempts: u32,
}

/// What a key is made of.
#[derive(Debug, Clone, Copy)]
pub struct KeyRequest<'a> {
    /// Who calls: a key means something for its agent, tenant and user only (004-24, 004-27).
    pub caller: &'a Caller,
    /// Where the tool lives.
    pub server: &'a ServerName,
    /// The tool's name there.
    pub tool: &'a str,
    /// The final arguments, without what [`Rule::split`] took off.
    pub arguments: &'a Value,
    /// The keys that came with the call.
    pub given: Given<'a>,
    /// Where it is made.
    pub place: CallPlace,
    /// Whether the server says that a second call changes nothing (`idempotentHint`).
    pub hints_idempotent: bool,
    /// The call that it takes back, where it takes one back.
    pub undoes: Option<ActionId>,
}

/// Where a key comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource {
    /// `_meta["dev.toolgate/idempotencyKey"]`.
    Meta,
    /// An argument.
    Argument,
    /// The `Idempotency-Key` header.
    Header,
    /// Made from the call itself.
    Derived,
}

// === impl Settings ===

impl Settings {
    /// Calls with equal arguments at `pointer` are the same.
    pub(crate) fn by(pointer: &str) -> Self {
        Self {
            derive: Some(Derive::Pointers(vec![pointer.to_owned()])),
            ..Self::default()
        }
    }

    /// These for a variant of `contract`: how agents give a key is the same for all of its calls.
    #[must_use]
    pub(crate) fn within(self, contract: Option<&Self>) -> Self {
        let Self {
            require,
            expose,
            derive,
            ..
        } = contract.cloned().unwrap_or_default();
        let shows = || require || derive.is_none_or(|derive| derive.is_retry());
        Self {
            require,
            expose: expose.or_else(|| Some(shows())),
            ..self
        }
    }

    /// The same, where calls that differ at `pointer` are never the same.
    #[must_use]
    pub(crate) fn told_apart(mut self, pointer: &str) -> Self {
        if let Some(Derive::Pointers(pointers)) = &mut self.derive
            && !pointers.iter().any(|known| known == pointer)
        {
            pointers.push(pointer.to_owned());
        }
        self
    }
}

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "idempotency";

    fn compile(self, problems: &mut Problems) -> Rule {
        let Self {
            require,
            derive,
            expose,
            ttl,
            window,
            upstream,
            not_executed,
            probe,
            near,
            attempts,
        } = self;
        let ttl =
            between("ttl", ttl.as_deref(), KEY_TTL_BOUNDS, problems).unwrap_or(DEFAULT_KEY_TTL);
        if require && derive.is_some() {
            let hint = "take `derive` away, or `require`";
            problems.under("derive", |problems| {
                problems.error("every call has a key, so none is derived", hint);
            });
        }
        if require && window.is_some() {
            let hint = "take `window` away: a key that was given counts for `ttl`";
            problems.under("window", |problems| {
                problems.error("is for derived keys, and none is derived", hint);
            });
        }
        let is_said = require || derive.is_some();
        let derive = derive.map_or(regime::UNSAID, |derive| {
            problems.under("derive", |problems| derive.compile(problems))
        });
        let is_retry = derive == derive::DeriveRule::Retry && !require;
        let window = compile_window(window.as_deref(), ttl, is_retry, problems);
        let upstream =
            upstream.and_then(|one| problems.under("upstream", |problems| one.compile(problems)));
        problems.under("not_executed", |problems| {
            judge_errors(&not_executed, problems);
        });
        let probe = probe.map(|probe| problems.under("probe", |problems| probe.compile(problems)));
        let near = near.map(|near| problems.under("near", |problems| near.compile(problems)));
        let attempts = attempts.unwrap_or(1);
        if !(1..=MAX_SEND_ATTEMPTS).contains(&attempts) {
            let hint = format!("between 1 and {MAX_SEND_ATTEMPTS}");
            problems.under("attempts", |problems| {
                problems.error("is out of bounds", hint);
            });
        }
        let derive = (!require).then_some(derive);
        let expose = expose.unwrap_or(require || is_retry);
        Rule {
            derive,
            is_said,
            expose,
            ttl,
            window,
            upstream,
            not_executed,
            probe,
            near,
            attempts,
        }
    }
}

/// How long a call with a derived key is the same.
fn compile_window(
    window: Option<&str>,
    ttl: Duration,
    is_retry: bool,
    problems: &mut Problems,
) -> Duration {
    let (bounds, unsaid) = if is_retry {
        let unsaid = regime::REISSUE_WINDOW.min(ttl);
        (regime::REISSUE_WINDOW_BOUNDS, unsaid)
    } else {
        (KEY_WINDOW_BOUNDS, ttl)
    };
    let own = between("window", window, bounds, problems);
    judge_window(own, ttl, problems);
    own.unwrap_or(unsaid)
}

fn judge_window(window: Option<Duration>, ttl: Duration, problems: &mut Problems) {
    let (key, window) = window.map_or(("ttl", ttl), |window| ("window", window));
    problems.under(key, |problems| {
        if window > ttl {
            let hint = "a call cannot be recognised for longer than it is kept: raise `ttl`, or lower `window`";
            problems.error(format!("is longer than `ttl` ({}s)", ttl.as_secs()), hint);
        } else if window < RESEND_HORIZON {
            let hint = format!("agents send a call again for up to {}s", RESEND_HORIZON.as_secs());
            problems.warning("is so short that a call sent again can be taken for a new one", hint);
        }
    });
}

fn judge_errors(errors: &[i64], problems: &mut Problems) {
    for (index, code) in errors.iter().enumerate() {
        if !(400..=599).contains(code) && *code >= 0 {
            let hint = "write an HTTP status from 400 to 599, or a JSON-RPC code below 0";
            problems.under(index.to_string(), |problems| {
                problems.error("is no error of a tool server", hint);
            });
        }
    }
}

// === impl Rule ===

impl Default for Rule {
    fn default() -> Self {
        Self {
            derive: Some(regime::UNSAID),
            is_said: false,
            expose: true,
            ttl: DEFAULT_KEY_TTL,
            window: regime::REISSUE_WINDOW,
            upstream: None,
            not_executed: Vec::new(),
            probe: None,
            near: None,
            attempts: 1,
        }
    }
}

impl Rule {
    /// The key of a call that takes no other one back.
    fn own_key(&self, asked: &KeyRequest<'_>) -> Result<Keyed, Refusal> {
        let fingerprint = derive::fingerprint(asked);
        let kin = || self.kin(asked, fingerprint);
        if let Some((source, key)) = asked.given.one()? {
            let call_key = derive::call_key(asked, derive::KeyKind::Given, key.as_bytes());
            return Ok(Keyed {
                call_key,
                fingerprint,
                source,
                regime: Regime::Keyed,
                kin: Some(kin()),
                ttl: self.ttl,
                window: self.ttl,
                place: asked.place,
                undoes: None,
                seed: None,
                near: self.likeness(asked),
            });
        }
        let regime = self.regime(asked.hints_idempotent);
        let missing = || given::key_required(given::KEY_EXPECTED_MESSAGE);
        let derived = self
            .derive
            .as_ref()
            .ok_or_else(missing)?
            .apply(asked, fingerprint)
            .ok_or_else(missing)?;
        let call_key = derive::call_key(asked, derived.kind, &derived.bytes);
        let is_kin =
            matches!(derived.kind, derive::KeyKind::Arguments) && !self.holds_key(asked.arguments);
        // What a re-issue is told by is kept as long as a key: where its call ended late, its agent
        // has read nothing of it.
        let ttl = if self.is_retry() {
            self.ttl
        } else {
            self.window
        };
        Ok(Keyed {
            call_key,
            fingerprint,
            source: KeySource::Derived,
            regime: regime.unwrap_or(Regime::Declared),
            kin: (!is_kin).then(kin),
            ttl,
            window: self.window,
            place: asked.place,
            undoes: None,
            seed: derived.seed,
            near: self.likeness(asked),
        })
    }

    fn holds_key(&self, arguments: &Value) -> bool {
        self.holders().any(|name| arguments.get(name).is_some())
    }

    /// Takes the argument `idempotency_key` off the arguments if it is not the tool's own, and says
    /// what it held where that is a key: what a model made up that nobody showed it makes no second
    /// call of one whose contract says what is the same. An argument of the tool that is its key (its
    /// own `idempotency_key`, or what `upstream` names) stays where it is.
    pub fn split<'a>(
        &self,
        tool: &Schema,
        arguments: &'a Value,
    ) -> (Cow<'a, Value>, Option<Cow<'a, Value>>) {
        let own = has_own(tool, KEY_ARGUMENT_NAME);
        if !own {
            let mut rest = arguments.clone();
            let taken = rest
                .as_object_mut()
                .and_then(|members| members.shift_remove(KEY_ARGUMENT_NAME));
            let of_upstream = || self.of_upstream(arguments);
            return match taken {
                Some(taken) if self.takes_argument() => (Cow::Owned(rest), Some(Cow::Owned(taken))),
                Some(_) => (Cow::Owned(rest), of_upstream()),
                None => (Cow::Borrowed(arguments), of_upstream()),
            };
        }
        let key = arguments
            .get(KEY_ARGUMENT_NAME)
            .filter(|key| key.is_string())
            .map(Cow::Borrowed);
        (
            Cow::Borrowed(arguments),
            key.or_else(|| self.of_upstream(arguments)),
        )
    }

    /// Whether the argument `idempotency_key` is a key: it is shown, or no call passes without one.
    fn takes_argument(&self) -> bool {
        self.expose || self.derive.is_none()
    }

    /// Whether the arguments that can hold a key are the same in both: what a call is known by is
    /// its agent's to say, and nobody on its way makes it another call.
    pub fn keeps(&self, before: &Value, after: &Value) -> bool {
        self.holders()
            .all(|name| before.get(name) == after.get(name))
    }

    /// The arguments, by name, that can hold a key.
    pub fn holders(&self) -> impl Iterator<Item = &str> {
        std::iter::once(KEY_ARGUMENT_NAME).chain(self.upstream_argument())
    }

    /// The argument, by name, in which the tool server takes the key.
    pub fn upstream_argument(&self) -> Option<&str> {
        match &self.upstream.as_ref()?.place {
            Placement::Argument(name) => Some(name),
            Placement::Meta(_) | Placement::Header(_) => None,
        }
    }

    fn of_upstream<'a>(&self, arguments: &'a Value) -> Option<Cow<'a, Value>> {
        let Some(Placement::Argument(name)) =
            self.upstream.as_ref().map(|upstream| &upstream.place)
        else {
            return None;
        };
        arguments
            .get(name)
            .filter(|key| key.is_string())
            .map(Cow::Borrowed)
    }

    /// What the listing shows of the key.
    pub fn shown(&self, tool: &Schema) -> Option<Shown> {
        (self.expose && !has_own(tool, KEY_ARGUMENT_NAME)).then_some(Shown {
            required: self.derive.is_none(),
        })
    }

    /// The arguments that a key is derived from, as paths from the root: their names must mean one
    /// thing.
    pub fn reads(&self) -> Vec<Vec<String>> {
        let pointers = self
            .derive
            .as_ref()
            .map(derive::DeriveRule::pointers)
            .unwrap_or_default();
        pointers.iter().map(|pointer| steps(pointer)).collect()
    }

    /// Where the tool server takes a key of its own.
    pub fn upstream(&self) -> Option<&UpstreamKeyRule> {
        self.upstream.as_ref()
    }

    /// How to find out what became of a call.
    pub fn probe(&self) -> Option<&Probe> {
        self.probe.as_ref()
    }

    /// Whether a call without a key is refused.
    pub fn is_required(&self) -> bool {
        self.derive.is_none()
    }

    /// How often one call may be sent at most.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long a given key is known after its call has ended.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Does the contract say that this error of the tool server proves that nothing was done? A
    /// positive code is none of JSON-RPC's, and never taken for a status.
    pub fn proves_nothing_done(&self, status: Option<u16>, code: Option<i64>) -> bool {
        let code = code.filter(|code| *code < 0);
        status
            .map(i64::from)
            .into_iter()
            .chain(code)
            .any(|error| self.not_executed.contains(&error))
    }
}

fn has_own(tool: &Schema, name: &str) -> bool {
    tool.names().declares(&[], name).1
}

/// How the listing shows the key of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// Must the agent give it?
    pub required: bool,
}

#[cfg(test)]
mod tests;
