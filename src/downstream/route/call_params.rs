//! What a call says: its parameters, a closed list of fields, and what its agent says beside them.

use super::{Arrived, CallHeaders};
use crate::gate::call::ArgumentOrigin;
use crate::gate::steps::hops;
use crate::guards::{Mode, idempotency, task};
use crate::mcp::error_codes::{INVALID_PARAMS, INVALID_REQUEST};
use crate::mcp::json::{JsonMembers, Text};
use crate::mcp::message::{Message, Oddity};
use crate::model::call::CallMeta;
use crate::model::caller::Caller;
use crate::model::reads::Profile;
use crate::model::refusal::Refusal;
use crate::telemetry::traces::Trace;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Fields of a call's `params`, in any revision (threat-model §3A A2).
const CALL_FIELDS: &[&str] = &[
    "name",
    "arguments",
    "_meta",
    "task",
    "inputResponses",
    "requestState",
];

/// Where a call's arguments stand in the message.
const ARGUMENTS_POINTER: &str = "/params/arguments";

/// Bytes of what a message says.
pub(super) fn length(message: &Message) -> usize {
    message
        .body
        .as_ref()
        .map_or(0, |body| body.as_bytes().len())
}

/// The id of a request, as the ledger shows it.
pub(super) fn shown_id(request: &Message) -> String {
    let id = request.id.as_ref();
    id.map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned())
        .unwrap_or_default()
}

/// What a call says that concerns the gate.
pub(super) struct CallParams {
    pub(super) name: String,
    pub(super) arguments: Value,
    pub(super) reading: ArgumentOrigin,
}

impl CallParams {
    pub(super) fn read(arrived: &Arrived) -> Result<Self, Message> {
        let message = &arrived.message;
        let refuse = |code, words: &str| Err(Message::error(message.id.clone(), code, words, None));
        let Some(params) = message.body.as_ref().filter(|params| params.is_object()) else {
            return refuse(INVALID_PARAMS, "a tools/call needs `params`");
        };
        let unknown = Unknown::of(message, params);
        if let (Some(unknown), Mode::Enforce) = (&unknown, arrived.known.policy.mode) {
            return refuse(unknown.code, &unknown.words);
        }
        let name = params.get("name");
        // In observe mode, too: which of two names a server takes, nobody here knows, and so whether
        // it is a tool that an operator has taken away.
        let is_other = |(key, value): (Cow<'_, str>, Text)| key == "name" && Some(value) != name;
        if message.odd.is_some() && params.members().into_iter().flatten().any(is_other) {
            return refuse(INVALID_PARAMS, "`params` of a tools/call has one `name`");
        }
        let Some(name) = name.as_ref().and_then(Text::as_str) else {
            return refuse(INVALID_PARAMS, "`params.name` must be a string");
        };
        let Some((arguments, reading)) = arguments(message, params, &arrived.known.caller) else {
            return refuse(INVALID_PARAMS, "`params.arguments` must be an object");
        };
        if params.get("_meta").is_some_and(|meta| !meta.is_object()) {
            return refuse(INVALID_PARAMS, "`params._meta` must be an object");
        }
        let foreseen = message.odd.as_deref().map(of_oddity);
        let foreseen = foreseen.or_else(|| unknown.map(|unknown| unbelieved("", unknown.words)));
        Ok(Self {
            name: name.into_owned(),
            arguments,
            reading: foreseen.map_or(reading, ArgumentOrigin::Impossible),
        })
    }
}

/// What enforce mode refuses a call for, and observe mode lets travel.
struct Unknown {
    code: i64,
    words: String,
}

impl Unknown {
    fn of(message: &Message, params: &Text) -> Option<Self> {
        if message.unknown.is_some() {
            let words =
                "a tools/call has the members jsonrpc, id, method and params, and no others";
            return Some(Self {
                code: INVALID_REQUEST,
                words: words.to_owned(),
            });
        }
        let mut members = params.members()?.parts();
        let is_unknown = members.any(|(key, _)| !CALL_FIELDS.contains(&&*key));
        is_unknown.then(|| Self {
            code: INVALID_PARAMS,
            words: format!(
                "`params` of a tools/call has only the members {}",
                CALL_FIELDS.join(", ")
            ),
        })
    }
}

/// With what enforce mode would refuse what the strict reader does. The place is one of the
/// arguments, where it is in them.
fn of_oddity(odd: &Oddity) -> Refusal {
    let pointer = odd.pointer.strip_prefix(ARGUMENTS_POINTER).unwrap_or("");
    unbelieved(
        pointer,
        format!("JSON that everybody reads alike: {}", odd.what),
    )
}

fn unbelieved(pointer: &str, expected: String) -> Refusal {
    Refusal::SchemaInvalid {
        pointer: pointer.to_owned(),
        expected,
    }
}

/// The call's arguments, if there are none or they are an object. Of a model that has nothing to
/// say null is written: where a profile reads its calls back, that is an object without members
/// (policy §3, step 9), and the tool's schema judges it.
fn arguments(message: &Message, params: &Text, caller: &Caller) -> Option<(Value, ArgumentOrigin)> {
    let nothing = || Value::Object(Map::new());
    let Some(written) = params.get("arguments") else {
        return Some((nothing(), ArgumentOrigin::AsWritten));
    };
    let origin = if written.is_object() {
        ArgumentOrigin::AsWritten
    } else if written.is_null() && caller.reads.profile != Profile::None {
        ArgumentOrigin::Back
    } else {
        return None;
    };
    let read = if message.odd.is_some() {
        // No tree says all that it says, and one would take many times its memory; what is known of
        // it are its bytes.
        Value::String(String::from_utf8_lossy(written.as_bytes()).into_owned())
    } else if written.is_object() {
        written.value()
    } else {
        nothing()
    };
    Some((read, origin))
}

/// The members of `_meta` that concern the gate, looked up in one pass.
#[derive(Default)]
pub(super) struct MetaMembers {
    key: Option<Text>,
    task: Option<Text>,
    state: Option<Text>,
    session: Option<Text>,
    hops: Option<Text>,
    /// The agent's trace, in `_meta`, else in the header (SEP-414).
    parent: Option<String>,
    trace_state: Option<String>,
}

impl MetaMembers {
    pub(super) fn of(arrived: &Arrived) -> Self {
        let mut found = Self::default();
        let params = arrived.message.body.as_ref();
        let meta = params.and_then(|params| params.get("_meta"));
        let (mut parent, mut trace_state) = (None, None);
        let members = meta.as_ref().and_then(Text::members);
        for (key, part) in members.into_iter().flat_map(JsonMembers::parts) {
            let place = match &*key {
                idempotency::KEY_META_NAME => &mut found.key,
                task::TASK_META => &mut found.task,
                task::TASK_STATE_META => &mut found.state,
                task::SESSION_META => &mut found.session,
                hops::META => &mut found.hops,
                "traceparent" => &mut parent,
                "tracestate" => &mut trace_state,
                _ => continue,
            };
            // Where observe mode lets a name be there twice, the first counts, as everywhere.
            place.get_or_insert_with(|| part.text());
        }
        let text = |value: Option<Text>| value?.as_str().map(Cow::into_owned);
        found.parent = text(parent).or_else(|| arrived.heads.traceparent.clone());
        found.trace_state = text(trace_state);
        found
    }

    pub(super) fn trace(&self) -> Trace {
        Trace::of(self.parent.as_deref(), self.trace_state.as_deref())
    }

    /// How many toolgates the call has come through, by its header or its `_meta`, whichever says
    /// more. A sender that does not say it as a number cannot be trusted to count: such a call
    /// counts as `u64::MAX` hops, more than may be.
    fn hops(&self, header: Option<&str>) -> u64 {
        let of_header = header.map(|text| text.parse().unwrap_or(u64::MAX));
        let of_meta = self.hops.as_ref();
        let of_meta = of_meta.map(|value| value.value().as_u64().unwrap_or(u64::MAX));
        of_header.into_iter().chain(of_meta).max().unwrap_or(0)
    }

    /// What the agent says about the call, beside it.
    pub(super) fn said(&self, heads: CallHeaders, trace: &Trace) -> CallMeta {
        let value = |member: &Option<Text>| member.as_ref().map(Text::value);
        let parent = self.parent.as_deref().and_then(Trace::parse);
        CallMeta {
            key: value(&self.key),
            hops: self.hops(heads.hops.as_deref()),
            key_header: heads.key,
            task: value(&self.task),
            state: value(&self.state),
            session: value(&self.session),
            session_header: heads.session,
            headers: heads.passed,
            trace: parent.map(|_| trace.trace_id()),
        }
    }
}
