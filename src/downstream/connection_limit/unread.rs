//! Answers that wait because their agents do not read them: beyond a bound in bytes those of the
//! caller that has most give way, each after a moment in which nothing of it was taken, and beyond
//! a wider one at once. Only a connection ends; what was called has its outcome, and the agent that
//! asks again reads it. A stream that has nothing to say waits for nobody.

use super::Guest;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Bytes of all answers that may wait: as many as legacy streams keep (`shelf`).
const UNREAD_BYTES_SOFT_MAX: usize = 64 << 20;
/// Bytes beyond which nobody is given a moment more.
const UNREAD_BYTES_HARD_MAX: usize = 4 * UNREAD_BYTES_SOFT_MAX;

impl Guest {
    /// So many bytes of an answer wait until this guest reads on.
    pub(in crate::downstream) fn awaits(&self, bytes: usize) {
        let before = self.seat.unread.swap(bytes, Ordering::Relaxed);
        // Sums wrap, so what is added first may as well be taken off first.
        self.shared
            .unread
            .fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Whether this guest, which has taken nothing for a moment, has to make room for answers to
    /// others.
    pub(in crate::downstream) fn gives_way(&self) -> bool {
        self.has_most_beyond(UNREAD_BYTES_SOFT_MAX)
    }

    /// Whether so much waits that it has to at once.
    pub(in crate::downstream) fn overflows(&self) -> bool {
        self.has_most_beyond(UNREAD_BYTES_HARD_MAX)
    }

    fn has_most_beyond(&self, bound: usize) -> bool {
        if self.shared.unread.load(Ordering::Relaxed) <= bound {
            return false;
        }
        let mut inside = self.shared.inside.lock();
        let mut by: HashMap<&str, usize> = HashMap::new();
        for (holder, seat) in inside.known.values() {
            *by.entry(holder).or_default() += seat.unread.load(Ordering::Relaxed);
        }
        let own = inside
            .known
            .get(&self.number)
            .and_then(|(holder, _)| by.get(holder.as_str()));
        // A stranger, or who has been told to leave, has no claim to what others use.
        let most = own.is_none_or(|own| by.values().all(|bytes| bytes <= own));
        if most {
            let words = "answers that agents do not read take too much memory; the connections they wait on are closed";
            self.shared.tell(&mut inside, bound, words);
        }
        most
    }
}
