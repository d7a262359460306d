//! Everybody else outside: operators, and bad luck.

use super::bank::receipt_of;
use super::{Kind, OUTSIDE, SETTLED, SimulatedWorld};
use crate::mcp::json::Text;
use crate::store::operator::{OperatorFinding, Resolution, Unresolved, resolve};
use crate::store::state::claim::{Claim, ClaimPhase};
use crate::store::tests::simulated_store::SimulatedSpace;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

const TEN_YEARS: i64 = 10 * 365 * 24 * 3600;
/// After this long nobody listens any more, and the bank has nothing more to say.
const QUIET: Duration = Duration::from_mins(30);

impl SimulatedWorld {
    /// Everybody begins.
    pub(super) fn populate(self: &Rc<Self>) {
        self.populate_agents();
        self.populate_others();
    }

    /// Everybody but the agents.
    pub(super) fn populate_others(self: &Rc<Self>) {
        let (operator, luck) = (self.clone(), self.clone());
        self.schedule
            .spawn(OUTSIDE, async move { operator.operate().await });
        self.schedule.spawn(OUTSIDE, async move {
            luck.break_things().await;
            sleep(QUIET).await;
            luck.schedule.kill(luck.group.get());
        });
    }

    /// Decides what stayed unknown, once what happened can be seen; and tries to be too fast.
    async fn operate(self: &Rc<Self>) {
        while self.busy.get() > 0 {
            self.some(180_000).await;
            self.until_busy().await;
            let Some(gate) = self.gate() else { continue };
            let store = &*gate.effects.store;
            let mut open = store.unsettled(100).await.unwrap();
            open.sort_by_key(|(key, _)| *key);
            if let Some((_, claim)) = open
                .iter()
                .find(|(_, claim)| matches!(claim.phase, ClaimPhase::Dispatching))
            {
                let hasty = resolve(store, claim.action, says(OperatorFinding::NotApplied)).await;
                let stopped = matches!(
                    hasty,
                    Err(Unresolved::InFlight | Unresolved::Ended(_) | Unresolved::Store(_))
                );
                // What has become unknown meanwhile is an operator's to end, but not this hasty
                // one's.
                assert!(stopped, "an operator freed a key in flight: {hasty:?}");
                self.count("stopped an operator");
            }
            for (_, claim) in open {
                let is_old = store.now().saturating_sub(claim.changed) > SETTLED;
                if is_old
                    && matches!(claim.phase, ClaimPhase::Unknown { .. })
                    && !self.is_on_its_way(&claim)
                {
                    let verdict = self.verdict(&claim);
                    let name = format!("{verdict:?}");
                    self.tell(|| format!("an operator says of {}: {name}", claim.action));
                    if resolve(store, claim.action, says(verdict)).await.is_ok() {
                        self.count(name.split('(').next().unwrap_or_default());
                    }
                }
            }
        }
    }

    fn is_on_its_way(&self, claim: &Claim) -> bool {
        self.book
            .borrow()
            .held
            .get(&claim.action)
            .is_some_and(|calls| *calls > 0)
    }

    fn verdict(&self, claim: &Claim) -> OperatorFinding {
        let receipt = self.book.borrow().receipt_of(claim.action);
        match receipt {
            _ if self.once_in(6) => OperatorFinding::Abandon,
            Some(_) if self.once_in(3) => OperatorFinding::Applied(None),
            Some(receipt) => OperatorFinding::Applied(Some(Text::of(&receipt_of(&receipt)))),
            None => OperatorFinding::NotApplied,
        }
    }

    /// The process ends where it stands; what the kernel has, or with `is_power` the disk, is what
    /// the next one finds.
    pub(super) async fn crash(self: &Rc<Self>, is_power: bool) {
        match (&self.kind, self.process.borrow().as_ref()) {
            (Kind::Paper(disk), Some(process)) => {
                for (action, is_sent) in process.paper.iter().flat_map(|paper| paper.flying()) {
                    if is_power || is_sent {
                        self.book.borrow_mut().faults.insert(action);
                    }
                }
                disk.crash(is_power);
            }
            (Kind::Embedded(stand), Some(_)) => {
                let left = stand.borrow().killed();
                self.fault_all();
                stand.replace(left);
            }
            _ => return,
        }
        self.stop();
        self.count(if is_power { "power cuts" } else { "kills" });
        self.tell(|| format!("a crash, of the machine: {is_power}"));
        self.some(3000).await;
        self.start();
    }

    /// What can go wrong, goes wrong now and then.
    async fn break_things(self: &Rc<Self>) {
        let (mut jumped, mut crashes, mut strikes) = (0, 0, 0);
        while self.busy.get() > 0 {
            self.some(if strikes < 10 { 6000 } else { 200_000 }).await;
            strikes += 1;
            if self.once_in(2) {
                self.until_busy().await;
            }
            match (self.roll(7), &self.kind) {
                (0 | 1, Kind::Embedded(_)) if crashes < 3 => {
                    crashes += 1;
                    self.crash(false).await;
                }
                (kind @ (0 | 1), Kind::Paper(_)) if crashes < 6 => {
                    crashes += 1;
                    if kind == 1 {
                        // A machine that starts with a wrong clock is beyond what a store can see.
                        self.hands.jump(-std::mem::take(&mut jumped));
                    }
                    self.crash(kind == 1).await;
                }
                (2, Kind::Paper(disk)) => {
                    self.count("disks full");
                    disk.set_room(if self.once_in(2) {
                        SimulatedSpace::Reserve
                    } else {
                        SimulatedSpace::None
                    });
                    self.some(25_000).await;
                    if crashes < 6 && self.once_in(2) {
                        crashes += 1;
                        self.crash(false).await;
                    }
                    disk.set_room(SimulatedSpace::Enough);
                }
                (3, _) => {
                    let seconds = if jumped == 0 && self.once_in(2) {
                        -TEN_YEARS
                    } else {
                        TEN_YEARS
                    };
                    if jumped == 0 {
                        self.hands.jump(seconds);
                        jumped = seconds;
                    } else {
                        self.hands.jump(-std::mem::take(&mut jumped));
                    }
                }
                (4, _) => self.hands.freeze(self.once_in(2)),
                (5, _) => {
                    let line = self.line.borrow().clone();
                    line.inspect(|line| line.ends.cancel());
                }
                _ => {}
            }
        }
    }
}

fn says(verdict: OperatorFinding) -> Resolution {
    Resolution {
        verdict,
        who: "ops".to_owned(),
        why: "looked at the bank's page".to_owned(),
    }
}
