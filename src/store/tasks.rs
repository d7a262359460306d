//! What an operator sees of tasks, and makes of them: stops one, or gives it its budget back
//! (003-04, 003-09). Who did so and why stands in the journal for good.

use super::claims::{Store, StoreError, TaskSearch};
use super::operator::{MAX_RESOLVE_REASON_BYTES, reason, time};
use super::state::CommandRefusal;
use super::state::budget::{MICROS_PER_UNIT, TaskUsage};
use super::state::command::{SteerTask, StoreCommand};
use super::state::event::TaskAct;
use crate::mcp::json::fold::is_same_name;
use crate::model::digest::Digest;
use crate::model::task::TaskOrigin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tasks that are listed at once, at most.
pub(crate) const MAX_TASKS_LISTED: usize = 1000;
/// Hex digits of a task's id, as operators read it.
const TASK_ID_DIGITS: usize = 16;
/// Hex digits by which an operator may name a task.
const MIN_TASK_ID_DIGITS: usize = 8;

/// A task, as operators read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TaskView {
    /// By which it is named here.
    pub id: String,
    /// The agent; none for a task from before that was kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<String>,
    /// Its tenant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<String>,
    /// The user for whom it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// What named it: `task`, `session`, `header`, `trace`, or `agent` for nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub named_by: Option<String>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// Where it is: `collect`, `plan`, `execute` or `summarize`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<String>,
    /// When it began, RFC 3339 in UTC.
    pub began: String,
    /// When it last did anything.
    pub last: String,
    /// Calls that reached its budget.
    pub steps: u64,
    /// Calls sent.
    pub tool_calls: u64,
    /// What they cost, in units.
    pub cost: f64,
    /// Calls that failed.
    pub failures: u64,
    /// Its last calls with side effects that ran or may have, by their action ids.
    pub done: Vec<String>,
    /// Whether an operator has stopped it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<TaskStopView>,
}

/// An operator's word on a task, as operators read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TaskStopView {
    /// The operator.
    pub who: String,
    /// Why.
    pub why: String,
    /// Since when, RFC 3339 in UTC.
    pub since: String,
}

/// What an operator asks for.
#[derive(Debug, Clone)]
pub(crate) struct SteerRequest {
    /// The task's id, or how it begins.
    pub id: String,
    /// What is to become of it.
    pub act: TaskAct,
    /// The operator.
    pub who: String,
    /// The operator's reason.
    pub why: String,
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unsteered {
    /// No task is named like this.
    #[error("there is no task `{0}`")]
    NoTask(String),
    /// More than one is.
    #[error("more than one task begins with `{0}`; write more of its id")]
    Ambiguous(String),
    /// It is not the agent's to do.
    #[error("a task is not stopped or reset by an operator named like its agent or its user")]
    Own,
    /// What was said cannot be used.
    #[error("{0}")]
    Unfit(String),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TaskView {
    fn of(key: &Digest, task: &TaskUsage) -> Self {
        let origin = task
            .origin
            .clone()
            .filter(|origin| !origin.agent.is_empty());
        let TaskOrigin {
            agent,
            tenant,
            user: asked_for,
            named_by,
            name,
        } = origin.unwrap_or_default();
        let known = |text: String| Some(text).filter(|text| !text.is_empty());
        #[expect(clippy::cast_precision_loss, reason = "a number for people")]
        let cost = task.cost as f64 / MICROS_PER_UNIT as f64;
        Self {
            id: id(key),
            agent: known(agent),
            tenant,
            user: asked_for,
            named_by: known(named_by),
            name,
            state: task.state.map(|state| state.word().to_owned()),
            began: time(task.began),
            last: time(task.last),
            steps: task.steps,
            tool_calls: task.calls,
            cost,
            failures: task.failures,
            done: task.evidence.iter().map(ToString::to_string).collect(),
            stopped: task.stopped.as_ref().map(|stopped| TaskStopView {
                who: stopped.who.clone(),
                why: stopped.why.clone(),
                since: time(stopped.at),
            }),
        }
    }
}

fn id(key: &Digest) -> String {
    let mut id = key.to_string();
    id.truncate(TASK_ID_DIGITS);
    id
}

/// Up to [`MAX_TASKS_LISTED`] tasks, those first that did something last; only those of `agent`,
/// when one is named.
pub(crate) async fn tasks(
    store: &dyn Store,
    agent: Option<&str>,
) -> Result<Vec<TaskView>, StoreError> {
    let search = TaskSearch {
        agent: agent.map(str::to_owned),
        ..TaskSearch::default()
    };
    let known = store.tasks(search, MAX_TASKS_LISTED).await?;
    let views = known.iter().map(|(key, task)| TaskView::of(key, task));
    Ok(views.collect())
}

/// The task whose id begins with `id`.
pub(crate) async fn task(store: &dyn Store, id: &str) -> Result<TaskView, Unsteered> {
    let (key, task) = named(store, id).await?;
    Ok(TaskView::of(&key, &task))
}

async fn named(store: &dyn Store, id: &str) -> Result<(Digest, TaskUsage), Unsteered> {
    let is_hex = id
        .bytes()
        .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if !is_hex || id.len() < MIN_TASK_ID_DIGITS {
        let words = format!(
            "a task is named by {MIN_TASK_ID_DIGITS} or more hex digits of its id, as `toolgate tasks list` has it"
        );
        return Err(Unsteered::Unfit(words));
    }
    let search = TaskSearch {
        prefix: id.to_owned(),
        ..TaskSearch::default()
    };
    let mut found = store.tasks(search, 2).await?;
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => Err(Unsteered::Ambiguous(id.to_owned())),
        (None, _) => Err(Unsteered::NoTask(id.to_owned())),
    }
}

/// Does what is asked, durably; gives the task as it is then.
pub(crate) async fn steer(store: &dyn Store, request: SteerRequest) -> Result<TaskView, Unsteered> {
    let SteerRequest { id, act, who, why } = request;
    let why = reason(&why, MAX_RESOLVE_REASON_BYTES).map_err(Unsteered::Unfit)?;
    let (key, known) = named(store, &id).await?;
    let asking = known.origin.into_iter();
    let mut asking = asking.flat_map(|origin| std::iter::once(origin.agent).chain(origin.user));
    if asking.any(|name| is_same_name(&name, &who)) {
        return Err(Unsteered::Own);
    }
    let steer = SteerTask {
        task: key,
        act,
        who: who.clone(),
        why,
    };
    match store.run(StoreCommand::Steer(steer), None).await? {
        Ok(_) => {
            tracing::warn!(task = %id, ?act, who, "an operator has changed a task");
            task(store, &key.to_string()).await
        }
        Err(CommandRefusal::NoTask) => Err(Unsteered::NoTask(id)),
        Err(refused) => Err(Unsteered::Unfit(format!("{refused:?}"))),
    }
}
