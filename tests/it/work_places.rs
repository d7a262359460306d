//! A request that comes often is worked on where the one before it was: it brings neither memory of
//! its own for its work nor a task. The log of `telemetry/tasks.rs` tells of both.

use crate::harness::agent::{Agent, enveloped};
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::stdio::{Launched, StdioGate};
use crate::harness::until;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Requests of each way; the first is not counted: it makes the place.
const REQUESTS: usize = 40;
/// What the log says of work that has memory of its own, and of a task.
const OWN_MEMORY: &str = "memory of its own";
const OWN_TASK: &str = "a task of its own";
/// Tasks that a request would bring; others are there for connections, servers and timers.
const TASKS_OF_REQUESTS: [&str; 6] = [
    "\"call\"",
    "\"call after a listing\"",
    "\"list\"",
    "\"own list\"",
    "\"request\"",
    "\"stdio ",
];

async fn server(modern: bool) -> ScriptedServer {
    let server = ScriptedServer::start(Offers {
        modern,
        legacy: !modern,
        tools: vec![tool("read")],
        ..Offers::default()
    })
    .await;
    server.answers(|_| Reply::Result(json!({ "content": [], "resultType": "complete" })));
    server
}

fn setup(server: &ScriptedServer) -> Setup {
    Setup::new()
        .server_with("s", &format!("url: \"{}\"", server.url()))
        .contracts(&[("s__read", "read")])
        .environment("RUST_LOG", "info,toolgate::telemetry::tasks=trace")
}

/// What requests have had of their own so far.
fn own(log: &Path) -> Vec<String> {
    let log = std::fs::read_to_string(log).unwrap();
    let is_of_request = |line: &&str| {
        let is_task = line.contains(OWN_TASK);
        line.contains(OWN_MEMORY)
            || is_task && TASKS_OF_REQUESTS.iter().any(|name| line.contains(name))
    };
    log.lines()
        .filter(is_of_request)
        .map(str::to_owned)
        .collect()
}

/// The ways of a request: a read, a list, and a call that its server's listing comes before, since
/// nobody knows the tool.
fn ways() -> [(&'static str, Value); 3] {
    [
        ("tools/call", json!({ "name": "read", "arguments": {} })),
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "missing", "arguments": {} })),
    ]
}

/// Each way on one connection of its own, before a server of either era. The first requests of all
/// ways make the place; later ones have nothing of their own, in whatever order they come.
async fn is_worked_on_at_its_place(agent: &Agent, log: &Path) {
    let round = || ways().map(|(method, params)| agent.request(method, params));
    let mut requests = Vec::new();
    for _ in 0..REQUESTS {
        requests.extend(round());
    }
    let before = own(log).len();
    let (first, all) = (round(), &requests[..]);
    agent.on_one_connection(&first).await;
    let made = own(log).len() - before;
    let answers = agent.on_one_connection(all).await;
    for (request, answer) in all.iter().zip(&answers) {
        assert_eq!(answer["id"], request["id"], "{answer}");
        let is_missing = request["params"]["name"] == "missing";
        assert_eq!(answer["result"].is_object(), !is_missing, "{answer}");
    }
    let own = own(log).split_off(before + made);
    assert!(
        own.len() <= ways().len(),
        "a second connection makes its own place, once: {own:#?}"
    );
}

/// An agent of either era before a server of its own.
#[tokio::test]
async fn a_request_over_http_is_worked_on_where_the_one_before_was() {
    for modern in [true, false] {
        let server = server(modern).await;
        let gate = setup(&server).start().await;
        let agent = if modern {
            gate.agent().at("s")
        } else {
            gate.legacy("/mcp/s").await
        };
        is_worked_on_at_its_place(&agent, &gate.path("log")).await;
        assert_eq!(server.executions(), REQUESTS + 1);
    }
}

/// The same on a pipe.
#[tokio::test]
async fn a_request_on_a_pipe_is_worked_on_where_the_one_before_was() {
    for modern in [true, false] {
        let server = server(modern).await;
        let setup = setup(&server);
        setup.write();
        let mut agent = Launched::start(&setup, &[], !modern).await;
        let log = setup.directory().join("stdio.log");
        let mut made = 0;
        for number in 0..=REQUESTS {
            for (method, params) in ways() {
                let is_missing = params["name"] == "missing";
                let answer = agent.ask(method, params).await;
                assert_eq!(answer["result"].is_object(), !is_missing, "{answer}");
            }
            if number == 0 {
                made = own(&log).len();
            }
        }
        let own = own(&log).split_off(made);
        // The worker may not be free yet when its answer is read: then there is one more of them.
        let workers = own.iter().filter(|line| line.contains("\"stdio worker\""));
        let places = ways().len() * (workers.clone().count() + 1);
        assert!(own.len() - workers.count() < places, "{own:#?}");
        assert!(own.len() < REQUESTS, "{own:#?}");
        agent.end().await;
        assert_eq!(server.executions(), REQUESTS + 1);
    }
}

/// More calls at once on one pipe than it has workers, and the agent closes its end meanwhile: each
/// runs once, and each is answered.
#[tokio::test]
async fn a_pipe_with_many_calls_at_once_loses_none() {
    const CALLS: usize = 60;
    let server = server(true).await;
    let held = Arc::new(Mutex::new(Vec::new()));
    let holds = held.clone();
    server.answers(move |_| {
        let (answer, later) = tokio::sync::oneshot::channel();
        holds.lock().unwrap().push(answer);
        Reply::Later(later)
    });
    let setup = setup(&server);
    let mut agent = StdioGate::start(&setup);
    for id in 0..CALLS {
        let mut params = json!({ "name": "read", "arguments": { "n": id } });
        enveloped(&mut params);
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        agent.write(call.to_string().as_bytes()).await;
    }
    until("all calls have come", || async {
        (held.lock().unwrap().len() == CALLS).then_some(())
    })
    .await;
    let answers = async {
        let answers = agent.rest().await;
        let ids = answers.iter().map(|answer| {
            let message = answer.message();
            assert!(message["result"].is_object(), "{message}");
            message["id"].as_u64().unwrap()
        });
        (ids.collect::<HashSet<_>>().len(), answers.len())
    };
    let released = async {
        for answer in held.lock().unwrap().drain(..) {
            let result = json!({ "content": [], "resultType": "complete" });
            answer.send(Reply::Result(result)).ok().unwrap();
        }
    };
    let ((), (ids, count)) = tokio::join!(released, answers);
    assert_eq!((ids, count), (CALLS, CALLS));
    assert_eq!(server.executions(), CALLS);
}
