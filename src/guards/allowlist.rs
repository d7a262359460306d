//! Refuses a tool that its caller may not see: owner-only, then every layer, then the contract.
//!
//! Before anything looks at the arguments: a hidden tool answers like an unknown one, whatever the call holds. The
//! listing asks the same question, so it never shows what a call would not get.

use super::{Mode, Section, ToolRules};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::ids::{AgentId, ToolName};
use crate::model::refusal::Refusal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

mod contracts;
mod pattern;

pub use contracts::Contracts;
pub use pattern::Pattern;

/// The layers of one policy file. A tool must pass every layer of every file.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Layers")]
pub struct Settings {
    /// For every agent.
    pub global: Option<LayerSettings>,
    /// For one agent each, by its name.
    pub agent: BTreeMap<String, LayerSettings>,
}

/// One layer. `deny` is looked at first and is final. `allow` that is absent restricts nothing; `[]` lets nothing pass.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Layer")]
pub struct LayerSettings {
    /// Patterns of which one must match. `*` stands for any text; everything else for itself.
    pub allow: Option<Vec<String>>,
    /// Patterns of which none may match.
    pub deny: Vec<String>,
}

/// One layer as run.
#[derive(Debug, Clone)]
pub struct Layer {
    name: String,
    agent: Option<AgentId>,
    allow: Option<Vec<Pattern>>,
    deny: Vec<Pattern>,
}

/// As run, with the contracts behind it.
#[derive(Debug)]
pub struct Rule {
    mode: Mode,
    layers: Vec<Layer>,
    contracts: Contracts,
    observed: Arc<ToolRules>,
}

/// The caller may see this tool; the only way to its rules.
#[must_use]
#[derive(Debug, Clone)]
pub struct Admitted<'a> {
    rules: &'a Arc<ToolRules>,
    by: Provenance<'a>,
    would_refuse: bool,
}

/// The caller may not see this tool.
#[derive(Debug)]
pub struct Denied<'a> {
    /// What the agent reads: the same for hidden and unknown.
    pub refusal: Refusal,
    /// What decided; for operators only.
    pub by: Provenance<'a>,
}

/// What decided: for `explain` and the ledger, never for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provenance<'a> {
    /// `owner`, `global`, `agent support-bot` or `contract`.
    pub layer: &'a str,
    /// How it decided.
    pub verdict: Verdict<'a>,
}

/// How one layer decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It has nothing against the tool.
    Passed,
    /// A pattern of `allow` matches.
    Allowed(&'a str),
    /// A pattern of `deny` matches.
    Denied(&'a str),
    /// No pattern of `allow` matches.
    NotAllowed,
    /// The tool is `owner_only` and the caller is no owner.
    OwnerOnly,
    /// The tool has no contract.
    NoContract,
}

// === impl Settings ===

impl Section for Settings {
    type Rule = Vec<Layer>;
    const NAME: &'static str = "layers";

    fn compile(self, problems: &mut Problems) -> Vec<Layer> {
        let Self { global, agent } = self;
        let mut layers = Vec::new();
        if let Some(written) = global {
            layers.push(problems.under("global", |problems| written.compile("global".to_owned(), None, problems)));
        }
        problems.under("agent", |problems| {
            for (name, written) in agent {
                let (label, id) = (format!("agent {name}"), AgentId::new(&name));
                layers.push(problems.under(name, |problems| written.compile(label, Some(id), problems)));
            }
        });
        layers
    }
}

impl LayerSettings {
    fn compile(self, name: String, agent: Option<AgentId>, problems: &mut Problems) -> Layer {
        let mut patterns = |key: &str, written: Vec<String>| -> Vec<Pattern> {
            let one = |(index, text): (usize, String)| {
                problems.under(key, |problems| {
                    problems.under(index.to_string(), |problems| Pattern::compile(&text, problems))
                })
            };
            written.into_iter().enumerate().filter_map(one).collect()
        };
        let deny = patterns("deny", self.deny);
        let allow = self.allow.map(|allow| patterns("allow", allow));
        Layer { name, agent, allow, deny }
    }
}

// === impl Rule ===

impl Layer {
    /// The agent the layer is for; all of them if none.
    pub fn agent(&self) -> Option<&AgentId> {
        self.agent.as_ref()
    }

    fn judge(&self, tool: &str) -> Verdict<'_> {
        if let Some(pattern) = self.deny.iter().find(|pattern| pattern.matches(tool)) {
            return Verdict::Denied(pattern.as_str());
        }
        let Some(allow) = &self.allow else { return Verdict::Passed };
        match allow.iter().find(|pattern| pattern.matches(tool)) {
            Some(pattern) => Verdict::Allowed(pattern.as_str()),
            None => Verdict::NotAllowed,
        }
    }
}

impl Rule {
    /// Judges by all of `layers`, and asks for a contract in enforce mode.
    pub fn new(mode: Mode, layers: Vec<Layer>, contracts: impl Into<Contracts>) -> Self {
        Self { mode, layers, contracts: contracts.into(), observed: Arc::new(ToolRules::observed()) }
    }

    /// May `caller` see `tool`? For the listing and for the call. In observe mode everything is admitted, and
    /// [`Admitted::would_refuse`] says what enforce mode would have done.
    pub fn admit(&self, caller: &Caller, tool: &ToolName) -> Result<Admitted<'_>, Box<Denied<'_>>> {
        let rules = self.contracts.get(tool);
        let mut by = Provenance { layer: "contract", verdict: Verdict::Passed };
        for step in self.steps(caller, tool) {
            by = step;
            if step.verdict.refuses() {
                break;
            }
        }
        let would_refuse = by.verdict.refuses();
        match (rules, self.mode) {
            (Some(rules), _) if !would_refuse => Ok(Admitted { rules, by, would_refuse }),
            (rules, Mode::Observe) => Ok(Admitted { rules: rules.unwrap_or(&self.observed), by, would_refuse }),
            (_, Mode::Enforce) => Err(Box::new(Denied { refusal: Refusal::ToolNotAllowlisted, by })),
        }
    }

    /// Every step of the decision, in order, also those after the one that decides.
    pub fn explain(&self, caller: &Caller, tool: &ToolName) -> Vec<Provenance<'_>> {
        self.steps(caller, tool).collect()
    }

    fn steps<'a>(&'a self, caller: &Caller, tool: &ToolName) -> impl Iterator<Item = Provenance<'a>> {
        let rules = self.contracts.get(tool);
        let hidden = rules.is_some_and(|rules| rules.owner_only) && !caller.owner;
        let owner = if hidden { Verdict::OwnerOnly } else { Verdict::Passed };
        let contract = if rules.is_some() { Verdict::Passed } else { Verdict::NoContract };
        let layers = self.layers.iter().filter(|layer| layer.agent.as_ref().is_none_or(|agent| *agent == caller.agent));
        let layers = layers.map(|layer| Provenance { layer: &layer.name, verdict: layer.judge(tool.as_str()) });
        std::iter::once(Provenance { layer: "owner", verdict: owner })
            .chain(layers)
            .chain([Provenance { layer: "contract", verdict: contract }])
    }

    /// The tools that have a contract, and the patterns of contracts for several, in no order.
    pub fn contracts(&self) -> impl Iterator<Item = &ToolName> {
        self.contracts.names()
    }

    /// The contract of `tool`, whoever asks: to compare it with what a tool server says of the tool.
    pub fn contract_of(&self, tool: &ToolName) -> Option<&Arc<ToolRules>> {
        self.contracts.get(tool)
    }

    /// The name of that contract as written: the tool's, or a pattern.
    pub fn contract_name_of(&self, tool: &ToolName) -> Option<&ToolName> {
        self.contracts.name_of(tool)
    }

    /// How many contracts change something, and how many of those name a call that takes it back (003-106).
    pub fn undone(&self) -> (usize, usize) {
        let cases = |rules: &Arc<ToolRules>| -> Vec<Arc<ToolRules>> {
            let cases = rules.variants.iter().flat_map(|variants| variants.cases().map(|(_, rules)| rules.clone()));
            let cases: Vec<_> = cases.collect();
            if cases.is_empty() { vec![rules.clone()] } else { cases }
        };
        let all: Vec<_> = self.contracts.all().flat_map(cases).filter(|rules| rules.side_effect).collect();
        (all.len(), all.iter().filter(|rules| rules.rollback.is_some()).count())
    }
}

impl<'a> Admitted<'a> {
    /// The same for a call with these arguments: of a contract with variants, the one that they choose. The contract as a
    /// whole when they choose none; its step 3 refuses them.
    pub fn on(self, arguments: &Value) -> Self {
        let chosen = self.rules.variants.as_ref().and_then(|variants| variants.choose(arguments));
        Self { rules: chosen.unwrap_or(self.rules), ..self }
    }

    /// The contract, or in observe mode what stands in for it.
    pub fn rules(&self) -> &'a Arc<ToolRules> {
        self.rules
    }

    /// What decided last.
    pub fn by(&self) -> Provenance<'a> {
        self.by
    }

    /// In observe mode: the refusal of enforce mode.
    pub fn would_refuse(&self) -> Option<Refusal> {
        self.would_refuse.then_some(Refusal::ToolNotAllowlisted)
    }
}

impl Verdict<'_> {
    /// Does this end the matter?
    pub fn refuses(self) -> bool {
        match self {
            Self::Passed | Self::Allowed(_) => false,
            Self::Denied(_) | Self::NotAllowed | Self::OwnerOnly | Self::NoContract => true,
        }
    }
}

impl fmt::Display for Provenance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.layer)?;
        match self.verdict {
            Verdict::Passed => f.write_str("nothing against it"),
            Verdict::Allowed(pattern) => write!(f, "allowed by `{pattern}`"),
            Verdict::Denied(pattern) => write!(f, "denied by `{pattern}`"),
            Verdict::NotAllowed => f.write_str("no pattern of `allow` matches"),
            Verdict::OwnerOnly => f.write_str("the tool is for owners only"),
            Verdict::NoContract => f.write_str("the tool has no contract"),
        }
    }
}

#[cfg(test)]
mod tests;
