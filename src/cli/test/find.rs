//! Where the packs are, and which configuration each belongs to.

use crate::cli::configured;
use crate::config::{self, FILE_NAME};
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::policy::live::LoadResult;
use anyhow::{Context as _, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Packs at most, and how deep their directories may go.
const MAX_PACKS: usize = 256;
const MAX_DIRECTORY_DEPTH: usize = 8;
/// Files and directories that are looked at beside policies, of whatever kind; where packs are named,
/// they may lie anywhere in a checkout.
const MAX_LOOKED_AT: usize = 4_096;
/// The directories that hold packs.
const PACKS_DIRECTORY: &str = "tests";

/// What is found beside the policies of a configuration.
pub(super) enum FoundPacks {
    /// The packs, sorted.
    Packs(Vec<PathBuf>),
    /// None: where they would be, the configuration cannot say, whose errors these are.
    Unknown(Vec<Diagnostic>),
}

/// The packs beside the policies of the configuration.
pub(super) fn configured_packs(named: Option<&Path>) -> anyhow::Result<FoundPacks> {
    let path = configured::path(named)?;
    let LoadResult {
        files,
        mut diagnostics,
        ..
    } = config::load_supposing(&path).reading;
    let found = beside(&path, &files)?;
    if !found.is_empty() {
        return within_bounds(found).map(FoundPacks::Packs);
    }
    diagnostics.retain(|one| one.severity == Severity::Error);
    if !diagnostics.is_empty() {
        return Ok(FoundPacks::Unknown(diagnostics));
    }
    bail!(
        "no test packs beside the policies of {}; write them in `{PACKS_DIRECTORY}` there, or name one",
        path.display()
    )
}

/// The packs at `paths`, sorted.
pub(in crate::cli) fn packs(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut search = PackSearch::within(usize::MAX);
    for path in paths {
        let before = search.found.len();
        if path.is_file() {
            search.found.push(path.clone());
        } else {
            search.below(path, path.ends_with(PACKS_DIRECTORY), 0)?;
            // A checkout may itself lie below some `tests`; that makes no packs of its policies.
            if search.found.len() == before
                && path
                    .components()
                    .any(|step| step.as_os_str() == PACKS_DIRECTORY)
            {
                search.below(path, true, 0)?;
            }
        }
        if search.found.len() == before {
            bail!(
                "no test packs in {}: they end in .yaml and stand in a directory `{PACKS_DIRECTORY}`",
                path.display()
            );
        }
    }
    let mut found = search.found;
    found.sort();
    found.dedup();
    within_bounds(found)
}

/// `found`, unless there are more than are run at once.
fn within_bounds(found: Vec<PathBuf>) -> anyhow::Result<Vec<PathBuf>> {
    if found.len() > MAX_PACKS {
        bail!("more than {MAX_PACKS} test packs; merge some of them, or name a directory");
    }
    Ok(found)
}

/// The packs beside the policies of the configuration at `path`, which reads `files`. Sorted.
pub(in crate::cli) fn beside(
    path: &Path,
    files: &BTreeSet<PathBuf>,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut search = PackSearch::within(MAX_LOOKED_AT);
    for policies in files.iter().filter(|file| *file != path) {
        if policies.is_dir() {
            search.below(policies, false, 0)?;
        } else {
            let folder = policies.with_file_name(PACKS_DIRECTORY);
            if folder.is_dir() {
                search.below(&folder, true, 0)?;
            }
        }
    }
    let mut found = search.found;
    found.sort();
    found.dedup();
    Ok(found)
}

/// The packs found so far.
struct PackSearch {
    found: Vec<PathBuf>,
    /// Files and directories that may be looked at yet.
    left: usize,
}

impl PackSearch {
    fn within(left: usize) -> Self {
        let found = Vec::new();
        Self { found, left }
    }

    /// Adds the YAML files below `directory` that are in a directory `tests`.
    fn below(&mut self, directory: &Path, within: bool, depth: usize) -> anyhow::Result<()> {
        let cannot = || format!("{} cannot be read", directory.display());
        if depth > MAX_DIRECTORY_DEPTH {
            bail!("{}: directories go too deep", directory.display());
        }
        for entry in std::fs::read_dir(directory).with_context(cannot)? {
            let path = entry.with_context(cannot)?.path();
            let name = path.file_name().unwrap_or_default();
            let is_yaml = path
                .extension()
                .is_some_and(|ending| ending == "yaml" || ending == "yml");
            let too_many = || format!("{}: too many files to look at", directory.display());
            self.left = self.left.checked_sub(1).with_context(too_many)?;
            if name.as_encoded_bytes().starts_with(b".") || self.found.len() > MAX_PACKS {
                continue;
            }
            if path.is_dir() {
                self.below(&path, within || name == PACKS_DIRECTORY, depth + 1)?;
            } else if within && is_yaml {
                self.found.push(path);
            }
        }
        Ok(())
    }
}

/// The configuration that the pack at `path` belongs to: the one that was named, the first above
/// it, or the usual one.
pub(super) fn configuration(path: &Path, named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if named.is_some() {
        return configured::path(named);
    }
    let whole = std::path::absolute(path).ok();
    let above = whole
        .as_deref()
        .into_iter()
        .flat_map(|whole| whole.ancestors().skip(1));
    match above
        .map(|directory| directory.join(FILE_NAME))
        .find(|candidate| candidate.is_file())
    {
        Some(found) => Ok(found),
        None => configured::path(None),
    }
}
