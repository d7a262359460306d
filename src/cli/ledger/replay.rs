//! `toolgate ledger replay`: judges a recorded call again, under the policy as it is now. Nothing
//! is executed, and nothing that depends on what else was called (budgets, keys, loops) is judged.

use super::recorded::{self, arguments, passed, recorded};
use super::recorded_as::RecordedAs;
use super::text::{plain, short};
use crate::cli::explain::Screen;
use crate::cli::{configured, explain};
use crate::config::Ledger;
use crate::gate::steps::judge::Arguments;
use crate::gate::supposing::made;
use crate::gate::supposing::steps::visible;
use crate::model::entry::Entry;
use crate::model::ids::ToolName;
use anyhow::Context as _;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The call to judge again.
#[derive(Debug, clap::Args)]
pub(super) struct ReplayArgs {
    /// The call's action id, or as much of its beginning as no other call has
    action_id: String,
    /// The arguments it had: the ledger keeps their hash, and compares. Without them only who may
    /// see the tool is judged
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// The tool's input schema, as a JSON file; without it only the contract's own schema is
    /// judged
    #[arg(long, value_name = "FILE", requires = "arguments")]
    input_schema: Option<PathBuf>,
    #[command(flatten)]
    judged_as: RecordedAs,
}

/// What is judged now.
enum ReplayVerdict {
    /// `passed`, or the code of a refusal.
    Verdict(String),
    /// That it would pass so far; the words say what is missing to judge the rest.
    Undecided(&'static str),
}

impl ReplayArgs {
    pub(super) fn run(
        &self,
        data: &Path,
        config: Option<&Path>,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let entry = recorded::find(data, &Ledger::default(), &self.action_id)?;
        let before = recorded(&entry);
        let policy = configured::load(config)?
            .1
            .reading
            .policy
            .context("the policy cannot be used")?;
        self.judged_as.check(&policy)?;
        self.judged_as.met(|recorded| recorded == entry.user_id)?;
        let mut text = String::new();
        let of = [&entry.action_id, entry.agent(), &entry.tool].map(short);
        let _ = writeln!(text, "call {} · agent {} · tool {}", of[0], of[1], of[2]);
        if let Some(count @ 2..) = entry.count {
            let _ = writeln!(
                text,
                "note: the entry stands for {count} calls; the last of them is judged"
            );
        }
        let mut screen = Screen {
            policy: &policy,
            out: text,
        };
        let judged = self.judge(&mut screen, &entry)?;
        let mut text = screen.out;
        let _ = writeln!(
            text,
            "then: {:24} under policy {}",
            plain(before),
            plain(&entry.policy)
        );
        let code = match judged {
            ReplayVerdict::Verdict(now) => {
                let is_same = now == before;
                let words = if is_same {
                    "the same verdict"
                } else {
                    "another verdict"
                };
                let _ = writeln!(
                    text,
                    "now:  {now:24} under policy {}\n=> {words}",
                    policy.version
                );
                u8::from(!is_same)
            }
            ReplayVerdict::Undecided(missing) => {
                let _ = writeln!(
                    text,
                    "now:  {:24} under policy {}\n=> undecided: {missing}",
                    "", policy.version
                );
                1
            }
        };
        out.write_all(text.as_bytes())?;
        Ok(code)
    }

    fn judge(&self, screen: &mut Screen<'_>, entry: &Entry) -> anyhow::Result<ReplayVerdict> {
        let policy = screen.policy;
        if recorded::is_unjudged(entry) {
            return Ok(ReplayVerdict::Undecided(recorded::UNJUDGED_NOTE));
        }
        let Some(caller) = self.judged_as.caller(policy, entry) else {
            return Ok(ReplayVerdict::Undecided(
                "the configuration has no such agent any more",
            ));
        };
        if caller.roles != entry.roles
            || caller.tenant.as_ref().map(ToString::to_string) != entry.tenant_id
        {
            let note = "note: the agent's roles or tenant are others than they were; the present ones count\n";
            screen.out.push_str(note);
        }
        let tool = ToolName::new(&entry.tool);
        screen.layers(&caller, &tool);
        let admitted = match visible(policy, &caller, &tool, screen) {
            Ok(admitted) => admitted,
            Err(refusal) => return Ok(ReplayVerdict::Verdict(refusal.code().to_owned())),
        };
        if entry.schema_hash.is_none() {
            return Ok(ReplayVerdict::Undecided(
                "no server offered the tool then; whether one does now is not looked at",
            ));
        }
        let Some(given) = &self.arguments else {
            return Ok(ReplayVerdict::Undecided(
                "give --arguments to judge arguments, permission and rules",
            ));
        };
        let schema = explain::schema(self.input_schema.as_deref())?;
        let arguments = arguments(given, entry, |whole| {
            match &admitted.clone().on(whole).rules().idempotency {
                Some(rule) => rule.split(&schema, whole).0.into_owned(),
                None => whole.clone(),
            }
        })?;
        let asked = Arguments {
            caller: &caller,
            schema: &schema,
            values: &arguments,
        };
        Ok(match made(policy, &admitted, asked, screen) {
            Err(refusal) => ReplayVerdict::Verdict(refusal.code().to_owned()),
            Ok(_) if recorded(entry) == "schema_invalid" && self.input_schema.is_none() => {
                ReplayVerdict::Undecided(
                    "the tool's own schema may have refused it: give --input-schema",
                )
            }
            Ok(made) => match passed(entry, made.rules) {
                Ok(verdict) => ReplayVerdict::Verdict(verdict.to_owned()),
                Err(why) => ReplayVerdict::Undecided(why),
            },
        })
    }
}
