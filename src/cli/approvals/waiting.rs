//! `toolgate approvals wait`: for scripts that go on once a person has decided.

use super::{Args, path};
use crate::admin::approvals::waiting::{ApprovalDecision, DECISION_WAIT_SECONDS_MAX};
use crate::cli::ledger::text::json;
use crate::cli::operator;
use crate::cli::operator::door::DoorRequest;
use crate::mcp::pretty::plain;
use crate::model::clock::Clock;
use crate::model::ids::ActionId;
use jiff::SignedDuration;
use std::time::Duration;

/// The exit code where nobody has decided in time.
const UNDECIDED_EXIT_CODE: u8 = 3;

/// What is waited for, and how long.
#[derive(Debug, clap::Args)]
pub(super) struct ApprovalWaitArgs {
    /// The approval's id, whole, as `toolgate approvals` and the agent's answer have it
    id: ActionId,
    /// How long to wait, such as 90s or 10m [default: until nobody can decide any more]
    #[arg(long, value_name = "TIME")]
    timeout: Option<SignedDuration>,
    /// One JSON object on a line
    #[arg(long)]
    json: bool,
}

/// Waits; 0 when the call was allowed, 1 when it was denied or may not be asked about, 3 when nobody
/// has decided in time.
pub(super) fn run(args: &Args, wait: &ApprovalWaitArgs) -> anyhow::Result<u8> {
    let began = Clock.steady();
    let most = wait.timeout.map(SignedDuration::unsigned_abs);
    loop {
        let left = most.map_or(Duration::MAX, |most| {
            most.saturating_sub(Clock.steady().saturating_sub(began))
        });
        let rest = u64::from(left.subsec_nanos() > 0);
        let seconds = left.as_secs().saturating_add(rest);
        let seconds = seconds.min(DECISION_WAIT_SECONDS_MAX);
        let path = format!("{}/wait?timeout={seconds}", path(wait.id));
        let told: ApprovalDecision = match super::ask(args, DoorRequest::get(path))? {
            Ok(told) => told.parse()?,
            Err(why) => return operator::show(Err(why), |()| Ok(String::new())),
        };
        let is_open = told.decision.is_none() && told.state == "pending";
        if is_open && !left.is_zero() {
            continue;
        }
        let text = if wait.json {
            json(&serde_json::to_string(&told)?) + "\n"
        } else {
            words(&told)
        };
        operator::print(&text)?;
        return Ok(exit_code(&told));
    }
}

/// 0 when it was allowed, 1 when it was denied, 3 when nobody has decided in time.
pub(super) fn exit_code(told: &ApprovalDecision) -> u8 {
    match told.decision.as_deref() {
        Some("deny") => 1,
        Some(_) => 0,
        None => UNDECIDED_EXIT_CODE,
    }
}

pub(super) fn words(told: &ApprovalDecision) -> String {
    let (who, state) = (plain(&told.who.join(" and ")), plain(&told.state));
    let why = told.why.as_deref().map(plain).unwrap_or_default();
    match told.decision.as_deref() {
        Some("deny") => format!("denied by {who}: {why}\n"),
        Some(_) => format!("allowed by {who}: {why}; it is {state}\n"),
        None if told.state == "pending" => {
            format!(
                "nobody has decided yet; it can be decided until {}\n",
                plain(&told.approve_by)
            )
        }
        None => format!("nobody has decided: it is {state}\n"),
    }
}
