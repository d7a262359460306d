//! For whom a call was, as policies, hooks and the ledger know it.

use super::{CALLERS, FRONT_ENDS, bot, call_for, order, orders, shop};
use crate::harness::answer::code;
use crate::harness::gate::{run, runs};
use crate::harness::setup::{Setup, contract, undo};
use crate::harness::tool_server::{Behaviour, Script};
use serde_json::{Value, json};

/// 003-67: an entry has the user and the agent, and that of a call without a user the agent alone;
/// lists show and find both.
#[tokio::test]
async fn the_ledger_has_the_user() {
    let server = orders(Behaviour::Answers).await;
    let gate = shop(&server, "").start().await;
    let call = || order(json!({ "sku": "a" }), None);
    for user in ["ada", "bob"] {
        call_for(&bot(&gate), user, call()).await;
    }
    bot(&gate).ask("tools/call", call()).await;
    let of = |entry: &Value| [entry["user_id"].clone(), entry["agent_id"].clone()];
    let entries: Vec<_> = gate.entries(3).await.iter().map(of).collect();
    let bot_id = json!("bot");
    let expected = [
        [json!("ada"), bot_id.clone()],
        [json!("bob"), bot_id.clone()],
        [bot_id, Value::Null],
    ];
    assert_eq!(entries, expected);
    let listed = async |more: &[&str]| {
        let args = [&["ledger", "list", "--data", "data"], more].concat();
        let (status, out, err) = run(&gate.setup, &args).await;
        assert_eq!(status, 0, "{err}");
        out
    };
    let of_ada = listed(&["--user", "ada"]).await;
    assert!(
        of_ada.contains("bot for ada") && !of_ada.contains("bob"),
        "{of_ada}"
    );
    let of_agent = listed(&["--agent", "bot", "--json"]).await;
    assert_eq!(of_agent.lines().count(), 3, "{of_agent}");
    assert_eq!(listed(&["--user", "bot", "--json"]).await, "");
    // Two that name a user and one that names none; whom, no metric says.
    let counted = gate.operators("/metrics").await;
    for line in [
        r#"toolgate_user_calls_total{user="named"} 2"#,
        r#"toolgate_user_calls_total{user="unnamed"} 1"#,
    ] {
        assert!(counted.lines().any(|said| said == line), "{counted}");
    }
    assert!(
        !counted.contains("ada") && !counted.contains("bob"),
        "{counted}"
    );
}

/// 003-48, 001-46: rules and patterns know the user, and reach nothing for nobody.
#[tokio::test]
async fn policies_know_the_user() {
    let tools = ["file", "rule"];
    let script = tools.iter().fold(Script::new(), |script, name| {
        script.tool(name, Behaviour::Answers)
    });
    let server = script.start().await;
    let reach =
        "permission: { resource: { pointer: /path, allow: [\"home/{user}/*\", \"{user}\"] } }";
    let rules = ", rules: [ { when: \"caller.user == null || caller.user == 'eve'\", code: not_for_you, expected: a user } ]";
    let policy = format!(
        "contracts:\n  shop__file: {}\n  shop__rule: {}\n{}\n",
        contract("shop__file", "write", &format!(", {reach}")),
        contract("shop__rule", "write", rules),
        undo("shop__file")
    );
    let setup = Setup::new().server("shop", &server).policy(&policy);
    let gate = setup.callers(CALLERS).more(FRONT_ENDS).start().await;
    let agent = bot(&gate);
    let reaches = async |user: &str, path: &str| {
        let call = json!({ "name": "shop__file", "arguments": { "path": path } });
        code(&call_for(&agent, user, call).await)
    };
    for path in ["home/ada/notes", "ada"] {
        assert_eq!(reaches("ada", path).await, None, "{path}");
    }
    for (user, path) in [
        ("ada", "home/bob/notes"),
        ("ada", "home/ada/../bob/notes"),
        ("Ada", "home/ada/notes"),
        ("*", "home/ada/notes"),
        ("../ada", "../ada"),
        ("ada/x", "home/ada/x/notes"),
        ("..", "home/../notes"),
    ] {
        let refused = reaches(user, path).await;
        assert_eq!(refused.as_deref(), Some("resource_denied"), "{user} {path}");
    }
    let file = json!({ "name": "shop__file", "arguments": { "path": "home//notes" } });
    let nobody = agent.ask("tools/call", file).await;
    assert_eq!(code(&nobody).as_deref(), Some("resource_denied"));
    let rule = || json!({ "name": "shop__rule", "arguments": {} });
    assert_eq!(code(&call_for(&agent, "ada", rule()).await), None);
    for answer in [
        call_for(&agent, "eve", rule()).await,
        agent.ask("tools/call", rule()).await,
    ] {
        assert_eq!(code(&answer).as_deref(), Some("not_for_you"), "{answer}");
    }
}

/// 001-46: a pack's sample and `explain` name the user as a call does.
#[tokio::test]
async fn samples_name_the_user() {
    let server = Script::new().tool("rule", Behaviour::Answers).start().await;
    let rules = ", rules: [ { when: \"caller.user != 'ada'\", code: not_for_you, expected: ada } ]";
    let policy = format!(
        "contracts:\n  shop__rule: {}\n{}\n",
        contract("shop__rule", "write", rules),
        undo("shop__rule")
    );
    let setup = Setup::new().server("shop", &server).policy(&policy);
    let setup = setup.callers(CALLERS).more(FRONT_ENDS);
    setup.write();
    let pack = "pack: users\nsamples:\n  \
        - { name: hers, caller: bot, user: ada, tool: shop__rule, expect: allow }\n  \
        - { name: his, caller: bot, user: bob, tool: shop__rule, expect: not_for_you }\n  \
        - { name: no one, caller: bot, tool: shop__rule, expect: not_for_you }\n";
    let path = setup.directory().join("users.yaml");
    let test = ["test", "--config", "toolgate.yaml", "users.yaml"];
    let wrong = async |pack: &str| {
        std::fs::write(&path, pack).unwrap();
        let ended = setup.run(&test).await;
        let out = String::from_utf8_lossy(&ended.stdout).into_owned();
        (
            out.matches("  ok  ").count(),
            out.matches("  FAIL  ").count(),
        )
    };
    assert_eq!(wrong(pack).await, (3, 0));
    let swapped = pack.replace("ada", "eve").replace("bob", "ada");
    assert_eq!(wrong(&swapped).await, (1, 2));
    for (user, code) in [("ada", 0), ("bob", 1)] {
        let explain = "explain --config toolgate.yaml --agent bot --tool shop__rule --user";
        let (status, out, _) = runs(&setup, &format!("{explain} {user}")).await;
        assert_eq!(status, code, "{user}: {out}");
    }
}
