//! How a conversation ends, and what is known of the requests in it then.

use super::*;

async fn fault(inbox: &mut Inbox) -> Fault {
    let fault = inbox.recv().await.unwrap().unwrap_err();
    assert!(inbox.recv().await.is_none());
    fault
}

/// threat-model §3A A13, A14, §3I I3: what breaks the bounds ends the conversation, and says why.
#[tokio::test]
async fn a_server_that_breaks_the_framing_is_given_up() {
    let cases = [
        ("text\n".repeat(100), "100 lines in a row"),
        ("Content-Length: 20\r\n\r\n{}".to_owned(), "headers"),
        ("x".repeat(LINE_BYTES_MAX + 2), "longer than 4 MiB"),
    ];
    for (said, why) in cases {
        let (conversation, mut server) = PlayedServer::new();
        let (_, mut inbox) = conversation.request(call(&json!({}))).await.unwrap();
        server.hears().await;
        let _ = server.says.write_all(said.as_bytes()).await;
        let fault = fault(&mut inbox).await;
        assert!(
            fault.what.contains(why) && fault.sent == Sent::Maybe,
            "{fault:?}"
        );
        assert!(conversation.closed().await.contains(why) && conversation.is_over());
    }
}

/// guarantees §4: what broke after a byte left is unknown, what broke before is not.
#[tokio::test]
async fn the_end_of_a_server_tells_what_may_have_left() {
    let (conversation, mut server) = PlayedServer::with_room(64);
    let long = call(&json!({ "text": "x".repeat(1000) }));
    let (_, mut begun) = conversation.request(long).await.unwrap();
    let (_, mut waiting) = conversation.request(call(&json!({}))).await.unwrap();
    server.hears_a_byte().await;
    server
        .exit
        .take()
        .unwrap()
        .send("it exited with status 3".to_owned())
        .unwrap();
    drop(server);
    let (begun, waiting) = (fault(&mut begun).await, fault(&mut waiting).await);
    assert_eq!(begun.sent, Sent::Maybe);
    assert_eq!(waiting.sent, Sent::Nothing);
    assert!(conversation.closed().await.contains("exited with status 3"));
    let after = conversation.request(call(&json!({}))).await.unwrap_err();
    assert_eq!(after.sent, Sent::Nothing);
    assert!(
        conversation
            .notify(Message::notification("notifications/x", None))
            .await
            .is_err()
    );
}

/// The output stays open, as when a daemon holds it: the process that ended ends the conversation.
#[tokio::test]
async fn a_process_that_ends_ends_the_conversation() {
    let (conversation, mut server) = PlayedServer::new();
    let (id, mut answered) = conversation.request(call(&json!({}))).await.unwrap();
    let (_, mut lost) = conversation.request(call(&json!({}))).await.unwrap();
    server.hears().await;
    server.hears().await;
    server
        .exit
        .take()
        .unwrap()
        .send("it exited with status 3".to_owned())
        .unwrap();
    server.answers(id, json!("last words")).await;
    assert_eq!(answer(&mut answered).await, json!("last words"));
    let fault = fault(&mut lost).await;
    assert_eq!(
        fault,
        Fault::after_sending("server `billing`: it exited with status 3")
    );
}

#[tokio::test]
async fn a_request_that_was_given_up_is_not_written_or_its_answer_dropped() {
    let (conversation, mut server) = PlayedServer::with_room(64);
    let (id, _inbox) = conversation
        .request(call(&json!({ "text": "x".repeat(1000) })))
        .await
        .unwrap();
    let (waiting, _waits) = conversation
        .request(call(&json!({ "name": "never" })))
        .await
        .unwrap();
    let (dropped, inbox) = conversation
        .request(call(&json!({ "name": "nor this" })))
        .await
        .unwrap();
    drop(inbox);
    assert_eq!(conversation.forget(waiting), Sent::Nothing);
    assert_eq!(server.hears().await["id"], json!(id));
    assert_eq!(conversation.forget(id), Sent::Maybe);
    server.answers(id, json!("late")).await;
    let (last, mut inbox) = conversation.request(call(&json!({}))).await.unwrap();
    assert_eq!(server.hears().await["id"], json!(last));
    server.answers(last, json!({})).await;
    answer(&mut inbox).await;
    assert_eq!(conversation.counts().stray, 1);
    assert_eq!(
        conversation.forget(dropped),
        Sent::Maybe,
        "nothing is known of it any more"
    );
}

#[tokio::test]
async fn closing_ends_the_servers_input_and_still_takes_answers() {
    let (conversation, mut server) = PlayedServer::new();
    let (id, mut inbox) = conversation.request(call(&json!({}))).await.unwrap();
    server.hears().await;
    conversation.close();
    assert_eq!(server.heard.next().await.unwrap(), None);
    assert_eq!(
        conversation
            .request(call(&json!({})))
            .await
            .unwrap_err()
            .sent,
        Sent::Nothing
    );
    server.answers(id, json!("still")).await;
    assert_eq!(answer(&mut inbox).await, json!("still"));
}
