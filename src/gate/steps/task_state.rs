//! Where a task says it is (003-73 … 003-76): takes it there, knows a call that is only planned, and
//! names what a task has done. What the loop detector is told of a call.

use crate::gate::call::Call;
use crate::gate::case::Subject;
use crate::gate::effects::Effects;
use crate::gate::effects::bill::{Bill, planned_call};
use crate::gate::effects::of_task;
use crate::gate::effects::unavailable;
use crate::gate::record::findings::StateFound;
use crate::gate::record::hashes::HashedCall;
use crate::guards::repetition::WatchedAttempt;
use crate::guards::task::{Belonging, not_planned, reported};
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::model::task::TaskState;
use crate::store::state::CommandRefusal;
use crate::store::state::budget::TaskUsage;
use crate::store::state::command::{EnterState, StoreCommand};
use std::time::Duration;

impl Effects {
    /// Step 7: the call, as the loop detector knows it at `now`; not `hashed` when it does not watch.
    pub(in crate::gate) fn attempt<'a>(
        &self,
        bill: &Bill,
        subject: &'a Subject<'_>,
        hashed: Option<&HashedCall>,
        now: Duration,
    ) -> WatchedAttempt<'a> {
        let caller = &subject.call.origin.caller;
        let (call, caller_row) = match hashed {
            Some(HashedCall { seen, .. }) => {
                (*seen, self.caller_rows.row(&caller.key(), *seen, now))
            }
            None => (0, 0),
        };
        WatchedAttempt {
            tool: &subject.tool.name,
            changes: subject.rules.side_effect,
            call,
            row: bill.before.as_ref().map_or(0, |task| task.equal_calls),
            caller_row,
        }
    }

    /// Step 7: takes the task where its agent says it is. An agent that says nothing of it is not
    /// held to any order.
    pub(in crate::gate) async fn advance(
        &self,
        subject: &Subject<'_>,
        bill: &Bill,
        found: &mut StateFound,
    ) -> Result<(), Refusal> {
        let changes = subject.rules.side_effect;
        let state = reported(&subject.call.judged, changes)?;
        let known = bill.before.as_ref();
        // A plan binds what changes something, whatever its agent says of it (003-11).
        let plan = known.filter(|task| changes && task.is_planned);
        if let Some(task) = plan.filter(|_| state != Some(TaskState::Plan)) {
            keeps_to(task, &subject.call)?;
        }
        let Some(state) = state else {
            return Ok(());
        };
        let before = known.and_then(|task| task.state);
        *found = StateFound {
            before,
            evidence: if state == TaskState::Summarize {
                known.map(|task| task.evidence.clone()).unwrap_or_default()
            } else {
                Vec::new()
            },
        };
        // A task comes to its plan with the first call that would pass (003-11).
        if before == Some(state) || state == TaskState::Plan {
            return Ok(());
        }
        let enter = EnterState {
            task: bill.task,
            state,
            idle: bill.asked.limits.idle,
            origin: Some(bill.origin()),
        };
        Box::pin(self.take(enter)).await
    }

    async fn take(&self, enter: EnterState) -> Result<(), Refusal> {
        let state = enter.state;
        match self
            .store
            .run(StoreCommand::Enter(enter), None)
            .await
            .map_err(unavailable)?
        {
            Ok(_) => Ok(()),
            Err(CommandRefusal::State { before }) => {
                Err(Refusal::StateOutOfOrder { before, state })
            }
            Err(_) => Err(Refusal::InternalError),
        }
    }

    /// What the call's task has done, or may have: calls with side effects (003-91).
    pub(in crate::gate) async fn done(&self, call: &Call) -> Vec<ActionId> {
        let Ok(Belonging { task, .. }) = Belonging::of(&call.origin.caller, &call.judged) else {
            return Vec::new();
        };
        let view = self.look(of_task(task.key)).await.ok();
        view.and_then(|view| Some(view.task?.evidence))
            .unwrap_or_default()
    }

    /// A plan with a step that would be refused is none: its task is asking again (003-74).
    pub(in crate::gate) async fn give_up_plan(&self, call: &Call) {
        let Ok(Belonging { task, .. }) = Belonging::of(&call.origin.caller, &call.judged) else {
            return;
        };
        let planned = self
            .look(of_task(task.key))
            .await
            .ok()
            .and_then(|view| view.task?.state)
            == Some(TaskState::Plan);
        let enter = EnterState {
            task: task.key,
            state: TaskState::Collect,
            idle: None,
            origin: None,
        };
        if planned && self.take(enter).await.is_err() {
            tracing::warn!(action = %call.judged.action, "a plan that failed still stands");
        }
    }
}

/// Whether a call is in the plan of its task.
fn keeps_to(task: &TaskUsage, call: &Call) -> Result<(), Refusal> {
    if task.plan.contains(&planned_call(call)) {
        return Ok(());
    }
    Err(not_planned())
}

/// Whether the call is only planned: then nothing of it is sent, in observe mode neither.
pub(in crate::gate) fn is_planned(call: &Call) -> Result<bool, Refusal> {
    Ok(reported(&call.judged, false)? == Some(TaskState::Plan))
}
