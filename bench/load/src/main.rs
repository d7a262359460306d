//! Two processes in a closed loop: this one calls, a copy of it is the tool server. In between
//! stands nothing, nginx or toolgate, in turns within one run, so that what else the machine does
//! falls on all three alike.

mod asked;
mod caller;
mod callgrind;
mod cpu;
mod floor;
mod instructions;
mod measure;
mod numbers;
mod peers;
mod placement;
mod report;
mod run;
mod scenes;
mod server;
mod stand;
mod toolgate;

use asked::Asked;
use measure::Measuring;
use placement::Cpus;
use run::{Machine, Run};
use scenes::{Dialect, SCENES};

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
    let mut run = Run {
        machine: Machine::here(cpus.count()),
        ..Run::default()
    };
    // All peers know the older revision.
    let dialect = if asked.peers {
        Dialect::Legacy
    } else {
        Dialect::Modern
    };
    let mut stand = measure::stand(&asked, dialect)?;
    if asked.peers {
        measuring.peers(&mut stand, &mut run);
        measuring.calls(&stand, &SCENES[..1], &mut run)?;
    } else if asked.durable {
        measuring.effects(&stand, &mut run)?;
    } else {
        measuring.calls(&stand, &SCENES, &mut run)?;
        measuring.starts(&stand, &mut run)?;
    }
    print!("{}", report::tables(&run));
    Ok(())
}
