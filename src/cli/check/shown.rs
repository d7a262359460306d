//! Problems as people read them.

use super::is_policy;
use crate::model::acting::{acts, shown};
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::looks::may_show;
use crate::policy::locate::YamlDocument;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Characters of a line that are shown.
const SHOWN_LINE_CHARS: usize = 160;

/// A file, to show lines of it.
pub(super) struct SourceLines {
    lines: Vec<String>,
    secret: HashSet<u32>,
}

impl SourceLines {
    fn read(file: &str) -> Option<Self> {
        let document = YamlDocument::read_through(Path::new(file)).0?;
        // Where not all could be read, nothing says which lines hold secrets.
        if !document.is_complete() && !is_policy(&document) {
            return None;
        }
        let lines = document.text().lines().map(ToOwned::to_owned).collect();
        Some(Self {
            lines,
            secret: document.lines_of(holds_secret).into_iter().collect(),
        })
    }

    /// The line, unless a secret is written on it.
    fn line(&self, number: u32) -> Option<&str> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.lines
            .get(index)
            .map(String::as_str)
            .filter(|_| !self.secret.contains(&number))
    }
}

/// Could this be a secret that is written out instead of `${…}`?
fn holds_secret(path: &[String], value: &serde_json::Value) -> bool {
    let text = match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Object(_) | serde_json::Value::Array(_) => return false,
        plain @ (serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)) => plain.to_string(),
    };
    !may_show(path, &text) && !is_variable(&text)
}

/// Is this one variable, without a default that could be the secret itself?
fn is_variable(text: &str) -> bool {
    let name = text
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// One problem, the line it is on, and carets under the place.
pub(super) fn show(
    diagnostic: &Diagnostic,
    sources: &mut HashMap<String, Option<SourceLines>>,
) -> String {
    let Diagnostic {
        severity,
        file,
        line,
        column,
        length,
        message,
        hint,
    } = diagnostic;
    let severity = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let place = if *line > 0 {
        format!("{}:{line}:{column}", shown(file))
    } else {
        shown(file)
    };
    let message = shown(message);
    let mut text = format!("{severity}: {message}\n  --> {place}\n");
    let source = sources
        .entry(file.clone())
        .or_insert_with(|| SourceLines::read(file));
    if let Some(written) = source.as_ref().and_then(|source| source.line(*line)) {
        let number = line.to_string();
        let gutter = " ".repeat(number.len());
        let (written, before) = around(
            written,
            usize::try_from(*column).unwrap_or(1).saturating_sub(1),
        );
        let blank: String = before
            .chars()
            .map(|letter| if letter == '\t' { '\t' } else { ' ' })
            .collect();
        let left = written.chars().count() - before.chars().count().min(written.chars().count());
        let wide = usize::try_from(*length).unwrap_or(1).min(left).max(1);
        let carets = "^".repeat(wide);
        let source = format!("{gutter} |\n{number} | {written}\n{gutter} | {blank}{carets}\n");
        text.push_str(&source);
    }
    if let Some(hint) = hint {
        let help = format!("  = help: {}\n", shown(hint));
        text.push_str(&help);
    }
    text.push('\n');
    text
}

/// As much of `line` as is shown, with the place in it, and what of that stands before the place.
fn around(line: &str, place: usize) -> (String, String) {
    // One letter for one, so that the carets stay under what they mean.
    let plain = |letter| {
        if acts(letter) && letter != '\t' {
            '\u{fffd}'
        } else {
            letter
        }
    };
    let letters: Vec<char> = line.chars().map(plain).collect();
    if letters.len() <= SHOWN_LINE_CHARS {
        let before = letters.iter().take(place).collect();
        return (letters.into_iter().collect(), before);
    }
    let from = place
        .saturating_sub(SHOWN_LINE_CHARS / 2)
        .min(letters.len() - SHOWN_LINE_CHARS);
    let head = if from > 0 { "…" } else { "" };
    let tail = if from + SHOWN_LINE_CHARS < letters.len() {
        "…"
    } else {
        ""
    };
    let shown: String = letters.iter().skip(from).take(SHOWN_LINE_CHARS).collect();
    let before: String = letters.iter().take(place).skip(from).collect();
    (format!("{head}{shown}{tail}"), format!("{head}{before}"))
}
