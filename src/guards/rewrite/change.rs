//! What one step does to the arguments.

use super::place::ArgumentPlace;
use super::{Bounds, StepSettings};
use crate::expression::{
    ARGUMENTS_TOO_LONG_MESSAGE, CompiledExpression, ExpressionSet, ExpressionSetBuilder, LazyCaller,
};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::number::compare;
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What a computed value may be long, in bytes of JSON: as much as expressions may read.
const COMPUTED_VALUE_BYTES_MAX: usize = 64 << 10;
/// Pointers of one step at most.
const MAX_STEP_POINTERS: usize = 64;
const NOT_A_NUMBER_MESSAGE: &str = "what it bounds is not a number";
const NO_VALUE_MESSAGE: &str = "its expression has no value for these arguments";
const VALUE_TOO_LONG_MESSAGE: &str = "its expression makes more than 64 KiB";

/// One step, compiled.
pub(super) enum RewriteChange {
    Set(Vec<(ArgumentPlace, Value)>),
    Default(Vec<(ArgumentPlace, Value)>),
    Remove(Vec<ArgumentPlace>),
    Clamp(Vec<(ArgumentPlace, Bounds)>),
    Compute {
        reading: ExpressionSet,
        reads: Vec<Vec<String>>,
        lines: Vec<(ArgumentPlace, CompiledExpression)>,
    },
}

impl std::fmt::Debug for RewriteChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}{:?}",
            self.verb(),
            self.places()
                .map(|place| &place.pointer)
                .collect::<Vec<_>>()
        )
    }
}

/// Compiles the one thing that a step does.
pub(super) fn compile(written: StepSettings, problems: &mut Problems) -> Option<RewriteChange> {
    let StepSettings {
        name: _,
        set,
        default,
        remove,
        clamp,
        compute,
    } = written;
    let mut changes = Vec::new();
    changes.extend(set.map(|values| RewriteChange::Set(values_at("set", values, problems))));
    changes.extend(
        default.map(|values| RewriteChange::Default(values_at("default", values, problems))),
    );
    changes.extend(remove.map(|pointers| RewriteChange::Remove(removed(&pointers, problems))));
    changes.extend(clamp.map(|bounds| RewriteChange::Clamp(bounded(bounds, problems))));
    changes.extend(compute.map(|lines| computed(lines, problems)));
    if changes.len() != 1 {
        let hint = "write one of `set`, `default`, `remove`, `clamp`, `compute`; the next step does the next thing";
        problems.error("a step does one thing", hint);
    }
    let change = changes.pop()?;
    match change.places().count() {
        0 => problems.error(
            "changes no argument",
            "name an argument by its JSON pointer, such as `/limit`",
        ),
        many if many > MAX_STEP_POINTERS => problems.error(
            format!("more than {MAX_STEP_POINTERS} pointers"),
            "write two steps",
        ),
        _ => {}
    }
    Some(change)
}

fn values_at(
    verb: &str,
    values: Map<String, Value>,
    problems: &mut Problems,
) -> Vec<(ArgumentPlace, Value)> {
    problems.under(verb, |problems| {
        let place = |(pointer, value): (String, Value)| {
            problems
                .under(pointer.clone(), |problems| {
                    ArgumentPlace::compile(&pointer, problems)
                })
                .map(|place| (place, value))
        };
        values.into_iter().filter_map(place).collect()
    })
}

fn removed(pointers: &[String], problems: &mut Problems) -> Vec<ArgumentPlace> {
    problems.under("remove", |problems| {
        let numbered = pointers.iter().enumerate();
        let place = |(index, pointer): (usize, &String)| {
            problems.under(index.to_string(), |problems| {
                ArgumentPlace::compile(pointer, problems)
            })
        };
        numbered.filter_map(place).collect()
    })
}

fn bounded(
    bounds: BTreeMap<String, Bounds>,
    problems: &mut Problems,
) -> Vec<(ArgumentPlace, Bounds)> {
    problems.under("clamp", |problems| {
        let place = |(pointer, bounds): (String, Bounds)| {
            problems.under(pointer.clone(), |problems| {
                match (&bounds.min, &bounds.max) {
                    (None, None) => problems.error(
                        "bounds nothing",
                        "write `{ min: 1, max: 100 }`, or one of them",
                    ),
                    (Some(min), Some(max)) if compare(min, max) == Ordering::Greater => {
                        problems.error("`min` is more than `max`", "swap them");
                    }
                    _ => {}
                }
                ArgumentPlace::compile(&pointer, problems).map(|place| (place, bounds))
            })
        };
        bounds.into_iter().filter_map(place).collect()
    })
}

fn computed(lines: BTreeMap<String, String>, problems: &mut Problems) -> RewriteChange {
    let mut gathering = ExpressionSetBuilder::default();
    let compiled = problems.under("compute", |problems| {
        let mut line = |(pointer, source): (String, String)| {
            problems.under(pointer.clone(), |problems| {
                let expression = gathering.read(&source, problems);
                ArgumentPlace::compile(&pointer, problems)
                    .zip(expression.map(|(_, compiled)| compiled))
            })
        };
        lines.into_iter().filter_map(&mut line).collect()
    });
    let (reading, reads) = gathering.finish();
    RewriteChange::Compute {
        reading,
        reads,
        lines: compiled,
    }
}

/// Numbers of JSON by what they are worth.
impl RewriteChange {
    /// The word in the file.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::Set(_) => "set",
            Self::Default(_) => "default",
            Self::Remove(_) => "remove",
            Self::Clamp(_) => "clamp",
            Self::Compute { .. } => "compute",
        }
    }

    /// Where it works.
    pub(super) fn places(&self) -> Box<dyn Iterator<Item = &ArgumentPlace> + '_> {
        match self {
            Self::Set(values) | Self::Default(values) => {
                Box::new(values.iter().map(|(place, _)| place))
            }
            Self::Remove(places) => Box::new(places.iter()),
            Self::Clamp(bounds) => Box::new(bounds.iter().map(|(place, _)| place)),
            Self::Compute { lines, .. } => Box::new(lines.iter().map(|(place, _)| place)),
        }
    }

    /// Under which key below its verb the `nth` place stands in the file.
    pub(super) fn key(&self, nth: usize, place: &ArgumentPlace) -> String {
        if let Self::Remove(_) = self {
            nth.to_string()
        } else {
            place.pointer.clone()
        }
    }

    /// The values it puts somewhere, as written.
    pub(super) fn values(&self) -> &[(ArgumentPlace, Value)] {
        if let Self::Set(values) | Self::Default(values) = self {
            values
        } else {
            &[]
        }
    }

    /// The bounds it keeps numbers within.
    pub(super) fn bounds(&self) -> &[(ArgumentPlace, Bounds)] {
        if let Self::Clamp(bounds) = self {
            bounds
        } else {
            &[]
        }
    }

    /// The arguments that its expressions read.
    pub(super) fn reads(&self) -> &[Vec<String>] {
        if let Self::Compute { reads, .. } = self {
            reads
        } else {
            &[]
        }
    }

    /// The arguments that may come into being.
    pub(super) fn brings(&self) -> Vec<String> {
        match self {
            Self::Set(_) | Self::Default(_) | Self::Compute { .. } => self
                .places()
                .map(|place| place.argument().to_owned())
                .collect(),
            Self::Remove(_) | Self::Clamp(_) => Vec::new(),
        }
    }

    /// What becomes of `arguments`; none when nothing does.
    pub(super) fn apply(
        &self,
        caller: &Caller,
        arguments: &Value,
    ) -> Result<Option<Value>, &'static str> {
        let wanted = self.wanted(caller, arguments)?;
        let mut changed = None;
        for (place, value) in wanted {
            if place.get(arguments) == value.as_ref() {
                continue;
            }
            let changed = changed.get_or_insert_with(|| arguments.clone());
            match value {
                Some(value) => place.set(changed, value)?,
                None => place.remove(changed)?,
            }
        }
        Ok(changed)
    }

    /// What is to stand at each place that this step changes; none: nothing.
    fn wanted(
        &self,
        caller: &Caller,
        arguments: &Value,
    ) -> Result<Vec<(&ArgumentPlace, Option<Value>)>, &'static str> {
        Ok(match self {
            Self::Set(values) => values
                .iter()
                .map(|(place, value)| (place, Some(value.clone())))
                .collect(),
            Self::Default(values) => {
                let absent = values
                    .iter()
                    .filter(|(place, _)| place.get(arguments).is_none());
                absent
                    .map(|(place, value)| (place, Some(value.clone())))
                    .collect()
            }
            Self::Remove(places) => places.iter().map(|place| (place, None)).collect(),
            Self::Clamp(all) => {
                let mut wanted = Vec::new();
                for (place, bounds) in all {
                    let Some(value) = place.get(arguments) else {
                        continue;
                    };
                    let Value::Number(number) = value else {
                        return Err(NOT_A_NUMBER_MESSAGE);
                    };
                    wanted.push((place, Some(Value::Number(bounds.nearest(number).clone()))));
                }
                wanted
            }
            Self::Compute { reading, lines, .. } => {
                let seen = LazyCaller::new(caller);
                let sight = reading
                    .sight(&seen, arguments)
                    .ok_or(ARGUMENTS_TOO_LONG_MESSAGE)?;
                let mut wanted = Vec::new();
                for (place, expression) in lines {
                    let value = sight.value(expression).ok_or(NO_VALUE_MESSAGE)?;
                    if value.to_string().len() > COMPUTED_VALUE_BYTES_MAX {
                        return Err(VALUE_TOO_LONG_MESSAGE);
                    }
                    wanted.push((place, Some(value)));
                }
                wanted
            }
        })
    }
}

impl Bounds {
    fn nearest<'n>(&'n self, number: &'n Number) -> &'n Number {
        let too_little = self
            .min
            .as_ref()
            .filter(|min| compare(number, min) == Ordering::Less);
        let too_much = self
            .max
            .as_ref()
            .filter(|max| compare(number, max) == Ordering::Greater);
        too_little.or(too_much).unwrap_or(number)
    }
}
