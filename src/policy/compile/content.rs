//! What a policy is known by: its version, and the fingerprint of its files.

use crate::guards::Mode;
use crate::model::digest::Digest;
use crate::model::hex::hex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Everything that was read for one policy.
pub(super) struct PolicyContent {
    /// The bytes of the files, and what else says whether they are as they were.
    bytes: Sha256,
    /// What they say, in canonical JSON.
    said: Vec<Vec<u8>>,
}

impl PolicyContent {
    /// `written`: what the configuration says.
    pub(super) fn beginning(written: &Value) -> Self {
        Self {
            bytes: Sha256::new(),
            said: vec![canonical(written)],
        }
    }

    /// Counts for the fingerprint.
    pub(super) fn bytes(&mut self, bytes: impl AsRef<[u8]>) {
        self.bytes.update(bytes);
    }

    /// Counts for the version.
    pub(super) fn say(&mut self, tree: &Value) {
        self.said.push(canonical(tree));
    }

    /// SHA-256 over what the configuration says.
    pub(super) fn configured(&self) -> Digest {
        Digest::of(self.said.first().map_or(&[][..], |said| said))
    }

    /// The order of files, their comments and their layout don't count.
    pub(super) fn version(&self, mode: Mode) -> String {
        let mut parts: Vec<[u8; 32]> = self
            .said
            .iter()
            .map(|text| Sha256::digest(text).into())
            .collect();
        parts.sort_unstable();
        let mut whole = Sha256::new();
        whole.update([u8::from(mode == Mode::Observe)]);
        for part in parts {
            whole.update(part);
        }
        shown(&whole.finalize())
    }

    /// SHA-256 over the bytes.
    pub(super) fn fingerprint(self) -> [u8; 32] {
        self.bytes.finalize().into()
    }
}

/// SHA-256 over what a part of a file says: comments and layout don't count.
pub(super) fn digest(tree: &Value) -> Digest {
    Digest::of(&canonical(tree))
}

fn canonical(tree: &Value) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(tree).unwrap_or_else(|_| tree.to_string().into_bytes())
}

/// A version as people read it: the first twelve digits.
pub(in crate::policy) fn shown(digest: &[u8]) -> String {
    hex(&digest[..6])
}
