//! Two processes in a closed loop: this one calls, a copy of it is the tool server. In between stands nothing, nginx or
//! toolgate, in turns within one run, so that what else the machine does falls on all three alike.

mod caller;
mod processes;
mod report;
mod scenes;
mod server;

use anyhow::{Context as _, bail};
use processes::Stand;
use report::Report;
use scenes::SCENES;
use std::path::PathBuf;
use std::time::Duration;

/// Connections at once.
const CONNECTIONS: [usize; 2] = [1, 64];

struct Asked {
    toolgate: PathBuf,
    time: Duration,
    rounds: usize,
    only: String,
}

fn asked() -> anyhow::Result<Asked> {
    let mut words = std::env::args().skip(1);
    let toolgate = words.next().context("usage: toolgate-load TOOLGATE [--seconds N] [--rounds N] [--only WORD]")?;
    let mut asked = Asked { toolgate: toolgate.into(), time: Duration::from_secs(1), rounds: 3, only: String::new() };
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--seconds" => asked.time = Duration::from_secs_f64(value.parse()?),
            "--rounds" => asked.rounds = value.parse()?,
            "--only" => asked.only = value,
            _ => bail!("unknown option {word}"),
        }
    }
    Ok(asked)
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if std::env::args().nth(1).as_deref() == Some("--serve") {
        return runtime.block_on(server::serve());
    }
    let asked = asked()?;
    let stand = Stand::start(&asked.toolgate)?;
    let mut report = Report::new(&stand);
    for scene in SCENES.iter().filter(|scene| scene.name.contains(&asked.only)) {
        for connections in CONNECTIONS {
            for round in 0..asked.rounds {
                // Another one begins each round.
                for turn in 0..stand.ways.len() {
                    let way = &stand.ways[(turn + round) % stand.ways.len()];
                    let loaded = runtime.block_on(caller::load(way, scene, connections, asked.time));
                    let loaded = loaded.with_context(|| format!("{} through {}", scene.name, way.name))?;
                    report.add(scene, connections, way, loaded);
                }
            }
        }
        report.scene(scene);
    }
    report.end(&stand);
    Ok(())
}
