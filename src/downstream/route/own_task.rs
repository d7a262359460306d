//! What requests have to do with tasks of toolgate's own.

use super::{AnswerPath, Arrived, CallHeaders};
use crate::downstream::Door;
use crate::gate::call::TaskTerms;
use crate::gate::own_tasks::OwnTaskId;
use crate::mcp::bridge::knows_tasks;
use crate::mcp::json::Text;
use crate::mcp::revision::Era;
use crate::telemetry::tasks::DetachOnDrop;
use std::sync::Arc;

/// What a call can have to do with tasks of toolgate's own: they are of agents that declared with
/// the very call that they know tasks.
pub(super) fn task_terms(arrived: &Arrived) -> TaskTerms {
    let params = arrived.message.body.as_ref();
    let params = params.filter(|_| arrived.revision.era() == Era::Modern);
    let knows = |params: &&Text| params.get("_meta").as_ref().is_some_and(knows_tasks);
    let params = params.filter(knows).cloned();
    params.map_or(TaskTerms::Unknown, TaskTerms::Possible)
}

impl CallHeaders {
    /// Of a request that was kept.
    pub(in crate::downstream) fn kept(key: Option<String>, session: Option<String>) -> Self {
        Self {
            key,
            session,
            ..Self::default()
        }
    }
}

impl Door {
    /// Answers what an agent asks of such a task.
    pub(super) fn begin_own_task(
        self: &Arc<Self>,
        arrived: Arrived,
        id: OwnTaskId,
        AnswerPath { outlet, waiting }: AnswerPath,
    ) -> DetachOnDrop {
        let (this, place) = (self.clone(), arrived.origin.place.clone());
        let work = async move {
            let answer = Box::pin(this.of_own_task(arrived, id)).await;
            waiting.answered();
            outlet.answer(answer);
        };
        DetachOnDrop::at(place, "held task", self.running.track_future(work))
    }
}
