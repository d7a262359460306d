//! What of a definition is pinned: every member of it.

use super::{approved, lists, setup};
use crate::harness::answer::code;
use crate::harness::gate::run;
use crate::harness::scripted_server::ScriptedServer;
use serde_json::json;

/// threat-model §3D D4: whatever of a definition changes, appears or goes, it is another
/// definition; the same again is none. A name that is misspelt gets a hint.
#[tokio::test]
async fn d4_every_member_of_a_definition_is_part_of_it() {
    let whole = json!({
        "name": "a", "description": "d", "title": "t", "annotations": { "readOnlyHint": true },
        "inputSchema": { "type": "object", "properties": { "x": { "type": "string", "description": "x" } } },
        "outputSchema": { "type": "object" }, "icons": [{ "src": "data:," }], "_meta": { "k": 1 },
        "execution": { "taskSupport": "optional" }, "new": null,
    });
    let scripted = ScriptedServer::with(vec![whole.clone()]).await;
    let setup = setup(&scripted, &["a"]);
    approved(&setup).await;
    for member in whole
        .as_object()
        .unwrap()
        .keys()
        .filter(|member| *member != "name")
    {
        let (mut other, mut gone) = (whole.clone(), whole.clone());
        match member.as_str() {
            "inputSchema" => other[member]["properties"]["x"]["description"] = json!("y"),
            "_meta" => other[member]["k"] = json!(2),
            "icons" => other[member][0]["src"] = json!("data:,x"),
            "description" | "title" | "new" => other[member] = json!("other"),
            _ => other[member]["more"] = json!(true),
        }
        gone.as_object_mut().unwrap().remove(member);
        for (changed, is_there) in [(other, true), (gone, false)] {
            scripted.changes_tools(vec![changed]).await;
            let (exit, said, _) = run(&setup, &["pins", "verify"]).await;
            let words = match (member.as_str(), is_there) {
                ("inputSchema", false) => {
                    "withheld oracle__a: approved, and now it is quarantined\n".to_owned()
                }
                _ => format!("drifted  oracle__a: {member}\n"),
            };
            assert!(exit == 1 && said.contains(&words), "{words}: {said}");
        }
    }
    scripted.changes_tools(vec![whole]).await;
    assert_eq!(run(&setup, &["pins", "verify"]).await.0, 0);
    let (exit, _, wrong) = run(&setup, &["pins", "approve", "orcale__a"]).await;
    assert!(
        exit == 1 && wrong.contains("no pin is of that name; did you mean `oracle__a`?"),
        "{wrong}"
    );
    let (exit, _, wrong) = run(&setup, &["pins", "approve"]).await;
    assert!(exit == 2 && wrong.contains("<TOOLS|--all>"), "{wrong}");
}

/// 002-04: an argument that its server comes to require, or no longer does, makes another
/// definition: the tool is withheld until an operator approves it, and then a call without the
/// argument is refused before anything is sent, or passes.
#[tokio::test]
async fn d4_what_is_required_is_part_of_what_was_approved() {
    let asking = |required: &[&str]| {
        let properties = json!({ "amount": { "type": "integer" }, "to": { "type": "string" } });
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        json!({ "name": "pay", "description": "does pay", "inputSchema": schema })
    };
    let scripted = ScriptedServer::with(vec![asking(&["amount"])]).await;
    let setup = setup(&scripted, &["pay"]);
    approved(&setup).await;
    let gate = setup.clone().start().await;
    let agent = gate.agent().at("/mcp/oracle");
    let mut sent = 0;
    for (required, words) in [
        (&["amount"][..], None),
        (
            &["amount", "to"],
            Some("expected the property `to` to be present. The tool did not run."),
        ),
        (&["amount"], None),
        (
            &["to"],
            Some("expected the property `to` to be present. The tool did not run."),
        ),
        (&[], None),
    ] {
        scripted.changes_tools(vec![asking(required)]).await;
        if required != ["amount"] || sent > 0 {
            lists(&gate, &[]).await;
            let withheld = agent.call("pay", json!({ "amount": 1, "to": "x" })).await;
            assert_eq!(
                code(&withheld).as_deref(),
                Some("tool_not_allowlisted"),
                "{required:?}: {withheld}"
            );
            assert_eq!(scripted.executions(), sent);
            approved(&setup).await;
        }
        lists(&gate, &["pay"]).await;
        let answer = agent.call("pay", json!({ "amount": 1 })).await;
        assert_eq!(
            code(&answer).as_deref(),
            words.map(|_| "schema_invalid"),
            "{required:?}: {answer}"
        );
        if let Some(words) = words {
            assert!(
                answer["result"]["content"][0]["text"]
                    .as_str()
                    .unwrap()
                    .contains(words),
                "{answer}"
            );
        }
        sent += usize::from(words.is_none());
        assert_eq!(scripted.executions(), sent, "{required:?}");
        assert_eq!(
            code(&agent.call("pay", json!({ "amount": 1, "to": "x" })).await),
            None
        );
        sent += 1;
    }
}

/// 002-03: an argument that becomes of another type makes another definition; once that is
/// approved, text that looks like a number is no number, nor a number text.
#[tokio::test]
async fn d4_what_type_an_argument_has_is_part_of_what_was_approved() {
    let asking = |kind: &str| {
        let properties = json!({ "amount": { "type": kind } });
        json!({ "name": "pay", "inputSchema": { "type": "object", "properties": properties } })
    };
    let scripted = ScriptedServer::with(vec![asking("string")]).await;
    let setup = setup(&scripted, &["pay"]);
    approved(&setup).await;
    let gate = setup.clone().start().await;
    let agent = gate.agent().at("/mcp/oracle");
    lists(&gate, &["pay"]).await;
    for (kind, fine, wrong) in [
        ("integer", json!(5), json!("5")),
        ("string", json!("5"), json!(5)),
    ] {
        let before = scripted.executions();
        scripted.changes_tools(vec![asking(kind)]).await;
        lists(&gate, &[]).await;
        let withheld = agent.call("pay", json!({ "amount": fine })).await;
        assert_eq!(
            code(&withheld).as_deref(),
            Some("tool_not_allowlisted"),
            "{kind}: {withheld}"
        );
        approved(&setup).await;
        lists(&gate, &["pay"]).await;
        let refused = agent.call("pay", json!({ "amount": wrong })).await;
        assert_eq!(
            code(&refused).as_deref(),
            Some("schema_invalid"),
            "{kind}: {refused}"
        );
        assert_eq!(scripted.executions(), before, "{kind}");
        assert_eq!(
            code(&agent.call("pay", json!({ "amount": fine })).await),
            None,
            "{kind}"
        );
        assert_eq!(scripted.executions(), before + 1, "{kind}");
    }
}
