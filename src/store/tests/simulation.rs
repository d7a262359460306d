//! Deterministic simulation (SECURITY §12): agents that send again, a gate, a store that loses what was not synced, a tool
//! server that knows nothing of keys, crashes, power cuts, full disks, wall clocks that jump, and operators. Who goes on next
//! and what goes wrong is decided by a seed.
//!
//! `TOOLGATE_SEED=n` runs one seed, `TOOLGATE_SEEDS=n` the first n.

use crate::model::clock::hands::Hands;
use crate::model::ids::ActionId;
use crate::store::claims::Store;
use crate::store::lanes::Lanes;
use crate::store::memory::Memory;
use crate::store::state::Place;
use crate::store::state::claim::Phase;
use crate::store::state::event::Event;
use crate::store::tests::Stand;
use crate::store::tests::same::Dice;
use bytes::Bytes;
use futures_util::FutureExt as _;
use gate::{Gate, LIMIT, task};
use paper::{Disk, Paper};
use schedule::Schedule;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use waited::Waited;

mod actors;
mod gate;
mod paper;
mod schedule;
mod server;
mod waited;

/// Seeds that are run when nothing else is asked for.
const SEEDS: u64 = 1000;
/// The groups of tasks that never die; processes of ours come after them.
const SERVER: u64 = 0;
const OUTSIDE: u64 = 1;
const TASKS: u64 = 2;
/// Things to be done per task, and agents that ask for each.
const DEEDS: u64 = 4;
const AGENTS: u64 = 2;

/// One run.
struct World {
    schedule: Schedule,
    dice: RefCell<Dice>,
    hands: &'static Hands,
    book: RefCell<Book>,
    kind: Kind,
    /// The process, while it runs.
    process: RefCell<Option<Process>>,
    /// Agents that are not done.
    busy: Cell<u64>,
}

/// What the store is built on.
enum Kind {
    /// Nothing outlives it.
    Memory,
    Paper(Arc<Disk>),
    /// The real thing, in its directory. Its threads are real, too, so a seed does not run the same way twice.
    Embedded(RefCell<Stand>),
}

#[derive(Clone)]
struct Process {
    gate: Rc<Gate>,
    paper: Option<Arc<Paper>>,
}

/// What really happened.
#[derive(Default)]
struct Book {
    /// Which deed each call was for.
    actions: BTreeMap<ActionId, u64>,
    /// What the server did, with its receipts.
    done: BTreeMap<ActionId, String>,
    /// Calls that something went wrong with between sending and recording.
    faults: BTreeSet<ActionId>,
    /// Calls that were sent and are not recorded yet.
    flying: BTreeSet<ActionId>,
    /// What agents were told that was done.
    told: BTreeMap<u64, BTreeSet<Bytes>>,
    counts: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64, hands: &'static Hands, kind: Kind) -> Rc<Self> {
        Rc::new(Self {
            schedule: Schedule::new(seed, hands),
            dice: RefCell::new(Dice::new(seed ^ 0x5eed)),
            hands,
            book: RefCell::default(),
            kind,
            process: RefCell::default(),
            busy: Cell::new(TASKS * DEEDS * AGENTS),
        })
    }

    fn roll(&self, sides: u64) -> u64 {
        self.dice.borrow_mut().roll(sides)
    }

    fn once_in(&self, times: u64) -> bool {
        self.roll(times) == 0
    }

    /// Others go on, and some time passes.
    async fn pause(&self) {
        sleep(Duration::from_millis(self.roll(20))).await;
    }

    fn count(&self, what: &'static str) {
        *self.book.borrow_mut().counts.entry(what).or_default() += 1;
    }

    /// A new id, the same in every run of a seed.
    fn action(&self, deed: u64) -> ActionId {
        let mut book = self.book.borrow_mut();
        let action: ActionId = format!("0198f1a2-0000-7000-8000-{:012x}", book.actions.len()).parse().unwrap();
        book.actions.insert(action, deed);
        action
    }

    /// The server does what `action` asks for. I3: its intent is on the disk by now.
    fn happen(&self, action: ActionId) -> String {
        let process = self.process.borrow();
        let is_known = match (&self.kind, &*process) {
            (Kind::Paper(disk), _) => disk.has_intent(action),
            (Kind::Memory | Kind::Embedded(_), Some(process)) => {
                process.gate.store.find(action).now_or_never().unwrap().unwrap().is_some()
            }
            (Kind::Embedded(_), None) => true,
            (Kind::Memory, None) => panic!("nothing crashes here"),
        };
        assert!(is_known, "I3: {action} happened before its intent was durable");
        let mut book = self.book.borrow_mut();
        let receipt = format!("receipt {}", book.done.len());
        assert!(book.done.insert(action, receipt.clone()).is_none(), "the server was called twice by one action");
        receipt
    }

    /// A process begins.
    fn start(self: &Rc<Self>, group: u64) {
        let clock = self.hands.clock();
        let paper = match &self.kind {
            Kind::Paper(disk) => Some(Arc::new(Paper::open(disk.clone(), clock))),
            Kind::Memory | Kind::Embedded(_) => None,
        };
        let store: Arc<dyn Store> = match (&self.kind, &paper) {
            (Kind::Embedded(stand), _) => Arc::new(Waited(stand.borrow().open())),
            (_, Some(paper)) => paper.clone(),
            (_, None) => Arc::new(Memory::new(clock)),
        };
        let gate = Gate { store, lanes: Arc::new(Lanes::default()), group, world: self.clone() };
        self.process.replace(Some(Process { gate: Rc::new(gate), paper }));
    }

    /// SECURITY §12, I1 to I9, as far as they are about the store.
    async fn check(&self) {
        let process = self.process.take().expect("it was started again");
        let store = &process.gate.store;
        let book = self.book.take();
        let mut happened: BTreeMap<u64, Vec<ActionId>> = BTreeMap::new();
        for action in book.done.keys() {
            happened.entry(book.actions[action]).or_default().push(*action);
        }
        for (deed, actions) in &happened {
            assert_eq!(actions.len(), 1, "I1: deed {deed} happened more than once: {actions:?}");
        }
        for (deed, answers) in &book.told {
            let actions = happened.get(deed).map(Vec::as_slice).unwrap_or_default();
            assert_eq!((actions.len(), answers.len()), (1, 1), "I2: deed {deed}, {actions:?}, {answers:?}");
            assert_eq!(book.done[&actions[0]], *answers.first().unwrap(), "another call's answer");
        }
        for number in 0..TASKS {
            let paid = store.look(Place { task: Some(task(number)), ..Place::default() }).await.unwrap().task;
            let calls = paid.map_or(0, |task| task.calls);
            let of_task = happened.keys().filter(|deed| *deed % TASKS == number).count() as u64;
            assert!(of_task <= calls && calls <= LIMIT, "I6: {of_task} happened, {calls} paid, {LIMIT} allowed");
        }
        for action in book.actions.keys() {
            let Some((_, claim)) = store.find(*action).await.unwrap() else { continue };
            assert!(!matches!(claim.phase, Phase::Dispatching), "nobody cares for {claim:?}");
            let is_unknown = matches!(claim.phase, Phase::Unknown { .. });
            assert!(!is_unknown || book.faults.contains(action), "I9: nothing went wrong with {claim:?}");
        }
        let mut tokens = BTreeMap::new();
        for event in process.paper.iter().flat_map(|paper| paper.reread()) {
            match event {
                Event::Intended(intended) => {
                    let before = tokens.insert(intended.session, intended.fence);
                    assert!(before < Some(intended.fence), "a token went back: {before:?}, {intended:?}");
                }
                Event::Settled(settled) if matches!(settled.phase, Phase::Unknown { .. }) => {
                    assert!(book.faults.contains(&settled.action), "I9: {settled:?}");
                }
                Event::Settled(_)
                | Event::Reserved(_)
                | Event::Spent(_)
                | Event::Entered { .. }
                | Event::Fenced { .. }
                | Event::Carried(_) => {}
            }
        }
    }
}

/// Runs `seed` to its end on a store of memory or of paper; gives what was chosen, in one number, and what happened how often.
fn run(seed: u64) -> (u64, BTreeMap<&'static str, u64>) {
    let kind = if seed.is_multiple_of(4) { Kind::Memory } else { Kind::Paper(Disk::new(seed)) };
    run_on(seed, Hands::new(), kind)
}

fn run_on(seed: u64, hands: &'static Hands, kind: Kind) -> (u64, BTreeMap<&'static str, u64>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(seed, hands, kind);
        world.start(OUTSIDE + 1);
        world.populate();
        let trace = world.schedule.run().await;
        let happened = world.book.borrow().done.len() as u64;
        world.book.borrow_mut().counts.insert("happened", happened);
        let counts = world.book.borrow().counts.clone();
        world.check().await;
        (trace, counts)
    })
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// I1, I2, I3 (intents), I6, I9 of SECURITY §12; 004-01, 004-07, 004-12, 004-37, 004-44, 004-46.
#[test]
fn whatever_goes_wrong_nothing_happens_twice() {
    let one = number("TOOLGATE_SEED");
    let seeds = one.map_or(0..number("TOOLGATE_SEEDS").unwrap_or(SEEDS), |seed| seed..seed + 1);
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in seeds {
        let ran = catch_unwind(AssertUnwindSafe(|| run(seed)));
        let Ok((trace, counted)) = ran else { panic!("seed {seed} fails; TOOLGATE_SEED={seed} runs it again") };
        for (what, often) in counted {
            *counts.entry(what).or_default() += often;
        }
        if seed % 250 == 1 {
            assert_eq!(run(seed).0, trace, "seed {seed} does not run the same way twice");
        }
    }
    // A simulation in which nothing goes wrong proves nothing.
    let expected = [
        "abandoned",
        "applied",
        "budget_exceeded",
        "conflicts",
        "disks full",
        "fenced",
        "happened",
        "held",
        "hung up",
        "kills",
        "late answers",
        "not applied",
        "power cuts",
        "questions",
        "replays",
        "stopped an operator",
        "unknown",
    ];
    let missing: Vec<_> = expected.iter().filter(|what| !counts.contains_key(*what)).collect();
    assert!(one.is_some() || missing.is_empty(), "never seen: {missing:?}; {counts:?}");
}

/// The same with the store that production has; only its process dies, not its machine.
#[test]
fn whatever_goes_wrong_nothing_happens_twice_on_disk() {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 0..number("TOOLGATE_SEEDS").map_or(6, |seeds| seeds / 100) {
        let hands = Hands::new();
        let kind = Kind::Embedded(RefCell::new(Stand::embedded(hands.clock())));
        let ran = catch_unwind(AssertUnwindSafe(|| run_on(seed, hands, kind)));
        let Ok((_, counted)) = ran else { panic!("seed {seed} fails on disk") };
        for (what, often) in counted {
            *counts.entry(what).or_default() += often;
        }
    }
    let missing: Vec<_> =
        ["happened", "kills", "replays", "unknown"].into_iter().filter(|what| !counts.contains_key(what)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}; {counts:?}");
}
