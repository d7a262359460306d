//! Simple expressions without the machinery of the language: comparisons of arguments, and of what is
//! known of the caller, with what the expression says itself, looks at texts, and the words that join
//! them.
//!
//! Only what cannot fail is decided here. Where a value is absent, or of a kind that the comparison may
//! not take, nothing is decided, and the language says what that means: the two never differ. Patterns
//! are the language's, too: what they take is paid for once.

use crate::model::caller::Caller;
use crate::model::ids::{TenantId, UserId};
use cel::IdedExpr;
use cel::common::ast::{CallExpr, Expr, LiteralValue, operators};
use serde_json::{Map, Value};
use std::cmp::Ordering;

/// What a simple expression asks.
#[derive(Debug)]
pub(super) enum DirectTest {
    /// Both, the second only where the first is true.
    Both(Box<[Self; 2]>),
    /// One of them, the second only where the first is false.
    Either(Box<[Self; 2]>),
    /// The contrary.
    Not(Box<Self>),
    /// The argument on this path is there.
    Has(Vec<String>),
    /// How two values compare.
    Compared(Relation, Box<[DirectOperand; 2]>),
    /// The value is one of these.
    Among(DirectOperand, Vec<DirectOperand>),
    /// The value is a role of the caller.
    HasRole(DirectOperand),
    /// What a text has in it.
    Holds(TextPlace, Box<[DirectOperand; 2]>),
    /// The value itself is true.
    IsTrue(DirectOperand),
}

/// How two values have to compare.
#[derive(Debug, Clone, Copy)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Where a text has to have another one.
#[derive(Debug, Clone, Copy)]
pub(super) enum TextPlace {
    Start,
    End,
    Anywhere,
}

/// Where a value comes from.
#[derive(Debug)]
pub(super) enum DirectOperand {
    Null,
    Truth(bool),
    Whole(i64),
    Text(String),
    /// The argument on this path.
    Argument(Vec<String>),
    /// How long that is: its characters, elements or members.
    Size(Vec<String>),
    /// What is known of the caller.
    Caller(CallerMember),
}

/// A member of the caller that is no list.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallerMember {
    Agent,
    Tenant,
    User,
    Group,
    Model,
    Owner,
}

/// A value of a kind on which nothing fails. Those of two kinds are never equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectValue<'v> {
    Null,
    Truth(bool),
    Whole(i64),
    Text(&'v str),
}

/// The call that is judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct DirectInput<'v> {
    /// Who calls.
    pub(super) caller: &'v Caller,
    /// The arguments.
    pub(super) arguments: &'v Value,
}

impl DirectTest {
    /// What `node` asks, if that is simple.
    pub(super) fn of(node: &IdedExpr) -> Option<Self> {
        if let Expr::Call(call) = &node.expr
            && let Some(test) = Self::of_call(call)
        {
            return Some(test);
        }
        if let Expr::Select(select) = &node.expr
            && select.test
        {
            let mut path = argument_path(&select.operand)?;
            path.push(select.field.clone());
            return Some(Self::Has(path));
        }
        DirectOperand::of(node).map(Self::IsTrue)
    }

    fn of_call(call: &CallExpr) -> Option<Self> {
        let (name, parts) = (call.func_name.as_str(), call.args.as_slice());
        if let Some(text) = &call.target {
            let ([part], place) = (parts, TextPlace::of(name)?) else {
                return None;
            };
            let both = [DirectOperand::of(text)?, DirectOperand::of(part)?];
            return Some(Self::Holds(place, Box::new(both)));
        }
        if let ([part], operators::LOGICAL_NOT) = (parts, name) {
            return Some(Self::Not(Box::new(Self::of(part)?)));
        }
        let [one, other] = parts else { return None };
        match name {
            operators::LOGICAL_AND => {
                let both = [Self::of(one)?, Self::of(other)?];
                Some(Self::Both(Box::new(both)))
            }
            operators::LOGICAL_OR => {
                let both = [Self::of(one)?, Self::of(other)?];
                Some(Self::Either(Box::new(both)))
            }
            operators::IN => Self::of_in(one, other),
            _ => {
                let relation = Relation::of(name)?;
                let both = [DirectOperand::of(one)?, DirectOperand::of(other)?];
                Some(Self::Compared(relation, Box::new(both)))
            }
        }
    }

    fn of_in(value: &IdedExpr, container: &IdedExpr) -> Option<Self> {
        let value = DirectOperand::of(value)?;
        if caller_member(container) == Some("roles") {
            return Some(Self::HasRole(value));
        }
        let Expr::List(list) = &container.expr else {
            return None;
        };
        if !list.optional_indices.is_empty() {
            return None;
        }
        let all: Option<Vec<_>> = list.elements.iter().map(DirectOperand::literal).collect();
        Some(Self::Among(value, all?))
    }

    /// Whether the call is so; none where only the language can tell.
    pub(super) fn truth(&self, input: DirectInput<'_>) -> Option<bool> {
        match self {
            Self::Both(both) => {
                let [one, other] = &**both;
                if one.truth(input)? {
                    other.truth(input)
                } else {
                    Some(false)
                }
            }
            Self::Either(both) => {
                let [one, other] = &**both;
                if one.truth(input)? {
                    Some(true)
                } else {
                    other.truth(input)
                }
            }
            Self::Not(test) => test.truth(input).map(|truth| !truth),
            Self::Has(path) => {
                let (last, before) = path.split_last()?;
                Some(members_at(input.arguments, before)?.contains_key(last))
            }
            Self::Compared(relation, both) => {
                let [one, other] = &**both;
                relation.holds(one.value(input)?, other.value(input)?)
            }
            Self::Among(value, all) => {
                let value = value.value(input)?;
                let is_any = |one: &DirectOperand| one.value(input) == Some(value);
                Some(all.iter().any(is_any))
            }
            Self::HasRole(value) => {
                let value = value.value(input)?;
                let is_any = |role: &String| DirectValue::Text(role) == value;
                Some(input.caller.roles.iter().any(is_any))
            }
            Self::Holds(place, both) => {
                let [one, other] = &**both;
                Some(place.is_in(one.text(input)?, other.text(input)?))
            }
            Self::IsTrue(value) => match value.value(input)? {
                DirectValue::Truth(truth) => Some(truth),
                DirectValue::Null | DirectValue::Whole(_) | DirectValue::Text(_) => None,
            },
        }
    }
}

impl Relation {
    fn of(operator: &str) -> Option<Self> {
        Some(match operator {
            operators::EQUALS => Self::Equal,
            operators::NOT_EQUALS => Self::NotEqual,
            operators::LESS => Self::Less,
            operators::LESS_EQUALS => Self::LessOrEqual,
            operators::GREATER => Self::Greater,
            operators::GREATER_EQUALS => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    fn holds(self, one: DirectValue<'_>, other: DirectValue<'_>) -> Option<bool> {
        Some(match self {
            Self::Equal => one == other,
            Self::NotEqual => one != other,
            Self::Less => one.order(other)? == Ordering::Less,
            Self::LessOrEqual => one.order(other)? != Ordering::Greater,
            Self::Greater => one.order(other)? == Ordering::Greater,
            Self::GreaterOrEqual => one.order(other)? != Ordering::Less,
        })
    }
}

impl TextPlace {
    fn of(function: &str) -> Option<Self> {
        Some(match function {
            "startsWith" => Self::Start,
            "endsWith" => Self::End,
            "contains" => Self::Anywhere,
            _ => return None,
        })
    }

    fn is_in(self, text: &str, part: &str) -> bool {
        match self {
            Self::Start => text.starts_with(part),
            Self::End => text.ends_with(part),
            Self::Anywhere => text.contains(part),
        }
    }
}

impl DirectValue<'_> {
    /// None for those that have no order.
    fn order(self, other: DirectValue<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Truth(one), DirectValue::Truth(other)) => Some(one.cmp(&other)),
            (Self::Whole(one), DirectValue::Whole(other)) => Some(one.cmp(&other)),
            (Self::Text(one), DirectValue::Text(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }
}

impl DirectOperand {
    fn of(node: &IdedExpr) -> Option<Self> {
        if let Some(literal) = Self::literal(node) {
            return Some(literal);
        }
        if let Some(member) = caller_member(node) {
            return CallerMember::of(member).map(Self::Caller);
        }
        if let Some(measured) = measured(node) {
            return argument(measured).map(Self::Size);
        }
        argument(node).map(Self::Argument)
    }

    fn literal(node: &IdedExpr) -> Option<Self> {
        let Expr::Literal(literal) = &node.expr else {
            return None;
        };
        match literal {
            LiteralValue::Null => Some(Self::Null),
            LiteralValue::Boolean(truth) => Some(Self::Truth(*truth.inner())),
            LiteralValue::Int(number) => Some(Self::Whole(*number.inner())),
            LiteralValue::String(text) => Some(Self::Text(text.inner().to_owned())),
            // Numbers of two kinds compare by rules of the language.
            LiteralValue::UInt(_) | LiteralValue::Double(_) | LiteralValue::Bytes(_) => None,
        }
    }

    fn text<'v>(&'v self, input: DirectInput<'v>) -> Option<&'v str> {
        match self.value(input)? {
            DirectValue::Text(text) => Some(text),
            DirectValue::Null | DirectValue::Truth(_) | DirectValue::Whole(_) => None,
        }
    }

    fn value<'v>(&'v self, input: DirectInput<'v>) -> Option<DirectValue<'v>> {
        Some(match self {
            Self::Null => DirectValue::Null,
            Self::Truth(truth) => DirectValue::Truth(*truth),
            Self::Whole(number) => DirectValue::Whole(*number),
            Self::Text(text) => DirectValue::Text(text),
            Self::Caller(member) => member.value(input.caller),
            Self::Argument(path) => match value_at(input.arguments, path)? {
                Value::Null => DirectValue::Null,
                Value::Bool(truth) => DirectValue::Truth(*truth),
                Value::Number(number) => DirectValue::Whole(number.as_i64()?),
                Value::String(text) => DirectValue::Text(text),
                Value::Array(_) | Value::Object(_) => return None,
            },
            Self::Size(path) => {
                let size = match value_at(input.arguments, path)? {
                    Value::String(text) => text.chars().count(),
                    Value::Array(elements) => elements.len(),
                    Value::Object(members) => members.len(),
                    Value::Null | Value::Bool(_) | Value::Number(_) => return None,
                };
                DirectValue::Whole(i64::try_from(size).ok()?)
            }
        })
    }
}

impl CallerMember {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "agent" => Self::Agent,
            "tenant" => Self::Tenant,
            "user" => Self::User,
            "group" => Self::Group,
            "model" => Self::Model,
            "owner" => Self::Owner,
            _ => return None,
        })
    }

    fn value(self, caller: &Caller) -> DirectValue<'_> {
        let text = match self {
            Self::Owner => return DirectValue::Truth(caller.owner),
            Self::Agent => Some(caller.agent.as_str()),
            Self::Tenant => caller.tenant.as_ref().map(TenantId::as_str),
            Self::User => caller.user.as_ref().map(UserId::as_str),
            Self::Group => caller.group.as_deref(),
            Self::Model => caller.model.as_deref(),
        };
        text.map_or(DirectValue::Null, DirectValue::Text)
    }
}

/// The members of what is on `path`; none if it is not there, or no object.
fn members_at<'v>(arguments: &'v Value, path: &[String]) -> Option<&'v Map<String, Value>> {
    let step = |members: &'v Map<String, Value>, name: &String| members.get(name)?.as_object();
    path.iter().try_fold(arguments.as_object()?, step)
}

/// What is on `path`, below what it begins with.
fn value_at<'v>(arguments: &'v Value, path: &[String]) -> Option<&'v Value> {
    let (last, before) = path.split_last()?;
    members_at(arguments, before)?.get(last)
}

/// The path of `arguments.a.b`, which is no longer `arguments` as a whole.
fn argument(node: &IdedExpr) -> Option<Vec<String>> {
    argument_path(node).filter(|path| !path.is_empty())
}

/// What `size(x)` and `x.size()` measure.
fn measured(node: &IdedExpr) -> Option<&IdedExpr> {
    let Expr::Call(call) = &node.expr else {
        return None;
    };
    match (call.target.as_deref(), call.args.as_slice()) {
        (Some(measured), []) | (None, [measured]) if call.func_name == "size" => Some(measured),
        _ => None,
    }
}

/// The path of `arguments.a.b` or `arguments['a'].b`; empty for `arguments`.
fn argument_path(node: &IdedExpr) -> Option<Vec<String>> {
    if matches!(&node.expr, Expr::Ident(name) if name == "arguments") {
        return Some(Vec::new());
    }
    let (operand, name) = if let Expr::Select(select) = &node.expr
        && !select.test
    {
        (&*select.operand, select.field.clone())
    } else if let Expr::Call(CallExpr {
        func_name,
        target: None,
        args,
    }) = &node.expr
        && func_name == operators::INDEX
        && let [operand, index] = args.as_slice()
        && let Expr::Literal(LiteralValue::String(name)) = &index.expr
    {
        (operand, name.inner().to_owned())
    } else {
        return None;
    };
    let mut path = argument_path(operand)?;
    path.push(name);
    Some(path)
}

/// The name of `caller.name`.
fn caller_member(node: &IdedExpr) -> Option<&str> {
    let Expr::Select(select) = &node.expr else {
        return None;
    };
    let is_caller = matches!(&select.operand.expr, Expr::Ident(name) if name == "caller");
    (is_caller && !select.test).then_some(select.field.as_str())
}

#[cfg(test)]
mod tests;
