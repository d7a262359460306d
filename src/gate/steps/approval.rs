//! Step 10: holds a call until a person has decided about exactly this call (guarantees §7). What
//! is asked and what was decided stands in the store; here calls wait for it, for a while, and come
//! again.

use crate::gate::Gate;
use crate::gate::call::TaskTerms;
use crate::gate::case::{KeyedCall, Subject};
use crate::gate::effects::Effects;
use crate::gate::effects::bill::Bill;
use crate::gate::effects::client_limits::ClientProgram;
use crate::gate::effects::unavailable;
use crate::gate::own_tasks::{KeptRequest, TASK_OVER};
use crate::gate::record::findings::ApprovalFound;
use crate::gate::record::timing::StageTimer;
use crate::gate::steps::hold_room::{HOLD_BOUNDS, beside_cancelled, full};
use crate::gate::steps::opened_page;
use crate::gate::steps::still_so::{bound_to, is_proved, is_still_so};
use crate::gate::steps::waiting::{AwaitedHold, HeldNews, MAX_TOLD_WAIT, progress_token, wait_for};
use crate::guards::approval::Approved;
use crate::guards::approval::right::ApprovalRight;
use crate::guards::approval::{ApprovalSubject, Rule};
use crate::guards::budget::word;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::model::times::millis;
use crate::policy::Policy;
use crate::store::operator::time;
use crate::store::state::command::{HoldRequest, StoreCommand};
use crate::store::state::hold::{Hold, HoldPhase, HoldQuestion, HoldStatus, hold_status};
use crate::store::state::{CommandRefusal, Millis, StoreKeys};
use alike::ALIKE_WORD;
use question::question;
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;

mod alike;
mod question;

impl Effects {
    /// Step 10. None: the call has waited, and everything from step 8 on has to be looked at again.
    pub(in crate::gate) async fn approve(
        &self,
        gate: &Gate,
        policy: &Policy,
        case: &KeyedCall<'_>,
        timer: &mut StageTimer,
    ) -> Result<Option<(Approved, Option<ApprovalFound>)>, Refusal> {
        let over = case.bill.over.map(word);
        let over = over.or_else(|| case.bill.is_alike.then_some(ALIKE_WORD));
        let subject = &case.subject;
        let rule = Rule::of(subject.rules.approval.as_ref(), over.is_some());
        match (Rule::unneeded(rule.as_deref()), rule.as_deref()) {
            (Some(unneeded), _) => Ok(Some((unneeded, None))),
            (None, Some(rule)) => {
                let question = ApprovalAsking {
                    effects: self,
                    gate,
                    policy,
                    subject,
                    rule,
                    over,
                    bill: &case.bill,
                };
                Box::pin(question.held(timer)).await
            }
            (None, None) => Err(Refusal::InternalError),
        }
    }
}

/// A call about which a person has to decide.
struct ApprovalAsking<'a> {
    effects: &'a Effects,
    gate: &'a Gate,
    policy: &'a Policy,
    subject: &'a Subject<'a>,
    rule: &'a Rule,
    /// The limit that it would go over, or that it is much like another one, if a person is asked for
    /// that.
    over: Option<&'static str>,
    bill: &'a Bill,
}

/// What people have allowed in `hold`.
fn found_in(hold: &Hold) -> ApprovalFound {
    ApprovalFound {
        edit: hold.allowed_edit().map(Box::new),
        hold: Some(hold.id),
        grant: None,
        by: allowed_by(hold),
        right: ApprovalRight::of(hold),
    }
}

impl ApprovalAsking<'_> {
    async fn held(
        &self,
        timer: &mut StageTimer,
    ) -> Result<Option<(Approved, Option<ApprovalFound>)>, Refusal> {
        let (effects, gate, rule) = (self.effects, self.gate, self.rule);
        let Subject { call, .. } = self.subject;
        self.judge_reach()?;
        let key = self.key();
        let place = StoreKeys {
            hold: Some(key),
            ..StoreKeys::default()
        };
        let hold = effects.look(place).await?.hold;
        let now = effects.store.now();
        let stands = hold_status(hold.as_ref(), now);
        if let TaskTerms::Of(id) = call.origin.task {
            is_of_task(id, hold.as_ref(), &stands)?;
        }
        let kept = hold.as_ref().and_then(|hold| hold.question.request.clone());
        let (id, until) = hold.as_ref().map_or((call.judged.action, 0), |hold| {
            (hold.id, deadline(hold, &stands))
        });
        let mut changes = gate.policy.swaps();
        changes.mark_unchanged();
        let is_bound = || {
            let so = is_still_so(gate, self.policy, self.subject);
            let said = |hold| ApprovalRight::of(hold).judge(&gate.approvers.current());
            so.and_then(|()| hold.as_ref().map_or(Ok(()), said))
        };
        let void = |why| Refusal::ApprovalTimeout { id, why };
        match rule.judge(key, &stands, id, &time(until)) {
            Ok(Some(approved)) => {
                let is_proved = |()| is_proved(gate, self.subject);
                is_bound().and_then(is_proved).map_err(void)?;
                let approved = approved.of_edited(hold.as_ref().and_then(Hold::edited));
                Ok(Some((approved, hold.as_ref().map(found_in))))
            }
            Ok(None) => self.granted_or_asked(key).await,
            Err(pending @ Refusal::ApprovalPending { .. }) => {
                is_bound().map_err(void)?;
                let hold = AwaitedHold {
                    id,
                    roles: &rule.roles,
                    before: timer.held_for(),
                    left: Duration::from_millis(until.saturating_sub(now)),
                    until,
                };
                let patience = self.patience(key, &hold);
                let is_over = patience.is_zero() || effects.ending.is_cancelled();
                if is_over || self.becomes_task(kept.as_ref()) {
                    return Err(self.told(pending, key));
                }
                let patience = patience.min(hold.left);
                let waited = self.wait(key, &hold, patience, changes).await;
                timer.held();
                waited?;
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Whether a person can be asked about the call at all, with everything that is shown of it.
    fn judge_reach(&self) -> Result<(), Refusal> {
        let Subject { call, .. } = self.subject;
        let rewritten = call.judged.rewritten.as_ref();
        let was = rewritten.map(|was| was.original.clone());
        let more = [call.answers(), call.beside(), was];
        let (caller, arguments) = (&call.origin.caller, &call.judged.arguments);
        self.rule
            .reach(&self.gate.approvers.current(), caller, arguments, &more)
    }

    /// The call passes if a standing grant covers it; else a person is asked. What a person was asked
    /// about already waits for that person, whatever is granted meanwhile, and what was denied stays so.
    async fn granted_or_asked(
        &self,
        key: Digest,
    ) -> Result<Option<(Approved, Option<ApprovalFound>)>, Refusal> {
        let (gate, rule) = (self.gate, self.rule);
        // That a call goes over a limit is asked about by itself.
        if self.over.is_none() {
            let granted = self.effects.granted(gate, self.policy, self.subject, rule);
            if let Some((approved, found)) = granted.await? {
                return Ok(Some((approved, Some(found))));
            }
        }
        // Nobody is asked about what could not run any more.
        is_still_so(gate, self.policy, self.subject).map_err(|why| Refusal::ApprovalTimeout {
            id: self.subject.call.judged.action,
            why,
        })?;
        self.ask(key).await.map(|()| None)
    }

    /// What a decision is bound to: exactly this call, and the task whose limit it goes over. What other calls
    /// are like it is no matter of its task.
    fn key(&self) -> Digest {
        let over = self.over.map(|word| match word {
            ALIKE_WORD => word.to_owned(),
            limit => format!("{limit} of {}", self.bill.task),
        });
        hold_key(self.policy, self.subject, over.as_deref())
    }

    /// Holds the call, durably, unless another call has just held the same.
    async fn ask(&self, key: Digest) -> Result<(), Refusal> {
        let (rule, caller) = (self.rule, &self.subject.call.origin.caller);
        let now = self.gate.clock.steady();
        let cancelled = self.effects.cancelled.lately(caller, now);
        let mut ask = HoldRequest {
            key,
            id: self.subject.call.judged.action,
            approve_for: millis(rule.approve_for),
            execute_for: millis(rule.execute_for),
            needed: rule.needed,
            roles: rule.roles.clone(),
            self_approval: rule.self_approval,
            question: HoldQuestion {
                over: self.over.map(str::to_owned),
                because: Some(self.because()),
                left: self.left().await?,
                show: rule.show.clone(),
                notify: rule.notify.clone(),
                terms: rule.terms.clone(),
                request: KeptRequest::value_of(&self.subject.call),
                ..question(self.policy, self.subject)
            },
            bounds: beside_cancelled(HOLD_BOUNDS, cancelled),
        };
        let mut asked = self.asked(ask.clone()).await?;
        if let Err(CommandRefusal::TooManyHolds(_)) = asked {
            let bounds = self.gate.bounds_beside_void(&ask.question).await?;
            ask.bounds = beside_cancelled(bounds, cancelled);
            asked = self.asked(ask).await?;
        }
        match asked {
            Ok(()) | Err(CommandRefusal::Held(_)) => Ok(()),
            Err(CommandRefusal::TooManyHolds(bound)) => Err(full(bound)),
            Err(_) => Err(Refusal::InternalError),
        }
    }

    async fn asked(&self, ask: HoldRequest) -> Result<Result<(), CommandRefusal>, Refusal> {
        let store = &self.effects.store;
        let asked = store.run(StoreCommand::Hold(Box::new(ask)), None).await;
        Ok(asked.map_err(unavailable)?.map(drop))
    }

    /// Whether its agent reads a task at once: one that knows tasks, of the request that is `kept` with
    /// the hold.
    fn becomes_task(&self, kept: Option<&Value>) -> bool {
        kept.is_some() && kept == KeptRequest::value_of(&self.subject.call).as_ref()
    }

    /// How long the call waits from now on: as the contract says; longer where its agent hears that it
    /// waits, unless the contract has it answered at once, or where it asks too often; and never until
    /// its agent's program hangs up.
    fn patience(&self, key: Digest, hold: &AwaitedHold<'_>) -> Duration {
        let (effects, call, rule) = (self.effects, &self.subject.call, self.rule);
        let now = self.gate.clock.steady();
        // An undo goes on by itself once it is allowed.
        if call.origin.undoes.is_some() {
            return Duration::ZERO;
        }
        if matches!(call.origin.task, TaskTerms::Of(_) | TaskTerms::Round(_)) {
            return Duration::MAX;
        }
        if hold.before.is_zero() {
            effects.repeats.ask(key, now);
        }
        let is_told = !rule.hold.is_zero() && progress_token(call).is_some();
        let most = if is_told { MAX_TOLD_WAIT } else { rule.hold };
        let most = self.page_wait().unwrap_or(most);
        let most = most.max(effects.repeats.slowed(key, now).pause);
        let patience = most.saturating_sub(hold.before);
        let program = ClientProgram::of(call);
        let longest = program.and_then(|program| effects.client_limits.longest(program, now));
        let since = now.saturating_sub(call.judged.arrived);
        longest.map_or(patience, |most| patience.min(most.saturating_sub(since)))
    }

    /// How long the call waits where its agent is asked to open the hold's page instead.
    fn page_wait(&self) -> Option<Duration> {
        let asks = self.rule.open_page;
        asks.then(|| opened_page::page_wait(self.gate, &self.subject.call))?
    }

    /// The refusal of a call that has waited long enough: where a person reads of it, and when it may
    /// come again.
    fn told(&self, mut pending: Refusal, key: Digest) -> Refusal {
        let now = self.gate.clock.steady();
        let after_ms = self.effects.repeats.slowed(key, now).after_ms;
        if let Refusal::ApprovalPending {
            hold: Some(hold), ..
        } = &mut pending
        {
            (hold.page, hold.after_ms) = (self.gate.page_of(hold.id), after_ms);
            let asks = self.page_wait().is_some();
            let asked = &self.subject.call.origin.asks_page;
            asked.store(asks, Ordering::Relaxed);
        }
        pending
    }

    /// Waits for the decision, `most` of the time, or for another policy or other operators; an agent that hangs up leaves
    /// the hold as it is, and so does toolgate when it ends.
    async fn wait(
        &self,
        key: Digest,
        hold: &AwaitedHold<'_>,
        most: Duration,
        mut changes: watch::Receiver<u64>,
    ) -> Result<(), Refusal> {
        let call = &self.subject.call;
        let news = HeldNews::of(self.gate, call, hold);
        let _told = self
            .gate
            .own_tasks
            .round_waits(&call.origin.task, hold.roles, hold.until);
        if self.rule.open_page {
            opened_page::put(self.gate, call, hold).await;
        }
        tokio::select! {
            biased;
            away = call.origin.gone() => {
                if let Some(away) = away {
                    self.hung_up(away);
                }
                Err(Refusal::CancelledUnsent { hold: Some(hold.id) })
            }
            () = self.effects.ending.cancelled() => Ok(()),
            () = self.effects.store.decided(key) => {
                if self.rule.open_page {
                    opened_page::done(self.gate, call, hold).await;
                }
                Ok(())
            }
            _ = changes.changed() => Ok(()),
            () = wait_for(self.gate.clock, most) => Ok(()),
            never = news.tell() => match never {},
        }
    }

    /// The next call of the agent's program is answered before it hangs up, which it did so long ago.
    fn hung_up(&self, ago: Duration) {
        let (call, now) = (&self.subject.call, self.gate.clock.steady());
        let after = now.saturating_sub(call.judged.arrived + ago);
        if let Some(program) = ClientProgram::of(call) {
            let limits = &self.effects.client_limits;
            limits.hung_up(program, after, now);
        }
    }
}

/// What a decision on the call is bound to, which is asked about because it goes `over` something, if it does.
fn hold_key(policy: &Policy, subject: &Subject<'_>, over: Option<&str>) -> Digest {
    let Subject { call, tool, .. } = subject;
    let key = Rule::key(&ApprovalSubject {
        caller: &call.origin.caller,
        tool: &tool.name,
        definition: &tool.hash,
        arguments: &call.judged.arguments,
        round: call.round(),
        beside: call.beside().as_ref(),
        policy: bound_to(policy, subject),
        over,
    });
    // A word on an undo is none on the same call of the agent's own, nor on the undo of another call.
    let undone = call.origin.undoes.as_ref();
    undone.map_or(key, |undone| {
        Digest::of_parts("hold of an undo", &[key.as_bytes(), undone.of.as_bytes()])
    })
}

/// Until when it could run, of a call that has lapsed; else until when it can be decided.
fn deadline(hold: &Hold, stands: &HoldStatus) -> Millis {
    if let HoldStatus::Lapsed { until, .. } = stands {
        *until
    } else {
        hold.approve_by
    }
}

fn allowed_by(hold: &Hold) -> Vec<String> {
    hold.allowed_by().map(str::to_owned).collect()
}

/// The call of a task uses the hold of that, and no other: it asks nobody anew.
fn is_of_task(id: ActionId, hold: Option<&Hold>, stands: &HoldStatus) -> Result<(), Refusal> {
    let own = hold.filter(|hold| hold.id == id);
    if own.is_some_and(|hold| hold.phase == HoldPhase::Withdrawn) {
        return Err(Refusal::CancelledUnsent { hold: Some(id) });
    }
    if own.is_none() || *stands == HoldStatus::Absent {
        return Err(Refusal::ApprovalTimeout { id, why: TASK_OVER });
    }
    Ok(())
}
