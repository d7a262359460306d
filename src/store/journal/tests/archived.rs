//! threat-model §3G, G6 and G7: what the journal does not need any more is moved, and proves there
//! what it proved before.

use super::forger::keys;
use super::*;
use std::collections::BTreeMap;

/// Files and what they hold.
type FileContents = BTreeMap<PathBuf, Vec<u8>>;

/// Options under which a segment holds about three events.
fn tiny() -> JournalOptions {
    JournalOptions {
        segment_bytes: 600,
        ..small()
    }
}

async fn add(journal: &Journal, count: u64) {
    for _ in 0..count {
        let event = Item::Event(format!("event {}", journal.durable_seq() + 1).into_bytes());
        journal
            .append(vec![event])
            .unwrap()
            .durable()
            .await
            .unwrap();
    }
}

fn state() -> impl Iterator<Item = Result<Vec<u8>, JournalError>> {
    std::iter::once(Ok(b"state".to_vec()))
}

fn now(upto: u64, archive: &Path) -> Retention<'_> {
    Retention {
        upto,
        age: Duration::ZERO,
        archive: Some(archive),
    }
}

/// Every event of the journal and its archive.
fn events(data: &Path, archive: &Path) -> Vec<String> {
    let records = JournalReader::after_in(data, Some(archive), 0)
        .unwrap()
        .map(Result::unwrap);
    let events =
        records.filter_map(|record| record.event().map(|words| (record.seq, words.clone())));
    events
        .map(|(seq, words)| format!("{seq}: {}", String::from_utf8_lossy(&words)))
        .collect()
}

fn against(keys: &SealingKeys, archive: &Path) -> VerifyOptions {
    VerifyOptions {
        keys: keys.clone(),
        archive: Some(archive.to_owned()),
        ..VerifyOptions::default()
    }
}

fn finds(data: &Path, against: &VerifyOptions) -> Option<JournalDamage> {
    walk::without_pauses(|| check(data, against).unwrap().problem)
}

fn files(dir: &Path) -> FileContents {
    let all = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .map(|file| file.unwrap().path());
    all.map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

fn set(dir: &Path, to: &FileContents) {
    for path in files(dir).keys() {
        fs::remove_file(path).unwrap();
    }
    for (path, bytes) in to {
        fs::write(path, bytes).unwrap();
    }
}

// Again and again, over restarts: nothing is lost, all of it verifies, and what is there is for its
// owner.
#[tokio::test]
async fn what_is_archived_still_verifies() {
    for keys in [SealingKeys::default(), keys("k")] {
        let temp = tempfile::tempdir().unwrap();
        let (data, archive) = (temp.path().join("data"), temp.path().join("deep/archive"));
        let mut heads = Vec::new();
        for _ in 0..3 {
            let journal = Journal::open_sealed(&data, tiny(), keys.clone()).unwrap();
            for _ in 0..12 {
                add(&journal, 1).await;
                heads.push(journal.health().head);
            }
            let dropped = journal
                .compact(now(journal.durable_seq(), &archive), state())
                .await
                .unwrap()
                .unwrap();
            assert!(dropped.segments > 0);
            journal.close().await.unwrap();
        }
        let found = check(
            &data,
            &VerifyOptions {
                heads: heads.clone(),
                ..against(&keys, &archive)
            },
        )
        .unwrap();
        assert_eq!((found.problem, found.met, found.passed_over), (None, 36, 0));
        let events = events(&data, &archive);
        assert_eq!(events.len(), 36);
        assert!(
            events.iter().all(|event| event
                .split_once(": event ")
                .is_some_and(|(seq, named)| seq == named)),
            "{events:?}"
        );
        let alone = check(
            &data,
            &VerifyOptions {
                keys,
                heads,
                ..VerifyOptions::default()
            },
        )
        .unwrap();
        assert!(
            alone.problem.is_none() && alone.passed_over > 10,
            "the summary stands for it"
        );
        assert_eq!(mode(&archive), 0o700);
        assert!(files(&archive).keys().all(|file| mode(file) == 0o600));
        // The index is made from what is left, with or without an archive.
        assert!(JournalReader::replay(&data, 0).unwrap().is_anew());
    }
}

/// A journal in `data` whose beginning is in `archive`.
async fn archived(place: &Path, keys: &SealingKeys) {
    let journal = Journal::open_sealed(&place.join("data"), tiny(), keys.clone()).unwrap();
    add(&journal, 16).await;
    journal
        .compact(now(12, &place.join("archive")), state())
        .await
        .unwrap()
        .unwrap();
    journal.close().await.unwrap();
}

// The lane of what is archived: each byte of a segment, and each segment missing, exchanged or
// another's.
#[tokio::test]
#[expect(
    clippy::print_stderr,
    reason = "how many cases there were is of interest"
)]
async fn a_forged_archive_is_found() {
    let (temp, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let keys = keys("k");
    for place in [temp.path(), other.path()] {
        archived(place, &keys).await;
    }
    let (data, archive) = (temp.path().join("data"), temp.path().join("archive"));
    let (sound, theirs) = (files(&archive), files(&other.path().join("archive")));
    assert!(sound.len() >= 3);
    let mut cases = 0;
    for checked in [
        against(&keys, &archive),
        against(&SealingKeys::default(), &archive),
    ] {
        assert_eq!(finds(&data, &checked), None);
        for (path, bytes) in &sound {
            let name = path.file_name().unwrap();
            for at in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                fs::write(path, flipped).unwrap();
                assert!(
                    finds(&data, &checked).is_some(),
                    "byte {at} of {}",
                    path.display()
                );
                cases += 1;
            }
            fs::remove_file(path).unwrap();
            assert!(
                finds(&data, &checked).is_some(),
                "without {}",
                path.display()
            );
            fs::write(path, &theirs[&other.path().join("archive").join(name)]).unwrap();
            assert!(
                finds(&data, &checked).is_some(),
                "another's {}",
                path.display()
            );
            fs::write(path, bytes).unwrap();
            cases += 2;
        }
        // All of it gone, all of it another's, or none of what was said to be there.
        set(&archive, &BTreeMap::new());
        assert!(finds(&data, &checked).is_some());
        for (path, bytes) in &theirs {
            fs::write(archive.join(path.file_name().unwrap()), bytes).unwrap();
        }
        assert!(finds(&data, &checked).is_some());
        set(&archive, &sound);
        cases += 2;
    }
    eprintln!("archives: {cases} cases");
    assert!(cases > 2000, "{cases}");
}

/// What a kill leaves of a journal and of its archive.
struct LeftFiles {
    live: FileContents,
    archived: FileContents,
}

/// Of the copies in the archive: some, with one that was only begun.
fn copied_in_part(live: &FileContents, copies: &FileContents) -> Vec<LeftFiles> {
    let up_to = |count: usize| {
        let mut archived: FileContents = copies
            .iter()
            .take(count)
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect();
        if let Some((path, bytes)) = copies.iter().nth(count) {
            archived.insert(
                path.with_extension("new"),
                bytes[..bytes.len() / 2].to_vec(),
            );
        }
        LeftFiles {
            live: live.clone(),
            archived,
        }
    };
    (0..=copies.len()).map(up_to).collect()
}

/// The record that vouches was written, the summary has its name or not, and what it stands for is
/// removed one by one.
fn removed_in_part(
    before: &FileContents,
    after: &FileContents,
    archived: &FileContents,
) -> Vec<LeftFiles> {
    let summary = after
        .keys()
        .find(|path| path.extension().is_some_and(|end| end == "summary"))
        .unwrap();
    let gone: Vec<_> = before
        .iter()
        .filter(|(path, _)| !after.contains_key(*path))
        .collect();
    assert!(gone.len() >= 3);
    let mut left = Vec::new();
    for removed in 0..=gone.len() {
        let mut live = after.clone();
        live.extend(
            gone.iter()
                .skip(removed)
                .map(|(path, bytes)| ((*path).clone(), (*bytes).clone())),
        );
        left.push(LeftFiles {
            live: live.clone(),
            archived: archived.clone(),
        });
        if removed == 0 {
            let bytes = live.remove(summary).unwrap();
            live.insert(summary.with_extension("new"), bytes);
            left.push(LeftFiles {
                live,
                archived: archived.clone(),
            });
        }
    }
    left
}

// A kill between any two steps: copied in part, copied, summary written, vouched for, named,
// removed in part. Nothing is lost, and the next time it is done.
#[tokio::test]
async fn a_crash_between_two_steps_loses_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let (data, archive) = (temp.path().join("data"), temp.path().join("archive"));
    let dir = data.join("journal");
    let keys = keys("k");
    let journal = Journal::open_sealed(&data, tiny(), keys.clone()).unwrap();
    add(&journal, 16).await;
    let before = files(&dir);
    journal
        .compact(now(12, &archive), state())
        .await
        .unwrap()
        .unwrap();
    journal.close().await.unwrap();
    let (after, stored) = (files(&dir), files(&archive));
    let all = events(&data, &archive);
    assert_eq!(all.len(), 16);
    let mut left = copied_in_part(&before, &stored);
    left.extend(removed_in_part(&before, &after, &stored));
    for (nth, LeftFiles { live, archived }) in left.iter().enumerate() {
        set(&dir, live);
        set(&archive, archived);
        assert_eq!(events(&data, &archive), all, "state {nth}");
        assert_eq!(finds(&data, &against(&keys, &archive)), None, "state {nth}");
        let journal = Journal::open_sealed(&data, tiny(), keys.clone()).unwrap();
        journal.compact(now(12, &archive), state()).await.unwrap();
        journal.close().await.unwrap();
        assert_eq!(events(&data, &archive), all, "state {nth}, gone on with");
        assert_eq!(
            finds(&data, &against(&keys, &archive)),
            None,
            "state {nth}, gone on with"
        );
        assert_eq!(
            files(&archive),
            stored,
            "state {nth}: the copies are whole, and nothing else is there"
        );
    }
    assert!(left.len() >= 8);
}

// What is in the archive already is evidence, too: where it is something else, nothing is dropped.
#[tokio::test]
async fn an_archive_is_not_written_over() {
    let temp = tempfile::tempdir().unwrap();
    let (data, archive) = (temp.path().join("data"), temp.path().join("archive"));
    let journal = Journal::open(&data, tiny()).unwrap();
    add(&journal, 16).await;
    fs::create_dir(&archive).unwrap();
    let squatter = archive.join(segment::name(1));
    for link in [false, true] {
        if link {
            fs::remove_file(&squatter).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", &squatter).unwrap();
        } else {
            fs::write(&squatter, "something else").unwrap();
        }
        let error = journal
            .compact(now(12, &archive), state())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("archive"), "{error}");
        assert_eq!(read(&data).unwrap().len(), 16);
    }
    fs::remove_file(&squatter).unwrap();
    journal
        .compact(now(12, &archive), state())
        .await
        .unwrap()
        .unwrap();
    // Without an archive for once, what is archived later does not follow on what was before.
    add(&journal, 8).await;
    journal
        .compact(
            Retention {
                archive: None,
                ..now(20, &archive)
            },
            state(),
        )
        .await
        .unwrap()
        .unwrap();
    journal.close().await.unwrap();
    assert_eq!(finds(&data, &VerifyOptions::default()), None);
    assert!(
        finds(&data, &against(&SealingKeys::default(), &archive))
            .unwrap()
            .what
            .contains("missing")
    );
}

/// An archive that cannot be written is found out before anything is read: a segment that is
/// damaged, too, says nothing yet.
#[tokio::test]
async fn an_archive_that_cannot_be_written_costs_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let (data, archive) = (temp.path().join("data"), temp.path().join("archive"));
    let journal = Journal::open(&data, tiny()).unwrap();
    add(&journal, 20).await;
    fs::write(&archive, "no directory").unwrap();
    let first = files(&data.join("journal")).into_keys().min().unwrap();
    let mut bytes = fs::read(&first).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&first, bytes).unwrap();
    let failed = journal
        .compact(now(20, &archive), state())
        .await
        .unwrap_err();
    assert!(failed.to_string().contains("archive"), "{failed}");
    fs::remove_file(&archive).unwrap();
    let failed = journal
        .compact(now(20, &archive), state())
        .await
        .unwrap_err();
    assert!(matches!(failed, JournalError::Damaged(_)), "{failed}");
    assert_eq!(
        fs::read_dir(&archive).unwrap().count(),
        0,
        "nothing of the trial is left"
    );
}
