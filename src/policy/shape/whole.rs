//! Whole numbers as structs hold them. JSON Schema takes `3.0` and `1e30` for whole numbers; no
//! struct does, and says so without a place.

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

/// The keyword by which schemas of structs name the type of a number.
pub(super) const FORMAT_KEYWORD: &str = "format";

/// The largest number of the type, and whether it has numbers below zero.
struct WholeNumber {
    most: u64,
    signed: bool,
}

/// What `format` asks for.
#[expect(clippy::unnecessary_wraps, reason = "the library asks for a result")]
pub(super) fn keyword<'a>(
    _: &'a Map<String, Value>,
    format: &'a Value,
    _: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    let (most, signed) = match format.as_str() {
        Some("uint" | "uint64") => (u64::MAX, false),
        Some("uint32") => (u64::from(u32::MAX), false),
        Some("int64") => (i64::MAX.unsigned_abs(), true),
        // Numbers that need not be whole.
        _ => return Ok(Box::new(AnyNumber)),
    };
    Ok(Box::new(WholeNumber { most, signed }))
}

struct AnyNumber;

impl<'i> Keyword<'i> for AnyNumber {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        true
    }
}

impl<'i> Keyword<'i> for WholeNumber {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        Err(ValidationError::custom(format!(
            "expected a whole number in digits, at most {}",
            self.most
        )))
    }

    /// What is no number, has a fraction, or is below zero where nothing may be, other keywords
    /// tell of.
    fn is_valid(&self, instance: &'i Value) -> bool {
        let judged =
            |number: &f64| number.fract() == 0.0 && (self.signed || !number.is_sign_negative());
        let Some(number) = instance.as_f64().filter(judged) else {
            return true;
        };
        let below = number < 0.0 && instance.is_i64();
        below || instance.as_u64().is_some_and(|whole| whole <= self.most)
    }
}
