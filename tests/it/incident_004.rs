//! The incident of document 004: a slow network, agents that send an order again 30 to 90 s later,
//! parallel branches of one session, and a tool whose words ask to "confirm again". One order per
//! intended order, where agents give keys, where the contract says which calls are one, and by
//! default where a session is about one order alone. Nobody waits here: that a call is the same 31, 60 and 89 s later is proven with
//! a clock in hand in `src/store/tests/clocks.rs`.

mod books;

use crate::harness::agent::{Agent, modern};
use crate::harness::answer::{Answer, exchange};
use crate::harness::gate::Gate;
use crate::harness::replay::stored;
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::tool_server::{Behaviour, Execution, Script, ToolServer};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use toolgate_faults::dice::{Dice, seed};
use toolgate_faults::proxy::Proxy;

const ORDER: &str = "oracle__create_order";
/// What the model reads, and takes for a reason to order once more (004-08).
const WORDS: &str = "The order is being processed. If in doubt, confirm again.";
/// Orders that a customer wants.
const ORDERS: usize = 12;
/// Branches of the session that place each of them.
const BRANCHES: usize = 3;
/// In how many of 100 exchanges the network breaks.
const BROKEN: u64 = 40;
/// Where chance begins.
const SEED: u64 = 20_260_728;

/// Of its tool's contract: which calls are the same.
const DECLARED: &str = ", idempotency: { derive: arguments }";

async fn shop(keys: &str) -> (ToolServer, Gate) {
    let said = json!({ "content": [{ "type": "text", "text": WORDS }], "resultType": "complete" });
    let server = Script::new()
        .tool("create_order", Behaviour::Says(said))
        .start()
        .await;
    let policy = format!(
        "contracts:\n{}\n  {ORDER}: {}\n",
        undo(ORDER),
        contract(ORDER, "write", keys)
    );
    let setup = Setup::new().server("oracle", &server).policy(&policy);
    (server, setup.start().await)
}

fn order(number: usize) -> Value {
    json!({ "business_id": format!("order-{number}"), "sku": "sku-1", "amount": 1, "note": WORDS })
}

/// toolgate, and where the agent believes that it is.
#[derive(Clone)]
struct Way {
    agent: Agent,
    network: SocketAddr,
    session: String,
}

impl Way {
    /// Without a network between.
    fn direct(gate: &Gate) -> Self {
        Self {
            agent: gate.agent(),
            network: gate.agents,
            session: "shopping".to_owned(),
        }
    }
}

/// Sends an order under a new request id, as an agent does that heard nothing; in the trace of its
/// session (004-03).
async fn place(way: &Way, order: &Value, (id, key): (usize, Option<&str>)) -> Option<Answer> {
    let mut message = modern("tools/call", json!({ "name": ORDER, "arguments": order }));
    message["id"] = json!(id);
    message["params"]["_meta"]["dev.toolgate/session"] = json!(way.session);
    message["params"]["_meta"]["traceparent"] =
        json!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    if let Some(key) = key {
        message["params"]["_meta"]["dev.toolgate/idempotencyKey"] = json!(key);
    }
    let bytes = way.agent.encoded(
        &way.agent.mirrored(&message),
        message.to_string().as_bytes(),
    );
    let answer = exchange(way.network, bytes).await;
    // A stream that broke after a sign of life has said nothing, either.
    answer.filter(|answer| !answer.messages().is_empty())
}

fn told(answer: &Answer) -> (String, bool) {
    let result = &stored(&answer.message())["result"];
    let words = result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer:?}"))
        .to_owned();
    (
        words,
        result["_meta"]["dev.toolgate/decision"]["replayed"] == true,
    )
}

/// One branch: sends the order until it hears what became of it, then does as it reads: confirms
/// again, under the same key if it gives one.
async fn branch(way: Way, order: Value, key: Option<String>) -> Vec<Answer> {
    let mut heard = Vec::new();
    for id in 1..=200 {
        if let Some(answer) = place(&way, &order, (id, key.as_deref())).await {
            heard.push(answer);
        }
        if heard.len() == 2 {
            return heard;
        }
    }
    panic!("nothing arrives: {heard:?}");
}

/// What makes calls the same, whether branches give a key, and whether all orders are one session's.
const REGIMES: [(&str, bool, bool); 3] = [
    (DECLARED, false, true),
    (", idempotency: { require: true }", true, true),
    (", idempotency: { derive: retry }", false, false),
];

/// 004-01, 004-02, 004-08, 004-12, 004-38, 004-46: one order per intended order, and all branches
/// read the same of it.
#[tokio::test]
async fn every_intended_order_is_placed_once() {
    for regime in REGIMES {
        let (server, gate) = shop(regime.0).await;
        let placed = orders_placed(&server, &gate, regime).await;
        let wanted = (0..ORDERS)
            .map(|number| (order(number).to_string(), 1))
            .collect();
        assert_eq!(placed, wanted, "{regime:?}");
        // 004-06, 004-14: each can be found: who, with what, and what came of it.
        let ended: Vec<Value> = gate.ledger().await.into_iter().filter(is_sent).collect();
        let hashes: BTreeSet<&str> = ended
            .iter()
            .filter_map(|entry| entry["params_hash"].as_str())
            .collect();
        assert_eq!((ended.len(), hashes.len()), (ORDERS, ORDERS), "{ended:?}");
        let digests: BTreeSet<String> = server.executions().iter().map(Execution::digest).collect();
        assert_eq!(hashes, digests.iter().map(String::as_str).collect());
    }
}

/// 004-01, 004-08: in one session with other orders, an agent that has read of its order and then sends it
/// again has gone on, as far as anybody can tell, so that by default it may be placed again. None is
/// lost, and what is in flight or was not heard of is joined.
#[tokio::test]
async fn by_default_no_order_is_lost() {
    let (keys, has_keys, _) = REGIMES[2];
    let (server, gate) = shop(keys).await;
    let placed = orders_placed(&server, &gate, (keys, has_keys, true)).await;
    assert_eq!(placed.len(), ORDERS, "{placed:?}");
    let ran: usize = placed.values().sum();
    let asked = gate.ledger().await.len();
    assert!(
        ran < asked,
        "nothing was joined: {ran} of {asked} calls ran, for {ORDERS} orders"
    );
}

/// All branches place and confirm all orders through a network that breaks; how often each of them
/// ran.
async fn orders_placed(
    server: &ToolServer,
    gate: &Gate,
    (keys, has_keys, is_one_session): (&str, bool, bool),
) -> BTreeMap<String, usize> {
    let seed = seed(SEED);
    let network = Proxy::start(Arc::new(Mutex::new(gate.agents)), Dice::new(seed), BROKEN)
        .await
        .unwrap();
    let branches = (0..ORDERS * BRANCHES).map(|n| {
        let number = n % ORDERS;
        let session = if is_one_session { 0 } else { number };
        let way = Way {
            network: network.address,
            session: format!("shopping {session}"),
            ..Way::direct(gate)
        };
        let key = has_keys.then(|| format!("order {number}"));
        tokio::spawn(branch(way, order(number), key))
    });
    let mut heard = 0;
    for answers in join_all(branches).await {
        for answer in answers.unwrap() {
            assert_eq!(told(&answer).0, WORDS, "{keys}, seed {seed}");
            heard += 1;
        }
    }
    assert_eq!(heard, 2 * ORDERS * BRANCHES);
    assert!(
        !network.breaks().is_empty(),
        "the network broke nothing, seed {seed}"
    );
    let mut placed = BTreeMap::<String, usize>::new();
    for execution in server.executions() {
        *placed.entry(execution.arguments.to_string()).or_default() += 1;
    }
    placed
}

/// The entry of the end of a call that went to the tool server.
fn is_sent(entry: &Value) -> bool {
    entry["event"] == "exit" && entry["replayed"] != true
}

/// 004-08, 004-24, 004-43: what is wanted a second time gets a new explicit key, runs, and stands
/// in the ledger beside the first.
#[tokio::test]
async fn an_intended_repeat_runs_and_is_on_record() {
    let (server, gate) = shop(DECLARED).await;
    let (way, order) = (Way::direct(&gate), order(1));
    let mut replayed = Vec::new();
    for key in [None, None, Some("once more"), Some("once more"), None] {
        replayed.push(told(&place(&way, &order, (replayed.len(), key)).await.unwrap()).1);
    }
    assert_eq!(replayed, [false, true, false, true, true]);
    assert_eq!(server.executions().len(), 2);
    let entries = gate.entries(5).await;
    let sent: Vec<&Value> = entries.iter().filter(|entry| is_sent(entry)).collect();
    assert_eq!(sent.len(), 2, "{entries:?}");
    assert_eq!(sent[0]["params_hash"], sent[1]["params_hash"]);
    assert_ne!(sent[0]["action_id"], sent[1]["action_id"]);
    let again = entries
        .iter()
        .filter(|entry| entry["replayed"] == true)
        .count();
    assert_eq!(again, 3, "{entries:?}");
}

/// 004-03, 004-04, 004-47, 004-48: what an alert looks at. What was suppressed counts as that; what
/// ran a second time in one trace with the same tool and arguments, here because the agent wanted
/// it, is seen at once.
#[tokio::test]
async fn what_an_alert_looks_at_is_counted() {
    let (server, gate) = shop(DECLARED).await;
    let (way, order) = (Way::direct(&gate), order(1));
    let counted = async || {
        let text = gate.operators("/metrics").await;
        [
            "duplicates_suppressed",
            "replays",
            "side_effects",
            "duplicates_executed",
        ]
        .map(|name| {
            let series = format!("toolgate_{name}_total ");
            let value = text.lines().find_map(|line| line.strip_prefix(&series));
            value
                .unwrap_or_else(|| panic!("{series}: {text}"))
                .parse::<u64>()
                .unwrap()
        })
    };
    assert_eq!(counted().await, [0; 4]);
    for (key, expected) in [
        (None, [0, 0, 1, 0]),
        (None, [1, 1, 1, 0]),
        (None, [2, 2, 1, 0]),
        (Some("once more"), [2, 2, 2, 1]),
    ] {
        place(&way, &order, (1, key)).await.unwrap();
        assert_eq!(counted().await, expected, "{key:?}");
    }
    assert_eq!(server.executions().len(), 2);
}
