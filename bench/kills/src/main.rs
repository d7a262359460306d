//! `toolgate-kills [--kills N] [--seed S] [--programs DIR]`: kills toolgate at random moments
//! until N kills have hit calls in flight, and checks I1 to I9. Exit code 1 when one is violated,
//! or when what was to happen besides never did.

#![expect(clippy::disallowed_methods, reason = "it has no clock but this")]

use anyhow::{Context as _, bail};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use toolgate::store::journal::JournalReader;
use toolgate_faults::agent::Agents;
use toolgate_faults::dice::{Dice, any_seed};
use toolgate_faults::invariants::{Violation, check};
use toolgate_faults::kills::{Load, Mix};
use toolgate_faults::operators::Operators;
use toolgate_faults::rows::{Row, row};
use toolgate_faults::stand::{Settings, Stand};

/// Kills on one data directory; what happened on it is judged, then the next is begun.
const BATCH: u64 = 250;
/// Agents, each with a session of its own.
const SESSIONS: u64 = 6;
/// How long a toolgate serves at most before it is killed, and how long the tool takes at most;
/// milliseconds.
const LONGEST_LIFE: u64 = 120;
/// What of the calls is held, and what is answered with any status.
const MIX: Mix = Mix {
    held: 15,
    statuses: 15,
};
const SLOWEST: u64 = 15;

/// The rows of a data directory, oldest first.
fn rows(data: &Path) -> anyhow::Result<Vec<Row>> {
    let records = JournalReader::open(data)?.map(|record| {
        let record = record?;
        row(record.seq, &record.bytes)
    });
    records.filter_map(Result::transpose).collect()
}

struct Asked {
    kills: u64,
    seed: u64,
    programs: PathBuf,
}

fn asked() -> anyhow::Result<Asked> {
    let programs = std::env::current_exe()?
        .parent()
        .context("no directory")?
        .to_owned();
    let mut asked = Asked {
        kills: 2000,
        seed: any_seed(),
        programs,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--kills" => asked.kills = value.parse()?,
            "--seed" => asked.seed = value.parse()?,
            "--programs" => asked.programs = value.into(),
            _ => bail!(
                "unknown option {word}; usage: toolgate-kills [--kills N] [--seed S] [--programs DIR]"
            ),
        }
    }
    Ok(asked)
}

/// What came of all kills so far.
#[derive(Default)]
struct Sum {
    /// Those that hit a call in flight; no other says anything.
    kills: u64,
    idle: u64,
    calls: u64,
    executions: usize,
    replayed: usize,
    unknown: usize,
    /// Calls that were answered with any status.
    statuses: usize,
    /// What operators have decided, and how much of it was executed.
    allowed: u64,
    denied: u64,
    held: usize,
    restarts: Vec<Duration>,
    violations: Vec<Violation>,
}

#[tokio::main]
async fn main() -> anyhow::Result<std::process::ExitCode> {
    let asked = asked()?;
    eprintln!("{} kills, seed {}", asked.kills, asked.seed);
    let (mut sum, dice, begun) = (Sum::default(), Dice::new(asked.seed), Instant::now());
    while sum.kills < asked.kills {
        let batch = BATCH.min(asked.kills - sum.kills);
        Box::pin(killed(&asked, batch, dice.fork(sum.kills), &mut sum)).await?;
    }
    Ok(report(&mut sum, begun.elapsed()))
}

async fn killed(asked: &Asked, kills: u64, mut dice: Dice, sum: &mut Sum) -> anyhow::Result<()> {
    let mut stand = Stand::new(&asked.programs, Settings::of("toolgate")).await?;
    stand.start(None).await?;
    let agents = Agents::new(stand.agents(), dice.fork(1));
    let operators = Operators::start(stand.operators(), dice.fork(3));
    let load = Load::mixed(&agents, (SESSIONS, SLOWEST), MIX, &dice.fork(2));
    let upto = sum.kills + kills;
    while sum.kills < upto {
        tokio::time::sleep(Duration::from_micros(dice.below(LONGEST_LIFE * 1000))).await;
        let hit = agents.open() > 0;
        stand.kill().await?;
        sum.restarts.push(stand.start(None).await?);
        agents.moved(stand.agents());
        operators.moved(stand.operators());
        if hit {
            sum.kills += 1;
            progress(sum, asked.kills, sum.calls + load.made());
        } else {
            sum.idle += 1;
        }
    }
    sum.calls += load.stop().await;
    let (allowed, denied) = operators.decided();
    drop(operators);
    let evidence = stand.evidence(&agents, rows).await?;
    sum.statuses += evidence.excused.len();
    (sum.allowed, sum.denied) = (sum.allowed + allowed, sum.denied + denied);
    sum.held += evidence
        .executions
        .iter()
        .filter(|execution| execution.tool == "held")
        .count();
    let found = check(&evidence);
    for violation in &found {
        eprintln!("\n{violation}");
    }
    if !found.is_empty() {
        eprintln!("everything is kept in {}", stand.directory.path().display());
        stand.directory.disable_cleanup(true);
    }
    sum.violations.extend(found);
    sum.executions += evidence.executions.len();
    let told = |what: fn(&toolgate_faults::agent::What) -> bool| {
        evidence.told.iter().filter(|told| what(&told.what)).count()
    };
    sum.replayed +=
        told(|what| matches!(what, toolgate_faults::agent::What::Done { replayed: true }));
    sum.unknown += told(|what| matches!(what, toolgate_faults::agent::What::Unknown));
    Ok(())
}

fn progress(sum: &Sum, kills: u64, calls: u64) {
    let mut err = std::io::stderr();
    let end = if err.is_terminal() { "\r" } else { "\n" };
    if err.is_terminal() || sum.kills.is_multiple_of(50) {
        let violations = sum.violations.len();
        let _ = write!(
            err,
            "{} of {kills} kills, {calls} calls, {violations} violations{end}",
            sum.kills
        );
    }
}

/// What was to happen between the kills and never did.
fn missing(sum: &Sum) -> impl Iterator<Item = &'static str> {
    let happened = [
        ("held calls that operators allowed", sum.allowed > 0),
        ("held calls that were executed", sum.held > 0),
        ("calls that were answered with any status", sum.statuses > 0),
    ];
    let is_asked = sum.kills > 0;
    happened
        .into_iter()
        .filter(move |(_, did)| is_asked && !did)
        .map(|(enemy, _)| enemy)
}

fn report(sum: &mut Sum, took: Duration) -> std::process::ExitCode {
    sum.restarts.sort_unstable();
    let percentile = |percent: usize| {
        let at = (sum.restarts.len() * percent)
            .div_ceil(100)
            .saturating_sub(1);
        sum.restarts
            .get(at)
            .copied()
            .unwrap_or_default()
            .as_secs_f64()
            * 1e3
    };
    #[expect(clippy::cast_precision_loss, reason = "a count of kills is small")]
    let bound = 3.0 / sum.kills.max(1) as f64;
    println!(
        "{} kills that hit calls in flight ({} more that did not) in {:.0} s, {} calls, {} executions, {} answers replayed, {} outcomes unknown",
        sum.kills,
        sum.idle,
        took.as_secs_f64(),
        sum.calls,
        sum.executions,
        sum.replayed,
        sum.unknown
    );
    println!(
        "{} of the calls were answered with any status; operators allowed {} held calls and denied {}, {} of them were executed",
        sum.statuses, sum.allowed, sum.denied, sum.held
    );
    for enemy in missing(sum) {
        println!("NOTHING PROVED about {enemy}: it never happened; run more kills");
    }
    println!(
        "restart to serving: p50 {:.0} ms, p99 {:.0} ms",
        percentile(50),
        percentile(99)
    );
    if sum.violations.is_empty() && missing(sum).next().is_some() {
        return std::process::ExitCode::FAILURE;
    }
    if sum.violations.is_empty() {
        println!(
            "0 violations: with 95 % confidence fewer than {:.3} % of kills cause one (3/N)",
            bound * 100.0
        );
        return std::process::ExitCode::SUCCESS;
    }
    println!("{} violations", sum.violations.len());
    std::process::ExitCode::FAILURE
}
