//! Floor 6: builds all parts from the configuration, starts them in order, and stops them in the
//! reverse one.

use crate::admin::operators::Operators;
use crate::admin::{self, DoorReach};
use crate::app::ledger::OpenLedger;
use crate::config::{Config, ServerConfig};
use crate::downstream::connection_limit::{ConnectionLimit, Guest};
use crate::downstream::listening::DoorListener;
use crate::downstream::tls::TlsDoor;
use crate::downstream::{Door, accept};
use crate::gate::effects::Effects;
use crate::gate::{
    Gate, GateWatches, catalogue::list::Listings, catalogue::toolbox::Toolbox,
    effects::refusal_streaks::Rows, effects::slots::Slots, own_tasks::OwnTasks,
    reconciling::schedule::LookSchedule, record::hook_events::Hooks, vault::Vault,
};
use crate::model::clock::Clock;
use crate::policy::live::LivePolicy;
use crate::relay::Relay;
use crate::side::{Sides, sums::LedgerSums};
use crate::store::disabling::Disabling;
use crate::store::embedded::SegmentRetention;
use crate::store::incidents::{IncidentEvidence, Incidents, RunPacks};
use crate::store::journal::{self, Journal};
use crate::store::round_key;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::tasks;
use crate::upstream::http::connections;
use crate::upstream::keeper::ServerMessagePolicy;
use crate::upstream::leftovers::Leftovers;
use crate::upstream::server_settings::Surroundings;
use crate::upstream::servers::Servers;
use anyhow::Context as _;
use attended::SeenDisk;
use doors::{FollowedDoors, OpenDoors};
use head_export::Exporter;
use jiff::Timestamp;
use operator_view::{OperatorView, ShownDoors};
use operators_door::OperatorsEntry;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod agents_door;
mod attended;
mod background;
pub(crate) mod doors;
mod head_export;
mod incidents;
mod issuers;
pub(crate) mod ledger;
mod milestones;
mod notices;
mod opening;
mod operator_view;
mod operators_door;
mod reach;
mod rollbacks;
mod scrape;
mod switches;
mod unattended;

/// How long calls in flight may take to end when the process is asked to.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);
/// How long they may take when nothing of them can be recorded any more.
const UNRECORDED_SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// How long after-hooks may take then to hear of the last calls.
const HOOKS_SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// A running toolgate.
pub(crate) struct App {
    /// Where agents come in.
    pub door: Arc<Door>,
    journal: Arc<Journal>,
    disabling: Arc<Disabling>,
    incidents: Arc<Incidents>,
    packs: Arc<RunPacks>,
    evidence: Option<Arc<dyn IncidentEvidence>>,
    operators: Operators,
    public_url: Option<String>,
    operator_hosts: Vec<String>,
    recount: Arc<Notify>,
    exporter: Option<Arc<Exporter>>,
    children: Leftovers,
    disk: SeenDisk,
    started: Timestamp,
    /// Whether agents are served; else it only looks, and leaves no record of itself.
    is_serving: bool,
    stop: CancellationToken,
    servers_running: TaskTracker,
    /// The doors at which TLS is spoken, once agents are served.
    tls: Arc<OnceLock<Vec<Arc<TlsDoor>>>>,
}

impl App {
    /// Builds everything and connects the tool servers.
    pub(crate) fn start(
        config: &Config,
        policy: &Arc<LivePolicy>,
        ledger: OpenLedger,
    ) -> anyhow::Result<Self> {
        let keeping = SegmentRetention {
            age: config.ledger.keep,
            archive: config.ledger.archive.clone(),
        };
        Self::build(config, policy, ledger, Some(keeping))
    }

    /// As `start`, for who only looks: nothing of the ledger is dropped.
    pub(crate) fn look(
        config: &Config,
        policy: &Arc<LivePolicy>,
        ledger: OpenLedger,
    ) -> anyhow::Result<Self> {
        Self::build(config, policy, ledger, None)
    }

    fn build(
        config: &Config,
        policy: &Arc<LivePolicy>,
        ledger: OpenLedger,
        keeping: Option<SegmentRetention>,
    ) -> anyhow::Result<Self> {
        let (data, journal) = (&config.data, Arc::new(ledger.journal));
        // Who only looks tells nobody.
        let is_serving = keeping.is_some();
        let leftovers = leftovers(data)?;
        let disabling = switches::disabling(data, &journal, policy)?;
        let metrics = Arc::new(Metrics::new());
        let sums = Arc::new(LedgerSums::new(journal.clone(), metrics.clone()));
        let sides = Arc::new(Sides::new(policy.clone(), sums.clone(), metrics.clone()));
        let servers = servers(config, leftovers.clone(), sides.clone())?;
        let (stop, servers_running) = (CancellationToken::new(), TaskTracker::new());
        let (store, seal) = (
            ledger::store(data, &journal, keeping, ledger.content_keys.clone())?,
            Arc::new(round_key::open(data)?),
        );
        servers.parked_tasks().seal_with(seal.clone());
        let gate = Arc::new(Gate {
            policy: policy.clone(),
            tools: Arc::new(Toolbox::default()),
            journal: journal.clone(),
            effects: Effects::new(store),
            sides,
            metrics: metrics.clone(),
            clock: Clock::default(),
            listings: Listings::default(),
            vault: Vault::default(),
            rows: Rows::default(),
            hooks: Hooks::new(connections().map_err(anyhow::Error::msg)?),
            approvers: config.admin.in_force.approvers(),
            public_url: config.admin.public_url.clone(),
            sums,
            seal,
            content_keys: ledger.content_keys,
            observed_contents: config.ledger.content.observed,
            slots: Slots::default(),
            own_tasks: OwnTasks::default(),
            watches: watches(config),
        });
        let incidents = incidents::open(data, &gate, is_serving)?;
        let disk = attended::begin(config, &gate, is_serving, &stop)?;
        let relay = connect(&gate, &servers, &servers_running, &stop);
        let exporter = head_export::start(config, &journal, &metrics, &stop)?;
        Ok(Self {
            door: Arc::new(agents_door::door(config, gate, relay, servers)?),
            journal,
            disabling: Arc::new(disabling),
            incidents,
            packs: incidents::no_packs(),
            evidence: None,
            operators: Operators::new(config.admin.in_force.clone()),
            public_url: config.admin.public_url.clone(),
            operator_hosts: config.admin.named_hosts(),
            recount: Arc::default(),
            exporter,
            children: leftovers,
            disk,
            started: Clock.wall(),
            is_serving,
            stop,
            servers_running,
            tls: Arc::default(),
        })
    }

    /// The same, with test packs that have to pass before an incident is closed.
    pub(crate) fn with_packs(self, packs: Arc<RunPacks>) -> Self {
        let packs = incidents::of_files_in_force(self.door.policy.clone(), packs);
        Self { packs, ..self }
    }

    /// The same, which hands out what there is about incidents.
    pub(crate) fn with_evidence(self, evidence: Arc<dyn IncidentEvidence>) -> Self {
        let evidence = Some(evidence);
        Self { evidence, ..self }
    }

    /// Serves agents and operators on the two listeners until `until` ends.
    pub(crate) async fn serve(&self, doors: OpenDoors, until: impl Future<Output = ()>) {
        let tls = self.tls.get_or_init(|| doors.tls()).clone();
        self.follow_doors(tls.clone());
        let OpenDoors { agents, operators } = doors;
        let (closing, listen) = (CancellationToken::new(), agents.address().ok());
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
        self.serve_operators(operators, ShownDoors { listen, tls });
        self.keep_issuer_keys();
        let sweeper = tasks::spawn("session sweep", background::sweep(self.door.clone()));
        let counting = background::count_unknown(self.door.gate.clone(), self.recount.clone());
        let counter = tasks::spawn("unknown outcomes", counting);
        tasks::spawn("reconcile", self.reconciler().run());
        tasks::spawn("allowed undos", self.undoer().go_on());
        let reads = background::count_reads(self.door.gate.clone());
        let reads = tasks::spawn("read counts", reads);
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
        reads.abort();
        self.door.gate.effects.reads.write_all().await;
        self.door.sessions.sweep(true).await;
        let _ = tokio::time::timeout(Duration::from_secs(2), on_agents).await;
    }

    /// Follows what may change while the doors are open, which speak TLS where `tls` has them.
    fn follow_doors(&self, tls: Vec<Arc<TlsDoor>>) {
        let followed = FollowedDoors {
            tls,
            operators: self.operators.clone(),
            readings: self.door.policy.readings(),
        };
        tasks::spawn("doors", followed.follow());
    }

    fn serve_operators(&self, listener: DoorListener, doors: ShownDoors) {
        let hosts = listener
            .address()
            .map(|listen| admin::hosts(listen, &self.operator_hosts))
            .unwrap_or_default();
        let limit = ConnectionLimit::of_operators();
        let reach = DoorReach {
            hosts: hosts.clone(),
            public_url: self.public_url.clone(),
            places: limit.places(),
        };
        let view = Arc::new(OperatorView {
            door: self.door.clone(),
            journal: self.journal.clone(),
            children: self.children.clone(),
            disk: self.disk.clone(),
            started: self.started,
            doors,
        });
        if listener.tls().is_some() {
            self.operators.are_behind_tls();
        }
        let known = self.operators.clone().with_keys(self.door.keys.clone());
        let router = admin::router(view, self.switches(), known.clone(), reach);
        let entry = Arc::new(OperatorsEntry {
            router,
            known,
            hosts,
        });
        let answer = move |request: http::Request<hyper::body::Incoming>, guest: Arc<Guest>| {
            entry.clone().answer(request, guest)
        };
        tasks::spawn(
            "operators",
            accept::serve(listener, limit, answer, self.stop.clone()),
        );
    }

    /// Follows the policy files for as long as toolgate runs.
    pub(crate) fn follow_policy(&self) {
        let gate = self.door.gate.clone();
        let policy = gate.policy.clone();
        let metrics = gate.metrics.clone();
        let incidents = self.incidents.clone();
        let told = move |report| {
            incidents::reloaded(&incidents, &gate, &report);
            milestones::reloaded(&gate, report);
        };
        tasks::spawn("policy files", policy.watch(metrics, told));
    }

    /// Waits until the ledger cannot be written any more, or its store not be opened, if that ever
    /// happens: the process has to end then, since only a start finds out what is on the disk.
    pub(crate) async fn failed(&self) {
        tokio::select! {
            error = self.journal.failed() => {
                tracing::error!(%error, "stopping: nothing may run that is not recorded");
            }
            () = opening::failed(&*self.door.gate.effects.store) => {}
        }
    }

    /// Ends the tool servers and closes the ledger. An error when not all of it could be written.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.door.gate.hooks.ended(HOOKS_SHUTDOWN_GRACE).await;
        self.door.sessions.sweep(true).await;
        self.stop.cancel();
        self.servers_running.close();
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, self.servers_running.wait()).await;
        self.door.gate.sums.write(true);
        if self.is_serving {
            milestones::stopped(&self.door.gate);
        }
        self.journal
            .close()
            .await
            .context("the ledger could not be closed in good order")?;
        if let Some(exporter) = &self.exporter {
            // The last head leaves when nothing more can be written.
            let _ = tokio::time::timeout(HOOKS_SHUTDOWN_GRACE, exporter.tell()).await;
        }
        opening::ended(&*self.door.gate.effects.store)
    }
}

/// The notes on tool servers in the data directory; those that an earlier toolgate left behind are
/// ended.
fn leftovers(data: &Path) -> anyhow::Result<Leftovers> {
    let leftovers = Leftovers::open(Some(data))
        .context("the data directory cannot be used for notes on tool servers")?;
    let swept = leftovers
        .sweep()
        .context("tool servers that an earlier toolgate left behind cannot be looked for")?;
    tracing::debug!(
        ?swept,
        "looked for tool servers that an earlier toolgate left behind"
    );
    Ok(leftovers)
}

/// Connects the tool servers, and starts what goes on beside the calls; the relay to the servers.
fn connect(
    gate: &Arc<Gate>,
    servers: &Arc<Servers>,
    running: &TaskTracker,
    stop: &CancellationToken,
) -> Arc<Relay> {
    let (policy, sides, seal) = (&gate.policy, gate.sides.clone(), gate.seal.clone());
    let changed = background::list_changes(&gate.tools, policy, stop);
    background::note(gate, servers, &changed, stop);
    let relay = Arc::new(Relay::new(
        servers.clone(),
        sides,
        seal,
        gate.clone(),
        changed,
    ));
    gate.tools.start(servers, policy, &gate.metrics, stop);
    let connected =
        background::connect(gate.clone(), servers.clone(), running.clone(), stop.clone());
    tasks::spawn("secrets", connected);
    relay
}

/// What looks at calls over time.
fn watches(config: &Config) -> GateWatches {
    GateWatches {
        outcome_looks: LookSchedule::new(config.reconcile),
        ..GateWatches::default()
    }
}

/// The configured tool servers, not yet connected.
pub(crate) fn servers(
    config: &Config,
    leftovers: Leftovers,
    keeper: Arc<dyn ServerMessagePolicy>,
) -> anyhow::Result<Arc<Servers>> {
    let enabled = config.servers.values().filter(|server| !server.disabled);
    servers_of(enabled, leftovers, keeper)
}

/// These servers, not yet connected.
pub(crate) fn servers_of<'s>(
    servers: impl IntoIterator<Item = &'s ServerConfig>,
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
    let settings = servers
        .into_iter()
        .map(|server| reach::settings(server, &around.connections))
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Arc::new(Servers::new(settings, &around).kept_by(keeper)))
}
