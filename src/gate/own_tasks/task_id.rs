//! The id of a task says which hold or which call it is of, and is sealed for its caller: nobody else's
//! id is one, and it is one after a restart, too (threat-model §3C C4).

use crate::gate::call::Call;
use crate::mcp::round::{RoundBinding, RoundSeal};
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ServerName, ToolName};
use crate::model::times::millis;
use crate::store::state::Millis;
use crate::store::state::hold::Hold;
use std::time::Duration;

/// What the own part of the id of a held call begins with, and of one that takes long.
const HELD_PREFIX: &str = "held-task";
const LONG_PREFIX: &str = "long-task";
/// Of a long call: whether it may change something.
const WRITE_KIND: &str = "w";
const READ_KIND: &str = "r";
/// By which method an id is sealed, and at which server: none of an operator's is named so.
const ID_METHOD: &str = "tasks";
const ID_SERVER: &str = "-";
/// Milliseconds for which a task can be asked after once its hold or its call has ended, as the store
/// knows it.
const RETENTION_MS: u64 = 60 * 60 * 1000;

/// What a task is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskOf {
    /// A held call.
    Hold {
        /// Its key.
        key: Digest,
        /// The hold: the call that asked.
        hold: ActionId,
    },
    /// A call that takes long.
    Call {
        /// The call.
        action: ActionId,
        /// What it has claimed by then, if it has.
        key: Option<Digest>,
        /// May it change something?
        changes: bool,
    },
}

/// A task of toolgate's own, as its id names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnTaskId {
    text: String,
    /// What it is of.
    pub(crate) of: TaskOf,
    /// Since when there is the task, in milliseconds since 1970.
    pub(in crate::gate) since: Millis,
    /// For how many milliseconds from then on.
    pub(in crate::gate) life: u64,
    /// What is called.
    pub(crate) tool: ToolName,
}

/// How long a task goes on.
#[derive(Debug, Clone, Copy)]
pub(in crate::gate) struct TaskLife {
    /// Since when there is the task, in milliseconds since 1970.
    pub(in crate::gate) since: Millis,
    /// How long its call takes at most from then on.
    pub(in crate::gate) longest: Duration,
}

impl OwnTaskId {
    /// The id of the task that `hold` is, for its caller: the same each time.
    pub(in crate::gate) fn of_hold(
        seal: &RoundSeal,
        caller: &Caller,
        key: Digest,
        hold: &Hold,
    ) -> Self {
        let open = hold.approve_by.saturating_sub(hold.asked);
        // An operator may give it as much time again, and by that makes it no other task.
        let open = match &hold.extended_by {
            Some(_) => open,
            None => open.saturating_mul(2),
        };
        let longest = Duration::from_millis(open.saturating_add(hold.execute_for));
        let life = TaskLife {
            since: hold.asked,
            longest,
        };
        let of = TaskOf::Hold { key, hold: hold.id };
        Self::sealed(seal, caller, of, life, &hold.question.tool)
    }

    /// The id of the task that a call becomes.
    pub(in crate::gate) fn of_call(
        seal: &RoundSeal,
        call: &Call,
        changes: bool,
        life: TaskLife,
    ) -> Self {
        let (action, caller) = (call.judged.action, &call.origin.caller);
        let of = TaskOf::Call {
            action,
            key: call.origin.claimed.get().copied(),
            changes,
        };
        Self::sealed(seal, caller, of, life, &call.judged.tool)
    }

    fn sealed(
        seal: &RoundSeal,
        caller: &Caller,
        of: TaskOf,
        TaskLife { since, longest }: TaskLife,
        tool: &ToolName,
    ) -> Self {
        let life = millis(longest).saturating_add(RETENTION_MS);
        let own = match &of {
            TaskOf::Hold { key, hold } => format!("{HELD_PREFIX}:{key}:{hold}"),
            TaskOf::Call {
                action,
                key,
                changes,
            } => {
                let kind = if *changes { WRITE_KIND } else { READ_KIND };
                let key = key.map(|key| key.to_string()).unwrap_or_default();
                format!("{LONG_PREFIX}:{kind}{key}:{action}")
            }
        };
        let server = ServerName::new(ID_SERVER);
        let own = format!("{own}:{since}:{life}:{tool}");
        Self {
            text: seal.written(bound(caller, &server), &own),
            of,
            since,
            life,
            tool: tool.clone(),
        }
    }

    /// The task that `text` names, if that was given to this caller.
    pub(in crate::gate) fn read(seal: &RoundSeal, caller: &Caller, text: &str) -> Option<Self> {
        let server = ServerName::new(ID_SERVER);
        let own = seal.read(bound(caller, &server), text)?;
        let mut parts = own.splitn(6, ':');
        let (prefix, first, second) = (parts.next()?, parts.next()?, parts.next()?);
        let of = match prefix {
            HELD_PREFIX => TaskOf::Hold {
                key: Digest::from_hex(first)?,
                hold: second.parse().ok()?,
            },
            LONG_PREFIX => {
                let (kind, key) = first.split_at_checked(1)?;
                let key = (!key.is_empty()).then(|| Digest::from_hex(key));
                TaskOf::Call {
                    action: second.parse().ok()?,
                    key: key.flatten(),
                    changes: kind != READ_KIND,
                }
            }
            _ => return None,
        };
        Some(Self {
            of,
            since: parts.next()?.parse().ok()?,
            life: parts.next()?.parse().ok()?,
            tool: ToolName::new(parts.next()?),
            text: text.to_owned(),
        })
    }

    /// As agents write it.
    pub(in crate::gate) fn text(&self) -> &str {
        &self.text
    }
}

fn bound<'a>(caller: &'a Caller, server: &'a ServerName) -> RoundBinding<'a> {
    RoundBinding {
        caller,
        server,
        method: ID_METHOD,
        params: None,
    }
}
