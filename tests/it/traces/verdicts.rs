//! What the span of a call says of toolgate's decision.

use super::Collector;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Told;
use prost::Message as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The attributes of the span of that call in the ledger, once it has arrived.
fn span(collector: &Collector, call: &str) -> Option<BTreeMap<String, String>> {
    let bodies = collector.bodies("/v1/traces");
    let requests = bodies
        .iter()
        .map(|body| ExportTraceServiceRequest::decode(&body[..]).unwrap());
    let scopes = requests.flat_map(|request| request.resource_spans);
    let scopes = scopes.flat_map(|one| one.scope_spans);
    let mut spans = scopes.flat_map(|scope| scope.spans).map(|span| {
        let told = span.attributes.into_iter().map(|pair| {
            let value = match pair.value.and_then(|value| value.value) {
                Some(Told::StringValue(text)) => text,
                other => format!("{other:?}"),
            };
            (pair.key, value)
        });
        told.collect::<BTreeMap<_, _>>()
    });
    spans.find(|span| span.get("toolgate.action_id").is_some_and(|id| id == call))
}

/// Issue 20, seeing it: the span says what toolgate decided, also of a call that was not sent: the call in the ledger, its end, the
/// code, and the hash of its key; a replayed call names the one whose answer it was given.
#[tokio::test]
async fn a_span_says_what_was_decided() {
    let (collector, url) = Collector::start().await;
    let scripted = ScriptedServer::with(vec![tool("pay")]).await;
    let setup = Setup::new()
        .server_with("oracle", &format!("url: \"{}\"", scripted.url()))
        .contracts(&[("oracle__pay", "write")])
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50");
    let gate = setup.start().await;
    let pay = async |n: u8, key: &str| {
        let meta = json!({ "dev.toolgate/idempotencyKey": key });
        let params = json!({ "name": "oracle__pay", "arguments": { "n": n }, "_meta": meta });
        let answer = gate.agent().ask("tools/call", params).await;
        answer["result"]["_meta"]["dev.toolgate/decision"].clone()
    };
    let key = "a-key-of-an-agent-03c7";
    let first = pay(1, key).await;
    let (id, hash) = (
        first["action_id"].as_str().unwrap(),
        first["key_hash"].as_str().unwrap(),
    );
    let again = pay(1, key).await;
    assert_eq!(again["replayed"], true, "{again}");
    let conflict = pay(2, key).await;
    assert_eq!(conflict["code"], "idempotency_conflict", "{conflict}");
    let named = |decision: &Value| decision["action_id"].as_str().unwrap().to_owned();
    let (again, conflict) = (named(&again), named(&conflict));
    let hash = ("toolgate.key_hash", hash);
    for (call, told) in [
        (id, vec![("toolgate.outcome", "answered"), hash]),
        (
            &*again,
            vec![
                ("toolgate.outcome", "answered"),
                ("toolgate.joined", id),
                hash,
            ],
        ),
        (
            &*conflict,
            vec![
                ("toolgate.outcome", "refused"),
                ("toolgate.code", "idempotency_conflict"),
                hash,
            ],
        ),
    ] {
        let span = until("the span of the call", || async { span(&collector, call) }).await;
        for (name, value) in told {
            let said = span.get(name).map(String::as_str);
            assert_eq!(said, Some(value), "{name} of {span:?}");
        }
        // Of these, one was sent, and one had a code.
        let has = |name: &str| span.contains_key(name);
        assert_eq!(has("toolgate.fence"), call == id, "{span:?}");
        assert_eq!(has("toolgate.code"), call == conflict, "{span:?}");
        assert_eq!(has("toolgate.joined"), call != id, "{span:?}");
    }
    let spans = collector.arrived();
    assert!(!spans.windows(key.len()).any(|part| part == key.as_bytes()));
    assert_eq!(scripted.executions(), 1);
}
