//! A schema of a tool server is refused, or judges every value in bounded time and each time alike
//! (threat-model §2.2, §4).

use bytes::Bytes;
use serde_json::Value;
use std::time::Duration;
use toolgate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits, SERVER_JSON_LIMITS, Text};
use toolgate::model::clock::Clock;
use toolgate::schema::Schema;

/// What compiling and judging may take for inputs of this size, in a program that is not optimized,
/// on a busy machine.
const AT_MOST: Duration = Duration::from_secs(20);
/// Bytes of a value that is judged.
const LONGEST_VALUE: usize = 2 << 10;

/// A schema, a zero byte, and a value.
pub fn run(data: &[u8]) {
    let (schema, given) = data.split_at(
        data.iter()
            .position(|byte| *byte == 0)
            .unwrap_or(data.len()),
    );
    let given = given.get(1..).unwrap_or_default();
    let Some(schema) = read(schema, &SERVER_JSON_LIMITS) else {
        return;
    };
    let begun = Clock.steady();
    let Ok(compiled) = Schema::compile(&schema) else {
        return;
    };
    let given = read(&given[..given.len().min(LONGEST_VALUE)], &AGENT_JSON_LIMITS);
    for value in given
        .iter()
        .chain(&[Value::Null, Value::Object(serde_json::Map::new())])
    {
        let verdict = compiled.accepts(value).is_ok();
        assert_eq!(compiled.accepts(value).is_ok(), verdict, "twice the same");
        let again = Schema::compile(&compiled.source()).expect("what was compiled once is again");
        assert_eq!(again.accepts(value).is_ok(), verdict, "the same schema");
        let took = Clock.steady().saturating_sub(begun);
        assert!(
            took < AT_MOST,
            "{took:?} for a schema of {} bytes",
            data.len()
        );
    }
}

fn read(text: &[u8], limits: &JsonLimits) -> Option<Value> {
    Text::read(Bytes::copy_from_slice(text), limits)
        .ok()
        .map(|text| text.value())
}
