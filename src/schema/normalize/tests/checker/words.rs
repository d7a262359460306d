//! Keywords, formats and types that providers know.

use crate::model::reads::Profile;

/// Keywords of strict modes and of Gemini's two forms.
const OPENAI_STRICT_KEYWORDS: &[&str] = &[
    "type",
    "description",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
    "format",
];
const ANTHROPIC_STRICT_KEYWORDS: &[&str] = &[
    "type",
    "description",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "format",
    "default",
];
const GEMINI_KEYWORDS: &[&str] = &[
    "type",
    "description",
    "enum",
    "properties",
    "required",
    "items",
    "anyOf",
    "nullable",
    "default",
];
const GEMINI_JSON_KEYWORDS: &[&str] = &[
    "type",
    "description",
    "enum",
    "properties",
    "required",
    "items",
    "anyOf",
    "additionalProperties",
    "format",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
];
/// Keywords that a schema without references has as they were written, with schemas in them.
pub(super) const ASIDE_KEYWORDS: &[&str] = &[
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "dependentSchemas",
];
pub(super) const KNOWN_FORMATS: &[&str] = &[
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
];
pub(super) const TYPE_NAMES: &[&str] = &[
    "string", "number", "integer", "boolean", "object", "array", "null",
];

/// The only keywords that `profile` takes; none, where it takes others, too.
pub(super) fn keywords_of(profile: Profile) -> Option<&'static [&'static str]> {
    match profile {
        Profile::OpenaiStrict => Some(OPENAI_STRICT_KEYWORDS),
        Profile::AnthropicStrict => Some(ANTHROPIC_STRICT_KEYWORDS),
        Profile::Gemini => Some(GEMINI_KEYWORDS),
        Profile::GeminiJson => Some(GEMINI_JSON_KEYWORDS),
        _ => None,
    }
}
