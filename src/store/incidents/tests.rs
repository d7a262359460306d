//! What an incident freezes stays frozen until it is closed, whatever ends toolgate in between.

use super::super::journal::{JournalOptions, JournalReader};
use super::super::memory::MemoryStore;
use super::super::state::event::StoreEvent;
use super::*;
use crate::model::clock::Clock;
use parking_lot::Mutex as Held;

mod at_once;
mod bounds;

struct IncidentsTestBed {
    incidents: Incidents,
    journal: Journal,
    store: MemoryStore,
    in_force: Arc<Held<Vec<String>>>,
}

fn open(data: &Path) -> IncidentsTestBed {
    let journal = Journal::open(data, JournalOptions::default()).unwrap();
    let in_force = Arc::<Held<Vec<String>>>::default();
    let seen = in_force.clone();
    let apply = move |frozen: Vec<FrozenScope>| {
        *seen.lock() = frozen.into_iter().map(|scope| scope.pattern).collect();
    };
    IncidentsTestBed {
        incidents: Incidents::open(data, journal.clone(), Arc::new(apply)).unwrap(),
        journal,
        store: MemoryStore::new(Clock),
        in_force,
    }
}

fn wish(scope: &str, why: &str) -> IncidentWish {
    IncidentWish {
        scope: scope.to_owned(),
        tools: vec![ToolName::new("bank__pay")],
        who: "ann".to_owned(),
        why: why.to_owned(),
    }
}

fn closing(id: u64, force: bool) -> ClosingWish {
    let (who, why) = ("bob".to_owned(), "mended".to_owned());
    ClosingWish {
        id,
        who,
        why,
        force,
    }
}

fn sample(action_id: &str) -> IncidentSample {
    IncidentSample {
        action_id: action_id.to_owned(),
        expect: "too_much".to_owned(),
        file: "tests/incidents.yaml".to_owned(),
        tool: Some("bank__pay".to_owned()),
    }
}

/// Packs that are as expected, or not.
fn packs(are_fine: bool) -> Arc<RunPacks> {
    Arc::new(move |calls| {
        assert_eq!(calls, [sample("a-1")]);
        if are_fine {
            Ok("3 samples are as expected".to_owned())
        } else {
            Err("1 of 3 samples is not as expected".to_owned())
        }
    })
}

/// What the ledger tells, once the journal is closed.
async fn recorded(bed: IncidentsTestBed, data: &Path) -> Vec<(IncidentStep, String)> {
    bed.journal.close().await.unwrap();
    drop(bed);
    let records = JournalReader::open(data).unwrap().map(Result::unwrap);
    let events = records.filter_map(|record| {
        let event = record.event()?;
        let StoreEvent::Noted(noted) = StoreEvent::decode(event).unwrap() else {
            return None;
        };
        if let Note::Incident { step, who, .. } = noted.note {
            Some((step, who))
        } else {
            None
        }
    });
    events.collect()
}

/// 003-43: closed only when the packs pass with the sample of the call, and every step is on record.
#[tokio::test]
async fn an_incident_is_closed_when_its_sample_is_as_expected() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    let (incidents, store) = (&bed.incidents, &bed.store);
    let opened = incidents
        .begin(store, wish("bank__*", " pays twice "))
        .await;
    let opened = opened.unwrap();
    assert_eq!(
        (opened.id, opened.why.as_str(), opened.settled),
        (1, "pays twice", true)
    );
    assert_eq!(*bed.in_force.lock(), ["bank__*"]);
    let again = incidents.begin(store, wish("bank__*", "x")).await;
    assert_eq!(again, Err(IncidentError::AlreadyOpen(1)));

    let refused = incidents.close(store, closing(1, false), packs(true)).await;
    assert!(
        matches!(&refused, Err(IncidentError::Failing(why)) if why.contains("incident sample")),
        "{refused:?}"
    );
    for _ in 0..2 {
        let sampled = incidents.sampled(store, 1, sample("a-1"), "ann").await;
        assert_eq!(sampled.unwrap().samples, [sample("a-1")], "each call once");
    }
    let refused = incidents
        .close(store, closing(1, false), packs(false))
        .await;
    assert!(
        matches!(&refused, Err(IncidentError::Failing(why)) if why.contains("1 of 3")),
        "{refused:?}"
    );
    assert_eq!(*bed.in_force.lock(), ["bank__*"]);
    let closed = incidents.close(store, closing(1, false), packs(true)).await;
    let end = closed.unwrap().closed.unwrap();
    assert_eq!(
        (end.who.as_str(), end.forced, end.packs.as_str()),
        ("bob", false, "3 samples are as expected")
    );
    assert!(bed.in_force.lock().is_empty());
    let told = recorded(bed, data.path()).await;
    let steps: Vec<IncidentStep> = told.iter().map(|(step, _)| *step).collect();
    let expected = [
        IncidentStep::Opened,
        IncidentStep::Frozen,
        IncidentStep::Refused,
        IncidentStep::Sampled,
        IncidentStep::Sampled,
        IncidentStep::Refused,
        IncidentStep::Closed,
    ];
    assert_eq!(steps, expected);
    let who: Vec<&str> = told.iter().map(|(_, who)| who.as_str()).collect();
    assert_eq!(who[..2], ["ann", ITSELF]);
    let kept = &read(data.path()).unwrap()[&1];
    let line: Vec<IncidentStep> = kept.timeline.iter().map(|event| event.step).collect();
    assert_eq!(line, expected, "the timeline writes itself");
}

/// Forced, it is closed whatever the packs say, and that is on record.
#[tokio::test]
async fn a_forced_end_says_so() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    let (incidents, store) = (&bed.incidents, &bed.store);
    incidents
        .begin(store, wish("bank__pay", "why"))
        .await
        .unwrap();
    incidents
        .sampled(store, 1, sample("a-1"), "ann")
        .await
        .unwrap();
    let closed = incidents.close(store, closing(1, true), packs(false)).await;
    let closed = closed.unwrap();
    let end = closed.closed.clone().unwrap();
    assert!(end.forced && end.packs.contains("1 of 3"), "{end:?}");
    let last = closed.timeline.last().unwrap();
    assert_eq!(
        last.why,
        "mended; forced: 1 of 3 samples is not as expected"
    );
    let late = incidents.close(store, closing(1, true), packs(true)).await;
    assert_eq!(late, Err(IncidentError::Closed(1)));
    assert_eq!(
        incidents.sampled(store, 2, sample("a-1"), "ann").await,
        Err(IncidentError::Gone(2))
    );
    let next = incidents.begin(store, wish("bank__pay", "again")).await;
    assert_eq!(next.unwrap().id, 2, "a number is given once");
}

/// A call of a tool that the incident does not freeze is no sample of it.
#[tokio::test]
async fn a_call_of_another_tool_is_no_sample() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    let opened = bed.incidents.begin(&bed.store, wish("bank__*", "odd"));
    opened.await.unwrap();
    for tool in [Some("fs__wipe".to_owned()), None] {
        let sample = IncidentSample {
            tool,
            ..sample("a-1")
        };
        let noted = bed.incidents.sampled(&bed.store, 1, sample, "ann").await;
        assert_eq!(noted, Err(IncidentError::NoSuchCall));
    }
}

/// A crash right after the file was durable: the next start freezes, and does the rest.
#[tokio::test]
async fn what_a_crash_leaves_undone_is_done_at_the_next_start() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    bed.incidents
        .begin(&bed.store, wish("bank__*", "why"))
        .await
        .unwrap();
    bed.journal.close().await.unwrap();
    drop(bed);
    let mut kept = read(data.path()).unwrap().remove(&1).unwrap();
    kept.settled = false;
    kept.timeline.truncate(1);
    files::write(data.path(), &kept).unwrap();

    let bed = open(data.path());
    assert_eq!(
        *bed.in_force.lock(),
        ["bank__*"],
        "frozen before anything else"
    );
    bed.incidents.repair(&bed.store).await;
    let mended = bed.incidents.find(1).await.unwrap();
    assert!(mended.settled, "{mended:?}");
    let line: Vec<IncidentStep> = mended.timeline.iter().map(|event| event.step).collect();
    assert_eq!(line, [IncidentStep::Opened, IncidentStep::Frozen]);
    bed.incidents.repair(&bed.store).await;
    assert_eq!(bed.incidents.find(1).await.unwrap(), mended);
    assert_eq!(read(data.path()).unwrap()[&1], mended);
}

#[tokio::test]
async fn what_is_said_of_an_incident_has_to_be_fit() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    for (scope, why) in [
        ("", "x"),
        ("a b", "x"),
        ("a\u{202e}", "x"),
        (&*"a".repeat(257), "x"),
        ("bank__*", ""),
        ("bank__*", "two\nlines"),
    ] {
        let refused = bed.incidents.begin(&bed.store, wish(scope, why)).await;
        assert!(
            matches!(refused, Err(IncidentError::Unfit(_))),
            "{scope} {why}"
        );
    }
    for number in 0..MAX_OPEN_INCIDENTS {
        let scope = format!("bank__{number}");
        bed.incidents
            .begin(&bed.store, wish(&scope, "x"))
            .await
            .unwrap();
    }
    let one_more = bed.incidents.begin(&bed.store, wish("fs__*", "x")).await;
    assert_eq!(one_more, Err(IncidentError::TooMany));
}

/// A file that cannot be read may freeze something: nothing is served then.
#[test]
fn an_incident_that_cannot_be_read_stops_the_start() {
    for text in ["", "{", "[]", "{\"id\":1,\"id\":1}"] {
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir(data.path().join("incidents")).unwrap();
        std::fs::write(data.path().join("incidents/1.json"), text).unwrap();
        assert!(read(data.path()).is_err(), "{text}");
    }
    let data = tempfile::tempdir().unwrap();
    std::fs::create_dir(data.path().join("incidents")).unwrap();
    std::fs::write(data.path().join("incidents/1.new"), "half").unwrap();
    assert!(read(data.path()).unwrap().is_empty());
}
