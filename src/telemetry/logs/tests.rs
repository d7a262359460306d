//! Lines as an operator or a collector of logs meets them.

use super::{LogFormat, layer, level};
use crate::telemetry::captured_log::CapturedLog;
use crate::telemetry::traces::SPAN_TARGET;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use tracing::subscriber::with_default;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

fn written(shape: LogFormat, at: &str, speak: impl FnOnce()) -> String {
    let paper = CapturedLog::default();
    let subscriber = registry()
        .with(level(at).unwrap())
        .with(layer(shape, paper.writer()));
    with_default(subscriber, speak);
    paper.text()
}

#[test]
fn json_lines_are_objects_with_fields_at_the_top() {
    let text = written(LogFormat::Json, "info", || {
        tracing::warn!(server = "billing", "the tool\nserver left");
    });
    assert_eq!(text.lines().count(), 1, "{text}");
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["message"], "the tool\nserver left");
    assert_eq!(line["server"], "billing");
    assert_eq!(line["level"], "WARN");
    assert!(line["target"].as_str().unwrap().starts_with("toolgate::"));
    assert!(
        line["timestamp"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .is_ok(),
        "{line}"
    );
}

/// What a tool server writes cannot steer an operator's terminal.
#[test]
fn escapes_in_a_value_are_shown_not_obeyed() {
    let text = written(LogFormat::Human, "info", || {
        let said = "\u{1b}]0;owned\u{7}";
        tracing::info!(said, "{said}");
    });
    assert!(
        text.contains("owned") && !text.contains("\u{1b}]0"),
        "{text:?}"
    );
}

#[test]
fn a_bare_level_is_for_toolgate_and_libraries_only_warn() {
    let speak = || {
        tracing::debug!("ours");
        tracing::info!(target: "hyper", "chatter");
        tracing::warn!(target: "hyper", "alarm");
    };
    let text = written(LogFormat::Json, "debug", speak);
    assert!(
        text.contains("ours") && text.contains("alarm") && !text.contains("chatter"),
        "{text}"
    );
    let quiet = written(LogFormat::Json, "error", speak);
    assert_eq!(quiet, "");
    let chosen = written(LogFormat::Json, "hyper=info", speak);
    assert!(
        chosen.contains("chatter") && !chosen.contains("ours"),
        "{chosen}"
    );
}

#[test]
fn spans_cost_nothing_without_traces() {
    written(LogFormat::Json, "trace", || {
        assert!(tracing::info_span!(target: SPAN_TARGET, "tools/call").is_disabled());
    });
}

#[test]
fn a_bad_level_says_what_to_write() {
    let text = level("loud=very").unwrap_err().to_string();
    assert!(
        text.starts_with("`loud=very` is not a log level: ")
            && text.contains("write error, warn, info"),
        "{text}"
    );
}

/// Runs only as the child of the test below.
#[test]
#[ignore = "the child of a_closed_stderr_is_no_panic"]
fn speaks_into_a_closed_stderr() {
    let mut go = String::new();
    io::stdin().read_line(&mut go).unwrap();
    // A broken pipe is an error of `write` here: Rust ignores SIGPIPE.
    assert!(
        io::stderr().write_all(b"x").is_err(),
        "the parent has not closed stderr"
    );
    let subscriber = registry()
        .with(level("info").unwrap())
        .with(layer(LogFormat::Json, io::stderr));
    with_default(subscriber, || tracing::error!("nobody hears this"));
}

#[test]
fn a_closed_stderr_is_no_panic() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "telemetry::logs::tests::speaks_into_a_closed_stderr",
            "--ignored",
            "--nocapture",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}
