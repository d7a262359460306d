//! What differs between two policies, file by file.

use crate::cli::ledger::text::plain;
use crate::cli::terminal::{Terminal, Tone};
use crate::config::FILE_NAME;
use crate::policy::bundle::Bundle;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Lines around a change.
const DIFF_CONTEXT_LINES: usize = 3;
/// How long the diff of one file may be refined.
const DIFF_TIMEOUT: Duration = Duration::from_secs(2);

/// One file that is not the same in both.
pub(super) struct ChangedFile {
    pub(super) name: String,
    /// Its text in the first; none: it is not there.
    pub(super) before: Option<String>,
    /// Its text in the second.
    pub(super) after: Option<String>,
}

/// All texts of a bundle by name, with what it has of the configuration.
pub(super) fn texts(bundle: &Bundle) -> BTreeMap<String, String> {
    let files = bundle.files().iter();
    let mut texts: BTreeMap<String, String> = files
        .map(|file| (file.name.clone(), file.text.clone()))
        .collect();
    texts.insert(
        FILE_NAME.to_owned(),
        super::merged::settings_text(&bundle.settings()),
    );
    texts
}

/// The files that are not the same, by name.
pub(super) fn between(old: &Bundle, new: &Bundle) -> Vec<ChangedFile> {
    let (mut old, mut new) = (texts(old), texts(new));
    let names: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
    let file = |name: String| ChangedFile {
        before: old.remove(&name),
        after: new.remove(&name),
        name,
    };
    let mut files: Vec<ChangedFile> = names.into_iter().map(file).collect();
    files.retain(|file| file.before != file.after);
    files
}

impl ChangedFile {
    /// What becomes of it, from the first to the second.
    pub(super) fn word(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "added",
            (_, None) => "removed",
            (Some(_), Some(_)) => "changed",
        }
    }

    /// As a unified diff.
    pub(super) fn diff(&self) -> String {
        let text = |side: &Option<String>| side.clone().unwrap_or_default();
        let (old, new) = (text(&self.before), text(&self.after));
        let named = |side: &Option<String>| match side {
            Some(_) => self.name.clone(),
            None => "/dev/null".to_owned(),
        };
        let diff = similar::TextDiff::configure()
            .timeout(DIFF_TIMEOUT)
            .diff_lines(&old, &new);
        diff.unified_diff()
            .context_radius(DIFF_CONTEXT_LINES)
            .header(&named(&self.before), &named(&self.after))
            .to_string()
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        json!({ "name": self.name, "change": self.word(), "diff": self.diff() })
    }
}

/// A diff for people: nothing in it acts on a terminal.
pub(super) fn colored(diff: &str) -> String {
    let terminal = Terminal::stdout();
    let line = |line: &str| {
        let line = plain(line);
        match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => terminal.paint(Tone::Head, &line),
            [b'+', ..] => terminal.paint(Tone::Good, &line),
            [b'-', ..] => terminal.paint(Tone::Bad, &line),
            [b'@', ..] => terminal.paint(Tone::Hint, &line),
            _ => line,
        }
    };
    diff.lines().map(|text| line(text) + "\n").collect()
}
