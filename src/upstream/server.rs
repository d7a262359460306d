//! One configured tool server: connected, probed for its eras, listed, watched, and connected again
//! when it is lost.

use super::backoff::Backoff;
use super::catalog::Catalog;
use super::link::Link;
use super::probe;
use super::questions::tell;
use super::server_eras::ServerEras;
use super::server_settings::{ServerTransport, Surroundings, UpstreamServerSettings};
use crate::mcp::bridge::own_params;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::revision::Era;
use crate::model::reply::Fault;
use crate::upstream::shared_children::{SharedChild, SharedChildren};
use crate::upstream::{Inbound, UnsolicitedReceiver};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use relist::Relist;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

mod eras;
mod joining;
mod relist;

/// What is known of a server that answers.
pub struct Up {
    /// Its eras and what it said of itself.
    pub verdict: Arc<ServerEras>,
    /// The modern link all callers share.
    pub shared: Option<Arc<Link>>,
    /// Its tools.
    pub catalog: Arc<Catalog>,
    base: Arc<Link>,
}

/// Where a server stands.
#[derive(Clone)]
pub enum ServerState {
    /// Not yet connected.
    Starting,
    /// Answering.
    Up(Arc<Up>),
    /// Not answering, and why.
    Down(String),
}

/// Why toolgate's own link to a server is no longer watched.
enum WatchEnd {
    /// The server is lost, and why.
    Lost(String),
    /// The process is an agent's, and the tools have changed: another is asked for them.
    HandedOver,
}

/// A server that answers, what it says outside requests, and toolgate's own process of a legacy one.
type ConnectedServer = (Up, UnsolicitedReceiver, Option<Arc<SharedChild>>);

/// A configured server.
pub struct UpstreamServer {
    /// As configured.
    pub settings: UpstreamServerSettings,
    surroundings: Surroundings,
    state: watch::Sender<ServerState>,
    verdict: Mutex<Option<Arc<ServerEras>>>,
    /// Whether the verdict counts when the server is connected again.
    is_sure: AtomicBool,
    /// Whether both eras are asked for at once.
    is_legacy_expected: AtomicBool,
    /// Held while it is asked by `initialize` alone.
    asking: tokio::sync::Mutex<()>,
    stale: Notify,
    lost: Notify,
    wanted: Notify,
    /// Its processes, where it is a legacy server on stdio.
    pub(in crate::upstream) children: SharedChildren,
    /// toolgate's own process has ended for want of work.
    rests: AtomicBool,
    woken: Notify,
}

/// A server over HTTP that agents want while it is down is tried again this long after it was tried
/// last: asking costs it one request.
const WANTED_RETRY_DELAY: Duration = Duration::from_secs(1);

impl UpstreamServer {
    /// A server that nobody has connected to yet.
    pub fn new(settings: UpstreamServerSettings, surroundings: Surroundings) -> Self {
        let (state, _) = watch::channel(ServerState::Starting);
        Self {
            settings,
            surroundings,
            state,
            verdict: Mutex::new(None),
            is_sure: AtomicBool::new(false),
            is_legacy_expected: AtomicBool::new(false),
            asking: tokio::sync::Mutex::default(),
            stale: Notify::new(),
            lost: Notify::new(),
            wanted: Notify::new(),
            children: SharedChildren::default(),
            rests: AtomicBool::new(false),
            woken: Notify::new(),
        }
    }

    /// Where it stands, now and from now on.
    pub fn state(&self) -> watch::Receiver<ServerState> {
        self.state.subscribe()
    }

    /// What is known of it, if it answers.
    pub fn up(&self) -> Option<Arc<Up>> {
        match &*self.state.borrow() {
            ServerState::Up(up) => Some(up.clone()),
            ServerState::Starting | ServerState::Down(_) => None,
        }
    }

    /// Whether it makes tasks of calls by itself, in either era's way, as far as it has said.
    fn makes_tasks(&self) -> bool {
        self.up().is_some_and(|up| up.verdict.has("tasks"))
    }

    /// Whether its calls become tasks of toolgate's own where they take long.
    pub fn takes_long(&self) -> bool {
        self.settings.task_after < self.settings.timeout && !self.makes_tasks()
    }

    /// What is known of it, for an agent that asks it something now. One that is down is tried again
    /// the sooner for it.
    pub fn want(&self) -> Result<Arc<Up>, Fault> {
        self.up().ok_or_else(|| {
            self.wanted.notify_one();
            Fault::unsent(format!("tool server `{}` is down", self.settings.name))
        })
    }

    /// The modern link all callers share.
    pub fn shared(&self) -> Result<Arc<Link>, Fault> {
        self.want()?
            .shared
            .clone()
            .ok_or_else(|| Fault::unsent("the tool server does not speak 2026-07-28"))
    }

    /// Up with this link and what it said of itself, or down, where nobody runs the server: in
    /// simulations.
    #[cfg(test)]
    pub(crate) fn stands(&self, link: Option<Arc<Link>>, discovered: Option<Text>) {
        let state = link.map_or_else(
            || ServerState::Down("it was lost".to_owned()),
            |base| {
                // The link is a modern one.
                let nothing = || Text::of(&json!({}));
                let verdict = Arc::new(ServerEras {
                    discovered: Some(discovered.unwrap_or_else(nothing)),
                    initialized: None,
                    over_events: false,
                    is_legacy_unasked: false,
                });
                ServerState::Up(Arc::new(Up {
                    verdict,
                    shared: Some(base.clone()),
                    catalog: Arc::default(),
                    base,
                }))
            },
        );
        self.state.send_replace(state);
    }

    /// The same as a legacy server.
    #[cfg(test)]
    pub(crate) fn stands_in_sessions(&self, base: Arc<Link>) {
        let verdict = Arc::new(ServerEras {
            discovered: None,
            initialized: Some(Text::of(&json!({ "capabilities": { "tools": {} } }))),
            over_events: false,
            is_legacy_unasked: false,
        });
        let up = Up {
            verdict,
            shared: None,
            catalog: Arc::default(),
            base,
        };
        self.state.send_replace(ServerState::Up(Arc::new(up)));
    }

    /// Whether toolgate hears when the server's tools change.
    fn is_told(&self, up: &Up) -> bool {
        let listens = up.base.revision.era() == Era::Legacy || !self.settings.is_child();
        listens && up.verdict.tells_changes()
    }

    /// Its tools changed, an agent session heard.
    pub fn tools_changed(&self) {
        self.stale.notify_one();
    }

    /// It could not be reached, a request found.
    pub fn suspect(&self) {
        self.lost.notify_one();
    }

    /// What it speaks, and what it said of itself, once that is known; also while it is down.
    pub fn known(&self) -> Option<Arc<ServerEras>> {
        self.verdict.lock().clone()
    }

    /// Keeps the server connected until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let (mut backoff, mut told) = (Backoff::default(), None);
        loop {
            let connected = tokio::select! {
                connected = self.connect() => connected,
                () = stop.cancelled() => return,
            };
            match connected {
                Ok((up, unsolicited, own)) => {
                    backoff.works();
                    told = None;
                    // One that comes back from its rest was never down.
                    let was_up = self.up().is_some();
                    // What agents wanted before, they have now.
                    let _ = self.wanted.notified().now_or_never();
                    let (server, tools) = (&self.settings.name, up.catalog.tools.len());
                    if !was_up {
                        tracing::info!(%server, tools, eras = %up.verdict.words(), "tool server is up");
                    }
                    let base = up.base.clone();
                    self.comes_up(up);
                    self.rests.store(false, Ordering::Relaxed);
                    let _ = self.woken.notified().now_or_never();
                    let ended = self.watch(&base, unsolicited, &stop).await;
                    let WatchEnd::Lost(why) = ended else {
                        continue;
                    };
                    if own.is_some_and(|own| base.is_over() && own.may_rest()) {
                        base.close().await;
                        self.rest(&stop).await;
                        continue;
                    }
                    backoff.broke();
                    self.state.send_replace(ServerState::Down(why.clone()));
                    base.close().await;
                    if stop.is_cancelled() {
                        return;
                    }
                    let words = "tool server is lost; its tools are hidden until it answers again";
                    tracing::warn!(%server, why, again_in = ?backoff.longest(), "{words}");
                }
                Err(fault) => {
                    // As often as agents want it, but once a fault.
                    if told.as_ref() != Some(&fault.what) {
                        tracing::warn!(server = %self.settings.name, %fault, again_in = ?backoff.longest(), "tool server does not answer");
                    }
                    told = Some(fault.what.clone());
                    self.state.send_replace(ServerState::Down(fault.what));
                }
            }
            tokio::select! {
                () = self.pause(&mut backoff) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Waits before the server is tried again: as long as `backoff` says, or until an agent wants
    /// it. A child is not started again sooner (threat-model §3I I4).
    async fn pause(&self, backoff: &mut Backoff) {
        let asking_is_cheap = matches!(self.settings.transport, ServerTransport::Http { .. });
        let wanted = async {
            tokio::time::sleep(WANTED_RETRY_DELAY).await;
            self.wanted.notified().await;
        };
        tokio::select! {
            () = backoff.pause() => {}
            () = wanted, if asking_is_cheap => {}
        }
    }

    async fn connect(&self) -> Result<ConnectedServer, Fault> {
        let known = self.verdict.lock().clone();
        let known = known.filter(|_| self.is_sure.load(Ordering::Relaxed));
        let probed = probe::probe(&self.settings, &self.surroundings, known).await?;
        *self.verdict.lock() = Some(probed.verdict.clone());
        self.is_sure.store(probed.is_sure, Ordering::Relaxed);
        if self.is_legacy_expected() {
            // An agent that came before the server was there found nothing to ask about.
            self.settle_legacy().await;
        }
        let verdict = self.known().unwrap_or(probed.verdict);
        let catalog = self.list(&probed.base, &verdict).await?;
        let is_modern = probed.base.revision.era() == Era::Modern;
        let shared = is_modern.then(|| probed.base.clone());
        let (own, unsolicited) = if is_modern || !self.settings.is_child() {
            (None, probed.unsolicited)
        } else {
            let said = verdict.initialized.clone();
            let answer = Message {
                body: said,
                ..Message::response(None, Text::of(&json!({})), false)
            };
            let name = &self.settings.name;
            let first = self
                .children
                .first(name, &probed.base, answer, probed.unsolicited);
            (Some(first.0), first.1)
        };
        let up = Up {
            verdict,
            shared,
            catalog: Arc::new(catalog),
            base: probed.base,
        };
        Ok((up, unsolicited, own))
    }

    async fn list(&self, link: &Link, verdict: &ServerEras) -> Result<Catalog, Fault> {
        if !verdict.has("tools") {
            return Ok(Catalog::default());
        }
        let listed = tokio::time::timeout(self.settings.timeout, Catalog::fetch(link)).await;
        listed
            .map_err(|_| Fault::after_sending("the tool server did not list its tools in time"))?
    }

    /// Follows changes until the server is lost; says why.
    async fn watch(
        &self,
        base: &Arc<Link>,
        mut unsolicited: UnsolicitedReceiver,
        stop: &CancellationToken,
    ) -> WatchEnd {
        let lost = |why: &str| WatchEnd::Lost(why.to_owned());
        let mut talks = true;
        let mut relist = Relist::new(self, base);
        let mut listening = Box::pin(self.listen(base));
        let mut doubting = Box::pin(self.doubt());
        loop {
            tokio::select! {
                () = stop.cancelled() => return lost("toolgate is stopping"),
                why = base.end_reason() => return WatchEnd::Lost(why),
                () = self.lost.notified() => relist.suspect(),
                () = self.stale.notified() => relist.changed(),
                why = &mut listening => return WatchEnd::Lost(why),
                why = &mut doubting => return WatchEnd::Lost(why),
                said = unsolicited.recv(), if talks => match said {
                    Some(Inbound::Message(message)) if message.method == "notifications/tools/list_changed" => relist.changed(),
                    Some(Inbound::Message(message)) if message.kind == MessageKind::Request => self.decline(base, message).await,
                    Some(_) => {}
                    None => talks = false,
                },
                listed = relist.next() => match listed {
                    Err(fault) => return WatchEnd::Lost(fault.what),
                    Ok(()) if relist.needs_another => return WatchEnd::HandedOver,
                    Ok(()) => {}
                },
            }
        }
    }

    /// Asks for its tools again.
    pub(super) async fn list_from(&self, base: &Link) -> Result<Catalog, Fault> {
        let Some(up) = self.up() else {
            return Err(Fault::unsent("the tool server is down"));
        };
        self.list(base, &up.verdict).await
    }

    /// It has these tools from now on.
    pub(super) fn lists(&self, catalog: Catalog) {
        let Some(up) = self.up() else { return };
        let (verdict, shared, base) = (up.verdict.clone(), up.shared.clone(), up.base.clone());
        self.comes_up(Up {
            verdict,
            shared,
            catalog: Arc::new(catalog),
            base,
        });
    }

    /// The base session has no agent behind it, so a server that asks it something is told so.
    async fn decline(&self, base: &Link, message: Message) {
        let answer = match message.method.as_str() {
            "ping" => Message::response(message.id, Text::of(&json!({})), false),
            _ => Message::error(
                message.id,
                crate::mcp::error_codes::METHOD_NOT_FOUND,
                "no agent is behind this session",
                None,
            ),
        };
        tell(base, answer).await;
    }

    /// Asks again which eras the server speaks, as long as it has not said so itself; returns why it
    /// has to be connected anew.
    async fn doubt(&self) -> String {
        let mut backoff = Backoff::default();
        while !self.is_sure.load(Ordering::Relaxed) {
            backoff.pause().await;
            match probe::is_modern(&self.settings, &self.surroundings).await {
                Ok(true) => return "the tool server speaks 2026-07-28 after all".to_owned(),
                Ok(false) => self.is_sure.store(true, Ordering::Relaxed),
                Err(fault) => {
                    tracing::debug!(server = %self.settings.name, %fault, "which eras the tool server speaks is not certain");
                }
            }
        }
        std::future::pending().await
    }

    /// Listens for changes on a modern link; returns why it can't any more.
    async fn listen(&self, base: &Arc<Link>) -> String {
        let offered = self
            .verdict
            .lock()
            .as_ref()
            .is_some_and(|verdict| verdict.tells_changes());
        // There are servers on standard input that read nothing more after a subscription; no agent
        // asked for this one.
        if base.revision.era() == Era::Legacy || !offered || self.settings.is_child() {
            return std::future::pending().await;
        }
        let mut params = own_params(base.revision.era(), None)
            .object()
            .unwrap_or_default();
        params.set(
            "notifications",
            Text::of(&json!({ "toolsListChanged": true })),
        );
        let (mut failures, mut backoff) = (0_u32, Backoff::default());
        loop {
            let message = Message::request(0, "subscriptions/listen", Some(params.text()));
            if let Ok(mut exchange) = base.request(message, Vec::new()).await {
                while let Ok(Some(inbound)) = exchange.next().await {
                    (failures, backoff) = (0, Backoff::default());
                    match inbound {
                        Inbound::Message(message)
                            if message.method == "notifications/tools/list_changed" =>
                        {
                            self.stale.notify_one();
                        }
                        Inbound::Message(message)
                            if message.kind == MessageKind::Response && message.is_error =>
                        {
                            return std::future::pending().await;
                        }
                        Inbound::Message(_) | Inbound::Comment(_) | Inbound::Interrupted(_) => {}
                    }
                }
            }
            failures += 1;
            if failures > 3 {
                return "the tool server can no longer be listened to".to_owned();
            }
            backoff.pause().await;
            self.stale.notify_one();
        }
    }
}

#[cfg(test)]
pub(in crate::upstream) mod tests;
