//! An undo whose tool an incident has frozen: nothing is sent, the operator reads why, and after the thaw it is made.

use super::{UndoStage, decision};
use serde_json::{Value, json};

/// 003-64, 003-41: an undo whose tool is frozen is refused with a word that leads somewhere, and is as it was offered;
/// nothing is sent before an operator asks again after the thaw.
#[tokio::test]
async fn a_frozen_undo_goes_on_after_the_thaw() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let open = [
        "incident",
        "open",
        "--tool",
        "bank__bin",
        "--why",
        "it bins too much",
    ];
    let (code, said) = stage.runs("rita", &open).await;
    assert_eq!(code, 0, "{said}");
    for words in [
        &["undo", &id, "--dry-run"][..],
        &["undo", &id, "--why", "a typo"],
        &["undo", &id, "--why", "again"],
    ] {
        let (code, said) = stage.runs("rita", words).await;
        assert_eq!(code, 1, "{words:?}: {said}");
        assert!(
            said.contains("bank__bin, which takes the call back, is taken away"),
            "{words:?}: {said}"
        );
    }
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    assert_eq!(stage.queued(&id).await, None, "it is as it was offered");
    // Its agent is no way around it.
    let own = stage
        .calls("bin", json!({ "id": 1, "name": "a", "of": id }), "own")
        .await;
    assert_eq!(own["error"]["code"], -32602, "{own}");
    assert_eq!(decision(&own), Value::Null, "{own}");
    // Over a restart, too.
    let stage = stage.again(|setup| setup).await;
    assert_eq!(stage.undoes(&id).await.0, 1);
    assert_eq!(stage.sent("bin"), Vec::<Value>::new());
    let close = ["incident", "close", "1", "--why", "mended", "--force"];
    let (code, said) = stage.runs("rita", &close).await;
    assert_eq!(code, 0, "{said}");
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 0 && said.contains("taken back by"), "{said}");
    assert_eq!(stage.sent("bin").len(), 1);
    assert_eq!(stage.queued(&id).await, None);
}
