//! Judges a recorded call again, under the policy as it is now. Nothing is executed, and nothing
//! that depends on what else was called (budgets, keys, loops) is judged.

use super::parcel::{SandboxParcel, parcel};
use super::{ReplayArgs, ReplayCase, line};
use crate::cli::explain;
use crate::cli::explain::Screen;
use crate::cli::explain::steps::ExplainedSteps;
use crate::cli::ledger::recorded::{self, arguments, passed, recorded};
use crate::cli::ledger::recorded_as::{UNKNOWN_AGENT_NOTE, advice};
use crate::cli::ledger::text::{plain, short};
use crate::cli::terminal::Terminal;
use crate::gate::steps::judge::Arguments;
use crate::gate::supposing::made;
use crate::gate::supposing::steps::visible;
use crate::guards::allowlist::Admitted;
use crate::model::ids::ToolName;
use crate::schema::Schema;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;

/// What is judged now.
enum ReplayVerdict {
    /// `passed`, or the code of a refusal.
    Verdict(String),
    /// That it would pass so far; the words say what is missing to judge the rest.
    Undecided(&'static str),
}

/// What is said of it.
struct VerdictReport<'a> {
    case: &'a ReplayCase,
    judged: &'a ReplayVerdict,
    would_send: anyhow::Result<SandboxParcel>,
}

impl VerdictReport<'_> {
    fn is_same(&self) -> bool {
        let then = recorded(&self.case.call.entry);
        matches!(self.judged, ReplayVerdict::Verdict(now) if now == then)
    }

    /// For programs.
    fn fields(&self) -> Value {
        let (entry, policy) = (&self.case.call.entry, &self.case.policy);
        let mut said = json!({
            "action_id": entry.action_id, "tool": entry.tool,
            "then": { "verdict": recorded(entry), "policy": entry.policy },
            "now": { "verdict": null, "policy": policy.version },
        });
        match self.judged {
            ReplayVerdict::Verdict(now) => {
                said["now"]["verdict"] = json!(now);
                let outcome = if self.is_same() {
                    "same_verdict"
                } else {
                    "another_verdict"
                };
                said["outcome"] = json!(outcome);
            }
            ReplayVerdict::Undecided(missing) => {
                said["outcome"] = json!("undecided");
                said["missing"] = json!(missing);
            }
        }
        match &self.would_send {
            Ok(parcel) => said["would_send"] = parcel.fields(),
            Err(why) => said["would_not_send"] = json!(format!("{why:#}")),
        }
        said
    }

    /// For people.
    fn words(&self) -> String {
        let (entry, policy) = (&self.case.call.entry, &self.case.policy);
        let (now, verdict) = match self.judged {
            ReplayVerdict::Verdict(now) if self.is_same() => {
                (&**now, "the same verdict".to_owned())
            }
            ReplayVerdict::Verdict(now) => (&**now, "another verdict".to_owned()),
            ReplayVerdict::Undecided(missing) => ("", format!("undecided: {missing}")),
        };
        let sent = match &self.would_send {
            Ok(parcel) => format!("; --sandbox would send {}", parcel.words()),
            Err(why) => format!(", nor could --sandbox send it: {why:#}"),
        };
        format!(
            "then: {:24} under policy {}\nnow:  {now:24} under policy {}\n=> {verdict}\nnothing was sent{sent}\n",
            plain(recorded(entry)),
            plain(&entry.policy),
            policy.version
        )
    }
}

impl ReplayArgs {
    /// Prints what is judged, and what a sandbox would be sent. 0 for the same verdict.
    pub(super) fn judge(&self, case: &ReplayCase, out: &mut dyn Write) -> anyhow::Result<u8> {
        let entry = &case.call.entry;
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
            policy: &case.policy,
            out: ExplainedSteps::under(text),
        };
        let judged = self.judged(&mut screen, case)?;
        let report = VerdictReport {
            case,
            judged: &judged,
            would_send: parcel(case, self.arguments.as_deref()),
        };
        if self.json {
            line(&report.fields(), out)?;
        } else {
            let text = screen.out.to_string() + &report.words();
            out.write_all(Terminal::stdout().tinted(&text).as_bytes())?;
        }
        Ok(u8::from(!report.is_same()))
    }

    fn judged(&self, screen: &mut Screen<'_>, case: &ReplayCase) -> anyhow::Result<ReplayVerdict> {
        let (policy, entry) = (screen.policy, &case.call.entry);
        if recorded::is_unjudged(entry) {
            return Ok(ReplayVerdict::Undecided(recorded::UNJUDGED_NOTE));
        }
        let Some(caller) = self.judged_as.caller(policy, entry) else {
            let unknown = BTreeSet::from([entry.user_id.as_str()]);
            let help = advice(policy, &unknown).map_or_else(String::new, |line| line + "\n");
            screen.out.head.push_str(&help);
            return Ok(ReplayVerdict::Undecided(UNKNOWN_AGENT_NOTE));
        };
        if caller.roles != entry.roles
            || caller.tenant.as_ref().map(ToString::to_string) != entry.tenant_id
        {
            let note = "note: the agent's roles or tenant are others than they were; the present ones count\n";
            screen.out.head.push_str(note);
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
        let schema = explain::schema(self.input_schema.as_deref())?;
        let Some(arguments) = self.as_given(case, &admitted, &schema)? else {
            return Ok(ReplayVerdict::Undecided(
                "give --arguments to judge arguments, permission and rules",
            ));
        };
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

    /// The arguments as its agent sent them, as they are given here or kept.
    fn as_given(
        &self,
        case: &ReplayCase,
        admitted: &Admitted<'_>,
        schema: &Schema,
    ) -> anyhow::Result<Option<Value>> {
        let Some(given) = &self.arguments else {
            return Ok(case.call.original.clone());
        };
        let split = |whole: &Value| match &admitted.clone().on(whole).rules().idempotency {
            Some(rule) => rule.split(schema, whole).0.into_owned(),
            None => whole.clone(),
        };
        arguments(given, &case.call.entry, split).map(Some)
    }
}
