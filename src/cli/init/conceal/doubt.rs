//! Which arguments of a command could be secrets though no name says so: how programs take passwords,
//! and what programs are surely given otherwise. In doubt it is one.

use super::assignment;
use crate::model::looks::{is_harmless, is_secret, is_telling};
use std::path::Path;

/// Short flags behind which programs take a password or a key, where it is neither a number nor a path.
const PASSWORD_FLAGS: [&str; 6] = ["-p", "-P", "-a", "-w", "-W", "-k"];
/// Flags behind which a password stands after a colon.
const LOGIN_FLAGS: [&str; 7] = [
    "-u",
    "--user",
    "--username",
    "--login",
    "--proxy-user",
    "--creds",
    "--account",
];
/// Long flags that take no value, so that what stands behind them is not theirs, or the name of a package.
const SWITCHES: [&str; 12] = [
    "--from",
    "--package",
    "--with",
    "--yes",
    "--rm",
    "--init",
    "--quiet",
    "--verbose",
    "--debug",
    "--isolated",
    "--privileged",
    "--interactive",
];
/// Flags of one dash that begin as `-pPASSWORD` does.
const FLAGS_LIKE_P: [&str; 20] = [
    "-parallel",
    "-pass",
    "-passphrase",
    "-passwd",
    "-password",
    "-pat",
    "-path",
    "-pin",
    "-platform",
    "-plugin",
    "-plugins",
    "-policy",
    "-port",
    "-ports",
    "-prefix",
    "-pretty",
    "-print",
    "-profile",
    "-project",
    "-proxy",
];
/// Versions that are words.
const VERSION_WORDS: [&str; 5] = ["latest", "next", "beta", "canary", "*"];
/// Digits of a port, an account's number or a part of an address.
const NUMBER_DIGITS_MAX: usize = 5;
/// Characters of a name that is taken for none …
const NAME_CHARS_MAX: usize = 20;
/// … and of one with a version or a date in it.
const VERSIONED_NAME_CHARS_MAX: usize = 32;

/// A flag with a password or a login that stands right behind it, as in `-pPASSWORD`.
pub(super) fn attached(value: &str) -> Option<(&str, &str)> {
    let (flag, rest) = value
        .split_at_checked(2)
        .filter(|(_, rest)| !rest.is_empty())?;
    let name = value.split_once('=').map_or(value, |(name, _)| name);
    let is_one = match flag {
        "-p" => !rest.starts_with('=') && !FLAGS_LIKE_P.contains(&name),
        "-u" => rest.contains(':') && !rest.contains("://"),
        _ => false,
    };
    (is_one && !is_numbers(rest)).then_some((flag, rest))
}

/// Does a password stand behind the flag, unless it is a number or a path?
pub(super) fn takes_password(flag: &str) -> bool {
    PASSWORD_FLAGS.contains(&flag)
}

/// Could the argument be a secret, behind `flag` or behind none?
pub(super) fn could_be_secret(flag: &str, value: &str) -> bool {
    let text = value.trim();
    // What is there on this disk is a place, however its name looks.
    if value.starts_with('/') && Path::new(value).exists() {
        return false;
    }
    let is_document = text.len() > 2 && text.starts_with(['{', '[']);
    if is_secret(value) || is_document || is_hidden_pair(value) {
        return true;
    }
    if takes_password(flag) {
        let is_path = value.contains('/') && is_harmless(value);
        return !(is_numbers(value) || is_path || is_package(value));
    }
    if LOGIN_FLAGS.contains(&flag) && value.contains(':') {
        return !is_numbers(value);
    }
    if flag.starts_with("--") && !SWITCHES.contains(&flag) {
        return !value.starts_with('-') && !is_plain(value);
    }
    text.contains(char::is_whitespace) && holds_secret(text)
}

/// Is this surely none: what programs are given as names, numbers, versions, paths and addresses?
fn is_plain(value: &str) -> bool {
    let is_address = value.contains("://") && !value.contains(['?', '@', '#']);
    let (name, rest) = value.split_once(':').unwrap_or((value, ""));
    let is_pair = !rest.is_empty() && is_name(name) && is_name(rest);
    let is_one = is_name(value) || is_harmless(value) || is_numbers(value) || is_package(value);
    is_address || is_pair || is_one
}

/// `NAME:VALUE` that names a secret, or whose value could be one. A place on a disk or in a network, and
/// the version of an image, are none.
fn is_hidden_pair(text: &str) -> bool {
    let Some((name, rest)) = text.split_once(':') else {
        return false;
    };
    let rest = rest.trim_start();
    if text.contains(char::is_whitespace) && name.contains(char::is_whitespace) {
        // Its words are looked at one by one.
        return false;
    }
    if rest.is_empty() || rest.starts_with(['/', '\\', '.', '~']) {
        return false;
    }
    is_telling(name) || !(is_name(rest) || is_numbers(rest) || is_harmless(rest))
}

/// Whether a word of a text, such as a script, could be one.
fn holds_secret(text: &str) -> bool {
    let is_edge = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | ';');
    let mut before = "";
    for word in text.split(is_edge).filter(|word| !word.is_empty()) {
        let is_named = is_telling(before) && before.starts_with('-');
        let is_assigned = assignment(word).is_some_and(|(name, _)| is_telling(name));
        let is_scheme = ["bearer", "basic"].contains(&&*before.to_ascii_lowercase());
        let is_one = is_named || is_assigned || is_scheme || attached(word).is_some();
        if is_one || could_be_secret(before, word) {
            return true;
        }
        before = word;
    }
    false
}

/// `127.0.0.1:8080`, `8080:80`, `10.0.0.0/8`.
fn is_numbers(text: &str) -> bool {
    let mut parts = text.split(['.', ':', '/', '-']);
    parts.all(|part| {
        let is_digits = part.bytes().all(|byte| byte.is_ascii_digit());
        is_digits && (1..=NUMBER_DIGITS_MAX).contains(&part.len())
    })
}

/// `@scope/name`, `name@1.2.3`, `name==1.2.3`.
fn is_package(text: &str) -> bool {
    let is_version = |version: &str| {
        let number = version.trim_start_matches(['^', '~', 'v', '=']);
        let mut bytes = number.bytes();
        let is_number = bytes.all(|byte| byte.is_ascii_digit() || byte == b'.');
        VERSION_WORDS.contains(&version) || (is_number && !number.is_empty())
    };
    let is_named = |name: &str| {
        let mut bytes = name.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.[]/".contains(&byte))
    };
    let (scoped, rest) = match text.strip_prefix('@') {
        Some(rest) => (rest.contains('/'), rest),
        None => (false, text),
    };
    match rest.split_once(['@', '=']) {
        Some((name, version)) => is_named(name) && is_version(version),
        None => scoped && is_named(rest),
    }
}

/// `us-east-1`, `mcp/fetch`, `v1.2`: words and numbers, none of them mixed.
fn is_name(text: &str) -> bool {
    let (mut has_number, mut is_one) = (false, !text.is_empty());
    for part in text.split(['-', '.', '_', '/']) {
        let number = part.strip_prefix('v').filter(|rest| !rest.is_empty());
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let is_word = part.bytes().all(|byte| byte.is_ascii_alphabetic());
        let counts = !part.is_empty() && is_number(number.unwrap_or(part));
        has_number |= counts;
        is_one &= is_word || counts;
    }
    let most = if has_number {
        VERSIONED_NAME_CHARS_MAX
    } else {
        NAME_CHARS_MAX
    };
    is_one && text.len() <= most
}
