//! What a policy is known by: its version, and the fingerprint of its files.

use crate::guards::Mode;
use crate::model::digest::Digest;
use crate::model::hex::hex;
use crate::policy::sources::{SourceFile, SourceKind};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::path::Path;

/// Everything that was read for one policy.
pub(super) struct PolicyContent {
    /// The bytes of the files, and what else says whether they are as they were.
    bytes: Sha256,
    /// What they say, in canonical JSON.
    said: Vec<Vec<u8>>,
    /// As they were read.
    files: Vec<SourceFile>,
}

impl PolicyContent {
    /// `written`: what the configuration says.
    pub(super) fn beginning(written: &Value) -> Self {
        Self {
            bytes: Sha256::new(),
            said: vec![canonical(written)],
            files: Vec::new(),
        }
    }

    /// Counts for the fingerprint.
    pub(super) fn bytes(&mut self, bytes: impl AsRef<[u8]>) {
        self.bytes.update(bytes);
    }

    /// Was read, and is to be kept with the policy.
    pub(super) fn keep(&mut self, path: &Path, kind: SourceKind, text: &str) {
        self.files.push(SourceFile {
            path: path.to_owned(),
            kind,
            text: text.to_owned(),
        });
    }

    /// Counts for the version.
    pub(super) fn say(&mut self, tree: &Value) {
        self.said.push(canonical(tree));
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

    /// SHA-256 over the bytes, and the files.
    pub(super) fn end(self) -> ([u8; 32], Vec<SourceFile>) {
        (self.bytes.finalize().into(), self.files)
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
