//! Scenarios of who sees which tool.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn caller(agent: &str, owner: bool) -> Caller {
    Caller { owner, ..Caller::named(agent) }
}

fn layers(allow: Option<&[&str]>, deny: &[&str]) -> Vec<Layer> {
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let global = Some(LayerSettings { allow: allow.map(owned), deny: owned(deny) });
    let mut problems = Problems::default();
    let layers = Settings { global, agent: BTreeMap::new() }.compile(&mut problems);
    assert_eq!(problems.into_found(), []);
    layers
}

fn contracts(tools: &[&str], owner_only: bool) -> HashMap<ToolName, Arc<ToolRules>> {
    let rules = || Arc::new(ToolRules { owner_only, ..ToolRules::default() });
    tools.iter().map(|tool| (ToolName::new(tool), rules())).collect()
}

#[test]
fn a_layer_decides_by_its_table() {
    type Case = (Option<&'static [&'static str]>, &'static [&'static str], &'static str, &'static str);
    let cases: &[Case] = &[
        (None, &[], "fs__read", "contract: nothing against it"),
        (Some(&[]), &[], "fs__read", "global: no pattern of `allow` matches"),
        (Some(&["fs__*"]), &[], "fs__read", "contract: nothing against it"),
        (Some(&["fs__*"]), &["*__read"], "fs__read", "global: denied by `*__read`"),
        (Some(&["FS__*"]), &[], "fs__read", "global: no pattern of `allow` matches"),
        (Some(&["fs__rea"]), &[], "fs__read", "global: no pattern of `allow` matches"),
        (Some(&["s__read"]), &[], "fs__read", "global: no pattern of `allow` matches"),
        (Some(&["*"]), &[], "fs__other", "contract: the tool has no contract"),
    ];
    for (allow, deny, tool, decides) in cases {
        let rule = Rule::new(Mode::Enforce, layers(*allow, deny), contracts(&["fs__read"], false));
        let by = match rule.admit(&caller("a", false), &ToolName::new(tool)) {
            Ok(admitted) => admitted.by().to_string(),
            Err(denied) => {
                assert_eq!(denied.refusal, Refusal::ToolNotAllowlisted);
                denied.by.to_string()
            }
        };
        assert_eq!(&by, decides, "{allow:?} {deny:?} {tool}");
    }
}

/// 001-03, 001-04, 001-P3: owner-only tools are there for owners only, allowed or not.
#[test]
fn owner_only_tools_are_hidden_from_others() {
    let rule = Rule::new(Mode::Enforce, layers(Some(&["*"]), &[]), contracts(&["fs__wipe"], true));
    let tool = ToolName::new("fs__wipe");
    assert!(rule.admit(&caller("a", true), &tool).is_ok());
    let denied = rule.admit(&caller("a", false), &tool).unwrap_err();
    assert_eq!(denied.by, Provenance { layer: "owner", verdict: Verdict::OwnerOnly });
}

#[test]
fn observe_mode_admits_everything_and_says_what_it_would_refuse() {
    let rule = Rule::new(Mode::Observe, layers(None, &["*__drop"]), contracts(&["fs__drop"], false));
    for tool in ["fs__drop", "fs__unknown"] {
        let admitted = rule.admit(&caller("a", false), &ToolName::new(tool)).unwrap();
        assert_eq!(admitted.would_refuse(), Some(Refusal::ToolNotAllowlisted), "{tool}");
    }
    assert!(rule.admit(&caller("a", false), &ToolName::new("fs__unknown")).unwrap().rules().side_effect);
}

const TOOLS: &[&str] = &["fs__read", "fs__write", "db__read", "db__drop_table", "db__drop", "web__get"];

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(TOOLS).prop_map(ToOwned::to_owned),
        Just("*".to_owned()),
        Just("fs__*".to_owned()),
        Just("*__read".to_owned()),
        Just("*drop*".to_owned()),
        "[a-z_*]{1,6}",
    ]
}

fn layer() -> impl Strategy<Value = LayerSettings> {
    let list = || prop::collection::vec(pattern(), 0..4);
    (prop::option::of(list()), list()).prop_map(|(allow, deny)| LayerSettings { allow, deny })
}

fn compiled(written: &[LayerSettings]) -> Vec<Layer> {
    let one = |layer: &LayerSettings| {
        let settings = Settings { global: Some(layer.clone()), agent: BTreeMap::new() };
        settings.compile(&mut Problems::default())
    };
    written.iter().flat_map(one).collect()
}

fn visible(layers: Vec<Layer>) -> Vec<&'static str> {
    let rule = Rule::new(Mode::Enforce, layers, contracts(TOOLS, false));
    let seen = |tool: &&&str| rule.admit(&caller("a", false), &ToolName::new(tool)).is_ok();
    TOOLS.iter().filter(seen).copied().collect()
}

/// The plain reading of a pattern, to compare with.
fn by_regex(pattern: &str, name: &str) -> bool {
    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
    regex::Regex::new(&format!("(?s)^{}$", parts.join(".*"))).unwrap().is_match(name)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_order_of_layers_does_not_matter(
        (written, shuffled) in prop::collection::vec(layer(), 0..5)
            .prop_flat_map(|written| (Just(written.clone()), Just(written).prop_shuffle()))
    ) {
        prop_assert_eq!(visible(compiled(&written)), visible(compiled(&shuffled)));
    }

    #[test]
    fn a_further_deny_never_shows_more(
        written in prop::collection::vec(layer(), 1..5), deny in pattern(), place in any::<prop::sample::Index>()
    ) {
        let before = visible(compiled(&written));
        let mut narrowed = written.clone();
        let at = place.index(narrowed.len());
        narrowed[at].deny.push(deny);
        let after = visible(compiled(&narrowed));
        prop_assert!(after.iter().all(|tool| before.contains(tool)), "{:?} {:?}", before, after);
    }

    #[test]
    fn a_pattern_matches_what_its_plain_reading_matches(text in "[ab*]{1,7}", name in "[ab]{0,8}") {
        let pattern = Pattern::compile(&text, &mut Problems::default()).unwrap();
        prop_assert_eq!(pattern.matches(&name), by_regex(&text, &name));
    }
}
