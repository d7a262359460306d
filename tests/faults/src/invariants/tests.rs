//! Made-up logs: each violation is found, and a run without one has none.

use super::{Evidence, check};
use crate::agent::{Told, What};
use crate::oracle::{Execution, Fence};
use crate::rows::{Row, read};
use serde_json::json;

const SECOND: i64 = 1_000_000_000;

fn execution(key: &str, token: u64) -> Execution {
    let fence = Fence {
        session: "s".to_owned(),
        token,
        action: format!("action-{token}"),
    };
    let tool = if key == "h" { "held" } else { "effect" }.to_owned();
    Execution {
        tool,
        key: key.to_owned(),
        digest: format!("digest-{key}"),
        fence: Some(fence),
        at: 15,
    }
}

fn told(key: &str, what: What) -> Told {
    Told {
        key: key.to_owned(),
        attempt: 0,
        asked: 10 * SECOND,
        at: 20 * SECOND,
        what,
        text: "done".to_owned(),
    }
}

fn intent(key: &str, token: u64) -> Row {
    let (action, digest) = (format!("action-{token}"), format!("digest-{key}"));
    let hold = (key == "h").then(|| "hold-key".to_owned());
    Row::Intent {
        seq: token,
        action,
        digest,
        session: "s".to_owned(),
        token,
        hold,
    }
}

fn held(id: &str, key: &str) -> Row {
    Row::Held {
        key: "hold-key".to_owned(),
        id: id.to_owned(),
        digest: format!("digest-{key}"),
    }
}

fn decided(id: &str, phase: &str) -> Row {
    Row::Decided {
        key: "hold-key".to_owned(),
        id: id.to_owned(),
        phase: phase.to_owned(),
    }
}

fn refused(code: &str, retry: &str) -> What {
    What::Refused {
        code: code.to_owned(),
        retry: retry.to_owned(),
    }
}

/// Calls as they should be: one answered, one re-issued after a kill whose outcome is unknown, one
/// held, denied, asked for anew and allowed.
fn good() -> Evidence {
    Evidence {
        executions: vec![execution("a", 1), execution("b", 2), execution("h", 3)],
        told: vec![
            told("a", What::Done { replayed: false }),
            told("b", What::Broken("the connection ended".to_owned())),
            told("b", refused("duplicate_in_flight", "after_ms:10")),
            told("b", What::Unknown),
            told("c", refused("amount_out_of_range", "never")),
        ],
        rows: vec![
            intent("a", 1),
            intent("b", 2),
            Row::Released {
                action: "action-9".to_owned(),
            },
            held("one", "h"),
            decided("one", "denied"),
            held("two", "h"),
            decided("two", "pending"),
            decided("two", "allowed"),
            intent("h", 3),
        ],
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
    ("I3", "b", |run| {
        run.executions[1].digest = "other".to_owned();
    }),
    ("I3", "b", |run| {
        run.executions[1].fence = None;
        drop(run.rows.remove(1));
    }),
    // Nobody has allowed it; only one of two has; it was denied; another one was allowed; other
    // arguments were.
    ("I3", "h", |run| {
        let Some(Row::Intent { hold, .. }) = run.rows.last_mut() else {
            return;
        };
        *hold = None;
    }),
    ("I3", "h", |run| {
        if let Some(Row::Held { digest, .. }) = run.rows.get_mut(5) {
            "digest-other".clone_into(digest);
        }
    }),
    ("I4", "c", |run| {
        run.executions.push(execution("c", 4));
        run.rows.push(intent("c", 4));
    }),
    ("I5", "the journal", |run| {
        run.damage = Some("batch 7 does not follow batch 6".to_owned());
    }),
    ("I6", "b", |run| {
        run.rows.push(Row::Released {
            action: "action-2".to_owned(),
        });
    }),
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
            hold: None,
        };
    }),
    ("I8", "a", |run| {
        run.told[0].text = "it says canary-of-gold".to_owned();
    }),
    ("I8", "the log", |run| {
        run.places[0].1 = b"Bearer canary-of-gold\n".to_vec();
    }),
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
            assert_eq!(
                (violation.invariant, violation.key.as_str()),
                (*invariant, *key),
                "{violation}"
            );
            assert!(
                violation.to_string().contains(&violation.expected)
                    && !violation.evidence.is_empty()
            );
        }
    }
}

/// I3, second half: an approval that was not given, or only in part, or taken back, or is another
/// one's, or was used before.
#[test]
fn an_intent_without_its_approval_is_found() {
    let changes: [Change; 5] = [
        |run| drop(run.rows.remove(7)),
        |run| run.rows[7] = decided("two", "denied"),
        |run| run.rows[7] = decided("one", "allowed"),
        |run| drop(run.rows.drain(3..8)),
        |run| run.rows.insert(9, intent("h", 4)),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut run = good();
        change(&mut run);
        let found = check(&run);
        let approvals = found
            .iter()
            .filter(|violation| violation.expected == "an approval that is allowed and not used");
        assert_eq!(approvals.count(), 1, "{number}: {found:?}");
    }
}

/// The rows are read from what the journal keeps.
#[test]
fn rows_are_read_from_events() {
    let intended = json!({ "intended": { "key": "k", "action": "action-1", "session": "s", "fence": 1,
        "entry": { "params_hash": "digest-a" } } });
    let released = json!({ "settled": { "key": "k", "action": "action-1", "charge": "release" } });
    let kept =
        json!({ "settled": { "key": "k", "action": "action-1", "charge": { "settle": 1 } } });
    assert_eq!(read(1, &intended, b""), Some(intent("a", 1)));
    assert_eq!(
        read(2, &released, b""),
        Some(Row::Released {
            action: "action-1".to_owned()
        })
    );
    assert_eq!(read(3, &kept, b""), None);
    assert_eq!(
        read(
            4,
            &json!({ "action_id": "action-1", "params_hash": "digest-a" }),
            b""
        ),
        None
    );
}
