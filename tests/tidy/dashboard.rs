//! What operators are shown of metrics: the dashboard and the alert rules name metrics and labels that there are, and
//! each alert leads to its runbook.

use super::metrics::metrics;
use super::{read, report};
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const BOARD: &str = "examples/grafana/toolgate.json";
pub(super) const RULES: &str = "examples/prometheus/alerts.yaml";
const RUNBOOKS: &str = "docs/runbooks.md";
/// Where the book is served, as the rules have it.
const BOOK: &str = "https://toolgate.example/book/runbooks.html#";

/// Labels that a scrape adds.
const OF_SCRAPES: [&str; 2] = ["instance", "job"];
/// Panels that Grafana has without a plugin.
const CORE_PANELS: [&str; 3] = ["row", "stat", "timeseries"];
const ROWS: [&str; 10] = [
    "What agents see",
    "Side effects",
    "Approvals",
    "Budgets and rates",
    "Tool servers",
    "Tools that are away",
    "Store and disk",
    "Policy",
    "Process",
    "Who calls",
];

/// Metrics by their names in a scrape, each with its labels; `le` is one of a histogram.
type Known = BTreeMap<String, BTreeSet<String>>;

/// All there are. Both files are kept equal to what a running toolgate says by the tests of their names.
fn known() -> Known {
    let folder = "src/telemetry/metrics";
    let within = "snapshots/toolgate__telemetry__metrics__tests__";
    let labels = read(&format!(
        "{folder}/tests/{within}labels__every_metric_has_its_labels.snap"
    ));
    let kinds = read(&format!(
        "{folder}/{within}every_metric_says_what_it_is.snap"
    ));
    let lines = labels.lines().filter_map(|line| {
        let (name, labels) = line.strip_suffix('}')?.split_once('{')?;
        let labels = labels.split(',').filter(|label| !label.is_empty());
        let mut labels: BTreeSet<String> = labels.map(str::to_owned).collect();
        let is_histogram = kinds.contains(&format!("# TYPE {name} histogram\n"));
        labels.extend(is_histogram.then(|| "le".to_owned()));
        Some((name.to_owned(), labels))
    });
    lines.collect()
}

/// The histogram that the series `name` is of, and whether the series has `le`; else what it is called.
fn whole<'n>(name: &'n str, known: &Known) -> (&'n str, bool) {
    let is_histogram = |base: &&str| known.get(*base).is_some_and(|labels| labels.contains("le"));
    let of = |ending| name.strip_suffix(ending).filter(is_histogram);
    if let Some(base) = of("_bucket") {
        return (base, true);
    }
    (of("_sum").or(of("_count")).unwrap_or(name), false)
}

/// What is wrong with the names in a query.
fn wrong(query: &str, known: &Known) -> Vec<String> {
    let series = Regex::new(r"\b(toolgate_[a-z_]+)(?:\{([^}]*)\})?").unwrap();
    let matcher = Regex::new(r#"([a-z_]+)\s*(?:=~|!~|!=|=)\s*""#).unwrap();
    let grouping =
        Regex::new(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)").unwrap();
    let (mut wrong, mut among) = (Vec::new(), BTreeSet::from(OF_SCRAPES.map(str::to_owned)));
    for found in series.captures_iter(query) {
        let (base, has_le) = whole(&found[1], known);
        let Some(labels) = known.get(base) else {
            wrong.push(format!("there is no metric {}", &found[1]));
            continue;
        };
        if labels.contains("le") && base == &found[1] {
            wrong.push(format!("{base} is a histogram: no series has its name"));
        }
        let mut own = labels.clone();
        own.extend(OF_SCRAPES.map(str::to_owned));
        if !has_le {
            own.remove("le");
        }
        let selector = found.get(2).map_or("", |selector| selector.as_str());
        for label in matcher.captures_iter(selector) {
            if !own.contains(&label[1]) {
                wrong.push(format!("{base} has no label {}", &label[1]));
            }
        }
        among.extend(own);
    }
    for found in grouping.captures_iter(query) {
        for label in found[1]
            .split(',')
            .map(str::trim)
            .filter(|label| !label.is_empty())
        {
            if !among.contains(label) {
                wrong.push(format!("nothing here has a label {label}: {query}"));
            }
        }
    }
    wrong
}

fn board() -> Value {
    serde_json::from_str(&read(BOARD)).unwrap()
}

fn panels(board: &Value) -> &Vec<Value> {
    board["panels"].as_array().unwrap()
}

fn targets(panel: &Value) -> impl Iterator<Item = (&str, &str)> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    targets.map(|target| {
        let words = |member: &str| target[member].as_str().unwrap();
        (words("expr"), words("legendFormat"))
    })
}

#[test]
fn the_labels_are_of_all_metrics() {
    let names: BTreeSet<String> = known().into_keys().collect();
    assert_eq!(names, metrics());
}

/// A misspelt metric, label or grouping is found, in each place where one can stand.
#[test]
fn a_query_with_a_wrong_name_is_found() {
    let known = known();
    for (query, expected) in [
        (
            "sum by (outcome) (rate(toolgate_calls_total{code=~\"a|b\"}[5m]))",
            0,
        ),
        (
            "histogram_quantile(0.5, sum by (server, le) (rate(toolgate_upstream_seconds_bucket[5m])))",
            0,
        ),
        ("toolgate_latency_seconds_sum{instance=~\"$instance\"}", 0),
        ("rate(toolgate_call_total[5m])", 1),
        ("toolgate_calls_total{outcomes=\"refused\"}", 1),
        ("toolgate_calls_total{server=\"a\", cod!=\"b\"}", 1),
        ("sum by (kind) (toolgate_calls_total)", 1),
        ("toolgate_latency_seconds_count{le=\"1\"}", 1),
        ("toolgate_sessions_bucket", 1),
        ("toolgate_latency_seconds", 1),
    ] {
        let found = wrong(query, &known);
        assert_eq!(found.len(), expected, "{query}: {found:?}");
    }
}

#[test]
fn the_dashboard_names_metrics_and_labels_that_there_are() {
    let (known, board) = (known(), board());
    let shown = Regex::new(r"\{\{([a-z_]+)\}\}").unwrap();
    let by = Regex::new(r"\bby\s*\(([^)]*)\)").unwrap();
    let mut broken = Vec::new();
    for panel in panels(&board) {
        let title = panel["title"].as_str().unwrap();
        for (query, legend) in targets(panel) {
            broken.extend(
                wrong(query, &known)
                    .into_iter()
                    .map(|why| format!("{title}: {why}")),
            );
            if !query.contains("instance=~\"$instance\"") {
                broken.push(format!("{title}: {query} is not of the chosen instances"));
            }
            // What is not grouped by has gone from the sum; what nothing groups has all its labels.
            let groups: BTreeSet<&str> = by
                .captures_iter(query)
                .flat_map(|found| found.get(1).unwrap().as_str().split(','))
                .map(str::trim)
                .collect();
            for label in shown.captures_iter(legend) {
                let is_there =
                    groups.contains(&label[1]) || groups.is_empty() && &label[1] == "instance";
                if !is_there {
                    broken.push(format!(
                        "{title}: the legend names {}, which {query} has not",
                        &label[1]
                    ));
                }
            }
        }
    }
    report("a panel asks for what there is", broken);
    let mut shown = BTreeSet::new();
    let series = Regex::new(r"\btoolgate_[a-z_]+").unwrap();
    for (query, _) in panels(&board).iter().flat_map(targets) {
        shown.extend(
            series
                .find_iter(query)
                .map(|name| whole(name.as_str(), &known).0),
        );
    }
    // The same in other units, by callers' users, in observe mode, and how often what rarely is.
    let not_shown = [
        "toolgate_dropped_messages_total",
        "toolgate_latency_ms",
        "toolgate_long_meta_total",
        "toolgate_look_alikes_total",
        "toolgate_normalized_schemas_total",
        "toolgate_secrets_removed_total",
        "toolgate_tool_calls_total",
        "toolgate_unavailable_allowlists_total",
        "toolgate_user_calls_total",
        "toolgate_would_join_total",
    ];
    let all: BTreeSet<&str> = known.keys().map(String::as_str).collect();
    let left: Vec<&str> = all.difference(&shown).copied().collect();
    assert_eq!(left, not_shown, "each metric has a panel, or a reason");
}

#[test]
fn the_dashboard_is_one_that_grafana_takes() {
    let board = board();
    assert!(board["schemaVersion"].as_u64().unwrap() >= 36 && board["id"].is_null());
    let variables = board["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["datasource", "instance"]);
    let source = serde_json::json!({ "type": "prometheus", "uid": "${datasource}" });
    let (mut ids, mut places, mut rows) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let mut broken = Vec::new();
    for panel in panels(&board) {
        let (title, kind) = (
            panel["title"].as_str().unwrap(),
            panel["type"].as_str().unwrap(),
        );
        let mut judge = |is_fine: bool, why: &str| {
            if !is_fine {
                broken.push(format!("{title}: {why}"));
            }
        };
        judge(CORE_PANELS.contains(&kind), "it is of a plugin");
        judge(
            ids.insert(panel["id"].as_u64().unwrap()),
            "its id is another's",
        );
        let at = |member: &str| panel["gridPos"][member].as_u64().unwrap();
        judge(at("x") + at("w") <= 24, "it is beyond the edge");
        for (x, y) in (at("x")..at("x") + at("w"))
            .flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            judge(places.insert((x, y)), "it covers another");
        }
        if kind == "row" {
            rows.push(title);
            continue;
        }
        judge(panel["datasource"] == source, "its source is no variable");
        judge(
            panel["description"]
                .as_str()
                .is_some_and(|words| words.len() > 8),
            "it does not say what it shows",
        );
        let targets = panel["targets"].as_array().unwrap();
        judge(
            !targets.is_empty() && targets.iter().all(|target| target["datasource"] == source),
            "a query has another source",
        );
        let refs: BTreeSet<&str> = targets
            .iter()
            .map(|target| target["refId"].as_str().unwrap())
            .collect();
        judge(refs.len() == targets.len(), "two queries have one name");
    }
    report("a panel is where it can be seen", broken);
    assert_eq!(rows, ROWS);
}

#[test]
fn alert_rules_name_labels_that_there_are() {
    let (known, rules) = (known(), read(RULES));
    let broken = rules
        .split("- alert: ")
        .skip(1)
        .flat_map(|rule| {
            let (name, rest) = rule.split_once('\n').unwrap();
            let query = rest.split("labels: {").next().unwrap().to_owned();
            wrong(&query, &known)
                .into_iter()
                .map(move |why| format!("{name}: {why}"))
        })
        .collect();
    report("an alert asks for what there is", broken);
}

/// Each alert leads to a section of its own, each section is of an alert, and says what to do; the table of
/// docs/metrics.md has them all.
#[test]
fn each_alert_has_a_runbook() {
    let (rules, runbooks) = (read(RULES), read(RUNBOOKS));
    let alert = Regex::new(r"- alert: (\w+)").unwrap();
    let alerts: BTreeSet<&str> = alert
        .captures_iter(&rules)
        .map(|found| found.get(1).unwrap().as_str())
        .collect();
    assert!(alerts.len() > 20, "the alerts were not found");
    let sections: BTreeMap<&str, &str> = runbooks
        .split("\n### ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap())
        .collect();
    let written: BTreeSet<&str> = sections.keys().copied().collect();
    assert_eq!(written, alerts, "the sections of {RUNBOOKS} and the alerts");
    assert_eq!(
        runbooks.matches("\n### ").count(),
        alerts.len(),
        "a section stands once"
    );
    let parts = ["* **Means:** ", "* **Look first:** ", "* **Do:** "];
    let silent = sections
        .iter()
        .filter(|(_, words)| !parts.iter().all(|part| words.contains(part)));
    report(
        "a runbook says what the alert means, where to look first, and what to do",
        silent.map(|(name, _)| (*name).to_owned()).collect(),
    );
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.split('\n').next().unwrap();
        let url = format!("runbook_url: {BOOK}{}\n", name.to_lowercase());
        assert!(rule.contains(&url), "{name} leads to its runbook: {rule}");
    }
    let table = read("docs/metrics.md");
    let rows: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `Toolgate")?.split('`').next())
        .collect();
    let expected: BTreeSet<&str> = alerts
        .iter()
        .map(|name| name.strip_prefix("Toolgate").unwrap())
        .collect();
    assert_eq!(
        rows, expected,
        "the table of docs/metrics.md and the alerts"
    );
    let series = Regex::new(r"\btoolgate_[a-z_]+").unwrap();
    let known = known();
    let named = series.find_iter(&runbooks).map(|name| name.as_str());
    report(
        "a runbook names a metric that is not there",
        named
            .filter(|name| !known.contains_key(whole(name, &known).0))
            .map(str::to_owned)
            .collect(),
    );
}
