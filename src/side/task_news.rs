//! Word of tasks of toolgate's own, for subscriptions that ask for it (protocol §1.8, §6.4): the gate
//! has the tasks, and the relay the subscriptions.

use crate::mcp::json::{Object, Text};
use crate::model::caller::Caller;
use crate::model::ids::ToolName;
use futures_util::future::BoxFuture;
use tokio::sync::broadcast;

/// Who knows how tasks of toolgate's own stand.
pub(crate) trait TaskNews: Send + Sync {
    /// The tool of the task, if that was given to this caller, which may still call it.
    fn task_tool(&self, caller: &Caller, id: &Text) -> Option<ToolName>;

    /// The ids of tasks from now on, each when it stands otherwise than before.
    fn changes(&self) -> broadcast::Receiver<Box<str>>;

    /// How a task stands; none if that cannot be said now.
    fn told<'a>(&'a self, caller: &'a Caller, id: &'a Text) -> BoxFuture<'a, Option<Object>>;
}
