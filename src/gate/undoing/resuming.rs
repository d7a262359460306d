//! Goes on with undos that waited for a person, once that person has allowed them: also after a restart,
//! since what is allowed stands in the store. What cannot be made yet, as long as a tool server is not up, is
//! tried again while the word counts; what the gate has judged is not. The key of an undo keeps it one call.

use super::checking::GONE_BEFORE;
use super::{CallUndoer, UndoRights};
use crate::gate::own_tasks::BUSY_CODES;
use crate::model::ids::ActionId;
use crate::model::taken_back::UndoneCall;
use crate::store::hold_news::HoldNews;
use crate::store::operator::MAX_CLAIMS_LISTED;
use crate::store::state::hold::{Hold, HoldPhase, HoldStatus, hold_status};
use crate::store::state::undo::UndoPhase;
use crate::store::undos::{NoUndo, UndoReport, known};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// Undos that go on at once: a tool server that does not answer keeps no other waiting.
const MAX_AT_ONCE: usize = 4;
/// How often it is looked, whether a word was heard or not.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// The same while one could not be made yet: doubled each time, up to that.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// An undo that a person has allowed.
struct AllowedUndo {
    hold: ActionId,
    undone: UndoneCall,
}

/// What is under way: whose words were taken up, and those to try again.
#[derive(Default)]
struct OngoingUndos {
    /// Each ends with its hold, and whether that is over.
    going: FuturesUnordered<BoxFuture<'static, (ActionId, bool)>>,
    taken_up: HashSet<ActionId>,
    again: Vec<ActionId>,
}

impl CallUndoer {
    /// Goes on with each undo that is allowed, until toolgate ends.
    pub(crate) async fn go_on(self: Arc<Self>) {
        let effects = &self.gate.effects;
        let (mut news, ending) = (effects.store.look_on(), effects.ending.clone());
        let (mut ongoing, mut pause) = (OngoingUndos::default(), FIRST_PAUSE);
        let clock = &self.gate.clock;
        let mut next_look = clock.steady() + LOOK_INTERVAL;
        loop {
            if !Box::pin(self.take_up_allowed(&mut ongoing)).await {
                next_look = next_look.min(clock.steady() + pause);
            }
            tokio::select! {
                biased;
                () = ending.cancelled() => return,
                Some((hold, is_over)) = ongoing.going.next() => {
                    if is_over {
                        pause = FIRST_PAUSE;
                    } else {
                        ongoing.again.push(hold);
                        next_look = next_look.min(clock.steady() + pause);
                    }
                }
                () = allowed(&mut news) => {}
                () = tokio::time::sleep(next_look.saturating_sub(clock.steady())) => {
                    let OngoingUndos { taken_up, again, .. } = &mut ongoing;
                    for hold in again.drain(..) {
                        taken_up.remove(&hold);
                    }
                    pause = pause.saturating_mul(2).min(LOOK_INTERVAL);
                    next_look = clock.steady() + LOOK_INTERVAL;
                }
            }
        }
    }

    /// Takes up those that are allowed now and were not, as many as go on at once; the others follow as these
    /// end. False where it is not known which they are.
    async fn take_up_allowed(self: &Arc<Self>, ongoing: &mut OngoingUndos) -> bool {
        let store = &self.gate.effects.store;
        let holds = match store.holds(MAX_CLAIMS_LISTED).await {
            Ok(holds) => holds,
            Err(error) => {
                tracing::debug!(%error, "undos that are allowed are looked for later");
                return false;
            }
        };
        let OngoingUndos {
            going, taken_up, ..
        } = ongoing;
        taken_up.retain(|id| holds.iter().any(|(_, hold)| hold.id == *id));
        let now = store.now();
        for (_, hold) in holds {
            if going.len() >= MAX_AT_ONCE {
                break;
            }
            if taken_up.contains(&hold.id) {
                continue;
            }
            let Some(AllowedUndo { hold, undone }) = AllowedUndo::of(hold, now) else {
                continue;
            };
            taken_up.insert(hold);
            let this = self.clone();
            let made = async move { (hold, this.go_on_with(undone).await) };
            going.push(self.running.track_future(made).boxed());
        }
        true
    }

    /// Makes the call of an undo that still waits for that; false where it has to be tried again.
    async fn go_on_with(&self, UndoneCall { of, who }: UndoneCall) -> bool {
        let Ok(undo) = known(&*self.gate.effects.store, of).await else {
            return false;
        };
        let phase = undo.map(|undo| undo.phase);
        if phase != Some(UndoPhase::Requested) {
            return true;
        }
        match Box::pin(self.allowed_made(of, who)).await {
            Ok(report) => {
                tracing::info!(%of, state = %report.state, "an undo that was allowed has gone on");
                let code = report.code.as_deref();
                !code.is_some_and(|code| BUSY_CODES.contains(&code))
            }
            Err(NoUndo::Lacking(why)) if why == GONE_BEFORE => {
                tracing::warn!(%of, why, "an undo that was allowed does not go on");
                true
            }
            Err(why @ (NoUndo::Lacking(_) | NoUndo::Away(_) | NoUndo::Store(_))) => {
                tracing::debug!(%of, %why, "an undo that was allowed cannot be made yet");
                false
            }
            Err(why) => {
                tracing::warn!(%of, %why, "an undo that was allowed does not go on");
                true
            }
        }
    }

    async fn allowed_made(&self, of: ActionId, who: String) -> Result<UndoReport, NoUndo> {
        let plan = self.plan(of, UndoRights::AsAsked).await?;
        let own = self.own_call(&plan).await?;
        if own.is_none() {
            self.is_there(&plan).await?;
        }
        self.carried_out(&plan, who, own).await
    }
}

impl AllowedUndo {
    /// None where the hold is of no undo, or does not say yes now.
    fn of(hold: Hold, now: u64) -> Option<Self> {
        let is_allowed = hold_status(Some(&hold), now) == HoldStatus::Allowed;
        let undone = hold.question.undoes.filter(|_| is_allowed)?;
        let hold = hold.id;
        Some(Self { hold, undone })
    }
}

/// Ends when a held call is allowed, or when it is not known any more which were.
async fn allowed(news: &mut Receiver<HoldNews>) {
    loop {
        match news.recv().await {
            Ok(told) if told.phase == HoldPhase::Allowed => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            // No store tells any more.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
