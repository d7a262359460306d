//! Whether a standing grant covers a call (guarantees §7): the same agent, tenant, user, tool, definition
//! and contract, and arguments of which each is as the grant says. What a grant does not speak of, it
//! does not cover.

use super::grant_miss::{GrantDeath, GrantMiss};
use super::{Approved, Rule};
use crate::mcp::canonical;
use crate::mcp::json::fold::is_same_name;
use crate::model::amount::Amount;
use crate::model::approvers::Approvers;
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::model::number;
use crate::model::pointer;
use crate::store::state::Millis;
use crate::store::state::grant::{ArgumentConstraint, ArgumentRule, Grant, GrantUse};
use serde_json::{Number, Value};
use std::iter::once_with;

/// What marks the step to an item of an array: an escape that no key of a pointer has.
const ITEM_MARK: &str = "~2";

/// A call that a grant may cover.
#[derive(Debug, Clone, Copy)]
pub struct GrantSubject<'a> {
    /// Who calls.
    pub agent: &'a str,
    /// Of which tenant.
    pub tenant: Option<&'a str>,
    /// For which user.
    pub user: Option<&'a str>,
    /// What is called: `server__tool`.
    pub tool: &'a ToolName,
    /// SHA-256 of its definition.
    pub definition: &'a str,
    /// The final arguments.
    pub arguments: &'a Value,
    /// What else of it travels: vendors' `_meta`, and `task`.
    pub beside: Option<&'a Value>,
    /// What of the policy it is bound to.
    pub policy: Digest,
}

impl Rule {
    /// Lets a call pass that `grant` covers; what it takes of the grant is counted when it begins.
    pub fn granted(
        &self,
        approvers: &Approvers,
        grant: &Grant,
        call: &GrantSubject<'_>,
    ) -> Result<Approved, GrantMiss> {
        let used = covers(grant, call)?;
        match self.objections(approvers, grant).next() {
            Some(miss) => Err(miss),
            None => Ok(Approved::by_grant(used)),
        }
    }

    /// Why no call for which this counts is covered by `grant`, whatever it says of the call's arguments.
    pub(crate) fn objections<'a>(
        &'a self,
        approvers: &'a Approvers,
        grant: &'a Grant,
    ) -> impl Iterator<Item = GrantMiss> + 'a {
        let gone = once_with(move || {
            let is_gone = !self.may_still(approvers, grant);
            is_gone.then_some(GrantMiss::Dead(GrantDeath::Operator))
        });
        // It was judged when it was minted, but then by the variant of the call that was shown.
        let never = once_with(move || self.is_grantable().err().map(GrantMiss::Ungrantable));
        let is_open = move |one: &&ArgumentConstraint| {
            matches!(one.is, ArgumentRule::Any) && !self.grant_any.contains(&one.pointer)
        };
        let open = grant.constraints.iter().filter(is_open);
        let open = open.map(|one| GrantMiss::LeftOpen(one.pointer.clone()));
        gone.chain(never).flatten().chain(open)
    }

    /// Whether a grant can stand for a person's word on such a call; else why not.
    pub fn is_grantable(&self) -> Result<(), String> {
        if !self.on_miss {
            let why = "its contract says `ask: always`, so a person has to allow each call";
            return Err(why.to_owned());
        }
        if self.needed > 1 {
            return Err(format!(
                "{} people have to allow each call, and a grant is one person's word",
                self.needed
            ));
        }
        Ok(())
    }

    /// Whether the operator who minted `grant` is one who may decide about such calls.
    pub fn may_still(&self, approvers: &Approvers, grant: &Grant) -> bool {
        let scope = &grant.scope;
        let mut asking = std::iter::once(&scope.agent).chain(&scope.user);
        let is_itself = asking.any(|known| is_same_name(&grant.who, known));
        let is_there = approvers.decides(&grant.who, &self.roles);
        is_there && (self.self_approval || !is_itself)
    }
}

/// What the call takes of `grant`, if it is one that the grant is about.
pub(crate) fn covers(grant: &Grant, call: &GrantSubject<'_>) -> Result<GrantUse, GrantMiss> {
    if let Some(miss) = misses(grant, *call).next() {
        return Err(miss);
    }
    let total = grant.total.as_ref();
    let amount = total.and_then(|total| amount_at(call.arguments, &total.pointer));
    Ok(GrantUse {
        key: Grant::key_of(grant.id),
        amount: amount.unwrap_or_default(),
    })
}

/// Why `grant` is not about the call, one condition after the other; none where it is.
pub(crate) fn misses<'a>(
    grant: &'a Grant,
    call: GrantSubject<'a>,
) -> impl Iterator<Item = GrantMiss> + 'a {
    let scope = &grant.scope;
    let same = [
        (scope.tool == *call.tool, "tool"),
        (scope.agent == call.agent, "agent"),
        (scope.tenant.as_deref() == call.tenant, "tenant"),
        (scope.user.as_deref() == call.user, "user"),
    ];
    let other = same.into_iter().filter(|(is_same, _)| !is_same);
    let other = other.map(|(_, what)| GrantMiss::Scope(what));
    let dead = once_with(move || dead_by(grant, call.policy, call.definition));
    let dead = dead.flatten().map(GrantMiss::Dead);
    let beside = once_with(move || {
        let is_other = scope.beside != call.beside.map(digest_of_beside);
        is_other.then_some(GrantMiss::Beside)
    });
    let unfit = once_with(move || unfit(&grant.constraints, call.arguments));
    let uncounted = once_with(move || {
        let total = grant.total.as_ref()?;
        let amount = amount_at(call.arguments, &total.pointer);
        amount
            .is_none()
            .then(|| GrantMiss::NoAmount(total.pointer.clone()))
    });
    let about = beside.flatten().chain(unfit.flatten());
    other.chain(dead).chain(about).chain(uncounted.flatten())
}

/// What has changed of the policy, which is `bound` now, and of the tool's `definition`.
pub(crate) fn dead_by<'a>(
    grant: &'a Grant,
    bound: Digest,
    definition: &'a str,
) -> impl Iterator<Item = GrantDeath> + 'a {
    let scope = &grant.scope;
    let contract = once_with(move || scope.bound_to != bound.to_string());
    let contract = contract.map(|is_other| is_other.then_some(GrantDeath::Contract));
    let tool = once_with(move || scope.schema_hash != definition);
    let tool = tool.map(|is_other| is_other.then_some(GrantDeath::Definition));
    contract.chain(tool).flatten()
}

/// Where less is left of what all calls may move together than the call would move at `now`.
pub(crate) fn over_total(grant: &Grant, arguments: &Value, now: Millis) -> Option<GrantMiss> {
    let total = grant.total.as_ref()?;
    let amount = amount_at(arguments, &total.pointer)?;
    let is_over = grant.ended(now).is_none() && grant.admit(amount, now).is_err();
    is_over.then(|| GrantMiss::OverTotal(total.pointer.clone()))
}

/// What else of a call travels, as a grant keeps it.
pub(crate) fn digest_of_beside(beside: &Value) -> Digest {
    Digest::of_parts("granted beside", &[&canonical::exact(beside)])
}

/// The amount that `pointer` leads to.
pub(crate) fn amount_at(arguments: &Value, pointer: &str) -> Option<Amount> {
    match arguments.pointer(pointer)? {
        Value::Number(number) => Amount::of(number),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

/// Whether each argument is as one of `constraints` says, and each of these is met.
pub(crate) fn fit(constraints: &[ArgumentConstraint], arguments: &Value) -> Result<(), GrantMiss> {
    match unfit(constraints, arguments).next() {
        Some(miss) => Err(miss),
        None => Ok(()),
    }
}

/// The arguments that are not so: each that is not as is said of it, and the first of which nothing is said.
fn unfit<'a>(
    constraints: &'a [ArgumentConstraint],
    arguments: &'a Value,
) -> impl Iterator<Item = GrantMiss> + 'a {
    let others = constraints
        .iter()
        .filter(|one| !is_met(&one.is, found(one, arguments)))
        .map(|one| GrantMiss::Other(one.pointer.clone()));
    let unsaid = once_with(move || {
        let places: Vec<String> = constraints.iter().map(place).collect();
        unnamed(&places, arguments, String::new())
    });
    // No key is escaped so: it leaves the pointer.
    let unsaid = unsaid.flatten().map(|place| place.replace(ITEM_MARK, ""));
    others.chain(unsaid.map(GrantMiss::Unnamed))
}

/// Whether a step of a pointer names an item of an array, if `numbered_members` of its constraint do not say
/// that it is the `nth` step and a member.
fn is_item(one: &ArgumentConstraint, nth: usize, step: &str) -> bool {
    is_number(step) && !one.numbered_members.contains(&nth)
}

fn is_number(step: &str) -> bool {
    !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit())
}

/// What the constraint speaks of, through arrays and objects as it names them.
fn found<'a>(one: &ArgumentConstraint, arguments: &'a Value) -> Option<&'a Value> {
    let mut steps = pointer::steps(&one.pointer).into_iter().enumerate();
    steps.try_fold(arguments, |value, (nth, step)| {
        match (value, is_item(one, nth, &step)) {
            // As the library reads it: without zeros before it.
            (Value::Array(_), true) => value.pointer(&format!("/{step}")),
            (Value::Object(members), false) => members.get(&step),
            _ => None,
        }
    })
}

/// Its pointer, in which the steps to items are marked.
fn place(one: &ArgumentConstraint) -> String {
    let steps = one.pointer.split('/').skip(1).enumerate();
    steps.fold(String::new(), |place, (nth, step)| {
        let mark = if is_item(one, nth, step) {
            ITEM_MARK
        } else {
            ""
        };
        place + "/" + mark + step
    })
}

/// Which steps to what `pointer` names in the arguments that were `shown` are digits and name members.
pub(super) fn numbered_members(pointer: &str, shown: &Value) -> Vec<usize> {
    let (mut numbered, mut value) = (Vec::new(), Some(shown));
    for (nth, step) in pointer::steps(pointer).iter().enumerate() {
        if is_number(step) && value.is_some_and(Value::is_object) {
            numbered.push(nth);
        }
        let next = pointer::of(std::slice::from_ref(step));
        value = value.and_then(|value| value.pointer(&next));
    }
    numbered
}

fn is_met(rule: &ArgumentRule, argument: Option<&Value>) -> bool {
    match (rule, argument) {
        (ArgumentRule::Any, _) => true,
        (ArgumentRule::Equals(value), Some(found)) => is_same(value, found),
        (ArgumentRule::OneOf(values), Some(found)) => {
            values.iter().any(|value| is_same(value, found))
        }
        (ArgumentRule::AtMost(most), Some(Value::Number(found))) => {
            let none = Number::from(0_u8);
            number::compare(found, &none).is_ge() && number::compare(found, most).is_le()
        }
        (ArgumentRule::StartsWith(start), Some(Value::String(found))) => {
            found.starts_with(start) && !leads_up(found)
        }
        (ArgumentRule::AtMost(_) | ArgumentRule::StartsWith(_), Some(_)) | (_, None) => false,
    }
}

/// To the last digit; the order of members says nothing.
fn is_same(one: &Value, other: &Value) -> bool {
    // The first is cheap, and takes 0 and -0 for the same.
    one == other && canonical::exact(one) == canonical::exact(other)
}

/// Whether a text has `..` between slashes, of either kind and in either spelling: behind a path that
/// it begins with, it could lead out of that.
pub(super) fn leads_up(text: &str) -> bool {
    if !text.contains("..") && !text.contains('%') {
        return false;
    }
    let plain = text.to_ascii_lowercase().replace("%2e", ".");
    let plain = plain.replace("%2f", "/").replace("%5c", "\\");
    plain.split(['/', '\\']).any(|step| step == "..")
}

/// The first part of `value`, which stands at `at`, that none of the marked `places` is. What they lead through as
/// an array is no object, and the other way about.
fn unnamed(places: &[String], value: &Value, at: String) -> Option<String> {
    if places.contains(&at) {
        return None;
    }
    let leads_deeper = |to_items: bool| {
        let below = places.iter().filter(|place| is_below(place, &at));
        let mut steps = below.map(|place| &place[at.len() + 1..]);
        steps.any(|step| step.starts_with(ITEM_MARK) == to_items)
    };
    match value {
        Value::Object(members) if leads_deeper(false) || at.is_empty() && members.is_empty() => {
            let mut members = members.iter();
            members.find_map(|(key, value)| unnamed(places, value, step(&at, key)))
        }
        Value::Array(items) if leads_deeper(true) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, value)| {
                unnamed(places, value, format!("{at}/{ITEM_MARK}{index}"))
            })
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => Some(at),
    }
}

/// Whether `pointer` leads to a part of what `at` leads to.
pub(super) fn is_below(pointer: &str, at: &str) -> bool {
    pointer
        .strip_prefix(at)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// The pointer to the member `key` of what `at` leads to.
pub(super) fn step(at: &str, key: &str) -> String {
    at.to_owned() + &pointer::of(&[key.to_owned()])
}

#[cfg(test)]
mod tests;
