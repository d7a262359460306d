//! What an incident asks of the test packs before its tools come back (003-43): all of them pass, and they hold
//! a sample of each call that went wrong.

use super::find::{self, FoundPacks};
use super::required::PACKS_TIME_MAX;
use super::suite::{SampleVerdict, SuiteTerms, Suites};
use crate::cli::ledger::text::plain;
use crate::model::clock::Clock;
use crate::model::counted::counted;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::policy::pack::{EXPECT_ALLOW, PosedCall};
use crate::store::incidents::{IncidentSample, RunPacks};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Samples and calls that are named.
const MAX_NAMED: usize = 3;

/// Runs the packs beside the policies of the configuration at `path`, as they stand then.
pub(in crate::cli) fn runner(path: PathBuf) -> Arc<RunPacks> {
    Arc::new(move |samples| {
        let until = Clock.steady() + PACKS_TIME_MAX;
        prove(&path, samples, until).unwrap_or_else(|error| Err(plain(&format!("{error:#}"))))
    })
}

/// Whether every sample is as expected, and each of `wanted` is one of them, of its tool and with what it expects: a
/// pack that came to be about something else since shows nothing. Arguments may be fewer than the call had.
/// What is not judged `until` then, in steady time, is not as expected.
fn prove(
    path: &Path,
    wanted: &[IncidentSample],
    until: Duration,
) -> anyhow::Result<Result<String, String>> {
    let terms = SuiteTerms {
        named: Some(path),
        until: Some(until),
        ..SuiteTerms::default()
    };
    let (packs, suites) = match find::configured_packs(Some(path))? {
        FoundPacks::Packs(packs) => {
            let suites = Suites::run_on(&packs, &terms)?;
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
    if suites.is_cut {
        let words = format!(
            "the packs were not done within {} s: what is not judged does not pass",
            PACKS_TIME_MAX.as_secs()
        );
        return Ok(Err(words));
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
    let is_posed = |one: &IncidentSample| all.iter().any(|(posed, _)| shows(posed, one));
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

/// Whether a sample of a pack is that of the call that `wanted` names.
fn shows(posed: &PosedCall, wanted: &IncidentSample) -> bool {
    let is_of_tool = |tool: &String| posed.tool.as_str() == tool;
    posed.repro.as_ref() == Some(&wanted.action_id)
        && posed.expect.as_deref().unwrap_or(EXPECT_ALLOW) == wanted.expect
        && wanted.tool.as_ref().is_none_or(is_of_tool)
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
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::sync::mpsc::channel;

    /// A directory with a policy of two tools, and `pack` beside it.
    fn beside(pack: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let config = "servers: { s: { command: x } }\nmode: observe\npolicies: [policy.yaml]\n";
        let policy = "contracts:\n  s__read: { purpose: A test., actions: [read], secrets: [] }\n  s__find: { purpose: A test., actions: [read], secrets: [] }\nrepetition: { unwatched: true }\nbudgets: { unlimited: true }\n";
        std::fs::create_dir(directory.path().join("tests")).unwrap();
        for (name, text) in [
            ("toolgate.yaml", config),
            ("policy.yaml", policy),
            ("tests/late.yaml", pack),
        ] {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    /// 003-43: a sample of another tool shows nothing of the call whose `repro` it names.
    #[test]
    fn a_sample_of_another_tool_shows_nothing() {
        let wanted = |tool: Option<&str>| IncidentSample {
            action_id: "0198f1a2".to_owned(),
            expect: EXPECT_ALLOW.to_owned(),
            file: "tests/late.yaml".to_owned(),
            tool: tool.map(str::to_owned),
        };
        let directory = beside(
            "pack: late\nsamples:\n  - { name: one, caller: anonymous, tool: s__find, arguments: {}, expect: allow, repro: \"0198f1a2\" }\n",
        );
        let run = runner(directory.path().join("toolgate.yaml"));
        let why = run(&[wanted(Some("s__read"))]).unwrap_err();
        assert!(why.contains("has a sample of 0198f1a2"), "{why}");
        for tool in [Some("s__find"), None] {
            let said = run(&[wanted(tool)]).unwrap();
            assert_eq!(said, "1 sample of 1 pack as expected");
        }
    }

    /// A pipe among the packs is refused, and packs that take too long are cut: closing ends in any case.
    #[test]
    fn what_never_ends_is_not_as_expected() {
        let directory = beside(
            "pack: late\nsamples:\n  - { name: one, caller: anonymous, tool: s__find, arguments: {}, expect: allow }\n",
        );
        let path = directory.path().join("toolgate.yaml");
        let cut = prove(&path, &[], Duration::ZERO).unwrap().unwrap_err();
        assert!(cut.contains("were not done within 20 s"), "{cut}");
        let pipe = directory.path().join("tests/pipe.yaml");
        mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let (sender, receiver) = channel();
        std::thread::spawn(move || sender.send(runner(path)(&[])));
        let said = receiver.recv_timeout(Duration::from_mins(1)).unwrap();
        assert!(said.unwrap_err().contains("is not a file"));
    }

    /// What is wrong with a pack is one line for an operator, who reads its hint in it and no
    /// written-out line break.
    #[test]
    fn what_is_wrong_with_a_pack_is_one_line() {
        let directory = beside(
            "pack: late\nsamples:\n  - { name: one, caller: anonymous, tool: s__read, arguments: {}, expect: too_mcuh }\n",
        );
        let why = runner(directory.path().join("toolgate.yaml"))(&[]).unwrap_err();
        assert!(why.starts_with("the packs cannot be run: "), "{why}");
        assert!(
            why.contains("nothing is refused with `too_mcuh`; known here: "),
            "{why}"
        );
        assert!(!why.contains("\\u{") && !why.contains('\n'), "{why}");
    }
}
