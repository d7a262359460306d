//! The dashboard and the alert rules ask for values of labels that there are: a query for a misspelt one is taken, and
//! shows nothing for ever.

use super::dashboard::{BOARD, RULES};
use super::{read, report};
use regex::Regex;

const METRICS: &str = "docs/metrics.md";
const REFUSALS: &str = "docs/refusals.md";
/// Labels whose values are not ours: those of scrapes and of Prometheus, and a profile is compared with nothing only.
const NOT_OURS: [&str; 5] = ["alertname", "alertstate", "instance", "job", "profile"];

/// Every label with a value that a selector in `text` compares it with; empty values are none.
fn compared(text: &str) -> Vec<(String, String)> {
    let matcher = Regex::new(r#"\b([a-z_]+)(=~|!~|!=|=)\\?"([^"\\]*)\\?""#).unwrap();
    let found = matcher.captures_iter(text).flat_map(|found| {
        let values = found.get(3).unwrap().as_str().split('|');
        let label = found[1].to_owned();
        values.map(move |value| (label.clone(), value.to_owned()))
    });
    found.filter(|(_, value)| !value.is_empty()).collect()
}

/// The values of those that the book does not have.
fn wrong(text: &str) -> Vec<String> {
    let (metrics, refusals) = (read(METRICS), read(REFUSALS));
    let is_there = |label: &str, value: &str| {
        if label == "code" {
            return refusals.contains(&format!("| `{value}` |"));
        }
        let label = Regex::new(&format!(r"`{label}`|`{label}s`")).unwrap();
        let value = Regex::new(&format!(r"\b{value}\b")).unwrap();
        let mut rows = metrics.lines().filter(|row| row.starts_with('|'));
        rows.any(|row| label.is_match(row) && value.is_match(row))
    };
    compared(text)
        .into_iter()
        .filter(|(label, _)| !NOT_OURS.contains(&label.as_str()))
        .filter(|(label, value)| !is_there(label, value))
        .map(|(label, value)| format!("{label} is never {value}"))
        .collect()
}

#[test]
fn queries_ask_for_values_that_there_are() {
    for file in [BOARD, RULES] {
        let text = read(file);
        assert!(compared(&text).len() > 10, "{file}: no value was found");
        report(file, wrong(&text));
    }
}

/// A misspelt value is found, in each way in which one can be compared, as it stands in YAML and in JSON.
#[test]
fn a_value_that_is_never_there_is_found() {
    for (query, expected) in [
        (r#"a{code=~"loop_detected|rate_exceeded",job="x"}"#, 0),
        (r#"a{code="loop_detect"}"#, 1),
        (r#"a{code=~\"loop_detected|rates_exceeded|x\"}"#, 2),
        (r#"a{stage!~\"dispatch|approvals\"}"#, 1),
        (r#"a{outcome=\"refused\"} + b{outcome!=\"refuses\"}"#, 1),
        (r#"a{state=~"failed|unknown",found="absent"}"#, 0),
        (r#"a{found="nothing"}"#, 1),
    ] {
        assert_eq!(wrong(query).len(), expected, "{query}");
    }
}
