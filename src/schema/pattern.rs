//! The keyword `pattern`, with a bound on its work.
//!
//! A pattern goes to the linear engine with a size limit. One that needs look-around (the e-mail
//! pattern of a common generator does) goes to a backtracking engine whose own limit bounds steps,
//! not time, so the text it reads is bounded too. What matching costs is spent before it is done
//! ([`crate::model::work`]).

use super::metered::{Metered, Paid};
use super::preflight::Dialect;
use crate::model::work::spend;
use jsonschema::{Draft, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// The largest compiled pattern, and what the engine keeps beside it, in bytes (SECURITY §2.2b).
const ENGINE_BYTES: usize = 256 << 10;
/// Sizes of a compiled pattern, in bytes, and what a byte of text may cost at that size: 0.15 µs at
/// 2 KiB and 4 µs at 256 KiB were measured when the engine's automaton gives up.
const CLASSES: [(usize, u64); 4] = [
    (2 << 10, 2),
    (16 << 10, 16),
    (64 << 10, 64),
    (ENGINE_BYTES, 256),
];
/// The compiled patterns of one schema, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// Steps that the backtracking engine may take back.
const BACKTRACKS: usize = 10_000;
/// The longest text that the backtracking engine reads, in bytes.
const MAX_BACKTRACKING_TEXT: usize = 4 << 10;
/// Patterns of one schema that may need look-around.
const MAX_BACKTRACKING: usize = 16;
/// Units of work for one of cost.
const UNITS: u64 = 8;

/// The backtracking engine takes the square of the length, and as much for a short text as its
/// limit lets it.
fn look_around_cost(bytes: u64) -> u64 {
    2_048 + bytes * bytes / 20
}

thread_local! {
    static BROKEN: Cell<bool> = const { Cell::new(false) };
}

/// One pattern, compiled.
#[derive(Debug)]
pub(super) struct Pattern {
    engine: Validator,
    /// The bound under which it compiled, in bytes.
    size: usize,
    cost: Cost,
}

/// What a text costs.
#[derive(Debug, Clone, Copy)]
enum Cost {
    PerByte(u64),
    LookAround,
}

/// The patterns of one schema.
pub(super) type Patterns = Arc<HashMap<String, Arc<Pattern>>>;

/// Compiles all patterns of a schema; none if one is unusable.
pub(super) fn compile(patterns: &[&str], dialect: Dialect) -> Option<Patterns> {
    let mut compiled = HashMap::new();
    for &pattern in patterns {
        if !compiled.contains_key(pattern) {
            compiled.insert(
                pattern.to_owned(),
                Arc::new(Pattern::compile(pattern, dialect)?),
            );
        }
    }
    let backtracking = compiled
        .values()
        .filter(|pattern| matches!(pattern.cost, Cost::LookAround))
        .count();
    let bytes: usize = compiled.values().map(|pattern| pattern.size).sum();
    (backtracking <= MAX_BACKTRACKING && bytes <= MAX_BYTES).then(|| Arc::new(compiled))
}

/// Units for a byte of a key by all of these patterns, which jsonschema matches itself; none if one
/// needs look-around.
pub(super) fn cost_of_keys(patterns: &[&str], dialect: Dialect) -> Option<u64> {
    patterns
        .iter()
        .map(|&pattern| Pattern::linear(pattern, dialect).map(|(_, _, cost)| cost * UNITS))
        .sum()
}

/// The engine for keys, which jsonschema matches itself.
pub(super) fn linear() -> PatternOptions<jsonschema::Regex> {
    linear_within(ENGINE_BYTES)
}

fn linear_within(bytes: usize) -> PatternOptions<jsonschema::Regex> {
    PatternOptions::regex()
        .size_limit(bytes)
        .dfa_size_limit(ENGINE_BYTES)
}

fn engine<E>(pattern: &str, dialect: Dialect, options: PatternOptions<E>) -> Option<Validator> {
    let draft = match dialect {
        Dialect::Draft202012 => Draft::Draft202012,
        Dialect::Draft07 => Draft::Draft7,
    };
    let options = jsonschema::options()
        .with_draft(draft)
        .with_pattern_options(options);
    options.build(&json!({ "pattern": pattern })).ok()
}

impl Pattern {
    fn compile(pattern: &str, dialect: Dialect) -> Option<Self> {
        if let Some((engine, size, cost)) = Self::linear(pattern, dialect) {
            return Some(Self {
                engine,
                size,
                cost: Cost::PerByte(cost),
            });
        }
        if !["(?=", "(?!", "(?<=", "(?<!"]
            .iter()
            .any(|look_around| pattern.contains(look_around))
        {
            return None;
        }
        let options = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS)
            .size_limit(ENGINE_BYTES / 8)
            .dfa_size_limit(ENGINE_BYTES / 8);
        Some(Self {
            engine: engine(pattern, dialect, options)?,
            size: ENGINE_BYTES,
            cost: Cost::LookAround,
        })
    }

    /// The linear engine, with the smallest bound that the pattern compiles under.
    fn linear(pattern: &str, dialect: Dialect) -> Option<(Validator, usize, u64)> {
        CLASSES.into_iter().find_map(|(size, cost)| {
            Some((engine(pattern, dialect, linear_within(size))?, size, cost))
        })
    }

    /// Whether `text` matches; false, and the judgement broken, when it is too long to say.
    pub(super) fn matches(&self, value: &Value) -> bool {
        let Value::String(text) = value else {
            return true;
        };
        let bytes = text.len() as u64 + 1;
        match self.cost {
            Cost::PerByte(cost) => spend(bytes * cost * UNITS),
            Cost::LookAround if text.len() <= MAX_BACKTRACKING_TEXT => {
                spend(look_around_cost(bytes) * UNITS);
            }
            Cost::LookAround => {
                BROKEN.set(true);
                return false;
            }
        }
        self.engine.is_valid(value)
    }
}

/// Runs one judgement; none when it was broken.
pub(super) fn unbroken<T>(judge: impl FnOnce() -> T) -> Option<T> {
    BROKEN.set(false);
    let judged = judge();
    (!BROKEN.get()).then_some(judged)
}

/// The keyword as jsonschema calls it.
pub(super) struct Matches(pub(super) Arc<Pattern>);

impl<'i> Keyword<'i, Metered> for Matches {
    fn validate(&self, instance: Paid<'i>) -> Result<(), ValidationError<'i>> {
        if self.0.matches(instance.0) {
            Ok(())
        } else {
            Err(ValidationError::custom("pattern"))
        }
    }

    fn is_valid(&self, instance: Paid<'i>) -> bool {
        self.0.matches(instance.0)
    }
}
