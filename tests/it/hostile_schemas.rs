//! What hostile schemas and arguments take, and from whom: nobody else waits for it
//! (threat-model §13 F3).

#![expect(
    clippy::needless_pass_by_value,
    reason = "what is put together here is used once"
)]

use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, ScriptedServer, tool};
use crate::harness::setup::Settings;
use serde_json::{Map, Value, json};

/// `steps` definitions, each asking for the next by `rung`; the elements of `v` are judged by the
/// first.
fn ladder(steps: usize, rung: impl Fn(Value) -> Value, leaf: Value) -> Value {
    let reference = |n: usize| json!({ "$ref": format!("#/$defs/a{n}") });
    let definitions = (0..steps).map(|n| (format!("a{n}"), rung(reference(n + 1))));
    let definitions: Map<String, Value> =
        definitions.chain([(format!("a{steps}"), leaf)]).collect();
    json!({ "type": "object", "$defs": definitions, "properties": { "v": { "items": reference(0) } } })
}

fn twice(next: Value) -> Value {
    json!({ "allOf": [next.clone(), next] })
}

fn again(next: Value) -> Value {
    json!({ "allOf": [next], "unevaluatedProperties": { "type": "integer" } })
}

/// Objects that are equal but for their end.
fn members(many: usize, size: usize) -> Value {
    json!({ "enum": (0..many).map(|z| json!({ "a": vec![0; size], "z": z })).collect::<Vec<_>>() })
}

/// Six definitions that each ask for all the others: 5! ways for each number.
fn complete() -> Value {
    let others = |n: usize| {
        (0..6)
            .filter(move |m| *m != n)
            .map(|m| json!({ "$ref": format!("#/$defs/a{m}") }))
    };
    let one = |n: usize| {
        (
            format!("a{n}"),
            json!({ "type": "integer", "allOf": others(n).collect::<Vec<_>>() }),
        )
    };
    let definitions: Map<String, Value> = (0..6).map(one).collect();
    json!({ "type": "object", "$defs": definitions, "properties": { "v": { "items": { "$ref": "#/$defs/a0" } } } })
}

fn with(name: &str, schema: Value) -> Value {
    let mut tool = tool(name);
    tool["inputSchema"] = schema;
    tool
}

fn tools() -> Vec<Value> {
    vec![
        tool("plain"),
        with("heavy", ladder(10, twice, members(20, 80))),
        with("numbers", ladder(11, twice, json!({ "type": "integer" }))),
        with("circles", complete()),
        with("finding", ladder(11, twice, members(100, 120))),
        with("again", ladder(30, again, json!({}))),
    ]
}

fn heavy(many: usize) -> Value {
    json!({ "v": vec![json!({ "a": vec![0; 80], "z": 19 }); many] })
}

/// Arguments that no thread can judge in time.
fn hostile() -> [(&'static str, Value); 3] {
    [
        ("oracle__heavy", heavy(400)),
        ("oracle__numbers", json!({ "v": vec![7; 40_000] })),
        ("oracle__circles", json!({ "v": vec![7; 2_000] })),
    ]
}

async fn stage(observe: bool) -> (ScriptedServer, Gate) {
    let scripted = ScriptedServer::with(tools()).await;
    scripted.answers(|_| Reply::Result(json!({ "content": [], "resultType": "complete" })));
    let names = ["plain", "heavy", "numbers", "circles", "finding", "again"];
    let settings = Settings {
        observe,
        ..Settings::open(scripted.url(), &names)
    };
    (scripted, Gate::start(settings).await)
}

/// threat-model §13 F3, §1: while calls are judged that nobody could judge in time, others are
/// served; they are refused, the agent reads why, and nothing is sent. What is heavy and can be
/// judged is.
#[tokio::test]
async fn nobody_waits_for_what_others_cost() {
    let (scripted, gate) = stage(false).await;
    let agent = gate.agent();
    assert_eq!(
        code(&agent.call("oracle__heavy", heavy(1)).await),
        None,
        "it is judged, elsewhere"
    );
    assert!(gate.metric("toolgate_heavy_total{outcome=\"done\"}").await > 0.5);
    let before = scripted.executions();
    // More than there are threads, so that none would be left.
    let rounds = std::thread::available_parallelism()
        .map_or(2, usize::from)
        .min(8);
    let calls = (0..rounds)
        .flat_map(|_| hostile())
        .map(|(tool, arguments)| {
            let agent = gate.agent();
            async move { agent.call_anew(tool, arguments).await }
        });
    let costly = futures_util::future::join_all(calls);
    tokio::pin!(costly);
    let others = async {
        for round in 0..5 {
            assert_eq!(
                code(
                    &gate
                        .agent()
                        .call("oracle__plain", json!({ "round": round }))
                        .await
                ),
                None
            );
            assert!(gate.operators("/healthz").await.contains("ok"));
        }
    };
    tokio::select! {
        biased;
        _ = &mut costly => panic!("all that is costly was answered before what is not"),
        () = others => {}
    }
    for answer in costly.await {
        let said = answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(code(&answer).as_deref(), Some("schema_invalid"), "{answer}");
        assert!(said.contains("fewer or smaller values"), "{said}");
    }
    assert_eq!(scripted.executions(), before + 5, "none of it was sent");
    let refused = ["too_heavy", "too_late"]
        .map(|outcome| format!("toolgate_heavy_total{{outcome=\"{outcome}\"}}"));
    let [too_heavy, too_late] = [
        gate.metric(&refused[0]).await,
        gate.metric(&refused[1]).await,
    ];
    assert!(too_heavy + too_late > 2.5, "{too_heavy} {too_late}");
}

/// threat-model §13 F3: a tool is withheld when one value alone can cost more than a message may;
/// operators read which and why.
#[tokio::test]
async fn a_schema_that_no_value_can_be_judged_by_quarantines() {
    let (_scripted, gate) = stage(false).await;
    let listed = gate.agent().tools().await;
    assert_eq!(
        listed,
        [
            "oracle__plain",
            "oracle__heavy",
            "oracle__numbers",
            "oracle__circles"
        ]
    );
    let series = "toolgate_quarantined_tools{server=\"oracle\",reason=\"too_costly\"}";
    let log = gate.log();
    assert_eq!(
        log.matches("judging one value by the schema can take more than 0.1 s")
            .count(),
        2,
        "{log}"
    );
    assert!(
        gate.metric(series).await
            + gate
                .metric("toolgate_quarantined_tools{reason=\"too_costly\"}")
                .await
            > 1.5
    );
}

/// threat-model §13 F3, guarantees §2 "In observe mode": it passes unjudged, and the ledger says
/// what enforce mode would have said.
#[tokio::test]
async fn observe_mode_lets_pass_what_it_cannot_judge() {
    let (scripted, gate) = stage(true).await;
    let (tool, arguments) = hostile()[2].clone();
    let answer = gate.agent().call(tool, arguments).await;
    assert_eq!(
        (code(&answer), scripted.executions()),
        (None, 1),
        "{answer}"
    );
    let entry = gate.entries(1).await.remove(0);
    assert_eq!(
        (&entry["outcome"], &entry["would_refuse"]),
        (&json!("answered"), &json!("schema_invalid")),
        "{entry}"
    );
}
