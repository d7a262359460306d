//! What an operator sees and says of calls that have not come to an end by themselves: the last way
//! to end an unknown outcome (guarantees §4). Who and why stand in the journal for good.

pub(crate) mod asking;

use super::claims::{Store, StoreError};
use super::state::Millis;
use super::state::claim::{Claim, ClaimPhase};
use super::state::command::{Settle, StoreCommand};
use super::state::hold::{Hold, HoldPhase, HoldStatus, hold_status};
use super::state::settlement::Evidence;
use super::state::undo::AnswerWorth;
use crate::mcp::json::Text;
use crate::mcp::json::fold::is_same_name;
use crate::mcp::readable::is_misleading;
use crate::model::counted::counted;
use crate::model::ids::ActionId;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Calls that are listed at once, at most.
pub(crate) const MAX_CLAIMS_LISTED: usize = 1000;
/// The words for how an open call stands.
pub(crate) const OPEN_STATES: [&str; 4] = ["dispatching", "awaiting_input", "unknown", "held"];
/// Bytes that a reason may have.
pub(crate) const MAX_RESOLVE_REASON_BYTES: usize = 2000;
/// Bytes that a result may have.
pub(crate) const MAX_RESOLVED_RESULT_BYTES: usize = 256 << 10;

/// What an agent reads that asks again for a call which an operator has found to be done.
const APPLIED_TEXT: &str = "An operator has found that this call was carried out. The tool's own answer is not known. Do not \
                         send the call again.";

/// What an operator has found out.
#[derive(Debug, Clone)]
pub(crate) enum OperatorFinding {
    /// The call was carried out; with the result that an agent which asks again is given, as a
    /// result of `tools/call`.
    Applied(Option<Text>),
    /// It was not: its key may be claimed again.
    NotApplied,
    /// Nobody will find out: its key stays taken, and nobody asks any more.
    Abandon,
}

/// Who says what, and why.
#[derive(Debug, Clone)]
pub(crate) struct Resolution {
    /// What was found out.
    pub verdict: OperatorFinding,
    /// The operator.
    pub who: String,
    /// How the operator knows.
    pub why: String,
}

/// Why a resolution does nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Unresolved {
    /// No call of that id holds a key.
    #[error(
        "no call {0} holds an idempotency key: it was refused, changes nothing, or ended long ago; `toolgate ledger show \
         {0}` tells, and names the call that holds the key if another one does"
    )]
    NoClaim(ActionId),
    /// It waits for operators, and has not run.
    #[error("the call {0} is held and has not run; `toolgate approvals` allows or denies it")]
    Held(ActionId),
    /// It is on its way, and its outcome may come any moment.
    #[error(
        "the call is in flight; wait until it has ended: only then can it be said that nobody knows"
    )]
    InFlight,
    /// It has ended; that is known and is not changed.
    #[error("the call has ended as `{0}`; what is known is not changed")]
    Ended(&'static str),
    /// Its agent is no operator about it.
    #[error("an agent's call is not resolved by an operator of the same name")]
    Own,
    /// What was said cannot be used.
    #[error("{0}")]
    Unfit(String),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A call, most often one that has not come to an end, as operators read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct OpenCall {
    /// The call.
    pub action_id: String,
    /// One of [`OPEN_STATES`], or how it ended.
    pub state: String,
    /// Since when, RFC 3339 in UTC.
    pub since: String,
    /// The agent.
    pub agent: String,
    /// The user for whom it was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// `server__tool`.
    pub tool: String,
    /// From 1.
    pub attempt: u32,
    /// What broke.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// A held call's end, RFC 3339 in UTC: from then on it does not run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<String>,
    /// What a held call waits for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub needs: Option<String>,
}

impl OpenCall {
    /// How the call of `claim` stands.
    pub(crate) fn of(claim: &Claim) -> Self {
        let why = if let ClaimPhase::Unknown { why } = &claim.phase {
            Some(why.clone())
        } else {
            None
        };
        Self {
            action_id: claim.action.to_string(),
            state: claim.phase.word().to_owned(),
            since: time(claim.changed),
            agent: claim.agent.clone(),
            user: claim.user.clone(),
            tool: claim.tool.to_string(),
            attempt: claim.attempt,
            why,
            until: None,
            needs: None,
        }
    }

    /// A held call, without its arguments: those are for operators who decide about it.
    pub(crate) fn held(hold: &Hold) -> Self {
        let (until, needs) = match hold.phase {
            HoldPhase::Pending => {
                let allowed = hold.decisions.iter().filter(|said| said.allow).count();
                let missing = u64::from(hold.needed).saturating_sub(allowed as u64);
                (hold.approve_by, counted(missing, "operator"))
            }
            HoldPhase::Allowed
            | HoldPhase::Denied
            | HoldPhase::Withdrawn
            | HoldPhase::Used { .. } => (hold.ends(), "the agent to send it again".to_owned()),
        };
        Self {
            action_id: hold.id.to_string(),
            state: "held".to_owned(),
            since: time(hold.asked),
            agent: hold.question.agent.clone(),
            user: hold.question.user.clone(),
            tool: hold.question.tool.to_string(),
            attempt: 1,
            why: None,
            until: Some(time(until)),
            needs: Some(needs),
        }
    }
}

/// What an operator gives as the reason of a word, of at most `most` bytes, without blanks around
/// it; or how one is written. It is read on terminals and in logs for good, so that it holds
/// nothing that does not print or turns what others read (threat-model §3E E5).
pub(crate) fn reason(why: &str, most: usize) -> Result<String, String> {
    let is_plain = !why
        .chars()
        .any(|letter| letter.is_control() || is_misleading(letter));
    let why = why.trim();
    if is_plain && !why.is_empty() && why.len() <= most {
        return Ok(why.to_owned());
    }
    let rule = "say why, on one line without characters that do not print, of at most";
    Err(format!(
        "{rule} {most} bytes: it stands in the ledger for good"
    ))
}

/// Up to [`MAX_CLAIMS_LISTED`] calls that have begun and not come to an end, and as many that are
/// held and that `sees` lets through, the oldest first; only those in `state`, when one is named.
pub(crate) async fn open_calls(
    store: &dyn Store,
    state: Option<&str>,
    sees: impl Fn(&Hold) -> bool,
) -> Result<Vec<OpenCall>, StoreError> {
    let now = store.now();
    let (claims, holds) = (
        store.unsettled(MAX_CLAIMS_LISTED).await?,
        store.holds(MAX_CLAIMS_LISTED).await?,
    );
    let begun = claims
        .iter()
        .map(|(_, claim)| (claim.changed, OpenCall::of(claim)));
    let may_run = |hold: &Hold| {
        let status = hold_status(Some(hold), now);
        matches!(status, HoldStatus::Pending | HoldStatus::Allowed)
    };
    let held = holds
        .iter()
        .filter(|(_, hold)| may_run(hold) && sees(hold))
        .map(|(_, hold)| (hold.asked, OpenCall::held(hold)));
    let mut open: Vec<_> = begun
        .chain(held)
        .filter(|(_, call)| state.is_none_or(|state| call.state == state))
        .collect();
    open.sort_by_key(|(since, _)| *since);
    Ok(open.into_iter().map(|(_, call)| call).collect())
}

/// Settles `action` as `resolution` says, durably; gives the word of what it became.
pub(crate) async fn resolve(
    store: &dyn Store,
    action: ActionId,
    resolution: Resolution,
) -> Result<&'static str, Unresolved> {
    let Resolution { verdict, who, why } = resolution;
    let why = reason(&why, MAX_RESOLVE_REASON_BYTES).map_err(Unresolved::Unfit)?;
    let Some((key, claim)) = store.find(action).await? else {
        let hold = store.find_hold(action).await?;
        let is_held = hold.is_some_and(|(_, hold)| hold.is_open(store.now()));
        return Err(if is_held {
            Unresolved::Held(action)
        } else {
            Unresolved::NoClaim(action)
        });
    };
    let mut asking = std::iter::once(&claim.agent).chain(&claim.user);
    if asking.any(|name| is_same_name(name, &who)) {
        return Err(Unresolved::Own);
    }
    let phase = match verdict {
        OperatorFinding::NotApplied => ClaimPhase::NotSent,
        OperatorFinding::Abandon => ClaimPhase::Abandoned,
        OperatorFinding::Applied(result) => {
            let result = fitting(result)?;
            refusal(&claim, false)?;
            ClaimPhase::Completed(store.keep(false, result.bytes()).await?)
        }
    };
    refusal(&claim, phase == ClaimPhase::Abandoned)?;
    let became = phase.word();
    let evidence = Evidence::Operator { who, why };
    let settle = Settle {
        key,
        action,
        phase,
        evidence,
        cost: None,
        failed: false,
        seen: None,
        worth: AnswerWorth::Unread,
    };
    if store
        .run(StoreCommand::Settle(settle), None)
        .await?
        .is_err()
    {
        // Something else has ended it meanwhile.
        let claim = store
            .find(action)
            .await?
            .ok_or(Unresolved::NoClaim(action))?
            .1;
        return Err(refusal(&claim, true)
            .err()
            .unwrap_or(Unresolved::Ended(claim.phase.word())));
    }
    tracing::info!(%action, became, "an operator has resolved a call");
    Ok(became)
}

/// Only what nobody knows, and what waits for an agent that may never come back, is an operator's
/// to end; what was given up, once it is known after all.
fn refusal(claim: &Claim, gives_up: bool) -> Result<(), Unresolved> {
    match &claim.phase {
        ClaimPhase::Unknown { .. } | ClaimPhase::AwaitingInput { .. } => Ok(()),
        ClaimPhase::Abandoned if !gives_up => Ok(()),
        ClaimPhase::Dispatching => Err(Unresolved::InFlight),
        ended @ (ClaimPhase::Completed(_)
        | ClaimPhase::Failed { .. }
        | ClaimPhase::NotSent
        | ClaimPhase::Abandoned) => Err(Unresolved::Ended(ended.word())),
    }
}

/// The result that is replayed from now on.
fn fitting(given: Option<Text>) -> Result<Text, Unresolved> {
    let Some(given) = given else {
        return Ok(Text::of(
            &json!({ "content": [{ "type": "text", "text": APPLIED_TEXT }], "isError": false, "resultType": "complete" }),
        ));
    };
    let has_content = given
        .get("content")
        .is_some_and(|content| content.is_array());
    if !has_content || given.as_bytes().len() > MAX_RESOLVED_RESULT_BYTES {
        let why = format!(
            "a result is a JSON object as `tools/call` gives it, such as {{\"content\":[{{\"type\":\"text\",\"text\":\"…\"}}]}}, \
             of at most {MAX_RESOLVED_RESULT_BYTES} bytes"
        );
        return Err(Unresolved::Unfit(why));
    }
    // What 2026-07-28 asks for, and what older revisions read past.
    let is_whole = given.get("resultType").is_some();
    Ok(if is_whole {
        given
    } else {
        given.with_new_member("resultType", &Text::of(&json!("complete")))
    })
}

/// The store's time as people write it.
pub(crate) fn time(at: Millis) -> String {
    let time = i64::try_from(at)
        .ok()
        .and_then(|at| Timestamp::from_millisecond(at).ok());
    time.map_or_else(|| format!("{at} ms since 1970"), |time| time.to_string())
}
