//! What an operator says of the calls that a standing grant is to cover, made into constraints: exactly
//! the arguments that were shown, but for those that are named one by one.

use super::grants::{amount_at, fit, is_below, leads_up, numbered_members, step};
use crate::model::amount::Amount;
use crate::model::diagnostic::Problems;
use crate::model::pointer::{is_pointer, of, steps};
use crate::model::times::between;
use crate::store::state::grant::{
    ArgumentConstraint, ArgumentRule, GrantTotal, MAX_GRANT_BYTES, MAX_GRANT_CONSTRAINTS,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

const DEFAULT_GRANT_TIME: Duration = Duration::from_hours(8);
const GRANT_TIME_BOUNDS: RangeInclusive<Duration> =
    Duration::from_mins(1)..=Duration::from_hours(30 * 24);
const DEFAULT_GRANT_USES: u64 = 10;
const GRANT_USES_BOUNDS: RangeInclusive<u64> = 1..=1000;
/// Bytes of a pointer, and of a text that an argument may begin with.
const MAX_GRANT_TEXT_BYTES: usize = 1024;

/// What an operator says of it; what is left out is as narrow as it can be.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "GrantTerms")]
pub(crate) struct GrantTerms {
    /// How long: 1m to 30d [default: 8h].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// How many calls, 1 to 1000 [default: 10].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<u64>,
    /// What the arguments may be, each with its pointer. The others have to be as they were shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<ConstraintWords>,
    /// What all calls may move together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<TotalWords>,
}

/// What one argument may be; one of these.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ConstraintWords {
    /// JSON pointer to the argument.
    pub pointer: String,
    /// This, to the last digit.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "written")]
    pub equals: Option<Value>,
    /// One of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Value>>,
    /// A number from 0 to this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Number>,
    /// A text that begins so, and has no `..` between slashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_with: Option<String>,
    /// What was shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub same_as_this: bool,
    /// Anything, or not there; only what the contract's `approval.grant_any` names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub any: bool,
}

/// What all calls may move together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TotalWords {
    /// JSON pointer to the argument that is added up.
    pub pointer: String,
    /// The largest sum: more than 0, with at most nine digits behind the point.
    pub at_most: Number,
}

/// `null` is a value, too.
fn written<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(reader).map(Some)
}

/// The terms as they are kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeptTerms {
    /// How long.
    pub lasts: Duration,
    /// How many calls.
    pub uses: u64,
    /// What each argument may be.
    pub constraints: Arc<[ArgumentConstraint]>,
    /// What all calls may move together.
    pub total: Option<GrantTotal>,
}

impl GrantTerms {
    /// The terms for calls like the one with the arguments `shown`, or, without one, for calls with the
    /// named arguments alone; or why they are none. `any`: pointers of arguments that may be left open.
    pub(crate) fn kept(self, shown: Option<&Value>, any: &[String]) -> Result<KeptTerms, String> {
        let lasts = lasts(self.until.as_deref())?;
        let uses = self.uses.unwrap_or(DEFAULT_GRANT_USES);
        if !GRANT_USES_BOUNDS.contains(&uses) {
            let (least, most) = (GRANT_USES_BOUNDS.start(), GRANT_USES_BOUNDS.end());
            return Err(format!(
                "`uses` is out of bounds: between {least} and {most}"
            ));
        }
        if self.constraints.len() > MAX_GRANT_CONSTRAINTS {
            return Err(too_many());
        }
        let said = self.constraints.into_iter();
        let said: Result<Vec<_>, _> = said.map(|words| words.kept(shown, any)).collect();
        let mut constraints = said?;
        apart(&constraints)?;
        if let Some(shown) = shown {
            fill(&mut constraints, shown, String::new());
            if constraints.len() > MAX_GRANT_CONSTRAINTS {
                return Err(too_many());
            }
            for one in &mut constraints {
                one.numbered_members = numbered_members(&one.pointer, shown);
            }
            fit(&constraints, shown)
                .map_err(|miss| format!("the call that was shown is not covered: {miss}"))?;
        }
        let bytes = serde_json::to_vec(&constraints).map_or(usize::MAX, |text| text.len());
        if bytes > MAX_GRANT_BYTES {
            return Err(format!(
                "what is granted is longer than {} KiB",
                MAX_GRANT_BYTES >> 10
            ));
        }
        let total = self.total.map(|total| total.kept(&constraints, shown));
        Ok(KeptTerms {
            lasts,
            uses,
            total: total.transpose()?,
            constraints: constraints.into(),
        })
    }

    /// Arguments as far as they are said, to tell which case of a contract they choose.
    pub(crate) fn sample(&self) -> Value {
        let mut sample = Value::Object(serde_json::Map::new());
        for words in &self.constraints {
            if let Some(value) = &words.equals {
                put(&mut sample, &steps(&words.pointer), value);
            }
        }
        sample
    }
}

fn too_many() -> String {
    format!("more than {MAX_GRANT_CONSTRAINTS} arguments would be told apart: widen fewer, or none")
}

fn lasts(until: Option<&str>) -> Result<Duration, String> {
    let mut problems = Problems::default();
    let read = between("until", until, GRANT_TIME_BOUNDS, &mut problems);
    match problems.into_found().first() {
        Some(wrong) => {
            let hint = wrong.hint.as_deref().unwrap_or_default();
            Err(format!("`until` {}: {hint}", wrong.message))
        }
        None => Ok(read.unwrap_or(DEFAULT_GRANT_TIME)),
    }
}

impl ConstraintWords {
    fn kept(self, shown: Option<&Value>, any: &[String]) -> Result<ArgumentConstraint, String> {
        let pointer = checked(self.pointer)?;
        let this = self.same_as_this.then(|| {
            let value = shown.and_then(|shown| shown.pointer(&pointer));
            let value = value.ok_or_else(|| format!("no call was shown that has `{pointer}`"))?;
            Ok::<_, String>(ArgumentRule::Equals(value.clone()))
        });
        let said = [
            self.equals.map(ArgumentRule::Equals),
            self.one_of.map(ArgumentRule::OneOf),
            self.at_most.map(ArgumentRule::AtMost),
            self.starts_with.map(ArgumentRule::StartsWith),
            self.any.then_some(ArgumentRule::Any),
            this.transpose()?,
        ];
        let mut said = said.into_iter().flatten();
        let (Some(is), None) = (said.next(), said.next()) else {
            return Err(format!(
                "say one thing of `{pointer}`: equals, one_of, at_most, starts_with, same_as_this or any"
            ));
        };
        let why = match &is {
            ArgumentRule::OneOf(values) if values.is_empty() => "`one_of` names nothing",
            ArgumentRule::AtMost(most) if is_below_zero(most) => "`at_most` is below 0",
            ArgumentRule::StartsWith(start)
                if start.is_empty() || start.len() > MAX_GRANT_TEXT_BYTES || leads_up(start) =>
            {
                "`starts_with` is empty, too long, or leads up by `..`"
            }
            ArgumentRule::Any if !any.contains(&pointer) => {
                "only an argument that the contract's `approval.grant_any` names can be left open"
            }
            ArgumentRule::Equals(_)
            | ArgumentRule::OneOf(_)
            | ArgumentRule::AtMost(_)
            | ArgumentRule::StartsWith(_)
            | ArgumentRule::Any => {
                return Ok(ArgumentConstraint {
                    pointer,
                    numbered_members: Vec::new(),
                    is,
                });
            }
        };
        Err(format!("`{pointer}`: {why}"))
    }
}

fn is_below_zero(number: &Number) -> bool {
    crate::model::number::compare(number, &Number::from(0_u8)).is_lt()
}

impl TotalWords {
    fn kept(
        self,
        constraints: &[ArgumentConstraint],
        shown: Option<&Value>,
    ) -> Result<GrantTotal, String> {
        let pointer = checked(self.pointer)?;
        let at_most = Amount::of(&self.at_most).filter(|most| *most > Amount::default());
        let at_most = at_most.ok_or(
            "`total` needs a number above 0 and up to 10^18, with at most nine digits behind the point",
        )?;
        let is_named = constraints
            .iter()
            .any(|one| one.pointer == pointer || is_below(&pointer, &one.pointer));
        if !is_named {
            return Err(format!("say what `{pointer}` may be, too"));
        }
        let fits = shown.is_none_or(|shown| {
            let amount = amount_at(shown, &pointer);
            amount.is_some_and(|amount| amount <= at_most)
        });
        if fits {
            Ok(GrantTotal { pointer, at_most })
        } else {
            Err(format!(
                "`{pointer}` of the call that was shown is no number that fits the `total`"
            ))
        }
    }
}

/// A pointer in the one form in which it is compared.
fn checked(pointer: String) -> Result<String, String> {
    let is_plain = pointer.is_empty() || is_pointer(&pointer) && of(&steps(&pointer)) == pointer;
    if is_plain && pointer.len() <= MAX_GRANT_TEXT_BYTES {
        Ok(pointer)
    } else {
        Err("an argument is named by its JSON pointer, such as `/amount`".to_owned())
    }
}

/// Each argument is spoken of once.
fn apart(constraints: &[ArgumentConstraint]) -> Result<(), String> {
    for (index, one) in constraints.iter().enumerate() {
        let others = constraints.iter().enumerate();
        let mut others = others.filter(|(other, _)| *other != index);
        if others.any(|(_, other)| {
            one.pointer == other.pointer || is_below(&one.pointer, &other.pointer)
        }) {
            return Err(format!("`{}` is spoken of twice", one.pointer));
        }
    }
    Ok(())
}

/// Adds that what `constraints` do not speak of is as it stands in `value`, which stands at `at`.
fn fill(constraints: &mut Vec<ArgumentConstraint>, value: &Value, at: String) {
    if constraints.len() > MAX_GRANT_CONSTRAINTS || constraints.iter().any(|one| one.pointer == at)
    {
        return;
    }
    let is_deeper = constraints.iter().any(|one| is_below(&one.pointer, &at));
    match value {
        Value::Object(members) if is_deeper => members
            .iter()
            .for_each(|(key, value)| fill(constraints, value, step(&at, key))),
        Value::Array(items) if is_deeper => {
            for (index, value) in items.iter().enumerate() {
                fill(constraints, value, step(&at, &index.to_string()));
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => constraints.push(ArgumentConstraint {
            pointer: at,
            numbered_members: Vec::new(),
            is: ArgumentRule::Equals(value.clone()),
        }),
    }
}

/// Puts `value` where `steps` lead, through objects alone.
fn put(sample: &mut Value, steps: &[String], value: &Value) {
    let Some((first, rest)) = steps.split_first() else {
        *sample = value.clone();
        return;
    };
    if let Value::Object(members) = sample {
        let nothing = || Value::Object(serde_json::Map::new());
        let next = members.entry(first.clone()).or_insert_with(nothing);
        put(next, rest, value);
    }
}

#[cfg(test)]
mod tests;
