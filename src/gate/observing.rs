//! A call where nothing is enforced: says what the steps would say, counts what the call uses, and
//! sends it. Until then only this refuses a call: it has come through too many toolgates, its tool
//! is disabled or no server's, the state that the agent gives its task cannot be read, it is only
//! planned, or there is no room. A tool that nobody lists is its server's to answer for.
//!
//! The first step that would refuse decides, here as well: those after it are not asked. No hook is
//! asked, because a hook may act on what it is told, and nothing is changed. Which draft a call
//! confirms is not asked: where nothing is enforced, nothing is claimed, and so no draft is known.

use crate::failpoint;
use crate::gate::case::BegunCall;
use crate::gate::case::Case;
use crate::gate::case::RuledCall;
use crate::gate::case::SealedCall;
use crate::gate::case::Stop;
use crate::gate::case::Subject;
use crate::gate::case::VisibleCall;
use crate::gate::case::WelcomeCall;
use crate::gate::effects::bill::Bill;
use crate::gate::effects::observed::KeyObserved;
use crate::gate::live::Live;
use crate::gate::pipeline::Stage;
use crate::gate::pipeline::Turn;
use crate::gate::pipeline::World;
use crate::gate::record::findings::ForeseenRefusal;
use crate::gate::steps::cleared::Cleared;
use crate::gate::steps::judging;
use crate::gate::steps::task_state::is_planned;
use crate::guards::evidence::{Final, NotRepeated, Ruled};
use crate::guards::hooks::HookPhase;
use crate::guards::secrets::Sealed;
use crate::guards::{Section as _, Welcome, approval, confirms};
use crate::mcp::message::Message;
use crate::model::refusal::Refusal;

/// The world of a call that is only observed.
pub(in crate::gate) struct Observing<'a, 'p>(pub(in crate::gate) &'a mut Live<'p>);

/// A call on its way, and what the steps have proven of it; nothing once one would have refused.
pub(in crate::gate) struct Foreseen<'p, T> {
    subject: Subject<'p>,
    ruled: Ruled,
    proven: Option<T>,
}

impl<'p, T> Foreseen<'p, T> {
    fn with<U>(self, proven: Option<U>) -> Foreseen<'p, U> {
        Foreseen {
            subject: self.subject,
            ruled: self.ruled,
            proven,
        }
    }
}

impl Observing<'_, '_> {
    /// What is proven, or nothing and a note.
    fn noted<T>(&mut self, verdict: Result<T, Refusal>) -> Option<T> {
        let stage = self.0.timer.stage();
        verdict
            .map_err(|refusal| self.0.found.observed().note(refusal, stage))
            .ok()
    }
}

impl<'p> World for Observing<'_, 'p> {
    type Case = Case;
    type Welcome = WelcomeCall;
    type Visible = VisibleCall<'p>;
    type Ruled = RuledCall<'p>;
    type Settled = Foreseen<'p, Final>;
    type Placed = Foreseen<'p, (Box<Bill>, Final)>;
    type Watched = Foreseen<'p, (Box<Bill>, NotRepeated)>;
    type Keyed = Foreseen<'p, Box<Bill>>;
    type Open = Foreseen<'p, Box<Bill>>;
    type Confirmed = Foreseen<'p, Box<Bill>>;
    type Funded = Foreseen<'p, Box<Bill>>;
    type Approved = Foreseen<'p, Box<Bill>>;
    type Fenced = Foreseen<'p, Box<Bill>>;
    type Begun = BegunCall<'p>;
    type Sealed = SealedCall<'p>;
    type Answer = Message;
    type Stop = Stop;

    fn at(&mut self, stage: Stage) -> &mut Self {
        self.0.timer.at(stage);
        self
    }

    fn welcome(&mut self, case: Case) -> Result<WelcomeCall, Stop> {
        let mode = self.0.policy.mode;
        let welcome = match (self.0.welcomed(&case), Welcome::observed(mode)) {
            (Ok(welcome), _) => welcome,
            (Err(refusal), Some(unproven)) => {
                // Whatever else is wrong with the call is still looked for.
                let foreseen = ForeseenRefusal {
                    refusal,
                    stage: self.0.timer.stage(),
                };
                self.0.found.observed().unwelcome = Some(Box::new(foreseen));
                unproven
            }
            (Err(refusal), None) => return Err(refusal.into()),
        };
        Ok(WelcomeCall {
            case,
            _welcome: welcome,
        })
    }

    fn visible(&mut self, case: WelcomeCall) -> Result<VisibleCall<'p>, Stop> {
        Ok(self.0.seen(case)?)
    }

    async fn judge(&mut self, case: VisibleCall<'p>) -> Result<RuledCall<'p>, Stop> {
        let mode = self.0.policy.mode;
        let ruled = judging::judged(self.0.policy, &case, &mut self.0.timer).await;
        let ruled = match (ruled, Ruled::observed(mode)) {
            (Ok(ruled), _) => ruled,
            (Err(refusal), Some(unproven)) => {
                self.noted::<()>(Err(refusal));
                unproven
            }
            (Err(refusal), None) => return Err(refusal.into()),
        };
        failpoint::reached("after-policy");
        Ok(RuledCall { case, ruled })
    }

    async fn rewrite(&mut self, case: RuledCall<'p>) -> Result<Self::Settled, Stop> {
        let RuledCall { case, ruled } = case;
        let before = self.0.found.observed.as_ref();
        let proven = if before.is_none_or(|observed| observed.would_refuse.is_none()) {
            let last = judging::foreseen(self.0.policy, &case).await;
            self.noted(last)
        } else {
            None
        };
        if proven.is_some() {
            let hooks = self
                .0
                .policy
                .hooks
                .of(HookPhase::Before, &case.tool.name)
                .map(|hook| format!("hook {}", hook.name));
            self.0.found.observed().unasked.extend(hooks);
        }
        let subject = Subject {
            rules: case.admitted.rules(),
            call: case.call,
            tool: case.tool,
        };
        Ok(Foreseen {
            subject,
            ruled,
            proven,
        })
    }

    async fn place(&mut self, mut case: Self::Settled) -> Result<Self::Placed, Stop> {
        if is_planned(&case.subject.call)? {
            return Err(Refusal::Planned.into());
        }
        let Some(last) = case.proven.take() else {
            return Ok(case.with(None));
        };
        let (effects, policy) = (&self.0.gate.effects, self.0.policy);
        let bill = Box::pin(effects.bill(policy, &case.subject, &mut self.0.found)).await;
        let Some(bill) = self.noted(bill.map(Box::new)) else {
            return Ok(case.with(None));
        };
        let advanced = effects
            .advance(&case.subject, &bill, &mut self.0.found.state)
            .await;
        let proven = self.noted(advanced).map(|()| (bill, last));
        Ok(case.with(proven))
    }

    fn watch(&mut self, mut case: Self::Placed) -> Result<Self::Watched, Stop> {
        let proven = case.proven.take().and_then(|(bill, last)| {
            let (gate, repetition) = (self.0.gate, &self.0.policy.repetition);
            let now = self.0.timer.now();
            let hashed = self.0.found.hash_if(bill.watched, &case.subject.call);
            let attempt = gate.effects.attempt(&bill, &case.subject, hashed, now);
            let watched = repetition.watch(bill.history(), attempt, &last);
            self.noted(watched).map(|allowed| (bill, allowed.watched))
        });
        Ok(case.with(proven))
    }

    fn key(&mut self, mut case: Self::Watched) -> Result<Self::Keyed, Stop> {
        let Some((bill, watched)) = case.proven.take() else {
            return Ok(case.with(None));
        };
        let Subject { call, tool, rules } = &case.subject;
        if let Some(rule) = &rules.idempotency {
            if self
                .noted(rule.key(&call.asked(tool, bill.place), &watched))
                .is_none()
            {
                return Ok(case.with(None));
            }
            if rules.confirms.is_some() {
                let name = confirms::Settings::NAME.to_owned();
                self.0.found.observed().unasked.push(name);
            }
        }
        Ok(case.with(Some(bill)))
    }

    async fn look(&mut self, case: Self::Keyed) -> Result<Self::Open, Stop> {
        let Subject { call, tool, rules } = &case.subject;
        if let (Some(rule), Some(bill)) = (&rules.idempotency, &case.proven) {
            let observed = KeyObserved {
                call,
                tool,
                rule,
                place: bill.place,
                now: self.0.timer.now(),
                clock: self.0.gate.clock,
            };
            let joins = Box::pin(self.0.gate.effects.would_join(&observed)).await;
            if !joins.is_empty() {
                self.0.found.key.compared().would_join = joins;
            }
        }
        Ok(case)
    }

    async fn confirm(&mut self, case: Self::Open) -> Result<Self::Confirmed, Stop> {
        Ok(case)
    }

    async fn fund(&mut self, mut case: Self::Confirmed) -> Result<Self::Funded, Stop> {
        let Some(mut bill) = case.proven.take() else {
            return Ok(case.with(None));
        };
        let effects = &self.0.gate.effects;
        let affordable = effects.afford(&bill, &mut self.0.found.remaining).await;
        let proven = self.noted(affordable);
        Ok(case.with(proven.map(|over| {
            bill.over = over;
            bill
        })))
    }

    async fn approve(
        &mut self,
        case: Self::Funded,
    ) -> Result<Turn<Self::Approved, Self::Keyed>, Stop> {
        // What would wait for a person is counted like what would not.
        if let Some(bill) = &case.proven
            && let Some(rule) =
                approval::Rule::of(case.subject.rules.approval.as_ref(), bill.over.is_some())
        {
            self.noted::<()>(Err(rule.pending(None)));
        }
        Ok(Turn::On(case))
    }

    async fn fence(&mut self, case: Self::Approved) -> Result<Self::Fenced, Stop> {
        Ok(case)
    }

    async fn begin(&mut self, case: Self::Fenced) -> Result<Turn<Self::Begun, Self::Keyed>, Stop> {
        if let Some(bill) = &case.proven {
            self.0.taken.reserved = Box::pin(self.0.gate.effects.count(bill)).await;
        }
        let slot = self.0.gate.slot(&case.subject)?;
        self.0.taken.slot = Some(slot);
        Ok(Turn::On(BegunCall {
            subject: case.subject,
            cleared: Cleared::Observed(case.ruled),
        }))
    }

    async fn seal(&mut self, case: Self::Begun) -> Result<Self::Sealed, Stop> {
        let (case, refusal) = match self.0.sealed(case).await {
            Ok(sealed) => return Ok(sealed),
            Err(refused) => refused,
        };
        // It is sent although a reference stands wrong.
        let Some(sealed) = Sealed::observed(self.0.policy.mode) else {
            return Err(refusal.into());
        };
        self.noted::<()>(Err(refusal));
        Ok(SealedCall {
            subject: case.subject,
            cleared: case.cleared,
            sealed,
        })
    }

    fn send(&mut self, case: Self::Sealed) -> impl Future<Output = Result<Message, Stop>> + Send {
        self.0.sent(case)
    }
}
