//! A conversation with a child, to its end.

use super::{command, start};
use std::time::Duration;
use toolgate::mcp::json::{AGENT_JSON_LIMITS, Text};
use toolgate::mcp::message::Message;
use toolgate::model::ids::ServerName;
use toolgate::model::reply::Sent;
use toolgate::upstream::Inbound;
use toolgate::upstream::child::ChildProcess;
use toolgate::upstream::stdio::Conversation;

/// Answers every request but `die`, which ends it in the middle of a call.
const SERVER: &str = "
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message['method'] == 'die': sys.exit('killed by its own bug')
    print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': message['params']}), flush=True)
";

fn request(method: &str, params: &str) -> Message {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    Message::parse(&Text::read(text.into(), &AGENT_JSON_LIMITS).unwrap()).unwrap()
}

fn converse(process: &mut ChildProcess) -> Conversation {
    let (stdin, stdout) = process.take_pipes().unwrap();
    Conversation::start(&ServerName::new("billing"), stdout, stdin, process.ending()).0
}

/// guarantees §4: a process that died after the line was written leaves the outcome unknown, and
/// says why.
#[tokio::test]
async fn a_server_that_dies_in_a_call_tells_its_last_words() {
    let mut process = start(&command("python3", &["-c", SERVER]));
    let conversation = converse(&mut process);
    let (_, mut inbox) = conversation
        .request(request("echo", r#"{"a":1}"#))
        .await
        .unwrap();
    let Some(Ok(Inbound::Message(answer))) = inbox.recv().await else {
        panic!("no answer")
    };
    assert_eq!(answer.body.unwrap().as_bytes(), br#"{"a": 1}"#);
    let (_, mut inbox) = conversation.request(request("die", "{}")).await.unwrap();
    let fault = inbox.recv().await.unwrap().unwrap_err();
    assert_eq!(fault.sent, Sent::Maybe);
    assert_eq!(
        fault.what,
        "server `billing`: it exited with status 1; it last said: killed by its own bug"
    );
    assert_eq!(
        conversation
            .request(request("echo", "{}"))
            .await
            .unwrap_err()
            .sent,
        Sent::Nothing
    );
}

#[tokio::test]
async fn closing_the_conversation_lets_the_server_end_by_itself() {
    let mut process = start(&command("python3", &["-c", SERVER]));
    let conversation = converse(&mut process);
    conversation.close();
    assert_eq!(
        process.shutdown(Duration::from_secs(30)).await.status,
        Some(0)
    );
    assert!(
        conversation
            .closed()
            .await
            .starts_with("it exited with status 0")
    );
}

/// threat-model §3I I3: a server that floods both its outputs neither blocks nor grows toolgate.
#[tokio::test]
async fn a_flood_ends_the_conversation_and_the_process_can_be_ended() {
    let flood = "yes 'not a message' & yes 'nor this' >&2";
    let mut process = start(&command("sh", &["-c", &format!("{flood} & wait")]));
    let conversation = converse(&mut process);
    assert!(conversation.closed().await.contains("not JSON-RPC"));
    assert_eq!(conversation.counts().garbage, 100);
    process.shutdown(Duration::from_millis(10)).await;
}
