//! `packs: require`: a policy comes in force only if the test packs beside it say of each call what
//! they expect, judged as `toolgate test` judges. In this process, in bounded time, on the thread that
//! reads the files: never on one that serves.

use super::find;
use super::suite::{SampleVerdict, SuiteTerms, Suites};
use crate::cli::files;
use crate::model::clock::Clock;
use crate::model::counted::counted;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::policy::Policy;
use crate::policy::bundle::Bundle;
use crate::policy::bundle::notes::{self, RollbackNote};
use crate::policy::bundle::shelf::PolicyShelf;
use crate::policy::live::LoadResult;
use crate::policy::locate::YAML_FILE_BYTES_MAX;
use crate::policy::pack::EXPECT_ALLOW;
use crate::policy::sources::{PackTerms, SourceFile, SourceKind};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long all packs together may take; one call more may end after it.
pub(super) const PACKS_TIME_MAX: Duration = Duration::from_secs(20);
/// Cases that are named of those that fail.
const MAX_FAILURES_NAMED: usize = 100;

/// What readings of one configuration are held to.
pub(in crate::cli) struct RequiredPacks {
    config: PathBuf,
    shelf: PolicyShelf,
    /// What became of the packs of the last reading, by its fingerprint.
    last: Mutex<Option<JudgedPacks>>,
}

/// What became of the packs of one reading.
#[derive(Clone)]
struct JudgedPacks {
    fingerprint: [u8; 32],
    failures: Vec<Diagnostic>,
}

impl RequiredPacks {
    /// For the configuration at `config`, whose data directory is `data`.
    pub(in crate::cli) fn new(config: PathBuf, data: &Path) -> Self {
        Self {
            config,
            shelf: PolicyShelf::of(data),
            last: Mutex::new(None),
        }
    }

    /// The same reading, without the policy where it may not come in force: while a rollback writes the
    /// files, or because its packs fail.
    pub(in crate::cli) fn judge(&self, mut reading: LoadResult) -> LoadResult {
        // The end of a rollback changes what may come in force, and no file of the policy.
        let notes = self.shelf.directory();
        if notes.is_dir() {
            reading.watched.insert((notes.to_owned(), false));
        }
        match notes::under_way(&self.shelf) {
            Ok(None) => {}
            Ok(Some(note)) => return self.unfinished(reading, &rolling_back(&note)),
            Err(error) => return self.unfinished(reading, &error.to_string()),
        }
        let is_required = reading.packs == PackTerms::Require;
        let found = self.gather(&mut reading, is_required);
        let Some(policy) = reading.policy.as_ref().filter(|_| is_required) else {
            return reading;
        };
        let mut bytes = Sha256::new_with_prefix(reading.fingerprint);
        for file in &reading.sources.files {
            bytes.update(Sha256::digest(&file.text));
        }
        reading.fingerprint = bytes.finalize().into();
        let failures = match found {
            Ok(packs) => self.failures(&packs, policy, reading.fingerprint),
            Err(why) => vec![self.about(Severity::Error, &why, "let this account read them")],
        };
        self.refuse(&mut reading, failures);
        reading
    }

    /// Takes the policy away if there are `failures`, unless an operator has said that these very files
    /// may come in force all the same.
    fn refuse(&self, reading: &mut LoadResult, failures: Vec<Diagnostic>) {
        if failures.is_empty() {
            return;
        }
        let Some(note) = self.forced(reading) else {
            reading.policy = None;
            reading.diagnostics.extend(failures);
            return;
        };
        let message = format!(
            "packs fail, and it was rolled back to these files by force: {} ({})",
            note.why.unwrap_or_default(),
            note.by
        );
        let hint = "mend the packs, or the policy; `toolgate test` shows them";
        let told = self.about(Severity::Warning, &message, hint);
        reading.diagnostics.push(told);
    }

    /// The rollback by which these very files may come in force.
    fn forced(&self, reading: &LoadResult) -> Option<RollbackNote> {
        let note = notes::last(&self.shelf).ok().flatten()?;
        let name = Bundle::of(&reading.sources).ok()?.name();
        (note.forced && note.to == name).then_some(note)
    }

    /// A reading of which nothing may come in force, and which is another one as soon as that ends.
    fn unfinished(&self, mut reading: LoadResult, why: &str) -> LoadResult {
        reading.policy = None;
        let bytes = Sha256::new_with_prefix(reading.fingerprint).chain_update(why);
        reading.fingerprint = bytes.finalize().into();
        let hint = "`toolgate policy rollback` with the hash of the bundle that is wanted writes all of it";
        reading
            .diagnostics
            .push(self.about(Severity::Error, why, hint));
        reading
    }

    /// Adds the packs to what the policy was made of; their paths, or why not all of them are known.
    fn gather(&self, reading: &mut LoadResult, is_required: bool) -> Result<Vec<PathBuf>, String> {
        let packs = find::beside(&self.config, &reading.files);
        let packs = packs.map_err(|error| format!("the test packs are not found: {error:#}"))?;
        let mut unread = None;
        for path in &packs {
            if let Some(folder) = path.parent().filter(|_| is_required) {
                let is_seen = |(seen, deep): &(PathBuf, bool)| *deep && folder.starts_with(seen);
                if !reading.watched.iter().any(is_seen) {
                    reading.watched.insert((folder.to_owned(), true));
                }
            }
            match text_of(path) {
                Ok(text) => reading.sources.files.push(SourceFile {
                    path: path.clone(),
                    kind: SourceKind::Pack,
                    text,
                }),
                Err(why) => unread = Some(why),
            }
        }
        match unread {
            Some(why) => Err(why),
            None => Ok(packs),
        }
    }

    /// What is wrong with the packs; judged once for one reading.
    fn failures(
        &self,
        packs: &[PathBuf],
        policy: &Policy,
        fingerprint: [u8; 32],
    ) -> Vec<Diagnostic> {
        let mut last = self.last.lock();
        if let Some(known) = last.as_ref().filter(|last| last.fingerprint == fingerprint) {
            return known.failures.clone();
        }
        let failures = failures(&self.config, packs, policy);
        *last = Some(JudgedPacks {
            fingerprint,
            failures: failures.clone(),
        });
        failures
    }

    fn about(&self, severity: Severity, message: &str, hint: &str) -> Diagnostic {
        about(&self.config, severity, message, hint)
    }
}

/// What is wrong with these packs of the configuration at `config`, under `policy`: an error for each
/// case that fails, by its name.
pub(in crate::cli) fn failures(
    config: &Path,
    packs: &[PathBuf],
    policy: &Policy,
) -> Vec<Diagnostic> {
    if packs.is_empty() {
        let message = "`packs: require`, and there is no pack beside the policies";
        let hint = "write one in `tests` beside the policies, or take `packs` away";
        return vec![about(config, Severity::Error, message, hint)];
    }
    let terms = SuiteTerms {
        named: Some(config),
        given: Some(Arc::new(policy.clone())),
        until: Some(Clock.steady() + PACKS_TIME_MAX),
    };
    let suites = match Suites::run_on(packs, &terms) {
        Ok(suites) => suites,
        Err(error) => {
            let message = format!("the packs cannot be run: {error:#}");
            let hint = "`toolgate test` says the same";
            return vec![about(config, Severity::Error, &message, hint)];
        }
    };
    let mut found = wrong(&suites);
    if suites.is_cut {
        let message = format!(
            "the packs were not done within {} s: what is not judged does not pass",
            PACKS_TIME_MAX.as_secs()
        );
        let hint =
            "divide the packs, and keep the longest elsewhere, for `toolgate test PATH` in CI";
        found.insert(0, about(config, Severity::Error, &message, hint));
    }
    let more = found.len().saturating_sub(MAX_FAILURES_NAMED);
    if more > 0 {
        found.truncate(MAX_FAILURES_NAMED);
        let message = format!("the packs have {} more", counted(more, "problem"));
        let hint = "`toolgate test` shows them";
        found.push(about(config, Severity::Error, &message, hint));
    }
    found
}

/// Each case that is not as expected, and each pack that cannot be run.
fn wrong(suites: &Suites) -> Vec<Diagnostic> {
    let errors = suites.diagnostics.iter();
    let errors = errors
        .filter(|one| one.severity == Severity::Error)
        .cloned();
    let failed = suites.runs().flat_map(|run| {
        let failed = run
            .judged()
            .filter(|(_, judged)| judged.verdict != SampleVerdict::Expected);
        failed.map(move |(posed, judged)| {
            let got = judged.got.as_ref().map_or(EXPECT_ALLOW, |got| &got.code);
            let expected = posed.expect.as_deref().unwrap_or(EXPECT_ALLOW);
            Diagnostic {
                severity: Severity::Error,
                message: format!(
                    "pack `{}`, case `{}`: {} got={got} expect={expected}",
                    run.pack.name.escape_debug(),
                    posed.name.escape_debug(),
                    judged.verdict.words()
                ),
                hint: Some("mend the policy, or say in the pack what is right now".to_owned()),
                ..judged.place.clone()
            }
        })
    });
    errors.chain(failed).collect()
}

/// The text of the pack at `path`, or why there is none.
fn text_of(path: &Path) -> Result<String, String> {
    let cannot = |why: &dyn std::fmt::Display| format!("{} cannot be read: {why}", path.display());
    let bytes = files::read(path, YAML_FILE_BYTES_MAX).map_err(|error| cannot(&error))?;
    String::from_utf8(bytes).map_err(|_| cannot(&"it is not UTF-8"))
}

/// Why nothing comes in force while files are written.
fn rolling_back(note: &RollbackNote) -> String {
    format!(
        "a rollback to the bundle {} has begun and not ended: the files may be of two policies",
        note.to
    )
}

fn about(config: &Path, severity: Severity, message: &str, hint: &str) -> Diagnostic {
    Diagnostic {
        severity,
        file: config.display().to_string(),
        line: 0,
        column: 0,
        length: 0,
        message: message.to_owned(),
        hint: Some(hint.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was not judged in time is not taken for what passes.
    #[test]
    fn packs_that_take_too_long_are_cut() {
        let packs = [PathBuf::from("never-read.yaml")];
        let terms = SuiteTerms {
            until: Some(Duration::ZERO),
            ..SuiteTerms::default()
        };
        let suites = Suites::run_on(&packs, &terms).unwrap();
        assert!(suites.is_cut && suites.runs().next().is_none());
        let in_time = Suites::run_on(&[], &SuiteTerms::default()).unwrap();
        assert!(!in_time.is_cut);
    }
}
