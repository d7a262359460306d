//! Values for the expressions: JSON to CEL with integers as `int`, so that `arguments.amount + 1` means something.

use super::expression::Wanted;
use crate::model::caller::Caller;
use crate::model::ids::TenantId;
use cel::objects::{Key, Map};
use serde_json::{Number, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// What the rules of one call may read, in bytes: text as it is, 8 for each value.
const MAX_BYTES: usize = 64 << 10;

/// The caller, as rules see it.
pub(super) fn caller(caller: &Caller) -> cel::Value {
    let text = |text: Option<&str>| text.map_or(cel::Value::Null, cel::Value::from);
    let roles = caller.roles.iter().map(|role| cel::Value::from(role.as_str())).collect();
    map([
        ("agent", text(Some(caller.agent.as_str()))),
        ("tenant", text(caller.tenant.as_ref().map(TenantId::as_str))),
        ("roles", cel::Value::List(Arc::new(roles))),
        ("group", text(caller.group.as_deref())),
        ("model", text(caller.model.as_deref())),
        ("owner", cel::Value::Bool(caller.owner)),
    ])
}

/// The arguments that are wanted. None when they are too long.
pub(super) fn arguments(arguments: &Value, wanted: &Wanted) -> Option<cel::Value> {
    let mut left = MAX_BYTES;
    let (Wanted::Named(names), Value::Object(members)) = (wanted, arguments) else {
        return convert(arguments, &mut left);
    };
    let mut read = HashMap::with_capacity(names.len());
    for name in names {
        if let Some(value) = members.get(name) {
            read.insert(Key::from(name.as_str()), convert(value, &mut left)?);
        }
    }
    Some(cel::Value::Map(Map { map: Arc::new(read) }))
}

fn convert(value: &Value, left: &mut usize) -> Option<cel::Value> {
    *left = left.checked_sub(8)?;
    Some(match value {
        Value::Null => cel::Value::Null,
        Value::Bool(bool) => cel::Value::Bool(*bool),
        Value::Number(number) => convert_number(number),
        Value::String(text) => {
            *left = left.checked_sub(text.len())?;
            cel::Value::from(text.as_str())
        }
        Value::Array(elements) => {
            let elements: Option<Vec<_>> = elements.iter().map(|element| convert(element, left)).collect();
            cel::Value::List(Arc::new(elements?))
        }
        Value::Object(members) => {
            let mut map = HashMap::with_capacity(members.len());
            for (key, member) in members {
                *left = left.checked_sub(key.len())?;
                map.insert(Key::from(key.as_str()), convert(member, left)?);
            }
            cel::Value::Map(Map { map: Arc::new(map) })
        }
    })
}

fn convert_number(number: &Number) -> cel::Value {
    match (number.as_i64(), number.as_u64()) {
        (Some(int), _) => cel::Value::Int(int),
        (None, Some(uint)) => cel::Value::UInt(uint),
        (None, None) => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

fn map<const N: usize>(members: [(&str, cel::Value); N]) -> cel::Value {
    cel::Value::Map(Map { map: Arc::new(members.into_iter().map(|(key, value)| (Key::from(key), value)).collect()) })
}
