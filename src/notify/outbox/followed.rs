//! Held calls of which more is to come, and what the journal says of them.

use super::Outbox;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::notify::notice::{Notice, NoticeKind, NoticeSubject};
use crate::store::state::Millis;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::event::{Carried, HoldDecided, Settled, StoreEvent};
use crate::store::state::hold::{Hold, HoldPhase};
use serde::{Deserialize, Serialize};

/// Held calls that are followed; more wait for nobody at once.
const MAX_FOLLOWED: usize = 1024;

/// A held call of which more is to come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::notify) struct FollowedCall {
    /// What it is.
    pub(in crate::notify) about: NoticeSubject,
    /// The key under which it is held.
    key: Digest,
    /// When it was asked.
    pub(in crate::notify) asked: Millis,
    /// When it is over, unless something happens before.
    pub(in crate::notify) due: Millis,
    /// How long it may run after it was allowed.
    execute_for: u64,
    /// How it stands.
    stage: FollowedStage,
    /// Up to when it was looked who else is to be told.
    pub(in crate::notify) escalated: Millis,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FollowedStage {
    Waiting,
    Allowed,
    Running(ActionId),
}

impl FollowedCall {
    fn of(key: Digest, hold: &Hold) -> Self {
        Self {
            about: NoticeSubject::held(hold),
            key,
            asked: hold.asked,
            due: hold.approve_by,
            execute_for: hold.execute_for,
            stage: FollowedStage::Waiting,
            escalated: hold.asked,
        }
    }

    /// Whether operators can still decide at `now`.
    pub(super) fn is_waiting(&self, now: Millis) -> bool {
        self.stage == FollowedStage::Waiting && now < self.due
    }

    /// Whether time can end it.
    fn ends_by_time(&self) -> bool {
        matches!(self.stage, FollowedStage::Waiting | FollowedStage::Allowed)
    }
}

impl Outbox {
    /// What there is to tell of what the journal says. A call that ends unknown and was not held is
    /// not told of here: the journal does not say there whose it is.
    pub(in crate::notify) fn take(&mut self, event: &StoreEvent) -> Option<Notice> {
        match event {
            StoreEvent::Held(held) => self.asked(held.key, &held.hold),
            StoreEvent::Carried(Carried::Hold(key, hold)) => self.asked(*key, hold),
            StoreEvent::Decided(decided) => self.decided(decided),
            StoreEvent::Granted(minted) => self.decided(minted.allowed.as_ref()?),
            StoreEvent::Edited(edited) => {
                let call = self.followed.get_mut(&edited.id.to_string())?;
                call.about.edit(&edited.arguments);
                None
            }
            StoreEvent::Extended(extended) => {
                self.goes_on(extended.id, extended.approve_by);
                None
            }
            StoreEvent::Intended(intended) => {
                self.begins(intended.hold?, intended.action);
                None
            }
            StoreEvent::Reserved(reserved) => {
                let (key, _) = reserved.hold?;
                let id = self.held_under(key)?.about.id.clone();
                let call = self.followed.remove(&id)?;
                // Nothing more is known of a call that changes nothing.
                Some(call.about.notice(NoticeKind::Executed, reserved.at, "sent"))
            }
            StoreEvent::Settled(settled) => self.ended(settled),
            StoreEvent::Spent(_)
            | StoreEvent::Tallied(_)
            | StoreEvent::Entered { .. }
            | StoreEvent::Planned { .. }
            | StoreEvent::Steered(_)
            | StoreEvent::Fenced { .. }
            | StoreEvent::Revoked(_)
            | StoreEvent::UndoAsked(_)
            | StoreEvent::Carried(_)
            | StoreEvent::Noted(_) => None,
        }
    }

    /// A call is held.
    pub(in crate::notify) fn asked(&mut self, key: Digest, hold: &Hold) -> Option<Notice> {
        let id = hold.id.to_string();
        if hold.phase != HoldPhase::Pending || self.followed.contains_key(&id) {
            return None;
        }
        if self.followed.len() >= MAX_FOLLOWED {
            self.followed.pop_first();
        }
        let call = FollowedCall::of(key, hold);
        let notice = call
            .about
            .notice(NoticeKind::Requested, hold.asked, "pending");
        self.followed.insert(id, call);
        Some(notice)
    }

    fn decided(&mut self, decided: &HoldDecided) -> Option<Notice> {
        let id = decided.id.to_string();
        let call = self.followed.get_mut(&id)?;
        let said = &decided.decision;
        let notice = match decided.phase {
            HoldPhase::Allowed => {
                call.stage = FollowedStage::Allowed;
                call.due = said.at.saturating_add(call.execute_for);
                call.about.notice(NoticeKind::Decided, said.at, "allowed")
            }
            HoldPhase::Denied => {
                let call = self.followed.remove(&id)?;
                call.about.notice(NoticeKind::Decided, said.at, "denied")
            }
            // Its agent cancelled it: nobody has to look any more.
            HoldPhase::Withdrawn => {
                let call = self.followed.remove(&id)?;
                call.about.notice(NoticeKind::Decided, said.at, "withdrawn")
            }
            HoldPhase::Pending | HoldPhase::Used { .. } => return None,
        };
        Some(notice.by(std::slice::from_ref(&said.who)))
    }

    /// A call that was held under `key` and allowed has begun, as `action`.
    pub(super) fn begins(&mut self, key: Digest, action: ActionId) {
        if let Some(call) = self.held_under(key) {
            call.stage = FollowedStage::Running(action);
        }
    }

    fn held_under(&mut self, key: Digest) -> Option<&mut FollowedCall> {
        self.followed
            .values_mut()
            .find(|call| call.key == key && call.ends_by_time())
    }

    /// A call that was allowed and sent, by the call.
    fn running(&self, action: ActionId) -> Option<String> {
        let stage = FollowedStage::Running(action);
        let found = self.followed.values().find(|call| call.stage == stage);
        found.map(|call| call.about.id.clone())
    }

    /// Whether what becomes of `action` is told as that of a held call.
    pub(in crate::notify) fn is_running(&self, action: ActionId) -> bool {
        self.running(action).is_some()
    }

    fn ended(&mut self, settled: &Settled) -> Option<Notice> {
        let told = match &settled.phase {
            ClaimPhase::Completed(_) => Some((NoticeKind::Executed, "completed")),
            ClaimPhase::Failed { .. } | ClaimPhase::NotSent => {
                Some((NoticeKind::Executed, "failed"))
            }
            ClaimPhase::Unknown { .. } => Some((NoticeKind::Unknown, "unknown")),
            // What was allowed has run up to a question; what follows may be another call, and is not followed.
            ClaimPhase::AwaitingInput { .. } => Some((NoticeKind::Executed, "awaiting_input")),
            // An operator says so, and knows.
            ClaimPhase::Abandoned => None,
            ClaimPhase::Dispatching => return None,
        };
        let id = self.running(settled.action)?;
        let call = self.followed.remove(&id)?;
        let (kind, state) = told?;
        Some(call.about.notice(kind, settled.at, state))
    }

    /// Approvals whose time is over at `now`, as far as is known here.
    pub(in crate::notify) fn overdue(&self, now: Millis) -> Vec<ActionId> {
        let over = self
            .followed
            .values()
            .filter(|call| call.ends_by_time() && call.due <= now);
        over.filter_map(|call| call.about.id.parse().ok()).collect()
    }

    /// The approval has more time than was known, or something happened to it that is still to be
    /// read.
    pub(in crate::notify) fn goes_on(&mut self, id: ActionId, due: Millis) {
        if let Some(call) = self.followed.get_mut(&id.to_string()) {
            call.due = due;
            if call.stage == FollowedStage::Waiting {
                call.about.approve_by = Some(due);
            }
        }
    }

    /// The time of the approval is over.
    pub(in crate::notify) fn over(&mut self, id: ActionId) -> Option<Notice> {
        let call = self.followed.remove(&id.to_string())?;
        let state = if call.stage == FollowedStage::Waiting {
            "expired"
        } else {
            "lapsed"
        };
        Some(call.about.notice(NoticeKind::Expired, call.due, state))
    }
}
