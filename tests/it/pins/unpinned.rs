//! Tools that nobody has approved yet, and those that look like others.

use super::{approved, lists, setup, taking};
use crate::harness::answer::code;
use crate::harness::gate::run;
use crate::harness::scripted_server::{ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;
use serde_json::json;

/// 002-16: a tool that is new is not offered before an operator approved it, even with a contract;
/// with `require: false` it is.
#[tokio::test]
async fn new_tools_are_withheld_unless_no_pin_is_required() {
    let scripted = ScriptedServer::with(vec![tool("old")]).await;
    let setup = setup(&scripted, &["old", "new"]);
    approved(&setup).await;
    scripted.changes_tools(vec![tool("old"), tool("new")]).await;
    let gate = setup.clone().start().await;
    lists(&gate, &["old"]).await;
    let (_, said, _) = run(&gate.stop().await, &["doctor"]).await;
    assert!(
        said.contains("problem  withheld: `oracle__new`: nobody has approved its definition"),
        "{said}"
    );

    let text = std::fs::read_to_string(setup.directory().join("toolgate.yaml")).unwrap();
    let lenient = text.replace("pins: toolgate.pins.yaml", "pins: { require: false }");
    std::fs::write(setup.directory().join("lenient.yaml"), lenient).unwrap();
    let verified = run(&setup, &["pins", "verify", "--config", "lenient.yaml"]).await;
    assert_eq!(verified.0, 0, "{verified:?}");
    let setup =
        Setup::clone(&setup).instead("pins: toolgate.pins.yaml", "pins: { require: false }");
    let gate = setup.start().await;
    lists(&gate, &["old", "new"]).await;
    scripted
        .changes_tools(vec![taking("old", "x"), tool("new")])
        .await;
    until("toolgate listens", || async {
        (scripted.listeners() > 0).then_some(())
    })
    .await;
    scripted
        .changes_tools(vec![taking("old", "x"), tool("new")])
        .await;
    lists(&gate, &["new"]).await;
}

/// 002-16, 003-35: packs and `explain` know that a tool which nobody has approved is withheld; what
/// its server says of it now they don't ask.
#[tokio::test]
async fn packs_know_of_tools_that_nobody_approved() {
    let scripted = ScriptedServer::with(["old", "new"].map(tool).to_vec()).await;
    let setup = setup(&scripted, &["old", "new"]);
    assert_eq!(run(&setup, &["pins", "approve", "oracle__old"]).await.0, 0);
    scripted.down();
    std::fs::create_dir(setup.directory().join("tests")).unwrap();
    let sample = |tool: &str, expect: &str| {
        format!(
            "  - {{ name: {tool}, caller: anonymous, tool: oracle__{tool}, expect: {expect} }}\n"
        )
    };
    for (expected, failing) in [("tool_not_allowlisted", false), ("allow", true)] {
        let pack = format!(
            "pack: pins\nsamples:\n{}{}",
            sample("old", "allow"),
            sample("new", expected)
        );
        std::fs::write(setup.directory().join("tests/pins.yaml"), pack).unwrap();
        let (_, said, _) = run(&setup, &["test", "tests"]).await;
        assert_eq!(
            said.contains("UNEXPECTED REJECT got=tool_not_allowlisted expect=allow"),
            failing,
            "{said}"
        );
        assert_eq!(
            said.contains("(pins: no operator has approved the definition)"),
            failing,
            "{said}"
        );
        assert_eq!(
            said.matches("  ok ").count(),
            if failing { 1 } else { 2 },
            "{said}"
        );
    }
    for (tool, refused) in [("old", false), ("new", true)] {
        let explain = [
            "explain",
            "--agent",
            "anonymous",
            "--tool",
            &format!("oracle__{tool}"),
        ];
        let (exit, said, _) = run(&setup, &explain).await;
        assert_eq!(exit, i32::from(refused), "{said}");
        let line = "  visible     refused  pins: no operator has approved the definition\n";
        assert_eq!(said.contains(line), refused, "{said}");
    }
}

/// design §2 `mode`: observe mode withholds nothing, and records what enforce mode would have
/// refused.
#[tokio::test]
async fn observe_mode_records_that_a_drifted_tool_would_be_refused() {
    let scripted = ScriptedServer::with(vec![tool("a")]).await;
    let setup = setup(&scripted, &["a"]).mode("observe");
    setup.write();
    approved(&setup).await;
    scripted.changes_tools(vec![taking("a", "x")]).await;
    let gate = setup.start().await;
    lists(&gate, &["a"]).await;
    assert_eq!(
        code(
            &gate
                .agent()
                .at("/mcp/oracle")
                .call("a", json!({ "x": 1 }))
                .await
        ),
        None
    );
    let entry = gate.entries(1).await.remove(0);
    assert_eq!(
        (&entry["outcome"], &entry["would_refuse"]),
        (&json!("answered"), &json!("tool_not_allowlisted"))
    );
    assert!(
        gate.log().contains("would be withheld in enforce mode"),
        "{}",
        gate.log()
    );
    assert!(
        gate.metric("toolgate_quarantined_tools{reason=\"drifted\"}")
            .await
            > 0.5
    );
}

/// threat-model §3D D1, D2, D3: names that are there twice or can be taken for each other are
/// withheld on both sides, within a server and between two; public names are looked up, so that `a`
/// with `b__c` is never `a__b` with `c`.
#[tokio::test]
async fn d1_lookalikes_are_withheld_on_both_sides() {
    let names = [
        "delete",
        "de1ete",
        "Item",
        "item",
        "hub_search",
        "b__c",
        "fine",
        "twice",
        "twice",
    ];
    let one = ScriptedServer::with(names.map(tool).to_vec()).await;
    let other = ScriptedServer::with(["search", "find"].map(tool).to_vec()).await;
    let setup = Setup::new()
        .server_with("git", &format!("url: \"{}\"", one.url()))
        .server_with("git_hub", &format!("url: \"{}\"", other.url()))
        .mode("observe");
    let gate = setup.start().await;
    let agent = gate.agent();
    assert_eq!(
        agent.tools().await,
        ["git__b__c", "git__fine", "git_hub__find"]
    );
    for (reason, count) in [("confusable", 2.0), ("twin", 4.0), ("collision", 2.0)] {
        let seen = gate
            .metric(&format!(
                "toolgate_quarantined_tools{{reason=\"{reason}\"}}"
            ))
            .await;
        assert!((seen - count).abs() < 0.1, "{reason}: {seen}");
    }
    assert_eq!(code(&agent.call("git__b__c", json!({})).await), None);
    assert_eq!(one.seen().last().unwrap().body["params"]["name"], "b__c");
    for name in [
        "git__delete",
        "git__twice",
        "git__hub_search",
        "git_hub__search",
    ] {
        assert_eq!(
            code(&agent.call(name, json!({})).await).as_deref(),
            Some("tool_not_allowlisted")
        );
    }
    let (_, said, _) = run(&gate.stop().await, &["doctor"]).await;
    for words in [
        "`git` is quarantined: `git__hub_search`: it can be taken for `git_hub__search` of the server `git_hub`",
        "`git_hub` is quarantined: `git_hub__search`: it can be taken for `git__hub_search` of the server `git`",
        "`git` is quarantined: `delete`: it can be taken for `de1ete` of the same server",
    ] {
        assert!(said.contains(words), "{said}");
    }
}
