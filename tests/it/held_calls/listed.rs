//! A held call is among the open ones, and is not an operator's to resolve.

use super::*;
use std::os::unix::fs::FileExt as _;

/// `toolgate calls` as an operator who resolves and reads all, with standard error.
async fn calls(stage: &HoldingGate, words: &[&str]) -> (i32, String) {
    stage.runs("uma", &[&["calls"], words].concat()).await
}

/// 003-46, 003-94: an operator who resolves calls, and may not see that one is held, is not told so in
/// the list of open ones either.
#[tokio::test]
async fn who_may_not_see_a_held_call_is_not_told_of_it() {
    let stage = HoldingGate::new().await;
    let id = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    for (operator, sees) in [("rita", false), ("uma", true)] {
        for words in [&["list", "--json"][..], &["list", "--state", "held"]] {
            let (code, listed) = stage.runs(operator, &[&["calls"], words].concat()).await;
            assert_eq!(code, 0, "{operator}: {listed}");
            assert_eq!(listed.contains(&id), sees, "{operator}: {listed}");
            assert_eq!(listed.contains("bank__pay"), sees, "{operator}: {listed}");
        }
    }
}

/// 003-46: `calls list` tells a held call, until when and what it waits for, not its
/// arguments; and no longer once it has run.
#[tokio::test]
async fn a_held_call_is_listed_as_open() {
    let stage = HoldingGate::new().await;
    let bot = stage.bot();
    let asks = json!({ "n": 1, "note": "nobody-else-reads-this" });
    let id = held(&call(&bot, "pay", asks.clone(), "k").await);
    let hold = stage.holds(1).await.remove(0);
    let (code, listed) = calls(&stage, &["list", "--json"]).await;
    assert_eq!(code, 0, "{listed}");
    assert!(!listed.contains("nobody-else-reads-this"), "{listed}");
    let open: Value = serde_json::from_str(listed.trim()).unwrap();
    assert_eq!(
        (
            &open["action_id"],
            &open["state"],
            &open["agent"],
            &open["tool"]
        ),
        (
            &json!(id),
            &json!("held"),
            &json!("bot"),
            &json!("bank__pay")
        )
    );
    assert_eq!(
        (&open["until"], &open["needs"]),
        (&hold["approve_by"], &json!("1 operator"))
    );
    let (_, table) = calls(&stage, &["list", "--state", "held"]).await;
    let until = hold["approve_by"].as_str().unwrap();
    assert!(
        table.contains(&format!("until {until}, needs 1 operator")),
        "{table}"
    );
    let (_, none) = calls(&stage, &["list", "--state", "unknown"]).await;
    assert_eq!(none, "no call is unknown\n");
    let (code, refused) = calls(&stage, &["resolve", &id, "--not-applied", "--why", "w"]).await;
    assert!(
        code == 1 && refused.contains("is held and has not run; `toolgate approvals`"),
        "{refused}"
    );
    stage.allows(&id).await;
    let (_, listed) = calls(&stage, &["list", "--json"]).await;
    let allowed: Value = serde_json::from_str(listed.trim()).unwrap();
    assert_eq!(allowed["needs"], "the agent to send it again");
    assert_eq!(
        crate::harness::answer::code(&call(&bot, "pay", asks, "k").await),
        None
    );
    let (_, listed) = calls(&stage, &["list"]).await;
    assert_eq!(
        listed,
        "nothing is open: no call is in flight, unknown or held\n"
    );
}

/// What `list` says of each call, in its order: id, state, and why.
fn told(listed: &str) -> Vec<[String; 3]> {
    let told = |line: &str| {
        let call: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{listed}"));
        ["action_id", "state", "why"].map(|key| call[key].as_str().unwrap_or("-").to_owned())
    };
    listed.lines().map(told).collect()
}

/// What is damaged is no end of the list: here a byte of `id`, which is then as it was.
async fn damaged(stage: &HoldingGate, id: &str) {
    let journal = stage.gate.path("data/journal/00000000000000000001.journal");
    let bytes = std::fs::read(&journal).unwrap();
    let mut places = bytes.windows(id.len());
    let place = places.position(|bytes| bytes == id.as_bytes()).unwrap();
    let file = std::fs::File::options().write(true).open(&journal).unwrap();
    file.write_all_at(b"-", place as u64).unwrap();
    let (code, listed) = calls(stage, &["list", "--all"]).await;
    file.write_all_at(&id.as_bytes()[..1], place as u64)
        .unwrap();
    assert!(code != 0 && listed.contains("journal at byte"), "{listed}");
}

/// 003-46, 003-94: `calls list --all` tells the calls that were carried out, those that are held and
/// those that were denied or that nobody decided about, each once and with its state;
/// `--state` and `--limit` choose. So it does while none runs.
#[tokio::test]
async fn all_calls_are_listed_with_their_states() {
    let stage = HoldingGate::with(
        &policy("").replace("[pay], permission: anyone, side_effect: { writes: bills, rollback: { tool: bank__undo } }, secrets: [], approval: { approvers: [finance] }",
            "[pay], permission: anyone, side_effect: { writes: bills, rollback: { tool: bank__undo } }, secrets: [], approval: { approvers: [finance], hold: 0s, approve_by: 1s }"),
        "enforce",
    )
    .await;
    let bot = stage.bot();
    let lapsed = held(&call(&bot, "slow", json!({ "n": 0 }), "k0").await);
    let free = call(&bot, "free", json!({ "n": 1 }), "k1").await;
    let [allowed, denied, open] = [
        call(&bot, "pay", json!({ "n": 2 }), "k2").await,
        call(&bot, "pay", json!({ "n": 3 }), "k3").await,
        call(&bot, "pay", json!({ "n": 4 }), "k4").await,
    ]
    .map(|answer| held(&answer));
    stage.allows(&allowed).await;
    let ran = call(&bot, "pay", json!({ "n": 2 }), "k2").await;
    let deny = ["deny", &denied, "--why", "not before Monday"];
    assert_eq!(stage.says("eve", &deny).await.0, 0);
    let id = |answer: &Value| decision(answer)["action_id"].as_str().unwrap().to_owned();
    let word = |id: &str, state: &str, why: &str| [id, state, why].map(str::to_owned);
    let (free, ran) = (
        word(&id(&free), "completed", "-"),
        word(&id(&ran), "completed", "-"),
    );
    let denied = word(&denied, "denied", "by the operator eve: not before Monday");
    let lapsed = word(&lapsed, "expired", "no operator decided in time");
    let open = word(&open, "held", "-");
    let all = until("the call to lapse", || async {
        let (code, listed) = calls(&stage, &["list", "--all", "--json"]).await;
        assert_eq!(code, 0, "{listed}");
        let all = told(&listed);
        all.contains(&lapsed).then_some(all)
    })
    .await;
    assert_eq!(all[0], open);
    let mut ended = all[1..].to_vec();
    ended.retain(|call| *call != lapsed);
    assert_eq!(ended, [free, ran, denied.clone()]);
    assert_eq!(all.len(), 5, "{all:?}");
    let (_, listed) = calls(&stage, &["list", "--state", "denied", "--json"]).await;
    assert_eq!(told(&listed), std::slice::from_ref(&denied));
    let (_, listed) = calls(&stage, &["list", "--all", "--limit", "2"]).await;
    assert!(
        listed.contains("2 of 4 ended calls; --limit 0 lists all"),
        "{listed}"
    );
    assert_eq!(listed.lines().count(), 1 + 3 + 1, "{listed}");
    damaged(&stage, &denied[0]).await;
    let stopped = stage.gate.stop().await;
    let line = [
        "calls",
        "list",
        "--all",
        "--json",
        "--config",
        "toolgate.yaml",
    ];
    let (code, listed, err) = run(&stopped, &line).await;
    assert_eq!((code, told(&listed)), (0, all), "{err}");
}
