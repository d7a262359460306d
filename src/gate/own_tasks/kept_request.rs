//! The request of a held call as it is kept with its hold, so that it can be sent again by toolgate.

use crate::gate::call::{Call, TaskTerms, is_of_one_request};
use crate::mcp::json::{Object, Text};
use crate::store::state::hold::MAX_KEPT_REQUEST_BYTES;
use serde_json::{Map, Value, json};

/// Bytes of a request that can make a task, before what is kept elsewhere is left out of it.
const MAX_REQUEST_BYTES: usize = 32 << 10;
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
    /// That of a call that may become a task, as a value that equals another's if the requests do. Of its
    /// arguments it has only those that are not shown of the call, with which it is kept.
    pub(in crate::gate) fn value_of(call: &Call) -> Option<Value> {
        let TaskTerms::Possible(params) = &call.origin.task else {
            return None;
        };
        let is_other = UNKEPT_MEMBERS.iter().any(|name| params.get(name).is_some());
        if is_other || params.as_bytes().len() > MAX_REQUEST_BYTES {
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
        let (judged, written) = (&call.judged, params.get("arguments"));
        let rewritten = judged.rewritten.as_ref();
        let shown = rewritten.map_or(&judged.arguments, |was| &was.original);
        let unshown = written.and_then(|written| unshown(&written.value(), shown));
        if unshown.is_some() {
            kept.remove("arguments");
        }
        let kept = json!({
            "params": kept.text().value(),
            "unshown": unshown,
            "key": judged.said.key_header,
            "session": judged.said.session_header,
        });
        (kept.to_string().len() <= MAX_KEPT_REQUEST_BYTES).then_some(kept)
    }

    /// Reads what was kept of a call of which these arguments are `shown`.
    pub(in crate::gate) fn of(kept: &Value, shown: &Value) -> Option<Self> {
        let text = |name: &str| kept.get(name)?.as_str().map(str::to_owned);
        let mut params = kept.get("params")?.as_object()?.clone();
        // Records of before have all of the arguments.
        if let Some(own) = kept.get("unshown").and_then(Value::as_object) {
            let mut arguments = shown.as_object()?.clone();
            arguments.extend(own.clone());
            params.insert("arguments".to_owned(), Value::Object(arguments));
        }
        Some(Self {
            params: Text::of(&Value::Object(params)),
            key: text("key"),
            session: text("session"),
        })
    }
}

/// The members of what an agent has `written` that are not so among what is `shown`; none where both are not
/// told apart by that.
fn unshown(written: &Value, shown: &Value) -> Option<Map<String, Value>> {
    let (written, shown) = (written.as_object()?, shown.as_object()?);
    let is_part = shown.keys().all(|name| written.contains_key(name));
    let own = written
        .iter()
        .filter(|(name, value)| shown.get(*name) != Some(*value))
        .map(|(name, value)| (name.clone(), value.clone()));
    is_part.then(|| own.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of a call is kept once, and the request is read as it was sent; so is one of before.
    #[test]
    fn arguments_that_are_shown_are_kept_once() {
        let written = json!({ "n": 1, "text": "long", "idempotency_key": "k" });
        let shown = json!({ "n": 1, "text": "long" });
        let own = unshown(&written, &shown).unwrap();
        assert_eq!(
            Value::Object(own.clone()),
            json!({ "idempotency_key": "k" })
        );
        let kept =
            json!({ "params": { "name": "pay" }, "unshown": own, "key": "h", "session": null });
        let read = KeptRequest::of(&kept, &shown).unwrap();
        let whole = json!({ "name": "pay", "arguments": written });
        assert_eq!(
            (read.params.value(), read.key),
            (whole, Some("h".to_owned()))
        );
        let old = json!({ "params": { "name": "pay", "arguments": { "n": 2 } }, "key": null });
        let read = KeptRequest::of(&old, &shown).unwrap();
        assert_eq!(read.params.value(), old["params"]);
        for other in [json!({ "n": 1 }), json!([]), Value::Null] {
            assert_eq!(unshown(&other, &shown), None, "{other}");
        }
    }
}
