//! Where a step works: a JSON pointer into the arguments.

use crate::model::diagnostic::Problems;
use crate::model::pointer::{is_pointer, steps};
use serde_json::{Map, Value};

/// Steps down at most.
const MAX_POINTER_STEPS: usize = 16;
/// What lies on the way is neither an object nor an element that is there.
pub(super) const PLACE_MISSING_MESSAGE: &str = "it cannot be applied to these arguments";

/// One place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArgumentPlace {
    /// As written.
    pub(super) pointer: String,
    /// Names and indexes from the root; never empty.
    pub(super) path: Vec<String>,
}

impl ArgumentPlace {
    /// Reads `pointer`, noting what is wrong with it.
    pub(super) fn compile(pointer: &str, problems: &mut Problems) -> Option<Self> {
        if !is_pointer(pointer) {
            problems.error(
                "not a JSON pointer to an argument",
                "write `/` and the argument's name, such as `/limit`",
            );
            return None;
        }
        let path = steps(pointer);
        if path.len() > MAX_POINTER_STEPS {
            problems.error(
                format!("more than {MAX_POINTER_STEPS} steps down"),
                "set the object that holds it",
            );
            return None;
        }
        Some(Self {
            pointer: pointer.to_owned(),
            path,
        })
    }

    /// The argument's name.
    pub(super) fn argument(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }

    /// What is there.
    pub(super) fn get<'v>(&self, arguments: &'v Value) -> Option<&'v Value> {
        arguments.pointer(&self.pointer)
    }

    /// Puts `value` there; objects on the way come into being.
    pub(super) fn set(&self, arguments: &mut Value, value: Value) -> Result<(), &'static str> {
        let Some((last, way)) = self.path.split_last() else {
            return Err(PLACE_MISSING_MESSAGE);
        };
        let mut at = arguments;
        for step in way {
            at = match at {
                Value::Object(members) => members
                    .entry(step)
                    .or_insert_with(|| Value::Object(Map::new())),
                Value::Array(elements) => element(elements, step).ok_or(PLACE_MISSING_MESSAGE)?,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    return Err(PLACE_MISSING_MESSAGE);
                }
            };
        }
        match at {
            Value::Object(members) => drop(members.insert(last.clone(), value)),
            Value::Array(elements) => {
                *element(elements, last).ok_or(PLACE_MISSING_MESSAGE)? = value;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(PLACE_MISSING_MESSAGE);
            }
        }
        Ok(())
    }

    /// Takes away what is there. An element is not: those after it would be others.
    pub(super) fn remove(&self, arguments: &mut Value) -> Result<(), &'static str> {
        let Some((last, _)) = self.path.split_last() else {
            return Err(PLACE_MISSING_MESSAGE);
        };
        let above = self.pointer.rsplit_once('/').map_or("", |(above, _)| above);
        match arguments.pointer_mut(above) {
            Some(Value::Object(members)) => drop(members.shift_remove(last)),
            Some(Value::Array(_)) => return Err(PLACE_MISSING_MESSAGE),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => {}
        }
        Ok(())
    }
}

fn element<'v>(elements: &'v mut [Value], index: &str) -> Option<&'v mut Value> {
    elements.get_mut(index.parse::<usize>().ok()?)
}
