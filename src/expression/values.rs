//! Values for the expressions: JSON to CEL with integers as `int`, so that `arguments.amount + 1`
//! means something.

use super::reads::ArgumentsRead;
use crate::model::caller::Caller;
use crate::model::ids::{TenantId, UserId};
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use serde_json::{Number, Value};
use std::collections::HashMap;
use std::sync::OnceLock;

/// What the rules of one call may read, in bytes: text as it is, 8 for each value.
const READ_BYTES_MAX: usize = 64 << 10;

/// A value that borrows its text.
type Borrowed<'v> = Box<dyn Val + 'v>;

/// The caller, as rules see it; made when the first of them looks.
pub struct LazyCaller<'v> {
    caller: &'v Caller,
    value: OnceLock<CelMap<'v>>,
}

impl<'v> LazyCaller<'v> {
    /// `caller`, not looked at yet.
    pub fn new(caller: &'v Caller) -> Self {
        Self {
            caller,
            value: OnceLock::new(),
        }
    }

    /// Who it is.
    pub(super) fn caller(&self) -> &'v Caller {
        self.caller
    }

    fn value(&self) -> CelMap<'v> {
        let caller = self.caller;
        let roles: Vec<Borrowed<'v>> = caller.roles.iter().map(|role| text(Some(role))).collect();
        let members: [(&'static str, Borrowed<'v>); 7] = [
            ("agent", text(Some(caller.agent.as_str()))),
            ("tenant", text(caller.tenant.as_ref().map(TenantId::as_str))),
            ("user", text(caller.user.as_ref().map(UserId::as_str))),
            ("roles", Box::new(CelList::from(roles))),
            ("group", text(caller.group.as_deref())),
            ("model", text(caller.model.as_deref())),
            ("owner", Box::new(CelBool::from(caller.owner))),
        ];
        CelMap::from(
            members
                .into_iter()
                .map(|(key, value)| (CelMapKey::from(key), value))
                .collect::<HashMap<_, _>>(),
        )
    }
}

impl VariableResolver for LazyCaller<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        (variable == "caller").then(|| CowVal::Borrowed(self.value.get_or_init(|| self.value())))
    }
}

fn text(text: Option<&str>) -> Borrowed<'_> {
    text.map_or_else(
        || Box::new(CelNull) as Borrowed<'_>,
        |text| Box::new(CelString::from(text)),
    )
}

/// Whether what is wanted of `arguments` is no longer than rules may read.
pub(super) fn are_short(arguments: &Value, wanted: &ArgumentsRead) -> bool {
    let left = match (wanted, arguments) {
        (ArgumentsRead::Named(names), Value::Object(members)) => names
            .iter()
            .filter_map(|name| members.get(name))
            .try_fold(READ_BYTES_MAX, |left, value| left_after(value, left)),
        (ArgumentsRead::Named(_) | ArgumentsRead::All, _) => left_after(arguments, READ_BYTES_MAX),
    };
    left.is_some()
}

/// What is left of so many bytes once `value` is read; none if it is longer.
fn left_after(value: &Value, left: usize) -> Option<usize> {
    let left = left.checked_sub(8)?;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(left),
        Value::String(text) => left.checked_sub(text.len()),
        Value::Array(elements) => elements
            .iter()
            .try_fold(left, |left, element| left_after(element, left)),
        Value::Object(members) => members.iter().try_fold(left, |left, (key, member)| {
            left_after(member, left.checked_sub(key.len())?)
        }),
    }
}

/// The arguments that are wanted.
pub(super) fn arguments<'v>(arguments: &'v Value, wanted: &ArgumentsRead) -> Borrowed<'v> {
    let (ArgumentsRead::Named(names), Value::Object(members)) = (wanted, arguments) else {
        return convert(arguments);
    };
    let read = names
        .iter()
        .filter_map(|name| members.get_key_value(name))
        .map(|(name, value)| (CelMapKey::from(name.as_str()), convert(value)));
    Box::new(CelMap::from(read.collect::<HashMap<_, _>>()))
}

/// The values in `value`, with 16 bytes of text for one.
pub(super) fn size(value: &Value) -> u64 {
    match value {
        Value::Array(elements) => elements.iter().fold(1, |sum, element| sum + size(element)),
        Value::Object(members) => members.iter().fold(1, |sum, (name, member)| {
            sum + 1 + name.len() as u64 / 16 + size(member)
        }),
        Value::String(text) => 1 + text.len() as u64 / 16,
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

impl ArgumentsRead {
    /// The size of what is wanted of `arguments`.
    pub(super) fn size(&self, arguments: &Value) -> u64 {
        match self {
            Self::All => size(arguments),
            Self::Named(names) => names
                .iter()
                .filter_map(|name| arguments.get(name))
                .map(size)
                .sum(),
        }
    }
}

fn convert(value: &Value) -> Borrowed<'_> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(bool) => Box::new(CelBool::from(*bool)),
        Value::Number(number) => convert_number(number),
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(convert).collect();
            Box::new(CelList::from(elements))
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, member)| (CelMapKey::from(key.as_str()), convert(member)));
            Box::new(CelMap::from(members.collect::<HashMap<_, _>>()))
        }
    }
}

fn convert_number(number: &Number) -> Borrowed<'static> {
    match (number.as_i64(), number.as_u64()) {
        (Some(int), _) => Box::new(CelInt::from(int)),
        (None, Some(uint)) => Box::new(CelUInt::from(uint)),
        (None, None) => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
    }
}
