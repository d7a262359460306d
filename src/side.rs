//! Floor 3: the side doors, which are everything that MCP lets agents and servers do besides
//! calling tools. Each message that goes through one is judged by the layers, counted, and recorded
//! (threat-model §3C C3, C6, C7, C12, §5).

use crate::guards::Mode;
use crate::guards::allowlist::side::SideTarget;
use crate::mcp::error_codes::METHOD_NOT_FOUND;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::mcp::methods::{is_server_notification, is_server_request};
use crate::model::caller::Caller;
use crate::model::clock::Clock;
use crate::model::ids::{ServerName, ToolName};
use crate::model::side::SideDoor;
use crate::policy::Policy;
use crate::policy::live::LivePolicy;
use crate::telemetry::metrics::Metrics;
use crate::upstream::keeper::{ServerMessage, ServerMessagePolicy, Unheard};
use record::RecentNotifications;
use std::sync::Arc;
use std::time::Duration;
use sums::LedgerSums;

pub(crate) mod capabilities;
mod elicitation;
pub(crate) mod lists;
mod record;
pub(crate) mod subject;
pub mod sums;
pub(crate) mod task_news;

pub(crate) use record::MessageOutcome;

/// Judges what goes through the side doors.
pub struct Sides {
    policy: Arc<LivePolicy>,
    sums: Arc<LedgerSums>,
    metrics: Arc<Metrics>,
    clock: Clock,
    recent: RecentNotifications,
}

/// A message on its way through a side door.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passing<'a> {
    /// The agent that sends it, or would read it.
    pub caller: &'a Caller,
    /// The server at the other end.
    pub server: &'a ServerName,
    /// The revision that the agent speaks.
    pub revision: &'static str,
    /// The legacy session.
    pub session: Option<&'a str>,
    /// The message, under the server's own names.
    pub message: &'a Message,
}

/// What a message goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SideRoute {
    Door(SideDoor),
    /// It changes a task.
    Task,
    /// Nobody knows what it is.
    Unknown,
}

impl SideRoute {
    /// Its word in metrics.
    fn word(self) -> &'static str {
        match self {
            Self::Door(door) => door.word(),
            Self::Task => "tasks",
            Self::Unknown => "unknown",
        }
    }
}

/// A message that was judged.
#[must_use]
pub(crate) struct JudgedMessage<'a> {
    passing: Passing<'a>,
    way: SideRoute,
    /// What it is about, as operators read it.
    subject: String,
    /// What decided.
    by: String,
    refused: bool,
    policy: Arc<Policy>,
    began: Duration,
}

impl JudgedMessage<'_> {
    /// Is it not to travel?
    pub(crate) fn is_refused(&self) -> bool {
        self.refused && self.policy.mode == Mode::Enforce
    }
}

impl Sides {
    /// Judges by the policy in force.
    pub fn new(policy: Arc<LivePolicy>, sums: Arc<LedgerSums>, metrics: Arc<Metrics>) -> Self {
        Self {
            policy,
            sums,
            metrics,
            clock: Clock::default(),
            recent: RecentNotifications::default(),
        }
    }

    /// The policy, as it stands.
    pub(crate) fn live(&self) -> Arc<LivePolicy> {
        self.policy.clone()
    }

    /// The policy in force.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        self.policy.current()
    }

    /// Judges a message; none when it goes through no side door.
    pub(crate) fn judge<'a>(&self, passing: Passing<'a>) -> Option<JudgedMessage<'a>> {
        let message = passing.message;
        let door = SideDoor::of_method(&message.method)?;
        let (wanted, subject) =
            subject::of(door, passing.server, &message.method, message.body.as_ref());
        let policy = self.policy.current();
        let mut by = None;
        for wanted in &wanted {
            let sided = policy.allowlist.side(passing.caller, wanted);
            let refuses = sided.refuses();
            by = Some((refuses, sided.by.to_string()));
            if refuses {
                break;
            }
        }
        // What names nothing is nothing that could be allowed.
        let (mut refused, mut by) = by.unwrap_or_else(|| (true, "it names nothing".to_owned()));
        if let (false, SideDoor::Elicitation, MessageKind::Request) = (refused, door, message.kind)
            && let Err(why) = elicitation::judge(message.body.as_ref())
        {
            (refused, by) = (true, format!("elicitation: {why}"));
        }
        let began = self.clock.steady();
        Some(JudgedMessage {
            passing,
            way: SideRoute::Door(door),
            subject,
            by,
            refused,
            policy,
            began,
        })
    }

    /// Judges what a server tells or asks by a method that no revision knows; none for other messages, and
    /// where `methods` allows it.
    fn unknown<'a>(&self, passing: Passing<'a>) -> Option<JudgedMessage<'a>> {
        let Message { kind, method, .. } = passing.message;
        let policy = self.policy.current();
        let is_of_interest = match kind {
            MessageKind::Notification => !is_server_notification(method),
            MessageKind::Request => !is_server_request(method),
            MessageKind::Response => false,
        };
        if !is_of_interest || policy.methods.passes(method, false, Mode::Enforce) {
            return None;
        }
        let (subject, by, began) = (
            passing.server.to_string(),
            "methods".to_owned(),
            self.clock.steady(),
        );
        Some(JudgedMessage {
            passing,
            way: SideRoute::Unknown,
            subject,
            by,
            refused: true,
            policy,
            began,
        })
    }

    /// What becomes of a message by which the caller changes a task of its own that `tool` made.
    /// `is_unheld`: it brings the tool something that people would have to decide on.
    pub(crate) fn of_task<'a>(
        &self,
        passing: Passing<'a>,
        tool: &ToolName,
        is_unheld: bool,
    ) -> JudgedMessage<'a> {
        let by = if is_unheld { "approval" } else { "task" }.to_owned();
        let (way, subject, policy, began) = (
            SideRoute::Task,
            tool.to_string(),
            self.policy.current(),
            self.clock.steady(),
        );
        JudgedMessage {
            passing,
            way,
            subject,
            by,
            refused: is_unheld,
            policy,
            began,
        }
    }

    /// May anything of `server` be reached through `door`? In observe mode all of it.
    pub(crate) fn opens(&self, caller: &Caller, door: SideDoor, server: &ServerName) -> bool {
        opens(&self.policy.current(), caller, door, server)
    }

    /// May this be reached? In observe mode all may.
    pub(crate) fn reaches(&self, caller: &Caller, wanted: &SideTarget) -> bool {
        let policy = self.policy.current();
        policy.mode == Mode::Observe || !policy.allowlist.side(caller, wanted).refuses()
    }
}

/// May anything of `server` be reached through `door`? In observe mode all of it.
fn opens(policy: &Policy, caller: &Caller, door: SideDoor, server: &ServerName) -> bool {
    policy.mode == Mode::Observe || policy.allowlist.opens(caller, door, server)
}

impl ServerMessagePolicy for Sides {
    fn lets_through(&self, spoken: &ServerMessage<'_>) -> Result<(), Unheard> {
        let ServerMessage {
            caller,
            server,
            revision,
            message,
        } = *spoken;
        let passing = Passing {
            caller,
            server,
            revision,
            session: None,
            message,
        };
        let Some(judged) = self.judge(passing).or_else(|| self.unknown(passing)) else {
            return Ok(());
        };
        let unheard = judged.is_refused().then(|| words(judged.way, message));
        self.tell(&judged, MessageOutcome::Passed);
        unheard.map_or(Ok(()), |words| {
            Err(Unheard {
                code: METHOD_NOT_FOUND,
                words,
            })
        })
    }

    fn introduce(&self, caller: &Caller, server: &ServerName, params: &Text) -> Text {
        capabilities::initialize(&self.policy.current(), caller, server, params)
    }
}

/// What a server reads that may not ask, and an agent whose request it asked for.
fn words(way: SideRoute, message: &Message) -> &'static str {
    let SideRoute::Door(door) = way else {
        return match message.kind {
            MessageKind::Request => "servers do not send this request",
            MessageKind::Notification | MessageKind::Response => "nobody knows this notification",
        };
    };
    match door {
        SideDoor::Sampling => {
            "the tool server may not use the agent's model here (sampling is not open to it)"
        }
        SideDoor::Elicitation => {
            "the tool server may not ask this of the person behind the agent (elicitation)"
        }
        SideDoor::Roots => {
            "the tool server may not ask for the agent's directories here (roots are not open to it)"
        }
        SideDoor::Resources | SideDoor::Prompts | SideDoor::Completions | SideDoor::Logging => {
            "this is not open to the agent"
        }
    }
}
