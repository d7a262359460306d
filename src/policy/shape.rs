//! Does a tree have the shape of its structs? All problems at once, found with the JSON Schema of
//! the very structs that read the tree afterwards, so that neither can know a key that the other
//! does not.

use crate::model::diagnostic::{PROBLEMS_AT_MOST, Problems};
pub(crate) use crate::model::spelling::suggest;
use flaws::{Flaw, FlawKind, flaws, wrong_in};
use jsonschema::Validator;
use remedy::Judged;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

mod flaws;
mod lenient;
mod remedy;
mod stand_in;
mod whole;

pub(crate) use lenient::{mend, read_mended};
pub(crate) use stand_in::UNREAD_TEXT;

/// A file that people write: it can be described, read and handed on to any task (002-08). What
/// lacks one of these is no input of ours and does not compile as one.
pub(crate) trait AsWritten: JsonSchema + DeserializeOwned + Send + 'static {}

impl<T: JsonSchema + DeserializeOwned + Send + 'static> AsWritten for T {}

/// The JSON Schema (draft 2020-12) of `T`, as `toolgate schema` prints it.
pub(crate) fn schema_of<T: AsWritten>() -> Value {
    schemars::SchemaGenerator::default()
        .into_root_schema_for::<T>()
        .to_value()
}

/// What judges the trees of `T`, by its schema.
fn validator_of(schema: &Value) -> Option<Validator> {
    jsonschema::options()
        .with_keyword(whole::FORMAT_KEYWORD, whole::keyword)
        .build(schema)
        .ok()
}

/// Reads `tree` as `T`. What is wrong is noted and left out, so that the rest can be judged as
/// well; nothing comes back if there is no rest.
pub(crate) fn read<T: AsWritten>(mut tree: Value, problems: &mut Problems) -> Option<T> {
    let schema = schema_of::<T>();
    let validator = validator_of(&schema);
    let written = tree.clone();
    let judged = Judged {
        schema: &schema,
        written: &written,
    };
    let wrong = wrong_in(judged, validator.as_ref(), &tree);
    if wrong.len() > PROBLEMS_AT_MOST {
        note_all(problems, &wrong);
        return None;
    }
    for flaw in &wrong {
        note(problems, &flaw.path, &flaw.message, &flaw.hint);
        prune(&mut tree, &flaw.path, flaw.is_missing());
    }
    if wrong
        .iter()
        .any(|flaw| flaw.path.is_empty() && !flaw.is_missing())
    {
        return None;
    }
    prune_entries(judged, validator.as_ref(), &mut tree);
    told(serde_json::from_value(tree), wrong.is_empty(), problems)
}

/// Takes away the entries in which something is still wrong: `contracts`, and a tool.
fn prune_entries(judged: Judged<'_>, validator: Option<&Validator>, tree: &mut Value) {
    // What can be read as it is was told of, and takes nothing along.
    let can_be_read = |flaw: &Flaw| matches!(flaw.kind, FlawKind::Value { stand_in: None });
    let found = flaws(judged, validator, tree);
    for flaw in found.into_iter().filter(|flaw| !can_be_read(flaw)) {
        let entry: Vec<String> = flaw.path.into_iter().take(2).collect();
        prune(tree, &entry, false);
    }
}

/// What the schema lets pass and the struct does not has no place, and the struct's words.
fn told<T>(
    read: Result<T, serde_json::Error>,
    is_sound: bool,
    problems: &mut Problems,
) -> Option<T> {
    if let (Err(error), true) = (&read, is_sound) {
        problems.error(error.to_string(), "compare it with `toolgate schema`");
    }
    read.ok()
}

/// Notes flaws of a tree that has too many of them to be read.
fn note_all<'f>(problems: &mut Problems, wrong: impl IntoIterator<Item = &'f Flaw>) {
    for flaw in wrong {
        note(problems, &flaw.path, &flaw.message, &flaw.hint);
    }
}

fn note(problems: &mut Problems, path: &[String], message: &str, hint: &str) {
    match path.split_first() {
        Some((first, rest)) => problems.under(first.clone(), |problems| {
            note(problems, rest, message, hint);
        }),
        None => problems.error(message, hint),
    }
}

/// Takes away what is wrong at `path`, or the list that holds it. What misses something stays,
/// unless a list holds it.
fn prune(tree: &mut Value, path: &[String], is_missing: bool) {
    let mut at = tree;
    for (depth, step) in path.iter().enumerate() {
        let Value::Object(map) = at else { return };
        let last = depth + 1 == path.len();
        let holds_list = map.get(step).is_some_and(Value::is_array);
        if holds_list || (last && !is_missing) {
            map.shift_remove(step);
            return;
        }
        let Some(below) = map.get_mut(step) else {
            return;
        };
        at = below;
    }
}

impl Flaw {
    fn is_missing(&self) -> bool {
        matches!(self.kind, FlawKind::Missing { .. })
    }
}

#[cfg(test)]
mod tests;
