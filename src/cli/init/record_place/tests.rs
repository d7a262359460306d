//! Which records are followed.

use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

struct RecordedProject {
    temp: tempfile::TempDir,
    place: RecordPlace,
    record: InitRecord,
}

/// A project, a state directory, and the record of an `init` in it.
fn ground() -> RecordedProject {
    let temp = tempfile::tempdir().unwrap();
    let (project, state) = (temp.path().join("project"), temp.path().join("state"));
    let backups = state.join("backups/20260101T000000Z-0a1b2c3d");
    fs::create_dir_all(&project).unwrap();
    fs::create_dir_all(&backups).unwrap();
    let kept = ["9-.mcp.json", "9-.mcp.json.written"].map(|name| backups.join(name));
    for path in &kept {
        fs::write(path, "{}").unwrap();
    }
    let place = RecordPlace::below(state, &project).unwrap();
    let own = |path: &str| WrittenFile {
        path: PathBuf::from(path),
        sha256: sha256(b""),
        backup: None,
        mode: None,
        written: None,
    };
    let agents = WrittenFile {
        backup: Some(kept[0].clone()),
        written: Some(kept[1].clone()),
        mode: Some(0o644),
        ..own(project.join(".mcp.json").to_str().unwrap())
    };
    let record = InitRecord {
        directory: place.directory().to_path_buf(),
        files: vec![
            own(FILE_NAME),
            own("policies/one.yaml"),
            own("policies/tests/one.yaml"),
            own(PINS),
            agents,
        ],
        backups: Some(backups),
        kept: kept.to_vec(),
    };
    RecordedProject {
        temp,
        place,
        record,
    }
}

fn refusal(ground: &RecordedProject, record: &InitRecord) -> String {
    ground.place.keep(record).unwrap();
    format!("{:#}", ground.place.read().unwrap_err())
}

/// Issue 17 D14: what `init` wrote is what is read, by whatever way the directory is reached.
#[test]
fn what_init_wrote_is_followed() {
    let ground = ground();
    assert!(!ground.place.is_taken());
    ground.place.keep(&ground.record).unwrap();
    assert!(ground.place.is_taken());
    assert_eq!(ground.place.read().unwrap(), ground.record);
    let linked = ground.temp.path().join("linked");
    symlink(ground.temp.path().join("project"), &linked).unwrap();
    let again = RecordPlace::below(ground.temp.path().join("state"), &linked).unwrap();
    assert_eq!(again.path(), ground.place.path());
    fs::remove_dir(ground.temp.path().join("project")).unwrap();
    let gone = ground.temp.path().join("project");
    let again = RecordPlace::below(ground.temp.path().join("state"), &gone).unwrap();
    assert_eq!(again.path(), ground.place.path(), "it need not be there");
    ground.place.forget().unwrap();
    assert!(!ground.place.is_taken());
}

/// Issue 17 D14, threat-model §9: a record that names anything else than what `init` writes is not
/// followed, wherever it came from.
#[test]
fn a_record_that_names_what_init_never_writes_is_not_followed() {
    let ground = ground();
    let base = ground.temp.path().join("state/backups");
    let victim = ground.temp.path().join("victim");
    fs::create_dir(&victim).unwrap();
    let linked = base.join("linked");
    symlink(&victim, &linked).unwrap();
    let up = base.join("x/../../../victim");
    for hostile in [victim.clone(), base.clone(), linked.clone(), up] {
        let backups = InitRecord {
            backups: Some(hostile.clone()),
            ..ground.record.clone()
        };
        let kept = InitRecord {
            kept: vec![hostile.clone()],
            ..ground.record.clone()
        };
        let (mut backup, mut written) = (ground.record.clone(), ground.record.clone());
        backup.files[0].backup = Some(hostile.clone());
        written.files[4].written = Some(hostile.clone());
        for record in [backups, kept, backup, written] {
            let why = refusal(&ground, &record);
            assert!(
                why.contains("which init never writes"),
                "{hostile:?}: {why}"
            );
        }
    }
    for path in [
        "/etc/passwd",
        "../victim/.bashrc",
        "policies/../../x.yaml",
        "policies/deep/er/x.yaml",
        "policies/x.sh",
        ".git/hooks/pre-commit",
        "",
    ] {
        let mut record = ground.record.clone();
        record.files[1].path = PathBuf::from(path);
        let why = refusal(&ground, &record);
        assert!(why.contains("which init never writes"), "{path}: {why}");
    }
    // An agent's file of which nothing is kept, or that is named by a way that leads up.
    let (mut unkept, mut up) = (ground.record.clone(), ground.record.clone());
    unkept.files[4].backup = None;
    up.files[4].path = ground.temp.path().join("project/../victim/x.json");
    for record in [unkept, up] {
        assert!(refusal(&ground, &record).contains("which init never writes"));
    }
}

/// Issue 17 D14: so is none that is of another directory, or that others may have written.
#[test]
fn a_record_of_others_is_not_followed() {
    let ground = ground();
    let of_another = InitRecord {
        directory: ground.temp.path().join("another"),
        ..ground.record.clone()
    };
    assert!(refusal(&ground, &of_another).contains("is not as init wrote it"));
    ground.place.keep(&ground.record).unwrap();
    let path = ground.place.path();
    fs::set_permissions(path, fs::Permissions::from_mode(0o622)).unwrap();
    let why = format!("{:#}", ground.place.read().unwrap_err());
    assert!(why.contains("is not this account's alone"), "{why}");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    let aside = ground.temp.path().join("aside.json");
    fs::rename(path, &aside).unwrap();
    symlink(&aside, path).unwrap();
    let why = format!("{:#}", ground.place.read().unwrap_err());
    assert!(why.contains("is not this account's alone"), "{why}");
}
