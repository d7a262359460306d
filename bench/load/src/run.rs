//! What a run found: all that tables and pictures are made of.

use crate::numbers::{Round, Spread};
use crate::peers::PeerRow;
use crate::stand::{DIRECT, NGINX};
use rustix::param::clock_ticks_per_second;
use serde::{Deserialize, Serialize};
use std::fs;

/// One run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Where it ran.
    pub(crate) machine: Machine,
    /// Calls that change nothing, and lists.
    pub(crate) rows: Vec<Row>,
    /// Calls that change something.
    pub(crate) effects: Vec<EffectRow>,
    /// Bare logs beside them.
    pub(crate) logs: Vec<LogRow>,
    /// Memory of toolgate.
    pub(crate) memory: Vec<MemoryRow>,
    /// From the start of the process to its first answer.
    pub(crate) starts: Vec<StartRow>,
    /// What calls leave on the disk.
    pub(crate) rest: Vec<RestRow>,
    /// The peers that were measured.
    pub(crate) peers: Vec<PeerRow>,
}

/// The machine, and what else it did.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// CPUs that could be used.
    pub(crate) cpus: usize,
    /// What they are.
    pub(crate) model: String,
    /// The kernel.
    pub(crate) kernel: String,
    /// Load averages when it began: 1, 5 and 15 minutes.
    pub(crate) load: String,
    /// Ticks of a second: user and kernel time are known to one of them.
    pub(crate) ticks: u64,
}

/// One way under one load.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The scene.
    pub(crate) scene: String,
    /// How the processes were placed.
    pub(crate) placement: String,
    /// The way.
    pub(crate) way: String,
    /// Its turns.
    pub(crate) rounds: Vec<Round>,
}

/// Calls that change something, of so many agents at once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EffectRow {
    /// Agents.
    pub(crate) callers: usize,
    /// The way.
    pub(crate) way: String,
    /// Its turns.
    pub(crate) rounds: Vec<Round>,
}

/// Logs of our own beside them: of one turn each.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LogRow {
    /// Agents.
    pub(crate) callers: usize,
    /// Calls a second where one sync is for all that wait.
    pub(crate) shared: Vec<f64>,
    /// Calls a second where each record is synced for itself.
    pub(crate) each: Vec<f64>,
    /// Microseconds that two syncs into space take that is filled with zeros: half of them took at
    /// most this. Of one agent only.
    pub(crate) bare_p50: Vec<f64>,
}

/// Memory of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MemoryRow {
    /// The way.
    pub(crate) way: String,
    /// When, such as `before any load`.
    pub(crate) when: String,
    /// Resident, in KiB.
    pub(crate) kib: u64,
    /// What of it is sled's histograms, in KiB.
    pub(crate) sled: u64,
}

/// How a process starts that has so many tools and contracts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartRow {
    /// Tools, with a contract each.
    pub(crate) tools: usize,
    /// Milliseconds to the first answer.
    pub(crate) first_answer: Vec<f64>,
    /// Resident memory once it is ready, in KiB.
    pub(crate) kib: Vec<f64>,
    /// What of it is sled's histograms, in KiB.
    pub(crate) sled: u64,
}

/// What calls leave on the disk.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RestRow {
    /// The scene.
    pub(crate) scene: String,
    /// Of how many calls one is the mean.
    pub(crate) calls: usize,
    /// Bytes of one.
    pub(crate) bytes: f64,
}

impl Machine {
    /// This one, now.
    pub(crate) fn here(cpus: usize) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let about = read("/proc/cpuinfo");
        let model = about
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let load = read("/proc/loadavg");
        Self {
            cpus,
            model: model.map_or_else(String::new, |(_, model)| model.trim().to_owned()),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: load
                .split_whitespace()
                .take(3)
                .collect::<Vec<_>>()
                .join(" "),
            ticks: clock_ticks_per_second(),
        }
    }
}

impl Run {
    /// The row of a way under a load.
    pub(crate) fn row(&self, scene: &str, placement: &str, way: &str) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.scene == scene && row.placement == placement && row.way == way)
    }

    /// The row of a way under the same load as `row`.
    pub(crate) fn beside(&self, row: &Row, way: &str) -> Option<&Row> {
        self.row(&row.scene, &row.placement, way)
    }

    /// CPU time of a call as a multiple of nginx's in the same round; none for a way without
    /// processes, or where there was no nginx.
    pub(crate) fn times_nginx(&self, row: &Row) -> Option<Spread> {
        let nginx = self.beside(row, NGINX).filter(|_| row.way != DIRECT)?;
        paired(row, nginx, |own, nginx| own.cpu / nginx.cpu)
    }

    /// What a way adds in the same round to what the direct way takes, by `of`.
    pub(crate) fn added(&self, row: &Row, of: impl Fn(&Round) -> f64) -> Option<Spread> {
        let direct = self.beside(row, DIRECT).filter(|_| row.way != DIRECT)?;
        paired(row, direct, |own, direct| of(own) - of(direct))
    }
}

/// Compares two ways round by round: what the machine did else falls on both of a round.
pub(crate) fn paired(
    row: &Row,
    other: &Row,
    compare: impl Fn(&Round, &Round) -> f64,
) -> Option<Spread> {
    let pairs = row.rounds.iter().zip(&other.rounds);
    Spread::of(pairs.map(|(own, other)| compare(own, other)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Machine, RestRow, Row, Run, StartRow};
    use crate::numbers::Round;
    use crate::run::{EffectRow, LogRow, MemoryRow};

    fn row(way: &str, placement: &str, rounds: &[(f64, f64)]) -> Row {
        let rounds = rounds.iter().map(|(cpu, p50)| Round {
            calls: 100,
            rate: 1000.0,
            cpu: *cpu,
            user_share: Some(0.5),
            p50: *p50,
            p99: p50 * 2.0,
            syncs: Some(0.25),
        });
        Row {
            scene: "call, small result".to_owned(),
            placement: placement.to_owned(),
            way: way.to_owned(),
            rounds: rounds.collect(),
        }
    }

    fn start(tools: usize, first_answer: &[f64], kib: f64) -> StartRow {
        StartRow {
            tools,
            first_answer: first_answer.to_vec(),
            kib: vec![kib],
            sled: 21_156,
        }
    }

    /// A run with one row of each kind and more.
    pub(crate) fn example() -> Run {
        let effect = row("toolgate", "64", &[(75.0, 500.0)]);
        Run {
            machine: Machine {
                cpus: 2,
                ticks: 100,
                ..Machine::default()
            },
            rows: vec![
                row("direct", "packed", &[(0.0, 20.0), (0.0, 30.0), (0.0, 25.0)]),
                row(
                    "nginx",
                    "packed",
                    &[(20.0, 40.0), (25.0, 55.0), (10.0, 45.0)],
                ),
                row(
                    "toolgate",
                    "packed",
                    &[(40.0, 68.0), (75.0, 90.0), (25.0, 74.0)],
                ),
                row(
                    "toolgate before",
                    "packed",
                    &[(80.0, 99.0), (75.0, 99.0), (50.0, 99.0)],
                ),
            ],
            effects: vec![EffectRow {
                callers: 64,
                way: "toolgate".to_owned(),
                rounds: effect.rounds,
            }],
            logs: vec![LogRow {
                callers: 64,
                shared: vec![50_000.0],
                each: vec![3000.0],
                bare_p50: Vec::new(),
            }],
            memory: vec![MemoryRow {
                way: "toolgate".to_owned(),
                when: "before any load".to_owned(),
                kib: 34_816,
                sled: 21_156,
            }],
            starts: vec![
                start(100, &[80.0, 90.0, 70.0], 22_528.0),
                start(1100, &[95.0], 30_528.0),
            ],
            rest: vec![RestRow {
                scene: "call, small result".to_owned(),
                calls: 19_200,
                bytes: 140.0,
            }],
            peers: Vec::new(),
        }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let run = example();
        let toolgate = run.row("call, small result", "packed", "toolgate").unwrap();
        let times = run.times_nginx(toolgate).unwrap();
        assert_eq!((times.median, times.low, times.high), (2.5, 2.0, 3.0));
        let added = run.added(toolgate, |round| round.p50).unwrap();
        assert_eq!((added.median, added.low, added.high), (49.0, 48.0, 60.0));
        let direct = run.row("call, small result", "packed", "direct").unwrap();
        assert_eq!(run.times_nginx(direct), None);
        assert_eq!(run.added(direct, |round| round.p50), None);
    }

    #[test]
    fn a_run_is_the_same_once_written_and_read() {
        let text = serde_json::to_string(&example()).unwrap();
        let read: Run = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
