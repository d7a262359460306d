//! One ledger entry and one count for each message through a side door. Notifications come by
//! themselves, so one entry a minute is written of each kind; all are counted.

use super::{JudgedMessage, Passing, SideRoute, Sides};
use crate::guards::Mode;
use crate::mcp::canonical;
use crate::mcp::json::Text;
use crate::mcp::message::{Message, MessageKind};
use crate::model::digest::sha256;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, AgentId, ServerName};
use crate::model::reply::Fault;
use crate::model::times::precise_millis;
use crate::telemetry::metrics::CallOutcome;
use crate::telemetry::tasks::heavy;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// With what code the ledger says that a message was refused.
const REFUSED_CODE: &str = "message_not_allowlisted";
/// Letters of a method that the ledger keeps; of those that are known it keeps all.
const METHOD_CHARS_MAX: usize = 64;
/// How long one entry stands for all notifications of its kind.
const NOTIFICATION_QUIET_TIME: Duration = Duration::from_mins(1);
/// Kinds that are remembered.
const MAX_NOTIFICATION_KINDS: usize = 4_096;

/// What became of a message that was not refused.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MessageOutcome<'a> {
    /// It was handed on; its answer is no matter of ours.
    Passed,
    /// The server answered.
    Answered(&'a Message),
    /// Something broke.
    Broke(&'a Fault),
    /// Nobody waits for an answer any more, or toolgate gave it.
    Ended,
}

impl<'a> MessageOutcome<'a> {
    fn answer(self) -> Option<&'a Message> {
        match self {
            Self::Answered(answer) => Some(answer),
            Self::Passed | Self::Broke(_) | Self::Ended => None,
        }
    }

    fn fault(self) -> Option<&'a Fault> {
        match self {
            Self::Broke(fault) => Some(fault),
            Self::Passed | Self::Answered(_) | Self::Ended => None,
        }
    }

    /// What the server answered, if that is no error.
    fn result(self) -> Option<&'a Text> {
        self.answer()
            .filter(|answer| !answer.is_error)
            .and_then(|answer| answer.body.as_ref())
    }

    /// As the ledger has it.
    fn word(self, refused: bool) -> &'static str {
        match self {
            _ if refused => "refused",
            Self::Passed => "passed",
            Self::Answered(_) => "answered",
            Self::Broke(_) | Self::Ended => "failed",
        }
    }
}

/// When notifications were recorded last, by agent, server and method.
#[derive(Default)]
pub(super) struct RecentNotifications(Mutex<HashMap<(AgentId, ServerName, String), Duration>>);

impl RecentNotifications {
    /// Is this one to be recorded?
    fn is_due(&self, judged: &JudgedMessage<'_>, now: Duration) -> bool {
        let Passing {
            caller,
            server,
            message,
            ..
        } = judged.passing;
        // All that nobody knows is of one kind: a server can think of any number of names.
        let method = if judged.way == SideRoute::Unknown {
            judged.way.word()
        } else {
            &message.method
        };
        let key = (caller.agent.clone(), server.clone(), method.to_owned());
        let mut kinds = self.0.lock();
        if kinds
            .get(&key)
            .is_some_and(|last| now.saturating_sub(*last) < NOTIFICATION_QUIET_TIME)
        {
            return false;
        }
        if kinds.len() >= MAX_NOTIFICATION_KINDS {
            kinds.clear();
        }
        kinds.insert(key, now);
        true
    }
}

impl Sides {
    /// Records and counts what became of a message.
    pub(crate) fn tell(&self, judged: &JudgedMessage<'_>, became: MessageOutcome<'_>) {
        let outcome = match (judged.is_refused(), judged.refused) {
            (true, _) => "refused",
            (false, true) => "would_refuse",
            (false, false) => "passed",
        };
        self.metrics.message(judged.way.word(), outcome);
        let now = self.clock.steady();
        if judged.passing.message.kind == MessageKind::Notification
            && !self.recent.is_due(judged, now)
        {
            return;
        }
        let took = now.saturating_sub(judged.began);
        // Hashing the longest takes longer than others may wait.
        let length = |message: &Message| {
            message
                .body
                .as_ref()
                .map_or(0, |body| body.as_bytes().len())
        };
        let answered = if let MessageOutcome::Answered(answer) = became {
            length(answer)
        } else {
            0
        };
        let bytes = length(judged.passing.message) + answered;
        let entry = heavy::aside(bytes, || self.entry(judged, became, took));
        let summed = if judged.is_refused() {
            CallOutcome::Refused
        } else {
            CallOutcome::Answered
        };
        self.sums.enter(Box::new(entry), summed);
    }

    fn entry(
        &self,
        judged: &JudgedMessage<'_>,
        became: MessageOutcome<'_>,
        took: Duration,
    ) -> Entry {
        let JudgedMessage {
            passing:
                Passing {
                    caller,
                    revision,
                    session,
                    message,
                    ..
                },
            subject,
            by,
            policy,
            ..
        } = judged;
        let refused = judged.is_refused();
        let (result, outcome) = (became.result(), became.word(refused));
        let sent = u32::from(!refused && !matches!(became, MessageOutcome::Ended));
        Entry {
            time: self.clock.wall().to_string(),
            action_id: ActionId::generate().to_string(),
            request_id: message.id.as_ref().map(shown).unwrap_or_default(),
            session: session.map(str::to_owned),
            revision: (*revision).to_owned(),
            tool: subject.clone(),
            method: Some(message.method.chars().take(METHOD_CHARS_MAX).collect()),
            params_hash: hash(message.body.as_ref()),
            state: "collect".to_owned(),
            event: if refused { "fail" } else { "exit" }.to_owned(),
            outcome: outcome.to_owned(),
            aborted_reason: refused.then(|| REFUSED_CODE.to_owned()),
            stage: "visible".to_owned(),
            decided_by: Some(by.clone()),
            would_refuse: (judged.refused && policy.mode == Mode::Observe)
                .then(|| REFUSED_CODE.to_owned()),
            fault: became.fault().map(|fault| fault.what.clone()),
            is_error: became.answer().map(|answer| answer.is_error),
            result_bytes: result.map(|result| result.as_bytes().len() as u64),
            result_hash: result.map(|result| sha256(result.as_bytes())),
            latency_ms: precise_millis(took),
            upstream_ms: if sent > 0 { precise_millis(took) } else { 0.0 },
            policy: policy.version.clone(),
            attempts: sent,
            ..Entry::of_caller(caller)
        }
    }
}

fn shown(id: &Text) -> String {
    String::from_utf8_lossy(id.as_bytes()).into_owned()
}

fn hash(params: Option<&Text>) -> String {
    let Some(params) = params else {
        return sha256(b"{}");
    };
    canonical::form(&params.value()).map_or_else(|| sha256(params.as_bytes()), |form| sha256(&form))
}
