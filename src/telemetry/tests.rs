//! What an operator chooses.

use super::TelemetrySettings;

fn log(option: Option<&str>, rust_log: Option<&str>) -> String {
    let read = |name: &str| {
        if name == "RUST_LOG" {
            rust_log.map(str::to_owned)
        } else {
            None
        }
    };
    TelemetrySettings::read(option.map(str::to_owned), read)
        .unwrap()
        .log
}

#[test]
fn the_option_wins_over_the_environment_and_nothing_means_info() {
    assert_eq!(log(Some("debug"), Some("trace")), "debug");
    assert_eq!(log(None, Some("trace")), "trace");
    assert_eq!(log(None, None), "info");
    assert_eq!(log(None, Some("")), "info");
}

#[test]
fn traces_are_off_unless_a_collector_is_named() {
    assert_eq!(
        TelemetrySettings::read(None, |_| None).unwrap().traces,
        None
    );
    let endpoint = |name: &str| {
        (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://127.0.0.1:4318".to_owned())
    };
    assert!(
        TelemetrySettings::read(None, endpoint)
            .unwrap()
            .traces
            .is_some()
    );
    let nonsense = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "4318".to_owned());
    let said = TelemetrySettings::read(None, nonsense)
        .unwrap_err()
        .to_string();
    assert!(
        said.starts_with("OTEL_EXPORTER_OTLP_ENDPOINT is not an http:// or https:// URL"),
        "{said}"
    );
}
