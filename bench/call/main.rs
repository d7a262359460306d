//! CPU time of one call, step by step: the strict reader, each guard, the ledger, and the whole
//! pipeline up to a tool server that is down. CPU time of this thread is counted, so that a busy
//! machine blurs the numbers less; the journal's own thread is not in them. `bench/load` measures
//! whole processes.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on says so"
)]

mod policies;
mod stand;
mod thread_time;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use policies::{listing, policies};
use serde_json::{Value, json};
use stand::{Stand, TOKEN, arguments, call, definition};
use std::hint::black_box;
use std::time::Duration;
use thread_time::ThreadTime;
use toolgate::gate::record::findings::Findings;
use toolgate::gate::record::hashes::params_hash;
use toolgate::gate::record::timing::StageTimer;
use toolgate::gate::record::{RecordedCall, entry::intent};
use toolgate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits, SERVER_JSON_LIMITS, Text};
use toolgate::mcp::message::Message;
use toolgate::model::clock::Clock;
use toolgate::outlet::{Outgoing, way_back};
use toolgate::schema::DeclaredArguments;

fn list() -> Bytes {
    let tools: Vec<Value> = (0..100)
        .map(|number| definition(&format!("tool_{number:03}")))
        .collect();
    Bytes::from(json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools } }).to_string())
}

fn result(bytes: usize) -> Bytes {
    let text = "All is well. ".repeat(bytes / 13);
    let result = json!({ "content": [{ "type": "text", "text": text }] });
    Bytes::from(json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string())
}

fn reader(criterion: &mut Criterion<ThreadTime>) {
    let mut group = criterion.benchmark_group("read");
    let read = |bytes: &Bytes, limits: &JsonLimits| {
        Message::parse(&Text::read(bytes.clone(), limits).unwrap()).unwrap()
    };
    for (name, bytes, limits) in [
        ("call", call(), &AGENT_JSON_LIMITS),
        ("list 47 KB", list(), &SERVER_JSON_LIMITS),
        ("result 1 MiB", result(1 << 20), &SERVER_JSON_LIMITS),
    ] {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| read(black_box(&bytes), limits));
        });
    }
    let message = read(&call(), &AGENT_JSON_LIMITS);
    group.bench_function("encode call", |bencher| {
        bencher.iter(|| black_box(&message).encode());
    });
}

fn guards(criterion: &mut Criterion<ThreadTime>) {
    let stand = Stand::new();
    let policy = stand.gate.policy.current();
    let arguments = arguments();
    let admit = || {
        policy
            .allowlist
            .admit(&stand.caller, &stand.tool.name)
            .expect("the tool is allowed")
    };
    let rules = admit().rules();
    let checked = rules
        .arguments
        .check(&stand.tool.schema, &arguments)
        .unwrap();
    let permit = rules
        .permission
        .allow(&stand.caller, &arguments, &checked)
        .unwrap();
    let mut group = criterion.benchmark_group("guard");
    group.bench_function("identity", |bencher| {
        bencher.iter(|| {
            policy
                .identity
                .identify(black_box(Some(TOKEN)), |_| None)
                .is_ok()
        });
    });
    group.bench_function("allowlist", |bencher| {
        bencher.iter(|| drop(black_box(admit())));
    });
    group.bench_function("arguments", |bencher| {
        bencher.iter(|| {
            rules
                .arguments
                .check(&stand.tool.schema, black_box(&arguments))
                .is_ok()
        });
    });
    group.bench_function("permission", |bencher| {
        bencher.iter(|| {
            rules
                .permission
                .allow(&stand.caller, black_box(&arguments), &checked)
                .is_ok()
        });
    });
    let declared = DeclaredArguments::of(&stand.tool.schema, None);
    group.bench_function("rules", |bencher| {
        bencher.iter(|| {
            rules
                .rules
                .apply(&stand.caller, black_box(&arguments), &declared, &permit)
                .is_ok()
        });
    });
}

fn ledger(criterion: &mut Criterion<ThreadTime>) {
    let stand = Stand::new();
    let mut group = criterion.benchmark_group("ledger");
    let arguments = arguments();
    group.bench_function("params_hash", |bencher| {
        bencher.iter(|| params_hash(black_box(&arguments)));
    });
    let policy = stand.gate.policy.current();
    let message = Message::parse(&Text::read(call(), &AGENT_JSON_LIMITS).unwrap()).unwrap();
    let call = stand.call(message, way_back().0);
    let timer = StageTimer::new(stand.gate.metrics.clone(), Clock, Clock.steady());
    let found = Findings::default();
    group.bench_function("record", |bencher| {
        bencher.iter(|| {
            stand.rest();
            let entry = intent(&RecordedCall {
                gate: &stand.gate,
                policy: &policy,
                call: &call,
                tool: Some(&stand.tool),
                timer: &timer,
                found: &found,
                admission: None,
            });
            let _ = stand.gate.journal.record(entry);
        });
    });
}

/// From the bytes of the call to the bytes of the answer: everything but the two connections. The
/// tool server is down, so the call passes every guard and ends where it would be sent.
fn pipeline(criterion: &mut Criterion<ThreadTime>) {
    let stand = Stand::new();
    let bytes = call();
    criterion.bench_function("pipeline", |bencher| {
        bencher.iter(|| {
            stand.rest();
            let message =
                Message::parse(&Text::read(bytes.clone(), &AGENT_JSON_LIMITS).unwrap()).unwrap();
            let (outlet, mut inlet) = way_back();
            let call = stand.call(message, outlet);
            stand.runtime.block_on(stand.gate.clone().call_tool(call));
            match stand.runtime.block_on(inlet.recv()) {
                Some(Outgoing::Last(answer)) => answer.encode(),
                other => panic!("{other:?}"),
            }
        });
    });
}

fn criterion() -> Criterion<ThreadTime> {
    let times = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    times.without_plots().with_measurement(ThreadTime)
}

criterion_group! { name = steps; config = criterion(); targets = reader, guards, policies, listing, ledger, pipeline }
criterion_main!(steps);
