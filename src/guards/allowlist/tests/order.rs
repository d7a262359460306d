//! Scenarios of the layers, one for each row of the requirements.

use super::*;

const TOOL: &str = "fs__read";

/// A caller for whom every layer holds.
fn everybody() -> Caller {
    let parent = Caller {
        group: Some("staff".to_owned()),
        ..Caller::named("main")
    };
    Caller {
        group: Some("support".to_owned()),
        model: Some("openai/gpt-5".to_owned()),
        profile: Some("coding".to_owned()),
        environment: Some("production".to_owned()),
        parents: vec![Arc::new(parent)],
        ..Caller::named("bot")
    }
}

/// `layer` at the place that `path` names.
fn at(path: &[&str], layer: Value) -> Value {
    path.iter()
        .rev()
        .fold(layer, |below, step| json!({ *step: below }))
}

const LAYER_PATHS: &[(&[&str], &str)] = &[
    (&["profile", "coding"], "profile coding"),
    (
        &["profile", "coding", "by_model_provider", "openai/gpt-5"],
        "profile.by_model_provider coding openai/gpt-5",
    ),
    (&["group", "support"], "group support"),
    (&["global"], "global"),
    (
        &["global", "by_model_provider", "openai"],
        "global.by_model_provider openai",
    ),
    (&["agent", "bot"], "agent bot"),
    (
        &["agent", "bot", "by_model_provider", "openai"],
        "agent.by_model_provider bot openai",
    ),
    (&["environment", "production"], "environment production"),
    (&["delegation"], "delegation"),
    (&["group", "staff"], "delegation by main: group staff"),
    (&["agent", "main"], "delegation by main: agent main"),
];

/// 001-05, 001-06, 001-07, 001-08, 001-09, 001-10, 001-11, 001-12, 001-13: each layer removes
/// tools, under its own name.
#[test]
fn every_layer_removes_under_its_name() {
    for (path, label) in LAYER_PATHS {
        for (layer, why) in [
            (json!({ "deny": ["fs__*"] }), "denied by `fs__*`"),
            (
                json!({ "allow": ["db__*"] }),
                "no pattern of `allow` matches",
            ),
        ] {
            let rule = Rule::new(
                Mode::Enforce,
                layers(at(path, layer)),
                contracts(&[TOOL], false),
            );
            assert_eq!(
                decides(&rule, &everybody(), TOOL),
                format!("{label}: {why}")
            );
            let stranger = Caller::named("stranger");
            let is_for_all = label.starts_with("global") && !label.contains("model");
            assert_eq!(
                rule.admit(&stranger, &ToolName::new(TOOL)).is_err(),
                is_for_all,
                "{label}"
            );
        }
    }
}

/// 001-02, 001-12, 001-14: one order, whatever the order in the files; the layers of the parent
/// come last.
#[test]
fn the_order_is_one_and_documented() {
    let expected = [
        "owner",
        "profile coding",
        "profile.by_model_provider coding openai/gpt-5",
        "group support",
        "global",
        "global.by_model_provider openai",
        "agent bot",
        "agent.by_model_provider bot openai",
        "environment production",
        "delegation",
        "main owner",
        "main group staff",
        "main global",
        "main agent main",
        "main contract",
        "contract",
    ];
    let every = |backwards: bool| {
        let mut all = Layers::default();
        let mut places = LAYER_PATHS.to_vec();
        if backwards {
            places.reverse();
        }
        for (path, _) in &places {
            all.extend(layers(at(path, json!({ "deny": ["db__*"] }))));
        }
        all
    };
    for backwards in [false, true] {
        let rule = Rule::new(Mode::Enforce, every(backwards), contracts(&[TOOL], false));
        let mut steps: Vec<String> = Vec::new();
        for step in rule.explain(&everybody(), &ToolName::new(TOOL)) {
            assert!(!step.verdict.refuses(), "{step}");
            let parent = step
                .parent
                .map(|parent| format!("{parent} "))
                .unwrap_or_default();
            steps.push(parent + step.layer);
        }
        // Each place of this test is a file of its own; the empty layer around `by_model_provider`
        // says nothing.
        steps.dedup();
        assert_eq!(steps, expected);
    }
}

/// 001-06, 001-09, 001-11: `provider/model` goes before `provider`, and only one of them holds; in
/// each file for itself.
#[test]
fn a_model_goes_before_its_provider() {
    let models = json!({ "openai": { "deny": ["fs__*"] }, "openai/gpt-5": { "deny": ["db__*"] }, "acme": { "deny": ["*"] } });
    for path in [&["profile", "coding"][..], &["global"], &["agent", "bot"]] {
        let layers = layers(at(path, json!({ "by_model_provider": models })));
        let rule = Rule::new(
            Mode::Enforce,
            layers,
            contracts(&["fs__read", "db__read"], false),
        );
        for (model, tools) in [
            (Some("openai/gpt-5"), [true, false]),
            (Some("openai/gpt-5-mini"), [false, true]),
            (Some("openai"), [false, true]),
            (Some("acme/x/y"), [false, false]),
            (Some("other/gpt-5"), [true, true]),
            (None, [true, true]),
        ] {
            let caller = Caller {
                model: model.map(ToOwned::to_owned),
                ..everybody()
            };
            let seen = ["fs__read", "db__read"]
                .map(|tool| rule.admit(&caller, &ToolName::new(tool)).is_ok());
            assert_eq!(seen, tools, "{path:?} {model:?}");
        }
    }
    let both = ["openai", "openai/gpt-5"].map(|model| {
        layers(json!({ "global": { "by_model_provider": { model: { "deny": [if model == "openai" { "fs__*" } else { "db__*" }] } } } }))
    });
    let mut all = Layers::default();
    for file in both {
        all.extend(file);
    }
    let rule = Rule::new(
        Mode::Enforce,
        all,
        contracts(&["fs__read", "db__read"], false),
    );
    assert_eq!(
        decides(&rule, &everybody(), "fs__read"),
        "global.by_model_provider openai: denied by `fs__*`"
    );
    assert_eq!(
        decides(&rule, &everybody(), "db__read"),
        "global.by_model_provider openai/gpt-5: denied by `db__*`"
    );
}

/// 001-10, 001-11: a blank name has no layer, and breaks nothing.
#[test]
fn a_blank_name_has_no_layer() {
    for blank in ["", " ", "\t\n"] {
        let written = json!({
            "agent": { blank: { "deny": ["*"], "by_model_provider": { "openai": { "deny": ["*"] } } } },
            "profile": { blank: { "deny": ["*"] } },
            "group": { blank: { "deny": ["*"] } },
            "environment": { blank: { "deny": ["*"] } },
        });
        let rule = Rule::new(Mode::Enforce, layers(written), contracts(&[TOOL], false));
        let blank = Some(blank.to_owned());
        let named = Caller::named(blank.as_deref().unwrap_or_default());
        let model = Some("openai/gpt-5".to_owned());
        let caller = Caller {
            profile: blank.clone(),
            group: blank.clone(),
            environment: blank,
            model,
            ..named
        };
        let steps: Vec<String> = rule
            .explain(&caller, &ToolName::new(TOOL))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            steps,
            ["owner: nothing against it", "contract: nothing against it"]
        );
    }
}

/// 001-13: what one of the parents may not see, its children may not, whatever they are; nor
/// theirs.
#[test]
fn a_child_never_exceeds_its_parents() {
    let written =
        json!({ "agent": { "main": { "deny": ["fs__*"] }, "child": { "allow": ["*"] } } });
    let mut tools = contracts(&["fs__read", "db__read"], false);
    tools.extend(contracts(&["db__drop"], true));
    let rule = Rule::new(Mode::Enforce, layers(written), tools);
    let main = Arc::new(Caller::named("main"));
    let child = Arc::new(Caller {
        parents: vec![main],
        owner: true,
        ..Caller::named("child")
    });
    let other = Arc::new(caller("other", true));
    let grandchild = Caller {
        parents: vec![other, child.clone()],
        owner: true,
        ..Caller::named("grandchild")
    };
    for caller in [&*child, &grandchild] {
        assert_eq!(
            decides(&rule, caller, "fs__read"),
            "delegation by main: agent main: denied by `fs__*`"
        );
        assert_eq!(
            decides(&rule, caller, "db__drop"),
            "delegation by main: owner: the tool is for owners only"
        );
        assert_eq!(
            decides(&rule, caller, "db__read"),
            "contract: nothing against it"
        );
    }
}

/// A pattern of a group decides under both names, and a group is looked up in all files.
#[test]
fn a_group_stands_for_its_patterns() {
    let groups = [("files", &["fs__*", "ftp__get"][..]), ("all", &["*"])];
    let groups = groups.map(|(name, patterns)| {
        (
            name.to_owned(),
            patterns.iter().map(ToString::to_string).collect(),
        )
    });
    let around = LayerEnvironment {
        groups: groups.into(),
        ..LayerEnvironment::default()
    };
    let written =
        json!({ "global": { "deny": ["group:files"], "allow": ["group:all", "group:none"] } });
    let mut problems = Problems::default();
    let layers = settings(written).compile(&around, &mut problems);
    assert_eq!(problems.into_found(), []);
    let rule = Rule::new(
        Mode::Enforce,
        layers,
        contracts(&["fs__read", "ftp__get", "ftp__put"], false),
    );
    assert_eq!(
        decides(&rule, &caller("a", false), "fs__read"),
        "global: denied by `fs__* of group:files`"
    );
    assert_eq!(
        decides(&rule, &caller("a", false), "ftp__get"),
        "global: denied by `ftp__get of group:files`"
    );
    assert_eq!(
        decides(&rule, &caller("a", false), "ftp__put"),
        "contract: nothing against it"
    );
    let steps = rule.explain(&caller("a", false), &ToolName::new("ftp__put"));
    assert_eq!(steps[1].to_string(), "global: allowed by `* of group:all`");
}

/// policy §2.6: what is shown of a name or a pattern has a bound, and does nothing to a terminal.
#[test]
fn what_is_shown_is_bounded_and_plain() {
    let long = format!("fs__{}*", "x".repeat(200));
    let rule = Rule::new(
        Mode::Enforce,
        layers(json!({ "agent": { "a\u{1b}[31m": { "deny": [long] } } })),
        contracts(&[TOOL], false),
    );
    let shown = decides(
        &rule,
        &Caller::named("a\u{1b}[31m"),
        &format!("fs__{}", "x".repeat(201)),
    );
    assert_eq!(
        shown,
        format!("agent a\u{fffd}[31m: denied by `fs__{}…`", "x".repeat(156))
    );
}
