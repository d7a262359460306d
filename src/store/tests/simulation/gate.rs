//! Steps 8 to 15 of SEMANTICS §2 as the gate takes them.

use super::World;
use super::server::Answer;
use crate::store::claims::Store;
use crate::store::lanes::{Lanes, Lease};
use crate::store::state::budget::Limits;
use crate::store::state::claim::{Phase, Standing, standing};
use crate::store::state::command::{Command, Intent, Settle};
use crate::store::state::digest::Digest;
use crate::store::state::event::{Event, Evidence};
use crate::store::state::tests::{HOUR, intent, settle};
use crate::store::state::{Place, Refused};
use bytes::Bytes;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot::Receiver;
use tokio::time::timeout;

/// Calls that a task may have sent.
pub(super) const LIMIT: u64 = 3;
/// How long an answer is waited for, and how long it is listened for after that.
pub(super) const TIMEOUT: Duration = Duration::from_secs(3);
const LISTENING: Duration = Duration::from_secs(60);
/// How long a duplicate is held.
const HOLD: Duration = Duration::from_secs(2);

/// What an agent asks for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// Which of the things that shall happen at most once.
    pub(super) deed: u64,
    pub(super) fingerprint: Digest,
    pub(super) round: Option<Digest>,
    pub(super) task: u64,
    /// Without one, it goes past the session's lane, as a second process would.
    pub(super) takes_lane: bool,
}

/// What the agent is told.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Told {
    Answer {
        is_error: bool,
        body: Bytes,
    },
    Question,
    NotRun(&'static str),
    Unknown,
    /// `duplicate_in_flight`.
    Held,
    Conflict,
}

/// One process's gate.
pub(super) struct Gate {
    pub(super) store: Arc<dyn Store>,
    pub(super) lanes: Arc<Lanes>,
    pub(super) group: u64,
    pub(super) world: Rc<World>,
}

/// The key that stands for a deed.
pub(super) fn key(deed: u64) -> Digest {
    Digest::of(&[&b"k"[..], &deed.to_le_bytes()].concat())
}

/// The task of that number.
pub(super) fn task(number: u64) -> Digest {
    Digest::of(&[&b"t"[..], &number.to_le_bytes()].concat())
}

impl Gate {
    pub(super) async fn serve(self: &Rc<Self>, asked: Asked) -> Told {
        loop {
            let place = Place { call: Some(key(asked.deed)), ..Place::default() };
            let Ok(view) = self.store.look(place).await else { return Told::NotRun("store_unavailable") };
            let now = self.store.now();
            let found = standing(view.claim.as_ref(), &asked.fingerprint, asked.round.as_ref(), now);
            if !matches!(found, Standing::Open { .. }) {
                match self.taken(found, &asked).await {
                    Some(told) => return told,
                    None => continue,
                }
            }
            let lease = match asked.takes_lane {
                true => match self.lanes.enter(task(asked.task)).await {
                    Ok(lease) => Some(lease),
                    Err(_) => return Told::NotRun("session_busy"),
                },
                false => None,
            };
            let intent = self.intent(&asked);
            self.world.pause().await;
            match self.store.run(Command::Begin(Box::new(intent.clone())), None).await {
                Ok(Ok(Event::Intended(intended))) => return self.dispatch(intent, intended.round, lease).await,
                Ok(Err(Refused::Taken(found))) => {
                    drop(lease);
                    if let Some(told) = self.taken(found, &asked).await {
                        return told;
                    }
                }
                Ok(Err(Refused::Budget(_))) => return Told::NotRun("budget_exceeded"),
                Ok(Err(Refused::Fenced { .. })) => return Told::NotRun("fenced"),
                Ok(other) => panic!("{other:?}"),
                Err(_) => return Told::NotRun("store_unavailable"),
            }
        }
    }

    fn intent(&self, asked: &Asked) -> Intent {
        Intent {
            key: key(asked.deed),
            fingerprint: asked.fingerprint,
            action: self.world.action(asked.deed),
            round: asked.round,
            ttl: 1000 * HOUR,
            task: task(asked.task),
            session: task(asked.task),
            limits: Limits { tool_calls: Some(LIMIT), ..Limits::default() },
            ..intent("", self.store.token())
        }
    }

    /// What there is to say of a key that is taken; nothing when it has to be looked at again.
    async fn taken(&self, found: Standing, asked: &Asked) -> Option<Told> {
        match found {
            Standing::Open { .. } => None,
            Standing::Ended(stored) => {
                let body = self.store.body(&stored).await.unwrap();
                Some(Told::Answer { is_error: stored.is_error, body })
            }
            Standing::Asked(_) => Some(Told::Question),
            Standing::InFlight(action) => {
                let ended = timeout(HOLD, self.store.ended(key(asked.deed), action)).await;
                ended.is_err().then_some(Told::Held)
            }
            Standing::Unknown(_) => Some(Told::Unknown),
            Standing::Conflict => Some(Told::Conflict),
            Standing::Expired => panic!("nothing is that old"),
        }
    }

    async fn dispatch(self: &Rc<Self>, intent: Intent, round: u32, lease: Option<Lease>) -> Told {
        self.world.pause().await;
        if self.world.once_in(12) || self.store.sent(intent.action).is_err() {
            return self.settled(settle(&intent, Phase::NotSent)).await;
        }
        let mut answer = self.world.send(&intent);
        let phase = match timeout(TIMEOUT, &mut answer).await {
            Ok(Ok(answer)) => phase(answer, round),
            Ok(Err(_)) => Phase::Unknown { why: "cut".to_owned() },
            Err(_) => {
                let (gate, intent) = (self.clone(), intent.clone());
                self.world.schedule.spawn(self.group, async move { gate.listen(intent, answer, round).await });
                Phase::Unknown { why: "too late".to_owned() }
            }
        };
        let told = self.settled(settle(&intent, phase)).await;
        drop(lease);
        told
    }

    /// SEMANTICS §4, upstream timeout: a late answer completes it, whoever has settled it meanwhile.
    async fn listen(self: Rc<Self>, intent: Intent, answer: Receiver<Answer>, round: u32) {
        let Ok(Ok(answer)) = timeout(LISTENING, answer).await else { return };
        let settle = Settle { evidence: Evidence::Late, ..settle(&intent, phase(answer, round)) };
        // The timeout itself may not be recorded yet; both are the truth, in either order.
        while self.store.run(Command::Settle(settle.clone()), None).await.is_err() {
            self.world.pause().await;
        }
        self.world.count("late answers");
    }

    /// Step 15: durable before the agent is answered, however often it takes.
    async fn settled(&self, settle: Settle) -> Told {
        loop {
            match self.store.run(Command::Settle(settle.clone()), None).await {
                Ok(Ok(_)) => break,
                // A late answer was faster than the note that there was none.
                Ok(Err(Refused::Settled)) if matches!(settle.phase, Phase::Unknown { .. }) => break,
                Ok(other) => panic!("{other:?}: {settle:?}"),
                Err(_) => self.world.pause().await,
            }
        }
        match settle.phase {
            Phase::Completed(stored) | Phase::Failed { answer: Some(stored), again: false } => {
                Told::Answer { is_error: stored.is_error, body: stored.body }
            }
            Phase::AwaitingInput { .. } => Told::Question,
            Phase::Unknown { .. } => Told::Unknown,
            Phase::Failed { .. } | Phase::NotSent => Told::NotRun("upstream"),
            Phase::Dispatching | Phase::Abandoned => panic!("no exchange ends so"),
        }
    }
}

fn phase(answer: Answer, round: u32) -> Phase {
    match answer {
        Answer::Result(stored) => Phase::Completed(stored),
        Answer::Invalid(stored) => Phase::Failed { answer: Some(stored), again: false },
        Answer::Busy => Phase::Failed { answer: None, again: true },
        Answer::RefusedStream => Phase::NotSent,
        Answer::Question(asked) => Phase::AwaitingInput { round: round + 1, asked },
    }
}
