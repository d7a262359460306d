//! What a scrape shows.

mod labels;

use super::{
    CallEffects, CallLabels, CallOutcome, ExecutedEffect, MAX_CALL_SERIES, Metrics, MetricsFormat,
    ReloadLabel, Synced,
};
use crate::model::clock::Clock;
use crate::model::ids::{ServerName, ToolName};
use std::sync::Arc;
use std::time::Duration;

const ONE_MS: Duration = Duration::from_millis(1);

fn billing() -> (ServerName, ToolName) {
    let server = ServerName::new("billing");
    let tool = ToolName::of(&server, "create_invoice");
    (server, tool)
}

/// One of everything.
fn busy() -> Metrics {
    let metrics = Metrics::new();
    let (server, tool) = billing();
    metrics.call(
        &CallLabels::new(Some(&server), Some(&tool), CallOutcome::Answered),
        ONE_MS,
    );
    metrics.sent();
    metrics.noticed("ops", "delivered");
    metrics.stage("identity", ONE_MS);
    metrics.upstream(&server, ONE_MS);
    metrics.upstream_up(&server, true);
    metrics.quarantined(&server, &[("schema_too_deep", 2)]);
    metrics.reload(ReloadLabel::Kept);
    metrics.dropped("unsolicited_answer");
    metrics.refused("duplicate_key");
    metrics.ledger_dropped(3);
    metrics.dropped_early(5);
    metrics.head_left(true);
    metrics.sessions(4);
    metrics.set_held_calls(2);
    metrics.decided("deny", ONE_MS);
    metrics.before_hook("blocked");
    metrics.after_hook("dropped");
    let left = serde_json::json!({ "steps": 3, "cost": 0.5, "an agent's own": 1 });
    let tally = CallEffects {
        is_duplicate: true,
        is_replayed: true,
        is_failed_first: true,
        executed: Some(ExecutedEffect {
            digest: 7,
            is_anew: false,
        }),
        ..CallEffects::default()
    };
    let used = CallEffects {
        used: Some((2, 1_500_000)),
        remaining: Some(&left),
        ..tally.clone()
    };
    metrics.effects(&tally, ONE_MS);
    metrics.effects(&used, ONE_MS * 2);
    metrics.unknown(2, Duration::from_secs(90));
    metrics.looked("found");
    metrics.set_incidents(2, Duration::from_secs(90));
    metrics.refused_token("expired");
    metrics.issuer_keys_fetched("https://login.example", true);
    metrics.issuer_keys_age("https://login.example", Some(Duration::from_secs(90)));
    metrics.certificate("agents", 86_400);
    metrics.server_tokens("billing", 3, 1);
    metrics.set_open_undos("failed", 1);
    metrics.synced(Synced {
        buckets: vec![(0.001, 4), (f64::INFINITY, 1)],
        seconds: 0.25,
    });
    metrics
}

/// The names of the samples, each once, without what a histogram appends.
fn names(text: &str) -> Vec<&str> {
    let mut names: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(|name| {
            ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap_or(name)
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

const PROMISED_NAMES: [&str; 65] = [
    "toolgate_after_hooks_total",
    "toolgate_approval_oldest_wait_seconds",
    "toolgate_approval_seconds",
    "toolgate_approvals_pending",
    "toolgate_approvals_unattended",
    "toolgate_before_hooks_total",
    "toolgate_budget_remaining",
    "toolgate_build_info",
    "toolgate_calls_total",
    "toolgate_cpu_seconds_total",
    "toolgate_disabled_tools",
    "toolgate_disk_free_bytes",
    "toolgate_disk_total_bytes",
    "toolgate_dropped_messages_total",
    "toolgate_duplicates_executed_total",
    "toolgate_duplicates_suppressed_total",
    "toolgate_first_arrival_failures_total",
    "toolgate_grant_uses_total",
    "toolgate_heavy_total",
    "toolgate_incident_age_seconds",
    "toolgate_incidents_open",
    "toolgate_issuer_key_fetches_total",
    "toolgate_issuer_keys_age_seconds",
    "toolgate_journal_sync_seconds",
    "toolgate_journal_unsynced_records",
    "toolgate_latency_ms",
    "toolgate_latency_seconds",
    "toolgate_ledger_entries_dropped_total",
    "toolgate_ledger_heads_total",
    "toolgate_ledger_records_dropped_early_total",
    "toolgate_long_meta_total",
    "toolgate_look_alikes_total",
    "toolgate_normalized_schemas_total",
    "toolgate_notifications_total",
    "toolgate_open_files",
    "toolgate_open_undos",
    "toolgate_otlp_exports_total",
    "toolgate_otlp_lost_log_records_total",
    "toolgate_outcome_looks_total",
    "toolgate_policy_since_seconds",
    "toolgate_policy_stale",
    "toolgate_quarantined_tools",
    "toolgate_refused_messages_total",
    "toolgate_refused_tokens_total",
    "toolgate_reloads_total",
    "toolgate_replays_total",
    "toolgate_resident_bytes",
    "toolgate_secrets_removed_total",
    "toolgate_server_token_fetches_total",
    "toolgate_sessions",
    "toolgate_side_effects_total",
    "toolgate_side_messages_total",
    "toolgate_stage_seconds",
    "toolgate_started_seconds",
    "toolgate_steps_used",
    "toolgate_tls_certificate_expires_seconds",
    "toolgate_token_cost",
    "toolgate_tool_calls_total",
    "toolgate_unavailable_allowlists_total",
    "toolgate_unknown_outcome_age_seconds",
    "toolgate_unknown_outcomes",
    "toolgate_upstream_seconds",
    "toolgate_upstream_up",
    "toolgate_user_calls_total",
    "toolgate_would_join_total",
];

#[test]
fn names_are_the_promised_ones() {
    let text = busy().render(MetricsFormat::OpenMetrics);
    assert_eq!(names(&text), PROMISED_NAMES);
}

#[test]
fn every_metric_says_what_it_is() {
    let text = busy().render(MetricsFormat::OpenMetrics);
    assert!(text.ends_with("# EOF\n"));
    let mut said: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("# ") && *line != "# EOF")
        .collect();
    said.sort_unstable();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn values_and_labels_arrive() {
    let text = busy().render(MetricsFormat::OpenMetrics);
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
        r#"toolgate_refused_tokens_total{reason="expired"} 1"#,
        r#"toolgate_issuer_key_fetches_total{issuer="https://login.example",outcome="fetched"} 1"#,
        r#"toolgate_issuer_keys_age_seconds{issuer="https://login.example"} 90"#,
        r#"toolgate_tls_certificate_expires_seconds{door="agents"} 86400"#,
        r#"toolgate_server_token_fetches_total{server="billing",outcome="failed"} 1"#,
        r#"toolgate_dropped_messages_total{reason="unsolicited_answer"} 1"#,
        r#"toolgate_refused_messages_total{reason="duplicate_key"} 1"#,
        "toolgate_ledger_entries_dropped_total 3",
        "toolgate_ledger_records_dropped_early_total 5",
        "toolgate_sessions 4",
        "toolgate_approvals_pending 2",
        r#"toolgate_approval_seconds_count{decision="deny"} 1"#,
        r#"toolgate_before_hooks_total{outcome="blocked"} 1"#,
        r#"toolgate_after_hooks_total{outcome="dropped"} 1"#,
        "toolgate_duplicates_suppressed_total 2",
        "toolgate_replays_total 2",
        "toolgate_first_arrival_failures_total 2",
        "toolgate_side_effects_total 2",
        "toolgate_duplicates_executed_total 1",
        "toolgate_unknown_outcomes 2",
        "toolgate_unknown_outcome_age_seconds 90",
        r#"toolgate_budget_remaining_sum{dimension="steps"} 3.0"#,
        r#"toolgate_budget_remaining_bucket{le="1.0",dimension="cost"} 1"#,
        "toolgate_steps_used_sum 2.0",
        "toolgate_token_cost_sum 1.5",
        "toolgate_journal_sync_seconds_sum 0.25",
        "toolgate_journal_sync_seconds_count 5",
        r#"toolgate_journal_sync_seconds_bucket{le="0.001"} 4"#,
        r#"toolgate_journal_sync_seconds_bucket{le="+Inf"} 5"#,
        concat!(
            r#"toolgate_build_info{version=""#,
            env!("CARGO_PKG_VERSION"),
            r#""} 1"#
        ),
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is missing in\n{text}"
        );
    }
}

/// 003-112: the label is the refusal's code; what an agent makes up is not a label.
#[test]
fn a_refused_call_is_counted_under_its_code() {
    let metrics = Metrics::new();
    let (server, tool) = billing();
    metrics.call(
        &CallLabels::new(None, None, CallOutcome::Refused).with_code("tool_not_allowlisted"),
        ONE_MS,
    );
    let code: Arc<str> = "amount_out_of_range".into();
    for _ in 0..2 {
        let labels = CallLabels::new(Some(&server), Some(&tool), CallOutcome::Refused);
        metrics.call(&labels.with_contract_code(&code), ONE_MS);
    }
    let text = metrics.render(MetricsFormat::OpenMetrics);
    let unknown =
        r#"{server="unknown",tool="unknown",outcome="refused",code="tool_not_allowlisted"} 1"#;
    let rule = r#"{server="billing",tool="billing__create_invoice",outcome="refused",code="amount_out_of_range"} 2"#;
    assert!(text.contains(unknown) && text.contains(rule), "{text}");
}

/// 003-112: a tool server that renames its tools all day cannot fill the memory.
#[test]
fn the_number_of_series_is_bounded() {
    let metrics = Metrics::new();
    let server = ServerName::new("hostile");
    for number in 0..MAX_CALL_SERIES + 500 {
        let tool = ToolName::of(&server, &number.to_string());
        let code: Arc<str> = number.to_string().into();
        let labels = CallLabels::new(Some(&server), Some(&tool), CallOutcome::Refused);
        metrics.call(&labels.with_contract_code(&code), ONE_MS);
    }
    let text = metrics.render(MetricsFormat::OpenMetrics);
    let series = text
        .lines()
        .filter(|line| line.starts_with("toolgate_calls_total{"))
        .count();
    assert_eq!(series, MAX_CALL_SERIES + 1);
    assert!(
        text.contains(r#"{server="hostile",tool="unknown",outcome="refused",code="other"} 500"#)
    );
}

/// 004-03: the same side effect in the same trace is one that ran twice, for ten minutes; what is
/// remembered is bounded.
#[test]
fn what_runs_twice_is_counted_for_a_while() {
    let metrics = Metrics::new();
    let runs = |digest, at, is_anew| {
        metrics.effects(
            &CallEffects {
                executed: Some(ExecutedEffect { digest, is_anew }),
                ..CallEffects::default()
            },
            Duration::from_secs(at),
        );
    };
    let run = |effect, at| runs(effect, at, false);
    let twice = || {
        metrics
            .render(MetricsFormat::OpenMetrics)
            .contains("toolgate_duplicates_executed_total 1\n")
    };
    run(1, 0);
    run(2, 1);
    run(1, 600);
    assert!(
        metrics
            .render(MetricsFormat::OpenMetrics)
            .contains("toolgate_duplicates_executed_total 0\n"),
        "not the same after ten minutes"
    );
    runs(2, 2, true);
    assert!(!twice(), "it is meant where the first was taken back");
    run(1, 1199);
    assert!(twice(), "{}", metrics.render(MetricsFormat::OpenMetrics));
    for other in 10..80_000 {
        run(other, 1199);
    }
    run(1, 1199);
    assert!(twice(), "what is pushed out is forgotten");
}

#[test]
fn a_name_with_quotes_does_not_break_the_scrape() {
    let metrics = Metrics::new();
    let (server, _) = billing();
    let tool = ToolName::of(&server, "a\"} 9\nb\\");
    metrics.call(
        &CallLabels::new(Some(&server), Some(&tool), CallOutcome::Answered),
        ONE_MS,
    );
    assert!(
        metrics
            .render(MetricsFormat::OpenMetrics)
            .contains(r#"tool="billing__a\"} 9\nb\\","#)
    );
}

#[test]
fn quarantine_sums_over_servers_and_forgets() {
    let metrics = Metrics::new();
    let (billing, search) = (ServerName::new("billing"), ServerName::new("search"));
    metrics.upstream_up(&search, true);
    metrics.quarantined(&billing, &[("changed", 2)]);
    metrics.quarantined(&search, &[("changed", 1), ("bad_name", 1)]);
    assert!(
        metrics
            .render(MetricsFormat::OpenMetrics)
            .contains(r#"{reason="changed"} 3"#)
    );
    metrics.quarantined(&billing, &[]);
    assert!(
        metrics
            .render(MetricsFormat::OpenMetrics)
            .contains(r#"{reason="changed"} 1"#)
    );
    metrics.upstream_gone(&search);
    let text = metrics.render(MetricsFormat::OpenMetrics);
    assert!(text.contains(r#"{reason="changed"} 0"#) && text.contains(r#"{reason="bad_name"} 0"#));
    assert!(!text.contains("toolgate_upstream_up{"));
}

#[test]
fn a_good_reload_ends_staleness() {
    let metrics = busy();
    metrics.reload(ReloadLabel::Swapped);
    assert!(
        metrics
            .render(MetricsFormat::OpenMetrics)
            .contains("\ntoolgate_policy_stale 0\n")
    );
}

#[test]
fn stages_beyond_the_slots_are_counted_as_other() {
    let metrics = Metrics::new();
    let names: Vec<&'static str> = (0..40)
        .map(|number| &*Box::leak(format!("stage{number}").into_boxed_str()))
        .collect();
    for name in &names {
        metrics.stage(name, ONE_MS);
    }
    metrics.stage(names[0], ONE_MS);
    let text = metrics.render(MetricsFormat::OpenMetrics);
    assert!(
        text.contains(r#"toolgate_stage_seconds_count{stage="stage0"} 2"#),
        "{text}"
    );
    assert!(
        text.contains(r#"toolgate_stage_seconds_count{stage="other"} 8"#),
        "{text}"
    );
}

/// Prints what one call costs; `cargo test --release --lib one_call -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, only meaningful in a release build"]
#[expect(clippy::print_stdout, reason = "a measurement is for reading")]
fn one_call_costs_little() {
    const CALLS_MEASURED: u32 = 1_000_000;
    let metrics = Metrics::new();
    let (server, tool) = billing();
    let stages = [
        "identity",
        "allowlist",
        "arguments",
        "permission",
        "rules",
        "send",
    ];
    let start = Clock.steady();
    for _ in 0..CALLS_MEASURED {
        for stage in stages {
            metrics.stage(stage, ONE_MS);
        }
        metrics.call(
            &CallLabels::new(Some(&server), Some(&tool), CallOutcome::Answered),
            ONE_MS,
        );
    }
    let each = Clock.steady().saturating_sub(start).as_nanos() / u128::from(CALLS_MEASURED);
    println!("{each} ns for one call with {} stages", stages.len());
    assert!(each < 1_000, "{each} ns");
}
