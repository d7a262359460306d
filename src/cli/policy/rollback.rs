//! `toolgate policy rollback`: back to the files of a policy that was in force, all of them or none. A
//! toolgate that runs reads nothing of them until all are written.

use super::changes::colored;
use super::diff::config_of;
use super::named::{KeptPolicies, short};
use super::plan::{RollbackPlan, RollbackStep};
use super::present::PresentPolicy;
use super::staged::{self, StagedVerdict};
use crate::cli::configured::{self, DataArgs};
use crate::cli::files;
use crate::cli::ledger::text::{json_lines, plain};
use crate::cli::operator::{self, direct};
use crate::failpoint;
use crate::model::clock::Clock;
use crate::model::counted::counted;
use crate::model::digest::Digest;
use crate::policy::bundle::notes::{self, RollbackNote};
use crate::policy::bundle::shelf::PolicyShelf;
use crate::store::operator::{MAX_RESOLVE_REASON_BYTES, reason};
use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

/// Rights of a file that was not there. Policies are meant to be read.
const POLICY_FILE_MODE: u32 = 0o644;

/// Where to go back to, and how.
#[derive(Debug, clap::Args)]
pub(super) struct PolicyRollback {
    /// The hash of a bundle, or a version as the ledger has it; the beginning will do
    hash: String,
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave toolgate.yaml as it is: only the policy files, the pins and the packs are written
    #[arg(long)]
    keep_config: bool,
    /// Also if its packs fail; toolgate takes these very files then, whatever `packs` says
    #[arg(long, requires = "why")]
    force: bool,
    /// Why; stands in the ledger for good, and `toolgate policy show` says it
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

/// What became of it, for the report.
struct RollbackResult {
    to: Digest,
    /// The bundle of what was there; none where nothing was written.
    copy: Option<Digest>,
    verdict: StagedVerdict,
}

impl PolicyRollback {
    /// Rolls back. 0: done, or nothing to do; 1: refused.
    pub(super) fn run(
        &self,
        place: &DataArgs,
        as_json: bool,
        out: &mut String,
    ) -> anyhow::Result<u8> {
        let why = self
            .why
            .as_deref()
            .map(|why| reason(why, MAX_RESOLVE_REASON_BYTES));
        let why = match why.transpose() {
            Ok(why) => why,
            Err(rule) => return Ok(operator::misused(&rule)),
        };
        let kept = KeptPolicies::read(&place.place()?.data)?;
        let bundle = kept.shelf.get(kept.named(&self.hash)?)?;
        let config = config_of(place, &kept)?;
        // Another rollback would remove the files that this one tries, and change those that it compares.
        let _alone = files::alone(&config).context("nothing was written")?;
        let present = PresentPolicy::read(&config)?;
        let plan = RollbackPlan::new(&present, &bundle, self.keep_config)?;
        let mut result = RollbackResult {
            to: plan.bundle()?.name(),
            copy: None,
            verdict: staged::judge(&kept.shelf, &present.config, &plan)?,
        };
        let is_finished = notes::under_way(&kept.shelf)?.is_none();
        let is_refused = self.refuses(&result.verdict);
        let is_due = !is_finished || !plan.steps.is_empty();
        if is_due && !is_refused && !self.dry_run {
            result.copy = Some(self.write(&kept.shelf, &present, &plan, why)?);
        }
        if as_json {
            let shown = self.json(&result, &plan);
            writeln!(out, "{}", json_lines(&shown))?;
        } else {
            self.words(&result, &plan, out)?;
        }
        Ok(u8::from(is_refused))
    }

    /// Whether nothing may be written. What cannot be used at all cannot be forced.
    fn refuses(&self, verdict: &StagedVerdict) -> bool {
        !verdict.errors.is_empty() || (!self.force && !verdict.failures.is_empty())
    }

    /// Writes all of it; the name of the bundle of what was there.
    fn write(
        &self,
        kept: &PolicyShelf,
        present: &PresentPolicy,
        plan: &RollbackPlan,
        why: Option<String>,
    ) -> anyhow::Result<Digest> {
        let again = PresentPolicy::read(&present.config)?;
        if again.sources != present.sources || again.document.text() != present.document.text() {
            bail!("the files were written meanwhile; nothing was written, look again");
        }
        // Both have to be there before the first file is another.
        let copy = kept.put(&present.bundle()?)?;
        let to = kept.put(&plan.bundle()?)?;
        let note = RollbackNote {
            to,
            copy,
            at: Clock.wall(),
            by: direct::system_user(),
            why,
            forced: self.force,
        };
        notes::begin(kept, &note)?;
        for step in &plan.steps {
            step.take().with_context(|| {
                format!(
                    "not all is written, and toolgate takes nothing of it: once that is mended, roll back again, or back to \
                     what was there with `toolgate policy rollback {}`",
                    short(&copy)
                )
            })?;
        }
        failpoint::held("rollback-written");
        failpoint::reached("rollback-written");
        notes::end(kept, &note)?;
        failpoint::reached("rollback-ended");
        // A toolgate that has read in between learns here that all is written.
        files::replace(
            &present.config,
            plan.config.text.as_bytes(),
            POLICY_FILE_MODE,
        )?;
        Ok(copy)
    }

    fn words(
        &self,
        result: &RollbackResult,
        plan: &RollbackPlan,
        out: &mut String,
    ) -> anyhow::Result<()> {
        let verdict = &result.verdict;
        for line in verdict.errors.iter().chain(&verdict.failures) {
            configured::say(line);
        }
        if self.refuses(verdict) {
            let (count, what, way) = if verdict.errors.is_empty() {
                let way = "; --force --why TEXT goes back all the same";
                (verdict.failures.len(), "its packs fail", way)
            } else {
                (verdict.errors.len(), "its policy cannot be used now", "")
            };
            let problems = counted(count, "problem");
            writeln!(
                out,
                "nothing was written: {what} ({problems}, shown above){way}"
            )?;
            return Ok(());
        }
        if self.dry_run {
            for step in &plan.steps {
                out.push_str(&colored(&step.shown().diff()));
            }
        }
        for step in &plan.steps {
            writeln!(out, "{}", plain(&step.words()))?;
        }
        let files = counted(plan.steps.len(), "file");
        let to = short(&result.to);
        match result.copy {
            Some(copy) => writeln!(
                out,
                "rolled back to {to}: {files}. What was there is kept as {}; a running toolgate reloads it",
                short(&copy)
            )?,
            None if plan.steps.is_empty() => writeln!(out, "nothing to do: the files are {to}")?,
            None => writeln!(out, "{to} would be written: {files}; nothing was")?,
        }
        Ok(())
    }

    fn json(&self, result: &RollbackResult, plan: &RollbackPlan) -> Value {
        let steps = plan.steps.iter();
        let files: Vec<Value> = steps.map(|step| step.shown().json()).collect();
        json!({
            "to": result.to,
            "written": result.copy.is_some(),
            "copy": result.copy,
            "files": files,
            "errors": result.verdict.errors,
            "failures": result.verdict.failures,
            "packs_required": result.verdict.is_required,
            "forced": self.force,
        })
    }
}

impl RollbackStep {
    /// Writes or removes the file, durably.
    fn take(&self) -> anyhow::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let cannot = || format!("{} cannot be written", self.path.display());
        let Some(text) = &self.file.after else {
            std::fs::remove_file(&self.path).with_context(cannot)?;
            let directory = File::open(directory).with_context(cannot)?;
            return directory.sync_all().with_context(cannot);
        };
        std::fs::create_dir_all(directory).with_context(cannot)?;
        files::replace(&self.path, text.as_bytes(), POLICY_FILE_MODE)
    }
}
