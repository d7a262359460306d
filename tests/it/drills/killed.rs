//! A drill that is killed in its middle leaves what it has done, and the next one says so.

use super::DrillStage;
use super::shop::Habit;

/// Killed while the call is on its way, or the call that takes it back: what may be left was noted before it was
/// sent, and is told before anything else is.
#[tokio::test]
async fn a_killed_drill_says_what_it_may_have_left() {
    for (silent, words) in [
        ("order", "shop__order: was being called: it may have run"),
        ("cancel", "was being taken back: that may have run"),
    ] {
        let stage = DrillStage::usual().await;
        let before = stage.shop.has();
        stage.shop.habit(silent, Some(Habit::Silent));
        let arguments = ["test", "--drill", "--yes", "--config", "toolgate.yaml"];
        let mut drill = stage.setup.command(&arguments).spawn().unwrap();
        let is_sent =
            |seen: &crate::harness::scripted_server::Seen| seen.body["params"]["name"] == silent;
        stage.shop.server.sees(silent, is_sent).await;
        // Two at once would see each other's effects.
        let (code, said) = stage.drills(&[]).await;
        assert!(code == 1 && said.contains("another drill runs"), "{said}");
        drill.kill().await.unwrap();
        stage.shop.habit(silent, None);
        let orders = stage.shop.sent("order").len();
        let (code, said) = stage.drills(&[]).await;
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains("an earlier drill: shop__order") && said.contains(words),
            "{silent}: {said}"
        );
        assert!(said.contains(&stage.kept().display().to_string()), "{said}");
        assert_eq!(stage.shop.sent("order").len(), orders, "nothing is sent");
        let is_left = stage.shop.has() != before;
        assert_eq!(is_left, silent == "order");
        std::fs::remove_dir_all(stage.kept()).unwrap();
        assert_eq!(stage.drills(&[]).await.0, 0);
    }
}
