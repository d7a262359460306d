//! Says which task and which session a call belongs to; refuses names that cannot be one.
//!
//! Before repetition, which looks at the task's last calls. A name means something only together
//! with the agent and the tenant that were authenticated: nobody reaches another's budget, history
//! or fence by naming it (SEMANTICS §5).

use crate::model::call::{Said, ToolCall};
use crate::model::caller::Caller;
use crate::model::ids::TenantId;
use crate::model::refusal::Refusal;
use crate::model::task::State;
use crate::store::state::digest::Digest;
use serde_json::Value;
use std::borrow::Cow;

/// Where agents name the task in `_meta`.
pub const TASK: &str = "dev.toolgate/task";
/// Where agents say in `_meta` where the task is.
pub const STATE: &str = "dev.toolgate/state";
/// Where agents name the session in `_meta`.
pub const SESSION: &str = "dev.toolgate/session";
/// Characters of a name at most.
const LONGEST: usize = 128;

/// What named a task or a session, the first of these that was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `_meta["dev.toolgate/task"]`; only of a task.
    Task,
    /// `Mcp-Session-Id`, before 2026-07-28.
    Wire,
    /// `_meta["dev.toolgate/session"]`.
    Meta,
    /// The header that the configuration names.
    Header,
    /// The agent's trace.
    Trace,
    /// Nothing: all such calls of an agent belong together.
    Agent,
}

/// A task or a session of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// SHA-256 over tenant, agent, source and name, each with its length.
    pub key: Digest,
    /// What named it.
    pub source: Source,
}

/// Where a call belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Belonging {
    /// Whose budgets and history: the task, else the session.
    pub task: Named,
    /// Whose fence and lock.
    pub session: Named,
}

impl Belonging {
    /// Where `call` of `caller` belongs.
    pub fn of(caller: &Caller, call: &ToolCall) -> Result<Self, Refusal> {
        let Said {
            task,
            session,
            session_header,
            trace,
            ..
        } = &call.said;
        let session = match (&call.session, session, session_header, trace) {
            (Some(wire), ..) => (Source::Wire, Cow::Borrowed(wire.as_str())),
            (None, Some(name), ..) => (Source::Meta, text(name, SESSION)?),
            (None, None, Some(name), _) => (Source::Header, usable(name, "the session's header")?),
            (None, None, None, Some(trace)) => (Source::Trace, Cow::Borrowed(trace.as_str())),
            (None, None, None, None) => (Source::Agent, Cow::Borrowed("")),
        };
        let task = match task {
            Some(name) => (Source::Task, text(name, TASK)?),
            None => session.clone(),
        };
        Ok(Self {
            task: named(caller, &task),
            session: named(caller, &session),
        })
    }
}

/// Where the agent says that its task is, if it does (003-10). What changes something is planned or
/// executed, whatever it is called.
pub fn reported(call: &ToolCall, side_effect: bool) -> Result<Option<State>, Refusal> {
    let Some(said) = &call.said.state else {
        return Ok(None);
    };
    let state = said.as_str().and_then(State::read);
    let fits = |state: &State| !side_effect || matches!(state, State::Plan | State::Execute);
    let expected = |words: &str| format!("`_meta` member `{STATE}` to be {words}");
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
    if name.is_empty() || name.chars().count() > LONGEST || name.chars().any(char::is_control) {
        let expected =
            format!("{place} to be a text of 1 to {LONGEST} characters without control characters");
        return Err(Refusal::SchemaInvalid {
            pointer: String::new(),
            expected,
        });
    }
    Ok(Cow::Borrowed(name))
}

fn named(caller: &Caller, (source, name): &(Source, Cow<'_, str>)) -> Named {
    let kind: &[u8] = match source {
        Source::Task => b"task",
        Source::Wire => b"wire",
        Source::Meta => b"meta",
        Source::Header => b"header",
        Source::Trace => b"trace",
        Source::Agent => b"agent",
    };
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
    Named {
        key: Digest::of_parts("toolgate task", &parts),
        source: *source,
    }
}

#[cfg(test)]
mod tests;
