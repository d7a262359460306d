//! The files of a policy as they are now, also while the policy has errors.

use crate::cli::files;
use crate::cli::test::find;
use crate::config;
use crate::policy::bundle::{Bundle, whole};
use crate::policy::compile::policy_files;
use crate::policy::locate::{YAML_FILE_BYTES_MAX, YamlDocument};
use crate::policy::pins::PIN_FILE_BYTES_MAX;
use crate::policy::sources::{PolicySources, SourceFile, SourceKind};
use anyhow::{Context as _, bail};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The configuration and the files that it names.
pub(super) struct PresentPolicy {
    /// The configuration, from the root.
    pub(super) config: PathBuf,
    /// What it says, and where.
    pub(super) document: YamlDocument,
    /// What a policy is made of.
    pub(super) sources: PolicySources,
}

impl PresentPolicy {
    /// Those of the configuration at `config`. An error where a file cannot be read: it could not be
    /// put back either.
    pub(super) fn read(config: &Path) -> anyhow::Result<Self> {
        let config = whole(config);
        let document = YamlDocument::read(&config)
            .map_err(|wrong| anyhow::anyhow!("{wrong}"))
            .context("the configuration cannot be read; mend it first")?;
        let reading = config::load_supposing(&config).reading;
        let mut sources = reading.sources;
        if sources.directory.as_os_str().is_empty() {
            bail!(
                "what {} names cannot be told: `toolgate check` says what is wrong",
                config.display()
            );
        }
        let pins = pin_file(&sources.settings).map(|file| sources.directory.join(file));
        let mut known: BTreeSet<PathBuf> =
            sources.files.iter().map(|file| file.path.clone()).collect();
        known.insert(config.clone());
        let named: Vec<PathBuf> = reading.files.iter().cloned().collect();
        let policies: Vec<PathBuf> = named
            .iter()
            .filter(|path| Some(*path) != pins.as_ref() && **path != config)
            .cloned()
            .collect();
        let mut wanted: Vec<(PathBuf, SourceKind)> = policy_files(&policies)
            .into_iter()
            .map(|path| (path, SourceKind::Policy))
            .collect();
        let there = pins.filter(|path| path.exists());
        wanted.extend(there.map(|path| (path, SourceKind::Pins)));
        let packs = find::beside(&config, &reading.files)?;
        wanted.extend(packs.into_iter().map(|path| (path, SourceKind::Pack)));
        for (path, kind) in wanted {
            if known.insert(path.clone()) {
                let text = text_of(&path)?;
                sources.files.push(SourceFile { path, kind, text });
            }
        }
        Ok(Self {
            config,
            document,
            sources,
        })
    }

    /// As a bundle.
    pub(super) fn bundle(&self) -> anyhow::Result<Bundle> {
        Ok(Bundle::of(&self.sources)?)
    }
}

/// The pin file that these settings name.
pub(super) fn pin_file(settings: &Map<String, Value>) -> Option<String> {
    let pins = settings.get("pins")?;
    let file = pins.as_str().or_else(|| pins.get("file")?.as_str());
    Some(
        file.unwrap_or(crate::guards::pins::PIN_FILE_NAME)
            .to_owned(),
    )
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    let cannot = || format!("{} cannot be read, and so not be kept", path.display());
    let most = PIN_FILE_BYTES_MAX.max(YAML_FILE_BYTES_MAX);
    let bytes = files::read(path, most).with_context(cannot)?;
    String::from_utf8(bytes).with_context(cannot)
}
