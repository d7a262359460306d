//! `toolgate ledger replay`: judges a recorded call again, under the policy as it is now. Nothing is executed, and nothing
//! that depends on what else was called (budgets, keys, loops) is judged.

use super::calls::{Call, Calls};
use super::text::plain;
use super::wanted::begins;
use crate::cli::{configured, explain};
use crate::gate::record::params_hash;
use crate::model::caller::Caller;
use crate::model::entry::Entry;
use crate::model::ids::ToolName;
use crate::policy::Policy;
use crate::schema::validate::Schema;
use anyhow::{Context as _, bail};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The steps that the policy alone decides.
const STEPS: [&str; 4] = ["visible", "arguments", "permission", "rules"];
/// What is said of a call that passes them.
const PASSED: &str = "passed";

/// The call to judge again.
#[derive(Debug, clap::Args)]
pub(super) struct Replay {
    /// The call's action id, or as much of its beginning as no other call has
    action_id: String,
    /// The arguments it had: the ledger keeps their hash, and compares. Without them only who may see the tool is judged
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// The tool's input schema, as a JSON file; without it only the contract's own schema is judged
    #[arg(long, value_name = "FILE", requires = "arguments")]
    input_schema: Option<PathBuf>,
}

/// What is judged now.
enum Judged {
    /// `passed`, or the code of a refusal.
    Verdict(String),
    /// That it would pass so far; the words say what is missing to judge the rest.
    Undecided(&'static str),
}

impl Replay {
    pub(super) fn run(&self, data: &Path, config: Option<&Path>, out: &mut dyn Write) -> anyhow::Result<u8> {
        let entry = self.find(data)?;
        let before = recorded(&entry);
        let policy = configured::load(config)?.1.reading.policy.context("the policy cannot be used")?;
        let mut text = String::new();
        let of = [&entry.action_id, &entry.user_id, &entry.tool].map(|word| plain(word));
        let _ = writeln!(text, "call {} · agent {} · tool {}", of[0], of[1], of[2]);
        let judged = self.judge(&policy, &entry, &mut text)?;
        let _ = writeln!(text, "then: {:24} under policy {}", plain(before), plain(&entry.policy));
        let code = match judged {
            Judged::Verdict(now) => {
                let is_same = now == before;
                let words = if is_same { "the same verdict" } else { "another verdict" };
                let _ = writeln!(text, "now:  {now:24} under policy {}\n=> {words}", policy.version);
                u8::from(!is_same)
            }
            Judged::Undecided(missing) => {
                let _ = writeln!(text, "now:  {:24} under policy {}\n=> undecided: {missing}", "", policy.version);
                1
            }
        };
        out.write_all(text.as_bytes())?;
        Ok(code)
    }

    fn find(&self, data: &Path) -> anyhow::Result<Entry> {
        let mut found: Option<Call> = None;
        for call in Calls::open(data)? {
            let call = call?;
            if !begins(&call.entry.action_id, &self.action_id) {
                continue;
            }
            if found.as_ref().is_some_and(|found| found.entry.action_id != call.entry.action_id) {
                bail!("several calls fit, give more of the id");
            }
            found = Some(call);
        }
        let wanted = plain(&self.action_id);
        let call =
            found.with_context(|| format!("no call's action id begins with {wanted}; see `toolgate ledger list`"))?;
        Ok(call.entry)
    }

    fn judge(&self, policy: &Policy, entry: &Entry, out: &mut String) -> anyhow::Result<Judged> {
        let Some(caller) = policy.identity.of_agent(&entry.user_id) else {
            return Ok(Judged::Undecided("the configuration has no such agent any more"));
        };
        if caller.roles != entry.roles || caller.tenant.as_ref().map(ToString::to_string) != entry.tenant_id {
            let _ =
                writeln!(out, "note: the agent's roles or tenant are others than they were; the present ones count");
        }
        let tool = ToolName::new(&entry.tool);
        for step in policy.allowlist.explain(&caller, &tool) {
            let mark = if step.verdict.refuses() { "refused" } else { PASSED };
            let _ = writeln!(out, "  visible     {mark:8} {step}");
        }
        let admitted = match policy.allowlist.admit(&caller, &tool) {
            Ok(admitted) => match admitted.would_refuse() {
                Some(refusal) => return Ok(Judged::Verdict(refusal.code().to_owned())),
                None => admitted,
            },
            Err(denied) => return Ok(Judged::Verdict(denied.refusal.code().to_owned())),
        };
        if entry.schema_hash.is_none() {
            return Ok(Judged::Undecided("no server offered the tool then; whether one does now is not looked at"));
        }
        let Some(given) = &self.arguments else {
            return Ok(Judged::Undecided("give --arguments to judge arguments, permission and rules"));
        };
        let schema = explain::schema(self.input_schema.as_deref())?;
        let arguments = arguments(given, entry, |whole| match &admitted.clone().on(whole).rules().idempotency {
            Some(rule) => rule.split(&schema, whole).0.into_owned(),
            None => whole.clone(),
        })?;
        Ok(self.ruled(admitted.on(&arguments).rules(), &caller, (&schema, &arguments), (entry, out)))
    }

    fn ruled(
        &self,
        rules: &crate::guards::ToolRules,
        caller: &Caller,
        call: (&Schema, &Value),
        (entry, out): (&Entry, &mut String),
    ) -> Judged {
        match explain::ruled(rules, caller, call, out) {
            Err(refusal) => Judged::Verdict(refusal.code().to_owned()),
            Ok(_) if recorded(entry) == "schema_invalid" && self.input_schema.is_none() => {
                Judged::Undecided("the tool's own schema may have refused it: give --input-schema")
            }
            Ok(_) => Judged::Verdict(PASSED.to_owned()),
        }
    }
}

/// What the policy said of the call then: the code with which it was refused or would have been, or that it passed.
fn recorded(entry: &Entry) -> &str {
    if let Some(code) = &entry.would_refuse {
        return code;
    }
    let code = entry.aborted_reason.as_deref().filter(|_| STEPS.contains(&entry.stage.as_str()));
    code.unwrap_or(PASSED)
}

/// The arguments, if they are the call's: as given, or without the key that toolgate takes off them.
fn arguments(given: &str, entry: &Entry, split: impl FnOnce(&Value) -> Value) -> anyhow::Result<Value> {
    let whole = explain::read("--arguments", given.to_owned().into())?;
    let rest = split(&whole);
    match [rest, whole].into_iter().find(|arguments| params_hash(arguments) == entry.params_hash) {
        Some(arguments) => Ok(arguments),
        None => bail!("these are not the call's arguments: their hash is another than params_hash in the ledger"),
    }
}
