//! Two processes in a closed loop: this one calls, a copy of it is the tool server. In between
//! stands nothing, nginx or toolgate, in turns within one run, so that what else the machine does
//! falls on all three alike.

mod caller;
mod floor;
mod processes;
mod report;
mod scenes;
mod server;

use anyhow::{Context as _, bail};
use processes::Stand;
use report::Report;
use scenes::{DURABLE, SCENES};
use std::path::PathBuf;
use std::time::Duration;

/// Connections at once.
const CONNECTIONS: [usize; 2] = [1, 64];

struct Asked {
    toolgate: PathBuf,
    time: Duration,
    rounds: usize,
    only: String,
    durable: bool,
}

fn asked() -> anyhow::Result<Asked> {
    let mut words = std::env::args().skip(1);
    let toolgate = words.next().context(
        "usage: toolgate-load TOOLGATE [--seconds N] [--rounds N] [--only WORD] [--durable]",
    )?;
    let mut asked = Asked {
        toolgate: toolgate.into(),
        time: Duration::from_secs(1),
        rounds: 3,
        only: String::new(),
        durable: false,
    };
    while let Some(word) = words.next() {
        if word == "--durable" {
            asked.durable = true;
            continue;
        }
        let value = words
            .next()
            .with_context(|| format!("{word} needs a value"))?;
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    if std::env::args().nth(1).as_deref() == Some("--serve") {
        return runtime.block_on(server::serve());
    }
    let asked = asked()?;
    let stand = Stand::start(&asked.toolgate)?;
    if asked.durable {
        return runtime.block_on(durable(&stand, &asked));
    }
    let mut report = Report::new(&stand);
    for scene in SCENES
        .iter()
        .filter(|scene| scene.name.contains(&asked.only))
    {
        for connections in CONNECTIONS {
            for round in 0..asked.rounds {
                // Another one begins each round.
                for turn in 0..stand.ways.len() {
                    let way = &stand.ways[(turn + round) % stand.ways.len()];
                    let loaded =
                        runtime.block_on(caller::load(way, scene, connections, asked.time));
                    let loaded =
                        loaded.with_context(|| format!("{} through {}", scene.name, way.name))?;
                    report.add(scene, connections, way, loaded);
                }
            }
        }
        report.scene(scene);
    }
    report.end(&stand);
    Ok(())
}

/// Calls that change something, beside a log of our own that is synced for all that wait, and one
/// that is synced for each.
#[expect(clippy::cast_precision_loss, reason = "numbers for people")]
async fn durable(stand: &Stand, asked: &Asked) -> anyhow::Result<()> {
    println!("toolgate is process {}\n", stand.toolgate_process());
    println!(
        "| calls at once | floor, calls/s | toolgate, calls/s | of the floor | CPU µs/call | p50 µs | p99 µs | naive, calls/s |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    let way = stand.ways.last().context("toolgate is missing")?;
    // toolgate watches the directory of its files: a log that grows there would cost it something.
    let logs = stand.directory.join("logs");
    std::fs::create_dir(&logs)?;
    for connections in [1, 16, 64, 256] {
        let (mut floor, mut naive, mut row) = (0.0, 0.0, report::Row::default());
        for _ in 0..asked.rounds {
            floor += floor::rate(&logs, connections, asked.time, false).await?;
            row.add(caller::load(way, &DURABLE, connections, asked.time).await?);
            naive += floor::rate(&logs, connections, asked.time, true).await?;
        }
        row.durable(
            connections,
            [floor, naive].map(|sum| sum / asked.rounds as f64),
        );
    }
    Ok(())
}
