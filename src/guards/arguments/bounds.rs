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
        if !found.iter().any(is_known) {
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
        for (keyword, value) in members {
            let Some(message) = unbound(mention, kind, keyword, value) else {
                continue;
            };
            let key: Vec<String> = mention.key.iter().chain([keyword]).cloned().collect();
            let hint = format!("the tool's own schema says {}", kind.words());
            note(&key, problems, |problems| problems.error(message, hint));
        }
    });
}

/// What is wrong with a keyword over an argument that is of this `kind` in the tool's schema.
fn unbound(mention: &Mention, kind: JsonKind, keyword: &str, value: &Value) -> Option<String> {
    let name = mention.path.join(".");
    if let Some(other) = JsonKind::bounded_by(keyword) {
        let message = format!(
            "`{keyword}` bounds {}, and `{name}` is {}: it bounds nothing",
            other.words(),
            kind.words()
        );
        return (other != kind).then_some(message);
    }
    let fits = match (keyword, value) {
        ("type", Value::String(_) | Value::Array(_)) => {
            kind_at(&serde_json::json!({ "type": value }), &[]).is_none_or(|own| own == kind)
        }
        ("const", value) => JsonKind::of(value) == kind,
        ("enum", Value::Array(values)) => values.iter().any(|one| JsonKind::of(one) == kind),
        _ => true,
    };
    let follows = if mention.is_certain {
        "no call passes"
    } else {
        "it never holds"
    };
    (!fits).then(|| {
        format!(
            "`{keyword}` asks for another type than `{name}` has, which is {}: {follows}",
            kind.words()
        )
    })
}

/// Notes something under `key`.
pub(super) fn note(key: &[String], problems: &mut Problems, tell: impl FnOnce(&mut Problems)) {
    match key.split_first() {
        Some((first, rest)) => problems.under(first.clone(), |problems| note(rest, problems, tell)),
        None => tell(problems),
    }
}
