//! What is told of tasks outside any request about them: each change, on subscriptions that name them
//! (protocol §1.8).

use super::look::TaskLook;
use crate::gate::Gate;
use crate::mcp::json::{Object, Text};
use crate::model::caller::Caller;
use crate::model::ids::ToolName;
use crate::side::task_news::TaskNews;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::broadcast;

impl TaskNews for Gate {
    fn task_tool(&self, caller: &Caller, id: &Text) -> Option<ToolName> {
        let id = self.own_task_id(caller, id)?;
        let policy = self.policy.current();
        let admitted = policy.allowlist.admit(caller, &id.tool).is_ok();
        admitted.then_some(id.tool)
    }

    fn changes(&self) -> broadcast::Receiver<Box<str>> {
        self.own_tasks.changes()
    }

    fn told<'a>(&'a self, caller: &'a Caller, id: &'a Text) -> BoxFuture<'a, Option<Object>> {
        async move {
            self.task_tool(caller, id)?;
            let id = self.own_task_id(caller, id)?;
            match self.look_at_task(&id).await.ok()? {
                TaskLook::Told(told) => {
                    let mut told = told.body?.object()?;
                    told.remove("resultType");
                    Some(told)
                }
                TaskLook::Unsent(_) | TaskLook::Unknown => None,
            }
        }
        .boxed()
    }
}
