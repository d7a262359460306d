//! Undos on the operators' page of calls: shown before they are made, listed while they are not done, dropped, and
//! for nobody whose roles do not undo calls.

use super::queued::failing;
use super::{RITA, UndoStage, failed};
use crate::approvals::pages::{field, sends, signs_in};
use crate::harness::answer::Answer;
use serde_json::Value;

const BOB: &str = "token-of-bob-who-looks-on";
const LIST: &str = "Undos that are not done";

/// An operator before the page.
struct SignedIn<'a> {
    stage: &'a UndoStage,
    cookie: String,
}

impl<'a> SignedIn<'a> {
    async fn on(stage: &'a UndoStage, token: &str) -> Self {
        let cookie = signs_in(&stage.gate, token).await;
        Self { stage, cookie }
    }

    /// The page, at that path.
    async fn page(&self, path: &str) -> String {
        let signed = [("Cookie", self.cookie.as_str())];
        let gate = &self.stage.gate;
        let answer = gate.asks_operators(("GET", path), &signed, "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.text()
    }

    /// Sends the form with that verdict on a call; `secret` is that of a form of this operator's.
    async fn says(&self, secret: &str, verdict: &str, id: &str) -> Answer {
        let form = [
            ("form_secret", secret),
            ("action", id),
            ("verdict", verdict),
            ("why", "binned by hand"),
        ];
        let signed = [("Cookie", self.cookie.as_str())];
        sends(&self.stage.gate, "/calls/undo", &form, &signed).await
    }
}

/// The call and until when are shown, nothing is sent and nothing is asked for.
#[tokio::test]
async fn the_page_shows_what_would_be_called() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let rita = SignedIn::on(&stage, RITA).await;
    let page = rita.page("/calls").await;
    assert!(!page.contains(LIST), "{page}");
    let secret = field(&page, "form_secret");
    let shown = rita.says(&secret, "show", &id).await;
    let text = shown.text();
    assert_eq!(shown.status, 200, "{text}");
    for part in ["Nothing was sent. It would call bank__bin", ", until 20"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    assert_eq!(stage.queued(&id).await, None);
    for (verdict, of, status) in [
        ("undoo", id.as_str(), 400),
        ("undo", "no-id", 400),
        ("drop", id.as_str(), 409),
    ] {
        let answer = rita.says(&secret, verdict, of).await;
        assert_eq!(answer.status, status, "{verdict} {of}");
        assert!(answer.text().contains("Nothing was done"), "{answer:?}");
    }
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
}

/// One that has failed is listed with what is to be done, until it is dropped; then nothing is called for it.
#[tokio::test]
async fn the_page_lists_and_drops_what_is_not_done() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    failing(&stage, 1, failed);
    let rita = SignedIn::on(&stage, RITA).await;
    let secret = field(&rita.page("/calls").await, "form_secret");
    let made = rita.says(&secret, "undo", &id).await;
    let text = made.text();
    assert!(
        made.status == 200 && text.contains("It is failed"),
        "{text}"
    );
    let page = rita.page("/calls").await;
    for part in [LIST, &id, "tries again", "Done by hand, or not at all"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let dropped = rita.says(&secret, "drop", &id).await;
    let text = dropped.text();
    assert!(
        dropped.status == 200 && text.contains("It was dropped"),
        "{text}"
    );
    assert!(!text.contains(LIST), "{text}");
    assert_eq!(stage.queued(&id).await, None);
    assert_eq!(stage.sent("bin").len(), 1);
}

/// An operator whose roles do not undo calls has no form, and with one sent all the same nothing is done.
#[tokio::test]
async fn the_page_takes_the_role() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    failing(&stage, 1, failed);
    assert_eq!(stage.undoes(&id).await.0, 1);
    let bob = SignedIn::on(&stage, BOB).await;
    let page = bob.page("/calls").await;
    assert!(
        !page.contains("/calls/undo") && !page.contains(&id),
        "{page}"
    );
    // Every form of a sign-in has one secret.
    let secret = field(&page, "form_secret");
    for verdict in ["show", "undo", "drop"] {
        let answer = bob.says(&secret, verdict, &id).await;
        let text = answer.text();
        assert_eq!(answer.status, 403, "{verdict}: {text}");
        assert!(text.contains("your roles do not undo calls"), "{text}");
    }
    assert_eq!(stage.sent("bin").len(), 1);
    assert_eq!(stage.queued(&id).await.as_deref(), Some("failed"));
}
