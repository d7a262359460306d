//! Scenarios of who sees which tool.

use super::written::{LayerEnvironment, LayerSettings};
use super::*;
use crate::model::diagnostic::Problems;
use crate::model::disabled::{Disabled, FrozenScope};
use serde_json::{Value, json};
use std::collections::HashMap;

mod order;
mod random;
mod sides;
mod unavailable;

fn caller(agent: &str, owner: bool) -> Caller {
    Caller {
        owner,
        ..Caller::named(agent)
    }
}

fn settings(written: Value) -> Settings {
    serde_json::from_value(written).unwrap()
}

fn layers(written: Value) -> Layers {
    let mut problems = Problems::default();
    let layers = settings(written).compile(&LayerEnvironment::default(), &mut problems);
    assert_eq!(problems.into_found(), []);
    layers
}

fn contracts(tools: &[&str], owner_only: bool) -> HashMap<ToolName, Arc<ToolRules>> {
    let rules = || {
        Arc::new(ToolRules {
            owner_only,
            ..ToolRules::default()
        })
    };
    tools
        .iter()
        .map(|tool| (ToolName::new(tool), rules()))
        .collect()
}

fn decides(rule: &Rule, caller: &Caller, tool: &str) -> String {
    match rule.admit(caller, &ToolName::new(tool)) {
        Ok(admitted) => admitted.by().to_string(),
        Err(denied) => {
            assert_eq!(denied.refusal, Refusal::ToolNotAllowlisted);
            denied.by.to_string()
        }
    }
}

const NOTHING_AGAINST_IT: &str = "contract: nothing against it";
const NOT_ALLOWED: &str = "global: no pattern of `allow` matches";

/// What decides about `tool`, where `fs__read` has a contract and this is the layer of all.
fn decides_global(global: &Value, tool: &str) -> String {
    let rule = Rule::new(
        Mode::Enforce,
        layers(json!({ "global": global })),
        contracts(&["fs__read"], false),
    );
    decides(&rule, &caller("a", false), tool)
}

/// 001-15: deny before allow, and both only by what they say.
#[test]
fn a_layer_decides_by_its_table() {
    for (global, by) in [
        (json!({}), NOTHING_AGAINST_IT),
        (json!({ "allow": [] }), NOT_ALLOWED),
        (json!({ "allow": ["fs__*"] }), NOTHING_AGAINST_IT),
        (
            json!({ "allow": ["fs__*"], "deny": ["*__read"] }),
            "global: denied by `*__read`",
        ),
        (
            json!({ "allow": ["fs__read"], "deny": ["fs__read"] }),
            "global: denied by `fs__read`",
        ),
        (json!({ "allow": ["FS__*"] }), NOT_ALLOWED),
        (
            json!({ "allow": ["FS__*"], "ignore_case": true }),
            NOTHING_AGAINST_IT,
        ),
        (
            json!({ "deny": ["FS__Read"], "ignore_case": true }),
            "global: denied by `FS__Read`",
        ),
        (json!({ "allow": ["fs__rea"] }), NOT_ALLOWED),
        (json!({ "allow": ["s__read"] }), NOT_ALLOWED),
    ] {
        assert_eq!(decides_global(&global, "fs__read"), by, "{global}");
    }
    assert_eq!(
        decides_global(&json!({ "allow": ["*"] }), "fs__other"),
        "contract: the tool has no contract"
    );
}

/// OpenClaw's meaning of an empty list, for those who ask for it.
#[test]
fn an_empty_list_allows_all_where_it_is_asked_to() {
    for (global, by) in [
        (
            json!({ "allow": [], "on_empty_allow": "all" }),
            NOTHING_AGAINST_IT,
        ),
        (
            json!({ "allow": [" ", ""], "on_empty_allow": "all" }),
            NOTHING_AGAINST_IT,
        ),
        (
            json!({ "allow": [], "on_empty_allow": "all", "deny": ["*"] }),
            "global: denied by `*`",
        ),
        (
            json!({ "allow": ["db__*"], "on_empty_allow": "all" }),
            NOT_ALLOWED,
        ),
    ] {
        assert_eq!(decides_global(&global, "fs__read"), by, "{global}");
    }
}

/// 001-03, 001-04, 001-P3: owner-only tools are there for owners only, allowed or not.
#[test]
fn owner_only_tools_are_hidden_from_others() {
    let layers = layers(
        json!({ "global": { "allow": ["*"] }, "agent": { "a": { "allow": ["fs__wipe"] } } }),
    );
    let rule = Rule::new(Mode::Enforce, layers, contracts(&["fs__wipe"], true));
    let tool = ToolName::new("fs__wipe");
    assert!(rule.admit(&caller("a", true), &tool).is_ok());
    let denied = rule.admit(&caller("a", false), &tool).unwrap_err();
    assert_eq!(
        denied.by,
        Provenance {
            parent: None,
            layer: "owner",
            verdict: LayerVerdict::OwnerOnly
        }
    );
}

/// 001-A9: a tool for some providers is nobody's whose model has another, or whose model is not
/// known.
#[test]
fn a_tool_for_some_providers_is_hidden_from_the_models_of_others() {
    let rules = ToolRules {
        providers_allowed: vec!["openai".into(), "acme/one".into()],
        ..ToolRules::default()
    };
    let contracts = HashMap::from([(ToolName::new("fs__apply_patch"), Arc::new(rules))]);
    let rule = Rule::new(Mode::Enforce, Layers::default(), contracts);
    for (model, sees) in [
        (Some("openai/gpt-5"), true),
        (Some("openai"), true),
        (Some("acme/one"), true),
        (Some("acme/two"), false),
        (Some("acme"), false),
        (Some("OpenAI/gpt-5"), false),
        (Some("openai-like/gpt-5"), false),
        (Some(""), false),
        (None, false),
    ] {
        let caller = Caller {
            model: model.map(ToOwned::to_owned),
            ..Caller::named("a")
        };
        let child = Caller {
            parents: vec![Arc::new(caller.clone())],
            ..Caller::named("child")
        };
        let child = Caller {
            model: Some("openai/gpt-5".to_owned()),
            ..child
        };
        for caller in [&caller, &child] {
            let by = decides(&rule, caller, "fs__apply_patch");
            assert_eq!(
                !by.ends_with("not for the provider of the caller's model"),
                sees,
                "{model:?} {by}"
            );
        }
    }
}

/// 003-41: what an operator takes away is gone for callers, owners and observe mode included, and
/// says by whom.
#[test]
fn what_is_disabled_is_gone_for_everybody() {
    let reason = Reason {
        who: "ann".into(),
        why: "wrote to\u{7} prod".into(),
        since: "2026-11-21T10:00:00Z".into(),
    };
    for mode in [Mode::Enforce, Mode::Observe] {
        let rule = Rule::new(
            mode,
            Layers::default(),
            contracts(&["fs__wipe", "fs__read", "db__read"], false),
        );
        let rule = rule.without(Disabled::from([(
            ToolName::new("fs__wipe"),
            reason.clone(),
        )]));
        let rule = rule.without_servers(vec![ServerName::new("db")]);
        let owner = caller("a", true);
        let by = "disabled: by ann since 2026-11-21T10:00:00Z: wrote to\u{fffd} prod";
        assert_eq!(decides(&rule, &owner, "fs__wipe"), by);
        assert_eq!(
            decides(&rule, &owner, "db__read"),
            "disabled: the configuration disables the server"
        );
        assert!(
            rule.admit(&owner, &ToolName::new("fs__wipe")).is_err(),
            "{mode:?}"
        );
        assert!(
            rule.admit(&owner, &ToolName::new("db__other")).is_err(),
            "{mode:?}"
        );
        assert!(
            rule.admit(&owner, &ToolName::new("fs__read")).is_ok(),
            "{mode:?}"
        );
    }
}

/// What an incident freezes is gone like what an operator disabled, also tools that come later.
#[test]
fn what_an_incident_freezes_is_gone_for_everybody() {
    let scope = FrozenScope {
        incident: 3,
        pattern: "fs__*".to_owned(),
        reason: Reason {
            who: "ann".into(),
            why: "incident 3: it wiped".into(),
            since: "2026-11-21T10:00:00Z".into(),
        },
    };
    for mode in [Mode::Enforce, Mode::Observe] {
        let contracts = contracts(&["fs__wipe", "db__read"], false);
        let rule = Rule::new(mode, Layers::default(), contracts);
        let rule = rule.without(TakenAway {
            tools: Disabled::new(),
            frozen: vec![scope.clone()],
        });
        let owner = caller("a", true);
        let by = "disabled: by ann since 2026-11-21T10:00:00Z: incident 3: it wiped";
        assert_eq!(decides(&rule, &owner, "fs__wipe"), by);
        for (tool, is_there) in [("fs__wipe", false), ("fs__new", false), ("db__read", true)] {
            let tool = ToolName::new(tool);
            assert_eq!(
                rule.admit(&owner, &tool).is_ok(),
                is_there,
                "{tool} {mode:?}"
            );
            assert_eq!(rule.is_disabled(&tool), !is_there, "{tool} {mode:?}");
        }
    }
}

#[test]
fn observe_mode_admits_everything_and_says_what_it_would_refuse() {
    let layers = layers(json!({ "global": { "deny": ["*__drop"] } }));
    let rule = Rule::new(Mode::Observe, layers, contracts(&["fs__drop"], false));
    for tool in ["fs__drop", "fs__unknown"] {
        let admitted = rule
            .admit(&caller("a", false), &ToolName::new(tool))
            .unwrap();
        assert_eq!(
            admitted.would_refuse(),
            Some(Refusal::ToolNotAllowlisted),
            "{tool}"
        );
    }
    assert!(
        rule.admit(&caller("a", false), &ToolName::new("fs__unknown"))
            .unwrap()
            .rules()
            .side_effect
    );
}

/// Callers for which the same layers hold share one listing; a caller that differs in anything that
/// decides does not.
#[test]
fn a_class_is_what_decides_and_nothing_else() {
    let written = json!({
        "global": { "by_model_provider": { "openai": {} } },
        "agent": { "b": { "deny": ["fs__*"] } },
        "group": { "support": {} },
    });
    let rule = Rule::new(
        Mode::Enforce,
        layers(written),
        contracts(&["fs__read"], false),
    );
    let named = |agent: &str| Caller::named(agent);
    let group = |group: &str| Caller {
        group: Some(group.to_owned()),
        ..named("a")
    };
    let same = [
        named("a"),
        named("c"),
        Caller {
            roles: vec!["x".to_owned()],
            ..named("d")
        },
        group("without layer"),
    ];
    for one in &same {
        assert_eq!(rule.class(one), rule.class(&same[0]), "{one:?}");
    }
    let others = [
        named("b"),
        group("support"),
        Caller {
            owner: true,
            ..named("a")
        },
        Caller {
            model: Some("openai/x".to_owned()),
            ..named("a")
        },
        Caller {
            parents: vec![Arc::new(named("a"))],
            ..named("a")
        },
        Caller {
            parents: vec![Arc::new(named("b"))],
            ..named("a")
        },
    ];
    for (index, one) in others.iter().enumerate() {
        let before = others[..index].iter().chain(&same[..1]);
        assert!(
            before
                .into_iter()
                .all(|other| rule.class(other) != rule.class(one)),
            "{one:?}"
        );
    }
}

/// A call is prepared without a look at its caller only where its contract changes nothing that the agent
/// wrote: by a pattern, too, and never where nothing says so.
#[test]
fn only_plain_contracts_take_calls_as_written() {
    let stripping = ToolRules {
        arguments: crate::guards::arguments::Rule::default().stripping(true),
        ..ToolRules::default()
    };
    let mut all = contracts(&["fs__read", "notes__*"], false);
    all.insert(ToolName::new("notes__add"), Arc::new(stripping));
    let rule = Rule::new(Mode::Enforce, Layers::default(), all);
    for (tool, expected) in [
        ("fs__read", true),
        ("notes__list", true),
        ("notes__add", false),
        ("other__tool", false),
    ] {
        assert_eq!(
            rule.takes_as_written(&ToolName::new(tool)),
            expected,
            "{tool}"
        );
    }
}
