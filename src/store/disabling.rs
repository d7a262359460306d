//! Tools that operators take away and give back (003-41). What is away stands in a file of the data
//! directory, which every start reads; who did it and why stands in the journal.
//!
//! What takes away is written before it is recorded, and what gives back is recorded first:
//! whatever breaks in between, a tool is away rather than there without a record.

use super::claims::StoreError;
use super::journal::{Item, Journal, replace};
use super::operator::{MAX_RESOLVE_REASON_BYTES, reason, time};
use super::state::Millis;
use super::state::event::{Note, Noted, StoreEvent};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::disabled::{Disabled, MAX_DISABLED_TOOLS, Reason};
use crate::model::ids::ToolName;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Puts what is away in force; blocks.
pub(crate) type ApplyDisabled = dyn Fn(Disabled) + Send + Sync;

/// One change, by whom and why.
#[derive(Debug, Clone)]
pub(crate) struct DisablingChange {
    /// `server__tool`.
    pub tool: ToolName,
    /// Is it taken away, or given back?
    pub disable: bool,
    /// The operator.
    pub who: String,
    /// The operator's reason.
    pub why: String,
    /// The store's time.
    pub at: Millis,
}

/// Why a change is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DisablingError {
    /// What was said cannot be used.
    #[error("{0}")]
    Unfit(String),
    /// There is nothing to give back.
    #[error("the tool is not disabled")]
    NotDisabled,
    /// No more can be taken away.
    #[error("{MAX_DISABLED_TOOLS} tools are disabled, and no more can be")]
    TooMany,
    /// Nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tool is away, and the ledger does not say why.
    #[error("the tool is disabled, and that could not be recorded: {0}")]
    Unrecorded(StoreError),
}

/// What is away, and the way to change it.
pub(crate) struct Disabling {
    data: PathBuf,
    journal: Journal,
    apply: Arc<ApplyDisabled>,
    disabled: Mutex<Disabled>,
}

impl Disabling {
    /// Reads what is away in the data directory `data` and puts it in force. An error when that
    /// cannot be known: then nothing may be served. Blocks.
    pub(crate) fn open(
        data: &Path,
        journal: Journal,
        apply: Arc<ApplyDisabled>,
    ) -> Result<Self, StoreError> {
        let disabled = read(data)?;
        if !disabled.is_empty() {
            tracing::warn!(
                tools = disabled.len(),
                "operators have disabled tools; `toolgate disable` lists them"
            );
            apply(disabled.clone());
        }
        Ok(Self {
            data: data.to_owned(),
            journal,
            apply,
            disabled: Mutex::new(disabled),
        })
    }

    /// What is away.
    pub(crate) async fn disabled(&self) -> Disabled {
        self.disabled.lock().await.clone()
    }

    /// Makes `change`: in force and durable when this returns well.
    pub(crate) async fn make(&self, change: DisablingChange) -> Result<(), DisablingError> {
        let why = reason(&change.why, MAX_RESOLVE_REASON_BYTES).map_err(DisablingError::Unfit)?;
        let DisablingChange {
            tool,
            disable,
            who,
            at,
            ..
        } = change;
        let mut held = self.disabled.lock().await;
        let mut next = held.clone();
        if disable {
            let reason = Reason {
                who: who.clone(),
                why: why.clone(),
                since: time(at),
            };
            if next.insert(tool.clone(), reason).is_none() && next.len() > MAX_DISABLED_TOOLS {
                return Err(DisablingError::TooMany);
            }
            *held = self.put(next).await?;
            tracing::warn!(%tool, who, why, "an operator has disabled a tool");
            let noted = self
                .record(Noted {
                    at,
                    note: Note::Disabled { tool, who, why },
                })
                .await;
            return noted.map_err(DisablingError::Unrecorded);
        }
        if next.remove(&tool).is_none() {
            return Err(DisablingError::NotDisabled);
        }
        let note = Note::Enabled {
            tool: tool.clone(),
            who: who.clone(),
            why: why.clone(),
        };
        self.record(Noted { at, note }).await?;
        *held = self.put(next).await?;
        tracing::warn!(%tool, who, why, "an operator has enabled a tool again");
        Ok(())
    }

    /// Makes `next` durable, then puts it in force.
    async fn put(&self, next: Disabled) -> Result<Disabled, StoreError> {
        let (data, apply) = (self.data.clone(), Arc::clone(&self.apply));
        let put = tokio::task::spawn_blocking(move || {
            let text =
                serde_json::to_string_pretty(&next).map_err(|error| unwritten(&data, &error))?;
            replace(&data, &file(&data), &text).map_err(|error| unwritten(&data, &error))?;
            apply(next.clone());
            Ok(next)
        });
        put.await
            .map_err(|error| StoreError::Broken(error.to_string()))
            .flatten()
    }

    async fn record(&self, noted: Noted) -> Result<(), StoreError> {
        note(&self.journal, noted)?
            .durable()
            .await
            .map(drop)
            .map_err(|error| StoreError::Broken(error.to_string()))
    }
}

/// Queues a note for the journal.
pub(crate) fn note(journal: &Journal, noted: Noted) -> Result<super::journal::Ticket, StoreError> {
    let record = StoreEvent::Noted(noted)
        .encode()
        .map_err(|error| StoreError::Broken(error.to_string()))?;
    journal
        .append(vec![Item::Event(record)])
        .map_err(|error| StoreError::Broken(error.to_string()))
}

/// What is away in the data directory `data`; nothing where there is no such file.
pub(crate) fn read(data: &Path) -> Result<Disabled, StoreError> {
    let path = file(data);
    let unreadable = |what: &dyn std::fmt::Display| {
        StoreError::Broken(format!(
            "which tools are disabled cannot be read from {}: {what}",
            path.display()
        ))
    };
    let opened = match std::fs::File::open(&path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Disabled::new()),
        Err(error) => return Err(unreadable(&error)),
    };
    let mut bytes = Vec::new();
    opened
        .take(SERVER_JSON_LIMITS.bytes as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(&error))?;
    let text = Text::read(bytes.into(), &SERVER_JSON_LIMITS).map_err(|error| unreadable(&error))?;
    text.parse().map_err(|error| unreadable(&error))
}

fn file(data: &Path) -> PathBuf {
    data.join("disabled.json")
}

fn unwritten(data: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Broken(format!(
        "which tools are disabled cannot be written to {}: {error}",
        file(data).display()
    ))
}

#[cfg(test)]
mod tests;
