//! Metrics: the chapter and the alert rules name those that there are.

use super::{read, report};
use regex::Regex;
use std::collections::BTreeSet;
use toolgate::guards::is_own_code;

/// The metrics there are, as a scrape names them.
pub(super) fn metrics() -> BTreeSet<String> {
    // Kept equal to what a running toolgate says by the test of that name.
    let folder = "src/telemetry/metrics/snapshots";
    let text = read(&format!(
        "{folder}/toolgate__telemetry__metrics__tests__every_metric_says_what_it_is.snap"
    ));
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| match line.split_once(' ').unwrap() {
            (name, "counter") => format!("{name}_total"),
            (name, "info") => format!("{name}_info"),
            (name, _) => name.to_owned(),
        })
        .collect()
}

#[test]
fn metrics_chapter_lists_the_metrics() {
    let exist = metrics();
    let word = Regex::new(r"\btoolgate_[a-z_]+").unwrap();
    // What a query reads of a histogram is the histogram's.
    let whole = |name: &str| {
        let part = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|part| name.strip_suffix(part))
            .filter(|base| exist.contains(*base));
        part.unwrap_or(name).to_owned()
    };
    let named = |document: &str| -> BTreeSet<String> {
        word.find_iter(&read(document))
            .map(|name| whole(name.as_str()))
            .collect()
    };
    assert_eq!(
        named("docs/metrics.md"),
        exist,
        "the table of docs/metrics.md and the metrics there are"
    );
    let elsewhere = [
        "README.md",
        "docs/refusals.md",
        "docs/operations.md",
        "docs/passing.md",
        "docs/trust.md",
    ];
    report(
        "a document names a metric that is not there",
        elsewhere
            .into_iter()
            .flat_map(named)
            .filter(|name| !exist.contains(name))
            .collect(),
    );
}

/// 003-113, 004-03, 004-04: the alert rules that are shipped can fire, and promtool runs
/// their tests.
#[test]
fn alert_rules_name_metrics_and_codes_that_exist() {
    let rules = read("examples/prometheus/alerts.yaml");
    let exist = metrics();
    let parts = ["_sum", "_count", "_bucket"];
    let is_known = |name: &str| {
        exist.contains(name)
            || parts.iter().any(|part| {
                name.strip_suffix(part)
                    .is_some_and(|name| exist.contains(name))
            })
    };
    let word = Regex::new(r"\btoolgate_[a-z_]+").unwrap();
    let named: BTreeSet<&str> = word.find_iter(&rules).map(|name| name.as_str()).collect();
    let missing = named.iter().filter(|name| !is_known(name));
    report(
        "an alert rule names a metric that is not there",
        missing.map(|&name| name.to_owned()).collect(),
    );
    for wanted in [
        "toolgate_duplicates_executed_total",
        "toolgate_unknown_outcome_age_seconds",
    ] {
        assert!(named.contains(wanted), "no rule watches {wanted}");
    }
    let codes = Regex::new(r#"code=~?"([a-z_|]+)""#).unwrap();
    let unknown = codes
        .captures_iter(&rules)
        .flat_map(|found| found[1].split('|').map(str::to_owned).collect::<Vec<_>>());
    let unknown = unknown.filter(|code| !is_own_code(code));
    report(
        "an alert rule names a code that is not there",
        unknown.collect(),
    );
    let run = read("tests/run");
    assert!(
        run.contains("promtool test rules alerts.test.yaml"),
        "promtool runs the tests of the alerts"
    );
    let of = |key: &str| rules.matches(&format!("{key}: ")).count();
    assert_eq!(
        (of("- alert"), of("expr"), of("summary")),
        (of("action"), of("action"), of("action"))
    );
}

/// 003-113: each alert that is shipped has a test in which it fires.
#[test]
fn each_alert_has_a_test() {
    let rules = read("examples/prometheus/alerts.yaml");
    let alert = Regex::new(r"- alert: (\w+)").unwrap();
    let tests = read("examples/prometheus/alerts.test.yaml");
    let tested = |name: &str| {
        // What is missing is of no instance.
        [r#"instance="fires""#, r#"job="toolgate""#]
            .iter()
            .any(|of| {
                tests.contains(&format!(
                    r#"ALERTS{{alertname="{name}", alertstate="firing", {of}"#
                ))
            })
    };
    report(
        "an alert has no test in examples/prometheus/alerts.test.yaml",
        {
            alert
                .captures_iter(&rules)
                .map(|found| found[1].to_owned())
                .filter(|name| !tested(name))
                .collect()
        },
    );
}
