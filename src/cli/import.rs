//! `toolgate import`: a tool policy that was written for OpenClaw → the layers of a policy file
//! that mean the same (001-14). Nothing is connected to, and nothing is written but standard
//! output.

use super::configured;
use super::printed::print;
use crate::policy::locate::YamlDocument;
use openclaw::Imported;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;

mod openclaw;

/// What to import.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration of OpenClaw, as JSON or YAML; or its layers by the labels that OpenClaw
    /// shows, such as `tools.agent (main)`, each with `allow`, `deny` and `alsoAllow`
    file: PathBuf,
}

/// Prints a policy file; 0 when everything that restricts is in it, 1 when something is not, which
/// standard error names.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let document = match YamlDocument::read(&args.file) {
        Ok(document) => document,
        Err(unreadable) => {
            configured::say(&unreadable.to_string());
            return Ok(1);
        }
    };
    let imported = openclaw::import(document.tree());
    for lost in &imported.lost {
        configured::say(&format!("toolgate: {lost}"));
    }
    print(&file(&args.file.display().to_string(), &imported))?;
    Ok(u8::from(!imported.lost.is_empty()))
}

/// The policy file.
fn file(from: &str, imported: &Imported) -> String {
    let mut text = format!(
        "# Made from {} by `toolgate import`.\n",
        from.escape_debug()
    );
    for note in &imported.notes {
        let _ = writeln!(text, "# {}", note.escape_debug());
    }
    block("layers", &imported.layers, 0, &mut text);
    text
}

/// A mapping as lines, anything else on one: JSON, which is YAML, too.
fn block(key: &str, value: &Value, depth: usize, text: &mut String) {
    let is_plain = |key: &str| {
        key.starts_with(|letter: char| letter.is_ascii_lowercase())
            && key
                .bytes()
                .all(|letter| letter.is_ascii_alphanumeric() || b"_-".contains(&letter))
            && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&key)
    };
    let key = if is_plain(key) {
        key.to_owned()
    } else {
        Value::from(key).to_string()
    };
    let _ = write!(text, "{}{key}:", "  ".repeat(depth));
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            members
                .iter()
                .for_each(|(key, value)| block(key, value, depth + 1, text));
        }
        Value::Object(_)
        | Value::Array(_)
        | Value::String(_)
        | Value::Number(_)
        | Value::Bool(_)
        | Value::Null => {
            let _ = writeln!(text, " {value}");
        }
    }
}

#[cfg(test)]
mod tests;
