//! Tables for people, ready for a README.

use crate::caller::Loaded;
use crate::processes::{Stand, Way, memory};
use crate::scenes::Scene;
use std::collections::BTreeMap;
use std::time::Duration;

/// One way under one load.
#[derive(Default)]
pub(crate) struct Row {
    latencies: Vec<u32>,
    time: Duration,
    cpu: Duration,
}

#[expect(clippy::cast_precision_loss, reason = "numbers for people")]
impl Row {
    /// Adds a measurement.
    pub(crate) fn add(&mut self, loaded: Loaded) {
        self.latencies.extend(loaded.latencies);
        self.time += loaded.time;
        self.cpu += loaded.cpu;
    }

    /// Prints it beside the calls per second of the floor and of a sync for each call.
    pub(crate) fn durable(&mut self, connections: usize, [floor, naive]: [f64; 2]) {
        self.latencies.sort_unstable();
        let rate = self.calls() / self.time.as_secs_f64();
        println!(
            "| {connections} | {floor:.0} | {rate:.0} | {:.0} % | {:.1} | {:.0} | {:.0} | {naive:.0} |",
            100.0 * rate / floor,
            self.cost(),
            self.quantile(50),
            self.quantile(99),
        );
    }

    fn calls(&self) -> f64 {
        self.latencies.len() as f64
    }

    /// CPU time of one call in microseconds.
    fn cost(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.calls()
    }

    /// Latency in microseconds below which this share of calls stays.
    fn quantile(&self, hundredths: usize) -> f64 {
        let place =
            (self.latencies.len() * hundredths / 100).min(self.latencies.len().saturating_sub(1));
        self.latencies
            .get(place)
            .map_or(0.0, |nanoseconds| f64::from(*nanoseconds) / 1e3)
    }
}

/// What was measured.
pub(crate) struct Report {
    rows: BTreeMap<(usize, &'static str), Row>,
    order: Vec<&'static str>,
    toolgate: u32,
}

impl Report {
    /// Nothing yet.
    pub(crate) fn new(stand: &Stand) -> Self {
        let order = stand.ways.iter().map(|way| way.name).collect();
        Self {
            rows: BTreeMap::new(),
            order,
            toolgate: stand.toolgate_process(),
        }
    }

    /// Adds a measurement.
    pub(crate) fn add(&mut self, _: &Scene, connections: usize, way: &Way, loaded: Loaded) {
        self.rows
            .entry((connections, way.name))
            .or_default()
            .add(loaded);
    }

    /// Prints the scene that ends, and begins the next.
    pub(crate) fn scene(&mut self, scene: &Scene) {
        println!("\n### {}\n", scene.name);
        println!(
            "| connections | way | CPU µs/call | × nginx | p50 µs | p99 µs | p50 over direct | calls/s |"
        );
        println!("|---:|---|---:|---:|---:|---:|---:|---:|");
        let mut rows = std::mem::take(&mut self.rows);
        for row in rows.values_mut() {
            row.latencies.sort_unstable();
        }
        for connections in crate::CONNECTIONS {
            for way in &self.order {
                let Some(row) = rows.get(&(connections, *way)) else {
                    continue;
                };
                let nginx = rows
                    .get(&(connections, "nginx"))
                    .filter(|_| *way != "direct");
                let times = nginx.map_or(String::new(), |nginx| {
                    format!("{:.2}", row.cost() / nginx.cost())
                });
                let cost = if *way == "direct" {
                    String::new()
                } else {
                    format!("{:.1}", row.cost())
                };
                let direct = rows
                    .get(&(connections, "direct"))
                    .map_or(0.0, |direct| direct.quantile(50));
                println!(
                    "| {connections} | {way} | {cost} | {times} | {:.0} | {:.0} | {:+.0} | {:.0} |",
                    row.quantile(50),
                    row.quantile(99),
                    row.quantile(50) - direct,
                    row.calls() / row.time.as_secs_f64(),
                );
            }
        }
        println!(
            "\nresident memory of toolgate after it: {} KiB",
            memory(self.toolgate, "VmRSS:")
        );
    }

    /// Prints what concerns the whole run.
    pub(crate) fn end(&self, stand: &Stand) {
        let (idle, peak) = (stand.idle, memory(self.toolgate, "VmHWM:"));
        println!("\nresident memory of toolgate: {idle} KiB before any load, {peak} KiB at most");
    }
}
