//! The reports that programs read: JSON, and the XML of `JUnit`, which every CI system shows.

use super::coverage::{Coverage, CoverageRow, missing};
use super::rollbacks::{self, RollbackCoverage};
use super::suite::{PackRun, SampleResult, SampleVerdict, Suites};
use super::words::{verdict, way};
use crate::model::diagnostic::Severity;
use crate::policy::pack::{EXPECT_ALLOW, PosedCall};
use serde_json::{Value, json};
use std::fmt::{self, Write};

/// Everything, as one object.
pub(super) fn json(suites: &Suites) -> Value {
    let wrong = wrong(suites);
    let samples: usize = suites.runs().map(|run| run.judged.len()).sum();
    json!({
        "packs": suites.runs().map(pack).collect::<Vec<_>>(),
        "missing": suites.all.iter().flat_map(missing).collect::<Vec<_>>(),
        "coverage": suites.all.iter().flat_map(|suite| Coverage::of(suite).rows).map(row).collect::<Vec<_>>(),
        "rollbacks": suites.all.iter().flat_map(rollbacks::of).map(rollback).collect::<Vec<_>>(),
        "problems": suites.diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "samples": samples,
        "failed": wrong,
    })
}

fn wrong(suites: &Suites) -> usize {
    suites
        .runs()
        .flat_map(|run| &run.judged)
        .filter(|judged| judged.verdict != SampleVerdict::Expected)
        .count()
}

fn pack(run: &PackRun) -> Value {
    let samples: Vec<Value> = run
        .judged()
        .map(|(posed, judged)| sample(posed, judged))
        .collect();
    json!({ "pack": run.pack.name, "file": run.pack.file, "policy": run.policy.version, "samples": samples })
}

fn sample(posed: &PosedCall, judged: &SampleResult) -> Value {
    json!({
        "name": posed.name,
        "line": judged.place.line,
        "caller": posed.caller,
        "user": posed.user,
        "tool": posed.tool,
        "expect": posed.expect.as_deref().unwrap_or(EXPECT_ALLOW),
        "got": judged.got.as_ref().map_or(EXPECT_ALLOW, |got| &got.code),
        "verdict": judged.verdict.words(),
        "steps": judged.steps.iter().map(|stage| stage.as_str()).collect::<Vec<_>>(),
    })
}

fn row(row: CoverageRow) -> Value {
    let CoverageRow {
        tool,
        answer,
        samples,
    } = row;
    json!({ "tool": tool, "answer": answer, "samples": samples })
}

fn rollback(rollback: RollbackCoverage) -> Value {
    let RollbackCoverage {
        contract,
        tool,
        why,
        is_tested,
    } = rollback;
    json!({ "contract": contract, "rollback": tool, "why": why, "tested": is_tested })
}

/// As `JUnit` has it: a suite for each pack, and one for what the packs lack.
pub(super) fn junit(suites: &Suites, out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"toolgate test\">"
    )?;
    for run in suites.runs() {
        let failures = run
            .judged
            .iter()
            .filter(|judged| judged.verdict != SampleVerdict::Expected)
            .count();
        begin(&run.pack.name, run.judged.len(), failures, out)?;
        for (posed, judged) in run.judged() {
            let failure = (judged.verdict != SampleVerdict::Expected)
                .then(|| (verdict(posed, judged), way(judged)));
            let place = Some((run.pack.file.display().to_string(), judged.place.line));
            case(&run.pack.name, &posed.name, place, failure, out)?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    let missing = suites
        .all
        .iter()
        .flat_map(missing)
        .map(|code| (format!("a sample expects {code}"), "MISSING".to_owned()));
    let errors = suites
        .diagnostics
        .iter()
        .filter(|one| one.severity == Severity::Error);
    let errors = errors.map(|error| (error.to_string(), "UNREADABLE".to_owned()));
    let lacks: Vec<(String, String)> = missing.chain(errors).collect();
    if !lacks.is_empty() {
        begin("packs", lacks.len(), lacks.len(), out)?;
        for (what, kind) in lacks {
            case("packs", &what, None, Some((kind, what.clone())), out)?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

fn begin(name: &str, tests: usize, failures: usize, out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "  <testsuite name=\"{}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">",
        escaped(name)
    )
}

fn case(
    pack: &str,
    name: &str,
    place: Option<(String, u32)>,
    failure: Option<(String, String)>,
    out: &mut String,
) -> fmt::Result {
    write!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\"",
        escaped(pack),
        escaped(name)
    )?;
    if let Some((file, line)) = place {
        write!(out, " file=\"{}\" line=\"{line}\"", escaped(&file))?;
    }
    match failure {
        None => writeln!(out, "/>"),
        Some((message, words)) => {
            writeln!(
                out,
                ">\n      <failure message=\"{}\">{}</failure>",
                escaped(&message),
                escaped(&words)
            )?;
            writeln!(out, "    </testcase>")
        }
    }
}

/// Text as XML 1.0 may hold it in an element or an attribute; what it may not hold at all is left
/// out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' | '\r' | '\t' => drop(write!(out, "&#{};", u32::from(letter))),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {}
            _ => out.push(letter),
        }
    }
    out
}
