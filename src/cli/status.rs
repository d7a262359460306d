//! `toolgate status`: what there is to see of the toolgate that runs on a configuration, or of its data directory
//! while none does.

use super::approvals::keys::{KeyTerminal, typed};
use super::configured::{self, DataArgs};
use super::ledger::text::plain;
use super::operator::{DoorArgs, print};
use super::printed::{is_closed_pipe, print_while_read};
use super::running::{self, Running, UnseenDoor};
use super::runtime::{runtime, told_to_end};
use super::terminal::Terminal;
use crate::config::{DataPlace, DoorAddress};
use crate::model::clock::Clock;
use crate::store::journal::DataHolder;
pub(super) use screen::bytes;
use screen::{Page, attention};
use serde_json::{Value, json};
use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

mod at_rest;
mod screen;
mod tones;

/// How often it is looked at with `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Goes to the upper left corner; each line then clears what stood in its place, and the last all below.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\n";
const CLEAR_BELOW: &str = "\x1b[J";
/// Clears the screen first.
const CLEAR: &str = "\x1b[2J";

/// What to look at.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: DataArgs,
    /// Look again every two seconds, until q or Ctrl-C
    #[arg(long)]
    watch: bool,
    /// One JSON object, with --watch one per look: what `/api/status` says, and `running`
    #[arg(long)]
    json: bool,
    /// One word for probes, `ready` or `not_ready`: exit code 0 while calls can be judged, as `/readyz` says,
    /// whatever else needs operators
    #[arg(long, conflicts_with_all = ["watch", "json"])]
    ready: bool,
    #[command(flatten)]
    door: DoorArgs,
}

/// Looks; 0 if one runs, is ready, and needs nothing of its operators.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let place = args.place.place()?;
    // A directory at rest is shown all the same.
    let address = args.door.address_if_any(&place)?;
    runtime()?.block_on(async {
        if args.watch {
            Box::pin(watch(args, &place, address)).await
        } else if args.ready {
            let naming = args.door.naming(&args.place);
            probed(&running::find(&place.data, address, &args.door, naming).await?)
        } else {
            let (text, code) = look(args, &place, address).await?;
            print(&text).map(|()| code)
        }
    })
}

/// Whether calls can be judged, and no more: a tool server that is down is no reason to take the other ones away
/// from agents as well.
fn probed(found: &Running) -> anyhow::Result<u8> {
    let is_ready = match found {
        Running::Seen(_, report) => report.readiness.ready,
        Running::Dim(dim) => dim.ready,
        Running::Unseen(unseen) => {
            // Who wrote the probe can mend it, and reads nothing else of it.
            if let UnseenDoor::Untrusted(..) = unseen.door {
                configured::say(&format!("toolgate: {}", plain(&unseen.words())));
            }
            false
        }
    };
    print(if is_ready { "ready\n" } else { "not_ready\n" })?;
    Ok(u8::from(!is_ready))
}

/// Looks again and again; 0 when it is left.
async fn watch(args: &Args, place: &DataPlace, address: Option<DoorAddress>) -> anyhow::Result<u8> {
    let is_drawn = stdout().is_terminal() && !args.json;
    let terminal = is_drawn.then(KeyTerminal::open).flatten();
    let mut keys = terminal.is_some().then(typed);
    let leave = told_to_end();
    tokio::pin!(leave);
    let mut is_first = true;
    loop {
        let (text, _) = look(args, place, address).await?;
        let shown = if is_drawn {
            let lines = format!("{text}\nq leave\n").replace('\n', CLEAR_LINE);
            let start = if is_first { CLEAR } else { "" };
            print_while_read(&format!("{start}{HOME}{lines}{CLEAR_BELOW}"))
        } else {
            print_while_read(&text)
        };
        match shown {
            Err(error) if is_closed_pipe(&error) => return Ok(0),
            shown => shown?,
        }
        is_first = false;
        let pressed = async {
            match &mut keys {
                Some(keys) => keys.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut leave => return Ok(0),
            key = pressed => match key {
                Some(b'q' | b'Q' | 3 | 4) => return Ok(0),
                Some(_) => {}
                // Nobody types there any more.
                None => keys = None,
            },
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
        }
    }
}

/// What is seen, and the exit code that says how it is.
async fn look(
    args: &Args,
    place: &DataPlace,
    address: Option<DoorAddress>,
) -> anyhow::Result<(String, u8)> {
    let naming = args.door.naming(&args.place);
    let found = running::find(&place.data, address, &args.door, naming).await?;
    let terminal = Terminal::stdout();
    let page = Page::on(terminal, Clock.wall());
    let (text, value, is_well) = match found {
        Running::Seen(_, report) => {
            let mut value = serde_json::to_value(&report).unwrap_or_default();
            value["running"] = Value::from(true);
            (
                screen::whole(&report, page),
                value,
                attention(&report).is_empty(),
            )
        }
        Running::Dim(dim) => {
            let mut value = serde_json::to_value(&dim.readiness).unwrap_or_default();
            if !value.is_object() {
                value = json!({ "ready": dim.ready, "policy_stale": dim.is_stale });
            }
            (value["running"], value["less_because"]) =
                (Value::from(true), Value::from(dim.why.as_str()));
            let is_well = dim.ready && !dim.is_stale;
            (screen::less(&dim, page), value, is_well)
        }
        Running::Unseen(unseen) => {
            let seen = at_rest::AtRest::of(&place.data);
            let mut value = serde_json::to_value(&seen).unwrap_or_default();
            value["running"] = match &unseen.holder {
                DataHolder::Process(_) => Value::from(true),
                DataHolder::Free => Value::from(false),
                // Nobody can tell.
                DataHolder::Hidden => Value::Null,
            };
            if let DataHolder::Process(note) = &unseen.holder {
                value["pid"] = json!(note.pid);
            }
            value["less_because"] = Value::from(unseen.words());
            (screen::unseen(&unseen, &seen, page), value, false)
        }
    };
    let text = if args.json {
        format!("{}\n", super::ledger::text::json(&value.to_string()))
    } else {
        tones::painted(&text, &terminal)
    };
    Ok((text, u8::from(!is_well)))
}
