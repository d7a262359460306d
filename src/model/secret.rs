//! A value that prints as `***` and is wiped when dropped.

use secrecy::{ExposeSecret, SecretString};

/// A configured secret: a token, a header value.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes the value in.
    pub fn new(value: String) -> Self {
        Self(SecretString::from(value))
    }

    /// The value. Call it only where the value leaves towards where it belongs.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl<'de> serde::Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl schemars::JsonSchema for Secret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}
