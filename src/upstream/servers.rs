//! All configured tool servers, in the order of the configuration.

use super::caller_links::CallerLinks;
use super::keeper::ServerMessagePolicy;
use super::legacy_tasks::LegacyTasks;
use super::parked_tasks::ParkedTasks;
use super::parking::ParkedCalls;
use super::server::UpstreamServer;
use super::server_settings::{Surroundings, UpstreamServerSettings};
use crate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits};
use crate::model::ids::ServerName;
use crate::telemetry::tasks;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The servers, each kept connected on its own.
pub struct Servers {
    all: Vec<Arc<UpstreamServer>>,
    changed: watch::Sender<u64>,
    keeper: Arc<dyn ServerMessagePolicy>,
    callers: Arc<CallerLinks>,
    parked: Arc<ParkedCalls>,
    parked_tasks: Arc<ParkedTasks>,
    tasks: Arc<LegacyTasks>,
}

impl Servers {
    /// Takes the configured servers; [`Servers::start`] connects them.
    pub fn new(settings: Vec<UpstreamServerSettings>, around: &Surroundings) -> Self {
        let all = settings
            .into_iter()
            .map(|settings| Arc::new(UpstreamServer::new(settings, around.clone())))
            .collect();
        Self {
            all,
            changed: watch::channel(0).0,
            keeper: Arc::new(()),
            callers: Arc::default(),
            parked: Arc::default(),
            parked_tasks: Arc::default(),
            tasks: Arc::default(),
        }
    }

    /// The same, with a keeper between them and the agents.
    #[must_use]
    pub fn kept_by(self, keeper: Arc<dyn ServerMessagePolicy>) -> Self {
        Self { keeper, ..self }
    }

    /// Who stands between them and the agents.
    pub fn keeper(&self) -> &Arc<dyn ServerMessagePolicy> {
        &self.keeper
    }

    /// The links of agents without a session.
    pub(crate) fn callers(&self) -> &Arc<CallerLinks> {
        &self.callers
    }

    /// Calls that wait for their agents' answers.
    pub(crate) fn parked(&self) -> &Arc<ParkedCalls> {
        &self.parked
    }

    /// The same, as tasks.
    pub(crate) fn parked_tasks(&self) -> &Arc<ParkedTasks> {
        &self.parked_tasks
    }

    /// Tasks that agents of 2026-07-28 hold at legacy servers.
    pub(crate) fn tasks(&self) -> &Arc<LegacyTasks> {
        &self.tasks
    }

    /// Connects every server, and keeps them connected until `stop`.
    pub fn start(self: &Arc<Self>, tracker: &TaskTracker, stop: &CancellationToken) {
        let (callers, parked) = (self.callers.clone(), self.parked.clone());
        let (stopped, held) = (stop.clone(), self.tasks.clone());
        let waiting = self.parked_tasks.clone();
        let closes = async move {
            stopped.cancelled().await;
            held.close();
            // A link ends with what waits on it.
            tokio::join!(parked.close(), waiting.close());
            callers.close().await;
        };
        tasks::spawn("links of agents", tracker.track_future(closes));
        for server in &self.all {
            // Before the server runs, so that its first state is a change too.
            let (servers, mut state) = (self.clone(), server.state());
            let (running, stopped) = (server.clone(), stop.clone());
            tasks::spawn(
                "tool server",
                tracker.track_future(async move { running.run(stopped).await }),
            );
            if server.settings.is_child() {
                let (tended, stopped) = (server.clone(), stop.clone());
                let tends = async move { tended.tend(&stopped).await };
                tasks::spawn("processes of a server", tracker.track_future(tends));
            }
            let stopped = stop.clone();
            tasks::spawn("tool server changes", async move {
                loop {
                    tokio::select! {
                        changed = state.changed() => if changed.is_err() { return },
                        () = stopped.cancelled() => return,
                    }
                    state.borrow_and_update();
                    servers.changed.send_modify(|version| *version += 1);
                }
            });
        }
    }

    /// All of them, in order.
    pub fn all(&self) -> &[Arc<UpstreamServer>] {
        &self.all
    }

    /// The server of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<UpstreamServer>> {
        self.all
            .iter()
            .find(|server| server.settings.name.as_str() == name)
    }

    /// Rises whenever a server comes, goes, or lists other tools.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What a message to any of them may be; with `one`, to that server.
    pub fn limits(&self, one: Option<&ServerName>) -> JsonLimits {
        let known = self.all.iter().map(|server| &server.settings);
        let mut limits = known
            .filter(|settings| one.is_none_or(|name| *name == settings.name))
            .map(|settings| settings.limits);
        let first = limits.next().unwrap_or(AGENT_JSON_LIMITS);
        limits.fold(first, |all, limits| JsonLimits {
            bytes: all.bytes.max(limits.bytes),
            string: all.string.max(limits.string),
            ..all
        })
    }
}
