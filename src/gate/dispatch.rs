//! Step 14: sends a judged call upstream and carries back what arrives, up to its answer.

use super::call::Call;
use super::effects::Claimed;
use super::hops;
use super::late::LATE_ANSWER_TIMEOUT;
use super::placing::Placed;
use super::proof::Broken;
use super::shaper::Shaper;
use super::shown::Reading;
use super::toolbox::Tool;
use crate::failpoint;
use crate::guards::ToolRules;
use crate::guards::evidence::{NotRepeated, Ruled};
use crate::guards::idempotency::{self, Keyed, Placement};
use crate::guards::secrets::Sealed;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::own::without_ours;
use crate::mcp::revision::Era;
use crate::model::reply::Fault;
use crate::side::capabilities;
use crate::upstream::departure::Departure;
use crate::upstream::pump::{ExchangeContext, ExchangeOutcome, Outbound};
use serde_json::json;
use std::borrow::Cow;
use std::time::Duration;

/// What tool servers that cooperate check (SEMANTICS §5).
pub(super) const FENCE: &str = "dev.toolgate/fence";

/// The proof that a call may be sent: every guard before has passed it, and what changes something
/// has its claim.
pub(super) enum Cleared<'a> {
    /// Nothing is enforced.
    Observed(Ruled),
    /// It needs no claim.
    Read(NotRepeated),
    /// It is claimed.
    Claimed(Stamp<'a>),
}

/// What a claimed call carries upstream: its session, its token, and the key that its tool server
/// knows it by.
pub(super) struct Stamp<'a> {
    fence: Text,
    key: Option<(&'a Placement, String)>,
    /// For how long after its first sending the server tells a second one by that key.
    window: Duration,
}

impl<'a> Stamp<'a> {
    /// The stamp of `claimed`.
    pub(super) fn of(claimed: &Claimed, rule: &'a idempotency::Rule, keyed: &Keyed) -> Self {
        let Claimed {
            session,
            fence,
            action,
            ..
        } = claimed;
        let fence = json!({ "session": session.to_string(), "token": fence, "action": action });
        let upstream = rule.upstream();
        let key = upstream.map(|upstream| (&upstream.place, keyed.upstream_key(*action)));
        Self {
            fence: Text::of(&fence),
            key,
            window: upstream.map_or(Duration::ZERO, |upstream| upstream.trusted),
        }
    }
}

impl Cleared<'_> {
    /// For how long the server tells a second sending of the call from a second call.
    pub(super) fn window(&self) -> Duration {
        match self {
            Self::Claimed(stamp) => stamp.window,
            Self::Observed(_) | Self::Read(_) => Duration::ZERO,
        }
    }
}

/// How long a call may take, and whether it goes on when its agent leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) deadline: Duration,
    pub(super) detached: bool,
}

/// What goes upstream, built before anything is sent.
pub(super) struct Parcel {
    message: Message,
    headers: Vec<(String, String)>,
    departure: Departure,
}

impl Parcel {
    /// By which it can be taken back until it has left.
    pub(super) fn departure(&self) -> Departure {
        self.departure.clone()
    }
}

/// The call as it will travel.
pub(super) fn pack(call: &Call, tool: &Tool, cleared: &Cleared<'_>, sealed: &Sealed) -> Parcel {
    // Until eras are bridged, the agent's is the server's.
    let stamp = match cleared {
        Cleared::Claimed(stamp) => Some(stamp),
        Cleared::Observed(_) | Cleared::Read(_) => None,
    };
    let key = stamp
        .and_then(|stamp| stamp.key.as_ref())
        .map(|(place, key)| (*place, key.as_str()));
    let placed = Placed {
        strip: call.judged.key_taken,
        key,
    };
    let mut params = outbound(call, tool, &placed);
    if let Some(Stamp { fence, .. }) = stamp {
        let mut meta = params
            .get("_meta")
            .and_then(Text::object)
            .unwrap_or_default();
        meta.set(FENCE, fence.clone());
        params.set("_meta", meta.text());
    }
    let mut headers = match call.origin.era {
        Era::Modern => header_params(params.get("arguments"), tool),
        Era::Legacy => Vec::new(),
    };
    headers.extend(placed.header());
    headers.push(hops::header(call));
    hops::mark(call, &mut params);
    // Last, so that no value is anywhere but in the body that leaves.
    if let Some(filled) = params
        .get("arguments")
        .map(|arguments| sealed.fill(arguments))
    {
        params.set("arguments", filled);
    }
    Parcel {
        message: Message::request(0, "tools/call", Some(params.text())),
        headers,
        departure: Departure::default(),
    }
}

/// Sends the call once, and ends with its answer. One that is `detached` is listened for long after
/// its deadline, which is for the delivery that waits to keep.
pub(super) async fn exchange(
    call: &Call,
    shaper: &Shaper,
    parcel: Parcel,
    terms: Terms,
) -> Result<Message, Broken> {
    let (tool, origin) = (&shaper.tool, &call.origin);
    let server = &tool.server.settings.name;
    // What it offers when it comes back is not known yet.
    if tool.server.up().is_none() {
        return Err(Broken::Fault(Fault::unsent(format!(
            "tool server `{server}` is down"
        ))));
    }
    let context = ExchangeContext {
        caller: &origin.caller,
        outlet: &origin.outlet,
        links: &origin.links,
        waiting: &origin.waiting,
        stop_when_gone: !terms.detached,
        shaping: Some(shaper),
        task_token: None,
    };
    let timeout = Some(if terms.detached {
        terms.deadline + LATE_ANSWER_TIMEOUT
    } else {
        terms.deadline
    });
    let (message, params, changes) = (parcel.message, parcel.headers, shaper.rules.side_effect);
    let departure = changes.then_some(parcel.departure);
    let outbound = Outbound {
        server,
        message,
        params,
        timeout,
        changes,
    };
    failpoint::reached("before-send");
    match context.departs(outbound, departure).await {
        Ok(ExchangeOutcome::Answer(answer)) => {
            if let Some(result) = answer
                .body
                .as_ref()
                .filter(|_| !answer.is_error && shaper.may_be_task())
            {
                origin.links.tasks.note(&origin.caller, result, || {
                    shaper.of_task(call.message.body.as_ref())
                });
            }
            Ok(answer)
        }
        Ok(ExchangeOutcome::Gone(sent)) => Err(Broken::Cancelled(sent)),
        Err(fault) => {
            if fault.is_outage() {
                tool.server.suspect();
            }
            Err(Broken::Fault(fault))
        }
    }
}

/// Whether the agent said that the call may become a task (PROTOCOL §6.1).
pub(super) fn asks_for_task(call: &Call) -> bool {
    let declared = [
        "io.modelcontextprotocol/clientCapabilities",
        "extensions",
        "io.modelcontextprotocol/tasks",
    ];
    let asks = |(key, value): (Cow<'_, str>, Text)| match &*key {
        "task" => true,
        "_meta" => value.at(&declared).is_some(),
        _ => false,
    };
    call.message
        .body
        .as_ref()
        .and_then(Text::members)
        .is_some_and(|mut members| members.any(asks))
}

/// The fault of a call whose deadline has passed; `taken_back`: nothing of it has left, nor will.
pub(super) fn too_late(deadline: Duration, taken_back: bool) -> Broken {
    Broken::Fault(if taken_back {
        Fault::unsent(format!("it could not be sent within {deadline:?}"))
    } else {
        Fault::after_sending(format!("no answer within {deadline:?}"))
    })
}

/// How long the call may take: the contract's `timeout_ms`, else the server's.
pub(super) fn terms(tool: &Tool, rules: &ToolRules) -> Terms {
    let deadline = rules
        .budget
        .timeout()
        .unwrap_or(Duration::MAX)
        .min(tool.server.settings.timeout);
    // What a contract says changes something is finished even when the agent hangs up (SEMANTICS
    // §4).
    Terms {
        deadline,
        detached: rules.side_effect && !rules.actions.is_empty(),
    }
}

pub(super) fn header_params(arguments: Option<&Text>, tool: &Tool) -> Vec<(String, String)> {
    let (Some(arguments), false) = (arguments, tool.definition.header_params.is_empty()) else {
        return Vec::new();
    };
    let (arguments, params) = (arguments.value(), tool.definition.header_params.iter());
    params
        .filter_map(|param| Some((param.header.clone(), param.value(&arguments)?)))
        .collect()
}

/// The call's parameters: a closed list of fields, each as the agent wrote it and the guards read
/// it.
fn outbound(call: &Call, tool: &Tool, placed: &Placed<'_>) -> Object {
    let sent = call
        .message
        .body
        .as_ref()
        .and_then(Text::object)
        .unwrap_or_default();
    let mut params = Object::new();
    params.set("name", Text::string(&tool.definition.name));
    for (key, value) in sent.iter() {
        match key {
            "arguments" | "_meta" | "task" | "inputResponses" | "requestState" => {
                params.set(key, value.clone());
            }
            _ => {}
        }
    }
    // Set again, in its place: what is not placed stays as it was written.
    let read = (call.reading == Reading::Back).then(|| Text::of(&call.judged.arguments));
    if let Some(arguments) = placed.arguments(read.as_ref().or(sent.get("arguments"))) {
        params.set("arguments", arguments);
    }
    if let Some(meta) = placed.meta(sent.get("_meta").map(without_ours).as_ref()) {
        let told = capabilities::meta(
            &call.origin.policy,
            (&call.origin.caller, &tool.server.settings.name),
            &meta,
        );
        params.set("_meta", told.unwrap_or(meta));
    }
    params
}
