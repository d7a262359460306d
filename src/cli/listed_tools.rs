//! What the configured tool servers list, judged as a running toolgate judges it, for verbs that
//! only look.

use super::terminal::asking::AskingProgress;
use crate::app;
use crate::config::Config;
use crate::gate::catalogue::{
    tool::{Tool, Tools},
    toolbox::Toolbox,
};
use crate::gate::vault::Vault;
use crate::guards::pins::{INSTRUCTIONS_PIN_NAME, Instructions, Pin};
use crate::model::clock::Clock;
use crate::model::ids::{self, ServerName, ToolName};
use crate::model::side::SideDoor;
use crate::policy::live::LivePolicy;
use crate::policy::pins::Pins;
use crate::telemetry::metrics::Metrics;
use crate::upstream::leftovers::Leftovers;
use crate::upstream::server::{ServerState, UpstreamServer};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long tool servers may take to end.
const SERVER_SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

/// The tools of all servers, once each was tried.
pub(super) struct ListedTools {
    /// Those that can be offered, in the configuration's order.
    pub(super) tools: Vec<Arc<Tool>>,
    /// Those that cannot: server, and which and why.
    pub(super) quarantined: Vec<(ServerName, String)>,
    /// What servers say of themselves that needs a pin, of those that can have one.
    pub(super) instructions: Vec<(ServerName, Pin)>,
    /// The names of all of them.
    pub(super) named: HashSet<ToolName>,
    /// Servers that do not answer or do not list all of their tools, and why.
    pub(super) down: Vec<(ServerName, String)>,
    /// Servers that had said nothing when the wait was over.
    pub(super) silent: Vec<ServerName>,
    /// What else than tools servers offer: the server, and its capabilities that layers open.
    pub(super) offers: Vec<(ServerName, Vec<SideDoor>)>,
}

/// Connects to every server of `config` once, side by side. Neither the ledger nor the doors are
/// opened, so a toolgate may run beside it.
pub(super) async fn listed(
    config: &Config,
    policy: &Arc<LivePolicy>,
) -> anyhow::Result<ListedTools> {
    let wait = ListingWait {
        end: std::future::pending(),
        shutdown: SERVER_SHUTDOWN_GRACE,
    };
    let asking = AskingProgress::of(config.servers.len());
    let mut heard = |_: &ServerName, _: Result<usize, &str>| asking.tried();
    let listed = listed_until(config, policy, wait, &mut heard);
    asking.during(listed).await
}

/// How long servers are waited for.
pub(super) struct ListingWait<E> {
    /// When what servers say is no longer waited for.
    pub(super) end: E,
    /// How long their processes may take to end after that.
    pub(super) shutdown: Duration,
}

/// As [`listed`], and over when the wait is: servers that have said nothing by then are silent. `heard`
/// is told of each other server as soon as it was tried: how many tools can be offered, or why none.
pub(super) async fn listed_until(
    config: &Config,
    policy: &Arc<LivePolicy>,
    wait: ListingWait<impl Future<Output = ()>>,
    heard: &mut dyn FnMut(&ServerName, Result<usize, &str>),
) -> anyhow::Result<ListedTools> {
    let servers = app::servers(config, Leftovers::default(), Arc::new(()))?;
    let (stop, running) = (CancellationToken::new(), TaskTracker::new());
    let toolbox = Arc::new(Toolbox::default());
    toolbox.start(&servers, policy, &Arc::new(Metrics::new()), &stop);
    // What cannot be had is not known here, and a running toolgate tells of it.
    drop(
        Vault::default()
            .learn(&policy.current().secrets, Clock)
            .await,
    );
    servers.start(&running, &stop);
    let tried = |server: &Arc<UpstreamServer>| {
        let (server, toolbox) = (server.clone(), toolbox.clone());
        async move {
            toolbox.settled(&server.settings.name).await;
            server
        }
    };
    let mut open: FuturesUnordered<_> = servers.all().iter().map(tried).collect();
    let (mut answers, mut end) = (HashMap::new(), pin!(wait.end));
    loop {
        let server = tokio::select! {
            biased;
            tried = open.next() => match tried {
                Some(server) => server,
                None => break,
            },
            () = &mut end => break,
        };
        let answer = ServerAnswer::of(&server, &toolbox.current());
        let told = answer.as_ref().map(|answer| answer.offered);
        heard(&server.settings.name, told.map_err(String::as_str));
        answers.insert(server.settings.name.clone(), answer);
    }
    let tools = toolbox.current().clone();
    stop.cancel();
    running.close();
    let _ = tokio::time::timeout(wait.shutdown, running.wait()).await;
    let names = servers.all().iter().map(|server| &server.settings.name);
    Ok(ListedTools::of(names, answers, &tools))
}

/// What a server that answers said.
struct ServerAnswer {
    named: Vec<ToolName>,
    offered: usize,
    offers: Vec<SideDoor>,
    instructions: Option<Pin>,
}

impl ServerAnswer {
    fn of(server: &UpstreamServer, tools: &Tools) -> Result<Self, String> {
        let named = listed_names(server, tools)?;
        let is_own = |tool: &&Arc<Tool>| tool.server.settings.name == server.settings.name;
        Ok(Self {
            named,
            offered: tools.all.iter().filter(is_own).count(),
            offers: offers_of(server),
            instructions: instructions_of(server),
        })
    }
}

/// As [`listed`], without the servers that lack what is `unset`: they are told of as those that do not
/// answer.
pub(super) async fn listed_but(
    mut config: Config,
    policy: &Arc<LivePolicy>,
    unset: BTreeMap<ServerName, String>,
) -> anyhow::Result<ListedTools> {
    config.servers.retain(|name, _| !unset.contains_key(name));
    let mut listed = listed(&config, policy).await?;
    listed.down.extend(unset);
    Ok(listed)
}

fn offers_of(server: &UpstreamServer) -> Vec<SideDoor> {
    let Some(up) = server.up() else {
        return Vec::new();
    };
    SideDoor::ALL
        .into_iter()
        .filter(|door| up.verdict.has(door.word()))
        .collect()
}

fn instructions_of(server: &UpstreamServer) -> Option<Pin> {
    let Instructions { digest, definition } =
        Instructions::of(server.up()?.verdict.introduction()?)?;
    Some(Pin {
        digest,
        definition: definition?,
    })
}

impl ListedTools {
    /// In the order of `names`, not of their answers.
    fn of<'s>(
        names: impl Iterator<Item = &'s ServerName>,
        mut answers: HashMap<ServerName, Result<ServerAnswer, String>>,
        tools: &Tools,
    ) -> Self {
        let quarantined = tools.quarantined.iter();
        let mut all = Self {
            tools: tools.all.clone(),
            quarantined: quarantined
                .map(|(server, _, why)| (server.clone(), why.clone()))
                .collect(),
            instructions: Vec::new(),
            named: HashSet::new(),
            down: Vec::new(),
            silent: Vec::new(),
            offers: Vec::new(),
        };
        for name in names {
            match answers.remove(name) {
                Some(Ok(answer)) => {
                    all.named.extend(answer.named);
                    all.offers.push((name.clone(), answer.offers));
                    let pin = answer.instructions.map(|pin| (name.clone(), pin));
                    all.instructions.extend(pin);
                }
                Some(Err(why)) => all.down.push((name.clone(), why)),
                None => all.silent.push(name.clone()),
            }
        }
        // What came after the wait was over belongs to no answer.
        let silent = &all.silent;
        all.tools
            .retain(|tool| !silent.contains(&tool.server.settings.name));
        all.quarantined
            .retain(|(server, _)| !silent.contains(server));
        all
    }

    /// What every listed tool and all instructions would be pinned as.
    pub(super) fn pins(&self) -> impl Iterator<Item = ((ServerName, String), Pin)> {
        let tools = self.tools.iter().map(|tool| {
            let key = (
                tool.server.settings.name.clone(),
                tool.definition.name.clone(),
            );
            (
                key,
                Pin {
                    digest: tool.hash.clone(),
                    definition: tool.definition.text.clone(),
                },
            )
        });
        let own = |(server, pin): &(ServerName, Pin)| {
            (
                (server.clone(), INSTRUCTIONS_PIN_NAME.to_owned()),
                pin.clone(),
            )
        };
        tools.chain(self.instructions.iter().map(own))
    }
}

impl ListedTools {
    /// The servers all of whose tools are among `pins`; those that do not answer as they were
    /// `before`.
    pub(super) fn complete(
        &self,
        pins: &Pins,
        before: &BTreeSet<ServerName>,
    ) -> BTreeSet<ServerName> {
        let mut complete: BTreeSet<ServerName> = self
            .offers
            .iter()
            .map(|(server, _)| server.clone())
            .collect();
        for name in &self.named {
            let Some((server, own)) = ids::parts(name.as_str()) else {
                continue;
            };
            let key = (ServerName::new(server), own.to_owned());
            if !pins.contains_key(&key) {
                complete.remove(&key.0);
            }
        }
        let is_down = |server: &&ServerName| self.down.iter().any(|(down, _)| down == *server);
        complete.extend(before.iter().filter(is_down).cloned());
        complete
    }
}

/// The names that an answering server listed, whether its tools can be offered or not; else why
/// nothing is known. What is not in `tools` as it is in the server's listing came or went
/// meanwhile, and is not taken for an answer.
fn listed_names(server: &UpstreamServer, tools: &Tools) -> Result<Vec<ToolName>, String> {
    let name = &server.settings.name;
    let up = match &*server.state().borrow() {
        ServerState::Up(up) => up.clone(),
        ServerState::Starting => return Err("it did not answer in its start_timeout".to_owned()),
        ServerState::Down(why) => return Err(why.clone()),
    };
    let offered = tools
        .all
        .iter()
        .filter(|tool| tool.server.settings.name == *name)
        .count();
    let quarantined = tools
        .quarantined
        .iter()
        .filter(|(owner, ..)| owner == name)
        .count();
    if offered + quarantined != up.catalog.tools.len() + up.catalog.quarantined.len() {
        return Err("its tools changed while they were read; try again".to_owned());
    }
    let unusable = up.catalog.quarantined.iter().map(|(own, ..)| own.as_str());
    let names = up
        .catalog
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .chain(unusable);
    Ok(names.map(|own| ToolName::of(name, own)).collect())
}
