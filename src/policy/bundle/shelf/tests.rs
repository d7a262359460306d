//! Bundles on the disk: what is kept, what is found, what goes.

use super::*;
use crate::policy::bundle::BundledFile;
use crate::policy::sources::SourceKind;
use serde_json::Map;
use std::os::unix::fs::PermissionsExt as _;

fn bundle(text: &str) -> Bundle {
    let file = BundledFile {
        name: "p.yaml".to_owned(),
        kind: SourceKind::Policy,
        text: text.to_owned(),
    };
    Bundle::holding(&Map::new(), vec![file]).unwrap()
}

fn shelf() -> (tempfile::TempDir, PolicyShelf) {
    let directory = tempfile::tempdir().unwrap();
    let shelf = PolicyShelf::of(directory.path());
    (directory, shelf)
}

#[test]
fn what_is_kept_is_found_again_and_no_one_else_reads_it() {
    let (_directory, shelf) = shelf();
    assert_eq!(shelf.all().unwrap(), []);
    let kept = bundle("a");
    let name = shelf.put(&kept).unwrap();
    assert_eq!(name, kept.name());
    assert_eq!(shelf.put(&kept).unwrap(), name, "the same is kept once");
    assert_eq!(shelf.get(name).unwrap(), kept);
    let found = shelf.all().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].name, name);
    let mode = std::fs::metadata(shelf.path(name)).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

/// 003-42: a bundle that was changed is none.
#[test]
fn a_changed_bundle_is_refused() {
    let (_directory, shelf) = shelf();
    let name = shelf.put(&bundle("owner_only: true")).unwrap();
    let text = std::fs::read_to_string(shelf.path(name)).unwrap();
    for changed in [
        text.replace("owner_only: true", "owner_only: false"),
        text.clone() + " ",
        text[..text.len() - 1].to_owned(),
        String::new(),
    ] {
        assert_ne!(changed, text);
        std::fs::write(shelf.path(name), &changed).unwrap();
        let refused = shelf.get(name).unwrap_err();
        assert!(matches!(refused, BundleError::Tampered(other) if other == name));
    }
    std::fs::write(shelf.path(name), text).unwrap();
    assert!(shelf.get(name).is_ok());
}

#[test]
fn a_link_in_place_of_a_bundle_is_not_followed() {
    let (directory, shelf) = shelf();
    let kept = bundle("a");
    let name = shelf.put(&kept).unwrap();
    let elsewhere = directory.path().join("elsewhere");
    std::fs::rename(shelf.path(name), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, shelf.path(name)).unwrap();
    assert!(matches!(shelf.get(name), Err(BundleError::Disk(..))));
}

#[test]
fn the_oldest_go_first_and_what_is_in_force_stays() {
    let (_directory, shelf) = shelf();
    let names: Vec<Digest> = ["a", "b", "c", "d"]
        .map(|text| shelf.put(&bundle(text)).unwrap())
        .to_vec();
    // Files of one moment have an order all the same, which is not that of the test.
    let age = |name: Digest, seconds: u64| {
        let file = File::options().append(true).open(shelf.path(name)).unwrap();
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_modified(at).unwrap();
    };
    for (name, seconds) in names.iter().zip([1_000, 2_000, 3_000, 4_000]) {
        age(*name, seconds);
    }
    let left = || -> Vec<Digest> { shelf.all().unwrap().iter().map(|one| one.name).collect() };
    shelf.prune_to(&[names[0]], 3, u64::MAX).unwrap();
    assert_eq!(left(), [names[0], names[2], names[3]]);
    shelf.prune_to(&[names[0]], 3, 0).unwrap();
    assert_eq!(left(), [names[0], names[3]], "in force, and the newest");
    shelf.prune(&[]).unwrap();
    assert_eq!(left(), [names[0], names[3]]);
}

/// What kills have left of bundles does not fill the disk; what is written now is left alone.
#[test]
fn half_bundles_of_long_ago_are_removed() {
    let (_directory, shelf) = shelf();
    let name = shelf.put(&bundle("a")).unwrap();
    let [old, young] = [".old", ".young"].map(|name| shelf.bundles().join(name));
    for path in [&old, &young] {
        std::fs::write(path, "half").unwrap();
    }
    let file = File::options().write(true).open(&old).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    shelf.prune(&[name]).unwrap();
    assert!(!old.exists() && young.exists());
    assert_eq!(shelf.all().unwrap().len(), 1);
}
