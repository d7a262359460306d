//! Everybody outside: agents, operators, and bad luck.

use super::gate::{Asked, Told};
use super::{AGENTS, DEEDS, Kind, OUTSIDE, TASKS, World};
use crate::store::state::Refused;
use crate::store::state::claim::{Claim, Phase};
use crate::store::state::command::{Command, Settle};
use crate::store::state::digest::Digest;
use crate::store::state::tests::{named, operator, result};
use crate::store::tests::Stand;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot::channel;
use tokio::time::{sleep, timeout};

/// How often an agent sends a call again before it gives up.
const PERSISTENCE: u32 = 40;
/// Milliseconds after which no answer comes any more, so that an operator can see what happened.
const SETTLED: u64 = 300_000;
const TEN_YEARS: i64 = 10 * 365 * 24 * 3600;

impl World {
    /// Everybody begins.
    pub(super) fn populate(self: &Rc<Self>) {
        for deed in 0..TASKS * DEEDS {
            for _ in 0..AGENTS {
                let world = self.clone();
                self.schedule.spawn(OUTSIDE, async move {
                    world.agent(deed).await;
                    world.busy.set(world.busy.get() - 1);
                });
            }
        }
        let (operator, luck) = (self.clone(), self.clone());
        self.schedule.spawn(OUTSIDE, async move { operator.operate().await });
        self.schedule.spawn(OUTSIDE, async move { luck.break_things().await });
    }

    async fn some(&self, milliseconds: u64) {
        sleep(Duration::from_millis(self.roll(milliseconds))).await;
    }

    /// Sends a call until it is told what became of it, or has enough.
    async fn agent(self: &Rc<Self>, deed: u64) {
        let fingerprint = named(if self.once_in(15) { "other" } else { "fingerprint" });
        let takes_lane = !self.once_in(5);
        let mut asked = Asked { deed, fingerprint, round: None, task: deed % TASKS, takes_lane };
        let mut replays = self.roll(3);
        for _ in 0..PERSISTENCE {
            self.some(2000).await;
            let was_told = self.book.borrow().told.contains_key(&deed);
            match self.call(asked.clone()).await {
                // Answered only after its outcome is on disk: what one agent was told, nobody forgets (SEMANTICS §8).
                Some(told @ (Told::Unknown | Told::Question | Told::Held)) if was_told => {
                    panic!("deed {deed} was answered, and then: {told:?}");
                }
                None => self.count("hung up"),
                Some(Told::Answer { is_error: false, body }) => {
                    let mut book = self.book.borrow_mut();
                    if !book.told.entry(deed).or_default().insert(body) {
                        *book.counts.entry("replays").or_default() += 1;
                    }
                    if replays == 0 {
                        return;
                    }
                    replays -= 1;
                }
                Some(Told::Answer { is_error: true, .. }) => return self.count("invalid"),
                Some(Told::Question) => {
                    self.count("questions");
                    asked.round = Some(Digest::of(&[u8::try_from(self.roll(2)).unwrap()]));
                }
                Some(Told::NotRun(why)) => {
                    self.count(why);
                    if why == "budget_exceeded" && self.once_in(3) {
                        return;
                    }
                }
                Some(Told::Unknown) => {
                    self.count("unknown");
                    self.some(300_000).await;
                }
                Some(Told::Held) => self.count("held"),
                Some(Told::Conflict) => return self.count("conflicts"),
            }
        }
    }

    /// One request: none when the connection is lost, or the agent loses patience. The gate goes on all the same.
    async fn call(self: &Rc<Self>, asked: Asked) -> Option<Told> {
        let gate = self.process.borrow().as_ref()?.gate.clone();
        let (tell, told) = channel();
        self.schedule.spawn(gate.group, async move {
            drop(tell.send(gate.serve(asked).await));
        });
        timeout(Duration::from_millis(200 + self.roll(12_000)), told).await.ok()?.ok()
    }

    /// Decides what stayed unknown, once what happened can be seen; and tries to be too fast.
    async fn operate(self: &Rc<Self>) {
        while self.busy.get() > 0 {
            self.some(180_000).await;
            let Some(process) = self.process.borrow().clone() else { continue };
            let store = &process.gate.store;
            let mut open = store.unsettled(100).await.unwrap();
            open.sort_by_key(|(key, _)| *key);
            if let Some((key, claim)) = open.iter().find(|(_, claim)| matches!(claim.phase, Phase::Dispatching)) {
                let hasty = store.run(Command::Settle(decision(*key, claim, Phase::NotSent)), None).await;
                assert!(matches!(hasty, Ok(Err(Refused::Settled)) | Err(_)), "an operator freed a key in flight");
                self.count("stopped an operator");
            }
            for (key, claim) in open {
                let is_old = store.now().saturating_sub(claim.changed) > SETTLED;
                if !is_old || !matches!(claim.phase, Phase::Unknown { .. }) {
                    continue;
                }
                let receipt = self.book.borrow().done.get(&claim.action).cloned();
                let (what, phase) = match receipt {
                    _ if self.once_in(6) => ("abandoned", Phase::Abandoned),
                    Some(receipt) => ("applied", Phase::Completed(result(&receipt))),
                    None => ("not applied", Phase::NotSent),
                };
                if let Ok(Ok(_)) = store.run(Command::Settle(decision(key, &claim, phase)), None).await {
                    self.count(what);
                }
            }
        }
    }

    /// Ends the process `group` where it stands: what the kernel has by now is what the next one finds.
    fn kill(&self, stand: &RefCell<Stand>, group: u64) {
        let process = self.process.take();
        let left = stand.borrow().killed();
        {
            let mut book = self.book.borrow_mut();
            let flying = std::mem::take(&mut book.flying);
            book.faults.extend(flying);
        }
        drop(process);
        self.schedule.kill(group);
        stand.replace(left);
        self.count("kills");
    }

    /// What can go wrong, goes wrong now and then.
    async fn break_things(self: &Rc<Self>) {
        let (mut group, mut jumped, mut crashes) = (OUTSIDE + 1, 0, 0);
        while self.busy.get() > 0 {
            self.some(if crashes < 3 { 6000 } else { 60_000 }).await;
            match (self.roll(6), &self.kind) {
                (0 | 1, Kind::Embedded(stand)) if crashes < 3 => {
                    self.kill(stand, group);
                    self.some(3000).await;
                    group += 1;
                    crashes += 1;
                    self.start(group);
                }
                (kind @ (0 | 1), Kind::Paper(disk)) if crashes < 6 => {
                    let is_power = kind == 1;
                    let Some(process) = self.process.take() else { continue };
                    for (action, is_sent) in process.paper.iter().flat_map(|paper| paper.flying()) {
                        if is_power || is_sent {
                            self.book.borrow_mut().faults.insert(action);
                        }
                    }
                    drop(process);
                    self.schedule.kill(group);
                    disk.crash(is_power);
                    if is_power {
                        // A machine that starts with a wrong clock is beyond what a store can see.
                        self.hands.jump(-std::mem::take(&mut jumped));
                    }
                    self.count(if is_power { "power cuts" } else { "kills" });
                    self.some(3000).await;
                    group += 1;
                    crashes += 1;
                    self.start(group);
                }
                (2, Kind::Paper(disk)) => {
                    self.count("disks full");
                    disk.set_full(true);
                    self.some(5000).await;
                    disk.set_full(false);
                }
                (3, _) => {
                    let seconds = if jumped == 0 && self.once_in(2) { -TEN_YEARS } else { TEN_YEARS };
                    if jumped == 0 {
                        self.hands.jump(seconds);
                        jumped = seconds;
                    } else {
                        self.hands.jump(-std::mem::take(&mut jumped));
                    }
                }
                (4, _) => self.hands.freeze(self.once_in(2)),
                _ => {}
            }
        }
    }
}

fn decision(key: Digest, claim: &Claim, phase: Phase) -> Settle {
    Settle { key, action: claim.action, phase, evidence: operator(), cost: None, failed: false, seen: None }
}
