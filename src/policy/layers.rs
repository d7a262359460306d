//! Do the layers name what exists? What fails open is an error: a `deny` that can match nothing, a
//! layer that nobody has, a caller whose profile has no layer. What fails closed is a warning: an
//! `allow` that can match nothing (policy §2.1, §2.2).

mod owners;

use super::shape::suggest;
use crate::guards::allowlist::listed::GROUP_PREFIX;
use crate::guards::allowlist::side;
use crate::guards::allowlist::written::{self, LayerEnvironment, LayerKind, Unavailable};
use crate::guards::allowlist::{Settings, ToolPattern};
use crate::guards::{Mode, identity};
use crate::model::diagnostic::{Diagnostic, Problems};
use crate::model::ids::{AgentId, ServerName};
use std::collections::{BTreeMap, BTreeSet};

/// What one policy file says of layers.
#[derive(Debug, Default)]
pub(crate) struct WrittenLayers {
    /// Its layers.
    pub layers: Settings,
    /// Its groups of tools.
    pub groups: BTreeMap<String, Vec<String>>,
}

/// A layer that a caller of the configuration is given by name.
#[derive(Debug, Clone)]
pub(crate) struct Assigned {
    /// `profile` or `environment`.
    pub kind: LayerKind,
    /// Its name.
    pub name: String,
    /// Where; without words yet.
    pub place: Diagnostic,
}

/// Judges the layers of all files, against what they can name.
pub(crate) struct LayerChecker<'a> {
    around: &'a LayerEnvironment,
    mode: Mode,
    names: BTreeMap<&'static str, Vec<String>>,
    /// Tokens may name agents that the configuration does not.
    any_agent: bool,
    models: BTreeSet<String>,
    /// Groups met so far, and those that a `deny` or an `allow` names.
    groups: BTreeSet<String>,
    denied: BTreeSet<String>,
    allowed: BTreeSet<String>,
    /// Layers there are, by kind.
    layers: BTreeSet<(&'static str, String)>,
}

impl<'a> LayerChecker<'a> {
    /// With what the configuration knows.
    pub(crate) fn new(
        around: &'a LayerEnvironment,
        mode: Mode,
        identity: &identity::Rule,
        agents: &[AgentId],
    ) -> Self {
        let mut names: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        names.insert(
            LayerKind::Agent.word(),
            agents.iter().map(ToString::to_string).collect(),
        );
        let mut models = BTreeSet::new();
        for caller in identity.callers() {
            let given = [
                (LayerKind::Profile, &caller.profile),
                (LayerKind::Environment, &caller.environment),
            ];
            for (kind, name) in given {
                names.entry(kind.word()).or_default().extend(name.clone());
            }
            models.extend(caller.model.clone());
            models.extend(caller.provider().map(str::to_owned));
        }
        // Agents of issuers have some, too.
        let groups = identity.groups().map(str::to_owned).collect();
        names.insert(LayerKind::Group.word(), groups);
        let (groups, denied, allowed) = Default::default();
        Self {
            around,
            mode,
            names,
            any_agent: identity.names_any(),
            models,
            groups,
            denied,
            allowed,
            layers: BTreeSet::new(),
        }
    }

    /// Judges one file.
    pub(crate) fn judge(&mut self, written: &WrittenLayers, problems: &mut Problems) {
        problems.under("groups", |problems| {
            for (name, patterns) in &written.groups {
                problems.under(name.clone(), |problems| {
                    self.judge_group(name, patterns, problems);
                });
            }
        });
        problems.under(Settings::NAME, |problems| {
            written.layers.each(problems, &mut |layer, problems| {
                self.judge_layer(layer, problems);
            });
        });
    }

    /// Judges what only all files tell: what becomes of the groups of one.
    pub(crate) fn judge_use(&self, written: &WrittenLayers, problems: &mut Problems) {
        problems.under("groups", |problems| {
            for (name, patterns) in &written.groups {
                problems.under(name.clone(), |problems| {
                    if !self.denied.contains(name) && !self.allowed.contains(name) {
                        problems.warning(
                            "no layer names this group",
                            format!("write `{GROUP_PREFIX}{name}` into a layer"),
                        );
                    }
                    self.judge_patterns(patterns, self.denied.contains(name), false, problems);
                });
            }
        });
    }

    /// What is wrong with what a caller is given.
    pub(crate) fn judge_assigned(
        &self,
        Assigned { kind, name, place }: Assigned,
    ) -> Option<Diagnostic> {
        let known = self
            .layers
            .iter()
            .filter(|(word, _)| *word == kind.word())
            .map(|(_, name)| name.clone());
        let known: Vec<String> = known.collect();
        if known.contains(&name) {
            return None;
        }
        let word = kind.word();
        let hint = if known.is_empty() {
            format!("add `layers: {{ {word}: {{ {name}: {{}} }} }}` to a policy file")
        } else {
            suggest(&name, &known)
        };
        let message =
            format!("no policy file has a layer for the {word} `{name}`, so it restricts nothing");
        Some(Diagnostic {
            message,
            hint: Some(hint),
            ..place
        })
    }

    fn judge_group(&mut self, name: &str, patterns: &[String], problems: &mut Problems) {
        if !self.groups.insert(name.to_owned()) {
            problems.error(
                format!("the group `{name}` is in two policy files"),
                "keep one",
            );
        }
        if name.trim() != name || name.is_empty() || name.contains('*') {
            problems.error("is no name for a group", "use letters, digits, `_` and `-`");
        }
        if patterns.is_empty() {
            problems.error(
                "a group without patterns stands for nothing",
                "name a tool, or take the group away",
            );
        }
        for (index, text) in patterns.iter().enumerate() {
            problems.under(index.to_string(), |problems| {
                if text.starts_with(GROUP_PREFIX) {
                    problems.error("a group holds no group", "write its patterns");
                } else {
                    drop(ToolPattern::compile(text, problems));
                }
            });
        }
    }

    fn judge_layer(&mut self, layer: &written::WrittenLayer<'_>, problems: &mut Problems) {
        let (word, name) = (layer.kind.word(), layer.name);
        match layer.model {
            None => self.judge_name(layer, problems),
            Some(_) if !layer.kind.has_models() => {
                let hint = "`profile`, `global` and `agent` have it";
                problems.error(
                    format!("a layer of `{word}` does not depend on the model"),
                    hint,
                );
            }
            Some(model) if !self.models.contains(model) => {
                let known: Vec<String> = self.models.iter().cloned().collect();
                let hint = if known.is_empty() {
                    "give a caller its `model`".to_owned()
                } else {
                    suggest(model, &known)
                };
                problems.error(format!("no caller's model is of `{model}`"), hint);
            }
            Some(_) => {}
        }
        self.layers.insert((word, name.to_owned()));
        if layer.unavailable_only_allowlist == Unavailable::Strip && !layer.kind.may_strip() {
            problems.under("unavailable_only_allowlist", |problems| {
                let hint =
                    "only `profile`, `profile.by_model_provider` and `group` may; take it away";
                problems.error(format!("`{word}` is never stripped"), hint);
            });
        }
        self.judge_available(layer, problems);
        self.judge_sides(layer, problems);
        for (is_deny, list) in [(true, Some(layer.deny)), (false, layer.allow)] {
            problems.under(if is_deny { "deny" } else { "allow" }, |problems| {
                self.judge_groups(is_deny, list.unwrap_or_default(), problems);
                self.judge_patterns(
                    list.unwrap_or_default(),
                    is_deny,
                    layer.ignore_case,
                    problems,
                );
            });
        }
    }

    /// A pattern of a side door that reaches no server is a typo. What cannot be compiled is
    /// reported where it is compiled.
    fn judge_sides(&self, layer: &written::WrittenLayer<'_>, problems: &mut Problems) {
        let servers = &self.around.servers;
        let known: Vec<String> = servers
            .iter()
            .map(|(server, _)| server.to_string())
            .collect();
        let hint = format!("declared servers: {}", known.join(", "));
        for (door, section) in &layer.sides {
            let Some(section) = section else { continue };
            let reaches = |pattern: &ToolPattern| {
                let is_named = |server: &ServerName| {
                    if door.is_of_servers() {
                        pattern.matches(server.as_str())
                    } else {
                        pattern.reaches(server)
                    }
                };
                servers.iter().any(|(server, _)| is_named(server))
            };
            let look = |key: &str, list: &[String], problems: &mut Problems| {
                for (index, text) in list.iter().enumerate() {
                    let pattern = side::pattern(*door, text, &mut Problems::default());
                    if pattern.is_none_or(|pattern| reaches(&pattern)) {
                        continue;
                    }
                    let found = format!("`{text}` is of no declared server");
                    problems.under(key, |problems| {
                        problems.under(index.to_string(), |problems| match key {
                            "deny" => problems
                                .error(format!("{found}, so it denies nothing"), hint.clone()),
                            _ => problems
                                .warning(format!("{found}, so it allows nothing"), hint.clone()),
                        });
                    });
                }
            };
            problems.under(door.word(), |problems| {
                look("deny", &section.deny, problems);
                look(
                    "allow",
                    section.allow.as_deref().unwrap_or_default(),
                    problems,
                );
            });
        }
    }

    /// Tells of an `allow` that names only what is not there now (001-17).
    fn judge_available(&self, layer: &written::WrittenLayer<'_>, problems: &mut Problems) {
        if !layer.is_unavailable(self.around) {
            return;
        }
        problems.under("allow", |problems| match layer.unavailable_only_allowlist {
            Unavailable::Strip => {
                let hint =
                    "the list is left out until one of the servers is enabled; `deny` still holds";
                problems.warning(
                    "names only tools of disabled servers, and no longer restricts",
                    hint,
                );
            }
            Unavailable::Keep => {
                let hint = "enable one of the servers, or name other tools";
                problems.warning(
                    "names only tools of disabled servers: nothing passes this layer",
                    hint,
                );
            }
        });
    }

    fn judge_groups(&mut self, is_deny: bool, list: &[String], problems: &mut Problems) {
        let known: Vec<String> = self
            .around
            .groups
            .keys()
            .map(|name| format!("{GROUP_PREFIX}{name}"))
            .collect();
        for (index, text) in list.iter().enumerate() {
            let Some(name) = text.strip_prefix(GROUP_PREFIX) else {
                continue;
            };
            if self.around.groups.contains_key(name) {
                let named = if is_deny {
                    &mut self.denied
                } else {
                    &mut self.allowed
                };
                named.insert(name.to_owned());
                continue;
            }
            problems.under(index.to_string(), |problems| {
                let hint = if known.is_empty() {
                    format!("add `groups: {{ {name}: [\"server__*\"] }}` to a policy file")
                } else {
                    suggest(text, &known)
                };
                if is_deny {
                    problems.error(
                        format!("there is no group `{name}`, so this denies nothing"),
                        hint,
                    );
                } else {
                    problems.warning(
                        format!("there is no group `{name}`, so this allows nothing"),
                        hint,
                    );
                }
            });
        }
    }

    fn judge_patterns(
        &self,
        list: &[String],
        is_deny: bool,
        any_case: bool,
        problems: &mut Problems,
    ) {
        let servers = &self.around.servers;
        let known: Vec<String> = servers
            .iter()
            .map(|(server, _)| server.to_string())
            .collect();
        let hint = format!(
            "tools are named `server__tool`; declared servers: {}",
            known.join(", ")
        );
        for (index, text) in list
            .iter()
            .enumerate()
            .filter(|(_, text)| !text.starts_with(GROUP_PREFIX))
        {
            // What cannot be compiled is reported where it is compiled.
            let Some(pattern) = ToolPattern::compile(text, &mut Problems::default()) else {
                continue;
            };
            let pattern = pattern.in_any_case(any_case);
            let is_lost = !servers.iter().any(|(server, _)| pattern.reaches(server));
            problems.under(index.to_string(), |problems| match (is_lost, is_deny) {
                (true, true) => {
                    problems.error(
                        format!("`{text}` can match no tool, so it denies nothing"),
                        hint.clone(),
                    );
                }
                (true, false) => {
                    problems.warning(format!("`{text}` can match no tool"), hint.clone());
                }
                (false, _) => self.judge_tool(&pattern, is_deny, problems),
            });
        }
    }

    /// A name without a contract is a typo, or stands for a tool that is refused anyway. A deny of
    /// tools to come is neither.
    fn judge_tool(&self, pattern: &ToolPattern, is_deny: bool, problems: &mut Problems) {
        if self.mode == Mode::Observe || self.around.tools.may_know(pattern) {
            return;
        }
        if pattern.is_wild() && !is_deny {
            let message = format!(
                "no tool that `{}` names has a contract, so it allows nothing",
                pattern.as_str()
            );
            problems.warning(
                message,
                "correct it, or write a contract for what it is meant for",
            );
        }
        if !pattern.is_wild() {
            let known: Vec<String> = self.around.tools.names().map(ToString::to_string).collect();
            let near = suggest(pattern.as_str(), &known);
            let hint = if near.starts_with("did you mean") {
                near
            } else {
                "write a contract for it".to_owned()
            };
            problems.warning(
                format!("the tool `{}` has no contract", pattern.as_str()),
                hint,
            );
        }
    }
}
