//! An agent of one era before a server of the other, with guards between them: what the scenarios
//! about guards across the eras are made of.

use super::last;
use crate::harness::agent::Agent;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Offers, Reply, ScriptedServer, Seen, event, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};

/// Which era the server is of; the agent is of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    Legacy,
    Modern,
}

pub const BOTH: [Towards; 2] = [Towards::Legacy, Towards::Modern];
pub const ALICE: &str = "token-of-alice-the-agent";
pub const BOB: &str = "token-of-bob-the-agent";
pub const ELICITED: &str = "elicitation/create";

const CALLERS: &str = "
  - { agent: alice, token: token-of-alice-the-agent, roles: [boss], profile: all }
  - { agent: bob, token: token-of-bob-the-agent, profile: some }
";

/// What bob may not see.
const LAYERS: &str = "\nlayers: { profile: { all: {}, some: { deny: [\"*__hid\"] } } }\n";

/// The two, and what is between them.
pub struct Crossing {
    pub server: ScriptedServer,
    pub gate: Gate,
    pub towards: Towards,
}

/// A call during which the agent is asked once.
pub struct AskedCall {
    /// What the agent read on the way, beside the question.
    pub heard: Vec<Value>,
    /// What it was asked: the parameters of the question.
    pub question: Value,
    /// What the server read as its answer.
    pub said: Value,
    /// How the call ended.
    pub last: Value,
}

/// A server of that era only.
pub async fn server(towards: Towards, tools: Vec<Value>) -> ScriptedServer {
    let server = ScriptedServer::start(Offers {
        modern: towards == Towards::Modern,
        legacy: towards == Towards::Legacy,
        tools,
        ..Offers::default()
    })
    .await;
    finishes(&server, towards, &json!({ "content": [] }));
    server
}

/// A server of this era only takes the place of another.
pub async fn replaced(old: &ScriptedServer, towards: Towards) -> ScriptedServer {
    let new = server(towards, tools()).await;
    old.down();
    let listener = until("the address is free again", || async {
        tokio::net::TcpListener::bind(old.address).await.ok()
    });
    new.serve(listener.await);
    new
}

fn tools() -> Vec<Value> {
    let mut pay = tool("pay");
    pay["inputSchema"]["properties"] =
        json!({ "n": { "type": "integer" }, "token": { "type": "string" } });
    vec![pay, tool("read"), tool("hid")]
}

/// Each request is answered with this, in the words of the era.
pub fn finishes(server: &ScriptedServer, towards: Towards, result: &Value) {
    let result = complete(towards, result);
    server.answers(move |_| Reply::Result(result.clone()));
}

fn complete(towards: Towards, result: &Value) -> Value {
    let mut result = result.clone();
    if towards == Towards::Modern {
        result["resultType"] = json!("complete");
    }
    result
}

impl Crossing {
    /// Under this policy, with more lines of the configuration.
    pub async fn new(towards: Towards, policy: &str, more: &str) -> Self {
        let (server, setup) = Self::setup(towards, policy, more).await;
        Self {
            gate: setup.start().await,
            server,
            towards,
        }
    }

    /// The server, and the configuration of what is before it.
    pub async fn setup(towards: Towards, policy: &str, more: &str) -> (ScriptedServer, Setup) {
        let server = server(towards, tools()).await;
        let setup = Setup::new()
            .server_with("s", &format!("url: \"{}\"", server.url()))
            .policy(&format!("{policy}{LAYERS}"))
            .open_sides()
            .callers(CALLERS)
            .more(more)
            .environment("BANK_TOKEN", crate::secrets::CANARY);
        (server, setup)
    }

    /// The agent with this token, at the server's own address.
    pub async fn agent(&self, token: &str) -> Agent {
        agent(&self.gate, self.towards, token).await
    }

    /// A call during which the server says `notes`, asks `question` and reads `reply`.
    pub async fn asked(
        &self,
        (agent, call): (&Agent, &Value),
        question: &Value,
        reply: &Value,
        notes: &[Value],
    ) -> AskedCall {
        let done = json!({ "content": [{ "type": "text", "text": "done" }] });
        let done = complete(self.towards, &done);
        match self.towards {
            Towards::Modern => {
                let asks = json!({
                    "resultType": "input_required", "requestState": "one",
                    "inputRequests": { "q": { "method": ELICITED, "params": question } },
                });
                let notes = notes.to_vec();
                self.server.answers(move |seen| {
                    if seen.body["params"].get("requestState").is_some() {
                        return Reply::Result(done.clone());
                    }
                    said_before(&notes, &seen.body["id"], &asks)
                });
                self.asked_in_the_stream(agent, call, reply).await
            }
            Towards::Legacy => {
                let says = self.server.holds("tools/call");
                let asks = json!({ "jsonrpc": "2.0", "id": "q-1", "method": ELICITED, "params": question });
                for said in notes.iter().chain([&asks]) {
                    says.send(event(said)).await.unwrap();
                }
                let mut answer = agent.post(call).await;
                let (heard, asked) = until_answered(&mut answer).await;
                let answering = async {
                    let fits = |seen: &Seen| seen.body["id"] == "q-1" && seen.method().is_empty();
                    let said = self.server.sees("the agent's answer", fits).await;
                    let id = last(&self.server, "tools/call").body["id"].clone();
                    let end = json!({ "jsonrpc": "2.0", "id": id, "result": done });
                    says.send(event(&end)).await.unwrap();
                    said.body["result"].clone()
                };
                let next = next_round(agent, call, &asked, reply);
                let (last, said) = tokio::join!(agent.answered(&next), answering);
                let requests = asked["result"]["inputRequests"].as_object().unwrap();
                let question = requests.values().next().unwrap()["params"].clone();
                AskedCall {
                    heard,
                    question,
                    said,
                    last,
                }
            }
        }
    }

    async fn asked_in_the_stream(&self, agent: &Agent, call: &Value, reply: &Value) -> AskedCall {
        let mut answer = agent.post(call).await;
        let (mut heard, mut question) = (Vec::new(), Value::Null);
        let last_word = loop {
            let message = answer.message().await;
            if message.get("method").is_none() {
                break message;
            }
            if message["method"] == ELICITED {
                let said = json!({ "jsonrpc": "2.0", "id": message["id"], "result": reply });
                agent.post(&said).await;
                question = message["params"].clone();
            } else {
                heard.push(message);
            }
        };
        let round = last(&self.server, "tools/call");
        AskedCall {
            heard,
            question,
            said: round.body["params"]["inputResponses"]["q"].clone(),
            last: last_word,
        }
    }
}

/// A stream on which the notes come first, then the result.
fn said_before(notes: &[Value], id: &Value, result: &Value) -> Reply {
    let (says, said) = tokio::sync::mpsc::channel(64);
    let end = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    for message in notes.iter().chain([&end]) {
        says.try_send(event(message)).unwrap();
    }
    Reply::Stream(said)
}

/// What comes before the response, and the response.
async fn until_answered(answer: &mut crate::harness::answer::Reading) -> (Vec<Value>, Value) {
    let mut heard = Vec::new();
    while answer.is_stream() {
        let message = answer.message().await;
        if message.get("method").is_none() {
            return (heard, message);
        }
        heard.push(message);
    }
    (heard, answer.whole().await)
}

/// The same call with the answer to its one question.
pub fn next_round(agent: &Agent, call: &Value, asked: &Value, reply: &Value) -> Value {
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let key = result["inputRequests"].as_object().unwrap().keys().next();
    let mut next = call.clone();
    next["id"] = agent.request("", json!({}))["id"].clone();
    next["params"]["inputResponses"] = json!({ key.unwrap(): reply });
    next["params"]["requestState"] = result["requestState"].clone();
    next
}

/// The agent of the other era than the server's, with this token.
pub async fn agent(gate: &Gate, towards: Towards, token: &str) -> Agent {
    let agent = gate.agent().at("s").token(token);
    match towards {
        Towards::Legacy => agent,
        Towards::Modern => agent.initialized().await,
    }
}

/// A call by an agent who can be asked.
pub fn call(agent: &Agent, tool: &str, arguments: Value) -> Value {
    let mut params = json!({ "name": tool });
    params["arguments"] = arguments;
    let mut call = agent.request("tools/call", params);
    if !agent.is_legacy() {
        let meta = &mut call["params"]["_meta"];
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
        meta["io.modelcontextprotocol/logLevel"] = json!("debug");
    }
    call
}
