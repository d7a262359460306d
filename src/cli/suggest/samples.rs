//! The samples of a drafted pack: what was recorded passes, what is outside of the bounds does not.

use super::drafted::DraftedTool;
use super::observed::ObservedCaller;
use crate::cli::ledger::recorded::APPROVAL_CODES;
use crate::cli::yaml::{flow, quoted};
use crate::policy::pack::EXPECT_ALLOW;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Characters of a sample's name: what a pack may have.
const SAMPLE_NAME_CHARS_MAX: usize = 200;
/// What refuses arguments outside of the bounds.
const OUTSIDE_CODE: &str = "schema_invalid";

/// Those who called, each with a name for the pack.
pub(super) struct PackCallers(BTreeMap<ObservedCaller, String>);

impl PackCallers {
    pub(super) fn of(tools: &[DraftedTool<'_>]) -> Self {
        let samples = tools.iter().flat_map(|tool| &tool.samples);
        let all: BTreeSet<&ObservedCaller> = samples.map(|sample| &sample.caller).collect();
        let mut called = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for caller in all {
            let numbered = (2..).map(|number| format!("{}-{number}", caller.agent));
            let mut names = std::iter::once(caller.agent.clone()).chain(numbered);
            if let Some(name) = names.find(|name| taken.insert(name.clone())) {
                called.insert(caller.clone(), name);
            }
        }
        Self(called)
    }

    /// Settings by name.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&str, Value)> {
        self.0.iter().map(|(caller, name)| {
            let ObservedCaller {
                agent,
                tenant,
                roles,
            } = caller;
            let mut settings = json!({ "agent": agent, "roles": roles });
            if let Some(tenant) = tenant {
                settings["tenant"] = json!(tenant);
            }
            (name.as_str(), settings)
        })
    }

    fn name(&self, caller: &ObservedCaller) -> &str {
        self.0.get(caller).map_or("", String::as_str)
    }
}

/// The samples of a pack, or of one of its tools.
#[derive(Default)]
pub(super) struct PackSamples {
    pub(super) text: String,
    /// How many pass, or wait for a person, and how many are refused.
    pub(super) counts: (usize, usize),
}

impl PackSamples {
    /// Those of one tool.
    pub(super) fn of(tool: &DraftedTool<'_>, callers: &PackCallers) -> Self {
        let mut samples = Self::default();
        let name = tool.name;
        let approved = tool.asks().then(|| json!({ "approved": true }));
        for (index, sample) in tool.samples.iter().enumerate() {
            let caller = callers.name(&sample.caller);
            let (given, said) = (Value::from(sample.arguments.clone()), sample.because());
            samples.push(&[
                (
                    "name",
                    format!("{name}: recorded call {}", index + 1).into(),
                ),
                ("caller", caller.into()),
                ("tool", name.into()),
                ("arguments", given.clone()),
                ("state", approved.clone().unwrap_or_default()),
                ("expect", EXPECT_ALLOW.into()),
                ("because", said.into()),
            ]);
            if approved.is_some() && index == 0 {
                samples.push(&[
                    ("name", format!("{name}: a person is asked").into()),
                    ("caller", caller.into()),
                    ("tool", name.into()),
                    ("arguments", given),
                    ("expect", APPROVAL_CODES[0].into()),
                ]);
            }
        }
        let caller = tool
            .samples
            .first()
            .map(|first| callers.name(&first.caller));
        for (index, outside) in tool.outside().into_iter().enumerate() {
            let title = format!("{name}: outside {}, {}", index + 1, outside.what);
            samples.push(&[
                ("name", title.into()),
                ("caller", caller.unwrap_or_default().into()),
                ("tool", name.into()),
                ("arguments", outside.arguments.into()),
                ("expect", OUTSIDE_CODE.into()),
            ]);
            samples.counts.0 -= 1;
            samples.counts.1 += 1;
        }
        samples
    }

    /// One sample; what is null is left out.
    fn push(&mut self, members: &[(&str, Value)]) {
        let members = members.iter().filter(|(_, value)| !value.is_null());
        for (index, (name, value)) in members.enumerate() {
            let mark = if index == 0 { "- " } else { "  " };
            let value = match value.as_str().filter(|_| *name == "name") {
                Some(title) => {
                    let title = title.chars().take(SAMPLE_NAME_CHARS_MAX);
                    quoted(&title.collect::<String>())
                }
                None => flow(value),
            };
            let _ = writeln!(self.text, "  {mark}{name}: {value}");
        }
        self.counts.0 += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.text.push_str(&other.text);
        self.counts.0 += other.counts.0;
        self.counts.1 += other.counts.1;
    }
}
