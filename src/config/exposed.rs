//! Tokens that stand in the configuration itself, where others than its owner may read it: whoever reads an operator's token
//! can allow what agents ask (SECURITY §3E E4).

use crate::model::diagnostic::{Diagnostic, Problem, Severity};
use crate::policy::locate::Document;
use serde_json::Value;
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

/// Where entries of the list at `list` have a `key` that is no variable.
fn literal<'a>(tree: &'a Value, list: &'a [&'a str], key: &'a str) -> impl Iterator<Item = Vec<String>> + 'a {
    let entries = list.iter().fold(tree, |at, step| &at[*step]).as_array();
    entries.into_iter().flatten().enumerate().filter_map(move |(index, entry)| {
        entry[key].as_str().filter(|text| !text.contains("${"))?;
        let steps = list.iter().map(|step| (*step).to_owned());
        Some(steps.chain([index.to_string(), key.to_owned()]).collect())
    })
}
