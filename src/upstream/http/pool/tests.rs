//! What a lane promises: one request at a time on a connection, each sent once, and nothing is said
//! of it that is not proven (guarantees §4; threat-model §3B, §8). The server's side is in `peer`.

use super::super::payload::payload;
use super::*;
use crate::model::reply::Sent;
use http::Method;
use http::header::HOST;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Barrier, mpsc};

mod peer;

use peer::{answer, ask, in_time, lane, post, until};

/// A request that no system takes whole before its reader does, in bytes.
const LARGE_REQUEST_BYTES: usize = 64 << 20;

/// Which answers leave a connection to use again, and that each request gets its own answer: what a
/// server says without being asked is no answer to the next request.
#[tokio::test]
async fn a_connection_is_used_again_after_a_whole_answer() {
    // The head's end and the body; whether the server closes then; how many connections three
    // requests take.
    let rows: [(&str, &'static str, bool, usize); 7] = [
        ("a length", "Content-Length: 4\r\n\r\nPATH", false, 1),
        (
            "chunks",
            "Transfer-Encoding: chunked\r\n\r\n4\r\nPATH\r\n0\r\n\r\n",
            false,
            1,
        ),
        (
            "keep-alive off",
            "Connection: close\r\nContent-Length: 4\r\n\r\nPATH",
            false,
            3,
        ),
        (
            "keep-alive off, no length",
            "Connection: close\r\n\r\nPATH",
            true,
            3,
        ),
        ("no length", "\r\nPATH", true, 3),
        (
            "a byte too many",
            "Content-Length: 4\r\n\r\nPATHx",
            false,
            3,
        ),
        (
            "an answer too many",
            "Content-Length: 4\r\n\r\nPATHHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            false,
            3,
        ),
    ];
    for (name, says, closes, connections) in rows {
        let (lane, seen) = lane(move |mut peer| async move {
            while let Some(path) = peer.request().await {
                peer.says(&format!(
                    "HTTP/1.1 200 OK\r\n{}",
                    says.replace("PATH", &path)
                ))
                .await;
                if closes {
                    return;
                }
            }
        })
        .await;
        for path in ["/one", "/two", "/six"] {
            assert_eq!(ask(&lane, path).await.as_deref(), Ok(path), "{name}");
        }
        let seen = seen.lock();
        assert_eq!(
            (seen.opened, seen.requests.len()),
            (connections, 3),
            "{name}"
        );
    }
}

/// A server that closes a connection between two requests costs the second one nothing.
#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_not_used() {
    let (lane, seen) = lane(|mut peer| async move {
        if let Some(path) = peer.request().await {
            peer.says(&answer(&path)).await;
        }
    })
    .await;
    for path in ["/one", "/two", "/three"] {
        assert_eq!(ask(&lane, path).await.as_deref(), Ok(path));
        until(|| {
            lane.unused
                .lock()
                .iter_mut()
                .all(|(_, line)| !line.is_ready())
        })
        .await;
    }
    let seen = seen.lock();
    assert_eq!((seen.opened, seen.requests.len()), (3, 3));
}

/// A server that closes each connection at the moment at which the next request may come: whatever
/// is said of a request, no two copies of it were sent, and none of what is called not sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_meets_the_end_of_a_connection_is_sent_once() {
    let (lane, seen) = lane(|mut peer| async move {
        if let Some(path) = peer.request().await {
            peer.says(&answer(&path)).await;
            let _ = peer.stream.shutdown().await;
            // What comes now is never answered, but it was sent.
            while peer.request().await.is_some() {}
        }
    })
    .await;
    let mut said = Vec::new();
    for number in 0..500 {
        let path = format!("/{number}");
        said.push((ask(&lane, &path).await, path));
    }
    assert!(said.iter().any(|(outcome, _)| outcome.is_ok()));
    lane.forget(Clock.steady() + IDLE_CONNECTION_TIMEOUT);
    until(|| seen.lock().all_ended()).await;
    for (outcome, path) in said {
        let times = seen
            .lock()
            .requests
            .iter()
            .filter(|seen| **seen == path)
            .count();
        let right = match outcome {
            Ok(_) => times == 1,
            Err(Sent::Nothing) => times == 0,
            Err(Sent::Maybe | Sent::Answered) => times <= 1,
        };
        assert!(
            right,
            "{path} was seen {times} times, and {outcome:?} was said"
        );
    }
}

/// A connection that has ended gives a request back as it was; only then it is called not sent.
#[tokio::test]
async fn an_ended_connection_gives_the_request_back() {
    let (lane, seen) =
        lane(|mut peer| async move { while peer.request().await.is_some() {} }).await;
    let mut ended = lane.open().await.unwrap();
    ended.connection = None;
    let mut back = Some(post("/one", 4));
    let fault = ended.send(&mut back).await.unwrap_err();
    assert_eq!(
        (fault.sent, back.map(|request| request.uri().to_string())),
        (Sent::Nothing, Some("/one".to_owned()))
    );
    drop(ended);
    until(|| seen.lock().ended == 1).await;
    assert_eq!(seen.lock().requests.len(), 0);
}

/// Once a byte has left, nobody can say that nothing was done, and nothing is sent again.
#[tokio::test]
async fn what_breaks_after_a_byte_has_left_may_have_been_sent() {
    let rows: [(&str, usize, Option<&'static str>); 4] = [
        (
            "the server reads a part and goes",
            LARGE_REQUEST_BYTES,
            None,
        ),
        ("the server reads it and goes", 4, Some("")),
        (
            "the head of the answer is cut off",
            4,
            Some("HTTP/1.1 200 OK\r\nConte"),
        ),
        ("the answer is no HTTP", 4, Some("hello\r\n\r\n")),
    ];
    for (name, length, says) in rows {
        for again in [false, true] {
            let (lane, seen) = lane(move |mut peer| async move {
                if again {
                    let path = peer.request().await.unwrap();
                    peer.says(&answer(&path)).await;
                }
                let Some(text) = says else {
                    return drop(peer.stream.read(&mut [0; 1024]).await);
                };
                peer.request().await;
                peer.says(text).await;
            })
            .await;
            if again {
                assert_eq!(
                    ask(&lane, "/first").await.as_deref(),
                    Ok("/first"),
                    "{name}"
                );
            }
            let fault = in_time(lane.send(post("/second", length)))
                .await
                .unwrap_err();
            let left = (fault.sent, lane.unused.lock().len(), seen.lock().opened);
            assert_eq!(
                left,
                (Sent::Maybe, 0, 1),
                "{name}; on a connection used before: {again}"
            );
        }
    }
}

/// An answer that is cut off is an error, not a short answer; its connection is not used again.
#[tokio::test]
async fn a_cut_answer_is_not_whole() {
    for cut in [
        "Content-Length: 100\r\n\r\nhalf",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n",
        "Transfer-Encoding: chunked\r\n\r\n64\r\nhalf",
    ] {
        let (lane, seen) = lane(move |mut peer| async move {
            let path = peer.request().await.unwrap();
            let said = if path == "/cut" {
                format!("HTTP/1.1 200 OK\r\n{cut}")
            } else {
                answer(&path)
            };
            peer.says(&said).await;
        })
        .await;
        assert_eq!(ask(&lane, "/cut").await, Err(Sent::Maybe), "{cut}");
        assert_eq!(lane.unused.lock().len(), 0, "{cut}");
        assert_eq!(ask(&lane, "/next").await.as_deref(), Ok("/next"), "{cut}");
        assert_eq!(seen.lock().opened, 2, "{cut}");
    }
}

/// An answer that comes before the request was written whole is the answer; what is left of that
/// request would be the beginning of the next one, so its connection is not used again.
#[tokio::test]
async fn an_early_answer_ends_its_connection() {
    let (lane, _) = lane(|mut peer| async move {
        let _ = peer.stream.read(&mut [0; 1024]).await;
        peer.says("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
            .await;
        std::future::pending::<()>().await;
    })
    .await;
    let response = in_time(lane.send(post("/large", LARGE_REQUEST_BYTES)))
        .await
        .unwrap();
    assert_eq!(response.status(), 413);
    assert_eq!(
        in_time(response.into_body().collect())
            .await
            .unwrap()
            .to_bytes(),
        "no"
    );
    assert_eq!(lane.unused.lock().len(), 0);
}

/// A caller that gives up a request or its answer closes the connection, which is how a modern
/// server hears of it (protocol §1.7).
#[tokio::test]
async fn what_is_given_up_closes_its_connection() {
    for begun in [false, true] {
        let (ends, mut ended) = mpsc::channel(1);
        let (lane, seen) = lane(move |mut peer| {
            let ends = ends.clone();
            async move {
                peer.request().await;
                if begun {
                    peer.says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
                        .await;
                }
                ends.send(peer.stream.read(&mut [0]).await.unwrap_or(0))
                    .await
                    .unwrap();
            }
        })
        .await;
        let response = tokio::select! {
            response = in_time(lane.send(post("/one", 4))) => Some(response.unwrap()),
            () = until(|| seen.lock().requests.len() == 1), if !begun => None,
        };
        assert_eq!(response.is_some(), begun);
        drop(response);
        let left = in_time(ended.recv()).await;
        assert_eq!(
            (left, lane.unused.lock().len()),
            (Some(0), 0),
            "the answer had begun: {begun}"
        );
    }
}

/// threat-model §8: unused connections have bounds, in number and in age.
#[tokio::test]
async fn unused_connections_are_few_and_young() {
    let all = Arc::new(Barrier::new(MAX_IDLE_CONNECTIONS + 1));
    let (lane, seen) = lane(move |mut peer| {
        let all = all.clone();
        async move {
            let Some(path) = peer.request().await else {
                return;
            };
            all.wait().await;
            peer.says(&answer(&path)).await;
            peer.request().await;
        }
    })
    .await;
    let asking = (0..=MAX_IDLE_CONNECTIONS).map(|_| ask(&lane, "/one"));
    assert!(
        futures_util::future::join_all(asking)
            .await
            .iter()
            .all(Result::is_ok)
    );
    assert_eq!(
        (lane.unused.lock().len(), seen.lock().opened),
        (MAX_IDLE_CONNECTIONS, MAX_IDLE_CONNECTIONS + 1)
    );
    let ages: Vec<_> = lane.unused.lock().iter().map(|(since, _)| *since).collect();
    lane.forget(ages[0]);
    assert_eq!(lane.unused.lock().len(), MAX_IDLE_CONNECTIONS);
    lane.forget(ages[MAX_IDLE_CONNECTIONS - 1] + IDLE_CONNECTION_TIMEOUT);
    assert_eq!(lane.unused.lock().len(), 0);
    until(|| seen.lock().ended == MAX_IDLE_CONNECTIONS + 1).await;

    lane.keep(lane.open().await.unwrap());
    assert_eq!(lane.unused.lock().len(), 1);
    // Too old before anybody has looked.
    assert!(
        lane.kept(Clock.steady() + IDLE_CONNECTION_TIMEOUT)
            .is_none()
    );
}
