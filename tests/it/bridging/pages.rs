//! Pages on the web that a person has to open: the end of one, for legacy agents, and the error by
//! which a legacy server asks for them, for agents of 2026-07-28.

use super::{Bridge, last};
use crate::harness::agent::Agent;
use crate::harness::answer::Reading;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, Seen, event, tool};
use crate::harness::setup::Setup;
use serde_json::{Value, json};

const ELICITED: &str = "elicitation/create";
const DONE: &str = "notifications/elicitation/complete";
const PAGE: &str = "https://pay.example/confirm";

fn page() -> Value {
    json!({ "mode": "url", "message": "Open it.", "url": PAGE })
}

/// A modern server that asks for a page in two rounds, and then answers with this.
fn asks_twice(server: &ScriptedServer, last_word: Value) {
    let asks = |state: &str| {
        json!({
            "resultType": "input_required", "requestState": state,
            "inputRequests": { "page": { "method": ELICITED, "params": page() } },
        })
    };
    server.answers(move |seen| {
        Reply::Result(match seen.body["params"]["requestState"].as_str() {
            None => asks("one"),
            Some("one") => asks("two"),
            Some(_) => last_word.clone(),
        })
    });
}

/// Calls, and answers each question with this action; the ids of its pages, what else it reads, and
/// the last word.
async fn answers_pages(agent: &Agent, n: u32, actions: [&str; 2]) -> (Vec<Value>, Vec<Value>) {
    let params = json!({ "name": "write", "arguments": { "n": n } });
    let mut answer: Reading = agent.post(&agent.request("tools/call", params)).await;
    let mut ids = Vec::new();
    for action in actions {
        let asked = answer.message().await;
        assert_eq!(asked["method"], ELICITED, "{asked}");
        assert_eq!(asked["params"]["url"], PAGE);
        ids.push(asked["params"]["elicitationId"].clone());
        let told = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": action } });
        agent.post(&told).await;
    }
    let mut said = Vec::new();
    loop {
        said.push(answer.message().await);
        if said.last().unwrap().get("method").is_none() {
            return (ids, said);
        }
    }
}

/// A page that a legacy agent's person has opened ends once the call has succeeded: the agent reads
/// so under the id that toolgate gave it. Of a page that was declined, or a call that failed, it
/// reads nothing.
#[tokio::test]
async fn a_legacy_agent_reads_that_a_page_is_done() {
    let bridge = Bridge::modern().await;
    let pages = json!({ "elicitation": { "url": {} } });
    let agent = bridge.modern_agent().declaring(pages).await;
    let content = json!([{ "type": "text", "text": "paid" }]);
    asks_twice(
        &bridge.server,
        json!({ "content": content, "resultType": "complete" }),
    );
    let (ids, said) = answers_pages(&agent, 1, ["accept", "accept"]).await;
    assert!(ids[0].is_string() && ids[0] != ids[1], "{ids:?}");
    assert_eq!(said.len(), 3, "{said:#?}");
    for (id, note) in ids.iter().zip(&said) {
        let params = json!({ "elicitationId": id });
        assert_eq!((&note["method"], &note["params"]), (&json!(DONE), &params));
    }
    assert_eq!(said[2]["result"]["content"], content);

    let (ids, said) = answers_pages(&agent, 2, ["decline", "accept"]).await;
    assert_eq!(said.len(), 2, "{said:#?}");
    assert_eq!(said[0]["params"]["elicitationId"], ids[1]);

    let failed = json!({ "content": content, "isError": true, "resultType": "complete" });
    asks_twice(&bridge.server, failed);
    let (_, said) = answers_pages(&agent, 3, ["accept", "accept"]).await;
    assert_eq!(said.len(), 1, "{said:#?}");
}

/// What a legacy server says of a page's end is for nobody: an agent of 2026-07-28 knows no such id.
#[tokio::test]
async fn a_modern_agent_hears_nothing_of_a_page_that_is_done() {
    let bridge = Bridge::legacy().await;
    let agent = bridge.modern_agent();
    let says = bridge.server.holds("tools/call");
    let progress = json!({ "progressToken": "t", "progress": 1 });
    for (method, params) in [
        (DONE, json!({ "elicitationId": "their-own" })),
        ("notifications/progress", progress),
    ] {
        let note = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        says.send(event(&note)).await.unwrap();
    }
    let params = json!({ "name": "read", "arguments": {}, "_meta": { "progressToken": "t" } });
    let call = agent.request("tools/call", params);
    let telling = async {
        let is_call = |seen: &Seen| seen.method() == "tools/call";
        let called = bridge.server.sees("the call", is_call).await;
        let result =
            json!({ "jsonrpc": "2.0", "id": called.body["id"], "result": { "content": [] } });
        says.send(event(&result)).await.unwrap();
    };
    let (mut answer, ()) = tokio::join!(agent.post(&call), telling);
    let first = answer.message().await;
    assert_eq!(first["method"], "notifications/progress", "{first}");
    let second = answer.message().await;
    assert_eq!(second["id"], call["id"], "{second}");
}

/// The error by which a legacy server says that pages have to be opened first.
fn error() -> Value {
    let page = json!({ "mode": "url", "message": "Open it.", "url": PAGE, "elicitationId": "e" });
    json!({ "code": -32042, "message": "open a page", "data": { "elicitations": [page] } })
}

/// A legacy server that does nothing until its page was opened, which is so after one request of
/// each method and tool; one of its tools says so in its contract.
struct Paywall {
    server: ScriptedServer,
    gate: Gate,
}

const POLICY: &str = "
contracts:
  s__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  s__read: { purpose: test, actions: [read], secrets: [] }
  s__write: { purpose: test, actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { tool: s__undo } } }
  s__pay:
    purpose: test
    actions: [write]
    permission: anyone
    secrets: []
    side_effect: { writes: test, rollback: { tool: s__undo } }
    idempotency: { not_executed: [-32042] }
";

impl Paywall {
    async fn start() -> Self {
        let server = ScriptedServer::start(Offers {
            modern: false,
            tools: ["read", "write", "pay"].map(tool).to_vec(),
            ..Offers::default()
        })
        .await;
        let gate = Setup::new()
            .server_with("s", &format!("url: \"{}\"", server.url()))
            .policy(POLICY)
            .open_sides()
            .start()
            .await;
        let paywall = Self { server, gate };
        paywall.is_shut();
        paywall
    }

    /// Everything is answered with the error.
    fn is_shut(&self) {
        let error = json!({ "jsonrpc": "2.0", "error": error() });
        self.server.answers(move |_| Reply::Message(error.clone()));
    }

    /// The page was opened: everything is answered.
    fn is_open(&self) {
        let result = json!({ "content": [], "contents": [], "messages": [] });
        self.server.answers(move |_| Reply::Result(result.clone()));
    }

    fn count(&self, method: &str) -> usize {
        let seen = self.server.seen();
        seen.iter().filter(|seen| seen.method() == method).count()
    }
}

/// A request of an agent that can have pages opened, in the round after these.
fn round(agent: &Agent, method: &str, mut params: Value, asked: Option<(&Value, &str)>) -> Value {
    if let Some((asked, action)) = asked {
        params["requestState"] = asked["result"]["requestState"].clone();
        params["inputResponses"] = json!({ "page-1": { "action": action } });
    }
    let mut request = agent.request(method, params);
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "elicitation": { "url": {} } });
    request
}

/// A read, a prompt and a resource: the agent is asked by the answer, and its request is sent again once it says that the
/// page was opened. Without the page nothing is sent.
#[tokio::test]
async fn a_page_that_comes_first_is_asked_for() {
    let paywall = Paywall::start().await;
    let agent = paywall.gate.agent().at("s");
    for (method, params) in [
        ("tools/call", json!({ "name": "read", "arguments": {} })),
        ("prompts/get", json!({ "name": "p" })),
        ("resources/read", json!({ "uri": "x:1" })),
    ] {
        paywall.is_shut();
        paywall.server.forget();
        let first = round(&agent, method, params.clone(), None);
        let asked = agent.answered(&first).await;
        let result = &asked["result"];
        assert_eq!(result["resultType"], "input_required", "{method}: {asked}");
        let expected = json!({ "page-1": { "method": ELICITED, "params": page() } });
        assert_eq!(result["inputRequests"], expected, "{asked}");

        let declined = round(&agent, method, params.clone(), Some((&asked, "decline")));
        let mut foreign = round(&agent, method, params.clone(), Some((&asked, "accept")));
        foreign["params"]["requestState"] = json!("toolgate-pages:mine");
        agent.answered(&foreign).await;
        assert_eq!(paywall.count(method), 1, "{method}");
        paywall.is_open();
        if params["name"] == "read" {
            let mut silent = declined.clone();
            silent["params"]["inputResponses"] = json!({});
            for without in [declined, silent] {
                let answer = agent.answered(&without).await;
                assert!(answer.to_string().contains("was not opened"), "{answer}");
                assert_eq!(paywall.count(method), 1, "{method}");
            }
        }
        let accepted = round(&agent, method, params.clone(), Some((&asked, "accept")));
        let answer = agent.answered(&accepted).await;
        assert_eq!(
            answer["result"]["resultType"], "complete",
            "{method}: {answer}"
        );
        assert_eq!(paywall.count(method), 2, "{method}");
        let sent = last(&paywall.server, method);
        assert!(sent.body["params"].get("requestState").is_none());
        assert!(sent.body["params"].get("inputResponses").is_none());
    }
}

/// guarantees §4: an error is no proof that a tool has done nothing. Where the contract doesn't say
/// so, the error is the answer of a call that changes something; nothing sends it again. Neither is
/// an agent asked that cannot have pages opened.
#[tokio::test]
async fn a_page_is_no_reason_to_run_a_tool_twice() {
    let paywall = Paywall::start().await;
    let agent = paywall.gate.agent().at("s");
    let params = json!({ "name": "write", "arguments": { "n": 1 } });
    let first = round(&agent, "tools/call", params.clone(), None);
    let answer = agent.answered(&first).await;
    assert_eq!(answer["error"]["code"], -32042, "{answer}");
    paywall.is_open();
    let answer = agent
        .answered(&round(&agent, "tools/call", params, None))
        .await;
    assert_eq!(answer["error"]["code"], -32042, "{answer}");
    assert_eq!(paywall.server.executions(), 1);

    // Also where the contract says that the error proves it: the agent may call again, and nothing
    // is given that would call for it.
    paywall.is_shut();
    let pay = json!({ "name": "pay", "arguments": { "n": 1 } });
    let answer = agent
        .answered(&round(&agent, "tools/call", pay, None))
        .await;
    assert_eq!(answer["error"]["code"], -32042, "{answer}");
    assert!(!answer.to_string().contains("requestState"), "{answer}");

    let answer = agent.call("read", json!({})).await;
    assert_eq!(answer["error"]["code"], -32042, "{answer}");
}
