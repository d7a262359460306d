//! What sessions keep for agents that come back, together.

use super::super::body::HttpAnswer;
use super::super::replay_budget::ReplayBudget;
use super::*;
use crate::mcp::json::Text;
use crate::mcp::sse::SseComment;
use crate::outlet::way_back;
use crate::upstream::http::connections;
use crate::upstream::server_settings::Surroundings;
use crate::upstream::servers::Servers;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::time::{Instant, sleep, timeout};

fn open(sessions: &AgentSessions, agent: &str) -> Arc<AgentSession> {
    let (connections, guard, leftovers) = (connections().unwrap(), PathBuf::new(), Arc::default());
    let servers = Arc::new(Servers::new(
        Vec::new(),
        &Surroundings {
            connections,
            guard,
            leftovers,
        },
    ));
    let caller = Arc::new(Caller::named(agent));
    let links = Arc::new(Links::session(
        servers,
        caller.clone(),
        Text::of(&json!({})),
        mpsc::channel(1).0,
    ));
    sessions
        .open(caller, Scope::All, Revision::NEWEST_LEGACY, links)
        .unwrap()
}

fn answer(id: u64) -> Outgoing {
    let result = json!({ "content": "x".repeat(1_000) });
    Outgoing::Last(Box::new(Message::response(
        Some(Text::of(&json!(id))),
        Text::of(&result),
        false,
    )))
}

/// The last message of an ended stream.
async fn last(answer: HttpAnswer) -> Value {
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&bytes).unwrap();
    serde_json::from_str(
        text.lines()
            .rev()
            .find_map(|line| line.strip_prefix("data: "))
            .unwrap(),
    )
    .unwrap()
}

/// The sessions of all agents share one budget; whose answer was pushed out by another's is told
/// so, and one that ends gives back what it kept.
#[tokio::test]
async fn h10_one_session_cannot_make_another_keep_more() {
    let sessions = AgentSessions {
        shelf: Arc::new(ReplayBudget::of(20_000)),
        ..AgentSessions::default()
    };
    let (patient, greedy) = (open(&sessions, "patient"), open(&sessions, "greedy"));
    let feed = |session: &Arc<AgentSession>, id| session.feed(&answer(id), way_back().1, vec![]);
    let stream = feed(&patient, 1);
    assert_eq!(last(stream.read(0, false)).await["id"], 1);
    for id in 2..50 {
        let newest = feed(&greedy, id);
        assert!(
            last(newest.read(0, false)).await["result"].is_object(),
            "the newest is kept"
        );
        assert!(sessions.shelf.bytes() <= 20_000);
        // Lets the task end that fed the stream and holds it.
        tokio::task::yield_now().await;
    }
    assert!(
        last(stream.read(0, false)).await["result"].is_object(),
        "16 streams of another are within the budget"
    );

    let more = open(&sessions, "more");
    for id in 50..60 {
        feed(&more, id);
    }
    let told = last(patient.stream(stream.number).unwrap().read(0, false)).await;
    assert_eq!(
        (&told["id"], told["error"].is_object()),
        (&json!(1), true),
        "{told}"
    );
    drop((stream, patient));
    sessions.sweep(true).await;
    drop((greedy, more));
    tokio::task::yield_now().await;
    assert_eq!((sessions.count(), sessions.shelf.bytes()), (0, 0));
}

/// guarantees §7: an agent whose stream breaks has 30 s to come back, whatever is written to it meanwhile; then
/// its request knows that nobody reads, until the agent does.
#[tokio::test(start_paused = true)]
async fn who_does_not_come_back_within_the_grace_reads_no_more() {
    let session = open(&AgentSessions::default(), "agent");
    let ((outlet, inlet), seconds) = (way_back(), Duration::from_secs);
    let marks = vec![inlet.unread_mark()];
    let first = Outgoing::Comment(SseComment::default());
    let stream = session.feed(&first, inlet, marks);
    let reader = stream.read(0, true);
    let waits = timeout(seconds(3600), outlet.unread());
    assert!(waits.await.is_err(), "it reads");
    drop(reader);
    sleep(seconds(20)).await;
    let reader = stream.read(0, false);
    let newer = stream.read(0, false);
    drop(reader);
    let waits = timeout(seconds(60), outlet.unread());
    assert!(waits.await.is_err(), "it has come back");
    drop(newer);
    let began = Instant::now();
    let writes = async {
        loop {
            sleep(seconds(10)).await;
            outlet.say(Outgoing::Interrupted(500)).await.unwrap();
        }
    };
    tokio::select! {
        unread = outlet.unread() => assert_eq!(unread, seconds(30)),
        () = writes => {}
    }
    assert_eq!(began.elapsed().as_secs(), 30);
    let _reader = stream.read(0, false);
    tokio::task::yield_now().await;
    let waits = timeout(seconds(60), outlet.unread());
    assert!(waits.await.is_err(), "it is there again");
}
