//! Layers as written, in the one order that is documented (policy §2.3). `compile.rs` makes of them
//! what runs.

use super::listed::{GROUP_PREFIX, ListedPattern};
use super::pattern::ToolPattern;
use super::side::SideSettings;
use crate::model::diagnostic::Problems;
use crate::model::ids::{ServerName, ToolName};
use crate::model::side::SideDoor;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};

/// The sections of side doors of a layer, in their order.
macro_rules! sections {
    ($layer:expr) => {{
        let layer = $layer;
        let sections = [
            &layer.resources,
            &layer.prompts,
            &layer.completions,
            &layer.sampling,
            &layer.elicitation,
            &layer.roots,
            &layer.logging,
        ];
        std::array::from_fn(|index| (SideDoor::ALL[index], sections[index].as_ref()))
    }};
}

/// The layers of one policy file. A tool must pass every layer of every file.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Layers")]
pub(crate) struct Settings {
    /// For callers with one `profile` each, by its name.
    pub profile: BTreeMap<String, LayerSettings>,
    /// For callers of one `group` each, by its name.
    pub group: BTreeMap<String, LayerSettings>,
    /// For every caller.
    pub global: Option<LayerSettings>,
    /// For one agent each, by its name.
    pub agent: BTreeMap<String, LayerSettings>,
    /// For callers in one `environment` each, by its name.
    pub environment: BTreeMap<String, LayerSettings>,
    /// For every agent that has a `parent`, besides all that holds for the parent.
    pub delegation: Option<LayerSettings>,
}

/// One layer. `deny` is looked at first and is final. `allow` that is absent restricts nothing;
/// `[]` lets nothing pass.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Layer")]
pub(crate) struct LayerSettings {
    /// Patterns of which one must match. `*` stands for any text, `group:NAME` for a group's
    /// patterns; everything else for itself.
    pub allow: Option<Vec<String>>,
    /// Patterns of which none may match.
    pub deny: Vec<String>,
    /// What an `allow` means that holds nothing, or only blanks.
    pub on_empty_allow: OnEmpty,
    /// What becomes of an `allow` that names only tools of servers that are `disabled`; `strip`
    /// for `profile` and `group`.
    pub unavailable_only_allowlist: Unavailable,
    /// Do the patterns match letters of either case?
    pub ignore_case: bool,
    /// Resources, by `server__uri`: who may list, read and subscribe to them.
    pub resources: Option<SideSettings>,
    /// Prompts, by `server__prompt`.
    pub prompts: Option<SideSettings>,
    /// Completions, by what is completed: `server__prompt` or `server__template`, which must be
    /// open, too.
    pub completions: Option<SideSettings>,
    /// Servers that may use the model of their agent.
    pub sampling: Option<SideSettings>,
    /// Servers that may ask the person behind the agent.
    pub elicitation: Option<SideSettings>,
    /// Servers that may ask for the agent's directories.
    pub roots: Option<SideSettings>,
    /// Servers whose logs the agent reads.
    pub logging: Option<SideSettings>,
    /// A further layer for callers whose model is of that `provider`, or for one `provider/model`,
    /// which goes before; for `profile`, `global` and `agent`.
    pub by_model_provider: BTreeMap<String, ModelSettings>,
}

/// One layer for the models of one provider, or one model.
#[derive(Debug, Default, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ModelLayer")]
pub(crate) struct ModelSettings {
    /// Patterns of which one must match.
    pub allow: Option<Vec<String>>,
    /// Patterns of which none may match.
    pub deny: Vec<String>,
    /// What an `allow` means that holds nothing, or only blanks.
    pub on_empty_allow: OnEmpty,
    /// What becomes of an `allow` that names only tools of servers that are `disabled`; `strip`
    /// for `profile`.
    pub unavailable_only_allowlist: Unavailable,
    /// Do the patterns match letters of either case?
    pub ignore_case: bool,
    /// Resources, by `server__uri`: who may list, read and subscribe to them.
    pub resources: Option<SideSettings>,
    /// Prompts, by `server__prompt`.
    pub prompts: Option<SideSettings>,
    /// Completions, by what is completed: `server__prompt` or `server__template`, which must be
    /// open, too.
    pub completions: Option<SideSettings>,
    /// Servers that may use the model of their agent.
    pub sampling: Option<SideSettings>,
    /// Servers that may ask the person behind the agent.
    pub elicitation: Option<SideSettings>,
    /// Servers that may ask for the agent's directories.
    pub roots: Option<SideSettings>,
    /// Servers whose logs the agent reads.
    pub logging: Option<SideSettings>,
}

/// What an `allow` means that holds nothing, or only blanks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum OnEmpty {
    /// Nothing passes.
    #[default]
    Nothing,
    /// Everything passes: for layers that were written for OpenClaw.
    All,
}

/// What becomes of an `allow` that names only tools of servers that are `disabled`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Unavailable {
    /// It goes on restricting: nothing passes.
    #[default]
    Keep,
    /// It is left out, and `deny` stays; a name that is not known is never a reason.
    Strip,
}

/// Which layer, in the order in which they are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LayerKind {
    /// By the caller's profile.
    Profile,
    /// By the caller's group.
    Group,
    /// For everybody.
    Global,
    /// By the agent.
    Agent,
    /// By where the caller runs.
    Environment,
    /// For agents that another one started.
    Delegation,
}

/// One layer where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenLayer<'a> {
    /// Which one.
    pub kind: LayerKind,
    /// Whose; empty for `global` and `delegation`.
    pub name: &'a str,
    /// For which provider or model; none for all.
    pub model: Option<&'a str>,
    /// As in the file.
    pub allow: Option<&'a [String]>,
    /// As in the file.
    pub deny: &'a [String],
    /// As in the file.
    pub on_empty_allow: OnEmpty,
    /// As in the file.
    pub unavailable_only_allowlist: Unavailable,
    /// As in the file.
    pub ignore_case: bool,
    /// The sections of side doors that are there.
    pub sides: SideSections<'a>,
}

/// The sections of one layer that say something of side doors.
pub(crate) type SideSections<'a> = [(SideDoor, Option<&'a SideSettings>); SideDoor::ALL.len()];

/// What layers stand on.
#[derive(Debug, Default)]
pub(crate) struct LayerEnvironment {
    /// Groups of tools, by name.
    pub groups: BTreeMap<String, Vec<String>>,
    /// The declared servers, and whether they are disabled.
    pub servers: Vec<(ServerName, bool)>,
    /// Tools that have a contract.
    pub tools: ContractedTools,
}

/// Tools that have a contract: by name, and by pattern.
#[derive(Debug, Default)]
pub(crate) struct ContractedTools {
    names: HashSet<ToolName>,
    globs: Vec<ToolPattern>,
}

impl FromIterator<ToolName> for ContractedTools {
    fn from_iter<T: IntoIterator<Item = ToolName>>(tools: T) -> Self {
        let mut contracted = Self::default();
        for tool in tools {
            match ToolPattern::compile(tool.as_str(), &mut Problems::default())
                .filter(ToolPattern::is_wild)
            {
                Some(glob) => contracted.globs.push(glob),
                None => drop(contracted.names.insert(tool)),
            }
        }
        contracted
    }
}

impl ContractedTools {
    /// Is there a tool that `pattern` names?
    pub(crate) fn knows(&self, pattern: &ToolPattern) -> bool {
        let text = pattern.as_str();
        let is_exact = !pattern.is_wild() && !pattern.is_in_any_case();
        let is_named = if is_exact {
            self.names.contains(text)
        } else {
            self.names.iter().any(|tool| pattern.matches(tool.as_str()))
        };
        is_named || self.globs.iter().any(|glob| glob.matches(text))
    }

    /// Can there be a tool with a contract that `pattern` names?
    pub(crate) fn may_know(&self, pattern: &ToolPattern) -> bool {
        self.knows(pattern)
            || (pattern.is_wild() && self.globs.iter().any(|glob| glob.meets(pattern)))
    }

    /// Those that have a contract of their own, in no order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.names.iter()
    }
}

// === impl Settings ===

impl Settings {
    /// The key in the file.
    pub(crate) const NAME: &'static str = "layers";

    /// Looks at each layer, in their order.
    pub(crate) fn each(
        &self,
        problems: &mut Problems,
        look: &mut dyn FnMut(&WrittenLayer<'_>, &mut Problems),
    ) {
        let Self {
            profile,
            group,
            global,
            agent,
            environment,
            delegation,
        } = self;
        let mut named =
            |kind: LayerKind, layers: &BTreeMap<String, LayerSettings>, problems: &mut Problems| {
                problems.under(kind.word(), |problems| {
                    for (name, layer) in layers {
                        problems.under(name.clone(), |problems| {
                            layer.each(kind, name, problems, look);
                        });
                    }
                });
            };
        named(LayerKind::Profile, profile, problems);
        named(LayerKind::Group, group, problems);
        named(LayerKind::Agent, agent, problems);
        named(LayerKind::Environment, environment, problems);
        for (kind, layer) in [
            (LayerKind::Global, global),
            (LayerKind::Delegation, delegation),
        ] {
            let Some(layer) = layer else { continue };
            problems.under(kind.word(), |problems| {
                layer.each(kind, "", problems, look);
            });
        }
    }
}

impl LayerSettings {
    fn each(
        &self,
        kind: LayerKind,
        name: &str,
        problems: &mut Problems,
        look: &mut dyn FnMut(&WrittenLayer<'_>, &mut Problems),
    ) {
        let own = WrittenLayer {
            kind,
            name,
            model: None,
            allow: self.allow.as_deref(),
            deny: &self.deny,
            on_empty_allow: self.on_empty_allow,
            unavailable_only_allowlist: self.unavailable_only_allowlist,
            ignore_case: self.ignore_case,
            sides: sections!(self),
        };
        look(&own, problems);
        problems.under("by_model_provider", |problems| {
            for (model, layer) in &self.by_model_provider {
                let written = WrittenLayer {
                    model: Some(model),
                    allow: layer.allow.as_deref(),
                    deny: &layer.deny,
                    on_empty_allow: layer.on_empty_allow,
                    unavailable_only_allowlist: layer.unavailable_only_allowlist,
                    ignore_case: layer.ignore_case,
                    sides: sections!(layer),
                    ..own
                };
                problems.under(model.clone(), |problems| look(&written, problems));
            }
        });
    }
}

// === impl LayerKind ===

impl LayerKind {
    /// Its key in the file.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Group => "group",
            Self::Global => "global",
            Self::Agent => "agent",
            Self::Environment => "environment",
            Self::Delegation => "delegation",
        }
    }

    /// May a layer of this kind depend on the model?
    pub(crate) fn has_models(self) -> bool {
        matches!(self, Self::Profile | Self::Global | Self::Agent)
    }

    /// May an `allow` of this kind be stripped (001-16)?
    pub(crate) fn may_strip(self) -> bool {
        matches!(self, Self::Profile | Self::Group)
    }
}

// === impl WrittenLayer ===

impl WrittenLayer<'_> {
    /// What `explain`, the ledger and the metrics call it: `profile coding`,
    /// `global.by_model_provider openai`.
    pub(crate) fn label(&self) -> String {
        let mut label = self.kind.word().to_owned();
        if self.model.is_some() {
            label.push_str(".by_model_provider");
        }
        for part in [Some(self.name), self.model]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
        {
            label.push(' ');
            label.push_str(part);
        }
        label
    }

    /// Every pattern of `deny` or `allow` (`written`) by its place; those of a group of tools have
    /// the place of the entry that names the group. An unknown group is an error, with the group's
    /// name; a text that is no pattern is left out.
    pub(crate) fn patterns<'w>(
        &self,
        written: &'w [String],
        around: &'w LayerEnvironment,
    ) -> impl Iterator<Item = (usize, Result<ListedPattern, &'w str>)> {
        let (any_case, drops_blanks) = (self.ignore_case, self.on_empty_allow == OnEmpty::All);
        let entries = written
            .iter()
            .enumerate()
            .filter(move |(_, text)| !drops_blanks || !text.trim().is_empty());
        entries.flat_map(move |(index, text)| {
            let silent = |text: &str| ToolPattern::compile(text, &mut Problems::default());
            let Some(name) = text.strip_prefix(GROUP_PREFIX) else {
                let listed = silent(text)
                    .map(|pattern| Ok(ListedPattern::own(pattern.in_any_case(any_case))));
                return listed
                    .map(|listed| (index, listed))
                    .into_iter()
                    .collect::<Vec<_>>();
            };
            let Some(members) = around.groups.get(name) else {
                return vec![(index, Err(name))];
            };
            let members = members.iter().filter_map(|member| silent(member));
            members
                .map(|pattern| {
                    (
                        index,
                        Ok(ListedPattern::of(name, pattern.in_any_case(any_case))),
                    )
                })
                .collect()
        })
    }

    /// Does `allow` name tools, and only tools that are known, of servers that are disabled
    /// (policy §2.4)?
    pub(crate) fn is_unavailable(&self, around: &LayerEnvironment) -> bool {
        let Some(allow) = self.allow else {
            return false;
        };
        let mut patterns = self.patterns(allow, around).peekable();
        let is_disabled = |pattern: &ToolPattern| {
            let mut reached = around
                .servers
                .iter()
                .filter(|(server, _)| pattern.reaches(server))
                .peekable();
            reached.peek().is_some()
                && reached.all(|(_, disabled)| *disabled)
                && around.tools.knows(pattern)
        };
        patterns.peek().is_some()
            && patterns.all(|(_, listed)| listed.is_ok_and(|listed| is_disabled(listed.pattern())))
            && allow
                .iter()
                .all(|text| text.trim() == text && !text.is_empty())
    }
}
