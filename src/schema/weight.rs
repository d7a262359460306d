//! What one value can cost that a schema is applied to: subschemas written out, each with its
//! weight. Known before anything is judged by it.
//!
//! `unevaluatedProperties` and `unevaluatedItems` make the validator ask the subschemas beside them
//! once more, and each of these asks its own: 30 of them within each other are 2^30 evaluations of
//! one value, in 2 KB.

use super::metered::Toll;
use super::survey::{Applicator, Survey, SurveyNode};
use serde_json::Value;

/// Units for one value at most: about 0.1 s. A tool whose schema can take more is never judged in
/// time, whatever comes.
const VALUE_WORK_UNITS_MAX: u64 = 10_000_000;
/// What asking a subschema once more costs, beside what it costs itself: names are put into sets.
const MARK_UNITS: u64 = 4;
/// Keywords that ask so.
const UNEVALUATED_KEYWORDS: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// Judging and marking one value, in units.
#[derive(Debug, Clone, Copy)]
struct Weight {
    judged: u64,
    marked: u64,
}

/// A reference to what is being weighed: it is paid for when it is followed.
const BACK_REFERENCE_WEIGHT: Weight = Weight {
    judged: 1,
    marked: MARK_UNITS,
};

/// What a schema adds to each value; none when one value alone can cost too much.
pub(super) fn toll(survey: &Survey<'_>, names: u64) -> Option<Toll> {
    let order = innermost_first(survey);
    let whole = weigh(survey, &order, |node| 1 + members(node));
    if whole
        .iter()
        .any(|weight| weight.judged > VALUE_WORK_UNITS_MAX)
    {
        return None;
    }
    let between = weigh(survey, &order, |_| 1);
    let judged = |target: usize| between[target].judged;
    let per_value = survey.nodes.iter().map(|node| {
        let each = |wanted: fn(&Applicator<'_>) -> bool| {
            node.steps
                .iter()
                .filter(move |(step, _)| wanted(step))
                .map(|(_, target)| judged(*target))
        };
        let inside: u64 = each(|step| matches!(step, Applicator::Inside | Applicator::Aside))
            .fold(0, u64::saturating_add);
        inside.max(
            each(|step| matches!(step, Applicator::Property(_)))
                .max()
                .unwrap_or(0),
        )
    });
    let value = per_value.max().unwrap_or(0);
    let again = (0..between.len()).map(judged).max().unwrap_or(0);
    Some(Toll {
        root: judged(0),
        value,
        again,
        name: names,
    })
}

/// The values that a subschema compares with.
fn members(node: &SurveyNode<'_>) -> u64 {
    fn count(value: &Value) -> u64 {
        match value {
            Value::Array(elements) => 1 + elements.iter().map(count).sum::<u64>(),
            Value::Object(members) => {
                1 + members
                    .values()
                    .map(|member| 3 + count(member))
                    .sum::<u64>()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        }
    }
    ["enum", "const"]
        .into_iter()
        .filter_map(|keyword| node.schema.get(keyword))
        .map(count)
        .sum()
}

/// The weight of every node, `own` being what it weighs without the others.
fn weigh(
    survey: &Survey<'_>,
    order: &[usize],
    own: impl Fn(&SurveyNode<'_>) -> u64,
) -> Vec<Weight> {
    let mut known: Vec<Option<Weight>> = vec![None; survey.nodes.len()];
    for &index in order {
        let node = &survey.nodes[index];
        let mut weight = Weight {
            judged: own(node),
            marked: MARK_UNITS,
        };
        for (_, target) in node
            .steps
            .iter()
            .filter(|(step, _)| *step == Applicator::Same)
        {
            let Weight { judged, marked } = known[*target].unwrap_or(BACK_REFERENCE_WEIGHT);
            weight.judged = weight.judged.saturating_add(judged);
            weight.marked = weight.marked.saturating_add(judged).saturating_add(marked);
        }
        if UNEVALUATED_KEYWORDS
            .iter()
            .any(|keyword| node.schema.get(keyword).is_some())
        {
            weight.judged = weight.judged.saturating_add(weight.marked);
        }
        known[index] = Some(weight);
    }
    known
        .into_iter()
        .map(|weight| weight.unwrap_or(BACK_REFERENCE_WEIGHT))
        .collect()
}

/// All nodes, each after those that apply to the same value, except where these lead back to it.
fn innermost_first(survey: &Survey<'_>) -> Vec<usize> {
    let (mut order, mut seen) = (
        Vec::with_capacity(survey.nodes.len()),
        vec![false; survey.nodes.len()],
    );
    for root in 0..survey.nodes.len() {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        // An explicit stack: a chain of references is as long as the schema has subschemas.
        let mut stack = vec![(root, 0)];
        while let Some((node, next)) = stack.pop() {
            let Some(&(step, target)) = survey.nodes[node].steps.get(next) else {
                order.push(node);
                continue;
            };
            stack.push((node, next + 1));
            if step == Applicator::Same && !std::mem::replace(&mut seen[target], true) {
                stack.push((target, 0));
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn toll_of(schema: &Value) -> Option<Toll> {
        toll(&Survey::of(schema).unwrap(), 0)
    }

    fn ladder(steps: usize, rung: impl Fn(Value) -> Value, leaf: Value) -> Value {
        let defs = (0..steps).map(|n| {
            (
                format!("a{n}"),
                rung(json!({ "$ref": format!("#/$defs/a{}", n + 1) })),
            )
        });
        let defs: serde_json::Map<_, _> = defs.chain([(format!("a{steps}"), leaf)]).collect();
        json!({ "$defs": defs, "items": { "$ref": "#/$defs/a0" } })
    }

    /// threat-model §13 F3: what everyday schemas add to a value is next to nothing.
    #[test]
    fn plain_schemas_weigh_little() {
        let plain = json!({ "properties": { "a": { "type": "string" }, "b": { "items": { "enum": [1, 2] } } } });
        assert_eq!(
            toll_of(&plain).map(|toll| (toll.root, toll.value)),
            Some((1, 1))
        );
        let choice = json!({ "items": { "oneOf": [{ "const": 1 }, { "$ref": "#/$defs/x" }] }, "$defs": { "x": {} } });
        assert_eq!(toll_of(&choice).map(|toll| toll.value), Some(4));
    }

    /// threat-model §13 F3: expansions, the members of enumerations, and what is asked again,
    /// multiply.
    #[test]
    fn what_multiplies_is_weighed() {
        let twice = |next: Value| json!({ "allOf": [next, next] });
        assert_eq!(
            toll_of(&ladder(2, twice, json!({}))).map(|toll| toll.value),
            Some(1 + 3 + 2 * (3 + 2))
        );
        let members: Vec<_> = (0..100)
            .map(|z| json!({ "a": vec![0; 120], "z": z }))
            .collect();
        assert!(
            toll_of(&ladder(11, twice, json!({ "enum": members }))).is_none(),
            "2 048 × 12 900 values for one"
        );
        let again = |next: Value| json!({ "allOf": [next], "unevaluatedProperties": false });
        assert!(toll_of(&ladder(30, again, json!({}))).is_none());
        assert!(toll_of(&ladder(4, again, json!({}))).is_some());
    }
}
