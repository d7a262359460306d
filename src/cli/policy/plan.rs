//! What a rollback writes and removes.

use super::changes::ChangedFile;
use super::merged::{RestoredConfig, merged, settings_text};
use super::present::PresentPolicy;
use crate::cli::files;
use crate::policy::bundle::{BUNDLE_BYTES_MAX, Bundle, BundledFile, whole};
use crate::policy::sources::{SourceFile, SourceKind};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All of it.
pub(super) struct RollbackPlan {
    /// The configuration as it is to be.
    pub(super) config: RestoredConfig,
    /// What it is to say of what a reload applies.
    pub(super) settings: Map<String, Value>,
    /// The files as they are to be, by where they lie.
    pub(super) files: BTreeMap<PathBuf, BundledFile>,
    /// What is written or removed, the configuration first.
    pub(super) steps: Vec<RollbackStep>,
}

/// One file.
pub(super) struct RollbackStep {
    pub(super) path: PathBuf,
    pub(super) file: ChangedFile,
    /// What is shown of it, where secrets may stand in it.
    shown: Option<ChangedFile>,
}

impl RollbackPlan {
    /// From the files as they are `present` to those of `bundle`; the configuration stays as it is if
    /// `keeps_config`.
    pub(super) fn new(
        present: &PresentPolicy,
        bundle: &Bundle,
        keeps_config: bool,
    ) -> anyhow::Result<Self> {
        let settings = if keeps_config {
            present.sources.settings.clone()
        } else {
            bundle.settings()
        };
        let config = merged(&present.document, &settings)?;
        let directory = whole(&present.sources.directory);
        let place = |file: &BundledFile| (directory.join(&file.name), file.clone());
        let files: BTreeMap<PathBuf, BundledFile> = bundle.files().iter().map(place).collect();
        let mut plan = Self {
            config,
            settings,
            files,
            steps: Vec::new(),
        };
        plan.step(
            present.config.clone(),
            Some(present.document.text()),
            Some(plan.config.text.clone()),
        );
        if let Some(config) = plan.steps.first_mut() {
            config.shown = Some(ChangedFile {
                name: config.file.name.clone(),
                before: Some(settings_text(&present.sources.settings)),
                after: Some(settings_text(&plan.settings)),
            });
        }
        let now: BTreeMap<PathBuf, &SourceFile> = present
            .sources
            .files
            .iter()
            .map(|file| (whole(&file.path), file))
            .collect();
        for (path, file) in plan.files.clone() {
            let before = now.get(&path).map(|file| file.text.clone());
            let before = before.or_else(|| there(&path));
            plan.step(path, before.as_deref(), Some(file.text));
        }
        for (path, file) in now {
            if !plan.files.contains_key(&path) && plan.would_read(&directory, &path, file.kind) {
                plan.step(path, Some(&file.text), None);
            }
        }
        Ok(plan)
    }

    /// As it is called once that is done.
    pub(super) fn bundle(&self) -> anyhow::Result<Bundle> {
        let files = self.files.values().cloned().collect();
        Ok(Bundle::holding(&self.settings, files)?)
    }

    fn step(&mut self, path: PathBuf, before: Option<&str>, after: Option<String>) {
        if before == after.as_deref() {
            return;
        }
        let name = path.display().to_string();
        let before = before.map(str::to_owned);
        self.steps.push(RollbackStep {
            path,
            file: ChangedFile {
                name,
                before,
                after,
            },
            shown: None,
        });
    }

    /// Whether a file that the bundle does not have would count beside its files: then it has to go.
    fn would_read(&self, directory: &Path, path: &Path, kind: SourceKind) -> bool {
        let named = self.settings.get("policies").and_then(Value::as_array);
        let mut named = named.into_iter().flatten().filter_map(Value::as_str);
        // What a variable stands for is not known here: what is not known counts.
        let counts = |entry: &str| {
            let entry = whole(&directory.join(entry));
            let packs = entry.with_file_name("tests");
            path.starts_with(entry) || (kind == SourceKind::Pack && path.starts_with(packs))
        };
        kind != SourceKind::Pins && named.any(|entry| entry.contains("${") || counts(entry))
    }
}

/// What a file holds that no policy of now reads.
fn there(path: &Path) -> Option<String> {
    let bytes = files::read(path, BUNDLE_BYTES_MAX).ok()?;
    String::from_utf8(bytes).ok()
}

impl RollbackStep {
    /// What of the file may be read by who asks what would be written: of the configuration, what bundles have of it.
    pub(super) fn shown(&self) -> &ChangedFile {
        self.shown.as_ref().unwrap_or(&self.file)
    }

    /// One line: what becomes of the file.
    pub(super) fn words(&self) -> String {
        let word = match self.file.word() {
            "added" => "write ",
            "removed" => "remove",
            _ => "change",
        };
        format!("{word} {}", self.path.display())
    }
}
