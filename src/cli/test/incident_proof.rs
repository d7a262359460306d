//! What an incident asks of the test packs before its tools come back (003-43): all of them pass, and they hold
//! a sample of each call that went wrong.

use super::find::{self, FoundPacks};
use super::suite::{SampleVerdict, Suites};
use crate::cli::ledger::text::plain;
use crate::model::counted::counted;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::policy::pack::EXPECT_ALLOW;
use crate::store::incidents::{IncidentSample, RunPacks};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Samples and calls that are named.
const MAX_NAMED: usize = 3;

/// Runs the packs beside the policies of the configuration at `path`, as they stand then.
pub(in crate::cli) fn runner(path: PathBuf) -> Arc<RunPacks> {
    Arc::new(move |samples| {
        prove(&path, samples).unwrap_or_else(|error| Err(plain(&format!("{error:#}"))))
    })
}

/// Whether every sample is as expected, and each of `wanted` is one of them, with what it expects: a pack that
/// came to expect something else since shows nothing.
fn prove(path: &Path, wanted: &[IncidentSample]) -> anyhow::Result<Result<String, String>> {
    let (packs, suites) = match find::configured_packs(Some(path))? {
        FoundPacks::Packs(packs) => {
            let suites = Suites::run(&packs, Some(path))?;
            (packs, suites)
        }
        FoundPacks::Unknown(diagnostics) => (Vec::new(), Suites::of_none(diagnostics)),
    };
    let errors = suites.diagnostics.iter();
    let errors = errors.filter(|one| one.severity == Severity::Error);
    // In one line, with the hint behind it.
    let line = |error: &Diagnostic| error.to_string().replace("\n    help: ", "; ");
    let errors: Vec<String> = errors.map(line).collect();
    if !errors.is_empty() {
        let words = format!("the packs cannot be run: {}", named(&errors));
        return Ok(Err(plain(&words)));
    }
    let all: Vec<_> = suites
        .runs()
        .flat_map(super::suite::PackRun::judged)
        .collect();
    let wrong = all
        .iter()
        .filter(|(_, judged)| judged.verdict != SampleVerdict::Expected);
    let wrong: Vec<String> = wrong
        .map(|(posed, judged)| format!("{}: {}", judged.verdict.words(), posed.name))
        .collect();
    if !wrong.is_empty() {
        let (samples, names) = (counted(all.len(), "sample"), named(&wrong));
        let words = format!("{} of {samples} not as expected: {names}", wrong.len());
        return Ok(Err(plain(&words)));
    }
    let posed = all.iter().filter_map(|(posed, _)| {
        let expect = posed.expect.as_deref().unwrap_or(EXPECT_ALLOW);
        Some((posed.repro.as_deref()?, expect))
    });
    let posed: BTreeSet<(&str, &str)> = posed.collect();
    let is_posed = |one: &&IncidentSample| posed.contains(&(&*one.action_id, &*one.expect));
    let missing = wanted.iter().filter(|one| !is_posed(one));
    let missing: Vec<String> = missing
        .map(|one| format!("{} that is to be {}", one.action_id, one.expect))
        .collect();
    if !missing.is_empty() {
        let words = format!(
            "no pack beside the policies has a sample of {}",
            named(&missing)
        );
        return Ok(Err(plain(&words)));
    }
    let (samples, packs) = (counted(all.len(), "sample"), counted(packs.len(), "pack"));
    Ok(Ok(format!("{samples} of {packs} as expected")))
}

/// The first of them, and how many more there are.
fn named(all: &[String]) -> String {
    let more = all.len().saturating_sub(MAX_NAMED);
    let first: Vec<&str> = all.iter().take(MAX_NAMED).map(String::as_str).collect();
    let first = first.join("; ");
    if more == 0 {
        return first;
    }
    format!("{first}; and {more} more")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a pack is one line for an operator, who reads its hint in it and no
    /// written-out line break.
    #[test]
    fn what_is_wrong_with_a_pack_is_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name);
        let config = "servers: { s: { command: x } }\nmode: observe\npolicies: [policy.yaml]\n";
        let policy = "contracts: { s__read: { purpose: A test., actions: [read], secrets: [] } }\n";
        let pack = "pack: late\nsamples:\n  - { name: one, caller: anonymous, tool: s__read, arguments: {}, expect: too_mcuh }\n";
        std::fs::create_dir(place("tests")).unwrap();
        for (name, text) in [
            ("toolgate.yaml", config),
            ("policy.yaml", policy),
            ("tests/late.yaml", pack),
        ] {
            std::fs::write(place(name), text).unwrap();
        }
        let why = runner(place("toolgate.yaml"))(&[]).unwrap_err();
        assert!(why.starts_with("the packs cannot be run: "), "{why}");
        assert!(
            why.contains("nothing is refused with `too_mcuh`; known here: "),
            "{why}"
        );
        assert!(!why.contains("\\u{") && !why.contains('\n'), "{why}");
    }
}
