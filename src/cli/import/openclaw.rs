//! OpenClaw's tool policies (policy §2), by their places in its configuration or by their labels,
//! of both sets there are.

use crate::guards::allowlist::ToolPattern;
use crate::model::diagnostic::Problems;
use crate::model::ids::NAME_SEPARATOR;
use serde_json::{Map, Value, json};

/// Profiles whose tools are all OpenClaw's own, none of an MCP server.
const OWN_TOOL_PROFILES: &[&str] = &["minimal", "coding", "messaging"];
/// The profile that allows everything.
const FULL_PROFILE: &str = "full";
/// A profile for those that have none and need its layers for models.
const DEFAULT_PROFILE: &str = "default";
/// Keys of `tools` that say who sees which tools, and have no counterpart.
const RESTRICTING_KEYS: &[&str] = &["toolsBySender", "elevated"];

/// What became of it.
#[derive(Debug, Default)]
pub(super) struct Imported {
    /// As `layers` of a policy file.
    pub(super) layers: Value,
    /// What a reader should know.
    pub(super) notes: Vec<String>,
    /// What restricts there, and does not here.
    pub(super) lost: Vec<String>,
}

/// The layers of `tree`.
pub(super) fn import(tree: &Value) -> Imported {
    let mut import = Import {
        found: Imported {
            layers: json!({}),
            ..Imported::default()
        },
    };
    for (key, value) in tree.as_object().into_iter().flatten() {
        match key.as_str() {
            "tools" => import.tools(value),
            "agents" => import.agents(value),
            "channels" => import.channels(value),
            label => import.label(label, value),
        }
    }
    if import.found.layers.as_object().is_none_or(Map::is_empty) {
        import
            .found
            .lost
            .push("nothing in it says who sees which tools".to_owned());
    }
    import.found
}

struct Import {
    found: Imported,
}

impl Import {
    /// `tools` of the whole configuration.
    fn tools(&mut self, tools: &Value) {
        self.layer(&["global"], tools);
        self.profile(tools, None);
        self.by_provider(
            &["global"],
            &tools["byProvider"],
            tools["profile"].as_str().unwrap_or(DEFAULT_PROFILE),
        );
        self.layer(&["environment", "sandbox"], &tools["sandbox"]["tools"]);
        self.layer(&["delegation"], &tools["subagents"]["tools"]);
        self.without_counterpart("tools", tools);
    }

    /// `agents`: a list with ids, or a mapping by them.
    fn agents(&mut self, agents: &Value) {
        let listed = agents["list"].as_array().into_iter().flatten();
        let listed = listed.map(|agent| (agent["id"].as_str().unwrap_or_default(), agent));
        let named = agents.as_object().into_iter().flatten();
        let named = named
            .filter(|(key, _)| *key != "list" && *key != "defaults")
            .map(|(id, agent)| (id.as_str(), agent));
        for (id, agent) in listed.chain(named) {
            let tools = &agent["tools"];
            if id.trim().is_empty() || !tools.is_object() {
                continue;
            }
            self.layer(&["agent", id], tools);
            self.profile(tools, Some(id));
            let profile = tools["profile"]
                .as_str()
                .map(|profile| format!("{profile}-{id}"));
            self.by_provider(
                &["agent", id],
                &tools["byProvider"],
                profile.as_deref().unwrap_or(DEFAULT_PROFILE),
            );
            self.layer(
                &["environment", &format!("sandbox-{id}")],
                &tools["sandbox"]["tools"],
            );
            self.without_counterpart(&format!("agents.{id}.tools"), tools);
        }
    }

    /// Groups of chats.
    fn channels(&mut self, channels: &Value) {
        for (channel, settings) in channels.as_object().into_iter().flatten() {
            for (group, settings) in settings["groups"].as_object().into_iter().flatten() {
                self.layer(&["group", group], &settings["tools"]);
                if settings.get("toolsBySender").is_some() {
                    let place = format!("channels.{channel}.groups.{group}.toolsBySender");
                    self.found.lost.push(format!(
                        "`{place}` is not imported: give each sender an entry of `callers`"
                    ));
                }
            }
        }
    }

    /// One layer by its label: those of document 001, and those of the code.
    fn label(&mut self, label: &str, value: &Value) {
        let (base, name) = match label
            .strip_suffix(')')
            .and_then(|label| label.split_once(" ("))
        {
            Some((base, name)) => (base, Some(name.trim())),
            None => (label, None),
        };
        let agent = base
            .strip_prefix("agents.")
            .and_then(|rest| rest.split_once(".tools."));
        let of_agent = |kind: &str| agent.filter(|(_, rest)| *rest == kind).map(|(id, _)| id);
        match (base, name) {
            ("tools.global" | "tools.allow", None) => self.layer(&["global"], value),
            ("tools.global-provider" | "tools.byProvider.allow", None) => {
                self.models(&["global"], value);
            }
            ("tools.profile", Some(name)) => self.layer(&["profile", name], value),
            ("tools.provider-profile" | "tools.byProvider.profile", Some(name)) => {
                self.models(&["profile", name], value);
            }
            ("group tools.allow", Some(name)) => self.layer(&["group", name], value),
            ("sandbox tools.allow", name) => {
                self.layer(&["environment", name.unwrap_or("sandbox")], value);
            }
            ("subagent tools.allow", None) => self.layer(&["delegation"], value),
            ("tools.agent", Some(id)) => self.layer(&["agent", id], value),
            ("tools.agent-provider", Some(id)) => self.models(&["agent", id], value),
            _ => match (of_agent("allow"), of_agent("byProvider.allow")) {
                (Some(id), _) => self.layer(&["agent", id], value),
                (_, Some(id)) => self.models(&["agent", id], value),
                _ if base.contains("tools") => {
                    let what = "is no label of a layer, or names nobody: write it like `group tools.allow (support)`";
                    self.found.lost.push(format!("`{label}` {what}"));
                }
                _ => {}
            },
        }
    }

    /// The profile that `tools` names, of everybody or of one agent.
    fn profile(&mut self, tools: &Value, agent: Option<&str>) {
        let Some(profile) = tools["profile"].as_str() else {
            return;
        };
        let layer = agent.map_or_else(|| profile.to_owned(), |id| format!("{profile}-{id}"));
        if !self.known(profile, "tools.profile") {
            return;
        }
        let whom = agent.map_or("every caller without one of its own".to_owned(), |id| {
            format!("the agent {id}")
        });
        self.found
            .notes
            .push(format!("callers: {whom} needs `profile: {layer}`"));
        let allow = if profile == FULL_PROFILE {
            Value::Null
        } else {
            entries(&tools["alsoAllow"]).into()
        };
        let written = if allow.is_null() {
            json!({})
        } else {
            self.lists(allow.as_array().map(Vec::as_slice), &[])
        };
        self.put(&["profile", &layer], written);
    }

    /// Is it a profile that OpenClaw has? It takes any other for no policy at all, which nobody can
    /// have meant.
    fn known(&mut self, profile: &str, place: &str) -> bool {
        if OWN_TOOL_PROFILES.contains(&profile) {
            let note = format!(
                "the profile {profile} holds only tools of OpenClaw itself: of MCP servers, what `alsoAllow` adds"
            );
            if !self.found.notes.contains(&note) {
                self.found.notes.push(note);
            }
        } else if profile != FULL_PROFILE {
            self.found
                .lost
                .push(format!("`{place}` names the profile `{profile}`, which does not exist: it restricts nothing"));
            return false;
        }
        true
    }

    /// `byProvider`: the lists of a provider, and its profile.
    fn by_provider(&mut self, path: &[&str], providers: &Value, profile: &str) {
        for (provider, policy) in providers.as_object().into_iter().flatten() {
            self.layer(&[path, &["by_model_provider", provider]].concat(), policy);
            let Some(named) = policy["profile"].as_str() else {
                continue;
            };
            if self.known(named, "tools.byProvider.profile") && named != FULL_PROFILE {
                let written = self.lists(Some(&entries(&policy["alsoAllow"])), &[]);
                self.put(
                    &["profile", profile, "by_model_provider", provider],
                    written,
                );
                if profile == DEFAULT_PROFILE {
                    self.found.notes.push(format!(
                        "callers: those without a profile need `profile: {DEFAULT_PROFILE}`"
                    ));
                }
            }
        }
    }

    fn models(&mut self, path: &[&str], providers: &Value) {
        for (provider, policy) in providers.as_object().into_iter().flatten() {
            self.layer(&[path, &["by_model_provider", provider]].concat(), policy);
        }
    }

    /// One layer: a list to allow, or lists by their names. `alsoAllow` adds to a list, and
    /// restricts nothing without one.
    fn layer(&mut self, path: &[&str], policy: &Value) {
        let allow = if policy.is_array() {
            policy
        } else {
            &policy["allow"]
        };
        let allow = allow.is_array().then(|| {
            let mut allow = entries(allow);
            // An empty list allows everything, so there is nothing to add to.
            if !allow.is_empty() {
                allow.extend(entries(&policy["alsoAllow"]));
            }
            allow
        });
        let deny = entries(&policy["deny"]);
        if allow.is_none() && deny.is_empty() {
            return;
        }
        let is_open = allow.as_ref().is_some_and(Vec::is_empty);
        let mut written = self.lists(allow.as_deref(), &deny);
        if is_open {
            written["on_empty_allow"] = json!("all");
        }
        self.put(path, written);
    }

    fn lists(&mut self, allow: Option<&[Value]>, deny: &[Value]) -> Value {
        let mut written = json!({ "ignore_case": true });
        if let Some(allow) = allow {
            // What can name nothing here still keeps the list from being empty, which would mean
            // all.
            let fit = allow
                .iter()
                .filter(|entry| is_pattern(entry) && !is_group(entry))
                .cloned()
                .collect::<Vec<_>>();
            self.drop_note("allow", allow, &fit);
            written["allow"] = fit.into();
        }
        let fit: Vec<Value> = deny
            .iter()
            .filter(|entry| is_pattern(entry) && may_name(entry))
            .cloned()
            .collect();
        self.drop_note("deny", deny, &fit);
        if !fit.is_empty() {
            written["deny"] = fit.into();
        }
        written
    }

    fn drop_note(&mut self, key: &str, all: &[Value], kept: &[Value]) {
        let dropped: Vec<&str> = all
            .iter()
            .filter(|entry| !kept.contains(entry))
            .filter_map(Value::as_str)
            .collect();
        if !dropped.is_empty() {
            let names = dropped.join(", ");
            self.found.notes.push(format!(
                "left out of `{key}`, since no tool of an MCP server can have such a name: {names}"
            ));
        }
    }

    fn put(&mut self, path: &[&str], written: Value) {
        let mut at = &mut self.found.layers;
        for step in path {
            at = &mut at[*step];
        }
        match (at.as_object_mut(), written) {
            (Some(known), Value::Object(written)) => known.extend(written),
            (_, written) => *at = written,
        }
    }

    fn without_counterpart(&mut self, place: &str, tools: &Value) {
        for key in RESTRICTING_KEYS
            .iter()
            .filter(|key| tools.get(**key).is_some())
        {
            self.found.lost.push(format!(
                "`{place}.{key}` is not imported: give each sender an entry of `callers`"
            ));
        }
    }
}

/// The entries that count: texts, trimmed; blanks and everything else vanish.
fn entries(list: &Value) -> Vec<Value> {
    let texts = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    texts
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(Value::from)
        .collect()
}

fn is_pattern(entry: &Value) -> bool {
    entry
        .as_str()
        .is_some_and(|text| ToolPattern::compile(text, &mut Problems::default()).is_some())
}

fn is_group(entry: &Value) -> bool {
    entry
        .as_str()
        .is_some_and(|text| text.starts_with("group:"))
}

/// Could it name a tool of an MCP server, `server__tool`?
fn may_name(entry: &Value) -> bool {
    !is_group(entry)
        && entry
            .as_str()
            .is_some_and(|text| text.contains('*') || text.contains(NAME_SEPARATOR))
}
