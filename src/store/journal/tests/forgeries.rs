//! threat-model §13 F12, §3G G2 and G3: a forger who can write the data directory changes the
//! record and makes the chain anew. Every forgery is found by who has the key or kept heads, or it
//! is one of those that [`Unproven`] lists and the README names.

use super::forger::*;
use super::*;
use crate::store::journal::frame::SUMMARY_SEAL_RECORD;
use crate::store::journal::summary::Summary;
use crate::store::journal::walk::{JournalWalk, WalkStep};
use std::collections::BTreeMap;

/// What a check cannot prove, by what it has. The README says the same.
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

/// One change of what was taken apart: its name, the first batch it touches, and what becomes of
/// the whole.
type Forgery = (String, usize, Vec<ForgedSegment>);

fn replaced(payload: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = payload
        .windows(from.len())
        .position(|part| part == from)
        .unwrap();
    let mut bytes = [&payload[..at], to, &payload[at + from.len()..]].concat();
    let grown = u32::try_from(to.len())
        .unwrap()
        .wrapping_sub(u32::try_from(from.len()).unwrap());
    // The record that it stands in is the first of its batch.
    let length = u32::from_le_bytes(bytes[1..5].try_into().unwrap()).wrapping_add(grown);
    bytes[1..5].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn forgeries(pieces: &[ForgedSegment]) -> Vec<Forgery> {
    let mut all: Vec<Forgery> = Vec::new();
    let mut nth = 0;
    for (index, piece) in pieces.iter().enumerate() {
        for (at, part) in piece.parts.iter().enumerate() {
            let mut forge = |name: &str, act: &dyn Fn(&mut Vec<ForgedBatch>)| {
                let mut forged = pieces.to_vec();
                act(&mut forged[index].parts);
                all.push((format!("{name} {nth}"), nth, forged));
            };
            if part
                .payload
                .windows(13)
                .any(|text| text == b"billing-agent")
            {
                forge("rewrite", &|parts| {
                    parts[at].payload =
                        replaced(&parts[at].payload, b"billing-agent", b"somebody-else");
                });
                forge("rewrite longer", &|parts| {
                    parts[at].payload = replaced(
                        &parts[at].payload,
                        b"billing-agent",
                        b"the agent of somebody else",
                    );
                });
                forge("delete a record", &|parts| {
                    let first = frame::record_size(&parts[at].payload).unwrap();
                    parts[at].payload.drain(..first);
                    parts[at].count -= 1;
                });
            }
            forge("another kind", &|parts| parts[at].payload[0] = 9);
            forge("another epoch", &|parts| parts[at].epoch += 1);
            forge("insert before", &|parts| {
                parts.insert(at, parts[parts.len() - 1].clone());
            });
            forge("double", &|parts| parts.insert(at, parts[at].clone()));
            if piece.parts.len() > 1 {
                forge("delete a batch", &|parts| drop(parts.remove(at)));
            }
            if at + 1 < piece.parts.len() {
                forge("exchange", &|parts| parts.swap(at, at + 1));
                forge("exchange seals", &|parts| {
                    let seal = parts[at].trailer.clone();
                    parts[at].trailer = parts[at + 1].trailer.clone();
                    parts[at + 1].trailer = seal;
                });
            }
            nth += 1;
        }
    }
    for first in 0..pieces.len() - 1 {
        let before = pieces[..first].iter().map(|piece| piece.parts.len()).sum();
        let mut swapped = pieces.to_vec();
        swapped.swap(first, first + 1);
        swapped[0].chain = pieces[0].chain;
        all.push((format!("exchange segments {first}"), before, swapped));
        let mut without = pieces.to_vec();
        without.remove(first);
        all.push((format!("delete segment {first}"), before, without));
    }
    all
}

/// The same with its end cut off, at every batch.
fn cut(pieces: &[ForgedSegment]) -> Vec<Forgery> {
    let mut all: Vec<Forgery> = Vec::new();
    let mut nth = 0;
    for (index, piece) in pieces.iter().enumerate() {
        for at in 0..piece.parts.len() {
            if nth > 0 {
                let mut rest = pieces[..=index].to_vec();
                rest[index].parts.truncate(at);
                all.push((format!("cut at {nth}"), nth, rest));
            }
            nth += 1;
        }
    }
    all
}

/// Whether everything stands where it stood, and more after it.
fn only_grows(pieces: &[ForgedSegment], forged: &[ForgedSegment]) -> bool {
    let last = pieces.len() - 1;
    let same = |(one, other): (&ForgedSegment, &ForgedSegment)| one.parts == other.parts;
    forged.len() == pieces.len()
        && pieces[..last].iter().zip(forged).all(same)
        && forged[last].parts.starts_with(&pieces[last].parts)
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
    for (name, first, forged) in forgeries(&pieces) {
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
    for (name, _, forged) in cut(&pieces) {
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

async fn compacted(
    data: &Path,
    keys: &SealingKeys,
    archive: Option<&Path>,
) -> (DroppedSegments, Head) {
    let journal = Journal::open_sealed(
        data,
        JournalOptions {
            segment_bytes: 600,
            ..small()
        },
        keys.clone(),
    )
    .unwrap();
    for n in 1..=24 {
        let event = Item::Event(format!("event {n}").into_bytes());
        journal
            .append(vec![event])
            .unwrap()
            .durable()
            .await
            .unwrap();
    }
    let retention = Retention {
        upto: 16,
        age: Duration::ZERO,
        archive,
    };
    let state = (0..3).map(|n| Ok(format!("state {n}").into_bytes()));
    let dropped = journal.compact(retention, state).await.unwrap().unwrap();
    (dropped, journal.close().await.unwrap())
}

// A summary is vouched for by a sealed record, and sealed itself: neither a forged one nor the
// record alone is taken.
#[tokio::test]
async fn a_forged_summary_is_found() {
    let temp = tempfile::tempdir().unwrap();
    let keys = keys("k");
    let (dropped, _) = compacted(temp.path(), &keys, None).await;
    let dir = temp.path().join("journal");
    let against = VerifyOptions {
        keys: keys.clone(),
        ..VerifyOptions::default()
    };
    assert_eq!(finds(temp.path(), &against), None);
    let own = Summary::open(&dir).unwrap().unwrap().header;
    assert!(own.sealed && own.last == dropped.last);
    let mut cases = 0;
    for forger in [None, Some(key("forger"))] {
        for with_record in [false, true] {
            let work = tempfile::tempdir().unwrap();
            let to = work.path().join("journal");
            fs::create_dir(&to).unwrap();
            for file in fs::read_dir(&dir).unwrap() {
                let file = file.unwrap();
                fs::copy(file.path(), to.join(file.file_name())).unwrap();
            }
            let seal = summary::prepare(
                &to,
                &own,
                forger.as_ref(),
                std::iter::once(Ok(b"forged".to_vec())),
            )
            .unwrap();
            summary::publish(&to, &own).unwrap();
            if with_record {
                // The forger appends the record that vouches for it, in a batch of his.
                let path = segments(work.path()).pop().unwrap();
                let mut walk = JournalWalk::begin(work.path()).unwrap();
                while !matches!(walk.step().unwrap(), WalkStep::End { .. }) {}
                let group =
                    crate::store::journal::item::RecordGroup::of(SUMMARY_SEAL_RECORD, &seal);
                let part = ForgedBatch {
                    payload: group.bytes,
                    count: 1,
                    epoch: 1,
                    synced: walk.head.seq,
                    trailer: Some(vec![0; 40]),
                };
                for hand in [
                    SealForgery::Strips,
                    SealForgery::Reseals,
                    SealForgery::Leaves,
                ] {
                    let frame = frame_of(&part, (walk.head.seq, walk.head.hash), hand, true);
                    let sound = fs::read(&path).unwrap();
                    fs::write(&path, [sound.as_slice(), &frame].concat()).unwrap();
                    assert!(finds(work.path(), &against).is_some(), "{hand:?}");
                    fs::write(&path, sound).unwrap();
                    cases += 1;
                }
            }
            let problem = finds(work.path(), &against).expect("a forged summary");
            assert!(
                problem.what.contains("vouches") || problem.what.contains("seal"),
                "{problem}"
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 10);
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
        .find(|(name, ..)| *name == format!("another epoch {last}"))
        .unwrap();
    for hand in SEAL_FORGERIES {
        put_together(temp.path(), &forgery.2, hand, last);
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
