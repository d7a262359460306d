//! A drill that is told to end in its middle ends what it has begun, begins no other, and says so.

use super::shop::{Habit, done};
use super::{AS_JSON, BOOKS, DrillStage, of, order, policy, tip};
use crate::harness::scripted_server::Seen;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::process::Child;

fn begun(stage: &DrillStage) -> Child {
    let mut command = stage.setup.command(&AS_JSON);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn told(drill: &Child, signal: Signal) {
    let pid = i32::try_from(drill.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Its exit code and its report.
async fn ended(drill: Child) -> (i32, Value) {
    let ended = drill.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&ended.stderr).into_owned();
    let report = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}{wrong}"));
    let code = ended.status.code();
    (code.unwrap_or_else(|| panic!("{said}{wrong}")), report)
}

/// Told to end while its call, or the call that takes it back, is on its way and never answered: that is waited for
/// as long as its contract says, and then nobody knows of it. The exit code and the report say that, what was sent is
/// noted for the next drill, and no other contract is drilled.
#[tokio::test]
async fn a_drill_that_is_told_to_end_begins_no_other() {
    for (silent, signal) in [("order", Signal::INT), ("cancel", Signal::TERM)] {
        let brief = ", budget: { timeout_ms: 2000 }";
        let stage = DrillStage::new(&policy(brief, brief), &(order(BOOKS) + &tip(BOOKS))).await;
        let before = stage.shop.has();
        stage.shop.habit(silent, Some(Habit::Silent));
        let drill = begun(&stage);
        let is_sent = |seen: &Seen| seen.body["params"]["name"] == silent;
        stage.shop.server.sees(silent, is_sent).await;
        told(&drill, signal);
        let (code, report) = ended(drill).await;
        assert_eq!(code, 3, "{silent}: {report}");
        let row = of(&report, "shop__order");
        assert_eq!(
            (&row["state"], &row["left"]),
            (&json!("unknown"), &json!(true)),
            "{silent}: {row}"
        );
        assert_eq!(stage.shop.sent("tip"), Vec::<Value>::new(), "{report}");
        assert_eq!(stage.shop.has() != before, silent == "order", "{report}");
        assert_eq!(
            stage.shop.sent("cancel").len(),
            usize::from(silent == "cancel")
        );
        // The next drill finds what may be left, before anything is sent.
        stage.shop.habit(silent, None);
        let (code, said) = stage.drills(&[]).await;
        assert!(
            code == 1 && said.contains("an earlier drill: shop__order"),
            "{said}"
        );
        assert_eq!(stage.shop.sent("order").len(), 1, "{said}");
    }
}

/// Told to end while its call is on its way and answered afterwards: the drill in hand is made to its end, so that
/// nothing is left, and the next one is not begun. The exit code says that not all was drilled.
#[tokio::test]
async fn what_is_begun_is_taken_back_first() {
    let stage = DrillStage::new(&policy("", ""), &(order(BOOKS) + &tip(BOOKS))).await;
    let before = stage.shop.has();
    let release = stage.shop.late("order");
    let drill = begun(&stage);
    let is_sent = |seen: &Seen| seen.body["params"]["name"] == "order";
    stage.shop.server.sees("order", is_sent).await;
    told(&drill, Signal::TERM);
    assert!(release.send(done(&json!({ "id": 1 }))).is_ok());
    let (code, report) = ended(drill).await;
    assert_eq!(code, 1, "{report}");
    assert_eq!(of(&report, "shop__order")["state"], "proven", "{report}");
    let next = of(&report, "shop__tip");
    assert_eq!(next["state"], "not_drilled", "{report}");
    assert!(
        next["why"].as_str().unwrap().contains("told to end"),
        "{next}"
    );
    assert_eq!(stage.shop.sent("tip"), Vec::<Value>::new());
    assert_eq!(stage.shop.has(), before);
    assert!(!stage.kept().exists());
}
