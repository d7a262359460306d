//! How long an answer is listened for that comes late.

use super::*;
use crate::guards::Section as _;
use crate::guards::budget;
use crate::mcp::json::SERVER_JSON_LIMITS;
use crate::mcp::message::Oddity;
use crate::model::clock::hands::TestClock;
use crate::model::diagnostic::Problems;
use crate::model::ids::ToolName;
use crate::store::memory::MemoryStore;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long a call without a claim is listened for that nobody answers.
async fn listened_for(is_read: bool) -> Duration {
    let (rooms, ends) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(1)));
    let take = async |from: &Arc<Semaphore>| from.clone().acquire_owned().await.unwrap();
    let (room, end) = (take(&rooms).await, take(&ends).await);
    let late = LateCost {
        exchange: Box::pin(async move {
            let _end = end;
            std::future::pending().await
        }),
        rules: Arc::default(),
        room: is_read.then(|| Box::new(room)),
    };
    let store = Arc::new(MemoryStore::new(TestClock::new().clock()));
    let began = Instant::now();
    let held = Spend::nothing(Digest::of(b"task"), ToolName::new("bank__look"));
    late.listen(store, held);
    drop(take(&ends).await);
    drop(take(&rooms).await);
    began.elapsed()
}

/// 003-93: what a read has cost is listened for a minute after its deadline, and its room is free then; a
/// write's as long as what became of it.
#[tokio::test(start_paused = true)]
async fn a_late_cost_is_listened_for_so_long() {
    for (is_read, seconds) in [(true, 60), (false, 600)] {
        assert_eq!(listened_for(is_read).await.as_secs(), seconds, "{is_read}");
    }
}

/// 003-93: what an answer says of its cost counts, up to the most that can be; a number below 0, and one
/// that JSON parsers read differently, say nothing, so that what was reserved stays charged.
#[test]
fn a_cost_is_read_where_everybody_reads_the_same() {
    let written = budget::Settings {
        cost: Some(8.0),
        cost_from: Some("/cost".to_owned()),
        ..budget::Settings::default()
    };
    let rules = ToolRules {
        budget: written.compile(&mut Problems::default()),
        ..ToolRules::default()
    };
    let most = Some(1_000_000_000_000_000_000);
    for (number, cost) in [
        ("0.5", Some(500_000)),
        ("1e12", most),
        ("1e308", most),
        ("1e400", None),
        ("-1", None),
    ] {
        let body = format!("{{\"structuredContent\":{{\"cost\":{number}}}}}");
        let (body, odd) = Text::read_oddly(Bytes::from(body), &SERVER_JSON_LIMITS).unwrap();
        let answer = Message {
            odd: odd.map(|odd| Box::new(Oddity::of_server(odd.what))),
            ..Message::response(None, body, false)
        };
        assert_eq!(spent(&rules, &Ok(answer)), cost, "{number}");
    }
}
