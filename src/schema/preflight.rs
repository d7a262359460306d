//! Judges a tool's input schema before it is compiled: shape, dialect, bounds (SECURITY §4).
//!
//! A schema comes from a tool server, so it can be made to hang or to bloat the process that
//! compiles it, or to fetch from where its author likes. What exceeds a bound quarantines the tool:
//! a schema that was not understood judges nothing.

use super::survey::{Applicator, Survey};
use serde_json::Value;

/// The schema as text, in bytes (SECURITY §4).
const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Nested arrays and objects (SECURITY §4).
const MAX_SCHEMA_DEPTH: usize = 32;
/// Subschemas when every reference is written out (SECURITY §4).
const MAX_EXPANDED_SUBSCHEMAS: u64 = 10_000;

/// Why a tool's schema cannot be trusted to judge arguments, so that the tool is not offered at
/// all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Quarantine {
    /// Not a JSON object.
    #[error("the schema is not a JSON object")]
    NotAnObject,
    /// `$schema` names something else than 2020-12 or draft-07.
    #[error("`$schema` is neither draft 2020-12 nor draft-07")]
    UnknownDialect,
    /// Longer than 64 KiB.
    #[error("the schema is longer than 64 KiB")]
    TooLarge,
    /// Nested deeper than 32.
    #[error("the schema is nested more than 32 deep")]
    TooDeep,
    /// More than 2 000 subschemas.
    #[error("the schema has more than 2000 subschemas")]
    TooManySubschemas,
    /// More than 64 patterns.
    #[error("the schema has more than 64 patterns")]
    TooManyPatterns,
    /// A pattern longer than 512 bytes.
    #[error("a pattern is longer than 512 bytes")]
    PatternTooLong,
    /// A pattern that no bounded engine takes.
    #[error("a pattern is not a regular expression, or too costly to match")]
    UnusablePattern,
    /// A reference that leaves the schema.
    #[error("a `$ref` leads out of the schema: only `#…` is followed")]
    RemoteReference,
    /// A reference to nothing.
    #[error("a `$ref` leads to nothing in the schema")]
    DanglingReference,
    /// More than 8 `$dynamicRef`.
    #[error("the schema has more than 8 `$dynamicRef`")]
    TooManyDynamicReferences,
    /// References that multiply.
    #[error("the schema grows beyond 10000 subschemas when its references are written out")]
    TooManyExpansions,
    /// One value alone can take longer to judge than a message may.
    #[error("judging one value by the schema can take more than 0.1 s")]
    TooCostly,
    /// An `enum` of more than 1 000 members, or 100 objects and arrays.
    #[error("an `enum` has more than 1000 members, or more than 100 objects and arrays")]
    EnumTooLong,
    /// A `oneOf` or `anyOf` of more than 64 members.
    #[error("a `oneOf` or `anyOf` has more than 64 members")]
    TooManyAlternatives,
    /// A keyword has a value that its dialect does not allow.
    #[error("the schema breaks its dialect at `{at}`")]
    Invalid {
        /// JSON pointer into the schema, made safe to show.
        at: String,
    },
}

impl Quarantine {
    /// The stable label, for `toolgate_quarantined_tools{reason}`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotAnObject => "not_an_object",
            Self::UnknownDialect => "unknown_dialect",
            Self::TooLarge => "too_large",
            Self::TooDeep => "too_deep",
            Self::TooManySubschemas => "too_many_subschemas",
            Self::TooManyPatterns => "too_many_patterns",
            Self::PatternTooLong => "pattern_too_long",
            Self::UnusablePattern => "unusable_pattern",
            Self::RemoteReference => "remote_reference",
            Self::DanglingReference => "dangling_reference",
            Self::TooManyDynamicReferences => "too_many_dynamic_references",
            Self::TooManyExpansions => "too_many_expansions",
            Self::TooCostly => "too_costly",
            Self::EnumTooLong => "enum_too_long",
            Self::TooManyAlternatives => "too_many_alternatives",
            Self::Invalid { .. } => "invalid",
        }
    }
}

/// A dialect we compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Draft 2020-12, also when none is named.
    Draft202012,
    /// Draft-07.
    Draft07,
}

/// The dialect that `$schema` names.
pub(super) fn dialect(schema: &Value) -> Option<Dialect> {
    let Some(named) = schema.get("$schema") else {
        return Some(Dialect::Draft202012);
    };
    let named = named.as_str()?;
    let place = named
        .strip_prefix("https://")
        .or_else(|| named.strip_prefix("http://"))?;
    match place.strip_suffix('#').unwrap_or(place) {
        "json-schema.org/draft/2020-12/schema" => Some(Dialect::Draft202012),
        "json-schema.org/draft-07/schema" => Some(Dialect::Draft07),
        _ => None,
    }
}

/// Judges `schema`. Takes time in proportion to its size, whatever it says.
pub fn judge(schema: &Value) -> Result<(), Quarantine> {
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
