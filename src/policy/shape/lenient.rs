//! Reads a tree although something in it is wrong: what is wrong is noted, another value stands in
//! for it, and all else is judged in the same run.

use super::{
    AsWritten, Flaw, FlawKind, Judged, note, note_all, prune, prune_entries, schema_of, told,
    validator_of, wrong_in,
};
use crate::model::diagnostic::{PROBLEMS_AT_MOST, PlaceSet, Problems};
use serde_json::Value;

/// Rounds in which something is put right: a key that is read as another may hold what is wrong.
const MAX_ROUNDS: usize = 4;

/// A tree in which nothing is wrong any more.
pub(crate) struct Mended {
    pub(crate) tree: Value,
    /// Nothing was.
    is_sound: bool,
}

/// Notes what is wrong in `tree`, which is to be read as `T`, and puts something else there. None
/// if all of it is wrong, or too much to go on. `written`: the same before variables were replaced.
pub(crate) fn mend<T: AsWritten>(
    mut tree: Value,
    written: &Value,
    problems: &mut Problems,
) -> Option<Mended> {
    let schema = schema_of::<T>();
    let judged = Judged {
        schema: &schema,
        written,
    };
    let validator = validator_of(&schema);
    let mut told = ToldFlaws::default();
    for _ in 0..MAX_ROUNDS {
        let mut wrong = wrong_in(judged, validator.as_ref(), &tree);
        // A key that is read as another is not missing.
        wrong.sort_by_key(Flaw::is_missing);
        if wrong.len() > PROBLEMS_AT_MOST {
            note_all(problems, wrong.iter().filter(|flaw| !told.has(flaw)));
            return None;
        }
        let before = told.count;
        for flaw in wrong {
            if flaw.path.is_empty() && matches!(flaw.kind, FlawKind::Value { .. }) {
                note(problems, &flaw.path, &flaw.message, &flaw.hint);
                return None;
            }
            let is_told = told.has(&flaw);
            if is_told && !flaw.is_missing() || is_there(&mut tree, &flaw) {
                continue;
            }
            if !is_told {
                note(problems, &flaw.path, &flaw.message, &flaw.hint);
            }
            put_right(&mut tree, flaw, problems, &mut told);
        }
        if told.count == before {
            break;
        }
    }
    let is_sound = told.count == 0;
    for place in told.stand_ins {
        problems.stand_in(place);
    }
    prune_entries(judged, validator.as_ref(), &mut tree);
    Some(Mended { tree, is_sound })
}

/// Reads what was mended.
pub(crate) fn read_mended<T: AsWritten>(mended: Mended, problems: &mut Problems) -> Option<T> {
    told(
        serde_json::from_value(mended.tree),
        mended.is_sound,
        problems,
    )
}

/// What was told of.
#[derive(Default)]
struct ToldFlaws {
    count: usize,
    places: PlaceSet,
    /// Where what is there now is not what was written, in any form.
    stand_ins: Vec<Vec<String>>,
}

impl ToldFlaws {
    fn has(&self, flaw: &Flaw) -> bool {
        self.places.covers(&place_of(flaw))
    }

    fn add(&mut self, place: Vec<String>, has_stand_in: bool) {
        self.count += 1;
        if has_stand_in {
            self.stand_ins.push(place.clone());
        }
        self.places.insert(place);
    }
}

/// Where something stands in for what the flaw is about.
fn place_of(flaw: &Flaw) -> Vec<String> {
    let key = match &flaw.kind {
        FlawKind::Missing { key, .. } => Some(key),
        FlawKind::Unknown { .. } | FlawKind::Value { .. } | FlawKind::Blank => None,
    };
    flaw.path.iter().chain(key).cloned().collect()
}

/// Is what was missing there by now, under a key that was read as it?
fn is_there(tree: &mut Value, flaw: &Flaw) -> bool {
    flaw.is_missing() && at(tree, &place_of(flaw)).is_some()
}

/// Puts something else where the flaw is.
fn put_right(tree: &mut Value, flaw: Flaw, problems: &mut Problems, told: &mut ToldFlaws) {
    let mut place = place_of(&flaw);
    let mut has_stand_in = true;
    match flaw.kind {
        FlawKind::Missing { key, stand_in } => {
            let Some(Value::Object(map)) = at(tree, &flaw.path) else {
                return;
            };
            map.insert(key, stand_in);
        }
        FlawKind::Unknown { meant } => {
            let (Some((written, around)), Some(meant)) = (place.split_last(), meant) else {
                return prune(tree, &place, false);
            };
            let Some(Value::Object(map)) = at(tree, around) else {
                return;
            };
            let value = map.shift_remove(written);
            if let (Some(value), false) = (value, map.contains_key(&meant)) {
                map.insert(meant.clone(), value);
                let read = around.iter().cloned().chain([meant]).collect();
                problems.rename(read, written.clone());
            }
            has_stand_in = false;
        }
        FlawKind::Value { stand_in } => {
            if let (Some(value), Some(stand_in)) = (at(tree, &place), stand_in) {
                // A text that was made a list of one is judged as such.
                has_stand_in = stand_in.get(0) != Some(&*value);
                *value = stand_in;
            }
        }
        FlawKind::Blank => {
            prune(tree, &place, false);
            // A list goes with an element of it.
            let is_index = |step: &String| step.bytes().all(|byte| byte.is_ascii_digit());
            if let Some(list) = place.iter().position(is_index) {
                place.truncate(list);
            }
        }
    }
    told.add(place, has_stand_in);
}

fn at<'t>(tree: &'t mut Value, path: &[String]) -> Option<&'t mut Value> {
    path.iter().try_fold(tree, |at, step| match at {
        Value::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
        Value::Object(map) => map.get_mut(step),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}
