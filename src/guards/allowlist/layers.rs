//! Layers as run: for each caller those that hold for it, in the documented order.

use super::LayerVerdict;
use super::listed::ListedPattern;
use super::side::SideSection;
use super::written::{LayerKind, Unavailable, WrittenLayer};
use crate::model::caller::Caller;
use std::collections::HashMap;

/// All layers of all files.
#[derive(Debug, Default, Clone)]
pub struct Layers {
    profile: HashMap<String, Tier>,
    group: HashMap<String, Tier>,
    global: Tier,
    agent: HashMap<String, Tier>,
    environment: HashMap<String, Tier>,
    delegation: Tier,
}

/// What several files say of one layer.
#[derive(Debug, Default, Clone)]
struct Tier {
    own: Vec<AllowlistLayer>,
    /// One map a file: of each, what fits the caller's model best holds.
    by_model: Vec<HashMap<String, AllowlistLayer>>,
}

/// One layer.
#[derive(Debug, Clone)]
pub struct AllowlistLayer {
    label: String,
    allow: Option<PatternList>,
    deny: PatternList,
    /// `allow` names only tools of disabled servers; what becomes of it.
    unavailable: Option<Unavailable>,
    /// What it says of side doors.
    sides: Vec<SideSection>,
}

/// Patterns, of which names are looked up at once.
#[derive(Debug, Default, Clone)]
struct PatternList {
    listed: Vec<ListedPattern>,
    names: HashMap<String, usize>,
    globs: Vec<usize>,
}

impl PatternList {
    fn new(listed: Vec<ListedPattern>) -> Self {
        let mut list = Self {
            listed,
            ..Self::default()
        };
        for (index, one) in list.listed.iter().enumerate() {
            if !one.pattern().is_wild() && !one.pattern().is_in_any_case() {
                list.names
                    .entry(one.pattern().as_str().to_owned())
                    .or_insert(index);
            } else {
                list.globs.push(index);
            }
        }
        list
    }

    fn find(&self, tool: &str) -> Option<&str> {
        let glob = || {
            self.globs
                .iter()
                .copied()
                .find(|index| self.listed[*index].pattern().matches(tool))
        };
        let found = self.names.get(tool).copied().or_else(glob)?;
        Some(self.listed[found].shown())
    }
}

impl AllowlistLayer {
    pub(super) fn new(
        label: String,
        allow: Option<Vec<ListedPattern>>,
        deny: Vec<ListedPattern>,
        unavailable: Option<Unavailable>,
        sides: Vec<SideSection>,
    ) -> Self {
        Self {
            label,
            allow: allow.map(PatternList::new),
            deny: PatternList::new(deny),
            unavailable,
            sides,
        }
    }

    pub(super) fn sides(&self) -> &[SideSection] {
        &self.sides
    }

    /// What `WrittenLayer::label` calls it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its `allow` names only tools of disabled servers: what becomes of it.
    pub fn unavailable(&self) -> Option<Unavailable> {
        self.unavailable
    }

    pub(super) fn judge(&self, tool: &str) -> LayerVerdict<'_> {
        if let Some(pattern) = self.deny.find(tool) {
            return LayerVerdict::Denied(pattern);
        }
        let Some(allow) = &self.allow else {
            return LayerVerdict::Passed;
        };
        match (self.unavailable, allow.find(tool)) {
            (Some(Unavailable::Strip), _) => LayerVerdict::Stripped,
            (_, Some(pattern)) => LayerVerdict::Allowed(pattern),
            (Some(Unavailable::Keep), None) => LayerVerdict::Unavailable,
            (None, None) => LayerVerdict::NotAllowed,
        }
    }
}

impl Tier {
    fn of<'a>(&'a self, caller: &Caller) -> impl Iterator<Item = &'a AllowlistLayer> {
        let fitting = move |layers: &'a HashMap<String, AllowlistLayer>| {
            let own = layers.get(caller.model.as_deref()?);
            own.or_else(|| layers.get(caller.provider()?))
        };
        self.own
            .iter()
            .chain(self.by_model.iter().filter_map(fitting))
    }

    fn extend(&mut self, other: Self) {
        self.own.extend(other.own);
        self.by_model.extend(other.by_model);
    }

    fn every(&self) -> impl Iterator<Item = &AllowlistLayer> {
        self.own
            .iter()
            .chain(self.by_model.iter().flat_map(HashMap::values))
    }
}

impl Layers {
    pub(super) fn add(&mut self, written: &WrittenLayer<'_>, layer: AllowlistLayer) {
        let name = written.name.to_owned();
        let tier = match written.kind {
            LayerKind::Profile => self.profile.entry(name).or_default(),
            LayerKind::Group => self.group.entry(name).or_default(),
            LayerKind::Global => &mut self.global,
            LayerKind::Agent => self.agent.entry(name).or_default(),
            LayerKind::Environment => self.environment.entry(name).or_default(),
            LayerKind::Delegation => &mut self.delegation,
        };
        match written.model {
            None => tier.own.push(layer),
            Some(model) => {
                if tier.by_model.is_empty() {
                    tier.by_model.push(HashMap::new());
                }
                tier.by_model[0].insert(model.to_owned(), layer);
            }
        }
    }

    /// Takes in the layers of another file.
    pub fn extend(&mut self, other: Self) {
        let Self {
            profile,
            group,
            global,
            agent,
            environment,
            delegation,
        } = other;
        let maps = [
            (&mut self.profile, profile),
            (&mut self.group, group),
            (&mut self.agent, agent),
            (&mut self.environment, environment),
        ];
        for (own, others) in maps {
            for (name, tier) in others {
                own.entry(name).or_default().extend(tier);
            }
        }
        self.global.extend(global);
        self.delegation.extend(delegation);
    }

    /// Those that hold for `caller`, in their order; of its parents nothing. A blank name has no
    /// layer (001-10). They are found as they are asked for: a call makes no list of them.
    pub(super) fn of<'a>(&'a self, caller: &Caller) -> impl Iterator<Item = &'a AllowlistLayer> {
        let (profile, environment) = (caller.profile.as_deref(), caller.environment.as_deref());
        let tiers = [
            named(&self.profile, profile),
            named(&self.group, caller.group.as_deref()),
            Some(&self.global),
            named(&self.agent, Some(caller.agent.as_str())),
            named(&self.environment, environment),
            Some(&self.delegation).filter(|_| !caller.parents.is_empty()),
        ];
        tiers
            .into_iter()
            .flatten()
            .flat_map(move |tier| tier.of(caller))
    }

    /// All of them, sorted by label.
    pub fn every(&self) -> Vec<&AllowlistLayer> {
        let maps = [&self.profile, &self.group, &self.agent, &self.environment];
        let named = maps.into_iter().flat_map(HashMap::values);
        let mut every: Vec<&AllowlistLayer> = named
            .chain([&self.global, &self.delegation])
            .flat_map(Tier::every)
            .collect();
        every.sort_by(|one, other| one.label.cmp(&other.label));
        every
    }
}

fn named<'a>(tiers: &'a HashMap<String, Tier>, name: Option<&str>) -> Option<&'a Tier> {
    name.filter(|name| !name.trim().is_empty())
        .and_then(|name| tiers.get(name))
}
