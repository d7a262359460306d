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
