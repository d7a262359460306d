//! What an agent reads of one request, and when.

use super::*;
use crate::mcp::json::Text;
use crate::telemetry::tasks::spawn;
use futures_util::FutureExt as _;
use std::future::Future;

fn answer() -> Message {
    Message::response(Some(Text::string("a")), Text::bool(true), false)
}

/// What is ready at once.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    future.now_or_never()
}

/// An answer alone needs no queue, whether its reader waits already or not.
#[tokio::test]
async fn an_answer_alone_needs_no_queue() {
    let (outlet, mut inlet) = way_back();
    let waits = spawn("reader", async move {
        let read = inlet.recv().await;
        assert!(inlet.said.is_none() && inlet.way.state.lock().says.is_none());
        (read, inlet.recv().await.is_some())
    });
    tokio::task::yield_now().await;
    outlet.answer(answer());
    drop(outlet);
    let (read, more) = waits.await.unwrap();
    assert!(matches!(read, Some(Outgoing::Last(_))) && !more, "{read:?}");
}

/// What is said on the way is read first, in order, also where the answer is there already.
#[tokio::test]
async fn what_is_said_first_is_read_first() {
    for waits_first in [true, false] {
        let (outlet, mut inlet) = way_back();
        if waits_first {
            assert!(now(inlet.recv()).is_none());
        }
        for retry in 0..3 {
            outlet.say(Outgoing::Interrupted(retry)).await.unwrap();
        }
        outlet.answer(answer());
        outlet.answer(Message::response(None, Text::bool(false), false));
        drop(outlet);
        for retry in 0..3 {
            let next = inlet.recv().await;
            assert!(
                matches!(next, Some(Outgoing::Interrupted(at)) if at == retry),
                "{next:?}"
            );
        }
        let last = inlet.recv().await;
        assert!(
            matches!(&last, Some(Outgoing::Last(last)) if last.id.is_some()),
            "{last:?}"
        );
        assert!(inlet.recv().await.is_none());
    }
}

/// An answer waits for no agent that doesn't read; what comes before it does, and an agent that
/// leaves ends the wait.
#[tokio::test(start_paused = true)]
async fn a_full_queue_holds_up_no_answer() {
    let (outlet, inlet) = way_back();
    for retry in 0..OUTLET_MESSAGES_MAX as u64 {
        outlet.say(Outgoing::Interrupted(retry)).await.unwrap();
    }
    let longest = Duration::from_secs(1);
    assert_eq!(
        outlet.say_within(Outgoing::Interrupted(0), longest).await,
        Err(AgentLeft)
    );
    outlet.answer(answer());
    let waits = outlet.clone();
    let waits = spawn("reader", async move {
        waits.say(Outgoing::Interrupted(0)).await
    });
    tokio::task::yield_now().await;
    drop(inlet);
    assert_eq!(waits.await.unwrap(), Err(AgentLeft));
}

/// Each who writes learns that the agent has gone, before and after.
#[tokio::test]
async fn an_agent_that_leaves_is_noticed() {
    let (outlet, inlet) = way_back();
    let (first, second) = (outlet.clone(), outlet.clone());
    let waits = [first, second].map(|outlet| spawn("reader", async move { outlet.closed().await }));
    tokio::task::yield_now().await;
    assert!(now(outlet.closed()).is_none(), "it is there");
    drop(inlet);
    for waits in waits {
        waits.await.unwrap();
    }
    assert!(now(outlet.closed()).is_some());
    outlet.answer(answer());
    assert_eq!(outlet.say(Outgoing::Interrupted(0)).await, Err(AgentLeft));
}

/// Whether anybody reads is known beside whether the agent has gone, and may change back; what is said goes
/// on to be read. Who has gone reads nothing.
#[tokio::test]
async fn an_agent_that_may_come_back_has_not_gone() {
    let (outlet, mut inlet) = way_back();
    let mark = inlet.unread_mark();
    assert!(now(outlet.unread()).is_none());
    let waits = outlet.clone();
    let waits = spawn("reader", async move { waits.unread().await });
    tokio::task::yield_now().await;
    let away = Duration::from_secs(30);
    mark.set(Some(away));
    assert_eq!(waits.await.unwrap(), away);
    assert!(now(outlet.closed()).is_none());
    outlet.say(Outgoing::Interrupted(1)).await.unwrap();
    assert!(matches!(inlet.recv().await, Some(Outgoing::Interrupted(1))));
    mark.set(None);
    assert!(now(outlet.unread()).is_none(), "it has come back");
    drop(inlet);
    assert_eq!(now(outlet.unread()), Some(Duration::ZERO));
}

/// Work that breaks without an answer leaves its agent waiting for nothing.
#[tokio::test]
async fn a_way_back_that_nobody_writes_to_ends() {
    let (outlet, mut inlet) = way_back();
    let other = outlet.clone();
    drop(outlet);
    assert!(now(inlet.recv()).is_none(), "one may still write");
    let waits = spawn("reader", async move { inlet.recv().await.is_none() });
    tokio::task::yield_now().await;
    drop(other);
    assert!(waits.await.unwrap());
}

/// A reader that has read much in one turn loses nothing: tokio gives a task 128 steps before others
/// have their turn, and what waits for the next looks as if there were nothing.
#[tokio::test]
async fn a_turn_that_is_over_loses_nothing() {
    for answers in [true, false] {
        // A turn of its own.
        tokio::task::yield_now().await;
        let (outlet, mut inlet) = way_back();
        let say = |times: u64| {
            for retry in 0..times {
                assert_eq!(now(outlet.say(Outgoing::Interrupted(retry))), Some(Ok(())));
            }
        };
        say(60);
        for _ in 0..40 {
            assert!(now(inlet.recv()).is_some());
        }
        say(28);
        assert!(
            now(tokio::task::coop::consume_budget()).is_none(),
            "the turn is over"
        );
        if answers {
            outlet.answer(answer());
        }
        drop(outlet);
        for left in 0..48 {
            let next = inlet.recv().await;
            assert!(
                matches!(next, Some(Outgoing::Interrupted(_))),
                "{left}: {next:?}"
            );
        }
        assert_eq!(inlet.recv().await.is_some(), answers);
    }
}

/// An agent that is answered with something else reads that and no more; what is said from then on, on any
/// clone, goes to the new reader, and so does whether anybody waits.
#[tokio::test]
async fn a_way_back_is_handed_over() {
    let (outlet, mut inlet) = way_back();
    let early = outlet.clone();
    let receipt = outlet.receipt(false);
    outlet.say(Outgoing::Interrupted(1)).await.unwrap();
    let mut later = outlet.hand_over(answer()).unwrap();
    assert!(outlet.is_handed_over() && outlet.hand_over(answer()).is_none());
    assert!(matches!(inlet.recv().await, Some(Outgoing::Interrupted(1))));
    assert!(matches!(inlet.recv().await, Some(Outgoing::Last(_))));
    drop(inlet);
    assert!(!receipt.is_delivered(), "that was not the response");
    assert!(now(early.closed()).is_none(), "the new reader waits");
    early.say(Outgoing::Interrupted(2)).await.unwrap();
    assert!(matches!(later.recv().await, Some(Outgoing::Interrupted(2))));
    later.leave();
    assert!(now(early.closed()).is_some());
    assert_eq!(early.say(Outgoing::Interrupted(3)).await, Err(AgentLeft));
    early.answer(answer());
    assert!(matches!(later.recv().await, Some(Outgoing::Last(_))));
    drop((outlet, early));
    assert!(later.recv().await.is_none());
}

/// Nobody is answered twice, nor who has gone.
#[tokio::test]
async fn what_is_answered_is_not_handed_over() {
    let (outlet, mut inlet) = way_back();
    outlet.answer(answer());
    assert!(outlet.hand_over(answer()).is_none());
    assert!(matches!(inlet.recv().await, Some(Outgoing::Last(_))));
    assert!(outlet.hand_over(answer()).is_none());
    let (outlet, inlet) = way_back();
    drop(inlet);
    assert!(outlet.hand_over(answer()).is_none() && !outlet.is_handed_over());
}
