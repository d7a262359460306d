//! threat-model §13 F12, §3G G2 and G3: a forger who can write the data directory changes the
//! record and makes the chain anew. Every forgery is found by who has the key or kept heads, or it
//! is one of those that [`Unproven`] lists and docs/record.md names. What a forger changes is in
//! `changes`; summaries are forged in `summaries`.

use super::forger::*;
use super::*;
use crate::store::journal::walk::{JournalWalk, WalkStep};
use changes::{Forgery, cut, forgeries, only_grows};
use std::collections::BTreeMap;

mod changes;
mod summaries;

/// What a check cannot prove, by what it has. docs/record.md says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unproven {
    /// Without a key and without heads: the chain was made anew after the change.
    ChainMadeAnew,
    /// Without heads: the end was cut off at a batch, or the whole is an older copy of itself,
    /// which is the same.
    EndCutOff,
    /// With heads alone: something was added after the last of them.
    AfterTheLastHead,
    /// Without heads: the whole is another journal that the same key sealed.
    AnotherJournal,
}

/// What checks, and what it has.
fn checks(keys: &SealingKeys, heads: &[Head]) -> Vec<(&'static str, VerifyOptions)> {
    let (none, heads) = (VerifyOptions::default(), heads.to_vec());
    vec![
        ("nothing", none.clone()),
        (
            "key",
            VerifyOptions {
                keys: keys.clone(),
                ..none.clone()
            },
        ),
        (
            "heads",
            VerifyOptions {
                heads: heads.clone(),
                ..none.clone()
            },
        ),
        (
            "key and heads",
            VerifyOptions {
                keys: keys.clone(),
                heads,
                ..none
            },
        ),
    ]
}

/// Heads as they would have been exported: after every batch.
fn heads(data: &Path) -> Vec<Head> {
    let mut walk = JournalWalk::begin(data).unwrap();
    let mut heads = Vec::new();
    loop {
        match walk.step().unwrap() {
            WalkStep::Batch(batch) => heads.push(batch.head),
            WalkStep::Segment(_) => {}
            WalkStep::End { .. } => return heads,
        }
    }
}

async fn sealed(data: &Path, keys: &SealingKeys) -> Head {
    let options = JournalOptions {
        segment_bytes: 2600,
        ..small()
    };
    let journal = Journal::open_sealed(data, options, keys.clone()).unwrap();
    for batch in 0..7 {
        for n in 1..=2 {
            journal.record(entry(batch * 2 + n)).unwrap();
        }
        journal.flush().await.unwrap();
    }
    journal.close().await.unwrap()
}

fn finds(data: &Path, against: &VerifyOptions) -> Option<JournalDamage> {
    walk::without_pauses(|| check(data, against).unwrap().problem)
}

/// Tries a forged journal with everything there is to check it with; gives how many cases that
/// were, and what was not found.
fn tried(
    data: &Path,
    name: &str,
    checks: &[(&'static str, VerifyOptions)],
    expected: impl Fn(&str) -> Option<Unproven>,
    counted: &mut BTreeMap<Option<Unproven>, u64>,
) {
    for (with, against) in checks {
        let (problem, expected) = (finds(data, against), expected(with));
        assert_eq!(
            problem.is_none(),
            expected.is_some(),
            "{name}, with {with}: {problem:?}, expected {expected:?}"
        );
        *counted.entry(expected).or_default() += 1;
    }
}

#[expect(
    clippy::print_stderr,
    reason = "how many cases there were is of interest"
)]
fn said(lane: &str, counted: &BTreeMap<Option<Unproven>, u64>) {
    let all: u64 = counted.values().sum();
    eprintln!("{lane}: {all} cases; found and not provable: {counted:?}");
}

// The lane: every forgery, by every hand, against every check.
#[tokio::test]
async fn every_forgery_is_found_or_known_to_be_unprovable() {
    let temp = tempfile::tempdir().unwrap();
    let keys = keys("k");
    sealed(temp.path(), &keys).await;
    let (pieces, heads) = (take_apart(temp.path()), heads(temp.path()));
    assert!(pieces.len() >= 3 && pieces.iter().all(|piece| piece.sealed));
    let checks = checks(&keys, &heads);
    let mut counted = BTreeMap::new();
    put_together(temp.path(), &pieces, SealForgery::Leaves, usize::MAX);
    for (with, against) in &checks {
        assert_eq!(
            finds(temp.path(), against),
            None,
            "nothing was changed; {with}"
        );
    }
    for Forgery {
        name,
        first,
        pieces: forged,
    } in forgeries(&pieces)
    {
        for hand in SEAL_FORGERIES {
            put_together(temp.path(), &forged, hand, first);
            // Half a journal without seals shows by itself, and so does a segment that says that
            // there were seals before it.
            let shows =
                matches!(hand, SealForgery::StripsRest) && (first > 0 || name.contains(" segment"));
            let grown = matches!(hand, SealForgery::Leaves) && only_grows(&pieces, &forged);
            let unproven = |with: &str| match with {
                "nothing" if !shows => Some(Unproven::ChainMadeAnew),
                "heads" if grown => Some(Unproven::AfterTheLastHead),
                _ => None,
            };
            tried(
                temp.path(),
                &format!("{name}, {hand:?}"),
                &checks,
                unproven,
                &mut counted,
            );
        }
    }
    for Forgery {
        name,
        pieces: forged,
        ..
    } in cut(&pieces)
    {
        put_together(temp.path(), &forged, SealForgery::Leaves, usize::MAX);
        let unproven = |with: &str| (!with.contains("heads")).then_some(Unproven::EndCutOff);
        tried(temp.path(), &name, &checks, unproven, &mut counted);
    }
    said("forgeries", &counted);
    assert!(counted[&None] > 1000 && counted.len() == 4, "{counted:?}");
}

// G3: the whole exchanged for an older copy, for another journal of the same key, of another key,
// or of none.
#[tokio::test]
async fn whole_journals_are_not_exchanged_unseen() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let keys = keys("k");
    sealed(one.path(), &keys).await;
    let older = take_apart(one.path());
    let journal = Journal::open_sealed(one.path(), small(), keys.clone()).unwrap();
    journal.record(entry(99)).unwrap();
    journal.close().await.unwrap();
    let checks = checks(&keys, &heads(one.path()));
    let mut counted = BTreeMap::new();
    put_together(one.path(), &older, SealForgery::Leaves, usize::MAX);
    let unheaded =
        |unproven: Unproven| move |with: &str| (!with.contains("heads")).then_some(unproven);
    tried(
        one.path(),
        "an older copy",
        &checks,
        unheaded(Unproven::EndCutOff),
        &mut counted,
    );
    sealed(other.path(), &keys).await;
    tried(
        other.path(),
        "another's, same key",
        &checks,
        unheaded(Unproven::AnotherJournal),
        &mut counted,
    );
    let without_key = |with: &str| (with == "nothing").then_some(Unproven::AnotherJournal);
    for other_keys in [SealingKeys::default(), super::forger::keys("x")] {
        let other = tempfile::tempdir().unwrap();
        sealed(other.path(), &other_keys).await;
        tried(
            other.path(),
            "another's, other key",
            &checks,
            without_key,
            &mut counted,
        );
    }
    said("exchanged journals", &counted);
}

// A start with the key does not go on after what was forged at the end.
#[tokio::test]
async fn a_forged_end_is_not_written_to() {
    let temp = tempfile::tempdir().unwrap();
    let keys = keys("k");
    sealed(temp.path(), &keys).await;
    let pieces = take_apart(temp.path());
    let last = pieces.iter().map(|piece| piece.parts.len()).sum::<usize>() - 1;
    let forgery = forgeries(&pieces)
        .into_iter()
        .find(|forgery| forgery.name == format!("another epoch {last}"))
        .unwrap();
    for hand in SEAL_FORGERIES {
        put_together(temp.path(), &forgery.pieces, hand, last);
        let opened = Journal::open_sealed(temp.path(), small(), keys.clone());
        match hand {
            // What it finds is a journal that nobody ever sealed.
            SealForgery::Strips => {
                assert!(
                    finds(
                        temp.path(),
                        &VerifyOptions {
                            keys: keys.clone(),
                            ..VerifyOptions::default()
                        }
                    )
                    .is_none()
                );
            }
            SealForgery::Reseals | SealForgery::ResealsRest => {
                assert!(
                    matches!(opened, Err(JournalError::KeyMissing { .. })),
                    "{hand:?}"
                );
            }
            SealForgery::Leaves | SealForgery::StripsRest => {
                assert!(matches!(opened, Err(JournalError::Damaged(_))), "{hand:?}");
            }
        }
        drop(opened);
    }
}
