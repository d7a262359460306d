//! `toolgate disable` and `enable`: take a tool away from every agent, and give it back (003-41).
//! Through the operators' door of a running toolgate, where it holds for the next call; on the data
//! directory itself when none runs.

use super::calls::{direct, door, operator};
use super::configured;
use super::ledger::text::plain;
use super::serve::runtime;
use crate::admin::tools::{DisabledList, SwitchReply};
use crate::config::{self, Config};
use crate::guards::Mode;
use crate::mcp::json::Text;
use crate::model::clock::Clock;
use crate::model::disabled::{Disabled, Reason};
use crate::model::ids::{self, ToolName};
use crate::policy::shape::suggest;
use crate::store::claims::Store as _;
use crate::store::disabling::{self, Disabling, DisablingChange, DisablingError};
use crate::store::embedded::EmbeddedStore;
use crate::store::journal::Journal;
use anyhow::Context as _;
use http::Method;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Where toolgate is, and who asks: while it runs, an operator with the role `switch`.
#[derive(Debug, clap::Args)]
pub struct AdminDoorArgs {
    /// The configuration: its `data` holds what is away, its `admin` says where a running toolgate
    /// is and who you are [default: as for serve]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The operators' address of the running toolgate, if it is not the configuration's
    #[arg(long, value_name = "IP:PORT")]
    admin: Option<SocketAddr>,
    /// Which of `admin.tokens` you are, by name; needed when there are several
    #[arg(long = "as", value_name = "NAME")]
    operator: Option<String>,
}

/// A tool to take away.
#[derive(Debug, clap::Args)]
pub struct Disable {
    /// The tool, as `server__tool`; without one, what is away is listed
    #[arg(requires = "why")]
    tool: Option<String>,
    /// Why; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT", requires = "tool")]
    why: Option<String>,
    #[command(flatten)]
    door: AdminDoorArgs,
}

/// A tool to give back.
#[derive(Debug, clap::Args)]
pub struct Enable {
    /// The tool, as `server__tool`
    tool: String,
    /// Why; stands in the ledger for good, with your name
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    door: AdminDoorArgs,
}

/// What is to become of a tool: which, away or not, and why.
type SwitchWish<'a> = (&'a str, bool, &'a str);

/// Takes the tool away, or lists what is away; 0 when that was done, 1 when it was refused.
pub fn disable(args: &Disable) -> anyhow::Result<u8> {
    match (&args.tool, &args.why) {
        (Some(tool), Some(why)) => change(&args.door, (tool, true, why)),
        _ => list(&args.door),
    }
}

/// Gives the tool back; 0 when that was done, 1 when it was refused.
pub fn enable(args: &Enable) -> anyhow::Result<u8> {
    change(&args.door, (&args.tool, false, &args.why))
}

fn change(given: &AdminDoorArgs, wish: SwitchWish<'_>) -> anyhow::Result<u8> {
    let config = configured::process(given.config.as_deref())?;
    let changed = match direct::open(&config)? {
        Some(journal) => match unknown(given, &config, wish) {
            Some(why) => Err(why),
            None => runtime()?.block_on(on_disk(&config, journal, wish))?,
        },
        None => runtime()?.block_on(through_the_door(&config, given, wish))?,
    };
    match changed {
        Ok(SwitchReply {
            tool,
            disabled,
            who,
        }) => {
            let became = if disabled { "disabled" } else { "enabled" };
            say(&format!(
                "{} is {became} by {}\n",
                plain(tool.as_str()),
                plain(&who)
            ))?;
            Ok(0)
        }
        Err(why) => {
            configured::say(&format!("toolgate: {}", plain(&why)));
            Ok(1)
        }
    }
}

async fn through_the_door(
    config: &Config,
    given: &AdminDoorArgs,
    (tool, disable, why): SwitchWish<'_>,
) -> anyhow::Result<Result<SwitchReply, String>> {
    let token = operator(config, given.operator.as_deref())?;
    let address = given.admin.unwrap_or(config.admin.listen);
    let tool: String = url::form_urlencoded::byte_serialize(tool.as_bytes()).collect();
    let path = format!(
        "/api/tools/{tool}/{}",
        if disable { "disable" } else { "enable" }
    );
    let body = Text::of(&json!({ "why": why }));
    Ok(
        match door::request(address, token, (Method::POST, path, body)).await? {
            Ok(text) => Ok(text.parse()?),
            Err(why) => Err(why),
        },
    )
}

/// Why the tool cannot be taken away: with a typo, the tool that is meant would still be there.
/// Where contracts do not say which tools there are, any of a declared server may be one.
fn unknown(
    given: &AdminDoorArgs,
    config: &Config,
    (tool, disable, _): SwitchWish<'_>,
) -> Option<String> {
    if !disable {
        return None;
    }
    let servers: Vec<_> = config.servers.keys().cloned().collect();
    if ids::server_of(tool, &servers).is_none() {
        return Some(
            "there is no such tool; name it `server__tool`, as the listing and the contracts do"
                .to_owned(),
        );
    }
    let policy = config::load(&configured::path(given.config.as_deref()).ok()?)
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
    config: &Config,
    journal: Journal,
    (tool, disable, why): SwitchWish<'_>,
) -> anyhow::Result<Result<SwitchReply, String>> {
    let store = EmbeddedStore::open(&config.data, journal.clone(), Clock)
        .context("the store cannot be opened")?;
    let disabling = Disabling::open(&config.data, journal.clone(), Arc::new(|_| ()))?;
    let (tool, who) = (ToolName::new(tool), direct::system_user());
    let wish = DisablingChange {
        tool: tool.clone(),
        disable,
        who: who.clone(),
        why: why.to_owned(),
        at: store.now(),
    };
    let made = disabling.make(wish).await;
    drop(store);
    journal
        .close()
        .await
        .context("the ledger could not be closed in good order")?;
    match made {
        Ok(()) => Ok(Ok(SwitchReply {
            tool,
            disabled: disable,
            who,
        })),
        Err(DisablingError::Store(error)) => Err(error.into()),
        Err(unchanged) => Ok(Err(unchanged.to_string())),
    }
}

fn list(given: &AdminDoorArgs) -> anyhow::Result<u8> {
    let config = configured::process(given.config.as_deref())?;
    let disabled = match disabling::read(&config.data) {
        Ok(disabled) => disabled,
        // Another user's: only the door can tell.
        Err(_) => match runtime()?.block_on(asked(&config, given))? {
            Ok(disabled) => disabled,
            Err(why) => {
                configured::say(&format!("toolgate: {}", plain(&why)));
                return Ok(1);
            }
        },
    };
    if disabled.is_empty() {
        say("no tool is disabled\n")?;
        return Ok(0);
    }
    let mut out = format!("{:<40}  {:<24}  {:<16}  WHY\n", "TOOL", "SINCE", "WHO");
    for (tool, Reason { who, why, since }) in &disabled {
        let [tool, since, who, why] = [tool.as_str(), since, who, why].map(plain);
        let _ = writeln!(out, "{tool:<40}  {since:<24}  {who:<16}  {why}");
    }
    say(&out)?;
    Ok(0)
}

async fn asked(config: &Config, given: &AdminDoorArgs) -> anyhow::Result<Result<Disabled, String>> {
    let token = operator(config, given.operator.as_deref())?;
    let address = given.admin.unwrap_or(config.admin.listen);
    let wish = (
        Method::GET,
        "/api/tools/disabled".to_owned(),
        Text::of(&json!(null)),
    );
    Ok(match door::request(address, token, wish).await? {
        Ok(text) => Ok(text.parse::<DisabledList>()?.disabled),
        Err(why) => Err(why),
    })
}

fn say(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
