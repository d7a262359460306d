//! Takes back what a task has done, the last call first; what cannot be taken back ends that, since
//! what was before it may be what it rests on.

use super::CallUndoer;
use crate::guards::rollback::Undo;
use crate::model::ids::ActionId;
use crate::store::state::budget::MAX_EVIDENCE_CALLS;
use crate::store::tasks::{TaskView, task};
use crate::store::undos::{
    NoTaskUndo, NoUndo, TaskUndoReport, TaskUndoStep, TaskUndoWord, UndoWord,
};

impl CallUndoer {
    /// Takes back the calls of a task that are known. What was taken back before is passed over, so that
    /// it can be asked for again; what fails is told, and the next is taken back all the same.
    pub(super) async fn whole_task(
        &self,
        word: TaskUndoWord,
    ) -> Result<TaskUndoReport, NoTaskUndo> {
        let TaskView { id, done, .. } = task(&*self.gate.effects.store, &word.task).await?;
        let (mut steps, mut stopped) = (Vec::new(), None);
        // What a task has done before that, it does not name.
        let is_full = done.len() >= MAX_EVIDENCE_CALLS;
        let first = done.first().filter(|_| is_full).cloned();
        for action in done.iter().rev() {
            let Ok(of) = action.parse::<ActionId>() else {
                continue;
            };
            let asked = UndoWord {
                of,
                who: word.who.clone(),
                why: word.why.clone(),
                is_dry: word.is_dry,
            };
            let step = match Box::pin(self.made(asked, None)).await {
                Ok(report) => TaskUndoStep {
                    action_id: report.action_id,
                    state: report.state,
                    tool: Some(report.tool),
                    by: report.by,
                    words: report.words,
                },
                Err(NoUndo::Unfit(why)) => return Err(NoTaskUndo::Unfit(why)),
                Err(why) => {
                    if self.is_pivot(&why) {
                        stopped = Some(action.clone());
                    }
                    self.passed(of, &why)
                }
            };
            steps.push(step);
            if stopped.is_some() {
                break;
            }
        }
        Ok(TaskUndoReport {
            task: id,
            steps,
            stopped: stopped.or(first),
        })
    }

    /// Whether what was done before the call is not taken back because of it.
    fn is_pivot(&self, why: &NoUndo) -> bool {
        let NoUndo::Nothing { tool, .. } = why else {
            // Nobody knows what it was.
            return matches!(why, NoUndo::NoCall(_));
        };
        let policy = self.gate.policy.current();
        let contract = policy.allowlist.contract_of(tool);
        contract.is_none_or(|rules| match rules.undo {
            Undo::Irreversible | Undo::Manual(_) | Undo::Unsaid => true,
            Undo::Additive | Undo::Call(_) => false,
        })
    }

    /// A call that was not taken back now.
    fn passed(&self, of: ActionId, why: &NoUndo) -> TaskUndoStep {
        let by = if let NoUndo::Done(by)
        | NoUndo::DoneByAgent(by)
        | NoUndo::Running(by)
        | NoUndo::Unknown(by) = why
        {
            Some(by.to_string())
        } else {
            None
        };
        let state = match why {
            NoUndo::Done(_) | NoUndo::DoneByAgent(_) => "done",
            _ if self.is_pivot(why) => "pivot",
            // Nothing is there to be taken back.
            NoUndo::NotRun(_) | NoUndo::Nothing { .. } | NoUndo::IsUndo(_) | NoUndo::NotAsked => {
                "passed"
            }
            NoUndo::Running(_) | NoUndo::InFlight => "running",
            NoUndo::Unknown(_) | NoUndo::UnknownOutcome(_) => "unknown",
            NoUndo::NoCall(_)
            | NoUndo::Held(_)
            | NoUndo::Over(_)
            | NoUndo::Lacking(_)
            | NoUndo::Away(_)
            | NoUndo::Unfit(_)
            | NoUndo::Store(_) => "failed",
        };
        TaskUndoStep {
            action_id: of.to_string(),
            state: state.to_owned(),
            tool: None,
            by,
            words: why.to_string(),
        }
    }
}
