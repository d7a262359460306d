//! The keywords of both dialects, by what becomes of them.

/// Keywords that say nothing about values, or only to a reader of the original; their loss is none.
pub(super) const SILENT_KEYWORDS: &[&str] = &[
    "$schema",
    "$id",
    "id",
    "$anchor",
    "$dynamicAnchor",
    "$vocabulary",
    "$comment",
    "$defs",
    "definitions",
    "title",
];
/// Keywords of `OpenAPI`, and annotations that are not for models.
pub(super) const DROPPED_KEYWORDS: &[&str] = &[
    "examples",
    "example",
    "discriminator",
    "externalDocs",
    "readOnly",
    "writeOnly",
    "xml",
    "deprecated",
];
/// Keywords without subschemas.
pub(super) const FACT_KEYWORDS: &[&str] = &[
    "type",
    "enum",
    "const",
    "description",
    "default",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "contentEncoding",
    "contentMediaType",
];
/// Keywords that are told as they are, or not at all.
pub(super) const ASIDE_KEYWORDS: &[&str] = &[
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "dependentRequired",
    "dependentSchemas",
    "propertyNames",
];
/// Of those, what draft-07 does not know, and so ignores.
pub(super) const NEWER_ASIDE_KEYWORDS: &[&str] = &[
    "prefixItems",
    "dependentRequired",
    "dependentSchemas",
    "minContains",
    "maxContains",
];
/// In an aside these would be read otherwise than they were written.
pub(super) const LOCATION_KEYWORDS: &[&str] = &[
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "$id",
    "$anchor",
    "$schema",
    "$defs",
    "definitions",
    "dependencies",
    "additionalItems",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
    "dependentRequired",
    "dependentSchemas",
];

/// Keywords that the walk reads by itself.
pub(super) const WALKED_KEYWORDS: &[&str] = &[
    "$ref",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "items",
    "prefixItems",
    "additionalItems",
    "nullable",
];
/// Keywords by which a property can count as evaluated, beside those that `additionalProperties`
/// asks.
pub(super) const EVALUATING_KEYWORDS: &[&str] = &[
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "dependentSchemas",
    "additionalProperties",
];
/// Asides that mean something together only; the first one makes the group.
pub(super) const ASIDE_GROUPS: &[&[&str]] = &[
    &["not"],
    &["if", "then", "else"],
    &["contains", "minContains", "maxContains"],
    &["dependentRequired"],
    &["dependentSchemas"],
    &["propertyNames"],
];
