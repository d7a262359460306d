//! The queue of undos that were asked for, or tried, and are not done: as operators read it. Nothing in it
//! is ever sent again by itself.

use crate::store::claims::{Store, StoreError, UndoSearch};
use crate::store::operator::time;
use crate::store::state::Millis;
use crate::store::state::undo::{OpenUndo, UndoPhase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Undos that are listed at once, at most.
pub(crate) const MAX_UNDOS_LISTED: usize = 1000;
/// The words for how such an undo stands.
pub(crate) const WANTED_STATES: [&str; 4] = ["requested", "running", "failed", "unknown"];

/// Such an undo. What is sent for it is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WantedUndo {
    /// The call that is to be taken back.
    pub action_id: String,
    /// `requested`, `running`, `failed` or `unknown`.
    pub state: String,
    /// Since when, RFC 3339 in UTC.
    pub since: String,
    /// Until when it can begin, RFC 3339 in UTC.
    pub until: String,
    /// The agent whose call it is.
    pub agent: String,
    /// The user for whom it was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// What was called: `server__tool`.
    pub tool: String,
    /// What takes it back: `server__tool`.
    pub undo_tool: String,
    /// The call that takes it back, or was to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// Who asked for it last; none: its agent made that call by its own will.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub who: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// What an operator can do now.
    pub next: String,
}

impl WantedUndo {
    fn of(undo: &OpenUndo, now: Millis) -> Self {
        let by = undo.phase.by().map(|by| by.to_string());
        let asked = undo.asked.as_ref();
        Self {
            action_id: undo.of.to_string(),
            state: undo.phase.word().to_owned(),
            since: time(undo.changed),
            until: time(undo.until),
            agent: undo.terms.agent.clone(),
            user: undo.terms.user.clone(),
            tool: undo.tool.to_string(),
            undo_tool: undo.terms.tool.to_string(),
            who: asked.map(|asked| asked.who.clone()),
            why: asked.map(|asked| asked.why.clone()),
            next: next(undo, now),
            by,
        }
    }
}

fn next(undo: &OpenUndo, now: Millis) -> String {
    let of = undo.of;
    let may_begin = matches!(undo.phase, UndoPhase::Requested | UndoPhase::Failed { .. });
    if may_begin && now >= undo.until {
        return format!(
            "its window is over: take it back by hand, then `toolgate undo {of} --drop --why …`"
        );
    }
    match undo.phase {
        UndoPhase::Running { by } => format!(
            "wait: it is on its way; where its tool server has asked its agent something, `toolgate calls resolve {by}` ends that"
        ),
        UndoPhase::Unknown { by } => {
            format!("`toolgate calls resolve {by}` says what became of it")
        }
        UndoPhase::Requested => format!(
            "a person has to allow it (`toolgate approvals`), or it was refused, or an equal call of unknown outcome stops it (`toolgate \
             calls list --state unknown`): `toolgate undo {of} --why …` asks again"
        ),
        UndoPhase::Failed { .. } => {
            format!("`toolgate undo {of} --why …` tries again; `--drop` where it is done by hand")
        }
        UndoPhase::Offered | UndoPhase::Done { .. } => String::new(),
    }
}

/// Up to [`MAX_UNDOS_LISTED`] of them, those first whose call was made last; only those in `state`, when
/// one is named.
pub(crate) async fn wanted(
    store: &dyn Store,
    state: Option<&str>,
) -> Result<Vec<WantedUndo>, StoreError> {
    let undos = store.undos(UndoSearch::Wanted, MAX_UNDOS_LISTED).await?;
    let now = store.now();
    let undos = undos.iter().map(|undo| WantedUndo::of(undo, now));
    let is_meant = |undo: &WantedUndo| state.is_none_or(|state| undo.state == state);
    Ok(undos.filter(is_meant).collect())
}
