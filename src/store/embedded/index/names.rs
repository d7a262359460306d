//! The names under which the index keeps things, and when their time is up.

use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::store::state::Millis;
use crate::store::state::hold::Hold;
use std::ops::Bound;

/// Milliseconds after which a task or session that does nothing is forgotten: 30 days.
pub(super) const IDLE_RETENTION_MS: Millis = 30 * 24 * HOUR_MS;
pub(super) const HOUR_MS: Millis = 3600 * 1000;
/// Milliseconds for which a held call that is over can still be shown: a day.
pub(super) const ENDED_HOLD_RETENTION_MS: Millis = 24 * HOUR_MS;
/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 32;
pub(super) const CLAIM_PREFIX: u8 = b'c';
pub(super) const TASK_PREFIX: u8 = b't';
pub(super) const SESSION_PREFIX: u8 = b's';
pub(super) const HOLD_PREFIX: u8 = b'h';
pub(super) const PAST_PREFIX: u8 = b'd';
pub(super) const GRANT_PREFIX: u8 = b'p';
pub(super) const UNDO_PREFIX: u8 = b'u';
pub(super) const WANTED_PREFIX: u8 = b'w';
pub(super) const MADE_PREFIX: u8 = b'l';
pub(super) const OWN_PREFIX: u8 = b'e';
pub(super) const TOOL_PREFIX: u8 = b'v';
pub(super) const ACTION_PREFIX: u8 = b'a';
pub(super) const OPEN_PREFIX: u8 = b'o';
pub(super) const KIN_PREFIX: u8 = b'k';
pub(super) const EXPIRY_PREFIX: u8 = b'x';
pub(super) const GROUP_PREFIX: u8 = b'g';
pub(super) const RESULT_PREFIX: u8 = b'r';
pub(super) const META_KEY: &[u8] = b"m";

pub(super) fn named(kind: u8, key: &Digest) -> Vec<u8> {
    [&[kind][..], key.as_bytes()].concat()
}

/// The names of that kind behind that of `key`, or all.
pub(super) fn behind(kind: u8, key: Option<Digest>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let begin = key.map(|key| Bound::Excluded(named(kind, &key)));
    let begin = begin.unwrap_or_else(|| Bound::Included(vec![kind]));
    (begin, Bound::Excluded(vec![kind + 1]))
}

/// The key in a name of a claim, task, session, held call, grant or undo.
pub(super) fn named_by(name: &[u8]) -> Option<Digest> {
    Some(Digest::new(name.get(1..)?.try_into().ok()?))
}

pub(super) fn acting(action: ActionId) -> Vec<u8> {
    [&[ACTION_PREFIX][..], action.as_bytes()].concat()
}

pub(super) fn expiring(at: Millis, kind: u8, key: &Digest) -> Vec<u8> {
    [
        &[EXPIRY_PREFIX][..],
        &at.to_be_bytes(),
        &[kind],
        key.as_bytes(),
    ]
    .concat()
}

/// When the call that is held under `key` changed last.
pub(super) fn changed_at(hold: &Hold, key: &Digest) -> Vec<u8> {
    let at = hold.changed().to_be_bytes();
    [&[PAST_PREFIX][..], &at, key.as_bytes()].concat()
}

/// That `key`'s answer lies in the file `digest`.
pub(super) fn kept_in(digest: &Digest, key: &Digest) -> Vec<u8> {
    [&[RESULT_PREFIX][..], digest.as_bytes(), key.as_bytes()].concat()
}

/// That the claim of `key` holds the calls of `kin`.
pub(super) fn holding(kin: &Digest, key: &Digest) -> Vec<u8> {
    [&[KIN_PREFIX][..], kin.as_bytes(), key.as_bytes()].concat()
}

/// When something that was last used then may be forgotten. By the hour, so that its use leaves few
/// traces behind.
pub(super) fn idle_since(last: Millis) -> Millis {
    (last / HOUR_MS + 1) * HOUR_MS + IDLE_RETENTION_MS
}

/// When a held call may be forgotten.
pub(super) fn forgotten(hold: &Hold) -> Millis {
    hold.ends().saturating_add(ENDED_HOLD_RETENTION_MS)
}
