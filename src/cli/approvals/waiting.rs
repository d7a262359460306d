//! `toolgate approvals wait`: for scripts that go on once a person has decided.

use super::{Args, meant, path};
use crate::admin::approvals::waiting::{ApprovalDecision, CANCELLED, DECISION_WAIT_SECONDS_MAX};
use crate::cli::configured;
use crate::cli::ledger::text::json;
use crate::cli::operator::door::DoorRequest;
use crate::cli::operator::{self, AskedDoor};
use crate::cli::runtime::runtime;
use crate::cli::terminal::ids::TypedId;
use crate::mcp::pretty::plain;
use crate::model::clock::Clock;
use crate::model::ids::ActionId;
use jiff::SignedDuration;
use std::time::Duration;

/// The exit code where nobody has decided in time.
pub(super) const UNDECIDED_EXIT_CODE: u8 = 3;
/// The exit code where the agent has cancelled the call.
const CANCELLED_EXIT_CODE: u8 = 4;
/// The exit code where nothing can be found out.
const UNASKED_EXIT_CODE: u8 = 2;
/// After which time one asks again that was not answered.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What is waited for, and how long.
#[derive(Debug, clap::Args)]
pub(super) struct ApprovalWaitArgs {
    /// The approval's id, as `toolgate approvals` and the agent's answer have it, or its beginning or end
    id: TypedId,
    /// How long to wait, such as 90s or 10m [default: until nobody can decide any more]
    #[arg(long, value_name = "TIME")]
    timeout: Option<SignedDuration>,
    /// One JSON object on a line
    #[arg(long)]
    json: bool,
}

/// Waits; the code of [`exit_code`], or 2 where nothing can be found out: no such call, no right to ask, or
/// no toolgate that answers until the time is over.
pub(super) fn run(args: &Args, wait: &ApprovalWaitArgs) -> anyhow::Result<u8> {
    let most = match wait.timeout.map(Duration::try_from) {
        None => Duration::MAX,
        Some(Ok(most)) => most,
        Some(Err(_)) => {
            return Ok(operator::misused(
                "--timeout is a time from now on, such as 90s",
            ));
        }
    };
    let began = Clock.steady();
    // It bounds what is asked first, too.
    args.door.be_patient_for(most);
    let id = match meant(args, &wait.id) {
        Ok(Ok(id)) => id,
        Ok(Err(why)) => return Ok(unasked(&anyhow::anyhow!(why))),
        Err(why) => return Ok(unasked(&why)),
    };
    let door = match args.door.of_record(&args.place) {
        Ok(door) => door,
        Err(why) => return Ok(unasked(&why)),
    };
    let until = began.saturating_add(most);
    match runtime()?.block_on(told(&door, until, id)) {
        Ok(told) => {
            let text = if wait.json {
                json(&serde_json::to_string(&told)?) + "\n"
            } else {
                words(&told)
            };
            operator::print(&text)?;
            Ok(exit_code(&told))
        }
        Err(why) => Ok(unasked(&why)),
    }
}

fn unasked(why: &anyhow::Error) -> u8 {
    configured::say(&format!("toolgate: {}", plain(&format!("{why:#}"))));
    UNASKED_EXIT_CODE
}

/// What there is to tell once it is decided, or the steady clock is at `until`.
async fn told(
    door: &AskedDoor<'_>,
    until: Duration,
    id: ActionId,
) -> anyhow::Result<ApprovalDecision> {
    let mut last = None;
    loop {
        let left = until.saturating_sub(Clock.steady());
        let rest = u64::from(left.subsec_nanos() > 0);
        let seconds = left.as_secs().saturating_add(rest);
        let seconds = seconds.min(DECISION_WAIT_SECONDS_MAX);
        let path = format!("{}/wait?timeout={seconds}", path(id));
        let nobody = format!("no operators' door answers at {}", door.address);
        match door.asks(DoorRequest::get(path), &nobody).await {
            Ok(Ok(told)) => {
                let told: ApprovalDecision = told.parse()?;
                let is_open = told.decision.is_none() && told.state == "pending";
                if !is_open || left.is_zero() {
                    return Ok(told);
                }
                last = Some(told);
            }
            // What is too much, or starts anew, can be asked again.
            Ok(Err(refused)) if refused.is_for_now() && !left.is_zero() => {
                tokio::time::sleep(RETRY_INTERVAL.min(left)).await;
            }
            Ok(Err(refused)) => anyhow::bail!("{refused}"),
            // One that was seen is waited for: it may start anew.
            Err(_) if last.is_some() && !left.is_zero() => {
                tokio::time::sleep(RETRY_INTERVAL.min(left)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// 0 when it was allowed and may run or has run, 1 when it was denied, 3 when nobody has decided in time,
/// or it did not run in time, 4 when its agent cancelled it.
pub(super) fn exit_code(told: &ApprovalDecision) -> u8 {
    match (told.decision.as_deref(), told.state.as_str()) {
        (Some("deny"), _) => 1,
        (Some(_), "allowed" | "used") => 0,
        (None, CANCELLED) => CANCELLED_EXIT_CODE,
        _ => UNDECIDED_EXIT_CODE,
    }
}

pub(super) fn words(told: &ApprovalDecision) -> String {
    let (who, state) = (plain(&told.who.join(" and ")), plain(&told.state));
    let why = told.why.as_deref().map(plain).unwrap_or_default();
    let void = told.void.as_deref();
    let void = void.map_or_else(String::new, |why| format!(": {}", plain(why)));
    match told.decision.as_deref() {
        Some("deny") => format!("denied by {who}: {why}\n"),
        Some(_) if matches!(told.state.as_str(), "allowed" | "used") => {
            format!("allowed by {who}: {why}; it is {state}\n")
        }
        Some(_) => format!("allowed by {who}: {why}; but it has not run, and is {state}{void}\n"),
        None if told.state == "pending" => {
            format!(
                "nobody has decided yet; it can be decided until {}\n",
                plain(&told.approve_by)
            )
        }
        None if told.state == CANCELLED => {
            "its agent has cancelled it: nobody decides any more, and it does not run\n".to_owned()
        }
        None => format!("nobody has decided: it is {state}{void}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(decision: Option<&str>, state: &str) -> ApprovalDecision {
        ApprovalDecision {
            id: "0198".to_owned(),
            decision: decision.map(str::to_owned),
            state: state.to_owned(),
            void: (state == "void").then(|| "the tool has changed".to_owned()),
            approve_by: "2026-11-21T10:00:00Z".to_owned(),
            who: decision.map(|_| "ann".to_owned()).into_iter().collect(),
            why: decision.map(|_| "it is due".to_owned()),
        }
    }

    /// A script tells a person's denial from what the agent took back.
    #[test]
    fn each_end_has_its_exit_code_and_words() {
        for (decision, state, code, said) in [
            (Some("allow-once"), "allowed", 0, "allowed by ann"),
            (Some("allow-once"), "used", 0, "allowed by ann"),
            (Some("allow-once"), "lapsed", 3, "has not run"),
            (Some("deny"), "denied", 1, "denied by ann"),
            (None, "pending", 3, "nobody has decided yet"),
            (None, "expired", 3, "nobody has decided: it is expired"),
            (None, "void", 3, "it is void: the tool has changed"),
            (
                Some("allow-once"),
                "void",
                3,
                "is void: the tool has changed",
            ),
            (None, "cancelled", 4, "its agent has cancelled it"),
        ] {
            let told = told(decision, state);
            assert_eq!(exit_code(&told), code, "{told:?}");
            assert!(words(&told).contains(said), "{}", words(&told));
        }
    }
}
