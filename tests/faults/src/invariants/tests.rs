//! Made-up logs: each violation is found, and a run without one has none.

use super::{Evidence, check};
use crate::agent::{Told, What};
use crate::oracle::{Execution, Fence};
use crate::rows::{Row, read};
use serde_json::json;

const SECOND: i64 = 1_000_000_000;

fn execution(key: &str, token: u64) -> Execution {
    let fence = Fence { session: "s".to_owned(), token, action: format!("action-{token}") };
    Execution { key: key.to_owned(), digest: format!("digest-{key}"), fence: Some(fence), at: 15 }
}

fn told(key: &str, what: What) -> Told {
    Told { key: key.to_owned(), attempt: 0, asked: 10 * SECOND, at: 20 * SECOND, what, text: "done".to_owned() }
}

fn intent(key: &str, token: u64) -> Row {
    let (action, digest) = (format!("action-{token}"), format!("digest-{key}"));
    Row::Intent { seq: token, action, digest, session: "s".to_owned(), token }
}

fn refused(code: &str, retry: &str) -> What {
    What::Refused { code: code.to_owned(), retry: retry.to_owned() }
}

/// Two calls as they should be: one answered, one re-issued after a kill whose outcome is unknown.
fn good() -> Evidence {
    Evidence {
        executions: vec![execution("a", 1), execution("b", 2)],
        told: vec![
            told("a", What::Done { replayed: false }),
            told("b", What::Broken("the connection ended".to_owned())),
            told("b", refused("duplicate_in_flight", "after_ms:10")),
            told("b", What::Unknown),
            told("c", refused("amount_out_of_range", "never")),
        ],
        rows: vec![intent("a", 1), intent("b", 2), Row::Released { action: "action-3".to_owned() }],
        runs: vec![(0, 12 * SECOND), (13 * SECOND, 30 * SECOND)],
        faults: vec![12 * SECOND],
        canary: Some("canary-of-gold".to_owned()),
        places: vec![("the log".to_owned(), b"nothing of value".to_vec())],
        ..Evidence::default()
    }
}

type Change = fn(&mut Evidence);

/// What is changed in the good run, and the invariant that it breaks, with the key.
const BROKEN: &[(&str, &str, Change)] = &[
    ("I1", "a", |run| {
        run.executions.push(execution("a", 4));
        run.rows.push(intent("a", 4));
    }),
    ("I2", "a", |run| drop(run.executions.remove(0))),
    ("I2", "d", |run| run.told.push(told("d", What::ToolError))),
    ("I3", "a", |run| drop(run.rows.remove(0))),
    ("I3", "b", |run| run.executions[1].digest = "other".to_owned()),
    ("I3", "b", |run| {
        run.executions[1].fence = None;
        drop(run.rows.remove(1));
    }),
    ("I4", "c", |run| {
        run.executions.push(execution("c", 4));
        run.rows.push(intent("c", 4));
    }),
    ("I5", "the journal", |run| run.damage = Some("batch 7 does not follow batch 6".to_owned())),
    ("I6", "b", |run| run.rows.push(Row::Released { action: "action-2".to_owned() })),
    ("I7", "two toolgates", |run| run.runs[0].1 = 14 * SECOND),
    ("I7", "session s", |run| run.rows.swap(0, 1)),
    ("I7", "session s", |run| run.executions.swap(0, 1)),
    ("I7", "session s", |run| {
        run.rows[1] = Row::Intent {
            seq: 2,
            action: "action-2".to_owned(),
            digest: "digest-b".to_owned(),
            session: "s".to_owned(),
            token: 1,
        };
    }),
    ("I8", "a", |run| run.told[0].text = "it says canary-of-gold".to_owned()),
    ("I8", "the log", |run| run.places[0].1 = b"Bearer canary-of-gold\n".to_vec()),
    ("I9", "b", |run| run.faults = vec![9 * SECOND]),
    ("I9", "b", |run| run.faults.clear()),
];

#[test]
fn a_run_without_violations_has_none() {
    assert_eq!(check(&good()), []);
    let mut ordered = good();
    ordered.faults.clear();
    ordered.excused.insert("b".to_owned());
    assert_eq!(check(&ordered), []);
}

#[test]
fn each_violation_is_found_and_said() {
    for (invariant, key, change) in BROKEN {
        let mut run = good();
        change(&mut run);
        let found = check(&run);
        assert!(!found.is_empty(), "{invariant} {key}: nothing was found");
        for violation in &found {
            assert_eq!((violation.invariant, violation.key.as_str()), (*invariant, *key), "{violation}");
            assert!(violation.to_string().contains(&violation.expected) && !violation.evidence.is_empty());
        }
    }
}

/// The rows are read from what the journal keeps.
#[test]
fn rows_are_read_from_events() {
    let intended = json!({ "intended": { "key": "k", "action": "action-1", "session": "s", "fence": 1,
        "entry": { "params_hash": "digest-a" } } });
    let released = json!({ "settled": { "key": "k", "action": "action-1", "charge": "release" } });
    let kept = json!({ "settled": { "key": "k", "action": "action-1", "charge": { "settle": 1 } } });
    assert_eq!(read(1, &intended), Some(intent("a", 1)));
    assert_eq!(read(2, &released), Some(Row::Released { action: "action-1".to_owned() }));
    assert_eq!(read(3, &kept), None);
    assert_eq!(read(4, &json!({ "action_id": "action-1", "params_hash": "digest-a" })), None);
}
