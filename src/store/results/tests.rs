//! guarantees §4, a result over the inline limit: kept whole or not at all, once, for its owner
//! only, until nobody needs it.

use super::*;
use std::os::unix::fs::PermissionsExt;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn files(results: &Results) -> Vec<PathBuf> {
    let shards = std::fs::read_dir(&results.dir)
        .unwrap()
        .map(|shard| shard.unwrap().path());
    shards
        .flat_map(|shard| {
            std::fs::read_dir(shard)
                .unwrap()
                .map(|file| file.unwrap().path())
        })
        .collect()
}

#[test]
fn what_was_put_is_what_is_got() {
    let temp = tempfile::tempdir().unwrap();
    let results = Results::open(temp.path()).unwrap();
    let bodies = [
        Bytes::new(),
        Bytes::from_static(b"short"),
        vec![7; 3 << 20].into(),
    ];
    for body in &bodies {
        let digest = results.put(body).unwrap();
        assert_eq!(
            (digest, results.put(body).unwrap()),
            (Digest::of(body), digest),
            "twice is once"
        );
        assert_eq!(results.get(&digest).unwrap(), *body);
        let path = results.path(&digest);
        assert_eq!(
            (
                mode(&path),
                mode(path.parent().unwrap()),
                mode(&results.dir)
            ),
            (0o600, 0o700, 0o700)
        );
    }
    assert_eq!(files(&results).len(), bodies.len());
    let again = Results::open(temp.path()).unwrap();
    assert_eq!(
        again.get(&Digest::of(&bodies[2])).unwrap(),
        bodies[2],
        "another process finds it"
    );
    let longer = Bytes::from(vec![0; usize::try_from(MAX_RESULT_BYTES).unwrap() + 1]);
    assert_eq!(
        results.put(&longer).unwrap_err().kind(),
        io::ErrorKind::FileTooLarge
    );
    assert_eq!(
        results.get(&Digest::of(b"never put")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

#[test]
fn what_was_changed_is_not_given_out_and_is_mended_by_the_next() {
    let temp = tempfile::tempdir().unwrap();
    let results = Results::open(temp.path()).unwrap();
    let body = Bytes::from_static(b"an answer");
    let digest = results.put(&body).unwrap();
    for changed in [b"an ANSWER".as_slice(), b"", b"an answer and more"] {
        std::fs::write(results.path(&digest), changed).unwrap();
        assert_eq!(
            results.get(&digest).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        results.put(&body).unwrap();
        assert_eq!(results.get(&digest).unwrap(), body);
    }
    std::fs::remove_file(results.path(&digest)).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", results.path(&digest)).unwrap();
    assert!(results.get(&digest).is_err(), "a link is not followed");
}

#[test]
fn many_may_put_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let results = Results::open(temp.path()).unwrap();
    let body = Bytes::from(vec![9; 100_000]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let digest = results.put(&body).unwrap();
                    assert_eq!(results.get(&digest).unwrap(), body);
                }
            });
        }
    });
    assert_eq!(
        files(&results),
        [results.path(&Digest::of(&body))],
        "nothing unfinished is left"
    );
}

#[test]
fn what_nobody_needs_is_removed_once_it_is_old() {
    const ONE_HOUR: Duration = Duration::from_hours(1);
    let temp = tempfile::tempdir().unwrap();
    let results = Results::open(temp.path()).unwrap();
    let bodies = [b"needed".as_slice(), b"young", b"found again", b"old"].map(Bytes::from_static);
    let digests = bodies.each_ref().map(|body| results.put(body).unwrap());
    let unfinished = results.path(&digests[0]).with_extension("unfinished");
    std::fs::write(&unfinished, b"half").unwrap();
    let past: SystemTime = Clock.wall().checked_sub(2 * ONE_HOUR).unwrap().into();
    for path in [0, 2, 3]
        .map(|n| results.path(&digests[n]))
        .iter()
        .chain([&unfinished])
    {
        OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(past)
            .unwrap();
    }
    results.put(&bodies[2]).unwrap();
    assert_eq!(
        results
            .sweep(ONE_HOUR, |digest| *digest == digests[0])
            .unwrap(),
        2
    );
    let mut left = files(&results);
    left.sort();
    let mut kept = [0, 1, 2].map(|n| results.path(&digests[n]));
    kept.sort();
    assert_eq!(left, kept);
}
