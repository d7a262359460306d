//! The stream of what happens to held calls.

use super::approvals::ApprovalsFixture;
use super::*;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A stream says that it lives, also while calls come all the time that its operator may not see.
#[tokio::test(start_paused = true)]
async fn a_stream_lives_while_others_are_busy() {
    let desk = ApprovalsFixture::new();
    let bearer = format!("Bearer {ANN_TOKEN}");
    let headers = [
        ("host", "127.0.0.1:7778"),
        ("authorization", bearer.as_str()),
    ];
    let asked = request("GET", "/api/approvals/events", &headers);
    let mut body = desk
        .router
        .clone()
        .oneshot(asked)
        .await
        .unwrap()
        .into_body();
    body.frame().await.unwrap().unwrap();
    let began = Instant::now();
    let comes = async {
        for nth in 0..60 {
            sleep(Duration::from_secs(4)).await;
            desk.hold_for("finance", nth, json!({})).await;
        }
    };
    tokio::select! {
        said = body.frame() => {
            let said = said.unwrap().unwrap().into_data().unwrap();
            assert_eq!(said, ": nothing\n\n");
        }
        () = comes => panic!("not a byte in {:?}", began.elapsed()),
    }
    assert_eq!(began.elapsed().as_secs(), 15);
}
