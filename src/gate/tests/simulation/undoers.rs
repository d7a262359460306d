//! The same where operators take back what was done, one call or a whole task, now and then several at
//! once, beside agents that send again, while all else goes wrong (003-64). What was carried out is taken
//! back at most once, nothing else is, and a key that is free again makes a new call. What takes back has
//! ids of its own, which no seed decides; nothing that happens depends on them.

mod afterwards;
mod book;

use super::agents::{Asked, Told};
use super::played_seeds::PlayedSeeds;
use super::process::{Ground, POLICY};
use super::{
    AGENTS, Counts, DEEDS, Kind, OUTSIDE, SimulatedDisk, SimulatedWorld, TASKS, TestClock,
    TestStore, add, in_paused_time,
};
use crate::gate::undoing::CallUndoer;
use crate::model::ids::ActionId;
use crate::store::undos::{
    NoTaskUndo, NoUndo, TaskUndoReport, TaskUndoWord, UndoMaker as _, UndoReport, UndoWord,
};
use crate::upstream::links::Links;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

pub(super) use book::UndoneBook;

/// Seeds that are run when nothing else is asked for, and tests that share them.
const SEEDS: u64 = 60;
const PARTS: u64 = 2;
/// How often an agent asks for the same thing.
const REQUESTS: u64 = 20;
/// Operators who take back.
const UNDOERS: u64 = 2;
/// How long an operator waits for an answer, which nobody gives once the process is killed.
const PATIENCE: Duration = Duration::from_mins(6);
/// How often an operator asks for what a person has to allow.
const TRIES: u32 = 4;
const UNDONE_TOOLS: [&str; 5] = ["pay", "transfer", "order", "look", "refund"];
/// What takes back, but for whom it asks.
const REFUND: &str = "  bank__refund:
    { purpose: refund, actions: [write], permission: anyone, side_effect: { writes: money, rollback: { manual: pay again } }, secrets: [],
      budget: { timeout_ms: 3000 }, idempotency: { require: true, expose: false, ttl: 24h, not_executed: [-32050], attempts: 2 },
      output: { errors: [ { code: -32603, means: unknown } ] }";
/// What has to be seen, or the runs prove nothing.
const EXPECTED: [&str; 14] = [
    "undo done",
    "undo failed",
    "undo requested",
    "undo unknown",
    "not undone: Done",
    "not undone: Running",
    "not undone: Unknown",
    "not undone: UnknownOutcome",
    "tasks taken back",
    "ran again",
    "replays",
    "kills",
    "power cuts",
    "disks full",
];

impl Ground {
    /// The same bank as everywhere, where `refund` takes back what the others do, and people decide on
    /// that as `approval` says.
    fn undone(approval: &str) -> Self {
        let places = "arguments: { deed: arguments#/deed, receipt: result#/receipt }";
        let rollback = format!("rollback: {{ tool: bank__refund, {places} }}");
        let policy = POLICY
            .replace("rollback: { tool: bank__order }", &rollback)
            .replace("rollback: { tool: bank__pay }", &rollback)
            .replace("max_tool_calls: 3", "max_tool_calls: 60");
        let refund = format!("{REFUND}, approval: {{ {approval} }} }}\n  bank__look:");
        Self::with_people(&policy.replace("  bank__look:", &refund), &UNDONE_TOOLS)
    }
}

impl SimulatedWorld {
    fn populate_undone(self: &Rc<Self>) {
        self.busy.set(TASKS * DEEDS * AGENTS);
        for deed in 0..TASKS * DEEDS * AGENTS {
            let world = self.clone();
            self.schedule.spawn(OUTSIDE, async move {
                world.asks_for(deed % (TASKS * DEEDS)).await;
                world.busy.set(world.busy.get() - 1);
            });
        }
        for _ in 0..UNDOERS {
            let world = self.clone();
            self.schedule
                .spawn(OUTSIDE, async move { world.takes_back().await });
        }
        let person = self.clone();
        self.schedule.spawn(OUTSIDE, async move {
            Box::pin(person.looks_and_decides()).await;
        });
        self.populate_others();
    }

    /// An agent sends one call again and again, with its key. What an operator knew to be taken back when
    /// it was sent is no answer to it.
    async fn asks_for(self: &Rc<Self>, deed: u64) {
        let mut asked = Asked::of(deed);
        for _ in 0..REQUESTS {
            self.some(60_000).await;
            let over = self.book.borrow().undone.told.clone();
            let told = self.call(&asked).await;
            self.tell(|| format!("an agent of deed {deed} is told {told:?}"));
            match told {
                None => self.count("hung up"),
                Some(Told::Done { receipt, replayed }) => {
                    self.count(if replayed { "replays" } else { "answers" });
                    let Some(receipt) = receipt else { continue };
                    assert!(
                        !over.contains(&receipt),
                        "deed {deed} is answered with {receipt}, which was taken back"
                    );
                    let mut book = self.book.borrow_mut();
                    book.told.entry(deed).or_default().insert(receipt);
                }
                Some(Told::Question) => asked.reply = Some(self.roll(2)),
                Some(Told::Failed) => self.count("failed"),
                Some(Told::Error(code)) => self.count(&code.to_string()),
                Some(Told::Refused(code)) => self.count(&code),
            }
        }
    }

    /// An operator takes back what was done, or tries to.
    async fn takes_back(self: &Rc<Self>) {
        while self.busy.get() > 0 {
            self.some(30_000).await;
            if self.once_in(8) {
                self.takes_task_back().await;
                continue;
            }
            let Some(of) = self.any_call() else { continue };
            if self.once_in(3) {
                tokio::join!(self.asks_undo(of), self.asks_undo(of));
            } else {
                self.asks_undo(of).await;
            }
        }
    }

    /// Most often one that happened.
    fn any_call(&self) -> Option<ActionId> {
        let book = self.book.borrow();
        let any: Vec<ActionId> = if self.once_in(4) {
            book.actions.keys().copied().collect()
        } else {
            book.done.keys().copied().collect()
        };
        let index = usize::try_from(self.roll(any.len().max(1) as u64)).ok()?;
        any.get(index).copied()
    }

    fn undoer(&self) -> Option<Arc<CallUndoer>> {
        Some(Arc::new(CallUndoer {
            gate: self.gate()?,
            links: Arc::new(Links::shared(self.ground.servers.clone())),
            running: TaskTracker::new(),
        }))
    }

    /// Asks until a person has decided, if one has to.
    async fn asks_undo(self: &Rc<Self>, of: ActionId) {
        for _ in 0..TRIES {
            let Some(undoer) = self.undoer() else { return };
            let word = UndoWord {
                of,
                who: "ops".to_owned(),
                why: "it was not meant".to_owned(),
                is_dry: false,
            };
            let Ok(ended) = timeout(PATIENCE, undoer.undo(word)).await else {
                return self.count("undos unheard");
            };
            self.tell(|| format!("an operator is told of the undo of {of}: {ended:?}"));
            match ended {
                Ok(report) if report.code.as_deref() == Some("approval_pending") => {
                    self.count("undo requested");
                    self.some(15_000).await;
                }
                Ok(report) => return self.hears(of, &report),
                Err(why) => return self.is_refused(of, &why),
            }
        }
    }

    fn hears(&self, of: ActionId, report: &UndoReport) {
        self.count(&format!("undo {}", report.state));
        let by = report.by.as_ref().map(|by| by.parse().unwrap());
        self.hears_state(of, &report.state, by);
    }

    /// I2 of an undo: what its operator is told is so.
    fn hears_state(&self, of: ActionId, state: &str, by: Option<ActionId>) {
        let mut book = self.book.borrow_mut();
        match state {
            "done" => {
                assert!(
                    book.is_undone(of),
                    "{of} is said to be taken back, by {by:?}"
                );
                let receipt = book.done[&of].clone();
                book.undone.told.insert(receipt);
            }
            "failed" => {
                let has_run = by.is_some_and(|by| book.undone.taken.contains_key(&by));
                assert!(!has_run, "{by:?} is said not to have taken {of} back");
            }
            _ => {}
        }
    }

    fn is_refused(&self, of: ActionId, why: &NoUndo) {
        let said = format!("{why:?}");
        let reason = said.split(['(', ' ']).next().unwrap_or_default();
        self.count(&format!("not undone: {reason}"));
        if let NoUndo::Done(by) = why {
            self.hears_state(of, "done", Some(*by));
        }
    }

    async fn takes_task_back(self: &Rc<Self>) {
        let place = self.book.borrow().places.get(&self.roll(TASKS)).copied();
        let (Some(task), Some(undoer)) = (place, self.undoer()) else {
            return;
        };
        let word = TaskUndoWord {
            task: task.to_string(),
            who: "ops".to_owned(),
            why: "it went astray".to_owned(),
            is_dry: false,
        };
        let ended = timeout(PATIENCE, undoer.undo_task(word)).await;
        self.tell(|| format!("an operator is told of the undo of {task}: {ended:?}"));
        match ended {
            Ok(Ok(report)) => self.hears_steps(&report),
            Ok(Err(NoTaskUndo::Task(_))) | Err(_) => self.count("undos unheard"),
            Ok(Err(NoTaskUndo::Unfit(why))) => panic!("{why}"),
        }
    }

    fn hears_steps(&self, report: &TaskUndoReport) {
        self.count("tasks taken back");
        for step in &report.steps {
            let by = step.by.as_ref().map(|by| by.parse().unwrap());
            self.hears_state(step.action_id.parse().unwrap(), &step.state, by);
        }
    }
}

/// Runs one seed to its end, checks it, and gives what happened how often. Of every other seed people
/// decide on each undo.
fn run(seed: u64, kind: Kind) -> Counts {
    thread_local! {
        static GROUNDS: [Rc<Ground>; 2] = [
            Rc::new(Ground::undone("ask: never")),
            Rc::new(Ground::undone("ask: always, approvers: [finance], approve_by: 40s, execute_by: 1m, hold: 5s")),
        ];
    }
    let ground = GROUNDS.with(|grounds| grounds[usize::from(seed / PARTS % 2 == 1)].clone());
    in_paused_time(async {
        let world = SimulatedWorld::on(ground, seed, TestClock::new(), kind);
        world.plays(SimulatedWorld::populate_undone).await;
        let mut counts = std::mem::take(&mut world.book.borrow_mut().counts);
        Box::pin(world.check_undone()).await;
        add(&mut counts, world.book.take().counts);
        counts
    })
}

fn run_part(part: u64) {
    PlayedSeeds {
        seeds: SEEDS,
        parts: PARTS,
        expected: &EXPECTED,
    }
    .play(part, |seed| {
        run(seed, Kind::Paper(SimulatedDisk::new(seed)))
    });
}

/// 003-64: whatever goes wrong, a call is taken back at most once, and only if it was carried out; what
/// may have taken it back is not sent again; and its key runs again only as a new call.
#[test]
fn whatever_goes_wrong_nothing_is_taken_back_twice_1() {
    run_part(0);
}

/// The other half of the seeds.
#[test]
fn whatever_goes_wrong_nothing_is_taken_back_twice_2() {
    run_part(1);
}

/// The same with the store that production has.
#[test]
fn whatever_goes_wrong_nothing_is_taken_back_twice_on_disk() {
    let mut counts = Counts::new();
    for seed in 0..4 {
        let hands = TestClock::new();
        let kind = Kind::Embedded(RefCell::new(TestStore::embedded(hands.clock())));
        add(&mut counts, run(seed, kind));
    }
    let missing = ["undo done", "kills", "replays"]
        .into_iter()
        .filter(|what| !counts.contains_key(*what));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "never seen: {missing:?}; {counts:?}");
}
