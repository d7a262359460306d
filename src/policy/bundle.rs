//! The files of one policy under one name: the SHA-256 over all of them, pins and packs included.
//! From the name an operator can tell whether the bundle is what it was. No bundle holds a secret: of the
//! configuration it has the texts as they are written, with `${NAME}` for a variable, and never what
//! is written out where a secret belongs.

use super::sources::{PolicySources, SourceFile, SourceKind};
use crate::model::digest::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io;
use std::path::{Component, Path, PathBuf};

pub(crate) mod keeper;
pub(crate) mod lives;
pub(crate) mod notes;
pub(crate) mod shelf;

/// Bytes of a bundle at most: a pin file, and as much again.
pub(crate) const BUNDLE_BYTES_MAX: u64 = 40 << 20;
/// How bundles are written now.
const BUNDLE_FORMAT: u32 = 1;
/// Files of a bundle: 256 of policies, as many packs, and the pins.
const MAX_BUNDLE_FILES: usize = 513;
/// Bytes of a file's name.
const MAX_FILE_NAME_BYTES: usize = 4_096;

/// The files of one policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bundle {
    format: u32,
    /// What the configuration says that a reload applies: JSON, with sorted keys.
    settings: String,
    /// By their names.
    files: Vec<BundledFile>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BundledFile {
    /// From the directory of the configuration, or from the root.
    pub(crate) name: String,
    /// What it is for.
    pub(crate) kind: SourceKind,
    /// All of it.
    pub(crate) text: String,
}

/// Why a bundle cannot be kept, found or used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleError {
    /// A name that no JSON can hold.
    #[error("{0} has a name that is not UTF-8")]
    OddName(PathBuf),
    /// There is more of it than is kept.
    #[error(
        "the policy's files have more than {BUNDLE_BYTES_MAX} bytes, or are more than {MAX_BUNDLE_FILES}"
    )]
    TooLarge,
    /// What is on the disk is not what was kept.
    #[error(
        "the bundle {0} is not what was kept under that name: it was changed, or is damaged; nothing of it is used"
    )]
    Tampered(Digest),
    /// It is what was kept, and cannot be read.
    #[error("the bundle {0} cannot be read, it may be of a later version: {1}")]
    Unreadable(Digest, String),
    /// The disk.
    #[error("{0}: {1}")]
    Disk(PathBuf, io::Error),
}

impl Bundle {
    /// Of what was read.
    pub(crate) fn of(sources: &PolicySources) -> Result<Self, BundleError> {
        let base = whole(&sources.directory);
        let mut files = Vec::new();
        for SourceFile { path, kind, text } in &sources.files {
            let path = whole(path);
            let named = path.strip_prefix(&base).unwrap_or(&path).to_str();
            files.push(BundledFile {
                name: named
                    .ok_or_else(|| BundleError::OddName(path.clone()))?
                    .to_owned(),
                kind: *kind,
                text: text.clone(),
            });
        }
        Self::holding(&sources.settings, files)
    }

    /// These settings and files.
    pub(crate) fn holding(
        settings: &Map<String, Value>,
        mut files: Vec<BundledFile>,
    ) -> Result<Self, BundleError> {
        files.sort_by(|one, other| one.name.cmp(&other.name));
        files.dedup_by(|one, other| one.name == other.name);
        let settings = sorted(&Value::Object(settings.clone())).to_string();
        let bundle = Self {
            format: BUNDLE_FORMAT,
            settings,
            files,
        };
        let is_bounded = bundle.files.len() <= MAX_BUNDLE_FILES
            && u64::try_from(bundle.written().len()).is_ok_and(|bytes| bytes <= BUNDLE_BYTES_MAX);
        is_bounded.then_some(bundle).ok_or(BundleError::TooLarge)
    }

    /// What is kept under `name`, if that is what `text` is.
    pub(crate) fn read(name: Digest, text: &str) -> Result<Self, BundleError> {
        if Digest::of(text.as_bytes()) != name {
            return Err(BundleError::Tampered(name));
        }
        let unreadable =
            |why: &dyn std::fmt::Display| BundleError::Unreadable(name, why.to_string());
        let bundle: Self = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
        if bundle.format != BUNDLE_FORMAT {
            return Err(unreadable(&format!("its format is {}", bundle.format)));
        }
        if let Some(odd) = bundle.files.iter().find(|file| !is_file_name(&file.name)) {
            return Err(unreadable(&format!("{:?} names no file", odd.name)));
        }
        serde_json::from_str::<Map<String, Value>>(&bundle.settings)
            .map_err(|error| unreadable(&error))?;
        Ok(bundle)
    }

    /// As it is kept.
    pub(crate) fn written(&self) -> String {
        serde_json::json!({
            "format": self.format,
            "settings": self.settings,
            "files": self.files,
        })
        .to_string()
    }

    /// Its name.
    pub(crate) fn name(&self) -> Digest {
        Digest::of(self.written().as_bytes())
    }

    /// What the configuration says that a reload applies.
    pub(crate) fn settings(&self) -> Map<String, Value> {
        serde_json::from_str(&self.settings).unwrap_or_default()
    }

    /// Its files.
    pub(crate) fn files(&self) -> &[BundledFile] {
        &self.files
    }
}

/// `path` from the root, without `.`; `..` stays, since links may stand before it.
pub(crate) fn whole(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether a file can have this name: something that ends in a name, and no sign that acts on a
/// terminal or divides lines.
fn is_file_name(name: &str) -> bool {
    let ends_well = matches!(
        Path::new(name).components().next_back(),
        Some(Component::Normal(_))
    );
    ends_well && name.len() <= MAX_FILE_NAME_BYTES && !name.chars().any(char::is_control)
}

/// The same value, with the members of every map in order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            members
                .into_iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect()
        }
    }
}

#[cfg(test)]
mod tests;
