//! `toolgate calls`: calls that have not come to an end by themselves, and what an operator says of
//! them. Through the operators' door of a running toolgate; on the data directory itself when none
//! runs (the lock tells).

mod asking;

use super::configured::{self, DataArgs};
use super::ledger::ended::{ENDED_STATES, EndedCalls, EndedList};
use super::ledger::text::plain;
use super::operator::door::DoorRequest;
use super::operator::{self, DoorArgs, ReplyArgs, direct};
use super::table::{Column, Table};
use super::terminal::Terminal;
use super::terminal::ids::TypedId;
use crate::admin::calls::{OpenCallList, ResolveReply};
use crate::config::DataPlace;
use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
use crate::model::counted::counted;
use crate::model::ids::ActionId;
use crate::store::journal::JournalReader;
use crate::store::operator::asking::AskedOutcome;
use crate::store::operator::{
    OPEN_STATES, OpenCall, OperatorFinding, Resolution, Unresolved, open_calls, resolve,
};
use serde_json::json;
use std::fmt::Write as _;

/// Ended calls in a table, unless told otherwise.
const DEFAULT_ENDED_ROWS: u32 = 50;

/// Lists and resolves calls. toolgate may be running or not; while it runs, this takes the role
/// `resolver`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: CallsVerb,
    #[command(flatten)]
    place: DataArgs,
    #[command(flatten)]
    door: DoorArgs,
}

#[derive(Debug, clap::Subcommand)]
enum CallsVerb {
    /// List the calls that have not come to an end, held ones among them, the oldest first; with
    /// --all also those that have
    List(CallsListArgs),
    /// Have the tool server asked now what became of a call whose outcome is unknown, by the probe of its
    /// contract; needs a running toolgate
    Ask(asking::CallAskArgs),
    /// Say what became of a call whose outcome is unknown, or that waits for an answer which will
    /// not come
    Resolve(ResolveArgs),
}

#[derive(Debug, clap::Args)]
struct CallsListArgs {
    /// Only calls in this state
    #[arg(long, value_parser = states())]
    state: Option<String>,
    /// Also those that have come to an end, and held ones that were denied or not sent again in
    /// time; the one that ended last is the last. Reads and refused calls hold no key:
    /// `toolgate ledger list` has them
    #[arg(long)]
    all: bool,
    /// Only the newest N of those that have ended; 0 for all [default: 50 in a table, 0 with --json]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100_000))]
    limit: Option<u32>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("verdict").required(true).args(["applied", "not_applied", "abandon"]))]
struct ResolveArgs {
    /// The call's action id, as `toolgate calls list` has it, or its beginning or end
    action_id: TypedId,
    /// It was carried out: an agent that sends it again gets the result, and nothing runs
    #[arg(long)]
    applied: bool,
    /// It was not carried out: an agent that sends it again makes it run
    #[arg(long)]
    not_applied: bool,
    /// Nobody will find out: it is never sent again, and no longer counted as unknown
    #[arg(long)]
    abandon: bool,
    /// How you know; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// The result to give to an agent that sends the call again, as `tools/call` has it:
    /// {"content": […], …}. Without it, a text that says that an operator confirmed the call;
    /// a tool with an output schema should have one
    #[arg(long, value_name = "JSON", conflicts_with_all = ["not_applied", "abandon"])]
    result: Option<String>,
    #[command(flatten)]
    reply: ReplyArgs,
}

/// Runs the verb; 0 when it was done, 1 when there is nothing to do it to.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    match &args.verb {
        CallsVerb::List(list) => {
            let calls = open(args, list)?;
            operator::show(calls, |OpenCallList { calls }| {
                table(Terminal::stdout(), list, &calls)
            })
        }
        CallsVerb::Ask(ask) => ask.reply.show(asked(args, &ask.action_id)?, |asked| {
            Ok(asking::told(&asked))
        }),
        CallsVerb::Resolve(resolve) => resolve.reply.show(settle(args, resolve)?, |settled| {
            let ResolveReply { state, who, .. } = settled;
            let next = match state.as_str() {
                "not_sent" => "the same call may be sent again, and then runs",
                "abandoned" => "the same call stays refused; it is no longer counted as unknown",
                _ => "the same call is answered with the stored result",
            };
            Ok(format!("{} by {}: {next}\n", plain(&state), plain(&who)))
        }),
    }
}

/// The record of a toolgate that has run: without a journal there is nothing to open, and nothing is
/// to be made.
fn place_of(args: &Args) -> anyhow::Result<DataPlace> {
    let place = args.place.place()?;
    JournalReader::open(&place.data)?;
    Ok(place)
}

/// What `--state` can name.
fn states() -> clap::builder::PossibleValuesParser {
    [&OPEN_STATES[..], &ENDED_STATES].concat().into()
}

fn open(args: &Args, list: &CallsListArgs) -> anyhow::Result<Result<OpenCallList, String>> {
    let place = place_of(args)?;
    let asked_for = list.state.as_deref();
    let has_ended = asked_for.is_some_and(|state| ENDED_STATES.contains(&state));
    // What has ended may have been open a moment ago: all that are open are known then.
    let state = asked_for.filter(|_| !has_ended);
    let open = match all_open(args, &place, state)? {
        Ok(OpenCallList { calls }) => calls,
        Err(refused) => return Ok(Err(refused)),
    };
    let mut ended = Vec::new();
    if list.all || has_ended {
        let EndedList { calls, forgotten } = EndedCalls::list(&place.data, asked_for, &open)?;
        ended = calls;
        if forgotten > 0 {
            configured::say(&format!(
                "the newest calls only: {} before them are not listed; `toolgate ledger list` has their entries",
                counted(forgotten, "call")
            ));
        }
    }
    let default = if list.json { 0 } else { DEFAULT_ENDED_ROWS };
    let (most, all) = (list.limit.unwrap_or(default) as usize, ended.len());
    if most > 0 && all > most {
        ended.drain(..all - most);
        configured::say(&format!(
            "{most} of {}; --limit 0 lists all",
            counted(all, "ended call")
        ));
    }
    let open = open.into_iter().filter(|_| !has_ended);
    let calls = open.chain(ended).collect();
    Ok(Ok(OpenCallList { calls }))
}

/// The call that is meant, of those that are open unless its id was typed whole.
fn meant(args: &Args, place: &DataPlace, id: &TypedId) -> anyhow::Result<Result<ActionId, String>> {
    if let Some(whole) = id.whole() {
        return Ok(Ok(whole));
    }
    let open = all_open(args, place, None)?;
    Ok(open.and_then(|open| {
        let ids = open.calls.iter().map(|call| call.action_id.as_str());
        id.choose(ids, "open call")
    }))
}

/// What has not come to an end, or what of it is in `state`.
fn all_open(
    args: &Args,
    place: &DataPlace,
    state: Option<&str>,
) -> anyhow::Result<Result<OpenCallList, String>> {
    let query = state.map(|state| format!("?state={state}"));
    let path = format!("/api/calls{}", query.unwrap_or_default());
    let request = DoorRequest::get(path);
    args.door.ask_anyone(place, request, async |journal| {
        direct::with_store(place, journal, async |store| {
            let calls = open_calls(store, state, |_| true).await?;
            Ok(Ok(OpenCallList { calls }))
        })
        .await
    })
}

/// What the tool server says of the call, which only a running toolgate can ask.
fn asked(args: &Args, id: &TypedId) -> anyhow::Result<Result<AskedOutcome, String>> {
    let place = place_of(args)?;
    let action = match meant(args, &place, id)? {
        Ok(action) => action,
        Err(why) => return Ok(Err(why)),
    };
    let request = DoorRequest::post(format!("/api/calls/{action}/probe"), Text::of(&json!({})));
    args.door.ask_anyone(&place, request, async |_| {
        let why = "no toolgate runs: only a running one asks tool servers; start it, or say what became of the call \
                   with `toolgate calls resolve`";
        Ok(Err(why.to_owned()))
    })
}

fn settle(args: &Args, given: &ResolveArgs) -> anyhow::Result<Result<ResolveReply, String>> {
    let result = match &given.result {
        Some(result) => Some(
            Text::read(result.clone().into(), &AGENT_JSON_LIMITS)
                .map_err(|error| anyhow::anyhow!("--result is not plain JSON: {error}"))?,
        ),
        None => None,
    };
    let place = place_of(args)?;
    let (word, verdict) = match (given.applied, given.not_applied) {
        (true, _) => ("applied", OperatorFinding::Applied(result.clone())),
        (false, true) => ("not_applied", OperatorFinding::NotApplied),
        (false, false) => ("abandon", OperatorFinding::Abandon),
    };
    let body = Text::of(&json!({ "verdict": word, "why": given.why }));
    let body = match &result {
        Some(result) => body.with_new_member("result", result),
        None => body,
    };
    let action = match meant(args, &place, &given.action_id)? {
        Ok(action) => action,
        Err(why) => return Ok(Err(why)),
    };
    let request = DoorRequest::post(format!("/api/calls/{action}/resolve"), body);
    args.door.ask_anyone(&place, request, async |journal| {
        let (who, why) = (direct::system_user(), given.why.clone());
        let resolution = Resolution {
            verdict,
            who: who.clone(),
            why,
        };
        direct::with_store(&place, journal, async |store| {
            match resolve(store, action, resolution).await {
                Ok(state) => Ok(Ok(ResolveReply {
                    action_id: action.to_string(),
                    state: state.to_owned(),
                    who,
                })),
                Err(Unresolved::Store(error)) => Err(error.into()),
                Err(unresolved) => Ok(Err(unresolved.to_string())),
            }
        })
        .await
    })
}

/// How calls are listed.
static OPEN_CALLS: Table<6> = Table([
    Column::id("ACTION ID"),
    Column::text("STATE").least(8),
    Column::time("SINCE"),
    Column::text("AGENT").rank(1).least(8),
    Column::text("TOOL").least(16),
    Column::text("WHY").rank(2),
]);

fn table(terminal: Terminal, list: &CallsListArgs, calls: &[OpenCall]) -> anyhow::Result<String> {
    let mut out = String::new();
    if list.json {
        for call in calls {
            writeln!(out, "{}", serde_json::to_string(call)?)?;
        }
        return Ok(out);
    }
    if calls.is_empty() {
        return Ok(match (&list.state, list.all) {
            (Some(state), _) => format!("no call is {state}\n"),
            (None, true) => "no call that changes something is known\n".to_owned(),
            (None, false) => "nothing is open: no call is in flight, unknown or held\n".to_owned(),
        });
    }
    let row = |call: &OpenCall| {
        let why = match (&call.why, &call.until, &call.needs) {
            (Some(why), _, _) => why.clone(),
            (None, Some(until), Some(needs)) => format!("until {until}, needs {needs}"),
            (None, _, _) => String::new(),
        };
        let OpenCall {
            action_id,
            state,
            since,
            agent,
            user: named,
            tool,
            ..
        } = call;
        let asking = match named {
            Some(named) => format!("{agent} for {named}"),
            None => agent.clone(),
        };
        let agent = &asking;
        [action_id, state, since, agent, tool, &why].map(|cell| plain(cell))
    };
    let rows = calls.iter().map(row).collect();
    Ok(OPEN_CALLS.lines(terminal, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D24: open calls at 80 columns and at 160.
    #[test]
    fn open_calls_have_room_on_a_terminal() {
        let call = |id: &str, state: &str, why: Option<&str>| OpenCall {
            action_id: format!("019abc00-0000-7001-8000-0000{id}"),
            state: state.to_owned(),
            since: "2026-11-28T09:30:00.123456Z".to_owned(),
            agent: "billing-agent".to_owned(),
            user: Some("ada".to_owned()),
            tool: "bank__transfer_between_accounts".to_owned(),
            attempt: 1,
            why: why.map(str::to_owned),
            until: Some("2026-11-28T12:09:00Z".to_owned()),
            needs: Some("2 of approver".to_owned()),
        };
        let calls = [
            call(
                "aaaa1111",
                "unknown",
                Some("the tool server closed the connection before it answered"),
            ),
            call("bbbb2222", "held", None),
        ];
        let list = CallsListArgs {
            state: None,
            all: false,
            limit: None,
            json: false,
        };
        let shown = Terminal::at_widths("2026-11-28T12:00:00Z", || {
            table(Terminal::stdout(), &list, &calls).unwrap()
        });
        insta::assert_snapshot!("open_calls", shown);
    }
}
