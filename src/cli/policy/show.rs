//! `toolgate policy show`.

use super::changes;
use super::named::KeptPolicies;
use crate::cli::configured::DataArgs;
use crate::cli::ledger::text::{json as escaped, json_lines, plain};
use crate::cli::terminal::Terminal;
use crate::config::FILE_NAME;
use crate::model::counted::counted;
use crate::policy::bundle::Bundle;
use crate::policy::shape::suggest;
use crate::policy::sources::SourceKind;
use anyhow::bail;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::IsTerminal as _;

/// Which policy to show.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// The hash of its bundle, or its version as the ledger has it; the beginning will do
    hash: String,
    /// One of its files: its text alone
    file: Option<String>,
}

impl Show {
    /// Shows it.
    pub(super) fn run(
        &self,
        place: &DataArgs,
        as_json: bool,
        out: &mut String,
    ) -> anyhow::Result<u8> {
        let kept = KeptPolicies::read(&place.place()?.data)?;
        let name = kept.named(&self.hash)?;
        let bundle = kept.shelf.get(name)?;
        match (&self.file, as_json) {
            (Some(file), _) => one_file(&bundle, file, as_json, out)?,
            (None, true) => {
                let files = bundle.files().iter();
                let files: Vec<Value> = files
                    .map(|file| json!({ "name": file.name, "kind": file.kind, "text": file.text }))
                    .collect();
                let lives: Vec<_> = kept.lives_of(name).collect();
                let shown = json!({
                    "bundle": name,
                    "lives": lives,
                    "settings": bundle.settings(),
                    "files": files,
                });
                writeln!(out, "{}", json_lines(&shown))?;
            }
            (None, false) => {
                writeln!(out, "bundle   {name}")?;
                let terminal = Terminal::stdout();
                for life in kept.lives_of(name) {
                    let why = life.why.as_deref().map(|why| format!(": {}", plain(why)));
                    writeln!(
                        out,
                        "in force {} as {} from {}{}",
                        terminal.time(&life.at.to_string()),
                        plain(&life.policy),
                        life.from.word(),
                        why.unwrap_or_default()
                    )?;
                }
                overview(&bundle, out)?;
            }
        }
        Ok(0)
    }
}

fn overview(bundle: &Bundle, out: &mut String) -> std::fmt::Result {
    let settings = bundle.settings();
    let keys: Vec<&str> = settings.keys().map(String::as_str).collect();
    writeln!(out, "settings {FILE_NAME}: {}", plain(&keys.join(", ")))?;
    for file in bundle.files() {
        let kind = match file.kind {
            SourceKind::Policy => "policy",
            SourceKind::Pins => "pins",
            SourceKind::Pack => "pack",
        };
        let lines = counted(file.text.lines().count(), "line");
        writeln!(out, "{kind:<8} {}: {lines}", plain(&file.name))?;
    }
    Ok(())
}

fn one_file(bundle: &Bundle, file: &str, as_json: bool, out: &mut String) -> anyhow::Result<()> {
    let texts = changes::texts(bundle);
    let Some(text) = texts.get(file) else {
        let known: Vec<String> = texts.keys().cloned().collect();
        bail!(
            "the bundle has no file {}; {}",
            plain(file),
            suggest(file, &known)
        );
    };
    if as_json {
        let shown = json!({ "name": file, "text": text });
        writeln!(out, "{}", escaped(&shown.to_string()))?;
    } else if std::io::stdout().is_terminal() {
        out.extend(text.lines().map(|line| plain(line) + "\n"));
    } else {
        out.push_str(text);
    }
    Ok(())
}
