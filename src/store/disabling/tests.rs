//! What is taken away stays away, and the journal says by whom.

use super::super::journal::{JournalOptions, JournalReader};
use super::*;
use parking_lot::Mutex as Held;

struct DisablingTestBed {
    disabling: Disabling,
    journal: Journal,
    in_force: Arc<Held<Vec<String>>>,
}

fn open(data: &Path) -> DisablingTestBed {
    let journal = Journal::open(data, JournalOptions::default()).unwrap();
    let in_force = Arc::<Held<Vec<String>>>::default();
    let seen = in_force.clone();
    let apply =
        move |disabled: Disabled| *seen.lock() = disabled.keys().map(ToString::to_string).collect();
    DisablingTestBed {
        disabling: Disabling::open(data, journal.clone(), Arc::new(apply)).unwrap(),
        journal,
        in_force,
    }
}

fn change(tool: &str, disable: bool, why: &str) -> DisablingChange {
    DisablingChange {
        tool: ToolName::new(tool),
        disable,
        who: "ann".to_owned(),
        why: why.to_owned(),
        at: 1_700_000_000_000,
    }
}

fn notes(data: &Path) -> Vec<Note> {
    let records = JournalReader::open(data).unwrap().map(Result::unwrap);
    let events = records.filter_map(|record| {
        record
            .event()
            .map(|bytes| StoreEvent::decode(bytes).unwrap())
    });
    let notes = events.filter_map(|event| {
        if let StoreEvent::Noted(noted) = event {
            Some(noted.note)
        } else {
            None
        }
    });
    notes.collect()
}

/// 003-41: away at once, after a restart, too, until an operator gives it back; each with a record
/// of who and why.
#[tokio::test]
async fn a_tool_is_away_until_it_is_given_back() {
    let data = tempfile::tempdir().unwrap();
    let desk = open(data.path());
    desk.disabling
        .make(change("fs__wipe", true, " wiped too much "))
        .await
        .unwrap();
    desk.disabling
        .make(change("fs__read", true, "x"))
        .await
        .unwrap();
    assert_eq!(*desk.in_force.lock(), ["fs__read", "fs__wipe"]);
    desk.journal.close().await.unwrap();
    drop(desk);

    let desk = open(data.path());
    assert_eq!(*desk.in_force.lock(), ["fs__read", "fs__wipe"]);
    let reason = desk.disabling.disabled().await.remove("fs__wipe").unwrap();
    assert_eq!(
        (reason.who.as_str(), reason.why.as_str()),
        ("ann", "wiped too much")
    );
    assert_eq!(reason.since, "2023-11-14T22:13:20Z");
    desk.disabling
        .make(change("fs__wipe", false, "mended"))
        .await
        .unwrap();
    assert_eq!(*desk.in_force.lock(), ["fs__read"]);
    assert_eq!(read(data.path()).unwrap().len(), 1);
    desk.journal.close().await.unwrap();
    let of = |tool: &str, why: &str| (ToolName::new(tool), "ann".to_owned(), why.to_owned());
    let said: Vec<_> = notes(data.path())
        .into_iter()
        .map(|note| match note {
            Note::Disabled { tool, who, why } => (true, (tool, who, why)),
            Note::Enabled { tool, who, why } => (false, (tool, who, why)),
            Note::Started { .. }
            | Note::Stopped { .. }
            | Note::Reloaded { .. }
            | Note::ReloadRefused { .. }
            | Note::RolledBack(_)
            | Note::Stripped { .. }
            | Note::Drifted { .. }
            | Note::Incident { .. } => panic!("{note:?}"),
        })
        .collect();
    let expected = [
        (true, of("fs__wipe", "wiped too much")),
        (true, of("fs__read", "x")),
        (false, of("fs__wipe", "mended")),
    ];
    assert_eq!(said, expected);
}

/// What cannot be recorded takes away all the same, and gives nothing back.
#[tokio::test]
async fn without_a_record_nothing_is_given_back() {
    let data = tempfile::tempdir().unwrap();
    let desk = open(data.path());
    desk.disabling
        .make(change("fs__wipe", true, "why"))
        .await
        .unwrap();
    desk.journal.close().await.unwrap();
    let refused = desk.disabling.make(change("fs__wipe", false, "why")).await;
    assert!(
        matches!(refused, Err(DisablingError::Store(_))),
        "{refused:?}"
    );
    let unrecorded = desk.disabling.make(change("fs__read", true, "why")).await;
    assert!(
        matches!(unrecorded, Err(DisablingError::Unrecorded(_))),
        "{unrecorded:?}"
    );
    assert_eq!(*desk.in_force.lock(), ["fs__read", "fs__wipe"]);
    assert_eq!(read(data.path()).unwrap().len(), 2);
}

#[tokio::test]
async fn what_is_said_has_to_be_fit() {
    let data = tempfile::tempdir().unwrap();
    let desk = open(data.path());
    for why in ["", "  ", &"x".repeat(MAX_RESOLVE_REASON_BYTES + 1)] {
        assert!(matches!(
            desk.disabling.make(change("fs__a", true, why)).await,
            Err(DisablingError::Unfit(_))
        ));
    }
    assert_eq!(
        desk.disabling.make(change("fs__a", false, "why")).await,
        Err(DisablingError::NotDisabled)
    );
    assert_eq!(*desk.in_force.lock(), [""; 0]);
}

/// A file that cannot be read says nothing; a toolgate that starts then would serve what was taken
/// away.
#[test]
fn a_file_that_cannot_be_read_stops_the_start() {
    for text in [
        "",
        "{",
        "{\"fs__a\": {}}",
        "{\"fs__a\": 1}",
        "[]",
        "{\"a\":1,\"a\":1}",
    ] {
        let data = tempfile::tempdir().unwrap();
        std::fs::write(file(data.path()), text).unwrap();
        assert!(read(data.path()).is_err(), "{text}");
    }
}
