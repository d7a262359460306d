//! Says which task and which session a call belongs to; refuses names that cannot be one.
//!
//! Before repetition, which looks at the task's last calls. A name means something only together
//! with the agent, the tenant and the user that were authenticated: nobody reaches another's budget,
//! history or fence by naming it (guarantees §5).

use crate::model::call::{CallMeta, ToolCall};
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::TenantId;
use crate::model::refusal::{Refusal, RefusalCode, RefusalFacts, RefusalKind};
use crate::model::task::{TaskSource, TaskState, TaskStopped};
use crate::store::state::budget::MAX_PLANNED_CALLS;
use known_keys::KeyTerms;
use serde_json::Value;
use std::borrow::Cow;

mod known_keys;

/// Where agents name the task in `_meta`.
pub(crate) const TASK_META: &str = "dev.toolgate/task";
/// Where agents say in `_meta` where the task is.
pub(crate) const TASK_STATE_META: &str = "dev.toolgate/state";
/// Where agents name the session in `_meta`.
pub(crate) const SESSION_META: &str = "dev.toolgate/session";
/// Characters of a name at most.
const NAME_CHARS_MAX: usize = 128;

pub(super) const TASK_STOPPED: RefusalCode = RefusalCode {
    code: "task_stopped",
    meaning: "an operator has stopped the task",
    remedy: "stop, and report what was done; an operator can reset the task",
    kind: RefusalKind::Other,
};

/// 003-09: an operator has stopped the task; its agent reads why.
pub(crate) fn stopped_by(stopped: &TaskStopped) -> Refusal {
    RefusalFacts::new(
        &TASK_STOPPED,
        format!("an operator has stopped this task: {}", stopped.why),
        "Stop, and report what was done and what is missing.",
    )
    .into()
}

pub(super) const NOT_PLANNED: RefusalCode = RefusalCode {
    code: "not_planned",
    meaning: "the task has a plan, and the call is not in it",
    remedy: "send a call as it was planned, or plan anew: report the state `plan`",
    kind: RefusalKind::Other,
};

/// 003-11: what changes something after a plan is what was planned.
pub(crate) fn not_planned() -> Refusal {
    RefusalFacts::new(
        &NOT_PLANNED,
        "this task has a plan, and a call with this tool and these arguments is not in it",
        "Send a call as it was planned; for another one report the state `plan` first.",
    )
    .into()
}

/// 003-11: a plan has a bound, and says so before a step is lost.
pub(crate) fn plan_full() -> Refusal {
    RefusalFacts::new(
        &NOT_PLANNED,
        format!(
            "the plan of this task has {MAX_PLANNED_CALLS} calls already, and this one is not in it"
        ),
        "Execute what is planned first, then plan the rest.",
    )
    .into()
}

/// Whether a call that was only planned is refused by [`plan_full`].
pub(crate) fn is_plan_full(refusal: &Refusal) -> bool {
    refusal.own_code() == Some(NOT_PLANNED.code)
}

/// A task or a session of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskOrSession {
    /// SHA-256 over tenant, agent, user, source and name, each with its length.
    pub key: Digest,
    /// What named it.
    pub source: TaskSource,
}

/// Where a call belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Belonging {
    /// Whose budgets and history: the task, else the session.
    pub task: TaskOrSession,
    /// Whose fence and lock.
    pub session: TaskOrSession,
}

impl Belonging {
    /// Where `call` of `caller` belongs.
    pub(crate) fn of(caller: &Caller, call: &ToolCall) -> Result<Self, Refusal> {
        let CallMeta {
            task,
            session,
            session_header,
            trace,
            ..
        } = &call.said;
        let session = match (&call.session, session, session_header, trace) {
            (Some(wire), ..) => (TaskSource::Wire, Cow::Borrowed(wire.as_str())),
            (None, Some(name), ..) => (TaskSource::Meta, text(name, SESSION_META)?),
            (None, None, Some(name), _) => {
                (TaskSource::Header, usable(name, "the session's header")?)
            }
            (None, None, None, Some(trace)) => (TaskSource::Trace, Cow::Borrowed(trace.as_str())),
            (None, None, None, None) => (TaskSource::Agent, Cow::Borrowed("")),
        };
        let task = task.as_ref().map(|name| text(name, TASK_META));
        let task = task.transpose()?;
        let session = named(caller, session.0, &session.1);
        Ok(Self {
            task: task.map_or(session, |name| named(caller, TaskSource::Task, &name)),
            session,
        })
    }
}

impl Belonging {
    /// In which calls of `caller` follow each other: the task that it names, else the session that it
    /// names; a trace is none of them.
    pub(crate) fn place(&self, caller: &Caller) -> TaskOrSession {
        match self.task.source {
            TaskSource::Trace => named(caller, TaskSource::Agent, ""),
            TaskSource::Task
            | TaskSource::Wire
            | TaskSource::Meta
            | TaskSource::Header
            | TaskSource::Agent => self.task,
        }
    }
}

impl TaskOrSession {
    /// Whether its agent names it.
    pub(crate) fn is_named(&self) -> bool {
        match self.source {
            TaskSource::Task | TaskSource::Wire | TaskSource::Meta | TaskSource::Header => true,
            TaskSource::Trace | TaskSource::Agent => false,
        }
    }
}

/// Where the agent says that its task is, if it does (003-10). What changes something is planned or
/// executed, whatever it is called.
pub(crate) fn reported(call: &ToolCall, side_effect: bool) -> Result<Option<TaskState>, Refusal> {
    let Some(said) = &call.said.state else {
        return Ok(None);
    };
    let state = said.as_str().and_then(TaskState::read);
    let fits =
        |state: &TaskState| !side_effect || matches!(state, TaskState::Plan | TaskState::Execute);
    let expected = |words: &str| format!("`_meta` member `{TASK_STATE_META}` to be {words}");
    match (state, side_effect) {
        (Some(state), _) if fits(&state) => Ok(Some(state)),
        (_, true) => {
            let expected = expected("`plan` or `execute` for a tool that changes something");
            Err(Refusal::SchemaInvalid {
                pointer: String::new(),
                expected,
            })
        }
        (_, false) => {
            let expected = expected("`collect`, `plan`, `execute` or `summarize`");
            Err(Refusal::SchemaInvalid {
                pointer: String::new(),
                expected,
            })
        }
    }
}

fn text<'a>(name: &'a Value, place: &str) -> Result<Cow<'a, str>, Refusal> {
    let place = format!("`_meta` member `{place}`");
    usable(name.as_str().unwrap_or_default(), &place)
}

fn usable<'a>(name: &'a str, place: &str) -> Result<Cow<'a, str>, Refusal> {
    if name.is_empty()
        || name.chars().count() > NAME_CHARS_MAX
        || name.chars().any(char::is_control)
    {
        let expected = format!(
            "{place} to be a text of 1 to {NAME_CHARS_MAX} characters without control characters"
        );
        return Err(Refusal::SchemaInvalid {
            pointer: String::new(),
            expected,
        });
    }
    Ok(Cow::Borrowed(name))
}

/// The account of `caller`'s user: what counts all calls of an agent for one user, whatever they belong
/// to. Those without a user have one account.
pub(crate) fn account_of(caller: &Caller) -> Digest {
    key_of(caller, b"user", "")
}

fn named(caller: &Caller, source: TaskSource, name: &str) -> TaskOrSession {
    let kind: &'static [u8] = match source {
        TaskSource::Task => b"task",
        TaskSource::Wire => b"wire",
        TaskSource::Meta => b"meta",
        TaskSource::Header => b"header",
        TaskSource::Trace => b"trace",
        TaskSource::Agent => b"agent",
    };
    let terms = KeyTerms { caller, kind, name };
    let key = match source {
        // Each call may have one of its own.
        TaskSource::Trace => made(terms),
        TaskSource::Task
        | TaskSource::Wire
        | TaskSource::Meta
        | TaskSource::Header
        | TaskSource::Agent => terms.key(made),
    };
    TaskOrSession { key, source }
}

fn made(terms: KeyTerms<'_>) -> Digest {
    key_of(terms.caller, terms.kind, terms.name)
}

fn key_of(caller: &Caller, kind: &[u8], name: &str) -> Digest {
    let tenant = caller.tenant.as_ref().map(TenantId::as_str);
    let has_tenant: &[u8] = if tenant.is_some() { b"tenant" } else { b"none" };
    let tenant = tenant.unwrap_or_default().as_bytes();
    let parts = [
        has_tenant,
        tenant,
        caller.agent.as_str().as_bytes(),
        kind,
        name.as_bytes(),
    ];
    caller.digest("toolgate task", &parts)
}

#[cfg(test)]
mod tests;
