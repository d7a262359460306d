//! The report that people read.

use super::coverage::{Coverage, missing};
use super::rollbacks::{self, RollbackCoverage};
use super::suite::{PackRun, SampleResult, SampleVerdict, Suites};
use crate::cli::ledger::text::plain;
use crate::gate::pipeline::Stage;
use crate::model::counted::counted;
use crate::policy::pack::{EXPECT_ALLOW, PosedCall};
use std::fmt::{self, Write};

/// Columns for a sample's name.
const SAMPLE_NAME_COLUMNS: usize = 48;

/// Writes the report; `quiet`: only what is not as expected, and the sum.
pub(super) fn write(suites: &Suites, quiet: bool, coverage: bool, out: &mut String) -> fmt::Result {
    for diagnostic in &suites.diagnostics {
        writeln!(out, "{}", plain_lines(&diagnostic.to_string()))?;
    }
    if !suites.diagnostics.is_empty() {
        out.push('\n');
    }
    for run in suites.runs() {
        let judged = || {
            run.judged()
                .filter(|(_, judged)| !quiet || judged.verdict != SampleVerdict::Expected)
        };
        if judged().next().is_none() && quiet {
            continue;
        }
        writeln!(
            out,
            "pack {} · {} · policy {}",
            plain(&run.pack.name),
            run.pack.file.display(),
            run.policy.version
        )?;
        for (posed, judged) in judged() {
            sample(run, posed, judged, out)?;
        }
        out.push('\n');
    }
    for suite in &suites.all {
        let of = || {
            suite
                .runs
                .iter()
                .map(|run| plain(&run.pack.name))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if coverage {
            covered(&Coverage::of(suite), &of(), out)?;
            taken_back(&rollbacks::of(suite), out)?;
            out.push('\n');
        }
        for code in missing(suite) {
            writeln!(
                out,
                "MISSING  no sample of {} shows a call that is refused with {code}",
                of()
            )?;
        }
    }
    sum(suites, out)
}

fn sample(
    run: &PackRun,
    posed: &PosedCall,
    judged: &SampleResult,
    out: &mut String,
) -> fmt::Result {
    let name = plain(&posed.name);
    let expect = posed.expect.as_deref().unwrap_or(EXPECT_ALLOW);
    if judged.verdict == SampleVerdict::Expected {
        return writeln!(out, "  ok    {name:SAMPLE_NAME_COLUMNS$}  {expect}");
    }
    writeln!(
        out,
        "  FAIL  {name:SAMPLE_NAME_COLUMNS$}  {}",
        verdict(posed, judged)
    )?;
    let place = &judged.place;
    let (file, caller, tool) = (
        run.pack.file.display(),
        plain(&posed.caller),
        plain(posed.tool.as_str()),
    );
    writeln!(
        out,
        "        {file}:{}:{}: {tool} by {caller}",
        place.line, place.column
    )?;
    writeln!(out, "        {}", way(judged))?;
    if let Some(because) = &posed.because {
        writeln!(out, "        expected {expect}, because {}", plain(because))?;
    }
    Ok(())
}

/// The verdict as the documents write it (003-35).
pub(super) fn verdict(posed: &PosedCall, judged: &SampleResult) -> String {
    let got = judged.got.as_ref().map_or(EXPECT_ALLOW, |got| &got.code);
    let expect = posed.expect.as_deref().unwrap_or(EXPECT_ALLOW);
    format!("{} got={got} expect={expect}", judged.verdict.words())
}

/// The steps, in words.
pub(super) fn way(judged: &SampleResult) -> String {
    let words = |steps: &[Stage]| {
        steps
            .iter()
            .map(|stage| stage.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (&judged.got, judged.steps.split_last()) {
        (Some(got), Some((last, []))) => {
            format!("refused at {}: {}", last.as_str(), plain(&got.words))
        }
        (Some(got), Some((last, before))) => {
            format!(
                "passed {}; refused at {}: {}",
                words(before),
                last.as_str(),
                plain(&got.words)
            )
        }
        (_, _) => format!("passed {}", words(&judged.steps)),
    }
}

fn covered(coverage: &Coverage, packs: &str, out: &mut String) -> fmt::Result {
    let reached = coverage.rows.len() - coverage.missing().count();
    writeln!(
        out,
        "coverage of {packs}: {reached} of {} answers",
        coverage.rows.len()
    )?;
    for row in coverage.missing() {
        let tool = row
            .tool
            .as_ref()
            .map_or("of any tool", |tool| tool.as_str());
        writeln!(out, "  no sample reaches  {tool:36}  {}", row.answer)?;
    }
    Ok(())
}

/// The share of what changes something that can be taken back, as far as a sample shows it
/// (003-106).
fn taken_back(rollbacks: &[RollbackCoverage], out: &mut String) -> fmt::Result {
    let tested = rollbacks
        .iter()
        .filter(|rollback| rollback.is_tested)
        .count();
    let Some(percent) = (100 * tested).checked_div(rollbacks.len()) else {
        return Ok(());
    };
    let of = counted(rollbacks.len(), "contract");
    let verb = if rollbacks.len() == 1 {
        "writes"
    } else {
        "write"
    };
    writeln!(
        out,
        "rollbacks described by a sample: {tested} of {of} that {verb} ({percent} %)"
    )?;
    for RollbackCoverage {
        contract,
        tool,
        why,
        ..
    } in rollbacks.iter().filter(|rollback| !rollback.is_tested)
    {
        match tool {
            Some(tool) => writeln!(out, "  no sample tries    {contract:36}  {tool}")?,
            None => writeln!(out, "  {:17}  {contract}", why.unwrap_or_default())?,
        }
    }
    Ok(())
}

fn sum(suites: &Suites, out: &mut String) -> fmt::Result {
    let (packs, samples) = (
        suites.runs().count(),
        suites.runs().map(|run| run.judged.len()).sum::<usize>(),
    );
    let wrong = SampleVerdict::ALL
        .into_iter()
        .filter(|verdict| *verdict != SampleVerdict::Expected);
    let mut problems: Vec<String> = wrong
        .map(|verdict| (suites.count(verdict), verdict.words()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    let missing: usize = suites.all.iter().map(|suite| missing(suite).len()).sum();
    problems.extend((missing > 0).then(|| format!("{missing} MISSING")));
    problems.extend(
        (suites.errors() > 0).then(|| format!("{} in files", counted(suites.errors(), "error"))),
    );
    let of = format!("{}, {}", counted(packs, "pack"), counted(samples, "sample"));
    if problems.is_empty() {
        return writeln!(out, "ok: {of}, all as expected");
    }
    writeln!(out, "FAILED: {of}: {}", problems.join(", "))
}

fn plain_lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// What is said where no call could be judged: that nothing is known to be wrong would be no news.
pub(super) fn nothing_decided(calls: u64, what: &str) -> String {
    match calls {
        0 => format!("NOTHING DECIDED: no recorded {what} is asked for"),
        _ => format!(
            "NOTHING DECIDED: of {} none could be judged",
            counted(calls, what)
        ),
    }
}
