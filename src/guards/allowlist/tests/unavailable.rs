//! The strip rule: what becomes of a list that names only tools of disabled servers (policy §2.4).

use super::super::written::Unavailable;
use super::*;

fn around() -> LayerEnvironment {
    LayerEnvironment {
        groups: [("gone".to_owned(), vec!["off__*".to_owned()])].into(),
        servers: [("off", true), ("gone", true), ("on", false)]
            .map(|(name, off)| (ServerName::new(name), off))
            .to_vec(),
        tools: ["off__read", "off__drop", "gone__x", "on__read"]
            .map(ToolName::new)
            .into_iter()
            .collect(),
    }
}

/// The rule for a profile with `layer`, and what is said of it.
fn rule(layer: &Value) -> (Rule, Vec<Option<Unavailable>>) {
    let layers =
        settings(json!({ "profile": { "p": layer } })).compile(&around(), &mut Problems::default());
    let contracts = contracts(&["off__read", "off__drop", "gone__x", "on__read"], false);
    let rule =
        Rule::new(Mode::Enforce, layers, contracts).without_servers(vec![ServerName::new("off")]);
    let said = rule
        .unavailable()
        .map(AllowlistLayer::unavailable)
        .collect();
    (rule, said)
}

fn profiled() -> Caller {
    Caller {
        profile: Some("p".to_owned()),
        ..Caller::named("a")
    }
}

/// 001-16, 001-18: only a list of known tools of declared and disabled servers is stripped; a typo
/// never is.
#[test]
fn only_a_list_of_known_tools_of_disabled_servers_is_stripped() {
    for (allow, strips) in [
        (json!(["off__read"]), true),
        (json!(["off__*"]), true),
        (json!(["off__read", "gone__*"]), true),
        (json!(["group:gone"]), true),
        (json!(["off__raed"]), false),
        (json!(["off__raed*"]), false),
        (json!(["off__read", "off__raed"]), false),
        (json!(["off__read", "on__read"]), false),
        (json!(["off__read", "on__*"]), false),
        (json!(["off__read", "of__read"]), false),
        (json!(["off__read", "unknown__read"]), false),
        (json!(["off__read", "group:unknown"]), false),
        (json!(["*"]), false),
        (json!(["o*"]), false),
        (json!(["*__read"]), false),
        (json!([""]), false),
        (json!([]), false),
    ] {
        let (rule, said) = rule(&json!({ "allow": allow, "unavailable_only_allowlist": "strip" }));
        let passes = rule.admit(&profiled(), &ToolName::new("on__read")).is_ok();
        let named = allow.to_string();
        let allows = named.contains("on__")
            || named == "[\"*\"]"
            || named.contains("o*")
            || named.contains("*__read");
        assert_eq!(passes, strips || allows, "{named}");
        assert_eq!(
            said,
            if strips {
                vec![Some(Unavailable::Strip)]
            } else {
                vec![]
            },
            "{named}"
        );
    }
}

/// 001-17, 001-18: what is stripped says so, still denies, and shows nothing of the disabled
/// server.
#[test]
fn deny_survives_a_strip() {
    let strip = json!({ "allow": ["off__*"], "deny": ["on__read", "off__drop"], "unavailable_only_allowlist": "strip" });
    let (rule, _) = rule(&strip);
    assert_eq!(
        decides(&rule, &profiled(), "on__read"),
        "profile p: denied by `on__read`"
    );
    let steps = rule.explain(&profiled(), &ToolName::new("gone__x"));
    assert_eq!(
        steps[1].to_string(),
        "profile p: `allow` names only tools of disabled servers and is left out"
    );
    assert_eq!(
        decides(&rule, &profiled(), "off__read"),
        "disabled: the configuration disables the server"
    );
}

/// 001-08, 001-17: unless a layer asks for it, its list goes on restricting, and `explain` says why
/// nothing passes.
#[test]
fn by_default_the_list_is_kept() {
    for layer in [
        json!({ "allow": ["off__*"] }),
        json!({ "allow": ["off__*"], "unavailable_only_allowlist": "keep" }),
    ] {
        let (rule, said) = rule(&layer);
        assert_eq!(said, [Some(Unavailable::Keep)]);
        let by =
            "profile p: no pattern of `allow` matches; all of them name tools of disabled servers";
        assert_eq!(decides(&rule, &profiled(), "on__read"), by);
    }
}
