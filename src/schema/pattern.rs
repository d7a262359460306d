//! The keyword `pattern`, with a bound on its work.
//!
//! A pattern goes to the linear engine with a size limit. One that needs look-around (the e-mail pattern of a common
//! generator does) goes to a backtracking engine whose own limit bounds steps, not time, so the text it reads is bounded
//! too. What one judgement may spend is counted per thread: when it is spent the judgement fails, also under `not`.

use super::preflight::Dialect;
use jsonschema::{Draft, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// The largest compiled pattern, and what the engine keeps beside it, in bytes (SECURITY §2.2b).
const ENGINE_BYTES: usize = 256 << 10;
/// Sizes of a compiled pattern, in bytes, and what a byte of text may cost at that size: 0.15 µs at 2 KiB and 4 µs at
/// 256 KiB were measured when the engine's automaton gives up.
const CLASSES: [(usize, u64); 4] = [(2 << 10, 2), (16 << 10, 16), (64 << 10, 64), (ENGINE_BYTES, 256)];
/// The compiled patterns of one schema, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// Steps that the backtracking engine may take back.
const BACKTRACKS: usize = 10_000;
/// The longest text that the backtracking engine reads, in bytes.
const MAX_BACKTRACKING_TEXT: usize = 4 << 10;
/// Patterns of one schema that may need look-around.
const MAX_BACKTRACKING: usize = 16;
/// What the texts of one judgement may cost in all: about 0.1 s at worst.
const WORK: u64 = 1 << 20;

/// The backtracking engine takes the square of the length, and as much for a short text as its limit lets it.
fn look_around_cost(bytes: u64) -> u64 {
    2_048 + bytes * bytes / 20
}

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
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
            compiled.insert(pattern.to_owned(), Arc::new(Pattern::compile(pattern, dialect)?));
        }
    }
    let backtracking = compiled.values().filter(|pattern| matches!(pattern.cost, Cost::LookAround)).count();
    let bytes: usize = compiled.values().map(|pattern| pattern.size).sum();
    (backtracking <= MAX_BACKTRACKING && bytes <= MAX_BYTES).then(|| Arc::new(compiled))
}

/// What a byte of a key costs for each of these patterns, which jsonschema matches itself; none if one needs look-around.
pub(super) fn costs_of_keys<'a>(patterns: &[&'a str], dialect: Dialect) -> Option<HashMap<&'a str, u64>> {
    patterns.iter().map(|&pattern| Pattern::linear(pattern, dialect).map(|(_, _, cost)| (pattern, cost))).collect()
}

/// Whether matching the keys of `value` stays within what one judgement may spend.
pub(super) fn affords_keys(value: &Value, cost: u64) -> bool {
    fn bytes(value: &Value) -> u64 {
        match value {
            Value::Array(elements) => elements.iter().map(bytes).sum(),
            Value::Object(members) => members.iter().map(|(key, member)| key.len() as u64 + 1 + bytes(member)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }
    cost == 0 || bytes(value).saturating_mul(cost) <= WORK
}

/// The engine for keys, which jsonschema matches itself.
pub(super) fn linear() -> PatternOptions<jsonschema::Regex> {
    linear_within(ENGINE_BYTES)
}

fn linear_within(bytes: usize) -> PatternOptions<jsonschema::Regex> {
    PatternOptions::regex().size_limit(bytes).dfa_size_limit(ENGINE_BYTES)
}

fn engine<E>(pattern: &str, dialect: Dialect, options: PatternOptions<E>) -> Option<Validator> {
    let draft = match dialect {
        Dialect::Draft202012 => Draft::Draft202012,
        Dialect::Draft07 => Draft::Draft7,
    };
    let options = jsonschema::options().with_draft(draft).with_pattern_options(options);
    options.build(&json!({ "pattern": pattern })).ok()
}

impl Pattern {
    fn compile(pattern: &str, dialect: Dialect) -> Option<Self> {
        if let Some((engine, size, cost)) = Self::linear(pattern, dialect) {
            return Some(Self { engine, size, cost: Cost::PerByte(cost) });
        }
        if !["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look_around| pattern.contains(look_around)) {
            return None;
        }
        let options = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS)
            .size_limit(ENGINE_BYTES / 8)
            .dfa_size_limit(ENGINE_BYTES / 8);
        Some(Self { engine: engine(pattern, dialect, options)?, size: ENGINE_BYTES, cost: Cost::LookAround })
    }

    /// The linear engine, with the smallest bound that the pattern compiles under.
    fn linear(pattern: &str, dialect: Dialect) -> Option<(Validator, usize, u64)> {
        CLASSES.into_iter().find_map(|(size, cost)| Some((engine(pattern, dialect, linear_within(size))?, size, cost)))
    }

    /// Whether `text` matches; false, and the judgement broken, when it costs too much to say.
    pub(super) fn matches(&self, value: &Value) -> bool {
        let Value::String(text) = value else { return true };
        let bytes = text.len() as u64 + 1;
        let cost = match self.cost {
            Cost::PerByte(cost) => Some(bytes * cost),
            Cost::LookAround => (text.len() <= MAX_BACKTRACKING_TEXT).then(|| look_around_cost(bytes)),
        };
        let Some(left) = cost.and_then(|cost| LEFT.get().checked_sub(cost)) else {
            BROKEN.set(true);
            return false;
        };
        LEFT.set(left);
        self.engine.is_valid(value)
    }
}

/// Runs one judgement; none when it was broken off.
pub(super) fn bounded<T>(judge: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(WORK);
    resumed(judge)
}

/// Goes on with what the last judgement left.
pub(super) fn resumed<T>(judge: impl FnOnce() -> T) -> Option<T> {
    BROKEN.set(false);
    let judged = judge();
    (!BROKEN.get()).then_some(judged)
}

/// The keyword as jsonschema calls it.
pub(super) struct Matches(pub(super) Arc<Pattern>);

impl<'i> Keyword<'i> for Matches {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.0.matches(instance) { Ok(()) } else { Err(ValidationError::custom("pattern")) }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.0.matches(instance)
    }
}
