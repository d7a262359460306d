//! Properties over random policies: 10 000 of them each (policy §12).

use super::*;
use proptest::prelude::*;

/// Policies that each property is held against.
const POLICIES_TRIED: u64 = 10_000;
const TOOLS: &[&str] = &[
    "fs__read",
    "fs__write",
    "db__read",
    "db__drop_table",
    "db__drop",
    "web__get",
];

/// How a pattern reads.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|at| matches(rest, &name[at..])),
        Some((letter, rest)) => name.first() == Some(letter) && matches(rest, &name[1..]),
    }
}

/// How a layer reads: deny first; without `allow` everything else passes.
fn passes(layer: &LayerSettings, tool: &str) -> bool {
    let named = |list: &[String]| {
        list.iter()
            .any(|pattern| matches(pattern.as_bytes(), tool.as_bytes()))
    };
    !named(&layer.deny) && layer.allow.as_deref().is_none_or(named)
}

/// Chance that can be repeated, cheap enough for so many policies.
struct PolicyRng(u64);

impl PolicyRng {
    /// Below `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        // SplitMix64 (Steele, Lea, Flood 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap() % sides
    }

    fn pattern(&mut self) -> String {
        let globs = [
            "*", "fs__*", "*__read", "*drop*", "db__*", "x*", "fs__*d", "*__*e*",
        ];
        let text = if self.roll(2) == 0 {
            TOOLS[self.roll(TOOLS.len())]
        } else {
            globs[self.roll(globs.len())]
        };
        text.to_owned()
    }

    fn list(&mut self) -> Vec<String> {
        (0..self.roll(4)).map(|_| self.pattern()).collect()
    }

    fn layer(&mut self) -> LayerSettings {
        let allow = (self.roll(2) == 0).then(|| self.list());
        LayerSettings {
            allow,
            deny: self.list(),
            ..LayerSettings::default()
        }
    }

    fn placed(&mut self) -> Vec<Option<LayerSettings>> {
        (0..LAYERS_HELD)
            .map(|_| (self.roll(5) < 2).then(|| self.layer()))
            .collect()
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for index in (1..list.len()).rev() {
            list.swap(index, self.roll(index + 1));
        }
    }
}

/// Holds `property` against so many random policies; a failure names the one to look at.
fn every(property: impl Fn(&mut PolicyRng)) {
    for seed in 0..POLICIES_TRIED {
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            property(&mut PolicyRng(seed));
        }));
        assert!(held.is_ok(), "the policy of seed {seed}");
    }
}

/// One layer in each of the places that hold for [`bot`], or none.
const LAYERS_HELD: usize = 9;

fn file(placed: &[Option<LayerSettings>]) -> Settings {
    let mut settings = Settings::default();
    let [
        profile,
        by_profile,
        group,
        global,
        by_global,
        agent,
        by_agent,
        environment,
        delegation,
    ] = placed
    else {
        panic!("as many as there are places")
    };
    let around = |own: &Option<LayerSettings>, by_model: &Option<LayerSettings>| {
        let by_model = by_model.clone().map(|layer| {
            let model = written::ModelSettings {
                allow: layer.allow,
                deny: layer.deny,
                ..Default::default()
            };
            ("openai/gpt-5".to_owned(), model)
        });
        (own.is_some() || by_model.is_some()).then(|| LayerSettings {
            by_model_provider: by_model.into_iter().collect(),
            ..own.clone().unwrap_or_default()
        })
    };
    settings
        .profile
        .extend(around(profile, by_profile).map(|layer| ("p".to_owned(), layer)));
    settings
        .group
        .extend(group.clone().map(|layer| ("g".to_owned(), layer)));
    settings.global = around(global, by_global);
    settings
        .agent
        .extend(around(agent, by_agent).map(|layer| ("bot".to_owned(), layer)));
    settings
        .environment
        .extend(environment.clone().map(|layer| ("e".to_owned(), layer)));
    settings.delegation.clone_from(delegation);
    settings
}

/// A caller for whom every place of [`file`] holds, below a parent for whom only `global` does.
fn bot() -> Caller {
    let name = |name: &str| Some(name.to_owned());
    let (profile, group, environment, model) =
        (name("p"), name("g"), name("e"), name("openai/gpt-5"));
    let parents = vec![Arc::new(Caller::named("main"))];
    Caller {
        group,
        model,
        profile,
        environment,
        parents,
        ..Caller::named("bot")
    }
}

fn rule(files: &[Settings]) -> Rule {
    let mut all = Layers::default();
    for file in files {
        all.extend(file.compile(&LayerEnvironment::default(), &mut Problems::default()));
    }
    Rule::new(Mode::Enforce, all, contracts(TOOLS, false))
}

fn visible(rule: &Rule, caller: &Caller) -> Vec<&'static str> {
    let seen = |tool: &&&str| rule.admit(caller, &ToolName::new(tool)).is_ok();
    TOOLS.iter().filter(seen).copied().collect()
}

/// 001-15: a tool is seen if it passes every layer as the layer reads.
#[test]
fn a_tool_survives_every_layer() {
    every(|dice| {
        let files: Vec<_> = (0..=dice.roll(2)).map(|_| dice.placed()).collect();
        let rule = rule(&files.iter().map(|placed| file(placed)).collect::<Vec<_>>());
        let layers: Vec<&LayerSettings> = files.iter().flatten().flatten().collect();
        let survives = |tool: &&&str| layers.iter().all(|layer| passes(layer, tool));
        assert_eq!(
            visible(&rule, &bot()),
            TOOLS.iter().filter(survives).copied().collect::<Vec<_>>()
        );
    });
}

/// 001-14: which layer says what, and in which file, changes nothing of what is seen.
#[test]
fn the_order_of_layers_does_not_matter() {
    every(|dice| {
        let placed = dice.placed();
        let seen = visible(&rule(&[file(&placed)]), &bot());
        let mut other = placed.clone();
        dice.shuffle(&mut other);
        assert_eq!(seen, visible(&rule(&[file(&other)]), &bot()));
        let alone = |index: usize| {
            let mut alone = vec![None; LAYERS_HELD];
            alone[index].clone_from(&placed[index]);
            file(&alone)
        };
        let mut files: Vec<Settings> = (0..LAYERS_HELD).map(alone).collect();
        dice.shuffle(&mut files);
        assert_eq!(seen, visible(&rule(&files), &bot()));
    });
}

/// policy §12: a further deny, and a further layer, never show more.
#[test]
fn what_is_added_never_shows_more() {
    every(|dice| {
        let placed = dice.placed();
        let before = visible(&rule(&[file(&placed)]), &bot());
        let (mut denied, mut added) = (placed.clone(), vec![None; LAYERS_HELD]);
        denied[dice.roll(LAYERS_HELD)]
            .get_or_insert_default()
            .deny
            .push(dice.pattern());
        added[dice.roll(LAYERS_HELD)] = Some(dice.layer());
        for files in [
            vec![file(&denied)],
            vec![file(&placed), file(&added)],
            vec![file(&added), file(&placed)],
        ] {
            let after = visible(&rule(&files), &bot());
            assert!(
                after.iter().all(|tool| before.contains(tool)),
                "{before:?} {after:?}"
            );
        }
    });
}

/// What the layers of [`file`] are called.
const LAYER_LABELS: [&str; LAYERS_HELD] = [
    "profile p",
    "profile.by_model_provider p openai/gpt-5",
    "group g",
    "global",
    "global.by_model_provider openai/gpt-5",
    "agent bot",
    "agent.by_model_provider bot openai/gpt-5",
    "environment e",
    "delegation",
];

/// policy §2.6: `explain` names the first layer that removes the tool, and a pattern that does it;
/// nothing for what is seen.
#[test]
fn explain_names_the_layer_and_the_pattern_that_removed_a_tool() {
    every(|dice| {
        let placed = dice.placed();
        let rule = rule(&[file(&placed)]);
        let tool = TOOLS[dice.roll(TOOLS.len())];
        let name = ToolName::new(tool);
        let steps = rule.explain(&bot(), &name);
        let found = steps.iter().find(|step| step.verdict.refuses());
        assert_eq!(found.is_none(), rule.admit(&bot(), &name).is_ok());
        let Some(found) = found else { return };
        let place = LAYER_LABELS
            .iter()
            .position(|label| *label == found.layer)
            .expect("a layer of the policy");
        let layer = placed[place].as_ref().expect("a layer that is written");
        assert!(
            placed[..place]
                .iter()
                .flatten()
                .all(|layer| passes(layer, tool)),
            "an earlier layer removed it"
        );
        if let LayerVerdict::Denied(pattern) = found.verdict {
            assert!(layer.deny.iter().any(|denied| denied == pattern));
            assert!(matches(pattern.as_bytes(), tool.as_bytes()));
        } else {
            let allowed = LayerSettings {
                deny: Vec::new(),
                ..layer.clone()
            };
            assert!(
                found.verdict == LayerVerdict::NotAllowed && !passes(&allowed, tool),
                "{found}"
            );
        }
    });
}

/// 001-13: a child sees no tool that a parent does not see.
#[test]
fn a_child_sees_no_more_than_its_parent() {
    let mut tools = contracts(&TOOLS[..4], false);
    tools.extend(contracts(&TOOLS[4..], true));
    every(|dice| {
        let layers =
            file(&dice.placed()).compile(&LayerEnvironment::default(), &mut Problems::default());
        let rule = Rule::new(Mode::Enforce, layers, tools.clone());
        let parent = Caller {
            owner: dice.roll(2) == 0,
            ..bot()
        };
        let owner = dice.roll(2) == 0;
        let model = [None, Some("openai"), Some("openai/gpt-5"), Some("acme")][dice.roll(4)]
            .map(ToOwned::to_owned);
        let child = Caller {
            parents: vec![Arc::new(parent.clone())],
            owner,
            model,
            ..Caller::named("child")
        };
        let seen = visible(&rule, &parent);
        assert!(
            visible(&rule, &child)
                .iter()
                .all(|tool| seen.contains(tool))
        );
    });
}

proptest! {
    #[test]
    fn a_pattern_matches_what_its_plain_reading_matches(text in "[aB*]{1,7}", name in "[ab]{0,8}") {
        let pattern = ToolPattern::compile(&text, &mut Problems::default()).unwrap();
        prop_assert_eq!(pattern.matches(&name), matches(text.as_bytes(), name.as_bytes()));
        let lower = text.to_lowercase();
        prop_assert_eq!(pattern.in_any_case(true).matches(&name), matches(lower.as_bytes(), name.as_bytes()));
    }
}
