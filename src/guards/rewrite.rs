//! Changes a call's arguments, step by step: the contract's own steps, then what hooks answer.
//!
//! After rules, so that a chain starts from arguments that may be sent as they are. It takes the
//! proof of that away: what it changed has to pass arguments, permission and rules once more
//! (policy §1, decisions 9 to 11), and only then is final.

use super::Section;
use super::evidence::{Final, Ruled};
use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::refusal::Refusal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

mod against;
mod change;
mod place;
mod reason;

use change::RewriteChange;

/// Steps of a contract at most.
const MAX_REWRITE_STEPS: usize = 32;
/// Characters of a step's name at most.
const STEP_NAME_CHARS_MAX: usize = 64;
/// Where a chain breaks that makes what nobody could send: duplicate or look-alike names, numbers
/// that change on the way.
const UNREADABLE_ARGUMENTS_MESSAGE: &str = "the arguments that came out of it cannot be sent";

/// The steps of a contract, in the order in which they are taken: each works on what the one before
/// has left.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "Rewrite")]
pub(crate) struct Settings(pub Vec<StepSettings>);

/// One step, as written: a name, and one of the others.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "RewriteStep")]
pub(crate) struct StepSettings {
    /// What the ledger calls it.
    pub name: String,
    /// Values by JSON pointer: the argument has this value then, whatever it was.
    pub set: Option<Map<String, Value>>,
    /// Values by JSON pointer: the argument has this value if it was absent.
    pub default: Option<Map<String, Value>>,
    /// JSON pointers: the arguments are absent then.
    pub remove: Option<Vec<String>>,
    /// Bounds by JSON pointer: a number beyond one becomes that bound.
    pub clamp: Option<BTreeMap<String, Bounds>>,
    /// CEL over `arguments` and `caller` by JSON pointer: the argument has this value then.
    pub compute: Option<BTreeMap<String, String>>,
}

/// The least and the most that a number may be.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Bounds {
    /// The least.
    pub min: Option<Number>,
    /// The most.
    pub max: Option<Number>,
}

/// As run. The default changes nothing.
#[derive(Debug, Default)]
pub struct Rule {
    steps: Vec<(String, RewriteChange)>,
}

/// A call's arguments on their way through the chain. They belong to their call alone (001-25,
/// 001-26).
#[derive(Debug)]
pub(crate) struct RewriteDraft<'a> {
    written: &'a Value,
    now: Cow<'a, Value>,
    by: Vec<String>,
    blocked: Option<String>,
    reason: Option<String>,
    _ruled: Ruled,
}

/// What the contract's own steps have made of a call's arguments.
#[derive(Debug, Default)]
pub struct Stepped {
    /// The arguments, if a step changed them.
    now: Option<Value>,
    /// The steps that did.
    by: Vec<String>,
}

/// How a chain ended that nobody broke.
#[derive(Debug)]
pub(crate) enum RewriteOutcome {
    /// The arguments are what they were, and still proven.
    Same(Final),
    /// They are others, and nothing is proven of them.
    Changed(ChangedArguments),
}

/// Arguments that no guard has seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChangedArguments {
    /// All of them.
    pub arguments: Value,
    /// The steps and hooks that changed something, in their order.
    pub by: Vec<String>,
}

// === impl Settings ===

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "rewrite";

    fn compile(self, problems: &mut Problems) -> Rule {
        if self.0.len() > MAX_REWRITE_STEPS {
            problems.error(
                format!("more than {MAX_REWRITE_STEPS} steps"),
                "merge some: a step takes several pointers",
            );
        }
        let (mut steps, mut names) = (Vec::new(), HashSet::new());
        for (index, written) in self.0.into_iter().enumerate() {
            problems.under(index.to_string(), |problems| {
                problems.under("name", |problems| {
                    judge_name(&written.name, &mut names, problems);
                });
                let name = written.name.clone();
                steps.extend(change::compile(written, problems).map(|change| (name, change)));
            });
        }
        Rule { steps }
    }
}

fn judge_name(name: &str, names: &mut HashSet<String>, problems: &mut Problems) {
    let blank = name.trim() != name || name.is_empty();
    if blank || name.chars().count() > STEP_NAME_CHARS_MAX || name.chars().any(char::is_control) {
        let hint = format!(
            "write 1 to {STEP_NAME_CHARS_MAX} characters on one line: the ledger names the step so"
        );
        problems.error("is no name for a step", hint);
    }
    if !names.insert(name.to_owned()) {
        problems.error(
            format!("`{}` is the name of two steps", name.escape_debug()),
            "rename one",
        );
    }
}

// === impl Rule ===

impl Rule {
    /// Takes all steps on `arguments`. Refuses when one cannot be taken: what it was for has not
    /// happened then.
    pub fn steps(&self, caller: &Caller, arguments: &Value) -> Result<Stepped, Refusal> {
        let mut stepped = Stepped::default();
        for (name, change) in &self.steps {
            match change.apply(caller, stepped.now.as_ref().unwrap_or(arguments)) {
                Ok(None) => {}
                Ok(Some(changed)) => {
                    stepped.now = Some(changed);
                    stepped.by.push(name.clone());
                }
                Err(why) => {
                    return Err(Refusal::HookBroken {
                        by: name.clone(),
                        why: why.to_owned(),
                    });
                }
            }
        }
        Ok(stepped)
    }

    /// What the steps make of arguments that nobody sends; none when one cannot be taken.
    pub fn foresee(&self, caller: &Caller, arguments: &Value) -> Option<Value> {
        let take = |now: Value, (_, change): &(String, RewriteChange)| {
            change
                .apply(caller, &now)
                .ok()
                .map(|changed| changed.unwrap_or(now))
        };
        self.steps.iter().try_fold(arguments.clone(), take)
    }

    /// The names of the steps.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|(name, _)| name.as_str())
    }

    /// The arguments that expressions read or steps bound, as paths from the root: their names must
    /// mean one thing.
    pub fn reads(&self) -> Vec<Vec<String>> {
        let bounded = |change: &RewriteChange| {
            change
                .bounds()
                .iter()
                .map(|(place, _)| place.path.clone())
                .collect::<Vec<_>>()
        };
        self.steps
            .iter()
            .flat_map(|(_, change)| [change.reads().to_vec(), bounded(change)].concat())
            .collect()
    }

    /// Where steps work: the key in the file, below `rewrite`, and the argument as a path from the
    /// root.
    pub fn places(&self) -> Vec<(Vec<String>, Vec<String>)> {
        let of = |(index, (_, change)): (usize, &(String, RewriteChange))| {
            let key = |nth, place| {
                vec![
                    index.to_string(),
                    change.verb().to_owned(),
                    change.key(nth, place),
                ]
            };
            let places = change.places().enumerate();
            places
                .map(|(nth, place)| (key(nth, place), place.path.clone()))
                .collect::<Vec<_>>()
        };
        self.steps.iter().enumerate().flat_map(of).collect()
    }

    /// The arguments, by name, that steps may bring in.
    pub fn brings(&self) -> Vec<String> {
        self.steps
            .iter()
            .flat_map(|(_, change)| change.brings())
            .collect()
    }
}

impl RewriteDraft<'_> {
    /// `arguments` as the guards have passed them, with the proof of that.
    pub(crate) fn of(arguments: &Value, ruled: Ruled) -> RewriteDraft<'_> {
        let now = Cow::Borrowed(arguments);
        RewriteDraft {
            written: arguments,
            now,
            by: Vec::new(),
            blocked: None,
            reason: None,
            _ruled: ruled,
        }
    }

    /// The arguments as they are now.
    pub(crate) fn arguments(&self) -> &Value {
        &self.now
    }

    /// Goes on with what the steps made of the arguments.
    pub(crate) fn take(&mut self, stepped: Stepped) {
        let Stepped { now, by } = stepped;
        if let Some(now) = now {
            self.now = Cow::Owned(now);
        }
        self.by.extend(by);
    }

    /// Lays what hook `name` answered over the arguments, at their top level only (001-32). Says
    /// whether that changed anything.
    pub(crate) fn merge(&mut self, name: &str, answered: Map<String, Value>) -> bool {
        let differs = |(key, value): (&String, &Value)| self.now.get(key) != Some(value);
        if !answered.iter().any(differs) {
            return false;
        }
        let mut changed = self.now.clone().into_owned();
        if let Some(members) = changed.as_object_mut() {
            members.extend(answered);
        }
        self.become_of(name, changed);
        true
    }

    /// Hook `name` blocks the call: nothing after it takes that back (001-31).
    pub(crate) fn block(&mut self, name: &str) {
        self.blocked = Some(name.to_owned());
    }

    /// A hook gives a reason; the last one is the agent's to read (001-24, 001-31).
    pub(crate) fn reason(&mut self, reason: &str) {
        self.reason = Some(reason::shown(reason));
    }

    fn become_of(&mut self, name: &str, changed: Value) {
        self.now = Cow::Owned(changed);
        self.by.push(name.to_owned());
    }

    /// What came of it.
    pub(crate) fn finish(self) -> Result<RewriteOutcome, Refusal> {
        let Self {
            written,
            now,
            by,
            blocked,
            reason,
            _ruled: ruled,
        } = self;
        if let Some(by) = blocked {
            return Err(Refusal::HookBlocked {
                by,
                reason: reason.unwrap_or_default(),
            });
        }
        if *now == *written {
            return Ok(RewriteOutcome::Same(Final::mint(ruled)));
        }
        if Text::read(Text::of(&now).bytes(), &AGENT_JSON_LIMITS).is_err() {
            let by = by.last().cloned().unwrap_or_default();
            return Err(Refusal::HookBroken {
                by,
                why: UNREADABLE_ARGUMENTS_MESSAGE.to_owned(),
            });
        }
        Ok(RewriteOutcome::Changed(ChangedArguments {
            arguments: now.into_owned(),
            by,
        }))
    }
}

impl ChangedArguments {
    /// What became of each argument of `before`, for people: `/limit: 500 → 100`.
    pub(crate) fn describe(&self, before: &Value) -> Vec<String> {
        let names = |value: &Value| {
            value
                .as_object()
                .map(|members| members.keys().cloned().collect::<Vec<_>>())
        };
        let mut all = names(before).unwrap_or_default();
        all.extend(
            names(&self.arguments)
                .unwrap_or_default()
                .into_iter()
                .filter(|name| before.get(name).is_none()),
        );
        let shown =
            |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), Value::to_string);
        let differs =
            |name: &&String| before.get(name.as_str()) != self.arguments.get(name.as_str());
        let line = |name: &String| {
            format!(
                "/{name}: {} → {}",
                shown(before.get(name)),
                shown(self.arguments.get(name))
            )
        };
        all.iter().filter(differs).map(line).collect()
    }
}

/// Arguments that a chain changed have passed the guards again, as `ruled` says: they are final.
pub(crate) fn passed_again(ruled: Ruled) -> Final {
    Final::mint(ruled)
}

#[cfg(test)]
mod tests;
