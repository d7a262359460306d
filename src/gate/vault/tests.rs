//! Where values come from, for how long they are good, and that nothing that goes wrong says what
//! they are.

use super::*;
use std::os::unix::fs::PermissionsExt as _;
use tempfile::TempDir;

fn binding(name: &str, source: SecretSource) -> Arc<Binding> {
    Arc::new(Binding {
        name: name.to_owned(),
        source,
        places: Vec::new(),
    })
}

fn shell(script: &str, timeout: Duration) -> SecretSource {
    let run = ["sh", "-c", script].map(str::to_owned).to_vec();
    SecretSource::Command {
        run,
        cwd: std::env::temp_dir(),
        ttl: Duration::from_hours(1),
        timeout,
    }
}

async fn fetched(source: SecretSource) -> Result<String, Failed> {
    let value = Vault::default()
        .fetch(&binding("vault_test", source), Clock)
        .await;
    value.map(|value| value.expose().to_owned())
}

const LONG: Duration = Duration::from_secs(20);

fn file(directory: &TempDir, contents: &[u8]) -> SecretSource {
    let path = directory.path().join("value");
    std::fs::write(&path, contents).unwrap();
    SecretSource::File(path)
}

/// threat-model §9 "secret backend down": every way in which a value cannot be had is a failure of
/// its own, within its bounds.
#[tokio::test]
async fn a_file_is_had_whole_or_not_at_all() {
    let whole = |value: &str| Ok(value.to_owned());
    let directory = tempfile::tempdir().unwrap();
    for (contents, expected) in [
        (&b"vault-value-1"[..], whole("vault-value-1")),
        (b"vault-value-2\r\n", whole("vault-value-2")),
        (
            b"vault-line-1\nvault-line-2\n",
            whole("vault-line-1\nvault-line-2"),
        ),
        (b"1234567\n", Err(Failed::Length)),
        (b"", Err(Failed::Length)),
        (&[b'v'; LONGEST], whole(&"v".repeat(LONGEST))),
        (&[b'v'; LONGEST + 1], Err(Failed::Length)),
        (b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8", Err(Failed::NoText)),
        (b"vault\0value", Err(Failed::NoText)),
    ] {
        let source = file(&directory, contents);
        assert_eq!(fetched(source).await, expected, "{contents:?}");
    }
}

/// The same of what is not there, and of what may not be read.
#[tokio::test]
async fn a_source_without_a_value_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let closed = file(&directory, b"closed-value");
    let SecretSource::File(path) = &closed else {
        unreachable!()
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o0)).unwrap();
    let is_root = std::fs::read(path).is_ok();
    let denied = if is_root {
        Ok("closed-value".to_owned())
    } else {
        Err(Failed::Unreadable(std::io::ErrorKind::PermissionDenied))
    };
    for (source, expected) in [
        (closed, denied),
        (
            SecretSource::File(directory.path().join("none")),
            Err(Failed::Unreadable(std::io::ErrorKind::NotFound)),
        ),
        (
            SecretSource::File(directory.path().to_owned()),
            Err(Failed::NoFile),
        ),
        (
            SecretSource::Variable("TOOLGATE_NO_SUCH_VARIABLE".to_owned()),
            Err(Failed::Unset),
        ),
    ] {
        let what = format!("{source:?}");
        assert_eq!(fetched(source).await, expected, "{what}");
    }
}

/// The same of what a program prints.
#[tokio::test]
async fn a_program_is_heard_whole_or_not_at_all() {
    let whole = |value: &str| Ok(value.to_owned());
    for (source, expected) in [
        (shell("echo vault-value-3", LONG), whole("vault-value-3")),
        (shell("echo vault-value-4; exit 3", LONG), Err(Failed::Exit)),
        (shell("echo vault-value-5 >&2", LONG), Err(Failed::Length)),
        (shell("exec cat /dev/zero", LONG), Err(Failed::Length)),
        (
            shell("sleep 1000", Duration::from_millis(50)),
            Err(Failed::TooLate),
        ),
        // A process that inherits the output does not keep the call waiting.
        (
            shell("sleep 1000 & echo vault-value-6", Duration::from_millis(50)),
            Err(Failed::TooLate),
        ),
        (
            shell("echo \"$CARGO_MANIFEST_DIR.nothing\"", LONG),
            whole(".nothing"),
        ),
    ] {
        let what = format!("{source:?}");
        assert_eq!(fetched(source).await, expected, "{what}");
    }
    let missing = SecretSource::Command {
        run: vec!["/no/such/program".to_owned()],
        cwd: std::env::temp_dir(),
        ttl: LONG,
        timeout: LONG,
    };
    assert_eq!(
        fetched(missing).await,
        Err(Failed::NotStarted(std::io::ErrorKind::NotFound))
    );
}

/// The bounds: what a program printed is good for its ttl, a failure for a second, a file
/// for one call; a changed source counts at once.
#[tokio::test]
async fn values_are_kept_as_long_as_the_configuration_says() {
    let directory = tempfile::tempdir().unwrap();
    let (count, file) = (
        directory.path().join("count"),
        directory.path().join("file"),
    );
    let script = format!(
        "echo x >> {0}; test -e {1} && cat {1}",
        count.display(),
        file.display()
    );
    let runs = || std::fs::read_to_string(&count).map_or(0, |text| text.lines().count());
    let (vault, clock) = (Vault::default(), Clock);
    let program = binding("kept_test", shell(&script, LONG));
    let get = async |from: &Arc<Binding>| {
        vault
            .fetch(from, clock)
            .await
            .map(|value| value.expose().to_owned())
    };
    assert_eq!((get(&program).await, runs()), (Err(Failed::Exit), 1));
    assert_eq!(
        (get(&program).await, runs()),
        (Err(Failed::Exit), 1),
        "a failure is remembered"
    );
    std::fs::write(&file, "first-value").unwrap();
    let program = binding("kept_test", shell(&format!("{script} "), LONG));
    assert_eq!(
        (get(&program).await, runs()),
        (Ok("first-value".to_owned()), 2),
        "another source is asked at once"
    );
    std::fs::write(&file, "second-value").unwrap();
    assert_eq!(
        (get(&program).await, runs()),
        (Ok("first-value".to_owned()), 2)
    );
    let plain = binding("kept_test", SecretSource::File(file.clone()));
    assert_eq!(get(&plain).await, Ok("second-value".to_owned()));
    std::fs::write(&file, "third-value-").unwrap();
    assert_eq!(get(&plain).await, Ok("third-value-".to_owned()));
    let scrubber = KNOWN_SECRETS.scrubber().unwrap();
    for value in ["first-value", "second-value", "third-value-"] {
        assert!(
            scrubber.scrub_text(&format!("it was {value}")).is_some(),
            "{value} is looked for still"
        );
    }
}

/// Two calls at once fetch once.
#[tokio::test]
async fn who_comes_while_a_value_is_fetched_waits_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let count = directory.path().join("count");
    let source = shell(
        &format!("echo x >> {}; echo same-value", count.display()),
        LONG,
    );
    let (vault, both) = (Vault::default(), binding("both_test", source));
    let (one, other) = tokio::join!(vault.fetch(&both, Clock), vault.fetch(&both, Clock));
    assert_eq!(
        (one.unwrap().expose(), other.unwrap().expose()),
        ("same-value", "same-value")
    );
    assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 1);
}
