//! `toolgate calls`: calls that have not come to an end by themselves, and what an operator says of
//! them. Through the operators' door of a running toolgate; on the data directory itself when none
//! runs (the lock tells).

use super::configured;
use super::ledger::text::plain;
use super::serve::runtime;
use crate::config::Config;
use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
use crate::model::ids::ActionId;
use crate::store::journal::JournalReader;
use crate::store::operator::{OpenCall, OperatorFinding, Resolution};
use anyhow::{Context as _, bail};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

pub(super) mod direct;
pub(super) mod door;

/// Lists and resolves calls. toolgate may be running or not; while it runs, this takes the role
/// `resolver`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: CallsVerb,
    /// The configuration: its `data` holds the calls, its `admin` says where a running toolgate is
    /// and who you are [default: as for serve]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// The operators' address of the running toolgate, if it is not the configuration's
    #[arg(long, value_name = "IP:PORT", global = true)]
    admin: Option<SocketAddr>,
    /// Which of `admin.tokens` you are, by name; needed when there are several
    #[arg(long = "as", value_name = "NAME", global = true)]
    operator: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum CallsVerb {
    /// List the calls that have not come to an end, the oldest first
    List(CallsListArgs),
    /// Say what became of a call whose outcome is unknown, or that waits for an answer which will
    /// not come
    Resolve(ResolveArgs),
}

#[derive(Debug, clap::Args)]
struct CallsListArgs {
    /// Only calls in this state
    #[arg(long, value_parser = ["dispatching", "awaiting_input", "unknown"])]
    state: Option<String>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("verdict").required(true).args(["applied", "not_applied", "abandon"]))]
struct ResolveArgs {
    /// The call's action id, whole, as `toolgate calls list` has it
    action_id: ActionId,
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
}

/// What is asked of a store, near or far.
enum CallsQuery {
    List {
        state: Option<String>,
    },
    Resolve {
        action: ActionId,
        resolution: Resolution,
    },
}

/// What came of it.
enum CallsReply {
    Calls(Vec<OpenCall>),
    Resolved {
        state: String,
        who: String,
    },
    /// It was not done, for this reason.
    Refused(String),
}

/// Runs the verb; 0 when it was done, 1 when there is nothing to do it to.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let asked = query_of(&args.verb)?;
    let config = configured::config(args.config.as_deref())?;
    // Without a journal there is nothing to open, and nothing is to be made.
    JournalReader::open(&config.data)?;
    let found = if let Some(journal) = direct::open(&config)? {
        runtime()?.block_on(direct::ask(&config.data, journal, asked))?
    } else {
        let operator = operator(&config, args.operator.as_deref())?;
        let address = args.admin.unwrap_or(config.admin.listen);
        runtime()?.block_on(door::ask(address, operator, asked))?
    };
    show(&args.verb, found)
}

fn query_of(verb: &CallsVerb) -> anyhow::Result<CallsQuery> {
    match verb {
        CallsVerb::List(CallsListArgs { state, .. }) => Ok(CallsQuery::List {
            state: state.clone(),
        }),
        CallsVerb::Resolve(resolve) => {
            let result = match &resolve.result {
                Some(result) => Some(
                    Text::read(result.clone().into(), &AGENT_JSON_LIMITS)
                        .map_err(|error| anyhow::anyhow!("--result is not plain JSON: {error}"))?,
                ),
                None => None,
            };
            let verdict = match (resolve.applied, resolve.not_applied) {
                (true, _) => OperatorFinding::Applied(result),
                (false, true) => OperatorFinding::NotApplied,
                (false, false) => OperatorFinding::Abandon,
            };
            let resolution = Resolution {
                verdict,
                who: String::new(),
                why: resolve.why.clone(),
            };
            Ok(CallsQuery::Resolve {
                action: resolve.action_id,
                resolution,
            })
        }
    }
}

/// The token to show at the door; none when the configuration has none, so that the door says what
/// to do.
pub(super) fn operator<'a>(
    config: &'a Config,
    named: Option<&str>,
) -> anyhow::Result<Option<&'a str>> {
    let tokens = &config.admin.tokens;
    let known = match named {
        Some(named) => {
            let found = tokens.iter().find(|operator| operator.name == named);
            Some(found.with_context(|| {
                format!(
                    "`admin.tokens` names no operator `{}`",
                    named.escape_debug()
                )
            })?)
        }
        None if tokens.len() > 1 => {
            bail!("`admin.tokens` names several operators: say with --as who you are")
        }
        None => tokens.first(),
    };
    Ok(known.map(|operator| operator.token.expose()))
}

fn show(verb: &CallsVerb, found: CallsReply) -> anyhow::Result<u8> {
    let mut out = io::stdout().lock();
    let written = match (verb, found) {
        (_, CallsReply::Refused(why)) => {
            configured::say(&format!("toolgate: {}", plain(&why)));
            return Ok(1);
        }
        (CallsVerb::List(list), CallsReply::Calls(calls)) => table(&mut out, list, &calls),
        (_, CallsReply::Calls(_)) => Ok(()),
        (_, CallsReply::Resolved { state, who }) => {
            let next = match state.as_str() {
                "not_sent" => "the same call may be sent again, and then runs",
                "abandoned" => "the same call stays refused; it is no longer counted as unknown",
                _ => "the same call is answered with the stored result",
            };
            writeln!(out, "{} by {}: {next}", plain(&state), plain(&who))
        }
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(0),
    }
}

fn table(out: &mut dyn Write, list: &CallsListArgs, calls: &[OpenCall]) -> io::Result<()> {
    if list.json {
        return calls
            .iter()
            .try_for_each(|call| writeln!(out, "{}", serde_json::to_string(call)?));
    }
    if calls.is_empty() {
        return writeln!(out, "every call has come to an end");
    }
    writeln!(
        out,
        "{:<36}  {:<14}  {:<24}  {:<12}  {:<28}  WHY",
        "ACTION ID", "STATE", "SINCE", "AGENT", "TOOL"
    )?;
    calls.iter().try_for_each(|call| {
        let OpenCall {
            action_id,
            state,
            since,
            agent,
            tool,
            why,
            ..
        } = call;
        let [id, state, since, agent, tool] =
            [action_id, state, since, agent, tool].map(|text| plain(text));
        let why = plain(why.as_deref().unwrap_or_default());
        writeln!(
            out,
            "{id:<36}  {state:<14}  {since:<24}  {agent:<12}  {tool:<28}  {why}"
        )
    })
}
