//! What streams keep for agents that come back, alone and together.

use super::super::replay_budget::ReplayBudget;
use super::*;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

fn progress(bytes: usize) -> Message {
    Message::notification(
        "notifications/progress",
        Some(Text::of(&json!({ "message": "x".repeat(bytes) }))),
    )
}

fn answer(id: u64) -> Message {
    Message::response(
        Some(Text::of(&json!(id))),
        Text::of(&json!({ "content": "y".repeat(1_000) })),
        false,
    )
}

/// What an agent reads that takes an ended stream up after that event.
async fn read(stream: &Arc<EventStream>, after: u64) -> Vec<Value> {
    let bytes = stream
        .read(after, false)
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes();
    let text = std::str::from_utf8(&bytes).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[test]
fn h10_all_streams_together_keep_no_more_than_the_budget() {
    let shelf: SharedReplayBudget = Arc::new(ReplayBudget::of(100_000));
    let streams: Vec<_> = (0..50)
        .map(|number| EventStream::new(number, &shelf))
        .collect();
    let mut written = 0;
    for round in 0..20 {
        for stream in &streams {
            stream.write(&progress(1_000 + round), false);
            written += 1_000;
            assert!(shelf.bytes() <= 100_000);
        }
    }
    assert!(
        written > 900_000 && shelf.bytes() > 98_000,
        "what fits is kept: {}",
        shelf.bytes()
    );
    let kept = |stream: &Arc<EventStream>| stream.written.lock().bytes;
    assert_eq!(streams.iter().map(kept).sum::<usize>(), shelf.bytes());
    drop(streams);
    assert_eq!(shelf.bytes(), 0, "what ends gives back what it kept");
}

#[tokio::test]
async fn h10_the_oldest_event_is_forgotten_first_whoever_keeps_it() {
    let shelf: SharedReplayBudget = Arc::new(ReplayBudget::of(10_000));
    let (idle, busy) = (EventStream::new(1, &shelf), EventStream::new(2, &shelf));
    idle.write(&progress(1_000), false);
    idle.write(&answer(7), true);
    for _ in 0..7 {
        busy.write(&progress(1_000), false);
    }
    assert_eq!(read(&idle, 0).await.len(), 2, "all of it still fits");
    busy.write(&progress(1_000), false);
    let [answered] = &read(&idle, 0).await[..] else {
        panic!("the progress is gone, and the answer is not")
    };
    assert_eq!(
        (&answered["id"], answered["result"].is_object()),
        (&json!(7), true)
    );
}

/// An agent that waits for an answer that is gone must not wait for ever, and must not believe that
/// nothing happened.
#[tokio::test]
async fn h10_in_place_of_a_forgotten_answer_stands_an_error() {
    let shelf: SharedReplayBudget = Arc::new(ReplayBudget::of(10_000));
    let (idle, busy) = (EventStream::new(1, &shelf), EventStream::new(2, &shelf));
    idle.write(&progress(10), false);
    idle.write(&answer(7), true);
    for _ in 0..40 {
        busy.write(&progress(1_000), false);
    }
    for after in [0, 1] {
        let [told] = &read(&idle, after).await[..] else {
            panic!()
        };
        assert_eq!(
            (&told["id"], &told["error"]["code"]),
            (&json!(7), &json!(INTERNAL_ERROR))
        );
        assert!(
            told["error"]["message"]
                .as_str()
                .unwrap()
                .contains("no longer kept"),
            "{told}"
        );
    }
    assert_eq!(
        read(&idle, 2).await,
        [json!(null); 0],
        "who has read the answer is told nothing more"
    );
    assert!(idle.written.lock().bytes < 1_000 && shelf.bytes() <= 10_000);
    drop(idle);
    assert_eq!(shelf.bytes(), busy.written.lock().bytes);
}

/// threat-model §8: one stream keeps 256 events and 4 MiB, and always its newest event.
#[test]
fn one_stream_keeps_its_newest_events() {
    let shelf: SharedReplayBudget = Arc::default();
    let stream = EventStream::new(1, &shelf);
    for _ in 0..300 {
        stream.write(&progress(10), false);
    }
    assert_eq!(stream.written.lock().events.len(), MAX_EVENTS_KEPT);
    stream.write(&progress(EVENT_BYTES_MAX), false);
    let written = stream.written.lock();
    assert_eq!((written.events.len(), written.bytes), (1, shelf.bytes()));
}

/// guarantees §3: an agent that read the last of several answers has read all of them only where none was
/// forgotten before it came to it.
#[tokio::test]
async fn an_answer_after_a_hole_has_not_passed() {
    for (forgets, expected) in [(false, true), (true, false)] {
        let shelf: SharedReplayBudget = Arc::new(ReplayBudget::of(5_000));
        let (stream, other) = (EventStream::new(1, &shelf), EventStream::new(2, &shelf));
        stream.write(&answer(1), false);
        if forgets {
            for _ in 0..4 {
                other.write(&progress(1_000), false);
            }
        }
        stream.write(&answer(2), true);
        let passed = Arc::new(AtomicBool::new(false));
        let whole = stream.read_for(passed.clone(), 0, false).into_body();
        whole.collect().await.unwrap();
        assert_eq!(passed.load(Ordering::Acquire), expected);
    }
}
