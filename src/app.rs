//! Floor 6: builds all parts from the configuration, starts them in order, and stops them in the
//! reverse one.

use crate::admin;
use crate::admin::health::{LedgerStatus, PolicyStatus, ProcessStatus, Readiness, ServerStatus};
use crate::admin::operators::{OperatorIdentity, Operators};
use crate::admin::quarantine::Quarantined;
use crate::admin::tools::Switches;
use crate::config::Config;
use crate::downstream::connection_limit::{ConnectionLimit, Guest};
use crate::downstream::{Door, accept, room::MessageRoom, session::AgentSessions};
use crate::gate::catalogue::contract_mismatch::{self, Unfit};
use crate::gate::catalogue::hidden::Hidden;
use crate::gate::catalogue::pinned::{self, Withheld};
use crate::gate::effects::Effects;
use crate::gate::{
    Gate, catalogue::list::Listings, catalogue::toolbox::Toolbox, effects::refusal_streaks::Rows,
    effects::slots::Slots, record::hook_events::Hooks, vault::Vault,
};
use crate::model::clock::Clock;
use crate::model::ids::{NAME_SEPARATOR, ToolName};
use crate::policy::live::LivePolicy;
use crate::relay::Relay;
use crate::side::{Sides, sums::LedgerSums};
use crate::store::disabling::Disabling;
use crate::store::embedded::SegmentRetention;
use crate::store::journal::{self, Journal};
use crate::store::operator::MAX_CLAIMS_LISTED;
use crate::store::round_key;
use crate::store::state::claim::ClaimPhase;
use crate::telemetry::metrics::{Metrics, Synced};
use crate::telemetry::tasks;
use crate::upstream::http::connections;
use crate::upstream::keeper::ServerMessagePolicy;
use crate::upstream::leftovers::Leftovers;
use crate::upstream::links::Links;
use crate::upstream::server::{ServerState, UpstreamServer};
use crate::upstream::server_settings::Surroundings;
use crate::upstream::servers::Servers;
use anyhow::Context as _;
use head_export::Exporter;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod head_export;
pub mod ledger;
mod reach;

/// How long calls in flight may take to end when the process is asked to.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);
/// How long they may take when nothing of them can be recorded any more.
const UNRECORDED_SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// How long after-hooks may take then to hear of the last calls.
const HOOKS_SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// Connections that wait to be accepted at once; one more waits a second to ask anew.
const LISTEN_BACKLOG: u32 = 1024;
/// How often unused sessions are looked for.
const SESSION_SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// Withheld tools of one server that operators are told of at once.
const MAX_WITHHELD_LISTED: usize = 64;
/// How often unknown outcomes are counted.
const UNKNOWN_COUNT_INTERVAL: Duration = Duration::from_secs(5);

/// A running toolgate.
pub struct App {
    /// Where agents come in.
    pub door: Arc<Door>,
    journal: Arc<Journal>,
    disabling: Arc<Disabling>,
    operators: Operators,
    exporter: Option<Arc<Exporter>>,
    stop: CancellationToken,
    servers_running: TaskTracker,
}

impl App {
    /// Builds everything and connects the tool servers.
    pub fn start(
        config: &Config,
        policy: &Arc<LivePolicy>,
        journal: Journal,
    ) -> anyhow::Result<Self> {
        let keeping = SegmentRetention {
            age: config.ledger.keep,
            archive: config.ledger.archive.clone(),
        };
        Self::build(config, policy, journal, Some(keeping))
    }

    /// As `start`, for who only looks: nothing of the ledger is dropped.
    pub fn look(
        config: &Config,
        policy: &Arc<LivePolicy>,
        journal: Journal,
    ) -> anyhow::Result<Self> {
        Self::build(config, policy, journal, None)
    }

    fn build(
        config: &Config,
        policy: &Arc<LivePolicy>,
        journal: Journal,
        keeping: Option<SegmentRetention>,
    ) -> anyhow::Result<Self> {
        let (data, journal) = (&config.data, Arc::new(journal));
        let leftovers = Leftovers::open(Some(data))
            .context("the data directory cannot be used for notes on tool servers")?;
        let swept = leftovers
            .sweep()
            .context("tool servers that an earlier toolgate left behind cannot be looked for")?;
        tracing::debug!(
            ?swept,
            "looked for tool servers that an earlier toolgate left behind"
        );
        let apply = policy.clone();
        let apply = Arc::new(move |disabled| apply.take_away(disabled));
        let disabling =
            Disabling::open(data, (*journal).clone(), apply).context("no tool may be shown")?;
        let metrics = Arc::new(Metrics::new());
        let sums = Arc::new(LedgerSums::new(journal.clone(), metrics.clone()));
        let sides = Arc::new(Sides::new(policy.clone(), sums.clone(), metrics.clone()));
        let servers = servers(config, leftovers, sides.clone())?;
        let (stop, servers_running) = (CancellationToken::new(), TaskTracker::new());
        let tools = Arc::new(Toolbox::default());
        let (store, seal) = (
            ledger::store(data, &journal, keeping)?,
            Arc::new(round_key::open(data)?),
        );
        let gate = Arc::new(Gate {
            policy: policy.clone(),
            tools: tools.clone(),
            journal: journal.clone(),
            effects: Effects::new(store),
            sides: sides.clone(),
            metrics: metrics.clone(),
            clock: Clock::default(),
            listings: Listings::default(),
            vault: Vault::default(),
            rows: Rows::default(),
            hooks: Hooks::new(connections().map_err(anyhow::Error::msg)?),
            approvers: config.admin.approvers(),
            sums,
            seal: seal.clone(),
            slots: Slots::default(),
        });
        let changed = either_changed(&tools, policy, &stop);
        note(&gate, &servers, &changed, &stop);
        let relay = Arc::new(Relay::new(servers.clone(), sides, seal, changed));
        tools.start(&servers, policy, &metrics, &stop);
        let connected = connect(
            gate.clone(),
            servers.clone(),
            servers_running.clone(),
            stop.clone(),
        );
        tasks::spawn("secrets", connected);
        let door = Arc::new(Door {
            gate,
            relay,
            policy: policy.clone(),
            links: Arc::new(Links::shared(servers.clone())),
            servers,
            sessions: AgentSessions::default(),
            room: MessageRoom::default(),
            metrics,
            clock: Clock,
            running: TaskTracker::new(),
            hosts: admin::hosts(config.listen, &config.allowed_hosts),
            origins: config.allowed_origins.clone(),
        });
        let exporter = head_export::start(config, (&journal, &door.metrics), &stop)?;
        let operators = config.admin.tokens.iter().map(|operator| {
            let known = OperatorIdentity {
                name: operator.name.clone(),
                roles: operator.roles.clone(),
            };
            (known, &operator.token)
        });
        let operators = Operators::new(operators, config.admin.verbs.clone());
        Ok(Self {
            door,
            journal,
            disabling: Arc::new(disabling),
            operators,
            exporter,
            stop,
            servers_running,
        })
    }

    /// Serves agents and operators on the two listeners until `until` ends.
    pub async fn serve(
        &self,
        agents: TcpListener,
        operators: TcpListener,
        until: impl Future<Output = ()>,
    ) {
        let closing = CancellationToken::new();
        let door = self.door.clone();
        let on_agents = tasks::spawn(
            "agents",
            accept::serve(
                agents,
                ConnectionLimit::of_agents(),
                move |request, guest| door.clone().http(request, guest),
                closing.clone(),
            ),
        );
        let hosts = operators
            .local_addr()
            .map(|listen| admin::hosts(listen, &[]))
            .unwrap_or_default();
        let view = Arc::new(OperatorView {
            door: self.door.clone(),
            journal: self.journal.clone(),
        });
        let known = self.operators.clone();
        let router = admin::router(view, (self.switches(), known.clone()), hosts.clone());
        let answer = move |request: http::Request<hyper::body::Incoming>, guest: Arc<Guest>| {
            let holder = admin::holder(&known, &hosts, &request);
            operated(router.clone(), request, (holder, guest))
        };
        tasks::spawn(
            "operators",
            accept::serve(
                operators,
                ConnectionLimit::of_operators(),
                answer,
                self.stop.clone(),
            ),
        );
        let sweeping = self.door.clone();
        let sweeper = tasks::spawn("session sweep", async move {
            let mut policies = sweeping.policy.changes();
            loop {
                // An error says that there will be no other policy, and toolgate ends.
                let _ = tokio::time::timeout(SESSION_SWEEP_INTERVAL, policies.changed()).await;
                sweeping
                    .sessions
                    .keep(sweeping.policy.current().identity.callers())
                    .await;
                sweeping.sessions.sweep(false).await;
                sweeping.metrics.sessions(sweeping.sessions.count());
            }
        });
        let counter = tasks::spawn("unknown outcomes", count_unknown(self.door.gate.clone()));
        until.await;
        counter.abort();
        sweeper.abort();
        closing.cancel();
        self.door.relay.close();
        self.door.gate.effects.ending.cancel();
        self.door.running.close();
        let recorded = !matches!(
            self.journal.health().state,
            journal::JournalState::Poisoned(_)
        );
        let farewell = if recorded {
            SHUTDOWN_GRACE
        } else {
            UNRECORDED_SHUTDOWN_GRACE
        };
        let ended = tokio::time::timeout(farewell, self.door.running.wait()).await;
        if ended.is_err() {
            tracing::warn!(
                "calls in flight did not end in time; they are recorded as far as they came"
            );
        }
        self.door.sessions.sweep(true).await;
        let _ = tokio::time::timeout(Duration::from_secs(2), on_agents).await;
    }

    /// How operators take tools away. A tool whose server was never up may exist.
    fn switches(&self) -> Switches {
        let door = self.door.clone();
        let is_known = move |tool: &ToolName| {
            let (contract, listed) = (door.policy.current(), door.gate.tools.current());
            let server = door.servers.all().iter().find(|server| {
                let own = tool.as_str().strip_prefix(server.settings.name.as_str());
                own.and_then(|rest| rest.strip_prefix(NAME_SEPARATOR))
                    .is_some_and(|own| !own.is_empty())
            });
            let is_away = server.is_some_and(|server| server.up().is_none());
            is_away || listed.find(tool).is_some() || contract.allowlist.contract_of(tool).is_some()
        };
        let store = self.door.gate.effects.store.clone();
        let metrics = self.door.metrics.clone();
        Switches {
            disabling: self.disabling.clone(),
            store,
            metrics,
            is_known: Arc::new(is_known),
        }
    }

    /// Waits until the ledger cannot be written any more, if that ever happens: the process has to
    /// end then, since only a start finds out what is on the disk.
    pub async fn failed(&self) {
        let error = self.journal.failed().await;
        tracing::error!(%error, "stopping: nothing may run that is not recorded");
    }

    /// Ends the tool servers and closes the ledger. An error when not all of it could be written.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.door.gate.hooks.ended(HOOKS_SHUTDOWN_GRACE).await;
        self.door.sessions.sweep(true).await;
        self.stop.cancel();
        self.servers_running.close();
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, self.servers_running.wait()).await;
        self.door.gate.sums.write(true);
        self.journal
            .close()
            .await
            .context("the ledger could not be closed in good order")?;
        if let Some(exporter) = &self.exporter {
            // The last head leaves when nothing more can be written.
            let _ = tokio::time::timeout(HOOKS_SHUTDOWN_GRACE, exporter.tell()).await;
        }
        Ok(())
    }
}

/// Answers one request at the operators' door, of `guest`, who is `holder` if it proves that.
async fn operated(
    router: axum::Router,
    request: http::Request<hyper::body::Incoming>,
    (holder, guest): (Option<String>, Arc<Guest>),
) -> axum::response::Response {
    if let Some(Err(crowded)) = holder.map(|holder| guest.prove(&holder)) {
        return admin::overloaded(&crowded.to_string());
    }
    let Ok(answer) = tower::ServiceExt::oneshot(router, request).await;
    match (answer.status() == http::StatusCode::UNAUTHORIZED).then(|| guest.fail()) {
        Some(Err(wait)) => admin::too_many(wait),
        Some(Ok(())) | None => answer,
    }
}

/// Notes what comes about between calls, until `stop`.
fn note(
    gate: &Arc<Gate>,
    servers: &Arc<Servers>,
    changed: &watch::Receiver<u64>,
    stop: &CancellationToken,
) {
    tasks::spawn("sums", gate.sums.clone().run(stop.clone()));
    tasks::spawn("policy notes", gate.clone().note_policies(stop.clone()));
    tasks::spawn(
        "hidden tools",
        gate.clone().watch_hidden(changed.clone(), stop.clone()),
    );
    tasks::spawn(
        "drifts",
        gate.clone()
            .note_drifts(servers.clone(), changed.clone(), stop.clone()),
    );
}

/// Connects the tool servers, once the secrets of the policy are known: a server may repeat one
/// that an earlier process gave it (SECURITY §3F F2). Those of later policies are learnt as they
/// come, until `stop`.
async fn connect(
    gate: Arc<Gate>,
    servers: Arc<Servers>,
    running: TaskTracker,
    stop: CancellationToken,
) {
    let mut policies = gate.policy.changes();
    learn_secrets(&gate).await;
    if !stop.is_cancelled() {
        servers.start(&running, &stop);
    }
    loop {
        tokio::select! {
            changed = policies.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
        learn_secrets(&gate).await;
    }
}

async fn learn_secrets(gate: &Gate) {
    let secrets = gate.policy.current().secrets.clone();
    for (binding, failed) in gate.vault.learn(&secrets, gate.clock).await {
        tracing::warn!(secret = binding.name, %failed, "a secret cannot be had; calls that name it are refused");
    }
}

/// Keeps counting the calls of which nobody knows whether they ran, and those that wait for
/// operators.
async fn count_unknown(gate: Arc<Gate>) {
    loop {
        let store = &gate.effects.store;
        if let Ok(open) = store.unsettled(MAX_CLAIMS_LISTED).await {
            let unknown = open
                .iter()
                .filter(|(_, claim)| matches!(claim.phase, ClaimPhase::Unknown { .. }));
            let since: Vec<_> = unknown.map(|(_, claim)| claim.changed).collect();
            let oldest = since
                .iter()
                .min()
                .map_or(0, |oldest| store.now().saturating_sub(*oldest));
            gate.metrics
                .unknown(since.len(), Duration::from_millis(oldest));
        }
        if let Ok(holds) = store.holds(MAX_CLAIMS_LISTED).await {
            let now = store.now();
            gate.metrics.set_held_calls(
                holds
                    .iter()
                    .filter(|(_, hold)| hold.is_waiting(now))
                    .count(),
            );
        }
        tokio::time::sleep(UNKNOWN_COUNT_INTERVAL).await;
    }
}

/// The journal's syncs as metrics show them.
#[expect(clippy::cast_precision_loss, reason = "a boundary is a small number")]
fn syncs(health: &journal::JournalHealth) -> Synced {
    let bounds = journal::SYNC_BOUNDS_MICROS
        .iter()
        .map(|micros| *micros as f64 / 1e6)
        .chain([f64::INFINITY]);
    Synced {
        buckets: bounds.zip(health.sync_counts).collect(),
        seconds: health.sync_time.as_secs_f64(),
    }
}

/// The listener at `address`.
pub async fn bind(address: SocketAddr, whose: &str) -> anyhow::Result<TcpListener> {
    let listen = || {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(LISTEN_BACKLOG)
    };
    listen().with_context(|| {
        format!("{address} cannot be listened on for {whose}; is another toolgate running? change `listen` or stop it")
    })
}

/// The configured tool servers, not yet connected.
pub fn servers(
    config: &Config,
    leftovers: Leftovers,
    keeper: Arc<dyn ServerMessagePolicy>,
) -> anyhow::Result<Arc<Servers>> {
    let guard = std::env::current_exe().context("toolgate's own program cannot be found")?;
    let connections = connections().map_err(anyhow::Error::msg)?;
    let around = Surroundings {
        connections,
        guard,
        leftovers: Arc::new(leftovers),
    };
    let settings = config
        .servers
        .values()
        .filter(|server| !server.disabled)
        .map(reach::settings)
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Arc::new(Servers::new(settings, &around).kept_by(keeper)))
}

/// Rises when the tools or the policy change: either can change what a caller may list.
fn either_changed(
    tools: &Toolbox,
    policy: &LivePolicy,
    stop: &CancellationToken,
) -> watch::Receiver<u64> {
    let (mut tools, mut policy) = (tools.changed(), policy.changes());
    let (changed, receiver) = watch::channel(0);
    let stop = stop.clone();
    tasks::spawn("list changes", async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                tools = tools.changed() => if tools.is_err() { return },
                policy = policy.changed() => if policy.is_err() { return },
            }
            changed.send_modify(|version| *version += 1);
        }
    });
    receiver
}

/// What operators see.
struct OperatorView {
    door: Arc<Door>,
    journal: Arc<Journal>,
}

impl ProcessStatus for OperatorView {
    fn ready(&self) -> Readiness {
        let status = self.door.policy.status();
        let health = self.journal.health();
        let writable = matches!(health.state, journal::JournalState::Writing);
        let mut reasons = Vec::new();
        if !self.door.gate.tools.current().settled(&self.door.servers) {
            reasons.push("tool servers are still being connected".to_owned());
        }
        if !writable {
            reasons.push("the ledger cannot be written".to_owned());
        } else if let Some(error) = self.door.gate.effects.store.refuses() {
            reasons.push(error.to_string());
        }
        Readiness {
            ready: reasons.is_empty(),
            reasons,
            policy: PolicyStatus {
                version: status.version.clone(),
                stale: status.stale(),
                problems: status.diagnostics.iter().map(ToString::to_string).collect(),
            },
            servers: self
                .door
                .servers
                .all()
                .iter()
                .map(|server| self.server_status(server))
                .collect(),
            ledger: LedgerStatus {
                writable,
                entries: health.head.seq,
                dropped: health.lost + health.refused,
                last_fault: match health.state {
                    journal::JournalState::Full(why) | journal::JournalState::Poisoned(why) => {
                        Some(why)
                    }
                    journal::JournalState::Writing | journal::JournalState::Closed => None,
                },
            },
        }
    }

    fn quarantined(&self) -> Vec<Quarantined> {
        let gate = &self.door.gate;
        let tools = gate.tools.current();
        let global = tools
            .quarantined
            .iter()
            .map(|(server, reason, why)| Quarantined {
                server: server.to_string(),
                profile: None,
                reason: (*reason).to_owned(),
                why: why.clone(),
            });
        let hidden = gate.hidden().into_iter().map(
            |Hidden {
                 server,
                 tool,
                 profile,
                 reason,
             }| Quarantined {
                server: server.to_string(),
                profile: Some(profile.to_string()),
                reason: reason.label().to_owned(),
                why: format!("`{tool}`: {reason}"),
            },
        );
        let withheld =
            pinned::withheld(&self.door.policy.current(), &tools, &self.door.servers).into_iter();
        let withheld = withheld.map(
            |Withheld {
                 server,
                 tool,
                 label,
                 words,
                 ..
             }| Quarantined {
                server: server.to_string(),
                profile: None,
                reason: label.to_owned(),
                why: format!("`{tool}`: {words}"),
            },
        );
        global.chain(hidden).chain(withheld).collect()
    }

    fn metrics(&self) -> String {
        let health = self.journal.health();
        self.door.metrics.synced(syncs(&health));
        self.door.metrics.dropped_early(health.dropped_early);
        self.door.metrics.render()
    }
}

impl OperatorView {
    fn server_status(&self, server: &UpstreamServer) -> ServerStatus {
        let name = &server.settings.name;
        let tools = self.door.gate.tools.current();
        let quarantined = tools
            .quarantined
            .iter()
            .filter(|(owner, ..)| owner == name)
            .map(|(_, _, words)| words.clone());
        let unfit = contract_mismatch::unfit(&self.door.policy.current(), &tools)
            .into_iter()
            .filter(|unfit| unfit.server == *name);
        let unfit = unfit.map(|Unfit { tool, words, .. }| format!("`{tool}`: {words}"));
        let unpinned =
            pinned::withheld(&self.door.policy.current(), &tools, &self.door.servers).into_iter();
        let unpinned = unpinned.filter(|one| one.server == *name);
        let unpinned = unpinned.map(|Withheld { tool, words, .. }| format!("`{tool}`: {words}"));
        let withheld = quarantined
            .chain(unfit)
            .chain(unpinned)
            .take(MAX_WITHHELD_LISTED)
            .collect();
        let (state, era, tools, last_fault) = match &*server.state().borrow() {
            ServerState::Starting => ("starting", None, 0, None),
            ServerState::Up(up) => ("up", Some(up.verdict.words()), up.catalog.tools.len(), None),
            ServerState::Down(why) => ("down", None, 0, Some(why.clone())),
        };
        ServerStatus {
            name: name.to_string(),
            state,
            era,
            tools,
            withheld,
            last_fault,
        }
    }
}
