//! guarantees §8: a sync wakes the callers that it is for, all of them and nobody else.

use super::*;
use crate::model::clock::Clock;
use crate::store::journal::frame::Frame;
use crate::store::journal::queue::{WaitGoal, WaiterPlace, WriteJob};
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
    place: WaiterPlace,
    woken: Arc<Woken>,
}

impl Caller {
    fn new(goal: WaitGoal) -> Self {
        Self {
            goal,
            place: WaiterPlace::default(),
            woken: Arc::default(),
        }
    }

    fn poll(&mut self, queue: &WriteQueue) -> Option<Result<Head, JournalError>> {
        let waker = Waker::from(self.woken.clone());
        queue.poll(self.goal, &mut self.place, &waker)
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
        queue.leave(left.goal, &left.place);
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
    let (before, id) = (std::mem::take(&mut caller.woken), caller.place.id);
    assert!(caller.poll(&queue).is_none() && caller.place.id == id);
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

/// Waits until the writer sleeps.
fn until_asleep(queue: &WriteQueue) {
    let deadline = Clock.steady() + Duration::from_mins(1);
    while !queue.sleeps() {
        assert!(Clock.steady() < deadline, "it never sleeps");
        std::thread::yield_now();
    }
}

// A writer that is at work is not woken. One that sleeps is, by the first who asks a second time: what
// was queued until then goes along.
#[test]
fn a_writer_that_sleeps_is_woken_once_for_all_that_can_run() {
    let queue = queue(1);
    let mut early = Caller::new(WaitGoal::Durable(1));
    assert!(early.poll(&queue).is_none() && early.poll(&queue).is_none());
    assert_eq!(early.times(), 0, "the writer finds that by itself");
    let counts = |job: WriteJob| job.frames.iter().map(Frame::count).collect::<Vec<_>>();
    assert_eq!(counts(queue.take(None, None)), [1]);
    queue.synced(head(1), Duration::ZERO);
    assert_eq!(early.times(), 1);
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| counts(queue.take(None, None)));
        until_asleep(&queue);
        let mut callers = Vec::new();
        for n in 2..=9 {
            queue.push(&RecordGroup::entry(entry(n)), true).unwrap();
            let mut caller = Caller::new(WaitGoal::Durable(n));
            assert!(caller.poll(&queue).is_none());
            assert_eq!(caller.times(), 1, "to ask again");
            callers.push(caller);
        }
        assert!(queue.sleeps() && !writer.is_finished());
        for caller in &mut callers {
            assert!(caller.poll(&queue).is_none());
            assert_eq!(caller.times(), 1);
        }
        assert_eq!(writer.join().unwrap(), [8]);
        queue.synced(head(9), Duration::ZERO);
        assert!(callers.iter().all(|caller| caller.times() == 2));
    });
}

// A caller that asks once and then leaves may have asked for others; what it queued is written.
#[test]
fn a_caller_that_leaves_wakes_the_writer() {
    let queue = queue(0);
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| queue.take(None, None).wanted);
        until_asleep(&queue);
        queue.push(&RecordGroup::entry(entry(1)), true).unwrap();
        let mut caller = Caller::new(WaitGoal::Durable(1));
        assert!(caller.poll(&queue).is_none() && queue.sleeps());
        queue.leave(caller.goal, &caller.place);
        assert_eq!(writer.join().unwrap(), 1);
    });
}

// A caller that asks once and then does something else holds up no other.
#[test]
fn each_caller_wakes_the_writer_for_itself() {
    let queue = queue(0);
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| queue.take(None, None).wanted);
        until_asleep(&queue);
        for n in 1..=2 {
            queue.push(&RecordGroup::entry(entry(n)), true).unwrap();
        }
        let [mut idle, mut other] = [1, 2].map(|seq| Caller::new(WaitGoal::Durable(seq)));
        assert!(idle.poll(&queue).is_none() && other.poll(&queue).is_none());
        assert!(other.poll(&queue).is_none());
        assert_eq!(writer.join().unwrap(), 2);
    });
}
