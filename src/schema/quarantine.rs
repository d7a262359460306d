//! Why a tool is not offered because of its schema.

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
