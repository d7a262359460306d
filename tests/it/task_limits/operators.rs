//! `toolgate tasks`: what operators see of tasks, and make of them.

use super::*;

/// 003-04, 003-09: operators see what a task has used and done; one who stops it is named with the
/// reason, which the task's agent reads; one who resets it gives it its budget back.
#[tokio::test]
async fn operators_stop_and_reset_tasks() {
    let bank = Bank::with("budgets: { global: { max_tool_calls: 3 } }\n").await;
    let agent = bank.agent();
    let first = codes(&agent, "bank__note", 4, |n| json!({ "n": n })).await;
    assert_eq!(first, ["", "", "", "budget_exceeded"]);
    let task = bank.task().await;
    let id = task["id"].as_str().unwrap();
    assert_eq!(
        (&task["steps"], &task["tool_calls"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(task["named_by"], "agent", "{task}");
    assert_eq!(task["done"].as_array().unwrap().len(), 3, "{task}");

    let (status, reset) = bank
        .says(&["tasks", "reset", id, "--why", "it goes on"])
        .await;
    assert_eq!(status, 0, "{reset}");
    let again = codes(&agent, "bank__note", 1, |n| json!({ "again": n })).await;
    assert_eq!(again, [""], "it has its budget back");

    let (status, stopped) = bank
        .says(&["tasks", "stop", &id[..8], "--why", "wrong books"])
        .await;
    assert_eq!(status, 0, "{stopped}");
    for tool in ["bank__note", "bank__look"] {
        let refused = anew(&agent, tool, json!({ "n": 9 })).await;
        assert_eq!(code(&refused).as_deref(), Some("task_stopped"), "{refused}");
        let words = refused["result"]["content"][0]["text"].as_str().unwrap();
        assert!(words.contains("wrong books"), "{words}");
    }
    let (status, shown) = bank.says(&["tasks", "show", id, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (status, &shown["stopped"]["who"]),
        (0, &json!("ann")),
        "{shown}"
    );
    assert_eq!(shown["stopped"]["why"], "wrong books");
    assert_eq!(bank.server.executions(), 4);
    let entries = bank.gate.ledger().await;
    let refused = entries
        .iter()
        .filter(|entry| entry["aborted_reason"] == "task_stopped");
    let stages: Vec<_> = refused.map(|entry| &entry["stage"]).collect();
    assert_eq!(stages, ["repetition", "repetition"]);

    let setup = bank.gate.stop().await;
    names_who_and_why(&setup).await;
    let reset = [
        "tasks",
        "reset",
        id,
        "--why",
        "the books are right",
        "--config",
        "toolgate.yaml",
    ];
    let (status, out, err) = run(&setup, &reset).await;
    assert_eq!(status, 0, "without a running toolgate: {out}{err}");
    let gate = setup.start().await;
    let goes_on = gate.agent().call("bank__look", json!({})).await;
    assert_eq!(code(&goes_on), None, "{goes_on}");
}

/// Both words of [`operators_stop_and_reset_tasks`] stand in the ledger for good.
async fn names_who_and_why(setup: &Setup) {
    let (status, exported, _) = run(setup, &["ledger", "export", "--data", "data"]).await;
    assert_eq!(status, 0);
    for (act, why) in [("reset", "it goes on"), ("stop", "wrong books")] {
        let words = ["steered", "ann", act, why];
        let is_it = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(exported.lines().any(is_it), "{act}: {exported}");
    }
}

/// 003-09: operators see the reads of a task that nothing limits, each of them and at once, and still
/// after toolgate has ended; a task that is stopped between two reads makes no more.
#[tokio::test]
async fn operators_see_what_a_task_has_read() {
    let mut bank = Bank::with("").await;
    for (already, calls) in [(0, 40), (40, 1)] {
        let read = codes(&bank.agent(), "bank__look", calls, |n| json!({ "n": n })).await;
        assert_eq!(read, vec![""; calls]);
        if already == 0 {
            assert_eq!(bank.task().await["steps"], 40);
        }
        let gate = bank.gate.stop().await.start().await;
        bank = Bank { gate, ..bank };
        let task = bank.task().await;
        assert_eq!(task["tool_calls"], json!(already + calls), "{task}");
    }
    let id = bank.task().await["id"].as_str().unwrap().to_owned();
    let look = || async { anew(&bank.agent(), "bank__look", json!({})).await };
    assert_eq!(code(&look().await), None);
    let (status, said) = bank.says(&["tasks", "stop", &id, "--why", "enough"]).await;
    assert_eq!(status, 0, "{said}");
    assert_eq!(code(&look().await).as_deref(), Some("task_stopped"));
    assert_eq!(bank.server.executions(), 42);
}

/// 003-09: a task that is stopped while one of its calls is held runs that no more, though an
/// operator has allowed it.
#[tokio::test]
async fn what_is_held_of_a_stopped_task_does_not_run() {
    let contracts = CONTRACTS.replace("actions: [write]", "actions: [pay]");
    let bank = Bank::of(&contracts, "").await;
    let agent = bank.agent();
    assert_eq!(code(&agent.call("bank__look", json!({})).await), None);
    let id = bank.task().await["id"].as_str().unwrap().to_owned();
    let stop_and_allow = async {
        until("a hold", || async {
            let (_, listed) = bank.says(&["approvals", "list", "--json"]).await;
            listed.contains("pending").then_some(())
        })
        .await;
        let (status, said) = bank
            .says(&["tasks", "stop", &id, "--why", "a false bill"])
            .await;
        assert_eq!(status, 0, "{said}");
        bank.allows_one().await
    };
    let (held, _) = tokio::join!(agent.call("bank__note", json!({ "n": 1 })), stop_and_allow);
    assert_eq!(code(&held).as_deref(), Some("task_stopped"), "{held}");
    assert_eq!(bank.server.executions(), 1);
}

/// Who may not is told what to do, and nothing happens; so is one who names no task.
#[tokio::test]
async fn only_operators_with_the_role_change_tasks() {
    let bank = Bank::with("").await;
    assert_eq!(
        code(&bank.agent().call("bank__look", json!({})).await),
        None
    );
    let id = bank.task().await["id"].as_str().unwrap().to_owned();
    for (who, words, told) in [
        ("bob", &["tasks", "stop", &id, "--why", "w"][..], "switch"),
        ("bob", &["tasks", "list"], "switch"),
        (
            "ann",
            &["tasks", "stop", "0123456789", "--why", "w"],
            "there is no task",
        ),
        (
            "ann",
            &["tasks", "stop", "nothing", "--why", "w"],
            "hex digits",
        ),
        ("ann", &["tasks", "stop", &id, "--why", " "], "say why"),
    ] {
        let (status, said) = bank.says_as(who, words).await;
        assert!(
            status == 1 && said.contains(told),
            "{who} {words:?}: {status} {said}"
        );
    }
    let goes_on = bank.agent().call("bank__look", json!({ "n": 2 })).await;
    assert_eq!(code(&goes_on), None, "{goes_on}");
    let (status, table) = bank.says(&["tasks", "list"]).await;
    assert!(status == 0 && table.starts_with("TASK"), "{table}");
    let (_, others) = bank.says(&["tasks", "list", "--agent", "nobody"]).await;
    assert_eq!(others, "no task of `nobody` has done anything\n");
}

/// threat-model §3E E5: what nobody sees of a name is written out where operators read it.
#[tokio::test]
async fn what_hides_in_a_name_is_written_out() {
    let bank = Bank::with("").await;
    let meta = json!({ "dev.toolgate/task": "month\u{fe0f}\u{202e}\u{1107f}" });
    let note = json!({ "name": "bank__note", "arguments": { "n": 1 }, "_meta": meta });
    let noted = bank.agent().ask("tools/call", note).await;
    assert_eq!(code(&noted), None, "{noted}");
    let written = r"month\u{fe0f}\u{202e}\u{1107f}";
    let (status, listed) = bank.says(&["tasks", "list"]).await;
    assert!(status == 0 && listed.contains(written), "{listed}");
    let (status, shown) = bank.says(&["tasks", "show", &bank.id().await]).await;
    assert!(status == 0 && shown.contains(written), "{shown}");
    let (_, listed) = bank.says(&["tasks", "list", "--json"]).await;
    assert!(!listed.contains('\u{202e}'), "{listed}");
}
