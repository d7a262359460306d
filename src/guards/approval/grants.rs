//! Whether a standing grant covers a call (guarantees §7): the same agent, tenant, user, tool, definition
//! and contract, and arguments of which each is as the grant says. What a grant does not speak of, it
//! does not cover.

use super::{Approved, Rule};
use crate::mcp::canonical;
use crate::mcp::json::fold::is_same_name;
use crate::model::amount::Amount;
use crate::model::approvers::Approvers;
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::model::number;
use crate::model::pointer;
use crate::store::state::grant::{ArgumentConstraint, ArgumentRule, Grant, GrantUse};
use serde_json::{Number, Value};
use std::fmt;

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

/// Why a grant does not cover a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantMiss {
    /// It is for another agent, tenant, user or tool.
    Scope(&'static str),
    /// The tool, or what the policy says of it, is not as it was, or nobody may decide so any more.
    Dead(&'static str),
    /// The call brings more than its arguments, or other things than what was shown.
    Beside,
    /// The grant does not speak of the argument.
    Unnamed(String),
    /// The argument is not as the grant says.
    Other(String),
    /// What would be added up is no amount.
    NoAmount(String),
    /// No grant stands for a person's word on such a call.
    Ungrantable(String),
    /// The argument may be whatever it is by the grant, and not by what counts for such a call.
    LeftOpen(String),
}

/// Why a grant covers no call any more when the contract is another.
pub(crate) const CONTRACT_CHANGED_SINCE: &str =
    "what the policy says of the tool has changed since it was granted";
/// The same when the definition is another.
pub(crate) const TOOL_CHANGED_SINCE: &str = "the tool has changed since it was granted";
/// The same when its operator is gone.
pub(crate) const OPERATOR_GONE: &str =
    "the operator who granted it is none any more who may decide about the tool's calls";

impl fmt::Display for GrantMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scope(what) => write!(f, "it is for another {what}"),
            Self::Dead(why) => f.write_str(why),
            Self::Ungrantable(why) => f.write_str(why),
            Self::LeftOpen(pointer) => write!(
                f,
                "it leaves the argument `{pointer}` open, which the contract does not for such a call"
            ),
            Self::Beside => f.write_str("the call brings other things beside its arguments"),
            Self::Unnamed(pointer) if pointer.is_empty() => {
                f.write_str("it says nothing of the arguments as a whole")
            }
            Self::Unnamed(pointer) => write!(f, "it does not speak of the argument `{pointer}`"),
            Self::Other(pointer) if pointer.is_empty() => {
                f.write_str("the arguments are not exactly those that were granted")
            }
            Self::Other(pointer) => {
                write!(f, "the argument `{pointer}` is not as it was granted")
            }
            Self::NoAmount(pointer) => {
                write!(
                    f,
                    "the argument `{pointer}` is no amount that can be added up"
                )
            }
        }
    }
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
        if !self.may_still(approvers, grant) {
            return Err(GrantMiss::Dead(OPERATOR_GONE));
        }
        // It was judged when it was minted, but then by the variant of the call that was shown.
        self.is_grantable().map_err(GrantMiss::Ungrantable)?;
        for one in &*grant.constraints {
            if matches!(one.is, ArgumentRule::Any) && !self.grant_any.contains(&one.pointer) {
                return Err(GrantMiss::LeftOpen(one.pointer.clone()));
            }
        }
        Ok(Approved::by_grant(used))
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
        let is_there = approvers.reach(&self.roles, |name| name == grant.who) > 0;
        is_there && (self.self_approval || !is_itself)
    }
}

/// What the call takes of `grant`, if it is one that the grant is about.
pub(crate) fn covers(grant: &Grant, call: &GrantSubject<'_>) -> Result<GrantUse, GrantMiss> {
    let scope = &grant.scope;
    let same = [
        (scope.tool == *call.tool, "tool"),
        (scope.agent == call.agent, "agent"),
        (scope.tenant.as_deref() == call.tenant, "tenant"),
        (scope.user.as_deref() == call.user, "user"),
    ];
    if let Some((_, what)) = same.into_iter().find(|(is_same, _)| !is_same) {
        return Err(GrantMiss::Scope(what));
    }
    if scope.bound_to != call.policy.to_string() {
        return Err(GrantMiss::Dead(CONTRACT_CHANGED_SINCE));
    }
    if scope.schema_hash != call.definition {
        return Err(GrantMiss::Dead(TOOL_CHANGED_SINCE));
    }
    if scope.beside != call.beside.map(digest_of_beside) {
        return Err(GrantMiss::Beside);
    }
    fit(&grant.constraints, call.arguments)?;
    let total = grant.total.as_ref();
    let amount = total.map(|total| {
        amount_at(call.arguments, &total.pointer)
            .ok_or_else(|| GrantMiss::NoAmount(total.pointer.clone()))
    });
    Ok(GrantUse {
        key: Grant::key_of(grant.id),
        amount: amount.transpose()?.unwrap_or_default(),
    })
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
    for one in constraints {
        if !is_met(&one.is, arguments.pointer(&one.pointer)) {
            return Err(GrantMiss::Other(one.pointer.clone()));
        }
    }
    match unnamed(constraints, arguments, String::new()) {
        Some(pointer) => Err(GrantMiss::Unnamed(pointer)),
        None => Ok(()),
    }
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

/// The first part of `value`, which stands at `at`, that none of `constraints` speaks of.
fn unnamed(constraints: &[ArgumentConstraint], value: &Value, at: String) -> Option<String> {
    if constraints.iter().any(|one| one.pointer == at) {
        return None;
    }
    let is_deeper = constraints.iter().any(|one| is_below(&one.pointer, &at));
    match value {
        Value::Object(members) if is_deeper || at.is_empty() && members.is_empty() => members
            .iter()
            .find_map(|(key, value)| unnamed(constraints, value, step(&at, key))),
        Value::Array(items) if is_deeper => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, value)| {
                unnamed(constraints, value, step(&at, &index.to_string()))
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
