//! Judges a tool's input schema before it is compiled: shape, dialect, bounds (threat-model §4).
//!
//! A schema comes from a tool server, so it can be made to hang or to bloat the process that
//! compiles it, or to fetch from where its author likes. What exceeds a bound quarantines the tool:
//! a schema that was not understood judges nothing.

use super::dialect::dialect;
use super::quarantine::Quarantine;
use super::survey::{Applicator, Survey};
use serde_json::Value;

/// The schema as text, in bytes (threat-model §4).
const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Nested arrays and objects (threat-model §4).
const MAX_SCHEMA_DEPTH: usize = 32;
/// Subschemas when every reference is written out (threat-model §4).
const MAX_EXPANDED_SUBSCHEMAS: u64 = 10_000;

/// Judges `schema`. Takes time in proportion to its size, whatever it says.
#[cfg(test)]
fn judge(schema: &Value) -> Result<(), Quarantine> {
    survey(schema).map(drop)
}

/// Judges `schema` and returns its layout.
pub(super) fn survey(schema: &Value) -> Result<Survey<'_>, Quarantine> {
    if !schema.is_object() {
        return Err(Quarantine::NotAnObject);
    }
    if dialect(schema).is_none() {
        return Err(Quarantine::UnknownDialect);
    }
    if !within(schema, MAX_SCHEMA_DEPTH) {
        return Err(Quarantine::TooDeep);
    }
    let mut room = ByteCountdown(SCHEMA_BYTES_MAX);
    serde_json::to_writer(&mut room, schema).map_err(|_| Quarantine::TooLarge)?;
    let survey = Survey::of(schema)?;
    if expansions(&survey) > MAX_EXPANDED_SUBSCHEMAS {
        return Err(Quarantine::TooManyExpansions);
    }
    Ok(survey)
}

fn within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(elements) => {
            depth > 0 && elements.iter().all(|element| within(element, depth - 1))
        }
        Value::Object(members) => {
            depth > 0 && members.values().all(|member| within(member, depth - 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Counts bytes down and fails at none.
struct ByteCountdown(usize);

impl std::io::Write for ByteCountdown {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self
            .0
            .checked_sub(bytes.len())
            .ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How many subschemas there are when every reference is written out; a reference to what is being
/// written counts one.
fn expansions(survey: &Survey<'_>) -> u64 {
    let mut counts: Vec<Option<u64>> = vec![None; survey.nodes.len()];
    let mut open = vec![false; survey.nodes.len()];
    let mut stack = vec![(0_usize, 0_usize, 1_u64)];
    open[0] = true;
    // An explicit stack: a chain of references is as long as the schema has subschemas.
    while let Some((node, next, total)) = stack.pop() {
        let Some(&(step, target)) = survey.nodes[node].steps.get(next) else {
            open[node] = false;
            counts[node] = Some(total);
            if let Some((_, _, above)) = stack.last_mut() {
                *above = above.saturating_add(total);
            }
            continue;
        };
        let known = if step == Applicator::Kept {
            Some(0)
        } else {
            counts[target].or(open[target].then_some(1))
        };
        stack.push((node, next + 1, total.saturating_add(known.unwrap_or(0))));
        if known.is_none() {
            open[target] = true;
            stack.push((target, 0, 1));
        }
    }
    counts[0].unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
