//! `toolgate undo`: takes a call back that was carried out, by the call that its contract names, or the calls of a task. Through
//! the operators' door of a running toolgate: an undo is a call, and needs its tool server.

mod listing;

use super::configured::DataArgs;
use super::ledger::ended::{EndedCalls, EndedList};
use super::ledger::text::{json, plain};
use super::operator::door::DoorRequest;
use super::operator::{DoorArgs, print, refused};
use super::terminal::ids::TypedId;
use crate::config::DataPlace;
use crate::mcp::json::Text;
use crate::model::ids::ActionId;
use crate::store::journal::JournalReader;
use crate::store::undos::{TaskUndoReport, TaskUndoStep, UndoReport};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json as value};
use std::fmt::Write as _;

/// What is said where no toolgate runs.
const NOBODY: &str = "no toolgate runs on this data directory, and an undo is a call that one sends: start `toolgate serve`";

/// What is done instead of taking it back.
#[derive(Debug, clap::Args)]
struct UndoManner {
    /// Only show what would be called, and what the gate says of it; nothing is sent
    #[arg(long)]
    dry_run: bool,
    /// List the undos that were asked for, or tried, and are not done, and what to do about each
    #[arg(long, conflicts_with_all = ["action_id", "task", "why", "dry_run", "drop"])]
    list: bool,
    /// Nothing is to be called any more, as it was asked for: it is done by hand, or left
    #[arg(long, conflicts_with_all = ["task", "dry_run"])]
    drop: bool,
}

/// A call to take back. toolgate has to run; this takes the role `resolver`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The call's action id, as answers and the ledger have it, or its beginning or end
    #[arg(required_unless_present_any = ["task", "list"], conflicts_with = "task")]
    action_id: Option<TypedId>,
    /// The calls of this task instead, the last first, up to one that cannot be taken back; its id, as
    /// `toolgate tasks list` has it. What was taken back is passed over, so that it can be said again
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Why; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["dry_run", "list"])]
    why: Option<String>,
    #[command(flatten)]
    manner: UndoManner,
    #[command(flatten)]
    place: DataArgs,
    #[command(flatten)]
    door: DoorArgs,
    /// The answer as one JSON object on a line
    #[arg(long)]
    json: bool,
}

/// Runs the verb; 0 when the call was taken back, or would be sent; else 1.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let place = args.place.place()?;
    JournalReader::open(&place.data)?;
    if args.manner.list {
        return listing::shown(args, &place);
    }
    if let Some(task) = &args.task {
        return of_task(args, &place, task);
    }
    let of = match meant(args, &place)? {
        Ok(of) => of,
        Err(why) => return Ok(refused(&why)),
    };
    if args.manner.drop {
        return listing::dropped(args, &place, of);
    }
    let report: UndoReport = match asked(args, &place, format!("/api/calls/{of}/undo"))? {
        Ok(report) => report,
        Err(why) => return Ok(refused(&why)),
    };
    args.say(&report, || words(&report, args.manner.dry_run))?;
    let has_worked = report.state == "done" && report.verified != Some(false);
    let is_done = has_worked || args.manner.dry_run && report.verdict == "passed";
    Ok(u8::from(!is_done))
}

impl Args {
    /// Prints an answer: as JSON, or in these words.
    fn say(&self, report: &impl Serialize, words: impl FnOnce() -> String) -> anyhow::Result<()> {
        if self.json {
            return print(&(json(&serde_json::to_string(report)?) + "\n"));
        }
        print(&words())
    }
}

/// What the running toolgate answers.
fn asked<T: DeserializeOwned>(
    args: &Args,
    place: &DataPlace,
    path: String,
) -> anyhow::Result<Result<T, String>> {
    let body = value!({ "why": args.why, "dry_run": args.manner.dry_run });
    let request = DoorRequest::post(path, Text::of(&body));
    args.door
        .ask_anyone(place, request, async |_| Ok(Err(NOBODY.to_owned())))
}

/// Takes the calls of a task back; 0 when nothing stopped that.
fn of_task(args: &Args, place: &DataPlace, task: &str) -> anyhow::Result<u8> {
    let named: String = url::form_urlencoded::byte_serialize(task.as_bytes()).collect();
    let answer = asked(args, place, format!("/api/tasks/{named}/undo"))?;
    let report: TaskUndoReport = match answer {
        Ok(report) => report,
        Err(why) => return Ok(refused(&why)),
    };
    args.say(&report, || task_words(&report))?;
    let is_done = |step: &TaskUndoStep| {
        matches!(step.state.as_str(), "done" | "passed")
            || args.manner.dry_run && step.tool.is_some()
    };
    let is_whole = report.stopped.is_none() && report.steps.iter().all(is_done);
    Ok(u8::from(!is_whole))
}

/// The calls of a task for people, a line each.
fn task_words(report: &TaskUndoReport) -> String {
    let mut text = String::new();
    for step in &report.steps {
        let by = step.by.as_deref().map(plain);
        let by = by.map_or_else(String::new, |by| format!(" by {by}"));
        let (id, state) = (plain(&step.action_id), plain(&step.state));
        let said = plain(&step.words);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{id}  {state}{by}: {said}");
    }
    if report.steps.is_empty() {
        text += "the task has done nothing that is known\n";
    }
    if let Some(pivot) = &report.stopped {
        let pivot = plain(pivot);
        let _ = writeln!(text, "stopped at {pivot}: nothing before it is taken back");
    }
    text
}

/// The call that is meant, of those that have ended unless its id was typed whole.
fn meant(args: &Args, place: &DataPlace) -> anyhow::Result<Result<ActionId, String>> {
    let Some(id) = &args.action_id else {
        return Ok(Err("name a call, or a task with --task".to_owned()));
    };
    if let Some(whole) = id.whole() {
        return Ok(Ok(whole));
    }
    if args.manner.drop {
        return listing::meant(args, place, id);
    }
    let EndedList { calls, .. } = EndedCalls::list(&place.data, None, &[])?;
    let ids = calls.iter().map(|call| call.action_id.as_str());
    Ok(id.choose(ids, "ended call"))
}

/// The report for people: what is called, and what came of it.
fn words(report: &UndoReport, is_dry: bool) -> String {
    let arguments = Value::Object(report.arguments.clone()).to_string();
    let (tool, said) = (plain(&report.tool), plain(&report.words));
    let call = format!("{tool} {}", plain(&arguments));
    if is_dry {
        let code = report.code.as_deref().map(plain);
        let verdict = match code {
            Some(code) => format!("{} ({code}): {said}", report.verdict),
            None => said,
        };
        let until = plain(&report.until);
        return format!("would call {call}\n=> {verdict}\nnothing was sent; until {until}\n");
    }
    let by = report.by.as_deref().map(plain).unwrap_or_default();
    match (report.state.as_str(), &report.approval_id) {
        ("done", _) if report.verified == Some(false) => format!(
            "made by {by}: {call}\n=> what its contract checks does not show that the effect is gone: look for yourself\n"
        ),
        ("done", _) => format!("taken back by {by}: {call}\n"),
        ("requested", Some(id)) => format!(
            "not sent yet: {call}\na person has to allow it: toolgate approvals show {}\nit goes on by itself then; toolgate undo --list shows how it stands\n",
            plain(id)
        ),
        ("requested", None) => format!("not sent: {call}\n=> {said}\n"),
        ("unknown", _) => format!(
            "it is not known whether {by} has taken it back: {call}\n=> {said}\nsay what became of it: toolgate calls resolve {by}\n"
        ),
        (state, _) => format!("{} by {by}: {call}\n=> {said}\n", plain(state)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// 003-64: an operator reads what is called and what is next, whatever came of it.
    #[test]
    fn a_report_says_what_is_next() {
        let report = |state: &str, verdict: &str, hold: Option<&str>| UndoReport {
            action_id: "019abc00-0000-7001-8000-0000aaaa1111".to_owned(),
            state: state.to_owned(),
            tool: "bank__refund".to_owned(),
            arguments: [("id".to_owned(), json!(7))].into_iter().collect(),
            until: "2026-11-29T09:30:00Z".to_owned(),
            by: (state != "requested" && state != "offered").then(|| "bbbb2222".to_owned()),
            verdict: verdict.to_owned(),
            code: hold.map(|_| "approval_pending".to_owned()),
            approval_id: hold.map(str::to_owned),
            verified: None,
            words: "no".to_owned(),
        };
        let call = "bank__refund {\"id\":7}";
        for (report, is_dry, said) in [
            (report("offered", "passed", None), true, "nothing was sent"),
            (
                report("done", "answered", None),
                false,
                "taken back by bbbb2222",
            ),
            (
                report("requested", "refused", Some("cccc3333")),
                false,
                "toolgate approvals show cccc3333",
            ),
            (report("requested", "refused", None), false, "not sent"),
            (
                report("unknown", "unknown", None),
                false,
                "toolgate calls resolve bbbb2222",
            ),
            (
                report("failed", "answered", None),
                false,
                "failed by bbbb2222",
            ),
        ] {
            let words = words(&report, is_dry);
            assert!(words.contains(said) && words.contains(call), "{words}");
        }
    }
}
