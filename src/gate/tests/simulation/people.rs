//! The same where people decide: calls are held, changed, allowed, denied and granted, and grants are taken
//! back, while all else goes wrong (guarantees §7; I3 of threat-model §12).

use super::played_seeds::PlayedSeeds;
use super::process::Ground;
use super::{
    Book, Counts, Kind, OUTSIDE, SimulatedDisk, SimulatedWorld, TestClock, add, in_paused_time,
};
use crate::gate::Gate;
use crate::guards::approval::grants::digest_of_beside;
use crate::model::absence::DecidingRight;
use crate::model::amount::Amount;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::store::approvals::editing::{EditRequest, edit};
use crate::store::approvals::{OpenHold, show};
use crate::store::claims::Store;
use crate::store::grants::{ShownCall, mint, revoke};
use crate::store::state::command::{Decide, StoreCommand};
use crate::store::state::event::{HoldDecided, Intended, StoreEvent};
use crate::store::state::grant::{ArgumentConstraint, ArgumentRule, Grant, GrantScope};
use crate::store::state::hold::{Hold, HoldPhase, Undecided};
use crate::store::state::{CommandRefusal, Millis};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Seeds that are run when nothing else is asked for, and tests that share them.
const SEEDS: u64 = 100;
const PARTS: u64 = 2;
/// What operators make of an amount, at least: agents say less.
const LEAST_CHANGED: u64 = 1_000;
/// What must be seen: where nobody decides, nothing is shown.
const EXPECTED: [&str; 16] = [
    "allowed",
    "denied",
    "granted",
    "taken back",
    "changed",
    "words on what was changed since",
    "ran with a word",
    "ran as allowed",
    "ran as changed",
    "ran with a grant",
    "approval_pending",
    "approval_denied",
    "kills",
    "power cuts",
    "disks full",
    "replays",
];

/// Holds and grants that can be used, by their keys, as the journal tells of them in its order.
#[derive(Default)]
struct WordsSaid {
    /// Until when a held call may be allowed, and how long it may run then.
    held: BTreeMap<Digest, Hold>,
    /// What each that is held would bring, as an operator may have changed it.
    shown: BTreeMap<Digest, Value>,
    /// Until when an allowed call may begin, and what it may bring.
    allowed: BTreeMap<Digest, (Millis, Value)>,
    /// The amount with which each call that began by a word was allowed.
    as_allowed: BTreeMap<ActionId, Value>,
    granted: BTreeMap<Digest, Grant>,
    revoked: BTreeSet<ActionId>,
    /// The grant that a call began with.
    by_grant: BTreeMap<ActionId, Digest>,
}

impl WordsSaid {
    fn decided(&mut self, decided: &HoldDecided) {
        let execute_for = self.held[&decided.key].execute_for;
        let is_allowed = decided.phase == HoldPhase::Allowed;
        if is_allowed {
            let until = decided.decision.at + execute_for;
            let shown = self.shown[&decided.key].clone();
            self.allowed.insert(decided.key, (until, shown));
        } else {
            self.allowed.remove(&decided.key);
        }
    }

    /// A call that people decide on begins with a word that stands, which is used up, or with a grant
    /// that stands.
    fn begun(&mut self, intended: &Intended, book: &Book) -> Option<&'static str> {
        let action = intended.action;
        if book.is_free(action) || intended.attempt > 1 {
            return None;
        }
        if let Some(used) = &intended.grant {
            let grant = &self.granted[&used.key];
            assert!(
                intended.at < grant.until && !self.revoked.contains(&grant.id),
                "I3: {action} begins with a grant that is over: {grant:?}"
            );
            self.by_grant.insert(action, used.key);
            return Some("ran with a grant");
        }
        let word = intended.hold.and_then(|key| self.allowed.remove(&key));
        let (until, allowed) = word.unwrap_or_default();
        assert!(
            intended.at < until,
            "I3: {action} begins without a person's word: {until}"
        );
        self.as_allowed.insert(action, allowed["amount"].clone());
        Some("ran with a word")
    }

    /// What the bank was given is what the last word allowed; gives how often it was, and how often it was not
    /// what the agent had sent.
    fn check_arguments(&self, amounts: &BTreeMap<ActionId, Value>) -> (usize, usize) {
        let ran = |action| Some((self.as_allowed.get(action)?, amounts.get(action)?));
        let ran: Vec<_> = self.as_allowed.keys().filter_map(ran).collect();
        for (allowed, given) in &ran {
            assert_eq!(allowed, given, "I3: not what a person has allowed");
        }
        let changed = ran.iter().filter(|(_, given)| is_changed(given));
        (ran.len(), changed.count())
    }

    /// No grant covers more of what the bank did than it says.
    fn check_uses(&self, done: impl Iterator<Item = ActionId>) {
        let mut uses: BTreeMap<Digest, u64> = BTreeMap::new();
        for key in done.filter_map(|action| self.by_grant.get(&action)) {
            *uses.entry(*key).or_default() += 1;
        }
        for (key, used) in uses {
            let grant = &self.granted[&key];
            assert!(used <= grant.max_uses, "I3: {used} calls of {grant:?}");
        }
    }
}

impl Book {
    /// Whether nobody is asked about the call.
    fn is_free(&self, action: ActionId) -> bool {
        super::agents::tool(self.actions[&action]) == "order"
    }
}

/// I3: what the journal says of each call that began.
fn check_words(world: &SimulatedWorld, events: Vec<StoreEvent>, book: &Book) {
    let mut said = WordsSaid::default();
    for event in events {
        match event {
            StoreEvent::Held(held) => {
                said.allowed.remove(&held.key);
                let arguments = held.hold.question.arguments.clone();
                said.shown.insert(held.key, arguments);
                said.held.insert(held.key, held.hold);
            }
            StoreEvent::Decided(decided) => said.decided(&decided),
            StoreEvent::Edited(edited) => {
                said.allowed.remove(&edited.key);
                said.shown.insert(edited.key, edited.arguments);
            }
            StoreEvent::Granted(minted) => {
                let key = Grant::key_of(minted.grant.id);
                said.granted.insert(key, minted.grant);
                if let Some(word) = &minted.allowed {
                    said.decided(word);
                }
            }
            StoreEvent::Revoked(revoked) => {
                said.revoked.insert(revoked.id);
            }
            StoreEvent::Intended(intended) => {
                let how = said.begun(&intended, book);
                if let Some(how) = how {
                    world.count(how);
                }
            }
            StoreEvent::Settled(_)
            | StoreEvent::Reserved(_)
            | StoreEvent::Spent(_)
            | StoreEvent::Tallied(_)
            | StoreEvent::Entered { .. }
            | StoreEvent::Planned { .. }
            | StoreEvent::Steered(_)
            | StoreEvent::Fenced { .. }
            | StoreEvent::Extended(_)
            | StoreEvent::UndoAsked(_)
            | StoreEvent::Noted(_)
            | StoreEvent::Carried(_) => {}
        }
    }
    said.check_uses(book.done.keys().copied());
    let (ran, changed) = said.check_arguments(&book.amounts);
    for _ in 0..ran {
        world.count("ran as allowed");
    }
    for _ in 0..changed {
        world.count("ran as changed");
    }
}

/// Whether it is an amount that an operator gives, and no agent.
fn is_changed(amount: &Value) -> bool {
    amount.as_u64() >= Some(LEAST_CHANGED)
}

impl SimulatedWorld {
    /// A person looks now and then, and says of each call that waits what the dice say.
    pub(super) async fn looks_and_decides(self: &Rc<Self>) {
        let mut grants = Vec::new();
        while self.busy.get() > 0 {
            self.some(8000).await;
            let Some(gate) = self.gate() else { continue };
            let store = &*gate.effects.store;
            let mut held = store.holds(100).await.unwrap_or_default();
            held.sort_by_key(|(_, hold)| hold.id);
            for (key, hold) in held {
                // What is said below is about the call as it was before.
                if self.once_in(4) {
                    Box::pin(self.changes(&gate, &hold)).await;
                }
                match self.roll(8) {
                    0 => self.says(store, (key, &hold), false).await,
                    1..4 => self.says(store, (key, &hold), true).await,
                    4 | 5 => grants.extend(self.grants(store, (key, &hold)).await),
                    _ => {}
                }
            }
            if self.once_in(4)
                && let Some(id) = grants.pop()
                && revoke(store, id, "ann", "enough").await.is_ok()
            {
                self.count("taken back");
            }
        }
    }

    async fn says(&self, store: &dyn Store, (key, hold): (Digest, &Hold), allow: bool) {
        let decide = StoreCommand::Decide(word(key, hold, allow));
        match store.run(decide, None).await {
            Ok(Ok(_)) => self.count(if allow { "allowed" } else { "denied" }),
            Ok(Err(CommandRefusal::Undecided(Undecided::Edited))) => {
                self.count("words on what was changed since");
            }
            Ok(Err(_)) | Err(_) => {}
        }
    }

    /// Changes the amount of the call as it was looked at, if its contract lets people.
    async fn changes(&self, gate: &Gate, hold: &Hold) {
        let store = &*gate.effects.store;
        let Ok(Some(OpenHold { shown, .. })) = show(store, &|_| None, hold.id).await else {
            return;
        };
        let amount = json!(LEAST_CHANGED + self.roll(1_000));
        let asked = EditRequest {
            who: "ann".to_owned(),
            right: right(),
            why: "less is enough".to_owned(),
            shown,
            surface: "api".to_owned(),
            changes: [("/amount".to_owned(), amount)].into(),
        };
        let edited = Box::pin(edit(store, &|_| None, gate, hold.id, asked)).await;
        if edited.is_ok() {
            self.count("changed");
        }
    }

    /// Grants calls like the one that is held, which now and then is allowed with that.
    async fn grants(&self, store: &dyn Store, (key, hold): (Digest, &Hold)) -> Option<ActionId> {
        let shown = self.once_in(2).then(|| ShownCall {
            allow: word(key, hold, true),
            asked: hold.asked,
        });
        let grant = grant_like(self.action(0), hold, 1 + self.roll(3));
        let minted = mint(store, grant, 20_000 + self.roll(100_000), shown).await;
        let minted = minted.ok()?;
        self.count("granted");
        Some(minted.grant.id)
    }
}

fn word(key: Digest, hold: &Hold, allow: bool) -> Decide {
    Decide {
        key,
        id: hold.id,
        who: "ann".to_owned(),
        right: right(),
        allow,
        why: "it is due".to_owned(),
        surface: None,
        edits: hold.edits.len(),
    }
}

fn right() -> DecidingRight {
    DecidingRight {
        roles: vec!["finance".to_owned()],
        on_behalf: None,
    }
}

fn grant_like(id: ActionId, hold: &Hold, max_uses: u64) -> Grant {
    let question = &hold.question;
    Grant {
        id,
        minted: 0,
        until: 0,
        max_uses,
        scope: GrantScope {
            agent: question.agent.clone(),
            tenant: question.tenant.clone(),
            user: question.user.clone(),
            tool: question.tool.clone(),
            schema_hash: question.schema_hash.clone(),
            bound_to: question.bound_to.clone().unwrap(),
            beside: question.beside.as_ref().map(digest_of_beside),
        },
        constraints: ["/deed", "/amount"]
            .map(|pointer| ArgumentConstraint {
                pointer: pointer.to_owned(),
                numbered_members: Vec::new(),
                is: ArgumentRule::Any,
            })
            .into(),
        total: None,
        who: "ann".to_owned(),
        why: "each day".to_owned(),
        roles: vec!["finance".to_owned()],
        shown: None,
        uses: 0,
        moved: Amount::default(),
        last: None,
        revoked: None,
    }
}

/// Runs one seed to its end, checks it, and gives what happened how often.
fn run(seed: u64) -> Counts {
    thread_local! {
        static GROUND: Rc<Ground> = Rc::new(Ground::decided_by_people());
    }
    in_paused_time(async {
        let kind = Kind::Paper(SimulatedDisk::new(seed));
        let world = SimulatedWorld::on(GROUND.with(Rc::clone), seed, TestClock::new(), kind);
        let begin = |world: &Rc<SimulatedWorld>| {
            world.populate();
            let person = world.clone();
            world.schedule.spawn(OUTSIDE, async move {
                Box::pin(person.looks_and_decides()).await;
            });
        };
        world.plays(begin).await;
        let paper = world.process.borrow().as_ref().unwrap().paper.clone();
        let mut book = world.book.take();
        let mut counts = std::mem::take(&mut book.counts);
        check_words(&world, paper.unwrap().reread(), &book);
        add(&mut counts, world.book.replace(book).counts);
        Box::pin(world.check()).await;
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
    .play(part, run);
}

/// guarantees §7: I1 to I9 where people decide.
#[test]
fn nothing_that_people_decide_on_runs_without_their_word_1() {
    run_part(0);
}

/// The other half of the seeds.
#[test]
fn nothing_that_people_decide_on_runs_without_their_word_2() {
    run_part(1);
}
