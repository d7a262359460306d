//! The book: what has happened, and what may happen next, by the events alone.

use super::super::super::command::{Reserve, Spend};
use super::super::super::undo::{OpenUndo, UndoTerms};
use super::*;
use std::collections::BTreeMap;

const EVIDENCE_KINDS: usize = 6;

/// Everything known, by its key.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ReferenceState {
    pub(super) claims: BTreeMap<Digest, Claim>,
    pub(super) tasks: BTreeMap<Digest, TaskUsage>,
    pub(super) sessions: BTreeMap<Digest, SessionFence>,
    pub(super) holds: BTreeMap<Digest, Hold>,
    pub(super) undos: BTreeMap<Digest, OpenUndo>,
}

impl ReferenceState {
    fn view(&self, place: StoreKeys) -> StoreView {
        StoreView {
            account: None,
            claim: place.call.and_then(|key| self.claims.get(&key).cloned()),
            task: place.task.and_then(|key| self.tasks.get(&key).cloned()),
            session: place
                .session
                .and_then(|key| self.sessions.get(&key).copied()),
            hold: place.hold.and_then(|key| self.holds.get(&key).cloned()),
            grant: None,
            undo: place.undo.and_then(|key| self.undos.get(&key).cloned()),
            waiting: WaitingHolds::default(),
            grants: LiveGrants::default(),
        }
    }

    pub(super) fn apply(&mut self, event: &StoreEvent) {
        let place = event.place();
        let mut view = self.view(place);
        apply(event, &mut view);
        self.claims.extend(place.call.zip(view.claim));
        self.tasks.extend(place.task.zip(view.task));
        self.sessions.extend(place.session.zip(view.session));
        self.holds.extend(place.hold.zip(view.hold));
        self.undos.extend(place.undo.zip(view.undo));
    }
}

/// How a call is taken back.
fn any_terms() -> UndoTerms {
    UndoTerms {
        within: 1000,
        ..undone_by("bank__undo")
    }
}

/// A reservation in the book.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReferenceReservation {
    pub(super) task: Digest,
    pub(super) tool: &'static str,
    pub(super) reserved: u64,
    pub(super) cost: u64,
    pub(super) is_released: bool,
    pub(super) at: Millis,
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

impl KeyExpectation {
    /// The call that was begun is one of those.
    fn assert_met_by(self, intended: &Intended, now: Millis) {
        match self {
            Self::Begin => assert_eq!(intended.round, 0),
            Self::From(time) => assert!(
                now >= time && intended.round == 0,
                "too early: {intended:?}"
            ),
            Self::Round(before) => assert!(
                intended.round > 0 && intended.brought.is_some() && intended.brought != before,
                "{intended:?}"
            ),
            Self::Nothing => {
                panic!("sent twice without a proof that nothing ran: {intended:?}")
            }
        }
    }

    /// What the key of `intent` may do after `phase`, when the claim is over at `ended`.
    fn after(phase: &ClaimPhase, intent: &Intent, ended: Millis) -> Self {
        match phase {
            ClaimPhase::NotSent => Self::Begin,
            ClaimPhase::Failed { answer, again } if *again || answer.is_none() => Self::Begin,
            ClaimPhase::Failed { .. } | ClaimPhase::Completed(_) => Self::From(ended),
            ClaimPhase::AwaitingInput { is_task: true, .. } => Self::Nothing,
            ClaimPhase::AwaitingInput { .. } => Self::Round(intent.round),
            // Time is no proof of what an operator abandoned.
            ClaimPhase::Abandoned | ClaimPhase::Unknown { .. } | ClaimPhase::Dispatching => {
                Self::Nothing
            }
        }
    }
}

/// What becomes of the reservation after `phase`; what took place costs `cost`.
fn charge_of(phase: &ClaimPhase, reserved: u64, cost: Option<u64>) -> Charge {
    let cost = cost.unwrap_or(reserved);
    match phase {
        ClaimPhase::NotSent | ClaimPhase::Failed { .. } => Charge::Release,
        ClaimPhase::Completed(_) => Charge::Settle(cost),
        ClaimPhase::Abandoned => Charge::Settle(reserved),
        ClaimPhase::AwaitingInput { .. } | ClaimPhase::Unknown { .. } | ClaimPhase::Dispatching => {
            Charge::Hold
        }
    }
}

fn evidence(word: usize) -> Evidence {
    let evidence = [
        Evidence::Late,
        Evidence::UpstreamKey,
        Evidence::Restart,
        Evidence::Probe,
        operator(),
    ];
    evidence
        .into_iter()
        .nth(word % EVIDENCE_KINDS)
        .unwrap_or(Evidence::Exchange)
}

#[derive(Debug)]
pub(super) struct ReferenceStore {
    pub(super) limits: BudgetLimits,
    pub(super) world: ReferenceState,
    pub(super) events: Vec<StoreEvent>,
    now: Millis,
    token: u64,
    pub(super) paid: Vec<ReferenceReservation>,
    /// By call key: what it may do, what pays for it, and its last call.
    keys: BTreeMap<Digest, (KeyExpectation, usize, Intent)>,
    /// By call key: the rounds that the server answered by asking, and until when that counts.
    answered: BTreeMap<Digest, (Vec<Option<Digest>>, Millis)>,
    /// Reservations of calls without a claim that are still open.
    open: Vec<usize>,
    pub(super) failures: BTreeMap<Digest, u64>,
}

impl ReferenceStore {
    pub(super) fn new(limits: BudgetLimits) -> Self {
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
            let claim = self.world.claims.get(&key);
            place.task = claim.map(|claim| claim.task);
            place.undo = claim.and_then(|claim| claim.undoes).map(OpenUndo::key_of);
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

    fn newest(&self, session: &Digest) -> Option<u64> {
        let session = self.world.sessions.get(session);
        session.map(|session| session.token)
    }

    pub(super) fn take(&mut self, step: &RandomStep) {
        match *step {
            RandomStep::Begin(begin) => self.begin(begin),
            RandomStep::Settle(settle) => self.settle(settle),
            RandomStep::Reserve { task, tool, cost } => self.reserve(task, tool, cost),
            RandomStep::Spend {
                which,
                charge,
                failed,
            } if !self.open.is_empty() => {
                let index = self.open.swap_remove(which.index(self.open.len()));
                self.spend(index, charge, failed);
            }
            RandomStep::Spend { .. } => {}
            RandomStep::Fence { session, stale } => {
                let (session, token) = (Digest::of(&[b's', session]), self.token(stale));
                let newest = self.newest(&session);
                let fenced = self.run(&StoreCommand::Fence { session, token });
                assert_eq!(fenced.is_ok(), newest.is_none_or(|newest| token > newest));
            }
            RandomStep::Wait(time) => self.now += time,
        }
    }

    fn reserve(&mut self, task: u8, tool: usize, cost: u64) {
        let price = Price {
            tool: ToolName::new(TOOL_NAMES[tool]),
            cost,
        };
        let task = Digest::of(&[b't', task]);
        let reserve = Reserve {
            account: None,
            task,
            limits: self.limits.clone(),
            price,
            origin: None,
            hold: None,
            edited: None,
        };
        if self.run(&StoreCommand::Reserve(reserve)).is_ok() {
            self.open.push(self.paid.len());
            self.pay(task, TOOL_NAMES[tool], cost);
        }
    }

    fn spend(&mut self, index: usize, charge: u8, failed: bool) {
        let paid = self.paid[index];
        let charge = [
            Charge::Release,
            Charge::Hold,
            Charge::Settle(paid.reserved / 2),
        ][usize::from(charge)];
        let tool = ToolName::new(paid.tool);
        let spend = Spend {
            account: None,
            task: paid.task,
            tool,
            charge: Some((paid.reserved, charge)),
            failed,
            seen: None,
            since: None,
            is_refused: false,
            is_past: false,
        };
        self.run(&StoreCommand::Spend(spend)).unwrap();
        self.charge(index, charge, failed && charge != Charge::Release);
    }

    fn intent_of(&mut self, step: RandomBegin) -> Intent {
        Intent {
            key: Digest::of(&[b'k', step.key]),
            fingerprint: Digest::of(&[step.fingerprint]),
            round: step.round.map(|round| Digest::of(&[b'r', round])),
            ttl: 1000,
            keep: if step.keep { 10_000 } else { 0 },
            task: Digest::of(&[b't', step.task]),
            session: Digest::of(&[b's', step.session]),
            limits: self.limits.clone(),
            price: Price {
                tool: ToolName::new(TOOL_NAMES[step.tool]),
                cost: step.cost,
            },
            entry: entry(TOOL_NAMES[step.tool]),
            undo: (step.tool == 0).then(|| Box::new(any_terms())),
            ..intent("", self.token(step.stale))
        }
    }

    fn begin(&mut self, step: RandomBegin) {
        let intent = self.intent_of(step);
        let newest = self.newest(&intent.session);
        let known = self.keys.get(&intent.key);
        let (may, paid) = known.map_or((KeyExpectation::Begin, None), |known| {
            (known.0, Some(known.1))
        });
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
        may.assert_met_by(&intended, self.now);
        let paid = paid.filter(|_| intended.round > 0).unwrap_or_else(|| {
            self.pay(intent.task, TOOL_NAMES[step.tool], step.cost);
            self.paid.len() - 1
        });
        self.keys
            .insert(intent.key, (KeyExpectation::Nothing, paid, intent));
    }

    /// The `nth` of all phases; a question is one of a round of its own.
    fn phase(&self, nth: usize) -> ClaimPhase {
        match phases().swap_remove(nth) {
            Some(ClaimPhase::AwaitingInput { asked, .. }) => {
                let rounds = self
                    .events
                    .iter()
                    .filter(|event| matches!(event, StoreEvent::Settled(_)))
                    .count();
                ClaimPhase::AwaitingInput {
                    round: u32::try_from(rounds).unwrap() + 1,
                    asked,
                    is_task: rounds % 4 == 3,
                }
            }
            phase => phase.unwrap_or(ClaimPhase::Dispatching),
        }
    }

    fn settle(&mut self, step: RandomSettle) {
        let key = Digest::of(&[b'k', step.key]);
        let Some((_, paid, intent)) = self.keys.get(&key).cloned() else {
            return;
        };
        let (evidence, phase) = (evidence(step.word), self.phase(step.phase));
        let cost = step.cost.map(|cost| cost.min(self.paid[paid].reserved));
        let action = if step.stranger {
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
        let failed = settle.failed && !was_unknown && settle.phase != ClaimPhase::NotSent;
        if self.run(&StoreCommand::Settle(settle)).is_err() {
            return;
        }
        assert!(!step.stranger, "a stranger settled a claim");
        let ended = self.now + intent.ttl + intent.keep;
        self.note_round(&intent, &phase, ended);
        if is_operator && self.world.claims[&key].is_released() {
            self.answered.entry(key).or_default().0.clear();
        }
        let may = KeyExpectation::after(&phase, &intent, ended);
        let charge = charge_of(&phase, self.paid[paid].reserved, cost);
        self.keys.insert(key, (may, paid, intent));
        self.charge(paid, charge, failed);
    }

    /// Notes that the server answered the round of `intent` by asking, and until when that counts.
    fn note_round(&mut self, intent: &Intent, phase: &ClaimPhase, ended: Millis) {
        let (answered, forgotten) = self.answered.entry(intent.key).or_default();
        *forgotten = if phase.is_final() && *phase != ClaimPhase::Abandoned {
            ended
        } else {
            Millis::MAX
        };
        if matches!(phase, ClaimPhase::AwaitingInput { .. }) {
            answered.push(intent.round);
        }
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
}
