//! Two processes in a closed loop: this one calls, a copy of it is the tool server. In between
//! stands nothing, nginx or toolgate, in turns within one run, so that what else the machine does
//! falls on all three alike.

mod asked;
mod caller;
mod callgrind;
mod chart;
mod cpu;
mod floor;
mod instructions;
mod measure;
mod numbers;
mod peers;
mod pictures;
mod placement;
mod report;
mod rest;
mod run;
mod scenes;
mod server;
mod stand;
mod toolgate;

use anyhow::Context as _;
use asked::Asked;
use measure::Measuring;
use placement::Cpus;
use run::{Machine, Run};
use scenes::{Dialect, SCENES};
use std::fs;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match std::env::args().nth(1).as_deref() {
        Some("--serve") => return runtime.block_on(server::serve()),
        Some("--serve-lines") => return server::serve_lines(),
        _ => {}
    }
    let asked = Asked::read(std::env::args().skip(1))?;
    let cpus = Cpus::allowed()?;
    let measuring = Measuring {
        asked: &asked,
        runtime: &runtime,
        cpus: &cpus,
    };
    if let Some(baseline) = &asked.instructions {
        return instructions::guard(&measuring, baseline);
    }
    let run = match &asked.from {
        Some(file) => {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            serde_json::from_str(&text).context("this is no run")?
        }
        None => measured(&measuring)?,
    };
    print!("{}", report::tables(&run));
    if let Some(file) = &asked.json {
        let text = serde_json::to_string_pretty(&run)?;
        fs::write(file, text + "\n").with_context(|| file.display().to_string())?;
    }
    match &asked.svg {
        Some(directory) => pictures::write(&run, directory),
        None => Ok(()),
    }
}

/// What is found when it is measured now.
fn measured(measuring: &Measuring<'_>) -> anyhow::Result<Run> {
    let mut run = Run {
        machine: Machine::here(measuring.cpus.count()),
        ..Run::default()
    };
    // All peers know the older revision.
    let dialect = if measuring.asked.peers {
        Dialect::Legacy
    } else {
        Dialect::Modern
    };
    let mut stand = measure::stand(measuring.asked, dialect)?;
    if measuring.asked.peers {
        measuring.peers(&mut stand, &mut run);
        measuring.calls(&stand, &SCENES[..1], &mut run)?;
    } else if measuring.asked.durable {
        measuring.effects(&stand, &mut run)?;
    } else {
        measuring.calls(&stand, &SCENES, &mut run)?;
        if measuring.asked.only.is_empty() {
            measuring.starts(&stand, &mut run)?;
            measuring.at_rest(&stand, &mut run)?;
        }
    }
    Ok(run)
}
