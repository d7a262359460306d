//! What is still to be told, and to whom: a state that follows from the journal and from what receivers
//! took. No I/O and no clock.

use super::notice::{Notice, NoticeKind, NoticeSubject};
use super::receiver::NoticeReceiver;
use crate::store::state::Millis;
use followed::FollowedCall;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) mod followed;
#[cfg(test)]
mod tests;

/// What one receiver may be behind with.
const MAX_WAITING_OF_RECEIVER: usize = 256;
/// Tellings in all.
const MAX_WAITING: usize = 2048;
/// One place in so many is for what has waited for long (`escalate`), so that no crowd of calls hides it.
const ESCALATED_DIVISOR: usize = 8;
/// One agent's calls that ask may take one place in so many …
const ASKING_DIVISOR: usize = 4;
/// … and what came of its calls one in so many: others are told of, whatever one agent does.
const ENDED_DIVISOR: usize = 2;
/// How long it is tried to tell something.
const TELL_MILLIS_MAX: u64 = 24 * 60 * 60 * 1000;

/// What is still to be told.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outbox {
    /// Up to this record the journal has been taken in.
    pub(super) after: u64,
    /// Held calls of which more is to come, by the approval.
    pub(super) followed: BTreeMap<String, FollowedCall>,
    /// What is to be told to at least one receiver, by its id.
    notices: BTreeMap<String, Notice>,
    /// To whom.
    waiting: Vec<WaitingNotice>,
}

/// Something that one receiver has not taken yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WaitingNotice {
    notice: String,
    receiver: String,
    /// How often it was tried.
    tries: u32,
    /// Since when.
    since: Millis,
    /// When it is tried again.
    next: Millis,
}

/// What became of something that was to be told to a receiver, for logs and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoticeOutcome {
    /// The receiver took it.
    Delivered,
    /// It did not, and is asked again.
    Failed,
    /// Nobody asks it any more: for a day it did not take it, or there is no room for what waits, or it asked for
    /// a word on a call that is over, and there was no room for more.
    Dropped,
    /// It is left alone.
    Quiet,
}

impl NoticeOutcome {
    /// The word in metrics.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
            Self::Quiet => "quiet",
        }
    }
}

/// What became of it, and for whom.
pub(super) type Told = (String, NoticeOutcome);

impl Outbox {
    /// Begins with the records after `after`.
    pub(super) fn starting(after: u64) -> Self {
        Self {
            after,
            ..Self::default()
        }
    }

    /// Queues `notice` for all who hear of it.
    pub(super) fn tell(
        &mut self,
        notice: &Notice,
        receivers: &[NoticeReceiver],
        now: Millis,
    ) -> Vec<Told> {
        let hear = receivers.iter().filter(|receiver| receiver.hears(notice));
        let hear = in_their_places(hear, receivers, now);
        hear.into_iter()
            .filter_map(|receiver| self.queue(notice, receiver, now))
            .collect()
    }

    /// Queues `notice` for `receiver`, unless that is left alone or too far behind.
    fn queue(&mut self, notice: &Notice, receiver: &NoticeReceiver, now: Millis) -> Option<Told> {
        let told = |outcome| Some((receiver.name.clone(), outcome));
        if receiver.is_quiet(notice, now) {
            return told(NoticeOutcome::Quiet);
        }
        let theirs = || {
            self.waiting
                .iter()
                .filter(|one| one.receiver == receiver.name)
        };
        if theirs().any(|one| one.notice == notice.id) {
            return None;
        }
        if now.saturating_sub(notice.at) >= TELL_MILLIS_MAX {
            return told(NoticeOutcome::Dropped);
        }
        let gives_way = match self.place(notice, &receiver.name, now) {
            Ok(gives_way) => gives_way,
            Err(outcome) => return told(outcome),
        };
        let outcome = gives_way.and_then(|index| {
            self.waiting.remove(index);
            self.forget_told();
            told(NoticeOutcome::Dropped)
        });
        self.notices.insert(notice.id.clone(), notice.clone());
        self.waiting.push(WaitingNotice {
            notice: notice.id.clone(),
            receiver: receiver.name.clone(),
            tries: 0,
            since: now,
            next: now,
        });
        outcome
    }

    /// Whether there is a place for `notice` at `receiver`; where that is another's, which gives way, its index.
    fn place(
        &self,
        notice: &Notice,
        receiver: &str,
        now: Millis,
    ) -> Result<Option<usize>, NoticeOutcome> {
        let theirs = self.waiting.iter().enumerate();
        let theirs = theirs.filter(|(_, one)| one.receiver == receiver);
        let theirs =
            theirs.filter_map(|(index, one)| Some((index, self.notices.get(&one.notice)?)));
        let theirs: Vec<(usize, &Notice)> = theirs.collect();
        let (about, most) = (&notice.about, share(notice.kind));
        let is_beside = |other: &Notice| {
            let whose = (&other.about.agent, &other.about.tenant);
            whose == (&about.agent, &about.tenant) && share(other.kind) == most
        };
        let beside = theirs.iter().filter(|(_, other)| is_beside(other));
        let is_crowded = beside.count() >= most;
        let kept = |places: usize| match notice.kind {
            NoticeKind::Escalated => places,
            NoticeKind::Requested
            | NoticeKind::Decided
            | NoticeKind::Expired
            | NoticeKind::Executed
            | NoticeKind::Unknown => places - places / ESCALATED_DIVISOR,
        };
        let is_full = self.waiting.len() >= kept(MAX_WAITING)
            || theirs.len() >= kept(MAX_WAITING_OF_RECEIVER);
        if !is_crowded && !is_full {
            return Ok(None);
        }
        let found = theirs
            .iter()
            .find(|(_, other)| self.asks_in_vain(other, now) && (!is_crowded || is_beside(other)));
        let found = found.map(|(index, _)| *index);
        found.map(Some).ok_or(NoticeOutcome::Dropped)
    }

    /// Whether it asks for a word on a call that is over.
    fn asks_in_vain(&self, notice: &Notice, now: Millis) -> bool {
        let asks = match notice.kind {
            NoticeKind::Requested | NoticeKind::Escalated => notice.about.is_held,
            NoticeKind::Decided
            | NoticeKind::Expired
            | NoticeKind::Executed
            | NoticeKind::Unknown => false,
        };
        let followed = self.followed.get(&notice.about.id);
        asks && followed.is_none_or(|call| !call.is_waiting(now))
    }

    /// What `receiver` is told next, and how often that was tried; what was tried least comes first, so
    /// that what it never takes holds up nothing. Or when to look again.
    pub(super) fn next_for(
        &self,
        receiver: &str,
        now: Millis,
    ) -> Result<(Notice, u32), Option<Millis>> {
        let theirs = || self.waiting.iter().filter(|one| one.receiver == receiver);
        let due = theirs().filter(|one| one.next <= now);
        let next = due.min_by_key(|one| (one.tries, one.since));
        let found = next.and_then(|one| Some((self.notices.get(&one.notice)?.clone(), one.tries)));
        found.ok_or_else(|| theirs().map(|one| one.next).min())
    }

    /// `receiver` has taken it.
    pub(super) fn delivered(&mut self, notice: &str, receiver: &str) {
        self.waiting
            .retain(|one| one.notice != notice || one.receiver != receiver);
        self.forget_told();
    }

    /// `receiver` has not taken it, and is asked again after `pause`, unless it was asked for a day.
    pub(super) fn failed(
        &mut self,
        notice: &str,
        receiver: &str,
        now: Millis,
        pause: Duration,
    ) -> NoticeOutcome {
        let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let mut is_over = false;
        for one in &mut self.waiting {
            if one.notice == notice && one.receiver == receiver {
                one.tries = one.tries.saturating_add(1);
                one.next = now.saturating_add(pause);
                is_over = one.next.saturating_sub(one.since) > TELL_MILLIS_MAX;
            }
        }
        if !is_over {
            return NoticeOutcome::Failed;
        }
        self.delivered(notice, receiver);
        NoticeOutcome::Dropped
    }

    /// Forgets what is for receivers that are no longer configured, and what says nothing.
    pub(super) fn keep(&mut self, receivers: &[NoticeReceiver]) {
        let notices = &self.notices;
        self.waiting.retain(|one| {
            let is_known = receivers.iter().any(|known| known.name == one.receiver);
            is_known && notices.contains_key(&one.notice)
        });
        self.forget_told();
    }

    fn forget_told(&mut self) {
        let waiting = &self.waiting;
        self.notices
            .retain(|id, _| waiting.iter().any(|one| one.notice == *id));
    }

    /// Queues what others are to know of what has waited for long; none where there is nothing.
    pub(super) fn escalate(
        &mut self,
        receivers: &[NoticeReceiver],
        now: Millis,
    ) -> Option<Vec<Told>> {
        if receivers.iter().all(|one| one.escalate.is_empty()) {
            return None;
        }
        let mut due = Vec::new();
        for call in self
            .followed
            .values_mut()
            .filter(|call| call.is_waiting(now))
        {
            let asked = call
                .about
                .notice(NoticeKind::Requested, call.asked, "pending");
            let hear = receivers.iter().filter(|receiver| receiver.hears(&asked));
            for step in hear.flat_map(|receiver| &receiver.escalate) {
                let after = u64::try_from(step.after.as_millis()).unwrap_or(u64::MAX);
                let at = call.asked.saturating_add(after);
                if call.escalated < at && at <= now {
                    due.push((escalation(&call.about, at, step.after), step.to.clone()));
                }
            }
            call.escalated = now;
        }
        if due.is_empty() {
            return None;
        }
        let mut told = Vec::new();
        for (notice, to) in due {
            let named = receivers
                .iter()
                .filter(|receiver| to.contains(&receiver.name));
            let named = in_their_places(named, receivers, now);
            let queued = named.into_iter();
            told.extend(queued.filter_map(|receiver| self.queue(&notice, receiver, now)));
        }
        Some(told)
    }
}

/// How many places of a receiver what is told of one agent may take, together with all that has the same share.
fn share(kind: NoticeKind) -> usize {
    match kind {
        NoticeKind::Requested => MAX_WAITING_OF_RECEIVER / ASKING_DIVISOR,
        NoticeKind::Decided | NoticeKind::Expired | NoticeKind::Executed | NoticeKind::Unknown => {
            MAX_WAITING_OF_RECEIVER / ENDED_DIVISOR
        }
        NoticeKind::Escalated => MAX_WAITING_OF_RECEIVER,
    }
}

/// Those who are told at `now`, each once: in the place of a receiver whose operator is away, those of the
/// delegate.
fn in_their_places<'a>(
    meant: impl Iterator<Item = &'a NoticeReceiver>,
    receivers: &'a [NoticeReceiver],
    now: Millis,
) -> Vec<&'a NoticeReceiver> {
    let mut told: Vec<&NoticeReceiver> = Vec::new();
    for one in meant {
        let theirs: Vec<&NoticeReceiver> = match one.instead(now) {
            None => vec![one],
            Some(names) => {
                let is_meant = |other: &&NoticeReceiver| names.contains(&other.name);
                receivers.iter().filter(is_meant).collect()
            }
        };
        for receiver in theirs {
            if !told.iter().any(|known| known.name == receiver.name) {
                told.push(receiver);
            }
        }
    }
    told
}

fn escalation(about: &NoticeSubject, at: Millis, after: Duration) -> Notice {
    let notice = about.notice(NoticeKind::Escalated, at, "pending");
    Notice {
        id: format!("{}.{}", notice.id, after.as_secs()),
        ..notice
    }
}
