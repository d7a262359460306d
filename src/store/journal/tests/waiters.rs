//! guarantees §8: a sync wakes the callers that it is for, all of them and nobody else.

use super::*;
use crate::store::journal::queue::WaitGoal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// How often a caller was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A caller that waits for `goal`, as a task that polls.
struct Caller {
    goal: WaitGoal,
    id: Option<u64>,
    woken: Arc<Woken>,
}

impl Caller {
    fn new(goal: WaitGoal) -> Self {
        Self {
            goal,
            id: None,
            woken: Arc::default(),
        }
    }

    fn poll(&mut self, queue: &WriteQueue) -> Option<Result<Head, JournalError>> {
        let waker = Waker::from(self.woken.clone());
        queue.poll(self.goal, &mut self.id, &waker)
    }

    fn times(&self) -> usize {
        self.woken.0.load(Ordering::SeqCst)
    }
}

fn head(seq: u64) -> Head {
    Head { seq, hash: [7; 32] }
}

/// A queue with records up to `last`, none of them written.
fn queue(last: u64) -> WriteQueue {
    let queue = WriteQueue::new(&small(), head(0));
    for n in 1..=last {
        queue.push(&RecordGroup::entry(entry(n)), true).unwrap();
    }
    queue
}

/// Callers that wait for all records up to `last`, each for one, in an order that is not theirs.
fn waiting(queue: &WriteQueue, last: u64) -> Vec<Caller> {
    let shuffled = (0..last).map(|n| n * 7919 % last + 1);
    let mut callers: Vec<Caller> = shuffled
        .map(|seq| Caller::new(WaitGoal::Durable(seq)))
        .collect();
    for caller in &mut callers {
        assert!(caller.poll(queue).is_none());
    }
    callers
}

#[test]
fn a_sync_wakes_exactly_those_it_is_for() {
    let queue = queue(500);
    let mut callers = waiting(&queue, 500);
    let seq = |caller: &Caller| match caller.goal {
        WaitGoal::Durable(seq) => seq,
        WaitGoal::Ended | WaitGoal::Failed | WaitGoal::Writing => 0,
    };
    let mut seqs: Vec<u64> = callers.iter().map(seq).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=500).collect::<Vec<_>>());
    for synced in [0, 1, 137, 138, 499] {
        queue.synced(head(synced), Duration::ZERO);
        for caller in &callers {
            assert_eq!(caller.times(), usize::from(seq(caller) <= synced));
        }
    }
    for caller in &mut callers {
        let answer = caller.poll(&queue).map(|answer| answer.unwrap().seq);
        assert_eq!(answer, (seq(caller) <= 499).then_some(499));
    }
}

#[test]
fn a_caller_that_leaves_is_not_woken_and_holds_up_nobody() {
    let queue = queue(30);
    let callers = waiting(&queue, 30);
    for left in callers.iter().step_by(3) {
        queue.remove_waiter(left.goal, left.id.unwrap());
    }
    queue.synced(head(30), Duration::ZERO);
    for (at, caller) in callers.iter().enumerate() {
        assert_eq!(caller.times(), usize::from(at % 3 != 0));
    }
}

// A task may be polled by another waker each time; the last one counts.
#[test]
fn a_caller_has_one_place_however_often_it_asks() {
    let queue = queue(1);
    let mut caller = Caller::new(WaitGoal::Durable(1));
    assert!(caller.poll(&queue).is_none());
    let (before, id) = (std::mem::take(&mut caller.woken), caller.id);
    assert!(caller.poll(&queue).is_none() && caller.id == id);
    queue.synced(head(1), Duration::ZERO);
    let before = before.0.load(Ordering::SeqCst);
    assert_eq!((before, caller.times()), (0, 1));
    queue.synced(head(1), Duration::ZERO);
    assert_eq!(caller.times(), 1, "once");
}

#[test]
fn those_who_wait_for_something_else_are_woken_by_that() {
    let queue = queue(2);
    let goals = [
        WaitGoal::Durable(2),
        WaitGoal::Ended,
        WaitGoal::Failed,
        WaitGoal::Writing,
    ];
    let mut callers = goals.map(Caller::new);
    queue.set_space(&queue::Space::Gone("no room".to_owned()));
    let [durable, ended, failed, writing] = &mut callers;
    assert!(matches!(
        durable.poll(&queue),
        Some(Err(JournalError::NoSpace(_)))
    ));
    for caller in [&mut *ended, failed, writing] {
        assert!(caller.poll(&queue).is_none());
    }
    queue.set_space(&queue::Space::Ample);
    assert!(durable.poll(&queue).is_none(), "there is room again");
    queue.fail_waiters(&JournalError::Poisoned("gone".into()), 0);
    let times = [&*durable, ended, failed, writing].map(Caller::times);
    assert_eq!(times, [1; 4]);
    assert!(matches!(
        durable.poll(&queue),
        Some(Err(JournalError::Poisoned(_)))
    ));
}
