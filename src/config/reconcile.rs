//! `reconcile`: how calls with an unknown outcome are looked at by a timer (guarantees §4).

use crate::gate::reconciling::schedule::ReconcileTerms;
use crate::model::diagnostic::Problems;
use crate::model::times::between;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::time::Duration;

const EVERY_BOUNDS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);
const AGE_BOUNDS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);
/// One answer is no several.
const EQUAL_ANSWERS_BOUNDS: RangeInclusive<u32> = 2..=10;
const MAX_BOUNDS: RangeInclusive<u32> = 1..=200;

/// Looks at calls with an unknown outcome by a timer, with the `idempotency.probe` of their contracts.
/// Nothing is sent again. What a probe asks of a call is kept with the call for that, until its outcome
/// is known.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Reconcile")]
pub(crate) struct ReconcileSettings {
    /// How often it is looked which calls are due: `1m` if absent, 1s to 1h. One call is looked at less
    /// and less often, up to once an hour.
    pub every: Option<String>,
    /// How long an outcome is unknown before the first look: `30s` if absent, 1s to 24h.
    pub older_than: Option<String>,
    /// How long a call has been on its way before it counts that nothing is there: `2m` if absent, 1s to
    /// 24h. Where `absent_after` of its probe is longer, that.
    pub settle: Option<String>,
    /// How often nothing has to be there, one look after the other, before the call counts as not
    /// executed: 2 if absent, 2 to 10.
    pub equal_answers: Option<u32>,
    /// Calls that are looked at each time: 20 if absent, 1 to 200.
    pub max: Option<u32>,
}

/// What it means; none where nothing is written.
pub(super) fn compile(
    written: Option<ReconcileSettings>,
    problems: &mut Problems,
) -> Option<ReconcileTerms> {
    let ReconcileSettings {
        every,
        older_than,
        settle,
        equal_answers,
        max,
    } = written?;
    let usual = ReconcileTerms::default();
    problems.under("reconcile", |problems| {
        let mut time = |key: &str, text: Option<String>, bounds: RangeInclusive<Duration>| {
            between(key, text.as_deref(), bounds, problems)
        };
        let every = time("every", every, EVERY_BOUNDS);
        let older_than = time("older_than", older_than, AGE_BOUNDS);
        let settle = time("settle", settle, AGE_BOUNDS);
        let equal_answers = within(
            "equal_answers",
            equal_answers,
            EQUAL_ANSWERS_BOUNDS,
            problems,
        );
        let max = within("max", max, MAX_BOUNDS, problems);
        Some(ReconcileTerms {
            every: every.unwrap_or(usual.every),
            older_than: older_than.unwrap_or(usual.older_than),
            settle: settle.unwrap_or(usual.settle),
            equal_answers: equal_answers.unwrap_or(usual.equal_answers),
            max: max.map_or(usual.max, |max| max as usize),
        })
    })
}

fn within(
    key: &str,
    number: Option<u32>,
    bounds: RangeInclusive<u32>,
    problems: &mut Problems,
) -> Option<u32> {
    let number = number?;
    if !bounds.contains(&number) {
        let hint = format!("between {} and {}", bounds.start(), bounds.end());
        problems.under(key, |problems| problems.error("is out of bounds", hint));
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn compiled(written: Value) -> (Option<ReconcileTerms>, Vec<String>) {
        let mut problems = Problems::default();
        let terms = compile(serde_json::from_value(written).unwrap(), &mut problems);
        let found = problems.into_found().into_iter();
        let found = found.map(|found| format!("{}: {}", found.path.join("."), found.message));
        (terms, found.collect())
    }

    /// Issue 19, `reconcile`: off unless it is written, with defaults that wait, and bounds.
    #[test]
    fn it_is_off_unless_it_is_written() {
        assert_eq!(compiled(json!(null)), (None, Vec::new()));
        let usual = ReconcileTerms::default();
        assert_eq!(compiled(json!({})), (Some(usual), Vec::new()));
        let whole = json!({ "every": "5s", "older_than": "10s", "settle": "1m", "equal_answers": 3, "max": 7 });
        let terms = ReconcileTerms {
            every: Duration::from_secs(5),
            older_than: Duration::from_secs(10),
            settle: Duration::from_mins(1),
            equal_answers: 3,
            max: 7,
        };
        assert_eq!(compiled(whole), (Some(terms), Vec::new()));
        for (written, wrong) in [
            (
                json!({ "every": "0s" }),
                "reconcile.every: is out of bounds",
            ),
            (
                json!({ "every": "often" }),
                "reconcile.every: is no length of time",
            ),
            (
                json!({ "older_than": "2d" }),
                "reconcile.older_than: is out of bounds",
            ),
            (
                json!({ "settle": "1ms" }),
                "reconcile.settle: is out of bounds",
            ),
            (
                json!({ "equal_answers": 1 }),
                "reconcile.equal_answers: is out of bounds",
            ),
            (json!({ "max": 0 }), "reconcile.max: is out of bounds"),
        ] {
            assert_eq!(compiled(written.clone()).1, [wrong], "{written}");
        }
    }
}
