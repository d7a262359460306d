//! Tool policies of OpenClaw, and what they become.

use super::*;
use crate::guards::allowlist::written::LayerEnvironment;
use crate::guards::allowlist::{Rule, Settings};
use crate::guards::{Mode, ToolRules};
use crate::model::caller::Caller;
use crate::model::diagnostic::Problems;
use crate::model::ids::ToolName;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

const TOOLS: &[&str] = &["fs__read", "fs__Write", "web__get", "db__drop"];

fn visible(layers: &Value, caller: &Caller) -> Vec<&'static str> {
    let settings: Settings =
        serde_json::from_value(layers.clone()).unwrap_or_else(|error| panic!("{error}: {layers}"));
    let mut problems = Problems::default();
    let layers = settings.compile(&LayerEnvironment::default(), &mut problems);
    assert_eq!(problems.into_found(), []);
    let contracts: HashMap<_, _> = TOOLS
        .iter()
        .map(|tool| (ToolName::new(tool), Arc::new(ToolRules::default())))
        .collect();
    let rule = Rule::new(Mode::Enforce, layers, contracts);
    TOOLS
        .iter()
        .filter(|tool| rule.admit(caller, &ToolName::new(tool)).is_ok())
        .copied()
        .collect()
}

fn agent() -> Caller {
    let (profile, group) = (Some("coding".to_owned()), Some("support".to_owned()));
    Caller {
        profile,
        group,
        model: Some("acme/one".to_owned()),
        ..Caller::named("main")
    }
}

/// 001-14: both sets of labels, and the places in the configuration, become the same layers.
#[test]
fn labels_of_both_sets_and_places_become_the_same_layers() {
    let lists = |deny: &str| json!({ "allow": ["*"], "deny": [deny] });
    let document = json!({
        "tools.profile (coding)": lists("a__*"),
        "tools.provider-profile (coding)": { "acme": lists("b__*") },
        "group tools.allow (support)": lists("c__*"),
        "tools.global": lists("d__*"),
        "tools.global-provider": { "acme/one": lists("e__*") },
        "tools.agent (main)": lists("f__*"),
        "tools.agent-provider (main)": { "acme": lists("g__*") },
        "sandbox tools.allow": lists("h__*"),
        "subagent tools.allow": lists("i__*"),
    });
    let code = json!({
        "subagent tools.allow": lists("i__*"),
        "sandbox tools.allow": lists("h__*"),
        "agents.main.tools.byProvider.allow": { "acme": lists("g__*") },
        "agents.main.tools.allow": lists("f__*"),
        "tools.byProvider.allow": { "acme/one": lists("e__*") },
        "tools.allow": lists("d__*"),
        "group tools.allow (support)": lists("c__*"),
        "tools.byProvider.profile (coding)": { "acme": lists("b__*") },
        "tools.profile (coding)": lists("a__*"),
    });
    let [document, code] = [document, code].map(|tree| openclaw::import(&tree));
    assert_eq!(document.lost, [""; 0]);
    assert_eq!(document.layers, code.layers);
    let all = document.layers.to_string();
    for deny in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        assert!(all.contains(&format!("\"{deny}__*\"")), "{all}");
    }

    let places = openclaw::import(&json!({
        "tools": {
            "allow": ["*"], "deny": ["d__*"], "byProvider": { "acme/one": lists("e__*") },
            "sandbox": { "tools": lists("h__*") }, "subagents": { "tools": lists("i__*") },
        },
        "agents": { "list": [ { "id": "main", "tools": { "allow": ["*"], "deny": ["f__*"], "byProvider": { "acme": lists("g__*") } } } ] },
        "channels": { "chat": { "groups": { "support": { "tools": lists("c__*") } } } },
    }));
    let mut labels = document.layers;
    labels.as_object_mut().unwrap().shift_remove("profile");
    assert_eq!(places.layers, labels);
}

/// policy §2.2: what a list of OpenClaw means, it means here: an empty one allows all, one that
/// names nothing here does not.
#[test]
fn lists_keep_their_meaning() {
    let all = TOOLS;
    for (tools, expected) in [
        (json!({ "deny": [] }), all),
        (json!({ "allow": [] }), all),
        (json!({ "allow": ["", "  "] }), all),
        (json!({ "allow": [], "deny": ["DB__*"] }), &TOOLS[..3]),
        (json!({ "allow": [" fs__READ "] }), &TOOLS[..1]),
        (json!({ "allow": ["fs__write"] }), &TOOLS[1..2]),
        (json!({ "allow": ["exec"] }), &[]),
        (json!({ "allow": ["group:fs"] }), &[]),
        (json!({ "allow": ["we?rd"] }), &[]),
        (
            json!({ "allow": ["exec"], "alsoAllow": ["web__*"] }),
            &TOOLS[2..3],
        ),
        (json!({ "alsoAllow": ["web__*"] }), all),
        (
            json!({ "deny": ["exec", "group:runtime", "web__get"] }),
            &["fs__read", "fs__Write", "db__drop"],
        ),
        (json!({ "profile": "coding" }), &[]),
        (
            json!({ "profile": "coding", "alsoAllow": ["fs__read"] }),
            &TOOLS[..1],
        ),
        (
            json!({ "byProvider": { "acme": { "allow": ["fs__*"] }, "acme/one": { "deny": ["fs__*"] } } }),
            &TOOLS[2..],
        ),
        (
            json!({ "byProvider": { "other": { "allow": [] , "deny": ["*"] } } }),
            all,
        ),
        (
            json!({ "profile": "coding", "alsoAllow": ["*"], "byProvider": { "acme": { "profile": "minimal" } } }),
            &[],
        ),
    ] {
        let imported = openclaw::import(&json!({ "tools": tools.clone() }));
        assert_eq!(
            visible(&imported.layers, &agent()),
            expected,
            "{tools} {}",
            imported.layers
        );
    }
}

/// What restricts there and has no counterpart here is said, and is not a success.
#[test]
fn what_is_lost_is_said() {
    for (tree, says) in [
        (json!({}), "nothing in it"),
        (
            json!({ "tools": { "profile": "codng", "deny": ["*"] } }),
            "`codng`, which does not exist",
        ),
        (
            json!({ "tools": { "deny": ["*"], "toolsBySender": {} } }),
            "tools.toolsBySender",
        ),
        (
            json!({ "group tools.allow": { "allow": ["a__*"] }, "tools": { "deny": ["*"] } }),
            "group tools.allow (support)",
        ),
    ] {
        let lost = openclaw::import(&tree).lost.join("\n");
        assert!(lost.contains(says), "{tree}: {lost}");
    }
}

/// What is printed is a policy file, which reads as what was imported.
#[test]
fn what_is_printed_is_a_policy_file() {
    let imported = openclaw::import(&json!({
        "tools": { "profile": "coding", "alsoAllow": ["fs__*"], "deny": ["exec"], "allow": [] },
        "agents": { "list": [ { "id": "on", "tools": { "profile": "full", "deny": ["db__*"] } } ] },
        "channels": { "chat": { "groups": { "-100: 'x'": { "tools": { "deny": ["web__*"] } } } } },
    }));
    let text = file("a\nb.json", &imported);
    let document = YamlDocument::parse("out.yaml", text.clone())
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(document.tree(), &json!({ "layers": imported.layers }));
    insta::assert_snapshot!(text);
}
