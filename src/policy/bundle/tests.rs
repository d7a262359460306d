//! What a bundle is called, and what is noted of it.

use super::keeper::ShelfKeeper;
use super::lives::{self, LifeOrigin};
use super::notes::{self, RollbackNote};
use super::shelf::PolicyShelf;
use super::*;
use crate::model::clock::Clock;
use crate::policy::live::keeping::PolicyKeeper as _;
use jiff::Timestamp;
use serde_json::json;

fn sources(directory: &Path, text: &str) -> PolicySources {
    let file = |name: &str, kind, text: &str| SourceFile {
        path: directory.join(name),
        kind,
        text: text.to_owned(),
    };
    let settings = json!({ "policies": ["p"], "mode": "enforce" });
    PolicySources {
        directory: directory.to_owned(),
        settings: settings.as_object().unwrap().clone(),
        files: vec![
            file("./p/b.yaml", SourceKind::Policy, text),
            file("pins.yaml", SourceKind::Pins, "pins: {}\n"),
            file("../shared/a.yaml", SourceKind::Policy, ""),
            file("p/tests/t.yaml", SourceKind::Pack, "pack: t\n"),
        ],
    }
}

/// 003-42: the same files have the same name wherever they lie, and other files another.
#[test]
fn a_name_stands_for_the_files() {
    let one = Bundle::of(&sources(Path::new("/srv/one"), "x")).unwrap();
    let mut other = sources(Path::new("/srv/other"), "x");
    other.files.reverse();
    other.settings.reverse_members();
    assert_eq!(Bundle::of(&other).unwrap().name(), one.name());
    let names: Vec<&str> = one.files().iter().map(|file| &*file.name).collect();
    assert_eq!(
        names,
        [
            "../shared/a.yaml",
            "p/b.yaml",
            "p/tests/t.yaml",
            "pins.yaml"
        ]
    );
    let mut changes: Vec<PolicySources> = (0..4).map(|_| sources(Path::new("/srv"), "x")).collect();
    changes[0].files[0].text.push(' ');
    changes[1].files[1].text.push(' ');
    changes[2].files.pop();
    changes[3].settings.insert("mode".into(), "observe".into());
    let mut names: Vec<Digest> = changes
        .iter()
        .map(|changed| Bundle::of(changed).unwrap().name())
        .chain([one.name()])
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 5);
    assert_eq!(Bundle::read(one.name(), &one.written()).unwrap(), one);
}

trait Reversed {
    fn reverse_members(&mut self);
}

impl Reversed for Map<String, Value> {
    fn reverse_members(&mut self) {
        *self = std::mem::take(self).into_iter().rev().collect();
    }
}

#[test]
fn a_name_that_leads_nowhere_is_no_file() {
    for (name, fits) in [
        ("p/b.yaml", true),
        ("../b.yaml", true),
        ("/etc/b.yaml", true),
        ("", false),
        ("..", false),
        ("p/..", false),
        ("/", false),
        ("p/\u{1b}b.yaml", false),
        ("p/\nb.yaml", false),
    ] {
        let file = BundledFile {
            name: name.to_owned(),
            kind: SourceKind::Policy,
            text: String::new(),
        };
        let written = Bundle::holding(&Map::new(), vec![file]).unwrap().written();
        let read = Bundle::read(Digest::of(written.as_bytes()), &written);
        assert_eq!(read.is_ok(), fits, "{name:?}");
    }
}

#[test]
fn a_bundle_of_a_later_version_says_so() {
    let written = json!({ "format": 2, "settings": "{}", "files": [] }).to_string();
    let name = Digest::of(written.as_bytes());
    let refused = Bundle::read(name, &written).unwrap_err().to_string();
    assert!(refused.contains("its format is 2"), "{refused}");
}

/// 003-42: each time that a policy comes in force is noted, with what brought it there.
#[test]
fn what_came_in_force_is_noted() {
    let directory = tempfile::tempdir().unwrap();
    let shelf = PolicyShelf::of(directory.path());
    let keeper = ShelfKeeper::new(directory.path(), Path::new("/srv/toolgate.yaml"));
    let (first, second) = (
        sources(Path::new("/srv"), "first"),
        sources(Path::new("/srv"), "second"),
    );
    keeper.comes(&first, "v1");
    keeper.renamed("v1-without-a-tool");
    keeper.comes(&second, "v2");
    let name = Bundle::of(&first).unwrap().name();
    let note = RollbackNote {
        to: name,
        copy: Bundle::of(&second).unwrap().name(),
        at: Clock.wall(),
        by: "ann".to_owned(),
        why: Some("it was better".to_owned()),
        forced: false,
    };
    notes::begin(&shelf, &note).unwrap();
    assert_eq!(notes::under_way(&shelf).unwrap().as_ref(), Some(&note));
    notes::end(&shelf, &note).unwrap();
    assert_eq!(notes::under_way(&shelf).unwrap(), None);
    keeper.comes(&first, "v1");
    keeper.comes(&second, "v2");
    keeper.comes(&first, "v1");
    let lives = lives::all(&shelf).unwrap();
    let told: Vec<_> = lives
        .iter()
        .map(|life| (life.policy.as_str(), life.from, life.why.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("v1", LifeOrigin::Start, None),
            ("v1-without-a-tool", LifeOrigin::Switch, None),
            ("v2", LifeOrigin::Reload, None),
            ("v1", LifeOrigin::Rollback, Some("it was better")),
            ("v2", LifeOrigin::Reload, None),
            ("v1", LifeOrigin::Reload, None),
        ]
    );
    assert_eq!(shelf.all().unwrap().len(), 2);
}

/// What a crash leaves of a line is no line, and the next one is whole.
#[test]
fn a_torn_line_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let shelf = PolicyShelf::of(directory.path());
    let keeper = ShelfKeeper::new(directory.path(), Path::new("toolgate.yaml"));
    keeper.comes(&sources(Path::new("/srv"), "x"), "v1");
    let file = shelf.directory().join("lives.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}{}", &text[..text.len() / 2])).unwrap();
    keeper.comes(&sources(Path::new("/srv"), "y"), "v2");
    let versions: Vec<String> = lives::all(&shelf)
        .unwrap()
        .into_iter()
        .map(|life| life.policy)
        .collect();
    assert_eq!(versions, ["v1", "v2"]);
}

/// A rollback waits to be recorded until a toolgate has done that; where none ever does, only the newest wait.
#[test]
fn rollbacks_wait_to_be_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let shelf = PolicyShelf::of(directory.path());
    shelf.open().unwrap();
    assert!(notes::unrecorded(&shelf).unwrap().is_empty());
    let name = Bundle::of(&sources(Path::new("/srv"), "first"))
        .unwrap()
        .name();
    let note = |second: i64| RollbackNote {
        to: name,
        copy: name,
        at: Timestamp::from_second(second).unwrap(),
        by: "ann".to_owned(),
        why: Some(format!("the one of second {second}")),
        forced: false,
    };
    for second in 1..=70 {
        notes::begin(&shelf, &note(second)).unwrap();
        notes::end(&shelf, &note(second)).unwrap();
    }
    let folder = shelf.directory().join("unrecorded");
    std::fs::write(folder.join("0.json"), "{").unwrap();
    let waiting = || -> Vec<_> {
        let waiting = notes::unrecorded(&shelf).unwrap();
        waiting.into_iter().map(|(_, note)| note).collect()
    };
    let newest: Vec<RollbackNote> = (7..=70).map(note).collect();
    assert_eq!(waiting(), newest, "what cannot be read hides nothing");
    let (first, _) = notes::unrecorded(&shelf).unwrap().swap_remove(0);
    for _ in 0..2 {
        notes::recorded(&first).unwrap();
    }
    assert_eq!(waiting(), newest[1..]);
}
