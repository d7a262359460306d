//! Where a task says it is (003-73 … 003-76): takes it there, knows a call that is only planned,
//! and names what a task has done.

use crate::gate::call::Call;
use crate::gate::case::Subject;
use crate::gate::effects::Effects;
use crate::gate::effects::bill::Bill;
use crate::gate::effects::of_task;
use crate::gate::effects::unavailable;
use crate::gate::record::findings::StateFound;
use crate::guards::task::{Belonging, reported};
use crate::model::digest::Digest;
use crate::model::refusal::Refusal;
use crate::model::task::TaskState;
use crate::store::state::CommandRefusal;
use crate::store::state::command::StoreCommand;

impl Effects {
    /// Step 7: takes the task where its agent says it is. An agent that says nothing of it is not
    /// held to any order.
    pub(in crate::gate) async fn advance(
        &self,
        subject: &Subject<'_>,
        bill: &Bill,
        found: &mut StateFound,
    ) -> Result<(), Refusal> {
        let changes = subject.rules.side_effect;
        let Some(state) = reported(&subject.call.judged, changes)? else {
            return Ok(());
        };
        let known = self
            .look(of_task(bill.task))
            .await?
            .task
            .unwrap_or_default();
        *found = StateFound {
            before: known.state,
            evidence: if state == TaskState::Summarize {
                known.evidence
            } else {
                Vec::new()
            },
        };
        if known.state == Some(state) {
            Ok(())
        } else {
            self.take(bill.task, state).await
        }
    }

    async fn take(&self, task: Digest, state: TaskState) -> Result<(), Refusal> {
        match self
            .store
            .run(StoreCommand::Enter { task, state }, None)
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
        if planned && self.take(task.key, TaskState::Collect).await.is_err() {
            tracing::warn!(action = %call.judged.action, "a plan that failed still stands");
        }
    }
}

/// Whether the call is only planned: then nothing of it is sent, in observe mode neither.
pub(in crate::gate) fn is_planned(call: &Call) -> Result<bool, Refusal> {
    Ok(reported(&call.judged, false)? == Some(TaskState::Plan))
}
