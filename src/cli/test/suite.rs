//! The packs that test the same policies, and what became of their samples.

use super::find;
use crate::cli::explain;
use crate::config;
use crate::gate::pipeline::Stage;
use crate::gate::steps::judge::Notes;
use crate::gate::supposing::steps::{deciding, is_unpinned};
use crate::gate::supposing::{CODES, Question, judge};
use crate::guards::{is_own_code, pins::Unapproved};
use crate::model::caller::Caller;
use crate::model::clock::Clock;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::ToolName;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::policy::pack::{EXPECT_ALLOW, KnownTool, Pack, PosedCall};
use crate::policy::shape::suggest;
use crate::schema::Schema;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Packs that test the same policies.
pub(super) struct Suite {
    pub(super) runs: Vec<PackRun>,
}

/// One pack, judged.
pub(super) struct PackRun {
    pub(super) pack: Pack,
    pub(super) policy: Arc<Policy>,
    /// One for each sample that can be judged, in their order.
    pub(super) judged: Vec<SampleResult>,
}

/// What became of one sample.
pub(super) struct SampleResult {
    /// Its place among the pack's samples.
    pub(super) index: usize,
    pub(super) got: Option<SampleRefusal>,
    pub(super) verdict: SampleVerdict,
    /// The steps that were taken, the last of them perhaps with a refusal.
    pub(super) steps: Vec<Stage>,
    pub(super) place: Diagnostic,
}

impl PackRun {
    /// Each sample and what became of it.
    pub(super) fn judged(&self) -> impl Iterator<Item = (&PosedCall, &SampleResult)> {
        self.judged
            .iter()
            .filter_map(|judged| Some((self.pack.samples.get(judged.index)?, judged)))
    }
}

/// How a sample was refused.
pub(super) struct SampleRefusal {
    pub(super) code: String,
    pub(super) words: String,
    /// Which rule of the contract, from 0.
    pub(super) rule: Option<usize>,
}

/// What that means (003-35).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SampleVerdict {
    Expected,
    UnexpectedPass,
    UnexpectedReject,
    WrongReject,
}

/// Everything that was run, and everything that could not be.
#[derive(Default)]
pub(super) struct Suites {
    pub(super) all: Vec<Suite>,
    /// Of packs and policies.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// The time was over before all was judged.
    pub(super) is_cut: bool,
}

/// By what packs are judged that name no policies, and for how long.
#[derive(Default)]
pub(super) struct SuiteTerms<'a> {
    /// The configuration; none: that above each pack.
    pub(super) named: Option<&'a Path>,
    /// Its policy, if that was read already.
    pub(super) given: Option<Arc<Policy>>,
    /// When judging ends, done or not, in steady time.
    pub(super) until: Option<Duration>,
}

impl SuiteTerms<'_> {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Clock.steady() > until)
    }
}

impl SampleVerdict {
    pub(super) const ALL: [Self; 4] = [
        Self::Expected,
        Self::UnexpectedPass,
        Self::UnexpectedReject,
        Self::WrongReject,
    ];

    /// The documents' words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Expected => "AS EXPECTED",
            Self::UnexpectedPass => "UNEXPECTED PASS",
            Self::UnexpectedReject => "UNEXPECTED REJECT",
            Self::WrongReject => "WRONG REJECT",
        }
    }

    fn of(got: Option<&str>, expect: Option<&str>) -> Self {
        match (got, expect) {
            (got, expect) if got == expect => Self::Expected,
            (None, _) => Self::UnexpectedPass,
            (Some(_), None) => Self::UnexpectedReject,
            (Some(_), Some(_)) => Self::WrongReject,
        }
    }
}

impl Suites {
    /// Nothing that was run, because of these `diagnostics`.
    pub(super) fn of_none(diagnostics: Vec<Diagnostic>) -> Self {
        Self {
            diagnostics,
            ..Self::default()
        }
    }

    /// Runs the packs in `files`.
    pub(super) fn run(files: &[PathBuf], named: Option<&Path>) -> anyhow::Result<Self> {
        let terms = SuiteTerms {
            named,
            ..SuiteTerms::default()
        };
        Self::run_on(files, &terms)
    }

    /// Runs the packs in `files` as `terms` say.
    pub(super) fn run_on(files: &[PathBuf], terms: &SuiteTerms<'_>) -> anyhow::Result<Self> {
        let mut suites = Self::default();
        let anything = explain::schema(None)?;
        let mut grouped: BTreeMap<Vec<PathBuf>, Suite> = BTreeMap::new();
        let mut configured: BTreeMap<PathBuf, Option<Arc<Policy>>> = BTreeMap::new();
        for file in files.iter().take_while(|_| !terms.is_over()) {
            let (pack, found) = Pack::read(file);
            suites.diagnostics.extend(found);
            let Some(pack) = pack else { continue };
            let (key, policy) = if pack.policies.is_empty() {
                let path = find::configuration(file, terms.named)?;
                let policy = configured.entry(path.clone()).or_insert_with(|| {
                    if let Some(given) = &terms.given {
                        return Some(Arc::clone(given));
                    }
                    let reading = config::load_supposing(&path).reading;
                    suites.take(reading.policy, reading.diagnostics)
                });
                (vec![path], policy.clone())
            } else {
                let compiled = pack.compile();
                let same = pack
                    .policies
                    .iter()
                    .map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
                (
                    same.collect(),
                    suites.take(compiled.policy, compiled.diagnostics),
                )
            };
            let Some(policy) = policy else { continue };
            let judged = (0..pack.samples.len())
                .take_while(|_| !terms.is_over())
                .filter_map(|index| suites.judge(&pack, index, &policy, &anything))
                .collect();
            let suite = grouped
                .entry(key)
                .or_insert_with(|| Suite { runs: Vec::new() });
            suite.runs.push(PackRun {
                pack,
                policy,
                judged,
            });
        }
        suites.is_cut = terms.is_over();
        suites.all = grouped.into_values().collect();
        crate::policy::compile::sort(&mut suites.diagnostics);
        Ok(suites)
    }

    /// Keeps the errors of policies; `check` tells of what is only a warning.
    fn take(
        &mut self,
        policy: Option<Policy>,
        diagnostics: Vec<Diagnostic>,
    ) -> Option<Arc<Policy>> {
        self.diagnostics.extend(
            diagnostics
                .into_iter()
                .filter(|one| one.severity == Severity::Error),
        );
        policy.map(Arc::new)
    }

    /// Judges a sample; none, with a diagnostic, if it cannot be.
    fn judge(
        &mut self,
        pack: &Pack,
        index: usize,
        policy: &Policy,
        anything: &Schema,
    ) -> Option<SampleResult> {
        let posed = pack.samples.get(index)?;
        let caller = pack
            .caller(&posed.caller)
            .cloned()
            .or_else(|| policy.identity.of_agent(&posed.caller));
        if caller.is_none() {
            let known: Vec<String> = pack.callers().map(|(name, _)| name.clone()).collect();
            let message = format!("nobody is called `{}`", posed.caller.escape_debug());
            let hint = if known.is_empty() {
                "name an agent, or add `callers`".to_owned()
            } else {
                suggest(&posed.caller, &known)
            };
            self.diagnostics
                .push(pack.about(index, Some("caller"), &message, &hint));
        }
        if let Some((message, hint)) = posed
            .expect
            .as_deref()
            .and_then(|code| misspelt(code, policy))
        {
            self.diagnostics
                .push(pack.about(index, Some("expect"), &message, &hint));
            return None;
        }
        let caller = caller?;
        let asking = match &posed.user {
            Some(user) => Arc::new(caller.for_user(user.clone())),
            None => caller,
        };
        pose(pack, index, policy, anything, &asking)
    }

    /// The diagnostics that keep a pack from being run.
    pub(super) fn errors(&self) -> usize {
        self.diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .count()
    }

    /// Every run.
    pub(super) fn runs(&self) -> impl Iterator<Item = &PackRun> {
        self.all.iter().flat_map(|suite| &suite.runs)
    }

    /// How many samples have that verdict.
    pub(super) fn count(&self, verdict: SampleVerdict) -> usize {
        self.runs()
            .flat_map(|run| &run.judged)
            .filter(|judged| judged.verdict == verdict)
            .count()
    }
}

/// Why no call could ever be refused with `code`.
fn misspelt(code: &str, policy: &Policy) -> Option<(String, String)> {
    let rules: Vec<String> = policy
        .allowlist
        .codes()
        .flat_map(|(_, codes)| codes)
        .map(|(_, code)| code)
        .collect();
    if CODES.contains(&code) || rules.iter().any(|known| known == code) {
        return None;
    }
    if is_own_code(code) {
        let hint = "expect what the policy alone decides";
        return Some((
            format!("`{code}` depends on more than the call and its task"),
            hint.to_owned(),
        ));
    }
    let mut known: Vec<String> = [EXPECT_ALLOW]
        .iter()
        .chain(CODES)
        .map(|&code| code.to_owned())
        .chain(rules)
        .collect();
    known.sort();
    known.dedup();
    Some((
        format!("nothing is refused with `{}`", code.escape_debug()),
        suggest(code, &known),
    ))
}

/// The steps of one call.
#[derive(Default)]
struct StepRecorder(Vec<Stage>);

impl Notes for StepRecorder {
    fn note<T>(&mut self, stage: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal> {
        if self.0.last() != Some(&stage) {
            self.0.push(stage);
        }
        verdict
    }
}

/// What the agent would read, and what it is not told: that it is the pins that withhold the tool.
fn words(policy: &Policy, tool: &ToolName, refusal: &Refusal) -> String {
    if *refusal == Refusal::ToolNotAllowlisted && is_unpinned(policy, tool) {
        return format!("{} ({})", refusal.words(), Unapproved::Unpinned.words());
    }
    refusal.words()
}

fn pose(
    pack: &Pack,
    index: usize,
    policy: &Policy,
    anything: &Schema,
    caller: &Caller,
) -> Option<SampleResult> {
    let posed = pack.samples.get(index)?;
    let mut steps = StepRecorder::default();
    let (schema, is_there) = match pack.tool(&posed.tool) {
        KnownTool::Schema(schema) => (schema, Ok(())),
        KnownTool::Nothing => (anything, Ok(())),
        KnownTool::Absent => (anything, Err(Refusal::ToolNotAllowlisted)),
    };
    let PosedCall {
        tool,
        arguments,
        key,
        before,
        ..
    } = posed;
    let question = Question {
        caller,
        tool,
        schema,
        arguments,
        key: key.as_ref(),
        before,
    };
    let verdict = steps.note(Stage::Visible, is_there);
    let verdict = verdict.and_then(|()| judge(policy, &question, &mut steps).map(drop));
    let got = verdict.err().map(|refusal| SampleRefusal {
        code: refusal.code().to_owned(),
        words: words(policy, &posed.tool, &refusal),
        rule: refusal
            .contract_code()
            .and_then(|_| deciding(policy, &question)),
    });
    let code = got.as_ref().map(|refused| refused.code.as_str());
    let verdict = SampleVerdict::of(code, posed.expect.as_deref());
    Some(SampleResult {
        index,
        verdict,
        got,
        steps: steps.0,
        place: pack.about(index, None, "", ""),
    })
}
