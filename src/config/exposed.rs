//! Tokens that stand in the configuration itself, where others than its owner may read it: an agent
//! that reads an operator's token can allow what agents ask (threat-model §3E E4). So do secrets
//! that servers are given. And what others may change: places for the record, files of secrets, of keys
//! and of those of issuers, and programs that toolgate starts.

use super::Ledger;
use crate::model::diagnostic::{Diagnostic, Problem, Problems, Severity};
use crate::owners::{self, ExposedPath, OTHERS_READ_BITS};
use crate::policy::locate::YamlDocument;
use crate::upstream::child::program;
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The lists whose entries prove who a caller, an operator or toolgate is, and the key that does.
const PROOF_LISTS: [(&[&str], &str); 4] = [
    (&["callers"], "token"),
    (&["front_ends"], "token"),
    (&["admin", "tokens"], "token"),
    (&["hooks"], "secret"),
];
/// What servers are sent or given, by name; some of it proves who toolgate is.
const SERVER_VALUE_SECTIONS: [&str; 2] = ["headers", "env"];
/// What the name of such a thing has in it.
const SECRET_NAME_PARTS: [&str; 7] = [
    "auth",
    "key",
    "token",
    "secret",
    "password",
    "credential",
    "cookie",
];
/// Letters beside a variable, such as `token=`, that are no secret yet.
const MIN_SECRET_BYTES: usize = 8;

/// A warning at the first of them. A variable with a default is none: that is how examples say what
/// nobody relies on.
pub(super) fn tokens(path: &Path, document: &YamlDocument) -> Option<Diagnostic> {
    let rights = std::fs::metadata(path).ok()?.permissions().mode();
    if rights & OTHERS_READ_BITS == 0 {
        return None;
    }
    let tree = document.tree();
    let webhook = tree["ledger"]["heads"]["webhook"]["secret"]
        .as_str()
        .filter(|secret| is_written_out(secret));
    let webhook = webhook.map(|_| {
        ["ledger", "heads", "webhook", "secret"]
            .map(ToOwned::to_owned)
            .to_vec()
    });
    let proofs = PROOF_LISTS
        .iter()
        .flat_map(|(list, key)| literal(tree, list, key));
    let mut written = proofs.chain(webhook).chain(given(tree));
    let first = written.next()?;
    let what = if first.last().is_some_and(|key| key == "token") {
        "token"
    } else {
        "secret"
    };
    let more = match written.count() {
        0 => String::new(),
        more => format!(", and {more} more in this file"),
    };
    let message =
        format!("a {what} is written out here, and others than the owner may read this file{more}");
    let hint = format!(
        "write `${{NAME}}` and set that variable, or run `chmod go-r {}`",
        path.display()
    );
    Some(document.locate(Problem {
        part: None,
        severity: Severity::Warning,
        path: first,
        message,
        hint: Some(hint),
    }))
}

/// A warning for each thing on the way to where the record's archive and heads are kept that other
/// accounts may change: who can exchange them makes them prove nothing (threat-model §3G G3, §10).
pub(super) fn kept(ledger: &Ledger, document: &YamlDocument) -> Vec<Diagnostic> {
    let archive = ledger
        .archive
        .as_deref()
        .map(|path| (path, ["ledger", "archive"].as_slice()));
    let heads = ledger
        .heads
        .as_ref()
        .and_then(|heads| heads.file.as_deref()?.parent());
    let heads = heads.map(|path| (path, ["ledger", "heads", "file"].as_slice()));
    let judged = archive.into_iter().chain(heads).flat_map(|(path, key)| {
        owners::exposed(path)
            .into_iter()
            .map(move |exposed| Problem {
                part: None,
                severity: Severity::Warning,
                path: key.iter().map(|step| (*step).to_owned()).collect(),
                message: exposure_text(&exposed, path, "what is kept there"),
                hint: Some(exposed.hint()),
            })
    });
    judged.map(|problem| document.locate(problem)).collect()
}

/// An error for each thing on the way to a file of a secret or a key by which other accounts could
/// put another in its place: they would say what a tool server is told, or seal the record as
/// toolgate does.
pub(super) fn secret(file: &Path, problems: &mut Problems) {
    for exposed in owners::exposed(file) {
        problems.error(
            exposure_text(&exposed, file, "what the secret is"),
            exposed.hint(),
        );
    }
}

/// An error for each thing by which other accounts could put other keys into a file of an issuer's: they would
/// sign tokens that make them any agent, or any operator.
pub(super) fn keys(file: &Path, problems: &mut Problems) {
    for exposed in owners::exposed(file) {
        problems.error(
            exposure_text(&exposed, file, "whose tokens are taken"),
            exposed.hint(),
        );
    }
}

/// An error for each thing by which other accounts could put another socket in the place of one in
/// `directory`: agents and operators would tell that one their tokens.
pub(super) fn socket(directory: &Path, problems: &mut Problems) {
    for exposed in owners::exposed(directory) {
        problems.error(
            exposure_text(&exposed, directory, "who listens there"),
            exposed.hint(),
        );
    }
}

/// A warning for each thing by which other accounts could exchange the program that `named` names,
/// which then runs as toolgate's own: no error, because where every member of a group may write
/// what its members install, programs still have to start.
pub(super) fn programs(
    named: &str,
    path: Option<&OsStr>,
    cwd: Option<&Path>,
    problems: &mut Problems,
) {
    let mut seen: Vec<ExposedPath> = Vec::new();
    for way in program::ways(named, path, cwd) {
        for exposed in owners::exposed(&way) {
            if !seen.contains(&exposed) {
                problems.warning(
                    exposure_text(&exposed, Path::new(named), "which program runs"),
                    exposed.hint(),
                );
                seen.push(exposed);
            }
        }
    }
}

/// What is wrong with it, and where, unless that is `named` itself.
fn exposure_text(exposed: &ExposedPath, named: &Path, chosen: &str) -> String {
    let message = exposed.message().replace("what the files say", chosen);
    if exposed.path == named {
        message
    } else {
        format!("{}: {message}", exposed.path.display())
    }
}

/// Where servers are given secrets that are no variables.
fn given(tree: &Value) -> impl Iterator<Item = Vec<String>> + '_ {
    let servers = tree["servers"].as_object().into_iter().flatten();
    let places = servers.flat_map(|(server, about)| {
        let own = SERVER_VALUE_SECTIONS.map(|section| (vec![section.to_owned()], &about[section]));
        let classes = about["headers_for"].as_array().into_iter().flatten();
        let classes = classes.enumerate().map(|(index, class)| {
            let steps = ["headers_for".to_owned(), index.to_string()];
            let steps = steps.into_iter().chain(["headers".to_owned()]);
            (steps.collect(), &class["headers"])
        });
        let all = own.into_iter().chain(classes);
        let all = all.flat_map(|(section, values): (Vec<String>, _)| told(section, values));
        let secret = about["oauth"]["client_secret"].as_str();
        let secret = secret.filter(|secret| is_written_out(secret));
        let secret = secret.map(|_| ["oauth", "client_secret"].map(ToOwned::to_owned).to_vec());
        all.chain(secret).map(move |place| (server, place))
    });
    places.map(|(server, place)| {
        let server = vec!["servers".to_owned(), server.clone()];
        [server, place].concat()
    })
}

/// Where in a `section` stands a secret that is no variable.
fn told(section: Vec<String>, values: &Value) -> impl Iterator<Item = Vec<String>> + '_ {
    let named = values.as_object().into_iter().flatten();
    let told =
        named.filter(|(name, value)| is_telling(name) && value.as_str().is_some_and(is_secret));
    told.map(move |(name, _)| {
        let mut place = section.clone();
        place.push(name.clone());
        place
    })
}

fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAME_PARTS.iter().any(|part| name.contains(part))
}

/// Whether it has more than a scheme and variables.
fn is_secret(value: &str) -> bool {
    let rest = beside_variables(value);
    let rest = rest
        .trim()
        .split_once(' ')
        .map_or(rest.trim(), |(_, rest)| rest.trim());
    // `Bearer` alone is what is left of `Bearer ${TOKEN}`; a file's or a page's name is no secret.
    rest.len() >= MIN_SECRET_BYTES && !rest.starts_with('/') && !rest.contains("://")
}

/// Whether any of a token is there for all to read; what all such keys begin with is not.
fn is_written_out(token: &str) -> bool {
    let rest = beside_variables(token);
    !rest.is_empty() && rest != "whsec_"
}

/// The text without its variables, and without their defaults.
fn beside_variables(text: &str) -> String {
    let (mut rest, mut left) = (text, String::new());
    while let Some((before, after)) = rest.split_once("${") {
        left += before;
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    left + rest
}

/// Where entries of the list at `list` have a `key` that is no variable.
fn literal<'a>(
    tree: &'a Value,
    list: &'a [&'a str],
    key: &'a str,
) -> impl Iterator<Item = Vec<String>> + 'a {
    let entries = list.iter().fold(tree, |at, step| &at[*step]).as_array();
    entries
        .into_iter()
        .flatten()
        .enumerate()
        .flat_map(move |(index, entry)| {
            let steps = list.iter().map(|step| (*step).to_owned());
            let at: Vec<String> = steps.chain([index.to_string()]).collect();
            let before = entry["previous"].as_array().into_iter().flatten();
            let before = before.enumerate().map(|(index, entry)| {
                let more = vec!["previous".to_owned(), index.to_string()];
                (more, entry)
            });
            let all = std::iter::once((Vec::new(), entry)).chain(before);
            all.filter_map(move |(more, entry)| {
                entry[key].as_str().filter(|text| is_written_out(text))?;
                let place = [at.clone(), more, vec![key.to_owned()]];
                Some(place.concat())
            })
        })
}
