//! Servers on stdio before agents of the other era: what becomes of a call whose child ends between
//! two rounds, of a child that falls silent, and of an agent that comes while a child starts.

use super::crossings::{ALICE, BOB, Crossing, ELICITED, Towards, call, next_round};
use super::last;
use crate::harness::agent::Agent;
use crate::harness::answer::code;
use crate::harness::gate::Gate;
use crate::harness::scripted_server::{Reply, event};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Notes when it starts and each call, and does then as it was told to: `era fate`.
const CHILD: &str = r#"
import json, os, sys, time
era, fate = sys.argv[1], sys.argv[2]
def note(file, word):
    with open(file, "a") as out: out.write(word + "\n")
note("started", str(os.getpid()))
while fate == "starts" and not os.path.exists("go"): time.sleep(0.01)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message: continue
    method, params, result = message["method"], message.get("params", {}), None
    if method == "server/discover" and era == "modern":
        result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}, "ttlMs": 0, "cacheScope": "private"}
    elif method == "initialize" and era == "legacy":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "child", "version": "1"}}
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pay", "undo", "read")]
        result = {"tools": tools, "resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}
    elif method == "tools/call":
        state = params.get("requestState")
        note("came", params["name"] + " " + str(state))
        if params.get("arguments", {}).get("hang"):
            while True: time.sleep(60)
        if fate == "ends" and state: os._exit(1)
        if fate == "asks" and params.get("arguments", {}).get("asks"):
            form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            print(json.dumps({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form}), flush=True)
            said = json.loads(sys.stdin.readline())
            while said.get("id") != "q": said = json.loads(sys.stdin.readline())
            result = {"content": [{"type": "text", "text": json.dumps(said)}]}
        elif fate in ("ends", "gone"): result = {"resultType": "input_required", "requestState": "one"}
        else: result = {"content": [{"type": "text", "text": str(os.getpid())}], "resultType": "complete"}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None: answer["error"] = {"code": -32601, "message": "no such method"}
    else: answer["result"] = result
    print(json.dumps(answer), flush=True)
    if fate == "gone" and method == "tools/call": os._exit(1)
"#;

fn setup(era: &str, fate: &str, more: &str) -> Setup {
    let members = format!(
        "command: python3, args: [child.py, {era}, {fate}], cwd: ., env: {{ PATH: \"${{PATH}}\" }}{more}"
    );
    let setup = Setup::new()
        .server_with("s", &members)
        .contracts(&[("s__pay", "write"), ("s__read", "read")])
        .environment("PATH", &std::env::var("PATH").unwrap());
    std::fs::write(setup.directory().join("child.py"), CHILD).unwrap();
    setup
}

fn noted(gate: &Gate, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(gate.path(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// guarantees §4: the child of a modern server ends in the second round, or before it can be sent:
/// the first round may have done something, so the outcome is unknown, and nothing is sent again.
#[tokio::test]
async fn a_fault_in_a_later_round_of_a_child_proves_nothing() {
    for (fate, rounds) in [("ends", 2), ("gone", 1)] {
        let gate = setup("modern", fate, "").start().await;
        let agent = gate.legacy("/mcp/s").await;
        let answer = agent.call("pay", json!({ "n": 1 })).await;
        let refusal = code(&answer);
        assert_eq!(
            refusal.as_deref(),
            Some("outcome_unknown"),
            "{fate}: {answer}"
        );
        until("the child is started again", || async {
            (noted(&gate, "started").len() >= 2
                && gate.metric("toolgate_upstream_up{server=\"s\"}").await > 0.0)
                .then_some(())
        })
        .await;
        let again = agent.call("pay", json!({ "n": 1 })).await;
        assert_eq!(code(&again).as_deref(), Some("outcome_unknown"), "{again}");
        assert_eq!(noted(&gate, "came").len(), rounds, "{fate}");
    }
}

/// A legacy child that hangs in a read of a modern agent, and answers not even `ping`, is ended and
/// started anew when it is wanted; the child of another agent lives on.
#[tokio::test]
async fn a_silent_child_is_started_anew() {
    const CALLERS: &str = "
  - { agent: alice, token: token-of-alice-the-agent }
  - { agent: bob, token: token-of-bob-the-agent }
";
    let setup = setup("legacy", "answers", ", timeout: 1s").callers(CALLERS);
    let gate = setup.start().await;
    let agent = |token: &str| gate.agent().at("s").token(token);
    let (alice, bob) = (agent(ALICE), agent(BOB));
    let pid = async |agent: &Agent, arguments: Value| {
        let answer = agent.call_anew("read", arguments).await;
        answer["result"]["content"][0]["text"]
            .as_str()
            .and_then(|text| text.parse::<u32>().ok())
    };
    let first = until("her child answers", || async {
        pid(&alice, json!({})).await
    })
    .await;
    let other = until("his child answers", || async { pid(&bob, json!({})).await }).await;
    assert_ne!(first, other);
    assert_eq!(pid(&alice, json!({ "hang": true })).await, None);
    let second = until("a new child answers", || async {
        pid(&alice, json!({})).await
    })
    .await;
    assert_ne!(second, first);
    assert_eq!(pid(&bob, json!({})).await, Some(other));
}

/// A child that starts slowly keeps no agent waiting: both are introduced at once, and hear when the
/// tools are there.
#[tokio::test]
async fn an_agent_is_introduced_before_a_child_has_started() {
    for era in ["legacy", "modern"] {
        let setup = setup(era, "starts", "");
        let gate = setup.start_at_once().await;
        until("the child runs", || async {
            (!noted(&gate, "started").is_empty()).then_some(())
        })
        .await;
        let (legacy, mut session) = gate.agent().at("s").listens_for_tools(false).await;
        let modern = gate.agent().at("s");
        let discovered = modern.ask("server/discover", json!({})).await;
        assert!(
            discovered["result"]["capabilities"].is_object(),
            "{era}: {discovered}"
        );
        let (_, mut subscription) = modern.listens_for_tools(true).await;
        std::fs::write(gate.path("go"), "").unwrap();
        for stream in [&mut session, &mut subscription] {
            let heard = stream.message().await;
            assert_eq!(
                heard["method"], "notifications/tools/list_changed",
                "{era}: {heard}"
            );
        }
        for agent in [legacy, modern] {
            assert_eq!(agent.tools().await, ["pay", "undo", "read"], "{era}");
            let answer = agent.call_anew("read", json!({})).await;
            assert_eq!(code(&answer), None, "{era}: {answer}");
        }
    }
}

/// A server that is down keeps no agent waiting either: it is introduced as it was known, and its
/// tools can be called once it is back.
#[tokio::test]
async fn an_agent_is_introduced_while_its_server_is_down() {
    const POLICY: &str = "contracts: { s__read: { purpose: test, actions: [read], secrets: [] } }";
    for towards in [Towards::Legacy, Towards::Modern] {
        let crossing = Crossing::new(towards, POLICY, "").await;
        crossing.server.down();
        let agent = crossing.agent(ALICE).await;
        if !agent.is_legacy() {
            let discovered = agent.ask("server/discover", json!({})).await;
            let capabilities = &discovered["result"]["capabilities"];
            assert!(capabilities["prompts"].is_object(), "{discovered}");
        }
        crossing.server.up().await;
        until("it is called again", || async {
            let answer = agent.call_anew("read", json!({})).await;
            answer["result"]
                .is_object()
                .then(|| code(&answer).is_none())
                .filter(|done| *done)
        })
        .await;
    }
}

/// A legacy server that has the agent's `initialize` and does not answer it keeps no agent waiting: it
/// reads what is known of the server, long before toolgate gives up to wait for the server.
#[tokio::test]
async fn an_agent_is_introduced_while_its_server_says_nothing() {
    let server = super::crossings::server(Towards::Legacy, vec![]).await;
    let members = format!("url: \"{}\", start_timeout: 10m", server.url());
    let gate = Setup::new()
        .server_with("s", &members)
        .contracts(&[("s__read", "read")])
        .start()
        .await;
    let before = server.initialized().len();
    server.leaves_introductions();
    let agent = gate.agent().at("s");
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" } });
    let opens = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let introduced = agent.post(&opens).await.whole().await;
    let known = &introduced["result"]["serverInfo"]["name"];
    assert_eq!(known, "scripted", "{introduced}");
    assert_eq!(server.initialized().len(), before + 1, "it was asked");
}

type OpenCalls = Arc<Mutex<Vec<tokio::sync::mpsc::Sender<String>>>>;

/// The server asks in a call whose arguments say so, and keeps it open.
fn asks_where_told_to(crossing: &Crossing) -> OpenCalls {
    let open = OpenCalls::default();
    let keeps = open.clone();
    crossing.server.answers(move |seen| {
        if seen.body["params"]["arguments"]["asks"] != true {
            return Reply::Result(json!({ "content": [] }));
        }
        let (says, said) = tokio::sync::mpsc::channel(8);
        let question =
            json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
        let asks = json!({ "jsonrpc": "2.0", "id": "q", "method": ELICITED, "params": question });
        says.try_send(event(&asks)).unwrap();
        keeps.lock().unwrap().push(says);
        Reply::Stream(said)
    });
    open
}

/// The agent answers in the second call that was asked in, and the call ends.
async fn is_taken_up(
    crossing: &Crossing,
    agent: &Agent,
    (call, asked): &(Value, Value),
    open: &OpenCalls,
) -> Value {
    let next = next_round(agent, call, asked, &json!({ "action": "decline" }));
    let fits = |seen: &super::Seen| {
        seen.method() == "tools/call" && seen.body["params"]["arguments"]["n"] == 1
    };
    let sent = crossing.server.sees("the call", fits).await;
    let ending = async {
        let is_answer = |seen: &super::Seen| seen.body["id"] == "q";
        crossing.server.sees("the answer", is_answer).await;
        let done = json!({ "jsonrpc": "2.0", "id": sent.body["id"], "result": { "content": [] } });
        let says = open.lock().unwrap()[1].clone();
        says.send(event(&done)).await.unwrap();
    };
    tokio::join!(agent.answered(&next), ending).0
}

/// Protocol §4.3: an agent beyond its four sessions at a server, all in use, reads that the server
/// cannot be reached now, and nothing is sent; when one of its calls has ended, the session that is
/// free ends for the new one.
#[tokio::test]
async fn an_agent_beyond_its_sessions_is_refused() {
    const POLICY: &str = "contracts: { s__read: { purpose: test, actions: [read], secrets: [] } }";
    let crossing = Crossing::new(Towards::Legacy, POLICY, "").await;
    let agent = crossing.agent(ALICE).await;
    let open = asks_where_told_to(&crossing);
    let sets = [
        json!({ "elicitation": {} }),
        json!({ "elicitation": {}, "sampling": {} }),
        json!({ "elicitation": {}, "roots": {} }),
        json!({ "elicitation": {}, "sampling": {}, "roots": {} }),
        json!({ "elicitation": { "form": {} } }),
    ];
    let with_set = |set: usize, arguments: Value| {
        let mut call = call(&agent, "read", arguments);
        call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = sets[set].clone();
        call
    };
    let before = crossing.server.sessions();
    let mut parked = Vec::new();
    for set in 0..4 {
        let call = with_set(set, json!({ "asks": true, "n": set }));
        let asked = agent.answered(&call).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        parked.push((call, asked));
    }
    assert_eq!(crossing.server.sessions(), before + 4);
    let refused = agent.answered(&with_set(4, json!({}))).await;
    let refusal = code(&refused);
    assert_eq!(
        refusal.as_deref(),
        Some("upstream_unavailable"),
        "{refused}"
    );
    assert_eq!(crossing.server.sessions(), before + 4);
    assert_eq!(crossing.server.executions(), 4);

    let done = is_taken_up(&crossing, &agent, &parked[1], &open).await;
    assert_eq!(code(&done), None, "{done}");
    let served = agent.answered(&with_set(4, json!({}))).await;
    assert_eq!(code(&served), None, "{served}");
    assert!(
        last(&crossing.server, "tools/call")
            .header("mcp-session-id")
            .is_some()
    );
    until("the free session is ended", || async {
        (crossing.server.deleted() == 1).then_some(())
    })
    .await;
}

/// Protocol §4.3: three agents have their calls wait in twelve children of a server, which may have
/// sixteen. A question in a thirteenth is refused, in words, and its call goes on; calls of other
/// agents find a child.
#[tokio::test]
async fn calls_that_wait_leave_children_for_others() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let callers: String = names
        .map(|name| format!("\n  - {{ agent: {name}, token: token-of-the-agent-{name} }}"))
        .concat();
    let setup = setup("legacy", "asks", "").callers(&callers).open_sides();
    let gate = setup.start().await;
    let agent = |name: &str| {
        let token = format!("token-of-the-agent-{name}");
        gate.agent().at("s").token(&token)
    };
    let sets = [
        json!({ "elicitation": {} }),
        json!({ "elicitation": {}, "sampling": {} }),
        json!({ "elicitation": {}, "roots": {} }),
        json!({ "elicitation": { "form": {} } }),
    ];
    let asking = async |agent: &Agent, set: usize| {
        let mut call = call(agent, "read", json!({ "asks": true, "n": set }));
        call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = sets[set].clone();
        agent.answered(&call).await
    };
    for name in &names[..3] {
        let agent = agent(name);
        for set in 0..sets.len() {
            let asked = asking(&agent, set).await;
            assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        }
    }
    let refused = asking(&agent("d"), 0).await;
    let said = refused["result"]["content"][0]["text"].as_str();
    assert!(said.unwrap().contains("wait for their agents"), "{refused}");
    for name in &names[3..] {
        let answer = agent(name).call_anew("read", json!({})).await;
        assert_eq!(code(&answer), None, "{name}: {answer}");
    }
    assert_eq!(noted(&gate, "came").len(), 16);
}
