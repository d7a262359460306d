//! Progress of a call that had waited for a person: its agent was told seconds by the same token, and
//! progress never goes back (guarantees §7).

use crate::mcp::json::Text;
use crate::mcp::message::Message;
use serde_json::{Number, Value};

/// What the tool server says of progress goes on from this, which the agent was told; of anything else
/// nothing changes.
pub(super) fn raised(said: Message, told: u64) -> Message {
    let params = said.body.as_ref().and_then(Text::object);
    let is_it = told > 0 && said.method == "notifications/progress";
    let Some(mut params) = params.filter(|_| is_it) else {
        return said;
    };
    // More than was told, also where the server begins at nothing.
    let by = told.saturating_add(1);
    for name in ["progress", "total"] {
        let number = params.get(name).map(Text::value);
        if let Some(number) = number.and_then(|number| more(&number, by)) {
            params.set(name, Text::of(&Value::Number(number)));
        }
    }
    Message {
        body: Some(params.text()),
        ..said
    }
}

fn more(number: &Value, by: u64) -> Option<Number> {
    if let Some(whole) = number.as_u64() {
        return Some(whole.saturating_add(by).into());
    }
    let by = u32::try_from(by).unwrap_or(u32::MAX);
    Number::from_f64(number.as_f64()? + f64::from(by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn progress_goes_on_from_what_was_told() {
        let check = |said: Value, told, read: Value| {
            let said = Message::notification("notifications/progress", Some(Text::of(&said)));
            assert_eq!(raised(said, told).body.unwrap().value(), read);
        };
        let said = || json!({ "progressToken": "p", "progress": 0, "total": 4, "message": "m" });
        check(said(), 0, said());
        let read = json!({ "progressToken": "p", "progress": 1201, "total": 1205, "message": "m" });
        check(said(), 1200, read);
        check(json!({ "progress": 0.5 }), 10, json!({ "progress": 11.5 }));
        check(
            json!({ "progress": "odd" }),
            10,
            json!({ "progress": "odd" }),
        );
        let log = Message::notification("notifications/message", Some(Text::of(&said())));
        assert_eq!(raised(log, 9).body.unwrap().value(), said());
    }
}
