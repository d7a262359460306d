//! The tools of all servers as one immutable set: each definition's schema is judged and compiled
//! once, and a tool that cannot be validated is quarantined, never offered (threat-model §4).

use crate::gate::catalogue::collisions;
use crate::gate::catalogue::last_fit::LastFit;
use crate::gate::catalogue::pinned;
use crate::gate::catalogue::pinned::ToldWithheld;
use crate::gate::catalogue::tool::Tool;
use crate::gate::catalogue::tool::Tools;
use crate::gate::catalogue::variants::Variants;
use crate::mcp::tools::Definition;
use crate::model::ids::{ServerName, ToolName};
use crate::policy::Policy;
use crate::policy::live::LivePolicy;
use crate::schema::{Schema, schema_hash};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::tasks;
use crate::upstream::server::{ServerState, UpstreamServer};
use crate::upstream::servers::Servers;
use arc_swap::ArcSwap;
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The current tools, and word of their changes.
pub struct Toolbox {
    current: ArcSwap<Tools>,
    changed: watch::Sender<u64>,
    gathered: watch::Sender<u64>,
}

impl Default for Toolbox {
    fn default() -> Self {
        Self {
            current: ArcSwap::from_pointee(Tools::default()),
            changed: watch::channel(0).0,
            gathered: watch::channel(0).0,
        }
    }
}

impl Toolbox {
    /// Holds these tools until the first change.
    pub fn of(all: Vec<Arc<Tool>>) -> Self {
        let by_name = all
            .iter()
            .map(|tool| (tool.name.clone(), tool.clone()))
            .collect();
        let current = ArcSwap::from_pointee(Tools {
            all,
            by_name,
            ..Tools::default()
        });
        Self {
            current,
            ..Self::default()
        }
    }

    /// Waits until the server of that name was tried once and its tools, if it answered, can be
    /// called.
    pub async fn settled(&self, name: &ServerName) {
        let mut gathered = self.gathered.subscribe();
        let _ = gathered
            .wait_for(|_| self.current.load().tried.contains(name))
            .await;
    }

    /// The tools, as they stand.
    pub fn current(&self) -> arc_swap::Guard<Arc<Tools>> {
        self.current.load()
    }

    /// Rises after every change, when the new tools can be listed.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Follows the servers until `stop`; what `policy` withholds of their tools is counted and
    /// told.
    async fn follow(self: Arc<Self>, servers: Arc<Servers>, policy: Arc<LivePolicy>, seen: Seen) {
        let (mut changes, mut policies) = (servers.changed(), policy.changes());
        let Seen {
            metrics,
            mut told,
            stop,
        } = seen;
        loop {
            changes.borrow_and_update();
            let (old, from) = (self.current.load_full(), servers.clone());
            let gathered = tokio::task::spawn_blocking(move || gather(&from, &old)).await;
            if let Ok(tools) = gathered {
                count(&tools, &servers, &policy.current(), &mut told, &metrics);
                self.current.store(Arc::new(tools));
                self.gathered.send_modify(|version| *version += 1);
                // A server that says so has changed tools, even if none of their definitions
                // differs.
                self.changed.send_modify(|version| *version += 1);
            }
            loop {
                tokio::select! {
                    still = changes.changed() => if still.is_err() { return } else { break },
                    still = policies.changed() => if still.is_err() { return },
                    () = stop.cancelled() => return,
                }
                count(
                    &self.current.load(),
                    &servers,
                    &policy.current(),
                    &mut told,
                    &metrics,
                );
            }
        }
    }

    /// Starts to follow the servers, until `stop`; what `policy` withholds of their tools is
    /// counted and told.
    pub fn start(
        self: &Arc<Self>,
        servers: &Arc<Servers>,
        policy: &Arc<LivePolicy>,
        metrics: &Arc<Metrics>,
        stop: &CancellationToken,
    ) {
        let seen = Seen {
            metrics: metrics.clone(),
            told: ToldWithheld::default(),
            stop: stop.clone(),
        };
        tasks::spawn(
            "toolbox",
            self.clone().follow(servers.clone(), policy.clone(), seen),
        );
    }
}

/// Where what is seen of the tools is told, and until when.
struct Seen {
    metrics: Arc<Metrics>,
    told: ToldWithheld,
    stop: CancellationToken,
}

fn count(
    tools: &Tools,
    servers: &Servers,
    policy: &Policy,
    told: &mut ToldWithheld,
    metrics: &Metrics,
) {
    let withheld = pinned::withheld(policy, tools, servers);
    told.tell(&withheld, policy.mode);
    let hidden = tools
        .quarantined
        .iter()
        .map(|(server, reason, _)| (server, *reason));
    let hidden: Vec<_> = hidden
        .chain(withheld.iter().map(|one| (&one.server, one.label)))
        .collect();
    for server in servers.all() {
        let name = &server.settings.name;
        let mut reasons: Vec<(&'static str, usize)> = Vec::new();
        for (_, reason) in hidden.iter().filter(|(owner, _)| *owner == name) {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, number)) => *number += 1,
                None => reasons.push((*reason, 1)),
            }
        }
        metrics.quarantined(name, &reasons);
        metrics.upstream_up(name, server.up().is_some());
    }
}

fn gather(servers: &Servers, old: &Tools) -> Tools {
    let mut tools = Tools {
        version: old.version + 1,
        ..Tools::default()
    };
    for server in servers.all() {
        if matches!(*server.state().borrow(), ServerState::Starting) {
            continue;
        }
        let name = &server.settings.name;
        tools.tried.insert(name.clone());
        let up = server.up();
        if up.is_some() || old.answered.contains(name) {
            tools.answered.insert(name.clone());
        }
        let Some(up) = up else {
            let known = old
                .by_name
                .iter()
                .filter(|(_, tool)| tool.server.settings.name == server.settings.name);
            tools
                .by_name
                .extend(known.map(|(name, tool)| (name.clone(), tool.clone())));
            continue;
        };
        for (name, reason, words) in &up.catalog.quarantined {
            let shown: String = name.chars().take(64).collect();
            tools.quarantined.push((
                server.settings.name.clone(),
                *reason,
                format!("`{}`: {words}", shown.escape_debug()),
            ));
        }
        for definition in &up.catalog.tools {
            let name = ToolName::of(&server.settings.name, &definition.name);
            match compile(&name, definition, server, old) {
                Ok(tool) => {
                    tools.by_name.insert(name, tool.clone());
                    tools.all.push(tool);
                }
                Err((reason, words)) => {
                    tracing::warn!(tool = %name, reason, words, "tool is quarantined: it is neither listed nor called");
                    tools.quarantined.push((
                        server.settings.name.clone(),
                        reason,
                        format!("`{}`: {words}", definition.name),
                    ));
                }
            }
        }
    }
    collisions::part(&mut tools);
    tools
}

/// A tool of this definition; as it was compiled before, if it is the same.
pub(in crate::gate) fn compile(
    name: &ToolName,
    definition: &Arc<Definition>,
    server: &Arc<UpstreamServer>,
    old: &Tools,
) -> Result<Arc<Tool>, (&'static str, String)> {
    if let Some(known) = old
        .find(name)
        .filter(|known| known.definition.text == definition.text)
    {
        return Ok(known.clone());
    }
    let schema = Schema::compile(&definition.input_schema.value())
        .map_err(|reason| (reason.label(), reason.to_string()))?;
    let hash = schema_hash(&definition.text.value());
    if !definition.changes.is_none() {
        tracing::warn!(tool = %name, changes = %definition.changes, "a tool's definition is not shown as it was written");
    }
    let (name, definition, server) = (name.clone(), definition.clone(), server.clone());
    let (output, variants) = (OnceLock::new(), Variants::default());
    Ok(Arc::new(Tool {
        name,
        definition,
        schema,
        output,
        hash,
        server,
        variants,
        fit: LastFit::default(),
        is_listed: true,
    }))
}
