//! A call that is really made: what the store, hooks, people and the tool server answer it.

mod followed;

use crate::failpoint;
use crate::gate::Gate;
use crate::gate::call::Call;
use crate::gate::case::{
    ApprovedCall, BegunCall, Case, ConfirmedCall, FencedCall, FundedCall, KeyedCall, PlacedCall,
    RuledCall, SealedCall, SettledCall, Stop, UnclaimedCall, VisibleCall, WatchedCall, WelcomeCall,
};
use crate::gate::catalogue::{offered::is_offered, tool::Tool};
use crate::gate::effects::standing::{KeyAsked, Stand};
use crate::gate::effects::taken::Taken;
use crate::gate::effects::{Beginning, alike::AlikeBeginning};
use crate::gate::pipeline::{Stage, Turn, World};
use crate::gate::record::admission::KnownAdmission;
use crate::gate::record::findings::{Findings, KeyFound};
use crate::gate::record::timing::StageTimer;
use crate::gate::record::{self, RecordedCall};
use crate::gate::steps::cleared::Cleared;
use crate::gate::steps::deliver::{Delivery, SendingLog, deliver};
use crate::gate::steps::rewrite::Rewriting;
use crate::gate::steps::secrets::seal;
use crate::gate::steps::task_state::is_planned;
use crate::gate::steps::{edited, hops, inquiry, judging, still_so, undo_kept, unknown};
use crate::guards::Welcome;
use crate::guards::confirms::Confirmed;
use crate::mcp::message::Message;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use futures_util::TryFutureExt as _;
use std::sync::Arc;

/// The world of one call: what it is judged by, and what it has found and taken so far.
pub(in crate::gate) struct Live<'p> {
    pub(in crate::gate) gate: &'p Gate,
    pub(in crate::gate) policy: &'p Policy,
    /// The call as it stands, for whatever tells of its end.
    pub(in crate::gate) call: Arc<Call>,
    pub(in crate::gate) timer: StageTimer,
    pub(in crate::gate) found: Findings,
    pub(in crate::gate) taken: Taken,
    /// What step 2 has found, for whatever tells of the call's end.
    pub(in crate::gate) admission: Option<Box<KnownAdmission<'p>>>,
}

impl<'p> Live<'p> {
    /// Step 1, at the gate.
    pub(in crate::gate) fn welcomed(&self, case: &Case) -> Result<Welcome, Refusal> {
        let (caller, now) = (&case.call.origin.caller, self.timer.now());
        self.policy.identity.rules.judge(caller, now)
    }

    /// Step 2. In observe mode it refuses only a call that has come through too many toolgates, and
    /// one whose tool is disabled, quarantined or no server's; whatever else enforce mode would refuse passes
    /// here.
    pub(in crate::gate) fn seen(&mut self, case: WelcomeCall) -> Result<VisibleCall<'p>, Refusal> {
        let WelcomeCall { case, _welcome: _ } = case;
        let Case { call, tool } = case;
        hops::judge(&call)?;
        let policy = self.policy;
        let tool = tool
            .filter(|tool| is_offered(policy, tool))
            .ok_or(Refusal::ToolNotAllowlisted)?;
        let admitted = call.admitted(policy)?;
        self.admission = Some(KnownAdmission::of(&call, &admitted));
        Ok(VisibleCall {
            call,
            tool,
            admitted,
        })
    }

    /// Whether the call changes something: what was sent by a contract does what that says.
    pub(in crate::gate) fn changes(&self) -> bool {
        let sent = self.found.dispatch.changes;
        sent.unwrap_or_else(|| record::changes(self.policy, &self.call))
    }

    /// The call, and what is known of it so far.
    pub(in crate::gate) fn recorded<'a>(&'a self, tool: Option<&'a Tool>) -> RecordedCall<'a> {
        RecordedCall {
            gate: self.gate,
            policy: self.policy,
            call: &self.call,
            tool,
            timer: &self.timer,
            found: &self.found,
            admission: self.admission.as_deref(),
        }
    }

    /// Step 6, and what it asks.
    fn rewriting(&mut self) -> Rewriting<'_, 'p> {
        Rewriting {
            gate: self.gate,
            policy: self.policy,
            timer: &mut self.timer,
            known: &mut self.call,
        }
    }

    /// Step 13.
    pub(in crate::gate) async fn sealed(
        &mut self,
        case: BegunCall<'p>,
    ) -> Result<SealedCall<'p>, (BegunCall<'p>, Refusal)> {
        match seal(self.gate, self.policy, &case.subject).await {
            Ok(sealed) => Ok(SealedCall {
                subject: case.subject,
                cleared: case.cleared,
                sealed,
            }),
            Err(refusal) => Err((case, refusal)),
        }
    }

    /// Steps 14 to 16, 15 up to the store.
    pub(in crate::gate) fn sent(
        &mut self,
        case: SealedCall<'p>,
    ) -> impl Future<Output = Result<Message, Stop>> + Send {
        self.found.dispatch.changes = Some(case.subject.rules.side_effect);
        let sending = SendingLog {
            timer: &mut self.timer,
            found: &mut self.found.dispatch,
            taken: &mut self.taken,
        };
        deliver(&self.gate.effects, Delivery::of(case), sending).map_err(Stop::Refused)
    }
}

impl<'p> World for Live<'p> {
    type Case = Case;
    type Welcome = WelcomeCall;
    type Visible = VisibleCall<'p>;
    type Ruled = RuledCall<'p>;
    type Settled = SettledCall<'p>;
    type Placed = PlacedCall<'p>;
    type Watched = WatchedCall<'p>;
    type Keyed = KeyedCall<'p>;
    type Open = UnclaimedCall<'p>;
    type Confirmed = ConfirmedCall<'p>;
    type Funded = FundedCall<'p>;
    type Approved = ApprovedCall<'p>;
    type Fenced = FencedCall<'p>;
    type Begun = BegunCall<'p>;
    type Sealed = SealedCall<'p>;
    type Answer = Message;
    type Stop = Stop;

    fn at(&mut self, stage: Stage) -> &mut Self {
        self.timer.at(stage);
        self
    }

    fn welcome(&mut self, case: Case) -> Result<WelcomeCall, Stop> {
        let welcome = self.welcomed(&case)?;
        Ok(WelcomeCall {
            case,
            _welcome: welcome,
        })
    }

    fn visible(&mut self, case: WelcomeCall) -> Result<VisibleCall<'p>, Stop> {
        Ok(self.seen(case)?)
    }

    async fn judge(&mut self, case: VisibleCall<'p>) -> Result<RuledCall<'p>, Stop> {
        let ruled = judging::judged(self.policy, &case, &mut self.timer).await?;
        failpoint::reached("after-policy");
        Ok(RuledCall { case, ruled })
    }

    async fn rewrite(&mut self, case: RuledCall<'p>) -> Result<SettledCall<'p>, Stop> {
        let rewriting = self.rewriting();
        Ok(rewriting.run(case).await?)
    }

    async fn place(&mut self, case: SettledCall<'p>) -> Result<PlacedCall<'p>, Stop> {
        let SettledCall { subject, last } = case;
        let (effects, found) = (&self.gate.effects, &mut self.found);
        let bill = Box::new(Box::pin(effects.bill(self.policy, &subject, found)).await?);
        effects.advance(&subject, &bill, &mut found.state).await?;
        Ok(PlacedCall {
            subject,
            last,
            bill,
        })
    }

    fn watch(&mut self, case: PlacedCall<'p>) -> Result<WatchedCall<'p>, Stop> {
        let PlacedCall {
            subject,
            last,
            bill,
        } = case;
        let (effects, now) = (&self.gate.effects, self.timer.now());
        let hashed = self.found.hash_if(bill.watched, &subject.call);
        let attempt = effects.attempt(&bill, &subject, hashed, now);
        let repetition = &self.policy.repetition;
        let allowed = repetition.watch(bill.history(), attempt, &last)?;
        self.found.warning = allowed.warning;
        Ok(WatchedCall {
            is_planned: is_planned(&subject.call)?,
            subject,
            bill,
            watched: allowed.watched,
        })
    }

    fn key(&mut self, case: WatchedCall<'p>) -> Result<KeyedCall<'p>, Stop> {
        let WatchedCall {
            subject,
            bill,
            watched,
            is_planned,
        } = case;
        let keyed = subject.rules.idempotency.as_ref().map(|rule| {
            let asked = subject.call.asked(&subject.tool, bill.place);
            rule.key(&asked, &watched)
        });
        let keyed = keyed.transpose()?;
        Ok(KeyedCall {
            subject,
            bill,
            watched,
            is_planned,
            keyed,
            is_paid: false,
            asked: None,
        })
    }

    async fn look(&mut self, case: KeyedCall<'p>) -> Result<UnclaimedCall<'p>, Stop> {
        // What is only planned is no call of this key.
        let Some(keyed) = case.keyed.as_ref().filter(|_| !case.is_planned) else {
            return Ok(UnclaimedCall(case));
        };
        let effects = &self.gate.effects;
        let asked = KeyAsked {
            subject: &case.subject,
            keyed,
            clock: self.gate.clock,
        };
        // What has been read is looked at when the call comes; it may wait for much until it begins.
        let before = std::mem::take(&mut self.found.key);
        let shown = before
            .looked_at()
            .unwrap_or_else(|| effects.shown_by(asked));
        loop {
            self.found.key = KeyFound::default();
            let stands = Box::pin(effects.stand(asked, &mut self.found.key)).await;
            self.found.key.replayed = matches!(stands, Ok(Stand::Again(_)));
            match stands? {
                Stand::Again(answer) => return Err(Stop::Answered(Box::new(answer))),
                Stand::Unknown(action) => {
                    let timer = &mut self.timer;
                    let resolved = unknown::resolve(self.gate, &case.subject, keyed, action, timer);
                    Box::pin(resolved).await?;
                }
                Stand::Open { is_paid } => {
                    self.found.key.is_looked_at = true;
                    if !shown.is_empty() {
                        self.found.key.compared().shown = shown;
                    }
                    return Ok(UnclaimedCall(KeyedCall { is_paid, ..case }));
                }
            }
        }
    }

    async fn confirm(&mut self, case: UnclaimedCall<'p>) -> Result<ConfirmedCall<'p>, Stop> {
        let UnclaimedCall(case) = case;
        if case.keyed.is_none() || case.is_planned {
            return Ok(ConfirmedCall {
                case,
                confirmed: None,
            });
        }
        let effects = &self.gate.effects;
        let confirmed = effects.confirm(&case.subject, &case.bill).await?;
        self.found.draft = confirmed.draft().map(Box::new);
        Ok(ConfirmedCall {
            case,
            confirmed: Some(confirmed),
        })
    }

    async fn fund(&mut self, case: ConfirmedCall<'p>) -> Result<FundedCall<'p>, Stop> {
        let ConfirmedCall {
            mut case,
            confirmed,
        } = case;
        let (effects, left) = (&self.gate.effects, &mut self.found.remaining);
        if !case.is_paid {
            case.bill.over = effects.afford(&case.bill, left).await?;
        }
        if case.keyed.is_some() {
            let (past, now) = (self.found.key.past(), self.gate.clock.steady());
            let is_alike = effects.is_alike(self.policy, &case, past, now);
            case.bill.is_alike = Box::pin(is_alike).await?;
        }
        if case.is_planned {
            return Err(Box::pin(effects.plan(&case.bill, &case.subject.call))
                .await
                .into());
        }
        // What goes over a limit takes its part once a person has allowed it.
        if case.keyed.is_none() && case.bill.over.is_none() {
            self.taken.reserved = effects.reserve(&case.bill, None, left).await?;
        }
        Ok(FundedCall { case, confirmed })
    }

    async fn approve(
        &mut self,
        case: FundedCall<'p>,
    ) -> Result<Turn<ApprovedCall<'p>, KeyedCall<'p>>, Stop> {
        let FundedCall { case, confirmed } = case;
        if confirmed.is_none() && case.bill.over.is_none() {
            return Ok(Turn::On(ApprovedCall { case, proof: None }));
        }
        let effects = &self.gate.effects;
        let held = effects.approve(self.gate, self.policy, &case, &mut self.timer);
        let held = Box::pin(held).await?;
        let Some((approved, found)) = held else {
            self.found.approval = None;
            return Ok(Turn::Back(case));
        };
        let mut found = found.map(Box::new);
        let edit = found.as_mut().and_then(|found| found.edit.take());
        self.found.approval = found;
        let (case, confirmed) = match edit {
            Some(edit) => {
                let rewriting = self.rewriting();
                Box::pin(edited::edited(rewriting, case, confirmed, *edit)).await?
            }
            None => (case, confirmed),
        };
        let drafted = confirmed.as_ref().and_then(Confirmed::draft);
        self.found.draft = drafted.map(Box::new);
        let effects = &self.gate.effects;
        if confirmed.is_none() {
            let action = case.subject.call.judged.action;
            let used = approved
                .hold()
                .map(|key| ((key, action), approved.edited()));
            let left = &mut self.found.remaining;
            self.taken.reserved = effects.reserve(&case.bill, used, left).await?;
        }
        Ok(Turn::On(ApprovedCall {
            case,
            proof: confirmed.map(|confirmed| (confirmed, approved)),
        }))
    }

    async fn fence(&mut self, case: ApprovedCall<'p>) -> Result<FencedCall<'p>, Stop> {
        let ApprovedCall { case, proof } = case;
        let Some((confirmed, approved)) = proof else {
            return Ok(FencedCall { case, proof: None });
        };
        let effects = &self.gate.effects;
        let lease = effects.enter(&case.subject.call, &case.bill).await?;
        Ok(FencedCall {
            case,
            proof: Some((confirmed, approved, lease)),
        })
    }

    async fn begin(
        &mut self,
        case: FencedCall<'p>,
    ) -> Result<Turn<BegunCall<'p>, KeyedCall<'p>>, Stop> {
        let FencedCall { case, proof } = case;
        let slot = self.gate.slot(&case.subject)?;
        self.taken.slot = Some(slot);
        self.found.dispatch.time_left = case.bill.time_left(self.gate.effects.store.now());
        let (Some(keyed), Some((confirmed, approved, lease))) = (&case.keyed, proof) else {
            return Ok(Turn::On(BegunCall {
                subject: case.subject,
                cleared: Cleared::Read(case.watched),
            }));
        };
        let (effects, call) = (&self.gate.effects, &case.subject.call);
        Box::pin(effects.find_own_undo(call, keyed, &mut self.found.key)).await?;
        let recorded = self.recorded(Some(&case.subject.tool));
        let entry = record::entry::intent(&recorded);
        self.found.has_kept_arguments = record::contents::keep_arguments(&recorded)?;
        let next = Beginning {
            keyed,
            confirmed,
            approved,
            bill: &case.bill,
            lease,
            past: self.found.key.past(),
            inquiry: inquiry::of(self.gate, &case.subject, keyed),
            undo: undo_kept::terms(
                &*self.gate.effects.store,
                &case.subject.call,
                case.subject.rules,
            ),
            entry,
            left: &mut self.found.remaining,
        };
        let beginning = AlikeBeginning::of(&case, next.past, self.gate.clock.steady());
        let allowed = self.found.approval.as_deref();
        let begun = if still_so::may_begin(self.gate, self.policy, &case.subject, allowed)? {
            let begun = (self.gate.effects).begin_of_alike(&case.subject.call, beginning, next);
            Box::pin(begun).await?
        } else {
            drop(next);
            None
        };
        let (Some(claimed), Some(rule)) = (begun, &case.subject.rules.idempotency) else {
            // Another call was quicker. One that waits takes no room, and what was allowed is not
            // this call's.
            self.taken.slot = None;
            self.found.approval = None;
            let case = case.into_asked();
            self.call = case.subject.call.clone();
            return Ok(Turn::Back(case));
        };
        self.found.fence = Some(claimed.fence);
        // Set once: a call begins once.
        let _ = case.subject.call.origin.claimed.set(claimed.key);
        let cleared = self.taken.hold(claimed, rule, keyed);
        self.follow(&case.subject, keyed);
        Box::pin(effects.is_alone(&case.subject.call)).await?;
        Ok(Turn::On(BegunCall {
            subject: case.subject,
            cleared,
        }))
    }

    async fn seal(&mut self, case: BegunCall<'p>) -> Result<SealedCall<'p>, Stop> {
        self.sealed(case)
            .await
            .map_err(|(_, refusal)| refusal.into())
    }

    fn send(&mut self, case: SealedCall<'p>) -> impl Future<Output = Result<Message, Stop>> + Send {
        self.sent(case)
    }
}
