//! A sample as it stands in a pack.

use super::identity;
use crate::cli::ledger::text::json as plain_json;
use crate::model::entry::Entry;
use crate::policy::locate::YamlDocument;
use anyhow::{Context as _, bail};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::path::Path;

/// The sample as lines of YAML. JSON is YAML, so that every value is written as such.
pub(super) fn written(sample: &Map<String, Value>) -> String {
    let line = |(index, (key, value)): (usize, (&String, &Value))| {
        let mark = if index == 0 { "- " } else { "  " };
        format!("  {mark}{key}: {}\n", plain_json(&value.to_string()))
    };
    sample.iter().enumerate().map(line).collect()
}

/// Begins a pack with the sample, and with its caller where only the pack knows them.
pub(super) fn begin(
    path: &Path,
    caller: Option<(&String, &Entry)>,
    sample: &Map<String, Value>,
) -> anyhow::Result<()> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut text = format!("pack: {}\n", plain_json(&Value::from(name).to_string()));
    if let Some((name, entry)) = caller {
        let (name, identity) = (
            Value::from(name.as_str()).to_string(),
            identity(entry).to_string(),
        );
        writeln!(
            text,
            "callers:\n  {}: {}",
            plain_json(&name),
            plain_json(&identity)
        )?;
    }
    write!(text, "samples:\n{}", written(sample))?;
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("{} cannot be made", directory.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

/// Adds the sample at the end of the file, if it is one more sample there and nothing else changes.
pub(super) fn append(path: &Path, sample: &Map<String, Value>) -> anyhow::Result<()> {
    let file = path.display().to_string();
    let before = YamlDocument::read(path).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let end = if before.text().ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let text = format!("{}{end}{}", before.text(), written(sample));
    let mut expected = before.tree().clone();
    if let Some(samples) = expected.get_mut("samples").and_then(Value::as_array_mut) {
        samples.push(Value::Object(sample.clone()));
    }
    match YamlDocument::parse(&file, text.clone()) {
        Ok(after) if *after.tree() == expected => {
            std::fs::write(path, text).with_context(|| format!("{file} cannot be written"))
        }
        _ => bail!(
            "{file} does not end with a list `samples` indented by two; add it by hand:\n{}",
            written(sample)
        ),
    }
}
