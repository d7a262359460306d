//! Boundaries of the histograms.

/// A stage of a call: from a microsecond to the second that a stage which waits may take.
pub(super) const STAGE_SECONDS: &[f64] = &[
    1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0,
];

/// The boundaries of the OpenTelemetry conventions for MCP, and finer ones for tool servers on the
/// same machine.
pub(super) const UPSTREAM_SECONDS: &[f64] = &[
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0,
    300.0,
];

/// All of a call: finer ones for what toolgate adds, up to as long as a person may take.
pub(super) const LATENCY_SECONDS: &[f64] = &[
    1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 1e-1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0, 300.0,
];

/// The same in milliseconds.
pub(super) const LATENCY_MS: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0,
    10_000.0, 30_000.0, 60_000.0, 300_000.0,
];

/// Steps, calls, units of cost, milliseconds: what tasks use and have left.
pub(super) const BUDGET_AMOUNTS: &[f64] = &[
    0.0,
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    50.0,
    100.0,
    200.0,
    500.0,
    1000.0,
    10_000.0,
    60_000.0,
    600_000.0,
    3_600_000.0,
];

/// How long people take.
pub(super) const DECISION_SECONDS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0, 86_400.0,
];
