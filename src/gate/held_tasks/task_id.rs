//! The id of a task says which hold it is of, and is sealed for its caller: nobody else's id is one,
//! and it is one after a restart, too (threat-model §3C C4).

use crate::mcp::round::{RoundBinding, RoundSeal};
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ServerName, ToolName};
use crate::store::state::Millis;
use crate::store::state::hold::Hold;

/// What the own part of an id begins with.
const ID_PREFIX: &str = "held-task";
/// By which method an id is sealed, and at which server: none of an operator's is named so.
const ID_METHOD: &str = "tasks";
const ID_SERVER: &str = "-";
/// Milliseconds for which a task can be asked after once its hold has ended, as the store knows the
/// hold.
const RETENTION_MS: u64 = 60 * 60 * 1000;

/// A task of a held call, as its id names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldTaskId {
    text: String,
    /// The key of the hold.
    pub(in crate::gate) key: Digest,
    /// The hold: the call that asked.
    pub(crate) hold: ActionId,
    /// When it asked, in milliseconds since 1970.
    pub(in crate::gate) asked: Millis,
    /// For how many milliseconds from then on there is the task.
    pub(in crate::gate) life: u64,
    /// What is called.
    pub(crate) tool: ToolName,
}

impl HeldTaskId {
    /// The id of the task that `hold` is, for its caller: the same each time.
    pub(in crate::gate) fn of(seal: &RoundSeal, caller: &Caller, key: Digest, hold: &Hold) -> Self {
        let open = hold.approve_by.saturating_sub(hold.asked);
        // An operator may give it as much time again, and by that makes it no other task.
        let longest = match &hold.extended_by {
            Some(_) => open,
            None => open.saturating_mul(2),
        };
        let life = longest
            .saturating_add(hold.execute_for)
            .saturating_add(RETENTION_MS);
        let (asked, tool) = (hold.asked, hold.question.tool.clone());
        let own = format!("{ID_PREFIX}:{key}:{}:{asked}:{life}:{tool}", hold.id);
        let server = ServerName::new(ID_SERVER);
        Self {
            text: seal.written(bound(caller, &server), &own),
            key,
            hold: hold.id,
            asked,
            life,
            tool,
        }
    }

    /// The task that `text` names, if that was given to this caller.
    pub(in crate::gate) fn read(seal: &RoundSeal, caller: &Caller, text: &str) -> Option<Self> {
        let server = ServerName::new(ID_SERVER);
        let own = seal.read(bound(caller, &server), text)?;
        let mut parts = own.splitn(6, ':');
        (parts.next()? == ID_PREFIX).then_some(())?;
        Some(Self {
            key: Digest::from_hex(parts.next()?)?,
            hold: parts.next()?.parse().ok()?,
            asked: parts.next()?.parse().ok()?,
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
