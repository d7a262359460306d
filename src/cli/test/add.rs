//! `toolgate test add`: a recorded call becomes a sample, so that what went wrong once is asked for
//! ever after (003-20, 003-102).

mod smallest;
mod writing;

use super::suite::Suites;
use super::words::verdict;
use crate::cli::configured::{self, DataArgs};
use crate::cli::explain;
use crate::cli::ledger::recorded::{
    APPROVAL_CODES, UNJUDGED_NOTE, arguments, audited, find as recorded_call, is_unjudged,
};
use crate::cli::ledger::recorded_as::RecordedAs;
use crate::cli::ledger::text::{json as plain_json, plain};
use crate::config;
use crate::gate::supposing::CODES;
use crate::guards::ToolRules;
use crate::guards::hooks::HookPhase;
use crate::model::caller::Caller;
use crate::model::entry::Entry;
use crate::model::ids::ToolName;
use crate::policy::Policy;
use crate::policy::pack::{EXPECT_ALLOW, Pack, TaskBefore};
use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};
use smallest::ShownRefusal;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use writing::{append, begin, written};

/// The code of a caller that calls too fast.
const RATE_CODE: &str = "rate_exceeded";

/// The call to make a sample of.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Add {
    /// The call's action id, or as much of its beginning or its end as no other call has
    pub(in crate::cli) action_id: String,
    /// The arguments it had: the ledger keeps their hash, and compares. Not needed where the
    /// contract's `audit` names all
    #[arg(long, value_name = "JSON")]
    pub(in crate::cli) arguments: Option<String>,
    /// The pack to add it to; one that is not there is begun. Without it, the sample is only
    /// printed
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) to: Option<PathBuf>,
    /// What is expected of the call [default: what was said then]
    #[arg(long, value_name = "allow|CODE")]
    pub(in crate::cli) expect: Option<String>,
    /// What the sample shows [default: when and by whom it was called]
    #[arg(long)]
    pub(in crate::cli) name: Option<String>,
    /// Why the verdict that is expected is right
    #[arg(long, value_name = "WORDS")]
    pub(in crate::cli) because: Option<String>,
    /// The sample, where it stands now and what is said of it, as one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Leave out of the arguments what the refusal that is expected does not take.
    #[arg(skip)]
    pub(in crate::cli) is_smallest: bool,
    #[command(flatten)]
    pub(in crate::cli) judged_as: RecordedAs,
}

impl Add {
    /// Prints the sample, or where it stands now and what is said of it.
    pub(super) fn run(&self, named: &DataArgs, out: &mut String) -> anyhow::Result<u8> {
        self.add(named, out).map(|_| 0)
    }

    /// The same; the sample.
    pub(in crate::cli) fn add(
        &self,
        named: &DataArgs,
        out: &mut String,
    ) -> anyhow::Result<Map<String, Value>> {
        let path = configured::path(named.config.as_deref())?;
        let place = named.place_of(&path)?;
        let entry = recorded_call(&place.data, configured::kept(&place)?, &self.action_id)?;
        self.add_call(entry, named, out)
    }

    /// The same of a call that was looked up.
    pub(in crate::cli) fn add_call(
        &self,
        entry: Entry,
        named: &DataArgs,
        out: &mut String,
    ) -> anyhow::Result<Map<String, Value>> {
        let path = configured::path(named.config.as_deref())?;
        let policy = config::load_supposing(&path)
            .reading
            .policy
            .context("the policy cannot be used")?;
        self.judged_as.check(&policy)?;
        self.judged_as.met(|recorded| recorded == entry.user_id)?;
        self.judge(&entry, &policy)?;
        let entry = self.judged_as.renamed(&policy, entry);
        let arguments = self.smallest(&entry, &policy, self.arguments_of(&entry)?)?;
        let pack = match &self.to {
            Some(path) if path.exists() => Some(read(path)?),
            _ => None,
        };
        let caller = caller(&entry, &policy, pack.as_ref());
        let name = caller
            .as_ref()
            .map_or_else(|| entry.agent().to_owned(), Clone::clone);
        let sample = self.sample(&entry, &name, arguments, state(&entry, &policy));
        let Some(path) = &self.to else {
            if self.json {
                writeln!(
                    out,
                    "{}",
                    plain_json(&json!({ "sample": sample }).to_string())
                )?;
            } else {
                out.push_str(&written(&sample));
            }
            return Ok(sample);
        };
        match pack {
            Some(_) if caller.is_none() => bail!(
                "neither {} nor the configuration has this caller; add it under `callers`:\n  {}: {}",
                path.display(),
                plain_json(&Value::from(name).to_string()),
                plain_json(&identity(&entry).to_string())
            ),
            Some(_) => append(path, &sample)?,
            None => begin(path, caller.is_none().then_some((&name, &entry)), &sample)?,
        }
        let suites = Suites::run(std::slice::from_ref(path), named.config.as_deref())?;
        if self.json {
            let said = said(path, &suites, &sample);
            writeln!(out, "{}", plain_json(&said.to_string()))?;
        } else {
            Self::say(path, &suites, out)?;
        }
        Ok(sample)
    }

    /// Of `arguments` what it takes for the refusal that is expected, where that is asked for.
    fn smallest(&self, entry: &Entry, policy: &Policy, arguments: Value) -> anyhow::Result<Value> {
        let known = policy.identity.of_agent(entry.agent());
        let (Some(caller), true) = (known, self.is_smallest) else {
            return Ok(arguments);
        };
        let said = recorded_verdict(entry);
        let before = TaskBefore {
            is_drafted: entry.confirms.is_some(),
            is_approved: !entry.approved_by.is_empty(),
            ..TaskBefore::default()
        };
        let shown = ShownRefusal {
            policy,
            caller: &caller,
            tool: &ToolName::new(&entry.tool),
            schema: &explain::schema(None)?,
            before: &before,
            code: self.expect.as_deref().unwrap_or(&said),
        };
        Ok(shown.smallest(arguments))
    }

    /// What was refused for its caller's rate was not judged. Packs ask no hooks, so that what one has
    /// refused would never be as expected.
    fn judge(&self, entry: &Entry, policy: &Policy) -> anyhow::Result<()> {
        if self.expect.is_none() && is_unjudged(entry) {
            bail!("{UNJUDGED_NOTE}: give with --expect what the policy is to say of it");
        }
        let refused = entry
            .decided_by
            .as_deref()
            .filter(|_| entry.stage == "rewrite" && self.expect.is_none());
        let tool = ToolName::new(&entry.tool);
        let by = policy
            .hooks
            .of(HookPhase::Before, &tool)
            .find(|hook| refused.is_some_and(|by| by == format!("hook {}", hook.name)));
        match by {
            None => Ok(()),
            Some(hook) => bail!(
                "the hook {} refused this call, and packs ask no hooks: give with --expect what the policy is to say of it",
                hook.name
            ),
        }
    }

    /// The arguments: from the ledger, where it has all, else as given.
    fn arguments_of(&self, entry: &Entry) -> anyhow::Result<Value> {
        match (&self.arguments, audited(entry)) {
            (Some(given), _) => arguments(given, entry, without_key),
            (None, Some(audited)) => Ok(audited),
            // Nobody looked at the arguments of a tool that is not there.
            (None, None) if entry.stage == "visible" => Ok(json!({})),
            (None, None) => {
                bail!("the ledger keeps the hash of the arguments only: give them with --arguments")
            }
        }
    }

    fn sample(
        &self,
        entry: &Entry,
        caller: &str,
        arguments: Value,
        state: Map<String, Value>,
    ) -> Map<String, Value> {
        let date = entry.time.split('T').next().unwrap_or_default();
        let name = format!(
            "{} by {} on {date}, {}",
            entry.tool,
            entry.agent(),
            entry.action_id
        );
        let expect = self
            .expect
            .clone()
            .unwrap_or_else(|| recorded_verdict(entry));
        let parts = [
            ("name", Some(Value::from(self.name.clone().unwrap_or(name)))),
            ("caller", Some(caller.into())),
            ("user", entry.named_user().map(Value::from)),
            ("tool", Some(entry.tool.clone().into())),
            ("arguments", Some(arguments)),
            ("state", (!state.is_empty()).then(|| state.into())),
            ("expect", Some(expect.into())),
            ("because", self.because.clone().map(Value::from)),
            ("repro", Some(entry.action_id.clone().into())),
        ];
        parts
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }

    /// Where the sample stands, and what is said of it now.
    fn say(path: &Path, suites: &Suites, out: &mut String) -> anyhow::Result<()> {
        for diagnostic in &suites.diagnostics {
            for line in diagnostic.to_string().lines() {
                writeln!(out, "{}", plain(line))?;
            }
        }
        if let Some((posed, judged)) = suites.runs().flat_map(super::suite::PackRun::judged).last()
        {
            writeln!(
                out,
                "{}:{}: {}",
                path.display(),
                judged.place.line,
                plain(&posed.name)
            )?;
            writeln!(out, "now: {}", verdict(posed, judged))?;
        }
        Ok(())
    }
}

/// As [`Add::say`], for programs.
fn said(path: &Path, suites: &Suites, sample: &Map<String, Value>) -> Value {
    let last = suites.runs().flat_map(super::suite::PackRun::judged).last();
    let problems: Vec<String> = suites.diagnostics.iter().map(ToString::to_string).collect();
    json!({
        "sample": sample,
        "file": path,
        "line": last.map(|(_, judged)| judged.place.line),
        "now": last.map(|(posed, judged)| verdict(posed, judged)),
        "problems": problems,
    })
}

/// The key that toolgate takes off is no argument of the tool.
fn without_key(whole: &Value) -> Value {
    let mut rest = whole.clone();
    if let Some(members) = rest.as_object_mut() {
        members.shift_remove(crate::guards::idempotency::KEY_ARGUMENT_NAME);
    }
    rest
}

/// What the policy said then, as far as a sample can expect it.
fn recorded_verdict(entry: &Entry) -> String {
    let code = entry
        .would_refuse
        .as_ref()
        .or(entry.aborted_reason.as_ref());
    // How fast its caller called is nothing that the call has of itself.
    let code = code.filter(|code| *code != RATE_CODE);
    let of_rules = entry.stage == "rules" || entry.would_refuse.is_some();
    // A person's word is nothing that the policy says: it says that one is asked.
    let asked = code
        .filter(|code| APPROVAL_CODES.contains(&code.as_str()))
        .map(|_| APPROVAL_CODES[0].to_owned());
    let code = code.filter(|code| of_rules || CODES.contains(&code.as_str()));
    asked
        .or_else(|| code.cloned())
        .unwrap_or_else(|| EXPECT_ALLOW.to_owned())
}

fn read(path: &Path) -> anyhow::Result<Pack> {
    let (pack, diagnostics) = Pack::read(path);
    let words: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    pack.with_context(|| format!("{} cannot be used:\n{}", path.display(), words.join("\n")))
}

/// What the pack or the configuration calls the caller of `entry`.
fn caller(entry: &Entry, policy: &Policy, pack: Option<&Pack>) -> Option<String> {
    let is_it = |caller: &Caller| {
        let tenant = caller.tenant.as_ref().map(ToString::to_string);
        caller.agent.as_str() == entry.agent()
            && tenant == entry.tenant_id
            && caller.roles == entry.roles
    };
    let of_pack = pack.and_then(|pack| {
        pack.callers()
            .find(|(_, caller)| is_it(caller))
            .map(|(name, _)| name.clone())
    });
    let configured = || {
        policy
            .identity
            .of_agent(entry.agent())
            .filter(|caller| is_it(caller))
    };
    of_pack.or_else(|| configured().map(|caller| caller.agent.to_string()))
}

fn identity(entry: &Entry) -> Value {
    let mut identity = json!({ "agent": entry.agent(), "roles": entry.roles });
    if let Some(tenant) = &entry.tenant_id {
        identity["tenant"] = json!(tenant);
    }
    identity
}

/// What was so when the call was made: what a person had allowed and a draft that there was, or
/// what its task had used.
fn state(entry: &Entry, policy: &Policy) -> Map<String, Value> {
    let facts = [
        ("drafted", entry.confirms.is_some()),
        ("approved", !entry.approved_by.is_empty()),
    ];
    let facts = facts
        .into_iter()
        .filter(|(_, is_so)| *is_so)
        .map(|(key, _)| (key.to_owned(), json!(true)));
    facts.chain(used(entry, policy)).collect()
}

/// What the task had used when its budget refused the call, by what it had left and what the policy
/// allows now.
fn used(entry: &Entry, policy: &Policy) -> Map<String, Value> {
    let mut state = Map::new();
    let Some(caller) = policy
        .identity
        .of_agent(entry.agent())
        .filter(|_| entry.stage == "budget")
    else {
        return state;
    };
    let tool = ToolName::new(&entry.tool);
    let Ok(admitted) = policy.allowlist.admit(&caller, &tool) else {
        return state;
    };
    let rules: &ToolRules = admitted.rules();
    let limits = rules
        .budget
        .ask(&policy.tasks, &caller, &tool, rules.side_effect)
        .limits;
    let left = |name: &str| entry.budget_remaining.as_ref()?.get(name)?.as_u64();
    let numbers = [
        ("calls_used", limits.calls_per_tool, "calls_per_task"),
        ("steps_used", limits.steps, "steps"),
        ("tool_calls", limits.tool_calls, "tool_calls"),
        ("failures", limits.failures, "failures"),
        (
            "failures_in_a_row",
            limits.failures_in_a_row,
            "failures_in_a_row",
        ),
        ("tool_failures", limits.tool_failures, "tool_failures"),
    ];
    for (key, limit, name) in numbers {
        if let Some((limit, left)) = limit.zip(left(name)).filter(|(limit, left)| left < limit) {
            state.insert(key.to_owned(), json!(limit - left));
        }
    }
    let spent = limits
        .duration
        .zip(left("duration_ms"))
        .map(|(limit, left)| limit.saturating_sub(left));
    if let Some(spent) = spent.filter(|spent| *spent > 0) {
        state.insert("elapsed".to_owned(), json!(format!("{spent}ms")));
    }
    let left = entry
        .budget_remaining
        .as_ref()
        .and_then(|left| left.get("cost")?.as_f64());
    let units = |micros: u64| Value::from(micros).as_f64().unwrap_or_default() / 1e6;
    if let Some((limit, left)) = limits
        .cost
        .map(units)
        .zip(left)
        .filter(|(limit, left)| left < limit)
    {
        state.insert("cost_used".to_owned(), json!(limit - left));
    }
    if let Some(rate) = limits.rate.filter(|_| state.is_empty()) {
        state.insert("calls_now".to_owned(), json!(rate.calls));
    }
    state
}
