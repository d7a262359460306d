//! The gate that is tried: all of toolgate but its doors, on a store of its own and before servers that count, with an
//! agent and people who decide at once.

use super::agent::{TrialAgent, TrialAnswer, TrialCall};
use super::echo::EchoServer;
use super::person::{TrialWord, next_hold, say};
use super::place::TrialDirectory;
use super::plan::{TrialSubject, person_of};
use crate::app::{App, ledger};
use crate::config::Config;
use crate::model::caller::Caller;
use crate::model::ids::{ActionId, ToolName, unguessable};
use crate::policy::live::LivePolicy;
use crate::store::hold_news::HoldNews;
use crate::store::journal::{VerifyOptions, VerifyReport, check};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a call may take in all: more than any hold lets it wait, and everything is on this machine.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// How often a call is sent that is to be sent again.
const MAX_SENDS: u32 = 4;
/// The code of a call that waits for a person and has to be sent again.
const PENDING: &str = "approval_pending";

/// What is tried.
pub(super) struct Trial {
    pub(super) app: App,
    pub(super) echo: EchoServer,
    directory: TrialDirectory,
}

/// A call that waits for a person.
pub(super) struct HeldTrial {
    pub(super) hold: ActionId,
    /// The id of its request, until that is answered.
    request: Option<u64>,
}

impl Trial {
    /// Starts all of it, and waits until the tools are known.
    pub(super) async fn start(
        config: &Config,
        policy: &Arc<LivePolicy>,
        echo: EchoServer,
        directory: TrialDirectory,
    ) -> anyhow::Result<Self> {
        let ledger = ledger::open(config).await?;
        let app = App::start(config, policy, ledger)?;
        for server in config.servers.values().filter(|server| !server.disabled) {
            app.door.gate.tools.settled(&server.name).await;
        }
        Ok(Self {
            app,
            echo,
            directory,
        })
    }

    /// A connection of the caller's agent.
    pub(super) fn agent(&self, caller: &Caller) -> TrialAgent {
        TrialAgent::new(&self.app.door, &caller.agent)
    }

    /// A call in a task and a session of its own; its key is another than that of any other call.
    pub(super) fn fresh_call(caller: &Caller, tool: &ToolName, arguments: &Value) -> TrialCall {
        TrialCall {
            tool: tool.clone(),
            arguments: arguments.clone(),
            key: Some(new_key()),
            task: unguessable(),
            session: unguessable(),
            person: person_of(caller),
            token: None,
        }
    }

    /// How often the subject's tool has run.
    pub(super) fn ran(&self, subject: &TrialSubject) -> usize {
        self.echo.executions(&subject.tool.name).len()
    }

    /// What the agent reads in the end, where people say that `word` of what is held.
    pub(super) async fn call(
        &self,
        agent: &mut TrialAgent,
        call: &TrialCall,
        word: TrialWord,
    ) -> anyhow::Result<TrialAnswer> {
        let mut news = self.app.door.gate.effects.store.look_on();
        let mut answer = TrialAnswer::none();
        for _ in 0..MAX_SENDS {
            let id = agent.send(call).await?;
            let answered = Box::pin(self.wait_for_answer(agent, id, &mut news, word));
            answer = match timeout(CALL_TIMEOUT, answered).await {
                Ok(answer) => answer?,
                Err(_) => TrialAnswer::none(),
            };
            if !answer.is(PENDING) {
                break;
            }
            // It was not waited for: a person says the word now, if none has.
            let held = timeout(Duration::ZERO, next_hold(&mut news)).await;
            if let Ok(held) = held {
                Box::pin(say(&self.app.door.gate, held, word)).await?;
            }
        }
        Ok(answer)
    }

    async fn wait_for_answer(
        &self,
        agent: &mut TrialAgent,
        id: u64,
        news: &mut Receiver<HoldNews>,
        word: TrialWord,
    ) -> anyhow::Result<TrialAnswer> {
        loop {
            tokio::select! {
                biased;
                answer = agent.answer_to(id) => return Ok(answer),
                held = next_hold(news) => Box::pin(say(&self.app.door.gate, held, word)).await?,
            }
        }
    }

    /// Calls, and hangs up once the call has run and before it is answered. What it reads if it is answered without
    /// having run.
    pub(super) async fn lose_answer(
        &self,
        subject: &TrialSubject,
        call: &TrialCall,
    ) -> anyhow::Result<Option<TrialAnswer>> {
        let before = self.ran(subject);
        let (mut agent, mut comes) = (self.agent(&subject.caller), self.echo.comes());
        self.echo.keep_answers();
        let runs = async { while self.ran(subject) == before && comes.changed().await.is_ok() {} };
        let early = tokio::select! {
            biased;
            () = runs => None,
            answer = Box::pin(self.call(&mut agent, call, TrialWord::AllowWithinLimits)) => Some(answer),
        };
        let ending = agent.hang_up();
        self.echo.give_answers();
        wait_for_end(ending).await;
        early.transpose()
    }

    /// Sends a call that begins to wait for a person; or what answers it at once.
    pub(super) async fn hold(
        &self,
        agent: &mut TrialAgent,
        call: &TrialCall,
        news: &mut Receiver<HoldNews>,
    ) -> anyhow::Result<Result<HeldTrial, TrialAnswer>> {
        let request = agent.send(call).await?;
        let first = async {
            tokio::select! {
                biased;
                held = next_hold(news) => Ok(held),
                answer = agent.answer_to(request) => Err(answer),
            }
        };
        let answer = match timeout(CALL_TIMEOUT, first).await {
            Ok(Ok(id)) => {
                return Ok(Ok(HeldTrial {
                    hold: id,
                    request: Some(request),
                }));
            }
            Ok(Err(answer)) => answer,
            Err(_) => TrialAnswer::none(),
        };
        if !answer.is(PENDING) {
            return Ok(Err(answer));
        }
        // It was told to come again; that it waits was told before.
        let held = timeout(Duration::ZERO, next_hold(news)).await;
        let waits = |id| HeldTrial {
            hold: id,
            request: None,
        };
        Ok(held.map(waits).map_err(|_| answer))
    }

    /// What a call that waited reads once a person has decided; it comes again where it was told to, and is allowed no
    /// second time.
    pub(super) async fn decided(
        &self,
        agent: &mut TrialAgent,
        call: &TrialCall,
        waiting: &HeldTrial,
    ) -> anyhow::Result<TrialAnswer> {
        if let Some(request) = waiting.request {
            let answer = timeout(CALL_TIMEOUT, agent.answer_to(request)).await;
            let answer = answer.unwrap_or_else(|_| TrialAnswer::none());
            if !answer.is(PENDING) {
                return Ok(answer);
            }
        }
        Box::pin(self.call(agent, call, TrialWord::Deny)).await
    }

    /// Ends everything; what its ledger is then.
    pub(super) async fn end(self) -> anyhow::Result<VerifyReport> {
        self.app.stop().await?;
        Ok(check(
            &self.directory.data_dir(),
            &VerifyOptions::default(),
        )?)
    }
}

/// A key that no other call has.
pub(super) fn new_key() -> String {
    format!("verify {}", unguessable())
}

/// Waits until what a connection has begun has ended.
pub(super) async fn wait_for_end(ending: JoinHandle<()>) {
    // A panic in it is in the log, and what does not end is seen in the counts.
    let _ = timeout(CALL_TIMEOUT, ending).await;
}
