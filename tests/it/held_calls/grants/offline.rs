//! What covers a call, asked where no toolgate answers: the files and the ledger say it in the same words.

use super::*;
use crate::harness::setup::Setup;

/// A tool, and arguments, of a call of `agent`.
fn question<'a>(agent: &'a str, tool: &'a str, arguments: &'a str) -> Vec<&'a str> {
    let call = ["--agent", agent, "--tenant", "t_1", "--tool", tool];
    [&call[..], &["--arguments", arguments]].concat()
}

/// What the files say of it: the exit code, what is printed, and what is said beside that.
async fn read(setup: &Setup, asked: &[&str]) -> (i32, String, String) {
    let words = [
        "approvals",
        "grants",
        "explain",
        "--config",
        "toolgate.yaml",
    ];
    run(setup, &[&words[..], asked].concat()).await
}

/// What the toolgate that runs says of it.
async fn told(stage: &HoldingGate, asked: &[&str]) -> String {
    let door = stage.gate.operators.to_string();
    let words = ["approvals", "grants", "explain", "--admin", &door];
    let setup = stage.gate.setup.operator(ANN);
    let (status, out, err) = run(&setup, &[&words[..], asked].concat()).await;
    assert_eq!((status, err.as_str()), (0, ""), "{asked:?}");
    out
}

/// A grant of up to 5, one whose only use is spent, and one that was taken back.
async fn three(stage: &HoldingGate) -> [String; 3] {
    let live = stage
        .grants(&["--at-most", "/n=5", "--total", "/n=6"])
        .await;
    let spent = stage.grants(&["--equals", "/n=7", "--uses", "1"]).await;
    assert_eq!(pays(stage, json!({ "n": 7 }), "k7").await, None);
    let gone = stage.grants(&["--at-most", "/n=9"]).await;
    stage.revokes(&gone).await;
    [live, spent, gone]
}

/// guarantees §7: what a toolgate says that runs is what its files and its ledger say without it, also beside
/// it: each condition that does not hold, with the place of the argument.
#[tokio::test]
async fn the_files_say_what_a_running_toolgate_says() {
    let stage = HoldingGate::granting().await;
    let [live, spent, gone] = three(&stage).await;
    let mut questions = vec![
        question("bot", "bank__pay", r#"{ "n": 5 }"#),
        question("bot", "bank__pay", r#"{ "n": 6, "to": "x" }"#),
        question("cat", "bank__pay", r#"{ "n": 7 }"#),
        question("bot", "bank__send", "{}"),
        vec![live.as_str()],
        vec![spent.as_str()],
        vec![gone.as_str()],
    ];
    let of_one = [&[live.as_str()][..], &questions[3]].concat();
    questions.push(of_one);
    let as_json: Vec<_> = questions
        .iter()
        .map(|asked| [&asked[..], &["--json"]].concat())
        .collect();
    questions.extend(as_json);
    let mut answers = Vec::new();
    for asked in &questions {
        let online = told(&stage, asked).await;
        let (status, offline, beside) = read(&stage.gate.setup, asked).await;
        assert_eq!((status, &offline), (0, &online), "{asked:?}: {beside}");
        assert!(beside.contains("read from toolgate.yaml"), "{beside}");
        assert_eq!(beside.lines().count(), 1, "{beside}");
        answers.push(online);
    }
    let covered = format!("covered by the grant {live}");
    assert!(answers[0].contains(&covered), "{}", answers[0]);
    let of = |answer: &str, id: &str| {
        let told: Value = serde_json::from_str(answer).unwrap();
        let mut grants = told["grants"].as_array().unwrap().iter();
        let one = grants.find(|one| one["id"] == *id).unwrap().clone();
        let fails = one["fails"].as_array().unwrap().iter();
        let fails = fails.map(|one| format!("{} {}", one["condition"], one["pointer"]));
        fails.collect::<Vec<_>>().join(", ").replace('"', "")
    };
    let wide = &answers[9];
    assert_eq!(of(wide, &live), "argument /n, argument /to");
    assert_eq!(of(wide, &spent), "uses null, argument /n, argument /to");
    assert_eq!(of(wide, &gone), "revoked null, argument /to");
    assert_eq!(of(&answers[10], &spent), "uses null, agent null");
    let other = "tool null, argument /n, total /n, contract null, irreversible null";
    assert_eq!(of(&answers[15], &live), other);
    // Less is left of the total than the call would move.
    assert_eq!(pays(&stage, json!({ "n": 4 }), "k4").await, None);
    let third = question("bot", "bank__pay", r#"{ "n": 3 }"#);
    let over = read(&stage.gate.setup, &[&third[..], &["--json"]].concat())
        .await
        .1;
    assert_eq!(of(&over, &live), "total /n");
    // And after its end.
    let setup = stage.gate.stop().await;
    for (asked, online) in questions.iter().zip(&answers).skip(2).take(2) {
        assert_eq!(&read(&setup, asked).await.1, online, "{asked:?}");
    }
}

/// guarantees §7: files that were changed end grants before any toolgate reads them, and `check` says which, why,
/// and what to do; what cannot be read says so, and is never another's.
#[tokio::test]
async fn changed_files_end_grants_before_they_are_in_force() {
    let stage = HoldingGate::granting().await;
    let id = stage.grants(&["--at-most", "/n=5"]).await;
    let setup = stage.gate.stop().await;
    let (status, checked, _) = run(&setup, &["check"]).await;
    assert!(
        status == 0 && !checked.contains("standing grant"),
        "{checked}"
    );
    let path = setup.directory().join("policy.yaml");
    let before = std::fs::read_to_string(&path).unwrap();
    let changed = before.replacen("Pay a bill.", "Pay a large bill.", 1);
    std::fs::write(&path, changed).unwrap();
    let (_, told, _) = read(&setup, &[&id]).await;
    assert!(
        told.contains("what the policy says of the tool has changed"),
        "{told}"
    );
    let (status, checked, _) = run(&setup, &["check"]).await;
    assert_eq!(status, 0, "it is a warning: {checked}");
    for words in [
        format!(
            "no call can be covered by the standing grant `{id}` of ann for bot, calls of bank__pay"
        ),
        "what the policy says of the tool has changed since it was granted".to_owned(),
        format!("`toolgate approvals grants revoke {id} --why …`"),
    ] {
        assert!(checked.contains(&words), "{words}: {checked}");
    }
    let (status, _, why) = read(&setup, &[&id, "--data", "nowhere"]).await;
    assert!(
        status == 2 && why.contains("there is no data directory"),
        "{why}"
    );
    std::fs::create_dir(setup.directory().join("empty")).unwrap();
    let (status, _, why) = read(&setup, &[&id, "--data", "empty"]).await;
    assert!(
        status == 1 && why.contains("forgotten or not found"),
        "{why}"
    );
    std::fs::write(&path, "contracts: [").unwrap();
    let (status, out, why) = read(&setup, &[&id]).await;
    assert!(
        status == 2 && out.is_empty() && why.contains("cannot be used"),
        "{why}"
    );
    std::fs::write(&path, before).unwrap();
    std::fs::rename(
        setup.directory().join("data/journal"),
        setup.directory().join("kept"),
    )
    .unwrap();
    std::fs::write(setup.directory().join("data/journal"), "").unwrap();
    let (status, checked, _) = run(&setup, &["check"]).await;
    assert!(
        status == 0 && checked.contains("note: standing grants were not looked at"),
        "{checked}"
    );
}
