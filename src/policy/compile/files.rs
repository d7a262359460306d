//! Which files are policy.

use super::compiler::about;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::policy::locate::YamlDocument;
use std::path::{Path, PathBuf};

/// Policy files at most, and how deep their directories may go.
const MAX_POLICY_FILES: usize = 256;
const MAX_DIRECTORY_DEPTH: usize = 8;

/// The policy files under `paths` that can be read, to give what is found about contracts later its
/// place.
pub(crate) fn documents(paths: &[PathBuf]) -> Vec<YamlDocument> {
    files(paths, &mut Vec::new())
        .iter()
        .filter_map(|path| YamlDocument::read(path).ok())
        .collect()
}

/// The YAML files under `paths`, sorted. Test packs (`tests/`) and hidden files are no policy.
pub(super) fn files(paths: &[PathBuf], diagnostics: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = found.len();
            gather(path, 0, &mut found, diagnostics);
            if found.len() == before {
                diagnostics.push(about(
                    path,
                    Severity::Warning,
                    "holds no policy file",
                    "add a file that ends in .yaml",
                ));
            }
        } else {
            found.push(path.clone());
        }
    }
    found.sort();
    found.dedup();
    if found.len() > MAX_POLICY_FILES {
        let message = format!("more than {MAX_POLICY_FILES} policy files");
        diagnostics.push(about(
            &found[MAX_POLICY_FILES],
            Severity::Error,
            &message,
            "merge some of them",
        ));
        found.truncate(MAX_POLICY_FILES);
    }
    found
}

fn gather(
    directory: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) if depth < MAX_DIRECTORY_DEPTH => entries,
        Ok(_) => {
            return diagnostics.push(about(
                directory,
                Severity::Error,
                "directories go too deep",
                "flatten them",
            ));
        }
        Err(error) => {
            let message = format!("cannot be read: {error}");
            return diagnostics.push(about(
                directory,
                Severity::Error,
                &message,
                "let this account read it",
            ));
        }
    };
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let yaml = path
            .extension()
            .is_some_and(|ending| ending == "yaml" || ending == "yml");
        if name.starts_with('.') || found.len() > MAX_POLICY_FILES {
            continue;
        }
        if path.is_dir() && name != "tests" {
            gather(&path, depth + 1, found, diagnostics);
        } else if yaml && !path.is_dir() {
            found.push(path);
        }
    }
}
