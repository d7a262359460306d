//! What a scrape shows, as metrics for a collector: the same names, labels and values, at an
//! interval. A scrape is read that toolgate itself has written, so that both can never differ.

use super::endpoint::OtlpEndpoint;
use super::post::OnRuntime;
use super::requests::{attribute, nanoseconds, origin, scope, text};
use crate::model::clock::Clock;
use jiff::Timestamp;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum,
};
use prost::Message as _;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Where metrics go, and how often.
#[derive(Debug)]
pub struct ScrapeExport {
    /// The collector.
    pub endpoint: OtlpEndpoint,
    /// From the end of one export to the next.
    pub interval: Duration,
}

/// Sends what `scrape` gives, in `OpenMetrics`, every `interval` and once more at `stop`.
pub(crate) async fn export(
    scrape: impl Fn() -> String,
    collector: OnRuntime,
    interval: Duration,
    stop: CancellationToken,
) {
    let began = Clock.wall();
    loop {
        let is_last = tokio::select! {
            () = stop.cancelled() => true,
            () = tokio::time::sleep(interval) => false,
        };
        let request = request(&scrape(), began, Clock.wall());
        // Counts go on growing: what one export lost, the next one tells.
        collector.post(request).await;
        if is_last {
            break;
        }
    }
}

/// `open`, which is `OpenMetrics`, as an export of counts since `began`.
fn request(open: &str, began: Timestamp, now: Timestamp) -> Vec<u8> {
    let scope_metrics = ScopeMetrics {
        scope: Some(scope()),
        metrics: metrics(open, began, now),
        ..ScopeMetrics::default()
    };
    let resource_metrics = ResourceMetrics {
        resource: Some(origin()),
        scope_metrics: vec![scope_metrics],
        ..ResourceMetrics::default()
    };
    let resource_metrics = vec![resource_metrics];
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

/// Each family of `open`, in its order.
pub(super) fn metrics(open: &str, began: Timestamp, now: Timestamp) -> Vec<Metric> {
    let mut metrics = Vec::new();
    let mut family = FamilyPoints::default();
    for line in open.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            let (name, help) = described.split_once(' ').unwrap_or((described, ""));
            let next = FamilyPoints {
                name,
                help,
                began: nanoseconds(began),
                now: nanoseconds(now),
                ..FamilyPoints::default()
            };
            metrics.extend(std::mem::replace(&mut family, next).whole());
        } else if let Some((_, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|typed| typed.split_once(' '))
        {
            family.kind = kind;
        } else if !line.starts_with('#')
            && let Some(sample) = Sample::read(line)
        {
            family.add(sample);
        }
    }
    metrics.extend(family.whole());
    metrics
}

/// The family whose lines are read.
#[derive(Default)]
struct FamilyPoints<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    began: u64,
    now: u64,
    numbers: Vec<NumberDataPoint>,
    histograms: Vec<HistogramDataPoint>,
}

impl<'a> FamilyPoints<'a> {
    fn add(&mut self, sample: Sample<'a>) {
        if self.kind != "histogram" {
            let value = sample.value.parse().map(Value::AsInt);
            let value = value.or_else(|_| sample.value.parse().map(Value::AsDouble));
            self.numbers.push(NumberDataPoint {
                attributes: sample.labels,
                start_time_unix_nano: if self.kind == "counter" {
                    self.began
                } else {
                    0
                },
                time_unix_nano: self.now,
                value: value.ok(),
                ..NumberDataPoint::default()
            });
            return;
        }
        let part = sample.name.strip_prefix(self.name).unwrap_or_default();
        let is_known = self
            .histograms
            .last()
            .is_some_and(|last| last.attributes == sample.labels);
        if !is_known {
            self.histograms.push(HistogramDataPoint {
                attributes: sample.labels,
                start_time_unix_nano: self.began,
                time_unix_nano: self.now,
                ..HistogramDataPoint::default()
            });
        }
        let Some(point) = self.histograms.last_mut() else {
            return;
        };
        match (part, sample.bound) {
            ("_sum", _) => point.sum = sample.value.parse().ok(),
            ("_count", _) => point.count = sample.value.parse().unwrap_or_default(),
            ("_bucket", Some(bound)) => {
                // In a scrape each bucket counts those below it, too.
                let below: u64 = point.bucket_counts.iter().sum();
                let count: u64 = sample.value.parse().unwrap_or_default();
                point.bucket_counts.push(count.saturating_sub(below));
                point
                    .explicit_bounds
                    .extend(bound.is_finite().then_some(bound));
            }
            _ => {}
        }
    }

    /// It as a metric; none where there is no sample of it.
    fn whole(self) -> Option<Metric> {
        if self.numbers.is_empty() && self.histograms.is_empty() {
            return None;
        }
        let temporality = AggregationTemporality::Cumulative as i32;
        let (ending, data) = match self.kind {
            "counter" => (
                "_total",
                Data::Sum(Sum {
                    data_points: self.numbers,
                    aggregation_temporality: temporality,
                    is_monotonic: true,
                }),
            ),
            "histogram" => (
                "",
                Data::Histogram(Histogram {
                    data_points: self.histograms,
                    aggregation_temporality: temporality,
                }),
            ),
            kind => (
                if kind == "info" { "_info" } else { "" },
                Data::Gauge(Gauge {
                    data_points: self.numbers,
                }),
            ),
        };
        Some(Metric {
            name: format!("{}{ending}", self.name),
            description: self.help.to_owned(),
            data: Some(data),
            ..Metric::default()
        })
    }
}

/// One line with a value.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<KeyValue>,
    /// The boundary of a bucket, which is no label of the series.
    bound: Option<f64>,
    value: &'a str,
}

impl<'a> Sample<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at(end);
        let (mut labels, mut bound) = (Vec::new(), None);
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while let Some((label, quoted)) = rest.split_once("=\"") {
                let (value, after) = unquoted(quoted)?;
                let label = label.trim_start_matches(',');
                if label == "le" {
                    bound = value.parse().ok();
                } else {
                    labels.push(attribute(label, text(value)));
                }
                rest = after;
                if rest.starts_with('}') {
                    break;
                }
            }
            rest = rest.strip_prefix('}')?;
        }
        let value = rest.split_whitespace().next()?;
        Some(Self {
            name,
            labels,
            bound,
            value,
        })
    }
}

/// The value that a quoted one stands for, and what follows its closing quote.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}
