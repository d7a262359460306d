//! threat-model §3G, G2: seals and their keys, from the first to the last.

use super::forger::{key, keys};
use super::*;
use crate::model::secret::Secret;
use crate::store::journal::seal::BatchSeal;
use sha2::{Digest as _, Sha256};

fn finds(data: &Path, against: &VerifyOptions) -> Option<JournalDamage> {
    walk::without_pauses(|| check(data, against).unwrap().problem)
}

// The seal is checked with its key only, and one made for something else is none.
#[test]
fn a_seal_is_good_for_one_thing() {
    let (keys, digest) = (keys("k"), [7; 32]);
    let own = keys.current.clone().unwrap();
    let seal = BatchSeal {
        key: own.id(),
        mac: own.seal(&digest),
        digest,
    };
    assert_eq!(keys.verify_seal(&seal), seal::SealVerdict::Good);
    for wrong in [
        BatchSeal {
            digest: [8; 32],
            ..seal
        },
        BatchSeal {
            mac: own.seal_head(std::str::from_utf8(&digest).unwrap()),
            ..seal
        },
        BatchSeal {
            mac: key("x").seal(&digest),
            ..seal
        },
    ] {
        assert_eq!(keys.verify_seal(&wrong), seal::SealVerdict::Forged);
    }
    assert_eq!(
        keys.verify_seal(&BatchSeal {
            key: key("x").id(),
            ..seal
        }),
        seal::SealVerdict::Unknown
    );
    assert!(SealingKey::new(&Secret::new("k".repeat(31))).is_err());
    assert_ne!(
        key("k").id(),
        SealingKey::new(&Secret::new("k".repeat(33))).unwrap().id()
    );
    let long = |last: &str| {
        SealingKey::new(&Secret::new("k".repeat(100) + last))
            .unwrap()
            .id()
    };
    assert_ne!(long("a"), long("b"), "all of a long key counts");
    assert_eq!(own.id().to_string().parse(), Ok(own.id()));
    assert_eq!(format!("{keys:?}"), format!("Keys({})", own.id()));
}

// The bytes of a seal are those of RFC 2104 and FIPS 180, whatever program computes them.
#[test]
fn seals_are_plain_hmac() {
    let own = SealingKey::new(&Secret::new("0123456789abcdef0123456789abcdef".to_owned())).unwrap();
    let mut block =
        *b"0123456789abcdef0123456789abcdef\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let padded = |block: &[u8; 64], pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::digest(
        [
            padded(&block, 0x36).as_slice(),
            b"toolgate batch 1\0",
            &[7; 32],
        ]
        .concat(),
    );
    let outer = Sha256::digest([padded(&block, 0x5c).as_slice(), &inner].concat());
    assert_eq!(own.seal(&[7; 32]).as_slice(), outer.as_slice());
    block[0] ^= 1;
    assert_ne!(
        own.seal(&[7; 32]).as_slice(),
        Sha256::digest(padded(&block, 0x36)).as_slice()
    );
}

/// A part of a journal: who sealed it, its first and last record, and whether that was checked.
type Stretch = (Option<KeyId>, u64, u64, bool);

/// A journal whose keys change.
struct KeyedJournal {
    temp: tempfile::TempDir,
    a: SealingKey,
    b: SealingKey,
}

impl KeyedJournal {
    /// Written without a key at first.
    async fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        written(temp.path(), small(), 2, 1).await;
        let [a, b] = ["a", "b"].map(key);
        Self { temp, a, b }
    }

    /// Written with `a` then, and twice with `b`.
    async fn rotated() -> Self {
        let journal = Self::new().await;
        journal.run(journal.only_a()).await.unwrap();
        journal.run(journal.b_after_a()).await.unwrap();
        journal.run(journal.b_after_a()).await.unwrap();
        journal
    }

    fn only_a(&self) -> SealingKeys {
        with_keys(Some(&self.a), &[], &[])
    }

    fn b_after_a(&self) -> SealingKeys {
        with_keys(Some(&self.b), &[&self.a], &[])
    }

    async fn run(&self, keys: SealingKeys) -> Result<Head, JournalError> {
        let journal = Journal::open_sealed(self.temp.path(), small(), keys)?;
        journal.record(entry(1)).unwrap();
        journal.close().await
    }

    /// What is wrong, if anything, and who sealed what.
    fn checked(&self, keys: SealingKeys) -> (Option<String>, Vec<Stretch>) {
        let against = VerifyOptions {
            keys,
            ..VerifyOptions::default()
        };
        let report = check(self.temp.path(), &against).unwrap();
        let named =
            |stretch: &SealedStretch| (stretch.key, stretch.first, stretch.last, stretch.checked);
        (
            report.problem.map(|problem| problem.what),
            report.stretches.iter().map(named).collect(),
        )
    }

    fn problem(&self, keys: SealingKeys) -> String {
        self.checked(keys).0.unwrap()
    }

    /// What [`Self::rotated`] wrote.
    fn stretches(&self) -> Vec<Stretch> {
        vec![
            (None, 1, 2, false),
            (Some(self.a.id()), 3, 4, true),
            (Some(self.b.id()), 5, 7, true),
        ]
    }
}

fn with_keys(
    current: Option<&SealingKey>,
    previous: &[&SealingKey],
    lost: &[KeyId],
) -> SealingKeys {
    SealingKeys {
        current: current.cloned(),
        previous: previous.iter().map(|key| (*key).clone()).collect(),
        lost: lost.to_vec(),
    }
}

// A journal is not gone on with by a key that its own is not known to.
#[tokio::test]
async fn a_sealed_journal_asks_for_its_key() {
    let journal = KeyedJournal::new().await;
    assert!(
        journal
            .problem(journal.only_a())
            .contains("nothing here is sealed"),
        "it has not run with the key"
    );
    journal.run(journal.only_a()).await.unwrap();
    assert_eq!(
        journal.checked(journal.only_a()),
        (
            None,
            vec![(None, 1, 2, false), (Some(journal.a.id()), 3, 4, true)]
        )
    );
    for wrong in [
        SealingKeys::default(),
        with_keys(Some(&journal.b), &[], &[]),
        with_keys(None, &[&journal.b], &[]),
        with_keys(None, &[], &[journal.a.id()]),
    ] {
        let error = journal.run(wrong).await.unwrap_err();
        assert!(
            matches!(error, JournalError::KeyMissing { key, .. } if key == journal.a.id()),
            "{error}"
        );
    }
    assert!(
        journal
            .problem(journal.b_after_a())
            .contains("has not run with that one")
    );
}

// Rotation: what an old key sealed is checked with it, and the change is in the record.
#[tokio::test]
async fn keys_are_rotated() {
    let journal = KeyedJournal::rotated().await;
    assert_eq!(
        journal.checked(journal.b_after_a()),
        (None, journal.stretches())
    );
    let record = read(journal.temp.path())
        .unwrap()
        .into_iter()
        .find(|record| record.seq == 5)
        .unwrap();
    let words: serde_json::Value = String::from_utf8_lossy(&record.bytes).parse().unwrap();
    assert_eq!(
        (record.kind, &words["key"], &words["previous"]),
        (
            REKEYED_RECORD,
            &json!(journal.b.id().to_string()),
            &json!(journal.a.id().to_string())
        )
    );
}

// Nobody has the old key any more: what the new one sealed vouches for it all the same.
#[tokio::test]
async fn a_lost_key_is_vouched_for_by_the_next() {
    let journal = KeyedJournal::rotated().await;
    let mut unchecked = journal.stretches();
    unchecked[1].3 = false;
    let lost = with_keys(Some(&journal.b), &[], &[journal.a.id()]);
    assert_eq!(journal.checked(lost), (None, unchecked));
    let silent = with_keys(Some(&journal.b), &[], &[]);
    assert!(journal.problem(silent).contains("which is not given"));
}

// Sealing is given up, and that is sealed, too; and then there is a third key.
#[tokio::test]
async fn keys_are_given_up() {
    let journal = KeyedJournal::rotated().await;
    let none = with_keys(None, &[&journal.b, &journal.a], &[]);
    journal.run(none.clone()).await.unwrap();
    journal.run(none.clone()).await.unwrap();
    assert_eq!(journal.checked(none).0, None);
    let third = with_keys(Some(&key("c")), &[&journal.b, &journal.a], &[]);
    journal.run(third.clone()).await.unwrap();
    let (problem, found) = journal.checked(third);
    assert_eq!(
        (
            problem,
            found
                .iter()
                .map(|found| found.0.is_some())
                .collect::<Vec<_>>()
        ),
        (None, vec![false, true, true, false, true])
    );
}

// A key that was replaced comes back: nothing is written with it, after another key or after none.
#[tokio::test]
async fn a_key_that_comes_back_seals_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let (data, [a, b, c]) = (temp.path(), ["a", "b", "c"].map(key));
    let run = async |current: Option<&SealingKey>| {
        let previous = vec![a.clone(), b.clone(), c.clone()];
        let keys = SealingKeys {
            current: current.cloned(),
            previous,
            ..SealingKeys::default()
        };
        let journal = Journal::open_sealed(data, small(), keys.clone())?;
        journal.record(entry(1)).unwrap();
        journal.close().await?;
        let report = check(
            data,
            &VerifyOptions {
                keys,
                ..VerifyOptions::default()
            },
        )
        .unwrap();
        assert_eq!(report.problem, None);
        Ok::<(), JournalError>(())
    };
    run(Some(&a)).await.unwrap();
    run(Some(&b)).await.unwrap();
    let replaced = async |key: &SealingKey| matches!(run(Some(key)).await, Err(JournalError::KeyReplaced { key: told }) if told == key.id());
    assert!(replaced(&a).await, "after another");
    run(None).await.unwrap();
    assert!(replaced(&a).await && replaced(&b).await, "after none");
    run(Some(&c)).await.unwrap();
}

// An older journal is opened with a key, whatever stands at its end, and a crash in the middle of
// that does no harm.
#[tokio::test]
async fn a_journal_that_was_never_sealed_goes_on_sealed() {
    for (batches, options) in [
        (0, small()),
        (1, small()),
        (
            6,
            JournalOptions {
                segment_bytes: 1000,
                ..small()
            },
        ),
    ] {
        let temp = tempfile::tempdir().unwrap();
        let before = written(temp.path(), options, batches, 1).await;
        let keys = keys("k");
        let old = fs::read_dir(temp.path().join("journal")).unwrap().count();
        for round in 0..2 {
            let journal = Journal::open_sealed(temp.path(), options, keys.clone()).unwrap();
            journal.record(entry(1)).unwrap();
            let head = journal.close().await.unwrap();
            let against = VerifyOptions {
                keys: keys.clone(),
                expected: Some(head),
                heads: vec![before],
                archive: None,
            };
            let report = check(temp.path(), &against).unwrap();
            assert_eq!(
                (report.problem, report.met),
                (None, 2),
                "{batches} batches, round {round}"
            );
        }
        // The segment that may be sealed had its name, and nothing was in it yet.
        let made = segments(temp.path()).len();
        assert!(made > old, "sealed batches stand in segments of their own");
        let last = segments(temp.path()).pop().unwrap();
        fs::File::options()
            .write(true)
            .open(&last)
            .unwrap()
            .set_len(96)
            .unwrap();
        let journal = Journal::open_sealed(temp.path(), options, keys.clone()).unwrap();
        journal.close().await.unwrap();
        assert_eq!(segments(temp.path()).len(), made);
        assert_eq!(
            finds(
                temp.path(),
                &VerifyOptions {
                    keys,
                    ..VerifyOptions::default()
                }
            ),
            None
        );
    }
}

// A sealed batch is one write as any other: torn, it is cut, and any flipped byte of it shows
// without the key.
#[tokio::test]
async fn sealed_batches_are_torn_and_flipped_like_others() {
    let temp = tempfile::tempdir().unwrap();
    let keys = keys("k");
    let options = JournalOptions {
        segment_bytes: 1 << 20,
        ..small()
    };
    let journal = Journal::open_sealed(temp.path(), options, keys.clone()).unwrap();
    for n in 1..=2 {
        journal
            .append(vec![Item::Event(vec![n; 20])])
            .unwrap()
            .durable()
            .await
            .unwrap();
    }
    journal.close().await.unwrap();
    let segment = segments(temp.path()).remove(0);
    let sound = fs::read(&segment).unwrap();
    let begun = sound.len() - (76 + 25 + 45);
    let mut cases = 0;
    for at in 96..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&segment, bytes).unwrap();
        assert!(
            finds(temp.path(), &VerifyOptions::default()).is_some(),
            "byte {at}"
        );
        cases += 1;
    }
    for length in begun..sound.len() {
        fs::write(&segment, &sound[..length]).unwrap();
        let report = check(
            temp.path(),
            &VerifyOptions {
                keys: keys.clone(),
                ..VerifyOptions::default()
            },
        )
        .unwrap();
        assert_eq!(
            (report.problem, report.head.seq, report.unfinished.is_some()),
            (None, 2, length > begun),
            "{length}"
        );
        let journal = Journal::open_sealed(temp.path(), options, keys.clone()).unwrap();
        assert_eq!(journal.close().await.unwrap().seq, 2);
        cases += 1;
    }
    assert!(cases > 400, "{cases}");
}
