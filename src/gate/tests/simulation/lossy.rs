//! A network that loses three answers in ten, and agents that send such a call again 30 to 90 s later,
//! among other calls (004-01): how often each regime runs what was meant once a second time, and how
//! often it takes what is meant again for what was sent before.
//!
//! `cargo nextest run --lib lossy --success-output final` prints what guarantees §3 publishes.

use super::agents::{Told, WantedCall};
use super::bank::Fate;
use super::process::{Ground, LOSSY_POLICY, LOSSY_TOOLS};
use super::{Kind, OUTSIDE, SimulatedWorld, TestClock, add, in_paused_time};
use crate::guards::idempotency::KEY_META_NAME;
use crate::guards::task::SESSION_META;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::outlet::receipt::{Acknowledges, AgentConnection};
use serde_json::json;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;

const SEEDS: u64 = 12;
/// Agents at once, each in a session of its own.
const AGENTS: u64 = 5;
/// Things that each of them means.
const INTENTS: u64 = 60;
/// Different things that it may mean.
const DEEDS: u64 = 4;
/// In how many of 100 calls the agent reads no answer.
const LOST: u64 = 30;
/// Longer than any call takes here.
const PATIENCE: Duration = Duration::from_secs(20);

/// How answers are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// On the way: the request, the connection while the call runs, or the bytes of the answer, which
    /// no peer acknowledges.
    Network,
    /// The agent's kernel has acknowledged all of it, and the agent dies before it reads.
    Agent,
}

/// Where a call got lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LostAt {
    Nowhere,
    Request,
    Running,
    Answer,
}

/// What the kernel knows of a simulated connection.
struct SimulatedKernel(Arc<AtomicBool>);

impl Acknowledges for SimulatedKernel {
    fn is_acknowledged(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// One thing that an agent means.
#[derive(Debug, Clone, Copy)]
struct Intent {
    number: u64,
    deed: u64,
    /// Whether it has been sent before.
    is_sent: bool,
}

/// An agent in its session, with its connection.
struct LossyAgent {
    world: Rc<SimulatedWorld>,
    tool: &'static str,
    loss: Loss,
    number: u64,
    wire: RefCell<(Arc<AgentConnection>, Arc<AtomicBool>)>,
    /// How often each deed was meant.
    meant: RefCell<BTreeMap<u64, u64>>,
}

fn connected() -> (Arc<AgentConnection>, Arc<AtomicBool>) {
    let acknowledged = Arc::new(AtomicBool::new(false));
    let kernel = SimulatedKernel(acknowledged.clone());
    let connection = Arc::new(AgentConnection::new(Box::new(kernel)));
    (connection, acknowledged)
}

impl LossyAgent {
    fn now(&self) -> Duration {
        self.world.hands.clock().steady()
    }

    /// Means one thing after the other, and sends again what it has read no answer to.
    async fn works(self) {
        // When each is sent again, and what was done since something was begun last.
        let (mut lost, mut recent) = (BTreeMap::<Duration, Intent>::new(), BTreeSet::new());
        let mut number = 0;
        while number < INTENTS || !lost.is_empty() {
            self.world.some(20_000).await;
            let due = lost.first_key_value().map(|(at, _)| *at);
            let is_due = due.is_some_and(|at| at <= self.now());
            let intent = if is_due {
                lost.pop_first().map(|(_, intent)| intent)
            } else if number < INTENTS {
                number += 1;
                self.fresh(number, &lost, &recent)
            } else {
                let left = due.map(|at| at.saturating_sub(self.now()));
                sleep(left.unwrap_or_default()).await;
                None
            };
            let Some(mut intent) = intent else { continue };
            let lost_at = self.sends(intent).await;
            // Nobody goes on by a call that reaches nobody.
            if !intent.is_sent && lost_at != LostAt::Request {
                recent.clear();
            }
            recent.insert(intent.deed);
            if lost_at != LostAt::Nowhere {
                intent.is_sent = true;
                let pause = 30_000 + self.world.roll(60_000);
                lost.insert(self.now() + Duration::from_millis(pause), intent);
            }
        }
    }

    /// Something new: what it still waits for, and what it has just done, it does not mean a second
    /// time.
    fn fresh(
        &self,
        number: u64,
        lost: &BTreeMap<Duration, Intent>,
        recent: &BTreeSet<u64>,
    ) -> Option<Intent> {
        let deed = self.number * DEEDS + self.world.roll(DEEDS);
        let waits = lost.values().any(|intent| intent.deed == deed);
        if waits || recent.contains(&deed) {
            return None;
        }
        *self.meant.borrow_mut().entry(deed).or_default() += 1;
        self.world.count("meant");
        Some(Intent {
            number,
            deed,
            is_sent: false,
        })
    }

    fn lost_at(&self) -> LostAt {
        if self.world.roll(100) >= LOST {
            return LostAt::Nowhere;
        }
        match (self.loss, self.world.roll(5)) {
            (Loss::Network, 0) => LostAt::Request,
            (Loss::Network, 1 | 2) => LostAt::Running,
            (Loss::Network | Loss::Agent, _) => LostAt::Answer,
        }
    }

    /// One call, and where it got lost.
    async fn sends(&self, intent: Intent) -> LostAt {
        let lost_at = self.lost_at();
        let (connection, acknowledged) = self.wire.borrow().clone();
        if lost_at == LostAt::Request {
            self.wire.replace(connected());
            return lost_at;
        }
        if intent.is_sent && self.executions(intent.deed) >= self.meant.borrow()[&intent.deed] {
            self.world.count("sent again");
        }
        connection.belongs(&self.world.ground.caller);
        connection.head_begins(self.now());
        let arrived = connection.arrived();
        connection.hears(arrived);
        acknowledged.store(false, Ordering::Relaxed);
        let wanted = WantedCall {
            deed: intent.deed,
            tool: self.tool,
            message: self.message(intent),
            arrived,
        };
        let mut request = self.world.send(wanted).unwrap();
        if lost_at == LostAt::Running {
            self.world.some(400).await;
            drop(request);
            connection.closes(self.now());
            self.wire.replace(connected());
            return lost_at;
        }
        let told = self.world.hear_of(&mut request, PATIENCE).await.unwrap();
        let ended = request.inlet.ticket().receipt();
        if let Some(receipt) = ended {
            connection.ends(receipt);
        }
        connection.flushed(self.now(), false);
        sleep(Duration::from_millis(1)).await;
        let is_read = lost_at == LostAt::Nowhere;
        acknowledged.store(is_read || self.loss == Loss::Agent, Ordering::Relaxed);
        if !is_read {
            connection.closes(self.now());
            self.wire.replace(connected());
        }
        self.judges(intent, &told);
        lost_at
    }

    fn judges(&self, intent: Intent, told: &Told) {
        let Told::Done { replayed, .. } = told else {
            panic!("{intent:?}: {told:?}");
        };
        if *replayed && !intent.is_sent {
            self.world.count("false joins");
        }
    }

    /// How often the bank has done it.
    fn executions(&self, deed: u64) -> u64 {
        let book = self.world.book.borrow();
        let done = book
            .done
            .keys()
            .filter(|action| book.actions[action] == deed);
        done.count() as u64
    }

    fn message(&self, intent: Intent) -> Message {
        let mut meta = json!({ SESSION_META: format!("session {}", self.number) });
        let mut arguments = json!({ "deed": intent.deed });
        let name = self.number * INTENTS * 2 + intent.number;
        match self.tool {
            "give" => meta[KEY_META_NAME] = json!(name.to_string()),
            "book" => arguments["amount"] = json!(name),
            _ => {}
        }
        let params = json!({ "name": format!("bank__{}", self.tool), "arguments": arguments, "_meta": meta });
        let id = self.world.book.borrow().actions.len() as u64;
        Message::request(id, "tools/call", Some(Text::of(&params)))
    }
}

/// What came of all seeds.
#[derive(Debug, Default)]
struct Outcome {
    meant: u64,
    /// Calls that had run and were sent again.
    reissues: u64,
    /// Times that something ran beyond what was meant.
    duplicates: u64,
    false_joins: u64,
}

impl Outcome {
    fn suppressed_percent(&self) -> u64 {
        100 * (self.reissues - self.duplicates) / self.reissues
    }
}

fn over_a_lossy_network(tool: &'static str, loss: Loss) -> Outcome {
    let ground = Rc::new(Ground::of(LOSSY_POLICY, &LOSSY_TOOLS));
    let mut counts = BTreeMap::new();
    let mut happened = 0;
    for seed in 0..SEEDS {
        in_paused_time(async {
            let world = SimulatedWorld::on(ground.clone(), seed, TestClock::new(), Kind::Memory);
            world.busy.set(AGENTS);
            // The bank is not what fails here.
            let fates = std::iter::repeat_n(Fate::Done, 100_000);
            world.script.replace(fates.collect());
            let populate = |world: &Rc<SimulatedWorld>| {
                for number in 0..AGENTS {
                    let agent = LossyAgent {
                        world: world.clone(),
                        tool,
                        loss,
                        number,
                        wire: RefCell::new(connected()),
                        meant: RefCell::default(),
                    };
                    let world = world.clone();
                    world.schedule.clone().spawn(OUTSIDE, async move {
                        agent.works().await;
                        world.busy.set(world.busy.get() - 1);
                        if world.busy.get() == 0 {
                            world.schedule.kill(world.group.get());
                        }
                    });
                }
            };
            world.plays(populate).await;
            let mut book = world.book.borrow_mut();
            happened += book.done.len() as u64;
            add(&mut counts, std::mem::take(&mut book.counts));
        });
    }
    let count = |what: &str| counts.get(what).copied().unwrap_or_default();
    let meant = count("meant");
    Outcome {
        meant,
        reissues: count("sent again"),
        duplicates: happened.saturating_sub(meant),
        false_joins: count("false joins"),
    }
}

#[expect(
    clippy::print_stdout,
    reason = "the numbers are published: docs/guarantees.md says how to read them again"
)]
fn says(what: &str, outcome: &Outcome) {
    let Outcome {
        meant,
        reissues,
        duplicates,
        false_joins,
    } = outcome;
    println!(
        "{what}: {meant} meant, {reissues} sent again after they had run, {duplicates} ran twice ({} % suppressed), {false_joins} false joins",
        outcome.suppressed_percent()
    );
    assert!(
        *meant > 1000 && *reissues > 300,
        "too little to say anything: {outcome:?}"
    );
}

/// 004-01, 004-11, 004-38, 004-46: with a key, or where the contract declares which calls are one, nothing
/// runs twice, however its answers are lost.
#[test]
fn what_is_keyed_or_declared_runs_once() {
    for tool in ["give", "book"] {
        for loss in [Loss::Network, Loss::Agent] {
            let outcome = over_a_lossy_network(tool, loss);
            says(&format!("{tool}, lost by the {loss:?}"), &outcome);
            let harm = (outcome.duplicates, outcome.false_joins);
            assert_eq!(harm, (0, 0), "{tool}, {loss:?}: {outcome:?}");
        }
    }
}

/// 004-01, 004-08: where nothing is said, nothing that is meant again is taken for what was sent before,
/// and most of what is sent again is not run again: what is, was lost twice, for longer than the window.
/// What an agent dies with that its kernel has acknowledged looks read, once it has gone on: what
/// such a loss costs is measured beside.
#[test]
fn what_is_only_sent_again_seldom_runs_twice() {
    for (loss, least) in [(Loss::Network, 80), (Loss::Agent, 5)] {
        let outcome = over_a_lossy_network("note", loss);
        says(&format!("note, lost by the {loss:?}"), &outcome);
        assert_eq!(outcome.false_joins, 0, "{loss:?}: {outcome:?}");
        assert!(
            outcome.suppressed_percent() >= least,
            "{loss:?}: {outcome:?}"
        );
    }
}
