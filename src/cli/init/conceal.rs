//! Values of an agent's configuration as they stand in toolgate's: what could be a secret becomes a
//! variable, and is written nowhere. In doubt it could be.

mod doubt;

use crate::model::acting::shown;
use crate::model::looks::{is_harmless, is_secret, is_telling};
use doubt::{attached, could_be_secret, takes_password};
use std::collections::BTreeMap;

/// What is said of an address with a login in it; the login is not repeated.
pub(super) const LOGIN_REFUSED: &str = "its address holds a login or a password, which toolgate takes in no address: give it as a header \
     (`Authorization: Basic …`)";

/// The variables that toolgate needs, and where each is used.
#[derive(Debug, Default)]
pub(super) struct Variables {
    known: BTreeMap<String, Variable>,
}

/// One variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    /// What the agent's configuration says; none: it names a variable itself.
    pub(super) value: Option<String>,
    /// Where it is used first, such as `servers.github.env.GITHUB_TOKEN`.
    pub(super) place: String,
}

impl Variables {
    /// All of them, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Variable)> {
        self.known
            .iter()
            .map(|(name, variable)| (name.as_str(), variable))
    }

    /// The value that is known of a variable.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        self.known.get(name)?.value.clone()
    }

    /// Only those that `texts` name.
    pub(super) fn keep(&mut self, texts: &[&String]) {
        self.known.retain(|name, _| names(texts, name));
    }

    /// Those with a known value that `texts` name.
    pub(super) fn in_texts(&self, texts: &[&String]) -> BTreeMap<String, String> {
        let known = self.known.iter().filter(|(name, _)| names(texts, name));
        known
            .filter_map(|(name, variable)| Some((name.clone(), variable.value.clone()?)))
            .collect()
    }

    /// A variable for `value`, called `wanted` unless that is another's already.
    fn variable_for(
        &mut self,
        wanted: &str,
        value: Option<&str>,
        place: &ConfigLocation<'_>,
    ) -> String {
        let server = upper(place.server);
        let prefixed = if wanted.starts_with(&server) {
            wanted.to_owned()
        } else {
            format!("{server}_{wanted}")
        };
        let numbered = (2..).map(|number| format!("{prefixed}_{number}"));
        for name in [wanted.to_owned(), prefixed.clone()]
            .into_iter()
            .chain(numbered)
        {
            let new = || Variable {
                value: value.map(ToOwned::to_owned),
                place: place.to_string(),
            };
            let known = self.known.entry(name.clone()).or_insert_with(new);
            if known.value.as_deref() == value {
                return format!("${{{name}}}");
            }
        }
        String::new()
    }
}

/// Whether one of these refers to the variable.
fn names(texts: &[&String], name: &str) -> bool {
    let written = format!("${{{name}}}");
    texts.iter().any(|text| text.contains(&written))
}

/// A place in the configuration to be.
pub(super) struct ConfigLocation<'a> {
    pub(super) server: &'a str,
    /// `env`, `args`, `headers` or `url`.
    pub(super) section: &'static str,
    pub(super) key: &'a str,
}

impl std::fmt::Display for ConfigLocation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "servers.{}.{}", shown(self.server), self.section)?;
        if self.key.is_empty() {
            Ok(())
        } else {
            write!(f, ".{}", shown(self.key))
        }
    }
}

/// The value of a variable of a child's environment.
pub(super) fn env(value: &str, place: &ConfigLocation<'_>, variables: &mut Variables) -> String {
    if value.contains("${") {
        return referring(value, place, variables);
    }
    if value.is_empty() || (!is_telling(place.key) && is_harmless(value)) {
        return literal(value);
    }
    let is_name = |key: &str| {
        key.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let wanted = Some(place.key.to_owned()).filter(|key| is_name(key));
    let wanted = wanted.unwrap_or_else(|| upper(place.key));
    variables.variable_for(&wanted, Some(value), place)
}

/// The arguments of a command.
pub(super) fn args(values: &[String], server: &str, variables: &mut Variables) -> Vec<String> {
    let mut before = "";
    let mut done = Vec::new();
    for value in values {
        let (flag, joint, rest) = match (attached(value), value.split_once('=')) {
            (Some((flag, rest)), _) => (flag, "", rest),
            (None, Some((flag, rest))) if flag.starts_with('-') => (flag, "=", rest),
            (None, _) => (before, "", value.as_str()),
        };
        let shown = argument(
            rest,
            &ConfigLocation {
                server,
                section: "args",
                key: flag,
            },
            variables,
        );
        done.push(if rest.len() < value.len() {
            format!("{flag}{joint}{shown}")
        } else {
            shown
        });
        before = if value.starts_with('-') && rest.len() == value.len() {
            value
        } else {
            ""
        };
    }
    done
}

/// One argument; the key of its place is the flag before it, or nothing.
fn argument(value: &str, place: &ConfigLocation<'_>, variables: &mut Variables) -> String {
    let (server, flag) = (place.server, place.key);
    if value.contains("${") {
        return referring(value, place, variables);
    }
    if value.is_empty() || !is_telling(flag) || value.starts_with('-') {
        if let Some((name, value)) = assignment(value).filter(|_| !takes_password(flag)) {
            return format!(
                "{name}={}",
                env(
                    value,
                    &ConfigLocation {
                        key: name,
                        ..*place
                    },
                    variables
                )
            );
        }
        if let Some((name, value)) = value
            .split_once(':')
            .filter(|_| ["-H", "--header"].contains(&flag))
        {
            let (blanks, value) = value.split_at(value.len() - value.trim_start().len());
            return literal(name)
                + ":"
                + blanks
                + &header(
                    value,
                    &ConfigLocation {
                        key: name,
                        ..*place
                    },
                    variables,
                );
        }
        if value.starts_with("https://") || value.starts_with("http://") {
            return url(value, place, variables);
        }
        if !could_be_secret(flag, value) {
            return literal(value);
        }
    }
    let key = upper(flag.trim_start_matches('-'));
    let wanted = format!(
        "{}_{}",
        upper(server),
        if key.is_empty() { "ARGUMENT" } else { &key }
    );
    variables.variable_for(&wanted, Some(value), place)
}

/// `NAME=value`, as `docker run -e` and `env` take it; what only ends in `=` is base64.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_name =
        plain && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    (is_name && !is_secret(name) && !value.trim_end_matches('=').is_empty())
        .then_some((name, value))
}

/// The value of a header.
pub(super) fn header(value: &str, place: &ConfigLocation<'_>, variables: &mut Variables) -> String {
    if value.contains("${") {
        return referring(value, place, variables);
    }
    if !is_telling(place.key) && is_harmless(value) {
        return literal(value);
    }
    let (scheme, rest) = match value.split_once(' ') {
        Some((scheme, rest)) if place.key.eq_ignore_ascii_case("authorization") => {
            (format!("{scheme} "), rest.trim())
        }
        _ => (String::new(), value),
    };
    let name = if place.key.eq_ignore_ascii_case("authorization") {
        "TOKEN".to_owned()
    } else {
        upper(place.key)
    };
    let variable = variables.variable_for(
        &format!("{}_{name}", upper(place.server)),
        Some(rest),
        place,
    );
    literal(&scheme) + &variable
}

/// Whether an address holds a login or a password.
pub(super) fn has_login(address: &str) -> bool {
    url::Url::parse(address).is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
}

/// An address: parts of its path and values of its query can be secrets.
pub(super) fn url(value: &str, place: &ConfigLocation<'_>, variables: &mut Variables) -> String {
    if value.contains("${") {
        return referring(value, place, variables);
    }
    let (address, query) = value
        .split_once('?')
        .map_or((value, None), |(address, query)| (address, Some(query)));
    let server = upper(place.server);
    let segments =
        address
            .split('/')
            .enumerate()
            .map(|(index, part)| match (index, part.rsplit_once('@')) {
                (2, Some((login, host))) => {
                    variables.variable_for(&format!("{server}_LOGIN"), Some(login), place)
                        + "@"
                        + host
                }
                (3.., _) if is_secret(part) => {
                    variables.variable_for(&format!("{server}_PATH"), Some(part), place)
                }
                _ => literal(part),
            });
    let mut done = segments.collect::<Vec<_>>().join("/");
    for (index, pair) in query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .enumerate()
    {
        done.push(if index == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((key, secret)) if is_telling(key) || is_secret(secret) => {
                done = done
                    + key
                    + "="
                    + &variables.variable_for(
                        &format!("{server}_{}", upper(key)),
                        Some(secret),
                        place,
                    );
            }
            _ => done.push_str(&literal(pair)),
        }
    }
    done
}

/// A text in which the agent's configuration names variables: `${NAME}`, `${env:NAME}`,
/// `${input:name}`, `${userHome}`.
fn referring(value: &str, place: &ConfigLocation<'_>, variables: &mut Variables) -> String {
    let (mut done, mut rest) = (String::new(), value);
    while let Some((before, after)) = rest.split_once("${") {
        done.push_str(&literal(before));
        let Some((inner, after)) = after.split_once('}') else {
            return done + "$${" + after;
        };
        rest = after;
        let (name, default) = inner
            .split_once(":-")
            .map_or((inner, None), |(name, default)| (name, Some(default)));
        let name = match name.split_once(':') {
            Some(("env", name)) => name.to_owned(),
            Some(("input", name)) => upper(name),
            _ if name == "userHome" => "HOME".to_owned(),
            _ => name.to_owned(),
        };
        let plain = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match default {
            _ if !plain => done = done + "$${" + inner + "}",
            // The default is the secret itself.
            Some(default) if is_secret(default) || (is_telling(&name) && !default.is_empty()) => {
                done.push_str(&variables.variable_for(&name, Some(default), place));
            }
            Some(default) => done = done + "${" + &name + ":-" + default + "}",
            None => done.push_str(&variables.variable_for(&name, None, place)),
        }
    }
    done + &literal(rest)
}

/// A text that means itself.
pub(super) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// `my-server` → `MY_SERVER`.
pub(super) fn upper(text: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    let name: String = text.chars().map(letter).collect();
    if name.starts_with(|letter: char| letter.is_ascii_digit()) {
        format!("_{name}")
    } else {
        name
    }
}

#[cfg(test)]
mod tests;
