//! What holds after any commands at any times, by the events alone: a book of its own is kept
//! beside the state machine and compared with it. guarantees §1, 003-27, 004-13, 004-25, 004-28.

use super::super::budget::Rate;
use super::super::claim::claim_status;
use super::super::command::{Reserve, Spend};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TOOL_NAMES: [&str; 2] = ["bank__pay", "bank__see"];
const EVIDENCE_KINDS: usize = 6;

/// Something that happens. Names are numbers, so that they meet.
#[derive(Debug, Clone)]
enum RandomStep {
    Begin {
        key: u8,
        fingerprint: u8,
        round: Option<u8>,
        place: (u8, u8),
        stale: bool,
        tool: usize,
        cost: u64,
        keep: bool,
    },
    Settle {
        key: u8,
        stranger: bool,
        phase: usize,
        word: usize,
        cost: Option<u64>,
    },
    Reserve {
        task: u8,
        tool: usize,
        cost: u64,
    },
    Spend {
        which: prop::sample::Index,
        charge: u8,
        failed: bool,
    },
    Fence {
        session: u8,
        stale: bool,
    },
    Wait(u64),
}

fn step() -> impl Strategy<Value = RandomStep> {
    let begin = (
        0..3_u8,
        0..8_u8,
        prop::option::weighted(0.3, 0..3_u8),
        (0..2_u8, 0..2_u8),
        0..10_u8,
        0..2_usize,
        0..4_u64,
    );
    prop_oneof![
        4 => begin.prop_map(|(key, fingerprint, round, place, stale, tool, cost)| RandomStep::Begin {
            key, fingerprint: fingerprint / 7, round, place, stale: stale == 0, tool, cost, keep: key == 0,
        }),
        5 => (0..3_u8, 0..10_u8, 0..7_usize, 0..30_usize, prop::option::of(0..4_u64)).prop_map(
            |(key, stranger, phase, word, cost)| RandomStep::Settle { key, stranger: stranger == 0, phase, word, cost }
        ),
        1 => (0..2_u8, 0..2_usize, 0..4_u64).prop_map(|(task, tool, cost)| RandomStep::Reserve { task, tool, cost }),
        1 => (any::<prop::sample::Index>(), 0..3_u8, any::<bool>())
            .prop_map(|(which, charge, failed)| RandomStep::Spend { which, charge, failed }),
        1 => (0..2_u8, any::<bool>()).prop_map(|(session, stale)| RandomStep::Fence { session, stale }),
        2 => prop_oneof![0..50_u64, 900..1100_u64, Just(20_000_u64), Just(315_360_000_000_u64)].prop_map(RandomStep::Wait),
    ]
}

fn limits() -> impl Strategy<Value = BudgetLimits> {
    let some = |most: u64| prop::option::of(0..most);
    (
        some(30),
        some(20),
        some(40),
        some(12),
        prop::option::of((1..5_u64, 1..300_u64)),
    )
        .prop_map(
            |(steps, tool_calls, cost, calls_per_tool, rate)| BudgetLimits {
                steps,
                tool_calls,
                cost,
                calls_per_tool,
                rate: rate.map(|(calls, per)| Rate { calls, per }),
                ..BudgetLimits::default()
            },
        )
}

/// Everything known, by its key.
#[derive(Debug, Clone, Default, PartialEq)]
struct ReferenceState {
    claims: BTreeMap<Digest, Claim>,
    tasks: BTreeMap<Digest, TaskUsage>,
    sessions: BTreeMap<Digest, SessionFence>,
    holds: BTreeMap<Digest, Hold>,
}

impl ReferenceState {
    fn view(&self, place: StoreKeys) -> StoreView {
        StoreView {
            claim: place.call.and_then(|key| self.claims.get(&key).cloned()),
            task: place.task.and_then(|key| self.tasks.get(&key).cloned()),
            session: place
                .session
                .and_then(|key| self.sessions.get(&key).copied()),
            hold: place.hold.and_then(|key| self.holds.get(&key).cloned()),
            waiting: WaitingHolds::default(),
        }
    }

    fn apply(&mut self, event: &StoreEvent) {
        let place = event.place();
        let mut view = self.view(place);
        apply(event, &mut view);
        self.claims.extend(place.call.zip(view.claim));
        self.tasks.extend(place.task.zip(view.task));
        self.sessions.extend(place.session.zip(view.session));
        self.holds.extend(place.hold.zip(view.hold));
    }
}

/// A reservation in the book.
#[derive(Debug, Clone, Copy)]
struct ReferenceReservation {
    task: Digest,
    tool: &'static str,
    reserved: u64,
    cost: u64,
    is_released: bool,
    at: Millis,
}

/// What a key may do, by the events alone.
#[derive(Debug, Clone, Copy, PartialEq)]
enum KeyExpectation {
    Begin,
    Round(Option<Digest>),
    Nothing,
    /// Until then nothing.
    From(Millis),
}

#[derive(Debug)]
struct ReferenceStore {
    limits: BudgetLimits,
    world: ReferenceState,
    events: Vec<StoreEvent>,
    now: Millis,
    token: u64,
    paid: Vec<ReferenceReservation>,
    /// By call key: what it may do, what pays for it, and its last call.
    keys: BTreeMap<Digest, (KeyExpectation, usize, Intent)>,
    /// By call key: the rounds that the server answered by asking, and until when that counts.
    answered: BTreeMap<Digest, (Vec<Option<Digest>>, Millis)>,
    /// Reservations of calls without a claim that are still open.
    open: Vec<usize>,
    failures: BTreeMap<Digest, u64>,
}

impl ReferenceStore {
    fn new(limits: BudgetLimits) -> Self {
        Self {
            limits,
            world: ReferenceState::default(),
            events: Vec::new(),
            now: START_MS,
            token: 0,
            paid: Vec::new(),
            keys: BTreeMap::new(),
            answered: BTreeMap::new(),
            open: Vec::new(),
            failures: BTreeMap::new(),
        }
    }

    fn run(&mut self, command: &StoreCommand) -> Result<StoreEvent, CommandRefusal> {
        let mut place = command.place();
        if let (StoreCommand::Settle(_), Some(key)) = (command, place.call) {
            place.task = self.world.claims.get(&key).map(|claim| claim.task);
        }
        let view = self.world.view(place);
        let event = decide(command, &view, self.now)?;
        assert_eq!(
            decide(command, &view, self.now).as_ref(),
            Ok(&event),
            "decisions are repeatable"
        );
        self.world.apply(&event);
        self.events.push(event.clone());
        Ok(event)
    }

    fn token(&mut self, stale: bool) -> u64 {
        self.token += 1;
        if stale { self.token / 2 } else { self.token }
    }

    fn take(&mut self, step: &RandomStep) {
        match *step {
            RandomStep::Begin { .. } => self.begin(step),
            RandomStep::Settle {
                key,
                stranger,
                phase,
                word,
                cost,
            } => self.settle((key, stranger), phase, word, cost),
            RandomStep::Reserve { task, tool, cost } => {
                let price = Price {
                    tool: ToolName::new(TOOL_NAMES[tool]),
                    cost,
                };
                let task = Digest::of(&[b't', task]);
                let reserve = Reserve {
                    task,
                    limits: self.limits.clone(),
                    price,
                };
                if self.run(&StoreCommand::Reserve(reserve)).is_ok() {
                    self.open.push(self.paid.len());
                    self.pay(task, TOOL_NAMES[tool], cost);
                }
            }
            RandomStep::Spend {
                which,
                charge,
                failed,
            } if !self.open.is_empty() => {
                let index = self.open.swap_remove(which.index(self.open.len()));
                let paid = self.paid[index];
                let charge = [
                    Charge::Release,
                    Charge::Hold,
                    Charge::Settle(paid.reserved / 2),
                ][usize::from(charge)];
                let tool = ToolName::new(paid.tool);
                let spend = Spend {
                    task: paid.task,
                    tool,
                    charge: Some((paid.reserved, charge)),
                    failed,
                    seen: None,
                };
                self.run(&StoreCommand::Spend(spend)).unwrap();
                self.charge(index, charge, failed);
            }
            RandomStep::Spend { .. } => {}
            RandomStep::Fence { session, stale } => {
                let (session, token) = (Digest::of(&[b's', session]), self.token(stale));
                let newest = self
                    .world
                    .sessions
                    .get(&session)
                    .map(|session| session.token);
                let fenced = self.run(&StoreCommand::Fence { session, token });
                assert_eq!(fenced.is_ok(), newest.is_none_or(|newest| token > newest));
            }
            RandomStep::Wait(time) => self.now += time,
        }
    }

    fn begin(&mut self, step: &RandomStep) {
        let RandomStep::Begin {
            key,
            fingerprint,
            round,
            place,
            stale,
            tool,
            cost,
            keep,
        } = *step
        else {
            return;
        };
        let (task, session) = (Digest::of(&[b't', place.0]), Digest::of(&[b's', place.1]));
        let intent = Intent {
            key: Digest::of(&[b'k', key]),
            fingerprint: Digest::of(&[fingerprint]),
            round: round.map(|round| Digest::of(&[b'r', round])),
            ttl: 1000,
            keep: if keep { 10_000 } else { 0 },
            task,
            session,
            limits: self.limits.clone(),
            price: Price {
                tool: ToolName::new(TOOL_NAMES[tool]),
                cost,
            },
            entry: entry(TOOL_NAMES[tool]),
            ..intent("", self.token(stale))
        };
        let newest = self
            .world
            .sessions
            .get(&session)
            .map(|session| session.token);
        let may = self
            .keys
            .get(&intent.key)
            .map_or(KeyExpectation::Begin, |known| known.0);
        let Ok(event) = self.run(&StoreCommand::Begin(Box::new(intent.clone()))) else {
            return;
        };
        let StoreEvent::Intended(intended) = event else {
            panic!("{event:?}")
        };
        assert!(
            newest.is_none_or(|newest| intended.fence > newest),
            "a token that is not newer began something"
        );
        let (answered, forgotten) = self.answered.entry(intent.key).or_default();
        if self.now >= *forgotten {
            answered.clear();
        }
        assert!(
            !answered.contains(&intended.brought),
            "a round that was answered is sent again: {intended:?}"
        );
        match may {
            KeyExpectation::Begin => assert_eq!(intended.round, 0),
            KeyExpectation::From(time) => assert!(
                self.now >= time && intended.round == 0,
                "too early: {intended:?}"
            ),
            KeyExpectation::Round(before) => {
                assert!(
                    intended.round > 0 && intended.brought.is_some() && intended.brought != before,
                    "{intended:?}"
                );
            }
            KeyExpectation::Nothing => {
                panic!("sent twice without a proof that nothing ran: {intended:?}")
            }
        }
        let paid = self
            .keys
            .get(&intent.key)
            .map(|known| known.1)
            .filter(|_| intended.round > 0);
        let paid = paid.unwrap_or_else(|| {
            self.pay(task, TOOL_NAMES[tool], cost);
            self.paid.len() - 1
        });
        self.keys
            .insert(intent.key, (KeyExpectation::Nothing, paid, intent));
    }

    fn settle(
        &mut self,
        (key, stranger): (u8, bool),
        phase: usize,
        word: usize,
        cost: Option<u64>,
    ) {
        let key = Digest::of(&[b'k', key]);
        let Some((_, paid, intent)) = self.keys.get(&key).cloned() else {
            return;
        };
        let evidence = [
            Evidence::Late,
            Evidence::UpstreamKey,
            Evidence::Restart,
            Evidence::Probe,
            operator(),
        ];
        let evidence = evidence
            .into_iter()
            .nth(word % EVIDENCE_KINDS)
            .unwrap_or(Evidence::Exchange);
        let phase = match phases().swap_remove(phase) {
            Some(ClaimPhase::AwaitingInput { asked, .. }) => {
                let rounds = self
                    .events
                    .iter()
                    .filter(|event| matches!(event, StoreEvent::Settled(_)))
                    .count();
                ClaimPhase::AwaitingInput {
                    round: u32::try_from(rounds).unwrap() + 1,
                    asked,
                }
            }
            phase => phase.unwrap_or(ClaimPhase::Dispatching),
        };
        let cost = cost.map(|cost| cost.min(self.paid[paid].reserved));
        let action = if stranger {
            ActionId::generate()
        } else {
            intent.action
        };
        let was_unknown = matches!(self.world.claims[&key].phase, ClaimPhase::Unknown { .. });
        let is_operator = matches!(evidence, Evidence::Operator { .. });
        let settle = Settle {
            action,
            evidence,
            cost,
            ..settle(&intent, phase.clone())
        };
        let failed = settle.failed && !was_unknown;
        if self.run(&StoreCommand::Settle(settle)).is_err() {
            return;
        }
        assert!(!stranger, "a stranger settled a claim");
        let ended = self.now + intent.ttl + intent.keep;
        let (answered, forgotten) = self.answered.entry(key).or_default();
        *forgotten = if phase.is_final() && phase != ClaimPhase::Abandoned {
            ended
        } else {
            Millis::MAX
        };
        if matches!(phase, ClaimPhase::AwaitingInput { .. }) {
            answered.push(intent.round);
        }
        if is_operator && self.world.claims[&key].is_released() {
            answered.clear();
        }
        let (may, charge) = match &phase {
            ClaimPhase::NotSent => (KeyExpectation::Begin, Charge::Release),
            ClaimPhase::Failed { answer, again } if *again || answer.is_none() => {
                (KeyExpectation::Begin, Charge::Release)
            }
            ClaimPhase::Failed { .. } => (KeyExpectation::From(ended), Charge::Release),
            ClaimPhase::Completed(_) | ClaimPhase::Abandoned => {
                // Time is no proof of what an operator abandoned.
                let may = if phase == ClaimPhase::Abandoned {
                    KeyExpectation::Nothing
                } else {
                    KeyExpectation::From(ended)
                };
                (
                    may,
                    Charge::Settle(cost.unwrap_or(self.paid[paid].reserved)),
                )
            }
            ClaimPhase::AwaitingInput { .. } => (KeyExpectation::Round(intent.round), Charge::Hold),
            ClaimPhase::Unknown { .. } | ClaimPhase::Dispatching => {
                (KeyExpectation::Nothing, Charge::Hold)
            }
        };
        self.keys.insert(key, (may, paid, intent));
        self.charge(paid, charge, failed);
    }

    fn pay(&mut self, task: Digest, tool: &'static str, cost: u64) {
        self.paid.push(ReferenceReservation {
            task,
            tool,
            reserved: cost,
            cost,
            is_released: false,
            at: self.now,
        });
    }

    fn charge(&mut self, index: usize, charge: Charge, failed: bool) {
        let paid = &mut self.paid[index];
        match charge {
            Charge::Hold => {}
            Charge::Settle(cost) => paid.cost = cost,
            Charge::Release => (paid.cost, paid.is_released) = (0, true),
        }
        *self.failures.entry(paid.task).or_default() += u64::from(failed);
    }

    /// I6 and 003-27: counters are the sums of their reservations, and never above what was
    /// allowed.
    fn check(&self) {
        let within = |used: u64, limit: Option<u64>| limit.is_none_or(|limit| used <= limit);
        for (name, task) in &self.world.tasks {
            let mine: Vec<&ReferenceReservation> =
                self.paid.iter().filter(|paid| paid.task == *name).collect();
            let held = |paid: &&&ReferenceReservation| !paid.is_released;
            assert_eq!(task.steps, mine.len() as u64);
            assert_eq!(task.calls, mine.iter().filter(held).count() as u64);
            assert_eq!(task.cost, mine.iter().map(|paid| paid.cost).sum::<u64>());
            assert_eq!(
                task.failures,
                self.failures.get(name).copied().unwrap_or_default()
            );
            assert!(
                within(task.steps, self.limits.steps) && within(task.calls, self.limits.tool_calls)
            );
            assert!(within(task.cost, self.limits.cost));
            for tool in TOOL_NAMES {
                let of_tool: Vec<&&ReferenceReservation> =
                    mine.iter().filter(|paid| paid.tool == tool).collect();
                let calls = of_tool.iter().filter(|paid| !paid.is_released).count() as u64;
                assert_eq!(task.used(&ToolName::new(tool)).calls, calls);
                assert!(within(calls, self.limits.calls_per_tool));
                let Some(rate) = self.limits.rate else {
                    continue;
                };
                let times: Vec<u64> = of_tool.iter().map(|paid| paid.at).collect();
                for (first, from) in times.iter().enumerate() {
                    for (last, to) in times.iter().enumerate().skip(first) {
                        let most = rate.calls + (to - from) * rate.calls / rate.per;
                        assert!(
                            (last - first) as u64 <= most,
                            "{} calls in {} ms",
                            last - first + 1,
                            to - from
                        );
                    }
                }
            }
        }
    }

    /// Whatever was written can be read, and gives the same again (guarantees §8: the journal is
    /// the truth).
    fn replay(&self) {
        let mut world = ReferenceState::default();
        for event in &self.events {
            let read = StoreEvent::decode(&Bytes::from(event.encode().unwrap())).unwrap();
            world.apply(&read);
        }
        assert_eq!(world, self.world);
    }

    /// Time alone frees nothing that may have run (guarantees §3).
    fn outlive(&self) {
        for claim in self.world.claims.values() {
            let stands = claim_status(Some(claim), &claim.fingerprint, None, Millis::MAX);
            match &claim.phase {
                ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned => {
                    assert_eq!(stands, ClaimStatus::Unknown(claim.action));
                }
                ClaimPhase::Dispatching => assert_eq!(stands, ClaimStatus::InFlight(claim.action)),
                ClaimPhase::AwaitingInput { asked, .. } => {
                    assert_eq!(stands, ClaimStatus::Asked(asked.clone()));
                }
                ClaimPhase::Completed(_) | ClaimPhase::Failed { .. } | ClaimPhase::NotSent => {
                    assert!(matches!(stands, ClaimStatus::Open { .. }), "{stands:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_promises_hold(limits in limits(), steps in prop::collection::vec(step(), 1..80)) {
        let mut book = ReferenceStore::new(limits);
        for step in steps {
            book.take(&step);
            book.check();
        }
        book.replay();
        book.outlive();
    }

    /// An event that was decided once is applied to anything: a damaged index must not stop the journal's replay.
    #[test]
    fn events_apply_to_any_view(limits in limits(), steps in prop::collection::vec(step(), 1..60), skip in any::<u64>()) {
        let mut book = ReferenceStore::new(limits);
        for step in steps {
            book.take(&step);
        }
        let mut world = ReferenceState::default();
        let kept = book.events.iter().enumerate().filter(|(index, _)| skip >> (index % 64) & 1 == 0);
        kept.for_each(|(_, event)| world.apply(event));
    }
}
