//! What events make of what was known.

use super::budget::TaskUsage;
use super::claim::{Age, Claim, ClaimPhase, PossibleUndo};
use super::event::{
    BudgetReserved, BudgetSettled, Carried, HoldDecided, HoldEdited, HoldExtended, Intended,
    Settled, StoreEvent, TaskAct, TaskSteered,
};
use super::fence::SessionFence;
use super::grant::Grant;
use super::hold::{self, Hold, UsedClaim};
use super::settlement::{Charge, Evidence};
use super::undo::{OpenUndo, UndoChange};
use super::undoing;
use super::{Millis, StoreView};
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::model::rate::Rate;
use crate::model::task::{TaskOrigin, TaskState, TaskStopped};

/// Rates are those of a task: an account has none.
const NO_RATE: (Option<Rate>, u64) = (None, 0);

/// What `event` makes of what was known. Total: an event that was decided once is never refused.
pub fn apply(event: &StoreEvent, view: &mut StoreView) {
    match event {
        StoreEvent::Intended(intended) => apply_intended(intended, view),
        StoreEvent::Settled(settled) => apply_settled(settled, view),
        StoreEvent::Reserved(reserved) => apply_reserved(reserved, view),
        StoreEvent::Spent(spent) => {
            apply_spent(spent, &mut view.task);
            if spent.account.is_some() {
                apply_spent(spent, &mut view.account);
            }
        }
        StoreEvent::Tallied(tallied) => {
            let task = begun(&mut view.task, tallied.begins.as_ref(), tallied.since);
            task.tally(&tallied.reads, tallied.at);
        }
        StoreEvent::Entered {
            state, begins, at, ..
        } => {
            let task = begun(&mut view.task, begins.as_ref(), *at);
            task.enter(*state, *at);
        }
        StoreEvent::Planned {
            call, begins, at, ..
        } => {
            let task = begun(&mut view.task, begins.as_ref(), *at);
            task.intend(*call, *at);
        }
        StoreEvent::Steered(steered) => apply_steered(steered, view),
        StoreEvent::Carried(Carried::Claim(_, claim)) => view.claim = Some((**claim).clone()),
        StoreEvent::Carried(Carried::Task(_, task)) => view.task = Some((**task).clone()),
        StoreEvent::Carried(Carried::Session(_, session)) => view.session = Some(*session),
        StoreEvent::Carried(Carried::Hold(_, hold)) => view.hold = Some((**hold).clone()),
        StoreEvent::Carried(Carried::Grant(_, grant)) => view.grant = Some((**grant).clone()),
        StoreEvent::Granted(minted) => {
            view.grant = Some(minted.grant.clone());
            if let (Some(decided), Some(hold)) = (&minted.allowed, &mut view.hold) {
                hold.take(decided);
            }
        }
        StoreEvent::Revoked(revoked) => {
            let meant = view.grant.iter_mut().filter(|grant| grant.id == revoked.id);
            meant.for_each(|grant| grant.revoked = Some(revoked.revoked.clone()));
        }
        StoreEvent::UndoAsked(asked) => undoing::ask(asked, view),
        StoreEvent::Carried(Carried::Undo(_, undo)) => view.undo = Some((**undo).clone()),
        StoreEvent::Held(held) => view.hold = Some(held.hold.clone()),
        StoreEvent::Decided(decided) => view.hold.iter_mut().for_each(|hold| hold.take(decided)),
        StoreEvent::Edited(edited) => view.hold.iter_mut().for_each(|hold| hold.edit(edited)),
        StoreEvent::Extended(more) => view.hold.iter_mut().for_each(|hold| hold.extend(more)),
        StoreEvent::Noted(_) => {}
        StoreEvent::Fenced { token, at, .. } => {
            view.session = Some(SessionFence::holding(view.session.as_ref(), *token, *at));
        }
    }
}

/// The task that goes on, or the one that `begins`.
pub(super) fn begun<'a>(
    task: &'a mut Option<TaskUsage>,
    begins: Option<&TaskOrigin>,
    at: Millis,
) -> &'a mut TaskUsage {
    if let Some(origin) = begins {
        let rates = task.take().map(TaskUsage::rates).unwrap_or_default();
        *task = Some(TaskUsage {
            origin: Some(origin.clone()),
            tools: rates,
            ..TaskUsage::new(at)
        });
    }
    task.get_or_insert_with(|| TaskUsage::new(at))
}

fn apply_steered(steered: &TaskSteered, view: &mut StoreView) {
    let task = begun(&mut view.task, None, steered.at);
    match steered.act {
        TaskAct::Stop => {
            task.stopped = Some(TaskStopped {
                who: steered.who.clone(),
                why: steered.why.clone(),
                at: steered.at,
            });
        }
        TaskAct::Reset => task.reset(steered.at),
    }
}

/// What `event` makes of a grant, for who follows nothing else.
pub(crate) fn apply_to_grant(event: &StoreEvent, before: Option<Grant>) -> Option<Grant> {
    let mut view = StoreView {
        grant: before,
        ..StoreView::default()
    };
    // An end is only recorded of the claim that it is of; that is not followed here.
    if let StoreEvent::Settled(settled) = event {
        give_back(settled, &mut view.grant);
    } else {
        apply(event, &mut view);
    }
    view.grant
}

/// What `event` makes of an undo, for who follows nothing else.
pub(crate) fn apply_to_undo(event: &StoreEvent, before: Option<OpenUndo>) -> Option<OpenUndo> {
    let mut view = StoreView {
        undo: before,
        ..StoreView::default()
    };
    if let StoreEvent::Settled(settled) = event {
        let change = settled.undo.iter();
        change.for_each(|change| change.apply(&mut view.undo, settled.at));
    } else {
        apply(event, &mut view);
    }
    view.undo
}

/// What did not run is not counted.
fn give_back(settled: &Settled, grant: &mut Option<Grant>) {
    if let (Some(used), Some(grant)) = (&settled.grant, grant) {
        grant.give_back(used);
    }
}

fn apply_reserved(reserved: &BudgetReserved, view: &mut StoreView) {
    let (tool, cost, at) = (reserved.tool.as_str(), reserved.cost, reserved.at);
    let task = begun(&mut view.task, reserved.begins.as_ref(), at);
    task.reserve(tool, cost, (reserved.window, reserved.rate), at);
    if let Some(share) = &reserved.account {
        let account = begun(&mut view.account, share.begins.as_ref(), at);
        account.reserve(tool, cost, NO_RATE, at);
    }
    if let (Some((_, action)), Some(hold)) = (reserved.hold, &mut view.hold) {
        let claim = UsedClaim::Nothing;
        hold.phase = hold::HoldPhase::Used { action, at, claim };
    }
}

/// What the end of a call makes of its task, or of the account of its user.
fn apply_spent(spent: &BudgetSettled, task: &mut Option<TaskUsage>) {
    let task = task.get_or_insert_with(|| TaskUsage::new(spent.at));
    if spent.is_refused {
        task.last = task.last.max(spent.at);
        return;
    }
    let is_unsent = matches!(spent.charge, Some((_, Charge::Release)));
    if let Some(since) = spent.since.filter(|_| is_unsent) {
        task.unsend(&spent.tool, since, spent.at);
    }
    if spent.since.is_some_and(|since| since < task.began) {
        return;
    }
    if let Some((reserved, charge)) = spent.charge {
        task.settle(&spent.tool, reserved, charge);
    }
    // What is learnt of a call that has ended says nothing of how its task fares now.
    if spent.is_past {
        if let Some(seen) = spent.seen {
            task.note(false, Some(seen), spent.at);
        }
        return;
    }
    // What was never sent has not failed: its agent was told to send it again (003-17).
    let has_failed = spent.failed && !is_unsent;
    task.end(&spent.tool, has_failed, spent.seen, spent.at);
    if !spent.failed && spent.seen.is_none_or(|seen| !seen.refused) {
        task.succeed_with(&spent.tool);
    }
}

fn apply_intended(intended: &Intended, view: &mut StoreView) {
    if intended.round == 0 {
        let task = begun(&mut view.task, intended.begins.as_ref(), intended.at);
        task.reserve(
            intended.counted(),
            intended.cost,
            (intended.window, intended.rate),
            intended.at,
        );
        // What is done is done, whatever its agent says of it.
        if intended.entry.state == TaskState::Execute.word() {
            task.state = Some(TaskState::Execute);
        }
        if let Some(share) = &intended.account {
            let account = begun(&mut view.account, share.begins.as_ref(), intended.at);
            account.reserve(intended.counted(), intended.cost, NO_RATE, intended.at);
        }
    }
    view.session = Some(SessionFence::holding(
        view.session.as_ref(),
        intended.fence,
        intended.at,
    ));
    view.claim = Some(Claim::begun(intended, view.claim.as_ref()));
    if let (Some(used), Some(grant)) = (&intended.grant, &mut view.grant) {
        grant.take(used, intended.at);
    }
    if let (Some(_), Some(undo)) = (intended.undoes, &mut view.undo) {
        undo.begin(intended.action, intended.key, intended.at);
    }
    if let (Some(_), Some(hold)) = (intended.hold, &mut view.hold) {
        hold.phase = hold::HoldPhase::Used {
            action: intended.action,
            at: intended.at,
            claim: UsedClaim::Key(intended.key),
        };
    }
}

fn apply_settled(settled: &Settled, view: &mut StoreView) {
    let Some(claim) = view
        .claim
        .as_mut()
        .filter(|claim| claim.action == settled.action)
    else {
        return;
    };
    for task in [&mut view.task, &mut view.account].into_iter().flatten() {
        settle_task(settled, claim, task);
    }
    claim.settle(settled);
    if let Some(change) = &settled.undo {
        change.apply(&mut view.undo, settled.at);
    }
    give_back(settled, &mut view.grant);
}

/// What the end of `claim` makes of its task, or of the account of its user.
fn settle_task(settled: &Settled, claim: &Claim, task: &mut TaskUsage) {
    let counted = claim.counted.as_ref().unwrap_or(&claim.tool);
    let is_unsent = settled.phase == ClaimPhase::NotSent;
    // A later round was counted with the first, which was sent. What others say of a call says that it
    // did not run, and not that its server was not asked.
    let is_own = match settled.evidence {
        Evidence::Exchange | Evidence::Late | Evidence::UpstreamKey | Evidence::Restart => true,
        Evidence::Operator { .. } | Evidence::Probe => false,
    };
    if is_unsent && is_own && claim.answered.is_empty() {
        task.unsend(counted, claim.began, settled.at);
    }
    // What was reserved before the task began anew is no part of what it has used since.
    if claim.began < task.began {
        task.prove(settled.action, &settled.phase);
        return;
    }
    task.settle(counted, claim.reserved, settled.charge);
    let has_failed = settled.failed && !is_unsent;
    task.end(counted, has_failed, settled.seen, settled.at);
    task.prove(settled.action, &settled.phase);
    // What is found out later, by an operator or a probe, says nothing of how the task fares now.
    let is_done =
        matches!(settled.phase, ClaimPhase::Completed(_)) && settled.evidence == Evidence::Exchange;
    if is_done && !settled.failed {
        task.succeed_with(counted);
    }
}

impl Claim {
    /// The claim that an intent makes of what was `before`. A later round goes on with what the
    /// first one reserved.
    fn begun(intended: &Intended, before: Option<&Self>) -> Self {
        let paid = before.filter(|_| intended.round > 0);
        let paid = paid.map(|paid| {
            (
                (paid.task, paid.account),
                paid.tool.clone(),
                paid.counted.clone(),
                paid.reserved,
            )
        });
        let first = || {
            (
                (
                    intended.task,
                    intended.account.as_ref().map(|account| account.key),
                ),
                ToolName::new(&intended.entry.tool),
                intended.counted.clone(),
                intended.cost,
            )
        };
        let ((task, account), tool, counted, reserved) = paid.unwrap_or_else(first);
        Self {
            action: intended.action,
            fingerprint: intended.fingerprint,
            attempt: intended.attempt,
            brought: intended.brought,
            answered: before
                .map(|before| before.answered_before(intended))
                .unwrap_or_default(),
            phase: ClaimPhase::Dispatching,
            began: intended.at,
            changed: intended.at,
            ttl: intended.ttl,
            keep: intended.keep,
            task,
            account,
            session: intended.session,
            fence: intended.fence,
            reserved,
            tool,
            counted,
            agent: intended.entry.agent().to_owned(),
            user: intended.entry.named_user().map(str::to_owned),
            kinship: intended.kinship.clone(),
            grant: intended.grant.or(before
                .and_then(|paid| paid.grant)
                .filter(|_| intended.round > 0)),
            is_late: false,
            edited: intended.edited.or(before
                .and_then(|paid| paid.edited)
                .filter(|_| intended.round > 0)),
            was_unknown: false,
            inquiry: intended.inquiry.clone(),
            undo: intended.undo.clone(),
            undoes: intended.undoes,
            may_undo: intended.may_undo.map(PossibleUndo::new),
        }
    }

    /// What of its rounds the server has answered by asking, when `intended` follows.
    fn answered_before(&self, intended: &Intended) -> Vec<Option<Digest>> {
        if intended.round > 0 {
            return self
                .answered
                .iter()
                .copied()
                .chain([self.brought])
                .collect();
        }
        let goes_on = self.is_released() && self.age(intended.at) != Age::Forgotten;
        if goes_on {
            self.answered.clone()
        } else {
            Vec::new()
        }
    }

    fn settle(&mut self, settled: &Settled) {
        let was_asked = matches!(self.phase, ClaimPhase::AwaitingInput { .. });
        if was_asked && settled.evidence == Evidence::Late {
            // Its own exchange went on after the question: whatever is found out of it later, this
            // round was answered.
            self.answered.push(self.brought);
        }
        self.was_unknown |= self.holds_kin();
        self.phase = settled.phase.clone();
        if let Some(UndoChange::Offered(_)) = settled.undo.as_deref() {
            // It stands there from then on.
            self.undo = None;
        }
        self.is_late |= settled.evidence != Evidence::Exchange;
        self.changed = settled.at;
        if self.phase.is_final() {
            self.inquiry = None;
        }
        let has_failed = match self.phase {
            ClaimPhase::Completed(_) => settled.failed,
            ClaimPhase::Failed { .. } | ClaimPhase::NotSent => true,
            ClaimPhase::Dispatching
            | ClaimPhase::AwaitingInput { .. }
            | ClaimPhase::Unknown { .. }
            | ClaimPhase::Abandoned => false,
        };
        if let Some(undo) = self.may_undo.as_mut().filter(|_| has_failed) {
            undo.is_over = true;
        }
        if self.is_released() && matches!(settled.evidence, Evidence::Operator { .. }) {
            // The operator speaks of the call, not of the round in which it stood.
            self.answered.clear();
        }
    }
}

impl Hold {
    /// Takes in what an operator decided, if this hold was meant.
    fn take(&mut self, decided: &HoldDecided) {
        if self.id == decided.id {
            self.decisions.push(decided.decision.clone());
            self.phase = decided.phase.clone();
        }
    }

    /// Takes in the arguments that an operator gave it, if this hold was meant.
    fn edit(&mut self, edited: &HoldEdited) {
        if self.id != edited.id {
            return;
        }
        let question = &mut self.question;
        let before = std::mem::replace(&mut question.arguments, edited.arguments.clone());
        question.unedited.get_or_insert(before);
        self.edits.push(edited.edit.clone());
        self.decisions.clear();
    }

    /// Takes in the time that an operator gave, if this hold was meant.
    fn extend(&mut self, more: &HoldExtended) {
        if self.id == more.id {
            self.extended_by = Some(more.who.clone());
            self.approve_by = more.approve_by;
        }
    }
}
