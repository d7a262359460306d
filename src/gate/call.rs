//! THE PIPELINE: every guard, in the order of SEMANTICS §2, on one screen. Steps 3 to 5 are
//! [`super::judge::ruled`], because `explain` and `test` take them, too.

use super::Gate;
use super::deliver::Delivery;
use super::dispatch::{Cleared, FENCE};
use super::effects::{Beginning, Stand};
use super::judging::judged;
use super::observe::observed;
use super::rewriting::stripped;
use super::rounds::{opened, sealed};
use super::sealing::send;
use super::shown::{Reading, read_back};
use super::states::{is_planned, planned};
use super::taken::Taken;
use super::toolbox::Tool;
use super::trail::{Stage, Trail};
use super::{fit, hops, pinned, record};
use crate::failpoint;
use crate::guards::allowlist::Admitted;
use crate::guards::evidence::Ruled;
use crate::guards::idempotency::{self, Given, KeyRequest};
use crate::guards::output::Meaning;
use crate::guards::secrets::Sealed;
use crate::guards::{Mode, ToolRules};
use crate::mcp::answer::{DecisionMeta, invalid, refused, with_decision};
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::own::OWN_META_PREFIX;
use crate::mcp::revision::Era;
use crate::model::call::ToolCall;
use crate::model::caller::Caller;
use crate::model::refusal::Refusal;
use crate::outlet::{Outgoing, Outlet};
use crate::policy::Policy;
use crate::store::state::digest::Digest;
use crate::telemetry::metrics::CallOutcome;
use crate::upstream::links::{Links, WaitingRequest};
use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// What a call brings a server that asked in an earlier round (2026-07-28).
const ROUND: [&str; 2] = ["inputResponses", "requestState"];
/// What a call brings that brings a state.
const OWN_STATE: &str = "`requestState` as it came with the question to this very call, or none";
/// Members of `_meta` that are another's with each request, and say nothing of what the call does:
/// what a person allows is not bound to them (SEMANTICS §7).
const OF_ONE_REQUEST: [&str; 6] = [
    "progressToken",
    "traceparent",
    "tracestate",
    "baggage",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/logLevel",
];
/// Such members that say what the agent is.
const OF_THE_AGENT: [&str; 2] = [
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
];
/// Bytes that such a member may have; what is longer, or of another form than its own, can carry
/// what the call does.
const OF_ONE_REQUEST_BYTES: usize = 512;
const OF_THE_AGENT_BYTES: usize = 2 << 10;

/// A call, who makes it, and the way back.
pub struct Call {
    /// What the guards judge.
    pub judged: ToolCall,
    /// Whether its arguments are those that the agent wrote.
    pub reading: Reading,
    /// Who calls.
    pub caller: Arc<Caller>,
    /// The policy that knows the caller so. The call is judged by it and no other.
    pub policy: Arc<Policy>,
    /// The request as it was read.
    pub message: Message,
    /// The agent's era.
    pub era: Era,
    /// What the agent reaches.
    pub links: Arc<Links>,
    /// Where the agent reads.
    pub outlet: Outlet,
    /// Its place among the agent's requests that wait.
    pub waiting: WaitingRequest,
}

impl Call {
    /// What it answers a server that asked in an earlier round, as SHA-256 (2026-07-28).
    pub(super) fn round(&self) -> Option<Digest> {
        let params = self.message.body.as_ref()?;
        let parts = ROUND.map(|field| params.get(field));
        let [None, None] = &parts else {
            let parts = parts
                .each_ref()
                .map(|part| part.as_ref().map_or(&[][..], Text::as_bytes));
            return Some(Digest::of_parts("round", &parts));
        };
        None
    }

    /// The same, as a person is shown it.
    pub(super) fn answers(&self) -> Option<Value> {
        let params = self.message.body.as_ref()?;
        let parts = ROUND
            .iter()
            .filter_map(|field| Some(((*field).to_owned(), params.get(field)?.value())));
        let parts: Map<String, Value> = parts.collect();
        (!parts.is_empty()).then_some(Value::Object(parts))
    }

    /// What else of it an agent sends upstream, as a person is shown it: `_meta` but for what
    /// belongs to each request, and `task`.
    pub(super) fn beside(&self) -> Option<Value> {
        let params = self.message.body.as_ref()?;
        let meta = params
            .get("_meta")
            .as_ref()
            .and_then(Text::object)
            .unwrap_or_default();
        let lasting = meta.iter().filter(|(key, value)| {
            !key.starts_with(OWN_META_PREFIX) && !is_of_one_request(key, value)
        });
        let lasting: Map<String, Value> = lasting
            .map(|(key, value)| (key.to_owned(), value.value()))
            .collect();
        let meta = (!lasting.is_empty()).then_some(("_meta".to_owned(), Value::Object(lasting)));
        let task = params
            .get("task")
            .map(|task| ("task".to_owned(), task.value()));
        let parts: Map<String, Value> = meta.into_iter().chain(task).collect();
        (!parts.is_empty()).then_some(Value::Object(parts))
    }

    /// The fencing token that the agent says it holds (004-26).
    pub(super) fn fence(&self) -> Option<u64> {
        self.message.meta(FENCE)?.get("token")?.value().as_u64()
    }

    /// Step 3: whether the arguments could be read back.
    pub(super) fn read(&self) -> Result<(), Refusal> {
        match &self.reading {
            Reading::Impossible(refusal) => Err(refusal.clone()),
            Reading::Foreign => Err(Refusal::SchemaInvalid {
                pointer: String::new(),
                expected: OWN_STATE.to_owned(),
            }),
            Reading::AsWritten | Reading::Back => Ok(()),
        }
    }

    /// The call as the key is made of it.
    pub(super) fn asked<'a>(&'a self, tool: &'a Tool) -> KeyRequest<'a> {
        let (judged, server) = (&self.judged, &tool.server.settings.name);
        let (meta, header) = (judged.said.key.as_ref(), judged.said.key_header.as_deref());
        let given = Given {
            meta,
            argument: judged.key_argument.as_ref(),
            header,
        };
        KeyRequest {
            caller: &self.caller,
            server,
            tool: &tool.definition.name,
            arguments: &judged.arguments,
            given,
        }
    }

    /// Without what no guard and no tool server is to see: the idempotency key where it is ours,
    /// and empty optional arguments where the contract says so.
    fn prepared(self, policy: &Policy, tool: &Tool) -> Self {
        let Ok(admitted) = admitted(policy, &self, tool) else {
            return self;
        };
        let rules = admitted.rules();
        let call = match &rules.idempotency {
            Some(rule) => self.without_key(rule, tool),
            None => self,
        };
        if policy.mode == Mode::Observe {
            call
        } else {
            stripped(call, rules, tool)
        }
    }

    /// Looks for the key in the arguments once more: a variant that the call has become may know
    /// one for it.
    pub(super) fn find_key(&mut self, rules: &ToolRules, tool: &Tool) {
        let (None, Some(rule)) = (&self.judged.key_argument, &rules.idempotency) else {
            return;
        };
        self.judged.key_argument = rule
            .split(&tool.schema, &self.judged.arguments)
            .1
            .map(Cow::into_owned);
    }

    fn without_key(mut self, rule: &idempotency::Rule, tool: &Tool) -> Self {
        let (rest, key) = rule.split(&tool.schema, &self.judged.arguments);
        let (rest, key) = (owned(rest), key.map(Cow::into_owned));
        self.judged.key_argument = key;
        if let Some(rest) = rest {
            (self.judged.arguments, self.judged.key_taken) = (rest, true);
        }
        self
    }
}

impl Gate {
    /// Runs a call to its end, even when the agent hangs up: what was begun is settled and
    /// recorded.
    pub async fn call_tool(self: Arc<Self>, call: Call) {
        let policy = call.policy.clone();
        let tool = self.tools.current().find(&call.judged.tool).cloned();
        let (tool, call) = read_back(&self, &policy, tool, call);
        let asked = call.message.body.clone();
        let mut call = Arc::new(match &tool {
            Some(tool) => opened(&self.seal, tool, call).prepared(&policy, tool),
            None => call,
        });
        let mut trail = Trail::new(self.metrics.clone(), self.clock, call.judged.arrived);
        let mut taken = Taken::default();
        let running = guarded(
            &policy,
            &self,
            &mut call,
            tool.as_ref(),
            (&mut trail, &mut taken),
        );
        let ended = AssertUnwindSafe(running).catch_unwind().await;
        let ending = ended.unwrap_or_else(|_| Err(taken.after_panic()));
        let ending = self.in_a_row(&policy, &call, ending);
        let judged = (&*policy, &*call, tool.as_deref());
        if is_planned(&call) == Ok(true) && !matches!(ending, Err(Refusal::Planned)) {
            self.effects.give_up_plan(&call).await;
        }
        let (outcome, ending) = record::settle(&self, judged, (&mut trail, taken), ending).await;
        // A modern agent that cancelled wants to hear no more of the call (PROTOCOL §1.7).
        if call.era == Era::Legacy || !matches!(ending, Err(Refusal::Cancelled)) {
            let answer = answer(&call, &ending, (outcome, &trail));
            let answer = sealed(
                &self.seal,
                tool.as_deref(),
                (&*call, asked.as_ref()),
                answer,
            );
            failpoint::reached("reply-to-agent");
            call.waiting.answered();
            let _ = call.outlet.send(Outgoing::Last(Box::new(answer))).await;
        }
        if let Some(tool) = &tool {
            self.tell(&policy, (&call, tool), (&trail, outcome), &ending);
        }
    }
}

/// Is this member of `_meta` another's with each request, in the form that it has to have?
fn is_of_one_request(key: &str, value: &Text) -> bool {
    let bytes = value.as_bytes();
    if OF_THE_AGENT.contains(&key) {
        return value.is_object() && bytes.len() <= OF_THE_AGENT_BYTES;
    }
    let is_scalar = !value.is_object() && !value.is_array();
    OF_ONE_REQUEST.contains(&key) && is_scalar && bytes.len() <= OF_ONE_REQUEST_BYTES
}

fn owned(value: Cow<'_, Value>) -> Option<Value> {
    match value {
        Cow::Owned(value) => Some(value),
        Cow::Borrowed(_) => None,
    }
}

/// The steps of SEMANTICS §2 in their order. What leaves early has been refused; nothing after it
/// has run.
async fn guarded(
    policy: &Policy,
    gate: &Gate,
    call: &mut Arc<Call>,
    tool: Option<&Arc<Tool>>,
    (trail, taken): (&mut Trail, &mut Taken),
) -> Result<Message, Refusal> {
    let effects = &gate.effects;
    let offered =
        tool.filter(|tool| fit::is_offered(policy, tool) && pinned::is_offered(policy, tool));
    let offered = hops::judge(call).and_then(|()| offered.ok_or(Refusal::ToolNotAllowlisted));
    let tool = trail.check(Stage::Visible, offered)?;
    let admitted = trail.check(Stage::Visible, admitted(policy, call, tool))?;
    let passed = judged((policy, &admitted), (call, tool), trail).await;
    let passed = passed.or_else(|refusal| trail.overrule(refusal, Ruled::observed(policy.mode)))?;
    failpoint::reached("after-policy");
    // Below, things are taken and waited for; where nothing is enforced, it is only said what would
    // be refused.
    if policy.mode == Mode::Observe {
        let unproven = (passed, Sealed::observed(policy.mode));
        return observed(
            policy,
            gate,
            (call, tool, admitted.rules()),
            unproven,
            (trail, taken),
        )
        .await;
    }
    let (admitted, last) = gate
        .rewrite((policy, admitted), (call, tool), passed, trail)
        .await?;
    let (call, rules) = (&*call, admitted.rules());
    let bill = effects.bill(policy, call, rules, trail).await?;
    effects.advance(call, &bill, rules, trail).await?;
    let allowed = trail.check(
        Stage::Repetition,
        policy
            .repetition
            .watch(bill.history(), &tool.name, bill.seen(call), &last),
    )?;
    trail.warning = allowed.warning;
    if is_planned(call)? {
        return planned(
            effects,
            (call, tool, rules),
            (&bill, &allowed.watched),
            trail,
        )
        .await;
    }
    let Some(idempotency) = &rules.idempotency else {
        let affordable = effects.afford(&bill, &mut trail.remaining).await;
        trail.check(Stage::Budget, affordable)?;
        let reserved = effects.reserve(&bill, &mut trail.remaining).await;
        taken.reserved = trail.check(Stage::Budget, reserved)?;
        taken.slot = Some(gate.slot(&call.caller.agent, &tool.name)?);
        let cleared = Cleared::Read(allowed.watched);
        return send(
            (gate, policy, None),
            Delivery {
                call,
                tool,
                rules,
                cleared,
            },
            (trail, taken),
        )
        .await;
    };
    let keyed = &trail.check(
        Stage::Idempotency,
        idempotency.key(&call.asked(tool), &allowed.watched),
    )?;
    let claimed = loop {
        let stands = effects.stand(call, keyed, &mut trail.claimed_by).await;
        match trail.check(Stage::Idempotency, stands)? {
            Stand::Again(answer) => return Ok(trail.again(answer)),
            Stand::Unknown(action) => {
                effects.resolve(gate, call, (rules, keyed), action).await?;
                continue;
            }
            Stand::Open => {}
        }
        let confirmed = effects.confirm(call, rules, &bill, trail).await?;
        let affordable = effects.afford(&bill, &mut trail.remaining).await;
        trail.check(Stage::Budget, affordable)?;
        let Some(approved) = effects
            .approve(gate, (policy, call, tool, rules), trail)
            .await?
        else {
            continue;
        };
        let lease = trail.check(Stage::Fence, effects.enter(call, &bill).await)?;
        taken.slot = Some(gate.slot(&call.caller.agent, &tool.name)?);
        let entry = record::intent(gate, (policy, call, Some(tool)), trail);
        let next = Beginning {
            keyed,
            confirmed,
            approved,
            bill: &bill,
            lease,
            entry,
            left: &mut trail.remaining,
        };
        let begun = effects.begin(call, next).await;
        match trail.check(Stage::Intent, begun)? {
            Some(claimed) => break claimed,
            None => taken.anew(trail),
        }
    };
    let cleared = taken.hold(claimed, idempotency, keyed);
    // Steps 13 to 16: secrets, dispatch, outcome, result.
    send(
        (gate, policy, None),
        Delivery {
            call,
            tool,
            rules,
            cleared,
        },
        (trail, taken),
    )
    .await
}

/// Step 2, with the contract that counts for these arguments.
pub(super) fn admitted<'p>(
    policy: &'p Policy,
    call: &Call,
    tool: &Tool,
) -> Result<Admitted<'p>, Refusal> {
    let admitted = policy
        .allowlist
        .admit(&call.caller, &tool.name)
        .map_err(|denied| denied.refusal)?;
    Ok(admitted.on(&call.judged.arguments))
}

/// What the agent reads: the tool server's answer with our verdict beside it, or the refusal.
fn answer(
    call: &Call,
    ending: &Result<Message, Refusal>,
    (outcome, trail): (CallOutcome, &Trail),
) -> Message {
    let refusal = ending.as_ref().err();
    let decision = DecisionMeta {
        action: call.judged.action,
        outcome: outcome.word(),
        refusal,
        stage: trail.stage.as_str(),
        replayed: trail.replayed,
        claimed_by: trail.claimed_by,
        budget_remaining: trail.remaining.as_ref(),
        warning: trail.warning,
        meaning: trail
            .meaning
            .map(|meaning| (meaning.word(), meaning == Meaning::Retryable)),
        evidence: &trail.evidence,
    };
    let answer = match ending {
        Ok(reply) if reply.is_error => reply.clone().brief(),
        Ok(reply) => Message {
            body: reply
                .body
                .as_ref()
                .map(|result| with_decision(result, &decision)),
            ..reply.clone()
        },
        Err(refusal @ Refusal::SchemaInvalid { .. }) if call.reading == Reading::Foreign => {
            invalid(None, &decision, refusal)
        }
        Err(refusal) => refused(
            None,
            call.era,
            &decision,
            (refusal, trail.unrecorded.as_ref()),
        ),
    };
    Message {
        id: call.message.id.clone(),
        ..answer
    }
}
