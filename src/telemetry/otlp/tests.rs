//! Metrics and log records as a collector receives them.

mod records;

use super::endpoint::{OtlpEndpoint, OtlpSignal, milliseconds};
use super::post::OnRuntime;
use super::scrapes;
use crate::telemetry::metrics::{Metrics, MetricsFormat};
use jiff::Timestamp;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

type Read = Result<Option<OtlpEndpoint>, String>;

fn read(signal: OtlpSignal, set: &[(&str, &str)]) -> Read {
    let found = |name: &str| {
        let mut pairs = set.iter();
        let pair = pairs.find(|(key, _)| *key == name);
        pair.map(|(_, value)| (*value).to_owned())
    };
    OtlpEndpoint::read(signal, found).map_err(|error| error.to_string())
}

const SHARED: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

#[test]
fn each_signal_has_its_address_and_can_be_left_out() {
    let url = |signal, set: &[(&str, &str)]| {
        let found = read(signal, set).unwrap();
        found.map(|endpoint| endpoint.url())
    };
    for (signal, path, exporter, own) in [
        (
            OtlpSignal::Metrics,
            "metrics",
            "OTEL_METRICS_EXPORTER",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        ),
        (
            OtlpSignal::Logs,
            "logs",
            "OTEL_LOGS_EXPORTER",
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
        ),
    ] {
        assert_eq!(url(signal, &[]), None);
        let shared = Some(format!("http://127.0.0.1:4318/v1/{path}"));
        assert_eq!(url(signal, &[SHARED]), shared);
        assert_eq!(url(signal, &[SHARED, (exporter, "none")]), None);
        assert_eq!(
            url(signal, &[SHARED, ("OTEL_TRACES_EXPORTER", "none")]),
            shared
        );
        let elsewhere = Some("https://c.example/in".to_owned());
        assert_eq!(
            url(signal, &[SHARED, (own, "https://c.example/in")]),
            elsewhere
        );
        let said = read(signal, &[(own, "c.example")]).unwrap_err();
        assert!(
            said.starts_with(own) && said.contains("http:// or https://"),
            "{said}"
        );
    }
}

/// A key to the collector is sent, and stands in no message of ours.
#[test]
fn headers_are_read_and_never_shown() {
    let with = |written| {
        read(
            OtlpSignal::Logs,
            &[SHARED, ("OTEL_EXPORTER_OTLP_HEADERS", written)],
        )
    };
    let endpoint = with("api-key=hidden%20one, tenant=b=c").unwrap().unwrap();
    assert_eq!(endpoint.headers()["api-key"], "hidden one");
    assert_eq!(endpoint.headers()["tenant"], "b=c");
    assert!(!format!("{endpoint:?}").contains("hidden"), "{endpoint:?}");
    for bad in [
        "hidden",
        "a b=hidden",
        "a=hidden%2",
        "a=hidden%0a",
        "a=hidden%zz",
    ] {
        let said = with(bad).unwrap_err();
        assert!(
            said.starts_with("OTEL_EXPORTER_OTLP_HEADERS is no list") && !said.contains("hidden"),
            "{bad}: {said}"
        );
    }
}

#[test]
fn an_interval_is_a_time() {
    let read = |written: &str| {
        milliseconds(
            "OTEL_METRIC_EXPORT_INTERVAL",
            Duration::from_secs(7),
            |_| Some(written.to_owned()),
        )
    };
    assert_eq!(read("250").unwrap(), Duration::from_millis(250));
    assert_eq!(read(" ").unwrap(), Duration::from_secs(7));
    for bad in ["0", "9", "86400001", "1s", "-1", "1.5"] {
        let said = read(bad).unwrap_err().to_string();
        assert!(said.contains("number of milliseconds"), "{bad}: {said}");
    }
}

/// Names and texts of `pairs`.
fn texts(pairs: &[KeyValue]) -> Vec<(&str, &str)> {
    let text = pairs.iter().map(|pair| match &pair.value {
        Some(AnyValue {
            value: Some(Value::StringValue(text)),
        }) => (pair.key.as_str(), text.as_str()),
        other => panic!("{other:?}"),
    });
    text.collect()
}

const OPEN: &str = r#"# HELP a_calls Calls.
# TYPE a_calls counter
a_calls_total{tool="say \"a,b=\"\\ } 1",code=""} 3
a_calls_total{tool="b"} 4
# HELP a_build The version.
# TYPE a_build info
a_build_info{version="1"} 1
# HELP a_none Nothing.
# TYPE a_none counter
# HELP a_cpu Seconds.
# TYPE a_cpu counter
a_cpu_total 0.25
# HELP a_seconds Times.
# TYPE a_seconds histogram
a_seconds_sum{s="x"} 1.5
a_seconds_count{s="x"} 6
a_seconds_bucket{le="0.1",s="x"} 1
a_seconds_bucket{le="1.0",s="x"} 4
a_seconds_bucket{le="+Inf",s="x"} 6
a_seconds_sum{s="y"} 0.0
a_seconds_count{s="y"} 0
a_seconds_bucket{le="+Inf",s="y"} 0
# EOF
"#;

/// The scrape of a test as metrics that began at one second and are looked at at two.
#[test]
fn a_scrape_becomes_metrics_of_the_same_names_and_values() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let metrics = scrapes::metrics(OPEN, at(1), at(2));
    let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(
        names,
        ["a_calls_total", "a_build_info", "a_cpu_total", "a_seconds"]
    );
    let Some(Data::Sum(calls)) = &metrics[0].data else {
        panic!("{:?}", metrics[0]);
    };
    assert!(calls.is_monotonic && calls.aggregation_temporality == 2);
    let first = &calls.data_points[0];
    let labels = [("tool", "say \"a,b=\"\\ } 1"), ("code", "")];
    assert_eq!(texts(&first.attributes), labels);
    assert_eq!(first.value, Some(number_data_point::Value::AsInt(3)));
    let times = (first.start_time_unix_nano, first.time_unix_nano);
    assert_eq!(times, (1_000_000_000, 2_000_000_000));
    assert_eq!(calls.data_points.len(), 2);
    assert!(matches!(&metrics[1].data, Some(Data::Gauge(build)) if build.data_points.len() == 1));
    let Some(Data::Sum(cpu)) = &metrics[2].data else {
        panic!("{:?}", metrics[2]);
    };
    let quarter = Some(number_data_point::Value::AsDouble(0.25));
    assert_eq!(cpu.data_points[0].value, quarter);
    let Some(Data::Histogram(seconds)) = &metrics[3].data else {
        panic!("{:?}", metrics[3]);
    };
    let [x, y] = &seconds.data_points[..] else {
        panic!("{seconds:?}");
    };
    assert_eq!(
        (&*x.bucket_counts, &*x.explicit_bounds),
        (&[1, 3, 2][..], &[0.1, 1.0][..])
    );
    assert_eq!((x.count, x.sum), (6, Some(1.5)));
    assert_eq!(texts(&x.attributes), [("s", "x")]);
    assert_eq!(
        (&*y.bucket_counts, &*y.explicit_bounds),
        (&[0][..], &[][..])
    );
}

/// Nothing of a real scrape is left out, and each point has a value.
#[test]
fn every_family_of_a_scrape_becomes_a_metric() {
    let open = Metrics::new().render(MetricsFormat::OpenMetrics);
    let names = |text: &str| -> BTreeSet<String> {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let names = samples.filter_map(|line| line.split(['{', ' ']).next());
        let whole = |name: &str| {
            let mut ends = ["_bucket", "_sum", "_count"].into_iter();
            ends.find_map(|end| name.strip_suffix(end))
                .unwrap_or(name)
                .to_owned()
        };
        names.map(whole).collect()
    };
    let metrics = scrapes::metrics(&open, Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
    let made: BTreeSet<String> = metrics.iter().map(|metric| metric.name.clone()).collect();
    assert_eq!(made, names(&open));
    assert!(made.len() > 30, "{made:?}");
    let points = metrics
        .iter()
        .map(|metric| match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => &sum.data_points[..],
            Data::Gauge(gauge) => &gauge.data_points[..],
            Data::Histogram(_) | Data::ExponentialHistogram(_) | Data::Summary(_) => &[],
        });
    assert!(points.flatten().all(|point| point.value.is_some()));
}

/// What was counted until the end leaves, whenever the end comes: before the first export, or while one is under way.
#[tokio::test]
async fn the_last_metrics_are_sent() {
    for (interval, stops_at, expected) in [
        (Duration::from_hours(1), 0, 1),
        (Duration::from_millis(1), 1, 2),
    ] {
        // Nothing listens there: each export fails at once.
        let set = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")];
        let endpoint = read(OtlpSignal::Metrics, &set).unwrap().unwrap();
        let collector = OnRuntime::new(OtlpSignal::Metrics, &endpoint, Handle::current()).unwrap();
        let (stop, taken) = (CancellationToken::new(), AtomicUsize::new(0));
        if stops_at == 0 {
            stop.cancel();
        }
        let scrape = || {
            if taken.fetch_add(1, Ordering::Relaxed) + 1 == stops_at {
                stop.cancel();
            }
            String::new()
        };
        scrapes::export(scrape, collector, interval, stop.clone()).await;
        assert_eq!(taken.load(Ordering::Relaxed), expected, "{interval:?}");
    }
}
