//! What a task may use, in layers: for everybody, for a group, for an agent. All of them hold.

use super::micros;
use super::shortage::{units, word};
use crate::guards::Section;
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::times::{between, millis};
use crate::store::state::budget::{BudgetLimits, Dimension};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

const TASK_DURATION_BOUNDS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24 * 30);

/// The budgets of one policy file.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Budgets")]
pub(crate) struct TaskSettings {
    /// For every task.
    pub global: Option<TaskLayerSettings>,
    /// For the tasks of the agents of one group each, by its name.
    pub group: BTreeMap<String, TaskLayerSettings>,
    /// For the tasks of one agent each, by its name.
    pub agent: BTreeMap<String, TaskLayerSettings>,
}

/// What one task may use. What is absent is not limited.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "TaskBudget")]
pub(crate) struct TaskLayerSettings {
    /// Judged calls at most.
    pub max_steps: Option<u64>,
    /// Calls sent to tool servers at most.
    pub max_tool_calls: Option<u64>,
    /// Cost of all calls at most, in the units of the contracts.
    pub max_cost: Option<f64>,
    /// Time from the task's first call, such as 15m.
    pub max_duration: Option<String>,
    /// Failed calls at most: broken, unknown, or answered with `isError`.
    pub max_failures: Option<u64>,
    /// Failed calls in a row at most; one that does not fail starts over.
    pub max_failures_in_a_row: Option<u64>,
    /// What happens at a limit, where it is not `stop`.
    pub on_limit: OnLimit,
}

/// By what is used up.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OnLimit {
    /// After `max_steps`.
    pub steps: LimitAction,
    /// After `max_tool_calls`.
    pub tool_calls: LimitAction,
    /// After `max_cost`.
    pub cost: LimitAction,
    /// After `max_duration`.
    pub duration: LimitAction,
    /// After `max_failures`.
    pub failures: LimitAction,
    /// After `max_failures_in_a_row`.
    pub failures_in_a_row: LimitAction,
}

/// What happens at a limit (003-89, 003-90).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum LimitAction {
    /// Every further call is refused.
    #[default]
    Stop,
    /// A person decides.
    Ask,
    /// Only tools that change nothing are left.
    Degrade,
}

/// As run: the limits of all files. The default limits nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TaskLimits {
    layers: Vec<TaskLimitLayer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TaskLimitLayer {
    name: String,
    whom: LimitSubject,
    limits: Vec<(Dimension, u64, LimitAction)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LimitSubject {
    All,
    Group(String),
    Agent(String),
}

// === impl TaskSettings ===

impl Section for TaskSettings {
    type Rule = TaskLimits;
    const NAME: &'static str = "budgets";

    fn compile(self, problems: &mut Problems) -> TaskLimits {
        let Self {
            global,
            group,
            agent,
        } = self;
        let mut layers = Vec::new();
        if let Some(written) = global {
            let limits = problems.under("global", |problems| written.compile(problems));
            layers.push(TaskLimitLayer {
                name: "global".to_owned(),
                whom: LimitSubject::All,
                limits,
            });
        }
        let groups = group
            .into_iter()
            .map(|(name, written)| ("group", LimitSubject::Group(name.clone()), name, written));
        let agents = agent
            .into_iter()
            .map(|(name, written)| ("agent", LimitSubject::Agent(name.clone()), name, written));
        for (kind, whom, name, written) in groups.chain(agents) {
            let limits = problems.under(kind, |problems| {
                problems.under(&name, |problems| written.compile(problems))
            });
            layers.push(TaskLimitLayer {
                name: format!("{kind} {name}"),
                whom,
                limits,
            });
        }
        TaskLimits { layers }
    }
}

impl TaskLayerSettings {
    fn compile(self, problems: &mut Problems) -> Vec<(Dimension, u64, LimitAction)> {
        let Self {
            max_steps,
            max_tool_calls,
            max_cost,
            max_duration,
            max_failures,
            max_failures_in_a_row,
            on_limit,
        } = self;
        let cost =
            max_cost.map(|cost| problems.under("max_cost", |problems| micros(cost, problems)));
        let duration = between(
            "max_duration",
            max_duration.as_deref(),
            TASK_DURATION_BOUNDS,
            problems,
        );
        let duration = duration.map(millis);
        let all = [
            (Dimension::Steps, max_steps, on_limit.steps),
            (Dimension::ToolCalls, max_tool_calls, on_limit.tool_calls),
            (Dimension::Cost, cost, on_limit.cost),
            (Dimension::Duration, duration, on_limit.duration),
            (Dimension::Failures, max_failures, on_limit.failures),
            (
                Dimension::FailuresInARow,
                max_failures_in_a_row,
                on_limit.failures_in_a_row,
            ),
        ];
        let mut limits = Vec::new();
        for (dimension, most, action) in all {
            judge(
                word(dimension),
                most,
                max_duration.is_some(),
                action,
                problems,
            );
            limits.extend(most.map(|most| (dimension, most, action)));
        }
        if limits.is_empty() {
            problems.warning("limits nothing", "add `max_tool_calls` or another limit");
        }
        limits
    }
}

fn judge(name: &str, most: Option<u64>, timed: bool, action: LimitAction, problems: &mut Problems) {
    if most == Some(0) && name != "cost" {
        let hint = "allow at least 1, or take the limit away";
        problems.under(format!("max_{name}"), |problems| {
            problems.error("no call would ever pass", hint);
        });
    }
    problems.under("on_limit", |problems| {
        problems.under(name, |problems| {
            if most.is_none() && action != LimitAction::Stop && !(timed && name == "duration") {
                problems.error(
                    format!("there is no `max_{name}`"),
                    "add it, or take this away",
                );
            }
            if action == LimitAction::Ask {
                let hint = "write `stop` or `degrade`, or use a later version";
                problems.error("`ask` is not enforced by this version", hint);
            }
        });
    });
}

// === impl TaskLimits ===

impl TaskLimits {
    /// Adds the budgets of another file.
    pub fn extend(&mut self, other: Self) {
        self.layers.extend(other.layers);
    }

    /// What a task of `caller` may use when the next call has side effects, or has none: limits
    /// that only degrade do not hold for what changes nothing.
    pub fn limits(&self, caller: &Caller, changes: bool) -> BudgetLimits {
        let mut limits = BudgetLimits::default();
        let all = self.of(caller).flat_map(|layer| &layer.limits);
        for (dimension, most, _) in
            all.filter(|(_, _, action)| changes || *action != LimitAction::Degrade)
        {
            let place = match dimension {
                Dimension::Steps => &mut limits.steps,
                Dimension::ToolCalls => &mut limits.tool_calls,
                Dimension::Cost => &mut limits.cost,
                Dimension::Duration => &mut limits.duration,
                Dimension::Failures => &mut limits.failures,
                Dimension::FailuresInARow => &mut limits.failures_in_a_row,
                Dimension::CallsPerTool | Dimension::Rate => continue,
            };
            *place = Some(place.map_or(*most, |other| other.min(*most)));
        }
        limits
    }

    /// Whether any task is limited.
    pub fn is_limited(&self) -> bool {
        self.layers.iter().any(|layer| !layer.limits.is_empty())
    }

    /// Every limit of `caller`'s tasks with the layer it comes from, for `explain`.
    pub fn explain(&self, caller: &Caller) -> Vec<String> {
        let line = |layer: &TaskLimitLayer,
                    (dimension, most, action): &(Dimension, u64, LimitAction)| {
            let most = match dimension {
                Dimension::Cost => units(*most).to_string(),
                Dimension::Duration => format!("{}s", most / 1000),
                Dimension::Steps
                | Dimension::ToolCalls
                | Dimension::Failures
                | Dimension::FailuresInARow
                | Dimension::CallsPerTool
                | Dimension::Rate => most.to_string(),
            };
            let then = if *action == LimitAction::Degrade {
                ", then only tools that change nothing"
            } else {
                ""
            };
            format!("{}: max_{} {most}{then}", layer.name, word(*dimension))
        };
        self.of(caller)
            .flat_map(|layer| layer.limits.iter().map(move |limit| line(layer, limit)))
            .collect()
    }

    fn of(&self, caller: &Caller) -> impl Iterator<Item = &TaskLimitLayer> {
        self.layers.iter().filter(|layer| match &layer.whom {
            LimitSubject::All => true,
            LimitSubject::Group(name) => caller.group.as_ref() == Some(name),
            LimitSubject::Agent(name) => caller.agent.as_str() == name,
        })
    }
}
