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

/// A compiled pattern, and what the engines keep beside it, in bytes (SECURITY §2.2b).
pub(super) const ENGINE_BYTES: usize = 256 << 10;
/// Steps that the backtracking engine may take back.
const BACKTRACKS: usize = 10_000;
/// The longest text that the backtracking engine reads, in bytes.
const MAX_BACKTRACKING_TEXT: usize = 4 << 10;
/// Patterns of one schema that may need look-around.
const MAX_BACKTRACKING: usize = 16;
/// What the texts of one judgement may cost in all; one text costs its length, or what [`look_around_cost`] says.
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
    backtracks: bool,
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
    let backtracking = compiled.values().filter(|pattern| pattern.backtracks).count();
    (backtracking <= MAX_BACKTRACKING).then(|| Arc::new(compiled))
}

/// Whether `pattern` is one for the linear engine.
pub(super) fn is_linear(pattern: &str, dialect: Dialect) -> bool {
    engine(pattern, dialect, linear()).is_some()
}

/// The engine for keys, which jsonschema matches itself.
pub(super) fn linear() -> PatternOptions<jsonschema::Regex> {
    PatternOptions::regex().size_limit(ENGINE_BYTES).dfa_size_limit(ENGINE_BYTES)
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
        if let Some(engine) = engine(pattern, dialect, linear()) {
            return Some(Self { engine, backtracks: false });
        }
        if !["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look_around| pattern.contains(look_around)) {
            return None;
        }
        let options = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS)
            .size_limit(ENGINE_BYTES / 8)
            .dfa_size_limit(ENGINE_BYTES / 8);
        Some(Self { engine: engine(pattern, dialect, options)?, backtracks: true })
    }

    /// Whether `text` matches; false, and the judgement broken, when it costs too much to say.
    pub(super) fn matches(&self, value: &Value) -> bool {
        let Value::String(text) = value else { return true };
        let bytes = text.len() as u64 + 1;
        let cost = if self.backtracks { look_around_cost(bytes) } else { bytes };
        let left = LEFT.get().checked_sub(cost);
        if left.is_none() || (self.backtracks && text.len() > MAX_BACKTRACKING_TEXT) {
            BROKEN.set(true);
            return false;
        }
        LEFT.set(left.unwrap_or(0));
        self.engine.is_valid(value)
    }
}

/// Runs one judgement; none when it was broken off.
pub(super) fn bounded<T>(judge: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(WORK);
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
