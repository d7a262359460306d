//! Equal calls of one caller one after the other, whatever tasks and sessions it names (guarantees
//! §6, 003-119): an agent that names a new task with each call would go on in a circle for ever,
//! because each task has a history of its own. In memory, since the start.

use crate::guards::repetition::CALLER_ROW_PERIOD;
use crate::model::caller::CallerKey;
use crate::model::times::millis;
use crate::model::window::SlidingWindow;
use crate::store::state::budget::SeenCall;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// Callers at most whose last call is known. Beyond, one of them starts anew.
const MAX_CALLERS: usize = 4096;

/// The last call of each caller, and how often it came in a row. The default knows of none.
#[derive(Debug, Default)]
pub(in crate::gate) struct CallerRows(Mutex<HashMap<CallerKey, CallRow>>);

#[derive(Debug, Default)]
struct CallRow {
    call: u64,
    outcome: u64,
    task: Option<u64>,
    times: SlidingWindow,
}

/// A call that has ended, and the beginning of its task's key, where that is known.
#[derive(Debug, Clone, Copy)]
pub(in crate::gate) struct EndedStep {
    pub(in crate::gate) seen: SeenCall,
    pub(in crate::gate) task: Option<u64>,
}

impl CallerRows {
    /// How often `call` was the caller's last one, one after the other, within
    /// [`CALLER_ROW_PERIOD`] until `now` on the steady clock.
    pub(in crate::gate) fn row(&self, caller: &CallerKey, call: u64, now: Duration) -> u64 {
        let rows = self.0.lock();
        let row = rows.get(caller).filter(|row| row.call == call);
        row.map_or(0, |row| {
            row.times.count(millis(CALLER_ROW_PERIOD), millis(now))
        })
    }

    /// Keeps a call in mind that has ended. What was refused or never answered is no step of a
    /// circle, as in a task's own history; nor is a task in one that asks again and is told something
    /// new, such as one that waits for the end of a job.
    pub(in crate::gate) fn see(&self, caller: CallerKey, step: EndedStep, now: Duration) {
        let EndedStep { seen, task } = step;
        if seen.refused {
            return;
        }
        let mut rows = self.0.lock();
        if rows.len() >= MAX_CALLERS
            && !rows.contains_key(&caller)
            && let Some(any) = rows.keys().next().cloned()
        {
            rows.remove(&any);
        }
        let row = rows.entry(caller).or_default();
        let goes_on = task.is_some() && row.task == task && row.outcome != seen.outcome;
        if row.call != seen.call || goes_on {
            row.times = SlidingWindow::default();
        }
        (row.call, row.outcome, row.task) = (seen.call, seen.outcome, task);
        row.times.take(millis(CALLER_ROW_PERIOD), millis(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::caller::Caller;

    const NOW: Duration = Duration::from_hours(10);

    fn seen(call: u64, refused: bool) -> EndedStep {
        let seen = SeenCall {
            call,
            outcome: 0,
            refused,
            times: 1,
        };
        EndedStep { seen, task: None }
    }

    /// guarantees §6: who asks again in one task and is told something new waits, and goes in no
    /// circle; another task each time is one, whatever the answers say.
    #[test]
    fn a_task_that_is_told_something_new_goes_on() {
        for (is_one_task, expected) in [(true, 1), (false, 300)] {
            let (rows, ann) = (CallerRows::default(), Caller::named("ann").key());
            for number in 0..300_u64 {
                let EndedStep { seen, .. } = seen(1, false);
                let named = if is_one_task { 0 } else { number };
                let step = EndedStep {
                    seen: SeenCall {
                        outcome: number,
                        ..seen
                    },
                    task: Some(named),
                };
                rows.see(ann.clone(), step, NOW);
            }
            assert_eq!(rows.row(&ann, 1, NOW), expected);
        }
    }

    /// 003-119: another call ends the row, and so does time; what was refused does neither.
    #[test]
    fn a_row_ends_with_another_call_and_with_time() {
        let (rows, ann) = (CallerRows::default(), Caller::named("ann").key());
        let see = |call, refused, now| rows.see(ann.clone(), seen(call, refused), now);
        for _ in 0..300 {
            see(1, false, NOW);
        }
        see(2, true, NOW);
        assert_eq!(rows.row(&ann, 1, NOW), 300);
        assert_eq!(rows.row(&ann, 2, NOW), 0);
        assert_eq!(rows.row(&Caller::named("bob").key(), 1, NOW), 0);
        see(2, false, NOW);
        assert_eq!((rows.row(&ann, 1, NOW), rows.row(&ann, 2, NOW)), (0, 1));
        // Once a minute, for hours, is no more than an hour has minutes.
        for minute in 1..500 {
            see(2, false, NOW + Duration::from_mins(minute));
        }
        let later = NOW + Duration::from_mins(500);
        assert!((59..=61).contains(&rows.row(&ann, 2, later)));
    }

    /// guarantees §6: a caller that is one too many takes the place of another, never more room.
    #[test]
    fn what_is_known_of_callers_is_bounded() {
        let rows = CallerRows::default();
        for number in 0..2 * MAX_CALLERS {
            let caller = Caller::named(&number.to_string()).key();
            rows.see(caller, seen(1, false), NOW);
        }
        assert_eq!(rows.0.lock().len(), MAX_CALLERS);
    }
}
