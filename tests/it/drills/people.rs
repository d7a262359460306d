//! A drill asks before it does anything, and stands for the people of its contracts only where it is told to.

use super::{BOOKS, DrillStage, of, order, policy};
use crate::harness::gate::run;
use serde_json::{Value, json};

const HELD: &str = ", approval: { ask: always, approvers: [finance], required: 2 }";

/// A call that a person has to allow is not made; with `--approve`, who runs the drill is that person, or as
/// many as the contract wants.
#[tokio::test]
async fn a_held_call_is_not_drilled_unless_told() {
    let stage = DrillStage::new(&policy(HELD, ""), &order(BOOKS)).await;
    let (code, said) = stage.drills(&[]).await;
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("a person has to allow it: --approve"),
        "{said}"
    );
    assert_eq!(stage.shop.sent("order"), Vec::<Value>::new());
    assert!(!stage.kept().exists());
    assert_eq!(stage.drills(&["--require-all"]).await.0, 1);
    let (code, report) = stage.report(&["--approve"]).await;
    assert_eq!(
        (code, &of(&report, "shop__order")["state"]),
        (0, &json!("proven")),
        "{report}"
    );
    assert_eq!(stage.shop.sent("order").len(), 1);
}

/// So it is with the call that takes another back: without the person, an effect is left.
#[tokio::test]
async fn an_undo_that_a_person_has_to_allow_is_left_undone() {
    let stage = DrillStage::new(&policy("", HELD), &order(BOOKS)).await;
    let before = stage.shop.has();
    let (code, report) = stage.report(&[]).await;
    let row = of(&report, "shop__order");
    assert_eq!(
        (code, &row["state"], &row["left"]),
        (1, &json!("failed"), &json!(true)),
        "{report}"
    );
    assert!(row["why"].as_str().unwrap().contains("--approve"), "{row}");
    assert_eq!(stage.shop.sent("cancel"), Vec::<Value>::new());
    assert_ne!(stage.shop.has(), before);
    std::fs::remove_dir_all(stage.kept()).unwrap();
    let left = stage.shop.has();
    let (code, report) = stage.report(&["--approve"]).await;
    assert_eq!(code, 0, "{report}");
    assert_eq!(stage.shop.has(), left);
}

/// Where nobody can be asked and nobody has said `--yes`, nothing is called, and it is told what would be.
#[tokio::test]
async fn nothing_is_called_that_was_not_agreed_to() {
    let stage = DrillStage::usual().await;
    let words = ["test", "--drill", "--config", "toolgate.yaml"];
    let (code, out, err) = run(&stage.setup, &words).await;
    assert_eq!(code, 2, "{out}{err}");
    for said in [
        "shop__order by bot, taken back by shop__cancel",
        "at shop;",
        "say --yes",
    ] {
        assert!(err.contains(said), "{err}");
    }
    assert_eq!(stage.shop.server.executions(), 0, "not even a read");
    assert!(!stage.kept().exists());
}
