//! Side doors by layers: every kind of layer, deny before allow, closed where nobody says a word
//! (threat-model §5, §3C C3).

use super::*;
use crate::guards::allowlist::side::SideTarget;
use crate::model::ids::ServerName;
use crate::model::side::SideDoor;
use serde_json::Value;

/// What is asked for in each door, in words that patterns of all doors can be made of.
fn wanted(door: SideDoor) -> SideTarget {
    let server = ServerName::new("docs");
    match door {
        SideDoor::Resources => SideTarget::resource(door, &server, "file:///srv/docs/a.md"),
        SideDoor::Prompts | SideDoor::Completions => SideTarget::prompt(door, &server, "greet"),
        SideDoor::Sampling | SideDoor::Elicitation | SideDoor::Roots | SideDoor::Logging => {
            SideTarget::server(door, &server)
        }
    }
}

fn patterns(door: SideDoor) -> (&'static str, &'static str) {
    match door {
        SideDoor::Resources => ("docs__file:///srv/docs/*", "docs__file:///opt/*"),
        SideDoor::Prompts | SideDoor::Completions => ("docs__*", "docs__other"),
        SideDoor::Sampling | SideDoor::Elicitation | SideDoor::Roots | SideDoor::Logging => {
            ("docs", "other")
        }
    }
}

fn opens(written: Value, caller: &Caller, door: SideDoor) -> bool {
    let rule = Rule::new(Mode::Enforce, layers(written), contracts(&[], false));
    !rule.side(caller, &wanted(door)).refuses()
}

/// A caller that every kind of layer holds for.
fn of_all_layers() -> Caller {
    Caller {
        profile: Some("p".to_owned()),
        group: Some("g".to_owned()),
        environment: Some("e".to_owned()),
        model: Some("openai/x".to_owned()),
        parents: Vec::new(),
        ..Caller::named("a")
    }
}

/// All ten kinds of layers (six and their models, and what holds of a parent) × what they say × all
/// doors: 7 × 10 × 5 cases.
#[test]
fn every_layer_governs_every_door() {
    let caller = of_all_layers();
    let parent = Caller {
        profile: Some("p".to_owned()),
        model: Some("openai/x".to_owned()),
        ..Caller::named("up")
    };
    let child = Caller {
        parents: vec![Arc::new(parent)],
        ..caller.clone()
    };
    let mut cases = 0;
    for door in SideDoor::ALL {
        let (pattern, other) = patterns(door);
        let says = [
            (json!({ "allow": [pattern] }), true),
            (json!({ "allow": [pattern], "deny": [pattern] }), false),
            (json!({ "allow": [other] }), false),
            (json!({ "allow": [] }), false),
            (json!({ "deny": [other] }), false),
        ];
        for (section, passes) in says {
            let own = json!({ (door.word()): section });
            let by_model = json!({ "by_model_provider": { "openai": own } });
            let kinds = [
                json!({ "profile": { "p": own } }),
                json!({ "profile": { "p": by_model } }),
                json!({ "group": { "g": own } }),
                json!({ "global": own }),
                json!({ "global": by_model }),
                json!({ "agent": { "a": own } }),
                json!({ "agent": { "a": by_model } }),
                json!({ "environment": { "e": own } }),
            ];
            for written in kinds {
                assert_eq!(opens(written.clone(), &caller, door), passes, "{written}");
                cases += 1;
            }
            // A child has what its parent has, and what the layer of children lets it.
            let open = json!({ (door.word()): { "allow": [pattern] } });
            let delegated = json!({ "global": open, "delegation": own });
            let refuses = section != json!({ "deny": [other] }) && !passes;
            assert_eq!(opens(delegated, &child, door), !refuses, "{section}");
            let of_parent = json!({ "agent": { "a": open, "up": own } });
            assert_eq!(opens(of_parent, &child, door), passes, "{section}");
            cases += 2;
        }
        assert!(!opens(json!({}), &caller, door), "nobody opens it");
        assert!(
            !opens(json!({ "global": { "allow": ["*"] } }), &caller, door),
            "tools are no side door"
        );
        let both = json!({ "global": { (door.word()): { "allow": [pattern] } }, "agent": { "a": { (door.word()): { "allow": [other] } } } });
        assert!(!opens(both, &caller, door), "all layers hold together");
    }
    assert_eq!(cases, 7 * 5 * 10);
}

/// A rule sees every reading of a URI: `%2F` is a separator for whom it may be, and a query hides
/// nothing from a `deny`.
#[test]
fn c3_a_deny_holds_however_it_is_written() {
    let server = ServerName::new("docs");
    let written = json!({ "global": { "resources": { "allow": ["docs__repo://*", "docs__file:///*"],
        "deny": ["docs__repo://o/secret/*", "docs__repo://o/key", "docs__file:///etc/*"] } } });
    let rule = Rule::new(Mode::Enforce, layers(written), contracts(&[], false));
    for (uri, passes) in [
        ("repo://o/open/a", true),
        ("repo://o/open%2Fa", true),
        ("repo://o/secret/a", false),
        ("repo://o/secret%2Fa", false),
        ("repo://o/secret%2fa", false),
        ("repo://o%2Fsecret%2Fa", false),
        ("repo://o/%73ecret/a", false),
        ("REPO://O/secret/a", false),
        ("repo://o/key", false),
        ("repo://o/key?x", false),
        ("repo://o/key#x", false),
        ("repo://o/keys", true),
        ("file:///etc/passwd", false),
        ("file:/etc/passwd", false),
        ("FILE://localhost/etc/passwd", false),
        ("file:///etc%2Fpasswd", false),
        ("file:///etcetera", true),
    ] {
        let refused = rule
            .side(
                &Caller::named("a"),
                &SideTarget::resource(SideDoor::Resources, &server, uri),
            )
            .refuses();
        assert_eq!(!refused, passes, "{uri}");
    }
}

/// Templates are listed where some URI of them is open, and completed where all of them are.
#[test]
fn c3_templates_tell_nothing_that_is_closed() {
    let server = ServerName::new("docs");
    let open = json!({ "allow": ["docs__file:///srv/docs/*"], "deny": ["docs__file:///srv/docs/private/*"] });
    let written =
        json!({ "global": { "resources": open, "completions": { "allow": ["docs__*"] } } });
    let rule = Rule::new(Mode::Enforce, layers(written), contracts(&[], false));
    for (template, listed, completed) in [
        ("file:///srv/docs/{name}", true, false),
        ("file:///srv/docs/public/{name}", true, true),
        ("file:///srv/docs/private/{name}", false, false),
        ("file:///srv/{name}", true, false),
        ("file:///etc/{name}", false, false),
        ("{scheme}:///srv/docs/a", true, false),
        ("file:///srv/docs/../{name}", false, false),
        ("file:///srv/docs/%2e%2e/{name}", false, false),
        ("file:///srv/docs/public/a", true, true),
    ] {
        let refused = |wanted| rule.side(&Caller::named("a"), &wanted).refuses();
        assert_eq!(
            !refused(SideTarget::listed(&server, template)),
            listed,
            "{template}"
        );
        assert_eq!(
            !refused(SideTarget::completed(
                SideDoor::Resources,
                &server,
                template
            )),
            completed,
            "{template}"
        );
    }
}

/// What would match nothing, or is written unlike it is compared, is said where it stands.
#[test]
fn patterns_are_in_the_form_that_is_compared() {
    for (door, pattern, passes) in [
        ("resources", "*", true),
        ("resources", "docs__*", true),
        ("resources", "docs__file:///srv/*", true),
        ("resources", "docs__https://*.example/a?b=*", true),
        ("resources", "docs__*.md", true),
        ("resources", "docs__FILE:///srv/*", false),
        ("resources", "docs__file:/srv/*", false),
        ("resources", "docs__file:///srv/../*", false),
        ("resources", "docs__file:///srv/%61/*", false),
        ("resources", "docs__file://*", false),
        ("resources", "docs__file:///srv/{x}", false),
        ("resources", " docs__*", false),
        ("resources", "group:x", false),
        ("prompts", "docs__greet", true),
        ("prompts", "docs__[a]", false),
        ("completions", "docs__file:///srv/*", true),
        ("completions", "docs__FILE:///srv/*", false),
        ("sampling", "docs", true),
        ("sampling", "docs__x", false),
        ("logging", "do*", true),
    ] {
        let written = json!({ "global": { (door): { "allow": [pattern] } } });
        let mut problems = Problems::default();
        drop(settings(written).compile(&LayerEnvironment::default(), &mut problems));
        let found = problems.into_found();
        assert_eq!(found.is_empty(), passes, "{door} {pattern}: {found:?}");
    }
}
