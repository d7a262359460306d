//! Tool definitions as a server lists them: the text is kept, only what toolgate needs is read.

use super::headers::{HeaderParam, params_of};
use super::json::Text;
use super::readable::{TextChanges, readable};

/// Longest definition in bytes (threat-model §8: schema 64 KiB, description 4 KiB, and room for the
/// rest).
pub const MAX_DEFINITION_BYTES: usize = 128 << 10;

/// One tool as its server defines it.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The server's own name for it: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// The whole definition, as written.
    pub text: Text,
    /// The definition as agents may read it (threat-model §3D D6).
    pub shown: Text,
    /// How that differs from `text`.
    pub changes: TextChanges,
    /// Its input schema, as written: the tree is made where it is needed, and given up.
    pub input_schema: Text,
    /// Arguments that travel as headers too.
    pub header_params: Vec<HeaderParam>,
}

/// Whether a server says of a tool, by its definition, that a second call with the same arguments
/// changes nothing.
pub(crate) fn hints_idempotent(definition: &Text) -> bool {
    let hint = definition.at(&["annotations", "idempotentHint"]);
    hint.is_some_and(|hint| hint.is_true())
}

/// Why a definition cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// No name, or not a string.
    #[error("the tool has no name")]
    NoName,
    /// The name has other characters than `[A-Za-z0-9_.-]`, or more than 128.
    #[error("the name is not 1 to 128 characters of A-Z a-z 0-9 _ . -")]
    BadName,
    /// `inputSchema` is absent or not an object.
    #[error("`inputSchema` is not an object")]
    NoSchema,
    /// The definition is too long.
    #[error("the definition is longer than {MAX_DEFINITION_BYTES} bytes")]
    TooLong,
    /// A name or a value in a schema holds characters that cannot be seen or mislead.
    #[error("a name or a value in a schema holds characters that cannot be seen or mislead")]
    Misleading,
    /// An `x-mcp-header` breaks the protocol's rules; agents must not see the tool.
    #[error("{0}")]
    BadHeader(&'static str),
}

impl Unusable {
    /// The word in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::NoName | Self::BadName => "name",
            Self::NoSchema => "no_schema",
            Self::TooLong => "too_long",
            Self::Misleading => "misleading",
            Self::BadHeader(_) => "header",
        }
    }
}

impl Definition {
    /// Reads one element of `tools`.
    pub fn read(text: &Text) -> Result<Self, (String, Unusable)> {
        let name = text
            .get("name")
            .and_then(|name| name.as_str().map(std::borrow::Cow::into_owned));
        let name = name.ok_or_else(|| (String::new(), Unusable::NoName))?;
        let unusable = |reason| (name.chars().take(128).collect::<String>(), reason);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if name.is_empty() || name.len() > 128 || !name.bytes().all(plain) {
            return Err(unusable(Unusable::BadName));
        }
        if text.as_bytes().len() > MAX_DEFINITION_BYTES {
            return Err(unusable(Unusable::TooLong));
        }
        let schema = text
            .get("inputSchema")
            .filter(Text::is_object)
            .ok_or_else(|| unusable(Unusable::NoSchema))?;
        let header_params =
            params_of(&schema.value()).map_err(|reason| unusable(Unusable::BadHeader(reason)))?;
        let (shown, changes) = readable(text).map_err(|_| unusable(Unusable::Misleading))?;
        Ok(Self {
            name,
            text: text.clone(),
            shown,
            changes,
            input_schema: schema,
            header_params,
        })
    }
}
