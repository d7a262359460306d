//! What `check` found, for programs: one JSON object, or SARIF 2.1.0.

use super::Report;
use crate::model::diagnostic::{Diagnostic, Severity};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Words of a message that name its rule.
const RULE_WORDS: usize = 6;
/// Where the format is written down.
const SARIF_SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// One object, over several lines.
pub(super) fn json(report: &Report) -> String {
    let one = |found: &Diagnostic| {
        let place = (found.line > 0).then_some(());
        json!({
            "severity": severity(found),
            "rule": rule(&found.message),
            "file": found.file,
            "line": place.map(|()| found.line),
            "column": place.map(|()| found.column),
            "end_column": place.map(|()| found.column + found.length.max(1)),
            "message": found.message,
            "help": found.hint,
        })
    };
    let errors = report.errors();
    let (told, more) = report.told();
    let more: BTreeMap<&str, usize> = more.into_iter().collect();
    lines(&json!({
        "ok": report.code() == 0,
        "errors": errors,
        "warnings": report.found.len() - errors,
        "silent_servers": report.silent,
        "diagnostics": told.into_iter().map(one).collect::<Vec<_>>(),
        "not_shown": more,
        "notes": report.notes,
        "servers": report.servers,
    }))
}

/// A log of one run. Paths are relative to the directory it was made in, where they lie below it.
pub(super) fn sarif(report: &Report) -> String {
    let (told, _) = report.told();
    let rules: BTreeSet<String> = told.iter().map(|one| rule(&one.message)).collect();
    let rules: Vec<Value> = rules.into_iter().map(|id| json!({ "id": id })).collect();
    let results: Vec<Value> = told.into_iter().map(result).collect();
    lines(&json!({
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "toolgate",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    }))
}

fn result(found: &Diagnostic) -> Value {
    let help = found.hint.as_ref().map(|hint| format!("\nhelp: {hint}"));
    let (line, column) = (found.line.max(1), found.column.max(1));
    json!({
        "ruleId": rule(&found.message),
        "level": severity(found),
        "message": { "text": format!("{}{}", found.message, help.unwrap_or_default()) },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": uri(&found.file) },
            "region": {
                "startLine": line,
                "startColumn": column,
                "endColumn": column + found.length.max(1),
            },
        }}],
    })
}

fn severity(found: &Diagnostic) -> &'static str {
    match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// The words of a message without what it quotes: the same for every problem of its kind.
fn rule(message: &str) -> String {
    let said: String = message.split('`').step_by(2).collect();
    let is_letter = |letter: char| letter.is_ascii_alphabetic();
    let words = said.split(|letter: char| !is_letter(letter));
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .take(RULE_WORDS)
        .map(str::to_lowercase)
        .collect();
    if words.is_empty() {
        "problem".to_owned()
    } else {
        words.join("-")
    }
}

/// The file as a reference: below the working directory without it.
fn uri(file: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = Path::new(file);
    let path = path.strip_prefix(&here).unwrap_or(path);
    let path = path.strip_prefix(".").unwrap_or(path).display().to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encoded: String = path
        .bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect();
    if encoded.starts_with('/') {
        format!("file://{encoded}")
    } else {
        encoded
    }
}

fn lines(value: &Value) -> String {
    format!("{value:#}\n")
}
