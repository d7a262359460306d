//! What a task may use, in layers: for everybody, for a group, for an agent. All of them hold.

use super::micros;
use super::shortage::{units, word};
use crate::guards::{Mode, Section};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::task::TaskSource;
use crate::model::times::{between, millis};
use crate::store::state::budget::{BudgetLimits, Dimension};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Judged calls of a task about which nothing is written.
const DEFAULT_MAX_STEPS: u64 = 1_000;
/// How long a task that its agent does not name does nothing until it has ended.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_hours(1);
/// How long the calls of a user count together.
const DEFAULT_USER_SPAN: Duration = Duration::from_hours(24);
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
    /// How long a task that its agent does not name does nothing until it has ended, and the next
    /// call begins another: 1s to 720h; the shortest of several files counts [default: 1h].
    pub idle: Option<String>,
    /// May a task take as many steps as it likes where no `max_steps` is written for it? Otherwise
    /// it may take 1000, if anything names it.
    pub unlimited: bool,
}

/// What one task may use, or one user. What is absent is not limited.
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
    /// Failed calls of one tool in a row at most: then that tool is not called again in the task,
    /// and all others are.
    pub max_tool_failures: Option<u64>,
    /// What happens at a limit, where it is not `stop`.
    pub on_limit: OnLimit,
    /// Whose calls count together: those of one task, or all of one user of an agent, whatever
    /// tasks they belong to [default: task].
    pub per: BudgetOwner,
    /// With `per: user`: how long a user's calls count together from the first on; the next call
    /// after that begins anew: 1s to 720h; where several layers limit a user, the lowest limits
    /// hold for the longest of them [default: 24h].
    pub within: Option<String>,
}

/// Whose calls count together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum BudgetOwner {
    /// Those of one task.
    #[default]
    Task,
    /// All calls of one user of an agent; those without a user count as those of one more.
    User,
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
    /// After `max_tool_failures`.
    pub tool_failures: LimitAction,
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
    /// As written.
    idle: Option<Duration>,
    /// Does a task about which nothing is written have no limit?
    is_unlimited: bool,
    /// What such a task has otherwise, once [`TaskLimits::or_usual`] says so.
    usual: Option<TaskLimitLayer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TaskLimitLayer {
    name: String,
    whom: LimitSubject,
    limits: Vec<(Dimension, u64, LimitAction)>,
    /// For how many milliseconds the calls of one user count together; none: those of a task do.
    span: Option<u64>,
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
            idle,
            unlimited,
        } = self;
        let idle = between("idle", idle.as_deref(), TASK_DURATION_BOUNDS, problems);
        let mut layers = Vec::new();
        if let Some(written) = global {
            let (limits, span) = problems.under("global", |problems| written.compile(problems));
            layers.push(TaskLimitLayer {
                name: "global".to_owned(),
                whom: LimitSubject::All,
                limits,
                span,
            });
        }
        let groups = group
            .into_iter()
            .map(|(name, written)| ("group", LimitSubject::Group(name.clone()), name, written));
        let agents = agent
            .into_iter()
            .map(|(name, written)| ("agent", LimitSubject::Agent(name.clone()), name, written));
        for (kind, whom, name, written) in groups.chain(agents) {
            let (limits, span) = problems.under(kind, |problems| {
                problems.under(&name, |problems| written.compile(problems))
            });
            layers.push(TaskLimitLayer {
                name: format!("{kind} {name}"),
                whom,
                limits,
                span,
            });
        }
        TaskLimits {
            layers,
            idle,
            is_unlimited: unlimited,
            usual: None,
        }
    }
}

impl TaskLayerSettings {
    fn compile(self, problems: &mut Problems) -> (Vec<(Dimension, u64, LimitAction)>, Option<u64>) {
        let span = self.span(problems);
        let Self {
            max_steps,
            max_tool_calls,
            max_cost,
            max_duration,
            max_failures,
            max_failures_in_a_row,
            max_tool_failures,
            on_limit,
            ..
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
            (
                Dimension::ToolFailures,
                max_tool_failures,
                on_limit.tool_failures,
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
        (limits, span)
    }

    /// For how many milliseconds the calls of one user count together, if they do.
    fn span(&self, problems: &mut Problems) -> Option<u64> {
        let within = self.within.as_deref();
        let span = between("within", within, TASK_DURATION_BOUNDS, problems);
        match self.per {
            BudgetOwner::User => {
                if self.max_duration.is_some() {
                    problems.under("max_duration", |problems| {
                        let hint = "write `within`: how long a user's calls count together";
                        problems.error("a user's calls have no duration", hint);
                    });
                }
                Some(millis(span.unwrap_or(DEFAULT_USER_SPAN)))
            }
            BudgetOwner::Task => {
                if within.is_some() {
                    problems.under("within", |problems| {
                        let hint = "add `per: user`, or write `max_duration`";
                        problems.error("only the calls of a user count for a span of time", hint);
                    });
                }
                None
            }
        }
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
        });
    });
}

// === impl TaskLimits ===

impl TaskLimits {
    /// Adds the budgets of another file.
    pub fn extend(&mut self, other: Self) {
        self.layers.extend(other.layers);
        self.idle = [self.idle, other.idle].into_iter().flatten().min();
        self.is_unlimited |= other.is_unlimited;
    }

    /// As they hold in `mode`: in observe mode nothing holds that is not written.
    pub(crate) fn in_mode(self, mode: Mode) -> Self {
        match mode {
            Mode::Enforce => self.or_usual(),
            Mode::Observe => self,
        }
    }

    /// These, and for a task about which nothing is written the usual ones (003-119).
    #[must_use]
    pub fn or_usual(self) -> Self {
        let usual = (!self.is_unlimited).then(|| TaskLimitLayer {
            name: "default".to_owned(),
            whom: LimitSubject::All,
            limits: vec![(Dimension::Steps, DEFAULT_MAX_STEPS, LimitAction::Stop)],
            span: None,
        });
        Self { usual, ..self }
    }

    /// After how many idle milliseconds a task that was named by `source` has ended.
    pub(crate) fn idle(&self, source: TaskSource) -> Option<u64> {
        let idle = self.idle.unwrap_or(DEFAULT_IDLE_TIMEOUT);
        (source != TaskSource::Task).then(|| millis(idle))
    }

    /// What a task of `caller` may use by the limits that hold: those that only degrade do not
    /// hold for what changes nothing.
    pub(super) fn limits(
        &self,
        caller: &Caller,
        holds: impl Fn(LimitAction) -> bool,
    ) -> BudgetLimits {
        let layers = self.of(caller).filter(|layer| layer.span.is_none());
        lowest(layers, holds)
    }

    /// What all tasks of `caller`'s user may use together, by the limits that hold; none where
    /// nothing limits that. Of several spans of time the longest counts.
    pub(super) fn user_limits(
        &self,
        caller: &Caller,
        holds: impl Fn(LimitAction) -> bool,
    ) -> Option<BudgetLimits> {
        let layers = || self.of(caller).filter(|layer| layer.span.is_some());
        let span = layers().filter_map(|layer| layer.span).max()?;
        Some(BudgetLimits {
            span: Some(span),
            ..lowest(layers(), holds)
        })
    }

    /// Whether any task is limited as is written.
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
                | Dimension::ToolFailures
                | Dimension::CallsPerTool
                | Dimension::Rate => most.to_string(),
            };
            let then = match action {
                LimitAction::Stop => "",
                LimitAction::Ask => ", then a person decides about each call",
                LimitAction::Degrade => ", then only tools that change nothing",
            };
            let whose = layer.span.map_or_else(String::new, |span| {
                format!(" per user within {}s", span / 1000)
            });
            format!(
                "{}: max_{} {most}{whose}{then}",
                layer.name,
                word(*dimension)
            )
        };
        self.of(caller)
            .flat_map(|layer| layer.limits.iter().map(move |limit| line(layer, limit)))
            .collect()
    }

    fn of(&self, caller: &Caller) -> impl Iterator<Item = &TaskLimitLayer> {
        let is_of = |layer: &&TaskLimitLayer| match &layer.whom {
            LimitSubject::All => true,
            LimitSubject::Group(name) => caller.group.as_ref() == Some(name),
            LimitSubject::Agent(name) => caller.agent.as_str() == name,
        };
        let limits_steps = |layer: &TaskLimitLayer| {
            let mut limits = layer.limits.iter().filter(|_| layer.span.is_none());
            limits.any(|(dimension, ..)| *dimension == Dimension::Steps)
        };
        let mut layers = self.layers.iter().filter(is_of);
        let is_limited = layers.any(limits_steps);
        let usual = self.usual.iter().filter(move |_| !is_limited);
        self.layers.iter().filter(is_of).chain(usual)
    }

    /// Whether the steps of `caller`'s tasks have the usual limit, and no written one.
    pub(crate) fn has_usual_steps(&self, caller: &Caller) -> bool {
        let usual = self.usual.as_ref();
        usual.is_some_and(|usual| self.of(caller).any(|layer| std::ptr::eq(layer, usual)))
    }
}

/// The lowest of the limits that hold.
fn lowest<'a>(
    layers: impl Iterator<Item = &'a TaskLimitLayer>,
    holds: impl Fn(LimitAction) -> bool,
) -> BudgetLimits {
    let mut limits = BudgetLimits::default();
    let all = layers.flat_map(|layer| &layer.limits);
    for (dimension, most, _) in all.filter(|(_, _, action)| holds(*action)) {
        let place = match dimension {
            Dimension::Steps => &mut limits.steps,
            Dimension::ToolCalls => &mut limits.tool_calls,
            Dimension::Cost => &mut limits.cost,
            Dimension::Duration => &mut limits.duration,
            Dimension::Failures => &mut limits.failures,
            Dimension::FailuresInARow => &mut limits.failures_in_a_row,
            Dimension::ToolFailures => &mut limits.tool_failures,
            Dimension::CallsPerTool | Dimension::Rate => continue,
        };
        *place = Some(place.map_or(*most, |other| other.min(*most)));
    }
    limits
}
