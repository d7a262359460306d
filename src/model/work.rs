//! How much CPU a message may take, counted where it is taken (threat-model §1: no message takes
//! more than 100 ms of it).
//!
//! What judges a message spends units as it goes, each about 10 ns on a slow core. Spent out, the
//! work is broken off wherever it stands, also in the middle of a validator that knows nothing of
//! units: nothing that an author of a schema, an argument or a result writes can make it go on. A
//! count of units is the same on every machine and in every build, a clock is not. Only for what
//! neither can be counted nor broken off (regular expressions on long texts), off the threads that
//! serve, a clock counts.

use super::clock::Clock;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Units that a message may take where calls are served: about 10 ms.
pub(crate) const INLINE_WORK_UNITS: u64 = 1_000_000;
/// Units that a message may take on the pool for heavy ones: about 1 s, so that its threads come
/// back.
pub(crate) const HEAVY_WORK_UNITS: u64 = 100_000_000;

/// Units that a part may take at worst which cannot be broken off: about 5 s.
const MAX_UNBREAKABLE_UNITS: u64 = 5 * HEAVY_WORK_UNITS;
/// Nanoseconds of a unit.
const UNIT_NANOSECONDS: u128 = 10;

thread_local! {
    /// What the work on this thread may still spend; none where nobody counts.
    static UNITS_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The work would take more units than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkExceeded;

/// Does `work` if it takes no more than `units`, nor more than what is left of the work that it is
/// a part of. Broken off, nothing of it may be used.
pub(crate) fn within<T>(units: u64, work: impl FnOnce() -> T) -> Result<T, WorkExceeded> {
    let around = UNITS_LEFT.get();
    let most = around.map_or(units, |left| left.min(units));
    let restore = Restore { around, most };
    UNITS_LEFT.set(Some(most));
    let done = catch_unwind(AssertUnwindSafe(work));
    drop(restore);
    done.or_else(|payload| {
        if payload.is::<WorkExceeded>() {
            Err(WorkExceeded)
        } else {
            resume_unwind(payload)
        }
    })
}

/// Takes what was spent from the work around it.
struct Restore {
    around: Option<u64>,
    most: u64,
}

impl Drop for Restore {
    fn drop(&mut self) {
        let spent = self.most.saturating_sub(UNITS_LEFT.get().unwrap_or(0));
        UNITS_LEFT.set(self.around.map(|left| left.saturating_sub(spent)));
    }
}

/// Does what cannot be broken off and takes `worst` units, mostly much less. Where much is left it
/// is paid for as it turns out to be, by the clock of the thread; work that may take longer than
/// `MAX_UNBREAKABLE_UNITS` is not begun.
pub(crate) fn measured<T>(worst: u64, work: impl FnOnce() -> T) -> T {
    let Some(left) = UNITS_LEFT.get() else {
        return work();
    };
    if left <= INLINE_WORK_UNITS
        || worst <= INLINE_WORK_UNITS / 100
        || worst > MAX_UNBREAKABLE_UNITS
    {
        spend(if worst > MAX_UNBREAKABLE_UNITS {
            u64::MAX
        } else {
            worst
        });
        return work();
    }
    let before = Clock.of_thread();
    let done = work();
    spend(
        u64::try_from(Clock.of_thread().saturating_sub(before).as_nanos() / UNIT_NANOSECONDS)
            .unwrap_or(u64::MAX),
    );
    done
}

/// Whether a caller counts what is done on this thread now.
pub(crate) fn is_counted() -> bool {
    UNITS_LEFT.get().is_some()
}

/// Spends units, before what they stand for is done. Breaks the work off when there are not as
/// many.
#[inline]
pub(crate) fn spend(units: u64) {
    if let Some(left) = UNITS_LEFT.get() {
        match left.checked_sub(units) {
            Some(left) => UNITS_LEFT.set(Some(left)),
            None => break_off(),
        }
    }
}

#[cold]
fn break_off() {
    UNITS_LEFT.set(Some(0));
    // No panic: no hook hears of it, and only `within` ends it.
    resume_unwind(Box::new(WorkExceeded));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// threat-model §13 F3: what is spent out ends in the middle, and the thread goes on as before.
    #[test]
    fn work_is_broken_off_when_it_is_spent() {
        let mut done = 0;
        let ended = within(10, || {
            for _ in 0..10 {
                spend(3);
                done += 1;
            }
        });
        assert_eq!((ended, done, is_counted()), (Err(WorkExceeded), 3, false));
        assert_eq!(within(10, || spend(10)), Ok(()));
        spend(u64::MAX);
    }

    /// A part never has more than the whole, and the whole pays for its parts.
    #[test]
    fn parts_are_paid_for_by_the_whole() {
        let ended = within(100, || {
            assert_eq!(within(30, || spend(31)), Err(WorkExceeded));
            assert_eq!(within(u64::MAX, || spend(50)), Ok(()));
            spend(20);
            within(1, || ()).unwrap();
            spend(1);
        });
        assert_eq!(ended, Err(WorkExceeded), "30, 50 and 20 are all there is");
    }

    /// A panic is no spending: it goes on as it would without anybody who counts.
    #[test]
    fn a_panic_stays_a_panic() {
        let ended =
            catch_unwind(|| within(10, || assert!(std::hint::black_box(false), "it panics")));
        assert!(ended.is_err() && !is_counted());
    }
}
