//! What a scrape shows.

use super::{CALL_SERIES, CallLabels, Metrics, Outcome, Reload};
use crate::model::clock::Clock;
use crate::model::ids::{ServerName, ToolName};
use std::sync::Arc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn billing() -> (ServerName, ToolName) {
    let server = ServerName::new("billing");
    let tool = ToolName::of(&server, "create_invoice");
    (server, tool)
}

/// One of everything.
fn busy() -> Metrics {
    let metrics = Metrics::new();
    let (server, tool) = billing();
    metrics.call(&CallLabels::new(Some(&server), Some(&tool), Outcome::Answered), MS);
    metrics.sent();
    metrics.stage("identity", MS);
    metrics.upstream(&server, MS);
    metrics.upstream_up(&server, true);
    metrics.quarantined(&server, &[("schema_too_deep", 2)]);
    metrics.reload(Reload::Kept);
    metrics.dropped("unsolicited_answer");
    metrics.refused("duplicate_key");
    metrics.ledger_dropped(3);
    metrics.sessions(4);
    metrics
}

/// The names of the samples, each once, without what a histogram appends.
fn names(text: &str) -> Vec<&str> {
    let mut names: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(|name| ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn names_are_the_promised_ones() {
    let text = busy().render();
    assert_eq!(
        names(&text),
        [
            "toolgate_build_info",
            "toolgate_calls_total",
            "toolgate_dropped_messages_total",
            "toolgate_latency_ms",
            "toolgate_ledger_entries_dropped_total",
            "toolgate_policy_stale",
            "toolgate_quarantined_tools",
            "toolgate_refused_messages_total",
            "toolgate_reloads_total",
            "toolgate_sessions",
            "toolgate_stage_seconds",
            "toolgate_tool_calls_total",
            "toolgate_upstream_seconds",
            "toolgate_upstream_up",
        ]
    );
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn every_metric_says_what_it_is() {
    let text = busy().render();
    let mut said: Vec<&str> = text.lines().filter(|line| line.starts_with("# ") && *line != "# EOF").collect();
    said.sort_unstable();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn values_and_labels_arrive() {
    let text = busy().render();
    for line in [
        r#"toolgate_calls_total{server="billing",tool="billing__create_invoice",outcome="answered",code=""} 1"#,
        "toolgate_tool_calls_total 1",
        "toolgate_latency_ms_sum 1.0",
        r#"toolgate_stage_seconds_sum{stage="identity"} 0.001"#,
        r#"toolgate_upstream_seconds_count{server="billing"} 1"#,
        r#"toolgate_upstream_up{server="billing"} 1"#,
        r#"toolgate_quarantined_tools{reason="schema_too_deep"} 2"#,
        r#"toolgate_reloads_total{outcome="kept"} 1"#,
        r#"toolgate_reloads_total{outcome="swapped"} 0"#,
        "toolgate_policy_stale 1",
        r#"toolgate_dropped_messages_total{reason="unsolicited_answer"} 1"#,
        r#"toolgate_refused_messages_total{reason="duplicate_key"} 1"#,
        "toolgate_ledger_entries_dropped_total 3",
        "toolgate_sessions 4",
        concat!(r#"toolgate_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""} 1"#),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
}

/// 003-112: the label is the refusal's code; what an agent makes up is not a label.
#[test]
fn a_refused_call_is_counted_under_its_code() {
    let metrics = Metrics::new();
    let (server, tool) = billing();
    metrics.call(&CallLabels::new(None, None, Outcome::Refused).with_code("tool_not_allowlisted"), MS);
    let code: Arc<str> = "amount_out_of_range".into();
    for _ in 0..2 {
        let labels = CallLabels::new(Some(&server), Some(&tool), Outcome::Refused);
        metrics.call(&labels.with_contract_code(&code), MS);
    }
    let text = metrics.render();
    let unknown = r#"{server="unknown",tool="unknown",outcome="refused",code="tool_not_allowlisted"} 1"#;
    let rule = r#"{server="billing",tool="billing__create_invoice",outcome="refused",code="amount_out_of_range"} 2"#;
    assert!(text.contains(unknown) && text.contains(rule), "{text}");
}

/// 003-112: a tool server that renames its tools all day cannot fill the memory.
#[test]
fn the_number_of_series_is_bounded() {
    let metrics = Metrics::new();
    let server = ServerName::new("hostile");
    for number in 0..CALL_SERIES + 500 {
        let tool = ToolName::of(&server, &number.to_string());
        let code: Arc<str> = number.to_string().into();
        let labels = CallLabels::new(Some(&server), Some(&tool), Outcome::Refused);
        metrics.call(&labels.with_contract_code(&code), MS);
    }
    let text = metrics.render();
    let series = text.lines().filter(|line| line.starts_with("toolgate_calls_total{")).count();
    assert_eq!(series, CALL_SERIES + 1);
    assert!(text.contains(r#"{server="hostile",tool="unknown",outcome="refused",code="other"} 500"#));
}

#[test]
fn a_name_with_quotes_does_not_break_the_scrape() {
    let metrics = Metrics::new();
    let (server, _) = billing();
    let tool = ToolName::of(&server, "a\"} 9\nb\\");
    metrics.call(&CallLabels::new(Some(&server), Some(&tool), Outcome::Answered), MS);
    assert!(metrics.render().contains(r#"tool="billing__a\"} 9\nb\\","#));
}

#[test]
fn quarantine_sums_over_servers_and_forgets() {
    let metrics = Metrics::new();
    let (billing, search) = (ServerName::new("billing"), ServerName::new("search"));
    metrics.upstream_up(&search, true);
    metrics.quarantined(&billing, &[("changed", 2)]);
    metrics.quarantined(&search, &[("changed", 1), ("bad_name", 1)]);
    assert!(metrics.render().contains(r#"{reason="changed"} 3"#));
    metrics.quarantined(&billing, &[]);
    assert!(metrics.render().contains(r#"{reason="changed"} 1"#));
    metrics.upstream_gone(&search);
    let text = metrics.render();
    assert!(text.contains(r#"{reason="changed"} 0"#) && text.contains(r#"{reason="bad_name"} 0"#));
    assert!(!text.contains("toolgate_upstream_up{"));
}

#[test]
fn a_good_reload_ends_staleness() {
    let metrics = busy();
    metrics.reload(Reload::Swapped);
    assert!(metrics.render().contains("\ntoolgate_policy_stale 0\n"));
}

#[test]
fn stages_beyond_the_slots_are_counted_as_other() {
    let metrics = Metrics::new();
    let names: Vec<&'static str> =
        (0..40).map(|number| &*Box::leak(format!("stage{number}").into_boxed_str())).collect();
    for name in &names {
        metrics.stage(name, MS);
    }
    metrics.stage(names[0], MS);
    let text = metrics.render();
    assert!(text.contains(r#"toolgate_stage_seconds_count{stage="stage0"} 2"#), "{text}");
    assert!(text.contains(r#"toolgate_stage_seconds_count{stage="other"} 8"#), "{text}");
}

/// Prints what one call costs; `cargo test --release --lib one_call -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, only meaningful in a release build"]
#[expect(clippy::print_stdout, reason = "a measurement is for reading")]
fn one_call_costs_little() {
    const CALLS: u32 = 1_000_000;
    let metrics = Metrics::new();
    let (server, tool) = billing();
    let stages = ["identity", "allowlist", "arguments", "permission", "rules", "send"];
    let start = Clock.steady();
    for _ in 0..CALLS {
        for stage in stages {
            metrics.stage(stage, MS);
        }
        metrics.call(&CallLabels::new(Some(&server), Some(&tool), Outcome::Answered), MS);
    }
    let each = Clock.steady().saturating_sub(start).as_nanos() / u128::from(CALLS);
    println!("{each} ns for one call with {} stages", stages.len());
    assert!(each < 1_000, "{each} ns");
}
