//! Drafts of calls that nobody has written by hand.

use super::*;
use crate::gate::record::hashes::params_hash;
use crate::guards::{Section as _, arguments};
use crate::mcp::json::Text;
use crate::model::diagnostic::{Problems, Severity};
use crate::model::entry::Entry;
use crate::model::ids::ServerName;
use crate::policy::locate::YamlDocument;
use crate::schema::Schema;
use serde_json::{Map, json};

mod random;

/// Tools of one server, by name, and what was recorded of them.
struct Recorded {
    schemas: Vec<(String, Value)>,
    calls: Vec<(String, Value)>,
}

/// What became of it.
struct Suggested {
    drafts: Vec<ServerDraft>,
    notes: Vec<String>,
    flaws: Vec<(String, &'static str)>,
    /// The calls that were learned from.
    learned: Vec<(String, Value)>,
}

impl Recorded {
    fn definitions(&self) -> Definitions {
        let mut definitions = Definitions::default();
        for (name, schema) in &self.schemas {
            let definition = json!({ "name": name, "inputSchema": schema });
            definitions.add(&ServerName::new("s"), name, &Text::of(&definition));
        }
        definitions
    }

    fn suggested(&self) -> Suggested {
        let definitions = self.definitions();
        let (mut observed, mut learned) = (LearnedCalls::default(), Vec::new());
        for (seq, (name, given)) in (1..).zip(&self.calls) {
            observed.take(seq, &entry(seq, name, given), &definitions);
            if observed.has_learned(seq) {
                learned.push((name.clone(), given.clone()));
            }
        }
        let mut tools = drafted::drafted(&observed, &definitions);
        for (name, given) in &learned {
            let tool = tools.get_mut(format!("s__{name}").as_str()).unwrap();
            tool.try_recorded(given.as_object().unwrap());
        }
        let place = tempfile::tempdir().unwrap();
        let trials = DraftTrials::begin(place.path()).unwrap();
        let mut suggested = Suggested {
            drafts: Vec::new(),
            notes: Vec::new(),
            flaws: Vec::new(),
            learned,
        };
        for mut file in written::files(tools, &definitions) {
            let draft = trials.mended(&mut file, &mut suggested.notes).unwrap();
            suggested.drafts.extend(draft);
            let flaws = file.tools.iter();
            let flaws = flaws.filter_map(|tool| Some((tool.name.to_owned(), tool.flaw?)));
            suggested.flaws.extend(flaws);
        }
        suggested
    }
}

fn entry(seq: u64, name: &str, given: &Value) -> Entry {
    Entry {
        action_id: format!("0198f1a2-{seq:04x}-7000-8000-00000000000a"),
        user_id: ["ann", "bob"][usize::from(seq.is_multiple_of(2))].to_owned(),
        tool: format!("s__{name}"),
        outcome: "answered".to_owned(),
        schema_hash: Some("0".repeat(64)),
        params_hash: params_hash(given),
        audit: given.as_object().unwrap().clone(),
        ..Entry::default()
    }
}

impl Suggested {
    /// What the file says that has the contract of a tool.
    fn arguments(&self, name: &str) -> Option<Map<String, Value>> {
        self.drafts.iter().find_map(|draft| {
            let document = YamlDocument::parse("f", draft.contracts.clone());
            let document = document.map_err(|error| error.to_string()).unwrap();
            let contract = document.tree()["contracts"]
                .get(format!("s__{name}"))?
                .clone();
            Some(
                contract["arguments"]
                    .as_object()
                    .cloned()
                    .unwrap_or_default(),
            )
        })
    }

    /// Every call that was learned from passes what was written.
    fn lets_through(&self, recorded: &Recorded) {
        for (name, schema) in &recorded.schemas {
            let calls: Vec<_> = self.learned.iter().filter(|(of, _)| of == name).collect();
            if calls.is_empty() {
                continue;
            }
            let mut problems = Problems::default();
            let written = self.arguments(name).unwrap();
            let rule = arguments::Settings(written.clone()).compile(&mut problems);
            let schema = Schema::compile(schema).unwrap();
            rule.check_against(&schema, &mut problems);
            for (_, given) in calls {
                let verdict = rule.check(&schema, given).map(drop);
                assert!(verdict.is_ok(), "{given}: {verdict:?}: {written:?}");
            }
            let found = problems.into_found();
            let wrong = found.iter().find(|one| one.severity == Severity::Error);
            assert_eq!(wrong, None, "{written:?}");
        }
    }

    fn is_without(&self, secret: &str) {
        for draft in &self.drafts {
            for text in [Some(&draft.contracts), draft.pack.as_ref()]
                .into_iter()
                .flatten()
            {
                let line = text.lines().find(|line| line.contains(secret));
                assert_eq!(line, None);
            }
        }
    }
}

fn recorded(schema: &Value, calls: &[Value]) -> Recorded {
    Recorded {
        schemas: vec![("t".to_owned(), schema.clone())],
        calls: calls
            .iter()
            .map(|call| ("t".to_owned(), call.clone()))
            .collect(),
    }
}

/// Issue 15 `suggest`: members of open objects and of elements are named, all of them, so that what
/// was recorded passes; what was never given does not.
#[test]
fn objects_of_any_shape_pass_as_they_were_recorded() {
    let open = json!({ "type": "object", "properties": { "note": { "type": "string" }, "meta": { "type": "object" },
        "env": { "type": "array", "items": { "type": "object" } }, "to": { "$ref": "#/$defs/to" } },
        "$defs": { "to": { "type": "object", "properties": { "a": {}, "b": {} } } } });
    for calls in [
        vec![json!({ "note": "hi", "meta": { "title": "x", "done": true } })],
        vec![
            json!({ "meta": { "title": "x" } }),
            json!({ "meta": { "title": "y", "prio": 3 } }),
        ],
        vec![
            json!({ "meta": { "title": "a" } }),
            json!({ "meta": { "title": "b" } }),
            json!({ "meta": { "title": "c" } }),
            json!({ "meta": { "title": "d", "prio": 3 } }),
        ],
        vec![json!({ "env": [{ "key": "API_KEY", "value": "x" }] })],
        vec![json!({ "env": [{ "a": 1 }, { "b": "x", "c": null }] })],
        vec![json!({ "to": { "a": 1 } }), json!({ "to": { "b": [{}] } })],
        vec![
            json!({ "meta": {} }),
            json!({ "meta": { "x": { "y": { "z": { "deep": { "er": 1 } } } } } }),
        ],
        vec![
            json!({ "meta": (0..40).map(|n| (format!("n{n}"), json!(n))).collect::<Map<_, _>>() }),
        ],
    ] {
        let recorded = recorded(&open, &calls);
        let suggested = recorded.suggested();
        assert_eq!(suggested.learned.len(), calls.len(), "{calls:?}");
        assert_eq!(
            (suggested.notes.len(), suggested.flaws.len()),
            (0, 0),
            "{calls:?}"
        );
        suggested.lets_through(&recorded);
    }
    let suggested = recorded(&open, &[json!({ "to": { "a": 1, "c": 2 } })]).suggested();
    assert_eq!(suggested.learned.len(), 0, "the tool does not have it");
}

/// Issue 15 `suggest`: names that are not told stand in no draft, and calls with them pass.
#[test]
fn names_that_are_not_told_pass() {
    let given = json!({ "a": "x", "ghp_canary0123456789abcdef": 1 });
    let recorded = recorded(&json!({ "type": "object" }), &[given]);
    let suggested = recorded.suggested();
    suggested.lets_through(&recorded);
    suggested.is_without("canary");
    assert_eq!(suggested.flaws, []);
}

/// Issue 15 `suggest`: what is too deep or too long becomes no sample, or a cut one; without any, no call
/// is said to be outside, and it is noted.
#[test]
fn odd_calls_become_no_samples() {
    let mut deep = json!({});
    for _ in 0..60 {
        deep = json!({ "x": deep });
    }
    let any =
        json!({ "type": "object", "properties": { "meta": {}, "note": {} }, "required": ["note"] });
    let recorded = Recorded {
        schemas: ["deep", "long", "plain"]
            .map(|name| (name.to_owned(), any.clone()))
            .into(),
        calls: vec![
            ("deep".to_owned(), json!({ "note": "x", "meta": deep })),
            ("long".to_owned(), json!({ "note": "word ".repeat(5_000) })),
            ("plain".to_owned(), json!({ "note": "x" })),
        ],
    };
    let suggested = recorded.suggested();
    suggested.lets_through(&recorded);
    assert_eq!((suggested.notes.len(), suggested.flaws.len()), (0, 0));
    let draft = &suggested.drafts[0];
    let pack = draft.pack.as_deref().unwrap();
    assert!(
        draft.contracts.contains("no sample tries these bounds"),
        "{}",
        draft.contracts
    );
    assert!(!pack.contains("tool: \"s__deep\""), "{pack}");
    assert!(
        pack.contains("with long texts cut") && pack.contains("s__long: outside 1"),
        "{pack}"
    );
    assert!(
        suggested
            .arguments("deep")
            .unwrap()
            .contains_key("properties")
    );
}

/// Issue 15 `suggest`: a server whose drafts are too large for one file has several.
#[test]
fn large_drafts_are_several_files() {
    let names: Map<String, Value> = (0..14).map(|n| (format!("text_{n}"), json!({}))).collect();
    let schema = json!({ "type": "object", "properties": names });
    let tools: Vec<String> = (0..40).map(|n| format!("tool_{n:02}")).collect();
    let given = |n: usize| {
        let texts = (0..14).map(|at| {
            (
                format!("text_{at}"),
                json!(format!("{n} {}", "word ".repeat(18))),
            )
        });
        Value::Object(texts.collect())
    };
    let recorded = Recorded {
        schemas: tools
            .iter()
            .map(|name| (name.clone(), schema.clone()))
            .collect(),
        calls: tools
            .iter()
            .flat_map(|name| (0..4).map(|n| (name.clone(), given(n))))
            .collect(),
    };
    let suggested = recorded.suggested();
    assert_eq!((suggested.notes.len(), suggested.flaws.len()), (0, 0));
    let names: Vec<&str> = suggested
        .drafts
        .iter()
        .map(|draft| draft.name.as_str())
        .collect();
    assert!(
        names.len() > 1 && names.starts_with(&["s", "s.2"]),
        "{names:?}"
    );
    assert!(suggested.drafts.iter().all(|draft| draft.pack.is_some()));
    suggested.lets_through(&recorded);
}

/// Issue 15 `suggest`: a tool whose draft is not good has one without bounds, and the others stay.
#[test]
fn a_draft_that_is_not_good_spoils_no_other() {
    let paths = |n: usize| {
        (0..n)
            .map(|at| (format!("path_{at}"), json!("/srv/x")))
            .collect::<Map<_, _>>()
    };
    let mut many = paths(63);
    many.insert("more".to_owned(), paths(2).into());
    let any = json!({ "type": "object" });
    let recorded = Recorded {
        schemas: ["many", "plain"]
            .map(|name| (name.to_owned(), any.clone()))
            .into(),
        calls: vec![
            ("many".to_owned(), many.into()),
            ("plain".to_owned(), json!({ "n": 1 })),
        ],
    };
    let suggested = recorded.suggested();
    let flawed: Vec<&str> = suggested
        .flaws
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!((flawed, suggested.notes.len()), (vec!["s__many"], 0));
    assert!(suggested.drafts[0].contracts.contains("# no bounds: "));
    assert_eq!(suggested.arguments("many").unwrap(), Map::new());
    assert!(!suggested.arguments("plain").unwrap().is_empty());

    let definitions = recorded.definitions();
    let mut observed = LearnedCalls::default();
    observed.take(1, &entry(1, "plain", &json!({ "n": 1 })), &definitions);
    let mut tools = drafted::drafted(&observed, &definitions);
    let tool = tools.get_mut("s__plain").unwrap();
    tool.try_recorded(json!({ "n": 1 }).as_object().unwrap());
    assert_eq!(tool.flaw, None);
    tool.try_recorded(json!({ "n": 7 }).as_object().unwrap());
    assert!(tool.flaw.unwrap().contains("recorded") && tool.outside().is_empty());
    assert!(
        !tool.contract("s").contains("arguments:"),
        "{}",
        tool.contract("s")
    );
}

/// Issue 15 `suggest`: where a file is not as it says, the tool that is wrong in it loses its bounds and
/// samples, and the others keep theirs.
#[test]
fn a_file_that_is_not_good_is_mended() {
    let any = json!({ "type": "object" });
    let names = ["other", "plain"];
    let recorded = Recorded {
        schemas: names.map(|name| (name.to_owned(), any.clone())).into(),
        calls: names
            .map(|name| (name.to_owned(), json!({ "n": 1 })))
            .into(),
    };
    let definitions = recorded.definitions();
    let mut observed = LearnedCalls::default();
    for (seq, (name, given)) in (1..).zip(&recorded.calls) {
        observed.take(seq, &entry(seq, name, given), &definitions);
    }
    let tools = drafted::drafted(&observed, &definitions);
    let mut files = written::files(tools, &definitions);
    files[0].tools[0].schema = Some(json!({ "type": "object", "required": ["absent"] }));
    let place = tempfile::tempdir().unwrap();
    let trials = DraftTrials::begin(place.path()).unwrap();
    let mut notes = Vec::new();
    let draft = trials.mended(&mut files[0], &mut notes).unwrap().unwrap();
    assert_eq!((notes, draft.counts.0), (Vec::new(), 2));
    let flaws: Vec<bool> = files[0]
        .tools
        .iter()
        .map(|tool| tool.flaw.is_some())
        .collect();
    assert_eq!(flaws, [true, false]);
    let pack = draft.pack.unwrap();
    assert!(
        !pack.contains("tool: \"s__other\"") && pack.contains("tool: \"s__plain\""),
        "{pack}"
    );
}

/// threat-model §13 F3: what a server writes makes `suggest` look for no name twice, however many calls
/// and elements name it, and for so many at most.
#[test]
fn names_are_looked_for_once_and_to_a_bound() {
    let lead_back = (0..600).map(|at| {
        let below = json!({ "$ref": "#", "properties": { (format!("q{at}")): {} } });
        (format!("p{at}"), below)
    });
    let members: Map<String, Value> = lead_back.collect();
    let hostile = json!({ "properties": members, "items": { "$ref": "#" } });
    let deep = (0..6).fold(json!({ "p1": 1 }), |below, _| json!({ "p1": below }));
    let element = json!({ "p2": deep });
    let call = json!({ "p0": vec![element; 200] });
    let names = 9;
    let recorded = recorded(&hostile, std::slice::from_ref(&call));
    let definitions = recorded.definitions();
    let mut observed = LearnedCalls::default();
    for seq in 1..=20 {
        observed.take(seq, &entry(seq, "t", &call), &definitions);
    }
    assert!(
        definitions.searched() <= names,
        "{}",
        definitions.searched()
    );

    let open = json!({ "type": "object", "additionalProperties": true });
    let definitions = self::recorded(&open, &[]).definitions();
    for seq in 1..=3 {
        let member = |at: u64| (format!("n{seq}_{at}"), json!(at));
        let call = Value::Object((0..5_000).map(member).collect());
        observed.take(seq, &entry(seq, "t", &call), &definitions);
    }
    assert_eq!(definitions.searched(), searched::MAX_NAMES_SEARCHED);
}

/// Only what was made for the trials goes when they end.
#[test]
fn directories_that_were_there_stay() {
    let place = tempfile::tempdir().unwrap();
    let mine = place.path().join("mine");
    std::fs::create_dir(&mine).unwrap();
    drop(DraftTrials::begin(&mine).unwrap());
    assert!(mine.is_dir());
    drop(DraftTrials::begin(&mine.join("a/b")).unwrap());
    assert!(mine.is_dir() && !mine.join("a").exists());
    let trials = DraftTrials::begin(&mine.join("a/b")).unwrap();
    write(&mine.join("a/b"), &[(PathBuf::from("x.yaml"), "x")]).unwrap();
    drop(trials);
    assert!(mine.join("a/b/x.yaml").is_file());
    assert_eq!(mine.join("a/b").read_dir().unwrap().count(), 1);
}
