//! Who gives way to whom.

use super::*;
use crate::downstream::head_guard::{HeadGuard, IDLE_TIMEOUT};
use crate::model::clock::hands::TestClock;
use crate::telemetry::tasks;
use std::io;
use std::net::Ipv4Addr;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

const NEAR_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const FAR_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

async fn let_in(crowd: &ConnectionLimit, peer: IpAddr) -> Arc<Guest> {
    Arc::new(crowd.let_in(peer, &CancellationToken::new()).await)
}

/// A connection of `holder` that has asked once and is idle.
async fn idle(crowd: &ConnectionLimit, holder: &str) -> Arc<Guest> {
    let guest = let_in(crowd, NEAR_ADDRESS).await;
    drop(guest.turn());
    guest.prove(holder).unwrap();
    guest
}

fn left(guest: &Guest) -> bool {
    guest.seat.leave.is_cancelled()
}

/// Ends a connection that was told to.
async fn ended(guest: Arc<Guest>) {
    guest.leaves().await;
    drop(guest);
}

/// threat-model §13 F10: a peer that says nothing makes room, the oldest of the peer that has most;
/// a caller with a token stays.
#[tokio::test]
async fn strangers_give_way_to_strangers() {
    let crowd = ConnectionLimit::new(16);
    let known = idle(&crowd, "a").await;
    let far = let_in(&crowd, FAR_ADDRESS).await;
    let first = let_in(&crowd, NEAR_ADDRESS).await;
    let others = [
        let_in(&crowd, NEAR_ADDRESS).await,
        let_in(&crowd, NEAR_ADDRESS).await,
    ];
    let first_ends = tasks::spawn("first", ended(Arc::clone(&first)));
    drop(first);
    let newcomer = let_in(&crowd, NEAR_ADDRESS).await;
    first_ends.await.unwrap();
    assert!(
        newcomer.shared.clock.steady() >= others[0].seat.since + STRANGER_GRACE,
        "nobody is hurried"
    );
    for stays in [&known, &far, &others[0], &others[1], &newcomer] {
        assert!(!left(stays));
    }
    newcomer.prove("b").unwrap();
    let next = let_in(&crowd, NEAR_ADDRESS).await;
    assert!(
        !left(&others[0]) && !left(&next),
        "a place is free when its stranger is one no more"
    );
}

/// One caller's idle connections give way to another's, never those on which something is asked.
#[tokio::test]
async fn idle_connections_of_the_caller_with_most_give_way() {
    let crowd = ConnectionLimit::new(16);
    let (known, of_one) = (crowd.0.known, crowd.0.of_one);
    assert_eq!((known, of_one), (12, 9));
    let mut hoard = Vec::new();
    for _ in 0..of_one {
        hoard.push(idle(&crowd, "hoarder").await);
    }
    let busy = hoard[0].turn();
    hoard.push(idle(&crowd, "hoarder").await);
    assert!(left(&hoard[1]), "of one caller, its own oldest idle one");
    ended(hoard.remove(1)).await;
    let mut others = Vec::new();
    for _ in of_one..known {
        others.push(idle(&crowd, "other").await);
    }
    others.push(idle(&crowd, "third").await);
    assert!(left(&hoard[1]) && !left(&hoard[0]) && !others.iter().any(|other| left(other)));
    drop(busy);

    let mut turns: Vec<RequestTurn> = others.iter().map(Guest::turn).collect();
    turns.extend(hoard.iter().filter(|guest| !left(guest)).map(Guest::turn));
    let late = let_in(&crowd, NEAR_ADDRESS).await;
    let crowded = late.prove("late").unwrap_err();
    assert_eq!(
        crowded,
        Crowded {
            places: known,
            of_one: false
        }
    );
    assert!(!late.is_known());
    turns.clear();
    late.prove("late").unwrap();
}

/// A caller that is busy on all that it may have reads so, and others are let in.
#[tokio::test]
async fn one_caller_cannot_have_all_places() {
    let crowd = ConnectionLimit::new(16);
    let mut hoard = Vec::new();
    for _ in 0..crowd.0.of_one {
        let guest = idle(&crowd, "hoarder").await;
        hoard.push((guest.turn(), guest));
    }
    let more = let_in(&crowd, NEAR_ADDRESS).await;
    let crowded = more.prove("hoarder").unwrap_err();
    assert!(
        crowded.of_one && crowded.to_string().contains("one caller"),
        "{crowded}"
    );
    more.prove("other").unwrap();
}

/// A place of a known caller, a connection that is served there, and its peer.
async fn served(hands: &'static TestClock) -> (Arc<Guest>, HeadGuard, TcpStream) {
    let crowd = ConnectionLimit::timed_by(hands.clock());
    let guest = idle(&crowd, "a").await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let connected = TcpStream::connect(listener.local_addr().unwrap());
    let (peer, accepted) = tokio::join!(connected, listener.accept());
    let guarded = HeadGuard::new(accepted.unwrap().0.into(), guest.clone());
    (guest, guarded, peer.unwrap())
}

/// Why the connection ends within `time`; none if it does not.
async fn ends_within(guarded: &mut HeadGuard, time: Duration) -> Option<io::ErrorKind> {
    let mut byte = [0];
    let read = tokio::time::timeout(time, guarded.read(&mut byte)).await;
    Some(read.ok()?.expect_err("nobody sends anything").kind())
}

/// threat-model §8: silence of a known caller ends its connection when it has lasted for its whole
/// time, not when a timer that was set before the last request is over; an answer under way is none.
#[tokio::test(start_paused = true)]
async fn silence_between_requests_has_its_whole_time() {
    const ONE_SECOND: Duration = Duration::from_secs(1);
    let hands = TestClock::new();
    let (guest, mut guarded, _peer) = served(hands).await;
    let turn = guest.turn();
    hands.pass(10 * IDLE_TIMEOUT);
    assert_eq!(guest.silent_for(), Duration::ZERO);
    assert_eq!(
        ends_within(&mut guarded, IDLE_TIMEOUT + ONE_SECOND).await,
        None
    );
    drop(turn);
    hands.pass(IDLE_TIMEOUT.checked_sub(ONE_SECOND).unwrap());
    assert_eq!(
        guest.silent_for(),
        IDLE_TIMEOUT.checked_sub(ONE_SECOND).unwrap()
    );
    assert_eq!(ends_within(&mut guarded, IDLE_TIMEOUT).await, None);
    hands.pass(ONE_SECOND);
    let ended = ends_within(&mut guarded, IDLE_TIMEOUT).await;
    assert_eq!(ended, Some(io::ErrorKind::TimedOut));
}
