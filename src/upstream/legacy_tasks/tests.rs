//! How long tasks are held, on paused time, and what becomes of what they ask.

use super::*;
use crate::model::clock::hands::TestClock;
use crate::model::ids::UserId;
use crate::upstream::Inbound;
use crate::upstream::caller_links::QuestionInbox;
use crate::upstream::link::Link;
use crate::upstream::stdio::Conversation;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, duplex};
use tokio::sync::mpsc;

fn bank() -> ServerName {
    ServerName::new("bank")
}

fn key(number: u32) -> HeldTaskKey {
    key_of(&Caller::named("agent"), number)
}

fn key_of(caller: &Caller, number: u32) -> HeldTaskKey {
    HeldTaskKey::of(caller, &bank(), &Text::of(&json!(number)))
}

/// A link, and what keeps it from being over.
fn link() -> (ReachedLink, DuplexStream) {
    let (ours, theirs) = duplex(1 << 16);
    let (input, output) = tokio::io::split(ours);
    let (conversation, _) = Conversation::start(&bank(), input, output, std::future::pending());
    let link = Arc::new(Link::over(Arc::new(conversation)));
    (ReachedLink::shared(link), theirs)
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

/// Protocol §6.3: a task that is held already needs no room of another's.
#[tokio::test]
async fn what_is_held_again_lets_nothing_go() {
    let tasks = Arc::new(LegacyTasks::default());
    let (one, _one) = link();
    let all = 0..u32::try_from(MAX_HELD_PER_CALLER).unwrap();
    for number in all.clone() {
        tasks.hold(key(number), one.clone());
    }
    tasks.hold(key(1), one.clone());
    assert!(all.clone().all(|number| tasks.link(&key(number)).is_some()));
    // The enemy: one more does.
    tasks.hold(key(all.end), one);
    let held = all.filter(|number| tasks.link(&key(*number)).is_some());
    assert_eq!(held.count(), MAX_HELD_PER_CALLER - 1);
}

/// Protocol §6.3: who holds too many lets go of an own one, not of another person's behind the same agent,
/// until the agent itself holds too many.
#[tokio::test]
async fn a_user_lets_go_of_an_own_task() {
    let tasks = Arc::new(LegacyTasks::default());
    let (one, _one) = link();
    let person = |name: &str| Caller::named("agent").for_user(UserId::new(name));
    let (ada, bob) = (person("ada"), person("bob"));
    tasks.hold(key_of(&ada, 0), one.clone());
    let most = u32::try_from(MAX_HELD_PER_CALLER).unwrap();
    for number in 0..=most {
        tasks.hold(key_of(&bob, number), one.clone());
    }
    let held = |caller: &Caller, number| tasks.link(&key_of(caller, number)).is_some();
    assert!(held(&ada, 0) && held(&bob, most) && !held(&bob, 0));
    for number in 0..2 * u32::try_from(MAX_HELD_PER_AGENT).unwrap() {
        tasks.hold(key_of(&person(&number.to_string()), 0), one.clone());
    }
    assert_eq!(tasks.held.lock().len(), MAX_HELD_PER_AGENT);
}

/// Protocol §6.3: of a task that is let go each question reads an error, also one that was not even read,
/// and on the link on which it was asked.
#[tokio::test]
async fn what_was_not_read_is_refused() {
    let tasks = Arc::new(LegacyTasks::default());
    let ((asked, theirs), (other, _other)) = (link(), link());
    let (reads, inbox) = mpsc::channel(4);
    let exchange = UpstreamExchange::reading(inbox);
    let (asks, asides) = mpsc::channel(1);
    let ask = |id| Message::request(id, "elicitation/create", None);
    asks.send(ask(8)).await.unwrap();
    let note = Message::notification("notifications/message", None);
    for said in [ask(9), note, ask(10)] {
        reads.send(Ok(Some(Inbound::Message(said)))).await.unwrap();
    }
    tasks.hold(key(1), other);
    *tasks.open(&key(1)).unwrap().lock().await = Some(OpenResult {
        reached: asked,
        exchange,
        asides: Some(QuestionInbox::of(asides)),
        questions: vec![TaskQuestion {
            key: "question-7".to_owned(),
            question: ask(7),
        }],
    });
    tasks.end(&key(1));
    let mut lines = BufReader::new(theirs).lines();
    for id in [7, 9, 10, 8] {
        let line = lines.next_line().await.unwrap().unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&told["id"], told["error"].is_object()), (&json!(id), true));
    }
}
