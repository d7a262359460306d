//! The turns of a run.

use crate::asked::Asked;
use crate::caller::{self, Until, now};
use crate::floor;
use crate::numbers::Round;
use crate::peers::PEERS;
use crate::placement::Cpus;
use crate::run::{EffectRow, LogRow, MemoryRow, Row, Run, StartRow};
use crate::scenes::{DURABLE, Dialect, LISTS, SCENES, Scene};
use crate::stand::{Stand, Way, with_children};
use crate::toolgate::{Launch, Toolgate, memory, sled_kib, syncs};
use anyhow::Context as _;
use tokio::runtime::Runtime;

/// Agents at once, of calls that change something.
const CALLERS: [usize; 4] = [1, 16, 64, 256];

/// What a run needs beside what is measured.
pub(crate) struct Measuring<'a> {
    /// What a person asked for.
    pub(crate) asked: &'a Asked,
    /// Where it runs.
    pub(crate) runtime: &'a Runtime,
    /// The CPUs that it may use.
    pub(crate) cpus: &'a Cpus,
}

impl Measuring<'_> {
    fn turn(&self, way: &Way, scene: &'static Scene, connections: usize) -> anyhow::Result<Round> {
        let until = Until::Time(self.asked.time);
        let loaded = caller::load(way, scene, connections, until);
        let loaded = self
            .runtime
            .block_on(loaded)
            .with_context(|| format!("{} through {}", scene.name, way.name))?;
        Ok(Round::of(loaded))
    }

    /// Each scene through each way in each placement, in turns.
    ///
    /// # Errors
    ///
    /// A call fails.
    pub(crate) fn calls(
        &self,
        stand: &Stand,
        scenes: &'static [Scene],
        run: &mut Run,
    ) -> anyhow::Result<()> {
        remember(stand, "before any load", run);
        let scenes = scenes
            .iter()
            .filter(|scene| scene.name.contains(&self.asked.only));
        for scene in scenes {
            for placement in self.cpus.placements() {
                eprintln!("{}, {}", scene.name, placement.name());
                self.cpus.place(placement, stand)?;
                let mut rows: Vec<Row> = stand
                    .ways
                    .iter()
                    .map(|way| Row {
                        scene: scene.name.to_owned(),
                        placement: placement.name().to_owned(),
                        way: way.name.clone(),
                        rounds: Vec::new(),
                    })
                    .collect();
                for round in 0..self.asked.rounds {
                    // Another one begins each round.
                    for turn in 0..rows.len() {
                        let place = (turn + round) % rows.len();
                        let way = &stand.ways[place];
                        let found = self.turn(way, scene, placement.connections())?;
                        rows[place].rounds.push(found);
                    }
                }
                run.rows.append(&mut rows);
            }
            remember(stand, &format!("after {}", scene.name), run);
        }
        for way in stand.ways.iter().filter(|way| !way.processes.is_empty()) {
            let build = stand.builds.iter().find(|build| build.name == way.name);
            let peaks = way.processes.iter().map(|id| memory(*id, "VmHWM:"));
            run.memory.push(MemoryRow {
                way: way.name.clone(),
                when: "at most".to_owned(),
                kib: peaks.sum(),
                sled: build.map_or(0, |build| build.sled),
            });
        }
        Ok(())
    }

    /// Calls that change something, beside a log of our own that is synced for all that wait, and
    /// one that is synced for each.
    ///
    /// # Errors
    ///
    /// A call fails, or a log cannot be written.
    pub(crate) fn effects(&self, stand: &Stand, run: &mut Run) -> anyhow::Result<()> {
        // toolgate watches the directory of its files: a log that grows there would cost it
        // something.
        let logs = stand.directory.join("logs");
        std::fs::create_dir(&logs)?;
        for callers in CALLERS {
            eprintln!("{}, {callers} at once", DURABLE.name);
            let mut rows: Vec<EffectRow> = stand
                .builds
                .iter()
                .map(|build| EffectRow {
                    callers,
                    way: build.name.clone(),
                    rounds: Vec::new(),
                })
                .collect();
            let mut log = LogRow {
                callers,
                shared: Vec::new(),
                each: Vec::new(),
                bare_p50: Vec::new(),
            };
            let rate = |each| floor::rate(&logs, callers, self.asked.time, each);
            for round in 0..self.asked.rounds {
                log.shared.push(self.runtime.block_on(rate(false))?);
                for turn in 0..rows.len() {
                    let place = (turn + round) % rows.len();
                    let build = &stand.builds[place];
                    let before = syncs(&build.process.operators);
                    let way = stand.find(&build.name)?;
                    let mut found = self.turn(way, &DURABLE, callers)?;
                    let after = syncs(&build.process.operators);
                    found.syncs = per_call(before.zip(after), found.calls, callers);
                    rows[place].rounds.push(found);
                }
                log.each.push(self.runtime.block_on(rate(true))?);
                if callers == 1 {
                    log.bare_p50.push(floor::bare(&logs, self.asked.time)?);
                }
            }
            run.effects.append(&mut rows);
            run.logs.push(log);
        }
        Ok(())
    }

    /// Starts each peer that is installed, and adds the way through it once it answers.
    pub(crate) fn peers(&self, stand: &mut Stand, run: &mut Run) {
        for peer in &PEERS {
            let row = peer.row();
            let answered = peer.start(stand).and_then(|way| {
                let first = caller::first_answer(&way, &SCENES[0], now());
                self.runtime.block_on(first).map(|_| way)
            });
            match answered {
                Ok(mut way) => {
                    let family = way.processes.iter().flat_map(|id| with_children(*id));
                    let own = |id: &u32| !way.processes.contains(id);
                    way.servers = family.filter(own).collect();
                    stand.ways.push(way);
                    run.peers.push(row);
                }
                Err(error) => eprintln!("{} is left out: {error:#}", row.name),
            }
        }
    }

    /// A process of its own for each number of tools: when it answers first, and what it holds then.
    ///
    /// # Errors
    ///
    /// It does not start, or answers no call.
    pub(crate) fn starts(&self, stand: &Stand, run: &mut Run) -> anyhow::Result<()> {
        let program = self.asked.program()?;
        for lists in [&LISTS[..1], &LISTS[..]] {
            let tools: usize = lists.iter().sum();
            eprintln!("start with {tools} tools");
            let mut row = StartRow {
                tools,
                first_answer: Vec::new(),
                kib: Vec::new(),
                sled: sled_kib(&program),
            };
            for round in 0..self.asked.rounds {
                let process = Toolgate::start(&Launch {
                    program: &program,
                    directory: stand.directory.join(format!("start-{tools}-{round}")),
                    server: &stand.server,
                    tools: lists,
                    workers: None,
                    under: &[],
                })?;
                let way = stand.way("start", process.agents.clone(), vec![process.process()]);
                let answered = caller::first_answer(&way, &SCENES[0], process.began);
                let took = self.runtime.block_on(answered)?;
                process.ready()?;
                row.first_answer.push(took.as_secs_f64() * 1e3);
                row.kib.push(number(memory(process.process(), "VmRSS:")));
                process.end()?;
            }
            run.starts.push(row);
        }
        Ok(())
    }
}

/// Starts what is asked for, in the order of the tables.
///
/// # Errors
///
/// A build does not start.
pub(crate) fn stand(asked: &Asked, dialect: Dialect) -> anyhow::Result<Stand> {
    let mut stand = Stand::start(dialect)?;
    if asked.needs_nginx()
        && let Err(error) = stand.nginx()
    {
        eprintln!("nginx is left out: {error:#}");
    }
    for build in asked.builds()? {
        stand.build(&build)?;
    }
    Ok(stand)
}

/// Syncs of each call: one more was made on each connection, which opened it.
fn per_call(counted: Option<(u64, u64)>, calls: u32, connections: usize) -> Option<f64> {
    let (before, after) = counted?;
    let calls = f64::from(calls) + f64::from(u32::try_from(connections).ok()?);
    Some(number(after.saturating_sub(before)) / calls)
}

/// A count as a number that can be divided.
pub(crate) fn number(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

fn remember(stand: &Stand, when: &str, run: &mut Run) {
    for build in &stand.builds {
        let first = run.memory.iter().all(|row| row.way != build.name);
        run.memory.push(MemoryRow {
            way: build.name.clone(),
            when: when.to_owned(),
            kib: if first {
                build.idle
            } else {
                memory(build.process.process(), "VmRSS:")
            },
            sled: build.sled,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::per_call;

    #[test]
    fn syncs_are_those_of_all_calls() {
        assert_eq!(per_call(Some((100, 400)), 590, 10), Some(0.5));
        assert_eq!(per_call(None, 590, 10), None);
    }
}
