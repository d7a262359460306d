//! Step 8: how a call's key stands, and whether a call that equals an ended one is that one, sent
//! again, or a new one (guarantees §3).

use crate::gate::call::Call;
use crate::gate::case::Subject;
use crate::gate::effects::kin::KinStand;
use crate::gate::effects::looks::{DoneCall, ShownCalls};
use crate::gate::effects::progress::{EndedAt, place_at};
use crate::gate::effects::replays::{ReplayedCall, done_elsewhere};
use crate::gate::effects::{ASK_AGAIN, Effects};
use crate::gate::record::findings::{Because, KeyFound};
use crate::guards::idempotency::{Keyed, Regime};
use crate::mcp::message::Message;
use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::model::times::millis;
use crate::outlet::receipt::LaterCall;
use crate::store::state::StoreKeys;
use crate::store::state::claim::{Claim, ClaimStatus, claim_status};
use crate::store::state::undo::{OpenUndo, UndoPhase};
use std::time::Duration;

/// How long a call waits for the same call in flight (guarantees §4, §7).
const HOLD: Duration = Duration::from_secs(45);
/// Said of what an operator has changed and whose server asks something.
const EDITED_ROUND: &str = "its arguments were changed before it was allowed, and a changed call answers no questions of its \
                            server; with another key it is a new call";

/// How a call's key stands, when the call is not refused for it.
pub(in crate::gate) enum Stand {
    /// Nobody holds it.
    Open {
        /// What the first round of the call has taken of a budget is for this one, too.
        is_paid: bool,
    },
    /// The call has been made; this was its answer.
    Again(Message),
    /// The call may have run.
    Unknown(ActionId),
}

/// A call that asks how its key stands.
#[derive(Clone, Copy)]
pub(in crate::gate) struct KeyAsked<'a> {
    pub(in crate::gate) subject: &'a Subject<'a>,
    pub(in crate::gate) keyed: &'a Keyed,
    pub(in crate::gate) clock: Clock,
}

/// How the key stands once no other call is in flight for it.
struct Standing {
    status: ClaimStatus,
    /// What holds the key.
    claim: Option<Claim>,
}

impl KeyAsked<'_> {
    fn call(&self) -> &Call {
        &self.subject.call
    }

    /// Where calls follow this one.
    fn place(&self) -> Digest {
        place_at(self.keyed.place(), &self.subject.tool.server.settings.name)
    }

    /// What this call says of those before it.
    fn later(&self) -> LaterCall {
        LaterCall {
            arrived: self.call().origin.arrived,
            is_named: self.keyed.place().is_named,
            now: self.clock.steady(),
        }
    }
}

impl Effects {
    /// The calls that this one shows its agent to have gone on from, once it is begun.
    pub(in crate::gate) fn shown_by(&self, asked: KeyAsked<'_>) -> ShownCalls {
        if self.progress.is_empty() {
            return ShownCalls::default();
        }
        let key = asked.keyed.call_key();
        self.progress
            .shown(asked.place(), key, asked.later(), asked.clock)
    }

    /// How the key stands, and which call holds it. Waits for the same call in flight, whose end is
    /// this call's answer too.
    pub(in crate::gate) async fn stand(
        &self,
        asked: KeyAsked<'_>,
        found: &mut KeyFound,
    ) -> Result<Stand, Refusal> {
        let (mut waited, keyed) = (None, asked.keyed);
        found.hash = Some(keyed.call_key().short());
        let held = tokio::time::timeout(HOLD, self.settled(asked, &mut waited, found)).await;
        let standing = held.unwrap_or_else(|_| {
            found.compared().because = Some(Because::InFlight);
            Err(Refusal::DuplicateInFlight {
                after_ms: ASK_AGAIN,
            })
        })?;
        if let Some((past, because)) = self.taken_back(keyed, &standing, waited).await? {
            found.holder = None;
            let compared = found.compared();
            (compared.same_as, compared.because) = (Some(past), Some(because));
            compared.past = Some(past);
            return self.open(asked, 0, found).await;
        }
        let Standing { status, claim } = standing;
        match (status, claim) {
            (
                ClaimStatus::Open { round: 1.., .. },
                Some(Claim {
                    edited: Some(id), ..
                }),
            ) => Err(Refusal::ApprovalDenied {
                id,
                why: EDITED_ROUND.to_owned(),
            }),
            (ClaimStatus::Open { round, .. }, _) => self.open(asked, round, found).await,
            (ended @ ClaimStatus::Ended(_), Some(claim)) => {
                let because = self.because(asked, &claim, waited).await;
                found.compared().because = Some(because);
                found.compared().same_as = Some(claim.action);
                if because.is_new_call() {
                    found.holder = None;
                    found.compared().past = Some(claim.action);
                    return self.open(asked, 0, found).await;
                }
                let undo_until = self.undo_until(asked.subject.rules, claim.action);
                found.compared().undo_until = undo_until.await;
                self.again(asked, &ended, &claim).await.map(Stand::Again)
            }
            (standing @ (ClaimStatus::Ended(_) | ClaimStatus::Asked(_)), _) => {
                found.compared().because = Some(keyed.regime().into());
                let answer = self.replayed(asked.call(), &standing).await;
                answer.map(Stand::Again)
            }
            (ClaimStatus::Unknown(action), _) => {
                found.compared().because = Some(Because::UnknownOutcome);
                found.compared().same_as = Some(action);
                Ok(Stand::Unknown(action))
            }
            (ClaimStatus::InFlight(_), _) => Err(Refusal::OutcomeUnknown),
            (ClaimStatus::Conflict, _) => Err(Refusal::IdempotencyConflict),
            (ClaimStatus::Expired, _) => Err(Refusal::IdempotencyKeyExpired),
        }
    }

    /// The ended call whose key another one takes, because it was taken back since, or was to take one
    /// back and has failed. `waited`: for which call in flight this one has waited.
    async fn taken_back(
        &self,
        keyed: &Keyed,
        standing: &Standing,
        waited: Option<ActionId>,
    ) -> Result<Option<(ActionId, Because)>, Refusal> {
        let Standing { status, claim } = standing;
        let is_over = matches!(status, ClaimStatus::Ended(_) | ClaimStatus::Expired);
        let Some(claim) = claim.as_ref().filter(|_| is_over) else {
            return Ok(None);
        };
        if waited == Some(claim.action) {
            return Ok(None);
        }
        if claim.has_rounds() {
            return self.stays_used(claim).await.map(|()| None);
        }
        // What its agent has made by its own will is a call like any other.
        let is_asked = |of: &ActionId| OpenUndo::call_key_of(*of) == keyed.call_key();
        let undoes = claim.undoes.filter(is_asked);
        let of = undoes.unwrap_or(claim.action);
        let place = StoreKeys {
            undo: Some(OpenUndo::key_of(of)),
            ..StoreKeys::default()
        };
        let undo = self.look(place).await?.undo;
        let because = match (undo.map(|undo| undo.phase), undoes) {
            (Some(UndoPhase::Done { .. }), None) => Because::Undone,
            (Some(UndoPhase::Requested | UndoPhase::Failed { .. }), Some(_)) => Because::UndoFailed,
            (Some(_) | None, _) => return Ok(None),
        };
        Ok(Some((claim.action, because)))
    }

    /// Of a call with rounds nobody can say which of them comes again: once it was taken back, its key stays
    /// used, and its answer, which is not so any more, is not given.
    async fn stays_used(&self, claim: &Claim) -> Result<(), Refusal> {
        if Box::pin(self.is_undone(claim.action)).await? {
            return Err(Refusal::IdempotencyKeyExpired);
        }
        Ok(())
    }

    /// Whether the call was taken back.
    pub(super) async fn is_undone(&self, action: ActionId) -> Result<bool, Refusal> {
        let place = StoreKeys {
            undo: Some(OpenUndo::key_of(action)),
            ..StoreKeys::default()
        };
        let undo = self.look(place).await?.undo;
        Ok(undo.is_some_and(|undo| matches!(undo.phase, UndoPhase::Done { .. })))
    }

    /// A key that nobody holds, unless an equal call holds this one.
    async fn open(
        &self,
        asked: KeyAsked<'_>,
        round: u32,
        found: &mut KeyFound,
    ) -> Result<Stand, Refusal> {
        let is_paid = round > 0;
        let kin = if is_paid {
            KinStand::Free
        } else {
            self.kin(asked.keyed, asked.call().takes_back()).await?
        };
        let (action, because) = match kin {
            KinStand::Free => return Ok(Stand::Open { is_paid }),
            KinStand::Unknown(action) => (action, Because::UnknownOutcome),
            KinStand::InFlight(action) => (action, Because::InFlight),
            KinStand::Done { action, .. } => (action, Because::DoneElsewhere),
        };
        found.holder = Some(action);
        let compared = found.compared();
        compared.same_as = Some(action);
        (compared.because, compared.past) = (Some(because), None);
        match kin {
            KinStand::Done { at, .. } => Ok(Stand::Again(done_elsewhere(asked.call(), at))),
            KinStand::InFlight(_) => Err(Refusal::DuplicateInFlight {
                after_ms: ASK_AGAIN,
            }),
            KinStand::Unknown(action) => Ok(Stand::Unknown(action)),
            KinStand::Free => Ok(Stand::Open { is_paid }),
        }
    }

    /// The stored answer to an ended call, for its agent that sends it again.
    async fn again(
        &self,
        asked: KeyAsked<'_>,
        ended: &ClaimStatus,
        claim: &Claim,
    ) -> Result<Message, Refusal> {
        let (call, keyed) = (asked.call(), asked.keyed);
        let answer = self.replayed(call, ended).await?;
        if let Regime::Reissue { .. } = keyed.regime() {
            let receipt = call.receipt();
            let ended = DoneCall {
                key: keyed.call_key(),
                action: claim.action,
            };
            let at = EndedAt {
                place: asked.place(),
                caller: &call.origin.caller,
            };
            self.progress.remember(at, ended, &receipt);
        }
        let replayed = ReplayedCall {
            at: claim.changed,
            keyed,
            rules: asked.subject.rules,
        };
        Ok(replayed.told(&answer))
    }

    /// Whether a call that equals `claim`, which has ended, is that call. `waited`: for which call in
    /// flight this one has waited.
    async fn because(
        &self,
        asked: KeyAsked<'_>,
        claim: &Claim,
        waited: Option<ActionId>,
    ) -> Because {
        let (call, keyed) = (asked.call(), asked.keyed);
        let Regime::Reissue { joins_only } = keyed.regime() else {
            return keyed.regime().into();
        };
        if call.round().is_some() || claim.has_rounds() {
            return Because::SameRounds;
        }
        let now = self.store.now();
        let age = asked.clock.steady().saturating_sub(call.judged.arrived);
        let was_in_flight = now.saturating_sub(millis(age)) < claim.changed;
        if waited == Some(claim.action) || was_in_flight {
            return Because::InFlight;
        }
        let ended = DoneCall {
            key: keyed.call_key(),
            action: claim.action,
        };
        self.progress.looked(asked.place(), ended).await;
        let trace = &call.judged.said.trace;
        if self.progress.has_gone_on(asked.place(), ended) {
            Because::WentOn
        } else if trace.is_some() && *trace == claim.kinship.trace {
            Because::SameTrace
        } else if claim.is_late {
            Because::SettledLate
        } else if joins_only {
            Because::IdempotentTool
        } else if now.saturating_sub(claim.changed) <= millis(keyed.window()) {
            Because::WithinWindow
        } else if self.progress.is_unread(asked.place(), ended) {
            // Its agent had left before it ended, and may send it again as late.
            Because::SettledLate
        } else {
            Because::WindowOver
        }
    }

    /// How the key stands once no other call is in flight for it.
    async fn settled(
        &self,
        asked: KeyAsked<'_>,
        waited: &mut Option<ActionId>,
        found: &mut KeyFound,
    ) -> Result<Standing, Refusal> {
        let (call, keyed) = (asked.call(), asked.keyed);
        let (key, fingerprint, round) = (keyed.call_key(), keyed.fingerprint(), call.round());
        loop {
            let place = StoreKeys {
                call: Some(key),
                ..StoreKeys::default()
            };
            let claim = self.look(place).await?.claim;
            let now = self.store.now();
            let mut status = claim_status(claim.as_ref(), &fingerprint, round.as_ref(), now);
            let question = claim.as_ref().and_then(|claim| claim.phase.stored());
            if let (ClaimStatus::Open { round: 1.., .. }, Some(question)) = (&status, question)
                && Box::pin(self.answers_nothing(call, question)).await?
            {
                status = ClaimStatus::Asked(question.clone());
            }
            let holds = !matches!(status, ClaimStatus::Open { .. });
            found.holder = claim.as_ref().filter(|_| holds).map(|claim| claim.action);
            let ClaimStatus::InFlight(action) = status else {
                return Ok(Standing { status, claim });
            };
            *waited = Some(action);
            tokio::select! {
                biased;
                () = self.store.wait_ended(key, action) => {}
                _ = call.origin.gone() => return Err(Refusal::Cancelled),
            }
        }
    }
}
