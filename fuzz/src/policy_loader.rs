//! Any file is a policy or configuration, or is refused with reasons that have a place; nothing
//! else happens, and twice the same (threat-model §3A, §9).

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tempfile::TempDir;
use toolgate::config::{Loaded, load_with};
use toolgate::model::diagnostic::Severity;

/// A configuration around a policy, and a policy around a configuration.
const CONFIGURATION: &str = "servers: { bank: { url: \"http://127.0.0.1:9/mcp\" }, files: { command: \"true\" } }\n\
    callers: [ { agent: alice, token: \"alice-has-a-long-token\", roles: [clerk], tenant: t1 } ]\npolicies: [policy.yaml]\n";

struct Place {
    directory: TempDir,
    file: PathBuf,
    policy: PathBuf,
}

static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, policy) = (
        directory.path().join("toolgate.yaml"),
        directory.path().join("policy.yaml"),
    );
    Place {
        directory,
        file,
        policy,
    }
});

/// The first byte says whether the rest is a policy or a configuration.
pub fn run(data: &[u8]) {
    let (first, text) = super::led(data);
    if first & 1 == 0 {
        judge(CONFIGURATION.as_bytes(), text);
    } else if !text.windows(8).any(|word| word == b"policies") {
        // A configuration may name directories of policies; which ones there are here is not for it
        // to choose.
        judge(text, b"");
    }
}

fn judge(configuration: &[u8], policy: &[u8]) {
    std::fs::write(&PLACE.file, configuration).expect("written");
    std::fs::write(&PLACE.policy, policy).expect("written");
    let once = load(&PLACE.file);
    let twice = load(&PLACE.file);
    let said = |loaded: &Loaded| {
        format!(
            "{:?} {:?}",
            loaded.reading.diagnostics, loaded.reading.fingerprint
        )
    };
    assert_eq!(said(&once), said(&twice), "twice the same");
    let version = |loaded: &Loaded| {
        loaded
            .reading
            .policy
            .as_ref()
            .map(|policy| policy.version.clone())
    };
    assert_eq!(version(&once), version(&twice), "twice the same");
    let errors = once
        .reading
        .diagnostics
        .iter()
        .filter(|one| one.severity == Severity::Error)
        .count();
    assert_eq!(
        once.reading.policy.is_none(),
        errors > 0,
        "no policy without a reason, none in spite of one"
    );
    let lines = |text: &[u8]| {
        1 + text
            .iter()
            .filter(|byte| **byte == b'\n' || **byte == b'\r')
            .count()
    };
    let longest = lines(configuration).max(lines(policy));
    for diagnostic in &once.reading.diagnostics {
        assert!(
            usize::try_from(diagnostic.line).is_ok_and(|line| line <= longest),
            "{diagnostic:?}"
        );
        assert!(
            diagnostic
                .file
                .starts_with(&*PLACE.directory.path().to_string_lossy()),
            "{diagnostic:?}"
        );
        let shown = diagnostic.to_string();
        assert!(
            !shown
                .chars()
                .any(|letter| letter.is_control() && letter != '\n'),
            "{shown:?}"
        );
    }
}

fn load(path: &Path) -> Loaded {
    load_with(path, &|name| {
        name.starts_with("SET")
            .then(|| "value-of-a-variable".to_owned())
    })
}
