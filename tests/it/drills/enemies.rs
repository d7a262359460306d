//! Tool servers whose undo is none, and reads that show nothing.

use super::shop::Habit;
use super::{BOOKS, DrillStage, of, order, policy, tip};
use serde_json::{Value, json};

/// 003-P4f: an undo that is answered well and has done nothing, or half of it, is found, with the fields that
/// differ; what it has left is named, and no drill begins before that was looked at.
#[tokio::test]
async fn an_undo_that_leaves_something_is_found() {
    for (habit, fields) in [(Habit::Idle, "/balance, /stock"), (Habit::Half, "/stock")] {
        let stage = DrillStage::usual().await;
        stage.shop.habit("cancel", Some(habit));
        let (code, said) = stage.drills(&[]).await;
        assert_eq!(code, 1, "{said}");
        let words = format!("and yet differs: {fields}\n");
        assert!(said.contains(&words), "{habit:?}: {said}");
        let kept = stage.kept();
        assert!(
            kept.exists() && said.contains(&kept.display().to_string()),
            "{said}"
        );
        stage.shop.habit("cancel", None);
        let (code, said) = stage.drills(&[]).await;
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains("an earlier drill: shop__order (") && said.contains("an effect is left"),
            "{said}"
        );
        assert_eq!(stage.shop.sent("order").len(), 1, "nothing more is sent");
        std::fs::remove_dir_all(&kept).unwrap();
        assert_eq!(stage.drills(&[]).await.0, 0);
    }
}

/// An undo whose answer is lost: nobody knows, which is no failure. Nothing more is drilled, and the report
/// says where to look.
#[tokio::test]
async fn an_undo_of_which_nobody_knows_ends_the_drills() {
    let stage = DrillStage::new(&policy("", ""), &(order(BOOKS) + &tip(BOOKS))).await;
    stage.shop.habit("cancel", Some(Habit::Lost));
    let (code, report) = stage.report(&[]).await;
    assert_eq!(code, 3, "{report}");
    let row = of(&report, "shop__order");
    assert_eq!(
        (&row["state"], &row["undone"], &row["left"]),
        (&json!("unknown"), &json!("unknown"), &json!(true)),
        "{row}"
    );
    let next = of(&report, "shop__tip");
    assert_eq!(next["state"], "not_drilled", "{report}");
    assert_eq!(stage.shop.sent("tip"), Vec::<Value>::new());
    assert_eq!(report["kept"], json!(stage.kept()));
    // What was called can be read there.
    let data = stage.kept().join("data");
    let words = ["ledger", "list", "--json", "--data", data.to_str().unwrap()];
    let (code, rows, _) = crate::harness::gate::run(&stage.setup, &words).await;
    assert!(
        code == 0 && rows.contains(row["action_id"].as_str().unwrap()),
        "{rows}"
    );
}

/// A call of which nobody knows whether it has run is not taken back on a guess.
#[tokio::test]
async fn a_call_of_which_nobody_knows_is_left_alone() {
    let stage = DrillStage::usual().await;
    stage.shop.habit("order", Some(Habit::Lost));
    let (code, said) = stage.drills(&[]).await;
    assert_eq!(code, 3, "{said}");
    assert!(
        said.contains("it is not known whether the call has run"),
        "{said}"
    );
    assert_eq!(stage.shop.sent("cancel"), Vec::<Value>::new());
    let (code, said) = stage.drills(&[]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("an earlier drill: shop__order"), "{said}");
}

/// An undo that its tool server refuses, and a call that it refuses: the first leaves an effect, the second
/// none.
#[tokio::test]
async fn what_the_tool_server_refuses_fails() {
    let stage = DrillStage::usual().await;
    stage.shop.habit("cancel", Some(Habit::Locked));
    let (code, report) = stage.report(&[]).await;
    let row = of(&report, "shop__order");
    assert_eq!(
        (code, &row["state"], &row["undone"], &row["left"]),
        (1, &json!("failed"), &json!("failed"), &json!(true)),
        "{report}"
    );
    let stage = DrillStage::usual().await;
    stage.shop.habit("order", Some(Habit::Locked));
    let (code, report) = stage.report(&[]).await;
    let row = of(&report, "shop__order");
    assert_eq!(
        (code, &row["state"], &row["left"]),
        (1, &json!("failed"), &json!(false)),
        "{report}"
    );
    assert!(!stage.kept().exists());
    assert_eq!(stage.shop.sent("cancel"), Vec::<Value>::new());
}

/// Books that change by themselves prove nothing, so that nothing is called; fields that the call does not
/// change prove nothing either, and that is known only once it was made and taken back.
#[tokio::test]
async fn a_read_that_shows_nothing_proves_nothing() {
    let stage = DrillStage::usual().await;
    stage.shop.habit("books", Some(Habit::Restless));
    let (code, said) = stage.drills(&[]).await;
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("the baseline changes by itself") && said.contains("/balance\n"),
        "{said}"
    );
    assert_eq!(stage.shop.sent("order"), Vec::<Value>::new());
    assert_eq!(stage.drills(&["--require-all"]).await.0, 1);
    for (fields, why) in [
        ("/name", "the effect cannot be seen"),
        ("/none", "the baseline has none of its fields"),
    ] {
        let drill = format!("{{ baseline: {{ tool: shop__books, fields: [{fields}] }} }}");
        let stage = DrillStage::new(&policy("", ""), &order(&drill)).await;
        let before = stage.shop.has();
        let (code, said) = stage.drills(&[]).await;
        assert!(code == 1 && said.contains(why), "{said}");
        assert_eq!(stage.shop.has(), before, "it was taken back all the same");
    }
}
