//! Who goes on next is decided by a seed. Runs on tokio's paused time: it passes when nobody can go
//! on.

use crate::model::clock::hands::TestClock;
use crate::store::tests::same::SplitMixRng;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use tokio::time::Instant;

type Work = Pin<Box<dyn Future<Output = ()>>>;

/// The tasks of one run.
#[derive(Clone)]
pub(super) struct Schedule(Rc<RefCell<Tasks>>);

struct Tasks {
    all: Vec<Task>,
    dice: SplitMixRng,
    parent: Arc<Mutex<Option<Waker>>>,
    hands: &'static TestClock,
    time: Instant,
    /// What was chosen so far, in one number.
    trace: u64,
}

struct Task {
    /// Tasks of one process have one number, and die together.
    group: u64,
    flag: Arc<Flag>,
    /// None while it goes on, and when it is over.
    work: Option<Work>,
    is_over: bool,
}

struct Flag {
    is_ready: AtomicBool,
    parent: Arc<Mutex<Option<Waker>>>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.is_ready.store(true, Ordering::Relaxed);
        if let Some(parent) = self.parent.lock().take() {
            parent.wake();
        }
    }
}

impl Schedule {
    /// Nothing to do yet. `hands` go with tokio's time.
    pub(super) fn new(seed: u64, hands: &'static TestClock) -> Self {
        let (parent, time) = (Arc::default(), Instant::now());
        Self(Rc::new(RefCell::new(Tasks {
            all: Vec::new(),
            dice: SplitMixRng::new(seed),
            parent,
            hands,
            time,
            trace: 0,
        })))
    }

    /// Begins a task of `group`.
    pub(super) fn spawn(&self, group: u64, work: impl Future<Output = ()> + 'static) {
        let mut tasks = self.0.borrow_mut();
        let flag = Arc::new(Flag {
            is_ready: AtomicBool::new(true),
            parent: tasks.parent.clone(),
        });
        tasks.all.push(Task {
            group,
            flag,
            work: Some(Box::pin(work)),
            is_over: false,
        });
    }

    /// Ends all tasks of `group` where they stand.
    pub(super) fn kill(&self, group: u64) {
        let mut dead = Vec::new();
        for task in self
            .0
            .borrow_mut()
            .all
            .iter_mut()
            .filter(|task| task.group == group)
        {
            task.is_over = true;
            dead.extend(task.work.take());
        }
        // What they drop may wake others.
        drop(dead);
    }

    /// Runs until all tasks are over; gives what was chosen, in one number.
    pub(super) async fn run(&self) -> u64 {
        let running = poll_fn(|cx| {
            loop {
                *self.0.borrow().parent.lock() = Some(cx.waker().clone());
                match self.choose() {
                    Some(chosen) => self.go_on(chosen),
                    None if self.0.borrow().all.iter().all(|task| task.is_over) => {
                        return Poll::Ready(());
                    }
                    None => return Poll::Pending,
                }
            }
        });
        tokio::task::unconstrained(running).await;
        self.0.borrow().trace
    }

    fn choose(&self) -> Option<usize> {
        let mut tasks = self.0.borrow_mut();
        tasks.all.retain(|task| !task.is_over);
        let is_ready = |task: &Task| task.flag.is_ready.load(Ordering::Relaxed);
        let ready: Vec<usize> = tasks
            .all
            .iter()
            .enumerate()
            .filter(|(_, task)| is_ready(task))
            .map(|(index, _)| index)
            .collect();
        let chosen = ready[..]
            .get(usize::try_from(tasks.dice.roll(ready.len().max(1) as u64)).ok()?)
            .copied()?;
        tasks.trace = tasks
            .trace
            .wrapping_mul(31)
            .wrapping_add(chosen as u64 + ready.len() as u64 * 1009);
        Some(chosen)
    }

    fn go_on(&self, chosen: usize) {
        let (mut work, flag) = {
            let mut tasks = self.0.borrow_mut();
            let now = Instant::now();
            tasks.hands.pass(now - tasks.time);
            tasks.time = now;
            let task = &mut tasks.all[chosen];
            task.flag.is_ready.store(false, Ordering::Relaxed);
            let Some(work) = task.work.take() else { return };
            (work, task.flag.clone())
        };
        let waker = Waker::from(flag);
        let is_over = work
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_ready();
        // Tasks only come behind this one while it goes on.
        let mut tasks = self.0.borrow_mut();
        let task = &mut tasks.all[chosen];
        task.is_over |= is_over;
        if !task.is_over {
            task.work = Some(work);
        }
    }
}
