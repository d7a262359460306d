//! Refusals of a task one after the other (guarantees §6, 003-107).
//!
//! What an early step refuses leaves nothing in its task's history, so it is counted here, since
//! the start. An agent that goes on with what is refused reads in the end that it goes in circles,
//! beside the refusal, which stays what it is; what passes is never held up, and ends the row.

use crate::gate::call::Call;
use crate::gate::record::Ending;
use crate::guards::Mode;
use crate::guards::task::Belonging;
use crate::model::digest::Digest;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Tasks at most whose row is known. Beyond, one of them starts anew.
const MOST: usize = 4096;

/// How many calls of each task were refused last. The default knows of none.
#[derive(Debug, Default)]
pub struct Rows(Mutex<HashMap<Digest, usize>>);

impl Rows {
    /// Counts one more, and says how many there were.
    fn add(&self, task: Digest) -> usize {
        let mut rows = self.0.lock();
        if rows.len() >= MOST
            && !rows.contains_key(&task)
            && let Some(any) = rows.keys().next().copied()
        {
            rows.remove(&any);
        }
        let row = rows.entry(task).or_default();
        let before = *row;
        *row = row.saturating_add(1);
        before
    }

    fn end(&self, task: Digest) {
        self.0.lock().remove(&task);
    }
}

impl Rows {
    /// Counts `ending` in the row of the call's task: an answer ends the row, and a refusal that
    /// the same call would read again makes it longer. Where the row is too long, gives what its
    /// agent is told beside `ending`.
    pub(in crate::gate) fn circle(
        &self,
        policy: &Policy,
        call: &Call,
        ending: &Ending,
    ) -> Option<&'static str> {
        if policy.mode == Mode::Observe || !policy.repetition.is_watching() {
            return None;
        }
        let is_verdict = ending.as_ref().is_err_and(Refusal::is_verdict);
        // Most answers end no row, and which task it would be is not asked for them.
        if !is_verdict && (ending.is_err() || self.0.lock().is_empty()) {
            return None;
        }
        let Belonging { task, .. } = Belonging::of(&call.origin.caller, &call.judged).ok()?;
        if !is_verdict {
            self.end(task.key);
            return None;
        }
        let before = self.add(task.key);
        policy.repetition.after(before, &call.judged.tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// guarantees §6: a task that is one too many takes the place of another, never more room.
    #[test]
    fn what_is_known_of_tasks_is_bounded() {
        let (rows, task) = (Rows::default(), |n: usize| {
            Digest::of_parts("task", &[&n.to_le_bytes()])
        });
        assert_eq!(
            (0..3).map(|_| rows.add(task(0))).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        rows.end(task(0));
        assert_eq!(rows.add(task(0)), 0);
        for n in 0..2 * MOST {
            rows.add(task(n));
        }
        assert_eq!(rows.0.lock().len(), MOST);
    }
}
