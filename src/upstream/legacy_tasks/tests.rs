//! How long tasks are held, on paused time.

use super::*;
use crate::model::clock::hands::TestClock;
use crate::upstream::link::Link;
use crate::upstream::stdio::Conversation;
use serde_json::json;
use tokio::io::{DuplexStream, duplex};

fn bank() -> ServerName {
    ServerName::new("bank")
}

fn key(number: u32) -> HeldTaskKey {
    HeldTaskKey::of(&Caller::named("agent"), &bank(), &Text::of(&json!(number)))
}

/// A link, and what keeps it from being over.
fn link() -> (ReachedLink, DuplexStream) {
    let (ours, theirs) = duplex(1 << 16);
    let (input, output) = tokio::io::split(ours);
    let (conversation, _) = Conversation::start(&bank(), input, output, std::future::pending());
    let link = Arc::new(Link::over(Arc::new(conversation)));
    (ReachedLink { link, own: None }, theirs)
}

/// Protocol §6.3: a task that its agent no longer asks after pins no link, also where no other task is
/// held after it; one that is asked after is kept, and one whose link is over is not.
#[tokio::test(start_paused = true)]
async fn a_task_is_held_for_an_hour() {
    let hands = TestClock::new();
    let tasks = Arc::new(LegacyTasks {
        clock: hands.clock(),
        ..LegacyTasks::default()
    });
    let ((one, _one), (two, _two), (three, dead)) = (link(), link(), link());
    for (number, reached) in [(1, &one), (2, &two), (3, &three)] {
        tasks.hold(key(number), reached.clone());
    }
    let pins = |reached: &ReachedLink| Arc::strong_count(&reached.link) > 1;
    let passes = async |time: Duration| {
        hands.pass(time);
        tokio::time::sleep(SWEEP_INTERVAL * 2).await;
    };
    drop(dead);
    three.link.ended().await;
    passes(HELD_TIMEOUT / 2).await;
    assert_eq!((pins(&one), pins(&two), pins(&three)), (true, true, false));
    assert!(tasks.link(&key(2)).is_some());
    passes(HELD_TIMEOUT / 2).await;
    assert_eq!((pins(&one), pins(&two)), (false, true));
    assert!(tasks.link(&key(1)).is_none());
    passes(HELD_TIMEOUT).await;
    assert!(!pins(&two));
}
