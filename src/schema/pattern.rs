//! The keyword `pattern`, with a bound on its work.
//!
//! A pattern goes to the linear engine with a size limit. One that needs look-around (the e-mail
//! pattern of a common generator does) goes to a backtracking engine whose own limit bounds steps,
//! not time, so the text it reads is bounded too. What matching costs is spent before it is done
//! ([`crate::model::work`]).

use super::dialect::Dialect;
use super::metered::{Metered, MeteredValue};
use crate::model::work::spend;
use jsonschema::{Draft, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// The largest compiled pattern, and what the engine keeps beside it, in bytes
/// (threat-model §2.2b).
const ENGINE_BYTES_MAX: usize = 256 << 10;
/// Sizes of a compiled pattern, in bytes, and what a byte of text may cost at that size: 0.15 µs at
/// 2 KiB and 4 µs at 256 KiB were measured when the engine's automaton gives up.
const COST_BY_SIZE: [(usize, u64); 4] = [
    (2 << 10, 2),
    (16 << 10, 16),
    (64 << 10, 64),
    (ENGINE_BYTES_MAX, 256),
];
/// The compiled patterns of one schema, in bytes.
const SCHEMA_PATTERNS_BYTES_MAX: usize = 4 << 20;
/// Steps that the backtracking engine may take back.
const MAX_BACKTRACKS: usize = 10_000;
/// The longest text that the backtracking engine reads, in bytes.
const BACKTRACKING_TEXT_BYTES_MAX: usize = 4 << 10;
/// Patterns of one schema that may need look-around.
const MAX_BACKTRACKING_PATTERNS: usize = 16;
/// Units of work for one of cost.
const WORK_UNITS_PER_COST: u64 = 8;

/// The backtracking engine takes the square of the length, and as much for a short text as its
/// limit lets it.
fn look_around_cost(bytes: u64) -> u64 {
    2_048 + bytes * bytes / 20
}

thread_local! {
    static MATCH_GAVE_UP: Cell<bool> = const { Cell::new(false) };
}

/// One pattern, compiled.
#[derive(Debug)]
pub(super) struct CompiledPattern {
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
pub(super) type SchemaPatterns = Arc<HashMap<String, Arc<CompiledPattern>>>;

/// Compiles all patterns of a schema; none if one is unusable.
pub(super) fn compile(patterns: &[&str], dialect: Dialect) -> Option<SchemaPatterns> {
    let mut compiled = HashMap::new();
    for &pattern in patterns {
        if !compiled.contains_key(pattern) {
            compiled.insert(
                pattern.to_owned(),
                Arc::new(CompiledPattern::compile(pattern, dialect)?),
            );
        }
    }
    let backtracking = compiled
        .values()
        .filter(|pattern| matches!(pattern.cost, Cost::LookAround))
        .count();
    let bytes: usize = compiled.values().map(|pattern| pattern.size).sum();
    (backtracking <= MAX_BACKTRACKING_PATTERNS && bytes <= SCHEMA_PATTERNS_BYTES_MAX)
        .then(|| Arc::new(compiled))
}

/// Units for a byte of a key by all of these patterns, which jsonschema matches itself; none if one
/// needs look-around.
pub(super) fn cost_of_keys(patterns: &[&str], dialect: Dialect) -> Option<u64> {
    patterns
        .iter()
        .map(|&pattern| {
            CompiledPattern::linear(pattern, dialect).map(|(_, _, cost)| cost * WORK_UNITS_PER_COST)
        })
        .sum()
}

/// The engine for keys, which jsonschema matches itself.
pub(super) fn linear() -> PatternOptions<jsonschema::Regex> {
    linear_within(ENGINE_BYTES_MAX)
}

fn linear_within(bytes: usize) -> PatternOptions<jsonschema::Regex> {
    PatternOptions::regex()
        .size_limit(bytes)
        .dfa_size_limit(ENGINE_BYTES_MAX)
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

impl CompiledPattern {
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
            .backtrack_limit(MAX_BACKTRACKS)
            .size_limit(ENGINE_BYTES_MAX / 8)
            .dfa_size_limit(ENGINE_BYTES_MAX / 8);
        Some(Self {
            engine: engine(pattern, dialect, options)?,
            size: ENGINE_BYTES_MAX,
            cost: Cost::LookAround,
        })
    }

    /// The linear engine, with the smallest bound that the pattern compiles under.
    fn linear(pattern: &str, dialect: Dialect) -> Option<(Validator, usize, u64)> {
        COST_BY_SIZE.into_iter().find_map(|(size, cost)| {
            Some((engine(pattern, dialect, linear_within(size))?, size, cost))
        })
    }

    /// Whether `text` matches; false, and the judgement broken, when it is too long to say.
    pub(super) fn matches(&self, value: &Value) -> bool {
        let Value::String(text) = value else {
            return true;
        };
        let Some(units) = self.units(text) else {
            MATCH_GAVE_UP.set(true);
            return false;
        };
        spend(units);
        self.engine.is_valid(value)
    }

    /// What a look at `text` takes, in units of work; none when it is too long.
    fn units(&self, text: &str) -> Option<u64> {
        let bytes = text.len() as u64 + 1;
        let cost = match self.cost {
            Cost::PerByte(cost) => bytes * cost,
            Cost::LookAround if text.len() <= BACKTRACKING_TEXT_BYTES_MAX => {
                look_around_cost(bytes)
            }
            Cost::LookAround => return None,
        };
        Some(cost * WORK_UNITS_PER_COST)
    }
}

/// A pattern over names of properties, as a contract writes it, such as `^x-`.
#[derive(Debug, Clone)]
pub struct NamePattern {
    text: String,
    /// None: every name is meant.
    engine: Option<Arc<CompiledPattern>>,
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for NamePattern {}

impl NamePattern {
    /// Every name.
    pub(super) fn any() -> Self {
        Self {
            text: String::new(),
            engine: None,
        }
    }

    /// As draft 2020-12 reads it; none if nobody can.
    pub(super) fn compile(text: &str) -> Option<Self> {
        let engine = CompiledPattern::compile(text, Dialect::Draft202012)?;
        Some(Self {
            text: text.to_owned(),
            engine: Some(Arc::new(engine)),
        })
    }

    /// What a look at `name` takes, in units of work: it is a server's, and may be long.
    pub(super) fn units(&self, name: &str) -> u64 {
        let engine = self.engine.as_ref();
        engine.map_or(1, |engine| engine.units(name).unwrap_or(u64::MAX))
    }

    /// Whether `name` is meant. Who looks at a server's names pays [`Self::units`].
    pub(super) fn matches(&self, name: &str) -> bool {
        let engine = self.engine.as_ref();
        engine.is_none_or(|pattern| pattern.engine.is_valid(&Value::from(name)))
    }
}

/// Runs one judgement; none when it was broken.
pub(super) fn unbroken<T>(judge: impl FnOnce() -> T) -> Option<T> {
    MATCH_GAVE_UP.set(false);
    let judged = judge();
    (!MATCH_GAVE_UP.get()).then_some(judged)
}

/// The keyword as jsonschema calls it.
pub(super) struct Matches(pub(super) Arc<CompiledPattern>);

impl<'i> Keyword<'i, Metered> for Matches {
    fn validate(&self, instance: MeteredValue<'i>) -> Result<(), ValidationError<'i>> {
        if self.0.matches(instance.0) {
            Ok(())
        } else {
            Err(ValidationError::custom("pattern"))
        }
    }

    fn is_valid(&self, instance: MeteredValue<'i>) -> bool {
        self.0.matches(instance.0)
    }
}
