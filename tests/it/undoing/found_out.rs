//! A call whose own answer is lost, and whose outcome a look or a person tells: its agent's own undo is that undo
//! all the same, and no operator makes a second one (003-64).

use super::{UndoStage, decision, done, keyed, name_of, policy};
use crate::harness::scripted_server::Reply;
use crate::harness::until;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot;

/// Nothing is looked at by itself.
const SLOW: &str = "reconcile: { every: 1h, older_than: 24h, settle: 24h }";

/// Drafts are binned by their names, which are arguments, and a look finds them.
pub(super) fn by_name() -> String {
    let plain = policy("ask: never");
    let named = plain.replacen(
        "arguments: { id: result#/id, name: arguments#/name, of: action# } } }",
        "arguments: { name: arguments#/name } } }, idempotency: { probe: { tool: bank__look, arguments: \
         { name: arguments#/name }, found: /there, absent_after: 1s } }",
        1,
    );
    assert_ne!(named, plain);
    named
}

/// A bank that takes a draft and loses its answer.
pub(super) async fn losing(policy: &str) -> UndoStage {
    let stage = UndoStage::set(policy, super::CALLERS, SLOW).await;
    stage.scripted.answers(|seen| match name_of(seen).as_str() {
        "draft" => Reply::Status(503),
        "look" => done(&json!({ "there": true })),
        _ => done(&json!({ "id": 1 })),
    });
    stage
}

/// Drafts; nobody knows what became of that. Gives the action id.
pub(super) async fn lost(stage: &UndoStage) -> String {
    let answer = stage.calls("draft", json!({ "name": "a" }), "k").await;
    assert_eq!(decision(&answer)["code"], "outcome_unknown", "{answer}");
    let id = decision(&answer)["action_id"].as_str().map(str::to_owned);
    id.unwrap_or_else(|| panic!("{answer}"))
}

async fn restarted(stage: UndoStage) -> UndoStage {
    let UndoStage { scripted, mut gate } = stage;
    gate.terminate();
    gate.wait().await;
    let gate = gate.setup.clone().start().await;
    UndoStage { scripted, gate }
}

/// Its agent has binned the draft; no operator bins it once more.
async fn is_binned_once(stage: &UndoStage, id: &str, told: &[&str]) {
    let (code, said) = stage.undoes(id).await;
    assert!(
        code == 1 && said.contains("its agent has taken the call back itself"),
        "{told:?}: {said}"
    );
    assert_eq!(stage.sent("bin").len(), 1, "{told:?}");
    assert_eq!(stage.row_of(id).await["tool"], "bank__bin", "{told:?}");
}

/// What the rollback takes of the arguments is known, also where a probe or an operator tells that the call was carried out, also after a
/// restart.
#[tokio::test]
async fn an_own_undo_of_a_call_that_was_found_is_the_undo() {
    for told in [
        ["ask"].as_slice(),
        &["resolve", "--applied", "--why", "seen"],
    ] {
        let stage = losing(&by_name()).await;
        let id = lost(&stage).await;
        let words = [&["calls", told[0], &id], &told[1..]].concat();
        let (code, said) = stage.runs("rita", &words).await;
        assert_eq!(code, 0, "{told:?}: {said}");
        let stage = restarted(stage).await;
        let own = stage.calls("bin", json!({ "name": "a" }), "own").await;
        assert_eq!(decision(&own)["outcome"], "answered", "{own}");
        is_binned_once(&stage, &id, told).await;
    }
}

/// Another name, and another agent, bin something else: the operator's undo is made.
#[tokio::test]
async fn nearly_the_same_call_is_no_undo_of_it() {
    for (agent, name) in [("bot", "b"), ("cat", "a")] {
        let stage = losing(&by_name()).await;
        let id = lost(&stage).await;
        assert_eq!(stage.runs("rita", &["calls", "ask", &id]).await.0, 0);
        let caller = if agent == "cat" {
            stage.cat()
        } else {
            stage.bot()
        };
        let call = keyed("bin", &json!({ "name": name }), "own");
        let answer = caller.modern("tools/call", call).await.message();
        assert_eq!(decision(&answer)["outcome"], "answered", "{answer}");
        let (code, said) = stage.undoes(&id).await;
        assert!(
            code == 0 && said.contains("taken back by"),
            "{agent} {name}: {said}"
        );
        assert_eq!(stage.sent("bin").len(), 2, "{agent} {name}");
    }
}

/// Where the rollback needs the result, an operator may have said that; where nobody has, no operator can make it,
/// either.
#[tokio::test]
async fn an_own_undo_of_what_an_operator_told_is_the_undo() {
    let bin = |id: &str| -> Value { json!({ "of": id, "name": "a", "id": 1 }) };
    let result = json!({ "content": [], "structuredContent": { "id": 1 } }).to_string();
    let stage = losing(&policy("ask: never")).await;
    let id = lost(&stage).await;
    let told = ["--applied", "--why", "seen", "--result", &result];
    let words = [&["calls", "resolve", &id], told.as_slice()].concat();
    let (code, said) = stage.runs("rita", &words).await;
    assert_eq!(code, 0, "{said}");
    let stage = restarted(stage).await;
    stage.calls("bin", bin(&id), "own").await;
    is_binned_once(&stage, &id, &told).await;

    let stage = losing(&policy("ask: never")).await;
    let id = lost(&stage).await;
    let words = ["calls", "resolve", &id, "--applied", "--why", "seen"];
    assert_eq!(stage.runs("rita", &words).await.0, 0);
    stage.calls("bin", bin(&id), "own").await;
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 1 && said.contains("cannot be made"), "{said}");
    assert_eq!(stage.sent("bin").len(), 1);
}

/// A bank that loses the answer to the first `bin`, and, where it says so, those to drafts.
async fn losing_bins(loses_drafts: bool) -> UndoStage {
    let stage = losing(&by_name()).await;
    let is_first = AtomicBool::new(true);
    stage
        .scripted
        .answers(move |seen| match name_of(seen).as_str() {
            "draft" if loses_drafts => Reply::Status(503),
            "bin" if is_first.swap(false, Ordering::SeqCst) => Reply::Status(503),
            _ => done(&json!({ "id": 1 })),
        });
    stage
}

/// Bins by its own will; nobody knows what became of that. Gives the action id.
async fn bins(stage: &UndoStage) -> String {
    let answer = stage.calls("bin", json!({ "name": "a" }), "own").await;
    assert_eq!(decision(&answer)["code"], "outcome_unknown", "{answer}");
    let id = decision(&answer)["action_id"].as_str().map(str::to_owned);
    id.unwrap_or_else(|| panic!("{answer}"))
}

async fn resolves(stage: &UndoStage, id: &str, word: &str) {
    let words = ["calls", "resolve", id, word, "--why", "seen"];
    let (code, said) = stage.runs("rita", &words).await;
    assert_eq!(code, 0, "{said}");
}

async fn waits_for_the_other(stage: &UndoStage, id: &str) {
    let body = json!({ "why": "a typo" });
    let (_, report) = stage.asks(super::RITA, id, &body).await;
    let told = (&report["state"], &report["code"]);
    let expected = (&json!("requested"), &json!("outcome_unknown"));
    assert_eq!(told, expected, "{report}");
}

/// An agent bins before it is known that its draft is there, so that nothing says that this is the undo. An operator's
/// undo waits until it is known what became of that, and is done by it where it ran.
#[tokio::test]
async fn an_equal_call_that_ran_is_the_undo() {
    for (word, sent) in [("--applied", 1), ("--not-applied", 2)] {
        let stage = losing_bins(true).await;
        let id = lost(&stage).await;
        let own = bins(&stage).await;
        resolves(&stage, &id, "--applied").await;
        waits_for_the_other(&stage, &id).await;
        resolves(&stage, &own, word).await;
        let (status, report) = stage
            .asks(super::RITA, &id, &json!({ "why": "a typo" }))
            .await;
        assert_eq!(
            (status, &report["state"]),
            (200, &json!("done")),
            "{report}"
        );
        assert_eq!(report["by"] == json!(own), sent == 1, "{word}: {report}");
        assert_eq!(stage.sent("bin").len(), sent, "{word}");
        let (_, listed) = stage.runs("rita", &["undo", "--list"]).await;
        assert!(listed.contains("no undo is asked for"), "{listed}");
        let (code, said) = stage.undoes(&id).await;
        assert!(code == 1 && said.contains("taken"), "{said}");
        assert_eq!(stage.sent("bin").len(), sent, "{word}");
    }
}

/// One that ran before there was a draft has not binned it: the undo is made.
#[tokio::test]
async fn an_equal_call_before_it_is_not_the_undo() {
    let stage = losing_bins(false).await;
    let before = bins(&stage).await;
    let id = stage.made("draft", "k").await;
    waits_for_the_other(&stage, &id).await;
    resolves(&stage, &before, "--applied").await;
    let (code, said) = stage.undoes(&id).await;
    assert!(code == 0 && said.contains("taken back by"), "{said}");
    assert_eq!(stage.sent("bin").len(), 2);
    assert_ne!(stage.row_of(&id).await["action_id"], json!(before));
}

/// Bins by its own will under `key`, and is answered. Gives the action id.
async fn binned(stage: &UndoStage, arguments: &Value, key: &str) -> String {
    let answer = stage.calls("bin", arguments.clone(), key).await;
    let id = decision(&answer)["action_id"].as_str().map(str::to_owned);
    id.unwrap_or_else(|| panic!("{answer}"))
}

async fn undone(stage: &UndoStage, id: &str) -> Value {
    let body = json!({ "why": "a typo" });
    let (status, report) = stage.asks(super::RITA, id, &body).await;
    let told = (status, &report["state"]);
    assert_eq!(told, (200, &json!("done")), "{report}");
    report
}

/// An agent bins, and is answered, before it is known that its draft is there: it is the undo all the same, be that told by
/// a look or by an operator, also after a restart.
#[tokio::test]
async fn an_own_undo_before_the_outcome_is_known_is_the_undo() {
    for told in [
        ["ask"].as_slice(),
        &["resolve", "--applied", "--why", "seen"],
    ] {
        let stage = losing(&by_name()).await;
        let id = lost(&stage).await;
        let own = binned(&stage, &json!({ "name": "a" }), "own").await;
        let (code, said) = stage.undoes(&id).await;
        assert!(code == 1 && said.contains("not known whether"), "{said}");
        let stage = restarted(stage).await;
        let words = [&["calls", told[0], &id], &told[1..]].concat();
        let (code, said) = stage.runs("rita", &words).await;
        assert_eq!(code, 0, "{told:?}: {said}");
        let dry = ["undo", &id, "--dry-run"];
        let (code, said) = stage.runs("rita", &dry).await;
        assert!(code == 1 && said.contains(&own), "{told:?}: {said}");
        let report = undone(&stage, &id).await;
        assert_eq!(report["by"], json!(own), "{report}");
        assert_eq!(stage.sent("bin").len(), 1, "{told:?}");
        let (code, said) = stage.undoes(&id).await;
        assert!(code == 1 && said.contains("its agent has taken"), "{said}");
        let shown = ["ledger", "show", &id, "--config", "toolgate.yaml"];
        let (_, shown, _) = super::run(&stage.gate.setup, &shown).await;
        assert!(shown.contains("done by its agent itself"), "{shown}");
    }
}

/// One call takes one draft back: of two of that name, whose outcomes were unknown then, an operator takes the other one back.
#[tokio::test]
async fn an_own_undo_is_that_of_one_call() {
    let stage = losing(&by_name()).await;
    // Its bank cannot say what became of a draft.
    stage.scripted.answers(|seen| match name_of(seen).as_str() {
        "draft" => Reply::Status(503),
        _ => done(&json!({ "id": 1 })),
    });
    let first = lost(&stage).await;
    let arguments = json!({ "name": "a", "text": "more" });
    let second = stage.calls("draft", arguments, "k2").await;
    assert_eq!(decision(&second)["code"], "outcome_unknown", "{second}");
    let second = decision(&second)["action_id"].as_str().unwrap().to_owned();
    let own = binned(&stage, &json!({ "name": "a" }), "own").await;
    for id in [&first, &second] {
        resolves(&stage, id, "--applied").await;
    }
    assert_eq!(undone(&stage, &first).await["by"], json!(own));
    assert_eq!(stage.sent("bin").len(), 1);
    let report = undone(&stage, &second).await;
    assert_ne!(report["by"], json!(own), "it has taken the first one back");
    assert_eq!(stage.sent("bin").len(), 2);
}

/// While the agent's own call is on its way, an operator's undo is not made; once it has ended it is the undo.
#[tokio::test]
async fn an_own_undo_on_its_way_stops_the_operators() {
    let stage = losing(&by_name()).await;
    let id = lost(&stage).await;
    let (release, late) = oneshot::channel();
    let late = Mutex::new(Some(late));
    stage.scripted.answers(move |seen| {
        let late = late.lock().unwrap().take_if(|_| name_of(seen) == "bin");
        late.map_or_else(|| done(&json!({ "there": true })), Reply::Later)
    });
    let arguments = json!({ "name": "a" });
    let operator = async {
        until("the agent's call", || async {
            (!stage.sent("bin").is_empty()).then_some(())
        })
        .await;
        resolves(&stage, &id, "--applied").await;
        for words in [&["--dry-run"][..], &["--why", "a typo"]] {
            let words = [&["undo", &id], words].concat();
            let (code, said) = stage.runs("rita", &words).await;
            assert!(code == 1 && said.contains("right now"), "{said}");
        }
        release.send(done(&json!({ "id": 1 }))).ok();
    };
    let (own, ()) = tokio::join!(binned(&stage, &arguments, "own"), operator);
    assert_eq!(undone(&stage, &id).await["by"], json!(own));
    assert_eq!(stage.sent("bin").len(), 1);
}

/// What has failed, and what was made before there was a draft, has not binned it.
#[tokio::test]
async fn an_own_call_that_did_not_bin_it_is_not_the_undo() {
    for is_before in [true, false] {
        let stage = losing(&by_name()).await;
        let failing = AtomicBool::new(!is_before);
        stage
            .scripted
            .answers(move |seen| match name_of(seen).as_str() {
                "draft" => Reply::Status(503),
                "bin" if failing.swap(false, Ordering::SeqCst) => super::failed(),
                _ => done(&json!({ "id": 1 })),
            });
        // From then on it is known that `bin` takes drafts back.
        let other = stage.calls("draft", json!({ "name": "z" }), "z").await;
        assert_eq!(decision(&other)["code"], "outcome_unknown", "{other}");
        let id = if is_before {
            binned(&stage, &json!({ "name": "a" }), "own").await;
            lost(&stage).await
        } else {
            let id = lost(&stage).await;
            binned(&stage, &json!({ "name": "a" }), "own").await;
            id
        };
        resolves(&stage, &id, "--applied").await;
        undone(&stage, &id).await;
        assert_eq!(stage.sent("bin").len(), 2, "before: {is_before}");
    }
}

/// What the undo needs of the result is known when an operator says it: the agent may have found it out before.
#[tokio::test]
async fn an_own_undo_by_what_was_found_out_is_the_undo() {
    let result = json!({ "content": [], "structuredContent": { "id": 1 } }).to_string();
    for (seen, sent) in [(1, 1), (2, 2)] {
        let stage = losing(&policy("ask: never")).await;
        let id = lost(&stage).await;
        let own = json!({ "of": id, "name": "a", "id": seen });
        binned(&stage, &own, "own").await;
        let told = ["--applied", "--why", "seen", "--result", &result];
        let words = [&["calls", "resolve", &id], told.as_slice()].concat();
        let (code, said) = stage.runs("rita", &words).await;
        assert_eq!(code, 0, "{said}");
        undone(&stage, &id).await;
        assert_eq!(stage.sent("bin").len(), sent, "{seen}");
    }
}
