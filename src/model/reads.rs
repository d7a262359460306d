//! What is at a caller's other end: which schemas its model takes, and how many tools with what
//! names its program takes.

use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;

/// A family of rules for schemas (policy §8). What each one takes is in
/// `src/schema/limits/providers.json`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Profile {
    /// Schemas go out as their servers wrote them.
    #[default]
    None,
    /// What all providers take.
    Portable,
    /// `OpenAI`, without strict mode.
    Openai,
    /// `OpenAI`'s strict mode.
    OpenaiStrict,
    /// Anthropic, without strict mode.
    Anthropic,
    /// Anthropic's strict mode.
    AnthropicStrict,
    /// Gemini's `parameters`, an `OpenAPI` schema.
    Gemini,
    /// Gemini's `parametersJsonSchema`.
    GeminiJson,
    /// xAI.
    Xai,
    /// Mistral.
    Mistral,
    /// Amazon Bedrock's Converse.
    Bedrock,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::None,
        Self::Portable,
        Self::Openai,
        Self::OpenaiStrict,
        Self::Anthropic,
        Self::AnthropicStrict,
        Self::Gemini,
        Self::GeminiJson,
        Self::Xai,
        Self::Mistral,
        Self::Bedrock,
    ];

    /// Its name in configurations, metrics and `explain`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Portable => "portable",
            Self::Openai => "openai",
            Self::OpenaiStrict => "openai-strict",
            Self::Anthropic => "anthropic",
            Self::AnthropicStrict => "anthropic-strict",
            Self::Gemini => "gemini",
            Self::GeminiJson => "gemini-json",
            Self::Xai => "xai",
            Self::Mistral => "mistral",
            Self::Bedrock => "bedrock",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the agent's program takes, beside what its model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caps {
    /// Tools in one listing at most.
    pub tools: usize,
    /// Characters of a tool's name at most.
    pub name: usize,
    /// Does a name have letters, digits, `_` and `-` only?
    pub plain: bool,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            tools: usize::MAX,
            name: usize::MAX,
            plain: false,
        }
    }
}

/// Both. The default takes everything as it stands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SchemaReader {
    /// Of its model.
    pub profile: Profile,
    /// Of its program.
    pub caps: Caps,
}

impl SchemaReader {
    /// Whether nothing is changed for it.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}
