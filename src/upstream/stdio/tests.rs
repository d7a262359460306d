//! Both sides of a conversation in memory; the server is played line by line. How a conversation or
//! a request of it ends is in `ends`.

use super::*;
use crate::mcp::json::{AGENT_JSON_LIMITS, SERVER_JSON_LIMITS, Text};
use crate::mcp::message::MessageKind;
use crate::upstream::lines::{LINE_BYTES_MAX, Lines};
use crate::upstream::{INBOX_MESSAGES_MAX, Inbound};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::sync::oneshot;

mod ends;

/// The server's side.
struct PlayedServer {
    heard: Lines<DuplexStream>,
    says: DuplexStream,
    unsolicited: UnsolicitedReceiver,
    exit: Option<oneshot::Sender<String>>,
}

impl PlayedServer {
    /// With pipes that hold `room` bytes.
    fn with_room(room: usize) -> (Conversation, Self) {
        let ((output, heard), (says, input)) = (duplex(room), duplex(room));
        let (exit, ended) = oneshot::channel();
        let ending = async {
            ended
                .await
                .unwrap_or_else(|_| "the test is over".to_owned())
        };
        let (conversation, unsolicited) =
            Conversation::start(&ServerName::new("billing"), input, output, ending);
        (
            conversation,
            Self {
                heard: Lines::new(heard),
                says,
                unsolicited,
                exit: Some(exit),
            },
        )
    }

    fn new() -> (Conversation, Self) {
        Self::with_room(1 << 20)
    }

    async fn hears(&mut self) -> Value {
        let line = self.heard.next().await.unwrap().unwrap();
        Text::read(line, &SERVER_JSON_LIMITS).unwrap().value()
    }

    /// Waits until part of a line arrived.
    async fn hears_a_byte(&mut self) {
        self.heard.get_mut().read_exact(&mut [0]).await.unwrap();
    }

    async fn says(&mut self, line: &str) {
        self.says
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn answers(&mut self, id: u64, result: Value) {
        self.says(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
            .await;
    }

    async fn notes(&mut self, method: &str, params: Value) {
        self.says(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
            .await;
    }

    /// Everything said so far was read once an answer to this came back.
    async fn settle(&mut self, conversation: &Conversation) {
        let (id, mut inbox) = conversation.request(call(&json!({}))).await.unwrap();
        while self.hears().await["id"] != json!(id) {}
        self.answers(id, json!({})).await;
        answer(&mut inbox).await;
    }
}

fn parse(value: &Value) -> Message {
    Message::parse(&Text::read(Bytes::from(value.to_string()), &AGENT_JSON_LIMITS).unwrap())
        .unwrap()
}

fn call(params: &Value) -> Message {
    parse(&json!({ "jsonrpc": "2.0", "id": "agent's", "method": "tools/call", "params": params }))
}

async fn next(inbox: &mut Inbox) -> Message {
    match inbox.recv().await.unwrap().unwrap() {
        Inbound::Message(message) => message,
        Inbound::Comment(_) | Inbound::Interrupted(_) => panic!("there are none on stdio"),
    }
}

/// The answer, which ends the inbox.
async fn answer(inbox: &mut Inbox) -> Value {
    let message = next(inbox).await;
    assert_eq!(message.kind, MessageKind::Response);
    assert!(inbox.recv().await.is_none());
    message.body.unwrap().value()
}

/// threat-model §3A A10: ids are ours; answers find their owners in any order.
#[tokio::test]
async fn each_answer_finds_its_request() {
    let (conversation, mut server) = PlayedServer::new();
    let (first, mut one) = conversation
        .request(call(&json!({ "name": "a" })))
        .await
        .unwrap();
    let (second, mut two) = conversation
        .request(call(&json!({ "name": "b" })))
        .await
        .unwrap();
    assert_eq!(server.hears().await["id"], json!(first));
    assert_eq!(
        server.hears().await,
        json!({ "jsonrpc": "2.0", "id": second, "method": "tools/call", "params": { "name": "b" } })
    );
    server.answers(second, json!("for b")).await;
    server.answers(first, json!("for a")).await;
    assert_eq!(answer(&mut one).await, json!("for a"));
    assert_eq!(answer(&mut two).await, json!("for b"));
}

/// threat-model §3A A12.
#[tokio::test]
async fn answers_nobody_waits_for_are_dropped_and_counted() {
    let (conversation, mut server) = PlayedServer::new();
    let (id, mut inbox) = conversation.request(call(&json!({}))).await.unwrap();
    server.hears().await;
    server.answers(id + 1, json!("another's")).await;
    server
        .says(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","result":"as a string"}}"#
        ))
        .await;
    server
        .says(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#)
        .await;
    server.answers(id, json!("right")).await;
    server.answers(id, json!("twice")).await;
    assert_eq!(answer(&mut inbox).await, json!("right"));
    server.settle(&conversation).await;
    assert_eq!(
        conversation.counts(),
        DropCounts {
            stray: 4,
            ..DropCounts::default()
        }
    );
}

/// protocol §1.3: a progress token is a string or a number, and comes back as it was.
#[tokio::test]
async fn progress_comes_back_under_the_agents_own_token() {
    let (conversation, mut server) = PlayedServer::new();
    for token in [json!("7"), json!(7)] {
        let (id, mut inbox) = conversation
            .request(call(
                &json!({ "_meta": { "progressToken": token, "x": 1 } }),
            ))
            .await
            .unwrap();
        assert_eq!(
            server.hears().await["params"]["_meta"],
            json!({ "progressToken": id, "x": 1 })
        );
        server
            .notes(
                "notifications/progress",
                json!({ "progressToken": id, "progress": 0.5 }),
            )
            .await;
        let progress = next(&mut inbox).await;
        assert_eq!(
            progress.body.unwrap().value(),
            json!({ "progressToken": token, "progress": 0.5 })
        );
        server.answers(id, json!({})).await;
        answer(&mut inbox).await;
        server
            .notes(
                "notifications/progress",
                json!({ "progressToken": id, "progress": 1 }),
            )
            .await;
    }
    let (id, mut inbox) = conversation.request(call(&json!({}))).await.unwrap();
    server.hears().await;
    server
        .notes(
            "notifications/progress",
            json!({ "progressToken": id, "progress": 1 }),
        )
        .await;
    server.answers(id, json!("no progress was asked for")).await;
    answer(&mut inbox).await;
    assert_eq!(conversation.counts().stray, 3);
}

/// protocol §2: subscriptions are told apart by the id of their listen request.
#[tokio::test]
async fn subscription_notes_go_to_their_listen_request() {
    let (conversation, mut server) = PlayedServer::new();
    let listen = parse(
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {} }),
    );
    let (id, mut inbox) = conversation.request(listen).await.unwrap();
    server.hears().await;
    let meta = |id: u64| json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": id } });
    server
        .notes("notifications/subscriptions/acknowledged", meta(id))
        .await;
    server
        .notes("notifications/tools/list_changed", meta(id + 9))
        .await;
    server
        .notes("notifications/cancelled", json!({ "requestId": id }))
        .await;
    assert_eq!(
        next(&mut inbox).await.method,
        "notifications/subscriptions/acknowledged"
    );
    assert_eq!(next(&mut inbox).await.method, "notifications/cancelled");
    server.answers(id, meta(id)).await;
    answer(&mut inbox).await;
    assert_eq!(conversation.counts().stray, 1);
}

/// What the server said outside any request.
async fn apart(server: &mut PlayedServer) -> Message {
    let Some(Inbound::Message(message)) = server.unsolicited.recv().await else {
        panic!("nothing was said")
    };
    message
}

/// threat-model §3C C9: a log message goes to the request that asked for it, and to none if several
/// did.
#[tokio::test]
async fn log_messages_go_to_the_one_that_asked() {
    let (conversation, mut server) = PlayedServer::new();
    let asking = call(&json!({ "_meta": { "io.modelcontextprotocol/logLevel": "info" } }));
    let (_, _quiet) = conversation.request(call(&json!({}))).await.unwrap();
    server.hears().await;
    server
        .notes("notifications/message", json!({ "data": "before" }))
        .await;
    assert_eq!(
        apart(&mut server).await.body.unwrap().value(),
        json!({ "data": "before" })
    );
    let (_, mut one) = conversation.request(asking.clone()).await.unwrap();
    server.hears().await;
    server
        .notes("notifications/message", json!({ "data": "for one" }))
        .await;
    assert_eq!(
        next(&mut one).await.body.unwrap().value(),
        json!({ "data": "for one" })
    );
    let (_, mut two) = conversation.request(asking).await.unwrap();
    server.hears().await;
    server
        .notes("notifications/message", json!({ "data": "for whom?" }))
        .await;
    server.settle(&conversation).await;
    assert!(one.try_recv().is_err() && two.try_recv().is_err());
    assert_eq!(conversation.counts().dropped, 1);
}

#[tokio::test]
async fn what_belongs_to_no_request_arrives_apart_and_can_be_answered() {
    let (conversation, mut server) = PlayedServer::new();
    server
        .says(r#"{"jsonrpc":"2.0","id":"r-1","method":"roots/list"}"#)
        .await;
    server
        .notes("notifications/tools/list_changed", json!({}))
        .await;
    let request = apart(&mut server).await;
    assert_eq!(request.method, "roots/list");
    assert_eq!(
        apart(&mut server).await.method,
        "notifications/tools/list_changed"
    );
    let response = Message::response(request.id, Text::of(&json!({ "roots": [] })), false);
    conversation.notify(response).await.unwrap();
    assert_eq!(
        server.hears().await,
        json!({ "jsonrpc": "2.0", "id": "r-1", "result": { "roots": [] } })
    );
}

/// threat-model §3I I3: nobody reads the unsolicited messages, and calls go on.
#[tokio::test]
async fn a_flood_of_requests_of_the_server_is_answered_as_too_many() {
    let (conversation, mut server) = PlayedServer::new();
    for number in 0..=INBOX_MESSAGES_MAX {
        server
            .says(&format!(
                r#"{{"jsonrpc":"2.0","id":{number},"method":"roots/list"}}"#
            ))
            .await;
    }
    let busy = server.hears().await;
    assert_eq!(
        (&busy["id"], &busy["error"]["code"]),
        (&json!(INBOX_MESSAGES_MAX), &json!(-32603))
    );
    server.settle(&conversation).await;
    assert_eq!(conversation.counts().dropped, 1);
}

#[tokio::test]
async fn a_full_inbox_loses_notifications_and_never_the_answer() {
    let (conversation, mut server) = PlayedServer::new();
    let (id, mut inbox) = conversation
        .request(call(&json!({ "_meta": { "progressToken": 1 } })))
        .await
        .unwrap();
    server.hears().await;
    for step in 0..INBOX_MESSAGES_MAX + 10 {
        server
            .notes(
                "notifications/progress",
                json!({ "progressToken": id, "progress": step }),
            )
            .await;
    }
    server.answers(id, json!("done")).await;
    server.settle(&conversation).await;
    for _ in 0..INBOX_MESSAGES_MAX {
        assert_eq!(next(&mut inbox).await.kind, MessageKind::Notification);
    }
    assert_eq!(answer(&mut inbox).await, json!("done"));
    assert_eq!(conversation.counts().dropped, 10);
}

#[tokio::test]
async fn lines_that_are_no_messages_are_skipped() {
    let (conversation, mut server) = PlayedServer::new();
    let garbage = [
        "Server listening!",
        "",
        "[]",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"result":1}"#,
    ];
    for line in garbage {
        server.says(line).await;
    }
    server.settle(&conversation).await;
    assert_eq!(
        conversation.counts(),
        DropCounts {
            garbage: 4,
            ..DropCounts::default()
        }
    );
}

/// threat-model §3A A13: whatever is in a message, it is one line.
#[tokio::test]
async fn a_message_is_one_line() {
    let (conversation, mut server) = PlayedServer::new();
    let text = "{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\"method\":\"tools/call\",\"params\":{\n\"a\"\r:\"\\n\\r\\u2028\u{2028}\"}}";
    let message =
        Message::parse(&Text::read(Bytes::from(text), &AGENT_JSON_LIMITS).unwrap()).unwrap();
    let _waits = conversation.request(message).await.unwrap();
    assert_eq!(
        server.hears().await["params"],
        json!({ "a": "\n\r\u{2028}\u{2028}" })
    );
}
