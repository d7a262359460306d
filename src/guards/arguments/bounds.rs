//! Does what a contract's schema bounds exist, and can the bound bind it? A `maximum` of text, or
//! of an argument that the tool does not have, would be a bound in its author's mind only.

use crate::model::diagnostic::Problems;
use crate::schema::kinds::{JsonKind, kind_at};
use crate::schema::mentions::{self, Mention};
use serde_json::{Map, Value};

/// The properties of which `schema` speaks, whatever the keyword.
pub(super) fn bounded(schema: &Map<String, Value>) -> Vec<Mention> {
    let schema = Value::Object(schema.clone());
    let mut found: Vec<Mention> = Vec::new();
    mentions::each(&schema, &mut |mention, _| {
        let is_known =
            |known: &Mention| (&known.path, &known.patterns) == (&mention.path, &mention.patterns);
        if !mention.is_more && !found.iter().any(is_known) {
            found.push(mention.clone());
        }
    });
    found
}

/// Notes where `overlay` bounds an argument by what no value that `server` takes is bound by.
pub(super) fn compare(overlay: &Value, server: &Value, problems: &mut Problems) {
    mentions::each(overlay, &mut |mention, schema| {
        let Some(Value::Object(members)) = schema.filter(|_| mention.patterns.is_empty()) else {
            return;
        };
        let Some(kind) = kind_at(server, &mention.path) else {
            return;
        };
        // An alternative for values of another kind, of which the tool has none, does no harm.
        let is_elsewhere = !mention.is_certain
            && members
                .iter()
                .any(|(keyword, value)| !holds(kind, keyword, value));
        for (keyword, value) in members {
            let key: Vec<String> = mention.key.iter().chain([keyword]).cloned().collect();
            let hint = format!("the tool's own schema says {}", kind.words());
            let message = unbound(mention, kind, keyword).filter(|_| !is_elsewhere);
            let is_error = message.is_some() || mention.is_certain;
            let Some(message) = message.or_else(|| unheld(mention, kind, keyword, value)) else {
                continue;
            };
            note(&key, problems, |problems| {
                if is_error {
                    problems.error(message, hint);
                } else {
                    problems.warning(message, hint);
                }
            });
        }
    });
}

/// The argument and its kind, in words.
fn typed(mention: &Mention, kind: JsonKind) -> String {
    if mention.path.is_empty() {
        return format!("the arguments are {}", kind.words());
    }
    format!("`{}` is {}", mention.path.join("."), kind.words())
}

/// What is wrong with a keyword that bounds values of another kind than the tool's schema has.
fn unbound(mention: &Mention, kind: JsonKind, keyword: &str) -> Option<String> {
    let other = JsonKind::bounded_by(keyword).filter(|other| *other != kind)?;
    let typed = typed(mention, kind);
    Some(format!(
        "`{keyword}` bounds {}, and {typed}: it bounds nothing",
        other.words()
    ))
}

/// What is wrong with a keyword that asks for a value of another kind.
fn unheld(mention: &Mention, kind: JsonKind, keyword: &str, value: &Value) -> Option<String> {
    let follows = if mention.is_certain {
        "no call passes"
    } else {
        "it never holds"
    };
    let typed = typed(mention, kind);
    (!holds(kind, keyword, value))
        .then(|| format!("`{keyword}` asks for another type, and {typed}: {follows}"))
}

/// Whether some value of this kind is what a keyword asks for, as far as it asks for a kind.
fn holds(kind: JsonKind, keyword: &str, value: &Value) -> bool {
    match (keyword, value) {
        ("type", Value::String(_) | Value::Array(_)) => {
            kind_at(&serde_json::json!({ "type": value }), &[]).is_none_or(|own| own == kind)
        }
        ("const", value) => JsonKind::of(value) == kind,
        ("enum", Value::Array(values)) => values.iter().any(|one| JsonKind::of(one) == kind),
        _ => true,
    }
}

/// Notes something under `key`.
pub(super) fn note(key: &[String], problems: &mut Problems, tell: impl FnOnce(&mut Problems)) {
    match key.split_first() {
        Some((first, rest)) => problems.under(first.clone(), |problems| note(rest, problems, tell)),
        None => tell(problems),
    }
}
