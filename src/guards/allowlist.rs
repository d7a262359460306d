//! Refuses a tool that its caller may not see: owner-only, then every layer, then the contract.
//!
//! Before anything looks at the arguments: a hidden tool answers like an unknown one, whatever the
//! call holds. The listing asks the same question, so it never shows what a call would not get.

use super::{Mode, ToolRules};
use crate::mcp::uri::Unclear;
use crate::model::caller::Caller;
use crate::model::disabled::{Reason, TakenAway};
use crate::model::ids::{AgentId, NAME_SEPARATOR, ServerName, ToolName};
use crate::model::refusal::Refusal;
use layers::{AllowlistLayer, Layers};
use serde_json::Value;
use shown::short;
use std::fmt;
use std::sync::Arc;

mod compile;
mod contracts;
pub(crate) mod layers;
pub(crate) mod listed;
mod pattern;
mod shown;
pub(crate) mod side;
mod side_rule;
pub(crate) mod written;

pub(crate) use contracts::Contracts;
pub(crate) use pattern::ToolPattern;
pub(crate) use written::Settings;

/// What is said of a tool of which no contract is.
pub(crate) const NO_CONTRACT_WORDS: &str = "the tool has no contract";

/// As run, with the contracts behind it.
#[derive(Debug, Clone)]
pub struct Rule {
    mode: Mode,
    layers: Layers,
    contracts: Contracts,
    observed: Arc<ToolRules>,
    /// Servers that the configuration disables.
    servers: Vec<ServerName>,
    disabled: TakenAway,
}

/// The caller may see this tool; the only way to its rules.
#[must_use]
#[derive(Debug, Clone)]
pub struct Admitted<'a> {
    rules: &'a Arc<ToolRules>,
    /// The contract as a whole, where `rules` is a variant of it.
    whole: &'a Arc<ToolRules>,
    by: Provenance<'a>,
    /// The last layer whose `allow` names it, if one does.
    allowed: Option<Provenance<'a>>,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance<'a> {
    /// The parent of the caller for which this was asked; none for the caller itself (001-13).
    pub parent: Option<AgentId>,
    /// `owner`, `disabled`, a layer such as `global` or `agent support-bot`, or `contract`.
    pub layer: &'a str,
    /// How it decided.
    pub verdict: LayerVerdict<'a>,
}

/// How one layer decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerVerdict<'a> {
    /// It has nothing against the tool.
    Passed,
    /// A pattern of `allow` matches.
    Allowed(&'a str),
    /// `allow` names only tools of disabled servers, and is left out (001-16).
    Stripped,
    /// A pattern of `deny` matches.
    Denied(&'a str),
    /// No pattern of `allow` matches.
    NotAllowed,
    /// No pattern of `allow` matches, and all of them name tools of disabled servers (001-17).
    Unavailable,
    /// The tool is `owner_only` and the caller is no owner.
    OwnerOnly,
    /// An operator has taken the tool away (003-41).
    Disabled(&'a Reason),
    /// The configuration disables its server.
    ServerDisabled,
    /// The tool has no contract.
    NoContract,
    /// The contract does not name the provider of the caller's model (001-A9).
    Provider,
    /// No layer's `allow` names it, and it is no tool (threat-model §5).
    Closed,
    /// It is no URI that has one reading (threat-model §3C C3).
    Unclear(Unclear),
}

/// Callers for which the same holds here, so that they are listed the same tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallerClass(Vec<String>);

// === impl Rule ===

impl Rule {
    /// Judges by all of `layers`, and asks for a contract in enforce mode.
    pub fn new(mode: Mode, layers: Layers, contracts: impl Into<Contracts>) -> Self {
        let (contracts, observed) = (contracts.into(), Arc::new(ToolRules::observed()));
        Self {
            mode,
            layers,
            contracts,
            observed,
            servers: Vec::new(),
            disabled: TakenAway::default(),
        }
    }

    /// The same, without any tool of `servers`.
    #[must_use]
    pub fn without_servers(self, servers: Vec<ServerName>) -> Self {
        Self { servers, ..self }
    }

    /// The same, without the tools that operators and incidents have taken away: in observe mode, too.
    #[must_use]
    pub fn without(self, away: impl Into<TakenAway>) -> Self {
        let disabled = away.into();
        Self { disabled, ..self }
    }

    /// May `caller` see `tool`? For the listing and for the call. In observe mode all is admitted
    /// but what is disabled, and [`Admitted::would_refuse`] says what enforce mode would have
    /// done.
    pub fn admit(&self, caller: &Caller, tool: &ToolName) -> Result<Admitted<'_>, Box<Denied<'_>>> {
        let rules = self.contracts.get(tool);
        let mut by = Provenance {
            parent: None,
            layer: "contract",
            verdict: LayerVerdict::Passed,
        };
        let mut allowed = None;
        self.steps(rules, caller, tool, &mut |step| {
            if let LayerVerdict::Allowed(_) = step.verdict {
                allowed = Some(step.clone());
            }
            by = step;
            !by.verdict.refuses()
        });
        let would_refuse = by.verdict.refuses();
        match (rules, self.mode) {
            (Some(rules), _) if !would_refuse => Ok(Admitted {
                rules,
                whole: rules,
                by,
                allowed,
                would_refuse,
            }),
            (rules, Mode::Observe) if !by.verdict.is_disabled() => {
                let rules = rules.unwrap_or(&self.observed);
                Ok(Admitted {
                    rules,
                    whole: rules,
                    by,
                    allowed,
                    would_refuse,
                })
            }
            (_, Mode::Enforce | Mode::Observe) => Err(Box::new(Denied {
                refusal: Refusal::ToolNotAllowlisted,
                by,
            })),
        }
    }

    /// Every step of the decision, in order, also those after the one that decides.
    pub fn explain(&self, caller: &Caller, tool: &ToolName) -> Vec<Provenance<'_>> {
        let mut steps = Vec::new();
        self.steps(self.contracts.get(tool), caller, tool, &mut |step| {
            steps.push(step);
            true
        });
        steps
    }

    /// Tells `note` of each step, in the one order there is, as long as it wants to hear more:
    /// owner, what is disabled, the layers, the same of every parent, the contract; `rules` is the
    /// tool's.
    fn steps<'a>(
        &'a self,
        rules: Option<&'a Arc<ToolRules>>,
        caller: &Caller,
        tool: &ToolName,
        note: &mut dyn FnMut(Provenance<'a>) -> bool,
    ) {
        let own = |layer: &'a str, verdict| Provenance {
            parent: None,
            layer,
            verdict,
        };
        let goes_on = owned(rules, caller, None, note)
            && self
                .taken_away(tool)
                .is_none_or(|verdict| note(own("disabled", verdict)))
            && self.layered(tool, caller, None, note)
            && self.delegated(rules, caller, tool, note);
        if goes_on {
            note(own(
                "contract",
                rules.map_or(LayerVerdict::NoContract, |rules| {
                    rules.judge_provider(caller)
                }),
            ));
        }
    }

    fn layered<'a>(
        &'a self,
        tool: &ToolName,
        caller: &Caller,
        parent: Option<&AgentId>,
        note: &mut dyn FnMut(Provenance<'a>) -> bool,
    ) -> bool {
        self.layers.of(caller).all(|layer| {
            note(Provenance {
                parent: parent.cloned(),
                layer: layer.label(),
                verdict: layer.judge(tool.as_str()),
            })
        })
    }

    /// What every parent may see, and theirs: a child never exceeds its parent (001-13).
    fn delegated<'a>(
        &'a self,
        rules: Option<&'a Arc<ToolRules>>,
        caller: &Caller,
        tool: &ToolName,
        note: &mut dyn FnMut(Provenance<'a>) -> bool,
    ) -> bool {
        caller.parents.iter().all(|parent| {
            let of = Some(&parent.agent);
            let provider = rules.map_or(LayerVerdict::Passed, |rules| rules.judge_provider(parent));
            owned(rules, parent, of, note)
                && self.layered(tool, parent, of, note)
                && note(Provenance {
                    parent: of.cloned(),
                    layer: "contract",
                    verdict: provider,
                })
                && self.delegated(rules, parent, tool, note)
        })
    }

    fn taken_away(&self, tool: &ToolName) -> Option<LayerVerdict<'_>> {
        let by_operator = self.disabled.reason(tool).map(LayerVerdict::Disabled);
        let is_of = |server: &ServerName| {
            tool.as_str()
                .strip_prefix(server.as_str())
                .is_some_and(|rest| rest.starts_with(NAME_SEPARATOR))
        };
        by_operator.or_else(|| {
            self.servers
                .iter()
                .any(is_of)
                .then_some(LayerVerdict::ServerDisabled)
        })
    }

    /// What decides which tools `caller` sees, and nothing else of it.
    pub fn class(&self, caller: &Caller) -> CallerClass {
        let mut said = Vec::with_capacity(8);
        let mut push = |word: &str| said.push(word.to_owned());
        let mut callers = vec![caller];
        while let Some(caller) = callers.pop() {
            push(if caller.owner { "owner" } else { "" });
            push(caller.model.as_deref().unwrap_or_default());
            self.layers.of(caller).for_each(|layer| push(layer.label()));
            push(&caller.parents.len().to_string());
            callers.extend(caller.parents.iter().map(|parent| &**parent));
        }
        CallerClass(said)
    }

    /// The layers whose `allow` names only tools of disabled servers.
    pub fn unavailable(&self) -> impl Iterator<Item = &AllowlistLayer> {
        self.layers
            .every()
            .into_iter()
            .filter(|layer| layer.unavailable().is_some())
    }

    /// What each contract can refuse with, in no order: [`ToolRules::codes`].
    pub fn codes(&self) -> impl Iterator<Item = (&ToolName, Vec<(Option<usize>, String)>)> {
        self.contracts
            .named()
            .map(|(name, rules)| (name, rules.codes()))
    }

    /// The tools that have a contract, and the patterns of contracts for several, in no order.
    pub fn contracts(&self) -> impl Iterator<Item = &ToolName> {
        self.contracts.names()
    }

    /// The contract of `tool`, whichever caller asks: to compare it with what a tool server says of
    /// the tool.
    pub fn contract_of(&self, tool: &ToolName) -> Option<&Arc<ToolRules>> {
        self.contracts.get(tool)
    }

    /// Whether the contract of `tool` takes the arguments of each call as they are written: it has no
    /// key among them, and strips none.
    pub fn takes_as_written(&self, tool: &ToolName) -> bool {
        self.contracts.take_as_written(tool)
    }

    /// All contracts, to compare them with what tool servers say.
    pub(crate) fn written(&self) -> &Contracts {
        &self.contracts
    }

    /// The name of that contract as written: the tool's, or a pattern.
    pub fn contract_name_of(&self, tool: &ToolName) -> Option<&ToolName> {
        self.contracts.name_of(tool)
    }

    /// The contracts that change something, of one with variants those that do, in no order.
    pub fn changing(&self) -> impl Iterator<Item = (&ToolName, &Arc<ToolRules>)> {
        let cases = self.contracts.named().flat_map(|(name, whole)| {
            let cases = whole
                .variants
                .iter()
                .flat_map(|variants| variants.cases().map(|(_, rules)| rules));
            let whole = whole.variants.is_none().then_some(whole);
            whole
                .into_iter()
                .chain(cases)
                .map(move |rules| (name, rules))
        });
        cases.filter(|(_, rules)| rules.side_effect)
    }

    /// Is the tool taken away, by an operator or with its server?
    pub fn is_disabled(&self, tool: &ToolName) -> bool {
        self.taken_away(tool).is_some()
    }

    /// The tools that operators and incidents have taken away.
    pub fn disabled(&self) -> &TakenAway {
        &self.disabled
    }
}

fn owned<'a>(
    rules: Option<&Arc<ToolRules>>,
    caller: &Caller,
    parent: Option<&AgentId>,
    note: &mut dyn FnMut(Provenance<'a>) -> bool,
) -> bool {
    let hidden = rules.is_some_and(|rules| rules.owner_only) && !caller.owner;
    let verdict = if hidden {
        LayerVerdict::OwnerOnly
    } else {
        LayerVerdict::Passed
    };
    note(Provenance {
        parent: parent.cloned(),
        layer: "owner",
        verdict,
    })
}

impl ToolRules {
    fn judge_provider(&self, caller: &Caller) -> LayerVerdict<'static> {
        let fits = |named: &String| {
            Some(named.as_str()) == caller.provider()
                || Some(named.as_str()) == caller.model.as_deref()
        };
        let passes = self.providers_allowed.is_empty() || self.providers_allowed.iter().any(fits);
        if passes {
            LayerVerdict::Passed
        } else {
            LayerVerdict::Provider
        }
    }
}

impl<'a> Admitted<'a> {
    /// The same for a call with these arguments: of a contract with variants, the one that they
    /// choose. The contract as a whole when they choose none; its step 3 refuses them. Other
    /// arguments may choose another.
    pub fn on(self, arguments: &Value) -> Self {
        let chosen = self
            .whole
            .variants
            .as_ref()
            .and_then(|variants| variants.choose(arguments));
        Self {
            rules: chosen.unwrap_or(self.whole),
            ..self
        }
    }

    /// The contract, or in observe mode what stands in for it.
    pub fn rules(&self) -> &'a Arc<ToolRules> {
        self.rules
    }

    /// The last layer whose `allow` names the tool; none where no layer limits it.
    pub fn allowed(&self) -> Option<&Provenance<'a>> {
        self.allowed.as_ref()
    }

    /// What decided last.
    pub fn by(&self) -> &Provenance<'a> {
        &self.by
    }

    /// In observe mode: the refusal of enforce mode.
    pub fn would_refuse(&self) -> Option<Refusal> {
        self.would_refuse.then_some(Refusal::ToolNotAllowlisted)
    }
}

impl LayerVerdict<'_> {
    /// Does this end the matter?
    pub fn refuses(self) -> bool {
        match self {
            Self::Passed | Self::Allowed(_) | Self::Stripped => false,
            Self::Denied(_)
            | Self::NotAllowed
            | Self::Unavailable
            | Self::OwnerOnly
            | Self::Disabled(_)
            | Self::ServerDisabled
            | Self::NoContract
            | Self::Provider
            | Self::Closed
            | Self::Unclear(_) => true,
        }
    }

    fn is_disabled(self) -> bool {
        matches!(self, Self::Disabled(_) | Self::ServerDisabled)
    }
}

impl fmt::Display for Provenance<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = &self.parent {
            write!(f, "delegation by {}: ", short(parent.as_str()))?;
        }
        write!(f, "{}: ", short(self.layer))?;
        match self.verdict {
            LayerVerdict::Passed => f.write_str("nothing against it"),
            LayerVerdict::Allowed(pattern) => write!(f, "allowed by `{}`", short(pattern)),
            LayerVerdict::Stripped => {
                f.write_str("`allow` names only tools of disabled servers and is left out")
            }
            LayerVerdict::Denied(pattern) => write!(f, "denied by `{}`", short(pattern)),
            LayerVerdict::NotAllowed => f.write_str("no pattern of `allow` matches"),
            LayerVerdict::Unavailable => f.write_str(
                "no pattern of `allow` matches; all of them name tools of disabled servers",
            ),
            LayerVerdict::OwnerOnly => f.write_str("the tool is for owners only"),
            LayerVerdict::Disabled(Reason { who, why, since }) => {
                write!(f, "by {} since {since}: {}", short(who), short(why))
            }
            LayerVerdict::ServerDisabled => f.write_str("the configuration disables the server"),
            LayerVerdict::NoContract => f.write_str(NO_CONTRACT_WORDS),
            LayerVerdict::Provider => f.write_str("not for the provider of the caller's model"),
            LayerVerdict::Closed => f.write_str("closed, since no layer's `allow` names it"),
            LayerVerdict::Unclear(unclear) => write!(f, "no URI to compare: {unclear}"),
        }
    }
}

#[cfg(test)]
mod tests;
