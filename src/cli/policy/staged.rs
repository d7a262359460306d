//! The files of a rollback, written elsewhere first: whether the policy that they make can be used, and
//! what its packs say, is known before anything is changed.

use super::plan::RollbackPlan;
use crate::cli::files;
use crate::cli::test::find;
use crate::cli::test::required::failures;
use crate::cli::yaml::flow;
use crate::config::{self, FILE_NAME};
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::unguessable;
use crate::owners::private::PRIVATE_FILE_MODE;
use crate::policy::bundle::shelf::PolicyShelf;
use crate::policy::sources::PackTerms;
use anyhow::Context as _;
use serde_json::Value;
use std::path::{Component, Path, PathBuf};

/// What the directories begin with that are made for it.
const STAGE_PREFIX: &str = "staged-";

/// What was found.
pub(super) struct StagedVerdict {
    /// Why the policy cannot be used.
    pub(super) errors: Vec<String>,
    /// What its packs do not find as they expect it.
    pub(super) failures: Vec<String>,
    /// Whether it comes in force only if they do.
    pub(super) is_required: bool,
}

/// A directory that goes with this value. There are secrets of the configuration in it.
struct StagedDirectory(PathBuf);

impl Drop for StagedDirectory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Judges the files of `plan`, for the configuration at `config`, beside which the caller is [`files::alone`]: what is
/// left of another rollback goes.
pub(super) fn judge(
    shelf: &PolicyShelf,
    config: &Path,
    plan: &RollbackPlan,
) -> anyhow::Result<StagedVerdict> {
    clear(shelf);
    let name = format!("{STAGE_PREFIX}{}", unguessable());
    let stage = StagedDirectory(shelf.directory().join(name));
    files::private_directory(&stage.0)?;
    for (path, file) in &plan.files {
        stage.write(path, &file.text)?;
    }
    let directory = config.parent().unwrap_or(Path::new("/"));
    let staged = stage.write(
        &directory.join(FILE_NAME),
        &flow(&stage.moved(&plan.config.tree)),
    )?;
    let reading = config::load_supposing(&staged).reading;
    let packs = find::beside(&staged, &reading.files)?;
    let is_required = reading.packs == PackTerms::Require;
    let failed = match &reading.policy {
        Some(policy) if is_required || !packs.is_empty() => failures(&staged, &packs, policy),
        Some(_) | None => Vec::new(),
    };
    let is_error = |one: &&Diagnostic| one.severity == Severity::Error;
    let errors = reading.diagnostics.iter().filter(is_error);
    let mut errors: Vec<String> = errors.map(|one| stage.words(one)).collect();
    if reading.policy.is_none() && errors.is_empty() {
        errors.push("the policy cannot be used".to_owned());
    }
    Ok(StagedVerdict {
        errors,
        failures: failed.iter().map(|one| stage.words(one)).collect(),
        is_required,
    })
}

/// Removes what a rollback that was killed has left.
fn clear(shelf: &PolicyShelf) {
    let entries = std::fs::read_dir(shelf.directory()).into_iter().flatten();
    let old = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        name.as_encoded_bytes().starts_with(STAGE_PREFIX.as_bytes())
    });
    for entry in old {
        drop(std::fs::remove_dir_all(entry.path()));
    }
}

impl StagedDirectory {
    /// Where the file at `path` lies here. What leads above the root leads to the root.
    fn place(&self, path: &Path) -> PathBuf {
        let mut below = PathBuf::new();
        for step in path.components() {
            match step {
                Component::ParentDir => {
                    below.pop();
                }
                Component::Normal(name) => below.push(name),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        self.0.join(below)
    }

    fn write(&self, path: &Path, text: &str) -> anyhow::Result<PathBuf> {
        let place = self.place(path);
        let directory = place.parent().unwrap_or(&self.0);
        files::private_directory(directory)?;
        files::replace(&place, text.as_bytes(), PRIVATE_FILE_MODE)
            .with_context(|| format!("{} cannot be tried", path.display()))?;
        Ok(place)
    }

    /// The configuration `tree` with the names of files that begin at the root.
    fn moved(&self, tree: &Value) -> Value {
        let mut tree = tree.clone();
        let move_one = |name: &mut Value| {
            let place = name.as_str().filter(|text| text.starts_with('/'));
            let place = place.map(|text| self.place(Path::new(text)));
            if let Some(place) = place.as_ref().and_then(|place| place.to_str()) {
                *name = Value::String(place.to_owned());
            }
        };
        if let Some(policies) = tree.get_mut("policies").and_then(Value::as_array_mut) {
            policies.iter_mut().for_each(move_one);
        }
        if let Some(pins) = tree.get_mut("pins") {
            move_one(pins);
            if let Some(file) = pins.get_mut("file") {
                move_one(file);
            }
        }
        tree
    }

    /// In words, with the files called as they will be.
    fn words(&self, diagnostic: &Diagnostic) -> String {
        diagnostic
            .to_string()
            .replace(&self.0.display().to_string(), "")
    }
}
