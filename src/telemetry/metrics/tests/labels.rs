//! The labels of each metric: queries are built on them as on names.

use super::busy;
use crate::telemetry::metrics::MetricsFormat;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn every_metric_has_its_labels() {
    let metrics = busy();
    metrics.hidden(&[("too_costly", "strict", 1)]);
    let text = metrics.render(MetricsFormat::OpenMetrics);
    let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let mut parts = ["_bucket", "_sum", "_count"].into_iter();
        let whole = parts.find_map(|part| name.strip_suffix(part));
        let labels = labels.split(',').filter_map(|pair| pair.split_once("=\""));
        let names = labels
            .map(|(label, _)| label)
            .filter(|label| *label != "le");
        known
            .entry(whole.unwrap_or(name))
            .or_default()
            .extend(names);
    }
    let lines = known.into_iter().map(|(name, labels)| {
        let labels: Vec<&str> = labels.into_iter().collect();
        format!("{name}{{{}}}", labels.join(","))
    });
    let lines: Vec<String> = lines.collect();
    insta::assert_snapshot!(lines.join("\n"));
}
