//! Can no value have what is on a path? A server writes the schema, and names that lead back into it
//! multiply with each step that stands for several: each place is searched once, and what is not
//! known when the work is spent is not certain.

use super::PropertyNames;
use crate::model::work;
use crate::schema::kinds::ELEMENT_STEP;
use crate::schema::pattern::NamePattern;
use std::collections::HashMap;

/// What one search takes at most, in units of work: about 5 ms.
pub(super) const MAX_NAME_SEARCH_UNITS: u64 = work::INLINE_WORK_UNITS / 2;
/// What a look at one subschema takes, and at one name.
const PLACE_UNITS: u64 = 8;
const NAME_UNITS: u64 = 32;

/// Whether `path` leads nowhere for certain; none where the work is spent before that is known.
pub(super) fn search(
    names: &PropertyNames,
    path: &[String],
    patterns: &[(usize, NamePattern)],
) -> Option<bool> {
    ExcludedSearch::of(names, path, patterns).excluded(names.root().to_vec(), 0)
}

/// The same where `*` is every member or element.
pub(super) fn search_each(names: &PropertyNames, path: &[String]) -> Option<bool> {
    let mut search = ExcludedSearch::of(names, path, &[]);
    search.each = true;
    search.excluded(names.root().to_vec(), 0)
}

struct ExcludedSearch<'a> {
    names: &'a PropertyNames,
    path: &'a [String],
    patterns: &'a [(usize, NamePattern)],
    each: bool,
    /// What was found of these subschemas at this step.
    known: HashMap<(usize, Vec<usize>), bool>,
    left: u64,
}

impl<'a> ExcludedSearch<'a> {
    fn of(
        names: &'a PropertyNames,
        path: &'a [String],
        patterns: &'a [(usize, NamePattern)],
    ) -> Self {
        Self {
            names,
            path,
            patterns,
            each: false,
            known: HashMap::new(),
            left: MAX_NAME_SEARCH_UNITS,
        }
    }

    fn excluded(&mut self, places: Vec<usize>, depth: usize) -> Option<bool> {
        if depth == self.path.len() {
            return Some(false);
        }
        let places = self.speaking(places)?;
        let key = (depth, places);
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        let found = self.judge(&key.1, depth)?;
        self.known.insert(key, found);
        Some(found)
    }

    /// Those that say something of names or elements, in order: only these tell one set from another.
    fn speaking(&mut self, mut places: Vec<usize>) -> Option<Vec<usize>> {
        self.spend(PLACE_UNITS * (1 + places.len() as u64))?;
        places.retain(|&place| {
            let place = &self.names.places[place];
            place.more || !place.properties.is_empty() || !place.inside.is_empty()
        });
        places.sort_unstable();
        places.dedup();
        Some(places)
    }

    fn judge(&mut self, places: &[usize], depth: usize) -> Option<bool> {
        let names = self.names;
        let step = &self.path[depth];
        if self.each && step == ELEMENT_STEP {
            return self.judge_each(places, depth);
        }
        let takes_more = places.iter().any(|&place| names.places[place].more);
        let pattern = self.patterns.iter().find(|(index, _)| *index == depth);
        let Some((_, pattern)) = pattern else {
            // Names are those of an object; beside one a list may be let through.
            let is_element = step == ELEMENT_STEP && !names.inside(places).is_empty();
            let is_missing = names.names_any(places) && !is_element && !names.names(places, step);
            return if is_missing && !takes_more {
                Some(true)
            } else {
                self.below(places, step, depth)
            };
        };
        let said = places
            .iter()
            .map(|&place| names.places[place].properties.len() as u64);
        self.spend(NAME_UNITS * said.sum::<u64>())?;
        let declared = names.declared(places);
        if declared.is_empty() || takes_more {
            return Some(false);
        }
        for name in declared {
            self.spend(pattern.units(name))?;
            if pattern.matches(name) && !self.below(places, name, depth)? {
                return Some(false);
            }
        }
        Some(true)
    }

    /// All members and elements of which something is said.
    fn judge_each(&mut self, places: &[usize], depth: usize) -> Option<bool> {
        let inside = self.names.widen(self.names.inside(places));
        let declared = self.names.declared(places);
        if inside.is_empty() && declared.is_empty() {
            return Some(false);
        }
        for name in declared {
            self.spend(NAME_UNITS)?;
            if !self.below(places, name, depth)? {
                return Some(false);
            }
        }
        if inside.is_empty() {
            return Some(true);
        }
        self.excluded(inside, depth + 1)
    }

    fn below(&mut self, places: &[usize], step: &str, depth: usize) -> Option<bool> {
        let below = self.names.below(places, step);
        self.spend(PLACE_UNITS * (places.len() + below.len()) as u64)?;
        self.excluded(below, depth + 1)
    }

    fn spend(&mut self, units: u64) -> Option<()> {
        self.left = self.left.checked_sub(units)?;
        work::spend(units);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::model::work;
    use crate::schema::Schema;
    use crate::schema::mentions::{self, Mention};
    use serde_json::{Value, json};

    /// The properties of which a contract speaks that bounds `zzz` so many levels of any name down.
    fn deep(levels: usize) -> Vec<Mention> {
        let inner = json!({ "properties": { "zzz": {} } });
        let overlay = (0..levels).fold(inner, |below, _| json!({ "additionalProperties": below }));
        let mut found = Vec::new();
        mentions::each(&overlay, &mut |mention, _| found.push(mention.clone()));
        found
    }

    fn named(count: usize, member: impl Fn(usize) -> Value) -> Schema {
        let members = (0..count).map(|index| (format!("p{index}"), member(index)));
        let properties: serde_json::Map<String, Value> = members.collect();
        Schema::compile(&json!({ "type": "object", "properties": properties })).unwrap()
    }

    /// threat-model §13 F3: what a server writes makes no comparison with a contract take long. Names
    /// that all lead back are one place; where that does not help, nothing is certain in the end.
    #[test]
    fn names_that_lead_back_cost_no_more_than_the_bound() {
        let back = named(1_900, |_| json!({ "$ref": "#" }));
        let each_its_own = named(
            600,
            |index| json!({ "$ref": "#", "properties": { format!("q{index}"): {} } }),
        );
        for (schema, levels, is_excluded) in [
            (&back, 2, true),
            (&back, 30, false),
            (&each_its_own, 8, false),
        ] {
            let judged = work::within(super::MAX_NAME_SEARCH_UNITS, || {
                let mentions = deep(levels);
                let last = mentions.last().unwrap();
                schema.names().exclude_matching(&last.path, &last.patterns)
            });
            assert_eq!(judged, Ok(is_excluded), "{levels}");
        }
    }

    /// A pattern over names that a server writes is paid for as well.
    #[test]
    fn long_names_cost_no_more_than_the_bound() {
        let name = |index: usize| (format!("{index}{}", "a".repeat(100)), json!({}));
        let names: serde_json::Map<String, Value> = (0..300).map(name).collect();
        let schema = Schema::compile(&json!({ "properties": names })).unwrap();
        let mut excludes = None;
        let overlay = json!({ "patternProperties": { "^(?!b)zzz": {} } });
        mentions::each(&overlay, &mut |mention, _| {
            let names = schema.names();
            let judged = work::within(super::MAX_NAME_SEARCH_UNITS, || {
                names.exclude_matching(&mention.path, &mention.patterns)
            });
            excludes = Some(judged);
        });
        assert_eq!(excludes, Some(Ok(false)));
    }
}
