//! The request of a held call as it is kept with its hold, so that it can be sent again by toolgate.

use crate::gate::call::{Call, TaskTerms, is_of_one_request};
use crate::mcp::json::{Object, Text};
use serde_json::{Value, json};

/// Bytes of a request that is kept; a longer one makes no task.
const MAX_KEPT_BYTES: usize = 32 << 10;
/// Members of a call that is a round of another, or of another era.
const UNKEPT_MEMBERS: [&str; 3] = ["inputResponses", "requestState", "task"];

/// What an agent sent, but for what belongs to each request.
#[derive(Debug, Clone)]
pub(crate) struct KeptRequest {
    /// The parameters of the call.
    pub(crate) params: Text,
    /// Its idempotency key, where that came in a header.
    pub(crate) key: Option<String>,
    /// Its session, where that came in a header.
    pub(crate) session: Option<String>,
}

impl KeptRequest {
    /// That of a call that may become a task, as a value that equals another's if the requests do.
    pub(in crate::gate) fn value_of(call: &Call) -> Option<Value> {
        let TaskTerms::Possible(params) = &call.origin.task else {
            return None;
        };
        let is_other = UNKEPT_MEMBERS.iter().any(|name| params.get(name).is_some());
        if is_other || params.as_bytes().len() > MAX_KEPT_BYTES {
            return None;
        }
        let mut kept = params.object()?;
        let meta = params.get("_meta");
        let meta = meta.as_ref().and_then(Text::object).unwrap_or_default();
        let mut lasting = Object::new();
        for (name, value) in meta
            .iter()
            .filter(|(name, value)| !is_of_one_request(name, value))
        {
            lasting.set(name, value.clone());
        }
        kept.set("_meta", lasting.text());
        let said = &call.judged.said;
        Some(json!({
            "params": kept.text().value(),
            "key": said.key_header,
            "session": said.session_header,
        }))
    }

    /// Reads what was kept.
    pub(in crate::gate) fn of(kept: &Value) -> Option<Self> {
        let text = |name: &str| kept.get(name)?.as_str().map(str::to_owned);
        Some(Self {
            params: Text::of(kept.get("params").filter(|params| params.is_object())?),
            key: text("key"),
            session: text("session"),
        })
    }
}
