//! Starts or reaches a sandbox, sends it a call as the recorded one was sent, and ends it.

use super::parcel::SandboxParcel;
use super::stability::ReplayedAnswer;
use crate::app;
use crate::cli::runtime::runtime;
use crate::config::{ServerConfig, TransportConfig};
use crate::guards::Mode;
use crate::mcp::bridge::own_params;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, introduction, number};
use crate::mcp::revision::{Era, Revision};
use crate::mcp::tools::Definition;
use crate::model::caller::Caller;
use crate::model::entry::Entry;
use crate::model::ids::ServerName;
use crate::outlet::way_back;
use crate::schema::Schema;
use crate::upstream::leftovers::Leftovers;
use crate::upstream::link::Tolerance;
use crate::upstream::links::{BridgeTerms, Links};
use crate::upstream::pump::{ExchangeContext, ExchangeOutcome, Outbound};
use crate::upstream::server::{ServerState, UpstreamServer};
use crate::upstream::servers::Servers;
use anyhow::{Context as _, anyhow, bail};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a sandbox may take to end.
const SANDBOX_SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// What a sandbox is called in what is said of it.
const SANDBOX_NAME: &str = "sandbox";

/// A call for a sandbox.
pub(super) struct SandboxRequest<'a> {
    pub(super) server: ServerConfig,
    pub(super) parcel: &'a SandboxParcel,
    pub(super) entry: &'a Entry,
    pub(super) mode: Mode,
    pub(super) timeout: Duration,
    pub(super) times: u8,
}

impl SandboxRequest<'_> {
    /// The sandbox, for people: without what may be a password in it.
    pub(super) fn place(&self) -> String {
        match &self.server.transport {
            TransportConfig::Http { url, .. } => {
                let mut shown = url.clone();
                let _ = shown.set_username("");
                let _ = shown.set_password(None);
                shown.set_query(url.query().map(|_| "…"));
                shown.to_string().replace("%E2%80%A6", "…")
            }
            TransportConfig::Child { command, args, .. } => {
                let words = std::iter::once(command).chain(args);
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// What the sandbox answers, each time. It has ended when this ends, also by a signal.
    pub(super) fn send(self) -> anyhow::Result<Vec<ReplayedAnswer>> {
        runtime()?.block_on(async {
            let (mut interrupt, mut terminate) = (
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            );
            let server = ServerConfig {
                name: ServerName::new(SANDBOX_NAME),
                timeout: self.timeout,
                start_timeout: self.timeout,
                ..self.server.clone()
            };
            let servers = app::servers_of([&server], Leftovers::default(), Arc::new(()))?;
            let (stop, running) = (CancellationToken::new(), TaskTracker::new());
            servers.start(&running, &stop);
            let answers = tokio::select! {
                answers = self.sent(&servers) => answers,
                _ = interrupt.recv() => Err(anyhow!("interrupted; the sandbox may have run it")),
                _ = terminate.recv() => Err(anyhow!("interrupted; the sandbox may have run it")),
            };
            stop.cancel();
            running.close();
            let _ = tokio::time::timeout(SANDBOX_SHUTDOWN_GRACE, running.wait()).await;
            answers
        })
    }

    async fn sent(&self, servers: &Arc<Servers>) -> anyhow::Result<Vec<ReplayedAnswer>> {
        let server = servers.get(SANDBOX_NAME).context("there is no sandbox")?;
        let definition = self.definition(server).await?;
        let caller = Arc::new(Caller::named(self.entry.agent()));
        let revision = Revision::parse(&self.entry.revision).unwrap_or(Revision::NEWEST_MODERN);
        let (inbox, _unheard) = mpsc::channel(1);
        let links = Arc::new(match revision.era() {
            Era::Modern => Links::shared(servers.clone()),
            Era::Legacy => {
                let said = json!({
                    "protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": introduction(),
                });
                Links::session(servers.clone(), caller.clone(), Text::of(&said), inbox)
            }
        });
        if revision.era() == Era::Legacy {
            server.settle_legacy().await;
        }
        let message = self.message(revision.era());
        let headers = match links.wire(server) {
            Era::Modern => headers(&definition, self),
            Era::Legacy => Vec::new(),
        };
        let output = definition.text.get("outputSchema");
        let output = output.map(|schema| Schema::compile(&schema.value()));
        let mut answers = Vec::new();
        for _ in 0..self.times {
            let outbound = Outbound {
                server: &server.settings.name,
                message: &message,
                params: &headers,
                timeout: Some(self.timeout),
                changes: true,
                terms: BridgeTerms::default(),
            };
            let answer = exchanged(&caller, &links, outbound).await?;
            let answer = match &self.parcel.rules {
                Some(rules) => rules.results.shape(answer, self.mode, output.as_ref()),
                None => answer,
            };
            answers.push(ReplayedAnswer::of(&answer)?);
        }
        links.close().await;
        Ok(answers)
    }

    /// What the sandbox says of the tool, once it is up.
    async fn definition(&self, server: &UpstreamServer) -> anyhow::Result<Arc<Definition>> {
        let mut state = server.state();
        let settled = state.wait_for(|state| !matches!(state, ServerState::Starting));
        let settled = settled.await.map(|state| state.clone());
        let up = match settled.context("the sandbox ended")? {
            ServerState::Up(up) => up,
            ServerState::Down(why) => bail!("the sandbox does not answer: {why}"),
            ServerState::Starting => bail!("the sandbox did not start"),
        };
        let tool = &self.parcel.tool;
        let mut listed = up.catalog.tools.iter();
        let found = listed.find(|definition| definition.name == *tool).cloned();
        found.with_context(|| {
            format!(
                "the sandbox lists no tool `{}` that can be called",
                tool.escape_debug()
            )
        })
    }

    /// The call as an agent of that era sends it. Nothing in it says which call it repeats: neither a
    /// key nor a fence nor a task.
    fn message(&self, era: Era) -> Message {
        let mut params = own_params(era, None).object().unwrap_or_default();
        params.set("name", Text::string(&self.parcel.tool));
        params.set("arguments", Text::of(&self.parcel.arguments));
        Message::request(0, "tools/call", Some(params.text()))
    }
}

fn headers(definition: &Definition, request: &SandboxRequest<'_>) -> Vec<(String, String)> {
    let arguments = &request.parcel.arguments;
    let params = definition.header_params.iter();
    params
        .filter_map(|param| Some((param.header.clone(), param.value(arguments)?)))
        .collect()
}

/// The answer. What the sandbox says before it is not read; a question of it stays without an answer.
async fn exchanged(
    caller: &Caller,
    links: &Arc<Links>,
    outbound: Outbound<'_>,
) -> anyhow::Result<Message> {
    let (outlet, mut inlet) = way_back();
    let waiting = links.wait(&number(0)).map_err(anyhow::Error::msg)?;
    let context = ExchangeContext {
        caller,
        outlet: &outlet,
        links,
        waiting: &waiting,
        stop_when_gone: false,
        outlives: None,
        shaping: None,
        tolerance: Tolerance::Answer,
        task_token: None,
    };
    let reading = async {
        while inlet.recv().await.is_some() {}
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = context.exchange(outbound) => ended,
        () = reading => bail!("nobody reads what the sandbox says"),
    };
    match ended {
        Ok(ExchangeOutcome::Answer(answer)) => Ok(answer),
        Ok(ExchangeOutcome::Gone(_)) => bail!("the sandbox did not answer it as a call"),
        Err(fault) => bail!("the sandbox did not answer the call: {}", fault.what),
    }
}
