//! `toolgate tasks`: what tasks have used, and an operator's word on one: stop it, or give it its
//! budget back. Through the operators' door of a running toolgate; on the data directory itself
//! when none runs (the lock tells).

use super::configured::DataArgs;
use super::ledger::text::{json, name, plain};
use super::operator::door::DoorRequest;
use super::operator::{self, DoorArgs, ReplyArgs, direct};
use super::table::{Column, Table};
use super::terminal::{Terminal, Tone};
use crate::admin::tasks::{SteerReply, TaskList};
use crate::config::DataPlace;
use crate::mcp::json::Text;
use crate::store::journal::JournalReader;
use crate::store::state::event::TaskAct;
use crate::store::tasks::{SteerRequest, TaskView, Unsteered, steer, task, tasks};
use std::fmt::Write as _;

/// Lists, stops and resets tasks. toolgate may be running or not; while it runs, this takes the
/// role `switch`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: TasksVerb,
    #[command(flatten)]
    place: DataArgs,
    #[command(flatten)]
    door: DoorArgs,
}

#[derive(Debug, clap::Subcommand)]
enum TasksVerb {
    /// List tasks and what they have used, those first that did something last
    List(TasksListArgs),
    /// Show one task, with the action ids of what it has done
    Show(TaskShowArgs),
    /// Refuse the next calls of a task, until it is reset
    Stop(SteerArgs),
    /// Give a task its budget back: it has used nothing, and is not stopped
    Reset(SteerArgs),
}

#[derive(Debug, clap::Args)]
struct TasksListArgs {
    /// Only tasks of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct TaskShowArgs {
    /// The task's id, as `toolgate tasks list` has it; eight or more of its digits do
    task: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct SteerArgs {
    /// The task's id, as `toolgate tasks list` has it; eight or more of its digits do
    task: String,
    /// Why; the agent of a stopped task reads it, and it stands in the ledger for good, with your
    /// name
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    reply: ReplyArgs,
}

/// Runs the verb; 0 when it was done, 1 when there is nothing to do it to.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    match &args.verb {
        TasksVerb::List(list) => {
            let listed = listed(args, list)?;
            operator::show(listed, |TaskList { tasks }| {
                table(Terminal::stdout(), list, &tasks)
            })
        }
        TasksVerb::Show(show) => operator::show(shown(args, show)?, |task| details(show, &task)),
        TasksVerb::Stop(stop) => steered(args, stop, TaskAct::Stop),
        TasksVerb::Reset(reset) => steered(args, reset, TaskAct::Reset),
    }
}

/// The record of a toolgate that has run: without a journal there is nothing to open, and nothing is
/// to be made.
fn place_of(args: &Args) -> anyhow::Result<DataPlace> {
    let place = args.place.place()?;
    JournalReader::open(&place.data)?;
    Ok(place)
}

fn quoted(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn listed(args: &Args, list: &TasksListArgs) -> anyhow::Result<Result<TaskList, String>> {
    let place = place_of(args)?;
    let agent = list.agent.as_deref();
    let query = agent.map(|agent| format!("?agent={}", quoted(agent)));
    let request = DoorRequest::get(format!("/api/tasks{}", query.unwrap_or_default()));
    args.door.ask_anyone(&place, request, async |journal| {
        direct::with_store(&place, journal, async |store| {
            let tasks = tasks(store, agent).await?;
            Ok(Ok(TaskList { tasks }))
        })
        .await
    })
}

fn shown(args: &Args, show: &TaskShowArgs) -> anyhow::Result<Result<TaskView, String>> {
    let place = place_of(args)?;
    let request = DoorRequest::get(format!("/api/tasks/{}", quoted(&show.task)));
    args.door.ask_anyone(&place, request, async |journal| {
        direct::with_store(&place, journal, async |store| {
            said(task(store, &show.task).await)
        })
        .await
    })
}

fn steered(args: &Args, given: &SteerArgs, act: TaskAct) -> anyhow::Result<u8> {
    let place = place_of(args)?;
    let (verb, next) = match act {
        TaskAct::Stop => ("stop", "its next calls are refused with your reason"),
        TaskAct::Reset => ("reset", "it has its whole budget again"),
    };
    let body = Text::of(&serde_json::json!({ "why": given.why }));
    let path = format!("/api/tasks/{}/{verb}", quoted(&given.task));
    let request = DoorRequest::post(path, body);
    let reply = args.door.ask_anyone(&place, request, async |journal| {
        let who = direct::system_user();
        let steering = SteerRequest {
            id: given.task.clone(),
            act,
            who: who.clone(),
            why: given.why.clone(),
        };
        direct::with_store(&place, journal, async |store| {
            let task = said(steer(store, steering).await)?;
            Ok(task.map(|task| SteerReply { task, who }))
        })
        .await
    })?;
    given.reply.show(reply, |SteerReply { task, who }| {
        Ok(format!(
            "{verb} of {} by {}: {next}\n",
            plain(&task.id),
            plain(&who)
        ))
    })
}

fn said<T>(done: Result<T, Unsteered>) -> anyhow::Result<Result<T, String>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(Unsteered::Store(error)) => Err(error.into()),
        Err(unsteered) => Ok(Err(unsteered.to_string())),
    }
}

/// How tasks are listed.
static TASKS: Table<8> = Table([
    Column::id("TASK"),
    Column::text("AGENT").rank(1).least(8),
    Column::text("NAME"),
    Column::text("STATE").rank(2).least(7),
    Column::number("STEPS").rank(3),
    Column::number("COST").rank(4),
    Column::time("LAST"),
    Column::text("STOPPED").tone(|stopped| (!stopped.is_empty()).then_some(Tone::Bad)),
]);

fn table(terminal: Terminal, list: &TasksListArgs, tasks: &[TaskView]) -> anyhow::Result<String> {
    let mut out = String::new();
    if list.json {
        for task in tasks {
            writeln!(out, "{}", json(&serde_json::to_string(task)?))?;
        }
        return Ok(out);
    }
    if tasks.is_empty() {
        let of = list
            .agent
            .as_deref()
            .map(|agent| format!(" of `{}`", name(agent)));
        return Ok(format!(
            "no task{} has done anything\n",
            of.unwrap_or_default()
        ));
    }
    let row = |task: &TaskView| {
        let stopped = task.stopped.as_ref();
        let stopped = stopped.map(|stopped| format!("by {}: {}", stopped.who, stopped.why));
        let agent = task.agent.as_deref().unwrap_or("-");
        let asking = match &task.user {
            Some(named) => format!("{agent} for {named}"),
            None => agent.to_owned(),
        };
        let cells = [
            &task.id,
            &asking,
            task.name.as_deref().unwrap_or("-"),
            task.state.as_deref().unwrap_or("-"),
            &task.steps.to_string(),
            &task.cost.to_string(),
            &task.last,
            stopped.as_deref().unwrap_or_default(),
        ];
        cells.map(name)
    };
    Ok(TASKS.lines(terminal, tasks.iter().map(row).collect()))
}

fn details(show: &TaskShowArgs, task: &TaskView) -> anyhow::Result<String> {
    let text = serde_json::to_value(task)?;
    if show.json {
        return Ok(json(&text.to_string()) + "\n");
    }
    let mut out = String::new();
    for (key, value) in text.as_object().into_iter().flatten() {
        let shown = match value.as_str() {
            Some(string) => name(string),
            None => name(&value.to_string()),
        };
        writeln!(out, "{key:<10} {shown}")?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D24: tasks at 80 columns and at 160.
    #[test]
    fn tasks_have_room_on_a_terminal() {
        let task = |id: &str, name: &str, stopped: serde_json::Value| {
            let task = serde_json::json!({
                "id": id, "agent": "billing-agent", "user": "ada", "name": name, "state": "execute",
                "began": "2026-11-28T09:00:00Z", "last": "2026-11-28T11:57:00Z", "steps": 12, "tool_calls": 11, "cost": 3.5,
                "failures": 0, "done": [], "stopped": stopped,
            });
            serde_json::from_value::<TaskView>(task).unwrap()
        };
        let stopped = serde_json::json!({
            "who": "ann", "why": "it goes round in circles", "at": "2026-11-28T11:58:00Z", "since": "2026-11-28T11:58:00Z",
        });
        let tasks = [
            task(
                "5e884898da280471",
                "refund of order 4711",
                serde_json::Value::Null,
            ),
            task(
                "0f1e2d3c4b5a6978",
                "the report of the whole last quarter",
                stopped,
            ),
        ];
        let list = TasksListArgs {
            agent: None,
            json: false,
        };
        let shown = Terminal::at_widths("2026-11-28T12:00:00Z", || {
            table(Terminal::stdout(), &list, &tasks).unwrap()
        });
        insta::assert_snapshot!("tasks", shown);
    }
}
