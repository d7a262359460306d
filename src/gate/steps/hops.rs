//! How many toolgates a call has come through: each has hooks and rules of its own, and applies
//! them once (001-29). A call that goes in circles between them is refused, whatever its tool.

use crate::gate::call::Call;
use crate::mcp::headers::HOPS_HEADER;
use crate::mcp::json::{Object, Text};
use crate::model::refusal::Refusal;
use serde_json::json;

/// Where there are no headers: a member of `_meta`.
pub(crate) const META: &str = "dev.toolgate/hops";
/// Toolgates in a row at most.
pub(crate) const MOST: u64 = 8;

/// Refuses a call that has come through too many already.
pub(in crate::gate) fn judge(call: &Call) -> Result<(), Refusal> {
    let pattern = "it has passed through more toolgates than may stand in a row";
    if call.judged.said.hops < MOST {
        Ok(())
    } else {
        Err(Refusal::LoopDetected {
            pattern,
            has_run: false,
        })
    }
}

/// What the next toolgate reads, if the tool server is one.
pub(in crate::gate) fn header(call: &Call) -> (String, String) {
    (
        HOPS_HEADER.to_owned(),
        (call.judged.said.hops + 1).to_string(),
    )
}

/// The same for a server without headers; a call that comes from an agent travels as it was
/// written.
pub(in crate::gate) fn mark(call: &Call, params: &mut Object) {
    if call.judged.said.hops > 0 {
        let mut meta = params
            .get("_meta")
            .and_then(Text::object)
            .unwrap_or_default();
        meta.set(META, Text::of(&json!(call.judged.said.hops + 1)));
        params.set("_meta", meta.text());
    }
}
