//! What the gate asks of a store, whatever it is built on. One suite of promises (`promises`) holds
//! for all of them.

use super::content_key::ContentKeys;
use super::hold_news::HoldNews;
use super::opening::StoreOpening;
use super::state::budget::TaskUsage;
use super::state::claim::{Claim, Stored};
use super::state::command::StoreCommand;
use super::state::event::StoreEvent;
use super::state::grant::Grant;
use super::state::hold::Hold;
use super::state::kept_text::KeptText;
use super::state::undo::OpenUndo;
use super::state::{CommandRefusal, Millis, StoreKeys, StoreView};
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, ToolName};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::broadcast;

/// Answers up to this many bytes are kept beside their claim; longer ones in files of their own
/// (guarantees §8: values of the index stay under 32 KiB).
pub const MAX_INLINE_RESULT_BYTES: usize = 16 << 10;

/// Why a store cannot do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No room on the disk. Nothing was lost; it is tried again until there is room.
    #[error("the disk is full: {0}")]
    Full(String),
    /// Nothing can be written any more.
    #[error("{0}")]
    Broken(String),
    /// What is known cannot be looked up for now. Nothing was lost; it ends by itself.
    #[error("{0}")]
    Away(String),
    /// It still opens, and is so many percent of the way. Nothing was lost; it ends by itself.
    #[error("the index is brought up to the journal, {0} % so far: only reads are served")]
    Opening(u8),
}

/// Some of many claims, by their keys. Fewer than `most`: there are no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimPage {
    /// Behind this key; none: from the first on.
    pub after: Option<Digest>,
    /// So many at most.
    pub most: usize,
}

impl ClaimPage {
    /// The first `most`.
    pub fn first(most: usize) -> Self {
        Self { after: None, most }
    }
}

impl StoreError {
    /// Whether it ends by itself, so that trying again makes sense.
    pub fn ends_by_itself(&self) -> bool {
        match self {
            Self::Full(_) | Self::Away(_) | Self::Opening(_) => true,
            Self::Broken(_) => false,
        }
    }

    /// Why a store that opens as `opening` says cannot do anything yet; none once it can.
    pub(super) fn of(opening: &StoreOpening) -> Option<Self> {
        if !opening.is_on() {
            return None;
        }
        Some(match opening.failure() {
            Some(why) => Self::Broken(why.to_owned()),
            None => Self::Opening(opening.percent()),
        })
    }
}

/// Which tasks are looked for.
#[derive(Debug, Clone, Default)]
pub struct TaskSearch {
    /// The hex digits with which its key begins.
    pub prefix: String,
    /// The agent whose it is; none: whichever.
    pub agent: Option<String>,
}

impl TaskSearch {
    /// Whether the key can be of one of them.
    pub(super) fn names(&self, key: &Digest) -> bool {
        self.prefix.is_empty() || key.to_string().starts_with(&self.prefix)
    }

    /// Whether it is one of them.
    pub(super) fn fits(&self, key: &Digest, task: &TaskUsage) -> bool {
        let agent = task.origin.as_ref().map(|origin| &origin.agent);
        self.names(key) && (self.agent.is_none() || self.agent.as_ref() == agent)
    }
}

/// Which undos are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoSearch {
    /// Those that an operator or an agent has asked for, or tried, and that are not done.
    Wanted,
    /// Those that are not done and that are found by this when the call is made that makes them
    /// ([`OpenUndo::found_by`](super::state::undo::OpenUndo::found_by)).
    MadeBy(Digest),
}

/// Claims, budgets and fences that outlive what can go wrong, as far as the store promises.
#[async_trait]
pub trait Store: Send + Sync {
    /// What is known of `place`, and durable.
    async fn load_view(&self, place: StoreKeys) -> Result<StoreView, StoreError>;

    /// Decides `command` in one transaction with everything decided before, and with `entry` for
    /// the ledger. A `Begin`, a `Settle`, a `Hold`, a `Decide`, a `Mint`, a `Revoke` and a `Fence`
    /// are durable when this returns; the others are written behind.
    async fn run(
        &self,
        command: StoreCommand,
        entry: Option<Entry>,
    ) -> Result<Result<StoreEvent, CommandRefusal>, StoreError>;

    /// Notes that a byte of the call may leave from now on: the kernel knows when this returns, the
    /// disk need not.
    fn sent(&self, action: ActionId) -> Result<(), StoreError>;

    /// Waits until the claim of `key` is not in flight for `action` any more. May return early;
    /// look again.
    async fn wait_ended(&self, key: Digest, action: ActionId);

    /// The claim that `action` holds, with its key.
    async fn find(&self, action: ActionId) -> Result<Option<(Digest, Claim)>, StoreError>;

    /// The claims of `page` that have not come to an end, in the order of their keys.
    async fn unsettled_in(&self, page: ClaimPage) -> Result<Vec<(Digest, Claim)>, StoreError>;

    /// Up to `most` claims that have not come to an end, with their keys.
    async fn unsettled(&self, most: usize) -> Result<Vec<(Digest, Claim)>, StoreError> {
        self.unsettled_in(ClaimPage::first(most)).await
    }

    /// A claim whose call may have run and is not known to, with its key, else one of which that was not
    /// known for a while: one that has `kin` in common with the calls that equal it, where that is
    /// not its key.
    async fn held(&self, kin: Digest) -> Result<Option<(Digest, Claim)>, StoreError>;

    /// Up to `most` claims of calls that may take another one of their agent back, and are known by `made`
    /// ([`Claim::may_undo`]), the newest first, with their keys.
    async fn own_calls(
        &self,
        made: Digest,
        most: usize,
    ) -> Result<Vec<(Digest, Claim)>, StoreError>;

    /// Whether `tool` takes any call back, by what is known of all that can be taken back; rather too often than too
    /// seldom.
    fn takes_back(&self, tool: &ToolName) -> bool;

    /// Up to `most` held calls that are pending, or allowed and not used, and not over yet, with
    /// their keys; the oldest first. One that nobody decided in time is among them while it
    /// says so.
    async fn holds(&self, most: usize) -> Result<Vec<(Digest, Hold)>, StoreError>;

    /// The held call whose id is `id`, with its key.
    async fn find_hold(&self, id: ActionId) -> Result<Option<(Digest, Hold)>, StoreError>;

    /// Up to `most` held calls that are decided and used, denied, or over, as long as they are known, with
    /// their keys; the newest first. With a `kind`, only those of that, by `hold_kind`.
    async fn past_holds(
        &self,
        kind: Option<Digest>,
        most: usize,
    ) -> Result<Vec<(Digest, Hold)>, StoreError>;

    /// What happens to held calls from now on.
    fn look_on(&self) -> broadcast::Receiver<HoldNews>;
    /// The grants for calls of `tool` that can still cover one, those first that end first; of what
    /// each has left the transaction says that begins the call.
    async fn grants_of(&self, tool: &ToolName) -> Result<Vec<Grant>, StoreError>;

    /// Up to `most` grants, also those that have ended not long ago; the newest first.
    async fn grants(&self, most: usize) -> Result<Vec<Grant>, StoreError>;

    /// Up to `most` tasks that fit `search`, with their keys; those first that did something last.
    async fn tasks(
        &self,
        search: TaskSearch,
        most: usize,
    ) -> Result<Vec<(Digest, TaskUsage)>, StoreError>;

    /// Up to `most` undos that `search` is for, those first that were offered last; of more wanted
    /// ones, any.
    async fn undos(&self, search: UndoSearch, most: usize) -> Result<Vec<OpenUndo>, StoreError>;

    /// Waits until what is held under `key` is not pending any more. May return early; look again.
    /// Time alone wakes nobody.
    async fn decided(&self, key: Digest);

    /// Keeps an answer so that it can be given again: durable when this returns, if it is too long
    /// to stand in an event.
    async fn keep(&self, is_error: bool, body: Bytes) -> Result<Stored, StoreError>;

    /// The bytes of an answer.
    async fn body(&self, stored: &Stored) -> Result<Bytes, StoreError>;

    /// `text`, the `part` of what is kept for the undo of `of`, encrypted where answers are.
    fn seal_text(&self, of: ActionId, part: &str, text: &str) -> KeptText {
        let _ = (of, part);
        KeptText::plain(text)
    }

    /// What was kept so; none where it was too long.
    fn open_text(
        &self,
        of: ActionId,
        part: &str,
        kept: &KeptText,
    ) -> Result<Option<String>, StoreError> {
        let opened = ContentKeys::default().open_text(of, part, kept);
        opened.map_err(|error| StoreError::Broken(error.to_string()))
    }

    /// A new fencing token: greater than any before.
    fn token(&self) -> u64;

    /// Why no side effect can be begun now; none while one can.
    fn refuses(&self) -> Option<StoreError>;

    /// How its opening stands, where it may go on beside calls.
    fn opening(&self) -> Option<Arc<StoreOpening>> {
        None
    }

    /// Whether an operator may have stopped `task`, as far as that is known where nothing can be looked
    /// up; rather too often than too seldom.
    fn may_have_stopped(&self, _task: &Digest) -> bool {
        true
    }

    /// The time, as this store keeps it.
    fn now(&self) -> Millis;
}
