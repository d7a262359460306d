//! Compiles a tool's schema once and judges arguments by it.

use super::dialect::{Dialect, dialect};
use super::metered::{Metered, MeteredValue, Toll, tolled};
use super::names::PropertyNames;
use super::pattern::{self, Matches, SchemaPatterns};
use super::preflight;
use super::quarantine::Quarantine;
use super::violation::SchemaViolation;
use super::{explain, weight};
use crate::mcp::json::Text;
use crate::model::hex::hex;
use crate::model::work;
use jsonschema::{Draft, Keyword, Retrieve, Uri, ValidationError, Validator};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::OnceLock;

/// A schema that compiles. Immutable: share it through an `Arc`.
#[derive(Debug)]
pub struct Schema {
    /// As written. The tree of a schema takes ten times the room of its text, and only a refusal
    /// looks at it.
    source: Text,
    dialect: Dialect,
    formats: Formats,
    /// Compiled for the first call: of many tools few are called, and a compiled schema takes ten
    /// times the room of its text, too. Nothing if it does not compile, which
    /// [`Schema::compile`] has ruled out.
    validator: OnceLock<Option<Validator<Metered>>>,
    patterns: SchemaPatterns,
    toll: Toll,
    names: PropertyNames,
}

/// Whether `format` decides or only describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Formats {
    /// A tool server's: the dialects say that it only describes.
    Describe,
    /// A contract's: what its author wrote is meant, and an unknown format is an error.
    Assert,
}

/// Said of a schema that cannot be applied.
const SCHEMA_UNUSABLE_MESSAGE: &str = "a tool whose schema can be compiled";

/// Said when a text is too long for a pattern of the schema.
const TOO_MUCH_TEXT_MESSAGE: &str = "less text where the schema has patterns that look around";

impl Schema {
    /// Compiles a tool server's schema, or says why the tool must be quarantined.
    pub fn compile(schema: &Value) -> Result<Self, Quarantine> {
        Self::compile_with(schema, Formats::Describe)
    }

    /// Compiles a contract's schema: `format` is asserted.
    pub fn compile_contract(schema: &Value) -> Result<Self, Quarantine> {
        Self::compile_with(schema, Formats::Assert)
    }

    fn compile_with(schema: &Value, formats: Formats) -> Result<Self, Quarantine> {
        let survey = preflight::survey(schema)?;
        let dialect = dialect(schema).ok_or(Quarantine::UnknownDialect)?;
        let patterns =
            pattern::compile(&survey.patterns, dialect).ok_or(Quarantine::UnusablePattern)?;
        let keys = pattern::cost_of_keys(&survey.key_patterns, dialect)
            .ok_or(Quarantine::UnusablePattern)?;
        let toll = weight::toll(&survey, keys).ok_or(Quarantine::TooCostly)?;
        let names = PropertyNames::of(&survey);
        build(schema, dialect, formats, &patterns)?;
        Ok(Self {
            source: Text::of(schema),
            dialect,
            formats,
            validator: OnceLock::new(),
            patterns,
            toll,
            names,
        })
    }

    /// Judges arguments. What that takes is spent ([`work::spend`]); where nobody counts,
    /// [`work::HEAVY_WORK_UNITS`] is all there is.
    pub fn accepts(&self, arguments: &Value) -> Result<(), SchemaViolation> {
        if work::is_counted() {
            return self.judge(arguments);
        }
        work::within(work::HEAVY_WORK_UNITS, || self.judge(arguments))
            .unwrap_or_else(|spent| Err(spent.into()))
    }

    fn judge(&self, arguments: &Value) -> Result<(), SchemaViolation> {
        self.names.judge(arguments)?;
        let whole = |expected: &str| SchemaViolation {
            pointer: String::new(),
            expected: expected.to_owned(),
        };
        let validator = self
            .validator()
            .ok_or_else(|| whole(SCHEMA_UNUSABLE_MESSAGE))?;
        match pattern::unbroken(|| {
            tolled(self.toll, || validator.is_valid(MeteredValue(arguments)))
        }) {
            Some(true) => Ok(()),
            Some(false) => Err(explain::explain(
                &self.source.value(),
                &self.patterns,
                arguments,
            )),
            None => Err(whole(TOO_MUCH_TEXT_MESSAGE)),
        }
    }

    fn validator(&self) -> Option<&Validator<Metered>> {
        let compiled = || {
            build(
                &self.source.value(),
                self.dialect,
                self.formats,
                &self.patterns,
            )
            .ok()
        };
        self.validator.get_or_init(compiled).as_ref()
    }

    /// The schema as its author wrote it.
    pub fn source(&self) -> Value {
        self.source.value()
    }

    /// The names that the schema declares.
    pub fn names(&self) -> &PropertyNames {
        &self.names
    }
}

fn build(
    schema: &Value,
    dialect: Dialect,
    formats: Formats,
    known: &SchemaPatterns,
) -> Result<Validator<Metered>, Quarantine> {
    let known = known.clone();
    // The dialect is passed on by its draft: spellings of `$schema` that we take, such as https for
    // draft-07, are unknown to jsonschema.
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        members.shift_remove("$schema");
    }
    let draft = match dialect {
        Dialect::Draft202012 => Draft::Draft202012,
        Dialect::Draft07 => Draft::Draft7,
    };
    jsonschema::options_for::<Metered>()
        .with_draft(draft)
        .with_retriever(Nowhere)
        .with_pattern_options(pattern::linear())
        .with_keyword(
            "pattern",
            move |_, value, _| -> Result<Box<dyn for<'i> Keyword<'i, Metered>>, ValidationError<'_>> {
                let pattern = value.as_str().and_then(|pattern| known.get(pattern));
                let pattern = pattern.ok_or_else(|| ValidationError::custom("a pattern outside the survey"))?;
                Ok(Box::new(Matches(pattern.clone())))
            },
        )
        .should_validate_formats(formats == Formats::Assert)
        .should_ignore_unknown_formats(formats == Formats::Describe)
        .build(&schema)
        .map_err(|error| Quarantine::Invalid { at: explain::cut(error.instance_path().as_str(), 128) })
}

/// Fetches nothing, whatever features another dependency turns on.
struct Nowhere;

impl Retrieve for Nowhere {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("references out of a schema are not followed".into())
    }
}

/// SHA-256 in lower-case hex over the canonical form (RFC 8785) of `schema`.
pub fn schema_hash(schema: &Value) -> String {
    // Canonicalizing fails only for numbers that JSON cannot hold; such a value cannot have been
    // read.
    let canonical = serde_json_canonicalizer::to_vec(schema).unwrap_or_default();
    hex(&Sha256::digest(&canonical))
}

#[cfg(test)]
mod tests;
