//! `toolgate test --drill`: makes the call of each sample that says `drill`, at the real tool server, takes it
//! back as an operator would, and proves by a read that nothing is left (003-19, 003-P4f). In a data
//! directory of its own, with a gate of its own: no ledger, budget or approval of a toolgate that runs is
//! touched. What it does at the tool servers is real.

mod agent;
mod approving;
mod baseline;
mod consent;
mod ending;
mod making;
mod place;
mod plan;
mod shown;

use super::Args;
use super::find::{self, FoundPacks};
use crate::app::{App, ledger};
use crate::cli::configured::{self, DataArgs};
use crate::cli::ledger::text::json_lines;
use crate::cli::operator;
use crate::cli::released::{self, Released};
use crate::cli::runtime::{runtime, told_to_end};
use crate::cli::terminal::Terminal;
use crate::cli::terminal::progress::{ProgressUnit, WorkProgress};
use crate::config::Config;
use crate::guards::Mode;
use crate::model::clock::Clock;
use crate::model::counted::counted;
use crate::model::diagnostic::Severity;
use crate::model::disabled::TakenAway;
use crate::model::ids::ServerName;
use crate::owners::keep_private;
use crate::policy::pack::Pack;
use crate::store::{disabling, incidents};
use crate::telemetry::tasks;
use anyhow::bail;
use approving::attend;
use consent::{agreed, servers_of};
use ending::{DrillEnd, DrillVerdict};
use making::Driller;
use place::DrillPlace;
use plan::{PlanTerms, PlannedRow, PlannedWork};
use shown::{DrillReport, DrilledRow, RowState, what_is_left};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The exit code where nobody knows what has run.
pub(super) const UNKNOWN_EXIT_CODE: u8 = 3;
const OBSERVED: &str = "in observe mode nothing makes an undo once: a drill takes `mode: enforce` in the configuration";
const OWN_DATA: &str =
    "a drill has a data directory of its own, beside that of the configuration: leave --data out";
const STOPPED: &str = "it is not known what became of the drill before it";

/// How drills are made.
#[derive(Debug, clap::Args)]
pub(super) struct DrillArgs {
    /// Make the call of each sample that says `drill`, at its real tool server, take it back, and prove
    /// that nothing is left. 1: something is, or is not proven; 3: it is not known what has run
    #[arg(long, conflicts_with_all = ["junit", "coverage", "quiet", "replay"])]
    pub(super) drill: bool,
    /// With --drill: do not ask; the effects at the tool servers are meant
    #[arg(long, requires = "drill")]
    yes: bool,
    /// With --drill: only tools of this server; may be given again
    #[arg(long, value_name = "NAME", requires = "drill")]
    server: Vec<String>,
    #[command(flatten)]
    wishes: DrillWishes,
}

/// What is asked of all of them.
#[derive(Debug, clap::Args)]
struct DrillWishes {
    /// With --drill: you are every person who has to allow its calls, and do so
    #[arg(long, requires = "drill")]
    approve: bool,
    /// With --drill: 1 also where a contract that changes something was not drilled, or names no call that
    /// takes it back; what is `irreversible` or `additive`, or takes others back itself, is left out
    #[arg(long, requires = "drill")]
    require_all: bool,
}

/// What is drilled, and on what.
struct DrillStart {
    config: Config,
    released: Released,
    rows: Vec<PlannedRow>,
    contracts: usize,
}

/// Makes the drills, and writes what they have shown.
pub(super) fn run(args: &Args, out: &mut String) -> anyhow::Result<u8> {
    if args.place.data.is_some() {
        return Ok(operator::misused(OWN_DATA));
    }
    keep_private();
    let start = match start(args)? {
        Ok(start) => start,
        Err(why) => return Ok(operator::misused(&why)),
    };
    let place = DrillPlace::open(&start.config.data)?;
    let left = place.left()?;
    if !left.is_empty() {
        for step in &left {
            configured::say(&format!("an earlier drill: {}", step.words()));
        }
        return Ok(operator::refused(&what_is_left(place.directory())));
    }
    let servers = servers_of(&start.rows);
    if !servers.is_empty()
        && let Err(why) = agreed(args.drill.yes, &start.rows, &servers)?
    {
        return Ok(operator::misused(&why));
    }
    let requires_all = args.drill.wishes.require_all;
    let contracts = start.contracts;
    let rows = if servers.is_empty() {
        undrilled(start.rows, "")
    } else {
        runtime()?.block_on(Box::pin(drilled(start, &place, args.drill.wishes.approve)))?
    };
    let report = DrillReport {
        rows,
        requires_all,
        contracts,
    };
    let is_kept = report.is_left();
    if !is_kept && place.directory().exists() {
        place.clear()?;
    }
    let kept = is_kept.then(|| place.directory());
    if args.json {
        writeln!(out, "{}", json_lines(&report.json(kept)))?;
    } else {
        out.push_str(&report.words(Terminal::stdout(), kept));
    }
    Ok(report.exit_code())
}

/// What is to be drilled; or why nothing can be.
fn start(args: &Args) -> anyhow::Result<Result<DrillStart, String>> {
    let named = args.place.config.as_deref();
    let found = if args.paths.is_empty() {
        find::configured_packs(named)?
    } else {
        FoundPacks::Packs(find::packs(&args.paths)?)
    };
    let files = match found {
        FoundPacks::Packs(files) => files,
        FoundPacks::Unknown(wrong) => {
            for diagnostic in &wrong {
                configured::say(&diagnostic.to_string());
            }
            return Ok(Err(
                "the configuration cannot be used, as shown above".to_owned()
            ));
        }
    };
    let mut configurations = BTreeSet::new();
    for file in &files {
        configurations.insert(find::configuration(file, named)?);
    }
    let Some(config) = configurations.pop_first() else {
        bail!("there is no test pack");
    };
    if !configurations.is_empty() {
        let words = "the packs belong to several configurations; name one with --config";
        return Ok(Err(words.to_owned()));
    }
    let packs = packs(&files)?;
    let (config, released) = released::load(&DataArgs {
        config: Some(config),
        data: None,
    })?;
    let policy = released.current();
    if policy.mode == Mode::Observe {
        return Ok(Err(OBSERVED.to_owned()));
    }
    let away = TakenAway {
        tools: disabling::read(&config.data)?,
        frozen: incidents::frozen(&config.data)?,
    };
    let terms = PlanTerms {
        policy: &policy,
        packs: &packs,
        servers: &args.drill.server,
        away: &away,
    };
    Ok(Ok(DrillStart {
        rows: terms.rows(),
        contracts: policy.allowlist.changing().count(),
        config,
        released,
    }))
}

fn packs(files: &[PathBuf]) -> anyhow::Result<Vec<Pack>> {
    let (mut packs, mut errors) = (Vec::new(), 0_usize);
    for file in files {
        let (pack, found) = Pack::read(file);
        let found = found.iter();
        for wrong in found.filter(|one| one.severity == Severity::Error) {
            configured::say(&wrong.to_string());
            errors += 1;
        }
        packs.extend(pack);
    }
    if errors > 0 {
        let problems = counted(errors, "problem");
        bail!("the packs cannot be run: {problems}, shown above");
    }
    Ok(packs)
}

/// Makes the drills, one after the other, on a gate of their own.
async fn drilled(
    start: DrillStart,
    place: &DrillPlace,
    approves: bool,
) -> anyhow::Result<Vec<DrilledRow>> {
    let DrillStart {
        config,
        released,
        rows,
        ..
    } = start;
    let servers = servers_of(&rows);
    let mut config = own(config, place, &servers);
    if approves {
        let stand_ins = approving::stand_ins(&config.admin.tokens);
        config.admin.tokens.extend(stand_ins);
    }
    // Whatever becomes of the files meanwhile.
    config.admin.are_in_force();
    let notes = place.begin()?;
    let ledger = ledger::open(&config).await?;
    let policy = released.keep(&config.data);
    let app = App::start(&config, &policy, ledger)?;
    for server in config.servers.values().filter(|server| !server.disabled) {
        app.door.gate.tools.settled(&server.name).await;
    }
    let people = attend(&app, approves);
    let mut driller = Driller::new(&app, notes);
    let made = Box::pin(each(&mut driller, rows)).await;
    driller.end().await;
    people.abort();
    app.stop().await?;
    made
}

/// The configuration of a drill: nothing of it leads to what another toolgate keeps, or to people.
fn own(mut config: Config, place: &DrillPlace, servers: &BTreeSet<ServerName>) -> Config {
    config.data = place.data_directory();
    config.ledger.archive = None;
    config.ledger.heads = None;
    config.notify.clear();
    config.reconcile = None;
    config.servers.retain(|name, _| servers.contains(name));
    config
}

async fn each(driller: &mut Driller<'_>, rows: Vec<PlannedRow>) -> anyhow::Result<Vec<DrilledRow>> {
    let told = CancellationToken::new();
    let heard = told.clone();
    let signals = tasks::spawn("signals", async move {
        told_to_end().await;
        heard.cancel();
    });
    let total = u64::try_from(rows.len()).ok();
    let progress = WorkProgress::of("drilling", total, ProgressUnit::Steps);
    let mut made = Vec::new();
    let mut rows = rows.into_iter();
    let mut stopped = None;
    for row in rows.by_ref() {
        let row = match row.work {
            PlannedWork::Drill(planned) if told.is_cancelled() => DrilledRow {
                sample: Some(planned.sample.clone()),
                ..undone_row(row.contract, DrillEnd::interrupted())
            },
            PlannedWork::Drill(planned) => {
                let began = Clock.steady();
                let end = Box::pin(driller.drill(&row.contract, &planned)).await?;
                stopped = (end.verdict == DrillVerdict::Unknown).then_some(STOPPED);
                DrilledRow {
                    contract: row.contract,
                    sample: Some(planned.sample.clone()),
                    state: RowState::Drilled(end),
                    took: Clock.steady().saturating_sub(began),
                }
            }
            work @ (PlannedWork::NotDrilled(_)
            | PlannedWork::NoWayBack(_)
            | PlannedWork::NeedsNone(_)) => idle(PlannedRow { work, ..row }),
        };
        made.push(row);
        progress.step();
        if stopped.is_some() {
            break;
        }
    }
    signals.abort();
    made.extend(undrilled(rows, stopped.unwrap_or_default()));
    Ok(made)
}

/// Rows of which nothing is called, and why, where that would have been.
fn undrilled(rows: impl IntoIterator<Item = PlannedRow>, why: &str) -> Vec<DrilledRow> {
    let rows = rows.into_iter();
    rows.map(|row| match row.work {
        PlannedWork::Drill(planned) => DrilledRow {
            sample: Some(planned.sample.clone()),
            ..undone_row(row.contract, DrillEnd::not_drilled(why.to_owned()))
        },
        work @ (PlannedWork::NotDrilled(_)
        | PlannedWork::NoWayBack(_)
        | PlannedWork::NeedsNone(_)) => idle(PlannedRow { work, ..row }),
    })
    .collect()
}

/// A row without a drill.
fn idle(row: PlannedRow) -> DrilledRow {
    let state = match row.work {
        PlannedWork::NoWayBack(how) => RowState::NoWayBack(how),
        PlannedWork::NeedsNone(why) => RowState::NeedsNone(why),
        PlannedWork::NotDrilled(why) => RowState::Drilled(DrillEnd::not_drilled(why)),
        PlannedWork::Drill(_) => {
            return undone_row(row.contract, DrillEnd::not_drilled(STOPPED.to_owned()));
        }
    };
    DrilledRow {
        contract: row.contract,
        sample: None,
        state,
        took: Duration::ZERO,
    }
}

fn undone_row(contract: String, end: DrillEnd) -> DrilledRow {
    DrilledRow {
        contract,
        sample: None,
        state: RowState::Drilled(end),
        took: Duration::ZERO,
    }
}
