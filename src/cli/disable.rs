//! `toolgate disable` and `enable`: take a tool away from every agent, and give it back (003-41).
//! Through the operators' door of a running toolgate, where it holds for the next call; on the data
//! directory itself when none runs.

use super::configured::{self, DataArgs};
use super::ledger::text::plain;
use super::operator::door::DoorRequest;
use super::operator::{DoorArgs, ReplyArgs, direct};
use super::table::{Column, Table};
use super::terminal::Terminal;
use crate::admin::tools::{DisabledList, SwitchReply};
use crate::config::{self, DataPlace};
use crate::guards::Mode;
use crate::mcp::json::Text;
use crate::model::disabled::{Disabled, Reason};
use crate::model::ids::{self, ToolName};
use crate::policy::shape::suggest;
use crate::store::claims::Store as _;
use crate::store::disabling::{self, Disabling, DisablingChange, DisablingError};
use crate::store::incidents::{self, Incident};
use crate::store::journal::Journal;
use serde_json::json;
use std::sync::Arc;

/// Where toolgate is, and who asks: while it runs, an operator with the role `switch`.
#[derive(Debug, clap::Args)]
pub(super) struct SwitchArgs {
    #[command(flatten)]
    place: DataArgs,
    #[command(flatten)]
    door: DoorArgs,
    #[command(flatten)]
    reply: ReplyArgs,
}

/// A tool to take away.
#[derive(Debug, clap::Args)]
pub(super) struct Disable {
    /// The tool, as `server__tool`; without one, what is away is listed
    #[arg(requires = "why")]
    tool: Option<String>,
    /// Why; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT", requires = "tool")]
    why: Option<String>,
    #[command(flatten)]
    given: SwitchArgs,
}

/// A tool to give back.
#[derive(Debug, clap::Args)]
pub(super) struct Enable {
    /// The tool, as `server__tool`
    tool: String,
    /// Why; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    given: SwitchArgs,
}

/// What is to become of a tool.
#[derive(Clone, Copy)]
struct SwitchWish<'a> {
    tool: &'a str,
    disable: bool,
    why: &'a str,
}

/// Takes the tool away, or lists what is away; 0 when that was done, 1 when it was refused.
pub(super) fn disable(args: &Disable) -> anyhow::Result<u8> {
    let (Some(tool), Some(why)) = (&args.tool, &args.why) else {
        return list(&args.given);
    };
    let disable = true;
    change(&args.given, SwitchWish { tool, disable, why })
}

/// Gives the tool back; 0 when that was done, 1 when it was refused.
pub(super) fn enable(args: &Enable) -> anyhow::Result<u8> {
    let Enable { tool, why, given } = args;
    let disable = false;
    change(given, SwitchWish { tool, disable, why })
}

fn change(given: &SwitchArgs, wish: SwitchWish<'_>) -> anyhow::Result<u8> {
    let place = given.place.place()?;
    let tool: String = url::form_urlencoded::byte_serialize(wish.tool.as_bytes()).collect();
    let (verb, became) = if wish.disable {
        ("disable", "disabled")
    } else {
        ("enable", "enabled")
    };
    let body = Text::of(&json!({ "why": wish.why }));
    let request = DoorRequest::post(format!("/api/tools/{tool}/{verb}"), body);
    let changed = given.door.ask_anyone(&place, request, async |journal| {
        match unknown(given, &place, wish) {
            Some(why) => Ok(Err(why)),
            None => on_disk(&place, journal, wish).await,
        }
    })?;
    given.reply.show(changed, |SwitchReply { tool, who, .. }| {
        let (tool, who) = (plain(tool.as_str()), plain(&who));
        Ok(format!("{tool} is {became} by {who}\n"))
    })
}

/// Why the tool cannot be taken away: with a typo, the tool that is meant would still be there.
/// Where contracts do not say which tools there are, any of a declared server may be one; of a data
/// directory that is named alone, nothing says it.
fn unknown(
    given: &SwitchArgs,
    place: &DataPlace,
    SwitchWish { tool, disable, .. }: SwitchWish<'_>,
) -> Option<String> {
    let is_alone = given.place.data.is_some() && place.servers.is_empty();
    if !disable || is_alone {
        return None;
    }
    if ids::server_of(tool, &place.servers).is_none() {
        return Some(
            "there is no such tool; name it `server__tool`, as the listing and the contracts do"
                .to_owned(),
        );
    }
    let policy = config::load_supposing(&configured::path(given.place.config.as_deref()).ok()?)
        .reading
        .policy?;
    if policy.mode == Mode::Observe || policy.allowlist.contract_of(&ToolName::new(tool)).is_some()
    {
        return None;
    }
    let known: Vec<String> = policy
        .allowlist
        .contracts()
        .map(ToString::to_string)
        .collect();
    Some(format!(
        "`{tool}` has no contract, so nobody can call it; {}",
        suggest(tool, &known)
    ))
}

async fn on_disk(
    place: &DataPlace,
    journal: Journal,
    SwitchWish { tool, disable, why }: SwitchWish<'_>,
) -> anyhow::Result<Result<SwitchReply, String>> {
    let ledger = journal.clone();
    direct::with_store(place, journal, async |store| {
        let disabling = Disabling::open(&place.data, ledger, Arc::new(|_| ()))?;
        let (tool, who) = (ToolName::new(tool), direct::system_user());
        let made = disabling.make(DisablingChange {
            tool: tool.clone(),
            disable,
            who: who.clone(),
            why: why.to_owned(),
            at: store.now(),
        });
        match made.await {
            Ok(()) => Ok(Ok(SwitchReply {
                tool,
                disabled: disable,
                who,
            })),
            Err(DisablingError::Store(error)) => Err(error.into()),
            Err(unchanged) => Ok(Err(unchanged.to_string())),
        }
    })
    .await
}

/// How tools that are away are listed.
static DISABLED_TOOLS: Table<4> = Table([
    Column::text("TOOL").least(16),
    Column::time("SINCE"),
    Column::text("WHO").rank(1).least(8),
    Column::text("WHY"),
]);

fn list(given: &SwitchArgs) -> anyhow::Result<u8> {
    let place = given.place.place()?;
    configured::has_run(&place.data)?;
    let disabled = if let Ok(disabled) = disabling::read(&place.data) {
        Ok(DisabledList { disabled })
    } else {
        // Another user's: only the door can tell.
        let request = DoorRequest::get("/api/tools/disabled");
        given.door.ask_holder(&place, request)?
    };
    given.reply.show(disabled, |DisabledList { disabled }| {
        let shown = if disabled.is_empty() {
            "no tool is disabled\n".to_owned()
        } else {
            table(&disabled)
        };
        Ok(shown + &frozen(&place))
    })
}

/// A line for each incident that keeps tools away, too: none of these is among those that are disabled.
fn frozen(place: &DataPlace) -> String {
    let known = match incidents::read(&place.data) {
        Ok(known) => known,
        // One that cannot be read may freeze something.
        Err(error) => return plain(&error.to_string()) + "\n",
    };
    let open = known.values().filter(|incident| incident.is_open());
    let line = |incident: &Incident| {
        let (id, scope) = (incident.id, plain(&incident.scope));
        format!("{scope} is frozen: `toolgate incident show {id}`\n")
    };
    open.map(line).collect()
}

fn table(disabled: &Disabled) -> String {
    let row = |(tool, reason): (&ToolName, &Reason)| {
        let Reason { who, why, since } = reason;
        [tool.as_str(), since, who, why].map(plain)
    };
    let rows = disabled.iter().map(row).collect();
    DISABLED_TOOLS.lines(Terminal::stdout(), rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D24: disabled tools at 80 columns and at 160.
    #[test]
    fn disabled_tools_have_room_on_a_terminal() {
        let reason = |why: &str| Reason {
            who: "ann".to_owned(),
            why: why.to_owned(),
            since: "2026-11-28T11:00:00Z".to_owned(),
        };
        let mut disabled = Disabled::new();
        let long = "it pays twice where the bank is slow, and nobody knows yet why that is so, or when it will end";
        disabled.insert(
            ToolName::new("bank__transfer_between_accounts"),
            reason(long),
        );
        disabled.insert(ToolName::new("files__rm"), reason("gone for good"));
        let shown = Terminal::at_widths("2026-11-28T12:00:00Z", || table(&disabled));
        insta::assert_snapshot!("disabled_tools", shown);
    }
}
