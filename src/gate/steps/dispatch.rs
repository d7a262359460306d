//! Step 14: sends a judged call upstream and carries back what arrives, up to its answer.

use crate::failpoint;
use crate::gate::call::ArgumentOrigin;
use crate::gate::call::Call;
use crate::gate::catalogue::tool::Tool;
use crate::gate::steps::cleared::{Cleared, Stamp};
use crate::gate::steps::hops;
use crate::gate::steps::late::{LATE_ANSWER_TIMEOUT, LATE_COST_TIMEOUT};
use crate::gate::steps::placing::Placed;
use crate::gate::steps::proof::Broken;
use crate::gate::steps::shaper::Shaper;
use crate::guards::secrets::Sealed;
use crate::guards::{Mode, ToolRules};
use crate::mcp::bridge::TaskSupport;
use crate::mcp::headers::PARAM_HEADER_PREFIX;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::own::{FENCE_META_KEY, without_ours};
use crate::mcp::revision::Era;
use crate::model::reply::Fault;
use crate::side::capabilities;
use crate::upstream::departure::Departure;
use crate::upstream::links::BridgeTerms;
use crate::upstream::pump::{ExchangeContext, ExchangeOutcome, Outbound};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a late answer is listened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) enum LateListening {
    /// Nothing.
    Never,
    /// What the call has cost: its answer alone tells (003-93).
    ForCost,
    /// What became of the call.
    ForOutcome,
}

/// How long a call may take, and what becomes of it then.
#[derive(Debug, Clone, Copy)]
pub(in crate::gate) struct Terms {
    pub(in crate::gate) deadline: Duration,
    /// Whether it goes on when its agent leaves.
    pub(in crate::gate) detached: bool,
    /// Whether its answer is listened for after its deadline.
    pub(in crate::gate) listens: LateListening,
}

impl Terms {
    /// Whether its answer is listened for after its deadline.
    pub(in crate::gate) fn is_awaited(self) -> bool {
        self.listens != LateListening::Never
    }

    /// How long its server has for an answer.
    fn patience(self) -> Duration {
        let late = match self.listens {
            LateListening::Never => Duration::ZERO,
            LateListening::ForCost => LATE_COST_TIMEOUT,
            LateListening::ForOutcome => LATE_ANSWER_TIMEOUT,
        };
        self.deadline + late
    }

    /// The same, and no longer than its task's time, where that is limited.
    pub(in crate::gate) fn within(self, left: Option<Duration>) -> Self {
        Self {
            deadline: self.deadline.min(left.unwrap_or(Duration::MAX)),
            ..self
        }
    }
}

/// What goes upstream, built before anything is sent.
pub(in crate::gate) struct Parcel {
    message: Message,
    headers: Vec<(String, String)>,
    /// By which it can be taken back until it has left, where that matters.
    departure: Option<Departure>,
    /// Where it may go on without its agent.
    outlives: Option<Arc<AtomicBool>>,
}

impl Parcel {
    /// From now on it says when it leaves.
    pub(in crate::gate) fn departs(&mut self) {
        self.departure.get_or_insert_default();
    }

    /// By which it can be taken back until it has left.
    pub(in crate::gate) fn departure(&mut self) -> Departure {
        self.departure.get_or_insert_default().clone()
    }

    /// To be set once its agent is not waited for any more.
    pub(in crate::gate) fn outlives(&mut self) -> Arc<AtomicBool> {
        self.outlives.get_or_insert_default().clone()
    }
}

/// The call as it will travel.
pub(in crate::gate) fn pack(
    call: &Call,
    tool: &Tool,
    cleared: &Cleared<'_>,
    sealed: &Sealed,
) -> Parcel {
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
        meta.set(FENCE_META_KEY, fence.clone());
        params.set("_meta", meta.text());
    }
    let mut headers = match call.origin.links.wire(&tool.server) {
        Era::Modern => header_params(params.get("arguments"), tool),
        Era::Legacy => Vec::new(),
    };
    headers.extend(placed.header());
    let fence_header = tool.server.settings.fence_header.as_ref();
    headers.extend(
        fence_header
            .zip(stamp)
            .map(|(name, stamp)| (name.clone(), stamp.fence_item())),
    );
    headers.push(hops::header(call));
    headers.extend(passed(call, tool, &headers));
    hops::mark(call, &mut params);
    // Last, so that no value is anywhere but in the body that leaves.
    if let Some(filled) = params
        .get("arguments")
        .map(|arguments| sealed.fill(arguments))
    {
        params.set("arguments", filled);
    }
    Parcel {
        message: Message {
            unknown: call.message.unknown.clone(),
            keeps_unknown: call.origin.policy.mode == Mode::Observe,
            ..Message::request(0, "tools/call", Some(params.text()))
        },
        headers,
        departure: stamp.map(|stamp| Departure::of(Some(stamp.action))),
        outlives: None,
    }
}

/// Sends the call once, and ends with its answer. One that is awaited is listened for long after its
/// deadline, which is for the delivery that waits to keep.
pub(in crate::gate) async fn exchange(
    call: &Call,
    shaper: &Shaper,
    parcel: &Parcel,
    terms: Terms,
) -> Result<Message, Broken> {
    let (tool, origin) = (&shaper.tool, &call.origin);
    let server = &tool.server.settings.name;
    // What it offers when it comes back is not known yet.
    tool.server.want().map_err(Broken::Fault)?;
    let context = ExchangeContext {
        caller: &origin.caller,
        outlet: &origin.outlet,
        links: &origin.links,
        waiting: &origin.waiting,
        stop_when_gone: !terms.detached,
        outlives: parcel.outlives.as_deref(),
        shaping: Some(shaper),
        tolerance: shaper.tolerance(),
        task_token: None,
    };
    let timeout = Some(terms.patience());
    let changes = shaper.rules.side_effect;
    let departs = changes || terms.is_awaited();
    let departure = parcel.departure.as_ref().filter(|_| departs);
    let outbound = Outbound {
        server,
        message: &parcel.message,
        params: &parcel.headers,
        timeout,
        changes,
        terms: bridge_terms(call, shaper),
    };
    failpoint::reached("before-send");
    match context.departs(outbound, departure).await {
        Ok(ExchangeOutcome::Answer(answer)) => {
            shaper.readable(&answer)?;
            if let Some(result) = answer
                .body
                .as_ref()
                .filter(|_| !answer.is_error && shaper.may_be_task())
            {
                let owned = || shaper.of_task(call.message.body.as_ref());
                if let Some(owned) = origin.links.tasks.note(&origin.caller, result, owned) {
                    let parked = origin.links.servers().parked_tasks();
                    parked.note(result, owned);
                }
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

/// What becomes of the call where its server speaks another era.
fn bridge_terms(call: &Call, Shaper { tool, rules, .. }: &Shaper) -> BridgeTerms {
    let is_bridged =
        call.origin.era == Era::Modern && call.origin.links.wire(&tool.server) == Era::Legacy;
    let task = if is_bridged {
        TaskSupport::of(&tool.definition.text)
    } else {
        TaskSupport::Forbidden
    };
    BridgeTerms {
        begins_anew: !rules.side_effect,
        task,
    }
}

/// Whether the agent said that the call may become a task (protocol §6.1).
pub(in crate::gate) fn asks_for_task(call: &Call) -> bool {
    let declared = [
        "io.modelcontextprotocol/clientCapabilities",
        "extensions",
        "io.modelcontextprotocol/tasks",
    ];
    let has = |member: &str, path: &[&str]| {
        let params = call.message.body.as_ref();
        let member = params.and_then(|params| params.get(member));
        member.is_some_and(|member| member.at(path).is_some())
    };
    has("task", &[]) || has("_meta", &declared)
}

/// The fault of a call whose deadline has passed; `taken_back`: nothing of it has left, nor will.
pub(in crate::gate) fn too_late(deadline: Duration, taken_back: bool) -> Broken {
    Broken::Fault(if taken_back {
        Fault::unsent(format!("it could not be sent within {deadline:?}"))
    } else {
        Fault::after_sending(format!("no answer within {deadline:?}"))
    })
}

/// How long the call may take: the contract's `timeout_ms`, else the server's.
pub(in crate::gate) fn terms(tool: &Tool, rules: &ToolRules) -> Terms {
    let deadline = rules
        .budget
        .timeout()
        .unwrap_or(Duration::MAX)
        .min(tool.server.settings.timeout);
    // What a contract says changes something is finished even when the agent hangs up
    // (guarantees §4).
    let detached = rules.side_effect && !rules.actions.is_empty();
    let listens = if detached {
        LateListening::ForOutcome
    } else if rules.budget.is_told_cost() {
        LateListening::ForCost
    } else {
        LateListening::Never
    };
    Terms {
        deadline,
        detached,
        listens,
    }
}

pub(in crate::gate) fn header_params(
    arguments: Option<&Text>,
    tool: &Tool,
) -> Vec<(String, String)> {
    let (Some(arguments), false) = (arguments, tool.definition.header_params.is_empty()) else {
        return Vec::new();
    };
    let (arguments, params) = (arguments.value(), tool.definition.header_params.iter());
    params
        .filter_map(|param| Some((param.header.clone(), param.value(&arguments)?)))
        .collect()
}

/// The agent's headers that travel as they came. Of what the tool knows, ours are made of the final
/// arguments, where these can be read.
fn passed(call: &Call, tool: &Tool, ours: &[(String, String)]) -> Vec<(String, String)> {
    let mut passed = tool.server.settings.beside(ours, &call.judged.said.headers);
    let is_modern = call.origin.era == Era::Modern;
    passed.retain(|(name, _)| {
        let mut known = tool.definition.header_params.iter();
        let is_known = known.any(|param| param.header == *name) && call.message.odd.is_none();
        !is_known && (is_modern || !name.starts_with(PARAM_HEADER_PREFIX))
    });
    passed
}

/// What of the parameters may travel, under the name that the tool server knows.
fn listed(sent: &Object, name: &Text) -> Object {
    let mut params = Object::new();
    params.set("name", name.clone());
    for (key, value) in sent.iter() {
        match key {
            "arguments" | "_meta" | "task" | "inputResponses" | "requestState" => {
                params.set(key, value.clone());
            }
            _ => {}
        }
    }
    params
}

/// The call's parameters: a closed list of fields, each as the agent wrote it and the guards read
/// it. In observe mode there is no list: whatever it wrote travels.
fn outbound(call: &Call, tool: &Tool, placed: &Placed<'_>) -> Object {
    let sent = call
        .message
        .body
        .as_ref()
        .and_then(Text::object)
        .unwrap_or_default();
    let name = Text::string(&tool.definition.name);
    let mut params = match call.origin.policy.mode {
        Mode::Observe => sent.clone(),
        Mode::Enforce => listed(&sent, &name),
    };
    params.set("name", name);
    // Set again, in its place: what is not placed stays as it was written.
    let read = (call.reading == ArgumentOrigin::Back).then(|| Text::of(&call.judged.arguments));
    if let Some(arguments) = placed.arguments(read.as_ref().or(sent.get("arguments"))) {
        params.set("arguments", arguments);
    }
    if let Some(meta) = placed.meta(sent.get("_meta").map(without_ours).as_ref()) {
        let told = capabilities::meta(
            &call.origin.policy,
            &call.origin.caller,
            &tool.server.settings.name,
            &meta,
        );
        params.set("_meta", told.unwrap_or(meta));
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 003-93, guarantees §4: a server has the call's time, and after it what its answer is listened for.
    #[test]
    fn a_server_has_time_for_a_late_answer() {
        for (listens, seconds) in [
            (LateListening::Never, 1),
            (LateListening::ForCost, 61),
            (LateListening::ForOutcome, 601),
        ] {
            let terms = Terms {
                deadline: Duration::from_secs(1),
                detached: false,
                listens,
            };
            assert_eq!(terms.patience().as_secs(), seconds, "{listens:?}");
        }
    }
}
