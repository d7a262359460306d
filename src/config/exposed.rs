//! Tokens that stand in the configuration itself, where others than its owner may read it: an agent that reads an operator's token
//! can allow what agents ask (SECURITY §3E E4). And what others may change: places for the record, files of secrets and keys, and
//! programs that toolgate starts.

use super::Ledger;
use crate::model::diagnostic::{Diagnostic, Problem, Problems, Severity};
use crate::owners::{self, Exposed};
use crate::policy::locate::Document;
use crate::upstream::child::program;
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The lists whose entries prove who somebody is, and the key that does.
const PROOFS: [(&[&str], &str); 4] =
    [(&["callers"], "token"), (&["front_ends"], "token"), (&["admin", "tokens"], "token"), (&["hooks"], "secret")];
/// The bits of a mode that let others than the owner read.
const OTHERS_READ: u32 = 0o044;

/// A warning at the first of them. A variable with a default is none: that is how examples say what nobody relies on.
pub(super) fn tokens(path: &Path, document: &Document) -> Option<Diagnostic> {
    let rights = std::fs::metadata(path).ok()?.permissions().mode();
    if rights & OTHERS_READ == 0 {
        return None;
    }
    let mut written = PROOFS.iter().flat_map(|(list, key)| literal(document.tree(), list, key));
    let first = written.next()?;
    let more = match written.count() {
        0 => String::new(),
        more => format!(", and {more} more in this file"),
    };
    let message = format!("a token is written out here, and others than the owner may read this file{more}");
    let hint = format!("write `${{NAME}}` and set that variable, or run `chmod go-r {}`", path.display());
    Some(document.locate(Problem { severity: Severity::Warning, path: first, message, hint: Some(hint) }))
}

/// A warning for each thing on the way to where the record's archive and heads are kept that other accounts may change: who can
/// exchange them makes them prove nothing (SECURITY §3G G3, §10).
pub(super) fn kept(ledger: &Ledger, document: &Document) -> Vec<Diagnostic> {
    let archive = ledger.archive.as_deref().map(|path| (path, ["ledger", "archive"].as_slice()));
    let heads = ledger.heads.as_ref().and_then(|heads| heads.file.as_deref()?.parent());
    let heads = heads.map(|path| (path, ["ledger", "heads", "file"].as_slice()));
    let judged = archive.into_iter().chain(heads).flat_map(|(path, key)| {
        owners::exposed(path).into_iter().map(move |exposed| Problem {
            severity: Severity::Warning,
            path: key.iter().map(|step| (*step).to_owned()).collect(),
            message: said(&exposed, path, "what is kept there"),
            hint: Some(exposed.hint()),
        })
    });
    judged.map(|problem| document.locate(problem)).collect()
}

/// An error for each thing on the way to a file of a secret or a key by which other accounts could put another in its place: they
/// would say what a tool server is told, or seal the record as toolgate does.
pub(super) fn secret(file: &Path, problems: &mut Problems) {
    for exposed in owners::exposed(file) {
        problems.error(said(&exposed, file, "what the secret is"), exposed.hint());
    }
}

/// A warning for each thing by which other accounts could exchange the program that `named` names, which then runs as toolgate's
/// own: no error, because where every member of a group may write what its members install, programs still have to start.
pub(super) fn programs(named: &str, path: Option<&OsStr>, cwd: Option<&Path>, problems: &mut Problems) {
    let mut seen: Vec<Exposed> = Vec::new();
    for way in program::ways(named, path, cwd) {
        for exposed in owners::exposed(&way) {
            if !seen.contains(&exposed) {
                problems.warning(said(&exposed, Path::new(named), "which program runs"), exposed.hint());
                seen.push(exposed);
            }
        }
    }
}

/// What is wrong with it, and where, unless that is `named` itself.
fn said(exposed: &Exposed, named: &Path, chosen: &str) -> String {
    let message = exposed.message().replace("what the files say", chosen);
    if exposed.path == named { message } else { format!("{}: {message}", exposed.path.display()) }
}

/// Where entries of the list at `list` have a `key` that is no variable.
fn literal<'a>(tree: &'a Value, list: &'a [&'a str], key: &'a str) -> impl Iterator<Item = Vec<String>> + 'a {
    let entries = list.iter().fold(tree, |at, step| &at[*step]).as_array();
    entries.into_iter().flatten().enumerate().filter_map(move |(index, entry)| {
        entry[key].as_str().filter(|text| !text.contains("${"))?;
        let steps = list.iter().map(|step| (*step).to_owned());
        Some(steps.chain([index.to_string(), key.to_owned()]).collect())
    })
}
